"""`tiltyard schema`: print or write the JSON Schemas of files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tiltyard.cli.output import deliver, say
from tiltyard.errors import OptionError
from tiltyard.schemas import SCHEMAS, schema_file, schema_text


def schema_command(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help=f"Which: {', '.join(SCHEMAS)}.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="DIR", help="Write NAME.schema.json into this folder; without NAME, all of them."
        ),
    ] = None,
) -> None:
    """Print the JSON Schema (draft 2020-12) of a file, for editors and programs; without NAME, list them."""
    texts = {one: schema_text(one) for one in (SCHEMAS if name is None else [name])}
    if out is not None:
        if out.exists() and not out.is_dir():
            raise OptionError(f"--out {out} is a file. Name a folder to write the schemas to.")
        out.mkdir(parents=True, exist_ok=True)
        for one, text in texts.items():
            deliver(text, out / schema_file(one))
    elif name is not None:
        deliver(texts[name], None)
    else:
        width = max(map(len, SCHEMAS))
        say("\n".join(f"{one:<{width}}  {what}" for one, what in SCHEMAS.items()))

"""`tiltyard publish`, a static folder of a board; `verify`, which checks one; `schema`, the schemas of files."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import typer

from tiltyard.cli.options import with_options
from tiltyard.cli.output import THE_ANSWER_IS_NO, deliver, note, say, working
from tiltyard.data.schemas import SCHEMAS, schema_file, schema_text
from tiltyard.errors import OptionError
from tiltyard.options import PublishOptions, VerifyOptions


@with_options(PublishOptions)
def publish_command(
    source: str = typer.Argument(
        ...,
        metavar="SOURCE",
        help="What to publish: a file, folder or glob of battles, the folder of a run or of a placement, or the "
        "database of an arena (sqlite:///path, postgresql://…).",
    ),
    out: Path = typer.Argument(..., metavar="OUT", help="The folder to write; made anew, or replaced if it is ours."),
    *,
    given: dict[str, Any],
) -> None:
    """Write a static site of a board: its models, comparisons, battles and methods, to be served anywhere.

    It needs no server and loads nothing from elsewhere. A visitor's browser can count the board again; `tiltyard
    verify` checks the folder or its address.
    """
    from tiltyard.verbs.publish import publish

    with working("publishing"):
        done = publish(source, out, **given, notify=note)
    say(str(done))
    note(f"Look: {out / 'index.html'}. Check: tiltyard verify {out}")


@with_options(VerifyOptions)
def verify_command(
    source: str = typer.Argument(
        ...,
        metavar="FOLDER-or-URL",
        help="A folder that `publish`, `run` or `place` wrote, the address of a published one, a witness file (.gz "
        "too), or the address of an arena's site.",
    ),
    *,
    given: dict[str, Any],
    ratings_only: bool = typer.Option(
        False, "--ratings-only", help="Agreement of the ratings is enough where another version wrote the pages."
    ),
    format: Literal["table", "json"] = typer.Option("table", help="For people or for programs."),
) -> None:
    """Recompute what somebody published from what is vouched for, and compare all of it.

    A published board is published again from its battles, or from an arena's witness; the folder of a run or placement
    is made again from its verdicts; every file is compared. The last line says what agrees with what, and whom you
    have to trust for the rest. Exit code 3 if something does not agree, is missing or is too much, or could not be
    compared (see --ratings-only).
    """
    from tiltyard.verbs.verify import verify

    result = verify(source, **given, notify=note)
    say(result.render(format))
    if result.problems or (result.not_compared and not ratings_only):
        raise typer.Exit(THE_ANSWER_IS_NO)


def schema_command(
    name: str | None = typer.Argument(None, metavar="NAME", help=f"Which: {', '.join(SCHEMAS)}."),
    out: Path | None = typer.Option(
        None, metavar="DIR", help="Write NAME.schema.json into this folder; without NAME, all of them."
    ),
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

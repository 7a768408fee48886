"""What the commands of `tiltyard arena` share: options, the policy file, and the required extra."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

DbOption = Annotated[
    str,
    typer.Option(
        "--db", metavar="URL", envvar="TILTYARD_DB", help="sqlite:///path or postgresql://user@host/database."
    ),
]
DEFAULT_DB = "sqlite:///arena.db"
PolicyOption = Annotated[
    Path | None, typer.Option("--policy", help="Settings that differ from the defaults (YAML or JSON).")
]
OutOption = Annotated[Path | None, typer.Option("--out", help="Write to this file instead of the screen.")]


def need_arena() -> None:
    """Raise a one-line error if the extra is not installed."""
    from importlib.util import find_spec

    from tiltyard.errors import MissingExtra

    if find_spec("psycopg") is None or find_spec("uvicorn") is None:
        raise MissingExtra("the live arena", "arena")

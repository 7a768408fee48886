"""`tiltyard verify`: recompute what somebody published, from the published files alone."""

from __future__ import annotations

from typing import Any, Literal

import typer

from tiltyard.cli.options import with_options
from tiltyard.cli.output import THE_ANSWER_IS_NO, note, say
from tiltyard.options import VerifyOptions


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

"""`tiltyard init`: a tournament or an arena from answer files as people have them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from tiltyard.cli.options import with_options
from tiltyard.cli.output import note, say
from tiltyard.options import InitOptions


@with_options(InitOptions)
def init_command(
    folder: Path | None = typer.Argument(None, metavar="DIR", help="Where to make it. (default: tournament, or arena)"),
    more: list[str] | None = typer.Argument(
        None, metavar="FILE", help="Further answers: what a shell makes of `--answers answers/*`."
    ),
    *,
    given: dict[str, Any],
) -> None:
    """Make a bank, response files, a config and a rubric from your answer files, and say the next command."""
    from tiltyard.verbs.init import init

    asking = sys.stdin.isatty() and sys.stderr.isatty()
    given["answers"] = [*given.get("answers", ()), *(more or ())] or (_ask_for_files() if asking else [])
    place = folder or Path("arena" if given.get("arena") else "tournament")
    say(str(init(place, **given, notify=note, choose=_choose if asking else None)))


def _ask_for_files() -> list[str]:
    """The answer files that a person types in, one by one."""
    note("Your answer files or folders, one per line; an empty line ends the list.")
    result: list[str] = []
    while text := _line("> "):
        result.append(text)
    return result


def _choose(question: str, known: Sequence[str]) -> str | None:
    if len(known) == 1:
        return _line(f"{question} [{known[0]}] ")
    note(f"{question} {', '.join(known)}")
    return _line("> ") or None


def _line(question: str) -> str:
    """What a person types; the question goes to standard error, so that results can be piped."""
    note(question, end="")
    return sys.stdin.readline().strip()

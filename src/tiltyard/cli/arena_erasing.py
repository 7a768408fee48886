"""`tiltyard arena erase`, `withdraw` and `retire`: what is taken back, and what becomes public."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated, Literal

import typer

from tiltyard.cli.arena_options import DEFAULT_DB, DbOption, need_arena
from tiltyard.cli.output import note, say
from tiltyard.errors import OptionError

YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Go ahead without asking.")]
What = Literal["prompt", "answer", "model", "reason"]


def erase_command(
    what: Annotated[What, typer.Argument(help="What is erased.")],
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="ID", help="Ids of prompts, answers or models; of a reason the number of its event."),
    ] = None,
    db: DbOption = DEFAULT_DB,
    answers: Annotated[bool, typer.Option("--answers", help="Of a prompt: all its answers too.")] = False,
    yes: YesOption = False,
) -> None:
    """Erase what somebody wrote: prompts, answers with their files, titles of models, reasons.

    The votes stay, and so does the log: it has salted digests, which say nothing once text and salt are gone. Pages say
    on what day something was erased. It is noted outside the database, so that an older copy that is restored erases
    the same again. Files that were exported, published or backed up before still have it: ask whoever has them.
    `erase reason` without a number lists the latest reasons.
    """
    need_arena()
    from tiltyard.verbs import erasing

    if names:
        say(f"erased: {erasing.erase(db, what, names, asking(yes=yes), note, answers=answers)}")
    else:
        for line in erasing.reasons(db, what):
            say(line)


def withdraw_command(
    names: Annotated[list[str], typer.Argument(metavar="ANSWER", help="Ids of answers.")],
    db: DbOption = DEFAULT_DB,
    yes: YesOption = False,
) -> None:
    """Take answers back: never served again, and shown by nothing, also when their prompt is retired.

    Their text stays in the database (`arena erase answer` deletes it), and the votes on them count. Import another
    answer of the model to the prompt to have it served again.
    """
    need_arena()
    from tiltyard.verbs.erasing import withdraw

    withdraw(db, names, asking(yes=yes))
    say(f"withdrawn: {len(names)}")


def retire_command(
    names: Annotated[list[str], typer.Argument(metavar="PROMPT", help="Ids of prompts.")],
    db: DbOption = DEFAULT_DB,
    yes: YesOption = False,
) -> None:
    """Retire prompts: they are not served any more, and their answers become public with their authors.

    A week later, when no pair that was shown on them can wait any more; where pairs do not wait, after a minute. Only
    the present answers become public: none that was replaced, withdrawn or withheld.
    """
    need_arena()
    from tiltyard.verbs.erasing import retire

    retire(db, names, asking(yes=yes), note)
    say(f"retired: {len(names)}")


def asking(*, yes: bool) -> Callable[[str], None]:
    """Asks on a terminal, unless `--yes`; elsewhere `--yes` is required."""

    def ask(question: str) -> None:
        if yes:
            return
        if not sys.stdin.isatty():
            raise OptionError("this asks first, and here is no terminal: pass --yes. Nothing was changed.")
        if not input(f"{question} [y/N] ").strip().lower().startswith("y"):
            raise OptionError("nothing was changed.")

    return ask

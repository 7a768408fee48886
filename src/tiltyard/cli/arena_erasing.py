"""`tiltyard arena erase`, `withdraw` and `retire`: what is taken back, and what becomes public."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tiltyard.cli.arena_options import DEFAULT_DB, DbOption, need_arena
from tiltyard.cli.output import note, say
from tiltyard.errors import OptionError

if TYPE_CHECKING:
    from tiltyard.arena import AnyBody, ArenaState

YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Go ahead without asking.")]
What = Literal["prompt", "answer", "model", "reason"]

GOES: dict[What, str] = {
    "prompt": "Gone for good: the prompt's text in every wording. It is not served any more. These stay: its id, "
    "subject, tags and votes, and its answers, which may repeat what it said (--answers erases them too).",
    "answer": "Gone for good: the answer's text and its file, and what flags quote of it. It is not served any more. "
    "These stay: its random id, its votes, and a file that another answer names too.",
    "model": "Gone for good: every title that the model had, its maker, licence, link and other names. These stay: its "
    "id, its votes, its answers, its price and speed. `tiltyard arena import --models` can give it another title; a "
    "file that still has the old one brings it back.",
    "reason": "Gone for good: the reason that was typed. The votes stay excluded, or count, as before.",
}


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
    from tiltyard.arena import Arena
    from tiltyard.arena.store import erase, latest_reasons

    if answers and what != "prompt":
        raise OptionError(f"--answers belongs to `erase prompt`. Leave it out to erase a {what}.")
    if not names and what != "reason":
        raise OptionError(f"erase which {what}? Give ids.")
    with Arena.open(db) as arena:
        if not names:
            for seq, day, reason in latest_reasons(arena.store):
                say(f"{seq}  {day}  {reason}")
            return
        wanted = set(names)
        more = arena.read(lambda state: _answers_to(state, wanted)) if answers else []
        _agree(f"{GOES[what]}\nErase {what} {', '.join(names)}{f' and {len(more)} answers' if more else ''}?", yes=yes)
        clean = erase(
            arena.store, [*((what, name) for name in names), *(("answer", name) for name in more)], arena.now()
        )
    say(f"erased: {len(names) + len(more)}")
    note(f"kept for restored copies in {arena.store.outside.deletions_path}")
    if not clean:
        note("others read the database meanwhile: traces may be in its files. Later: tiltyard arena tidy")


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
    from tiltyard.arena import Arena, ResponseWithdrawn

    with Arena.open(db) as arena:
        _agree(f"Withdraw {len(names)} answers? It cannot be undone.", yes=yes)
        bodies: list[AnyBody] = [ResponseWithdrawn(response_id=name) for name in names]
        arena.append(bodies)
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
    from tiltyard.arena import Arena, PromptDisabled

    with Arena.open(db) as arena:
        for name, shown, withheld in arena.read(lambda state: _becomes_public(state, names)):
            note(
                f"{name}: {shown} answers become public with their authors"
                + f", {withheld} stay hidden" * (withheld > 0)
            )
        _agree(f"Retire {', '.join(names)}? What is public stays public.", yes=yes)
        bodies: list[AnyBody] = [PromptDisabled(prompt_id=name) for name in names]
        arena.append(bodies)
    say(f"retired: {len(names)}")


def _answers_to(state: ArenaState, prompts: set[str]) -> list[str]:
    catalog = state.catalog
    numbers = {number for number, prompt in enumerate(catalog.prompts) if prompt.prompt_id in prompts}
    return [name for (_, number), name in catalog.response_ids.items() if number in numbers]


def _becomes_public(state: ArenaState, names: list[str]) -> list[tuple[str, int, int]]:
    from tiltyard.arena import shown_answers

    catalog, result = state.catalog, []
    shown = [prompt for _, prompt in shown_answers(catalog)]
    for name in names:
        number = catalog.prompt(name)
        there = int(catalog.answered.view[:, number].sum())
        result.append((name, shown.count(number), there - shown.count(number)))
    return result


def _agree(question: str, *, yes: bool) -> None:
    """Ask on a terminal, unless `--yes`; elsewhere `--yes` is required."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise OptionError("this asks first, and here is no terminal: pass --yes. Nothing was changed.")
    if not input(f"{question} [y/N] ").strip().lower().startswith("y"):
        raise OptionError("nothing was changed.")

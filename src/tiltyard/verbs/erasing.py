"""What an operator takes back: texts that are erased, answers that are withdrawn, prompts that are retired."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from tiltyard.arena import Arena, ArenaState, PromptDisabled, ResponseWithdrawn, shown_answers, store
from tiltyard.errors import OptionError

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


def erase(
    db: str,
    what: What,
    names: Sequence[str],
    confirm: Callable[[str], None],
    note: Callable[[str], None],
    *,
    answers: bool = False,
) -> int:
    """Erase texts, and with `answers` all answers to the prompts too; how many."""
    if answers and what != "prompt":
        raise OptionError(f"--answers belongs to `erase prompt`. Leave it out to erase a {what}.")
    with Arena.open(db) as arena:
        more = arena.read(lambda state: _answers_to(state, set(names))) if answers else []
        confirm(f"{GOES[what]}\nErase {what} {', '.join(names)}{f' and {len(more)} answers' if more else ''}?")
        wanted = [*((what, name) for name in names), *(("answer", name) for name in more)]
        clean = store.erase(arena.store, wanted, arena.now())
        note(f"kept for restored copies in {arena.store.outside.deletions_path}")
    if not clean:
        note("others read the database meanwhile: traces may be in its files. Later: tiltyard arena tidy")
    return len(wanted)


def reasons(db: str, what: What) -> list[str]:
    """The latest reasons that were typed, with the numbers of their events."""
    if what != "reason":
        raise OptionError(f"erase which {what}? Give ids.")
    with Arena.open(db) as arena:
        return [f"{seq}  {day}  {reason}" for seq, day, reason in store.latest_reasons(arena.store)]


def withdraw(db: str, names: Sequence[str], confirm: Callable[[str], None]) -> None:
    """Take answers back: never served again, and shown by nothing."""
    with Arena.open(db) as arena:
        confirm(f"Withdraw {len(names)} answers? It cannot be undone.")
        arena.append([ResponseWithdrawn(response_id=name) for name in names])


def retire(db: str, names: Sequence[str], confirm: Callable[[str], None], note: Callable[[str], None]) -> None:
    """Retire prompts, after saying how many of their answers become public."""
    with Arena.open(db) as arena:
        for name, shown, withheld in arena.read(lambda state: _becomes_public(state, names)):
            hidden = f", {withheld} stay hidden" if withheld else ""
            note(f"{name}: {shown} answers become public with their authors{hidden}")
        confirm(f"Retire {', '.join(names)}? What is public stays public.")
        arena.append([PromptDisabled(prompt_id=name) for name in names])


def _answers_to(state: ArenaState, prompts: set[str]) -> list[str]:
    catalog = state.catalog
    numbers = {number for number, prompt in enumerate(catalog.prompts) if prompt.prompt_id in prompts}
    return [name for (_, number), name in catalog.response_ids.items() if number in numbers]


def _becomes_public(state: ArenaState, names: Sequence[str]) -> list[tuple[str, int, int]]:
    catalog, result = state.catalog, []
    shown = [prompt for _, prompt in shown_answers(catalog)]
    for name in names:
        number = catalog.prompt(name)
        there = int(catalog.answered.view[:, number].sum())
        result.append((name, shown.count(number), there - shown.count(number)))
    return result

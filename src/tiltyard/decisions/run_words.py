"""Two runs compared, in words: one sentence, then who moved and on which prompts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from tiltyard.boards.text import percent
from tiltyard.decisions.words import (
    SHOWN,
    between,
    html_paragraphs,
    prompt_lists,
    prompt_table,
    sentence,
    signed,
    sureness,
)
from tiltyard.pages.tables import Table, markdown_text

if TYPE_CHECKING:
    from tiltyard.decisions.two_runs import EntrantChange, RunComparison

Shape = Literal["table", "md", "html"]


def run_sentence(runs: RunComparison) -> str:
    """What moved: the only entrant with new answers, or everyone who moved by more than noise."""
    if len(runs.changed) == 1:
        return sentence(runs.changed[0].difference)
    moved = sorted((one for one in runs.changes if one.beyond_noise), key=lambda one: -abs(one.difference.difference))
    on = "" if runs.n_prompts is None else f" on {runs.n_prompts:,} shared prompt{'s' if runs.n_prompts != 1 else ''}"
    if not moved:
        return f"no entrant of {len(runs.changes)} moved by more than noise between {runs.old} and {runs.new}{on}."
    some = ", ".join(
        f"{one.entrant} {signed(one.difference.difference)} ({between(one.difference.low, one.difference.high)})"
        for one in moved[:5]
    )
    return f"{len(moved)} of {len(runs.changes)} entrants moved by more than noise{on}: {some}."


def changes_table(runs: RunComparison, shape: Shape, shown: int = SHOWN) -> str:
    """The comparison for people, as plain text, Markdown or HTML.

    Parameters:
        runs: The comparison.
        shape: `table`, `md` or `html`.
        shown: Prompts in each list.
    """
    heads = ["entrant", "then", "now", "change", percent(runs.level), "better", "place", "answers", ""]
    titled = [(f"{runs.new} against {runs.old}", Table.of(heads, [_row(change) for change in runs.changes]))]
    for change in _worth_showing(runs):
        titled += [
            (f"{title} ({change.entrant})", prompt_table(change.difference, prompts))
            for title, prompts in prompt_lists(change.difference, shown)
        ]
    notes = run_footnotes(runs)
    if shape == "md":
        blocks = [f"**{markdown_text(runs.sentence)}**"]
        blocks += [block for title, table in titled for block in (markdown_text(f"{title}:"), table.markdown())]
        return "\n\n".join([*blocks, "\n".join(f"- {markdown_text(note)}" for note in notes)]) + "\n"
    if shape == "html":
        return html_paragraphs(runs.sentence, [(title, table.html()) for title, table in titled], notes)
    lines = [runs.sentence]
    for title, table in titled:
        lines += ["", f"{title}:", *table.text()]
    return "\n".join([*lines, "", *notes])


def _row(change: EntrantChange) -> list[str]:
    found = change.difference
    place = f"{change.rank_old} → {change.rank_new}" if change.rank_old != change.rank_new else str(change.rank_new)
    answers = {None: "–", True: "changed", False: "same"}[change.answers_changed]
    return [
        change.entrant,
        f"{change.rating_old:.0f}",
        f"{change.rating_new:.0f}",
        signed(found.difference),
        between(found.low, found.high),
        sureness(found.probability_better),
        place,
        answers,
        "more than noise" if change.beyond_noise else "",
    ]


def _worth_showing(runs: RunComparison) -> list[EntrantChange]:
    """Whose prompts are listed: entrants with new answers, else those that moved; three at the most."""
    chosen = runs.changed or [change for change in runs.changes if change.beyond_noise]
    return chosen[:3]


def run_footnotes(runs: RunComparison) -> list[str]:
    """What a reader should know about the changes."""
    what = ", ".join(runs.zero[:6]) + (", …" if len(runs.zero) > 6 else "")
    everyone = len(runs.zero) == len(runs.changes)
    zero = (
        "changes are measured from the mean of all shared entrants: one that rises lowers the others"
        if everyone
        else f"changes are measured from {what}: the answers are the same in both runs"
    )
    more = "“more than noise” holds for all entrants at once"
    return [f"{percent(runs.level)} intervals; {more}", zero, *runs.notes]

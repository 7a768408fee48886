"""The self-contained page of a comparison of scores: the sentence, the numbers, the parts, and the prompts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tiltyard.decisions import Difference, words
from tiltyard.decisions.prompts import PromptScore
from tiltyard.decisions.records import EstimatedDifference
from tiltyard.decisions.score_facts import ScoreFacts
from tiltyard.pages import svg
from tiltyard.pages.html import page
from tiltyard.report.page import own_file

PROMPTS_LISTED = 10


@dataclass(frozen=True, slots=True)
class DifferenceRow:
    """One difference of a table: all prompts, or those of one category; no estimate, with the reason."""

    name: str
    means: tuple[float, float] | None
    one: EstimatedDifference | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ScoreSection:
    """What a page shows of one metric.

    Parameters:
        answer: The difference.
        facts: Its unit and the two means.
        tables: Titled tables of differences, with what is to be known about each.
        prompts: Titled lists of prompts.
        notes: What a reader should know.
    """

    answer: Difference
    facts: ScoreFacts
    tables: Sequence[tuple[str, Sequence[DifferenceRow], str]]
    prompts: Sequence[tuple[str, Sequence[PromptScore]]]
    notes: Sequence[str]

    @property
    def side(self) -> str:
        """Better, worse or unclear."""
        return words.side(self.answer.low, self.answer.high)

    def scale(self, rows: Sequence[DifferenceRow]) -> svg.Scale:
        """A scale for the differences of a table, in its unit."""
        known = [row.one for row in rows if row.one is not None]
        ends = [end for one in known for end in (one.difference, one.low, one.high) if end is not None]
        return svg.Scale.of([0.0, *(self.scaled(end) for end in ends)])

    def scaled(self, value: float) -> float:
        """A difference as the axis counts it."""
        return self.facts.unit.factor * value


def score_page(answers: Sequence[Difference]) -> str:
    """The page of two models by one metric or several."""
    first = answers[0]
    sections = [_section(one, one.scores) for one in answers if one.scores is not None]
    return page(
        "report/scores.html",
        title=f"{first.new} against {first.old}",
        style=own_file("style.css") + own_file("comparison.css"),
        first=first,
        sections=sections,
        words=words,
    )


def _section(answer: Difference, facts: ScoreFacts) -> ScoreSection:
    tables = []
    columns = dict.fromkeys(part.column for part in answer.parts)
    if columns:
        whole = [DifferenceRow("all prompts", (facts.new_mean, facts.old_mean), answer.estimate)]
        for column in columns:
            parts = [part for part in answer.parts if part.column == column]
            rows = [DifferenceRow(part.value, part.means, part.estimate, part.reason or "") for part in parts]
            note = "The intervals hold for all values at once, so each is wider than one alone would be."
            tables.append((f"By {column}", [*whole, *rows], note))
    else:
        whole = [DifferenceRow(facts.sample, (facts.new_mean, facts.old_mean), answer.estimate)]
        tables.append(("", whole, ""))
    lists = [(title[0].upper() + title[1:], some) for title, some in words.prompt_lists(answer, PROMPTS_LISTED)]
    return ScoreSection(answer, facts, tables, lists, words.footnotes(answer))

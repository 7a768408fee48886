"""Many models by their scores: a board of means, with ranges of places that hold for all of them at once."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from tiltyard.boards.estimator import check_level
from tiltyard.boards.text import percent
from tiltyard.decisions.scores import PairedScores
from tiltyard.decisions.units import SHARES, Unit, unit_of_scores
from tiltyard.errors import OptionValue, ScoreError
from tiltyard.pages.tables import Table
from tiltyard.ratings.ranks import ranks
from tiltyard.ratings.score_differences import holm_ranks, mean_score
from tiltyard.scores import ScoreTable


@dataclass(frozen=True, slots=True)
class MeanEntry:
    """One model of a board of mean scores.

    Parameters:
        model: The model.
        rank: Its place by mean score.
        rank_low: The best place that it could hold, all models at once.
        rank_high: The worst.
        mean: Its mean score.
        low: Lower end of its interval.
        high: Upper end.
        n_prompts: Prompts with a score.
    """

    model: str
    rank: int
    rank_low: int
    rank_high: int
    mean: float
    low: float | None
    high: float | None
    n_prompts: int


@dataclass(frozen=True, slots=True, eq=False)
class ScoreBoard:
    """Models by mean score, with ranges of places that hold for all of them at once.

    Parameters:
        metric: The column, or the metric of a log.
        entries: The models, best first.
        unit: How means are written.
        level: Confidence level.
        notes: What a reader should know.
    """

    metric: str
    entries: tuple[MeanEntry, ...]
    unit: Unit
    level: float
    notes: tuple[str, ...]

    def table(self) -> Table:
        """The board as a table."""
        rows = []
        for one in self.entries:
            places = str(one.rank_low) if one.rank_low == one.rank_high else f"{one.rank_low}–{one.rank_high}"
            ends = self.unit.between(one.low, one.high)
            rows.append([one.model, str(one.rank), places, self.unit.mean(one.mean), ends, f"{one.n_prompts:,}"])
        return Table.of(
            ["model", "rank", "could be", f"mean {self.metric}".strip(), percent(self.level), "prompts"], rows
        )

    def to_dict(self) -> dict[str, Any]:
        """The board as plain values."""
        entries = [{name: getattr(one, name) for name in MeanEntry.__slots__} for one in self.entries]
        return {
            "metric": self.metric,
            "unit": self.unit.name,
            "level": self.level,
            "scores": entries,
            "notes": list(self.notes),
        }

    def to_json(self) -> str:
        """The board as JSON text."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n"

    def csv(self, *, head: bool = True) -> str:
        """The board as CSV, with the metric in the first column."""
        records = [{"metric": self.metric, **{k: getattr(one, k) for k in MeanEntry.__slots__}} for one in self.entries]
        text = Table.of_records(records).csv()
        return text if head else text.partition("\n")[2]

    def __str__(self) -> str:
        return "\n".join([*self.table().text(), "", *self.notes])


def score_board(table: ScoreTable, level: float = 0.95) -> ScoreBoard:
    """Models by their mean score; places are told apart pair by pair, each on the prompts that both have."""
    check_level(level)
    names = [name for name, one in table.models.items() if (one.count > 0).any()]
    if not names or not table.prompts:
        raise ScoreError(
            "a board needs scores by prompt: no column names the prompts. Name it with ",
            OptionValue("map", {"prompt": "COLUMN"}),
            ".",
        )
    low, high = table.bounds or (-np.inf, np.inf)
    means = []
    for name in names:
        scored = table[name].mean[table[name].count > 0]
        means.append(mean_score(scored, table.spread, lowest=low, highest=high))
    pairs = {}
    for i in range(len(names)):
        for j in range(i + 1, len(names)):
            both = PairedScores.of(table, table[names[i]], table[names[j]]).both
            if len(both.prompts):
                pairs[i, j] = both.estimate(None)
    sign = -1.0 if table.lower_is_better else 1.0
    values = np.array([one.value for one in means])
    place, could = ranks(sign * values), holm_ranks(pairs, len(names), level)
    widest = max((one.error for one in means if one.known), default=0.0)
    entries = [
        MeanEntry(
            name,
            int(place[i]),
            int(could.low[i]),
            int(could.high[i]),
            means[i].value,
            *means[i].ends(level),
            int((table[name].count > 0).sum()),
        )
        for i, name in enumerate(names)
    ]
    notes = [f"{percent(level)} intervals by prompt; “could be”: range of places, adjusted for all comparisons"]
    asked = {entry.n_prompts for entry in entries}
    if len(asked) > 1:
        notes.append(
            "models have scores on different prompts: means of different prompts are not alike, the places are"
        )
    if table.lower_is_better:
        notes.append("lower is better")
    unit = SHARES if table.shares else unit_of_scores(2 * widest, table.spread)
    return ScoreBoard(table.metric, tuple(sorted(entries, key=lambda one: one.rank)), unit, level, tuple(notes))

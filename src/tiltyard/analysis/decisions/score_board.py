"""Many models by their scores: a board of means, with ranges of places that hold for all of them at once.

Where answers are missing, models are compared by effects of model and prompt fitted together, and the ranges hold
whatever the missing answers would have scored.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import msgspec
import numpy as np

from tiltyard.analysis.boards import FORMATS, NOT_FOR_PICKED, check_level, percent
from tiltyard.analysis.decisions.compare_scores import check_no_battles, cluster_codes, cluster_of, read_with_clusters
from tiltyard.analysis.decisions.units import Unit, unit_of
from tiltyard.data.scores import ScoreTable
from tiltyard.errors import Message, OptionValue, ScoreError
from tiltyard.options import MissingRule, ScoreBoardOptions, accepts_options, check_choice
from tiltyard.render import Table, markdown_text
from tiltyard.stats import RankIntervals, ScoreEffects, ScoreEstimate, holm_ranks, mean_score, score_difference
from tiltyard.stats.ranks import ranks
from tiltyard.types import Floats, Ints, Result

LISTED = 5
"""Models that a note names."""


class MeanEntry(msgspec.Struct, frozen=True, omit_defaults=True):
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
        missing: The share of its answers that are missing; None where no model lacks any.
    """

    model: str
    rank: int
    rank_low: int
    rank_high: int
    mean: float
    low: float | None
    high: float | None
    n_prompts: int
    missing: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ScoreBoard(Result):
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
        rows, heads = [], ["model", "rank", "could be", f"mean {self.metric}".strip(), percent(self.level), "prompts"]
        for entry in self.entries:
            low, high, mean = entry.rank_low, entry.rank_high, self.unit.mean(entry.mean)
            places, ends = str(low) if low == high else f"{low}–{high}", self.unit.between(entry.low, entry.high)
            missing = [] if entry.missing is None else [_share(entry.missing)]
            rows.append([entry.model, str(entry.rank), places, mean, ends, f"{entry.n_prompts:,}", *missing])
        return Table.of([*heads, "missing"] if any(len(row) > len(heads) for row in rows) else heads, rows)

    def to_dict(self) -> dict[str, Any]:
        return {
            "metric": self.metric,
            "unit": self.unit.name,
            "level": self.level,
            "scores": msgspec.to_builtins(self.entries),
            "notes": list(self.notes),
        }

    def csv(self, *, head: bool = True) -> str:
        """The board as CSV, with the metric in the first column."""
        text = Table.of_records({"metric": self.metric, **entry} for entry in msgspec.to_builtins(self.entries)).csv()
        return text if head else text.partition("\n")[2]

    def render(self, format: str = "table") -> str:
        """The board as `table`, `json`, `csv`, `md` or `latex`."""
        check_choice("format", format, FORMATS)
        table = self.table()
        if format == "md":
            return f"{table.markdown()}\n\n" + "\n".join(f"- {markdown_text(note)}" for note in self.notes)
        if format == "latex":
            return table.latex(f"Mean {self.metric}", self.notes)
        if format == "table":
            return "\n".join([*table.text(), "", *self.notes])
        return self.to_json() if format == "json" else self.csv()


@dataclass(frozen=True, slots=True, eq=False)
class ScoreBoards(Result):
    """Boards of mean scores by several metrics.

    Parameters:
        metrics: The board of each metric.
    """

    metrics: Mapping[str, ScoreBoard]

    def to_dict(self) -> dict[str, Any]:
        return {"metrics": [board.to_dict() for board in self.metrics.values()]}

    def render(self, format: str = "table") -> str:
        """The boards as `table`, `json`, `csv`, `md` or `latex`."""
        if format == "json":
            return self.to_json()
        boards = self.metrics.values()
        if format == "csv":
            return "".join(board.csv(head=place == 0) for place, board in enumerate(boards))
        return "\n\n".join(board.render(format) for board in boards)


def _share(missing: float) -> str:
    return "0" if missing == 0.0 else "< 0.1 %" if missing < 0.0005 else f"{100 * missing:.1f} %"


class _Cells(msgspec.Struct, frozen=True, eq=False):
    """The mean scores of models on the prompts that any of them was asked, as (models, prompts): NaN without a score.

    `missing` is the share of a model's answers on a prompt that are missing, `ends` what a score may be at least and at
    most, and `spread` the highest score that was seen minus the lowest.
    """

    scores: Floats
    missing: Floats
    clusters: Ints | None
    ends: tuple[float, float]
    spread: float

    @classmethod
    def of(cls, table: ScoreTable, cluster: str | None) -> _Cells:
        scores = np.full((len(table.models), len(table.prompts)), np.nan)
        missing = np.ones_like(scores)
        asked = np.zeros(len(table.prompts), dtype=np.bool_)
        for row, lacks, model in zip(scores, missing, table.models.values(), strict=True):
            row[model.prompts] = np.where(model.count > 0, model.mean, np.nan)
            lacks[model.prompts] = model.unscored / (model.count + model.unscored)
            asked[model.prompts] = True
        clusters = None
        if cluster is not None:
            clusters = np.unique(cluster_codes(table, cluster, asked), return_inverse=True)[1].astype(np.int64)
        low, high = table.bounds or (-math.inf, math.inf)
        spread = table.spread
        if missing[:, asked].any() and math.isfinite(high - low):
            spread = high - low
        return cls(scores[:, asked], missing[:, asked], clusters, (low, high), spread)

    def with_missing_at(self, end: float) -> Floats:
        """The scores with every missing answer at an end of the scale; NaN where that end is not known."""
        if not math.isfinite(end):
            return np.where(self.missing > 0.0, np.nan, self.scores)
        return (1.0 - self.missing) * np.nan_to_num(self.scores) + self.missing * end

    def by_unit(self, values: Floats) -> tuple[Floats, Floats | None]:
        """Values of prompts as they are, or as means of clusters with their sizes."""
        if self.clusters is None:
            return values, None
        sizes = np.bincount(self.clusters).astype(float)
        return np.bincount(self.clusters, values) / sizes, sizes

    def mean(self, values: Floats) -> ScoreEstimate:
        """The mean of one model's scores; NaN where one is not known."""
        if np.isnan(values).any():
            return ScoreEstimate(math.nan, math.nan, 0.0, 0.0)
        units, sizes = self.by_unit(values)
        return mean_score(units, self.spread, sizes=sizes, lowest=self.ends[0], highest=self.ends[1])

    def difference(self, new: Floats, old: Floats, sign: float) -> ScoreEstimate:
        """By how much one row of scores is better than another."""
        units, sizes = self.by_unit(sign * (new - old))
        return score_difference(units, self.spread, sizes=sizes, range_of_scores=self.ends[1] - self.ends[0])


@accepts_options(ScoreBoardOptions)
def score_boards(data: Any, options: ScoreBoardOptions) -> list[ScoreBoard]:
    """Boards of mean scores, one for each metric.

    Parameters:
        data: Scores as `read_scores` takes them.
    """
    check_no_battles(options)
    cluster, tables = cluster_of(options), read_with_clusters(data, options)
    return [score_board(table, options.level, cluster=cluster, missing=options.missing) for table in tables]


def score_board(
    table: ScoreTable, level: float = 0.95, *, cluster: str | None = None, missing: MissingRule = "worst"
) -> ScoreBoard:
    """Models by their mean score; places are told apart pair by pair, by prompt or by cluster of prompts.

    Where answers are missing, means are those that models would have on all prompts, by effects of model and prompt
    that are fitted together.

    Parameters:
        table: The scores of one metric.
        level: Confidence level.
        cluster: A column of prompts that depend on each other: one document, one conversation.
        missing: `worst`: intervals and places hold whatever the missing answers would have scored. `ignore`: as if they
            were missing by chance.
    """
    check_level(level)
    check_choice("missing", missing, ("ignore", "worst"))
    names = [name for name, model in table.models.items() if (model.count > 0).any()]
    if not names or not table.prompts:
        raise ScoreError(
            "a board needs scores by prompt: no column names the prompts. Name it with ",
            OptionValue("map", {"prompt": "COLUMN"}),
            ".",
        )
    unscored = [name for name in table.models if name not in names]
    table = table.only(*names)
    cells = _Cells.of(table, cluster)
    sign = -1.0 if table.lower_is_better else 1.0
    lacking = bool(cells.missing.any())
    if not lacking:
        means = [cells.mean(row) for row in cells.scores]
        values, ends = np.array([mean.value for mean in means]), [mean.ends(level) for mean in means]
        widest = max((mean.error for mean in means if mean.known), default=0.0)
        could = holm_ranks(_pairs_of_complete(cells, cells.scores, cells.scores, sign), len(names), level)
    else:
        values, ends, widest, could = _with_missing(cells, sign, level, missing)
    place = ranks(sign * values)
    entries = [
        MeanEntry(
            name,
            int(place[i]),
            int(could.low[i]),
            int(could.high[i]),
            float(values[i]),
            *ends[i],
            int((table[name].count > 0).sum()),
            float(cells.missing[i].mean()) if lacking else None,
        )
        for i, name in enumerate(names)
    ]
    by = "prompt" if cluster is None else cluster
    notes: list[str] = [
        f"{percent(level)} intervals by {by}; “could be”: range of places, adjusted for all comparisons"
    ]
    notes += [NOT_FOR_PICKED] if len(names) > 2 else []
    if lacking:
        notes += _notes_of_missing(cells, names, missing)
    if unscored:
        notes.append(f"left out, because no answer has a score: {', '.join(unscored)}")
    if cluster is None and table.possible_cluster is not None:
        notes.append(table.possible_cluster)
    notes += table.reading_notes
    if table.lower_is_better and table.direction != "name":
        notes.append("lower is better")
    unit = unit_of(table, 2 * widest)
    return ScoreBoard(table.metric, tuple(sorted(entries, key=lambda entry: entry.rank)), unit, level, tuple(notes))


Pairs = dict[tuple[int, int], ScoreEstimate]


def _pairs_of_complete(cells: _Cells, worst: Floats, best: Floats, sign: float) -> Pairs:
    """The difference of every two rows that is certain whatever is missing; NaN: not known."""
    pairs: Pairs = {}
    complete = [not row.any() for row in cells.missing]
    known = ~np.isnan(worst + best).any(axis=1)
    for i, j in combinations(np.flatnonzero(known).tolist(), 2):
        difference = cells.difference(worst[i], best[j], sign)
        if difference.value <= 0.0 and not (complete[i] and complete[j]):
            difference = cells.difference(best[i], worst[j], sign)
            if difference.value >= 0.0:
                continue
        pairs[i, j] = difference
    return pairs


def _with_missing(
    cells: _Cells, sign: float, level: float, rule: MissingRule
) -> tuple[Floats, list[tuple[float | None, float | None]], float, RankIntervals]:
    """Means on all prompts, their intervals, the largest standard error, and the places that models could hold."""
    low, high = cells.ends
    scored = ~np.isnan(cells.scores).all(axis=0)
    effects = ScoreEffects.of(cells.scores[:, scored])
    fitted = np.clip(effects.models[:, None] + effects.prompts, low, high)
    values = np.where(effects.scored, cells.scores[:, scored], fitted).mean(axis=1)
    models = range(len(values))
    if rule == "ignore":
        clusters = None if cells.clusters is None else np.unique(cells.clusters[scored], return_inverse=True)[1]
        means = [effects.mean(i, cells.spread, clusters, low, high) for i in models]
        means = [msgspec.structs.replace(mean, value=float(values[i])) for i, mean in enumerate(means)]
        ends = [mean.ends(level) for mean in means]
        reach = high - low
        pairs = {
            (i, j): effects.difference(i, j, cells.spread, clusters, reach) for i in models for j in models if i < j
        }
        pairs = {pair: msgspec.structs.replace(found, value=sign * found.value) for pair, found in pairs.items()}
    else:
        lowest, highest = cells.with_missing_at(low), cells.with_missing_at(high)
        means = [cells.mean(row) for rows in (lowest, highest) for row in rows]
        count = len(values)
        ends = [(means[i].ends(level)[0], means[count + i].ends(level)[1]) for i in models]
        worst, best = (lowest, highest) if sign > 0 else (highest, lowest)
        pairs = _pairs_of_complete(cells, worst, best, sign)
    widest = max((mean.error for mean in means if mean.known), default=0.0)
    pairs = {(i, j): found for (i, j), found in pairs.items() if found.value * sign * (values[i] - values[j]) > 0.0}
    return values, ends, widest, holm_ranks(pairs, len(values), level)


def _notes_of_missing(cells: _Cells, names: list[str], rule: MissingRule) -> list[str]:
    what = f"answers are missing: means are for all {cells.scores.shape[1]:,} prompts, by effects of model and prompt"
    if rule == "ignore":
        return [f"{what}; intervals and places hold if answers are missing by chance"]
    low, high = cells.ends
    if math.isfinite(high - low):
        return [
            f"{what}; intervals and places hold whatever the missing answers would have scored ({low:g} to {high:g})"
        ]
    lacking = [name for name, row in zip(names, cells.missing, strict=True) if row.any()]
    some = ", ".join(lacking[:LISTED]) + (f" and {len(lacking) - LISTED} more" if len(lacking) > LISTED else "")
    return [
        what,
        Message(
            f"the bounds of scores are not known, so models with missing answers could hold any place ({some}): say ",
            OptionValue("bounds"),
            ", or, if answers are missing by chance, ",
            OptionValue("missing", "ignore"),
        ),
    ]

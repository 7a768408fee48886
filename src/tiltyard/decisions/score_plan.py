"""How many prompts a difference of scores takes, from scores that there are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from tiltyard import decisions
from tiltyard.decisions.compare_scores import PairedScores, cluster_of, noise_of, one_metric, scores_of_two
from tiltyard.decisions.sample_size import Goal
from tiltyard.decisions.units import Unit, unit_of
from tiltyard.errors import OptionError, ScoreError
from tiltyard.options import CompareOptions
from tiltyard.pages.tables import Table
from tiltyard.ratings.score_differences import FEWEST, FEWEST_UNBOUNDED, ScoreSpread, cluster_means, least_deviation
from tiltyard.types import Result

SHARE_DIFFERENCES = (0.01, 0.02, 0.05, 0.1)
PARTS_OF_SPREAD = (0.1, 0.2, 0.5)
"""Differences that are planned for if none is given: of shares, and of other scores in standard deviations."""
FEW_PROMPTS = 30


class ScorePlanRow(msgspec.Struct, frozen=True):
    """The prompts that one difference takes; None where there is no such number."""

    difference: float
    prompts: int | None


@dataclass(frozen=True, slots=True, eq=False)
class ScorePlan(Result):
    """How many prompts it takes to tell two models apart by their scores.

    Parameters:
        new: The new model of the scores that there are.
        old: The old one.
        rows: Prompts by true difference.
        unit: The unit of differences.
        n_prompts: Prompts that there are.
        margin: By how much the new one may be worse, where that is to be shown; None: a difference is.
        power: The chance of showing it.
        alpha: The error rate.
        notes: What the plan rests on.
    """

    new: str
    old: str
    rows: tuple[ScorePlanRow, ...]
    unit: Unit
    n_prompts: int
    margin: float | None
    power: float
    alpha: float
    notes: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """The first row in a sentence."""
        one, unit = self.rows[0], self.unit
        need = "more prompts than anybody has" if one.prompts is None else f"about {one.prompts:,} prompts"
        size = unit.named(unit.signed(one.difference))
        if self.margin is not None:
            limit = unit.named(unit.plain(self.margin))
            return f"for a model at {size} to pass a margin of {limit} takes {need} (here {self.n_prompts:,})."
        return f"to see {size} takes {need} (here {self.n_prompts:,})."

    def to_dict(self) -> dict[str, Any]:
        """The plan as plain values."""
        rows = [{"difference": one.difference, "prompts": one.prompts} for one in self.rows]
        plain = {
            name: getattr(self, name) for name in ("new", "old", "n_prompts", "margin", "power", "alpha", "sentence")
        }
        return {**plain, "unit": self.unit.name, "rows": rows, "notes": list(self.notes)}

    def table(self) -> Table:
        """Prompts by difference."""
        rows = [
            [self.unit.signed(one.difference), "–" if one.prompts is None else f"{one.prompts:,}"] for one in self.rows
        ]
        return Table.of(
            [self.unit.named("true difference in") if self.unit.name else "true difference", "prompts"], rows
        )

    def render(self, format: str = "table") -> str:
        """The plan as `table`, `json` or `md`."""
        return decisions.plan_words.render(self, format)


def plan_from_scores(
    new: Any,
    old: Any,
    options: CompareOptions,
    goal: Goal,
    margin: float | str | None = None,
    differences: Sequence[float | str] = (),
) -> ScorePlan:
    """The prompts that differences take, if new prompts vary as those that there are.

    The models are two of the battles of the options; without these, those of two sources of one model each.
    """
    if goal.anytime:
        raise OptionError(
            "a plan of scores is for one look: leave anytime out, or plan for 1.6 times as wide an interval."
        )
    tables, new, old = scores_of_two(options.battles, new, old, options)
    table, cluster = one_metric(tables).only(new, old), cluster_of(options)
    pairs = PairedScores.of(table, (new, old), cluster).both
    if len(pairs.prompts) < 2:
        raise ScoreError(f"a plan needs two prompts or more with scores of both {new} and {old}.")
    gaps, unit_size, codes = pairs.differences, 1.0, pairs.clusters
    if codes is not None:
        gaps, sizes = cluster_means(gaps, codes)
        unit_size = float(sizes.mean())
    if not table.spread > 0.0 or len(gaps) < 2:
        raise ScoreError(
            "all scores are equal, or all prompts are one cluster: they say nothing of how much others vary."
        )
    spread = ScoreSpread.of(gaps, table.spread, unit_size)
    deviation = spread.variance**0.5
    unit = unit_of(table, deviation / 5 if deviation else None)
    limit = None if margin is None else unit.amount(margin, "margin")
    default = (
        [0.0]
        if limit is not None
        else SHARE_DIFFERENCES
        if table.shares
        else [part * deviation for part in PARTS_OF_SPREAD]
    )
    wanted = [unit.amount(one, "differences", least=-np.inf) for one in differences] or list(default)
    tail = goal.alpha if limit is not None or goal.one_sided else goal.alpha / 2
    scale = table.reach if math.isfinite(table.reach) or not table.bounded else table.spread
    least, rows = FEWEST if table.bounded else FEWEST_UNBOUNDED, []
    for one in wanted:
        needed = spread.prompts(one + (limit or 0.0), tail, goal.power, least_deviation(limit or 0.0, scale))
        rows.append(ScorePlanRow(one, None if needed is None else int(np.ceil(max(needed, least) * unit_size))))
    apart = float(np.mean(np.abs(pairs.differences) > 1e-9 * table.spread))
    notes = [
        f"{goal.power:.0%} chance, error rate {goal.alpha:g}; the two differ on {apart:.0%} of prompts".replace(
            "%", " %"
        )
    ]
    if len(pairs.prompts) < FEW_PROMPTS:
        notes.append("fewer than 30 prompts: how much prompts vary is itself uncertain, so take more")
    noise = noise_of(table, (new, old))
    if noise is None:
        notes.append("prompts or repeats: with one answer to each prompt the scores do not say")
    else:
        best = noise.best_repeats()
        notes.append(
            "prompts or repeats: answers vary more than prompts do, so repeats help as much as prompts"
            if best is None
            else f"prompts or repeats: about {max(1, round(best))} repeats of each prompt are best if a new prompt "
            "costs as much as an answer"
        )
    notes += table.reading_notes
    return ScorePlan(new, old, tuple(rows), unit, len(pairs.prompts), limit, goal.power, goal.alpha, tuple(notes))

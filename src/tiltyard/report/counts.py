"""Counts over the judged battles of a run: the judge's habits, and whether the written numbers follow from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from tiltyard.judging.records import VerdictLabel
from tiltyard.ratings.quantiles import normal_quantile
from tiltyard.report.judged import JudgedBattle, JudgedBattles, counted
from tiltyard.report.run import Dimension, Run, wins_and_losses
from tiltyard.validity.agreement import wilson

LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class Share:
    """`hits` of `n`, with its Wilson interval."""

    hits: int
    n: int

    @property
    def value(self) -> float | None:
        """The share itself; None if `n` is 0."""
        return self.hits / self.n if self.n else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Its interval."""
        return share_interval(self.hits, self.n)

    def label(self, what: str) -> str:
        """The words of its picture, where it has an interval."""
        low, high = self.interval or (0.0, 0.0)
        return f"{what}: {100 * (self.value or 0.0):.1f} %, interval {100 * low:.1f} to {100 * high:.1f} %"


@dataclass(frozen=True, slots=True)
class Behaviour:
    """A judge's habits over some judgments.

    `flips`: of the judgments with two readable verdicts, those where the two differ; `opposite` of them name two
    different winners, the others say tie in one order. `first_slot`: of all verdicts that name a winner, those that
    name the answer shown first; without position bias the expected share is a half, as every pair is shown in both
    orders.
    """

    flips: Share
    opposite: int
    first_slot: Share


def share_interval(hits: float, n: float) -> tuple[float, float] | None:
    """Wilson's 95 % interval of a share: always within 0 and 1; None if `n` is 0."""
    return wilson(hits, n, normal_quantile(LEVEL)) if n else None


def behaviour(battles: Iterable[JudgedBattle]) -> Behaviour:
    """The habits of the judge over these judgments."""
    both = differ = opposite = first = decided = 0
    for battle, count in counted(battles):
        first += count * sum(word is VerdictLabel.A for word in battle.slots)
        decided += count * sum(word in (VerdictLabel.A, VerdictLabel.B) for word in battle.slots)
        for pair in battle.both_orders:
            words = [battle.said[place] for place in pair if place < len(battle.said)]
            if len(words) == 2 and all(word.readable for word in words):
                both += count
                differ += count * (words[0] != words[1])
                opposite += count * (set(words) == {VerdictLabel.A, VerdictLabel.B})
    return Behaviour(Share(differ, both), opposite, Share(first, decided))


def verdict_counts(battles: JudgedBattles) -> Counter[VerdictLabel]:
    """How often each verdict was given, failures included, in the order in which they appear."""
    counts: Counter[VerdictLabel] = Counter()
    for battle, count in battles.counted():
        for word in battle.said:
            counts[word] += count
    return counts


def behaviour_by(battles: JudgedBattles, key: Callable[[JudgedBattle], str]) -> dict[str, Behaviour]:
    """The habits of the judge per group, in the order in which the groups appear."""
    return {name: behaviour(group) for name, group in battles.grouped(key).items()}


def disagreements(run: Run) -> list[str]:
    """A sentence for every number that disagrees with the verdict lines; none if all is well."""
    lines: list[str] = []
    for dimension in run.dimensions:
        battles = run.battles.of_dimension(dimension.name)
        lines += _decisive(dimension, battles) + _tallies(dimension, battles) + _board(dimension) + _means(dimension)
    return lines


def _decisive(dimension: Dimension, battles: JudgedBattles) -> list[str]:
    decisive = sum(count for battle, count in battles.counted() if battle.winner is not None)
    if decisive == dimension.n_decisive:
        return []
    return [
        f"{dimension.name}: elo_results.json counts {dimension.n_decisive} decisive matches, the verdicts {decisive}"
    ]


def _tallies(dimension: Dimension, battles: JudgedBattles) -> list[str]:
    tallies: dict[tuple[str, str], Counter[str]] = {}
    for battle, count in battles.counted():
        if battle.settled:
            first, second = sorted(battle.entrants)
            cell = tallies.setdefault((first, second), Counter())
            cell[battle.winner or "tie"] += count
            cell["inconsistent"] += count * (battle.inconsistent and battle.winner is None)
    rows = {(pair.entrant_a, pair.entrant_b): pair for pair in dimension.pairs}
    lines = []
    for a, b in sorted(tallies.keys() | rows.keys()):
        cell, pair = tallies.get((a, b), Counter()), rows.get((a, b))
        written = (0, 0, 0, 0) if pair is None else (pair.a_wins, pair.b_wins, pair.ties, pair.inconsistent)
        seen = (cell[a], cell[b], cell["tie"], cell["inconsistent"])
        if written != seen:
            lines.append(f"{dimension.name}: {a} against {b} is {written} in pairwise_winrates.csv, {seen} in verdicts")
    return lines


def _board(dimension: Dimension) -> list[str]:
    """The board's wins, losses and ties against the pair table; a board that left battles out is not compared."""
    if dimension.board is None or dimension.board.details.get("left_out"):
        return []
    totals: dict[str, list[int]] = {}
    for pair in dimension.pairs:
        for name in (pair.entrant_a, pair.entrant_b):
            won, lost = wins_and_losses(pair, name)
            cell = totals.setdefault(name, [0, 0, 0])
            cell[0], cell[1], cell[2] = cell[0] + won, cell[1] + lost, cell[2] + pair.ties
    return [
        f"{dimension.name}: the board gives {entry.model} {entry.wins:g} wins, {entry.losses:g} losses and "
        f"{entry.ties:g} ties, the pair table {totals.get(entry.model, [0, 0, 0])}"
        for entry in dimension.board.ratings
        if [entry.wins, entry.losses, entry.ties] != totals.get(entry.model, [0, 0, 0])
    ]


def _means(dimension: Dimension) -> list[str]:
    if not dimension.elo:
        return []
    means = dict(zip(dimension.trace_entrants, dimension.traces.mean(axis=0), strict=True))
    return [
        f"{dimension.name}: the mean Elo of {name} is {line.mean} in elo_results.json, {means.get(name)} in the traces"
        for name, line in dimension.elo.items()
        if name not in means or not np.isclose(line.mean, means[name], rtol=1e-9, atol=1e-9)
    ]

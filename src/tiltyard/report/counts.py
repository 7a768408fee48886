"""Counts over the judged battles of a run: the judge's habits, and whether the written numbers follow from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec
import numpy as np

from tiltyard.judging.records import VerdictLabel
from tiltyard.ratings.quantiles import normal_quantile
from tiltyard.report.run import Dimension, JudgedBattle, Run
from tiltyard.validity.agreement import wilson

LEVEL = 0.95


class Share(msgspec.Struct, frozen=True):
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


class Behaviour(msgspec.Struct, frozen=True):
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
    for battle in battles:
        first += battle.slots.count(VerdictLabel.A)
        decided += battle.slots.count(VerdictLabel.A) + battle.slots.count(VerdictLabel.B)
        for one, other in battle.pairs:
            if one.readable and other.readable:
                both += 1
                differ += one != other
                opposite += {one, other} == {VerdictLabel.A, VerdictLabel.B}
    return Behaviour(Share(differ, both), opposite, Share(first, decided))


def verdict_counts(battles: Iterable[JudgedBattle]) -> Counter[VerdictLabel]:
    """How often each verdict was given, failures included, in the order in which they appear."""
    return Counter(label for battle in battles for label in battle.labels)


def disagreements(run: Run) -> list[str]:
    """A sentence for every number that disagrees with the verdict lines; none if all is well."""
    lines: list[str] = []
    for dimension in run.dimensions:
        battles = run.of_dimension(dimension.name)
        decisive = sum(battle.winner is not None for battle in battles)
        if decisive != dimension.n_decisive:
            lines.append(
                f"{dimension.name}: elo_results.json counts {dimension.n_decisive} decisive matches, the verdicts "
                f"{decisive}"
            )
        lines += _tallies(dimension, battles) + _board(dimension)
        for name, line in dimension.elo.items():
            mean = dimension.traces[name].mean() if name in dimension.traces else None
            if mean is None or not np.isclose(line.mean, mean, rtol=1e-9, atol=1e-9):
                lines.append(
                    f"{dimension.name}: the mean Elo of {name} is {line.mean} in elo_results.json, {mean} in the traces"
                )
    return lines


def _tallies(dimension: Dimension, battles: Iterable[JudgedBattle]) -> list[str]:
    """The pair table against the verdicts."""
    tallies: dict[tuple[str, str], Counter[str]] = {}
    for battle in battles:
        if battle.settled:
            first, second = sorted(battle.entrants)
            cell = tallies.setdefault((first, second), Counter())
            cell[battle.winner or "tie"] += 1
            cell["inconsistent"] += battle.inconsistent and battle.winner is None
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
    totals: dict[str, Counter[str]] = {}
    for pair in dimension.pairs:
        for name, won, lost in (
            (pair.entrant_a, pair.a_wins, pair.b_wins),
            (pair.entrant_b, pair.b_wins, pair.a_wins),
        ):
            totals.setdefault(name, Counter()).update(wins=won, losses=lost, ties=pair.ties)
    lines = []
    for entry in dimension.board.ratings:
        counts = totals.get(entry.model, Counter())
        seen = [counts["wins"], counts["losses"], counts["ties"]]
        if [entry.wins, entry.losses, entry.ties] != seen:
            lines.append(
                f"{dimension.name}: the board gives {entry.model} {entry.wins:g} wins, {entry.losses:g} losses and "
                f"{entry.ties:g} ties, the pair table {seen}"
            )
    return lines

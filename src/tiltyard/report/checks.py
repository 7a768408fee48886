"""Every number counted a second time, to see whether it follows from the verdicts of the run folder."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tiltyard.report.bouts import Bout
    from tiltyard.report.run import Dimension, Run


def disagreements(run: Run) -> list[str]:
    """A sentence for every number that does not follow from the verdict lines; none where all is well."""
    found: list[str] = []
    for dimension in run.dimensions:
        bouts = [bout for bout in run.bouts if bout.dimension == dimension.name]
        found += _decisive(dimension, bouts) + _tallies(dimension, bouts) + _board(dimension) + _means(dimension)
    return found


def _decisive(dimension: Dimension, bouts: Sequence[Bout]) -> list[str]:
    decisive = sum(bout.winner is not None for bout in bouts)
    if decisive == dimension.n_decisive:
        return []
    return [
        f"{dimension.name}: elo_results.json counts {dimension.n_decisive} decisive matches, the verdicts {decisive}"
    ]


def _tallies(dimension: Dimension, bouts: Sequence[Bout]) -> list[str]:
    counted: dict[tuple[str, str], Counter[str]] = {}
    for bout in bouts:
        if bout.settled:
            first, second = sorted(bout.entrants)
            cell = counted.setdefault((first, second), Counter())
            cell[bout.winner or "tie"] += 1
            cell["inconsistent"] += bout.inconsistent and bout.winner is None
    rows = {(pair.entrant_a, pair.entrant_b): pair for pair in dimension.pairs}
    found = []
    for a, b in sorted(counted.keys() | rows.keys()):
        cell, pair = counted.get((a, b), Counter()), rows.get((a, b))
        written = (0, 0, 0, 0) if pair is None else (pair.a_wins, pair.b_wins, pair.ties, pair.inconsistent)
        seen = (cell[a], cell[b], cell["tie"], cell["inconsistent"])
        if written != seen:
            found.append(f"{dimension.name}: {a} against {b} is {written} in pairwise_winrates.csv, {seen} in verdicts")
    return found


def _board(dimension: Dimension) -> list[str]:
    """The board's wins, losses and ties against the pair table; a board that left battles out is not compared."""
    if dimension.board is None or dimension.board.details.get("left_out"):
        return []
    totals: dict[str, list[int]] = {}
    for pair in dimension.pairs:
        for name in (pair.entrant_a, pair.entrant_b):
            won, lost = pair.seen_from(name)
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

"""Win rates: the share of battles won, ties counting half, with no model of strength behind it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tiltyard.ratings.comparisons import FIRST_WON, SECOND_WON, TIED, Floats, PairCells, sum_by


@dataclass(frozen=True, slots=True, eq=False)
class WinRates:
    """Battles and wins of every ordered pair, ties and soft outcomes divided between the two.

    `wins[i, j]` is what i won against j, `battles[i, j]` how often they met.
    """

    wins: Floats
    battles: Floats

    @property
    def matrix(self) -> Floats:
        """The share that i (row) won against j (column); NaN where they never met."""
        with np.errstate(invalid="ignore"):
            return np.asarray(self.wins / self.battles)

    @property
    def score(self) -> Floats:
        """What each model won in all: wins plus half the ties."""
        return np.asarray(self.wins.sum(axis=1))

    @property
    def overall(self) -> Floats:
        """The share of all its battles that each model won: depends on whom it met how often."""
        return np.asarray(self.score / self.battles.sum(axis=1))

    @property
    def average(self) -> Floats:
        """The mean of each model's win rates over the opponents it met, every opponent counting once."""
        met = self.battles > 0
        return np.asarray(np.where(met, self.matrix, 0.0).sum(axis=1) / met.sum(axis=1))


def win_rates(cells: PairCells) -> WinRates:
    """Win rates from pair counts."""
    m = cells.n_models
    first_wins = cells.counts[:, FIRST_WON] + 0.5 * cells.counts[:, TIED]
    second_wins = cells.counts[:, SECOND_WON] + 0.5 * cells.counts[:, TIED]
    forward, backward = cells.first * m + cells.second, cells.second * m + cells.first
    wins = sum_by(forward, first_wins, m * m) + sum_by(backward, second_wins, m * m)
    n = cells.counts.sum(axis=1)
    battles = sum_by(forward, n, m * m) + sum_by(backward, n, m * m)
    return WinRates(wins.reshape(m, m), battles.reshape(m, m))

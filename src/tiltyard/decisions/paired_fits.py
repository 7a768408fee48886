"""Two runs over the same prompts, each fitted on its own, with the errors of what changed between them.

What happens on a prompt happens in both runs, so the errors are paired: the two fits' moves when a prompt is left out
are subtracted before they are squared. Clusters of two kinds are put together as in one fit (`ratings/intervals.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tiltyard.battles.table import BattleTable, concat
from tiltyard.boards.bradley_terry import BradleyTerry
from tiltyard.boards.certainty import Solved
from tiltyard.decisions.contrast import Contrast
from tiltyard.errors import RatingError
from tiltyard.ratings.comparisons import OWN_CLUSTER
from tiltyard.ratings.graph import Reach
from tiltyard.ratings.intervals import cluster_moves, in_both
from tiltyard.types import Floats, Ints


@dataclass(frozen=True, slots=True, eq=False)
class TwoFits:
    """Two runs fitted over the same models, with the variances of what changed.

    `zero` weighs the models that changes are measured from.
    """

    new: Solved
    old: Solved
    zero: Floats
    variances: Floats
    own_variances: Floats
    remarks: tuple[str, ...]

    @classmethod
    def of(cls, tables: tuple[BattleTable, BattleTable], estimator: BradleyTerry, zero: Sequence[str]) -> TwoFits:
        """Fit both; `zero` names the models that changes are measured from (none: all of them)."""
        new, old = (estimator.solve(table) for table in tables)
        models = new.fit_input.selected.table.models
        if models != old.fit_input.selected.table.models:
            raise RatingError("some entrants have rated battles in one run only: leave them out and compare again.")
        weights = np.array([float(name in zero) for name in models])
        weights = np.ones(len(models)) if not weights.any() else weights
        weights /= weights.sum()
        variances = _paired_variances(new, old, weights)
        assert new.covariance is not None
        assert old.covariance is not None
        if variances is None:
            variances = new.covariance.variances(weights) + old.covariance.variances(weights)
        own = new.covariance.fisher_variances(weights) + old.covariance.fisher_variances(weights)
        remarks = (*new.fit_input.remarks, *old.fit_input.remarks)
        return cls(new, old, weights, variances, own, tuple(dict.fromkeys(remarks)))

    @property
    def models(self) -> tuple[str, ...]:
        """The models."""
        return self.new.fit_input.selected.table.models

    @property
    def zero_names(self) -> list[str]:
        """The models that changes are measured from."""
        return [name for name, weight in zip(self.models, self.zero, strict=True) if weight > 0.0]

    def from_zero(self, side: int) -> Floats:
        """The strengths of one run, measured from the zero."""
        strength = (self.new, self.old)[side].fit.parameters.strength
        return np.asarray(strength - self.zero @ strength)

    def contrast(self, i: int) -> Contrast:
        """What changed for one model."""
        both = (self.new, self.old)
        top, bottom = (Reach.UNBEATEN, Reach.APART), (Reach.WINLESS, Reach.APART)
        errors = [solved.covariance for solved in both if solved.covariance is not None]
        known = all(bool(error.known[i]) for error in errors)
        return Contrast(
            value=float(self.from_zero(0)[i] - self.from_zero(1)[i]),
            variance=float(self.variances[i]),
            own_variance=float(self.own_variances[i]),
            degrees=min(float(error.degrees[i]) for error in errors) if known else 0.0,
            clustered=any(bool(error.ways) for error in errors),
            battles=min(float(solved.fit_input.rows.battles_per_model()[i]) for solved in both),
            no_low=bool(self.new.state[i] in bottom or self.old.state[i] in top),
            no_high=bool(self.new.state[i] in top or self.old.state[i] in bottom),
        )


def _paired_variances(new: Solved, old: Solved, zero: Floats) -> Floats | None:
    """The variance of each change, with clusters that both runs share; None where they share no kind of cluster."""
    columns = new.fit_input.clusters
    if not columns or columns != old.fit_input.clusters:
        return None
    codes = [_shared_codes(new, old, column) for column in columns]
    found = [_variance_of_moves(new, old, one, other, zero, corrected=True) for one, other in codes]
    if len(codes) == 2:
        stacked = [np.concatenate(pair) for pair in codes]
        both = _own_where_missing(in_both(stacked[0], stacked[1]))
        n = len(codes[0][0])
        once = _variance_of_moves(new, old, both[:n], both[n:], zero, corrected=False)
        found.append(found[0] + found[1] - once)
    return np.asarray(np.max(found, axis=0))


def _shared_codes(new: Solved, old: Solved, column: str) -> tuple[Ints, Ints]:
    """The clusters of both runs, numbered together: equal texts are the same one; a row without one is its own."""
    stacked = concat([solved.fit_input.selected.table for solved in (new, old)]).text_column(column).codes
    codes = _own_where_missing(stacked.astype(np.int64))
    n = len(new.fit_input.rows)
    return codes[:n], codes[n:]


def _own_where_missing(codes: Ints) -> Ints:
    missing = codes == OWN_CLUSTER
    fresh = int(codes.max(initial=-1)) + 1 + np.arange(int(missing.sum()))
    full = codes.copy()
    full[missing] = fresh
    return full


def _variance_of_moves(new: Solved, old: Solved, one: Ints, other: Ints, zero: Floats, *, corrected: bool) -> Floats:
    """Σ over clusters of the squared difference of the two fits' moves when it is left out."""
    used, numbered = np.unique(np.concatenate([one, other]), return_inverse=True)
    count = len(used)
    moves = [
        cluster_moves(solved.fit, solved.fit_input.rows, solved.fit_input.counted, code, count, corrected=corrected)
        for solved, code in ((new, numbered[: len(one)]), (old, numbered[len(one) :]))
    ]
    difference = moves[0] - moves[1]
    difference -= (difference @ zero)[:, None]
    factor = (count - 1.0) / count if corrected else 1.0
    return np.asarray(factor * (difference**2).sum(axis=0))

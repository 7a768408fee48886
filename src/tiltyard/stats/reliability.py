"""How reliable several judges of the same matchups are, from nothing but their votes.

Dawid and Skene (1979): every matchup has a true result, each judge errs in its own way, and given the truth the judges
err independently. EM then finds the errors and the truths that explain the votes best. Which entrant is called A is
arbitrary, so the errors are symmetric in A and B: a judge has three rates for a matchup that has a winner (right,
wrong, neither) and one for a matchup that has none.

What a vote for A says in favour of A over B is then ln(right / wrong), the log-odds weight that is optimal for
independent judges (Nitzan and Paroush 1982). Judges that err together look more reliable than they are, and no vote
shows it: only known truths do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from tiltyard.errors import OptionError

if TYPE_CHECKING:
    Floats = NDArray[np.float64]
    Votes = NDArray[np.int8]

A, B, NEITHER, MISSING = 0, 1, 2, -1
"""What a judge says of a matchup: entrant_a, entrant_b, neither (a tie, or a contradiction), or nothing usable."""

FEWEST_JUDGES = 3
"""With two judges, the votes do not tell which of them is the better one."""

MOST_STEPS = 5_000
SETTLED = 1e-7
_PRIOR_SIDES = np.array([2.0, 1.0, 1.0])
_PRIOR_NEITHER = np.array([2.0, 1.0])
"""Votes seen before any vote: right 2, wrong 1, neither 1; and where nobody is better, neither 2, a side 1. They keep a
judge of few matchups from being certain, and say that judges are better than chance."""


class Reliability(msgspec.Struct, frozen=True, eq=False):
    """The errors of each judge, and the true results that explain the votes best.

    Parameters:
        right: By judge, how often it names the better entrant, where one is better.
        wrong: By judge, how often it names the other one.
        neither: By judge, how often it names neither there.
        ties: The share of matchups in which nobody is better.
        truth: By matchup, the probabilities that A is better, that B is, and that neither is.
    """

    right: Floats
    wrong: Floats
    neither: Floats
    ties: float
    truth: Floats

    @property
    def accuracy(self) -> Floats:
        """Of the winners that each judge names, where there is one, the share that is right."""
        return np.asarray(self.right / (self.right + self.wrong))

    @property
    def weights(self) -> Floats:
        """The log-odds weight of each judge's vote for a winner: ln(right / wrong)."""
        return np.asarray(np.log(self.right / self.wrong))

    def decided(self) -> Votes:
        """By matchup, the most probable truth; `MISSING` where two are equally probable."""
        best = self.truth.max(axis=1, keepdims=True)
        shared = (self.truth >= best - 1e-9).sum(axis=1) > 1
        return np.where(shared, MISSING, self.truth.argmax(axis=1)).astype(np.int8)


def estimate_reliability(votes: ArrayLike) -> Reliability:
    """The reliability of judges by EM on their votes.

    Fewer than three judges cannot be told apart: that is an `OptionError`.

    Parameters:
        votes: Matchups × judges: `A`, `B`, `NEITHER`, or `MISSING` where a judge failed.
    """
    codes = np.asarray(votes, dtype=np.int8)
    if codes.shape[1] < FEWEST_JUDGES:
        raise OptionError(f"the votes of {codes.shape[1]} judges do not tell which of them is right; take three.")
    codes, place, counts = np.unique(codes, axis=0, return_inverse=True, return_counts=True)
    weight = counts.astype(float)
    shares = np.stack([(codes == label).sum(axis=1) for label in (A, B, NEITHER)], axis=1) + 1 / 3
    params = _maximise(codes, shares / shares.sum(axis=1, keepdims=True), weight)
    for _ in range(MOST_STEPS):
        truth = _posterior(codes, *params)
        before, params = params, _maximise(codes, truth, weight)
        if max(np.abs(params[0] - before[0]).max(), np.abs(params[1] - before[1]).max()) < SETTLED:
            break
    sides, _, ties = params
    return Reliability(sides[:, 0], sides[:, 1], sides[:, 2], ties, truth[place.ravel()])


_Parameters = tuple["Floats", "Floats", float]
"""By judge right, wrong, neither; by judge the share of ties it calls; the share of ties."""


def _maximise(said: Votes, truth: Floats, weight: Floats) -> _Parameters:
    """The rates of every judge, given the probabilities of the truths (the M step)."""
    is_a, is_b, is_tie = (truth[:, label] * weight for label in (A, B, NEITHER))
    said_a, said_b, said_neither = ((said == label).T.astype(float) for label in (A, B, NEITHER))
    sides = np.stack(
        [said_a @ is_a + said_b @ is_b, said_a @ is_b + said_b @ is_a, said_neither @ (is_a + is_b)], axis=1
    )
    sides += _PRIOR_SIDES
    tied = np.stack([said_neither @ is_tie, (said_a + said_b) @ is_tie], axis=1) + _PRIOR_NEITHER
    ties = float((is_tie.sum() + 1) / (weight.sum() + 3))
    return sides / sides.sum(axis=1, keepdims=True), tied[:, 0] / tied.sum(axis=1), ties


def _posterior(said: Votes, sides: Floats, calls_ties: Floats, ties: float) -> Floats:
    """The probabilities of the truths, given the rates of every judge (the E step)."""
    right, wrong, neither = np.log(sides).T
    tied, side = np.log(calls_ties), np.log((1 - calls_ties) / 2)
    score = np.log([(1 - ties) / 2, (1 - ties) / 2, ties]) + np.zeros((len(said), 3))
    said_a, said_b, said_neither = ((said == label).astype(float) for label in (A, B, NEITHER))
    score[:, A] += said_a @ right + said_b @ wrong + said_neither @ neither
    score[:, B] += said_b @ right + said_a @ wrong + said_neither @ neither
    score[:, NEITHER] += (said_a + said_b) @ side + said_neither @ tied
    score -= score.max(axis=1, keepdims=True)
    likely = np.exp(score)
    return np.asarray(likely / likely.sum(axis=1, keepdims=True))


def plurality(votes: ArrayLike) -> Votes:
    """By matchup, the result with the most votes; `MISSING` where the lead is shared or nobody voted.

    Parameters:
        votes: Matchups × judges, as in `estimate_reliability`.
    """
    codes = np.asarray(votes, dtype=np.int8)
    counts = np.stack([(codes == label).sum(axis=1) for label in (A, B, NEITHER)], axis=1)
    shared = (counts == counts.max(axis=1, keepdims=True)).sum(axis=1) > 1
    return np.where(shared, MISSING, counts.argmax(axis=1)).astype(np.int8)

"""Signs that a session does not read what it votes on. A flag is a reason to look, not a proof.

First simple shares of the session's own votes and one test of favour (`session_flags`); then, at the end, votes that
are rarer than those of everybody before them (`surprises`, `combined`), by Fisher's combined test.

Chiang et al. 2024 ("Chatbot Arena", section on anomalous users): each vote is compared with the earlier votes on the
same two models, p = (1 + those at least as extreme)/(n + 1), and a session's M = −2·Σ ln p is held against χ² with two
degrees of freedom per vote. Here "as extreme" is "as rare or rarer", the vote itself counted in: then p is valid
whenever votes on a pair are alike in distribution, whatever that distribution is.

Votes have four values, so p has few, and χ² expects far more than an honest session can reach: the test as published
sees only sessions that are wrong nearly always. `corrected` uses what M can reach: its exact mean and variance given
the votes on each pair, matched by a scaled χ² (Satterthwaite 1946; Brown 1975).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tiltyard.battles.battle import Outcome
from tiltyard.ratings import LOGITS_PER_POINT
from tiltyard.types import Floats, Ints

Codes = NDArray[np.int8]


CLEAR_FAVOURITE = 0.6
"""A vote is an upset when the loser was expected to win at least this often: between near equals there is none."""


FAVOUR_VOTES = 10


FAVOUR_ALPHA = 0.001
"""Favour of one model is flagged from this many votes on it, at this chance over all the models a session met."""


@dataclass(frozen=True, slots=True)
class SessionRules:
    """When a session is flagged: for each sign, from how many votes on and from which share."""

    fast_votes: int
    fast_seconds: float
    fast_share: float
    one_sided_votes: int
    one_sided_share: float
    upset_votes: int
    upset_share: float
    both_bad_votes: int
    both_bad_share: float


@dataclass(frozen=True, slots=True, eq=False)
class SessionVotes:
    """A session's votes in order: when, models by side, outcome codes, and the score expected of side A."""

    seconds: Floats
    model_a: Ints
    model_b: Ints
    outcome: Codes
    expected_a: Floats
    names: tuple[str, ...] = ()
    """What models are called in a flag's words; their numbers where this is empty."""

    def __len__(self) -> int:
        return len(self.seconds)


@dataclass(frozen=True, slots=True)
class SessionFlag:
    """A sign that was found: its name, and the numbers behind it in words."""

    flag: str
    detail: str


@dataclass(frozen=True, slots=True)
class SessionActs:
    """What a session did with the matchups it was shown: votes cast, how many of those it undid, and skips."""

    cast: int = 0
    undone: int = 0
    skipped: int = 0


def share_flag(name: str, number: int, total: int, what: str, least: int, share: float) -> SessionFlag | None:
    """A flag for acts that are at least so many and at least this share of all."""
    if number < least or number < share * total:
        return None
    return SessionFlag(name, f"{number} of {total} {what}")


def session_flags(votes: SessionVotes, rules: SessionRules) -> list[SessionFlag]:
    """Every sign found in a session, in a fixed order."""
    found = (
        _fast(votes, rules),
        _one_sided(votes, rules),
        _upsets(votes, rules),
        _both_bad(votes, rules),
        _favour(votes),
    )
    return [flag for flag in found if flag is not None]


def _fast(votes: SessionVotes, rules: SessionRules) -> SessionFlag | None:
    """Votes that follow one another faster than two answers can be read."""
    gaps = np.diff(votes.seconds)
    if len(votes) < rules.fast_votes or not len(gaps):
        return None
    fast = int((gaps < rules.fast_seconds).sum())
    if fast < rules.fast_share * len(gaps):
        return None
    return SessionFlag("fast", f"{fast} of {len(gaps)} gaps between votes under {rules.fast_seconds:g} s")


def _one_sided(votes: SessionVotes, rules: SessionRules) -> SessionFlag | None:
    """The same side again and again; sides are random, so no model earns that."""
    for side in (Outcome.A, Outcome.B):
        number = int((votes.outcome == side).sum())
        if len(votes) >= rules.one_sided_votes and number >= rules.one_sided_share * len(votes):
            return SessionFlag("one-sided", f"{number} of {len(votes)} votes for side {side.name}")
    return None


def _upsets(votes: SessionVotes, rules: SessionRules) -> SessionFlag | None:
    """The weaker model again and again, among decisive votes on pairs with a clear favourite."""
    for_a, for_b = votes.outcome == Outcome.A, votes.outcome == Outcome.B
    against_a = votes.expected_a >= CLEAR_FAVOURITE
    against_b = votes.expected_a <= 1.0 - CLEAR_FAVOURITE
    number = int(((for_a | for_b) & (against_a | against_b)).sum())
    upsets = int(((for_b & against_a) | (for_a & against_b)).sum())
    if number < rules.upset_votes or upsets < rules.upset_share * number:
        return None
    return SessionFlag("upsets", f"the clear outsider won {upsets} of {number} decisive votes")


def _both_bad(votes: SessionVotes, rules: SessionRules) -> SessionFlag | None:
    number = int((votes.outcome == Outcome.BOTH_BAD).sum())
    if len(votes) < rules.both_bad_votes or number < rules.both_bad_share * len(votes):
        return None
    return SessionFlag("both-bad", f"{number} of {len(votes)} votes say both are bad")


def _favour(votes: SessionVotes) -> SessionFlag | None:
    """One model preferred, or put down, beyond what its ratings explain: for it and against it are both tested."""
    from scipy.special import ndtr

    decisive = (votes.outcome == Outcome.A) | (votes.outcome == Outcome.B)
    surprise = np.where(votes.outcome == Outcome.A, 1.0, 0.0) - votes.expected_a
    models = np.concatenate([votes.model_a[decisive], votes.model_b[decisive]])
    if not len(models):
        return None
    variance = (votes.expected_a * (1.0 - votes.expected_a))[decisive]
    met, code, number = np.unique(models, return_inverse=True, return_counts=True)
    excess = np.bincount(code, np.concatenate([surprise[decisive], -surprise[decisive]]))
    enough = number >= FAVOUR_VOTES
    if not enough.any():
        return None
    total = np.bincount(code, np.concatenate([variance, variance]))
    # Half a vote off: counts are whole, and without it ten votes would look surer than they are.
    sigmas = np.where(enough, np.maximum(np.abs(excess) - 0.5, 0.0) / np.sqrt(total + 1e-12), 0.0)
    worst = int(np.argmax(sigmas))
    if 2.0 * float(ndtr(-sigmas[worst])) * int(enough.sum()) > FAVOUR_ALPHA:
        return None
    name, more = _name(votes, int(met[worst])), excess[worst] > 0
    return SessionFlag(
        "favours one model" if more else "puts down one model",
        f"{name} won {abs(excess[worst]):.1f} {'more' if more else 'fewer'} of its {number[worst]} decisive votes "
        f"than expected ({sigmas[worst]:.1f} sigma)",
    )


def may_have_flags(votes: SessionVotes, voter: Ints, rules: SessionRules) -> NDArray[np.bool_]:
    """By voter: whether `session_flags` can find anything; False for nearly everybody, at once for all votes.

    Parameters:
        votes: The votes of all sessions, in order.
        voter: The number of the voter of each vote.
        rules: When a session is flagged.
    """
    from scipy.special import ndtri

    number = int(voter.max(initial=-1)) + 1

    def counted(chosen: NDArray[np.bool_]) -> Ints:
        return np.bincount(voter[chosen], minlength=number)

    size = np.bincount(voter, minlength=number)
    order = np.argsort(voter, kind="stable")
    same, gaps = np.diff(voter[order]) == 0, np.diff(votes.seconds[order])
    hurried = np.bincount(voter[order][1:][same & (gaps < rules.fast_seconds)], minlength=number)
    found = (size >= rules.fast_votes) & (hurried >= rules.fast_share * (size - 1))
    for side in (Outcome.A, Outcome.B):
        found |= (size >= rules.one_sided_votes) & (counted(votes.outcome == side) >= rules.one_sided_share * size)
    bad = counted(votes.outcome == Outcome.BOTH_BAD)
    found |= (size >= rules.both_bad_votes) & (bad >= rules.both_bad_share * size)
    for_a, for_b = votes.outcome == Outcome.A, votes.outcome == Outcome.B
    against_a, against_b = votes.expected_a >= CLEAR_FAVOURITE, votes.expected_a <= 1.0 - CLEAR_FAVOURITE
    clear = counted((for_a | for_b) & (against_a | against_b))
    upsets = counted((for_b & against_a) | (for_a & against_b))
    found |= (clear >= rules.upset_votes) & (upsets >= rules.upset_share * clear)
    decisive = for_a | for_b
    width = int(max(votes.model_a.max(initial=0), votes.model_b.max(initial=0))) + 1
    key = np.concatenate([voter[decisive] * width + model[decisive] for model in (votes.model_a, votes.model_b)])
    surprise = (np.where(for_a, 1.0, 0.0) - votes.expected_a)[decisive]
    variance = (votes.expected_a * (1.0 - votes.expected_a))[decisive]
    cells, code, met = np.unique(key, return_inverse=True, return_counts=True)
    excess = np.abs(np.bincount(code, np.concatenate([surprise, -surprise]), len(cells)))
    total = np.bincount(code, np.concatenate([variance, variance]), len(cells))
    least = -float(ndtri(FAVOUR_ALPHA / 2.0)) - 1e-6  # as if the session had met one model often, the easiest case
    favoured = (met >= FAVOUR_VOTES) & (np.maximum(excess - 0.5, 0.0) >= least * np.sqrt(total + 1e-12))
    found[cells[favoured] // width] = True
    return np.asarray(found)


def _name(votes: SessionVotes, model: int) -> str:
    return votes.names[model] if votes.names else f"model {model}"


def expected_scores(rating_a: Floats, rating_b: Floats) -> Floats:
    """The score expected of side A by the ratings alone: 400 points are odds of 10 to 1."""
    return np.asarray(1.0 / (1.0 + np.exp((rating_b - rating_a) * LOGITS_PER_POINT)))


LEAST_VOTES = 10
"""A session is tested from this many votes on."""


@dataclass(frozen=True, slots=True, eq=False)
class Surprise:
    """For every vote −2·ln p, and the mean and variance it has if the vote is one like those before it."""

    value: Floats
    mean: Floats
    variance: Floats


@dataclass(frozen=True, slots=True)
class Anomaly:
    """A session's combined test: votes, M, the p-value as published, and the corrected one."""

    votes: int
    combined: float
    p_value: float
    corrected: float


def surprises(model_a: Ints, model_b: Ints, outcome: Codes, n_models: int) -> Surprise:
    """How rare each vote is among the votes on its pair so far; votes in the order they were cast."""
    first = np.minimum(model_a, model_b)
    pair = first * n_models + np.maximum(model_a, model_b)
    decisive = outcome <= Outcome.B
    # Seen from the pair, not from the sides: 0 when the model with the smaller number won.
    result = np.where(decisive & (model_a != first), 1 - outcome, outcome).astype(np.int64)
    counts = _counts_so_far(pair, result)
    size = counts.sum(axis=1, keepdims=True)
    as_rare = np.zeros_like(counts)
    for kind in range(len(Outcome)):
        as_rare[:, kind] = np.where(counts <= counts[:, kind : kind + 1], counts, 0.0).sum(axis=1)
    value = -2.0 * np.log(np.where(counts > 0.0, as_rare / size, 1.0))
    mean = (counts * value).sum(axis=1) / size[:, 0]
    square = (counts * value * value).sum(axis=1) / size[:, 0]
    own = value[np.arange(len(result)), result]
    return Surprise(own, mean, np.maximum(square - mean * mean, 0.0))


def _counts_so_far(pair: Ints, result: Ints) -> Floats:
    """For every vote, how often each result was seen on its pair up to and including it: (votes, 4)."""
    order = np.argsort(pair, kind="stable")
    seen = np.cumsum(np.eye(len(Outcome))[result[order]], axis=0)
    starts = np.flatnonzero(np.diff(pair[order], prepend=-1))
    before = np.concatenate([np.zeros((1, len(Outcome))), seen[starts[1:] - 1]]) if len(starts) else seen
    lengths = np.diff(np.append(starts, len(order)))
    counts = np.empty_like(seen)
    counts[order] = seen - np.repeat(before, lengths, axis=0)
    return counts


def combined(surprise: Surprise, rows: NDArray[np.intp]) -> Anomaly:
    """The test of one session, whose votes are these rows."""
    from scipy.special import chdtrc

    m = float(surprise.value[rows].sum())
    mean, variance = float(surprise.mean[rows].sum()), float(surprise.variance[rows].sum())
    published = float(chdtrc(2.0 * len(rows), m)) if len(rows) else 1.0
    if variance <= 0.0:
        return Anomaly(len(rows), m, published, 1.0)
    scale = variance / (2.0 * mean)
    return Anomaly(len(rows), m, published, float(chdtrc(mean / scale, m / scale)))

"""Sessions whose votes are rarer than those of everybody before them: Fisher's combined test.

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

from tiltyard.battles.outcome import Outcome

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Codes = NDArray[np.int8]

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

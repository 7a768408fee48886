"""Elo ratings: one pass over battles in order, or the mean over many shuffles of them (permutation Elo).

Elo reads battles one after the other, so its result depends on their order. For live play that is its purpose; for a
finished tournament the order is an accident, and permutation Elo removes it by rating many random orders and taking
the mean. How far that mean is from the mean over *all* orders is its SEM, and nothing more: it becomes as small as one
likes with more shuffles of the same battles. What another set of prompts would have given is `sampling_interval`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from tiltyard.errors import NoBattles, OptionError, RatingError
from tiltyard.stats.comparisons import Codes, codes
from tiltyard.stats.elo_kernels import rate_in_order, ratings_of_orders
from tiltyard.stats.quantiles import t_quantile
from tiltyard.stats.scale import LOGITS_PER_POINT
from tiltyard.types import Floats, Ints

PLAIN_SECONDS_PER_BATTLE = 0.7e-6
SECONDS_PER_LANE, SECONDS_PER_DRAW = 35e-9, 20e-9
"""About what a battle costs in one order at one K, compiled, and its place in a random order: to say it beforehand."""

SHUFFLES = 4
"""Random orders of each resample."""
RESAMPLES, FEW_RESAMPLES = 200, 40
RESAMPLED_BATTLES = 100_000_000
"""With more battles than a 800th of this there are fewer resamples than `RESAMPLES`, down to `FEW_RESAMPLES`."""

SAME_RATING = 1e-9
"""Ratings that differ by less, in points, differ by rounding."""

K_SWEEP = (1.0, 4.0, 8.0, 16.0, 32.0)
K_MAX = 600.0
"""From K = 1600/ln 10 = 695 on, a battle throws two near-equals further past each other than they were apart: ratings
never settle, and rounding decides where they end. Elo refuses K before that."""


class EloTraces(msgspec.Struct, frozen=True, eq=False):
    """Ratings of every model after every shuffle, at one K: `ratings` is (shuffles, models)."""

    k: float
    ratings: Floats

    @property
    def mean(self) -> Floats:
        """The permutation Elo rating: the mean over shuffles."""
        return np.asarray(self.ratings.mean(axis=0))

    @property
    def sem(self) -> Floats:
        """The standard error of that mean over shuffles: shuffle error only; says nothing about other prompts.

        NaN where every order gives the same rating: there is no such error.
        """
        spread = self.ratings.std(axis=0, ddof=1)
        return np.where(spread > SAME_RATING, spread / math.sqrt(len(self.ratings)), np.nan)

    @property
    def ci95_low(self) -> Floats:
        """Mean − 1.96 SEM: shuffle error only."""
        return np.asarray(self.mean - 1.96 * self.sem)

    @property
    def ci95_high(self) -> Floats:
        """Mean + 1.96 SEM: shuffle error only."""
        return np.asarray(self.mean + 1.96 * self.sem)


class PermutationTraces(msgspec.Struct, frozen=True, eq=False):
    """Permutation Elo at the default K and at each K of the sweep, all on the same shuffles."""

    default: EloTraces
    sweep: tuple[EloTraces, ...]


class SamplingInterval(msgspec.Struct, frozen=True, eq=False):
    """Where permutation Elo could have ended with other prompts: `low` and `high` around the mean, per model.

    `standard_error` is the sampling error alone; the shuffle error of the resamples is subtracted from it.
    """

    standard_error: Floats
    low: Floats
    high: Floats


def sequential_elo(
    a: ArrayLike,
    b: ArrayLike,
    score_a: ArrayLike,
    *,
    n_models: int,
    k: float = 16.0,
    initial_rating: float | Floats = 1400.0,
) -> Floats:
    """Ratings after the battles in the order given (Elo 1978): r ← r + K·(score − 1/(1 + 10^(−gap/400))).

    `a` and `b` are model codes 0 … n_models − 1 and `score_a` is 1, 0, or ½ for a tie. An array as `initial_rating`
    continues from earlier ratings, with the same bits as one run. The sum of the ratings never changes.
    """
    check_k(k)
    ratings = np.array(np.broadcast_to(initial_rating, n_models), dtype=np.float64)
    scores = np.array(score_a, dtype=np.float64)
    run = rate_in_order.run(len(scores) * PLAIN_SECONDS_PER_BATTLE)
    run(codes(a), codes(b), scores, ratings, float(k), LOGITS_PER_POINT)
    return ratings


def permutation_elo(
    a: ArrayLike,
    b: ArrayLike,
    a_won: ArrayLike,
    *,
    n_models: int,
    k: float = 16.0,
    k_sweep: Sequence[float] = K_SWEEP,
    initial_rating: float = 1400.0,
    n_perms: int = 500,
    seed: int = 0,
) -> PermutationTraces:
    """Mean Elo over shuffles of decisive battles, with its full traces, at the default K and at each K of a sweep.

    Only decisive battles enter: leave ties out first. One `numpy.random.default_rng(seed)` draws `permutation(n)` once
    per shuffle over the battles as given, and every K plays the same shuffles; the result equals the plain loop with
    that seed to 1e-9. Its SEM is shuffle error only.
    """
    winners, losers = _decisive(a, b, a_won)
    ks = list(dict.fromkeys(float(value) for value in (k, *k_sweep)))
    rng = np.random.default_rng(seed)
    orders = (rng.permutation(len(winners)) for _ in range(n_perms))
    gained = _played(winners, losers, orders, n_perms, ks, n_models)
    by_k = {value: EloTraces(value, initial_rating + gained[:, :, lane]) for lane, value in enumerate(ks)}
    sweep = tuple(by_k[float(value)] for value in k_sweep)
    return PermutationTraces(by_k[float(k)], sweep)


def sampling_interval(
    a: ArrayLike,
    b: ArrayLike,
    a_won: ArrayLike,
    mean: Floats,
    *,
    clusters: ArrayLike | None = None,
    k: float = 16.0,
    n_resamples: int | None = None,
    n_shuffles: int = SHUFFLES,
    level: float = 0.95,
    seed: int,
) -> SamplingInterval:
    """An interval around the permutation Elo `mean` that says what other prompts could have given.

    The prompts (`clusters`: one code per decisive battle, negative for a battle that shares its prompt with no other;
    None when no battle does) are resampled with replacement, and each resample b is rated in a few shuffles. Their mean
    ē_b varies with the prompts and, by s_b²/n_shuffles, with the shuffles; the second part is taken off:
    mean ± t(P − 1)·√v with v = Var_b(ē_b) − mean(s_b²)/n_shuffles. P is the effective number of prompts, (Σn)²/Σn²
    for prompts of n battles. With very many battles v is so small beside the shuffles' part that the difference cannot
    be told from nothing; it then counts as its own Monte Carlo error, √(2/(n_resamples − 1))·Var_b(ē_b), so that no
    interval shrinks to a point. By default there are 200 resamples, and fewer of very many battles (`n_resampled`); the
    Monte Carlo error then grows, and intervals with it. A model that won all its battles, or lost all, has none (NaN):
    resampling such a record shows no variance, whatever other prompts would give.

    In simulated tournaments nominal 95 % intervals covered 93 to 95 %. The generator is its own, so the shuffles of
    `permutation_elo` do not depend on whether this was asked for.
    """
    n_models = len(mean)
    winners, losers = _decisive(a, b, a_won)
    n_resamples = n_resampled(len(winners)) if n_resamples is None else n_resamples
    starts, members = _members(clusters, len(winners))
    if len(starts) < 3:
        raise RatingError("A sampling interval needs battles on at least 2 prompts: what others would give is unknown.")
    orders = _resampled_orders(starts, members, n_resamples, n_shuffles, np.random.default_rng(seed))
    gained = _played(winners, losers, orders, n_resamples * n_shuffles, [float(k)], n_models)
    by_resample = gained.reshape(n_resamples, n_shuffles, n_models)
    shuffle_variance = by_resample.var(axis=1, ddof=1).mean(axis=0) / n_shuffles
    total = by_resample.mean(axis=1).var(axis=0, ddof=1)
    unresolved = math.sqrt(2.0 / (n_resamples - 1)) * total
    standard_error = np.sqrt(np.maximum(total - shuffle_variance, unresolved))
    sizes = np.diff(starts).astype(np.float64)
    degrees = max(float(sizes.sum() ** 2 / (sizes @ sizes)) - 1.0, 1.0)
    half = float(t_quantile(level, np.array(degrees))) * standard_error
    one_sided = (np.bincount(winners, minlength=n_models) == 0) | (np.bincount(losers, minlength=n_models) == 0)
    half[one_sided] = np.nan
    return SamplingInterval(standard_error, mean - half, mean + half)


def n_resampled(n_battles: int) -> int:
    """How many resamples of so many battles are drawn by default: 200, and of very many battles fewer, at least 40."""
    return min(RESAMPLES, max(FEW_RESAMPLES, RESAMPLED_BATTLES // (SHUFFLES * n_battles)))


def _decisive(a: ArrayLike, b: ArrayLike, a_won: ArrayLike) -> tuple[Codes, Codes]:
    """The winner and the loser of each battle."""
    first, second, won = codes(a), codes(b), np.asarray(a_won, dtype=np.bool_)
    if not len(won):
        raise NoBattles(
            "No decisive battle to rate: permutation Elo leaves ties out. Use Bradley–Terry, or add battles."
        )
    return np.where(won, first, second), np.where(won, second, first)


def check_k(k: float) -> None:
    """Refuse a K that is not a positive number, or so large that ratings would not settle."""
    if not (k > 0.0 and math.isfinite(k)):
        raise OptionError(f"K is {k}: it is the most a rating can move in one battle, a positive number.")
    if k > K_MAX:
        raise OptionError(f"K is {k:g}: above {K_MAX:g} Elo does not settle. Take a smaller K; 4 to 32 is usual.")


def _played(
    winners: Codes, losers: Codes, orders: Iterator[Ints], n_orders: int, ks: list[float], n_models: int
) -> Floats:
    for k in ks:
        check_k(k)
    gained = ratings_of_orders(winners, losers, orders, n_orders, np.array(ks), n_models)
    if not np.isfinite(gained).all():
        raise RatingError("Ratings ran more than 120,000 points apart, beyond the range of numbers. Take a smaller K.")
    return gained


def _members(clusters: ArrayLike | None, n_battles: int) -> tuple[Ints, Ints]:
    """Battles sorted by cluster, and where each cluster starts (one more start than clusters)."""
    if clusters is None:
        return np.arange(n_battles + 1), np.arange(n_battles)
    cluster = np.array(clusters, dtype=np.int64)
    alone = np.flatnonzero(cluster < 0)
    cluster[alone] = cluster.max() + 1 + np.arange(len(alone))
    members = np.argsort(cluster, kind="stable")
    firsts = np.flatnonzero(np.diff(cluster[members], prepend=cluster[members[0]] - 1))
    return np.append(firsts, n_battles), members


def _resampled_orders(
    starts: Ints, members: Ints, n_resamples: int, n_shuffles: int, rng: np.random.Generator
) -> Iterator[Ints]:
    """Battle numbers of each resample of the clusters, in `n_shuffles` random orders, one after the other."""
    n_clusters = len(starts) - 1
    sizes = np.diff(starts)
    for _ in range(n_resamples):
        drawn = rng.integers(n_clusters, size=n_clusters)
        length = sizes[drawn]
        within = np.arange(length.sum()) - np.repeat(np.cumsum(length) - length, length)
        battles = members[np.repeat(starts[drawn], length) + within]
        for _ in range(n_shuffles):
            yield rng.permutation(battles)

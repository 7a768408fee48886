"""The loops of Elo: battle after battle for one order, and many orders side by side for permutation Elo.

**Strengths instead of ratings.** With many orders the exponential is the whole cost. So the loops keep a model's
strength s = 10^(r / 400) instead of its rating r: the loser's expected score is then the plain ratio
u = s_loser / (s_winner + s_loser), and adding K·u to a rating multiplies its strength by exp(x), x = K·ln(10)/400 · u.
As x lies in the short range [0, K·ln(10)/400], a ratio of two short polynomials is exp(x) to the last digit or two
(the [5/5] Padé approximant; its error relative to x is below 1e-13 where x ≤ ½, that is K ≤ 86, and larger steps are
halved first and squared after). Ratings agree with the textbook loop to 1e-9, as the tests show.

Only + − × ÷ occur, which every machine rounds the same way. So `play_orders` (compiled, or plain) and `play_lanes`
(arrays, for installations without numba) give the same bits, not just close ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from tiltyard.stats.comparisons import Codes
from tiltyard.stats.compiled import compiled
from tiltyard.stats.scale import LOGITS_PER_POINT
from tiltyard.types import Floats

Orders = NDArray[np.int32]

RATING_PER_DECADE = 400.0
LONGEST_STEP = 0.5
"""Longest x = ln(strength factor) that goes through the polynomials as it is."""

LANE_BYTES = 128_000_000
"""Memory for the orders that `play_lanes` runs side by side; more lanes share the cost of each array operation."""

MAX_LANES, MIN_LANES, COMPILED_ROWS = 512, 32, 4
LANE_STEPS = 256
"""Battles whose array positions are looked up at once."""


@compiled
def rate_in_order(a: Codes, b: Codes, score_a: Floats, ratings: Floats, k: float, steepness: float) -> None:
    """Textbook Elo, in place."""
    for t in range(a.shape[0]):
        i, j = a[t], b[t]
        # Beyond 700 the expected score is 0 to the last digit, and the exponential would overflow.
        expected = 1.0 / (1.0 + math.exp(min(steepness * (ratings[j] - ratings[i]), 700.0)))
        change = k * (score_a[t] - expected)
        ratings[i] += change
        ratings[j] -= change


@compiled
def rate_with_baseline(
    a: Codes, b: Codes, score_a: Floats, ratings: Floats, k: float, steepness: float, baseline: float
) -> None:
    """Elo in place, where a score below 0 says that both failed: each then loses to a rival of rating `baseline`."""
    for t in range(a.shape[0]):
        i, j = a[t], b[t]
        if score_a[t] < 0.0:
            ratings[i] -= k / (1.0 + math.exp(min(steepness * (baseline - ratings[i]), 700.0)))
            ratings[j] -= k / (1.0 + math.exp(min(steepness * (baseline - ratings[j]), 700.0)))
        else:
            change = k * (score_a[t] - 1.0 / (1.0 + math.exp(min(steepness * (ratings[j] - ratings[i]), 700.0))))
            ratings[i] += change
            ratings[j] -= change


@compiled
def play_orders(
    winners: Codes, losers: Codes, orders: Orders, steps: Floats, halvings: Codes, strengths: Floats
) -> None:
    """Play each row of `orders` (battle numbers) with every K at once; `strengths` is (rows, models, K), in place."""
    for row in range(orders.shape[0]):
        for t in range(orders.shape[1]):
            i, j = winners[orders[row, t]], losers[orders[row, t]]
            for lane in range(steps.shape[0]):
                won, lost = strengths[row, i, lane], strengths[row, j, lane]
                x = lost / (won + lost) * steps[lane]
                y = x * x
                even = (30.0 * y + 3360.0) * y + 30240.0
                odd = ((y + 420.0) * y + 15120.0) * x
                factor = (even + odd) / (even - odd)
                for _ in range(halvings[lane]):
                    factor *= factor
                strengths[row, i, lane] = won * factor
                strengths[row, j, lane] = lost / factor


def play_lanes(
    winners: Codes, losers: Codes, orders: Orders, steps: Floats, halvings: Codes, strengths: Floats
) -> None:
    """The same as `play_orders`, one array operation at a time over all rows and all K: same operations, same bits."""
    rows, n_models, lanes = strengths.shape
    flat = strengths.reshape(rows * n_models, lanes)
    # Seen as one item per model, a row of K strengths is stored at once: a third off the whole run.
    items = flat.view(np.dtype((np.void, 8 * lanes)))[:, 0]
    both = np.empty((2, rows, lanes))
    both_items = both.view(items.dtype)[:, :, 0]
    won, lost = both
    x, y, even, odd, factor = (np.empty((rows, lanes)) for _ in range(5))
    full_steps = np.broadcast_to(steps, (rows, lanes)).copy()
    for positions in _positions(winners, losers, orders, n_models):
        np.take(flat, positions, axis=0, out=both, mode="clip")  # clip: with `out`, the default would copy twice
        np.divide(lost, np.add(won, lost, out=x), out=x)
        np.multiply(x, full_steps, out=x)
        np.multiply(x, x, out=y)
        np.add(np.multiply(y, 30.0, out=even), 3360.0, out=even)
        np.add(np.multiply(even, y, out=even), 30240.0, out=even)
        np.multiply(np.add(y, 420.0, out=odd), y, out=odd)
        np.multiply(np.add(odd, 15120.0, out=odd), x, out=odd)
        np.divide(np.add(even, odd, out=factor), np.subtract(even, odd, out=even), out=factor)
        for done in range(int(halvings.max())):
            np.multiply(factor, factor, out=factor, where=halvings > done)
        np.multiply(won, factor, out=won)
        np.divide(lost, factor, out=lost)
        items[positions] = both_items


def _positions(winners: Codes, losers: Codes, orders: Orders, n_models: int) -> Iterator[NDArray[np.intp]]:
    """For each battle of the orders: where the winners and the losers of all rows stand, as a (2, rows) array."""
    offsets = np.arange(len(orders), dtype=np.intp) * n_models
    for start in range(0, orders.shape[1], LANE_STEPS):
        part = orders[:, start : start + LANE_STEPS].T
        yield from np.stack([winners[part], losers[part]], axis=1) + offsets


def ratings_of_orders(
    winners: Codes, losers: Codes, orders: Iterator[NDArray[np.int64]], n_orders: int, ks: Floats, n_models: int
) -> Floats:
    """Ratings above the start, (n_orders, n_models, K), after playing the battles in each order.

    An order is an array of battle numbers. Orders are drawn as they are played, so memory does not grow with their
    number. Short ones are filled up with battle `n_battles`, between two models that do not exist.
    """
    n_battles = len(winners)
    winners = np.append(winners, np.int32(n_models))
    losers = np.append(losers, np.int32(n_models + 1))
    steps, halvings = _steps(ks)
    lanes = max(MIN_LANES, min(MAX_LANES, LANE_BYTES // (4 * n_battles)))
    plain_seconds = n_battles * (math.ceil(n_orders / lanes) * 20e-6 + n_orders * len(ks) * 25e-9)
    fast = play_orders.compiled(plain_seconds)
    play, rows = (play_lanes, lanes) if fast is None else (fast, COMPILED_ROWS)
    result = np.empty((n_orders, n_models, len(ks)))
    for start in range(0, n_orders, rows):
        block = _drawn(orders, min(rows, n_orders - start), n_battles)
        strengths = np.ones((len(block), n_models + 2, len(ks)))
        with np.errstate(all="ignore"):  # the caller checks that the result is finite
            play(winners, losers, block, steps, halvings, strengths)
            result[start : start + len(block)] = RATING_PER_DECADE * np.log10(strengths[:, :n_models])
    return result


def _drawn(orders: Iterator[NDArray[np.int64]], rows: int, n_battles: int) -> Orders:
    """The next orders as the rows of one block, filled up with the battle number `n_battles`."""
    block = np.full((rows, n_battles), n_battles, dtype=np.int32)
    for row in range(rows):
        order = next(orders)
        if len(order) > block.shape[1]:
            block = np.pad(block, ((0, 0), (0, len(order) - block.shape[1])), constant_values=n_battles)
        block[row, : len(order)] = order
    return block


def _steps(ks: Floats) -> tuple[Floats, Codes]:
    """The longest step ln(10)/400·K of each K, halved until it is short enough, and how often it was halved."""
    longest = ks * LOGITS_PER_POINT
    halvings = np.maximum(0, np.ceil(np.log2(longest / LONGEST_STEP))).astype(np.int32)
    return longest / 2.0**halvings, halvings

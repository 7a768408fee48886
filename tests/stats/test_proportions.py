"""Shares and kappa: published values, laws, and the coverage of their intervals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tiltyard.stats import Estimate, cohen_kappa, share, wilson, win_rate


def test_wilson_is_the_published_interval() -> None:
    """81 of 263: Newcombe (1998), table I, method 3: 0.2553 to 0.3662."""
    low, high = wilson(81, 263, 1.959964)
    assert (round(low, 4), round(high, 4)) == (0.2553, 0.3662)


@pytest.mark.parametrize(("hits", "n", "low", "high"), [(0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)])
def test_wilson_near_zero_is_the_published_interval_too(hits: int, n: int, low: float, high: float) -> None:
    found = wilson(hits, n, 1.959964)
    assert (round(found[0], 4), round(found[1], 4)) == (low, high)


@given(st.lists(st.booleans(), min_size=1, max_size=60))
def test_a_share_lies_in_its_interval_and_the_interval_between_0_and_1(hits: list[bool]) -> None:
    found = share(hits)
    assert found.value is not None
    assert found.low is not None
    assert found.high is not None
    assert 0 <= found.low <= found.value + 1e-12
    assert found.value - 1e-12 <= found.high <= 1


def test_clusters_of_one_change_nothing() -> None:
    hits = [True, False, True, True]
    assert share(hits, [1, 2, 3, 4]) == share(hits)


def test_copies_in_clusters_are_worth_one_row_each() -> None:
    """Ten rows copied ten times are ten rows: the interval is at least as wide as theirs, though n says 100."""
    hits = [True] * 6 + [False] * 4
    alone = share(hits)
    copied = share(hits * 10, list(range(10)) * 10)
    assert alone.low is not None
    assert copied.low is not None
    assert copied.value == alone.value
    assert copied.n == 100
    assert copied.low <= alone.low


@pytest.mark.parametrize(
    ("hits", "clusters", "worth"),
    [
        # All alike: as if 3, 2 and 1 rows were copies.
        ([True] * 6, "aaabbc", 6 * 6 / (9 + 4 + 1)),
        # Off by 1, -1 and 0: (2/6 · 3/2) / ¼ = twice as uncertain.
        ([True, True, False, False, True, False], "aabbcc", 3.0),
    ],
)
def test_rows_in_clusters_are_worth_fewer_rows_and_the_interval_is_theirs(
    hits: list[bool], clusters: str, worth: float
) -> None:
    found = share(hits, clusters)
    low, high = wilson(sum(hits) / 6 * worth, worth, float(stats.t.ppf(0.975, 2)))
    assert (found.low, found.high) == pytest.approx((low, high), rel=1e-6)


def test_one_cluster_leaves_the_interval_open() -> None:
    assert share([True, False, True], ["p"] * 3) == Estimate(pytest.approx(2 / 3), 0.0, 1.0, 3)


def test_no_rows_say_nothing() -> None:
    assert share([]) == Estimate(None, None, None, 0)
    assert cohen_kappa([], []).value is None


@pytest.mark.parametrize("prompts", [13, pytest.param(40, marks=pytest.mark.soak)])
def test_the_clustered_interval_covers_the_truth(prompts: int) -> None:
    """Each prompt has its own share, Beta(3, 2): ten rows each. 95 % intervals hold 0.6 at least 92.5 % of the time."""
    rng = np.random.default_rng(1)
    clusters = np.repeat(np.arange(prompts), 10).tolist()
    covered = plain = 0
    rounds = 1200
    for _ in range(rounds):
        hits = (rng.random(prompts * 10) < np.repeat(rng.beta(3, 2, prompts), 10)).tolist()
        found, naive = share(hits, clusters), share(hits)
        assert found.low is not None
        assert found.high is not None
        assert naive.low is not None
        assert naive.high is not None
        covered += found.low <= 0.6 <= found.high
        plain += naive.low <= 0.6 <= naive.high
    assert 0.925 <= covered / rounds <= 0.98
    assert plain / rounds < 0.85


def labels(table: list[list[int]]) -> tuple[list[int], list[int]]:
    pairs = [(i, j) for i, row in enumerate(table) for j, count in enumerate(row) for _ in range(count)]
    return [i for i, _ in pairs], [j for _, j in pairs]


def test_kappa_of_cohens_example() -> None:
    """20/5/10/15: 70 % agreement, half of it by chance: (0.7 − 0.5) / (1 − 0.5) = 0.4."""
    found = cohen_kappa(*labels([[20, 5], [10, 15]]))
    assert found.value == pytest.approx(0.4)
    assert found.n == 50


def test_its_standard_error_is_that_of_fleiss_cohen_and_everitt() -> None:
    """The variance of Fleiss, Cohen and Everitt (1969), term by term, on a three-word table."""
    table = np.array([[53, 5, 2], [11, 14, 5], [1, 6, 3]])
    n = table.sum()
    p = table / n
    row, column = p.sum(1), p.sum(0)
    observed, expected = np.trace(p), row @ column
    agreeing = sum(p[i, i] * ((1 - expected) - (row[i] + column[i]) * (1 - observed)) ** 2 for i in range(3))
    others = (1 - observed) ** 2 * sum(
        p[i, j] * (column[i] + row[j]) ** 2 for i in range(3) for j in range(3) if i != j
    )
    rest = (observed * expected - 2 * expected + observed) ** 2
    error = math.sqrt((agreeing + others - rest) / (n * (1 - expected) ** 4))
    found = cohen_kappa(*labels(table.tolist()))
    assert found.value is not None
    # Ours divides by n − 1 where theirs divides by n.
    half = 1.959964 * error * math.sqrt(n / (n - 1))
    assert found.high == pytest.approx(found.value + half, rel=1e-6)
    assert found.low is not None
    assert 0.0 < (found.value - found.low) / half - 1.0 < 0.1, "the low end is that with one more disagreement"


@pytest.mark.parametrize(("rows", "right"), [(20, 0.8), (100, 0.95)])
def test_the_low_end_of_kappa_holds_with_few_rows(rows: int, right: float) -> None:
    """Kappa is right². Without one more disagreement it held .883 and .893."""
    rng, held = np.random.default_rng(rows), []
    for _ in range(300):
        truth = rng.integers(0, 2, rows)[:, None]
        said = np.where(rng.random((rows, 2)) < right, truth, rng.integers(0, 2, (rows, 2)))
        one = cohen_kappa(said[:, 0].tolist(), said[:, 1].tolist())
        if one.low is not None and one.high is not None:
            held.append(one.low <= right**2 <= one.high)
    assert np.mean(held) >= 0.93


def test_perfect_agreement_is_one_and_its_interval_is_not_a_point() -> None:
    found = cohen_kappa([0, 1] * 10, [0, 1] * 10)
    assert found.value == found.high == 1.0
    assert found.low is not None
    assert 0.4 < found.low < 0.8


def test_one_word_from_both_says_nothing_about_agreement() -> None:
    assert cohen_kappa(["A"] * 5, ["A"] * 5).value is None


@given(st.lists(st.tuples(st.sampled_from("ABT"), st.sampled_from("ABT")), min_size=2, max_size=50))
def test_kappa_does_not_care_who_is_first(pairs: list[tuple[str, str]]) -> None:
    first, second = [a for a, _ in pairs], [b for _, b in pairs]
    one, other = cohen_kappa(first, second), cohen_kappa(second, first)
    assert (one.value is None) == (other.value is None)
    if one.value is not None:
        assert one.value == pytest.approx(other.value)
        assert one.low == pytest.approx(other.low)


def test_an_estimate_prints_itself() -> None:
    assert str(Estimate(0.5, 0.4, 0.6, 10)) == "0.500 [0.400, 0.600] (n=10)"
    assert str(Estimate(None, None, None, 0)) == "– (n=0)"
    assert str(Estimate(0.5, None, None, 3)) == "0.500 (n=3)"


def test_where_losses_come_together_a_win_rate_is_as_uncertain_as_without_each_cluster_in_turn() -> None:
    scores, clusters = np.ones(60), np.repeat(np.arange(20), 3)
    scores[:3] = 0.0
    mean = scores.mean()
    moved = [scores[clusters != left].mean() - mean for left in range(20)]
    error = math.sqrt(sum(one * one for one in moved)) / (mean * (1.0 - mean))
    low = 1.0 / (1.0 + math.exp(stats.t.ppf(0.975, 19) * error - math.log(mean / (1.0 - mean))))
    assert win_rate(scores, clusters).low == pytest.approx(low, rel=1e-9)


def test_where_hardly_anything_was_lost_a_win_rate_is_wilsons_with_a_won_and_a_lost_cluster_added() -> None:
    scores, clusters = np.ones(60), np.repeat(np.arange(20), 3)
    scores[0] = 0.5
    sums = np.append(np.bincount(clusters, scores), [3.0, 0.0])
    middle = sums.sum() / 66
    off = (sums - 3.0 * middle) ** 2
    worth = middle * (1.0 - middle) * 66**2 / (off[:20].sum() * 20 / 19 + off[20:].sum())
    low, _ = wilson(scores.mean() * worth, worth, float(stats.t.ppf(0.975, 19)))
    assert win_rate(scores, clusters).low == pytest.approx(low, rel=1e-9)

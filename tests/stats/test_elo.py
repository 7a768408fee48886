"""Elo in order and over shuffles, against the plain loop."""

from __future__ import annotations

import importlib.util
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sizes import size
from tiltyard.errors import NoBattles, OptionError, RatingError
from tiltyard.stats import elo, rate_with_baseline
from tiltyard.stats.elo import n_resampled, permutation_elo, sampling_interval, sequential_elo
from tiltyard.stats.elo_kernels import _steps, play_lanes, play_orders

MODES = ["never"] + ["always"] * (importlib.util.find_spec("numba") is not None)


@pytest.fixture(scope="module", autouse=True)
def cache(compiled_code):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TILTYARD_CACHE_DIR", str(compiled_code))
        yield


@pytest.fixture(params=MODES)
def mode(request, monkeypatch):
    monkeypatch.setenv("TILTYARD_COMPILE", request.param)
    return request.param


def plain_elo(a, b, score_a, n_models, k, initial=1400.0):
    """The textbook, line by line."""
    ratings = [initial] * n_models
    for i, j, score in zip(a, b, score_a, strict=True):
        expected = 1.0 / (1.0 + 10.0 ** ((ratings[j] - ratings[i]) / 400.0))
        ratings[i] += k * (score - expected)
        ratings[j] += k * ((1.0 - score) - (1.0 - expected))
    return ratings


def plain_permutation_elo(a, b, a_won, n_models, k, n_perms, seed):
    rng = np.random.default_rng(seed)
    traces = []
    for _ in range(n_perms):
        order = rng.permutation(len(a))
        traces.append(plain_elo(a[order].tolist(), b[order].tolist(), a_won[order] * 1.0, n_models, k))
    return np.array(traces)


def tournament(n_battles, n_models, seed=0, spread=0.8):
    rng = np.random.default_rng(seed)
    skill = rng.normal(0.0, spread, n_models)
    a = rng.integers(0, n_models, n_battles)
    b = (a + rng.integers(1, n_models, n_battles)) % n_models
    a_won = rng.random(n_battles) < 1.0 / (1.0 + np.exp(skill[b] - skill[a]))
    return a, b, a_won


# --- one order ------------------------------------------------------------------------------------------------------


def test_one_win_between_equals_moves_half_of_k():
    assert sequential_elo([0], [1], [1.0], n_models=2).tolist() == [1408.0, 1392.0]


def test_a_draw_between_equals_moves_nobody():
    assert sequential_elo([0, 1], [1, 0], [0.5, 0.5], n_models=2).tolist() == [1400.0, 1400.0]


def test_order_matters():
    forward = sequential_elo([0, 0], [1, 1], [1, 0], n_models=2)
    backward = sequential_elo([0, 0], [1, 1], [0, 1], n_models=2)
    # 8 points up, then 16·0.5230 = 8.37 down; and the other way round.
    assert forward[0] == pytest.approx(1399.6318, abs=1e-4)
    assert backward[0] == pytest.approx(1400.3682, abs=1e-4)


def test_sequential_elo_equals_the_plain_loop(mode):
    a, b, a_won = tournament(3000, 9)
    score = np.where(np.arange(3000) % 7 == 0, 0.5, a_won)
    expected = plain_elo(a.tolist(), b.tolist(), score.tolist(), 9, 24.0)
    assert sequential_elo(a, b, score, n_models=9, k=24.0) == pytest.approx(expected, abs=1e-9)


def test_plain_and_compiled_give_the_same_bits(monkeypatch):
    a, b, a_won = tournament(5000, 30)
    results = []
    for choice in MODES:
        monkeypatch.setenv("TILTYARD_COMPILE", choice)
        results.append(sequential_elo(a, b, a_won, n_models=30))
    assert np.array_equal(results[0], results[-1])


battle_logs = st.lists(
    st.tuples(st.integers(0, 4), st.integers(1, 4), st.sampled_from([0.0, 0.5, 1.0])), min_size=1, max_size=60
)


def columns(log):
    a = np.array([i for i, _, _ in log])
    return a, (a + [step for _, step, _ in log]) % 5, np.array([score for *_, score in log])


@given(battle_logs, st.floats(0.5, 200.0))
def test_elo_keeps_its_sum(log, k):
    a, b, score = columns(log)
    assert sequential_elo(a, b, score, n_models=5, k=k).sum() == pytest.approx(5 * 1400.0, abs=1e-8)


@given(battle_logs)
def test_writing_every_battle_from_the_other_side_changes_nothing(log):
    a, b, score = columns(log)
    there, back = sequential_elo(a, b, score, n_models=5), sequential_elo(b, a, 1.0 - score, n_models=5)
    assert there == pytest.approx(back, abs=1e-9)


@given(battle_logs, st.integers(0, 60))
def test_a_log_split_in_two_ends_in_the_same_bits(log, cut):
    a, b, score = columns(log)
    half = sequential_elo(a[:cut], b[:cut], score[:cut], n_models=5)
    continued = sequential_elo(a[cut:], b[cut:], score[cut:], n_models=5, initial_rating=half)
    assert np.array_equal(continued, sequential_elo(a, b, score, n_models=5))


def test_no_battle_leaves_the_start(mode):
    assert sequential_elo([], [], [], n_models=2).tolist() == [1400.0, 1400.0]


def test_a_gap_beyond_all_numbers_is_no_overflow(mode):
    ratings = sequential_elo([0, 1], [1, 0], [0, 1], n_models=2, initial_rating=np.array([1e6, 0.0]))
    assert ratings.tolist() == [1e6 - 32.0, 32.0]  # two upsets, each worth the whole K


# --- many orders ----------------------------------------------------------------------------------------------------


def test_permutation_elo_equals_the_plain_loop_at_every_k(mode):
    a, b, a_won = tournament(500, 8)
    result = permutation_elo(a, b, a_won, n_models=8, n_perms=20, seed=7)
    assert [run.k for run in result.sweep] == [1.0, 4.0, 8.0, 16.0, 32.0]
    for run in result.sweep:
        expected = plain_permutation_elo(a, b, a_won, 8, run.k, 20, 7)
        assert np.abs(run.ratings - expected).max() < 1e-9


@pytest.mark.parametrize("k", [0.01, 86.0, 87.0, 600.0])
def test_a_tiny_or_huge_k_equals_the_plain_loop_too(mode, k):
    a, b, a_won = tournament(400, 6)
    result = permutation_elo(a, b, a_won, n_models=6, k=k, k_sweep=(), n_perms=5)
    expected = plain_permutation_elo(a, b, a_won, 6, k, 5, 0)
    assert np.abs(result.default.ratings - expected).max() < 1e-9


def test_long_lopsided_runs_do_not_drift(mode):
    a, b, a_won = tournament(20_000, 3, spread=3.0)
    result = permutation_elo(a, b, a_won, n_models=3, n_perms=2, k_sweep=(1, 32))
    for run in (result.default, *result.sweep):
        assert np.abs(run.ratings - plain_permutation_elo(a, b, a_won, 3, run.k, 2, 0)).max() < 1e-9


def test_lanes_compiled_and_plain_kernels_give_the_same_bits(monkeypatch):
    a, b, a_won = tournament(120, 5)
    winners, losers = np.where(a_won, a, b).astype(np.int32), np.where(a_won, b, a).astype(np.int32)
    rng = np.random.default_rng(3)
    orders = np.array([rng.permutation(120) for _ in range(6)], dtype=np.int32)
    steps, halvings = _steps(np.array([1.0, 16.0, 32.0, 500.0]))
    monkeypatch.setenv("TILTYARD_COMPILE", MODES[-1])
    results = []
    for play in (play_lanes, play_orders.plain, play_orders.run(0.0)):
        strengths = np.ones((6, 5, 4))
        play(winners, losers, orders, steps, halvings, strengths)
        results.append(strengths)
    assert np.array_equal(results[0], results[1])
    assert np.array_equal(results[0], results[2])


def test_whole_runs_give_the_same_bits_with_and_without_numba(monkeypatch):
    a, b, a_won = tournament(200, 12)
    clusters = np.arange(200) // 10
    results = []
    for choice in MODES:
        monkeypatch.setenv("TILTYARD_COMPILE", choice)
        run = permutation_elo(a, b, a_won, n_models=12, n_perms=530)  # more than one block of lanes
        interval = sampling_interval(a, b, a_won, run.default.mean, clusters=clusters, n_resamples=20, seed=0)
        results.append(np.vstack([*(each.ratings for each in run.sweep), interval.low]))
    assert np.array_equal(results[0], results[-1])


def test_more_shuffles_begin_with_the_same_ones():
    a, b, a_won = tournament(60, 4)
    few = permutation_elo(a, b, a_won, n_models=4, n_perms=10)
    many = permutation_elo(a, b, a_won, n_models=4, n_perms=25)
    assert np.array_equal(few.default.ratings, many.default.ratings[:10])


def test_a_k_of_the_sweep_is_the_run_with_that_k_as_default():
    a, b, a_won = tournament(60, 4)
    swept = permutation_elo(a, b, a_won, n_models=4, n_perms=10, k=16, k_sweep=(8, 500)).sweep[0]
    alone = permutation_elo(a, b, a_won, n_models=4, n_perms=10, k=8, k_sweep=()).default
    assert swept.k == alone.k == 8.0
    assert np.array_equal(swept.ratings, alone.ratings)


def test_the_default_k_is_rated_even_when_the_sweep_leaves_it_out():
    a, b, a_won = tournament(30, 3)
    result = permutation_elo(a, b, a_won, n_models=3, n_perms=5, k=10, k_sweep=(4,))
    assert result.default.k == 10.0
    assert [run.k for run in result.sweep] == [4.0]
    assert result.default.ratings.shape == (5, 3)


def test_mean_sem_and_interval_are_the_stated_formulas():
    a, b, a_won = tournament(80, 3)
    run = permutation_elo(a, b, a_won, n_models=3, n_perms=50).default
    column = run.ratings[:, 1].tolist()
    mean = math.fsum(column) / 50
    sem = math.sqrt(math.fsum((x - mean) ** 2 for x in column) / 49) / math.sqrt(50)
    assert (run.mean[1], run.sem[1]) == pytest.approx((mean, sem))
    assert (run.ci95_low[1], run.ci95_high[1]) == pytest.approx((mean - 1.96 * sem, mean + 1.96 * sem))


@given(battle_logs)
def test_permutation_elo_keeps_its_sum(log):
    a, b, score = columns(log)
    result = permutation_elo(a, b, score > 0.5, n_models=5, n_perms=3)
    for run in result.sweep:
        assert run.ratings.sum(axis=1) == pytest.approx(np.full(3, 7000.0), abs=1e-8)


def test_one_battle_has_one_order_so_it_has_no_shuffle_error():
    run = permutation_elo([0], [1], [True], n_models=3, n_perms=4).default
    assert run.mean == pytest.approx([1408.0, 1392.0, 1400.0])
    assert np.isnan([run.sem, run.ci95_low, run.ci95_high]).all()


def test_one_rating_out_of_range_is_an_error_even_if_all_others_are_numbers(monkeypatch):
    gained = np.zeros((2, 3, 1))
    gained[1, 2, 0] = math.inf
    monkeypatch.setattr(elo, "ratings_of_orders", lambda *arguments: gained)
    with pytest.raises(RatingError, match="more than 120,000 points apart"):
        permutation_elo([0, 1], [1, 2], [True, False], n_models=3, n_perms=2, k_sweep=[16.0])


def test_where_both_fail_each_loses_to_the_baseline():
    """K 16, scale 400: at the baseline a model loses 16/2 = 8; 400 above it 16·10/11 = 14.5; far below, nothing."""
    ratings = np.array([1400.0, 1800.0, -1e6])
    steepness = math.log(10.0) / 400.0
    rows = np.array([0, 2], dtype=np.int32), np.array([1, 0], dtype=np.int32), np.array([-1.0, -1.0])
    rate_with_baseline.plain(*rows, ratings, 16.0, steepness, 1400.0)
    after_first = 1400.0 - 8.0
    after_both = after_first - 16.0 / (1.0 + 10.0 ** ((1400.0 - after_first) / 400.0))
    assert ratings == pytest.approx([after_both, 1800.0 - 160.0 / 11.0, -1e6])
    lost = np.array([1400.0, 1400.0])  # a score of 0 is a loss to the other, and no failure of both
    rate_with_baseline.plain(
        np.array([0], np.int32), np.array([1], np.int32), np.array([0.0]), lost, 16.0, steepness, 1400.0
    )
    assert lost == pytest.approx([1392.0, 1408.0])


# --- the sampling interval ------------------------------------------------------------------------------------------


def test_the_sampling_interval_is_the_stated_formula():
    a, b, a_won = tournament(40, 3)
    clusters = np.repeat(np.arange(8), 5)
    mean = np.full(3, 1400.0)
    interval = sampling_interval(a, b, a_won, mean, clusters=clusters, n_resamples=12, level=0.9, seed=5)
    rng = np.random.default_rng(5)
    means, variances = [], []
    for _ in range(12):
        rows = np.concatenate([np.flatnonzero(clusters == c) for c in rng.integers(8, size=8)])
        shuffled = [rng.permutation(rows) for _ in range(4)]
        ends = np.array([plain_elo(a[o].tolist(), b[o].tolist(), a_won[o] * 1.0, 3, 16.0) for o in shuffled])
        means.append(ends.mean(axis=0))
        variances.append(ends.var(axis=0, ddof=1))
    total = np.var(means, axis=0, ddof=1)
    error = np.sqrt(np.maximum(total - np.mean(variances, axis=0) / 4, math.sqrt(2 / 11) * total))
    assert interval.standard_error == pytest.approx(error, abs=1e-9)
    assert interval.high == pytest.approx(1400.0 + 1.894579 * error, abs=1e-4)  # t(7), 95th percentile
    assert interval.low == pytest.approx(1400.0 - 1.894579 * error, abs=1e-4)


def test_with_very_many_battles_no_interval_shrinks_to_a_point():
    """Here the prompts' part is some hundredth of the shuffles': a difference of the two is as often negative."""
    a, b, a_won = tournament(8_000, 8)
    interval = sampling_interval(a, b, a_won, np.full(8, 1400.0), n_resamples=40, seed=0)
    assert interval.standard_error.min() > 0.5
    assert interval.standard_error.max() < 20.0


def test_a_model_that_only_won_or_only_lost_has_no_sampling_interval():
    a, b, a_won = [0] * 5 + [1, 2], [1] * 5 + [2, 1], [True] * 7
    interval = sampling_interval(a, b, a_won, np.full(3, 1400.0), seed=0)
    assert np.isnan(interval.low[0])
    assert np.isnan(interval.high[0])
    assert np.isfinite(interval.low[1:]).all()


def test_battles_without_a_shared_prompt_are_their_own_clusters():
    a, b, a_won = tournament(30, 3)
    mean = np.full(3, 1400.0)
    alone = sampling_interval(a, b, a_won, mean, seed=0)
    marked = sampling_interval(a, b, a_won, mean, clusters=np.full(30, -1), seed=0)
    assert np.array_equal(alone.low, marked.low)


def test_ten_copies_of_each_battle_are_no_new_evidence_when_clustered():
    a, b, a_won = (np.repeat(column, 10) for column in tournament(60, 3))
    mean = permutation_elo(a, b, a_won, n_models=3, n_perms=20).default.mean
    by_prompt = sampling_interval(a, b, a_won, mean, clusters=np.repeat(np.arange(60), 10), seed=0)
    by_row = sampling_interval(a, b, a_won, mean, seed=0)
    assert (by_prompt.standard_error > 2.0 * by_row.standard_error).all()  # √10 = 3.2 before Elo forgets


def judged_tournament(rng, n_prompts, skill):
    """Every pair on every prompt; a model's skill differs from prompt to prompt, so battles on one prompt depend."""
    first, second = np.triu_indices(len(skill), 1)
    on_prompt = skill + rng.normal(0.0, 1.0, (n_prompts, len(skill)))
    gap = on_prompt[:, first] - on_prompt[:, second]
    a_won = rng.random(gap.shape) < 1.0 / (1.0 + np.exp(-gap))
    a, b = np.tile(first, n_prompts), np.tile(second, n_prompts)
    return a, b, a_won.ravel(), np.repeat(np.arange(n_prompts), len(first))


def test_the_sampling_interval_covers_other_prompts_and_the_sem_does_not(monkeypatch):
    monkeypatch.setenv("TILTYARD_COMPILE", MODES[-1])
    rng = np.random.default_rng(11)
    skill = np.linspace(-0.8, 0.8, 5)
    means, halves, shuffle_halves = [], [], []
    runs = size(12, soak=160)
    for seed in range(runs):
        a, b, a_won, clusters = judged_tournament(rng, 40, skill)
        run = permutation_elo(a, b, a_won, n_models=5, k_sweep=(), n_perms=100, seed=seed).default
        interval = sampling_interval(a, b, a_won, run.mean, clusters=clusters, seed=seed)
        means.append(run.mean)
        halves.append(interval.high - run.mean)
        shuffle_halves.append(1.96 * run.sem)
    misses = np.abs(means - np.mean(means, axis=0))  # truth: the mean over tournaments with other prompts
    error = math.sqrt(0.94 * 0.06 / (4 * runs))  # of five models, whose ratings have one sum, four are free
    assert 0.92 - 2 * error < (misses <= halves).mean() < 0.95 + 2 * error
    assert (misses <= shuffle_halves).mean() < 0.30


# --- errors ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"a": [], "b": [], "a_won": []}, NoBattles, "No decisive battle"),
        ({"k": 0.0}, OptionError, "K is 0"),
        ({"k_sweep": (16, math.nan)}, OptionError, "K is nan"),
        ({"k_sweep": (4, 700)}, OptionError, "K is 700: above 600 Elo does not settle"),
    ],
)
def test_what_cannot_be_rated_says_why(change, error, message):
    arguments = {"a": [0, 0], "b": [1, 2], "a_won": [True, False], "n_models": 3, "n_perms": 5} | change
    with pytest.raises(error, match=message):
        permutation_elo(arguments.pop("a"), arguments.pop("b"), arguments.pop("a_won"), **arguments)


def test_one_prompt_cannot_tell_of_others():
    with pytest.raises(RatingError, match="at least 2 prompts"):
        sampling_interval([0, 0], [1, 1], [True, False], np.full(2, 1400.0), clusters=[3, 3], seed=0)


def test_very_many_battles_are_resampled_less_often():
    assert [n_resampled(n) for n in (10, 100_000, 200_000, 400_000, 10_000_000)] == [200, 200, 125, 62, 40]

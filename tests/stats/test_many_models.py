"""Standard errors from random signs: they agree with the whole covariance, hold the truth, and need little memory."""

from __future__ import annotations

import resource
import time

import numpy as np
import pytest
from scipy.sparse import csc_array

from oracles.simulation import arena_battles, results, table_of
from tests.records import replace
from tiltyard.analysis.boards import BradleyTerry
from tiltyard.analysis.boards.bradley_terry import zero_weights
from tiltyard.data.battles import BattleTable, Codes
from tiltyard.stats import (
    POINTS_PER_LOGIT,
    TIE_MODELS,
    TIED,
    BattleDerivatives,
    Comparisons,
    DrawnCovariance,
    count_pairs,
    drawn_sandwich,
    fit_bounded,
    intervals,
    places_of_intervals,
    rank_intervals,
    sandwich,
)
from tiltyard.stats.intervals import Draws


def sparse_field(models: int, per_model: int, seed: int, *, prompts: int = 0, voters: int = 0, share: float = 0.0):
    """Few battles a model, some models in more than others; one voter may cast a share of the votes."""
    rng = np.random.default_rng(seed)
    strength = rng.normal(0.0, 1.0, models)
    n = models * per_model // 2
    a, b = arena_battles(strength, n, rng, rng.permutation(np.arange(1.0, models + 1) ** -0.3))
    clusters = []
    if prompts:
        clusters.append(rng.integers(0, prompts, n))
    if voters:
        voter = rng.integers(0, voters, n)
        voter[rng.random(n) < share] = 0
        clusters.append(voter)
    result = results(strength[a] - strength[b], rng).astype(np.int8)
    return strength, Comparisons(models, a, b, result, np.ones(n), clusters=tuple(clusters))


def fitted(rows: Comparisons, ties: str = "davidson"):
    counted = count_pairs(rows)
    return fit_bounded(counted.cells, TIE_MODELS[ties])[0], counted


@pytest.mark.parametrize(
    "world",
    [
        {"models": 500, "per_model": 30, "seed": 1},
        pytest.param({"models": 500, "per_model": 30, "seed": 2, "prompts": 1500}, marks=pytest.mark.soak),
        {"models": 500, "per_model": 40, "seed": 3, "prompts": 1500, "voters": 800},
        {"models": 300, "per_model": 60, "seed": 4, "voters": 600, "share": 0.25},
        pytest.param({"models": 2500, "per_model": 40, "seed": 5, "prompts": 12000}, marks=pytest.mark.soak),
        pytest.param(
            {"models": 1500, "per_model": 20, "seed": 6, "prompts": 4000, "voters": 900}, marks=pytest.mark.soak
        ),
    ],
    ids=["rows", "prompts", "two ways", "one large voter", "2,500 models", "1,500 models, two ways"],
)
def test_drawn_standard_errors_are_those_of_the_whole_covariance(world):
    _, rows = sparse_field(**world)
    fit, counted = fitted(rows)
    whole, drawn = sandwich(fit, rows, counted), drawn_sandwich(fit, rows, counted, seed=0)
    np.testing.assert_allclose(drawn.degrees, whole.degrees)
    for anchor in (None, 7):
        compare_errors(whole, drawn, zero_weights(whole.known, anchor))


def compare_errors(whole, drawn, zero):
    """Errors from draws beside those of the whole covariance, as seen from one zero."""
    expected, found = np.sqrt(whole.variances(zero)), np.sqrt(drawn.variances(zero))
    there = expected > 0
    ratio = found[there] / expected[there]
    # Beyond 2 logits (350 points) a model lost nothing, or once: there the diagonal says more leverage than there is.
    certain = expected[there] < 2.0
    assert certain.mean() > 0.98
    assert np.sqrt(np.mean((ratio[certain] - 1.0) ** 2)) <= 0.04
    assert ratio.min() >= 0.85
    assert ratio.mean() >= 0.995  # one Monte-Carlo error is added: chance does not make intervals narrow
    assert (found[~there] == 0.0).all()
    few = np.sqrt(whole.fisher_variances(zero))
    ratio = np.sqrt(drawn.fisher_variances(zero))[few > 0] / few[few > 0]
    assert len(ratio) == 0 or abs(ratio.mean() - 1.0) < 0.04


def test_without_ties_intervals_do_not_depend_on_how_ties_would_be_read():
    """Half of all battles are one voter's, who has nearly all of the leverage of some models."""
    _, rows = sparse_field(60, 30, 2, voters=100, share=0.5)
    rows = rows.take(np.flatnonzero(rows.result != TIED))
    zero = np.full(60, 1 / 60)
    half, davidson, rao_kupper = (
        drawn_sandwich(fit, rows, counted, seed=0).variances(zero)
        for fit, counted in (fitted(rows, ties) for ties in ("half", "davidson", "rao-kupper"))
    )
    np.testing.assert_allclose(davidson, half, rtol=1e-6)
    np.testing.assert_allclose(rao_kupper, half, rtol=1e-6)


def test_what_too_few_draws_leave_open_of_two_clusterings_and_of_their_rows_widens_the_interval():
    def draws(*moves: float) -> Draws:
        there = np.array([moves, np.zeros(len(moves))], dtype=np.float32)
        return Draws(there, np.zeros_like(there), csc_array((2, 1)), np.ones(2))

    prompts, voters, rows = draws(3.0, 3.0, 5.0, 5.0), draws(4.0, 4.0, 6.0, 6.0), draws(1.0, 1.0, 3.0, 3.0)
    covariance = DrawnCovariance((prompts, voters), rows, rows, np.full(2, 9.0), np.zeros(2, bool))
    errors = [np.std(squares, ddof=1) / 2.0 for squares in ([9, 9, 25, 25], [16, 16, 36, 36], [1, 1, 9, 9])]
    (found, anchor) = covariance.variances(np.array([0.0, 1.0]))
    assert found == pytest.approx(17.0 + 26.0 - 5.0 + np.linalg.norm(errors))
    assert anchor == 0.0


def test_the_same_seed_gives_the_same_bits_and_another_one_other_draws():
    _, rows = sparse_field(120, 20, 8, prompts=200)
    fit, counted = fitted(rows)
    zero = np.full(120, 1 / 120)
    one, again, other = (drawn_sandwich(fit, rows, counted, seed=seed).variances(zero) for seed in (3, 3, 4))
    assert one.tobytes() == again.tobytes()
    assert not np.array_equal(one, other)


def test_slot_soft_outcomes_and_half_ties_are_drawn_too():
    _, rows = sparse_field(200, 40, 9, prompts=800)
    rng = np.random.default_rng(1)
    soft = Comparisons(
        200, rows.first, rows.second, rows.result, rows.weight, rng.random(len(rows)), None, rows.clusters
    )
    for given, slot, ties in ((rows, True, "davidson"), (soft, False, "half"), (rows, True, "rao-kupper")):
        counted = count_pairs(given, slot=slot)
        fit = fit_bounded(counted.cells, TIE_MODELS[ties])[0]
        whole, drawn = sandwich(fit, given, counted), drawn_sandwich(fit, given, counted, seed=0)
        zero = np.full(200, 1 / 200)
        ratio = np.sqrt(drawn.variances(zero) / whole.variances(zero))
        assert np.sqrt(np.mean((ratio - 1.0) ** 2)) <= 0.04
        if slot:
            assert drawn.variance(200) == pytest.approx(whole.variance(200), rel=0.6)


def test_a_covariate_adds_its_own_variance_to_what_a_battle_is_known_by():
    _, rows = sparse_field(40, 30, 2)
    counted = count_pairs(rows, slot=True)
    fit = fit_bounded(counted.cells, TIE_MODELS["davidson"])[0]
    diagonal, none = np.full(fit.n_parameters, 0.01), np.zeros(len(counted.cells))
    more = diagonal.copy()
    more[40] = 0.03
    one, other = (BattleDerivatives.by_diagonal(fit, given, none) for given in (diagonal, more))
    design = counted.cells.design[:, 0]
    assert np.abs(design).max() > 0
    np.testing.assert_allclose(other.leverage - one.leverage, one.bend[:, 0] * 0.02 * design**2, atol=1e-12)


@pytest.mark.parametrize("groups", [1, 3])
def test_what_is_drawn_for_the_model_itself_has_the_information_as_its_covariance(groups):
    _, rows = sparse_field(40, 30, 2)
    fit = fit_bounded(count_pairs(replace(rows, group=np.arange(len(rows)) % groups)).cells, TIE_MODELS["davidson"])[0]
    root = intervals._matrix(fit, *intervals._root(fit, fit.curvature()))
    np.testing.assert_allclose((root @ root.T).toarray(), fit.information(), atol=1e-9)


def test_every_tie_parameter_has_its_own_part_in_what_a_battle_is_known_by():
    _, rows = sparse_field(40, 30, 2)
    counted = count_pairs(replace(rows, group=np.arange(len(rows)) % 3))
    fit = fit_bounded(counted.cells, TIE_MODELS["davidson"])[0]
    assert fit.n_parameters == 43
    diagonal, none = np.full(43, 0.01), np.zeros(len(fit.cells))
    before = BattleDerivatives.by_diagonal(fit, diagonal, none)
    for group in range(3):
        more = diagonal.copy()
        more[40 + group] = 0.03
        added = BattleDerivatives.by_diagonal(fit, more, none).leverage - before.leverage
        np.testing.assert_allclose(added, 0.02 * before.bend[:, 2] * (fit.cells.group == group), atol=1e-12)


def test_a_battle_that_alone_joins_two_groups_keeps_their_difference_uncertain():
    """The diagonal of the information does not know that nothing else joins them; the draws do."""
    rng = np.random.default_rng(4)
    a = rng.integers(0, 60, 4000)
    b = (a // 30) * 30 + rng.integers(0, 30, 4000)
    a, b = np.append(a[a != b], [3, 40]), np.append(b[a != b], [40, 3])
    result = rng.integers(0, 2, len(a)).astype(np.int8)
    result[-2:] = 0
    prompts = np.append(rng.integers(0, 900, len(a) - 2), [900, 901])
    rows = Comparisons(60, a, b, result, np.ones(len(a)), clusters=(prompts,))
    fit, counted = fitted(rows, "half")
    anchor = np.eye(60)[0]
    whole, drawn = (
        np.sqrt(f.variances(anchor)[45])
        for f in (sandwich(fit, rows, counted), drawn_sandwich(fit, rows, counted, seed=0))
    )
    assert drawn > 0.6 * whole
    assert whole > 2.0


def test_places_by_sorting_are_places_by_comparing_every_two_intervals():
    rng = np.random.default_rng(5)
    for _ in range(20):
        middle, half = rng.normal(size=30), rng.exponential(0.4, 30)
        half[rng.random(30) < 0.1] = np.inf
        found = places_of_intervals(middle - half, middle + half)
        plain = rank_intervals(middle, half[:, None] + half[None, :])
        np.testing.assert_array_equal(found.low, plain.low)
        np.testing.assert_array_equal(found.high, plain.high)


def board_of_many(monkeypatch, rng, models: int = 150, **options):
    """A board whose intervals are drawn though there are few models, with its true strengths in points."""
    monkeypatch.setattr(intervals, "MANY_MODELS", 100)
    monkeypatch.setattr("tiltyard.analysis.boards.bradley_terry.MANY_MODELS", 100)
    strength = rng.normal(0.0, 0.8, models)
    n = models * 20
    a, b = arena_battles(strength, n, rng)
    prompt = rng.integers(0, n // 4, n)
    effect = rng.normal(0.0, 0.7, (n // 4, models))
    result = results(strength[a] - strength[b] + effect[prompt, a] - effect[prompt, b], rng)
    return strength, BradleyTerry(**options).fit(table_of(models, a, b, result, prompt))


def test_drawn_intervals_hold_the_truth_and_no_place_is_wrong(monkeypatch):
    rng = np.random.default_rng(11)
    held, wrong = [], 0
    for _ in range(4):
        strength, board = board_of_many(monkeypatch, rng)
        scale = POINTS_PER_LOGIT / np.sqrt(1 + 2 * 0.7**2 / 1.7**2)  # prompts that differ compress a logistic so
        truth = 1000.0 + scale * (strength - strength.mean())
        at = {f"m{code:02d}": code for code in range(len(strength))}
        rank = np.empty(len(truth), dtype=int)
        rank[np.argsort(-truth)] = np.arange(1, len(truth) + 1)
        for entry in board:
            if entry.ci_low is not None and entry.ci_high is not None:
                held.append(entry.ci_low <= truth[at[entry.model]] <= entry.ci_high)
            wrong += not entry.rank_low <= rank[at[entry.model]] <= entry.rank_high
        assert any("standard errors from 192 random draws" in remark for remark in board.remarks)
        assert board.settings.interval.draws == 192
        assert board.arrays["standard_errors"].shape == (150,)
        assert "difference_errors" not in board.arrays
    assert 0.93 <= np.mean(held) <= 0.985
    assert wrong == 0


def test_a_bootstrap_keeps_the_whole_covariance(monkeypatch):
    _, board = board_of_many(monkeypatch, np.random.default_rng(12), 110, ci="bootstrap", rounds=20)
    assert not board.settings.interval.draws
    assert board.arrays["difference_errors"].shape == (110, 110)


@pytest.mark.soak
def test_34_000_models_take_a_minute_or_so_and_less_than_two_gigabytes():
    models, n = 34_000, 1_000_000
    rng = np.random.default_rng(1)
    strength = rng.normal(0.0, 1.0, models)
    a, b = arena_battles(strength, n, rng, rng.permutation(np.arange(1.0, models + 1) ** -0.5))
    prompt = Codes(rng.integers(0, n // 4, n).astype(np.int32), tuple(map(str, range(n // 4))))
    table = BattleTable(
        tuple(f"m{code:05d}" for code in range(models)), a.astype(np.int32), b.astype(np.int32),
        results(strength[a] - strength[b], rng).astype(np.int8), np.ones(n, dtype=np.int8), np.ones(n),
        columns={"question_id": prompt},
    )  # fmt: skip
    before = time.perf_counter()
    board = BradleyTerry(only_connected=True).fit(table)
    seconds = time.perf_counter() - before
    gigabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    truth = 1000.0 + POINTS_PER_LOGIT * (strength - strength.mean())
    held = [
        entry.ci_low <= truth[int(entry.model[1:])] <= entry.ci_high
        for entry in board
        if entry.ci_low and entry.ci_high
    ]
    assert 0.94 <= np.mean(held) <= 0.985
    assert seconds < 180
    assert gigabytes < 2.5

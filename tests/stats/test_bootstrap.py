"""The vectorised Bayesian bootstrap: each round is a fit, the rounds spread as a plain row-by-row bootstrap does."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from oracles import plain_bradley_terry as plain
from oracles.plain_bradley_terry import FIRST, SECOND, TIE, Row, as_comparisons, some_rows
from tests.sizes import size
from tiltyard.stats import TIE_MODELS, bootstrap, bootstrap_strengths, count_pairs, fit_bounded, sandwich
from tiltyard.stats.bootstrap import draw_counts, resampling_units
from tiltyard.stats.bradley_terry import fit


def prepared(rows, models, ties="davidson", *, slot=False):
    table = as_comparisons(rows, models, slot=slot)
    counted = count_pairs(table, slot=slot)
    result, _ = fit_bounded(counted.cells, TIE_MODELS[ties])
    return result, table, counted


def rounds_of(rows, models, ties="davidson", *, rounds=64, seed=0, slot=False):
    return bootstrap_strengths(*prepared(rows, models, ties, slot=slot), rounds=rounds, seed=seed)


def test_the_same_seed_gives_the_same_bits_and_another_seed_others():
    rows = some_rows(1, prompts=12)
    assert (rounds_of(rows, 4, seed=5) == rounds_of(rows, 4, seed=5)).all()
    assert (rounds_of(rows, 4, seed=5) != rounds_of(rows, 4, seed=6)).any()


def test_more_rounds_go_on_where_fewer_ended():
    rows = some_rows(1, prompts=12)
    few, many = rounds_of(rows, 4, rounds=32), rounds_of(rows, 4, rounds=48)
    np.testing.assert_allclose(many[:32], few, rtol=1e-12)  # but for rounding: solved side by side with others


WORLDS: list[dict[str, Any]] = [
    {},
    {"prompts": 9, "lone_share": 0.3},
    {"groups": 2, "n": 90},
    {"slot": True, "covariates": 1},
]


@pytest.mark.parametrize(
    ("ties", "options"),
    [
        pytest.param(ties, options, marks=[] if at == number % len(TIE_MODELS) else [pytest.mark.soak])
        for number, options in enumerate(WORLDS)
        for at, ties in enumerate(TIE_MODELS)
    ],
)
def test_every_round_is_the_fit_of_its_own_counts(ties, options):
    slot = options.get("slot", False)
    result, table, counted = prepared(some_rows(3, **options), 4, ties, slot=slot)
    got = bootstrap_strengths(result, table, counted, rounds=bootstrap.BLOCK_ROUNDS, seed=9)
    units = resampling_units(result, table, counted)
    child = np.random.SeedSequence(9).spawn(1)[0]
    counts = draw_counts(units, bootstrap.BLOCK_ROUNDS, np.random.default_rng(child))
    for at in range(bootstrap.BLOCK_ROUNDS):
        alone = fit(result.cells.with_counts(counts[:, :, at]), TIE_MODELS[ties])
        np.testing.assert_allclose(got[at], alone.parameters.strength, atol=3.0 * bootstrap.TOLERANCE)  # of a last step


def test_rounds_of_very_many_pairs_are_solved_one_by_one(monkeypatch):
    monkeypatch.setattr(bootstrap, "BLOCK_VALUES", 1)
    monkeypatch.setattr(bootstrap, "VALUES_AT_ONCE", 1)
    result, table, counted = prepared(some_rows(3), 4)
    got = bootstrap_strengths(result, table, counted, rounds=3, seed=9)
    assert len(got) == 3
    units = resampling_units(result, table, counted)
    for strength, child in zip(got, np.random.SeedSequence(9).spawn(3), strict=True):
        counts = draw_counts(units, 1, np.random.default_rng(child))[:, :, 0]
        alone = fit(result.cells.with_counts(counts), TIE_MODELS["davidson"])
        np.testing.assert_allclose(strength, alone.parameters.strength, atol=bootstrap.TOLERANCE)


def test_a_newcomer_with_few_battles_needs_no_fit_for_every_round(monkeypatch):
    # The newcomer's few battles weigh differently in each round. Bent steps settle all of them, as a fit of each does.
    rows = [*some_rows(23, n=200), *[Row(4, at % 4, FIRST if at else SECOND) for at in range(5)]]
    result, table, counted = prepared(rows, 5)
    alone = []
    monkeypatch.setattr(bootstrap, "fit", lambda *one, **start: alone.append(one) or fit(*one, **start))
    settled = bootstrap_strengths(result, table, counted, rounds=200, seed=0)
    assert not alone
    monkeypatch.setattr(bootstrap, "TOLERANCE", 0.0)
    fitted = bootstrap_strengths(result, table, counted, rounds=200, seed=0)
    assert len(alone) == 200
    np.testing.assert_allclose(settled, fitted, atol=1e-7)


def test_soft_outcomes_are_resampled_row_by_row():
    rows = some_rows(7, soft_share=0.6)
    result, table, counted = prepared(rows, 4, "half")
    units = resampling_units(result, table, counted)
    assert sum(part.shape[1] for part in units.shared) == sum(row.share is not None for row in rows)
    total = units.alone.reshape(-1, 3) + sum(part.sum(axis=1) for part in units.shared).reshape(-1, 3)
    np.testing.assert_allclose(total, counted.cells.counts)


def test_expected_counts_are_the_counts():
    rows = some_rows(11, prompts=9, lone_share=0.5, weighted=True)
    result, table, counted = prepared(rows, 4)
    rounds = 20_000
    counts = draw_counts(resampling_units(result, table, counted), rounds, np.random.default_rng(0))
    error = counts.std(axis=2) / math.sqrt(rounds)
    assert (np.abs(counts.mean(axis=2) - counted.cells.counts) <= 4.5 * error + 1e-9).all()


@pytest.mark.parametrize(
    ("what", "options"),
    [
        ("rows", {"n": 80}),
        ("weighted rows", {"n": 50, "weighted": True}),
        ("prompts", {"n": 120, "prompts": 15}),
        ("prompts and lone rows", {"n": 120, "prompts": 10, "lone_share": 0.3, "soft_share": 0.3}),
    ],
)
def test_rounds_spread_like_a_plain_bayesian_bootstrap(what, options):
    rows = some_rows(13, **options)
    n_fast, n_slow = 4000, size(100, soak=600)
    fast = rounds_of(rows, 4, "half", rounds=n_fast)
    slow = plain.bayesian_bootstrap(rows, 4, n_slow, seed=1)
    mean_error = np.sqrt(fast.var(axis=0) / n_fast + slow.var(axis=0) / n_slow)
    assert (np.abs(fast.mean(axis=0) - slow.mean(axis=0)) < 4 * mean_error).all()
    # The standard error of a standard deviation is about sd/√(2n): 7.1 % of 100 rounds and 1.1 % of 4,000.
    ratio = fast.std(axis=0) / slow.std(axis=0)
    assert (np.abs(ratio - 1) < 4 * math.sqrt(1 / (2 * n_slow) + 1 / (2 * n_fast))).all()


def test_with_much_data_the_bootstrap_and_the_sandwich_agree():
    rows = some_rows(17, n=3000, models=5, prompts=300)
    result, table, counted = prepared(rows, 5)
    rounds = bootstrap_strengths(result, table, counted, rounds=2000, seed=0)
    closed = np.sqrt(np.diag(sandwich(result, table, counted).matrix)[:5])
    # Monte-Carlo error of a standard deviation over 2,000 rounds: 1.6 %; what is left is the order 1/P = 0.3 %.
    np.testing.assert_allclose(rounds.std(axis=0, ddof=1), closed, rtol=0.06)


@pytest.mark.parametrize("ties", list(TIE_MODELS))
@pytest.mark.parametrize("prompts", [0, 3])
def test_no_round_is_degenerate_however_few_the_battles(ties, prompts):
    # Each pair has one win each way, and one tie in all: a classical resample would lose one of them almost surely.
    rows = [Row(0, 1, FIRST), Row(0, 1, SECOND), Row(1, 2, FIRST), Row(1, 2, SECOND), Row(0, 2, TIE)]
    if prompts:
        rows = [Row(r.first, r.second, r.result, cluster=at % prompts) for at, r in enumerate(rows)]
    rounds = rounds_of(rows, 3, ties, rounds=size(100, soak=500))
    assert np.isfinite(rounds).all()
    np.testing.assert_allclose(rounds.sum(axis=1), 0.0, atol=1e-9)


def test_the_prior_is_not_resampled():
    rows = [Row(0, 1, FIRST)] * 3 + [Row(1, 2, FIRST)] * 4 + [Row(2, 1, FIRST)] * 4
    result, table, counted = prepared(rows, 3, "half")
    units = resampling_units(result, table, counted)
    counts = draw_counts(units, 50, np.random.default_rng(0))
    prior = counts[len(counted.cells) :]
    assert prior.shape == (1, 3, 50)
    np.testing.assert_allclose(prior[0, :2], 0.5)

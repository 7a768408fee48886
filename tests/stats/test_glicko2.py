"""Glicko-2 against Glickman's paper, and its laws."""

from __future__ import annotations

import importlib.util
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiltyard.errors import OptionError
from tiltyard.stats import Glicko2Settings, Glicko2State, expected_score, rate_battles, rate_battles_history
from tiltyard.stats.glicko2_kernels import new_volatility, seen_from, slope, updated

MODES = ["never"] + ["always"] * (importlib.util.find_spec("numba") is not None)
PAPER = Glicko2Settings(volatility=0.06)


@pytest.fixture(scope="module", autouse=True)
def cache(compiled_code):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TILTYARD_CACHE_DIR", str(compiled_code))
        yield


@pytest.fixture(params=MODES)
def mode(request, monkeypatch):
    monkeypatch.setenv("TILTYARD_COMPILE", request.param)
    return request.param


def state_of(*models):
    return Glicko2State(*(np.array(column, dtype=float) for column in zip(*models, strict=True)))


def same_bits(one: Glicko2State, other: Glicko2State) -> bool:
    return (
        np.array_equal(one.rating, other.rating)
        and np.array_equal(one.deviation, other.deviation)
        and np.array_equal(one.volatility, other.volatility)
    )


def arena(n_battles, n_models, seed=0):
    rng = np.random.default_rng(seed)
    skill = rng.normal(0.0, 1.0, n_models)
    a = rng.integers(0, n_models, n_battles)
    b = (a + rng.integers(1, n_models, n_battles)) % n_models
    a_won = rng.random(n_battles) < 1.0 / (1.0 + np.exp(skill[b] - skill[a]))
    return a, b, np.where(rng.random(n_battles) < 0.1, 0.5, a_won)


def paper_update(player, games, tau=0.5, epsilon=1e-12):
    """Glickman's steps 2 to 8 as printed, for one player (rating, RD, volatility) and games (rating, RD, score)."""
    mu, phi, sigma = (player[0] - 1500) / 173.7178, player[1] / 173.7178, player[2]
    rivals = [((r - 1500) / 173.7178, rd / 173.7178, s) for r, rd, s in games]
    g = [1 / math.sqrt(1 + 3 * phi_j**2 / math.pi**2) for _, phi_j, _ in rivals]
    E = [1 / (1 + math.exp(-g_j * (mu - mu_j))) for g_j, (mu_j, _, _) in zip(g, rivals, strict=True)]
    v = 1 / sum(g_j**2 * E_j * (1 - E_j) for g_j, E_j in zip(g, E, strict=True))
    surprise = sum(g_j * (s - E_j) for g_j, E_j, (_, _, s) in zip(g, E, rivals, strict=True))
    delta = v * surprise
    a = math.log(sigma**2)

    def f(x):
        e = math.exp(x)
        return e * (delta**2 - phi**2 - v - e) / (2 * (phi**2 + v + e) ** 2) - (x - a) / tau**2

    A, k = a, 1
    if delta**2 > phi**2 + v:
        B = math.log(delta**2 - phi**2 - v)
    else:
        while f(a - k * tau) < 0:
            k += 1
        B = a - k * tau
    f_A, f_B = f(A), f(B)
    while abs(B - A) > epsilon:
        C = A + (A - B) * f_A / (f_B - f_A)
        f_C = f(C)
        if f_C * f_B <= 0:
            A, f_A = B, f_B
        else:
            f_A /= 2
        B, f_B = C, f_C
    sigma = math.exp(B / 2)  # printed: A; the same within epsilon
    phi = 1 / math.sqrt(1 / (phi**2 + sigma**2) + 1 / v)
    return 173.7178 * (mu + phi**2 * surprise) + 1500, 173.7178 * phi, sigma


# --- the paper ------------------------------------------------------------------------------------------------------


def after_a_period(player, games, settings):
    """The steps of the loop for one player and the games of one period."""
    seen = [seen_from(player[0], *game, settings.scale) for game in games]
    return updated(*player, *(sum(terms) for terms in zip(*seen, strict=True)), 1.0, settings.rules())


def test_glickmans_example():
    """Printed: 1464.06, 151.52, 0.05999, from rounded intermediate values; without rounding 1464.0507."""
    after = after_a_period((1500, 200, 0.06), [(1400, 30, 1.0), (1550, 100, 0.0), (1700, 300, 0.0)], PAPER)
    assert after[0] == pytest.approx(1464.06, abs=0.01)
    assert after == pytest.approx((1464.050671, 151.516524, 0.0599959844), abs=1e-6)


@pytest.mark.parametrize("volatility", [0.005, 0.06])
def test_battle_by_battle_equals_the_printed_steps(mode, volatility):
    a, b, score = arena(150, 6)
    players = [(1500.0, 350.0, volatility)] * 6
    for i, j, s in zip(a, b, score, strict=True):
        new_i = paper_update(players[i], [(*players[j][:2], s)])
        players[j] = paper_update(players[j], [(*players[i][:2], 1 - s)])
        players[i] = new_i
    after = rate_battles(a, b, score, start=6, settings=Glicko2Settings(volatility=volatility, epsilon=1e-12))
    assert np.column_stack([after.rating, after.deviation]) == pytest.approx(np.array(players)[:, :2], abs=1e-9)
    assert after.volatility == pytest.approx(np.array(players)[:, 2], abs=1e-12)


def test_a_period_equals_the_printed_steps():
    games = [(1400.0 + 50 * m, 60.0 + 40 * m, (0.0, 0.5, 1.0)[m % 3]) for m in range(5)]
    player, settings = (1480.0, 90.0, 0.05), Glicko2Settings(epsilon=1e-12)
    assert after_a_period(player, games, settings) == pytest.approx(paper_update(player, games), abs=1e-9)


def test_plain_and_compiled_give_the_same_bits(monkeypatch):
    a, b, score = arena(4000, 25)
    battles = []
    for choice in MODES:
        monkeypatch.setenv("TILTYARD_COMPILE", choice)
        battles.append(rate_battles(a, b, score, start=25))
    assert same_bits(battles[0], battles[-1])


# --- laws -----------------------------------------------------------------------------------------------------------

scores = st.sampled_from([0.0, 0.5, 1.0])
battle_logs = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 3), scores), min_size=1, max_size=40)
models = st.tuples(st.floats(0.0, 4000.0), st.floats(10.0, 350.0), st.floats(0.001, 0.2))
states = st.lists(models, min_size=4, max_size=4).map(lambda rows: state_of(*rows))


def columns(log):
    a = np.array([i for i, _, _ in log])
    return a, (a + [step for _, step, _ in log]) % 4, np.array([score for *_, score in log])


@given(battle_logs, states)
def test_swapping_the_sides_changes_nothing(log, start):
    a, b, score = columns(log)
    assert same_bits(rate_battles(a, b, score, start=start), rate_battles(b, a, 1.0 - score, start=start))


@given(models, st.floats(10.0, 350.0))
def test_a_draw_between_equals_moves_no_rating(model, other_deviation):
    rating, _, volatility = model
    start = state_of(model, (rating, other_deviation, volatility))
    assert rate_battles([0], [1], [0.5], start=start).rating.tolist() == [rating, rating]


@given(battle_logs, states)
def test_a_deviation_never_leaves_its_limits(log, start):
    a, b, score = columns(log)
    after = rate_battles(a, b, score, start=start)
    assert (after.deviation >= 10.0).all()
    assert (after.deviation <= 350.0).all()
    assert np.isfinite(after.rating).all()
    assert (after.volatility > 0.0).all()


@given(battle_logs, states, st.integers(0, 40))
def test_a_log_split_in_two_ends_in_the_same_bits(log, start, cut):
    a, b, score = columns(log)
    half = rate_battles(a[:cut], b[:cut], score[:cut], start=start)
    assert same_bits(rate_battles(a[cut:], b[cut:], score[cut:], start=half), rate_battles(a, b, score, start=start))


@given(st.floats(0.003, 4.0), st.floats(1.0, 1e6), st.floats(0.0, 1e6), st.floats(1e-3, 0.5), st.floats(0.2, 1.2))
def test_the_new_volatility_is_a_root_of_the_papers_function(phi2, v, delta2, volatility, tau):
    rules = Glicko2Settings(tau=tau).rules()
    root = 2.0 * math.log(new_volatility(phi2, v, delta2, volatility, rules))
    a = math.log(volatility**2)
    below, above = (slope(root + side * 2e-6, a, phi2, v, delta2, tau) for side in (-1, 1))
    assert below >= 0.0 >= above


# --- not laws, though often asserted --------------------------------------------------------------------------------


def test_a_deviation_may_grow_after_a_battle():
    start = state_of((1500, 30, 0.06), (1500, 30, 0.06))
    assert rate_battles([0], [1], [1], start=start).deviation[0] > 30.0  # √(30² + (173.7·0.06)²) = 31.8 before the game


def test_what_one_model_gains_the_other_does_not_lose():
    after = rate_battles([0], [1], [1], start=state_of((1500, 350, 0.005), (1500, 50, 0.005)))
    assert after.rating[0] - 1500 > 10 * (1500 - after.rating[1])


def test_no_battle_leaves_the_state(mode):
    start = state_of((1500, 100, 0.06), (1400, 30, 0.05))
    assert same_bits(rate_battles([], [], [], start=start), start)


# --- floating point and the solver ----------------------------------------------------------------------------------


def test_an_upset_across_a_wide_gap_moves_the_rating_a_little_and_the_volatility_hardly():
    """Step 5 has three roots here; the far one is a volatility in the thousands."""
    after = rate_battles([0], [1], [0], start=state_of((2900.0, 20.0, 0.005), (1400.0, 20.0, 0.005)))
    assert after.volatility == pytest.approx([0.005, 0.005], rel=1e-5)
    assert after.rating == pytest.approx([2897.7, 1402.3], abs=0.05)  # 20²/173.7 = 2.3 points


def test_the_solvers_tolerance_does_not_add_up_over_thousands_of_battles(monkeypatch):
    monkeypatch.setenv("TILTYARD_COMPILE", MODES[-1])
    a, b, score = arena(20_000, 4)
    usual = rate_battles(a, b, score, start=4)
    exact = rate_battles(a, b, score, start=4, settings=Glicko2Settings(epsilon=1e-13))
    assert usual.volatility == pytest.approx(exact.volatility, rel=1e-6)
    assert usual.rating == pytest.approx(exact.rating, abs=1e-5)


@pytest.mark.parametrize("gap", [1e3, 8e3, 2e4, 1e6])
def test_any_gap_has_a_finite_answer(mode, gap):
    start = state_of((1500 + gap, 10, 0.005), (1500, 350, 0.005), (1500, 10, 0.005))
    after = rate_battles([0, 0, 2], [1, 2, 1], [0, 1, 1], start=start)
    for column in (after.rating, after.deviation, after.volatility):
        assert np.isfinite(column).all()
    assert after.volatility.max() < 0.01


@pytest.mark.parametrize("max_iterations", [0, 1, 3])
def test_when_the_iterations_run_out_bisection_finds_the_same_root(mode, max_iterations):
    a, b, score = arena(300, 5)
    usual = rate_battles(a, b, score, start=5, settings=PAPER)
    capped = Glicko2Settings(volatility=0.06, max_iterations=max_iterations)
    assert rate_battles(a, b, score, start=5, settings=capped).rating == pytest.approx(usual.rating, abs=1e-6)


def test_an_epsilon_finer_than_the_number_format_still_ends(mode):
    fine = Glicko2Settings(epsilon=1e-300)
    a, b, score = arena(50, 3)
    assert rate_battles(a, b, score, start=3, settings=fine).rating == pytest.approx(
        rate_battles(a, b, score, start=3).rating, abs=1e-6
    )


# --- state, history, settings ---------------------------------------------------------------------------------------


def test_the_state_handed_in_is_left_as_it_is():
    start = state_of((1500.0, 350.0, 0.005), (1500.0, 350.0, 0.005))
    rate_battles([0], [1], [1], start=start)
    assert start.rating.tolist() == [1500.0, 1500.0]


def test_the_history_ends_where_the_state_ends(mode):
    a, b, score = arena(50, 3)
    history = rate_battles_history(a, b, score, start=3)
    last = {}
    for row in range(50):
        for side, model in enumerate((a[row], b[row])):
            last[model] = (history.rating[row, side], history.deviation[row, side])
    assert last == {m: (history.state.rating[m], history.state.deviation[m]) for m in range(3)}
    assert same_bits(history.state, rate_battles(a, b, score, start=3))


def test_a_volatility_of_0_005_lets_the_deviation_fall_and_0_06_does_not():
    a, b, score = arena(6000, 6)
    settled = rate_battles(a, b, score, start=6).deviation
    drifting = rate_battles(a, b, score, start=6, settings=PAPER).deviation
    assert settled.max() < 25.0
    assert drifting.min() > 55.0


@given(models, models)
def test_the_expected_score_is_that_of_the_loop(model, rival):
    surprise, _ = seen_from(model[0], rival[0], rival[1], 1.0, 173.7178)
    g = 1.0 / math.sqrt(1.0 + 3.0 * (rival[1] / 173.7178 / math.pi) ** 2)
    assert g * (1.0 - expected_score(model[0], rival[0], rival[1])) == pytest.approx(surprise, abs=1e-12)


@pytest.mark.parametrize(
    "wrong",
    [
        {"tau": 0.0},
        {"tau": 1e-150},
        {"tau": 50.0},
        {"volatility": 0.0},
        {"volatility": 1e-300},
        {"deviation": 400.0},
        {"deviation_min": 0.0},
        {"deviation_min": 1e-300},
        {"epsilon": -1.0},
        {"rating": math.nan},
        {"scale": 0.0},
        {"epsilon": 0.0},
        {"deviation": 9.9},
        {"deviation_max": 349.9},
        {"max_iterations": -1},
    ],
)
def test_settings_without_meaning_are_an_error(wrong):
    with pytest.raises(OptionError, match="Glicko-2"):
        Glicko2Settings(**wrong)


@pytest.mark.parametrize("deviations", [(1e-6, 1e-6), (1e-6, 1e6), (1e6, 1e6)])
@pytest.mark.parametrize("tau", [0.01, 10.0])
@pytest.mark.parametrize("volatility", [1e-6, 1.0])
def test_whatever_settings_are_allowed_give_numbers(deviations, tau, volatility):
    least, most = deviations
    settings = Glicko2Settings(1e9, most, volatility, tau, deviation_min=least, deviation_max=most)
    rng = np.random.default_rng(1)
    a = rng.integers(0, 4, 200)
    state = rate_battles(a, (a + 1) % 5, rng.integers(0, 3, 200) / 2, start=5, settings=settings)
    assert np.isfinite([state.rating, state.deviation, state.volatility]).all()


def test_weights_of_one_give_the_same_bits(mode):
    a, b, score = arena(400, 6, seed=3)
    plain = rate_battles_history(a, b, score, start=6)
    weighted = rate_battles_history(a, b, score, start=6, weight=np.ones(400))
    assert same_bits(plain.state, weighted.state)
    assert np.array_equal(plain.rating, weighted.rating)


def test_a_battle_of_half_weight_counts_half_in_surprise_information_and_drift(mode):
    settings = Glicko2Settings()
    after = rate_battles([0], [1], [1.0], start=state_of((1500, 60, 0.02), (1600, 80, 0.02)), weight=[0.5])
    surprise, known = seen_from(1500.0, 1600.0, 80.0, 1.0, settings.scale)
    phi2 = (60.0 / settings.scale) ** 2
    v, delta = 1.0 / (0.5 * known), surprise / known
    sigma = new_volatility(phi2, v, delta * delta, 0.02, settings.rules())
    phi2_new = 1.0 / (1.0 / (phi2 + 0.5 * sigma**2) + 0.5 * known)
    assert after.rating[0] == pytest.approx(1500.0 + settings.scale * phi2_new * 0.5 * surprise, abs=1e-12)
    assert after.deviation[0] == pytest.approx(settings.scale * math.sqrt(phi2_new), abs=1e-12)


def test_a_flood_of_nearly_weightless_battles_moves_neither_rating_nor_deviation(mode):
    start = rate_battles(*arena(2000, 4, seed=5), start=4)
    a, b, score = np.zeros(20_000, int), np.ones(20_000, int), np.ones(20_000)
    after = rate_battles(a, b, score, start=start, weight=np.full(20_000, 1e-6))
    assert np.abs(after.rating - start.rating).max() < 0.05
    assert np.abs(after.deviation - start.deviation).max() < 0.05

"""What a board hands out beside its table: the same intervals, in the same order, and nothing surer than they are."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from board_rows import arena, battle, swapped
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats
from tests.sizes import size

import tiltyard as ty
from tiltyard.analysis.boards import rate_by
from tiltyard.errors import OptionError
from tiltyard.reports.publish import BoardRules
from tiltyard.reports.publish.publication import rate_by_rules

TRIANGLE = [
    *battle("x>y", 20), *battle("y>x", 20), *battle("x=z", 20), *battle("x>z", 20), *battle("z>x", 20),
    *battle("y>z", 20), *battle("w=x"),
]  # fmt: skip
"""Three models that met often, and w, which tied once with x."""

ENDS = ("ci_low", "ci_high")


def printed(board):
    """The intervals of a board; NaN where an end is open or missing."""
    return np.array([[getattr(entry, end) for end in ENDS] for entry in board], dtype=float)


def from_errors(board, level=0.95):
    """The intervals that the errors handed out give: rating ± t · standard error."""
    rating = np.array([entry.rating for entry in board])
    half = stats.t.ppf(0.5 + 0.5 * level, board.arrays["degrees"]) * board.arrays["standard_errors"]
    return np.column_stack([rating - half, rating + half])


def assert_reproduced(board, level=0.95):
    seen, known = printed(board), ~np.isnan(printed(board))
    assert board.arrays["models"].tolist() == board.models
    np.testing.assert_allclose(from_errors(board, level)[known], seen[known], rtol=0, atol=1e-7)
    below = board.arrays["below"]
    assert [entry.rank_low for entry in board] == (1 + below.sum(axis=1)).tolist()
    assert [entry.rank_high for entry in board] == (len(board) - below.sum(axis=0)).tolist()


def assert_never_surer(board, battles, **options):
    """Read with t of the smaller degrees of two models, their error is wider, and no surer, than `difference`."""
    degrees, errors = board.arrays["degrees"], board.arrays["difference_errors"]
    for i, one in enumerate(board.models):
        for j, other in enumerate(board.models[:i]):
            said = ty.compare(one, other, battles=battles, slot=False, **options)
            if said.probability_better is None or np.isnan(errors[i, j]):
                continue
            gap, ways = board.entries[i].rating - board.entries[j].rating, min(degrees[i], degrees[j])
            sure = stats.t.cdf(gap / errors[i, j], ways)
            assert abs(sure - 0.5) <= abs(said.probability_better - 0.5) + 1e-9
            half = stats.t.ppf(0.975, ways) * errors[i, j]
            if said.low is not None:
                assert half >= said.difference - said.low - 1e-7
            if said.high is not None:
                assert half >= said.high - said.difference - 1e-7


@pytest.mark.parametrize("anchor", [None, ("y", 1000), ("w", 0)])
@pytest.mark.parametrize("level", [0.95, 0.8])
def test_standard_errors_give_the_printed_intervals_also_of_a_model_with_one_battle(anchor, level):
    options = {} if anchor is None else {"anchor": anchor}
    board = ty.rate(TRIANGLE, level=level, **options)
    assert_reproduced(board, level)
    if anchor is not None:
        assert board.arrays["standard_errors"][board.models.index(anchor[0])] == 0.0


def test_no_difference_handed_out_is_surer_than_the_difference_itself():
    board = ty.rate(TRIANGLE)
    assert_never_surer(board, TRIANGLE)
    # w, z: 565 and 66 points either way, and yet w may differ from z by more than both: no covariance says all three.
    w, z = board.models.index("w"), board.models.index("z")
    errors = board.arrays["standard_errors"]
    assert board.arrays["difference_errors"][w, z] > 1.15 * (errors[w] + errors[z])


MODELS = "abcd"
row = st.fixed_dictionaries(
    {
        "pair": st.permutations(MODELS).map(lambda names: names[:2]),
        "winner": st.sampled_from(["model_a", "model_b", "tie"]),
        "question_id": st.sampled_from(["p", "q", "r", "s", "t", None]),
        "voter": st.sampled_from(["v", "w", "x", "y", "z", None]),
        "times": st.integers(1, 12),
    }
)


@given(st.lists(row, min_size=4, max_size=14), st.sampled_from(["auto", "none", "prompt", "voter"]), st.booleans())
@settings(max_examples=size(6, soak=400), deadline=None)
def test_small_boards_hand_out_what_they_print(rows, cluster, anchored):
    battles = [
        {"model_a": one["pair"][0], "model_b": one["pair"][1]}
        | {name: one[name] for name in ("winner", "question_id", "voter")}
        for one in rows
        for _ in range(one["times"])
    ]
    anchor = {"anchor": (rows[0]["pair"][0], 1200.0)} if anchored else {}
    try:
        board = ty.rate(battles, cluster=cluster, misfit=False, **anchor)
    except ty.TiltyardError:  # only ties, or groups that never met
        assume(False)
    assert_reproduced(board)
    assert_never_surer(board, battles, cluster=cluster)


@pytest.mark.parametrize(
    "options", [{}, {"anchor": ("c", 900.0)}, {"cluster": "none"}, {"cluster": "prompt,voter"}, {"slot": True}]
)
def test_the_quantiles_of_bootstrap_rounds_are_the_printed_intervals(options):
    rows = arena(8, n=400, prompts=50) + battle("a>new") * 2 + battle("new>b")
    rows = [{**one, "voter": f"v{at % 40}"} for at, one in enumerate(rows)]
    board = ty.rate(rows, ci="bootstrap", rounds=300, seed=5, misfit=False, **options)
    rounds, seen = board.arrays["bootstrap_ratings"], printed(board)
    assert board.arrays["models"].tolist() == board.models
    assert rounds.shape == (300, len(board))
    known = ~np.isnan(seen)
    np.testing.assert_allclose(np.quantile(rounds, [0.025, 0.975], axis=0).T[known], seen[known], rtol=0, atol=1e-9)
    means = np.array([entry.extra["bootstrap_mean"] for entry in board], dtype=float)
    np.testing.assert_allclose(rounds.mean(axis=0), means)
    assert "standard_errors" not in board.arrays  # the interval is not theirs


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"anchor": ("y", 1000)},
        {"anchor": ("w", 1000)},
        {"anchor": ("y", 1000), "slot": True},
        {"anchor": ("y", 1000), "control": ["len"]},
        {"anchor": ("y", 1000), "cluster": "prompt"},
        {"anchor": ("y", 1000), "cluster": "prompt,voter"},
    ],
)
def test_a_bootstrap_is_as_wide_as_the_sandwich_also_for_small_models_and_from_an_anchor(options):
    rng = np.random.default_rng(4)
    rows = [
        {**one, "question_id": f"q{rng.integers(60)}", "voter": f"v{rng.integers(60)}"}
        | {side: float(rng.integers(10, 99)) for side in ("len_a", "len_b")}
        for turn in (dict, swapped, dict)
        for one in map(turn, TRIANGLE)
    ]
    options = {"cluster": "none", "misfit": False, **options}
    sandwich, bootstrap = ty.rate(rows, **options), ty.rate(rows, ci="bootstrap", rounds=600, **options)
    for entry in sandwich:
        drawn = bootstrap[entry.model]
        assert drawn.ci_high - drawn.ci_low == pytest.approx(entry.ci_high - entry.ci_low, rel=0.2)


def test_a_pull_towards_the_mean_has_no_bootstrap():
    with pytest.raises(OptionError, match="shrink goes with"):
        ty.rate(TRIANGLE, shrink=True, ci="bootstrap")


def test_boards_by_category_pooled_ones_and_shrunk_ones_hand_out_what_they_print():
    rows = [{**one, "category": "odd" if at % 2 else "even"} for at, one in enumerate(arena(3, n=600))]
    for pool in (False, True):
        for board in rate_by(rows, "category", ty.BradleyTerry(), pool=pool).values():
            assert_reproduced(board)
    shrunk = ty.rate(rows, shrink=True)
    assert_reproduced(shrunk)


def test_a_published_board_moved_to_another_centre_hands_out_what_it_prints():
    board = rate_by_rules(ty.read_battles(TRIANGLE), BoardRules(centre=1500.0))
    assert_reproduced(board)
    assert sum(board.ratings.values()) == pytest.approx(4 * 1500.0)


def test_the_matrices_of_win_rates_are_in_the_order_of_the_board():
    board = ty.rate(TRIANGLE, method="winrate")
    rates, met = board.arrays["win_rate_matrix"], board.arrays["battle_matrix"]
    y, z = board.models.index("y"), board.models.index("z")
    assert (rates[y, z], met[y, z]) == (1.0, 20.0)
    shuffled = ty.rate(TRIANGLE, method="elo-perm", n_perms=20)
    means = shuffled.arrays["permutation_ratings"].mean(axis=0)
    np.testing.assert_allclose(means, [entry.rating for entry in shuffled])


def test_results_can_be_copied_pickled_and_compared():
    rows = [one | {"question_id": f"q{place % 9}"} for place, one in enumerate(TRIANGLE)]
    board, found = ty.rate(rows), ty.compare("x", "y", battles=rows)
    elo, compared = ty.rate(rows, method="elo-perm"), board.changes_since(board)
    for result in (board, board["x"], elo, compared, found, found.gate()):
        for again in (copy.copy(result), copy.deepcopy(result), pickle.loads(pickle.dumps(result))):
            assert again == result
    assert ty.rate(rows) == board
    assert ty.rate(rows, seed=1) != board
    assert ty.compare("y", "x", battles=rows) != found

"""What is true of every Bradley–Terry board, on battles that hypothesis makes up."""

from __future__ import annotations

import numpy as np
import pytest
from board_rows import assert_same_board, battle, swapped
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.sizes import size

import tiltyard as ty
from tiltyard.data.battles import read_battles
from tiltyard.errors import NotConnected, RatingError

MODELS = "pqrs"
steady = settings(max_examples=size(8, soak=100))
signs = st.sampled_from("><=")
pairs = st.tuples(st.sampled_from(MODELS), st.sampled_from(MODELS)).filter(lambda pair: pair[0] != pair[1])


@st.composite
def rows(draw, prompts=True, signs=signs, least=3, most=25):
    drawn = draw(st.lists(st.tuples(pairs, signs, st.integers(0, 5)), min_size=least, max_size=most))
    some_prompts = prompts and draw(st.booleans())
    return [
        battle(f"{a}{sign}{b}", **({"question_id": f"q{prompt}"} if some_prompts else {}))[0]
        for (a, b), sign, prompt in drawn
    ]


def rated(table, **options):
    """The board, or None where these battles cannot be rated as asked (that they cannot is tested elsewhere).

    Its fit is checked in the tests that ask for it: that takes as long as rating, and says nothing about the laws.
    """
    try:
        return ty.rate(table, **{"misfit": False, **options})
    except RatingError:
        return None


ties = st.sampled_from(["davidson", "rao-kupper", "half", "drop"])


@given(rows(), ties, st.randoms(use_true_random=False))
@steady
def test_order_and_sides_do_not_matter(table, reading, random):
    board = rated(table, ties=reading)
    assume(board is not None)
    other = [swapped(row) if random.random() < 0.5 else row for row in table]
    random.shuffle(other)
    assert_same_board(board, rated(other, ties=reading))


@given(rows(), ties, st.permutations(["w", "x", "y", "z"]))
@steady
def test_names_do_not_matter(table, reading, letters):
    # Equally large groups are told apart by how busy they are, then by name: only boards without such a draw count.
    board = rated(table, ties=reading)
    assume(board is not None and all(entry.note is None for entry in board))
    names = dict(zip(MODELS, letters, strict=True))
    renamed = [{**row, "model_a": names[row["model_a"]], "model_b": names[row["model_b"]]} for row in table]
    assert_same_board(board, rated(renamed, ties=reading), names={name: names[name] for name in board.models})


@given(rows(prompts=False), ties)
@steady
def test_the_ledger_twice_keeps_the_ratings(table, reading):
    board = rated(table, ties=reading)
    assume(board is not None and all(entry.note is None for entry in board))
    twice = rated(table + table, ties=reading)
    for entry in board:
        assert twice[entry.model].rating == pytest.approx(entry.rating, abs=1e-6)
        assert twice[entry.model].n_battles == 2 * entry.n_battles


@given(rows(), ties)
@steady
def test_a_merged_table_rates_as_its_rows_do(table, reading):
    board = rated(table, ties=reading)
    assume(board is not None)
    counted = read_battles(table, counted=True)
    assert len(counted) <= len(table)
    assert_same_board(board, rated(counted, ties=reading))


@given(rows(), ties, st.sampled_from(MODELS), st.floats(-2000, 3000))
@steady
def test_an_anchor_shifts_everybody_and_its_own_interval_is_a_point(table, reading, name, value):
    board = rated(table, ties=reading)
    assume(board is not None and name in board.models)
    pinned = rated(table, ties=reading, anchor=(name, value))
    shift = value - board[name].rating
    assert pinned[name].rating == pytest.approx(value, abs=1e-9)
    if pinned[name].ci_low is not None:
        assert (pinned[name].ci_low, pinned[name].ci_high) == pytest.approx((value, value))
    for entry in board:
        moved = pinned[entry.model]
        assert moved.rating - entry.rating == pytest.approx(shift, abs=1e-6)
        assert moved.ci_low is None or moved.ci_low <= moved.rating
        assert moved.ci_high is None or moved.ci_high >= moved.rating
        if board[name].ci_high is None and entry.model != name:
            assert moved.ci_low is None, "the anchor may be any amount stronger"
        if board[name].ci_low is None and entry.model != name:
            assert moved.ci_high is None, "the anchor may be any amount weaker"
        assert (moved.rank_low, moved.rank_high) == (entry.rank_low, entry.rank_high)


@given(rows(), ties)
@steady
def test_ratings_have_mean_1000_and_lie_within_their_intervals_and_ranks_within_theirs(table, reading):
    board = rated(table, ties=reading, misfit=True)
    assume(board is not None)
    unsure = [entry.model for entry in board if "no interval" in (entry.note or "")]
    centre = [entry.rating for entry in board if entry.model not in unsure or len(unsure) == len(board)]
    assert np.mean(centre) == pytest.approx(1000.0, abs=1e-6)
    values = [entry.rating for entry in board]
    assert values == sorted(values, reverse=True)
    assert [entry.rank for entry in board] == list(range(1, len(board) + 1))
    for entry in board:
        assert np.isfinite(entry.rating)
        assert entry.ci_low is None or entry.ci_low <= entry.rating
        assert entry.ci_high is None or entry.ci_high >= entry.rating
        assert entry.rank_low <= entry.rank <= entry.rank_high
        marked = any(words in (entry.note or "") for words in ("bound", "no interval"))
        assert marked == (entry.ci_low is None or entry.ci_high is None)


@given(rows(signs=st.sampled_from("><")))
@steady
def test_without_ties_all_tie_models_agree(table):
    boards = [rated(table, ties=reading) for reading in ("davidson", "rao-kupper", "half", "drop")]
    assume(boards[0] is not None)
    for other in boards[1:]:
        assert_same_board(boards[0], other)


@given(rows(), ties)
@steady
def test_both_bad_battles_never_move_skill_by_default(table, reading):
    board = rated(table, ties=reading)
    assume(board is not None)
    named = board.models[0], board.models[-1]
    more = rated(table + battle(f"{named[0]}!{named[1]}", 5), ties=reading, cluster="none")
    alone = rated(table, ties=reading, cluster="none")
    for entry in alone:
        assert more[entry.model].rating == pytest.approx(entry.rating, abs=1e-9)
        assert more[entry.model].both_bad == (5 if entry.model in named else 0)
        assert more[entry.model].n_battles - entry.n_battles == more[entry.model].both_bad


@given(rows(), ties)
@steady
def test_islands_are_named_and_the_largest_can_be_rated_alone(table, reading):
    islands = None
    try:
        ty.rate(table, ties=reading, misfit=False)
    except NotConnected as error:
        islands = error.islands
    except RatingError:
        assume(False)
    largest = rated(table, ties=reading, only_connected=True)
    assume(largest is not None)
    if islands is None:
        assert_same_board(largest, rated(table, ties=reading))
    else:
        assert len(islands) > 1
        assert set(largest.models) == set(islands[0])
        assert len(islands[0]) == max(map(len, islands))


@given(rows(), st.integers(0, 100))
@settings(max_examples=size(3, soak=20))
def test_a_bootstrap_board_is_the_same_whenever_its_seed_is(table, seed):
    options = {"ci": "bootstrap", "rounds": 20, "seed": seed, "misfit": True}
    board = rated(table, **options)
    assume(board is not None)
    again = rated(table, **options)
    assert board.to_json() == again.to_json()
    plain = rated(table)
    for entry in board:
        assert entry.rating == pytest.approx(plain[entry.model].rating, abs=1e-9)
        assert entry.rank_low <= entry.rank <= entry.rank_high
        assert (entry.extra["bootstrap_mean"] is None) == np.isnan(board.arrays["degrees"][entry.rank - 1])


@pytest.mark.parametrize("options", [{}, {"control": ["len"]}, {"ties": "rao-kupper"}, {"cluster": "none"}])
@pytest.mark.parametrize("kind", ["without ids", "with ids", "with weights"])
def test_the_order_of_rows_changes_no_byte(kind, options):
    rng = np.random.default_rng(4)
    made = []
    for i in range(160):
        a, b = rng.choice(["w", "x", "y", "z"], 2, replace=False)
        row = {"model_a": str(a), "model_b": str(b), "source": "human", "len_a": int(rng.integers(9, 99)), "len_b": 50}
        row |= {} if kind == "without ids" else {"question_id": f"q{i % 40}", "voter": f"v{i % 13}"}
        row |= {"weight": round(3 * rng.random(), 2)} if kind == "with weights" else {}
        made.append(row | {"winner": str(rng.choice(["model_a", "model_b", "tie", "tie (bothbad)"]))})
    board, found = ty.rate(made, **options), ty.compare("w", "x", battles=made, **options)
    for _ in range(3):
        shuffled = [made[i] for i in rng.permutation(len(made))]
        again = ty.rate(shuffled, **options)
        assert (str(again), again.to_dict()) == (str(board), board.to_dict())
        assert ty.compare("w", "x", battles=shuffled, **options).to_json() == found.to_json()

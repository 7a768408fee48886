"""Battles that leave something open: a clear answer or a named error, never an infinity or a silent number."""

from __future__ import annotations

import math

import numpy as np
import pytest
from board_rows import arena, battle
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sizes import size

import tiltyard as ty
from tiltyard.errors import BattleError, NoBattles, NotConnected, NotConverged, OptionError, RatingError

TIES = ["davidson", "rao-kupper", "half", "drop"]
BOTH_WAYS = battle("a>b", 3) + battle("b>a", 2) + battle("b>c", 3) + battle("c>b", 2) + battle("a=c")


def assert_finite(board):
    for entry in board:
        assert math.isfinite(entry.rating)
        assert entry.ci_low is None or math.isfinite(entry.ci_low)
        assert entry.ci_high is None or math.isfinite(entry.ci_high)


def test_islands_are_an_error_that_names_them_and_says_what_to_do():
    rows = BOTH_WAYS + battle("x>y") + battle("y>x")
    with pytest.raises(NotConnected) as caught:
        ty.rate(rows)
    assert caught.value.islands == [["a", "b", "c"], ["x", "y"]]
    assert "x, y" in str(caught.value)
    assert "only_connected=True" in str(caught.value)


def test_only_connected_rates_the_largest_island_and_says_who_is_missing():
    rows = BOTH_WAYS + battle("x>y") + battle("y>x")
    board = ty.rate(rows, only_connected=True)
    assert set(board.models) == {"a", "b", "c"}
    assert board.left_out["model outside the largest connected group"] == 2
    assert any("x, y" in remark for remark in board.remarks)
    whole = ty.rate(BOTH_WAYS)
    assert board.ratings == pytest.approx(whole.ratings)


def test_many_islands_are_named_in_one_line():
    rows = [row for number in range(30) for row in battle(f"m{number}>n{number}") + battle(f"n{number}>m{number}")]
    with pytest.raises(NotConnected, match="25 more groups") as caught:
        ty.rate(rows)
    assert "\n" not in str(caught.value)
    assert len(caught.value.islands) == 30


def test_dropping_ties_can_part_the_models_and_that_is_said():
    rows = battle("a>b") + battle("b>a") + battle("c>d") + battle("d>c") + battle("b=c")
    assert len(ty.rate(rows, ties="half")) == 4
    with pytest.raises(NotConnected):
        ty.rate(rows, ties="drop")


@pytest.mark.parametrize("ties", TIES)
def test_an_unbeaten_model_is_rated_marked_and_open_above(ties):
    board = ty.rate(BOTH_WAYS + battle("z>a", 4) + battle("z>c", 4), ties=ties)
    assert_finite(board)
    top = board["z"]
    assert top.rank == 1
    assert top.ci_high is None
    assert top.ci_low < top.rating
    assert top.note.startswith("unbeaten; kept finite by half a win and half a loss")
    assert all(board[name].note is None for name in "abc")


@pytest.mark.parametrize("ties", TIES)
def test_a_winless_model_is_rated_marked_and_open_below(ties):
    board = ty.rate(BOTH_WAYS + battle("a>z", 4) + battle("c>z", 4), ties=ties)
    assert_finite(board)
    last = board["z"]
    assert (last.rank, last.ci_low) == (4, None)
    assert last.note.startswith("winless")


def test_an_unbeaten_group_is_marked_as_one():
    # y and z beat each other and each beat the rest: nobody is unbeaten alone, the two together are.
    board = ty.rate(BOTH_WAYS + battle("y>z") + battle("z>y") + battle("y>a", 2) + battle("z>b", 2))
    assert_finite(board)
    assert {entry.model for entry in board if entry.ci_high is None} == {"y", "z"}
    assert set(board.models[:2]) == {"y", "z"}
    assert {board[name].note.split(";")[0] for name in "yz"} == {"lost only to models without an upper bound"}


@pytest.mark.parametrize("ties", TIES)
def test_marks_are_true_of_the_model_that_carries_them(ties):
    # y beat x, x beat the rest, the rest beat v, v beat w: x has lost and v has won, though their ends are open.
    rows = battle("y>x", 2) + battle("x>a", 2) + battle("c>v", 2) + battle("v>w", 2)
    board = ty.rate(BOTH_WAYS + rows, ties=ties)
    words = {name: board[name].note.split(";")[0] for name in "yxvw"}
    assert words == {
        "y": "unbeaten",
        "x": "lost only to models without an upper bound",
        "v": "won only against models without a lower bound",
        "w": "winless",
    }
    assert all(board[name].ci_high is None for name in "yx")
    assert all(board[name].ci_low is None for name in "vw")


@pytest.mark.parametrize("ties", TIES)
def test_who_only_tied_is_neither_unbeaten_nor_winless(ties):
    below = ty.rate(battle("a=b") + battle("a>c") + battle("c=d"), ties=ties, only_connected=True)
    assert below["c"].note.startswith("winless; ")
    above = ty.rate(battle("a=b", 2) + battle("b=e") + battle("c>a") + battle("c=d"), ties=ties, only_connected=True)
    assert above["c"].note.startswith("unbeaten; ")
    if ties != "drop":
        assert below["d"].note.startswith("tied only with models without a lower bound; ")
        assert above["d"].note.startswith("tied only with models without an upper bound; ")


@pytest.mark.parametrize("ties", TIES)
@given(st.lists(st.tuples(st.sampled_from("abcde"), st.sampled_from("abcde"), st.sampled_from(">=!")), min_size=3))
@settings(max_examples=size(10, soak=100))
def test_nobody_who_lost_is_called_unbeaten_and_nobody_who_won_winless(ties, meetings):
    rows = [row for a, b, sign in meetings if a != b for row in battle(f"{a}{sign}{b}")]
    try:
        board = ty.rate(rows, ties=ties, only_connected=True)
    except (BattleError, RatingError):
        return
    for entry in board:
        word = (entry.note or "").split(";")[0]
        assert word != "unbeaten" or (entry.losses == 0 and entry.wins > 0), entry
        assert word != "winless" or (entry.wins == 0 and entry.losses > 0), entry
        assert not word.startswith("lost only") or entry.losses > 0
        assert not word.startswith("won only") or entry.wins > 0
        assert not word.startswith("tied only") or entry.wins == entry.losses == 0


@pytest.mark.parametrize("names", ["abc", "cba", "bca"])
def test_a_chain_of_wins_is_measured_by_the_busiest_model_whatever_it_is_called(names):
    top, middle, last = names
    board = ty.rate(battle(f"{top}>{middle}", 3) + battle(f"{middle}>{last}", 3))
    assert [round(board[name].rating, 1) for name in names] == [1338.0, 1000.0, 662.0]
    assert [(board[name].ci_low is None, board[name].ci_high is None) for name in names] == [
        (False, True),
        (False, False),
        (True, False),
    ]


@pytest.mark.parametrize("names", ["ab", "ba"])
def test_five_wins_of_five_leave_both_ends_open_whatever_the_names(names):
    winner, loser = names
    board = ty.rate(battle(f"{winner}>{loser}", 5))
    assert (board[winner].ci_high, board[loser].ci_low) == (None, None)
    assert board[winner].ci_low is not None


def test_a_model_joined_only_through_an_unbounded_one_is_open_on_both_sides():
    # w lost to everybody and x beat w: nothing compares x with the rest.
    board = ty.rate(BOTH_WAYS + battle("a>w") + battle("x>w"))
    assert_finite(board)
    assert (board["x"].ci_low, board["x"].ci_high) == (None, None)
    assert "only through unbounded models" in board["x"].note
    assert board["w"].ci_low is None


def test_a_single_battle_gives_a_board_that_claims_nothing():
    # One win, and half a win each way from the prior: 1½ to ½ are odds of 3, 400·log10(3) = 190.8 points.
    board = ty.rate(battle("a>b"))
    assert board["a"].rating - board["b"].rating == pytest.approx(400 * math.log10(3), abs=1e-6)
    assert [(entry.rank_low, entry.rank_high) for entry in board] == [(1, 2), (1, 2)]
    assert board["a"].ci_high is None
    assert board["b"].ci_low is None
    assert [entry.note.split(";")[0] for entry in board] == ["unbeaten", "winless"]


@pytest.mark.parametrize("ties", TIES)
def test_nothing_but_ties_is_an_error(ties):
    with pytest.raises(RatingError, match="every battle is a tie"):
        ty.rate(battle("a=b", 5) + battle("b=c", 5), ties=ties)


def test_a_source_that_always_ties_is_named():
    rows = BOTH_WAYS + [{**row, "source": "llm-judge"} for row in battle("a=b", 3)]
    with pytest.raises(RatingError, match="all 3 battles of source llm-judge are ties"):
        ty.rate(rows)
    assert_finite(ty.rate(rows, ties="half"))
    assert_finite(ty.rate(rows, source="human"))


@pytest.mark.parametrize("ties", ["davidson", "rao-kupper"])
def test_wins_that_never_contradict_each_other_are_rated_with_half_ties_and_that_is_said(ties):
    # a over b over c, with ties in between: no finite tie parameter exists, half-wins do.
    rows = battle("a>b", 3) + battle("a=b") + battle("b>c", 3) + battle("b=c") + battle("a>c", 4)
    board = ty.rate(rows, ties=ties)
    assert_finite(board)
    assert board.settings.tie_model == "half"
    assert any("half a win" in remark for remark in board.remarks)
    assert board.ratings == pytest.approx(ty.rate(rows, ties="half").ratings)


def test_one_prompt_for_all_is_treated_row_by_row_and_that_is_said():
    rows = arena(1, question_id="q1")
    board = ty.rate(rows)
    assert board.settings.interval.cluster is None
    assert "all battles have the same prompt: the intervals are for that prompt alone" in board.remarks
    alone = ty.rate(rows, cluster="none")
    assert board["a"].ci_low == pytest.approx(alone["a"].ci_low)


def test_two_prompts_claim_next_to_nothing():
    # Two prompts leave one degree of freedom, and scores that vary in one direction only: no interval is better.
    board = ty.rate(arena(2, n=400, prompts=2))
    assert board.settings.interval.cluster == "question_id"
    assert board.settings.interval.degrees_of_freedom is None
    assert board.details.n_clusters == 2
    for entry in board:
        assert (entry.rank_low, entry.rank_high) == (1, 5)
        assert (entry.ci_low, entry.ci_high) == (None, None)
        assert entry.note.startswith("no interval: its battles come from too few prompts (effectively 2.0")


def test_a_model_with_two_battles_has_no_narrow_interval_and_no_narrow_rank():
    # One win and one loss against the same model: scores cancel in the sandwich of one prompt, Fisher's error does not.
    rows = arena(3, n=1500, prompts=60)
    newcomer = battle("z>c", question_id="q1") + battle("z<c", question_id="q1")
    for intervals in ({"ci": "sandwich"}, {"ci": "bootstrap", "rounds": 300}):
        board = ty.rate(rows + newcomer, **intervals)
        known, new = board["c"], board["z"]
        assert (new.ci_low, new.ci_high) == (None, None)
        assert "no interval: its battles come from too few prompts (effectively 1.0" in new.note
        # The scale is that of the models that have an interval: z's own error is in nobody else's.
        others = [entry.rating for entry in board if entry.model != "z"]
        assert np.mean(others) == pytest.approx(1000.0, abs=1e-6)
        without = ty.rate(rows, **intervals)["c"]
        assert known.ci_high - known.ci_low == pytest.approx(without.ci_high - without.ci_low, rel=0.05)
        assert (new.rank_low, new.rank_high) == (1, 6)
        assert known.rank_high - known.rank_low <= 2


def test_a_model_that_was_only_ever_both_bad_is_left_out_by_name():
    board = ty.rate(BOTH_WAYS + battle("z!a", 3))
    assert "z" not in board.models
    assert board.left_out == {"no rated battle: z": 3}
    assert board["a"].both_bad == 0
    kept = ty.rate(BOTH_WAYS + battle("z!a", 3), both_bad="half")
    assert kept["z"].ties == 3


def test_nothing_but_both_bad_is_nothing_to_rate():
    with pytest.raises(NoBattles, match="no battle is left"):
        ty.rate(battle("a!b", 3))


def test_rows_of_weight_zero_say_nothing_and_are_counted():
    rows = BOTH_WAYS + battle("z>a", weight=0) + battle("a>b", question_id="q1", weight=0)
    board = ty.rate(rows)
    assert board.ratings == pytest.approx(ty.rate(BOTH_WAYS).ratings)
    assert board.left_out["row of weight 0"] == 2
    assert "z" not in board.models
    assert board.details.n_clusters == len(BOTH_WAYS)
    assert board.remarks[0] == "each battle counted as independent: no prompt or voter column"
    with pytest.raises(NoBattles):
        ty.rate(battle("a>b", weight=0))


def test_battles_are_counted_once_before_rare_models_leave():
    # z has 1 battle and leaves; y had 2, one of them against z, and stays with the one that is left.
    rows = BOTH_WAYS + battle("x>a", 2) + battle("a>x") + battle("y>x") + battle("z>y")
    board = ty.rate(rows, min_battles=2)
    assert set(board.models) == {"a", "b", "c", "x", "y"}
    assert board.left_out == {"model with fewer than 2 battles": 1}
    assert board["y"].n_battles == 1
    with pytest.raises(NoBattles, match="fewer than 100"):
        ty.rate(rows, min_battles=100)


def test_min_battles_beside_controls_counts_battles_once():
    # Rated and both-bad battles together reach the least number, rated ones alone do not: nobody may leave later,
    # when the ratings without control are computed.
    both_bad = battle("a!b", 90) + battle("b!c", 90) + battle("c!a", 90)
    rows = styled(n=200) + [{**row, "len_a": 1, "len_b": 2} for row in both_bad]
    counts = [sum(name in (row["model_a"], row["model_b"]) for row in rows) for name in "abc"]
    board = ty.rate(rows, control=["len"], min_battles=min(counts))
    assert max(entry.n_battles - entry.both_bad for entry in board) < min(counts)
    alone = ty.rate(rows, ties="half", slot=True)
    for entry in board:
        assert entry.extra["rating_without_control"] == pytest.approx(alone.ratings[entry.model])


@pytest.mark.parametrize("method", ["bt", "elo", "glicko2", "winrate"])
def test_an_evaluated_model_that_is_not_there_is_an_error_that_lists_who_is(method):
    with pytest.raises(OptionError, match=r"'nobody' is in none of the rated battles. The models are a, b, c\."):
        ty.rate(BOTH_WAYS, method=method, evaluated="nobody")


def test_an_anchor_that_is_not_there_is_an_error_that_lists_who_is():
    with pytest.raises(OptionError, match=r"anchor 'nobody' is in none of the rated battles. The models are a, b, c\."):
        ty.rate(BOTH_WAYS, anchor=("nobody", 1000))


def styled(seed=0, n=200):
    rng = np.random.default_rng(seed)
    return [
        {**row, "len_a": int(rng.integers(1, 99)), "len_b": int(rng.integers(1, 99))} for row in arena(seed, n, "abc")
    ]


def test_a_control_without_its_columns_is_refused():
    with pytest.raises(OptionError, match="bold_a"):
        ty.rate(styled(), control=["bold"])
    with pytest.raises(OptionError, match="bold_a, bold_b"):
        ty.rate(ty.read_battles(styled()), control=["bold"])


def test_a_constant_control_is_refused():
    with pytest.raises(RatingError, match="'flat' is equal on both sides in every battle"):
        ty.rate([{**row, "flat_a": 3, "flat_b": 3} for row in styled()], control=["flat"])


@pytest.mark.parametrize("seed", range(6))
def test_two_controls_that_say_the_same_are_refused(seed):
    rows = [{**row, "words_a": 3 * row["len_a"], "words_b": 3 * row["len_b"]} for row in styled(seed)]
    with pytest.raises(NotConverged, match="equal to another one"):
        ty.rate(rows, control=["len", "words"])
    with pytest.raises(NotConverged, match="equal to another one"):
        ty.rate(rows, control=["len", "len"])


@pytest.mark.parametrize("seed", range(6))
def test_a_control_that_is_the_model_itself_is_refused(seed):
    # With two models of fixed lengths the length is the model: their gap and the coefficient cannot be told apart.
    size = {"a": 3, "b": 8}
    rows = [{**row, "len_a": size[row["model_a"]], "len_b": size[row["model_b"]]} for row in arena(seed, 100, "ab")]
    with pytest.raises(NotConverged, match="follows the models"):
        ty.rate(rows, control=["len"])


def test_a_control_missing_in_some_battles_is_refused_with_how_many():
    rows = styled()
    del rows[3]["len_a"], rows[7]["len_b"]
    with pytest.raises(RatingError, match="missing in 2 battles"):
        ty.rate(rows, control=["len"])


def test_the_slot_term_is_refused_on_settled_judgments():
    rows = [{**row, "source": "llm-judge"} for row in arena(0)]
    with pytest.raises(OptionError, match="settled over both orders"):
        ty.rate(rows, slot=True)
    assert not ty.rate(rows).details.coefficients


def test_the_slot_term_is_refused_where_the_evaluated_model_always_sat_on_one_side():
    rows = arena(0) + battle("z>a", 5) + battle("z<b", 5)
    with pytest.raises(OptionError, match="'z' always sat on one side"):
        ty.rate(rows, slot=True, evaluated="z")
    assert "first slot" in ty.rate(rows, slot=True).details.coefficients


def test_controls_bring_the_slot_term_where_people_voted_and_not_where_a_judge_did():
    assert set(ty.rate(styled(), control=["len"]).details.coefficients) == {"first slot", "len"}
    judged = [{**row, "source": "llm-judge"} for row in styled()]
    assert set(ty.rate(judged, control=["len"]).details.coefficients) == {"len"}


def test_a_level_or_rounds_out_of_range_is_refused():
    for level in (0.0, 1.0, 95.0):
        with pytest.raises(OptionError, match="level"):
            ty.rate(BOTH_WAYS, level=level)
    with pytest.raises(OptionError, match="at least 2"):
        ty.rate(BOTH_WAYS, ci="bootstrap", rounds=1)


def test_a_cluster_column_that_is_not_there_is_refused():
    with pytest.raises((OptionError, BattleError), match="voter"):
        ty.rate(BOTH_WAYS, cluster="voter")


def test_rows_without_a_prompt_stand_alone_among_rows_with_one():
    rows = arena(4, n=100, prompts=10)
    mixed = rows + [{key: value for key, value in row.items() if key != "question_id"} for row in arena(5, n=30)]
    assert ty.rate(mixed).details.n_clusters == 10 + 30


def test_thousands_of_models_go_through_the_board(monkeypatch):
    from tiltyard.stats import bradley_terry

    rows = arena(6, n=2000, models="abcdefghijklmnopqrstuvwxyz", prompts=50)
    dense = ty.rate(rows)
    monkeypatch.setattr(bradley_terry, "DENSE_MODELS", 5)
    sparse = ty.rate(rows)
    for entry in dense:
        assert sparse[entry.model].rating == pytest.approx(entry.rating, abs=1e-5)
        assert sparse[entry.model].ci_low == pytest.approx(entry.ci_low, abs=1e-5)
        assert sparse[entry.model].rank_low == entry.rank_low

"""Bradley–Terry over counted votes beside the live order."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from tests.arena.small_worlds import honest_chooser, new_log, play
from tests.records import replace
from tiltyard.analysis.boards import BradleyTerry
from tiltyard.arena import Choice, VoteTable, vote_table
from tiltyard.arena import events as e
from tiltyard.arena.rules.policy import IntervalRules
from tiltyard.arena.study.board import live_board
from tiltyard.arena.study.offline import offline_board, on_scale
from tiltyard.data.battles import Outcome

STRENGTHS = np.linspace(250.0, -250.0, 10)


def table(
    rng: np.random.Generator, n: int, strengths: np.ndarray, *, voters: int = 200, skew: float = 0.0
) -> VoteTable:
    """Honest votes on random pairs; with `skew` that share is between models next to each other."""
    m = len(strengths)
    a = rng.integers(m, size=n)
    b = (a + rng.integers(1, m, size=n)) % m
    near = rng.random(n) < skew
    b = np.where(near, np.where(a + 1 < m, a + 1, a - 1), b)
    turned = rng.random(n) < 0.5
    a, b = np.where(turned, b, a), np.where(turned, a, b)
    won = rng.random(n) < 1.0 / (1.0 + 10.0 ** ((strengths[b] - strengths[a]) / 400.0))
    u = rng.random(n)
    outcome = np.where(u < 0.05, Outcome.BOTH_BAD.code, np.where(won, Outcome.A.code, Outcome.B.code)).astype(np.int8)
    return VoteTable(
        models=tuple(f"m{i:02d}" for i in range(m)),
        prompts=tuple(f"p{i:02d}" for i in range(15)),
        at=np.arange(n),
        model_a=a,
        model_b=b,
        prompt=rng.integers(15, size=n),
        voter=rng.integers(voters, size=n),
        outcome=outcome,
    )


def test_the_board_of_a_log_agrees_with_the_live_order_and_leaves_both_bad_out() -> None:
    rng = np.random.default_rng(2)
    log = new_log(8, 6)
    play(log, 1500, rng, honest_chooser(rng, np.linspace(250.0, -250.0, 8)), close=0.3)
    live = [row.model for row in live_board(log.rate()).rows]
    votes = vote_table(log.book, log.state.catalog)
    board = offline_board(votes, live)
    assert board.tau_live is not None
    assert board.tau_live > 0.8
    assert board.votes == int(votes.rated.sum()) < len(votes)
    assert board.clusters == "voter"
    assert "these prompts and answers" in board.speaks_for
    assert [row.rank for row in board.rows] == list(range(1, 9))
    assert all(row.low is not None and row.high is not None and row.low < row.rating < row.high for row in board.rows)
    assert board.rows[-1].votes_to_swap is None
    msgspec.json.encode(board)


def test_the_ratings_are_those_that_rating_the_exported_battles_gives() -> None:
    votes = table(np.random.default_rng(3), 2000, STRENGTHS)
    ours = offline_board(votes, list(votes.models), swaps=False)
    theirs = BradleyTerry(cluster="voter").fit(votes.battles())
    assert {row.model: row.rating for row in ours.rows} == theirs.ratings


def test_models_added_out_of_the_order_of_their_names_keep_their_votes() -> None:
    log = new_log(0, 0)
    for name in ("zebra", "ant"):
        log.say(e.ModelAdded(model=name, display_name=name))
    log.say(e.PromptAdded(prompt_id="p", text="?"))
    for _ in range(9):
        log.meet("zebra", "ant", "p", Choice.A)
    log.meet("zebra", "ant", "p", Choice.B)
    board = offline_board(vote_table(log.book, log.state.catalog), ["zebra", "ant"])
    assert [row.model for row in board.rows] == ["zebra", "ant"]
    assert board.rows[0].rating - board.rows[1].rating == pytest.approx(400 * np.log10(9))
    assert board.tau_live == pytest.approx(1.0)


def test_excluded_votes_are_not_rated() -> None:
    log = new_log(2, 1)
    for choice in (Choice.A, Choice.B, Choice.A):
        last = log.meet("m00", "m01", "p00", choice)
    log.say(e.Excluded(matchup_ids=(last,), reason="test"))
    assert offline_board(vote_table(log.book, log.state.catalog), ["m00", "m01"]).votes == 2


def test_a_model_that_met_nobody_is_named_and_the_others_are_rated() -> None:
    votes = table(np.random.default_rng(4), 500, STRENGTHS[:4])
    apart = VoteTable(
        models=(*votes.models, "m98", "m99"),
        prompts=votes.prompts,
        at=np.append(votes.at, 501),
        model_a=np.append(votes.model_a, 4),
        model_b=np.append(votes.model_b, 5),
        prompt=np.append(votes.prompt, 0),
        voter=np.append(votes.voter, 0),
        outcome=np.append(votes.outcome, np.int8(0)),
    )
    board = offline_board(apart, list(apart.models), swaps=False)
    assert len(board.rows) == 4
    assert any("m98" in remark for remark in board.remarks)


@pytest.mark.parametrize("prompts", [15, 150])
def test_intervals_speak_for_these_prompts_unless_the_policy_says_otherwise(prompts: int) -> None:
    votes = replace(
        table(np.random.default_rng(5), 1500, STRENGTHS[:4]),
        prompts=tuple(f"p{i:03d}" for i in range(prompts)),
        prompt=np.arange(1500) % prompts,
    )
    these = offline_board(votes, [], swaps=False)
    others = offline_board(votes, [], IntervalRules(speak_for="prompts_like_these"), swaps=False)
    assert (these.clusters, others.clusters) == ("voter", "prompt,voter")
    assert "these prompts and answers" in these.speaks_for
    assert "other prompts of this kind too" in others.speaks_for
    two_way = BradleyTerry(cluster="prompt,voter").fit(votes.battles())
    assert {row.model: (row.low, row.high) for row in others.rows} == {
        entry.model: (entry.ci_low, entry.ci_high) for entry in two_way
    }


def test_ranges_of_ranks_hold_at_any_time_unless_the_policy_says_otherwise() -> None:
    votes = table(np.random.default_rng(3), 3000, STRENGTHS)
    watched = {row.model: row for row in offline_board(votes, [], swaps=False).rows}
    once = {row.model: row for row in offline_board(votes, [], IntervalRules(anytime=False), swaps=False).rows}
    for anytime, places in ((True, watched), (False, once)):
        board = BradleyTerry(cluster="voter", anytime=anytime).fit(votes.battles())
        assert {entry.model: (entry.rank_low, entry.rank_high) for entry in board} == {
            model: (row.rank_low, row.rank_high) for model, row in places.items()
        }
    assert {m: (row.rank_low, row.rank_high) for m, row in watched.items()} != {
        m: (row.rank_low, row.rank_high) for m, row in once.items()
    }


def test_ranges_are_among_the_models_of_the_board_so_that_one_that_is_off_takes_no_place() -> None:
    """Of ten clearly different models five are on the board: their ranges are those of five, not of ten."""
    votes = table(np.random.default_rng(3), 20_000, 2.0 * STRENGTHS)
    whole = {row.model: row for row in offline_board(votes, list(votes.models), swaps=False).rows}
    enabled = list(votes.models[1::2])
    part = {row.model: row for row in offline_board(votes, enabled, swaps=False).rows}
    assert [(part[name].rank_low, part[name].rank_high) for name in enabled] == [(i, i) for i in range(1, 6)]
    assert (whole[enabled[-1]].rank_low, part[enabled[-1]].rank_high) == (10, 5)
    assert {row.rank_low for name, row in part.items() if name not in enabled} == {None}
    assert {name: (row.rating, row.low) for name, row in part.items()} == {
        name: (row.rating, row.low) for name, row in whole.items()
    }


def test_moved_intervals_keep_their_order_and_lead_back_by_centre_and_slope() -> None:
    votes = table(np.random.default_rng(4), 3000, STRENGTHS)
    board = offline_board(votes, list(votes.models), swaps=False)
    shown = {row.model: 1500.0 + 0.8 * (row.rating - 1000.0) for row in board.rows}
    moved = on_scale(board, shown)
    assert (moved.centre, moved.slope) == (pytest.approx(1500.0), pytest.approx(0.8))
    for before, after in zip(board.rows, moved.rows, strict=True):
        assert after.rating == pytest.approx(shown[before.model])
        assert before.low is not None
        assert after.low == pytest.approx(1500.0 + 0.8 * (before.low - 1000.0))
        assert (after.rank_low, after.rank_high, after.widened) == (before.rank_low, before.rank_high, False)
    assert on_scale(moved, shown) is moved, "a board is moved once"


def test_an_interval_that_does_not_contain_the_rating_shown_is_widened_to_it_and_marked() -> None:
    votes = table(np.random.default_rng(4), 3000, STRENGTHS)
    board = offline_board(votes, list(votes.models), swaps=False)
    shown = {row.model: row.rating for row in board.rows}
    first = board.rows[0]
    off = on_scale(board, {**shown, first.model: shown[first.model] + 200.0}, slope=1.0)
    row = off.rows[0]
    assert (row.widened, row.high) == (True, shown[first.model] + 200.0)
    assert not any(other.widened for other in off.rows[2:])
    assert not any(row.widened for row in on_scale(board, shown, widen=False).rows)
    assert on_scale(board, {}) is board


def test_a_voter_with_a_third_of_the_votes_is_mentioned_and_one_with_most_leaves_no_interval() -> None:
    votes = table(np.random.default_rng(8), 2000, STRENGTHS[:5])
    third = replace(votes, voter=np.where(np.arange(2000) % 3 == 0, 0, votes.voter))
    assert any("one voter has 3" in remark for remark in offline_board(third, [], swaps=False).remarks)
    most = replace(votes, voter=np.where(np.arange(2000) % 10 > 0, 0, votes.voter))
    board = offline_board(most, [], swaps=False)
    assert all(row.low is row.high is None and "no interval" in (row.note or "") for row in board.rows)
    assert all((row.rank_low, row.rank_high) == (1, 5) for row in board.rows)


def test_where_the_model_holds_weighing_all_pairs_alike_hardly_moves_the_order() -> None:
    board = offline_board(table(np.random.default_rng(6), 8000, STRENGTHS, skew=0.5), [], swaps=False)
    assert board.tau_even_pairs is not None
    assert board.tau_even_pairs > 0.9
    assert board.tau_live is None


def test_equal_pair_counts_make_the_weighted_and_the_plain_rating_the_same() -> None:
    """Every pair of 4 models exactly 10 times: 1/n_ij is a constant."""
    rng = np.random.default_rng(7)
    pairs = np.array([(i, j) for i in range(4) for j in range(i + 1, 4)] * 10)
    n = len(pairs)
    votes = VoteTable(
        models=("a", "b", "c", "d"),
        prompts=("p",),
        at=np.arange(n),
        model_a=pairs[:, 0],
        model_b=pairs[:, 1],
        prompt=np.zeros(n, dtype=np.int64),
        voter=np.arange(n),
        outcome=rng.integers(0, 3, n).astype(np.int8),
    )
    for row in offline_board(votes, [], swaps=False).rows:
        assert row.even_pairs_rating == pytest.approx(row.rating, abs=1e-6)


def test_removing_as_many_votes_as_it_says_can_swap_two_neighbours() -> None:
    """Two models, 12 wins to 10: removing 2 of the 12 makes them level."""
    outcome = np.array([0] * 12 + [1] * 10, dtype=np.int8)
    n = len(outcome)
    zero = np.zeros(n, dtype=np.int64)
    votes = VoteTable(("a", "b"), ("p",), np.arange(n), zero, zero + 1, zero, np.arange(n), outcome)
    assert offline_board(votes, ["a", "b"]).rows[0].votes_to_swap == 2


def covered(seed: int, runs: int) -> float:
    """How often intervals of a neighbour-heavy schedule hold the truth, over all models and runs."""
    inside = []
    for child in np.random.SeedSequence(seed).spawn(runs):
        votes = table(np.random.default_rng(child), 3000, STRENGTHS, voters=150, skew=0.4)
        rows = {row.model: row for row in offline_board(votes, [], swaps=False).rows}
        truth = 1000.0 + STRENGTHS - STRENGTHS.mean()
        inside += [
            (rows[f"m{i:02d}"].low or -9e9) <= truth[i] <= (rows[f"m{i:02d}"].high or 9e9) for i in range(len(truth))
        ]
    return float(np.mean(inside))


def test_intervals_cover_the_truth_under_a_neighbour_heavy_schedule() -> None:
    """20 runs of 10 models: 0.95 ± 0.03. Every run too: the ratings and intervals are those of the exported battles."""
    assert 0.9 <= covered(1, 20) <= 0.99


@pytest.mark.soak
def test_intervals_cover_the_truth_in_many_runs() -> None:
    assert 0.935 <= covered(2, 400) <= 0.965

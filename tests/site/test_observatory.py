"""The observatory publishes what the log says, keeps up with it, and never changes what it has published."""

from __future__ import annotations

import shutil
import sqlite3
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from tests.arena.small_worlds import Log
from tests.oracles.rating_paths import rating_path
from tests.records import replace
from tests.site.board_fixtures import DAY, MODELS, NEWCOMER, World, week_of_votes, world
from tests.site.sites import QUICK
from tiltyard.arena import Arena, ArenaState, Badge, Known, VoteColumns, weekly_report
from tiltyard.arena import events as e
from tiltyard.arena.store import Store, events_in_order, log
from tiltyard.arena.study import Observatory, VotePart, period_of_log
from tiltyard.arena.study.board import live_board
from tiltyard.arena.study.offline import offline_board, on_scale
from tiltyard.arena.study.parts import part_board
from tiltyard.arena.study.replay import movements, published_ratings
from tiltyard.arena.study.snapshots import with_swaps
from tiltyard.arena.study.weekly import BoardAt
from tiltyard.errors import ArenaError, StoreError


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(week_of_votes(400), tmp_path_factory.mktemp("seen")) as made:
        yield made


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(week_of_votes(150), tmp_path_factory.mktemp("small")) as made:
        yield made


@pytest.fixture
def copied(small: World, tmp_path: Path) -> str:
    """The address of a copy of it, to be written to."""
    return f"sqlite:///{shutil.copy(small.url.removeprefix('sqlite:///'), tmp_path / 'board.db')}"


@pytest.fixture
def fresh(small: World, copied: str) -> Iterator[World]:
    observatory = Observatory(copied, now=lambda: small.end, pace=QUICK)
    observatory.refresh()
    yield World(small.log, copied, observatory)
    observatory.close()


def folded(url: str) -> ArenaState:
    """The state after every event of the log."""
    store, state = Store.open(url), ArenaState()
    try:
        for seq, event in enumerate(events_in_order(store), start=1):
            state.apply(seq, event)
    finally:
        store.close()
    return state


def same_votes(observatory: Observatory, url: str) -> bool:
    """Whether the followed votes are those that a reading from the beginning finds."""
    state = folded(url)
    assert isinstance(state.votes, VoteColumns)
    again = state.votes.table(state.catalog, with_ids=True)
    followed = observatory.snapshot.study.votes
    columns = ("at", "model_a", "model_b", "prompt", "outcome")
    ids = observatory.look(lambda state, votes: votes.table(state.catalog, with_ids=True).matchup_ids)
    return ids == again.matchup_ids and all(
        np.array_equal(getattr(followed, name), getattr(again, name)) for name in columns
    )


def test_a_snapshot_is_the_board_of_the_log_and_knows_its_end(seen: World) -> None:
    store = Store.open(seen.url)
    try:
        with store.database.read() as connection:
            head = log.head(connection)
    finally:
        store.close()
    snapshot, state = seen.snapshot, folded(seen.url)
    assert isinstance(state.votes, VoteColumns)
    state.show(published_ratings(state.votes.table(state.catalog), state.policy))
    assert (snapshot.seq, snapshot.log_hash) == head
    assert snapshot.board == live_board(state, evidence=snapshot.study.evidence)
    assert np.array_equal(snapshot.wins, state.tallies.wins.view)
    assert snapshot.board.votes == len(snapshot.study.votes) == 400


def test_new_votes_appear_and_what_was_published_stays(fresh: World) -> None:
    before = fresh.snapshot
    wins = before.wins.copy()
    with Arena.open(fresh.url) as arena:
        for _ in range(12):
            served = arena.serve("visitor")
            arena.vote(served.matchup_id, "visitor", e.Choice.A)
    after = fresh.observatory.refresh()
    assert after.board.votes == before.board.votes + 12
    assert after.seq == before.seq + 24
    assert np.array_equal(before.wins, wins)
    with pytest.raises(ValueError, match="read-only"):
        before.wins[0, 1] = 7
    assert [vote.choice for vote in fresh.observatory.votes_of("visitor")] == [e.Choice.A] * 12


def test_followed_votes_are_those_of_a_reading_from_the_beginning_whatever_was_undone_or_excluded(fresh: World) -> None:
    ids = [vote.matchup_id for vote in fresh.observatory.look(lambda _, votes: list(votes))]
    with Arena.open(fresh.url) as arena:
        served = arena.serve("visitor")
        arena.append([e.Excluded(matchup_ids=tuple(ids[3:9]), reason="test")])
        fresh.observatory.refresh()
        assert same_votes(fresh.observatory, fresh.url)
        arena.vote(served.matchup_id, "visitor", e.Choice.B, reveal=False)
        arena.undo(served.matchup_id, "visitor")
        arena.append([e.Restored(matchup_ids=tuple(ids[4:6]), reason="test")])
        fresh.observatory.refresh()
    assert same_votes(fresh.observatory, fresh.url)
    assert fresh.snapshot.board.votes == 150 - 6 + 2
    assert [str(vote.standing) for vote in fresh.observatory.votes_of("visitor")] == ["undone"]
    notes = [note.what for note in fresh.snapshot.study.weekly.exclusions]
    assert notes == ["6 votes excluded", "2 votes restored"]


def test_the_replay_ends_at_the_live_ratings_and_agrees_with_the_arena_on_every_model(seen: World) -> None:
    snapshot = seen.snapshot
    again, votes, rules = snapshot.study.replay, snapshot.study.votes, snapshot.policy.rating
    columns = (votes.model_a, votes.model_b, votes.score_a())
    rated = list(zip(*(column[votes.rated].tolist() for column in columns), strict=True))
    (look,) = again.looks([(seen.end + DAY, set(MODELS))])
    for row in snapshot.board.rows:
        assert look.standings[row.model].rating == pytest.approx(row.rating, abs=1e-9)
        assert look.standings[row.model].deviation == pytest.approx(row.deviation, abs=1e-9)
    for model in range(len(MODELS)):
        path, theirs = again.path(model), rating_path(votes, rules, model)
        assert np.array_equal(path.rating, theirs.rating)
        assert np.array_equal(path.deviation, theirs.deviation)
        curve = again.calibration(model)
        assert curve.votes == len(theirs.rating)
        assert sum(row.votes * row.observed for row in curve.bins) == pytest.approx(
            sum(score if a == model else 1 - score for a, b, score in rated if model in (a, b))
        )


def test_the_week_is_the_one_that_the_whole_log_tells(seen: World) -> None:
    store = Store.open(seen.url)
    try:
        state, period = period_of_log(events_in_order(store), seen.end - 7 * DAY)
    finally:
        store.close()
    theirs, ours = weekly_report(state, period), seen.snapshot.study.weekly
    assert (ours.since, ours.until) == (theirs.since, theirs.until)
    assert (ours.votes, ours.voters, ours.lanes) == (theirs.votes, theirs.voters, theirs.lanes)
    assert ours.contender_lane == theirs.contender_lane
    assert ours.sides == theirs.sides
    assert ours.events == theirs.events
    assert ours.pair_completeness == theirs.pair_completeness
    assert ours.coverage_fairness == theirs.coverage_fairness
    votes = seen.snapshot.study.votes
    assert 0 < votes.by_contender_lane.sum() < len(votes)
    assert np.array_equal(votes.by_contender_lane, period.votes.by_contender_lane)
    assert NEWCOMER not in ours.looks[0].standings  # it had no vote then
    for name, known in ours.looks[0].standings.items():
        assert known == pytest.approx(theirs.looks[0].standings[name], abs=1e-9)


def test_a_category_is_rated_by_its_own_votes_alone(seen: World) -> None:
    snapshot = seen.snapshot
    board = part_board(snapshot, VotePart(category="maths"), dict).offline
    votes = snapshot.study.votes
    inside = np.isin(votes.prompt, [1, 4])
    assert board is not None
    assert board.votes == int((votes.rated & inside).sum())
    assert snapshot.study.categories["maths"] == int(inside.sum())
    columns = ("at", "model_a", "model_b", "prompt", "voter", "outcome", "block", "weight")
    only = replace(votes, **{name: getattr(votes, name)[inside] for name in columns})
    again = offline_board(only, [row.model for row in snapshot.board.rows], swaps=False)
    whole = snapshot.study.offline
    assert whole is not None
    assert board == on_scale(again, snapshot.board.raw_ratings, whole.slope, widen=False)
    assert seen.observatory.part(VotePart(category="no such subject")) is None
    assert seen.observatory.part(VotePart(category="maths")) is seen.observatory.part(VotePart(category="maths"))


def test_swaps_found_earlier_are_kept_for_neighbours_only(seen: World) -> None:
    board = seen.snapshot.study.offline
    assert board is not None
    swaps = {(above.model, below.model): above.votes_to_swap for above, below in pairwise(board.rows)}
    assert with_swaps(board, swaps) == board
    swapped = replace(board, rows=(board.rows[1], board.rows[0], *board.rows[2:]))
    found = with_swaps(swapped, swaps)
    assert [row.votes_to_swap for row in found.rows[:3]] == [None, None, board.rows[2].votes_to_swap]


def test_with_many_models_swaps_are_found_out_later_and_without_new_votes(small: World) -> None:
    pace = replace(QUICK, swaps_models=0, swaps_seconds=0.0)
    with Observatory(small.url, pace=pace) as following:
        ours = small.snapshot.study.offline
        assert ours is not None
        while (found := following.snapshot.study.offline) is None or found.rows[0].votes_to_swap is None:
            time.sleep(0.01)
        assert [row.votes_to_swap for row in found.rows] == [row.votes_to_swap for row in ours.rows]


def test_a_category_that_was_asked_for_follows_the_votes(copied: str) -> None:
    with Observatory(copied, pace=QUICK) as following:
        before = following.part(VotePart(category="maths"))
        assert before is not None
        with Arena.open(copied) as arena:
            for _ in range(30):
                served = arena.serve("visitor")
                arena.vote(served.matchup_id, "visitor", e.Choice.A)
        while (now := following.part(VotePart(category="maths"))) is None or now.votes == before.votes:
            time.sleep(0.01)
        assert now.votes > before.votes


def test_a_move_is_spoken_of_only_where_confidence_allows(seen: World) -> None:
    snapshot = seen.snapshot
    rows = snapshot.board.rows
    sure = [row.model for row in rows if row.badge is not Badge.PROVISIONAL]
    assert NEWCOMER not in sure
    assert len(sure) >= 4
    names = [row.model for row in rows]
    rose, fell = sure[0], sure[1]
    swapped = {rose: fell, fell: rose}
    before = BoardAt(
        0,
        {
            name: Known(
                snapshot.board[swapped.get(name, name)].rating, snapshot.board[swapped.get(name, name)].deviation
            )
            for name in names
        },
    )
    moved = movements(snapshot.board, before, snapshot.policy)
    assert set(moved) == set(sure)
    assert (moved[rose].places, moved[fell].places) == (1, -1)
    unsure = BoardAt(0, {name: Known(known.rating, 200.0) for name, known in before.standings.items()})
    assert movements(snapshot.board, unsure, snapshot.policy) == {}
    assert movements(replace(snapshot.board, phase=2), before, snapshot.policy) == {}


def test_an_empty_arena_has_an_empty_board(tmp_path: Path) -> None:
    with world(Log(), tmp_path) as made:
        assert made.snapshot.board.rows == ()
        assert made.snapshot.study.offline is None
        assert made.snapshot.study.offline_trouble
        with pytest.raises(ArenaError, match="no model"):
            made.snapshot.model("anybody")


def test_a_log_that_cannot_be_read_leaves_the_last_snapshot_and_says_so(copied: str, tmp_path: Path) -> None:
    with Observatory(copied, pace=QUICK) as following:
        seq = following.snapshot.seq
        connection = sqlite3.connect(tmp_path / "board.db")
        connection.execute("ALTER TABLE events RENAME TO gone")
        connection.commit()
        while following.trouble is None:
            time.sleep(0.01)
        assert following.snapshot.seq == seq
        with pytest.raises(StoreError):
            following.votes_of("v01")
        connection.execute("ALTER TABLE gone RENAME TO events")
        connection.commit()
        connection.close()
        while following.trouble is not None:
            time.sleep(0.01)
        assert following.votes_of("v01")


def test_before_the_first_reading_there_is_no_snapshot() -> None:
    with pytest.raises(StoreError, match="not read"):
        _ = Observatory("sqlite:///nowhere.db").snapshot

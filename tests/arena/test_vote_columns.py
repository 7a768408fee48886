"""Votes as columns are the votes that they were made of, and a site keeps little of each."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.arena.databases import make_empty_arena
from tests.arena.engines import Clock, catalog, open_arena
from tests.arena.small_worlds import Log, new_log
from tiltyard.arena import ArenaState, CastVote, Policy, VoteColumns, VoteStanding, VoteTable, vote_table
from tiltyard.arena import events as e
from tiltyard.arena.study import Observatory, Pace
from tiltyard.arena.study.recent_events import RecentEvents
from tiltyard.arena.writing import commands

HOUR = 3_600_000_000

BYTES_PER_VOTE = 900.0
"""Between what a vote takes here (490) and what it took as objects (2,370)."""

NAMES = new_log(4, 3).state.catalog

vote = st.builds(
    CastVote,
    seq=st.just(0),
    at=st.integers(0, 2**60),
    matchup_id=st.text(max_size=8),
    voter=st.sampled_from(["ann", "bob", "zoë"]),
    a=st.integers(0, 3),
    b=st.integers(0, 3),
    prompt=st.integers(0, 2),
    choice=st.sampled_from(e.Choice),
    standing=st.sampled_from(VoteStanding),
    block=st.sampled_from(["", "home", "office"]),
    lane=st.sampled_from(["", *e.LANES, "legacy"]),
    unrendered=st.sampled_from(["", "A", "B", "AB"]),
)


def numbered(votes: list[CastVote]) -> list[CastVote]:
    return [msgspec.structs.replace(one, seq=3 * place + 2) for place, one in enumerate(votes)]


def same(one: VoteTable, other: VoteTable) -> bool:
    names = VoteTable.__slots__
    columns = [(getattr(one, name), getattr(other, name)) for name in names]
    return all(
        a.dtype == b.dtype and a.tobytes() == b.tobytes() if isinstance(a, np.ndarray) else a == b for a, b in columns
    )


def served_at(log: Log, name: str) -> int:
    """When a matchup was served."""
    return next(v.at for v in log.events if isinstance(v.body, e.MatchupServed) and v.body.matchup_id == name)


@given(st.lists(vote, max_size=12).map(numbered))
def test_votes_come_back_as_they_were_and_make_the_same_table(votes: list[CastVote]) -> None:
    columns, names = VoteColumns(votes), NAMES
    assert list(columns) == list(columns.copy()) == votes
    assert same(columns.table(names, with_ids=True), vote_table(votes, names))
    assert columns.table(names).matchup_ids == ()
    assert [columns.place(one.seq) for one in votes] == list(range(len(votes)))
    assert columns.place(0) is None
    counted = columns.are_counted(np.array([one.seq for one in votes], dtype=np.int64))
    assert counted.tolist() == [one.standing is VoteStanding.COUNTED for one in votes]


@given(st.lists(vote, max_size=12, unique_by=lambda one: one.matchup_id).map(numbered))
def test_votes_are_found_by_voter_model_matchup_and_time(votes: list[CastVote]) -> None:
    columns = VoteColumns(votes)
    assert columns.of_voter("ann") == [one for one in votes if one.voter == "ann"]
    assert columns.of_voter("nobody") == []
    on = [one for one in votes if 1 in (one.a, one.b) and one.standing is not VoteStanding.UNDONE]
    assert columns.of_model(1, 3) == on[::-1][:3]
    wanted = {one.matchup_id for one in votes[::2]}
    assert columns.find(wanted) == [one for one in votes if one.matchup_id in wanted]
    times = sorted(one.at for one in votes)
    assert all(columns.latest_before(at) == max((v.seq for v in votes if v.at < at), default=0) for at in times)
    for voter, counts in columns.standings().items():
        own = [one.standing for one in votes if one.voter == voter]
        assert counts == {standing: own.count(standing) for standing in VoteStanding}


def test_a_vote_that_is_excluded_later_counts_no_more() -> None:
    votes = numbered([CastVote(0, 1, f"m{n}", "ann", 0, 1, 0, e.Choice.A, block=f"b{n}") for n in range(3)])
    columns, names = VoteColumns(votes), NAMES
    kept = columns.copy()
    columns.change(votes[0], VoteStanding.EXCLUDED)
    now = [msgspec.structs.replace(votes[0], standing=VoteStanding.EXCLUDED), *votes[1:]]
    assert same(columns.table(names, with_ids=True), vote_table(now, names))
    assert columns.table(names).blocks == ("b1", "b2")
    assert list(kept) == votes


def test_recent_events_are_those_of_the_last_days() -> None:
    """A vote an hour for 20 hours, of which one was undone and one matchup is open; ten hours are kept."""
    log = new_log(3, 2)
    ids = [
        log.meet("m00", "m01", "p00", e.Choice.A, lane="contender" if n % 2 else "coverage", after=HOUR)
        for n in range(20)
    ]
    log.say(e.Undone(matchup_id=ids[18]))
    log.meet("m02", "m00", "p01", e.Choice.B)
    *closed, _ = log.events
    state = ArenaState(book := VoteColumns())
    recent = RecentEvents(10 * HOUR)
    for seq, event in enumerate(closed):
        state.apply(seq + 1, event)
        recent.follow([event], seq, state.catalog)
    since = served_at(log, ids[10])
    served = recent.served(since, book)
    assert (served.model_a.tolist(), served.model_b.tolist()) == ([0] * 9, [1] * 9)
    assert served.lanes == {"coverage": 4, "contender": 5}
    assert recent.kinds(since, state) == {"matchup_served": 10, "voted": 10, "undone": 1}
    oldest = recent.kinds(0, state)["voted"]
    assert 10 <= oldest <= 13  # what is too old goes when it is an eighth of all


@pytest.fixture
def drive(tmp_path: Path) -> Iterator[Callable[[int], None]]:
    """Votes of 20 visitors through the writer, followed as a site does."""
    url, clock, rng = f"sqlite:///{tmp_path / 'arena.db'}", Clock(), np.random.default_rng(1)
    make_empty_arena(url)
    arena, site = open_arena(url, clock), Observatory(url, now=clock, pace=Pace(publish_seconds=0.0))

    def more(votes: int) -> None:
        for _ in range(votes // 20):
            clock.turn(20.0)
            asked = [(f"visitor{n:025d}", f"block{n:07d}") for n in range(20)]
            served = [arena.submit(commands.ServeMatchup(voter, block=block)) for voter, block in asked]
            ids = [one.result().matchup_id for one in served]
            said = [tuple(e.Choice)[number] for number in rng.integers(4, size=20)]
            votes_of = [
                commands.SubmitVote(matchup, voter, choice, block=block)
                for matchup, (voter, block), choice in zip(ids, asked, said, strict=True)
            ]
            for done in [arena.submit(one) for one in votes_of]:
                done.result()
        site.refresh()

    try:
        arena.append([*catalog(5, 4), e.SettingsChanged(policy=Policy(window_matchups=100))])
        yield more
    finally:
        site.close()
        arena.close()


def test_a_site_keeps_little_of_each_vote(drive: Callable[[int], None]) -> None:
    """Python's own memory of the writer and of the follower together, over 100 votes after the first 60."""
    tracemalloc.start()
    try:
        drive(60)
        gc.collect()
        before, _ = tracemalloc.get_traced_memory()
        drive(100)
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (after - before) / 100 < BYTES_PER_VOTE

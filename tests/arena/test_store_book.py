"""Votes and ratings as they stood at any place of the log, read from tables that are further on."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from tests.arena.engines import Clock, catalog, open_arena, play
from tests.arena.test_state_folding import arena as small_state
from tests.arena.test_state_folding import random_votes, served
from tiltyard.arena import events as e
from tiltyard.arena.policy import Policy, RatingRules
from tiltyard.arena.rating_track import SCORES, RatingTrack
from tiltyard.arena.state import ArenaState
from tiltyard.arena.store import Store, log
from tiltyard.arena.store.state_bytes import encode_state
from tiltyard.arena.store.vote_book import SqlVoteBook
from tiltyard.arena.votes import MemoryVoteBook

CHOICES = {score: choice for choice, score in SCORES.items()}
OFTEN = 16


@pytest.fixture(scope="module")
def changed_url(shared_url: str) -> str:
    """An arena whose votes were taken out and put back, far back and lately, across marks and a change of rules."""
    with open_arena(shared_url, Clock(), checkpoint_every=OFTEN) as arena:
        arena.append(catalog())
        first = [name for name, _, _ in play(arena, 20)]
        arena.append([e.Excluded(matchup_ids=tuple(first[10:15]), reason="test")])
        second = [name for name, _, _ in play(arena, 14, seed=1)]
        arena.append([e.Restored(matchup_ids=tuple(first[12:14]), reason="test")])
        arena.append([e.Excluded(matchup_ids=tuple(second[5:7]), reason="test")])
        arena.append([e.SettingsChanged(policy=Policy(rating=RatingRules(volatility=0.02)))])
        third = [name for name, _, _ in play(arena, 14, seed=2)]
        arena.append([e.Excluded(matchup_ids=(first[0], third[0]), reason="test")])
        play(arena, 12, seed=3)
        arena.append([e.Excluded(matchup_ids=(third[10],), reason="test")])
        play(arena, 12, seed=4)
    return shared_url


@cache
def states_along(url: str) -> list[tuple[int, ArenaState]]:
    """The log folded in memory, looked at after every change; a state of its own each time. Nobody changes them."""
    store = Store.open(url, OFTEN)
    with store.database.read() as connection:
        rows = [row for page in log.chained_after(connection, 0) for row in page]
    store.close()
    bodies = [(row.seq, e.Event(row.at, e.decode_body(row.text))) for row in rows]
    changes = [seq for seq, event in bodies if isinstance(event.body, e.Excluded | e.Restored | e.SettingsChanged)]
    states = []
    for until in (*changes, rows[-1].seq):
        state = ArenaState(MemoryVoteBook())
        for seq, event in bodies[:until]:
            state.apply(seq, event)
        states.append((until, state))
    return states


def test_the_votes_that_count_are_those_that_counted_then(changed_url: str) -> None:
    store = Store.open(changed_url, OFTEN)
    with store.database.read() as connection:
        for seq, state in states_along(changed_url):
            book = SqlVoteBook(connection)
            book.seq = seq
            (then,) = state.book.votes_after(0)
            found = [vote for piece in book.votes_after(0) for vote in piece.seq.tolist()]
            assert found == then.seq.tolist()
    store.close()


def test_ratings_go_on_from_any_mark_that_is_offered(changed_url: str) -> None:
    """For every vote, as of every change: the mark before it and the votes since give the ratings of that time."""
    store = Store.open(changed_url, OFTEN)
    used = set()
    with store.database.read() as connection:
        for seq, state in states_along(changed_url):
            book = SqlVoteBook(connection)
            book.seq, book.rules_since = seq, state.rules_since
            for first in range(1, seq + 1, 7):
                start = book.ratings_before(first)
                if start is None:
                    continue
                used.add(start.seq)
                track = RatingTrack(state.policy.rating)
                track.restore(start)
                for votes in book.votes_after(start.seq):
                    for vote, a, b, score in zip(votes.seq, votes.a, votes.b, votes.score_a, strict=True):
                        track.vote(int(vote), int(a), int(b), CHOICES[float(score)])
                for mine, then in zip(track.now.columns(), state.track.now.columns(), strict=True):
                    assert np.array_equal(mine, then)
                assert start.seq < first
    store.close()
    assert len(used) >= 3


def test_a_mark_is_not_used_once_a_vote_before_it_was_changed(changed_url: str) -> None:
    store = Store.open(changed_url, OFTEN)
    (end, state) = states_along(changed_url)[-1]
    with store.database.read() as connection:
        book = SqlVoteBook(connection)
        book.seq, book.rules_since = end, state.rules_since
        changed = [
            vote.seq for vote in book.find([v.matchup_id for v in state.book.votes]) if vote.standing != "counted"
        ]  # type: ignore[attr-defined]
        last = max(changed)
        start = book.ratings_before(end)
        before_change = book.ratings_before(last)
    store.close()
    assert start is not None  # a mark after the last change holds
    assert before_change is None  # all others are older than the first vote, which was taken out, or than the rules


def test_a_frozen_state_holds_nothing_that_is_not_in_the_log() -> None:
    plain, early = small_state(), small_state()
    for state in (plain, early):
        random_votes(state, 30, seed=6)
    for number in (500, 501):
        early.reserve(served(number, 0, 1))
    assert encode_state(early) == encode_state(plain)
    assert early.schedule.early == 2
    assert len(early.schedule.in_flight) == 2

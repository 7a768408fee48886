"""Nobody learns the names and then undoes: the rules over all orders of requests, and real workers that race."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

import msgspec
import pytest

from tests.arena.databases import rule_above_the_store
from tests.arena.engines import Clock, catalog, open_arena
from tiltyard.arena import SECOND, Gone, MatchupStatus, NoVote, TooLate, screen
from tiltyard.arena import events as e
from tiltyard.arena.audit.verify import verify
from tiltyard.arena.rules import voting
from tiltyard.arena.rules.voting import Ballot, Decision
from tiltyard.arena.store import log
from tiltyard.arena.store.matchups import public_until
from tiltyard.errors import ArenaError

A, B = e.Choice.A, e.Choice.B
HALF = SECOND // 2
UNDO_SECONDS = 5
OPEN = Ballot(
    id="m", voter="v", a=0, b=1, served_at=0, expires_at=10**9, status=MatchupStatus.OPEN, choice=None, closed_at=None
)
"""Its time is over long after everything here."""

REQUESTS: dict[str, Callable[[Ballot, int], Decision]] = {
    "vote": lambda ballot, now: voting.vote(ballot, A, now, undo_seconds=UNDO_SECONDS),
    "vote, held back": lambda ballot, now: voting.vote(ballot, A, now, reveal=False, undo_seconds=UNDO_SECONDS),
    "vote otherwise": lambda ballot, now: voting.vote(ballot, B, now, undo_seconds=UNDO_SECONDS),
    "reveal": voting.reveal,
    "look": lambda ballot, now: Decision(ballot),
    "undo": voting.undo,
    "skip": voting.skip,
}


def names_told(request: str, decision: Decision, now: int) -> bool:
    """Whether the answer to a request says who the two were."""
    told = request.startswith(("vote", "reveal", "look")) and decision.refusal is None
    return told and voting.shows_names(decision.ballot.status, decision.ballot.undo_until, now)


def ways_to_cheat(skew: int) -> list[str]:
    """Requests that undo a vote whose names were told, over every reachable state of a matchup.

    Time goes in half seconds, and each request goes to one of two hosts, the second of which is behind by `skew`.
    """
    found, seen = [], set[tuple[Ballot, bool, int]]()
    todo = [(OPEN, False, 0)]
    while todo:
        ballot, knows, now = state = todo.pop()
        if state in seen or now > 20 * HALF:
            continue
        seen.add(state)
        todo.append((ballot, knows, now + HALF))
        for name, request in REQUESTS.items():
            for at in (now, now - skew):
                decision = request(ballot, at)
                if (
                    knows
                    and decision.ballot.status is MatchupStatus.UNDONE
                    and ballot.status is not MatchupStatus.UNDONE
                ):
                    found.append(f"{name} at {at}: {ballot}")
                todo.append((decision.ballot, knows or names_told(name, decision, at), now))
    assert {ballot.status for ballot, *_ in seen} == set(MatchupStatus) - {MatchupStatus.EXPIRED}
    assert any(knows for _, knows, _ in seen)
    return found


@pytest.mark.parametrize("skew", [0, pytest.param(HALF, marks=pytest.mark.soak), voting.CLOCK_MARGIN])
def test_no_order_of_requests_undoes_a_vote_whose_names_were_told(skew: int) -> None:
    assert ways_to_cheat(skew) == []


def test_the_search_for_ways_to_cheat_finds_the_one_of_clocks_that_differ_too_much() -> None:
    assert ways_to_cheat(voting.CLOCK_MARGIN + SECOND) != []


def test_what_each_request_answers_in_each_state() -> None:
    held = voting.vote(OPEN, A, 0, reveal=False, undo_seconds=5)
    assert held.body == e.Voted(matchup_id="m", choice=A, undo_until=5 * SECOND)
    assert voting.vote(held.ballot, A, 1, reveal=False, undo_seconds=5) == Decision(held.ballot)
    shown = voting.vote(held.ballot, A, 1)
    assert shown.body == e.Revealed(matchup_id="m") == voting.reveal(held.ballot, 1).body
    assert shown.ballot == voting.vote(OPEN, A, 0).ballot  # as if the names had been shown at once
    assert voting.reveal(shown.ballot, 2) == voting.vote(shown.ballot, A, 2, reveal=False) == Decision(shown.ballot)
    assert isinstance(voting.undo(shown.ballot, 2).refusal, TooLate)
    undone = voting.undo(held.ballot, 5 * SECOND)
    assert undone.ballot.status is MatchupStatus.UNDONE
    assert voting.undo(undone.ballot, 9 * SECOND) == Decision(undone.ballot)
    assert isinstance(voting.reveal(undone.ballot, 6).refusal, Gone)
    assert isinstance(voting.vote(undone.ballot, A, 6).refusal, Gone)
    assert isinstance(voting.undo(held.ballot, 5 * SECOND + 1).refusal, TooLate)
    assert isinstance(voting.reveal(OPEN, 0).refusal, NoVote)
    assert isinstance(voting.reveal(voting.skip(OPEN, 0).ballot, 0).refusal, Gone)
    assert voting.reveal(held.ballot, 8 * SECOND) == Decision(held.ballot)  # final by time: nothing is written


def test_a_matchup_expires_at_its_time_and_not_before() -> None:
    assert voting.expire(OPEN, OPEN.expires_at - 1) == Decision(OPEN)
    assert voting.expire(OPEN, OPEN.expires_at).body == e.Expired(matchup_id="m")
    assert voting.vote(OPEN, A, OPEN.expires_at - 1).body == e.Voted(matchup_id="m", choice=A)
    assert voting.vote(OPEN, A, OPEN.expires_at).body == e.Expired(matchup_id="m")
    for closed in (voting.vote(OPEN, A, 0).ballot, voting.skip(OPEN, 0).ballot):
        assert voting.expire(closed, OPEN.expires_at) == Decision(closed)


def test_where_there_is_no_time_to_undo_every_vote_shows_the_names() -> None:
    voted = voting.vote(OPEN, A, 0, reveal=False, undo_seconds=0)
    assert voted.body == e.Voted(matchup_id="m", choice=A)
    assert voting.shows_names(voted.ballot.status, voted.ballot.undo_until, 0)


def test_a_vote_that_shows_the_names_is_written_as_it_always_was() -> None:
    old = '{"kind":"voted","choice":"A","matchup_id":"m"}'
    assert e.encode_body(e.Voted(matchup_id="m", choice=A)) in (old, '{"kind":"voted","matchup_id":"m","choice":"A"}')
    assert e.decode_body(old) == e.Voted(matchup_id="m", choice=A)
    held = e.Voted(matchup_id="m", choice=A, undo_until=7)
    assert e.decode_body(e.encode_body(held)) == held


@rule_above_the_store
def test_a_longer_time_to_undo_reopens_no_vote(arena_url: str) -> None:
    clock = Clock()
    with open_arena(arena_url, clock) as arena:
        arena.append(catalog())
        served = arena.serve("ann")
        arena.vote(served.matchup_id, "ann", A, reveal=False)
        clock.turn(7.5)
        assert arena.vote(served.matchup_id, "ann", A, reveal=False).names is not None
        arena.append([e.SettingsChanged(policy=msgspec.structs.replace(arena.read(_policy), undo_seconds=600))])
        with pytest.raises(TooLate):
            arena.undo(served.matchup_id, "ann")
    assert verify(arena_url).clean


def _policy(state: object) -> object:
    return state.policy  # type: ignore[attr-defined]


def test_of_two_workers_one_reveals_or_the_other_undoes_never_both(arena_url: str) -> None:
    with open_arena(arena_url) as first, open_arena(arena_url, seed=2) as second:
        first.append(catalog())
        ended = {"told": 0, "undone": 0}
        for number in range(8):
            name = first.serve("ann").matchup_id
            first.vote(name, "ann", A, reveal=False)
            done: dict[str, object] = {}
            tries = {
                "told": lambda name=name: second.reveal(name, "ann").names,
                "undone": lambda name=name: first.undo(name, "ann"),
            }
            if number % 2:
                tries["told"] = lambda name=name: second.vote(name, "ann", A).names
            _at_once(tries, done)
            assert len(done) == 1, done
            ended[next(iter(done))] += 1
        assert sum(ended.values()) == 8
        votes = first.read(lambda state: int(state.tallies.wins.view.sum()))
        assert votes == ended["told"]
    assert verify(arena_url).clean


def _at_once(tries: dict[str, Callable[[], object]], done: dict[str, object]) -> None:
    ready = threading.Barrier(len(tries))

    def run(name: str, attempt: Callable[[], object]) -> None:
        ready.wait(10)
        with contextlib.suppress(Gone, TooLate):
            done[name] = attempt()

    threads = [threading.Thread(target=run, args=item) for item in tries.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)


def test_names_leave_only_with_a_commit(arena_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_arena(arena_url) as arena:
        arena.append(catalog())
        name = arena.serve("ann").matchup_id
        arena.vote(name, "ann", A, reveal=False)

        def refuse(*_: object) -> str:
            raise ArenaError("the disk is full")

        with monkeypatch.context() as broken:
            broken.setattr(log, "append_events", refuse)
            with pytest.raises(ArenaError, match="disk is full"):
                arena.reveal(name, "ann")
        arena.undo(name, "ann")
    assert verify(arena_url).clean


@pytest.mark.parametrize(
    ("done", "public"),
    [
        ("", ""),
        ("vA", ""),
        ("vA vB", ""),
        ("vA uA", "vA uA"),  # undone, and all of it may be seen
        ("vA uA vB", "vA uA"),
        ("vA vB uA", ""),  # the vote would be seen and its undo not
        ("vA uA vB vC uB uC vD", "vA uA vB vC uB uC"),
        ("vA uA vB uB vC vD uC", "vA uA vB uB"),
        ("vA rA vB", "vA rA"),
        ("vA vB rB", ""),
    ],
)
@rule_above_the_store
def test_the_public_log_ends_before_the_first_vote_that_is_not_settled(arena_url: str, done: str, public: str) -> None:
    """`v`, `u` and `r`: a vote whose names are held back, its undo, its reveal; the letter is the voter."""
    clock = Clock()
    with open_arena(arena_url, clock) as arena:
        arena.append(catalog())
        names = {voter: arena.serve(voter).matchup_id for voter in "ABCD"}
        before = arena.read(lambda state: state.seq)
        for act, voter in done.split():
            if act == "v":
                arena.vote(names[voter], voter, A, reveal=False)
            else:
                (arena.undo if act == "u" else arena.reveal)(names[voter], voter)
        with arena.store.database.read() as connection:
            assert public_until(connection, clock()) == before + len(public.split())


@rule_above_the_store
def test_an_undo_publishes_its_own_vote_and_nobody_elses(arena_url: str) -> None:
    """Ann votes, then Bob, who undoes: the public log ends before Ann's vote, and after she reveals it is whole."""
    clock = Clock()
    with open_arena(arena_url, clock) as arena:
        arena.append(catalog())
        hers, his = arena.serve("ann").matchup_id, arena.serve("bob").matchup_id
        before = arena.read(lambda state: state.seq)
        for name, voter in ((hers, "ann"), (his, "bob")):
            arena.vote(name, voter, A, reveal=False)
        arena.undo(his, "bob")

        def public() -> int:
            with arena.store.database.read() as connection:
                return public_until(connection, clock())

        assert public() == before
        arena.reveal(hers, "ann")
        assert public() == before + 4 == arena.read(lambda state: state.seq)


@rule_above_the_store
def test_a_vote_that_held_back_its_names_becomes_public_when_they_may_be_told_and_not_before(arena_url: str) -> None:
    clock = Clock(step=0)
    with open_arena(arena_url, clock) as arena:
        arena.append(catalog())
        name = arena.serve("ann").matchup_id
        before = arena.read(lambda state: state.seq)
        arena.vote(name, "ann", A, reveal=False)
        latest = clock() + UNDO_SECONDS * SECOND + voting.CLOCK_MARGIN
        with arena.store.database.read() as connection:
            assert public_until(connection, latest) == before
            assert public_until(connection, latest + 1) == before + 1


def test_screening_finds_who_keeps_only_some_of_their_votes(sqlite_url: str) -> None:
    """The log tells: 13 votes, 10 of them undone. Excluding the three that were kept is proposed."""
    with open_arena(sqlite_url) as arena:
        arena.append(catalog())
        kept = set()
        for number in range(13):
            name = arena.serve("picky").matchup_id
            arena.vote(name, "picky", A, reveal=False)
            if number < 10:
                arena.undo(name, "picky")
            else:
                kept.add(name)
        for _ in range(40):
            arena.skip(arena.serve("skipper").matchup_id, "skipper")
        found = arena.read(lambda state: screen(arena.store, state))
        arena.append(found.events)
        again = arena.read(lambda state: screen(arena.store, state))
    assert {(flag.voter, flag.flag) for flag in found.voters} == {("picky", "undoes votes"), ("skipper", "skips")}
    assert [set(proposal.matchup_ids) for proposal in found.proposals] == [kept]
    assert again.events == []
    assert verify(sqlite_url).clean

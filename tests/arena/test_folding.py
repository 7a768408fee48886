"""Many events folded at once end in the same state as one by one, to the last bit."""

from __future__ import annotations

import gc
from unittest.mock import patch

import msgspec
import numpy as np
import pytest

from tests.arena.engines import CHOICES, START, catalog, open_arena, play, sql
from tiltyard.arena import events as e
from tiltyard.arena import folding
from tiltyard.arena.chain import FIRST_HASH, link_event, link_events, new_salts
from tiltyard.arena.events import Event, encode_body
from tiltyard.arena.policy import BankRules, Policy
from tiltyard.arena.state import ArenaState
from tiltyard.arena.store import Store, comparing
from tiltyard.arena.store.comparing import ComparedMatchups, ComparedVotes
from tiltyard.arena.store.rebuild import TableRebuild, links
from tiltyard.arena.store.state_bytes import encode_state
from tiltyard.arena.store.verify import Discrepancy, _scratch
from tiltyard.arena.votes import MemoryVoteBook
from tiltyard.errors import ArenaError


def served(name: str, rng: np.random.Generator) -> e.MatchupServed:
    a, b = rng.choice(4, 2, replace=False)
    prompt = rng.integers(3)
    return e.MatchupServed(
        matchup_id=name,
        voter=f"voter{rng.integers(5)}",
        prompt_id=f"p{prompt}",
        model_a=f"m{a}",
        model_b=f"m{b}",
        response_a=f"r{a}-{prompt}",
        response_b=f"r{b}-{prompt}",
        lane=("coverage", "contender", "uncertainty")[rng.integers(3)],
        reason="test",
        probability=0.5,
        seed=int(rng.integers(2**60)),
        expires_at=START,
        block=("", "home")[rng.integers(2)],
    )


def happenings(seed: int, length: int, policy: Policy) -> list[Event]:
    """A log with everything that may happen to matchups, at times that jump back and forth."""
    rng = np.random.default_rng(seed)
    bodies: list[e.AnyBody] = [*catalog(), e.SettingsChanged(policy=policy)]
    opened: list[str] = []
    voted: list[str] = []
    for number in range(length):
        what = rng.random()
        if what < 0.5 or not opened:
            opened.append(f"x{number}")
            bodies.append(served(opened[-1], rng))
            continue
        name = opened.pop(int(rng.integers(len(opened))))
        if what < 0.9:
            voted.append(name)
            choice = CHOICES[rng.integers(4)]
            bodies.append(e.Voted(matchup_id=name, choice=choice, block="office" if what < 0.6 else "", unrendered=""))
        elif what < 0.94:
            bodies.append(e.Skipped(matchup_id=name))
        else:
            bodies.append(e.Expired(matchup_id=name))
        if what > 0.97 and voted:
            bodies.append(e.Revealed(matchup_id=voted[-1]))
        if number % 50 == 49 and voted:
            bodies.append(e.Undone(matchup_id=voted.pop()))
        if number % 90 == 89:
            bodies.append(e.Excluded(matchup_ids=tuple(voted[::7]), reason="test"))
    times = START + np.cumsum(rng.integers(-2_000_000, 5_000_000, len(bodies)))
    return [Event(int(at), body) for at, body in zip(times, bodies, strict=True)]


def one_by_one(events: list[Event]) -> ArenaState:
    state = ArenaState(MemoryVoteBook())
    for event in events:
        state.apply(state.seq + 1, event)
    return state


@pytest.mark.parametrize("bank", [BankRules(), BankRules(seen_at_most=60)], ids=["", "prompts rest"])
@pytest.mark.parametrize("page", [3, 64, 10_000])
def test_pages_of_any_length_end_in_the_state_of_one_event_after_the_other(page: int, bank: BankRules) -> None:
    events = happenings(page, 600, Policy(window_matchups=40, diversity_last=3, bank=bank))
    expected, state = one_by_one(events), ArenaState(MemoryVoteBook())
    with patch.object(folding, "WORTH_COLUMNS", 2):
        for start in range(0, len(events), page):
            folding.apply_all(state, events[start : start + page])
    assert encode_state(state) == encode_state(expected)
    assert state.book.votes == expected.book.votes  # type: ignore[attr-defined]
    for name in ("in_window", "by_contender_lane", "lanes", "meetings"):
        assert str(getattr(state.schedule, name)) == str(getattr(expected.schedule, name))
    assert (state.schedule.in_flight_on.view == expected.schedule.in_flight_on.view).all()


@pytest.mark.parametrize(
    "wrong",
    [
        e.Voted(matchup_id="nobody's", choice=e.Choice.A),
        e.Voted(matchup_id="first", choice=e.Choice.A),
        msgspec.structs.replace(served("y", np.random.default_rng(1)), model_a="stranger"),
        msgspec.structs.replace(served("y", np.random.default_rng(1)), prompt_id="stranger"),
    ],
    ids=["unknown", "closed", "model", "prompt"],
)
def test_an_event_that_cannot_be_is_refused_at_its_number_and_nothing_after_it_is_counted(wrong: e.AnyBody) -> None:
    rng = np.random.default_rng(3)
    bodies = [*catalog(), served("first", rng), e.Voted(matchup_id="first", choice=e.Choice.B), served("second", rng)]
    events = [Event(START, body) for body in (*bodies, wrong, served("third", rng))]
    said, states = [], []
    for fold in (lambda state: [state.apply(state.seq + 1, event) for event in events], None):
        state = ArenaState(MemoryVoteBook())
        with patch.object(folding, "WORTH_COLUMNS", 2), pytest.raises(ArenaError) as error:
            folding.apply_all(state, events) if fold is None else fold(state)
        said.append(str(error.value))
        states.append(encode_state(state))
    assert said[0] == said[1]
    assert states[0] == states[1]
    assert state.seq == len(bodies)


def test_a_matchup_that_was_counted_early_is_not_counted_twice_by_a_page() -> None:
    events = happenings(5, 200, Policy())
    expected, state = one_by_one(events), ArenaState(MemoryVoteBook())
    cut = next(n for n, event in enumerate(events) if n > 100 and isinstance(event.body, e.MatchupServed))
    with patch.object(folding, "WORTH_COLUMNS", 2):
        folding.apply_all(state, events[:cut])
        body = events[cut].body
        assert isinstance(body, e.MatchupServed)
        state.reserve(body)
        folding.apply_all(state, events[cut:])
    assert encode_state(state) == encode_state(expected)


def test_links_of_many_events_are_those_of_one_after_the_other() -> None:
    """Also of texts that this program never writes: ids with escapes, fields in another order, kinds of the future."""
    events = happenings(7, 80, Policy())
    texts = [
        *(encode_body(event.body) for event in events),
        encode_body(e.Voted(matchup_id='a"b\\c', choice=e.Choice.TIE, undo_until=5, block="x")),
        encode_body(e.Voted(matchup_id="ü", choice=e.Choice.TIE, undo_until=5)),
        encode_body(e.Explained(matchup_id="m", tags=("a",), comment="0f")),
        '{"kind":"matchup_served","matchup_id":"z","expires_at":3,"response_a":"q"}',
        '{"kind":"voted","choice":"A","matchup_id":"z"}',
        '{"kind":"to_come","what":1}',
    ]
    salts = new_salts(len(texts))
    expected = [FIRST_HASH]
    for place, (text, salt) in enumerate(zip(texts, salts, strict=True)):
        expected.append(link_event(expected[-1], 1 + place, START + place, text, salt))
    times = range(START, START + len(texts))
    assert link_events(FIRST_HASH, 0, times, texts, salts) == expected[1:]


class Found:
    """What a comparison finds."""

    def __init__(self) -> None:
        self.all: list[str] = []

    def find(self, table: str, where: str, what: str) -> None:
        self.all.append(str(Discrepancy(table, where, what)))


def compared(url: str, page: int) -> list[str]:
    """What is found when the log is folded in pages of this length."""
    store, found = Store.open(url), Found()
    with store.database.read() as source, _scratch() as target:
        book, sink = ComparedVotes(source, target, 0), ComparedMatchups(source)
        fold = TableRebuild(target, 40, 10**6, book, sink)
        events = [Event(link.at or 0, e.decode_body(link.text or "")) for part in links(source) for link in part]
        for start in range(0, len(events), page):
            fold.take(events[start : start + page])
        fold.finish([])
        sink.report(found)
        book.report(found)
    store.close()
    return found.all


def test_what_differs_is_found_wherever_the_log_is_cut_into_pages(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A vote may be undone, excluded or revealed pages after it was compared, and even so late be found wrong."""
    with open_arena(sqlite_url, checkpoint_every=40) as arena:
        arena.append(catalog())
        votes = play(arena, 30)
        names = [arena.serve("ann").matchup_id for _ in range(3)]
        for name in names:
            arena.vote(name, "ann", e.Choice.A, reveal=False)
        play(arena, 4, seed=1)
        arena.undo(names[0], "ann")
        arena.reveal(names[1], "ann")
        arena.append([e.Excluded(matchup_ids=(votes[3][0], votes[4][0]), reason="test")])
        arena.append([e.Restored(matchup_ids=(votes[4][0],), reason="test")])
    with monkeypatch.context() as few:
        few.setattr(comparing, "KEPT_DIFFERENCES", 5)  # what does not differ takes none of their places
        assert compared(sqlite_url, 1000) == compared(sqlite_url, 13) == []
    for change in (
        f"UPDATE matchups SET status = 'voted' WHERE id = '{names[0]}'",
        f"UPDATE matchups SET undo_until = 7 WHERE id = '{names[1]}'",
        f"UPDATE matchups SET undo_until = NULL WHERE id = '{names[2]}'",
        f"UPDATE votes SET standing = 'counted' WHERE matchup_id IN ('{names[0]}', '{votes[3][0]}')",
        f"UPDATE votes SET standing = 'excluded' WHERE matchup_id = '{votes[4][0]}'",
        f"DELETE FROM matchups WHERE id = '{votes[9][0]}'",
        "INSERT INTO matchups SELECT 'zzz', voter, a, b, prompt, response_a, response_b, lane, reason, probability, "
        "seed, served_at, expires_at, status, choice, closed_at, undo_until, block, unrendered FROM matchups LIMIT 1",
        "INSERT INTO votes SELECT seq + 1, at, 'zzz', voter, a, b, prompt, choice, standing, block, unrendered "
        "FROM votes ORDER BY seq LIMIT 1",
    ):
        sql(sqlite_url, change)
    found = compared(sqlite_url, 1000)
    assert compared(sqlite_url, 13) == found
    assert len(found) == 9
    assert f"matchups, id {votes[9][0]}: is missing" in found
    assert "matchups, id zzz: does not follow from the log" in found
    assert sum("standing differ" in one for one in found) == 3


def test_collecting_is_as_before_after_folds_that_overlap() -> None:
    before = gc.get_threshold()
    with folding.rare_collection:
        with folding.rare_collection:
            assert gc.get_threshold()[0] == folding.RARELY
        assert gc.get_threshold()[0] == folding.RARELY
    assert gc.get_threshold() == before

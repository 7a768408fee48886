"""The pair waits: in the rule itself, in the writer on both databases, and after a restart."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from tests.arena.engines import START, Clock, catalog
from tiltyard.arena import events as e
from tiltyard.arena import waiting_pairs
from tiltyard.arena.policy import Policy, WaitingRules
from tiltyard.arena.service import Arena
from tiltyard.arena.simulation.ledger import MemoryArena
from tiltyard.arena.store import Store
from tiltyard.arena.tallies import pair_of
from tiltyard.arena.waiting_pairs import ShownPair, WaitingPairs

A = e.Choice.A
RULES = WaitingRules()
FIRST, SECOND_PAIR, THIRD = (0, 1), (0, 2), (1, 2)


def shown(pair: tuple[int, int], voter: str = "ann", block: str = "home") -> ShownPair:
    return ShownPair(block, pair, voter, "coverage")


def pairs(waiting: WaitingPairs, voter: str = "ann", rules: WaitingRules = RULES) -> list[tuple[int, int]]:
    return [pair for pair, _ in waiting.due("home", voter, rules)]


@pytest.fixture
def waiting() -> WaitingPairs:
    made = WaitingPairs()
    made.enter("home")
    return made


def voted(name: str, block: str = "") -> e.Voted:
    return e.Voted(matchup_id=name, choice=A, block=block)


def test_what_a_block_has_not_voted_on_is_due_again_for_everyone_in_it(waiting: WaitingPairs) -> None:
    assert pairs(waiting) == []
    waiting.served("1", shown(FIRST))
    assert pairs(waiting) == pairs(waiting, "ben") == [FIRST]
    waiting.close(e.Expired(matchup_id="1"))
    assert pairs(waiting, "ben") == [FIRST]
    waiting.served("2", shown(FIRST, "ben"))
    waiting.close(voted("2"))
    assert pairs(waiting) == []
    assert waiting.due("elsewhere", "ann", RULES) == []


def test_an_undone_vote_counts_as_none(waiting: WaitingPairs) -> None:
    waiting.served("1", shown(FIRST))
    waiting.close(voted("1"))
    waiting.close(e.Undone(matchup_id="1"))
    assert pairs(waiting) == [FIRST]


def test_with_every_fifth_vote_one_more_pair_may_wait(waiting: WaitingPairs) -> None:
    for number in range(5):
        waiting.served(f"{number}", shown(THIRD))
        waiting.close(voted(f"{number}"))
    waiting.served("a", shown(FIRST))
    assert pairs(waiting, "ben") == []
    waiting.served("b", shown(SECOND_PAIR, "ben"))
    assert pairs(waiting, "eve") == [FIRST, SECOND_PAIR]
    assert pairs(waiting, "eve", WaitingRules(open_pairs=2)) == []
    assert pairs(waiting, "eve", WaitingRules(pairs_wait=False)) == []


def test_a_skip_brings_the_same_pair_even_where_others_might_be_opened(waiting: WaitingPairs) -> None:
    for number in range(10):
        waiting.served(f"{number}", shown(THIRD))
        waiting.close(voted(f"{number}"))
    waiting.served("a", shown(FIRST))
    waiting.close(e.Skipped(matchup_id="a"))
    assert pairs(waiting) == [FIRST]
    assert pairs(waiting, "ben") == []
    waiting.served("b", shown(FIRST, "ben"))
    waiting.close(voted("b"))
    assert pairs(waiting) == []  # somebody of the block has voted on it


def test_those_with_fewest_visitors_before_them_come_first(waiting: WaitingPairs) -> None:
    for name, pair in (("1", FIRST), ("2", SECOND_PAIR), ("3", FIRST)):
        waiting.served(name, shown(pair, f"voter {name}"))
    assert pairs(waiting, "eve") == [SECOND_PAIR, FIRST]


def test_a_vote_from_another_network_settles_the_pair_where_it_was_served(waiting: WaitingPairs) -> None:
    waiting.served("1", shown(FIRST))
    waiting.close(voted("1", "train"))
    assert pairs(waiting) == []


def test_being_told_twice_changes_nothing(waiting: WaitingPairs) -> None:
    for number in range(4):
        waiting.served(f"{number}", shown(THIRD))
        for _ in range(5):
            waiting.close(voted(f"{number}"))
    waiting.served("a", shown(FIRST))
    waiting.served("a", shown(FIRST))
    assert pairs(waiting, "ben") == [FIRST]  # four votes, not twenty


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch, waiting: WaitingPairs) -> None:
    monkeypatch.setattr(waiting_pairs, "BLOCKS_KEPT", 3)
    monkeypatch.setattr(waiting_pairs, "WAITING_MOST", 4)
    for number in range(9):
        waiting.served(f"{number}", shown((number, number + 1), f"voter {number}"))
        waiting.close(e.Skipped(matchup_id=f"{number}"))
    assert len(pairs(waiting)) == 4
    waiting.served("left open", shown(FIRST))
    for number in range(3):
        waiting.enter(f"block {number}")
    assert not waiting.knows("home")
    waiting.close(voted("left open"))
    assert waiting.due("home", "ann", RULES) == []


def served_pair(arena: Arena, voter: str, block: str = "home") -> tuple[str, tuple[int, int], str]:
    """A matchup: its id, its pair and its prompt."""
    name = arena.serve(voter, block=block).matchup_id

    def look(state: object) -> tuple[tuple[int, int], str]:
        found = state.schedule.in_flight[name]  # type: ignore[attr-defined]
        return pair_of(found.a, found.b), str(found.prompt)

    return name, *arena.read(look)


def open_real_arena(url: str, clock: Clock | None = None) -> Arena:
    return Arena(Store.open(url), now=clock or Clock(START), idle_seconds=3600)


def test_a_skipper_sees_the_same_two_models_on_every_prompt_before_any_others(arena_url: str) -> None:
    with open_real_arena(arena_url) as arena:
        arena.append(catalog(models=6, prompts=4))
        seen = []
        for _ in range(5):
            name, pair, prompt = served_pair(arena, "ann")
            seen.append((pair, prompt))
            arena.skip(name, "ann")
        assert len({pair for pair, _ in seen[:4]}) == 1
        assert len({prompt for _, prompt in seen[:4]}) == 4
        assert seen[4][0] != seen[0][0]  # every prompt was seen, and nothing is shown twice


def test_a_new_session_and_a_new_process_find_the_pair_that_waits(arena_url: str) -> None:
    clock = Clock(START)
    with open_real_arena(arena_url, clock) as arena:
        arena.append(catalog(models=6, prompts=4))
        _, first, _ = served_pair(arena, "ann")
        assert served_pair(arena, "ben")[1] == first
        assert served_pair(arena, "eve", block="office")[0]
    clock.turn(3 * 3600)
    with open_real_arena(arena_url, clock) as arena:
        assert arena.expire_due() == 3
        name, again, _ = served_pair(arena, "joe")
        assert again == first
        arena.vote(name, "joe", A, reveal=False, block="home")
        arena.undo(name, "joe")
    with open_real_arena(arena_url, clock) as arena:
        name, again, _ = served_pair(arena, "lea")
        assert again == first
        arena.vote(name, "lea", A, block="home")
        pairs_after = Counter(served_pair(arena, f"voter{number}")[1] for number in range(3))
        assert first not in pairs_after
        assert len(pairs_after) == 1


def test_without_a_block_or_without_the_rule_nothing_waits(sqlite_url: str) -> None:
    with open_real_arena(sqlite_url) as arena:
        arena.append(catalog(models=8, prompts=4))
        assert len({served_pair(arena, f"voter{number}", block="")[1] for number in range(12)}) > 3
        off = msgspec.structs.replace(Policy(), waiting=WaitingRules(pairs_wait=False))
        arena.append([e.SettingsChanged(policy=off)])
        assert len({served_pair(arena, f"guest{number}")[1] for number in range(12)}) > 3


def test_a_hunter_who_skips_meets_few_pairs_in_a_simulated_arena_too() -> None:
    met: dict[str, set[tuple[int, int]]] = {}
    for block in ("", "home"):
        arena = MemoryArena(seed=3)
        arena.append(catalog(models=12, prompts=15), 0)
        for number in range(60):
            name = arena.serve(f"session {number // 12}", number, block)
            found = arena.state.schedule.in_flight[name]
            met.setdefault(block, set()).add(pair_of(found.a, found.b))
            arena.skip(name, f"session {number // 12}", number)
    assert len(met[""]) > 25
    assert len(met["home"]) == 1

"""The pair waits: in the rule itself, in the writer on both databases, and after a restart."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import Future

import msgspec
import numpy as np
import pytest

from tests.arena.databases import rule_above_the_store
from tests.arena.engines import START, Clock, catalog
from tiltyard.arena import Arena, Policy, ServedMatchup, ServeMatchup, WaitingRules
from tiltyard.arena import events as e
from tiltyard.arena.matchmaking import waiting as rules_of_waiting
from tiltyard.arena.matchmaking.waiting import Due, WaitingPairs
from tiltyard.arena.rules.schedule import Reserved
from tiltyard.arena.rules.tallies import pair_of
from tiltyard.arena.simulation.ledger import MemoryArena
from tiltyard.arena.store import Store

A = e.Choice.A
RULES = WaitingRules()
FIRST, SECOND_PAIR, THIRD = (0, 1), (0, 2), (1, 2)


HOUR = 3_600_000_000


def shown(pair: tuple[int, int], voter: str = "ann", block: str = "home", prompt: int = 0, at: int = 0) -> Reserved:
    return Reserved("", 0, voter, block, *pair, prompt, 0, 0, 0, "coverage", at, at + HOUR)


def pairs(
    waiting: WaitingPairs, voter: str = "ann", rules: WaitingRules = RULES, block: str = "home", now: int = 0
) -> list[tuple[int, int]]:
    enter(waiting, voter)
    return [due.pair for due in waiting.due(block, voter, rules, now).pairs]


def enter(waiting: WaitingPairs, voter: str) -> None:
    if not waiting.knows_session(voter):
        waiting.enter_session(voter, RULES)


def serve(waiting: WaitingPairs, name: str, one: Reserved) -> None:
    enter(waiting, one.voter)
    waiting.served(msgspec.structs.replace(one, matchup_id=name), RULES)


@pytest.fixture
def waiting() -> WaitingPairs:
    made = WaitingPairs()
    made.enter("home", RULES)
    return made


def voted(name: str, block: str = "", undo_until: int | None = None) -> e.Voted:
    return e.Voted(matchup_id=name, choice=A, block=block, undo_until=undo_until)


def cast(waiting: WaitingPairs, votes: int, voter: str = "joe") -> None:
    """Votes of the block, on a pair that nobody asks about."""
    for number in range(votes):
        serve(waiting, f"{voter} {number}", shown(THIRD, voter))
        waiting.close(voted(f"{voter} {number}"), 0)


def test_what_a_block_has_not_voted_on_is_due_again_for_everyone_in_it(waiting: WaitingPairs) -> None:
    assert pairs(waiting) == []
    serve(waiting, "1", shown(FIRST))
    assert pairs(waiting) == pairs(waiting, "ben") == [FIRST]
    waiting.close(e.Expired(matchup_id="1"), 0)
    assert pairs(waiting, "ben") == [FIRST]
    serve(waiting, "2", shown(FIRST, "ben"))
    waiting.close(voted("2"), 0)
    assert pairs(waiting) == []
    assert waiting.due("elsewhere", "ann", RULES, 0) == Due()


def test_an_undone_vote_counts_as_none_and_forgets_no_prompt(waiting: WaitingPairs) -> None:
    for prompt in range(3):
        serve(waiting, f"{prompt}", shown(FIRST, prompt=prompt))
        if prompt < 2:
            waiting.close(e.Skipped(matchup_id=f"{prompt}"), 0)
    waiting.close(voted("2", undo_until=9), 0)
    assert pairs(waiting) == []
    waiting.close(e.Undone(matchup_id="2"), 0)
    assert pairs(waiting) == [FIRST]
    (due,) = waiting.due("home", "ann", RULES, 0).pairs
    assert (due.prompts, due.more) == ({0, 1, 2}, False)


def test_a_vote_is_taken_back_for_as_long_as_the_log_may_tell_and_then_forgotten(waiting: WaitingPairs) -> None:
    """Two votes can be undone until second 5; another worker's undo of the first is read 59 seconds later."""
    until, late, later = 5_000_000, 64_000_000, 66_000_000
    for name, pair in (("1", FIRST), ("2", SECOND_PAIR)):
        serve(waiting, name, shown(pair))
        waiting.close(voted(name, undo_until=until), 1)
    serve(waiting, "3", shown(THIRD, at=late))  # settles the two before
    waiting.close(voted("3"), late)
    waiting.close(e.Undone(matchup_id="1"), until)
    assert pairs(waiting, now=late) == [FIRST]
    serve(waiting, "4", shown(THIRD, at=later))
    waiting.close(voted("4"), later)
    waiting.close(e.Undone(matchup_id="2"), until)
    assert waiting.shown_before("home", "ann", FIRST, RULES) is not None
    assert waiting.shown_before("home", "ann", SECOND_PAIR, RULES) is None


def test_with_every_fifth_vote_one_more_pair_may_wait(waiting: WaitingPairs) -> None:
    cast(waiting, 5)
    serve(waiting, "a", shown(FIRST))
    assert pairs(waiting, "ben") == []
    serve(waiting, "b", shown(SECOND_PAIR, "ben"))
    assert pairs(waiting, "eve") == [FIRST, SECOND_PAIR]
    assert pairs(waiting, "eve", WaitingRules(open_pairs=2)) == []
    assert pairs(waiting, "eve", WaitingRules(pairs_wait=False)) == []


def test_a_skip_brings_the_same_pair_even_where_others_might_be_opened(waiting: WaitingPairs) -> None:
    cast(waiting, 10)
    serve(waiting, "a", shown(FIRST))
    waiting.close(e.Skipped(matchup_id="a"), 0)
    assert pairs(waiting) == [FIRST]
    assert pairs(waiting, "ben") == []
    serve(waiting, "b", shown(FIRST, "ben"))
    waiting.close(voted("b"), 0)
    assert pairs(waiting) == []  # somebody of the block has voted on it


def test_those_with_fewest_visitors_before_them_come_first(waiting: WaitingPairs) -> None:
    cast(waiting, 5)
    for name, pair in (("1", FIRST), ("2", SECOND_PAIR), ("3", FIRST)):
        serve(waiting, name, shown(pair, f"voter {name}"))
    assert pairs(waiting, "eve") == [SECOND_PAIR, FIRST]


def test_a_vote_from_another_network_settles_the_pair_where_it_was_served(waiting: WaitingPairs) -> None:
    serve(waiting, "1", shown(FIRST))
    waiting.close(voted("1", "train"), 0)
    assert pairs(waiting) == []


def test_the_pair_follows_a_session_to_other_networks_and_does_not_wait_for_them(waiting: WaitingPairs) -> None:
    """Otherwise a cookie would carry it from block to block, and others would see it there on further prompts."""
    waiting.enter("train", RULES)
    serve(waiting, "1", shown(FIRST, prompt=4))
    waiting.close(e.Skipped(matchup_id="1"), 0)
    assert pairs(waiting, block="train") == [FIRST]
    serve(waiting, "2", shown(FIRST, block="train", prompt=5))
    waiting.close(e.Skipped(matchup_id="2"), 0)
    (due,) = waiting.due("train", "ann", RULES, 0).pairs
    assert due.prompts == {4, 5}
    assert pairs(waiting, "ben", block="train") == []
    assert waiting.due("train", "ben", RULES, 0).may_open
    assert pairs(waiting, "ben") == [FIRST], "it goes on waiting where it was opened"


def test_who_brings_a_pair_along_stays_on_their_own_prompts_and_leaves_none_behind(waiting: WaitingPairs) -> None:
    """Where the same pair waits in several blocks, a walking cookie must not see it on the prompts of all of them."""
    waiting.enter("train", RULES)
    for prompt, (voter, block) in enumerate([*[("ann", "home")] * 3, *[("ben", "train")] * 3]):
        serve(waiting, f"{prompt}", shown(FIRST, voter, block, prompt))
        waiting.close(e.Skipped(matchup_id=f"{prompt}"), 0)
    for voter, block, prompts in (("ann", "home", {0, 1, 2}), ("ben", "home", {3, 4, 5}), ("ann", "train", {0, 1, 2})):
        (due,) = waiting.due(block, voter, RULES, 0).pairs
        assert (due.prompts, due.more) == (prompts, False), (voter, block)
    serve(waiting, "walk", shown(FIRST, "ann", "train", 0))
    waiting.close(e.Skipped(matchup_id="walk"), 0)
    enter(waiting, "eve")
    (due,) = waiting.due("train", "eve", RULES, 0).pairs
    assert (due.prompts, due.more) == ({3, 4, 5}, False), "a new cookie sees only what the block was shown"


def test_a_walking_cookie_with_fewer_prompts_takes_none_of_another_network_s(waiting: WaitingPairs) -> None:
    waiting.enter("train", RULES)
    for prompt, (voter, block) in enumerate([("ann", "home"), ("ben", "train")]):
        serve(waiting, f"{prompt}", shown(FIRST, voter, block, prompt))
        waiting.close(e.Skipped(matchup_id=f"{prompt}"), 0)
    (due,) = waiting.due("train", "ann", RULES, 0).pairs
    assert (due.prompts, due.more) == ({0}, False)
    (due,) = waiting.due("home", "ann", RULES, 0).pairs
    assert (due.prompts, due.more) == ({0}, True), "at home there are two more"


def test_wherever_cookies_walk_none_sees_a_pair_on_more_than_three_prompts() -> None:
    """Ten cookies, six blocks, fourteen prompts; most skip, undo or leave what they are shown."""
    engine, rng = MemoryArena(1), np.random.default_rng(1)
    engine.append(catalog(8, 14), 0)
    seen: dict[tuple[str, tuple[int, int]], set[int]] = {}
    before: dict[str, str] = {}
    for step in range(400):
        voter, block, at = f"c{rng.integers(10)}", f"b{rng.integers(6)}", START + step * 20_000_000
        if voter in before:
            engine.skip(before.pop(voter), at)
        name = engine.serve(voter, at, block)
        served = engine.state.schedule.in_flight[name]
        pair = pair_of(served.a, served.b)
        seen.setdefault((voter, pair), set()).add(served.prompt)
        luck = rng.random()
        if luck < 0.03:
            engine.vote(name, A, at)
            seen = {key: prompts for key, prompts in seen.items() if key[1] != pair}
        elif luck < 0.2:
            engine.append([voted(name, undo_until=at + 5_000_000), e.Undone(matchup_id=name)], at)
        elif luck < 0.5:
            before[voter] = name
        else:
            engine.skip(name, at)
    assert max(map(len, seen.values())) == RULES.prompts


def test_a_vote_from_another_network_that_is_undone_leaves_the_pair_waiting(waiting: WaitingPairs) -> None:
    waiting.enter("train", RULES)
    serve(waiting, "1", shown(FIRST))
    waiting.close(voted("1", "train", undo_until=9), 0)
    waiting.close(e.Undone(matchup_id="1"), 1)
    assert pairs(waiting) == pairs(waiting, "ben") == [FIRST]
    assert pairs(waiting, "eve", block="train") == []


def test_no_pair_gives_way_within_a_week_unless_the_policy_says_so(waiting: WaitingPairs) -> None:
    one_a_day = WaitingRules(give_ways_per_day=1)
    serve(waiting, "0", shown(FIRST))
    waiting.close(e.Skipped(matchup_id="0"), 0)
    for hours in (0, 25, 6 * 24):
        assert not waiting.due("home", "ann", RULES, hours * HOUR).may_open
        assert waiting.due("home", "ann", one_a_day, hours * HOUR).may_open
    serve(waiting, "1", shown(SECOND_PAIR, at=1))  # the first gives way to it
    waiting.close(e.Skipped(matchup_id="1"), 0)
    assert pairs(waiting) == pairs(waiting, "ben") == [SECOND_PAIR]
    assert not waiting.due("home", "ann", one_a_day, 23 * HOUR).may_open
    assert waiting.due("home", "ann", one_a_day, 25 * HOUR).may_open, "the next day"
    assert waiting.due("home", "ben", RULES, 8 * 24 * HOUR) == Due(), "it has waited a week"
    cast(waiting, 5)
    assert waiting.due("home", "ben", RULES, 3).may_open


def test_who_undoes_again_and_again_sees_no_new_pairs_by_it(waiting: WaitingPairs) -> None:
    """Vote, ask for the next pair before the vote is final, then undo: each time a new pair, if a vote settled it."""
    found: list[tuple[int, int]] = []
    for number in range(30):
        due = waiting.due("home", "ann", RULES, number)
        pair = due.pairs[0].pair if due.pairs else (7, 8 + len(found))
        found += [pair] * (pair not in found)
        serve(waiting, f"{number}", shown(pair, at=number))
        waiting.close(e.Voted(matchup_id=f"{number}", choice=A, undo_until=number + 10), number)
        if number % 10 == 9:
            for back in range(number - 9, number + 1):
                waiting.close(e.Undone(matchup_id=f"{back}"), number)
    assert len(found) == 2
    serve(waiting, "last", shown(found[0], at=31))
    waiting.close(e.Voted(matchup_id="last", choice=A, undo_until=41), 31)
    assert found[0] in pairs(waiting, now=35)
    waiting.close(e.Revealed(matchup_id="last"), 35)
    assert found[0] not in pairs(waiting, now=35), "it is final"


def test_a_vote_that_can_be_undone_settles_its_pair_when_it_is_the_only_one(waiting: WaitingPairs) -> None:
    serve(waiting, "1", shown(FIRST))
    waiting.close(e.Voted(matchup_id="1", choice=A, undo_until=10), 0)
    assert pairs(waiting) == []
    serve(waiting, "2", shown(SECOND_PAIR))
    waiting.close(e.Voted(matchup_id="2", choice=A, undo_until=15), 5)
    assert pairs(waiting, now=12) == [SECOND_PAIR]
    assert pairs(waiting, now=16) == [], "its time is over"


def test_a_pair_that_gave_way_and_comes_back_is_shown_on_the_same_prompts(waiting: WaitingPairs) -> None:
    for prompt in range(3):
        serve(waiting, f"{prompt}", shown(FIRST, prompt=prompt))
        waiting.close(e.Skipped(matchup_id=f"{prompt}"), 0)
    serve(waiting, "other", shown(SECOND_PAIR))
    waiting.close(voted("other"), 0)
    before = waiting.shown_before("home", "ben", FIRST, RULES)
    assert before is not None
    assert (before.prompts, before.more) == ({0, 1, 2}, False)
    assert waiting.shown_before("home", "ben", SECOND_PAIR, RULES) is None


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch, waiting: WaitingPairs) -> None:
    monkeypatch.setattr(rules_of_waiting, "BLOCKS_KEPT", 3)
    monkeypatch.setattr(rules_of_waiting, "WAITING_MOST", 4)
    rules = WaitingRules(open_pairs=9)
    for number in range(9):
        one = shown((number, number + 1), f"voter {number}")
        waiting.served(msgspec.structs.replace(one, matchup_id=f"{number}"), rules)
        waiting.close(e.Skipped(matchup_id=f"{number}"), 0)
    assert len(pairs(waiting)) == 4
    serve(waiting, "left open", shown(FIRST))
    for number in range(3):
        waiting.enter(f"block {number}", RULES)
    assert not waiting.knows("home")
    waiting.close(voted("left open"), 0)
    assert waiting.due("home", "ann", RULES, 0) == Due()


def served_pair(arena: Arena, voter: str, block: str = "home") -> tuple[str, tuple[int, int], str]:
    """A matchup: its id, its pair and its prompt."""
    name = arena.serve(voter, block=block).matchup_id

    def look(state: object) -> tuple[tuple[int, int], str]:
        found = state.schedule.in_flight[name]  # type: ignore[attr-defined]
        return pair_of(found.a, found.b), str(found.prompt)

    return name, *arena.read(look)


def open_real_arena(url: str, clock: Clock | None = None) -> Arena:
    return Arena(Store.open(url), now=clock or Clock(START), rng=np.random.default_rng(1), idle_seconds=3600)


@rule_above_the_store
def test_a_skipper_sees_the_same_two_models_on_three_prompts_and_no_others(arena_url: str) -> None:
    clock = Clock(START)
    with open_real_arena(arena_url, clock) as arena:
        arena.append(catalog(models=6, prompts=5))
        seen: dict[tuple[int, int], Counter[str]] = {}
        for number in range(24):
            name, pair, prompt = served_pair(arena, f"session-{number // 4}")
            seen.setdefault(pair, Counter())[prompt] += 1
            arena.skip(name, f"session-{number // 4}")
        assert len(seen) == 1
        assert all(len(prompts) == 3 for prompts in seen.values())
    with open_real_arena(arena_url, clock) as arena:
        name, pair, prompt = served_pair(arena, "restarted")
        assert pair in seen
        assert prompt in seen[pair]
        arena.vote(name, "restarted", A, block="home")
        assert served_pair(arena, "another")[1] != pair


def test_what_a_session_brought_along_waits_for_no_other_block_after_a_restart_either(arena_url: str) -> None:
    with open_real_arena(arena_url) as arena:
        arena.append(catalog(models=12, prompts=5))
        carried = set()
        for number in range(8):
            name, pair, _ = served_pair(arena, "roaming", block=f"block {number}")
            carried.add(pair)
            arena.skip(name, "roaming")
        assert len(carried) == 1
    with open_real_arena(arena_url) as arena:
        fresh = {served_pair(arena, f"new-{number}", block=f"block {number}")[1] for number in range(1, 8)}
    assert not fresh & carried


@rule_above_the_store
def test_a_session_that_moves_on_keeps_its_pair(arena_url: str) -> None:
    with open_real_arena(arena_url) as arena:
        arena.append(catalog(models=6, prompts=5))
        seen = Counter[tuple[int, int]]()
        for number in range(12):
            name, pair, _ = served_pair(arena, "roaming", block=f"block {number}")
            seen[pair] += 1
            arena.skip(name, "roaming")
        assert len(seen) == 1
        assert max(seen.values()) >= 6


@rule_above_the_store
def test_a_voter_has_one_matchup_open_and_gets_it_again(arena_url: str) -> None:
    clock = Clock(START)
    with open_real_arena(arena_url, clock) as arena, open_real_arena(arena_url, clock) as second:
        arena.append(catalog(models=6, prompts=5))

        def asked(engine: Arena, most: int = 1) -> Future[ServedMatchup]:
            return engine.submit(ServeMatchup("ann", block="home", open_at_most=most))

        many = [found.result() for found in [asked((arena, second)[n % 2]) for n in range(20)]]
        assert len({found.matchup_id for found in many}) == 1
        assert [found.again for found in many].count(False) == 1
        assert len({(found.prompt, found.response_a, found.response_b, found.expires_at) for found in many}) == 1
        three = [asked(arena, 3).result() for _ in range(4)]
        assert [found.again for found in three] == [False, False, True, True]
        assert three[2].matchup_id == three[3].matchup_id == three[1].matchup_id
        arena.skip(three[1].matchup_id, "ann")
        arena.vote(three[0].matchup_id, "ann", A, block="home")
        assert asked(second).result().matchup_id == many[0].matchup_id
        clock.turn(3 * 3600)
        assert not asked(second).result().again, "it has expired"


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


def test_a_hunter_who_skips_meets_one_pair_in_a_simulated_arena_too() -> None:
    met: dict[str, set[tuple[int, int]]] = {}
    for block in ("", "home"):
        arena = MemoryArena(seed=3)
        arena.append(catalog(models=12, prompts=15), 0)
        for number in range(60):
            name = arena.serve(f"session {number // 12}", number, block)
            found = arena.state.schedule.in_flight[name]
            met.setdefault(block, set()).add(pair_of(found.a, found.b))
            arena.skip(name, number)
    assert len(met[""]) > 25
    assert len(met["home"]) == 1

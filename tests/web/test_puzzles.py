"""Puzzles: asked for before the first pair and every few pairs, good for one voter and one solution."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import Any

import msgspec
import pytest
from starlette.testclient import TestClient

from tests.arena.engines import Clock, open_arena
from tests.web.sites import SmallSite, small_site
from tiltyard.arena.commands import SpendPuzzle
from tiltyard.arena.events import SettingsChanged
from tiltyard.arena.policy import Policy
from tiltyard.arena.service import Arena, clock
from tiltyard.arena.units import SECOND
from tiltyard.arena.visitor_rules import EntryRules
from tiltyard.arena.voting import NotYours, PuzzleNeeded
from tiltyard.web.cookies import cookie_hash
from tiltyard.web.failures import Failure
from tiltyard.web.puzzles import GOOD_SECONDS, Puzzles, zero_bits

RULES = EntryRules(puzzle_bits=8, puzzle_matchups=2, puzzle_wait_seconds=20)
NOW = 1_800_000_000 * SECOND


@pytest.fixture
def site(sqlite_url: str) -> Iterator[SmallSite]:
    with small_site(sqlite_url, rate_limit=True) as made:
        made.arena.append([SettingsChanged(policy=msgspec.structs.replace(Policy(), entry=RULES))])
        made.observatory.refresh()
        yield made


def solution(text: str, bits: int = RULES.puzzle_bits) -> str:
    return str(next(number for number in count() if zero_bits(f"{text}:{number}") >= bits))


def solved(client: TestClient) -> dict[str, str]:
    """The headers of a program that has solved the puzzle it was given."""
    told = client.post("/api/v1/matchups")
    assert (told.status_code, told.json()["error"]["code"]) == (403, "puzzle_needed")
    assert told.headers["x-puzzle-bits"] == "8"
    return {"x-puzzle": told.headers["x-puzzle"], "x-puzzle-number": solution(told.headers["x-puzzle"])}


def test_a_puzzle_pays_for_a_few_pairs_once_and_for_its_own_visitor(site: SmallSite) -> None:
    client, other = site.client("203.0.113.9"), site.client("198.51.100.9")
    paid = solved(client)
    other.post("/api/v1/matchups")
    assert other.post("/api/v1/matchups", headers=paid).json()["error"]["code"] == "puzzle_unsolved"
    first = client.post("/api/v1/matchups", headers=paid)
    assert first.status_code == 201
    for _ in range(3):
        assert client.post("/api/v1/matchups").status_code == 200, "what is open costs nothing"
    skip(client, first)
    second = client.post("/api/v1/matchups")
    assert second.status_code == 201
    skip(client, second)
    assert client.post("/api/v1/matchups").json()["error"]["code"] == "puzzle_needed"
    again = client.post("/api/v1/matchups", headers=paid)
    assert again.json()["error"]["message"].startswith("this puzzle was solved before")
    assert client.post("/api/v1/matchups", headers=solved(client)).status_code == 201


def skip(client: TestClient, served: Any) -> None:
    assert client.post(f"/api/v1/matchups/{served.json()['matchup_id']}/skip").status_code == 200


def test_puzzles_cannot_be_collected(site: SmallSite) -> None:
    client = site.client("203.0.113.9")
    collected = [solved(client) for _ in range(4)]
    served = client.post("/api/v1/matchups", headers=collected[1])
    assert served.status_code == 201
    skip(client, served)
    for older in collected:
        refused = client.post("/api/v1/matchups", headers=older)
        assert refused.json()["error"]["code"] == "puzzle_needed", "made before the last payment"
    for _ in range(2):  # the credit of the one that was spent is one pair, not four
        served = client.post("/api/v1/matchups")
        if served.status_code == 201:
            skip(client, served)
    assert served.json()["error"]["code"] == "puzzle_needed"
    assert client.post("/api/v1/matchups", headers=solved(client)).status_code == 201


def test_the_page_asks_before_the_first_pair_and_takes_the_solution(site: SmallSite) -> None:
    client = site.client("203.0.113.9")

    def field(page: str, name: str) -> str:
        found = re.search(rf'name="{name}" value="([^"]*)"', page)
        assert found is not None, name
        return found[1]

    start = client.get("/").text
    assert client.post("/start", data={"token": field(start, "token")}).status_code == 303
    page = client.get("/").text
    assert "wait 20 seconds" in page
    form = {name: field(page, name) for name in ("token", "puzzle", "number")}
    early = client.post("/puzzle", data=form)
    assert early.status_code == 403
    assert "Not yet" in early.text
    assert client.post("/puzzle", data={**form, "number": solution(form["puzzle"])}).status_code == 303
    assert "Which answer is better?" in client.get("/").text


def test_only_a_number_that_fits_or_the_wait_solves_a_puzzle() -> None:
    puzzles = Puzzles("s" * 32)
    text = puzzles.make("ann", RULES, NOW).text
    right = solution(text)
    wrong = next(str(n) for n in count() if zero_bits(f"{text}:{n}") < RULES.puzzle_bits)
    assert puzzles.check(text, right, "ann", RULES, NOW).expires_at > NOW + GOOD_SECONDS * SECOND
    waited = puzzles.check(text, "", "ann", RULES, NOW + 20 * SECOND)
    solved = puzzles.check(text, right, "ann", RULES, NOW)
    assert (waited.waited, solved.waited) == (True, False)
    assert replace(waited, waited=False) == solved
    for bad_text, number, voter, seconds in (
        (text, wrong, "ann", 0),
        (text, "", "ann", 19),
        (text, f" {right}", "ann", 0),
        (text, right, "ben", 0),
        (f"9{text}", right, "ann", 0),
        (text[:-1] + ("0" if text[-1] != "0" else "1"), right, "ann", 0),
        (text, right, "ann", GOOD_SECONDS + 1),
        (text, right, "ann", -1),
        ("", "", "ann", 0),
    ):
        with pytest.raises(Failure):
            puzzles.check(bad_text, number, voter, RULES, NOW + seconds * SECOND)
    assert Puzzles("t" * 32).make("ann", RULES, NOW).text != text


def pay(arena: Arena, voter: str, name: str, made_at: int, block: str = "") -> str:
    """Spend a puzzle, by waiting if a block is named; what the refusal says, or nothing."""
    spent = SpendPuzzle(voter, name, made_at, made_at + 901 * SECOND, waited=bool(block), block=block)
    try:
        arena.submit(spent).result()
    except PuzzleNeeded as refused:
        return str(refused)
    return ""


def test_a_puzzle_is_spent_once_and_waits_of_one_block_come_one_after_the_other(arena_url: str) -> None:
    """Otherwise one wait with many cookies at the same time would pay for all of them."""
    clock = Clock()
    with open_arena(arena_url, clock) as arena:
        arena.append([SettingsChanged(policy=msgspec.structs.replace(Policy(), entry=RULES))])
        voters = [arena.voter(f"{n}" * 8) for n in range(6)]
        made_at = clock.now
        assert [pay(arena, voters[0], "one", made_at), pay(arena, voters[0], "two", made_at + 9)] == ["", ""]
        for name in ("one", "two", "three"):
            assert pay(arena, voters[0], name, made_at).startswith("this puzzle was solved before, or is older")
        assert pay(arena, arena.voter("another"), "one", made_at).startswith("this puzzle was solved before")
        made_at = clock.now
        clock.turn(21)
        for turn in range(1, 5):
            told = [pay(arena, voter, f"{voter} waits", made_at, "home") for voter in voters[turn:]]
            assert [bool(one) for one in told] == [False, *[True] * (5 - turn)]
            assert all("Come back in 20 seconds" in one or "Come back in 19 seconds" in one for one in told[1:])
            clock.turn(20)
        assert pay(arena, arena.voter("elsewhere"), "other", made_at, "train") == "", "another network, another line"


def test_a_site_tells_waiting_from_solving(site: SmallSite) -> None:
    puzzles, made_at = Puzzles(site.settings.secret), clock() - 25 * SECOND
    clients = [site.client(f"203.0.113.{n}") for n in (1, 2, 3)]
    texts = []
    for client in clients:
        client.post("/api/v1/matchups")
        voter = site.arena.store.known_voter(cookie_hash(client.cookies["tiltyard"]))
        texts.append(puzzles.make(str(voter), RULES, made_at).text)
    numbers = ("", "", solution(texts[2]))
    told = [
        client.post("/api/v1/matchups", headers={"x-puzzle": text, "x-puzzle-number": number})
        for client, text, number in zip(clients, texts, numbers, strict=True)
    ]
    assert [answer.status_code for answer in told] == [201, 403, 201]
    assert "others of your network wait too, one after the other" in told[1].json()["error"]["message"]


def test_a_puzzle_is_spent_for_a_voter_and_for_nothing_else() -> None:
    with pytest.raises(NotYours, match="not the key of a voter"):
        SpendPuzzle("no; key", "puzzle", 0, 1)

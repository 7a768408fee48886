"""A site with more visitors than it can serve: what is made once, what is refused, and in which order."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.forked import PATIENCE_SECONDS
from tests.processes import wait_until
from tests.site.holding import held
from tests.site.sites import SCRAPER, SmallSite, form_in, vote_once, vote_page
from tests.site.test_health import figures
from tiltyard.arena import Load
from tiltyard.arena.rules import voting
from tiltyard.site import api, engine, failures, guard, page_cache
from tiltyard.site.failures import Failure, busy
from tiltyard.site.guard import BoundedPages
from tiltyard.site.page_cache import PageCache

PUBLIC = (
    "/api/v1/leaderboard",
    "/api/v1/validity",
    "/api/v1/models/zyxwolf-one",
    "/leaderboard",
    "/leaderboard.json",
    "/leaderboard.csv",
    "/models/zyxwolf-one",
    "/compare?a=zyxwolf-one&b=qvartz-7b",
    "/validity",
    "/methods",
    "/data",
)


def test_a_public_answer_is_made_once_for_each_snapshot_a_304_makes_nothing_and_a_tag_tells_nothing(
    sqlite_site: SmallSite,
) -> None:
    site = sqlite_site.app.state.site

    def made(address: str) -> int:
        """How often one was made; a comparison needs a fit of its own."""
        return int((site.parts if address.startswith("/compare") else site.prepared).made)

    vote_once(sqlite_site.client())
    snapshot = sqlite_site.observatory.refresh()
    tags: dict[str, str] = {}
    for address in PUBLIC:
        before = made(address)
        answers = [sqlite_site.client().get(address) for _ in range(3)]
        assert [answer.status_code for answer in answers] == [200, 200, 200], address
        assert len({answer.content for answer in answers}) == 1, address
        assert made(address) == before + 1, address
        tags[address] = tag = answers[0].headers["etag"]
        assert str(snapshot.seq) != tag.strip('W/"')
        assert snapshot.log_hash[:8] not in tag
        assert len(tag) == len('W/""') + 32
        for said in (tag, tag.removeprefix("W/"), f'"other", {tag}'):
            again = sqlite_site.client().get(address, headers={"if-none-match": said})
            assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag), address
        assert made(address) == before + 1, address
    vote_once(sqlite_site.client())
    sqlite_site.observatory.refresh()
    for address, tag in tags.items():
        before = made(address)
        newer = sqlite_site.client().get(address, headers={"if-none-match": tag})
        assert newer.status_code == 200, address
        assert newer.headers["etag"] != tag, address
        assert made(address) == before + 1, address


def test_what_nobody_asked_for_in_an_address_makes_nothing_anew(sqlite_site: SmallSite) -> None:
    for number in range(5):
        assert sqlite_site.client().get(f"/leaderboard?nonsense={number}").status_code == 200
    assert sqlite_site.app.state.site.prepared.made == 1


def test_an_answer_is_made_beside_the_event_loop(sqlite_site: SmallSite, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[str] = []
    whole = api.whole_board_values

    def noted(snapshot: Any) -> Any:
        threads.append(threading.current_thread().name)
        return whole(snapshot)

    monkeypatch.setattr(api, "whole_board_values", noted)
    assert sqlite_site.client().get("/api/v1/leaderboard").status_code == 200
    assert [name.rpartition("_")[0] for name in threads] == ["tiltyard-pages"]


def test_those_who_want_the_same_wait_for_one_making_and_those_who_go_away_do_not_stop_it() -> None:
    kept, go_on = PageCache(), threading.Event()

    def make() -> bytes:
        go_on.wait(PATIENCE_SECONDS)
        return b"made"

    async def ask() -> None:
        first = asyncio.create_task(kept.get(("page",), make))
        others = [asyncio.create_task(kept.get(("page",), make)) for _ in range(20)]
        await asyncio.sleep(0)
        first.cancel()
        go_on.set()
        assert await asyncio.gather(*others) == [b"made"] * 20
        assert await kept.get(("page",), make) == b"made"

    asyncio.run(ask())
    assert kept.made == 1
    kept.close()


def test_what_cannot_be_made_is_told_to_everybody_and_not_kept() -> None:
    kept = PageCache()

    def fail() -> bytes:
        raise Failure(404, "not_found", "nothing there.")

    async def ask() -> None:
        found = await asyncio.gather(*(kept.get(("page",), fail) for _ in range(3)), return_exceptions=True)
        assert [error.status for error in found if isinstance(error, Failure)] == [404, 404, 404]
        assert await kept.get(("page",), lambda: b"there now") == b"there now"

    asyncio.run(ask())
    kept.close()


def test_kept_answers_and_those_in_the_making_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_cache, "KEPT_ANSWERS", 2)
    monkeypatch.setattr(page_cache, "KEPT_BYTES", 10)
    monkeypatch.setattr(page_cache, "WAITING", 2)
    kept, go_on = PageCache(), threading.Event()

    def slow() -> bytes:
        go_on.wait(PATIENCE_SECONDS)
        return b"x"

    async def ask() -> None:
        for number, size in enumerate((1, 1, 1, 8, 20)):
            await kept.get((number,), lambda size=size: b"x" * size)
            assert len(kept._kept) <= 2
            assert kept._bytes == sum(map(len, kept._kept.values())) <= 10
        waiting = [asyncio.create_task(kept.get((name,), slow)) for name in "ab"]
        await asyncio.sleep(0)
        with pytest.raises(Failure) as refused:
            await kept.get(("c",), slow)
        assert (refused.value.status, refused.value.code) == (503, "busy")
        go_on.set()
        await asyncio.gather(*waiting)

    asyncio.run(ask())
    kept.close()


def test_one_network_has_a_share_of_the_fits_and_others_are_served_the_last_one_meanwhile(
    sqlite_site: SmallSite,
) -> None:
    """One client with many connections must not make filtered boards and comparisons answer 503 for everybody."""
    site, go_on = sqlite_site, threading.Event()
    cache = site.app.state.site.parts
    names = [row["model"] for row in site.client().get("/api/v1/leaderboard").json()["rows"]]
    compared = f"/compare?a={names[0]}&b={names[1]}"
    ask = site.client("198.51.100.7")
    before = ask.get(compared)
    vote_once(site.client())
    site.observatory.refresh()

    async def flood() -> list[object]:
        def slow() -> bytes:
            go_on.wait(PATIENCE_SECONDS)
            return b""

        asked = [asyncio.create_task(cache.get((f"flood {n}",), slow, "203.0.113.0/24")) for n in range(16)]
        await asyncio.sleep(0)
        mine = await asyncio.to_thread(site.client("203.0.113.9").get, compared)
        others = [asyncio.create_task(cache.get((f"other {n}",), slow, f"net {n}")) for n in range(5)]
        await asyncio.sleep(0)
        old = await asyncio.to_thread(ask.get, compared)
        never = await asyncio.to_thread(ask.get, f"/compare?a={names[1]}&b={names[0]}")
        go_on.set()
        done = await asyncio.gather(*asked, *others, return_exceptions=True)
        return [mine, old, never, [isinstance(each, Failure) for each in done]]

    mine, old, never, failed = asyncio.run(flood())
    assert failed == [*[False] * 3, *[True] * 13, *[False] * 5], "three of the flood, and all of the others"
    for answer in (mine, old):
        assert (answer.status_code, answer.content, answer.headers["etag"]) == (
            200,
            before.content,
            before.headers["etag"],
        )
    assert never.status_code == 503
    assert ask.get(compared).headers["etag"] != before.headers["etag"]


def test_a_long_queue_refuses_new_matchups_and_pages_before_votes(
    sqlite_site: SmallSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    site, client, other = sqlite_site, sqlite_site.client(), sqlite_site.client()
    fields = {**form_in(vote_page(client).text), "choice": "A"}
    matchup = other.post("/api/v1/matchups").json()["matchup_id"]
    with ThreadPoolExecutor(2) as pool, held(site.arena, waiting=64):
        refused = [site.client().post("/api/v1/matchups"), vote_page(site.client())]
        votes = [
            pool.submit(client.post, "/vote", data=fields),
            pool.submit(other.post, f"/api/v1/matchups/{matchup}/vote", json={"choice": "B"}),
        ]
        for answer in refused:
            assert answer.status_code == 503
            assert 2 <= int(answer.headers["retry-after"]) <= 12
        assert refused[0].json()["error"]["code"] == "busy"
        assert "Very busy" in refused[1].text
        wait_until(lambda: site.arena.load().waiting == 66)
        monkeypatch.setitem(engine.MOST_WAITING, "vote", 66)
        late = other.post(f"/api/v1/matchups/{matchup}/vote", json={"choice": "B"})
        assert (late.status_code, late.json()["error"]["code"], late.headers["retry-after"]) == (503, "busy", "2")
        assert client.post("/vote", data=fields).status_code == 503
    assert [vote.result(PATIENCE_SECONDS).status_code for vote in votes] == [303, 200]
    assert other.post(f"/api/v1/matchups/{matchup}/vote", json={"choice": "B"}).status_code == 200
    assert site.arena.read(lambda state: int(state.tallies.wins.view.sum())) == 2
    assert site.app.state.refusals.counts == {"matchup": 2, "vote": 2, "page": 0}
    assert 'what="matchup"} 2' in client.get("/metrics", headers=SCRAPER).text
    assert engine.MOST_WAITING == {"matchup": 64, "page": 64, "vote": 66}


def test_a_command_says_until_when_it_is_worth_beginning_and_one_that_came_too_late_was_refused(
    sqlite_site: SmallSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    post, left = sqlite_site.arena.post, {}

    def noted(command: Any, mailbox: Any) -> None:
        left[type(command).__name__] = command.deadline - time.monotonic()
        post(command, mailbox)

    monkeypatch.setattr(sqlite_site.arena, "post", noted)
    client = sqlite_site.client()
    matchup = client.post("/api/v1/matchups").json()["matchup_id"]
    assert client.post(f"/api/v1/matchups/{matchup}/vote", json={"choice": "A"}).status_code == 200
    assert {name: round(seconds) for name, seconds in left.items()} == {
        "EnterVoter": 2,
        "ServeMatchup": 2,
        "SubmitVote": 10,
    }

    def expired(command: Any, mailbox: Any) -> None:
        command.refuse(voting.TooBusy("it waited too long."))
        mailbox.loop.call_soon(mailbox.take, [command])

    monkeypatch.setattr(sqlite_site.arena, "post", expired)
    answer = client.post(f"/api/v1/matchups/{matchup}/vote", json={"choice": "A"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "busy")
    assert sqlite_site.app.state.refusals.counts["vote"] == 1


def test_who_comes_back_to_a_long_queue_is_refused_before_the_database_is_asked_who_that_is(
    sqlite_site: SmallSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    site, stranger, asked = sqlite_site, sqlite_site.client(), []
    vote_page(stranger)
    site.app.state.site.visitors._voters.clear()
    known_voter = site.arena.store.known_voter
    monkeypatch.setattr(site.arena.store, "known_voter", lambda name: asked.append(name) or known_voter(name))
    with held(site.arena, waiting=64):
        assert [stranger.post("/api/v1/matchups").status_code for _ in range(3)] == [503] * 3
    assert asked == []
    assert stranger.post("/api/v1/matchups").status_code == 201
    assert len(asked) == 1


def test_refused_votes_come_back_first_and_a_crowd_not_all_at_once() -> None:
    waits = {int(busy("matchup").headers["retry-after"]) for _ in range(1000)}
    assert waits == set(range(2, 13))
    assert {busy("vote").headers["retry-after"] for _ in range(100)} == {"2"}


def test_a_queue_that_moves_fast_refuses_nobody(sqlite_site: SmallSite) -> None:
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda _: sqlite_site.client().post("/api/v1/matchups").status_code, range(64)))
    assert set(answers) == {201}
    # The writing thread still ends the last group when its answers are out.
    wait_until(lambda: sqlite_site.arena.load() == Load(waiting=0, group_seconds=0.0))


def test_while_requests_are_refused_the_site_says_that_it_is_busy(
    sqlite_site: SmallSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = sqlite_site.client()
    assert client.get("/healthz").json()["status"] == "ready"
    monkeypatch.setattr(guard, "PAGES_AT_ONCE", 0)
    assert client.get("/leaderboard").status_code == 503
    monkeypatch.setattr(guard, "PAGES_AT_ONCE", 128)
    answer = client.get("/healthz")
    assert (answer.status_code, answer.json()["status"], figures(client)["tiltyard_busy"]) == (200, "busy", 1)
    monkeypatch.setattr(failures, "BUSY_SECONDS", 0.0)
    assert (client.get("/healthz").json()["status"], figures(client)["tiltyard_busy"]) == ("ready", 0)


def test_too_many_pages_at_once_are_refused_while_votes_and_health_go_on(
    sqlite_site: SmallSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = sqlite_site.client()
    matchup = client.post("/api/v1/matchups").json()["matchup_id"]
    monkeypatch.setattr(guard, "PAGES_AT_ONCE", 0)
    page, values = client.get("/leaderboard"), client.get("/api/v1/leaderboard")
    assert (page.status_code, values.status_code) == (503, 503)
    assert "Very busy" in page.text
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert values.json()["error"]["code"] == "busy"
    assert client.post(f"/api/v1/matchups/{matchup}/vote", json={"choice": "A"}).status_code == 200
    assert client.get("/healthz").status_code == 200
    assert client.get("/static/site.css").status_code == 200
    assert figures(client)["tiltyard_up"] == 1


def test_whoever_downloads_slowly_takes_no_place_of_those_who_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "PAGES_AT_ONCE", 1)
    taken = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await taken.wait()
        await send({"type": "http.response.body", "body": b"at last"})

    async def ask() -> None:
        statuses: list[int] = []

        async def send(message: Any) -> None:
            statuses.extend([message["status"]] if message["type"] == "http.response.start" else [])

        layer = BoundedPages(app)
        scope = {"type": "http", "method": "GET", "path": "/api/v1/battles.jsonl"}
        downloads = [asyncio.create_task(layer(dict(scope), _nothing, send)) for _ in range(10)]
        while len(statuses) < 10:
            await asyncio.sleep(0)
        taken.set()
        await asyncio.gather(*downloads)
        assert statuses == [200] * 10

    asyncio.run(ask())


async def _nothing() -> Any:
    return {"type": "http.request", "body": b""}


def test_exports_that_wait_are_bounded(sqlite_site: SmallSite, monkeypatch: pytest.MonkeyPatch) -> None:
    assert sqlite_site.client().get("/api/v1/battles.jsonl").status_code == 200
    monkeypatch.setattr(sqlite_site.app.state.exports, "_here", api.EXPORTS_AT_ONCE + api.EXPORTS_WAITING)
    assert sqlite_site.client().get("/api/v1/battles.jsonl").json()["error"]["code"] == "busy"

"""A site with more visitors than it can serve: what is made once, what is refused, and in which order."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.forked import PATIENCE_SECONDS
from tests.processes import wait_until
from tests.web.holding import held
from tests.web.sites import SmallSite, form_in, vote_once, vote_page
from tests.web.test_health import figures
from tiltyard.arena.commands import EnterVoter, ServeMatchup, SubmitVote
from tiltyard.arena.events import Choice
from tiltyard.arena.group_commit import Load
from tiltyard.web import api, page_cache, shedding
from tiltyard.web.failures import Failure
from tiltyard.web.page_cache import PageCache
from tiltyard.web.shedding import LONGEST_WAIT_SECONDS, BoundedPages, Returns, busy

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
        assert snapshot.head_hash[:8] not in tag
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
    monkeypatch.setattr(site.app.state.site.engine, "_longest_wait", 1000.0)
    monkeypatch.setattr(site.arena._commits, "_seconds_each", 1000.0)
    before = dict(shedding.refused)
    with ThreadPoolExecutor(2) as pool, held(site.arena, waiting=2):
        refused = [site.client().post("/api/v1/matchups"), vote_page(site.client())]
        votes = [
            pool.submit(client.post, "/vote", data=fields),
            pool.submit(other.post, f"/api/v1/matchups/{matchup}/vote", json={"choice": "B"}),
        ]
        for answer in refused:
            assert answer.status_code == 503
            assert int(answer.headers["retry-after"]) > 0
        assert refused[0].json()["error"]["code"] == "busy"
        assert "Very busy" in refused[1].text
        wait_until(lambda: site.arena.load().waiting == 4)
        monkeypatch.setattr(site.arena._commits, "_seconds_each", 10_000.0)
        late = other.post(f"/api/v1/matchups/{matchup}/vote", json={"choice": "B"})
        assert (late.status_code, late.json()["error"]["code"]) == (503, "busy")
        assert client.post("/vote", data=fields).status_code == 503
    assert [vote.result(PATIENCE_SECONDS).status_code for vote in votes] == [303, 200]
    monkeypatch.setattr(site.arena._commits, "_seconds_each", 0.0)
    assert other.post(f"/api/v1/matchups/{matchup}/vote", json={"choice": "B"}).status_code == 200
    assert site.arena.read(lambda state: int(state.tallies.wins.view.sum())) == 2
    counted = {kind: shedding.refused[kind] - before.get(kind, 0) for kind in shedding.KINDS}
    assert counted == {"matchup": 2, "vote": 2, "page": 0, "connection": 0}
    shown = client.get("/metrics").text
    assert f'what="matchup"}} {shedding.refused["matchup"]}' in shown


def test_who_comes_back_to_a_long_queue_is_refused_before_the_database_is_asked_who_that_is(
    sqlite_site: SmallSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    site, stranger, asked = sqlite_site, sqlite_site.client(), []
    engine = site.app.state.site.engine
    known_voter = engine.known_voter
    monkeypatch.setattr(engine, "known_voter", lambda name: asked.append(name) or known_voter(name))
    monkeypatch.setattr(site.arena._commits, "_seconds_each", 1000.0)
    with held(site.arena, waiting=2):
        assert [stranger.post("/api/v1/matchups").status_code for _ in range(3)] == [503] * 3
        assert stranger.cookies
    assert asked == []
    monkeypatch.setattr(site.arena._commits, "_seconds_each", 0.0)
    assert stranger.post("/api/v1/matchups").status_code == 201
    assert len(asked) == 1


def test_a_refused_crowd_is_asked_to_come_back_a_few_in_each_second_and_at_the_latest_after_twenty() -> None:
    returns = Returns()
    assert [returns.wait_seconds(100.9) for _ in range(50)] == [2] * 50
    told = [returns.wait_seconds(100.9) for _ in range(1950)]
    assert told == sorted(told)
    assert Counter(told) == {**dict.fromkeys(range(3, 20), 50), 20: 1950 - 17 * 50}
    assert returns.wait_seconds(103.0) == 18  # the second that already expects more than it should, then the next
    assert returns.wait_seconds(121.0) == 2  # nobody is expected any more
    assert [returns.wait_seconds(121.5) for _ in range(50)] == [2] * 49 + [3]


def test_refused_votes_come_back_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shedding, "_returns", Returns())
    waits = [int(busy("matchup").headers["retry-after"]) for _ in range(300)]
    assert (min(waits), max(waits) >= 6) == (2, True)
    assert busy("vote").headers["retry-after"] == "2"


def test_a_crowd_is_refused_sooner_than_a_slow_commit() -> None:
    """So that those who are let in have their answers within a second, and one slow disk write refuses nobody."""
    crowd, slow_disk = Load(400, 0.0, 0.4, 0.4), Load(10, 1.5, 1.5)
    serve, vote = ServeMatchup("ann"), SubmitVote("m", "ann", Choice.A)
    with pytest.raises(Failure):
        shedding.admit(serve, crowd, LONGEST_WAIT_SECONDS)
    with pytest.raises(Failure):
        shedding.admit(serve, Load(0, 0.0, 0.0), LONGEST_WAIT_SECONDS, lag_seconds=0.4)
    shedding.admit(vote, crowd, LONGEST_WAIT_SECONDS)
    some = Load(100, 0.0, 0.06, 0.06)
    shedding.admit(serve, some, LONGEST_WAIT_SECONDS)
    with pytest.raises(Failure):  # who is not known yet waits in the line more than once
        shedding.admit(EnterVoter("new"), some, LONGEST_WAIT_SECONDS)
    shedding.admit(EnterVoter("new"), slow_disk, LONGEST_WAIT_SECONDS)
    shedding.admit(serve, slow_disk, LONGEST_WAIT_SECONDS)
    with pytest.raises(Failure):
        shedding.admit(vote, Load(2000, 0.0, 1.2, 1.2), LONGEST_WAIT_SECONDS)


def test_a_queue_that_moves_fast_refuses_nobody(sqlite_site: SmallSite) -> None:
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda _: sqlite_site.client().post("/api/v1/matchups").status_code, range(64)))
    assert set(answers) == {201}
    load = sqlite_site.arena.load()
    assert (load.waiting, load.group_seconds) == (0, 0.0)
    assert sqlite_site.arena._commits._seconds_each > 0


def test_too_many_pages_at_once_are_refused_while_votes_and_health_go_on(
    sqlite_site: SmallSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = sqlite_site.client()
    matchup = client.post("/api/v1/matchups").json()["matchup_id"]
    monkeypatch.setattr(shedding, "PAGES_AT_ONCE", 0)
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
    monkeypatch.setattr(shedding, "PAGES_AT_ONCE", 1)
    taken = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await taken.wait()
        await send({"type": "http.response.body", "body": b"at last"})

    async def ask() -> None:
        statuses: list[int] = []

        async def send(message: Any) -> None:
            statuses.extend([message["status"]] if message["type"] == "http.response.start" else [])

        layer = BoundedPages(app, lambda *_: pytest.fail("refused"), 2.0)
        scope = {"type": "http", "method": "GET", "path": "/api/v1/battles.jsonl"}
        downloads = [asyncio.create_task(layer(dict(scope), _nothing, send)) for _ in range(10)]
        while len(statuses) < 10:
            await asyncio.sleep(0)
        taken.set()
        await asyncio.gather(*downloads)
        assert statuses == [200] * 10

    asyncio.run(ask())


def test_where_pages_take_long_fewer_are_let_in() -> None:
    layer = BoundedPages(_never, _never, 2.0)  # type: ignore[arg-type]
    layer._in_work, layer._gap_seconds = 20, 0.05
    assert layer._has_room
    layer._gap_seconds = 0.2
    assert not layer._has_room
    layer._in_work = shedding.FEW_PAGES - 1
    assert layer._has_room, "a few are always let in: otherwise nothing would be measured again"
    layer._in_work = 2
    layer._done()
    layer._done()
    assert layer._done_at is None, "time in which nobody asks is no time that a page takes"


async def _never(*_: Any) -> None:
    pytest.fail("nobody asks")


async def _nothing() -> Any:
    return {"type": "http.request", "body": b""}


def test_exports_that_wait_are_bounded(sqlite_site: SmallSite, monkeypatch: pytest.MonkeyPatch) -> None:
    assert sqlite_site.client().get("/api/v1/battles.jsonl").status_code == 200
    monkeypatch.setattr(sqlite_site.app.state.exports, "_here", api.EXPORTS_AT_ONCE + api.EXPORTS_WAITING)
    assert sqlite_site.client().get("/api/v1/battles.jsonl").json()["error"]["code"] == "busy"

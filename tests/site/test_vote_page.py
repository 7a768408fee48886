"""The vote page by its plain forms: what a visitor without a script sees and does."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from starlette.testclient import TestClient

from tests.arena.engines import Clock, sql
from tests.site.sites import (
    IDENTIFYING,
    NAMES,
    QUICK,
    SECRET,
    SmallSite,
    answer,
    catalog,
    form_in,
    small_site,
    vote_once,
    vote_page,
)
from tiltyard.arena import Arena, Limits, Policy
from tiltyard.arena import clock as clock_now
from tiltyard.arena import events as e
from tiltyard.arena.audit.verify import verify
from tiltyard.arena.store import Store
from tiltyard.arena.study import Observatory
from tiltyard.site.app import create_app
from tiltyard.site.settings import SiteSettings

MOVED = r'<span class="rating">(\d+) <span aria-hidden="true">→</span><span class="hidden">to</span> <b[^>]*>(\d+)<'


def test_a_first_visit_shows_a_pair_and_a_vote_leads_to_the_names(site: SmallSite) -> None:
    client = site.client()
    page = vote_page(client)
    assert page.status_code == 200
    assert not any(name in page.text for name in IDENTIFYING)
    answer = client.post("/vote", data={**form_in(page.text), "choice": "A"})
    assert answer.status_code == 303
    held_back = client.get(answer.headers["location"])
    assert not any(name in held_back.text for name in IDENTIFYING)
    assert client.post("/reveal", data=form_in(held_back.text)).headers["location"] == answer.headers["location"]
    result = client.get(answer.headers["location"])
    assert sum(name in result.text for name in NAMES) == 2
    assert "Ratings on the board before your vote" in result.text
    assert "Nobody else has voted on these two yet" in result.text
    assert verify(site.url).clean


def test_whoever_comes_back_finds_the_same_pair_until_it_is_settled(site: SmallSite) -> None:
    client = site.client()
    first = form_in(vote_page(client).text)["matchup_id"]
    assert form_in(vote_page(client).text)["matchup_id"] == first
    vote_once(client)
    second = form_in(vote_page(client).text)["matchup_id"]
    assert second != first
    assert client.post("/skip", data=form_in(vote_page(client).text)).headers["location"] == "/"
    assert form_in(vote_page(client).text)["matchup_id"] not in (first, second)


def test_a_result_is_shown_only_after_the_vote_and_only_to_its_voter(sqlite_site: SmallSite) -> None:
    client, stranger = sqlite_site.client(), sqlite_site.client()
    matchup_id = form_in(vote_page(client).text)["matchup_id"]
    before = client.get(f"/votes/{matchup_id}")
    assert (before.status_code, before.headers["location"]) == (303, "/")
    vote_page(stranger)
    assert stranger.get(f"/votes/{matchup_id}").status_code == 404
    vote_once(client)
    assert client.get(f"/votes/{matchup_id}").status_code == 200
    assert stranger.get(f"/votes/{matchup_id}").status_code == 404
    assert sqlite_site.client().get(f"/votes/{matchup_id}").status_code == 404


def test_a_skipped_pair_is_never_revealed(sqlite_site: SmallSite) -> None:
    client = sqlite_site.client()
    fields = form_in(vote_page(client).text)
    client.post("/skip", data=fields)
    answer = client.get(f"/votes/{fields['matchup_id']}")
    assert answer.status_code == 410
    assert not any(name in answer.text for name in IDENTIFYING)
    assert client.post("/vote", data={**fields, "choice": "A"}).status_code == 410


def test_the_ratings_shown_are_those_of_the_board_and_the_change_is_the_votes_own(sqlite_site: SmallSite) -> None:
    sqlite_site.arena.append([e.PhaseChanged(phase=4)])
    client = sqlite_site.client()
    vote_once(client, "B")
    sqlite_site.observatory.refresh()
    result = client.get(vote_once(client, "A")).text
    moved = [(float(before), float(after)) for before, after in re.findall(MOVED, result)]
    ratings = {row.display_name: row.rating_shown for row in sqlite_site.observatory.refresh().board.rows}
    names = re.findall(r'<h2 id="name-[ab]"><span[^>]*>[AB]</span> ([^<]+?)(?: <span|</h2>)', result)
    assert [after for _, after in moved] == [round(ratings[name]) for name in names]
    (won_before, won_after), (lost_before, lost_after) = moved
    assert won_after > won_before
    assert lost_after - lost_before < won_after - won_before  # a loser's cell may rise: its deviation shrinks


@pytest.mark.parametrize("phase", [2, 3])
def test_both_bad_moves_nobody_but_legacy_elo(sqlite_site: SmallSite, phase: int) -> None:
    """A loss of each to a rival of 1500: 16·½ of a new model's 1500."""
    sqlite_site.arena.append([e.PhaseChanged(phase=phase)])
    sqlite_site.observatory.refresh()
    result = sqlite_site.client()
    page = result.get(vote_once(result, "BOTH_BAD")).text
    assert page.count('<span class="rating">800 <small>unchanged</small>') == (2 if phase == 3 else 0)
    assert re.findall(MOVED, page) == ([] if phase == 3 else [("1500", "1492")] * 2)


def test_others_votes_are_counted_without_ones_own(sqlite_site: SmallSite) -> None:
    client, seen = sqlite_site.client(), Counter[frozenset[str]]()
    for _ in range(9):
        result = client.get(vote_once(client, "TIE")).text
        sqlite_site.observatory.refresh()
        pair = frozenset(name for name in NAMES if name in result)
        others = re.search(r"(\d+) votes? over all prompts", result)
        assert (int(others[1]) if others else 0) == seen[pair]
        seen[pair] += 1
    assert max(seen.values()) > 1


def test_a_result_that_another_process_knows_nothing_of_tells_the_present(sqlite_site: SmallSite) -> None:
    client = sqlite_site.client()
    where = vote_once(client, "A")
    sqlite_site.observatory.refresh()
    settings = sqlite_site.settings
    with TestClient(create_app(settings, sqlite_site.arena, sqlite_site.observatory), cookies=client.cookies) as other:
        result = other.get(where).text
    assert "Ratings on the board." in result
    assert "before your vote" not in result
    assert "Nobody else has voted" in result


@contextmanager
def site_with_a_clock(url: str) -> Iterator[tuple[SmallSite, Clock]]:
    """A site whose time stands until it is turned, for its arena and for what it publishes."""
    clock = Clock(now=clock_now(), step=1)
    with Arena(Store.open(url), now=clock, idle_seconds=3600) as arena:
        if not arena.read(lambda state: len(state.catalog.models)):
            arena.append(catalog())
        observatory = Observatory(url, now=clock, pace=QUICK)
        observatory.refresh()
        settings = SiteSettings(db=url, secret=SECRET, rate_limit=False)
        app = create_app(settings, arena, observatory)
        with TestClient(app) as running:
            yield SmallSite(url, arena, observatory, settings, app, running.portal), clock
        observatory.close()


def test_undo_works_for_a_moment_and_then_says_that_it_is_too_late(sqlite_url: str) -> None:
    with site_with_a_clock(sqlite_url) as (made, clock):
        client, arena = made.client(), made.arena
        where = vote_once(client, reveal=False)
        undone = client.post("/undo", data=form_in(client.get(where).text))
        assert undone.headers["location"] == where
        page = client.get(where).text
        assert "Your vote is undone" in page
        assert not any(name in page for name in IDENTIFYING)
        assert arena.read(lambda state: int(state.tallies.wins.view.sum())) == 0
        where = vote_once(client, reveal=False)
        fields = form_in(client.get(where).text)
        clock.turn(5.1)
        late = client.post("/undo", data=fields)
        assert late.status_code == 409
        assert "too late" in late.text
        assert arena.read(lambda state: int(state.tallies.wins.view.sum())) == 1


def test_without_a_script_the_page_shows_the_names_once_the_time_is_over(sqlite_url: str) -> None:
    with site_with_a_clock(sqlite_url) as (made, clock):
        client = made.client()
        where = vote_once(client, reveal=False)
        clock.turn(4.5)
        early = client.get(where).text
        assert 'formaction="/undo"' in early
        clock.turn(1)  # too late to undo by this clock, too early to be sure of another host's
        between = client.get(where).text
        assert 'formaction="/undo"' not in between
        assert 'action="/reveal"' in between
        assert not any(name in early + between for name in IDENTIFYING)
        clock.turn(2)
        assert sum(name in client.get(where).text for name in NAMES) == 2
        kinds = [row[0] for row in sql(made.url, "SELECT kind FROM events ORDER BY seq DESC LIMIT 1")]
        assert kinds == ["voted"]  # final by time: nothing was written to show them


def test_names_that_were_shown_cannot_be_unseen(sqlite_site: SmallSite) -> None:
    client = sqlite_site.client()
    fields = form_in(vote_page(client).text)
    client.post("/vote", data={**fields, "choice": "A"})
    client.post("/reveal", data=fields)
    assert client.post("/undo", data=fields).status_code == 409
    assert client.post("/reveal", data=fields).status_code == 303
    assert sqlite_site.arena.read(lambda state: int(state.tallies.wins.view.sum())) == 1


def test_undos_and_skips_are_limited(sqlite_url: str) -> None:
    with small_site(sqlite_url, rate_limit=True) as site:
        limits = Limits(session_undos_per_hour=2, session_skips_per_hour=3)
        site.arena.append([e.SettingsChanged(policy=Policy(limits=limits))])
        site.observatory.refresh()
        client = site.client()
        undos = []
        for _ in range(3):
            fields = form_in(client.get(vote_once(client, reveal=False)).text)
            undos.append(client.post("/undo", data=fields).status_code)
        skips = [client.post("/skip", data=form_in(vote_page(client).text)).status_code for _ in range(4)]
        assert (undos, skips) == ([303, 303, 429], [303, 303, 303, 429])
        address = f"/api/v1/matchups/{form_in(client.get('/').text)['matchup_id']}"
        refused = client.post(f"{address}/skip")
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "too_many")
        assert verify(site.url).clean


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"token": ""}, 403),
        ({"token": "0" * 64}, 403),
        ({"token": "é"}, 403),
        ({"choice": "C"}, 400),
        ({"choice": ""}, 400),
        ({"matchup_id": "no-such"}, 404),
        ({"matchup_id": "../../etc/passwd\r\nset-cookie: x=1"}, 404),
        ({"matchup_id": "x" * 5000}, 404),
    ],
)
def test_a_form_that_is_not_the_visitors_own_counts_nothing(
    shared_site: SmallSite, change: dict[str, str], status: int
) -> None:
    client = shared_site.client()
    fields = {**form_in(vote_page(client).text), "choice": "A", **change}
    answer = client.post("/vote", data=fields)
    assert answer.status_code == status
    assert "x" not in answer.cookies
    assert shared_site.arena.read(lambda state: int(state.tallies.wins.view.sum())) == 0


def test_a_form_of_another_visit_is_out_of_date(sqlite_site: SmallSite) -> None:
    ann, bob = sqlite_site.client(), sqlite_site.client()
    fields = form_in(vote_page(ann).text)
    vote_page(bob)
    answer = bob.post("/vote", data={**fields, "choice": "A"})
    assert answer.status_code == 403
    assert "This form is out of date" in answer.text


def test_a_form_sent_by_another_sites_page_is_refused(sqlite_site: SmallSite) -> None:
    client = sqlite_site.client()
    fields = {**form_in(vote_page(client).text), "choice": "A"}
    for headers in (
        {"origin": "https://elsewhere.example"},
        {"origin": "null", "sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "cross-site"},
    ):
        assert client.post("/vote", data=fields, headers=headers).status_code == 403
    assert client.post("/vote", data=fields, headers={"origin": "http://testserver"}).status_code == 303


def test_bodies_that_are_no_small_form_are_refused(sqlite_site: SmallSite) -> None:
    client = sqlite_site.client()
    client.get("/")
    form = {"content-type": "application/x-www-form-urlencoded"}
    assert client.post("/vote", content=b"x" * 20_000, headers=form).status_code == 413
    assert client.post("/vote", content=b"a=%ff", headers=form).status_code == 400
    assert client.post("/vote", content=b"a=\xff", headers=form).status_code == 400
    assert client.post("/vote", content="&".join("a" * 500), headers=form).status_code == 400
    assert client.post("/vote", json={"choice": "A"}).status_code == 415


def test_looking_without_reading_serves_nothing(sqlite_site: SmallSite) -> None:
    client = sqlite_site.client()
    assert client.head("/").status_code == 200
    assert sqlite_site.arena.read(lambda state: len(state.schedule.in_flight)) == 0


def test_limits_stop_a_hasty_visitor_and_say_when_to_come_back(sqlite_url: str) -> None:
    with small_site(sqlite_url, rate_limit=True) as site:
        client = site.client()
        for _ in range(20):
            vote_once(client)
        fields = form_in(vote_page(client).text)
        answer = client.post("/vote", data={**fields, "choice": "A"})
        assert answer.status_code == 429
        assert int(answer.headers["retry-after"]) >= 1
        assert "Slow down" in answer.text
        assert site.arena.read(lambda state: int(state.tallies.wins.view.sum())) == 20


def test_an_address_may_begin_only_so_many_visits(sqlite_url: str) -> None:
    with small_site(sqlite_url, rate_limit=True) as site:
        begun = [site.client().post("/api/v1/matchups").status_code for _ in range(55)]
        statuses = [vote_page(site.client()).status_code for _ in range(8)]
        assert (begun, statuses) == ([201] * 55, [200] * 5 + [429] * 3), "60 in an hour"
        late = site.client()
        assert vote_page(late).status_code == 429
        assert vote_page(late).status_code == 429  # the refusal made no visitor of it


def test_an_arena_without_answers_says_so(sqlite_url: str) -> None:
    with Arena.open(sqlite_url) as arena:
        arena.append([e.ModelAdded(model="alone", display_name="Alone")])
    with small_site(sqlite_url) as site:
        page = vote_page(site.client())
        assert page.status_code == 503
        assert "There is no pair to show" in page.text
        answer = site.client().post("/api/v1/matchups")
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "nothing_to_serve")
        assert answer.headers["retry-after"]


def test_the_hint_is_there_until_the_first_vote(sqlite_site: SmallSite) -> None:
    client = sqlite_site.client()
    hint = "you see who wrote them afterwards"
    assert hint in vote_page(client).text
    client.post("/skip", data=form_in(vote_page(client).text))
    assert hint in vote_page(client).text
    vote_once(client)
    assert hint not in vote_page(client).text


def test_reasoning_is_folded_and_both_sides_have_the_same_line(sqlite_site: SmallSite) -> None:
    secret = "<think>quietly, two words</think>\n\nsaid aloud"
    sqlite_site.arena.append([answered_anew(1, j, secret) for j in range(3)])
    client, seen = sqlite_site.client(), set[int]()
    for _ in range(12):
        page = vote_page(client).text
        rows = re.findall(r'class="thoughts">(?:<summary>)?([^<]+)', page)
        assert sorted(rows) in ([], ["No reasoning shown", "Reasoning (3 words)"])
        assert "&lt;think&gt;" not in page
        seen.add(len(rows))
        vote_once(client, "TIE")
    assert seen == {0, 2}


def answered_anew(model: int, prompt: int, text: str) -> e.ResponseAdded:
    given = answer(model, prompt, text)
    return e.ResponseAdded(
        response_id=f"{given.response_id}/anew", model=given.model, prompt_id=given.prompt_id, text=text
    )

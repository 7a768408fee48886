"""A visitor reports an answer; the operator switches that one answer off and on again."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from tests.arena.databases import rule_above_the_store
from tests.arena.engines import sql
from tests.site.administrators import at_the_desk, log_of, staffed_site
from tests.site.sites import IDENTIFYING, SCRAPER, SmallSite, form_in, small_site, vote_page
from tiltyard.arena import Limits, Policy
from tiltyard.arena import events as e
from tiltyard.arena.audit.verify import verify
from tiltyard.arena.store import backlog, reported_answers
from tiltyard.arena.store.checkpoints import decode_state, encode_state
from tiltyard.arena.store.reading import session_acts


@pytest.fixture
def staffed(usual_url: str) -> Iterator[SmallSite]:
    with staffed_site(usual_url) as site:
        yield site


@pytest.fixture
def staffed_anywhere(arena_url: str) -> Iterator[SmallSite]:
    with staffed_site(arena_url) as site:
        yield site


def report(site: SmallSite, side: str = "A", reason: str = "it  is\nrude <b>") -> tuple[int, str, str]:
    """Report an answer of the pair on the screen, as a form without a script does; status, text and matchup."""
    client = site.client()
    fields = form_in(vote_page(client).text)
    sent = {"matchup_id": fields["matchup_id"], "token": fields["token"], "side": side, "reason": reason}
    answer = client.post("/report", data=sent)
    client.post("/report", data=sent)  # twice is once
    return answer.status_code, answer.text, fields["matchup_id"]


def answers_of(site: SmallSite) -> dict[str, tuple[str, str]]:
    """Both answers of every matchup that was served."""
    served = (body for body in log_of(site) if isinstance(body, e.MatchupServed))
    return {body.matchup_id: (body.response_a, body.response_b) for body in served}


def test_a_report_reaches_the_operator_and_tells_the_visitor_nothing(staffed_anywhere: SmallSite) -> None:
    status, text, matchup_id = report(staffed_anywhere)
    assert status == 200
    assert not any(name in text for name in IDENTIFYING)
    assert "tiltyard_open_reports 1" in staffed_anywhere.client().get("/metrics", headers=SCRAPER).text
    page = at_the_desk(staffed_anywhere).page("/admin/reports")
    answer, _ = answers_of(staffed_anywhere)[matchup_id]
    assert f'value="{answer}"' in page
    assert "it is rude &lt;b&gt;" in page
    assert not any(isinstance(body, e.ResponseDisabled) for body in log_of(staffed_anywhere)), (
        "a report alone changes nothing"
    )


@rule_above_the_store
def test_one_answer_is_switched_off_is_never_served_again_and_comes_back(staffed_anywhere: SmallSite) -> None:
    _, _, matchup_id = report(staffed_anywhere)
    answer, _ = answers_of(staffed_anywhere)[matchup_id]
    desk = at_the_desk(staffed_anywhere)
    fields = {"answer": answer, "to": "off"}
    assert desk.post("/admin/reports", fields) == (303, "/admin/reports?said=answer_off")
    assert "No reports are waiting." in desk.page("/admin/reports")
    served = [staffed_anywhere.arena.serve(f"voter{number}").matchup_id for number in range(40)]
    shown = answers_of(staffed_anywhere)
    since = {name for matchup in served for name in shown[matchup]}
    assert answer not in since
    assert len(since) == 11, "every other answer is"
    again = staffed_anywhere.arena.read(lambda state: decode_state(encode_state(state)))
    assert (again.catalog.answers_off, int(again.catalog.servable().sum())) == ({answer}, 11)
    assert desk.post("/admin/reports", {"answer": answer, "to": "on"})[0] == 303
    assert staffed_anywhere.arena.read(lambda state: int(state.catalog.servable().sum())) == 12
    assert verify(staffed_anywhere.url).clean


def test_a_stranger_cannot_report_and_a_report_is_about_a_or_b(staffed: SmallSite) -> None:
    _, _, matchup_id = report(staffed, side="B")
    stranger = staffed.client()
    fields = form_in(vote_page(stranger).text)
    sent = {"matchup_id": matchup_id, "token": fields["token"], "side": "A", "reason": ""}
    assert stranger.post("/report", data=sent).status_code == 404
    assert stranger.post("/report", data={**sent, "token": "x"}).status_code == 403
    assert report(staffed, side="C")[0] == 400
    assert len(sql(staffed.url, "SELECT * FROM reports")) == 1
    status, _ = at_the_desk(staffed).post("/admin/reports", {"answer": "nothing like it", "to": "off"})
    assert status == 400
    desk = at_the_desk(staffed)
    _, answer = answers_of(staffed)[matchup_id]
    assert desk.post("/admin/reports", {"answer": answer, "to": "bogus"})[0] == 400
    assert desk.post("/admin/models", {"name": "mnemosyne-xl", "to": ""})[0] == 400
    assert desk.post("/admin/reports", {"answer": answer, "to": "dismiss"})[1].endswith("answer_dismiss")
    assert "No reports are waiting." in desk.page("/admin/reports")


def test_an_answer_that_cannot_exist_has_no_reports(staffed: SmallSite) -> None:
    """PostgreSQL takes no zero byte, and the site once said that its database was down."""
    status, where = at_the_desk(staffed).post("/admin/reports", {"answer": "a\x00", "to": "dismiss"})
    assert (status, where) == (303, "/admin/reports?said=answer_dismiss")


def test_reports_have_limits_and_are_counted_by_answer_and_visitor(sqlite_url: str) -> None:
    with small_site(sqlite_url, rate_limit=True) as site:
        few = msgspec.structs.replace(Policy(), limits=Limits(session_reports_per_hour=1, address_reports_per_hour=2))
        site.arena.append([e.SettingsChanged(policy=few)])
        site.observatory.refresh()
        statuses = []
        for client in (site.client("203.0.113.9"), site.client("203.0.113.9")):
            fields = form_in(vote_page(client).text)
            for side in "AB":
                sent = {"matchup_id": fields["matchup_id"], "token": fields["token"], "side": side, "reason": ""}
                statuses.append(client.post("/report", data=sent).status_code)
        assert statuses == [200, 429, 200, 429]
        found = reported_answers(site.arena.store)
        assert sum(len(answer.voters) for answer in found) == 2
        assert backlog(site.arena.store).reported_answers == len(found)


def test_what_was_left_until_it_expired_counts_as_skipped(sqlite_url: str) -> None:
    with small_site(sqlite_url, rate_limit=True) as site:
        few = msgspec.structs.replace(Policy(), limits=Limits(session_skips_per_hour=1))
        site.arena.append([e.SettingsChanged(policy=few)])
        site.observatory.refresh()
        client = site.client("203.0.113.9")
        client.post("/api/v1/matchups")
        assert site.arena.expire_due(site.arena.now() + 10**12) == 1
        (acts,) = session_acts(site.arena.store).values()
        assert (acts.cast, acts.skipped) == (0, 1)
        name = client.post("/api/v1/matchups").json()["matchup_id"]
        assert client.post(f"/api/v1/matchups/{name}/skip").status_code == 429

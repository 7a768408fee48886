"""Reasons for a vote: who may give them, where they are shown, and how a log that only grows forgets a comment."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from tests.arena.engines import sql
from tests.site.administrators import at_the_desk
from tests.site.sites import SmallSite, form_in, hidden_fields, vote_once, vote_page
from tiltyard.arena import BallotRules, Policy, read_policy
from tiltyard.arena import events as e
from tiltyard.arena.audit import witness_lines
from tiltyard.arena.audit.verify import verify
from tiltyard.arena.rules.policy import RetentionRules
from tiltyard.arena.rules.reasons import reasons_of_models
from tiltyard.arena.store import tidy
from tiltyard.data.battles import read_battles
from tiltyard.errors import OptionError
from tiltyard.site.vote import offered_reasons

COMMENT = "Jane Roe of 5 Elm Street told me, it's <b>better</b>"
TAGS = {"reason-1": "more correct", "reason-2": "clearer"}


def explain(client, where: str, **fields: str):  # type: ignore[no-untyped-def]
    return client.post("/reasons", data={**form_in(client.get(where).text), **fields})


def test_reasons_are_public_and_a_comment_can_be_forgotten(sqlite_site: SmallSite) -> None:
    site, client = sqlite_site, sqlite_site.client()
    where = vote_once(client, "A")
    assert client.get(where).text.count('class="tag"') == 7
    answer = explain(client, where, **TAGS, comment=f"  {COMMENT}\n\u202e ")
    assert (answer.status_code, answer.headers["location"]) == (303, f"{where}?explained=1#reasons")
    again = client.get(f"{where}?explained=1").text
    assert again.count(" checked>") == 2
    assert "Jane Roe of 5 Elm Street told me, it&#39;s &lt;b&gt;better" in again
    bodies = [body for (body,) in sql(site.url, "SELECT body FROM events")]
    assert sum('"kind":"explained"' in body for body in bodies) == 1
    assert not any("Jane" in body for body in bodies)
    site.observatory.refresh()
    rows = [json.loads(line) for line in client.get("/api/v1/battles.jsonl").text.splitlines()]
    assert [row["reasons"] for row in rows] == [["more correct", "clearer"]]
    assert len(read_battles(rows)) == 1
    public = b"".join(witness_lines(site.arena.store, site.arena.now()))
    assert b"Jane" not in public
    assert b"clearer" not in public
    pages = [client.get(f"/models/{rows[0][side]}").text for side in ("model_a", "model_b")]
    assert "it: clearer (1), more correct (1)." in pages[0]
    assert "the other: clearer (1), more correct (1)." in pages[1]
    assert not any("Jane" in page for page in pages)
    assert verify(site.url).clean

    desk = at_the_desk(site)
    assert "Jane Roe" in desk.client.get("/admin/reports").text
    sql(site.url, "UPDATE texts SET text = text || '!' WHERE kind = 'comment'")
    assert [str(problem.table) for problem in verify(site.url).problems] == ["texts"]

    files = list(Path(site.url.removeprefix("sqlite:///")).parent.glob("*.db*"))
    assert any(b"Jane Roe" in file.read_bytes() for file in files)
    client.post("/me/forget", data=hidden_fields(client.get("/me").text))
    assert sql(site.url, "SELECT count(*) FROM texts WHERE kind = 'comment'") == [(0,)]
    assert not any(b"Jane Roe" in file.read_bytes() for file in files)  # nor in the log of writes
    assert verify(site.url).clean


def test_the_last_explanation_holds_and_the_operator_can_delete_a_comment(sqlite_site: SmallSite) -> None:
    client, admin = sqlite_site.client(), at_the_desk(sqlite_site).client
    where = vote_once(client, "TIE")
    explain(client, where, **TAGS, comment="first")
    explain(client, where, **{"reason-1": "safer"}, comment="second")
    assert sql(sqlite_site.url, "SELECT text FROM texts WHERE kind = 'comment'") == [("second",)]
    sqlite_site.observatory.refresh()
    rows = [json.loads(line) for line in client.get("/api/v1/battles.jsonl").text.splitlines()]
    assert [row["reasons"] for row in rows] == [["safer"]]
    name = where.rpartition("/")[2]
    token = hidden_fields(admin.get("/admin/reports").text)["token"]
    deleted = admin.post("/admin/reports", data={"token": token, "answer": name, "to": "forget"})
    assert deleted.status_code == 303, deleted.text[-1500:]
    assert sql(sqlite_site.url, "SELECT count(*) FROM texts WHERE kind = 'comment'") == [(0,)]
    explain(client, where)
    assert verify(sqlite_site.url).clean
    sqlite_site.observatory.refresh()
    assert "reasons" not in client.get("/api/v1/battles.jsonl").text


def test_only_the_voter_of_a_final_vote_gives_reasons_that_are_offered(sqlite_site: SmallSite) -> None:
    client, stranger = sqlite_site.client(), sqlite_site.client()
    fields = form_in(vote_page(client).text)
    assert client.post("/reasons", data={**fields, **TAGS}).status_code == 409
    client.post("/vote", data={**fields, "choice": "B"})
    assert client.post("/reasons", data={**fields, **TAGS}).status_code == 409  # the names are not shown yet
    client.post("/reveal", data=fields)
    theirs = form_in(vote_page(stranger).text) | {"matchup_id": fields["matchup_id"]}
    assert stranger.post("/reasons", data={**theirs, **TAGS}).status_code == 404
    assert client.post("/reasons", data={**fields, "reason-1": "nicer"}).status_code == 400
    assert client.post("/reasons", data={**fields, "comment": "x" * 501}).status_code == 400
    assert client.post("/reasons", data={**TAGS, "matchup_id": fields["matchup_id"]}).status_code == 403
    assert sql(sqlite_site.url, "SELECT count(*) FROM events WHERE kind = 'explained'") == [(0,)]
    fields = form_in(client.get(vote_once(client)).text)
    refused = [client.post("/reasons", data={**fields, "reason-1": "nicer"}).status_code for _ in range(13)]
    assert refused == [400] * 13  # and none of them uses up the twelve
    answers = [client.post("/reasons", data={**fields, **TAGS}).status_code for _ in range(13)]
    assert answers == [303] * 12 + [429]
    with pytest.raises(Exception, match="not written by hand"):
        sqlite_site.arena.append([e.Explained(matchup_id=fields["matchup_id"], tags=("safer",))])


def test_old_comments_are_tidied_away(sqlite_site: SmallSite) -> None:
    client = sqlite_site.client()
    explain(client, vote_once(client), comment="kept for a while")
    for days, left in ((399, 1), (401, 0)):
        tidy(sqlite_site.arena.store, sqlite_site.arena.now() + days * 86_400_000_000, RetentionRules())
        assert sql(sqlite_site.url, "SELECT count(*) FROM texts WHERE kind = 'comment'") == [(left,)]


def test_the_operator_says_which_reasons_there_are(sqlite_site: SmallSite) -> None:
    sqlite_site.arena.append([e.SettingsChanged(policy=Policy(ballot=BallotRules(reasons=(), comment_characters=0)))])
    sqlite_site.observatory.refresh()
    client = sqlite_site.client()
    assert "/reasons" not in client.get(vote_once(client)).text
    assert read_policy({"ballot": {"reasons": ["shorter"]}}).ballot.reasons == ("shorter",)
    assert msgspec.json.decode(b"{}", type=Policy).ballot == BallotRules()
    for wrong in ({"reasons": ["a", "a"]}, {"reasons": [""]}, {"reasons": ["x" * 41]}, {"comment_characters": 9_999}):
        with pytest.raises(OptionError, match="policy"):
            read_policy({"ballot": wrong})


@pytest.mark.parametrize(
    ("kind", "choice", "first"),
    [
        ("text", e.Choice.A, "more correct"),
        ("text", e.Choice.TIE, "correctness"),
        ("voxel", e.Choice.B, "better style"),
        ("voxel", e.Choice.BOTH_BAD, "style"),
    ],
)
def test_reasons_fit_the_kind_of_answers_and_after_a_tie_nothing_is_better(
    kind: str, choice: e.Choice, first: str
) -> None:
    rules = BallotRules(reasons=(*BallotRules().reasons, "a reason of ours"))
    offered = offered_reasons(rules, kind, choice)
    assert offered[0][1] == first
    assert offered[-1] == ("a reason of ours", "a reason of ours")
    assert ("safer" in dict(offered)) == (kind == "text")


def test_ties_speak_of_no_model() -> None:
    given = [("m", "n", e.Choice.A, ("safer",)), ("n", "m", e.Choice.A, ("clearer", "safer"))]
    found = reasons_of_models([*given, ("m", "n", e.Choice.TIE, ("safer",))])
    assert found["m"].for_it == (("safer", 1),)
    assert found["m"].against_it == (("clearer", 1), ("safer", 1))
    assert found["n"].for_it == found["m"].against_it

"""The JSON interface, on both databases."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from starlette.exceptions import HTTPException

from tests.site.sites import MODELS, SmallSite, catalog, small_site
from tests.within import run
from tiltyard.arena import Arena, Choice, clock
from tiltyard.arena.audit.verify import verify
from tiltyard.arena.store import Store
from tiltyard.site.failures import failure_of


def served(client: object) -> dict[str, str]:
    answer = client.post("/api/v1/matchups", json={})  # type: ignore[attr-defined]
    assert answer.status_code == 201, answer.text
    found: dict[str, str] = answer.json()
    return found


def test_a_vote_is_answered_with_the_names_and_the_same_again_with_the_same(site: SmallSite) -> None:
    client = site.client()
    matchup = served(client)
    assert set(matchup) == {"matchup_id", "prompt", "response_a", "response_b", "expires_at", "kind"}
    address = f"/api/v1/matchups/{matchup['matchup_id']}/vote"
    first = client.post(address, json={"choice": "A"})
    assert first.status_code == 200
    assert {first.json()["model_a"], first.json()["model_b"]} <= set(MODELS)
    assert first.json()["choice"] == "A"
    again = client.post(address, json={"choice": "A"})
    assert (again.status_code, again.content) == (200, first.content)
    assert site.arena.read(lambda state: int(state.tallies.wins.view.sum())) == 1
    assert verify(site.url).clean


def test_another_choice_is_a_conflict_and_another_voter_finds_nothing(site: SmallSite) -> None:
    ann, bob = site.client(), site.client()
    address = f"/api/v1/matchups/{served(ann)['matchup_id']}/vote"
    served(bob)
    assert bob.post(address, json={"choice": "A"}).status_code == 404
    assert site.client().post(address, json={"choice": "A"}).status_code == 404
    assert ann.post(address, json={"choice": "TIE"}).status_code == 200
    refused = ann.post(address, json={"choice": "B"})
    assert refused.status_code == 409
    assert refused.json()["error"]["code"] == "choice_differs"


def test_a_skipped_matchup_is_gone_and_an_undone_vote_counts_for_nothing(site: SmallSite) -> None:
    client = site.client()
    skipped, voted = served(client)["matchup_id"], served(client)["matchup_id"]
    assert client.post(f"/api/v1/matchups/{skipped}/skip").json()["status"] == "skipped"
    assert client.post(f"/api/v1/matchups/{skipped}/vote", json={"choice": "A"}).status_code == 410
    assert client.post(f"/api/v1/matchups/{voted}/undo").status_code == 409
    held_back = {"choice": "A", "reveal": False}
    assert client.post(f"/api/v1/matchups/{voted}/vote", json=held_back).status_code == 200
    assert client.post(f"/api/v1/matchups/{voted}/skip").status_code == 409
    assert client.post(f"/api/v1/matchups/{voted}/undo").json()["status"] == "undone"
    assert client.post(f"/api/v1/matchups/{voted}/vote", json={"choice": "A"}).status_code == 410
    assert site.arena.read(lambda state: int(state.tallies.wins.view.sum())) == 0
    assert client.get(f"/api/v1/matchups/{voted}").json()["status"] == "undone"


def test_every_acknowledged_vote_is_in_the_battles_that_are_published_next(site_anywhere: SmallSite) -> None:
    client = site_anywhere.client()
    for number in range(5):
        address = f"/api/v1/matchups/{served(client)['matchup_id']}/vote"
        receipt = client.post(address, json={"choice": ("A", "B", "TIE", "BOTH_BAD")[number % 4]}).json()
        site_anywhere.observatory.refresh()
        rows = [json.loads(line) for line in client.get("/api/v1/battles.jsonl").text.splitlines()]
        assert len(rows) == number + 1
        assert (rows[-1]["model_a"], rows[-1]["model_b"]) == (receipt["model_a"], receipt["model_b"])
        assert rows[-1]["voter"] == "v1"
    assert [row["winner"] for row in rows[:4]] == ["model_a", "model_b", "tie", "tie (bothbad)"]


def test_voters_are_numbered_afresh_in_each_download_and_by_their_keys_for_the_operator_alone(
    sqlite_url: str, tmp_path: Path
) -> None:
    day = 86_400 * 1_000_000
    at = clock() // day * day - 3 * day
    with Arena(Store.open(sqlite_url), now=lambda: at) as arena:
        arena.append(catalog())
        for voter in ("ann", "bob", "bob", "cyd"):
            arena.vote(arena.serve(voter).matchup_id, voter, Choice.A)
            at += day // 2
    with small_site(sqlite_url) as site:
        since = datetime.fromtimestamp((at - day) / 1e6, UTC).date()  # of the last two votes

        def voters(query: str = "") -> list[str]:
            lines = site.client().get(f"/api/v1/battles.jsonl{query}").text.splitlines()
            return [json.loads(line)["voter"] for line in lines]

        assert voters() == ["v1", "v2", "v2", "v3"]
        assert voters(f"?since={since}") == voters(f"?since={since}&on={since}") == ["v1", "v2"]
    for option, names in (((), ["v1", "v2", "v2", "v3"]), (("--keys",), ["ann", "bob", "bob", "cyd"])):
        done = run(tmp_path, "arena", "export", "--db", sqlite_url, *option)
        assert [json.loads(line)["voter"] for line in done.stdout.splitlines()] == names


def test_the_board_the_models_and_the_report_are_told(sqlite_site: SmallSite) -> None:
    client = sqlite_site.client()
    client.post(f"/api/v1/matchups/{served(client)['matchup_id']}/vote", json={"choice": "A"})
    sqlite_site.observatory.refresh()
    board = client.get("/api/v1/leaderboard")
    assert board.json()["votes"] == 1
    assert {row["model"] for row in board.json()["rows"]} == set(MODELS)
    assert client.get("/api/v1/leaderboard", headers={"if-none-match": board.headers["etag"]}).status_code == 304
    assert client.get(f"/api/v1/models/{MODELS[0]}").json()["row"]["model"] == MODELS[0]
    assert client.get("/api/v1/models/nobody").status_code == 404
    assert client.get("/api/v1/validity").json()


@pytest.mark.parametrize(
    ("headers", "body", "status"),
    [
        ({"content-type": "text/plain"}, b'{"choice": "A"}', 415),
        ({"content-type": "application/x-www-form-urlencoded"}, b"choice=A", 415),
        ({}, b'{"choice": "A"}', 415),
        ({"content-type": "application/json", "origin": "https://elsewhere.example"}, b'{"choice": "A"}', 403),
        ({"content-type": "application/json", "origin": "null"}, b'{"choice": "A"}', 403),
        ({"content-type": "application/json", "sec-fetch-site": "cross-site"}, b'{"choice": "A"}', 403),
        ({"content-type": "application/json"}, b'{"choice": "C"}', 400),
        ({"content-type": "application/json"}, b'{"choice": "A", "choice": "B"}', 400),
        ({"content-type": "application/json"}, b'{"choice": "A", "weight": 9}', 400),
        ({"content-type": "application/json"}, b'{"choice": "A", "reveal": 0}', 400),
        ({"content-type": "application/json"}, b"{", 400),
        ({"content-type": "application/json"}, b'{"choice": "\xff"}', 400),
        ({"content-type": "application/json"}, b"[" * 9000, 400),
        ({"content-type": "application/json"}, b" " * 20_000, 413),
        ({"content-type": "application/json", "origin": "http://testserver"}, b'{"choice": "A"}', 200),
    ],
)
def test_what_is_not_a_vote_is_refused_and_counts_nothing(
    shared_site: SmallSite, headers: dict[str, str], body: bytes, status: int
) -> None:
    client = shared_site.client()
    before = shared_site.arena.read(lambda state: int(state.tallies.wins.view.sum()))
    matchup_id = served(client)["matchup_id"]
    answer = client.post(f"/api/v1/matchups/{matchup_id}/vote", content=body, headers=headers)
    assert answer.status_code == status, answer.text
    votes = shared_site.arena.read(lambda state: int(state.tallies.wins.view.sum()))
    assert votes - before == (1 if status == 200 else 0)
    if status != 200:
        assert set(answer.json()["error"]) == {"code", "message"}


def test_an_unknown_address_and_a_wrong_method_are_answered_as_json(sqlite_site: SmallSite) -> None:
    client = sqlite_site.client()
    assert client.get("/api/v1/nothing").json()["error"]["code"] == "not_found"
    wrong = client.delete("/api/v1/matchups")
    assert (wrong.status_code, wrong.json()["error"]["code"]) == (405, "method_not_allowed")
    assert "POST" in wrong.headers["allow"]


def test_the_interface_describes_itself(sqlite_site: SmallSite) -> None:
    document = sqlite_site.client().get("/api/v1/openapi.json").json()
    assert "/api/v1/matchups/{matchup_id}/vote" in document["paths"]
    assert all(path.startswith("/api/v1/") for path in document["paths"])
    assert '"422"' not in json.dumps(document)
    assert "ValidationError" not in json.dumps(document)


def test_a_call_is_counted_by_its_route(sqlite_site: SmallSite) -> None:
    served(sqlite_site.client())
    assert sqlite_site.app.state.requests["POST", "/api/v1/matchups", 201] == 1


def test_a_status_alone_says_what_is_wrong() -> None:
    failures = [failure_of(HTTPException(status)) for status in (400, 404, 405)]
    assert [(failure.status, failure.code, failure.message) for failure in (*failures, failure_of(KeyError("x")))] == [
        (400, "bad_request", "the request cannot be read."),
        (404, "not_found", "there is nothing at this address."),
        (405, "method_not_allowed", "this address is not used with this method."),
        (500, "internal", "something broke here; it is noted. Try again."),
    ]

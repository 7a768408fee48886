"""A review by HTTP: to its end, blind, with people who come and go."""

from __future__ import annotations

import stat
import threading
from collections import Counter
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from tests.arena.review.teams import MODELS, counted, new_review, open_site, token, visitor
from tests.site.sites import form_in, hidden_fields
from tiltyard.arena import Choice, NothingLeft, NoVote
from tiltyard.arena.review import (
    Review,
    ReviewResult,
    agreement_sentence,
    battle_rows,
    change_people,
    close_review,
    erase_names,
    export,
    open_review,
    preference_rows,
    status_values,
)
from tiltyard.arena.review.labels import labels_of
from tiltyard.arena.review.results import review_rows
from tiltyard.arena.store import hashed
from tiltyard.errors import OptionError


def check_blind(answer: object, *more: str) -> None:
    """No model, no other person's key or name, and no one else's link is in any byte of an answer."""
    said = answer.content + b"\n".join(name + b": " + value for name, value in answer.headers.raw)  # type: ignore[attr-defined]
    assert [name for name in (*MODELS, *more) if name.encode().lower() in said.lower()] == []


def vote_all(client: TestClient, choice: str = "A", *hidden: str) -> int:
    """Vote until nothing is left; how often."""
    for number in range(1_000):
        served = client.post("/api/v1/matchups")
        check_blind(served, *hidden)
        if served.status_code == 204:
            return number
        name = served.json()["matchup_id"]
        answer = client.post(f"/api/v1/matchups/{name}/vote", json={"choice": choice})
        check_blind(answer, *hidden)
        assert answer.json()["final"] is False
    raise AssertionError("it never ends")


def test_a_team_votes_a_review_to_its_end_by_the_interface(tmp_path: Path) -> None:
    review = new_review(tmp_path, 9, adjudicators=["lead"])
    assert {stat.S_IMODE(path.stat().st_mode) for path in review.folder.iterdir()} == {0o600}
    with open_site(review) as site:
        done = {name: vote_all(visitor(site, review, name)) for name in ("ann", "bob", "cyd")}
        assert done == {"ann": 6, "bob": 6, "cyd": 6}
        assert set(counted(review).values()) == {2}
        log = review.log()
        split = [label.item for label in labels_of(log) if label.how == "open"]
        lead = visitor(site, review, "lead")
        assert vote_all(lead, "TIE") == len(split)  # all said A, with sides of their own
        how = Counter(label.how for label in labels_of(review.log()))
        assert how == {"agreed": 9 - len(split), "adjudicated": len(split)}
    status = status_values(ReviewResult.of(open_review(review.folder)))
    assert [(one["name"], one["done"], one["left"]) for one in status["people"][:3]] == [
        (name, 6, 0) for name in ("ann", "bob", "cyd")
    ]
    assert all(one["link"].startswith("http://127.0.0.1:8000/review/") for one in status["people"])
    assert status["agreement"]["ordinal"]["n"] == 9


def test_names_come_when_the_review_is_closed_and_votes_end(tmp_path: Path) -> None:
    review = new_review(tmp_path, 4)
    with open_site(review) as site:
        ann = visitor(site, review, "ann")
        page = ann.get("/")
        check_blind(page)
        fields = form_in(page.text)
        answer = ann.post("/vote", data={**fields, "choice": "A", "comment": "because of a reason"})
        assert answer.status_code == 303, answer.text
        check_blind(answer)
        check_blind(ann.get(answer.headers["location"]))
        name = fields["matchup_id"]
        for path in (
            f"/api/v1/matchups/{name}/reveal",
            f"/votes/{name}",
            "/leaderboard",
            "/api/v1/battles.jsonl",
            "/me",
        ):
            for sent in (ann.get(path), ann.post(path)):
                check_blind(sent)
                assert sent.status_code in (404, 405)
        assert close_review(review)
        closed = ann.get("/")
        assert all(model in closed.text for model in MODELS)
        assert ann.post("/api/v1/matchups").status_code == 204
        assert ann.post(f"/api/v1/matchups/{name}/undo").status_code == 410
    assert [row["comment"] for row in review_rows(ReviewResult.of(review))][:1] == ["because of a reason"]
    assert not close_review(review)


def test_nobody_learns_what_others_said_before_they_vote_but_the_adjudicator(tmp_path: Path) -> None:
    review = new_review(tmp_path, 1, people="ann bob", adjudicators=["lead"])
    keys = [person.key for person in review.links.people]
    with open_site(review) as site:
        ann, bob, lead = (visitor(site, review, name) for name in ("ann", "bob", "lead"))
        fields = form_in(ann.get("/").text)
        ann.post("/vote", data={**fields, "choice": "A", "comment": "the zebra is striped"})
        turn = review.log().turns[fields["matchup_id"]]
        page = bob.get("/")
        check_blind(page, "zebra", *keys)
        other = form_in(page.text)
        mine = review.log().turns[other["matchup_id"]]
        bob.post("/vote", data={**other, "choice": "B" if mine.model_a == turn.model_a else "A"})
        page = lead.get("/")
        check_blind(page, *keys)
        assert "the zebra is striped" in page.text
        assert page.text.count("is better</strong>") == 2
        lead.post("/vote", data={**form_in(page.text), "choice": "TIE"})
    (label,) = labels_of(review.log())
    assert (label.how, label.value) == ("adjudicated", 0.5)
    assert [row["winner"] for row in battle_rows(ReviewResult.of(review))] == ["tie"]
    assert [row["as"] for row in review_rows(ReviewResult.of(review))] == ["reviewer", "reviewer", "adjudicator"]


def test_cannot_judge_needs_a_reason_and_goes_to_somebody_else(tmp_path: Path) -> None:
    review = new_review(tmp_path, 3)
    with open_site(review) as site:
        ann = visitor(site, review, "ann")
        fields = form_in(ann.get("/").text)
        assert ann.post("/cannot", data=fields).status_code == 400
        assert ann.post("/cannot", data={**fields, "reason": "not my field"}).status_code == 303
        for name in ("ann", "bob", "cyd"):
            vote_all(visitor(site, review, name))
    assert set(counted(review).values()) == {2}
    rows = [row for row in review_rows(ReviewResult.of(review)) if row["status"] == "cannot judge"]
    assert [(row["comment"], row["choice"]) for row in rows] == [("not my field", None)]


def test_a_vote_is_taken_back_and_given_again_on_the_page(tmp_path: Path) -> None:
    review = new_review(tmp_path, 3, people="ann", each=1)
    with open_site(review) as site:
        ann = visitor(site, review, "ann")
        first = form_in(ann.get("/").text)
        ann.get("/?ahead=1")
        ann.post("/vote", data={**first, "choice": "A"})
        page = ann.get("/").text
        assert "2 of 3" in page
        ann.post("/undo", data={**hidden_fields(page), "matchup_id": first["matchup_id"]})
        again = ann.get("/").text
        assert "1 of 3" in again
        second = form_in(again.partition('class="take-back"')[0])
        assert second["matchup_id"] != first["matchup_id"]
        ann.post("/vote", data={**second, "choice": "B"})
        assert vote_all(ann) == 2
    assert set(counted(review).values()) == {1}


def test_a_vote_can_be_taken_back_until_the_item_is_with_the_adjudicator(tmp_path: Path) -> None:
    review = new_review(tmp_path, 1, people="ann bob", adjudicators=["lead"])
    with open_site(review) as site:
        ann, bob, lead = (visitor(site, review, name) for name in ("ann", "bob", "lead"))

        def vote(client: TestClient, *, for_first: bool) -> str:
            name = client.post("/api/v1/matchups").json()["matchup_id"]
            is_first = review.log().turns[name].model_a == MODELS[0]
            client.post(f"/api/v1/matchups/{name}/vote", json={"choice": "A" if is_first == for_first else "B"})
            return str(name)

        vote(ann, for_first=True)
        undone = vote(bob, for_first=False)
        assert bob.post(f"/api/v1/matchups/{undone}/undo").status_code == 200  # all have spoken, nobody has looked
        assert lead.post("/api/v1/matchups").status_code == 204
        name = vote(bob, for_first=False)
        assert "Take my last vote back" in bob.get("/").text
        assert lead.post("/api/v1/matchups").status_code == 201
        refused = bob.post(f"/api/v1/matchups/{name}/undo")
        assert (refused.status_code, "your vote stays" in refused.text) == (409, True)
        assert "Take my last vote back" not in bob.get("/").text
        assert bob.post(f"/api/v1/matchups/{undone}/undo").status_code == 200  # it was taken back before
        decided = vote(lead, for_first=True)
        assert lead.post(f"/api/v1/matchups/{decided}/undo").status_code == 200  # who decides may think again
    assert set(counted(review).values()) == {2}


def test_names_are_held_back_until_the_review_is_closed(tmp_path: Path) -> None:
    review = new_review(tmp_path, 1, people="ann", each=1)
    with open_site(review) as site:
        ann = visitor(site, review, "ann")
        name = ann.post("/api/v1/matchups").json()["matchup_id"]
        check_blind(ann.post(f"/api/v1/matchups/{name}/vote", json={"choice": "A"}))
    with review.arena() as arena:
        with pytest.raises(NoVote, match="when it is closed"):
            arena.reveal(name, review.links.people[0].key)
        assert close_review(review)
        names = arena.reveal(name, review.links.people[0].key).names
        assert names is not None
        assert {names.model_a, names.model_b} == set(MODELS)


def test_people_come_and_go_while_it_runs_and_old_links_end(tmp_path: Path) -> None:
    review = new_review(tmp_path, 8)
    with open_site(review) as site:
        bob = visitor(site, review, "bob")
        name = bob.post("/api/v1/matchups").json()["matchup_id"]
        old = token(review, "ann")
        review = change_people(review, remove=["bob"], add=["dan"], new_link=["ann"])
        assert bob.post(f"/api/v1/matchups/{name}/vote", json={"choice": "A"}).status_code == 403
        assert site.post("/api/v1/reviewers", json={"link": old}).status_code == 403
        done = [vote_all(visitor(site, review, name)) for name in ("ann", "cyd", "dan")]
        assert sum(done) == 16
    assert set(counted(review).values()) == {2}
    with pytest.raises(OptionError, match="2"):
        change_people(review, remove=["ann", "cyd"])
    with pytest.raises(OptionError, match="nobody called 'eve'"):
        change_people(review, remove=["eve"])


def test_what_the_owner_sees_is_on_a_page_and_the_name_of_somebody_who_left_can_be_erased(tmp_path: Path) -> None:
    from tests import within

    review = new_review(tmp_path, 8)
    with open_site(review) as site:
        page = site.get("/privacy")
        assert page.status_code == 200
        assert "set-cookie" not in page.headers
        for part in ("Your votes", "how many seconds you take", "How often you agree"):
            assert part in page.text, part
        assert 'href="/privacy"' in site.get("/").text
        bob = visitor(site, review, "bob")
        name = bob.post("/api/v1/matchups").json()["matchup_id"]
        assert bob.post(f"/api/v1/matchups/{name}/vote", json={"choice": "A"}).status_code == 200
    with pytest.raises(OptionError, match="is in this review"):
        erase_names(review, ["bob"])
    key, link = next((one.key, one.token) for one in review.links.people if one.name == "bob")
    change_people(review, remove=["bob"], add=["dan"])
    assert within.run(tmp_path, "review", "people", str(review.folder), "--erase", "bob").returncode == 0
    for path in review.folder.iterdir():
        for trace in ('"bob"', link, hashed(link)):
            assert trace.encode() not in path.read_bytes(), path
    log = open_review(review.folder).log()
    assert [turn.person for turn in log.latest.values() if turn.status == "voted"] == [key], "the vote stays"
    with pytest.raises(OptionError, match="nobody called 'bob'"):
        erase_names(open_review(review.folder), ["bob"])


def test_strangers_and_wrong_links_get_nothing(tmp_path: Path) -> None:
    review = new_review(tmp_path, 2)
    with open_site(review) as site:
        assert site.post("/api/v1/matchups").status_code == 403
        assert site.post("/api/v1/reviewers", json={"link": "x" * 24}).status_code == 403
        assert site.post("/api/v1/reviewers", json={"link": "../.."}).status_code == 403
        page = site.get("/")
        assert "private link" in page.text
        assert "Question" not in page.text
        opened = site.get(f"/review/{token(review, 'ann')}")
        assert site.post("/start", data=hidden_fields(opened.text)).status_code == 303
        assert "Question" in site.get("/").text


def test_two_browsers_of_one_person_are_one_reviewer(tmp_path: Path) -> None:
    review = new_review(tmp_path, 4)
    with open_site(review) as site:
        one, two = visitor(site, review, "ann"), visitor(site, review, "ann")
        name = one.post("/api/v1/matchups").json()["matchup_id"]
        assert two.post("/api/v1/matchups").json()["matchup_id"] == name
        assert two.post(f"/api/v1/matchups/{name}/vote", json={"choice": "A"}).status_code == 200
        assert one.post("/api/v1/matchups").json()["matchup_id"] != name


def _rush(review: Review) -> None:
    """Everybody asks and votes at once, from threads over two writers."""
    with review.arena() as one, review.arena() as two:
        keys = [person.key for person in review.links.people]

        def work(key: str, arena: object) -> None:
            try:
                while True:
                    served = arena.serve(key)  # type: ignore[attr-defined]
                    arena.vote(served.matchup_id, key, Choice.TIE)  # type: ignore[attr-defined]
            except NothingLeft:
                return

        for key in keys:  # a reviewer is somebody who has opened the link
            person = next(person for person in review.links.people if person.key == key)
            _enter(one, person.token)
        threads = [threading.Thread(target=work, args=(key, arena)) for key in keys for arena in (one, two)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)


def _enter(arena: object, secret: str) -> None:
    from tiltyard.arena import EnterVoter
    from tiltyard.arena.store import hashed

    arena.submit(EnterVoter("cookie" + secret[:8].replace("-", "x"), invitation=hashed(secret))).result()  # type: ignore[attr-defined]


def test_however_many_ask_at_the_same_moment_no_item_gets_too_many(tmp_path: Path) -> None:
    review = new_review(tmp_path, 30, people="ann bob cyd dan eve", each=2)
    _rush(review)
    assert Counter(counted(review).values()) == {2: 30}


def test_a_review_in_postgresql(tmp_path: Path, postgresql_databases: object) -> None:
    review = new_review(tmp_path, 6, db=postgresql_databases.bare())  # type: ignore[attr-defined]
    _rush(review)
    assert Counter(counted(review).values()) == {2: 6}
    with open_site(review) as site:
        assert visitor(site, review, "ann").post("/api/v1/matchups").status_code == 204


def test_what_comes_out_is_read_by_rate_compare_and_training(tmp_path: Path) -> None:
    from tiltyard.data.battles import read_battles

    review = new_review(tmp_path, 25)
    with open_site(review) as site:
        for name in ("ann", "bob", "cyd"):
            client = visitor(site, review, name)
            while (served := client.post("/api/v1/matchups")).status_code == 201:
                body = served.json()
                good = "A" if int(body["response_a"].split()[1]) % 7 == 0 else "B"  # the first model wrote it
                client.post(f"/api/v1/matchups/{body['matchup_id']}/vote", json={"choice": good})
    result = ReviewResult.of(review)
    labels, battles, reviews = export(result)
    assert {stat.S_IMODE(path.stat().st_mode) for path in (labels, battles, reviews)} == {0o600}
    table = read_battles(battles)
    assert (len(table), table.weight.sum()) == (50, 25.0)
    assert len(read_battles(labels, default_source="human")) == 50
    assert len(reviews.read_text().splitlines()) == 50
    names = battles.read_text() + labels.read_text() + reviews.read_text()
    assert not any(f'"{name}"' in names for name in ("ann", "bob", "cyd"))
    rows = list(preference_rows(result))
    assert len(rows) == 25
    assert all(int(row["chosen"].split()[1]) == int(row["rejected"].split()[1]) - 1 for row in rows)
    assert agreement_sentence(result) == "everybody says the same of all 25 items that two people reviewed"


def test_the_public_site_refuses_a_review_s_database(tmp_path: Path) -> None:
    from tests import within

    review = new_review(tmp_path, 2)
    result = within.run(tmp_path, "arena", "serve", "--db", review.url, "--port", "8799")
    assert result.returncode == 1
    assert "Use `tiltyard review serve`." in result.stderr


def test_the_commands_say_what_a_person_needs(tmp_path: Path) -> None:
    import json

    from tests import within

    review = new_review(tmp_path, 4)
    shown = within.run(tmp_path, "review", "status", str(review.folder), "--format", "json")
    people = json.loads(shown.stdout)["people"]
    assert [one["name"] for one in people] == ["ann", "bob", "cyd"]
    assert sorted((one["done"], one["left"]) for one in people) == [(0, 2), (0, 3), (0, 3)]
    assert {one["link"].rpartition("/")[2] for one in people} == {person.token for person in review.links.people}
    again = within.run(
        tmp_path, "review", "start", *(f"{m}.jsonl" for m in MODELS), "--people", "a,b", "--out", "review"
    )
    assert "is a review already" in again.stderr
    for arguments, words in (
        (("--people", "a", "--each", "2", "--out", "x"), "2 reviewers of 1"),
        (("--people", "a,a", "--out", "x"), "named twice"),
    ):
        refused = within.run(tmp_path, "review", "start", *(f"{m}.jsonl" for m in MODELS), *arguments)
        assert words in refused.stderr
        assert not (tmp_path / "x").exists()
    assert "is not a review's folder" in within.run(tmp_path, "review", "status", ".").stderr
    none = within.run(tmp_path, "compare", *MODELS, "--in", "review")
    assert "nobody has reviewed anything" in none.stderr

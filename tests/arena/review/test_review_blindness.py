"""The arena's attacker with a reviewer's rights: nothing it can fetch before its own vote names anybody or anything."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.arena.review.teams import MODELS as TEAM_MODELS
from tests.arena.review.teams import new_review, open_site, token, visitor
from tests.site.attackers import MODELS, Attacker, crawl, public_addresses, words
from tests.site.sites import form_in
from tiltyard.arena.review import Review, read_source, start_review

ITEMS = 6


def judged_review(folder: Path) -> Review:
    """A review of judged battles between two models that answer in random words."""
    rows = [
        {
            "model_a": MODELS[0],
            "model_b": MODELS[1],
            "winner": "model_a",
            "judge": "judgezilla",
            "question_id": f"q{item:02d}",
            "prompt": f"Prompt number {item}?",
            "response_a": words(1, 0, item),
            "response_b": words(1, 1, item),
        }
        for item in range(ITEMS)
    ]
    folder.mkdir()
    path = folder / "battles.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    people = ["annqx", "bobqx"]
    review, _ = start_review(
        read_source([path]), folder / "review", people, places=[path], adjudicators=["leadqx"], until="better"
    )
    return review


def everything(folder: Path, choice: str) -> tuple[dict[str, str], Review]:
    """All that bob can fetch before his first vote, after ann has voted on everything for one of the models."""
    review = judged_review(folder)
    with open_site(review) as site:
        ann, bob = visitor(site, review, "annqx"), visitor(site, review, "bobqx")
        foreign = []
        while (served := ann.post("/api/v1/matchups")).status_code == 201:
            name = served.json()["matchup_id"]
            first_is_a = review.log().turns[name].model_a == MODELS[0]
            side = choice if first_is_a or choice == "TIE" else {"A": "B", "B": "A"}[choice]
            ann.post(f"/api/v1/matchups/{name}/vote", json={"choice": side})
            ann.post(f"/api/v1/matchups/{name}/comment", json={"comment": "zebra stripes"})
            foreign.append(name)
        addresses = [
            *public_addresses(ITEMS, MODELS[:2]),
            *("/", "/?ahead=1", f"/?after={foreign[0]}", "/me", "/admin", "/static/vote.js"),
            *(f"/review/{token(review, name)}" for name in ("bobqx", "annqx", "leadqx")),
            *(f"{path}/{foreign[0]}" for path in ("/votes", "/api/v1/matchups", "/shown")),
        ]
        pages = crawl(bob, addresses)
        mine = bob.post("/api/v1/matchups")
        for number, said in enumerate(
            (
                mine,
                bob.get(f"/api/v1/matchups/{mine.json()['matchup_id']}"),
                bob.post(f"/api/v1/matchups/{mine.json()['matchup_id']}/reveal"),
                bob.post(f"/api/v1/matchups/{foreign[0]}/vote", json={"choice": "A"}),
                bob.post(f"/api/v1/matchups/{foreign[0]}/undo"),
                bob.post(f"/api/v1/matchups/{foreign[0]}/comment", json={"comment": "x"}),
                bob.post("/undo", data={"matchup_id": foreign[0]}),
            )
        ):
            pages[f"said {number}"] = said.text + str(said.headers)
    return pages, review


@pytest.fixture(scope="module")
def fetched(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[dict[str, str], Review]]:
    """The same review twice: ann is for the first model, or for the second."""
    folder = tmp_path_factory.mktemp("blind")
    return {choice: everything(folder / choice, choice) for choice in "AB"}


def test_no_byte_names_a_model_a_judge_a_person_or_what_they_said(
    fetched: dict[str, tuple[dict[str, str], Review]],
) -> None:
    for pages, review in fetched.values():
        hidden = [*MODELS[:2], "judgezilla", "zebra", "winner", *(one.name for one in review.links.people)]
        hidden += [person.key for person in review.links.people]
        for address, page in pages.items():
            asked = {name for name in MODELS if name in address}  # a refusal may repeat what was asked for
            found = [name for name in hidden if name.lower() in page.lower() and name not in asked]
            assert found == [], address
        attacker = Attacker()
        attacker.read({address: page for address, page in pages.items() if not address.startswith("said")})
        for item in range(ITEMS):
            for model in (0, 1):
                evidence = attacker.evidence(words(1, model, item), [f"q{item:02d}", f"item-{item:05d}"])
                assert not any(evidence[name] for name in MODELS)
        assert any("Prompt number" in page for page in pages.values())  # it did see items


def test_names_after_each_vote_are_those_of_the_vote_and_never_come_before_it(tmp_path: Path) -> None:
    review = new_review(tmp_path, 2, people="ann", each=1, names_after_vote=True)
    with open_site(review) as site:
        ann = visitor(site, review, "ann")
        for _ in range(2):
            fields = form_in(ann.get("/").text.partition('class="aside"')[0])
            for path in ("/", f"/?after={fields['matchup_id']}", f"/?ahead=1&after={fields['matchup_id']}"):
                assert not any(model in ann.get(path).text for model in TEAM_MODELS), path
            answer = ann.post("/vote", data={**fields, "choice": "A"})
            turn = review.log().turns[fields["matchup_id"]]
            assert f"A was {turn.model_a}" in ann.get(answer.headers["location"]).text  # also after the last one


def test_what_a_reviewer_fetches_does_not_depend_on_what_another_said(
    fetched: dict[str, tuple[dict[str, str], Review]],
) -> None:
    """All words of all pages, but for what is drawn at random, are the same whichever model the other is for."""
    both = []
    for pages, _ in fetched.values():
        text = "\n".join(page for address, page in pages.items() if not address.startswith(("/metrics", "/healthz")))
        text = re.sub(r"[\w.-]*\d[\w.-]*|[\w-]{16,}", "", text)  # ids, tokens, times
        both.append({word for word in re.findall(r"[^\W\d_]{4,}", text) if word.islower()})
    shown = {word for model in (0, 1) for item in range(ITEMS) for word in words(1, model, item).split()}
    assert both[0] - shown == both[1] - shown

"""Nothing that identifies a model leaves the server before its vote is committed."""

from __future__ import annotations

import html
import math
import statistics

import pytest

from tests.site.sites import IDENTIFYING, MODELS, NAMES, PROVIDERS, SmallSite, answer, form_in, vote_once, vote_page
from tests.sizes import size
from tiltyard.arena import events as e


def identifying() -> list[bytes]:
    """Names, ids, providers and ids of answers, as they would look in a header, a page or a JSON text."""
    spelt = {*IDENTIFYING, *(f"{model}/p" for model in MODELS)}
    return [name.encode().lower() for name in {*spelt, *map(html.escape, spelt)}]


def check_blind(answer: object) -> None:
    said = answer.content + b"\n".join(name + b": " + value for name, value in answer.headers.raw)  # type: ignore[attr-defined]
    found = [name for name in identifying() if name in said.lower()]
    assert found == []


@pytest.mark.parametrize("matchups", [16, pytest.param(1_600, marks=pytest.mark.soak)])
def test_no_matchup_names_anybody_before_the_vote(sqlite_site: SmallSite, matchups: int) -> None:
    client, named = sqlite_site.client(), 0
    for number in range(matchups):
        if number % 4:
            served = client.post("/api/v1/matchups")
            check_blind(served)
            address = f"/api/v1/matchups/{served.json()['matchup_id']}"
            check_blind(client.get(address))
            receipt = client.post(f"{address}/vote", json={"choice": "A"})
            named += receipt.json()["model_a"] in MODELS
        else:
            page = vote_page(client)
            check_blind(page)
            fields = form_in(page.text)
            check_blind(client.get(f"/votes/{fields['matchup_id']}"))
            answer = client.post("/vote", data={**fields, "choice": "B"})
            check_blind(answer)
            check_blind(client.get(answer.headers["location"]))
            if number % 16 == 0:
                check_blind(client.post("/reveal", data=fields))
                named += any(name in client.get(answer.headers["location"]).text for name in NAMES)
    assert named == matchups * 3 // 4 + matchups // 16  # the names are there to be found, once the vote is in


def test_refusals_name_nobody(sqlite_site: SmallSite) -> None:
    client = sqlite_site.client()
    fields = form_in(vote_page(client).text)
    for change in ({"choice": "C"}, {"token": "x"}, {"matchup_id": "y"}):
        check_blind(client.post("/vote", data={**fields, "choice": "A", **change}))
    check_blind(client.post("/skip", data=fields))
    check_blind(client.get(f"/votes/{fields['matchup_id']}"))


def test_the_size_of_an_answer_is_that_of_its_text_whoever_wrote_it(sqlite_site: SmallSite) -> None:
    same = "Exactly the same words."
    sqlite_site.arena.append(
        [
            e.ResponseAdded(response_id=f"new-{i}-{j}-{'x' * i}", model=MODELS[i], prompt_id=f"p{j}", text=same)
            for i in range(4)
            for j in range(3)
        ]
    )
    client = sqlite_site.client()
    vote_page(client)  # which sets the cookie
    pages, answers = set(), set()
    for _ in range(8):
        served = client.post("/api/v1/matchups")
        answers.add((len(served.content), len(served.headers.raw)))
        page = vote_page(client)
        pages.add((len(page.content), tuple(name for name, _ in page.headers.raw)))
        vote_once(client, "TIE")
    assert len(answers) == 1
    assert len({size for size, _ in pages}) <= 2  # the number of events in the footer grows by a digit
    assert len({names for _, names in pages}) == 1


def test_sides_are_drawn_evenly_and_ids_carry_no_pattern(sqlite_site: SmallSite) -> None:
    client, on_a, ids = sqlite_site.client(), [], []
    votes = size(64, soak=400)
    for _ in range(votes):
        served = client.post("/api/v1/matchups").json()
        ids.append(served["matchup_id"])
        receipt = client.post(f"/api/v1/matchups/{ids[-1]}/vote", json={"choice": "TIE"}).json()
        on_a.append(MODELS.index(receipt["model_a"]) < MODELS.index(receipt["model_b"]))
    assert len(set(ids)) == len(ids)
    assert {len(name) for name in ids} == {24}
    assert abs(statistics.mean(on_a) - 0.5) < 5 * 0.5 / math.sqrt(votes)  # five standard deviations of a fair coin
    assert sqlite_site.arena.read(lambda state: len(state.catalog.models)) == len(PROVIDERS)


@pytest.mark.parametrize("address", ["/static/vote.js", "/static/vote.css", "/static/site.css"])
def test_no_file_depends_on_the_models(shared_site: SmallSite, address: str) -> None:
    check_blind(shared_site.client().get(address))
    assert answer(0, 0, "x").model in IDENTIFYING


def test_nothing_public_changes_with_which_models_are_being_looked_at(sqlite_site: SmallSite) -> None:
    client = sqlite_site.client()
    for _ in range(5):
        vote_once(client)

    def public() -> object:
        sqlite_site.observatory.refresh()
        report = client.get("/api/v1/validity").json()
        return report["coverage_fairness"], report["sides"], report["lanes"]

    before = public()
    client.post("/api/v1/matchups")
    assert public() == before

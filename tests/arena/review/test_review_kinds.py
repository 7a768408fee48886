"""A review of every kind of answer that an arena has: shown as there, blind, and voted on."""

from __future__ import annotations

import html
import json
import re

import pytest

from tests.arena import planted
from tests.arena.review.teams import open_site, visitor
from tests.site.sites import form_in
from tiltyard.arena.review import Review, ReviewResult, close_review, export, preference_rows, read_source, start_review
from tiltyard.data.bank import AnswerKind

MODELS = ("zyxwolf", "qvartz")
ONE_EACH = {kind: (kind, suffix) for kind, suffix in reversed(planted.FILES)}


@pytest.fixture(scope="module")
def review(tmp_path_factory: pytest.TempPathFactory) -> Review:
    folder = tmp_path_factory.mktemp("kinds") / "answers"
    folder.mkdir()
    prompts = [{"prompt_id": kind, "text": f"Make a {kind}."} for kind in (*ONE_EACH, "text")]
    (folder / "prompts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in prompts))
    for model in MODELS:
        (folder / model).mkdir()
        for kind, which in ONE_EACH.items():
            (folder / model / f"{kind}.{which[1]}").write_bytes(planted.FILES[which]())
        (folder / model / "text.txt").write_text("A <b>text</b> of some words.")
    made, _ = start_review(read_source([folder]), folder / "review", ["ann"], places=[folder], each=1)
    return made


def test_every_kind_is_shown_and_voted_on(review: Review) -> None:
    kinds = []
    with open_site(review) as site:
        ann = visitor(site, review, "ann")
        for number in range(len(AnswerKind)):
            page = ann.get("/")
            assert page.status_code == 200, page.text
            assert not any(name in page.text for name in MODELS)
            kind = re.search(r"Make an? (\w+)", page.text)
            assert kind is not None
            kinds.append(kind[1])
            links = {html.unescape(link) for link in re.findall(r'"(/shown/[^"]+)"', page.text)}
            assert len(links) == (0 if kind[1] == "text" else 2), kind
            for link in links:
                file = ann.get(link)
                assert file.status_code == 200
                assert not any(name.encode() in file.content for name in MODELS)
                assert visitor(site, review, "ann").get(link).status_code == 200
            fields = form_in(page.text.partition('class="aside"')[0])
            vote = {"unrendered": "A"} if kind[1] == "html" else {"choice": "AB"[number % 2]}
            assert ann.post("/vote", data={**fields, **vote}).status_code == 303
        assert ann.post("/api/v1/matchups").status_code == 204
    assert sorted(kinds) == sorted(AnswerKind)
    close_review(review)
    result = ReviewResult.of(review)
    assert len(export(result)) == 3
    (pair,) = preference_rows(result)  # of files there is no text to train on
    assert pair["question_id"] == "text"

"""A review that ends by itself: rarely wrongly however often one looks, once, and in words."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import numpy as np
import pytest
from starlette.testclient import TestClient

from tests import within
from tests.arena.review.teams import MODELS, new_review, open_site, visitor
from tiltyard.analysis.boards import rate
from tiltyard.arena import events as e
from tiltyard.arena.review import (
    Review,
    ReviewResult,
    change_people,
    close_if_settled,
    close_review,
    conclusion,
    look,
    read_source,
    remarks,
    start_review,
)
from tiltyard.arena.review.assignment import Assignment, ReviewLog
from tiltyard.arena.review.desk import DrawnItem, Links, Person, ReviewRecord
from tiltyard.arena.review.labels import labels_of, summaries, team_agreement
from tiltyard.arena.review.until import UntilLook, check_until, look_at
from tiltyard.errors import OptionError
from tiltyard.site import review as pages


def settled(wins: int, labels: int, ties: int = 0) -> bool:
    """Whether x is known to be better after so many wins and ties of all labels."""
    winners = ["model_a"] * wins + ["tie"] * ties + ["model_b"] * (labels - wins - ties)
    rows = [
        {"model_a": "x", "model_b": "y", "winner": winner, "question_id": f"q{n}"} for n, winner in enumerate(winners)
    ]
    board = rate(rows, cluster="prompt", default_source="human")
    return look_at(board, board, "better", {"x", "y"}, "people", labels).settled


def test_equal_models_are_told_apart_in_at_most_one_review_of_twenty_though_every_label_is_looked_at() -> None:
    """Exact, not drawn: the fewest wins that settle it after every label, then all ways of 90 fair labels."""
    most = 90
    needed, chance = 10, np.zeros(most + 1)
    chance[0], stopped = 1.0, 0.0
    for labels in range(1, most + 1):
        chance[1:] = 0.5 * (chance[1:] + chance[:-1])
        chance[0] *= 0.5
        while needed <= labels and not settled(needed, labels):
            needed += 1
        for wins in (*range(needed, labels + 1), *range(labels - needed + 1)):
            stopped += chance[wins]
            chance[wins] = 0.0
    assert 0.002 < stopped < 0.05
    assert settled(20, 20)  # and it does stop
    assert needed < 64


def test_ties_do_not_hide_who_wins_what_is_decided() -> None:
    assert settled(20, 60, ties=40)
    assert settled(30, 60, ties=28)
    assert not settled(7, 60, ties=53)
    assert not settled(18, 60, ties=30)


def voted(client: TestClient, *, first_wins: bool = True, most: int = 1_000) -> int:
    """Vote for the first model (or the second) until nothing is left; how often."""
    for number in range(most):
        served = client.post("/api/v1/matchups")
        if served.status_code == 204:
            return number
        body = served.json()
        is_first = int(body["response_a"].split()[1]) % 7 == 0
        choice = "A" if is_first == first_wins else "B"
        client.post(f"/api/v1/matchups/{body['matchup_id']}/vote", json={"choice": choice})
    return most


def test_a_served_review_closes_by_itself_and_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "LOOK_SECONDS", 0.05)
    review = new_review(tmp_path, 60, people="ann", each=1, until="better")
    status = within.run(tmp_path, "review", "status", "review").stdout
    assert "until better: not known yet: nobody has reviewed anything yet" in status
    with open_site(review) as site:
        ann = visitor(site, review, "ann")
        assert voted(ann, most=19) == 19
        for _ in range(200):
            if "The review is closed" in (page := ann.get("/").text):
                break
            threading.Event().wait(0.05)
            voted(ann, most=1)
        assert f"its question is answered: {MODELS[0]} is better than {MODELS[1]}, by people after" in page
        assert ann.post("/api/v1/matchups").status_code == 204
    votes = sum(turn.status == "voted" for turn in review.log().turns.values())
    assert 20 <= votes < 60
    within.run(tmp_path, "review", "close", "review")
    assert "closed by itself" in (review.folder / "report.html").read_text()
    status = within.run(tmp_path, "review", "status", "review").stdout
    assert f"the review closed by itself (until better): {MODELS[0]} is better" in status
    assert "(95 %), for this one reviewer" in status.splitlines()[-3]  # not the interval of a single look


def _closings(review: Review) -> int:
    from tiltyard.arena.store import Store, events_in_order

    store = Store.open(review.url)
    try:
        return sum(getattr(event.body, "closed", False) is True for event in events_in_order(store))
    finally:
        store.close()


@pytest.mark.parametrize("where", ["sqlite", "postgresql"])
def test_several_processes_close_a_review_once_and_nothing_opens_it_again(
    tmp_path: Path, where: str, request: pytest.FixtureRequest
) -> None:
    db = None if where == "sqlite" else request.getfixturevalue("postgresql_databases").bare()
    review = new_review(tmp_path, 25, people="ann", each=1, until="better", db=db)
    with open_site(review) as site:
        voted(visitor(site, review, "ann"))
    done: list[bool] = []
    threads = [threading.Thread(target=lambda: done.append(close_if_settled(review))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert done == [True] * 6
    assert _closings(review) == 1
    assert not close_review(review)
    with pytest.raises(OptionError, match="is closed"):
        change_people(review, add=["bob"])
    assert _closings(review) == 1


def test_a_width_is_that_of_the_widest_interval_from_end_to_end(tmp_path: Path) -> None:
    review = new_review(tmp_path, 30, people="ann bob", each=1, until="width:150")
    with open_site(review) as site:
        voted(visitor(site, review, "ann"))
        early = look(ReviewResult.of(review))
        assert early is not None
        assert not early.settled
        voted(visitor(site, review, "bob"), first_wins=False)
    late = look(ReviewResult.of(review))
    assert late is not None
    assert late.settled
    assert "points from end to end, by people after 30 labels" in late.sentence


def test_with_a_judge_the_board_of_judge_and_people_decides(tmp_path: Path) -> None:
    rows = [
        {
            "model_a": "x",
            "model_b": "y",
            "winner": "model_b" if n % 4 == 0 else "model_a",
            "question_id": f"q{n}",
            "response_a": "good",
            "response_b": "bad",
        }
        for n in range(200)
    ]
    path = tmp_path / "battles.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    review, _ = start_review(
        read_source([path]), tmp_path / "review", ["ann"], places=[path], each=1, n=60, until="better"
    )
    with open_site(review) as site:
        ann = visitor(site, review, "ann")

        def looked_at_after(labels: int) -> UntilLook:
            for number in range(labels):
                body = ann.post("/api/v1/matchups").json()
                first_is_a = body["response_a"] == "good"
                choice = "A" if first_is_a == (number % 5 > 0) else "B"
                ann.post(f"/api/v1/matchups/{body['matchup_id']}/vote", json={"choice": choice})
            at = look(ReviewResult.of(review))
            assert at is not None
            return at

        early = looked_at_after(10)
        assert (early.settled, "20 is the least" in early.sentence) == (False, True)
        late = looked_at_after(50)
    assert late.settled
    assert late.sentence.startswith("x is better than y, by judge and people together after 60 labels")


def test_a_rule_that_means_nothing_is_refused(tmp_path: Path) -> None:
    for rule in ("width:0", "width", "top", "better:x", "width:-3"):
        with pytest.raises(OptionError, match="no end of a review"):
            new_review(tmp_path, 3, until=rule)
    for dimensions, models, words in (({"a", "b"}, {"x", "y"}, "--dimension"), ({""}, {"x", "y", "z"}, "two models")):
        with pytest.raises(OptionError, match=words):
            check_until("better", dimensions, models)
    assert not (tmp_path / "review").exists()


def told(people: dict[str, list[int | None]], items: int, each: int, adjudicator: str = "") -> ReviewResult:
    """A review in which each says of the items, in their order, 1 (x), 0 (y) or None (cannot judge)."""
    log, at = ReviewLog(), 0
    assignment = Assignment(log)

    def tell(body: e.AnyBody) -> None:
        nonlocal at
        at += 1
        event = e.Event(at, body)
        log.note(event)
        assignment.changed(event)

    for n in range(items):
        tell(e.PromptAdded(prompt_id=f"i{n}", text=""))
        for model in "xy":
            tell(e.ResponseAdded(response_id=f"{model}{n}", model=model, prompt_id=f"i{n}", text=""))
    reviewers = tuple(name for name in people if name != adjudicator)
    adjudicators = (adjudicator,) if adjudicator else ()
    tell(e.ReviewSet(each=each, reviewers=reviewers, adjudicators=adjudicators))
    for person, said in people.items():
        lane: e.Lane = "adjudication" if person == adjudicator else "review"
        for word in said:
            left = assignment.left(person)
            name, a, b = f"{person}{left[0]}", *("xy" if at % 4 < 2 else "yx")
            tell(
                e.MatchupServed(
                    matchup_id=name,
                    voter=person,
                    prompt_id=f"i{left[0]}",
                    model_a=a,
                    model_b=b,
                    response_a="",
                    response_b="",
                    lane=lane,
                    reason="",
                    probability=1.0,
                    seed=0,
                    expires_at=0,
                )
            )
            tell(
                e.Skipped(matchup_id=name)
                if word is None
                else e.Voted(matchup_id=name, choice=e.Choice.A if (a == "x") == bool(word) else e.Choice.B)
            )
    record = ReviewRecord(
        items=tuple(DrawnItem(item=f"i{n}", question_id=f"q{n}", first="x", second="y") for n in range(items)),
        population=items,
        draw="by-pair",
        seed=0,
        source=(),
        until="better",
    )
    links = Links(people=tuple(Person(name=one, key=one, token="", adjudicator=one == adjudicator) for one in people))
    return ReviewResult(Review(Path("nowhere"), record, links), log, summaries(log), team_agreement(log))


def test_a_quick_reviewer_does_not_end_a_review_of_an_equal_panel() -> None:
    """Ann, who is quick, prefers x on all 60 items; bob, who prefers y on all, has done 10: 10 ties have both."""
    result = told({"ann": [1] * 60, "bob": [0] * 10}, 60, 2)
    at = look(result)
    assert at is not None
    assert not at.settled
    assert (result.finished, result.behind) == (10, 50)
    assert "50 labels count once everybody has done the items before them" in at.sentence
    assert any("whoever is quicker counts for more" in line for line in remarks(result))
    assert "cannot tell x from y" in conclusion(result)  # by ten ties; the rest is ann's


def test_two_quick_reviewers_who_share_items_do_not_end_it_either() -> None:
    """Each item has two of four reviewers: those that both quick ones have are done first, and are no fair sample."""
    result = told({"ann": [1] * 30, "bob": [1] * 30, "cyd": [0] * 4, "dan": [0] * 4}, 60, 2)
    done = [label for label in labels_of(result.log) if label.how == "agreed"]
    assert len(done) >= 8
    assert np.mean([label.value for label in done]) > 0.8
    assert result.finished <= 12
    at = look(result)
    assert at is not None
    assert not at.settled


def test_what_everybody_has_done_ends_it_as_before() -> None:
    result = told({"ann": [1] * 30, "bob": [1] * 30}, 30, 2)
    at = look(result)
    assert at is not None
    assert at.settled
    assert result.behind == 0
    assert "x is better than y" in conclusion(result)


def test_an_item_that_nobody_else_can_judge_waits_for_nobody() -> None:
    result = told({"ann": [None, *[1] * 29], "bob": [1] * 30}, 30, 2)
    assert (result.finished, result.behind) == (30, 0)


def test_an_item_that_an_adjudicator_is_to_decide_waits() -> None:
    """Ann and bob disagree on every third item; lead decides the first of these and then the rest, all for y."""
    ann, bob = [1] * 30, [0 if n % 3 == 0 else 1 for n in range(30)]
    assert told({"ann": ann, "bob": bob, "lead": []}, 30, 2, "lead").finished == 0
    assert told({"ann": ann, "bob": bob, "lead": [0]}, 30, 2, "lead").finished == 3
    assert told({"ann": ann, "bob": bob, "lead": [0] * 10}, 30, 2, "lead").finished == 30
    assert told({"ann": ann, "bob": bob}, 30, 2).finished == 30, "without an adjudicator they stay open"

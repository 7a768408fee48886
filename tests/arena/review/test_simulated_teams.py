"""Simulated teams: the careless are found, and ratings by judge and people together cover the truth for the panel."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.sizes import size
from tiltyard.analysis.boards import rate
from tiltyard.arena import events as e
from tiltyard.arena.review import Review, ReviewResult
from tiltyard.arena.review.assignment import ReviewLog, assign
from tiltyard.arena.review.desk import DrawnItem, Links, Person, ReviewRecord
from tiltyard.arena.review.labels import summaries, team_agreement
from tiltyard.arena.review.results import label_rows
from tiltyard.arena.review.sources import draw

POPULATION, DRAWN, EACH = 400, 120, 2
PEOPLE = ("careful", "another", "biased", "careless", "always-a")
SHARE = 0.64
"""How often the first model's answer is the better one."""


def says(person: str, better: bool, first_is_a: bool, rng: np.random.Generator) -> e.Choice:
    """What one of them says of an item."""
    if person == "always-a":
        return e.Choice.A
    right = {"careful": 0.95, "another": 0.92, "biased": 0.85, "careless": 0.5}[person]
    says_first = better if rng.random() < right else not better
    if person == "biased" and rng.random() < 0.2:
        says_first = True  # likes the first model's style
    return e.Choice.A if says_first == first_is_a else e.Choice.B


def panel_share(people: tuple[str, ...]) -> float:
    """How often the panel prefers the first model, over items, sides and its own whims: what its labels estimate."""
    shares = []
    for person in people:
        if person == "always-a":
            shares.append(0.5)
            continue
        right = {"careful": 0.95, "another": 0.92, "biased": 0.85, "careless": 0.5}[person]
        first = SHARE * right + (1 - SHARE) * (1 - right)
        shares.append(0.2 + 0.8 * first if person == "biased" else first)
    return float(np.mean(shares))


def reviewed(people: tuple[str, ...], seed: int) -> tuple[ReviewResult, list[dict[str, object]]]:
    """A finished review of a random draw, and the judge's battles on everything."""
    rng = np.random.default_rng(seed)
    better = rng.random(POPULATION) < SHARE
    judge = np.where(rng.random(POPULATION) < 0.85, better, ~better)
    judged = [
        {"model_a": "x", "model_b": "y", "winner": "model_a" if won else "model_b", "question_id": f"q{place}"}
        for place, won in enumerate(judge.tolist())
    ]
    drawn = draw([0] * POPULATION, DRAWN, "by-pair", rng)
    log, at = ReviewLog(), 0

    def tell(body: e.AnyBody) -> None:
        nonlocal at
        at += 1
        log.note(e.Event(at, body))

    for number in range(DRAWN):
        tell(e.PromptAdded(prompt_id=f"i{number}", text=""))
        for model in "xy":
            tell(e.ResponseAdded(response_id=f"{model}{number}", model=model, prompt_id=f"i{number}", text=""))
    tell(e.ReviewSet(each=EACH, reviewers=people))
    for person, items in assign(DRAWN, EACH, people, {}, {}, seed).items():
        for item in items:
            first_is_a = bool(rng.random() < 0.5)
            sides = ("x", "y") if first_is_a else ("y", "x")
            name = f"{person}{item}"
            tell(
                e.MatchupServed(
                    matchup_id=name,
                    voter=person,
                    prompt_id=f"i{item}",
                    model_a=sides[0],
                    model_b=sides[1],
                    response_a="",
                    response_b="",
                    lane="review",
                    reason="",
                    probability=1.0,
                    seed=0,
                    expires_at=0,
                )
            )
            tell(e.Voted(matchup_id=name, choice=says(person, bool(better[drawn[item].place]), first_is_a, rng)))
    record = ReviewRecord(
        items=tuple(
            DrawnItem(item=f"i{n}", question_id=f"q{one.place}", first="x", second="y", probability=one.probability)
            for n, one in enumerate(drawn)
        ),
        population=POPULATION,
        draw="by-pair",
        seed=seed,
        source=(),
    )
    links = Links(people=tuple(Person(name=person, key=person, token="") for person in people))
    review = Review(Path("nowhere"), record, links)
    return ReviewResult(review, log, summaries(log), team_agreement(log)), judged


def test_those_who_do_not_read_are_found_and_careful_people_are_not() -> None:
    found = dict.fromkeys(PEOPLE, 0)
    sides = dict.fromkeys(PEOPLE, 0)
    runs = size(40, soak=200)
    for seed in range(runs):
        result, _ = reviewed(("careful", "another", "biased", "careless"), seed)
        for one in result.people:
            assert one.rest is not None
            found[one.key] += one.rest.stands_out
        result, _ = reviewed(("careful", "another", "always-a"), seed)
        for one in result.people:
            sides[one.key] += one.side_a.low > 0.5
    assert found["careless"] >= 0.8 * runs
    assert found["careful"] + found["another"] <= 0.06 * 2 * runs + 1
    assert sides["always-a"] == runs
    assert sides["careful"] + sides["another"] <= 0.06 * 2 * runs + 1


@pytest.mark.parametrize("people", [("careful", "another", "biased"), ("careful", "careless", "always-a")])
def test_judge_and_people_together_cover_what_the_panel_thinks(people: tuple[str, ...]) -> None:
    share = panel_share(people)
    truth = 400 * np.log10(share / (1 - share)) / 2
    runs = size(60, soak=1_000)
    covered = 0
    for seed in range(runs):
        result, judged = reviewed(people, 1_000 + seed)
        board = rate(judged, people=list(label_rows(result)))
        entry = board["x"]
        assert entry.ci_low is not None
        assert entry.ci_high is not None
        covered += entry.ci_low <= 1000 + truth <= entry.ci_high
    assert covered / runs >= 0.94 - 2 * np.sqrt(0.05 * 0.95 / runs)

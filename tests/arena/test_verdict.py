"""The sentence above the board claims what the ranges of ranks allow, and no more."""

from __future__ import annotations

import re

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tiltyard.arena import Standing
from tiltyard.arena.study.verdict import verdict


def standing(place: int, low: int | None, high: int | None, *, provisional: bool = False) -> Standing:
    return Standing(f"m{place}", f"Model {place}", place, low, high, provisional)


def test_a_leader_whom_nobody_can_reach_leads() -> None:
    ranges = [(1, 1), (2, 2), *[(3, 9)] * 7, (10, 10)]
    said = verdict([standing(place, low, high) for place, (low, high) in enumerate(ranges, start=1)])
    assert said.text == "Model 1 leads, and no other model could be first; places 3–9 cannot be told apart."
    assert (said.leader, said.could_be_first, said.alike) == ("m1", ("m1",), (3, 9))


def test_possible_firsts_are_named_or_counted() -> None:
    two = verdict([standing(1, 1, 2), standing(2, 1, 2), standing(3, 3, 3)])
    assert two.text == "Model 1 is first, but Model 2 could be."
    assert (two.leader, two.could_be_first) == (None, ("m1", "m2"))
    many = verdict([standing(place, 1, 6) for place in range(1, 7)])
    assert many.text == "Model 1 is first, but 5 others could be; places 1–6 cannot be told apart."
    three = verdict([standing(place, 1, 4) for place in range(1, 5)], by="Elo")
    assert three.text.startswith("Model 1 is first by Elo, but Model 2, Model 3 or Model 4 could be")


def test_every_place_may_be_settled() -> None:
    assert verdict([standing(1, 1, 1), standing(2, 2, 2)]).text == (
        "Model 1 leads, and no other model could be first; every place is settled."
    )


def test_provisional_models_are_left_aside_and_cannot_lead() -> None:
    said = verdict([standing(1, 1, 4, provisional=True), standing(2, 1, 2), standing(3, 3, 4)])
    assert said.leader is None
    assert "No model with enough votes is first" in said.text
    assert "1 provisional model is left aside" in said.text
    last = verdict([standing(1, 1, 1), standing(2, 2, 3), standing(3, 1, 3, provisional=True)])
    assert (last.leader, last.could_be_first) == (None, ("m1",))
    assert last.text.startswith("Model 1 leads, and no other model with enough votes could be first")
    behind = verdict([standing(1, 1, 1), standing(2, 2, 3), standing(3, 2, 3, provisional=True)])
    assert behind.leader == "m1"
    assert verdict([standing(1, 1, 1, provisional=True)]).leader is None


def test_nothing_is_claimed_without_ranges_or_models() -> None:
    said = verdict([standing(1, None, None), standing(2, None, None)])
    assert said.leader is None
    assert "too early to say how sure" in said.text
    assert verdict([standing(1, None, None), standing(2, 2, 2)]).leader is None
    assert verdict([]).too_few_votes


@given(st.integers(1, 25), st.integers(0, 6), st.integers(0, 2**32 - 1))
def test_no_claim_contradicts_a_range(models: int, width: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    standings = [
        standing(
            place,
            max(1, place - int(rng.integers(width + 1))),
            min(models, place + int(rng.integers(width + 1))),
            provisional=bool(rng.random() < 0.15),
        )
        for place in range(1, models + 1)
    ]
    said, sure = verdict(standings), [one for one in standings if not one.provisional]
    if said.leader is not None:
        assert [one.model for one in standings if (one.low or 1) <= 1] == [said.leader]
        assert sure[0].place == 1
    assert "leads" in said.text or said.leader is None
    if said.alike is not None:
        first, last = said.alike
        inside = [one for one in sure if first <= one.place <= last]
        assert len(inside) > 1
        assert all((one.low or 1) <= first and (one.high or models) >= last for one in inside)
    if len(sure) > 1 and sure[0].low is not None:
        assert said.alike == longest_row(sure)
    for first, last in re.findall(r"places (\d+)–(\d+)", said.text):
        assert said.alike == (int(first), int(last))


def longest_row(settled: list[Standing]) -> tuple[int, int] | None:
    """The longest row of models each of whom could hold all of its places, by trying every row."""
    rows = [settled[start:end] for start in range(len(settled)) for end in range(start + 2, len(settled) + 1)]
    fit = [
        (row[0].place, row[-1].place)
        for row in rows
        if all((one.low or 1) <= row[0].place and (one.high or 10**9) >= row[-1].place for one in row)
    ]
    return max(fit, key=lambda ends: (ends[1] - ends[0], -ends[0]), default=None)

"""The little pictures and the shares beside them."""

from __future__ import annotations

import pytest
from page_tree import read_page

from tiltyard.judge.verdicts import LineSpan, VerdictLabel
from tiltyard.render import svg
from tiltyard.reports.run import JudgedBattle
from tiltyard.reports.sections import behaviour, share_interval


def test_a_scale_has_round_ticks_inside_its_ends() -> None:
    scale = svg.Scale.of([912.0, 1090.0])
    assert scale.ticks == (950.0, 1000.0, 1050.0)
    assert scale.low < 912.0 < 1090.0 < scale.high
    assert svg.MARGIN < scale.x(912.0) < scale.x(1000.0) < scale.x(1090.0) < svg.WIDTH - svg.MARGIN


def test_equal_values_still_make_a_scale() -> None:
    scale = svg.Scale.of([1000.0, 1000.0])
    assert scale.x(1000.0) == pytest.approx(svg.WIDTH / 2)


def test_an_interval_is_drawn_where_its_ends_are_and_an_open_side_ends_in_an_arrow() -> None:
    scale = svg.Scale.of([0.0, 100.0])
    closed = read_page(svg.interval(scale, 50.0, 25.0, 75.0, "m: 50")).root.one("svg")
    assert f"M{scale.x(25.0):g} 15H{scale.x(75.0):g}" in [node.attrs["d"] for node in closed.all("path", "bar")]
    assert float(closed.one("circle").attrs["cx"]) == scale.x(50.0)
    assert closed.attrs["role"] == "img"
    assert closed.one("title").text == closed.attrs["aria-label"] == "m: 50"
    opened = read_page(svg.interval(scale, 50.0, None, 75.0, "m")).root
    assert len(opened.all("path", "dot")) == 1
    assert not closed.all("path", "dot")


def test_a_histogram_is_a_hill_from_its_first_to_its_last_filled_bin() -> None:
    scale = svg.Scale.of([0.0, 100.0])
    hill = read_page(svg.histogram(scale, [0, 0, 1, 4, 2, 0], 4, "m", mean=50.0)).root.one("path", "area").attrs["d"]
    assert hill.count("h") == 3
    assert "V4.0h" in hill, "the tallest bin of all rows reaches the top margin"


def test_wilson_intervals_of_textbook_shares() -> None:
    """p = 5/10: centre 0.5, half-width 0.2634; 0/10 reaches up to z²/(n + z²) = 3.8415/13.8415 = 0.2775."""
    assert share_interval(5, 10) == pytest.approx((0.2366, 0.7634), abs=1e-4)
    assert share_interval(0, 10) == pytest.approx((0.0, 0.2775), abs=1e-4)
    assert share_interval(10, 10) == pytest.approx((0.7225, 1.0), abs=1e-4)
    assert share_interval(0, 0) is None


def battle(forward: str, swapped: str) -> JudgedBattle:
    slots = tuple(VerdictLabel(word) for word in (forward, swapped))
    labels = (slots[0], slots[1].other_slot)
    return JudgedBattle(
        number=0,
        dimension="d",
        prompt_id="p",
        entrant_a="a",
        entrant_b="b",
        winner=None,
        inconsistent=False,
        status="ok",
        slots=slots,
        labels=labels,
        judges=("j",),
        swaps=(False, True),
        pairs=(labels,),
        file="f",
        line=LineSpan(1, 0, 1),
    )


def test_a_judge_that_always_says_a_flips_always_and_chooses_the_first_slot_always() -> None:
    habits = behaviour([battle("A", "A"), battle("A", "A")])
    assert (habits.flips.hits, habits.flips.n, habits.opposite) == (2, 2, 2)
    assert (habits.first_slot.hits, habits.first_slot.n) == (4, 4)


def test_a_tie_one_way_round_is_a_flip_and_a_failed_verdict_is_none() -> None:
    habits = behaviour([battle("A", "B"), battle("TIE", "TIE"), battle("TIE", "B"), battle("A", "unparsed")])
    assert (habits.flips.hits, habits.flips.n, habits.opposite) == (1, 3, 0)
    assert (habits.first_slot.hits, habits.first_slot.n) == (2, 4)

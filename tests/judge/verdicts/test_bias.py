"""Flip rate, first-slot rate, length and coverage, by hand."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.judge.verdicts.cases import RUBRIC, case, judging_plan, make_judge, verdict
from tiltyard.judge.verdicts import (
    Case,
    JudgingPlan,
    JudgingResult,
    Judgment,
    Matchup,
    VerdictLabel,
    bias_rows,
    judge,
    length_preference,
    measure_bias,
    settle,
)

A, B, TIE, LOST = VerdictLabel.A, VerdictLabel.B, VerdictLabel.TIE, VerdictLabel.UNPARSED


def judged(prompt_id: str, forward: VerdictLabel, swapped: VerdictLabel, b: str = "heron") -> Judgment:
    matchup = Matchup(prompt_id=prompt_id, dimension="d", entrant_a="otter", entrant_b=b)
    return settle(matchup, [verdict("f", forward), verdict("s", swapped, swapped=True)])


JUDGMENTS = [
    judged("p1", A, B),
    judged("p2", A, A),
    judged("p3", TIE, TIE),
    judged("p4", A, LOST, b="crane"),
    judged("p5", B, TIE, b="crane"),
]


def test_the_rates_are_shares_of_what_could_be_counted() -> None:
    bias = measure_bias(JUDGMENTS)
    assert bias.judgments == 5
    assert (bias.flip_rate.value, bias.flip_rate.n) == (2 / 4, 4)
    # Decisive verdicts as shown: A B | A A | – | A | B: four of six for the first slot.
    assert (bias.first_slot_rate.value, bias.first_slot_rate.n) == (pytest.approx(4 / 6), 6)
    assert (bias.coverage.value, bias.coverage.n) == (0.9, 10)
    for estimate in (bias.flip_rate, bias.first_slot_rate, bias.coverage):
        assert estimate.low is not None
        assert estimate.value is not None
        assert estimate.high is not None
        assert 0 <= estimate.low < estimate.value < estimate.high <= 1


def test_groups_partition_the_judgments() -> None:
    judged = JudgingResult("judge", True, {"clarity": JUDGMENTS}, {}, {})
    rows = bias_rows(JudgingPlan({"clarity": RUBRIC}, {}), judged)
    by_pair = {row.name: row.bias for row in rows if row.group == "pair"}
    assert {name: bias.judgments for name, bias in by_pair.items()} == {"heron · otter": 3, "crane · otter": 2}
    assert by_pair["crane · otter"].flip_rate.value == 1.0


def test_nothing_judged_is_nothing_said() -> None:
    bias = measure_bias([])
    assert bias.flip_rate.value is None
    assert bias.flip_rate.n == 0


def test_the_rows_of_a_run_are_by_judge_pair_and_source(tmp_path: Path) -> None:
    cases = judging_plan(3)
    result = asyncio.run(judge(cases, make_judge(tmp_path, lambda request: "VERDICT: A")))
    rows = bias_rows(cases, result)
    assert [(row.dimension, row.group, row.name) for row in rows] == [
        ("clarity", "all", ""),
        ("clarity", "judge", "scripted/judge-1"),
        ("clarity", "pair", "heron · otter"),
        ("clarity", "source", "test"),
    ]
    assert all(row.bias.flip_rate.value == row.bias.first_slot_rate.value == 1.0 for row in rows)


def with_lengths(prompt_id: str, a: int, b: int) -> Case:
    given = case(prompt_id)
    return Case(given.matchup, given.prompt, "x" * a, "x" * b)


def test_length_counts_only_where_someone_won_and_lengths_differ() -> None:
    cases = [with_lengths("p1", 5, 9), with_lengths("p2", 9, 5), with_lengths("p3", 5, 5), with_lengths("p4", 1, 2)]
    judgments = [judged("p1", A, B), judged("p2", A, B), judged("p3", A, B), judged("p4", TIE, TIE)]
    preference = length_preference(cases, judgments)
    assert (preference.value, preference.n) == (0.5, 2)

"""From judgments to Elo, win rates and boards."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from tiltyard.data.bank import Prompt
from tiltyard.judge.tournament.config import EloSettings
from tiltyard.judge.tournament.ratings import rate_dimension
from tiltyard.judge.verdicts import (
    Case,
    Judgment,
    Matchup,
    Verdict,
    VerdictLabel,
    length_preference,
    measure_bias,
    settle,
)


def verdict(said: VerdictLabel, *, swapped: bool) -> Verdict:
    return Verdict(
        cache_key="k",
        rubric_version="1",
        judge_model="j",
        position_swap=swapped,
        verdict=said,
        reasoning="…",
        timestamp="2026-01-01T00:00:00+00:00",
    )


def judged(a: str, b: str, forward: VerdictLabel, swapped: VerdictLabel, prompt: str = "p1") -> Judgment:
    matchup = Matchup(prompt_id=prompt, dimension="d", entrant_a=a, entrant_b=b)
    return settle(matchup, [verdict(forward, swapped=False), verdict(swapped, swapped=True)])


def test_pairs_are_sorted_inconsistent_counts_twice_and_failed_nowhere() -> None:
    rows = [
        judged("otter", "heron", VerdictLabel.A, VerdictLabel.B),  # both orders say otter
        judged("heron", "otter", VerdictLabel.A, VerdictLabel.B),  # both say heron
        judged("otter", "heron", VerdictLabel.TIE, VerdictLabel.TIE),
        judged("otter", "heron", VerdictLabel.A, VerdictLabel.A),  # each order says the first slot
        judged("otter", "heron", VerdictLabel.A, VerdictLabel.TIE),
        judged("otter", "heron", VerdictLabel.A, VerdictLabel.UNPARSED),
    ]
    (pair,) = rate_dimension("clarity", rows, EloSettings(n_perms=2), "judge").pairs
    assert (pair.entrant_a, pair.entrant_b) == ("heron", "otter")
    assert (pair.a_wins, pair.b_wins, pair.ties, pair.inconsistent) == (1, 1, 3, 2)


def test_permutation_elo_equals_the_plain_loop_over_decisive_judgments() -> None:
    rng = np.random.default_rng(0)
    rows = []
    for number in range(60):
        a, b = rng.choice(["crane", "heron", "otter"], 2, replace=False)
        words = [
            (VerdictLabel.A, VerdictLabel.B),
            (VerdictLabel.B, VerdictLabel.A),
            (VerdictLabel.TIE, VerdictLabel.TIE),
            (VerdictLabel.A, VerdictLabel.A),
        ][rng.integers(4)]
        rows.append(judged(str(a), str(b), *words, prompt=f"p{number % 9}"))
    settings = EloSettings(n_perms=30, shuffle_seed=5, default_k=16.0)
    standing = rate_dimension("d", rows, settings, "j")
    decisive = [(row.entrant_a, row.entrant_b, row.winner) for row in rows if row.winner]
    assert standing.n_decisive == len(decisive)
    generator = np.random.default_rng(5)
    totals = []
    for _ in range(30):
        rating = dict.fromkeys(standing.entrants, 1400.0)
        for place in generator.permutation(len(decisive)):
            a, b, winner = decisive[place]
            expected = 1 / (1 + 10 ** ((rating[b] - rating[a]) / 400))
            step = 16.0 * ((winner == a) - expected)
            rating[a] += step
            rating[b] -= step
        totals.append([rating[name] for name in standing.entrants])
    assert standing.traces == pytest.approx(np.array(totals), abs=1e-9)
    mean = np.mean(totals, axis=0)
    assert [standing.elo[name].mean for name in standing.entrants] == pytest.approx(mean, abs=1e-9)
    assert list(standing.sweep) == [1.0, 4.0, 8.0, 16.0, 32.0]
    assert standing.board is not None
    assert all(line.sampling_low < line.mean < line.sampling_high for line in standing.elo.values())


def case(judgment: Judgment, a: str, b: str) -> Case:
    matchup = Matchup(**{name: getattr(judgment, name) for name in Matchup.__struct_fields__})
    return Case(matchup, Prompt(prompt_id=judgment.prompt_id, text="?"), a, b)


def test_the_habits_of_a_run_are_those_that_are_measured_elsewhere() -> None:
    rng = np.random.default_rng(3)
    labels = [VerdictLabel.A, VerdictLabel.B, VerdictLabel.TIE, VerdictLabel.UNPARSED]
    rows = [
        judged("otter", "heron", *(labels[rng.choice(4, p=[0.6, 0.2, 0.1, 0.1])] for _ in "AB"), prompt=f"p{n // 3}")
        for n in range(120)
    ]
    cases = [case(row, "x" * int(rng.integers(1, 5)), "x" * int(rng.integers(1, 5))) for row in rows]
    habits = rate_dimension("d", rows, EloSettings(n_perms=2), "j", cases=cases).habits
    bias = measure_bias(rows)
    assert habits.flips == bias.flip_rate
    assert habits.first_slot == bias.first_slot_rate
    longer = length_preference(cases, rows)  # clustered by the text of the prompt, which is the same for all here
    assert (habits.longer.value, habits.longer.n) == (longer.value, longer.n)
    assert rate_dimension("d", rows, EloSettings(n_perms=2), "j").habits.longer.value is None


def test_a_judge_that_goes_by_the_order_draws_a_warning_and_a_steady_one_does_not() -> None:
    first = [judged("otter", "heron", VerdictLabel.A, VerdictLabel.A, prompt=f"p{n}") for n in range(40)]
    steady = [judged("otter", "heron", VerdictLabel.A, VerdictLabel.B, prompt=f"p{n}") for n in range(40)]
    for flipped, warned in ((13, False), (15, True)):  # more than 35 % of 40 is 15
        habits = rate_dimension("d", first[:flipped] + steady[flipped:], EloSettings(n_perms=2), "j").habits
        assert habits.unreliable is warned
        (line, *more) = habits.lines()
        assert line.startswith("WARNING: the judge" if warned else "judge: ")
        assert f"in {flipped} of 40 judgments" in line
        assert any("preferred the answer shown first" in other for other in more)
    (line, other) = rate_dimension("d", steady, EloSettings(n_perms=2), "j").habits.lines()
    assert "in 0 of 40 judgments (0 %)" in line
    assert "no clear preference" in other
    assert rate_dimension("d", [], EloSettings(), "j").habits.lines() == []


def test_length_is_named_where_it_goes_with_winning() -> None:
    rows = [judged("otter", "heron", VerdictLabel.A, VerdictLabel.B, prompt=f"p{n}") for n in range(30)]
    for (a, b), word in ((("long", "x"), "longer"), (("x", "long"), "shorter")):
        cases = [case(row, a, b) for row in rows]
        lines = rate_dimension("d", rows, EloSettings(n_perms=2), "j", cases=cases).habits.lines()
        assert any(line.startswith(f"judge: {word} answers won more often") for line in lines)


def test_a_judge_of_one_order_has_no_flips_and_its_preference_is_in_the_ratings() -> None:
    matchup = Matchup(prompt_id="p", dimension="d", entrant_a="otter", entrant_b="heron")
    rows = [
        settle(
            msgspec.structs.replace(matchup, prompt_id=f"p{n}"),
            [verdict(VerdictLabel.A, swapped=False)],
            both_orders=False,
        )
        for n in range(30)
    ]
    (line,) = rate_dimension("d", rows, EloSettings(n_perms=2), "j").habits.lines()
    assert "preferred the answer shown first" in line
    assert "saw one order only" in line


def test_a_dimension_without_a_decisive_match_is_empty_not_a_crash() -> None:
    standing = rate_dimension("d", [judged("otter", "heron", VerdictLabel.TIE, VerdictLabel.TIE)], EloSettings(), "j")
    assert (standing.n_decisive, dict(standing.elo), standing.board) == (0, {}, None)
    assert "tie" in (standing.board_missing or "")
    assert len(standing.battles) == 1
    empty = rate_dimension("d", [], EloSettings(), "j")
    assert empty.board_missing == "no judgment was settled"

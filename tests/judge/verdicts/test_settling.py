"""Both orders, settled: the whole table."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest

from tests.judge.verdicts.cases import verdict
from tiltyard.data.battles import Battle, Outcome, read_battles
from tiltyard.judge.verdicts import Matchup, VerdictLabel, settle, to_battle
from tiltyard.judge.verdicts.reading import read_probabilities

MATCHUP = Matchup(prompt_id="p", dimension="d", entrant_a="otter", entrant_b="heron")

TABLE = {
    # forward, swapped (as shown): winner, inconsistent
    ("A", "B"): ("otter", False),
    ("B", "A"): ("heron", False),
    ("TIE", "TIE"): (None, False),
    ("A", "A"): (None, True),
    ("B", "B"): (None, True),
    ("A", "TIE"): (None, True),
    ("TIE", "A"): (None, True),
    ("B", "TIE"): (None, True),
    ("TIE", "B"): (None, True),
}


@pytest.mark.parametrize(("forward", "swapped"), TABLE)
def test_two_readable_verdicts_settle(forward: str, swapped: str) -> None:
    judgment = settle(MATCHUP, [verdict("f", VerdictLabel(forward)), verdict("s", VerdictLabel(swapped), swapped=True)])
    winner, inconsistent = TABLE[forward, swapped]
    assert (judgment.winner, judgment.inconsistent, judgment.status) == (winner, inconsistent, "ok")
    assert judgment.outcome == (winner or ("inconsistent" if inconsistent else "tie"))
    battle = to_battle(judgment)
    assert battle is not None
    assert battle.inconsistent == judgment.inconsistent
    assert battle.winner == {"otter": Outcome.A, "heron": Outcome.B, None: Outcome.TIE}[judgment.winner]


FAILURES = [word for word in VerdictLabel if not word.readable]


@pytest.mark.parametrize(("failure", "other"), list(itertools.product(FAILURES, VerdictLabel)))
def test_a_failure_in_either_order_fails_the_judgment_and_makes_no_battle(
    failure: VerdictLabel, other: VerdictLabel
) -> None:
    for pair in ((failure, other), (other, failure)):
        judgment = settle(MATCHUP, [verdict("f", pair[0]), verdict("s", pair[1], swapped=True)])
        assert (judgment.winner, judgment.inconsistent, judgment.status) == (None, False, "failed")
        assert judgment.outcome == "failed"
        assert to_battle(judgment) is None


@pytest.mark.parametrize("count", [0, 1])
def test_a_missing_verdict_fails_the_judgment(count: int) -> None:
    assert settle(MATCHUP, [verdict()][:count]).status == "failed"


@pytest.mark.parametrize(
    ("said", "swapped", "winner"),
    [("A", False, "otter"), ("B", False, "heron"), ("A", True, "heron"), ("B", True, "otter"), ("TIE", False, None)],
)
def test_a_single_verdict_settles_where_the_caller_says_so(said: str, swapped: bool, winner: str | None) -> None:
    judgment = settle(MATCHUP, [verdict("f", VerdictLabel(said), swapped=swapped)], both_orders=False)
    assert (judgment.winner, judgment.inconsistent, judgment.status) == (winner, False, "ok")


@pytest.mark.parametrize("failure", FAILURES)
def test_a_single_failure_is_a_failed_judgment(failure: VerdictLabel) -> None:
    assert settle(MATCHUP, [verdict("f", failure)], both_orders=False).status == "failed"


def test_one_order_is_enough_only_for_a_judge_that_is_asked_in_one_order() -> None:
    there, back = verdict("f", VerdictLabel.A), verdict("s", VerdictLabel.A, swapped=True)
    assert settle(MATCHUP, [there], both_orders=True).outcome == "failed"
    assert settle(MATCHUP, [there], both_orders=False).outcome == "otter"
    assert settle(MATCHUP, [there, back], both_orders=False).outcome == "inconsistent"


def test_a_battle_says_whether_the_judge_saw_one_order_only() -> None:
    there, back = verdict("f", VerdictLabel.A), verdict("s", VerdictLabel.B, swapped=True)
    once, both = to_battle(settle(MATCHUP, [there], both_orders=False)), to_battle(settle(MATCHUP, [there, back]))
    assert once is not None
    assert both is not None
    assert once.to_dict()["one_order"] is True
    assert "one_order" not in both.to_dict()


def soft_battle(forward: tuple[str, float | None], swapped: tuple[str, float | None]) -> Battle:
    verdicts = [
        verdict("f", VerdictLabel(forward[0]), score_a=forward[1]),
        verdict("s", VerdictLabel(swapped[0]), swapped=True, score_a=swapped[1]),
    ]
    battle = to_battle(settle(MATCHUP, verdicts))
    assert battle is not None
    return battle


SOFT = [
    # forward, swapped (word and preference for the slot shown first), preference for otter
    (("A", 0.875), ("B", 0.375), 0.75),  # (0.875 + 0.625) / 2
    (("B", 0.25), ("A", 0.75), 0.25),  # (0.25 + 0.25) / 2
    (("A", 1.0), ("B", 0.0), 1.0),
    (("B", 0.0), ("A", 1.0), 0.0),
    (("TIE", 0.625), ("TIE", 0.625), 0.5),  # (0.625 + 0.375) / 2: the lean is the first slot's
    (("TIE", 0.625), ("TIE", 0.375), 0.625),  # an agreed tie may lean
    (("A", 0.75), ("A", 0.75), 0.5),  # inconsistent, and even
]


@pytest.mark.parametrize(("forward", "swapped", "score"), SOFT)
def test_a_battle_carries_the_mean_preference_over_both_orders(
    forward: tuple[str, float], swapped: tuple[str, float], score: float
) -> None:
    assert soft_battle(forward, swapped).score_a == score


@pytest.mark.parametrize(
    ("forward", "swapped"),
    [
        (("A", 0.875), ("A", 0.75)),  # inconsistent: 0.5625 would lean
        (("A", 0.75), ("TIE", 0.5)),  # inconsistent too
        (("A", 0.5), ("B", 0.5)),  # A wins, but 0.5 says tie
        (("A", 0.25), ("B", 0.5)),
        (("B", 0.75), ("A", 0.5)),
        (("TIE", 1.0), ("TIE", 0.0)),  # all the way to A
        (("TIE", 0.0), ("TIE", 1.0)),
        (("A", 2.0), ("B", 0.0)),  # no probability
        (("A", float("nan")), ("B", 0.0)),
        (("A", 0.75), ("B", None)),  # one order only
        (("A", None), ("B", 0.25)),
        (("A", None), ("B", None)),
    ],
)
def test_a_score_that_contradicts_the_outcome_or_lacks_an_order_is_left_out(
    forward: tuple[str, float | None], swapped: tuple[str, float | None]
) -> None:
    assert soft_battle(forward, swapped).score_a is None


def test_a_single_verdict_makes_no_soft_score() -> None:
    battle = to_battle(settle(MATCHUP, [verdict("f", VerdictLabel.A, score_a=0.75)], both_orders=False))
    assert battle is not None
    assert battle.score_a is None


CHANCES = [{"A": a / 8, "B": b / 8, "TIE": (8 - a - b) / 8} for a in range(9) for b in range(9 - a)]


def test_every_battle_from_probabilities_is_one_that_can_be_read(tmp_path: Path) -> None:
    path, readings = tmp_path / "battles.jsonl", [read_probabilities(chances) for chances in CHANCES]
    battles = [
        soft_battle((forward.label, forward.score_a), (swapped.label, swapped.score_a))
        for forward, swapped in itertools.product(readings, readings)
    ]
    path.write_text("".join(json.dumps(battle.to_dict()) + "\n" for battle in battles), encoding="utf-8")
    table = read_battles(path)
    assert len(table) == len(battles) == 45 * 45
    assert table.score_a is not None
    hard = (None, 0.0, 0.5, 1.0)
    assert (~np.isnan(table.score_a)).sum() == sum(battle.score_a not in hard for battle in battles)

"""Both orders, settled: the whole table."""

from __future__ import annotations

import itertools

import pytest

from tests.judging.cases import verdict
from tiltyard.battles import Outcome
from tiltyard.judging import Matchup, Said, settle, settle_one, to_battle

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
    judgment = settle(MATCHUP, [verdict("f", Said(forward)), verdict("s", Said(swapped), swapped=True)])
    assert (judgment.winner, judgment.inconsistent, judgment.status) == (*TABLE[forward, swapped], "ok")
    battle = to_battle(judgment)
    assert battle is not None
    assert battle.inconsistent == judgment.inconsistent
    assert battle.winner == {"otter": Outcome.A, "heron": Outcome.B, None: Outcome.TIE}[judgment.winner]


FAILURES = [word for word in Said if not word.readable]


@pytest.mark.parametrize(("failure", "other"), list(itertools.product(FAILURES, Said)))
def test_a_failure_in_either_order_fails_the_judgment_and_makes_no_battle(failure: Said, other: Said) -> None:
    for pair in ((failure, other), (other, failure)):
        judgment = settle(MATCHUP, [verdict("f", pair[0]), verdict("s", pair[1], swapped=True)])
        assert (judgment.winner, judgment.inconsistent, judgment.status) == (None, False, "failed")
        assert to_battle(judgment) is None


@pytest.mark.parametrize("count", [0, 1])
def test_a_missing_verdict_fails_the_judgment(count: int) -> None:
    assert settle(MATCHUP, [verdict()][:count]).status == "failed"


@pytest.mark.parametrize(
    ("said", "swapped", "winner"),
    [("A", False, "otter"), ("B", False, "heron"), ("A", True, "heron"), ("B", True, "otter"), ("TIE", False, None)],
)
def test_a_single_verdict_settles_where_the_caller_says_so(said: str, swapped: bool, winner: str | None) -> None:
    judgment = settle_one(MATCHUP, verdict("f", Said(said), swapped=swapped))
    assert (judgment.winner, judgment.inconsistent, judgment.status) == (winner, False, "ok")


@pytest.mark.parametrize("failure", FAILURES)
def test_a_single_failure_is_a_failed_judgment(failure: Said) -> None:
    assert settle_one(MATCHUP, verdict("f", failure)).status == "failed"

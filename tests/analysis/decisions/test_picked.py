"""The best of several candidates: `picked_from`, and what is said where nobody said why it was picked."""

from __future__ import annotations

import numpy as np
import pytest
from decision_rows import battle
from tests.sizes import size

import tiltyard as ty
from tiltyard.analysis.decisions.answer import candidates
from tiltyard.errors import OptionError


def against_old(wins: dict[str, int], of: int = 60) -> list[dict[str, object]]:
    """Battles of each candidate against the old one, one on each prompt, of which it wins so many."""
    return [
        battle(
            *(("old", name) if i % 2 else (name, "old")), "model_b" if (i < won) == bool(i % 2) else "model_a", f"q{i}"
        )
        for name, won in wins.items()
        for i in range(of)
    ]


WINS = {"best": 39, **{f"v{k}": 28 + k % 4 for k in range(11)}}
"""The best of twelve wins 39 of 60, two standard errors above a half."""


def test_it_decides_by_the_error_rate_over_the_number_of_candidates() -> None:
    rows = against_old(WINS)
    plain, picked = (ty.compare("best", "old", battles=rows, picked_from=k) for k in (None, 12))
    by_hand = ty.compare("best", "old", battles=rows, level=1 - 0.05 / 12)
    assert (picked.low, picked.high) == (by_hand.low, by_hand.high)
    assert 1 - picked.probability_better == pytest.approx(12 * (1 - plain.probability_better))
    gate = picked.gate(margin=0)
    assert (gate.low, gate.high) == (picked.low, picked.high)
    assert plain.gate().verdict == "better"
    assert gate.verdict == "unknown"
    assert "99.6 % intervals by prompt: 95 % for the best of 12 candidates" in str(picked)
    with pytest.raises(OptionError, match="picked_from is 0"):
        ty.compare("best", "old", battles=rows, picked_from=0)


def test_the_best_of_several_carries_both_answers() -> None:
    rows = against_old(WINS)
    found = ty.compare("best", "old", battles=rows)
    doubt = (
        "it is the best of 12 here: if it was picked for that, this does not show it (`--picked-from 12`: cannot tell)"
    )
    assert found.sentence.startswith("best is better than old: ")
    assert doubt in found.sentence
    values = found.to_dict()
    assert (values["picked_from"], values["best_of"], values["better_if_picked"]) == (1, 12, False)
    gate = found.gate(margin=0)
    assert (gate.verdict, gate.if_picked, gate.to_dict()["verdict_if_picked"]) == ("better", "unknown", "unknown")
    assert doubt in gate.sentence
    assert "best of" not in ty.compare("best", "old", battles=rows, picked_from=12).sentence


@pytest.mark.parametrize(
    ("rows", "new"),
    [
        (against_old({**WINS, "best": 58}), "best"),  # holds for the best of twelve too
        (against_old({"best": 39}), "best"),  # one candidate
        (against_old({**WINS, "other": 55}), "best"),  # not the best
        (against_old(WINS), "v0"),  # claims nothing
    ],
)
def test_nothing_is_said_where_there_is_nothing_to_doubt(rows: list[dict[str, object]], new: str) -> None:
    found = ty.compare(new, "old", battles=rows)
    assert "picked" not in found.sentence
    assert "picked" not in found.gate().sentence


def scores_of(right: dict[str, int], n: int = 150) -> list[dict[str, object]]:
    return [
        {"model": name, "id": f"q{i}", "score": int((i * 7 + place * 31) % n < count)}
        for place, (name, count) in enumerate(right.items())
        for i in range(n)
    ]


def test_scores_have_it_too() -> None:
    rows = scores_of({"old": 90, "best": 105, **{f"v{k}": 88 + k for k in range(10)}})
    found = ty.compare("best", "old", battles=rows)
    assert found.low > 0.0
    assert "it is the best of 11 here: if it was picked for that" in found.sentence
    assert "(`--picked-from 11`: cannot tell)" in found.gate(margin=0).sentence
    assert ty.compare("best", "old", battles=rows, picked_from=11).gate(margin=0).verdict == "unknown"
    slow = [{**row, "score": 1 - row["score"]} for row in rows]
    assert ty.compare("best", "old", battles=slow, score=["score:lower"]).best_of == 11


def test_two_runs_have_it_too() -> None:
    now, then = against_old({"a": 44, "b": 30, "c": 31}), against_old({"a": 30, "b": 30, "c": 30})
    runs = ty.compare(now, then, unchanged=["old"])
    assert [runs[name].best_of for name in "abc"] == [3, None, None]
    assert runs["old"].best_of is None
    assert ty.compare(now, then, unchanged=["old"], picked_from=3)["a"].level == pytest.approx(1 - 0.05 / 3)


def test_only_the_best_of_two_or_more_is_the_best_of_several() -> None:
    estimates = np.array([0.1, 0.3, 0.2, np.nan])
    assert candidates(estimates, 1, 0) == 2  # itself and the third; nothing is known of the last
    assert candidates(estimates, 2, 0) is None
    assert candidates(estimates, 1, 2) == 2
    assert candidates(np.array([0.1, 0.3]), 1, 0) is None


def test_the_best_of_equal_candidates_is_seldom_called_better() -> None:
    """Twelve candidates that win half of 60 battles: the best is called better by its own test in far more than 5 %."""
    rng, runs = np.random.default_rng(12), size(150, soak=4000)
    best = rng.binomial(60, 0.5, (runs, 12)).max(axis=1)
    answers = {}
    for wins in np.unique(best).tolist():
        rows = against_old({"best": wins})
        answers[wins] = [
            ty.compare("best", "old", battles=rows, picked_from=k).gate(margin=0).verdict for k in (None, 12)
        ]
    alone, shared = (np.mean([answers[wins][i] == "better" for wins in best.tolist()]) for i in (0, 1))
    assert alone > 0.1
    assert shared <= 0.05 + size(0.036, soak=0.0)


def test_a_board_says_that_its_best_was_not_picked() -> None:
    note = "the interval of the best is not for a model picked because it is the best"
    assert note in str(ty.rate(against_old(WINS)))
    assert note not in str(ty.rate(against_old({"best": 39})))

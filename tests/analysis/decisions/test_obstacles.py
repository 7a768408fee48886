"""A gate says nothing of prompts and voters that its battles cannot stand for."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests import within
from tests.analysis.decisions.decision_rows import battle
from tests.sizes import size

import tiltyard as ty
from tiltyard.analysis.boards import BradleyTerry, rate
from tiltyard.analysis.decisions import compare_in, plan_from_battles
from tiltyard.data.battles import BattleTable, Codes, write_battles

ESTIMATOR = BradleyTerry(misfit=False)


def world(rng: np.random.Generator, likes: np.ndarray, of: np.ndarray, **columns: Codes) -> BattleTable:
    """Battles between equal models whose prompts or voters like one or the other; `of` says which each battle is of."""
    n = len(of)
    wins = rng.random(n) < 1.0 / (1.0 + np.exp(-likes[of]))
    zeros = np.zeros(n, dtype=np.int32)
    return BattleTable(
        ("new", "old"), zeros, zeros + 1, np.where(wins, 0, 1).astype(np.int8), np.zeros(n, dtype=np.int8), np.ones(n),
        columns=columns,
    )  # fmt: skip


def codes(values: np.ndarray, kind: str) -> Codes:
    return Codes(values.astype(np.int32), tuple(f"{kind}{i}" for i in range(int(values.max()) + 1)))


def false_verdicts(tables: Iterable[BattleTable]) -> float:
    found = [compare_in(table, "new", "old", ESTIMATOR, by=()).gate(margin=0.0).verdict for table in tables]
    return float(np.mean([one in ("better", "worse") for one in found]))


def test_three_voters_with_tastes_decide_nothing_however_many_prompts_they_saw():
    rng = np.random.default_rng(0)

    def draw() -> BattleTable:
        voter, prompt = (grid.ravel() for grid in np.meshgrid(np.arange(3), np.arange(60)))
        return world(rng, rng.normal(0.0, 1.0, 3), voter, question_id=codes(prompt, "q"), voter=codes(voter, "v"))

    assert false_verdicts(draw() for _ in range(size(30, soak=300))) == 0.0  # 58 % where voters are left out of account


def test_rows_that_hide_their_prompt_decide_nothing():
    rng = np.random.default_rng(1)

    def draw() -> BattleTable:
        prompt = np.repeat(np.arange(10), 30)
        named = np.where(rng.random(300) < 0.5, prompt, -1)
        return world(rng, rng.normal(0.0, 1.0, 10), prompt, question_id=codes(named, "q"))

    assert false_verdicts(draw() for _ in range(size(30, soak=300))) == 0.0  # 22 % where each counts as independent


def rows(n: int, **columns: Any) -> list[dict[str, Any]]:
    """Judged battles of which v2 wins two in three; a column is a function of the row's number."""
    return [
        battle("v2", "v1", "model_b" if i % 3 == 0 else "model_a", **{k: f(i) for k, f in columns.items()})
        for i in range(n)
    ]


@pytest.mark.parametrize(
    ("columns", "clause"),
    [
        ({"voter": lambda i: f"v{i % 4}"}, "these 4 voters cannot stand for others"),
        (
            {"voter": lambda i: f"v{i % 40 if i % 4 == 0 else 0}", "prompt": lambda i: f"q{i}"},
            "the 10 voters of v2 are worth only 1.6 of equal weight, which cannot stand for others",
        ),
        (
            {"voter": lambda i: f"v{i}", "prompt": lambda i: f"q{i % 40 if i % 2 else 0}"},
            "the 21 prompts of v2 are worth only 3.8 of equal weight, which cannot stand for others",
        ),
        ({"prompt": lambda i: f"q{i % 4}"}, "these 4 prompts cannot stand for others"),
        ({"prompt": lambda i: f"q{i}" if i % 2 else None}, "150 of 300 battles name no prompt"),
    ],
)
def test_why_a_gate_cannot_tell_is_one_clause(columns, clause):
    found = ty.compare("v2", "v1", battles=rows(300, **columns))
    assert found.obstacles == (clause,)
    gate = found.gate()
    assert gate.verdict == "unknown"
    assert gate.sentence.startswith(f"cannot tell: {clause}; here v2 is at +")
    assert found.to_dict()["obstacles"] == [clause]
    assert (
        ty.compare("v2", "v1", battles=rows(300, **columns), cluster="none").gate().verdict == "better"
    )  # the user's decision


def test_what_the_user_leaves_out_is_no_obstacle_and_what_the_user_names_is():
    battles = rows(300, prompt=lambda i: f"q{i}", voter=lambda i: f"v{i % 3}")
    assert ty.compare("v2", "v1", battles=battles, cluster="prompt").gate().verdict == "better"
    assert ty.compare("v2", "v1", battles=battles, cluster="voter").gate().verdict == "unknown"
    assert ty.compare("v2", "v1", battles=battles, cluster="prompt,voter").obstacles == (
        "these 3 voters cannot stand for others",
    )


def test_a_few_battles_without_an_id_are_counted_and_decide_nothing_alone():
    found = ty.compare("v2", "v1", battles=rows(300, prompt=lambda i: f"q{i}" if i % 30 else None))
    assert "10 of 300 battles name no prompt: each of them counts as independent" in found.remarks
    assert found.obstacles == ()
    board = rate(rows(300, prompt=lambda i: f"q{i}" if i % 2 else None))
    assert "150 of 300 battles name no prompt: each of them counts as independent" in board.remarks


def test_a_judge_has_no_voter_to_name():
    people = [{**row, "source": "human", "model_a": a, "model_b": b, "winner": w}
              for i, row in enumerate(rows(300, prompt=lambda i: f"q{i}", voter=lambda i: f"v{i % 60}"))
              for a, b, w in [("v2", "v1", row["winner"]) if i % 2 else
                              ("v1", "v2", "model_a" if row["winner"] == "model_b" else "model_b")]]  # fmt: skip
    judged = rows(300, prompt=lambda i: f"q{i}")
    assert ty.compare("v2", "v1", battles=[*people, *judged]).obstacles == ()


def test_two_runs_say_how_many_battles_name_no_prompt():
    new, old = rows(300, prompt=lambda i: f"q{i}" if i % 2 else None), rows(300, prompt=lambda i: f"q{i}")
    found = ty.compare(new, old, unchanged=["v1"])
    assert "new run: 150 of 300 battles name no prompt and are left out" in found.notes
    assert found["v2"].obstacles == ("150 of 300 battles name no prompt",)
    assert found["v2"].gate().verdict == "unknown"


def test_a_plan_does_not_promise_what_the_gate_refuses():
    plan = plan_from_battles(rows(300, prompt=lambda i: f"q{i}", voter=lambda i: f"v{i % 4}"), "v2", "v1")
    assert plan.remarks[0] == "a gate would not decide on these: these 4 voters cannot stand for others"
    plan = plan_from_battles(rows(300, prompt=lambda i: f"q{i}"), "v2", "v1")
    assert not any("would not decide" in remark for remark in plan.remarks)


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        (
            {"prompt": lambda i: f"q{i % 100}" if i % 2 else None},
            "cannot tell: 150 of 300 battles name no prompt; here v2 is at +120 points",
        ),
        (
            {"prompt": lambda i: f"q{i}", "voter": lambda i: f"v{i % 3}"},
            "cannot tell: these 3 voters cannot stand for others; here v2 is at +120 points",
        ),
    ],
)
def test_the_gate_ends_with_3_and_says_why(tmp_path: Path, columns, sentence):
    write_battles(tmp_path / "battles.jsonl", rows(300, **columns))
    done = within.run(tmp_path, "gate", "v2", "v1", "--in", "battles.jsonl")
    assert done.returncode == 3
    assert done.stdout.startswith(sentence)
    assert math.isclose(120.4, 400 * math.log10(2), abs_tol=0.1)  # two wins to one


def test_battles_of_others_do_not_make_up_for_missing_ids():
    """None of the battles between the two names its prompt; 1,500 others do."""
    rows = [
        {"model_a": "new", "model_b": "old", "winner": "model_b" if i % 5 == 0 else "model_a", "source": "llm-judge"}
        for i in range(60)
    ]
    for i in range(1600):
        a, b = ("new", "t1") if i < 50 else ("old", "t2") if i < 100 else ("t1", "t2")
        who = ("model_a", "model_b")[i // 2 % 2]
        rows.append({"model_a": a, "model_b": b, "winner": who, "source": "llm-judge", "question_id": f"p{i % 40}"})
    result = ty.compare("new", "old", battles=rows).gate()
    assert result.verdict == "unknown"
    assert "60 of 110 battles name no prompt" in result.sentence

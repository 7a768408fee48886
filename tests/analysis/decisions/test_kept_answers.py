"""What the verbs answer can be copied, pickled and compared, worst cases and pages included."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import pytest
from decision_rows import field
from lost_verdicts import run_folder

import tiltyard as ty

SCORES = [
    {"model": model, "prompt": f"p{i}", "accuracy": (i + shift) % 3 > 0, "latency": 1.0 + (i * 7 + shift) % 5}
    for i in range(40)
    for shift, model in enumerate(("v2", "v1"))
]


def answers(folder: Path) -> dict[str, Any]:
    lost: list[Any] = [(f"p{i}", "v2", "v1", ("v2", "v1", "v2", None)[i % 4]) for i in range(60)]
    run = run_folder(folder / "run", lost)
    by_scores = ty.compare("v2", "v1", battles=SCORES, score=["accuracy", "latency:lower"])
    return {
        "difference": ty.compare("v2", "v1", battles=field(1)),
        "worst case": ty.compare("v2", "v1", battles=run, missing="worst"),
        "run": ty.compare(run, run),
        "gate": ty.gate("v2", "v1", battles=run),
        "scores": next(iter(by_scores.metrics.values())),
        "metrics": by_scores,
        "gate of metrics": by_scores.metrics["accuracy"].gate(),
        "plan": ty.plan("v2", "v1", battles=field(1)),
        "board plan": ty.plan(battles=field(1), top=1),
        "score plan": ty.plan("v2", "v1", battles=SCORES, score=["accuracy"]),
        "score board": ty.rate(SCORES, score=["accuracy"]),
    }


def test_answers_can_be_copied_pickled_and_compared(tmp_path: Path) -> None:
    for name, answer in answers(tmp_path).items():
        for again in (copy.copy(answer), copy.deepcopy(answer), pickle.loads(pickle.dumps(answer))):
            assert again == answer, name
            assert again.render() == answer.render(), name
            assert again.to_json() == answer.to_json(), name


def test_other_data_make_another_answer() -> None:
    one, other = (ty.compare("v2", "v1", battles=field(seed)) for seed in (1, 2))
    assert one != other
    assert one.gate() != other.gate()
    with pytest.raises(TypeError):
        hash(one)

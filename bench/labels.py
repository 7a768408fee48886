"""People's labels correcting a judge: do intervals hold people's strengths, and how much does the judge save?"""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from bench.jobs import job
from bench.measure import ROOT, Task, in_worker
from bench.report import Row

if TYPE_CHECKING:
    from bench.rows import Plan

JUDGES: dict[str, dict[str, float]] = {
    "good": {"link": 0.9},
    "good, noisier": {"link": 0.6},
    "likes a style": {"link": 0.8, "style": 0.6},
    "likes a style, noisier": {"link": 0.5, "style": 0.8},
    "compresses": {"link": 0.8, "slope": 0.3},
    "weak": {"link": 0.2, "slope": 0.5, "style": 0.4},
    "useless": {"link": 0.0, "slope": 0.0},
}
LABELS = (60, 150, 400)
STYLE = {"link": 0.8, "style": 0.6}
OTHERS: dict[str, dict[str, Any]] = {
    "30 voters": {**STYLE, "labels": 400, "voters": 30},
    "8 voters": {**STYLE, "labels": 400, "voters": 8},
    "whole prompts": {**STYLE, "whole_prompts": True},
    "three people each": {**STYLE, "labels": 100, "people_each": 3, "voters": 30},
    "half of the verdicts are ties": {**STYLE, "judge_ties": 3.0},
    "12 models": {**STYLE, "models": 12, "labels": 200},
    "20 prompts, effects of 1 logit": {**STYLE, "prompts": 20, "labels": 100, "interaction": 1.0},
    "both bad where the judge is biased": {"link": 0.8, "style": 1.2, "labels": 300, "both_bad": 0.6},
    "one voter has 40 %": {**STYLE, "labels": 300, "voters": 25, "dominant": 0.4},
    "30 labels": {**STYLE, "labels": 30},
    "20 labels": {**STYLE, "labels": 20},
}


@job
def correct(runs: int) -> Task:
    """Every world: coverage and widths of corrected, people-only and judge-only intervals on the same draws."""
    sys.path.insert(0, str(ROOT / "tests"))
    from oracles.labelled_worlds import LabelledWorld, hold

    worlds = {f"{name}, {n} labels": {**judge, "labels": n} for name, judge in JUDGES.items() for n in LABELS}
    worlds |= OTHERS

    def measure() -> dict[str, dict[str, float]]:
        return {name: asdict(hold(LabelledWorld(name, **options), runs)) for name, options in worlds.items()}

    return Task(measure, repeats=1)


def labels(plan: Plan) -> Row:
    """Coverage and width with the judge, without it, and of the judge alone."""
    runs = plan.size(400, 10)
    row = Row("labels", f"people's labels correct a judge, {runs} runs of each world")
    found = row.add("simulation", "tiltyard", in_worker("correct", {"runs": runs}), ours=True)
    slack = plan.size(0, 20) / 100
    for world, held in (found or {}).items():
        text = (
            f"{world}: agreement {100 * held['agreement']:.0f} %; covers {held['corrected']:.3f} (people alone "
            f"{held['people']:.3f}, judge alone {held['judge']:.3f}); ±{held['width']:.0f} points (people alone "
            f"±{held['people_width']:.0f}), λ {held['weight']:.2f}"
        )
        row.check(text, held["corrected"] >= 0.94 - slack and held["ratio"] <= 1.02 + slack)
    return row

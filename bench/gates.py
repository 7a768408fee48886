"""Gates over two models of known strength: false alarms of equal ones, power, and how many prompts peeking takes."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from bench.jobs import job
from bench.measure import ROOT, Task, in_worker
from bench.report import Row

if TYPE_CHECKING:
    from bench.rows import Plan

EQUAL = {
    "10 prompts, 1 verdict, no prompt effects": {"prompts": 10, "verdicts": 1, "spread": 0.0},
    "10 prompts, 4 verdicts, effects 1.5": {"prompts": 10, "verdicts": 4, "spread": 1.5},
    "30 prompts, 2 verdicts, effects 1": {"prompts": 30, "verdicts": 2, "spread": 1.0},
    "30 prompts, Zipf use, effects 1": {"prompts": 30, "verdicts": 2, "spread": 1.0, "zipf": 1.0},
    "60 prompts, 1 verdict, effects 0.5": {"prompts": 60, "verdicts": 1, "spread": 0.5},
}
"""Worlds of equal models; effects of prompts in logits."""

POWER_GAPS = (0.0, 30.0, 60.0, 100.0)
POWER_PROMPTS = (30, 100, 300)
CLEAR = {"prompts": 200, "verdicts": 1, "spread": 1.0, "gap": 200.0}
"""A clear difference: how early an anytime gate says so."""


@job
def gate(once: int, peeking: int, power: int) -> Task:
    """Shares of verdicts: equal models asked once and after every prompt, power by size, and a clear difference."""
    sys.path.insert(0, str(ROOT / "tests"))
    from oracles.gates import GateWorld, shares

    def measure() -> dict[str, Any]:
        equal = {name: shares(GateWorld(**world), once) for name, world in EQUAL.items()}
        peeked = {
            name: shares(GateWorld(**world), peeking, peek=True, anytime=True, seed=1) for name, world in EQUAL.items()
        }
        curve = {
            f"{prompts} prompts, {gap:.0f} points": shares(
                GateWorld(prompts=prompts, verdicts=1, spread=1.0, gap=gap), power, margin=30.0, seed=2
            )
            for prompts in POWER_PROMPTS
            for gap in POWER_GAPS
        }
        clear = shares(GateWorld(**CLEAR), max(power // 4, 5), peek=True, anytime=True, seed=3)
        return {"once": equal, "peeking": peeked, "power": curve, "clear": clear}

    return Task(measure, repeats=1)


def gates(plan: Plan) -> Row:
    """How often gates call equal models better or worse, asked once or after every prompt; and their power."""
    size = {"once": plan.size(2000, 60), "peeking": plan.size(200, 4), "power": plan.size(400, 20)}
    row = Row("gates", f"{size['once']} gates of each world, {size['peeking']} asked after every prompt")
    found = row.add("simulation", "tiltyard", in_worker("gate", size), ours=True)
    slack = plan.size(0, 20) / 100
    for kind in ("once", "peeking"):
        for world, shares in ((found or {}).get(kind) or {}).items():
            text = f"{world}, {kind}: better {100 * shares['better']:.1f} %, worse {100 * shares['worse']:.1f} %"
            row.check(text, shares["better"] <= 0.05 + slack and shares["worse"] <= 0.05 + slack)
    for size_and_gap, shares in ((found or {}).get("power") or {}).items():
        parts = ", ".join(f"{name} {100 * shares[name]:.0f} %" for name in ("better", "not_worse", "worse", "unknown"))
        row.check(f"margin 30, {size_and_gap}: {parts}", shares["worse"] <= 0.05 + slack)
    clear = (found or {}).get("clear")
    if clear:
        text = (
            f"200 points apart, asked after every prompt: decided after {clear['prompts']:.0f} of 200 prompts (median)"
        )
        row.goal(text, clear["prompts"] <= 100)
    return row

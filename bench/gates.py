"""Rows about decisions in simulated worlds: gates over two models of known strength, and people's labels that correct
a judge. The worlds are those of the tests."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from bench.measure import Row

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

STYLE = {"link": 0.8, "style": 0.6}
JUDGES: dict[str, dict[str, float]] = {
    "good": {"link": 0.9},
    "good, noisier": {"link": 0.6},
    "likes a style": STYLE,
    "likes a style, noisier": {"link": 0.5, "style": 0.8},
    "compresses": {"link": 0.8, "slope": 0.3},
    "weak": {"link": 0.2, "slope": 0.5, "style": 0.4},
    "useless": {"link": 0.0, "slope": 0.0},
}
LABELLED: dict[str, dict[str, Any]] = {
    **{f"{name}, {n} labels": {**judge, "labels": n} for name, judge in JUDGES.items() for n in (60, 150, 400)},
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


def gates(row: Row) -> None:
    """How often gates call equal models better or worse, asked once or after every prompt; and their power."""
    size = {"once": row.size(2000, 60), "peeking": row.size(200, 4), "power": row.size(400, 20)}
    row.title = f"{size['once']} gates of each world, {size['peeking']} asked after every prompt"
    found = row.ours("simulation", "tiltyard", gate, **size)
    if not found:
        return
    slack = row.size(0, 20) / 100
    for kind in ("once", "peeking"):
        for world, shares in found[kind].items():
            text = f"{world}, {kind}: better {100 * shares['better']:.1f} %, worse {100 * shares['worse']:.1f} %"
            row.check(text, shares["better"] <= 0.05 + slack and shares["worse"] <= 0.05 + slack)
    for size_and_gap, shares in found["power"].items():
        parts = ", ".join(f"{name} {100 * shares[name]:.0f} %" for name in ("better", "not_worse", "worse", "unknown"))
        row.check(f"margin 30, {size_and_gap}: {parts}", shares["worse"] <= 0.05 + slack)
    after = found["clear"]["prompts"]
    text = f"200 points apart, asked after every prompt: decided after {after:.0f} of 200 prompts (median)"
    row.goal(text, after <= 100)


def gate(once: int, peeking: int, power: int) -> dict[str, Any]:
    """Shares of verdicts: equal models asked once and after every prompt, power by size, and a clear difference."""
    from oracles.gates import GateWorld, shares

    worlds, peek = {name: GateWorld(**world) for name, world in EQUAL.items()}, {"peek": True, "anytime": True}
    return {
        "once": {name: shares(world, once) for name, world in worlds.items()},
        "peeking": {name: shares(world, peeking, **peek, seed=1) for name, world in worlds.items()},
        "power": {
            f"{n} prompts, {gap:.0f} points": shares(
                GateWorld(prompts=n, verdicts=1, spread=1.0, gap=gap), power, margin=30.0, seed=2
            )
            for n in POWER_PROMPTS
            for gap in POWER_GAPS
        },
        "clear": shares(GateWorld(**CLEAR), max(power // 4, 5), **peek, seed=3),
    }


def labels(row: Row) -> None:
    """Do intervals hold people's strengths, and how wide are they: with the judge, without it, of the judge alone."""
    runs = row.size(400, 10)
    row.title = f"people's labels correct a judge, {runs} runs of each world"
    slack = row.size(0, 20) / 100
    for world, held in (row.ours("simulation", "tiltyard", correct, runs=runs) or {}).items():
        text = (
            f"{world}: agreement {100 * held['agreement']:.0f} %; covers {held['corrected']:.3f} (people alone "
            f"{held['people']:.3f}, judge alone {held['judge']:.3f}); ±{held['width']:.0f} points (people alone "
            f"±{held['people_width']:.0f}), λ {held['weight']:.2f}"
        )
        row.check(text, held["corrected"] >= 0.94 - slack and held["ratio"] <= 1.02 + slack)


def correct(runs: int) -> dict[str, dict[str, float]]:
    from oracles.labelled_worlds import LabelledWorld, hold

    return {name: asdict(hold(LabelledWorld(name, **options), runs)) for name, options in LABELLED.items()}

"""Adaptive rounds on simulated tournaments: what they save, and whether what they decide is true.

5 entrants × 60 prompts, 12 × 143 and 20 × 500, as tournaments have them: every pair on every prompt could be judged.
Strengths are drawn with a spread of 139 or 69 points, or equal; a prompt moves every entrant by one logit (sd); 15 % of
the battles of equals are ties. The demo's recorded verdicts are replayed in many orders of its prompts.
"""

from __future__ import annotations

import asyncio
import math
from itertools import combinations
from typing import Any

import numpy as np

from bench.measure import ROOT, Row
from tiltyard.judge.verdicts import AdaptiveRounds, Design, ImaginedWorld, RoundGoal, RoundSettings, estimate
from tiltyard.judge.verdicts.adaptive import play
from tiltyard.stats import bonferroni_cuts, t_quantile

TIES = 0.15
WORLDS: dict[str, dict[str, Any]] = {
    "5 × 60, equal": {"entrants": 5, "prompts": 60, "spread": 0.0},
    "12 × 143, spread 139": {"entrants": 12, "prompts": 143, "spread": 0.8},
    "12 × 143, spread 69": {"entrants": 12, "prompts": 143, "spread": 0.4},
    "12 × 143, equal": {"entrants": 12, "prompts": 143, "spread": 0.0},
    "20 × 500, spread 139": {"entrants": 20, "prompts": 500, "spread": 0.8},
    "20 × 500, spread 69": {"entrants": 20, "prompts": 500, "spread": 0.4},
}
GOALS = ("top", "order", "width:100", "budget:4000")


def adaptive(row: Row) -> None:
    """What adaptive rounds save, and whether what they decide is true."""
    size = {"tournaments": row.size(200, 4), "large": row.size(60, 1), "replays": row.size(200, 5)}
    row.title = f"{size['tournaments']} tournaments of each world and goal, {size['large']} of 20 × 500"
    found = row.ours("simulation", "tiltyard", simulate, **size) or {"worlds": {}, "demo": {}}
    slack = row.size(0, 30) / 100
    for name, shares in found["worlds"].items():
        text = (
            f"{name}: {100 * shares['saved']:.1f} % saved in {shares['rounds']:.1f} rounds; best kept "
            f"{100 * shares['best_kept']:.1f} %; false {100 * shares['false']:.1f} % (everything judged "
            f"{100 * shares['full_false']:.1f} %); settled {100 * shares['settled']:.0f} %; {shares['separated']:.1f} "
            f"pairs told apart, everything judged {shares['full']:.1f}, {100 * shares['shared']:.1f} % of these; "
            f"intervals {100 * shares['covered']:.1f} %"
        )
        row.check(text, shares["false"] <= 0.05 + slack and shares["covered"] >= 0.94 - slack)
        if "equal" not in name and name.endswith("top"):
            row.goal(f"{name}: 70 % saved, best kept in 98 %", shares["saved"] >= 0.7 and shares["best_kept"] >= 0.98)
        if "equal" not in name and name.endswith("order"):
            row.goal(f"{name}: 50 % saved, 95 % of the pairs", shares["saved"] >= 0.5 and shares["shared"] >= 0.95)
    for name, shares in found["demo"].items():
        row.check(
            f"{name}: {100 * shares['saved']:.1f} % saved; best kept {100 * shares['best_kept']:.1f} %; settled "
            f"{100 * shares['settled']:.0f} %; {shares['separated']:.1f} pairs told apart, everything judged "
            f"{shares['full']}",
            shares["best_kept"] >= 0.95 - slack,
        )


def simulate(tournaments: int, large: int, replays: int) -> dict[str, Any]:
    """Every world and goal, and the replayed demo."""
    found: dict[str, Any] = {}
    for name, world in WORLDS.items():
        for goal in GOALS if world["entrants"] == 12 else GOALS[:2]:
            times = large if world["entrants"] > 12 else tournaments
            every = [played(goal, seed, **world) for seed in range(times)]
            found[f"{name}, until {goal}"] = {key: float(np.mean([one[key] for one in every])) for key in every[0]}
    return {"worlds": found, "demo": replayed(replays)}


def whole_design(entrants: int, prompts: int, seed: int) -> Design:
    """Every pair on every prompt."""
    pairs = np.array(list(combinations(range(entrants), 2)))
    first, second = (np.repeat(pairs[:, side], prompts) for side in (0, 1))
    prompt = np.tile(np.arange(prompts), len(pairs))
    return Design.of(first, second, prompt, n_entrants=entrants, n_prompts=prompts, seed=seed)


def played(goal: str, seed: int, *, entrants: int, prompts: int, spread: float) -> dict[str, float]:
    """What adaptive rounds do in one tournament.

    `best_kept`: every entrant that is as good as the best is among the contenders. `false`: some order that matters to
    the goal is wrong (for `top` such an entrant is out). `separated` and `full` are pairs told apart by the rounds and
    by judging everything; `shared` is the part of the latter that the rounds tell apart too. `covered`: printed
    intervals that hold the truth.
    """
    from oracles.simulation import population_strengths

    design = whole_design(entrants, prompts, seed)
    world = ImaginedWorld(spread=spread, ties=TIES)
    strength, outcomes = world.draw(design, np.random.default_rng([77, seed]))
    rounds = AdaptiveRounds(design, RoundSettings(goal=RoundGoal.parse(goal), seed=seed))
    play(rounds, outcomes)
    truth = population_strengths(strength, world.effects, "davidson", math.log(2.0 * TIES / (1.0 - TIES)))
    everything = np.arange(len(design))
    full = estimate(design, everything, outcomes(everything), np.full(len(design), np.nan))
    assert full is not None
    apart = told_apart(full)
    above = rounds.decision.above
    not_better = strength[:, None] <= strength[None, :]
    kept = set(np.flatnonzero(strength == strength.max()).tolist()) <= set(rounds.contenders)
    return {
        "saved": 1.0 - float(rounds.judged.mean()),
        "rounds": len(rounds.records),
        "settled": rounds.settled,
        "best_kept": kept,
        "false": not kept if goal == "top" else bool((above & not_better).any()),
        "covered": _covered(rounds, truth - truth.mean()),
        "separated": float(above.sum()),
        "full": float(apart.sum()),
        "shared": float((above & apart).sum() / max(apart.sum(), 1)),
        "full_false": bool((apart & not_better).any()),
    }


def told_apart(fit: Any) -> np.ndarray[Any, Any]:
    gap = fit.strength[:, None] - fit.strength[None, :]
    return gap > bonferroni_cuts(fit.degrees, 0.95) * np.sqrt(fit.variance)


def _covered(rounds: AdaptiveRounds, truth: np.ndarray[Any, Any]) -> float:
    """The share of printed intervals that hold the truth."""
    fit, settings = rounds.estimates, rounds.settings
    assert fit is not None
    half = t_quantile(settings.interval_level, fit.degrees) * np.sqrt(fit.own_variance)
    return float((np.abs(fit.strength - truth) <= half).mean())


def replayed(times: int) -> dict[str, Any]:
    """The demo's recorded verdicts in many orders: what is saved, and whether the best of the full run is found."""
    found: dict[str, Any] = {}
    for dimension, (design, outcome, score) in _demo().items():
        full = estimate(design, np.arange(len(design)), outcome, score)
        assert full is not None
        best = int(np.argmax(full.strength))
        for goal in ("top", "order"):
            every = []
            for seed in range(times):
                sizes = {"n_entrants": design.n_entrants, "n_prompts": design.n_prompts}
                order = Design.of(design.first, design.second, design.prompt, **sizes, seed=seed)
                rounds = AdaptiveRounds(order, RoundSettings(goal=RoundGoal(goal), seed=seed))
                while len(cases := rounds.next_cases()):
                    rounds.take(cases, outcome[cases], score[cases])
                saved, apart = 1.0 - float(rounds.judged.mean()), rounds.decision.above.sum()
                every.append((saved, best in rounds.contenders, rounds.settled, apart))
            means = zip(("saved", "best_kept", "settled", "separated"), np.mean(every, axis=0).tolist(), strict=True)
            found[f"demo, {dimension}, until {goal}"] = {**dict(means), "full": int(told_apart(full).sum())}
    return found


def _demo() -> dict[str, tuple[Design, Any, Any]]:
    """The demo's tournament as designs with the outcome of every case."""
    from tiltyard.judge.tournament import asking_parts, load_setup, make_judge, make_judging_plan, make_plan
    from tiltyard.judge.tournament.rounds import make_states, outcomes_of
    from tiltyard.judge.verdicts import judge
    from tiltyard.options import RunOptions

    config = ROOT / "src" / "tiltyard" / "verbs" / "demo" / "material" / "tournament.yaml"
    plan = make_plan(load_setup(config), RunOptions(mode="headline"))
    asking = asking_parts(plan.setup, print, budget_usd=None, max_batch=None)
    recorded = make_judge(plan.setup, plan.judge_model, asking)
    judged = asyncio.run(judge(make_judging_plan(plan), recorded))
    states = make_states(
        plan.matches.by_dimension, plan.setup.entrant_ids, RoundSettings(goal=RoundGoal("top")), calls_per_case=2
    )
    return {
        name: (state.rounds.design, *outcomes_of(judged.judgments[name], len(state.rounds.design)))
        for name, state in states.items()
    }

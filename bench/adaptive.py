"""Adaptive rounds on simulated tournaments: what they save, and whether what they decide is true.

5 entrants × 60 prompts, 12 × 143 and 20 × 500, as tournaments have them: every pair on every prompt could be judged.
Strengths are drawn with a spread of 139 or 69 points, or equal; a prompt moves every entrant by one logit (sd); 15 % of
the battles of equals are ties. The demo's recorded verdicts are replayed in many orders of its prompts.
"""

from __future__ import annotations

import math
import sys
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.jobs import job
from bench.measure import ROOT, Task, in_worker
from bench.report import Row
from tiltyard.judging.adaptive import AdaptiveRounds, Design, ImaginedWorld, RoundGoal, RoundSettings, estimate, play
from tiltyard.ratings.quantiles import t_quantile
from tiltyard.ratings.ranks import bonferroni_cuts

if TYPE_CHECKING:
    from bench.rows import Plan

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


@dataclass(frozen=True)
class Played:
    """Means over tournaments.

    `best_kept`: every entrant that is as good as the best is among the contenders. `false`: some order that matters to
    the goal is wrong (for `top` such an entrant is out). `separated` and `full` are pairs told apart by the rounds and
    by judging everything; `shared` is the part of the latter that the rounds tell apart too. `covered`: printed
    intervals that hold the truth.
    """

    saved: float
    rounds: float
    settled: float
    best_kept: float
    false: float
    covered: float
    separated: float
    full: float
    shared: float
    full_false: float


@job
def adaptive(tournaments: int, large: int, replays: int) -> Task:
    """Every world and goal, and the replayed demo."""

    def measure() -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, world in WORLDS.items():
            times = large if world["entrants"] > 12 else tournaments
            for goal in GOALS if world["entrants"] == 12 else GOALS[:2]:
                found[f"{name}, until {goal}"] = asdict(played(goal, times, **world))
        return {"worlds": found, "demo": replayed(replays)}

    return Task(measure, repeats=1)


def whole_design(entrants: int, prompts: int, seed: int) -> Design:
    """Every pair on every prompt."""
    pairs = np.array(list(combinations(range(entrants), 2)))
    first, second = (np.repeat(pairs[:, side], prompts) for side in (0, 1))
    prompt = np.tile(np.arange(prompts), len(pairs))
    return Design.of(first, second, prompt, n_entrants=entrants, n_prompts=prompts, seed=seed)


def played(goal: str, times: int, *, entrants: int, prompts: int, spread: float) -> Played:
    """What adaptive rounds do in tournaments of one world."""
    rows = [_tournament(goal, entrants, prompts, spread, seed) for seed in range(times)]
    return Played(*map(float, np.mean([list(asdict(row).values()) for row in rows], axis=0)))


def _tournament(goal: str, entrants: int, prompts: int, spread: float, seed: int) -> Played:
    sys.path.insert(0, str(ROOT / "tests"))
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
    gap = full.strength[:, None] - full.strength[None, :]
    apart = gap > bonferroni_cuts(full.degrees, 0.95) * np.sqrt(full.variance)
    above = rounds.decision.above
    not_better = strength[:, None] <= strength[None, :]
    kept = set(np.flatnonzero(strength == strength.max()).tolist()) <= set(rounds.contenders)
    return Played(
        saved=1.0 - float(rounds.judged.mean()),
        rounds=len(rounds.records),
        settled=rounds.settled,
        best_kept=kept,
        false=not kept if goal == "top" else bool((above & not_better).any()),
        covered=_covered(rounds, truth - truth.mean()),
        separated=float(above.sum()),
        full=float(apart.sum()),
        shared=float((above & apart).sum() / max(apart.sum(), 1)),
        full_false=bool((apart & not_better).any()),
    )


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
            saved, kept, settled, told = [], [], [], []
            for seed in range(times):
                order = Design.of(
                    design.first,
                    design.second,
                    design.prompt,
                    n_entrants=design.n_entrants,
                    n_prompts=design.n_prompts,
                    seed=seed,
                )
                rounds = AdaptiveRounds(order, RoundSettings(goal=RoundGoal(goal), seed=seed))
                while len(cases := rounds.next_cases()):
                    rounds.take(cases, outcome[cases], score[cases])
                saved.append(1.0 - float(rounds.judged.mean()))
                kept.append(best in rounds.contenders)
                settled.append(rounds.settled)
                told.append(int(rounds.decision.above.sum()))
            figures = {"saved": saved, "best_kept": kept, "settled": settled, "separated": told}
            found[f"demo, {dimension}, until {goal}"] = {key: float(np.mean(value)) for key, value in figures.items()}
            gap = full.strength[:, None] - full.strength[None, :]
            apart = gap > bonferroni_cuts(full.degrees, 0.95) * np.sqrt(full.variance)
            found[f"demo, {dimension}, until {goal}"]["full"] = int(apart.sum())
    return found


def _demo() -> dict[str, tuple[Design, Any, Any]]:
    """The demo's tournament as designs with the outcome of every case."""
    import asyncio

    from tiltyard.judging.judge import judge
    from tiltyard.options import RunOptions
    from tiltyard.tournament.config import load_setup
    from tiltyard.tournament.plan import make_plan
    from tiltyard.tournament.rounds import make_states, outcomes_of
    from tiltyard.tournament.run import asking_parts, make_judge, make_judging_plan

    config = ROOT / "src" / "tiltyard" / "demo" / "material" / "tournament.yaml"
    plan = make_plan(load_setup(config), RunOptions(mode="headline"))
    asking = asking_parts(plan.setup, print, budget_usd=None, max_batch=None)
    recorded = make_judge(plan.setup, plan.judge_model, asking)
    judged = asyncio.run(judge(make_judging_plan(plan), recorded))
    states = make_states(plan, RoundSettings(goal=RoundGoal("top")), calls_per_case=2)
    return {
        name: (state.rounds.design, *outcomes_of(judged.judgments[name], len(state.rounds.design)))
        for name, state in states.items()
    }


def adaptive_rounds(plan: Plan) -> Row:
    """What adaptive rounds save, and whether what they decide is true."""
    size = {"tournaments": plan.size(200, 4), "large": plan.size(60, 1), "replays": plan.size(200, 5)}
    row = Row("adaptive", f"{size['tournaments']} tournaments of each world and goal, {size['large']} of 20 × 500")
    found = row.add("simulation", "tiltyard", in_worker("adaptive", size), ours=True) or {}
    slack = plan.size(0, 30) / 100
    for name, shares in (found.get("worlds") or {}).items():
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
    for name, shares in (found.get("demo") or {}).items():
        row.check(
            f"{name}: {100 * shares['saved']:.1f} % saved; best kept {100 * shares['best_kept']:.1f} %; settled "
            f"{100 * shares['settled']:.0f} %; {shares['separated']:.1f} pairs told apart, everything judged "
            f"{shares['full']}",
            shares["best_kept"] >= 0.95 - slack,
        )
    return row

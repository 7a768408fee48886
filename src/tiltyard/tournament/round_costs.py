"""What adaptive rounds will probably cost, and how many calls a budget pays for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tiltyard.errors import OptionError
from tiltyard.judging.adaptive import FAILED, ImaginedWorld, estimate, forecast
from tiltyard.judging.judge import Judge, judge
from tiltyard.judging.panel import panel_members
from tiltyard.judging.plan import JudgingPlan
from tiltyard.judging.records import Judgment
from tiltyard.judging.round_choice import Design, RoundGoal
from tiltyard.judging.run_folder import read_object
from tiltyard.llm.asking import AskingSettings
from tiltyard.llm.prices import Quote
from tiltyard.llm.provider import MAKERS, parse_model_name
from tiltyard.tournament.plan import RunPlan
from tiltyard.tournament.rounds import ROUNDS_FILE, calls_of_a_case, make_states, outcomes_of

ENOUGH_TO_FORECAST = 20
"""Battles of each entrant from which on a forecast goes by earlier verdicts."""

MOST_READ = 200_000
"""Up to how many cases earlier verdicts are read for a forecast."""

TIMES = 5
"""How many tournaments a forecast imagines."""


def calls_of_budget(plan: RunPlan, asking: AskingSettings, quote: Quote | None) -> RunPlan:
    """The plan, with a budget in USD turned into a number of calls; one that was fixed in the run's folder stays.

    Parameters:
        plan: The run.
        asking: The budget, and whether batches are asked.
        quote: What the open questions of the full design cost; None for a judge without a price.
    """
    rounds = plan.rounds
    if rounds is None or rounds.goal != RoundGoal("budget"):
        return plan
    earlier = None if plan.options.output_dir is None else plan.options.output_dir / ROUNDS_FILE
    fixed = read_object(earlier).get("until") if earlier is not None and earlier.is_file() else None
    if isinstance(fixed, str) and fixed.startswith("budget:"):
        return replace(plan, rounds=replace(rounds, goal=RoundGoal.parse(fixed)))
    row = None if quote is None else quote.all_expected if quote.expected else quote.all
    makers = {parse_model_name(name).provider for name in panel_members(plan.judge_model) or (plan.judge_model,)}
    batches = asking.batch is not False and makers <= set(MAKERS)
    price = None if row is None or not row.queries else row.batch if batches else row.direct
    if asking.budget_usd is None or row is None or not price:
        raise OptionError(
            "until budget needs a budget in USD (--budget) and a judge whose price is known. "
            "Name the calls instead: --until budget:5000."
        )
    calls = int(asking.budget_usd / (price / row.queries))
    if calls < 1:
        raise OptionError(f"a budget of ${asking.budget_usd:g} does not pay for a single question. Allow more.")
    return replace(plan, rounds=replace(rounds, goal=RoundGoal("budget", calls)))


@dataclass(frozen=True, slots=True)
class Forecast:
    """What the rounds of a run will probably take: calls, and the share of the full design, over all dimensions."""

    low: int
    median: int
    high: int
    full: int
    from_verdicts: bool
    goal: RoundGoal

    @property
    def share(self) -> float:
        """The median's part of the full design."""
        return self.median / self.full if self.full else 0.0

    def line(self) -> str:
        """The forecast in one line."""
        supposed = (
            "with the strengths of earlier verdicts" if self.from_verdicts else "of entrants 87 points apart (sd)"
        )
        return (
            f"rounds until {self.goal}: probably about {self.median:,} calls ({self.low:,} to {self.high:,} in "
            f"imagined tournaments {supposed}), of {self.full:,} for everything: {100 * (1 - self.share):.0f} % saved"
        )


async def make_forecast(plan: RunPlan, judging_plan: JudgingPlan, silent: Judge) -> Forecast:
    """What the rounds will probably take, from verdicts that are there already or from a usual world.

    Parameters:
        plan: The run; `plan.rounds` says how rounds go.
        judging_plan: Everything that could be judged.
        silent: A judge that asks nothing.
    """
    assert plan.rounds is not None
    states = make_states(plan, plan.rounds, calls_per_case=await calls_of_a_case(judging_plan, silent))
    if plan.rounds.goal.kind == "budget":
        full = sum(len(state.rounds.design) * state.rounds.settings.calls_per_case for state in states.values())
        calls = min(full, int(plan.rounds.goal.limit or full))
        return Forecast(calls, calls, calls, full, False, plan.rounds.goal)
    size = sum(len(state.rounds.design) for state in states.values())
    known: dict[str, Sequence[Judgment]] = {}
    if size <= MOST_READ:
        cases_only = JudgingPlan(judging_plan.rubrics, judging_plan.cases)
        known = dict((await judge(cases_only, silent, skip_judging=True, single_order=True)).judgments)
    totals, seen = np.zeros(TIMES, dtype=np.int64), False
    for name, state in states.items():
        world, from_verdicts = _world(state.rounds.design, known.get(name, ()))
        seen = seen or from_verdicts
        taken = forecast(state.rounds.design, state.rounds.settings, world, times=TIMES)
        totals += np.array(taken) * state.rounds.settings.calls_per_case
    full = sum(len(state.rounds.design) * state.rounds.settings.calls_per_case for state in states.values())
    return Forecast(int(totals[0]), int(np.median(totals)), int(totals[-1]), full, seen, plan.rounds.goal)


def _world(design: Design, judgments: Sequence[Judgment]) -> tuple[ImaginedWorld, bool]:
    """A world like the verdicts that are there; the usual one where there are too few."""
    if not judgments:
        return ImaginedWorld(), False
    outcome, score = outcomes_of(judgments, len(design))
    rows = np.flatnonzero(outcome != FAILED)
    here = np.zeros(len(design), dtype=bool)
    here[rows] = True
    if not len(rows) or design.per_entrant(here).min() < ENOUGH_TO_FORECAST:
        return ImaginedWorld(), False
    fit = estimate(design, rows, outcome[rows], score[rows])
    return (ImaginedWorld(), False) if fit is None else (ImaginedWorld(strength=fit.strength), True)

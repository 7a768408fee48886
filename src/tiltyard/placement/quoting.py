"""What a placement will ask at most, before anything is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tiltyard.judging.plan import JudgingPlan
from tiltyard.placement.calibration import sample_pairs
from tiltyard.placement.panel import planned_battle
from tiltyard.placement.plan import seats_as_cells
from tiltyard.placement.rounds import make_case

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tiltyard.placement.cells import Exchange
    from tiltyard.placement.plan import PlacementPlan


def likely_exchanges(plan: PlacementPlan) -> list[Exchange]:
    """Exchanges like those that the run will choose, as many as it will judge at most.

    Later rounds depend on verdicts that nobody has given yet; their number does not, and their length hardly.
    """
    if plan.panel is not None:
        cells = [cell for cell in seats_as_cells(plan.arena.cells, plan.panel) if cell is not None]
        return plan.arena.exchanges(cells[: sum(plan.sizes)])
    rng = np.random.default_rng(np.random.SeedSequence(plan.options.seed).spawn(2)[0])
    chosen = plan.chooser().choose(sum(plan.sizes), None, [], rng)
    return plan.arena.exchanges([int(plan.usable[cell]) for cell in chosen])


def likely_judging_plan(plan: PlacementPlan, exchanges: list[Exchange], answers: Mapping[str, str]) -> JudgingPlan:
    """What the judge would hear; where the new model has not answered yet, something as long as the opponent's answer.

    It must not be the same text: both orders would then be one question, and the quote half of what is asked.
    """
    cases = []
    for exchange in exchanges:
        answer = answers.get(exchange.question_id, f"{exchange.answer} …")
        cases.append(make_case(plan, planned_battle(exchange, model_first=True), exchange, answer))
    if plan.options.calibrate:
        cases += [pair.case for pair in sample_pairs(plan)]
    return JudgingPlan({plan.rubric.dimension: plan.rubric}, {plan.rubric.dimension: cases})

"""Calibration: the judge judges battles that people decided, and is compared with them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from tiltyard.bank import Prompt
from tiltyard.battles.battle import Outcome
from tiltyard.errors import OptionError
from tiltyard.judging.human_agreement import LabelledPair, compare_with_people
from tiltyard.judging.judge import JudgingStats
from tiltyard.judging.plan import Case
from tiltyard.judging.records import Judgment, Matchup, VerdictLabel
from tiltyard.placement.manifest import Agreement, Flips
from tiltyard.placement.plan import PlacementPlan, decided_pairs
from tiltyard.placement.rounds import Participants, judge_cases
from tiltyard.validity.agreement import Estimate

_SAID = {Outcome.A: VerdictLabel.A, Outcome.B: VerdictLabel.B, Outcome.TIE: VerdictLabel.TIE}


@dataclass(frozen=True, slots=True)
class JudgeCalibration:
    """The sample of human-decided battles, the judge's verdict on each, and the comparison."""

    pairs: list[LabelledPair]
    judgments: list[Judgment]
    stats: JudgingStats
    agreement: Agreement
    flips: Flips | None

    def lines(self) -> list[dict[str, Any]]:
        """The contents of `calibration.jsonl`."""
        labels = {VerdictLabel.A: Outcome.A.label, VerdictLabel.B: Outcome.B.label, VerdictLabel.TIE: Outcome.TIE.label}
        return [
            {
                **msgspec.to_builtins(judgment),
                "human_winner": labels[pair.people] if pair.people is not None else None,
                "weight": 1,
            }
            for pair, judgment in zip(self.pairs, self.judgments, strict=True)
        ]


def sample_pairs(plan: PlacementPlan) -> list[LabelledPair]:
    """Battles that people decided, drawn by seed: distinct pairs of answers, as many as were asked for."""
    arena, wanted = plan.arena, plan.options.calibrate
    chosen = _distinct(plan)
    if not len(chosen):
        raise OptionError(
            f"{arena.name} has no battle that people decided with both texts: the judge cannot be calibrated. "
            "Leave the calibration out, or use an arena with texts."
        )
    rng = np.random.default_rng([plan.options.seed, 1])
    places = np.sort(rng.permutation(chosen)[:wanted])
    first = arena.exchanges([int(cell) for cell in arena.pairs.first[places]])
    second = arena.exchanges([int(cell) for cell in arena.pairs.second[places]])
    pairs = []
    for place, a, b in zip(places.tolist(), first, second, strict=True):
        matchup = Matchup(
            prompt_id=a.question_id, dimension=plan.rubric.dimension, entrant_a=a.model, entrant_b=b.model
        )
        case = Case(matchup, Prompt(prompt_id=a.question_id, text=a.prompt), a.answer, b.answer)
        pairs.append(LabelledPair(case, _SAID[Outcome(int(arena.pairs.outcome[place]))]))
    return pairs


def _distinct(plan: PlacementPlan) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The first vote on each pair of answers: the judge is asked about a pair once, however many people voted on it."""
    arena = plan.arena
    decided = decided_pairs(arena, plan.model)
    cells = len(arena.cells)
    first, second = arena.pairs.first[decided].astype(np.int64), arena.pairs.second[decided].astype(np.int64)
    key = np.minimum(first, second) * cells + np.maximum(first, second)
    return decided[np.unique(key, return_index=True)[1]]


async def calibrate_judge(
    plan: PlacementPlan, participants: Participants, pairs: list[LabelledPair]
) -> JudgeCalibration:
    """Have the judge judge the sample."""
    judgments, stats = await judge_cases(plan, participants, [pair.case for pair in pairs], first=True)
    found = compare_with_people(
        pairs, judgments, judge_model=participants.judge.name, both_orders=plan.options.swap == "both"
    )
    agreed = found.agreement
    agreement = Agreement(value=agreed.value, low=agreed.low, high=agreed.high, n=agreed.n)
    flips = flip_facts(found.bias.flip_rate) if plan.options.swap == "both" else None
    return JudgeCalibration(pairs, judgments, stats, agreement, flips)


def flip_facts(rate: Estimate) -> Flips:
    """A flip rate as written in a manifest."""
    return Flips(share=rate.value, low=rate.low, high=rate.high, n=rate.n)

"""The rounds of a placement: choose battles, get answers, judge, rate the model, and continue or stop.

Before them the calibration: the judge judges battles that people decided, and is compared with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import accumulate

import msgspec
import numpy as np

from tiltyard.data.bank import Prompt
from tiltyard.data.battles import BattleTable, Outcome, concat, read_battles
from tiltyard.errors import JudgingError, ModelError, OptionError, RatingError
from tiltyard.judge.llm import Watch
from tiltyard.judge.placement.answers import Answers
from tiltyard.judge.placement.human_arena import Exchange
from tiltyard.judge.placement.plan import PlacementPlan, panel_cells
from tiltyard.judge.placement.rating import NewModelRating, rate_new_model
from tiltyard.judge.placement.sampling import PlannedBattle, planned_battle
from tiltyard.judge.placement.stopping import decide
from tiltyard.judge.verdicts import (
    Case,
    Judge,
    JudgingPlan,
    JudgingStats,
    Judgment,
    Matchup,
    OnVerdict,
    add_stats,
    judge,
    to_battle,
)
from tiltyard.stats import JudgeScale

GIVE_UP_AFTER = 10
"""If the first this many questions all end without a readable verdict, the run gives up on the judge."""

NO_ANSWER = "no answer"


class PanelBattle(msgspec.Struct, frozen=True):
    """One battle of the panel: the opponent, both answers, and the judgment; None if the model gave no answer."""

    planned: PlannedBattle
    exchange: Exchange
    answer: str | None
    judgment: Judgment | None


class RoundResult(msgspec.Struct, frozen=True):
    """The estimate after a round; None if the battles did not yet allow a rating."""

    round: int
    battles: int
    rating: NewModelRating | None


class Participants(msgspec.Struct):
    """The judge, the source of answers, and the callbacks."""

    judge: Judge
    answers: Answers
    watch: Watch | None = None
    on_verdict: OnVerdict | None = None
    on_round: Callable[[RoundResult], None] | None = None


class PanelResult(msgspec.Struct):
    """The result of all rounds."""

    battles: list[PanelBattle] = msgspec.field(default_factory=list)
    rounds: list[RoundResult] = msgspec.field(default_factory=list)
    stats: JudgingStats = msgspec.field(default_factory=lambda: JudgingStats(0, 0))
    stopped: str = "all planned battles were judged"

    @property
    def judgments(self) -> list[Judgment]:
        return [battle.judgment for battle in self.battles if battle.judgment is not None]


async def run_rounds(plan: PlacementPlan, participants: Participants, scale: JudgeScale | None) -> PanelResult:
    """Judge the panel round by round, until it is done or the stopping rule applies."""
    result = PanelResult()
    for number, planned_battles in enumerate(_draws(plan, result, scale), start=1):
        await _judge_round(plan, participants, planned_battles, result)
        battles = judged_battles(result.judgments)
        rating = None
        with suppress(RatingError):  # such as ten ties in a row: later rounds may allow one
            rating = rate_new_model(plan.recipe, plan.people, concat([battles, plan.human]), result.judgments, scale)
        last = RoundResult(number, len(battles), rating)
        result.rounds.append(last)
        if participants.on_round is not None:
            participants.on_round(last)
        if rating is not None:
            entry = rating.entry
            reason = decide(
                plan.until,
                battles=last.battles,
                interval=(entry.ci_low, entry.ci_high),
                ranks=(entry.rank_low or 1, entry.rank_high or len(rating.board)),
            )
            if reason is not None:
                result.stopped = reason
                break
    return result


def _draws(
    plan: PlacementPlan, result: PanelResult, scale: JudgeScale | None
) -> Iterator[list[tuple[PlannedBattle, Exchange]]]:
    """The battles of each round, chosen when it begins from the results so far; or those of a saved panel."""
    if plan.panel is not None:
        cells = [cell for cell in panel_cells(plan.arena.cells, plan.panel) if cell is not None]
        for start, size in zip(accumulate(plan.sizes, initial=0), plan.sizes, strict=False):
            part = slice(start, start + size)
            yield list(zip(plan.panel.battles[part], plan.arena.exchanges(cells[part]), strict=True))
        return
    # Sides are drawn from a separate stream: the same battles have the same sides however they were chosen.
    rng, sides = (np.random.default_rng(seed) for seed in np.random.SeedSequence(plan.options.seed).spawn(2))
    chooser = plan.chooser(scale)
    taken: list[int] = []
    for size in plan.sizes:
        last = result.rounds[-1].rating if result.rounds else None
        chosen = chooser.choose(size, None if last is None else last.belief, taken, rng)
        if not len(chosen):
            return
        taken += chosen.tolist()
        exchanges = plan.arena.exchanges([int(plan.usable[cell]) for cell in chosen])
        first = sides.random(len(exchanges)) < 0.5
        both = plan.options.swap == "both"
        yield [
            (planned_battle(exchange, model_first=both or bool(lead)), exchange)
            for exchange, lead in zip(exchanges, first, strict=True)
        ]


async def _judge_round(
    plan: PlacementPlan,
    participants: Participants,
    planned_battles: list[tuple[PlannedBattle, Exchange]],
    result: PanelResult,
) -> None:
    answers = await participants.answers.get([exchange for _, exchange in planned_battles])
    cases = [
        make_case(plan, planned, exchange, answers[planned.question_id])
        for planned, exchange in planned_battles
        if planned.question_id in answers
    ]
    judgments, stats = await judge_cases(plan, participants, cases, first=not result.battles)
    result.stats = add_stats(result.stats, stats)
    settled = iter(judgments)
    for planned, exchange in planned_battles:
        answer = answers.get(planned.question_id)
        result.battles.append(PanelBattle(planned, exchange, answer, None if answer is None else next(settled)))
    if not result.judgments:
        why = next(iter(participants.answers.failed.values()), "no answer came")
        raise ModelError(
            f"{plan.model} answered none of the {len(result.battles)} questions ({why}), so there is nothing to judge. "
            "Check that its server is up and its name is right."
        )


async def judge_cases(
    plan: PlacementPlan, participants: Participants, cases: Sequence[Case], *, first: bool
) -> tuple[list[Judgment], JudgingStats]:
    """The judgments of some cases."""
    dimension = plan.rubric.dimension
    judged = await judge(
        JudgingPlan({dimension: plan.rubric}, {dimension: cases}),
        participants.judge,
        single_order=plan.options.swap == "random",
        prewarm=first and len(cases) > 1,
        give_up_after=GIVE_UP_AFTER if first else None,
        watch=participants.watch,
        on_verdict=participants.on_verdict,
    )
    return list(judged.judgments[dimension]), judged.stats[dimension]


def make_case(plan: PlacementPlan, planned: PlannedBattle, exchange: Exchange, answer: str) -> Case:
    """What the judge is shown of a battle; the model shown first is entrant_a."""
    sides = [(plan.model, answer), (planned.opponent, exchange.answer)]
    (name_a, text_a), (name_b, text_b) = sides if planned.first == "model" else sides[::-1]
    matchup = Matchup(
        prompt_id=planned.question_id, dimension=plan.rubric.dimension, entrant_a=name_a, entrant_b=name_b
    )
    return Case(matchup, Prompt(prompt_id=planned.question_id, text=exchange.prompt), text_a, text_b)


def judged_battles(judgments: Sequence[Judgment]) -> BattleTable:
    """The battles of the judgments that were settled.

    They answer the question that people were asked, whatever the rubric calls it: they are no dimension of their own.
    """
    # Where one order is judged here, it is drawn at random for each battle: sides favour nobody.
    rows = [
        {**battle.to_dict(), "one_order": False, "dimension": None}
        for judgment in judgments
        if (battle := to_battle(judgment)) is not None
    ]
    if not rows:
        raise JudgingError(
            f"none of the {len(judgments)} battles has a verdict that can be read, so there is nothing to rate. "
            "Look at the judge's replies in its verdict cache, or ask another judge."
        )
    return read_battles(rows)


class CalibrationLine(Judgment, frozen=True, kw_only=True):
    """A line of `calibration.jsonl`: the judge's verdicts on a battle that people decided."""

    human_winner: str
    """`model_a`, `model_b` or `tie` by people."""
    weight: int = 1


class JudgeCalibration(msgspec.Struct, frozen=True):
    """The sample of human-decided battles with the judge's verdict on each."""

    lines: list[CalibrationLine]
    stats: JudgingStats


def sample_pairs(plan: PlacementPlan) -> list[tuple[Case, Outcome]]:
    """Battles that people decided, drawn by seed: distinct pairs of answers, as many as were asked for.

    The judge is asked about a pair of answers once, however many people voted on it: the first vote counts.
    """
    arena, cells = plan.arena, plan.arena.cells
    first, second = arena.pairs.first.astype(np.int64), arena.pairs.second.astype(np.int64)
    rated = arena.pairs.outcome != Outcome.BOTH_BAD.code
    if plan.model in cells.models:
        code = list(cells.models).index(plan.model)
        rated &= (cells.model[first] != code) & (cells.model[second] != code)
    decided = np.flatnonzero(rated)
    key = np.minimum(first, second) * len(cells) + np.maximum(first, second)
    chosen = decided[np.unique(key[decided], return_index=True)[1]]
    if not len(chosen):
        raise OptionError(
            f"{arena.name} has no battle that people decided with both texts: the judge cannot be calibrated. "
            "Leave the calibration out, or use an arena with texts."
        )
    places = np.sort(np.random.default_rng([plan.options.seed, 1]).permutation(chosen)[: plan.options.calibrate])
    pairs = []
    sides = (arena.exchanges(cell[places].tolist()) for cell in (first, second))
    for place, a, b in zip(places.tolist(), *sides, strict=True):
        matchup = Matchup(
            prompt_id=a.question_id, dimension=plan.rubric.dimension, entrant_a=a.model, entrant_b=b.model
        )
        case = Case(matchup, Prompt(prompt_id=a.question_id, text=a.prompt), a.answer, b.answer)
        pairs.append((case, Outcome.of_code(int(arena.pairs.outcome[place]))))
    return pairs


async def calibrate_judge(plan: PlacementPlan, participants: Participants) -> JudgeCalibration:
    """Have the judge judge a sample of battles that people decided."""
    pairs = sample_pairs(plan)
    judgments, stats = await judge_cases(plan, participants, [case for case, _ in pairs], first=True)
    lines = [
        CalibrationLine(**msgspec.structs.asdict(judgment), human_winner=outcome.value)
        for (_, outcome), judgment in zip(pairs, judgments, strict=True)
    ]
    return JudgeCalibration(lines, stats)

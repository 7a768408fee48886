"""The rounds of a placement: choose battles, get answers, judge, look where the model stands, and go on or stop."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from tiltyard.bank import Prompt
from tiltyard.battles import read_battles
from tiltyard.battles.table import BattleTable, concat
from tiltyard.errors import JudgingError, ModelError, RatingError
from tiltyard.judging.judge import JudgingStats, judge
from tiltyard.judging.plan import Case, JudgingPlan
from tiltyard.judging.records import Judgment, Matchup, to_battle
from tiltyard.placement.panel import Panel, PlannedBattle, planned_battle
from tiltyard.placement.plan import seats_as_cells
from tiltyard.placement.rating import NewModelRating, rate_new_model
from tiltyard.placement.stopping import decide

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tiltyard.judging.judge import Judge, OnVerdict
    from tiltyard.llm.asking import Watch
    from tiltyard.placement.answers import Answers
    from tiltyard.placement.cells import Exchange
    from tiltyard.placement.plan import PlacementPlan
    from tiltyard.placement.sampling import Belief, Chooser
    from tiltyard.ratings.judge_scale import JudgeScale

GIVE_UP_AFTER = 10
"""When the first questions, this many, all end without a readable verdict, the judge is given up."""

NO_ANSWER = "no answer"


@dataclass(frozen=True, slots=True)
class PanelBattle:
    """One battle of the panel: who sat there, both answers, and the judgment; none where the model gave no answer."""

    seat: PlannedBattle
    exchange: Exchange
    answer: str | None
    judgment: Judgment | None


@dataclass(frozen=True, slots=True)
class RoundResult:
    """What was known after a round; None where the battles did not yet allow a rating."""

    round: int
    battles: int
    standing: NewModelRating | None


@dataclass(slots=True)
class Participants:
    """Who is asked, and who watches."""

    judge: Judge
    answers: Answers
    watch: Watch | None = None
    on_verdict: OnVerdict | None = None
    on_look: Callable[[RoundResult], None] | None = None


@dataclass(slots=True)
class PanelResult:
    """What the rounds came to."""

    bouts: list[PanelBattle] = field(default_factory=list)
    looks: list[RoundResult] = field(default_factory=list)
    stats: JudgingStats = field(default_factory=lambda: JudgingStats(0, 0))
    stopped: str = "all planned battles were judged"

    @property
    def judgments(self) -> list[Judgment]:
        """The judgments, failed ones included, in the order of the panel."""
        return [bout.judgment for bout in self.bouts if bout.judgment is not None]


async def hold_rounds(plan: PlacementPlan, bench: Participants, scale: JudgeScale | None) -> PanelResult:
    """Judge the panel round by round, until it is judged or the stopping rule says that it is enough."""
    held = PanelResult()
    for number, seats in enumerate(_draws(plan, held, scale), start=1):
        await _hear(plan, bench, seats, held)
        _check_answered(plan, bench, held)
        look = _look(plan, held, scale, number)
        held.looks.append(look)
        if bench.on_look is not None:
            bench.on_look(look)
        if look.standing is not None:
            entry = look.standing.entry
            reason = decide(
                plan.options.until,
                battles=look.battles,
                interval=(entry.ci_low, entry.ci_high),
                ranks=(entry.rank_low or 1, entry.rank_high or len(look.standing.board)),
            )
            if reason is not None:
                held.stopped = reason
                break
    return held


def _draws(
    plan: PlacementPlan, held: PanelResult, scale: JudgeScale | None
) -> Iterator[list[tuple[PlannedBattle, Exchange]]]:
    """The seats of each round, chosen when it begins, with what is known by then."""
    # The sides are drawn from a stream of their own: the same seats have the same sides however they were chosen.
    rng, sides = (np.random.default_rng(seed) for seed in np.random.SeedSequence(plan.options.seed).spawn(2))
    if plan.panel is not None:
        yield from _panel_draws(plan, plan.panel)
        return
    chooser = plan.chooser(scale)
    taken: list[int] = []
    for size in plan.sizes:
        chosen = _choose(chooser, size, held, taken, rng)
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


def _choose(
    chooser: Chooser, size: int, held: PanelResult, taken: list[int], rng: np.random.Generator
) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    belief: Belief | None = None
    if held.looks and held.looks[-1].standing is not None:
        belief = held.looks[-1].standing.belief
    return chooser.choose(size, belief, taken, rng)


def _panel_draws(plan: PlacementPlan, panel: Panel) -> Iterator[list[tuple[PlannedBattle, Exchange]]]:
    cells = [cell for cell in seats_as_cells(plan.arena.cells, panel) if cell is not None]
    start = 0
    for size in plan.sizes:
        part = slice(start, start + size)
        yield list(zip(panel.battles[part], plan.arena.exchanges(cells[part]), strict=True))
        start += size


async def _hear(
    plan: PlacementPlan, bench: Participants, seats: list[tuple[PlannedBattle, Exchange]], held: PanelResult
) -> None:
    """Get the answers and the verdicts of a round."""
    answers = await bench.answers.get([exchange for _, exchange in seats])
    cases = [
        make_case(plan, seat, exchange, answers[seat.question_id])
        for seat, exchange in seats
        if seat.question_id in answers
    ]
    judgments, stats = await hear_cases(plan, bench, cases, first=not held.bouts)
    held.stats = add_stats(held.stats, stats)
    found = iter(judgments)
    for seat, exchange in seats:
        answer = answers.get(seat.question_id)
        held.bouts.append(PanelBattle(seat, exchange, answer, None if answer is None else next(found)))


async def hear_cases(
    plan: PlacementPlan, bench: Participants, cases: Sequence[Case], *, first: bool
) -> tuple[list[Judgment], JudgingStats]:
    """What the judge says of some cases."""
    dimension = plan.rubric.dimension
    judged = await judge(
        JudgingPlan({dimension: plan.rubric}, {dimension: cases}),
        bench.judge,
        single_order=plan.options.swap == "random",
        prewarm=first and len(cases) > 1,
        give_up_after=GIVE_UP_AFTER if first else None,
        watch=bench.watch,
        on_verdict=bench.on_verdict,
    )
    return list(judged.judgments[dimension]), judged.stats[dimension]


def make_case(plan: PlacementPlan, seat: PlannedBattle, exchange: Exchange, answer: str) -> Case:
    """What the judge is shown of a battle; the one who stands first in the seat is entrant_a."""
    sides = [(plan.model, answer), (seat.opponent, exchange.answer)]
    (name_a, text_a), (name_b, text_b) = sides if seat.first == "model" else sides[::-1]
    matchup = Matchup(prompt_id=seat.question_id, dimension=plan.rubric.dimension, entrant_a=name_a, entrant_b=name_b)
    return Case(matchup, Prompt(prompt_id=seat.question_id, text=exchange.prompt), text_a, text_b)


def _check_answered(plan: PlacementPlan, bench: Participants, held: PanelResult) -> None:
    if not held.judgments:
        why = next(iter(bench.answers.failed.values()), "no answer came")
        raise ModelError(
            f"{plan.model} answered none of the {len(held.bouts)} questions ({why}), so there is nothing to judge. "
            "Check that its server is up and its name is right."
        )


def _look(plan: PlacementPlan, held: PanelResult, scale: JudgeScale | None, number: int) -> RoundResult:
    battles = judged_battles(held.judgments)
    standing = None
    if len(battles):
        try:
            standing = rate_new_model(plan.recipe, plan.field, concat([battles, plan.human]), held.judgments, scale)
        except RatingError:
            standing = None  # such as ten ties in a row: the next round will tell; the last one says it aloud
    return RoundResult(number, len(battles), standing)


def judged_battles(judgments: Sequence[Judgment]) -> BattleTable:
    """The battles of the judgments that were settled."""
    rows = [battle.to_dict() for judgment in judgments if (battle := to_battle(judgment)) is not None]
    if not rows:
        raise JudgingError(
            f"none of the {len(judgments)} battles has a verdict that can be read, so there is nothing to rate. "
            "Look at the judge's replies in its verdict cache, or ask another judge."
        )
    return read_battles(rows)


def add_stats(first: JudgingStats, second: JudgingStats) -> JudgingStats:
    """How two hearings went, together."""
    failures = dict(first.failures)
    for name, count in second.failures.items():
        failures[name] = failures.get(name, 0) + count
    return JudgingStats(
        cases=first.cases + second.cases,
        questions=first.questions + second.questions,
        cache_hits=first.cache_hits + second.cache_hits,
        fresh_calls=first.fresh_calls + second.fresh_calls,
        usage=first.usage + second.usage,
        failures=failures,
        missing=first.missing + second.missing,
        cost=None if first.cost is None or second.cost is None else first.cost + second.cost,
        replies_without_usage=first.replies_without_usage + second.replies_without_usage,
    )

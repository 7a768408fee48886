"""A tournament in adaptive rounds: each round is chosen from the verdicts so far, until a goal is reached."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np

from tiltyard.analysis.boards import Leaderboard, RoundsFacts, percent
from tiltyard.data.battles import Outcome
from tiltyard.errors import OptionError
from tiltyard.files import write_json
from tiltyard.judge.llm import MAKERS, AskingSettings, Quote, Watch, parse_model_name
from tiltyard.judge.tournament.plan import RunPlan
from tiltyard.judge.verdicts import (
    FAILED,
    AdaptiveRounds,
    Case,
    Design,
    ImaginedWorld,
    Judge,
    JudgingPlan,
    JudgingResult,
    JudgingStats,
    Judgment,
    LazySequence,
    OnVerdict,
    RoundGoal,
    RoundRecord,
    RoundSettings,
    add_stats,
    estimate,
    forecast,
    judge,
    panel_members,
    read_object,
    to_battle,
)
from tiltyard.types import Floats, Ints

ROUNDS_FILE = "rounds.json"
LARGEST_DESIGN = 200_000_000
"""Entrants × entrants × prompts, at most: beyond it the table of cases takes more than 2 GB."""

RESULT = {Outcome.A: 1.0, Outcome.B: 0.0, Outcome.TIE: 0.5}
"""What an outcome is worth to the first side."""


def some_cases(cases: Sequence[Case], places: Ints) -> Sequence[Case]:
    """Some cases of a longer list."""
    return LazySequence(len(places), lambda number: cases[int(places[number])])


class DimensionRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The rounds of one dimension."""

    prompts: list[str]
    """What could be asked about: with the manifest's entrants it gives every pair that could have been judged."""
    rounds: list[RoundRecord]
    looks: int
    """Rounds so far."""
    stopped: str | None
    """Why there is no further round."""
    settled: bool
    """Whether the question is answered."""
    decision: str
    """What was decided, in words."""
    calls: int
    """Calls that the judged pairs take."""
    calls_of_full_design: int
    saved: float
    """The share of them that was saved."""
    contenders: list[str]
    """Entrants that nobody is told apart above, strongest first."""
    told_apart: list[list[str]]
    """Pairs, the better one first."""
    given_up: list[list[str]]
    """Pairs that the rounds to come would hardly tell apart."""


class RoundsFile(msgspec.Struct, frozen=True, kw_only=True):
    """`rounds.json`: how adaptive rounds went, written after each; absent if everything was judged."""

    until: str
    """What the rounds go on for; a budget in USD is a number of calls here."""
    level: float
    """Confidence level of the decision in each dimension."""
    planned_looks: int
    """The most rounds: the error rate is divided over them."""
    interval_level: float
    """Level of the intervals in `ratings/<dimension>.json`."""
    opponents: int | None
    """`rounds.opponents`."""
    prompts_per_round: int | None
    """`rounds.prompts`."""
    seed: int
    """Draws the order of the prompts and varies the opponents."""
    dimensions: dict[str, DimensionRecord]


class DimensionRounds(msgspec.Struct):
    """The rounds of one dimension, with the judgments they brought."""

    rounds: AdaptiveRounds
    entrants: tuple[str, ...]
    cases: Sequence[Case]
    prompts: Sequence[str] = ()
    stats: JudgingStats = msgspec.field(default_factory=lambda: JudgingStats(0, 0))

    def names(self, codes: Sequence[int]) -> list[str]:
        return [self.entrants[code] for code in self._by_strength(codes)]

    def _by_strength(self, codes: Sequence[int]) -> list[int]:
        fit = self.rounds.estimates
        return sorted(codes, key=lambda code: 0.0 if fit is None else -float(fit.strength[code]))

    def record(self) -> DimensionRecord:
        rounds, above = self.rounds, self.rounds.decision.above
        per_case = rounds.settings.calls_per_case
        pairs = self._by_strength(range(len(self.entrants)))
        return DimensionRecord(
            prompts=list(self.prompts),
            rounds=rounds.records,
            looks=len(rounds.records),
            stopped=rounds.stopped,
            settled=rounds.settled,
            decision=decision_words(self),
            calls=int(rounds.judged.sum()) * per_case,
            calls_of_full_design=len(rounds.design) * per_case,
            saved=1.0 - float(rounds.judged.mean()) if len(rounds.design) else 0.0,
            contenders=self.names(rounds.contenders),
            told_apart=[[self.entrants[i], self.entrants[j]] for i in pairs for j in pairs if above[i, j]],
            given_up=[
                [self.entrants[i], self.entrants[j]]
                for place, i in enumerate(pairs)
                for j in pairs[place + 1 :]
                if rounds.decision.too_close[i, j]
            ],
        )


OnRound = Callable[[str, DimensionRounds], None]
"""Called after each round with the dimension and how it stands."""


class RoundsResult(msgspec.Struct, frozen=True):
    """All rounds of a run: what was judged, and how each dimension's rounds went."""

    settings: RoundSettings
    dimensions: dict[str, DimensionRounds]
    judging_plan: JudgingPlan
    judged: JudgingResult


def rounds_file(settings: RoundSettings, dimensions: Mapping[str, DimensionRounds]) -> RoundsFile:
    """What `rounds.json` says."""
    return RoundsFile(
        until=str(settings.goal),
        level=settings.level,
        planned_looks=settings.maximum,
        interval_level=settings.interval_level,
        opponents=settings.opponents,
        prompts_per_round=settings.prompts,
        seed=settings.seed,
        dimensions={name: state.record() for name, state in dimensions.items()},
    )


def _goal_of_dimension(goal: RoundGoal, dimensions: int) -> RoundGoal:
    """What the rounds of one dimension go on for: its share of a budget."""
    if goal.kind != "budget" or goal.limit is None:
        return goal
    return RoundGoal("budget", goal.limit // max(1, dimensions))


def make_states(
    cases_of: Mapping[str, Sequence[Case]], entrants: Sequence[str], settings: RoundSettings, *, calls_per_case: int
) -> dict[str, DimensionRounds]:
    """The rounds of every dimension, before the first."""
    goal = _goal_of_dimension(settings.goal, len(cases_of))
    settings = replace(settings, calls_per_case=calls_per_case, goal=goal)
    code = {name: place for place, name in enumerate(entrants)}
    states = {}
    for dimension, cases in cases_of.items():
        prompts: dict[str, int] = {}
        columns = np.empty((3, len(cases)), dtype=np.int64)
        for number, case in enumerate(cases):
            matchup = case.matchup
            prompt = prompts.setdefault(matchup.prompt_id, len(prompts))
            columns[:, number] = (code[matchup.entrant_a], code[matchup.entrant_b], prompt)
        if len(prompts) * len(entrants) ** 2 > LARGEST_DESIGN:
            raise OptionError(
                f"{len(entrants):,} entrants on {len(prompts):,} prompts are too many for adaptive rounds. Take fewer "
                "entrants or prompts, or judge everything with --until all."
            )
        design = Design.of(*columns, n_entrants=len(entrants), n_prompts=len(prompts), seed=settings.seed)
        states[dimension] = DimensionRounds(AdaptiveRounds(design, settings), tuple(entrants), cases, list(prompts))
    return states


async def calls_of_a_case(judging_plan: JudgingPlan, chosen: Judge) -> int:
    """How many calls one case takes: both orders, all judges of a panel, repeats. Nothing is asked."""
    for dimension, cases in judging_plan.cases.items():
        if len(cases):
            one = JudgingPlan({dimension: judging_plan.rubrics[dimension]}, {dimension: [cases[0]]})
            result = await judge(one, chosen, skip_judging=True, single_order=True)
            return max(1, result.stats[dimension].questions)
    return 1


def outcomes_of(judgments: Sequence[Judgment], cases: int) -> tuple[Ints, Floats]:
    """The outcomes of cases as codes, and soft scores where there are any.

    Where a case has several judgments, one after the other (those of a panel's judges), its score is their mean.
    """
    outcome, score = np.full(cases, FAILED, dtype=np.int64), np.full(cases, np.nan)
    times = max(1, len(judgments) // max(1, cases))
    for place in range(cases):
        battles = [
            battle
            for one in range(place * times, (place + 1) * times)
            if (battle := to_battle(judgments[one])) is not None
        ]
        if len(battles) == 1:
            outcome[place] = battles[0].winner.code
            score[place] = np.nan if battles[0].score_a is None else battles[0].score_a
        elif battles:
            mean = float(np.mean([RESULT[one.winner] if one.score_a is None else one.score_a for one in battles]))
            outcome[place] = Outcome.TIE.code if mean == 0.5 else Outcome.A.code if mean > 0.5 else Outcome.B.code
            score[place] = mean
    return outcome, score


async def judge_in_rounds(
    settings: RoundSettings,
    judging_plan: JudgingPlan,
    entrants: Sequence[str],
    chosen: Judge,
    folder: Path,
    *,
    skip_judging: bool = False,
    prewarm: bool = False,
    retry_failed: bool = False,
    watch: Watch | None = None,
    on_verdict: OnVerdict | None = None,
    on_round: OnRound | None = None,
) -> RoundsResult:
    """Judge round by round until every dimension has stopped. All dimensions of a round are asked in one go.

    `judging_plan` is what could be judged; canaries are judged in the first round.
    """
    pairs = {name: judging_plan.cases[name] for name in judging_plan.pair_dimensions}
    states = make_states(pairs, entrants, settings, calls_per_case=await calls_of_a_case(judging_plan, chosen))
    member_stats: dict[str, dict[str, JudgingStats]] = {}
    first = True
    while True:
        numbers = {name: cases for name, state in states.items() if len(cases := state.rounds.next_cases())}
        if not numbers and not first:
            break
        part = JudgingPlan(
            {name: rubric for name, rubric in judging_plan.rubrics.items() if first or name in numbers},
            {name: some_cases(judging_plan.cases[name], cases) for name, cases in numbers.items()},
            judging_plan.canaries if first else {},
        )
        judged = await judge(
            part,
            chosen,
            skip_judging=skip_judging,
            prewarm=prewarm and first,
            retry_failed=retry_failed,
            single_order=True,
            watch=watch,
            on_verdict=on_verdict,
        )
        for member, rows in judged.panel.member_stats.items() if judged.panel is not None else ():
            mine = member_stats.setdefault(member, {})
            mine |= {name: add_stats(mine[name], stats) if name in mine else stats for name, stats in rows.items()}
        for name, stats in judged.stats.items():
            states[name].stats = add_stats(states[name].stats, stats)
        for name, cases in numbers.items():
            states[name].rounds.take(cases, *outcomes_of(judged.judgments[name], len(cases)))
            if skip_judging and judged.stats[name].missing:
                states[name].rounds.stopped = "verdicts are missing, and this command asks nothing"
            if on_round is not None:
                on_round(name, states[name])
        write_json(folder / ROUNDS_FILE, msgspec.to_builtins(rounds_file(settings, states), enc_hook=float))
        first = False
    cases_of = {name: some_cases(state.cases, np.flatnonzero(state.rounds.judged)) for name, state in states.items()}
    whole = JudgingPlan(judging_plan.rubrics, cases_of, judging_plan.canaries)
    kept = await judge(whole, chosen, skip_judging=True, single_order=True)
    if kept.panel is not None:
        kept.panel.member_stats = member_stats  # of all rounds
    judged = msgspec.structs.replace(kept, stats={name: state.stats for name, state in states.items()})
    return RoundsResult(settings, states, whole, judged)


def board_after_rounds(board: Leaderboard, rounds: RoundsFile, dimension: str, entrants: Sequence[str]) -> Leaderboard:
    """The board with what the rounds decided: ranges of places from it, and a remark on how to read intervals.

    `order` decides every range. `top` decides who may be first; the other ends are the board's own.
    """
    record = rounds.dimensions[dimension]
    goal = _goal_of_dimension(RoundGoal.parse(rounds.until), len(rounds.dimensions))
    better, worse = (Counter(pair[side] for pair in record.told_apart) for side in (0, 1))
    entries = []
    for entry in board.entries:
        low, high = entry.rank_low, entry.rank_high
        if goal.kind == "order":
            low, high = 1 + worse[entry.model], len(entrants) - better[entry.model]
        elif goal.kind == "top" and low is not None:
            first = entry.model in record.contenders
            low, high = (1, 1 if record.settled else high) if first else (max(2, low), max(2, high or 2))
        entries.append(replace(entry, rank_low=low, rank_high=high))
    ranks = f"{percent(rounds.interval_level)} range of places, adjusted for all comparisons"
    if goal.kind == "order":
        ranks = (
            f"{percent(rounds.level)} range of places, as the rounds decided, adjusted for all comparisons and looks"
        )
    elif goal.kind == "top":
        ranks = f"who could be first is what the rounds decided ({percent(rounds.level)}); otherwise {ranks}"
    facts = RoundsFacts(
        until=str(goal),
        looks=record.looks,
        planned_looks=rounds.planned_looks,
        level=rounds.level,
        stopped=record.stopped,
        ranks=ranks,
    )
    settings = msgspec.structs.replace(board.settings, rounds=facts)
    remarks = (
        f"adaptive rounds until {goal}, stopped after {record.looks} of at most {rounds.planned_looks}: "
        f"{record.stopped}",
        f"intervals are at {percent(rounds.interval_level)}, so that each holds with {percent(rounds.level)} "
        f"whichever of the {rounds.planned_looks} planned looks was the last",
    )
    return replace(board, entries=tuple(entries), settings=settings, remarks=(*board.remarks, *remarks))


def decision_words(state: DimensionRounds) -> str:
    """What the rounds decided, in one sentence."""
    rounds, settings = state.rounds, state.rounds.settings
    n, level = len(state.entrants), percent(settings.level)
    if settings.goal.kind == "top":
        names = state.names(rounds.contenders)
        if len(names) == 1:
            return f"{names[0]} is best ({level} sure that no other is as good)"
        if len(names) == n:
            return f"not settled: each of the {n} entrants could be best"
        return f"not settled: best could be {', '.join(names)} ({level} sure that no other is as good)"
    if settings.goal.kind == "order":
        told = f"{int(rounds.decision.above.sum())} of {n * (n - 1) // 2} pairs are told apart, all at once at {level}"
        given_up = int(rounds.decision.too_close.sum()) // 2
        return told + (f"; {given_up} were given up as too close" if given_up else "")
    widest = rounds.records[-1].widest if rounds.records else None
    known = "unknown" if widest is None else f"{widest:.0f} points"
    return f"the widest {percent(settings.interval_level)} interval is {known} from end to end"


def round_line(dimension: str, state: DimensionRounds) -> str:
    """The last round of a dimension in one line."""
    record, settings = state.rounds.records[-1], state.rounds.settings
    known = {
        "top": f"{record.contenders} could be best",
        "order": f"{record.told_apart} pairs told apart, {record.open_pairs} still open",
        "width": f"{record.open_entrants} intervals too wide",
        "budget": f"{record.told_apart} pairs told apart",
    }[settings.goal.kind]
    failed = f", {record.failed:,} of them failed" if record.failed else ""
    calls = record.cases_so_far * settings.calls_per_case
    return f"{dimension}, round {record.round}: {record.cases:,} pairs{failed}; {known}; {calls:,} calls so far"


def outcome_lines(result: RoundsResult) -> list[str]:
    """For each dimension: what was decided, why it stopped, and what was saved."""
    lines = []
    for name, state in result.dimensions.items():
        told = state.record()
        lines += [
            f"{name}: {told.decision}",
            f"  stopped after round {told.looks} of at most {state.rounds.settings.maximum}: {told.stopped}",
            f"  {told.calls:,} calls; judging everything takes {told.calls_of_full_design:,}: "
            f"{100 * told.saved:.0f} % saved",
        ]
    return lines


ENOUGH_TO_FORECAST = 20
"""Battles of each entrant from which on a forecast goes by earlier verdicts."""

MOST_READ = 200_000
"""Up to how many cases earlier verdicts are read for a forecast."""

TIMES = 5
"""How many tournaments a forecast imagines."""


def calls_of_budget(plan: RunPlan, asking: AskingSettings, quote: Quote | None) -> RunPlan:
    """The plan, with a budget in USD turned into a number of calls; one that was fixed in the run's folder stays."""
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


class Forecast(msgspec.Struct, frozen=True):
    """What the rounds of a run will probably take: calls, and the share of the full design, over all dimensions."""

    low: int
    median: int
    high: int
    full: int
    from_verdicts: bool
    goal: RoundGoal

    @property
    def share(self) -> float:
        return self.median / self.full if self.full else 0.0

    def line(self) -> str:
        supposed = (
            "with the strengths of earlier verdicts" if self.from_verdicts else "of entrants 87 points apart (sd)"
        )
        return (
            f"rounds until {self.goal}: probably about {self.median:,} calls ({self.low:,} to {self.high:,} in "
            f"imagined tournaments {supposed}), of {self.full:,} for everything: {100 * (1 - self.share):.0f} % saved"
        )


async def make_forecast(plan: RunPlan, judging_plan: JudgingPlan, silent: Judge) -> Forecast:
    """What the rounds will probably take, from verdicts that are there already or from a usual world."""
    assert plan.rounds is not None
    per_case = await calls_of_a_case(judging_plan, silent)
    states = make_states(plan.matches.by_dimension, plan.setup.entrant_ids, plan.rounds, calls_per_case=per_case)
    full = sum(len(state.rounds.design) * state.rounds.settings.calls_per_case for state in states.values())
    if plan.rounds.goal.kind == "budget":
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

"""Judging a plan: one judge or several give verdicts on every case, which are settled into judgments in its order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial, reduce
from typing import Literal, Protocol

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from tiltyard.errors import JudgingError, OptionError
from tiltyard.judge.llm import Usage, Watch, add_costs
from tiltyard.judge.verdicts.plan import Case, JudgingPlan, LazySequence
from tiltyard.judge.verdicts.records import (
    JudgedAnswer,
    Judgment,
    Matchup,
    Verdict,
    VerdictLabel,
    most_frequent,
    settle,
    settle_scores,
)
from tiltyard.stats import FEWEST_JUDGES, MISSING, NEITHER, A, B, Reliability, estimate_reliability, plurality

Combine = Literal["majority", "weight", "rows"]
"""How the votes of a panel become battles. `majority`: the result with the most votes, one battle per matchup.
`weight`: the most probable result, given how reliable each judge is, estimated from the votes. `rows`: every judge's
own judgment is a battle, and all battles of a prompt are one cluster."""


OnVerdict = Callable[[Matchup, Verdict], None]
"""Called with each new verdict as it is saved, including failures and canaries (whose entrants are called
`canary/…`)."""


OnSettled = Callable[[str, "Verdicts"], None]
"""Called with a dimension and the verdicts once all its questions are answered, while others are still open."""


@dataclass(frozen=True, slots=True)
class JudgingOptions:
    """How the cases of a run are judged."""

    skip_judging: bool = False
    """Nothing is asked; only cached verdicts count."""
    prewarm: bool = False
    """One question of each dimension goes ahead of the others."""
    retry_failed: bool = False
    """Questions that failed for good in an earlier run are asked again."""
    watch: Watch | None = None
    """Called on progress."""
    on_verdict: OnVerdict | None = None
    """Called with each new verdict as it is saved."""
    give_up_after: int | None = None
    """This many questions are asked first, and if none gets a readable verdict nothing more is asked; a judge that has
    answered before is trusted. None: 20 with direct calls; batches are sent whole, and checked when they are in."""
    on_settled: OnSettled | None = None
    """Called with a dimension whose questions are all answered, while those of others are still open."""

    def __post_init__(self) -> None:
        if self.give_up_after is not None and self.give_up_after < 1:
            raise OptionError(f"give_up_after is {self.give_up_after}; it must be at least 1, or None for never.")


class JudgingStats(msgspec.Struct, frozen=True):
    """Statistics of judging one dimension, canaries included."""

    cases: int
    """Cases that were judged."""
    questions: int
    """Questions of those cases: twice as many where both orders are judged."""
    cache_hits: int = 0
    """Questions answered before this run."""
    fresh_calls: int = 0
    """Replies received during this run, re-asks included."""
    usage: Usage = msgspec.field(default_factory=Usage)
    """Tokens of the fresh calls."""
    failures: Mapping[str, int] = {}
    """Failed questions by failure name."""
    missing: int = 0
    """Questions that were never answered."""
    cost: float | None = 0.0
    """Cost of the fresh calls in USD; None if no price is known."""
    replies_without_usage: int = 0
    """Fresh calls whose tokens were not stated: not in `usage` and `cost`."""


def add_stats(first: JudgingStats, second: JudgingStats) -> JudgingStats:
    """The statistics of two judgings, added up."""
    counts = ("cases", "questions", "cache_hits", "fresh_calls", "usage", "missing", "replies_without_usage")
    return JudgingStats(
        **{name: getattr(first, name) + getattr(second, name) for name in counts},
        failures=dict(Counter(first.failures) + Counter(second.failures)),
        cost=add_costs(first.cost, second.cost),
    )


class Verdicts(Protocol):
    """A judge's verdicts on a plan."""

    @property
    def stats(self) -> Mapping[str, JudgingStats]:
        """How it went, by dimension."""
        ...

    def verdicts(self, dimension: str, place: int) -> tuple[Verdict, ...]:
        """The verdicts on case number `place` of a dimension, forward first; some may be missing.

        Canaries are numbered after the cases, as in `JudgingPlan.cases_and_canaries`.
        """
        ...


class Judge(Protocol):
    """Decides which answer is better: a language model, a panel of several, or a file of recorded verdicts."""

    @property
    def name(self) -> str:
        """The name recorded in verdicts as `judge_model`."""
        ...

    @property
    def both_orders(self) -> bool:
        """Whether every case is judged with the answers in both orders."""
        ...

    async def judge(self, plan: JudgingPlan, options: JudgingOptions) -> Verdicts:
        """Judge every case and canary of a plan."""
        ...

    async def aclose(self) -> None:
        """Close connections."""
        ...


class JudgingResult(msgspec.Struct, frozen=True):
    """The judgments of a plan by dimension, in its order; those of the canaries, separately; and statistics.

    The sequences read verdicts from the cache during iteration, so a run of any size needs little memory; make a `list`
    of one to keep it.
    """

    judge_model: str
    """The judge's name."""
    both_orders: bool
    """Whether both orders of every pair were judged."""
    judgments: Mapping[str, Sequence[Judgment]]
    """The judgments of each dimension, in the plan's order."""
    canaries: Mapping[str, Sequence[Judgment]]
    """The judgments of the canaries of each dimension."""
    stats: Mapping[str, JudgingStats]
    """How it went, by dimension."""
    panel: PanelVerdicts | None = None
    """The judges of a panel, each with its own judgments; None for a single judge."""
    answers: Mapping[str, Sequence[JudgedAnswer]] = {}
    """The scored answers of each dimension that is scored, in the plan's order."""


async def judge(
    plan: JudgingPlan,
    judge: Judge,
    *,
    skip_judging: bool = False,
    prewarm: bool = False,
    retry_failed: bool = False,
    single_order: bool = False,
    watch: Watch | None = None,
    on_verdict: OnVerdict | None = None,
    give_up_after: int | None = None,
    on_settled: Callable[[str, Sequence[Judgment]], None] | None = None,
) -> JudgingResult:
    """The judgments of every case and canary of a plan.

    What is cached is not asked again. Direct calls go dimension by dimension; batches of all dimensions are sent
    together, and each dimension is settled when its own have ended.

    Parameters:
        plan: What is judged.
        judge: Who judges.
        skip_judging: Ask nothing; cases without both verdicts come back as failed, and `stats` says how many
            verdicts are missing.
        prewarm: Ask one question per dimension first, so that the provider keeps the rubric in its cache.
        retry_failed: Ask again what failed for good in an earlier run.
        single_order: Accept a judge that saw one order only: its single verdict is then the judgment, including any
            position bias.
        watch: Called on progress.
        on_verdict: Called with each new verdict as it is saved.
        give_up_after: Raise a `JudgingError` if the first this many questions all end without a readable verdict; the
            judge's replies are kept. None: 20, with batches when so many replies are in.
        on_settled: Called with a dimension and its judgments once all its questions are answered, if others are still
            open then: for a first result before the end.
    """
    if not judge.both_orders and not single_order:
        raise JudgingError(
            f"{judge.name} judged in one order only, so position bias cannot be seen. "
            "Say that single verdicts are accepted, or use a judge that sees both orders."
        )

    def both(verdicts: Verdicts, dimension: str) -> tuple[Sequence[Judgment], Sequence[Judgment]]:
        if dimension in plan.scoring:
            return (), settled_canaries(plan, verdicts, dimension, judge)
        if isinstance(verdicts, PanelVerdicts):
            return verdicts.judgments(dimension), verdicts.canary_judgments(dimension)
        return settled(plan, verdicts, dimension, both_orders=judge.both_orders)

    def announce(dimension: str, verdicts: Verdicts) -> None:
        if on_settled is not None and dimension not in plan.scoring:
            on_settled(dimension, both(verdicts, dimension)[0])

    early = None if on_settled is None else announce
    options = JudgingOptions(skip_judging, prewarm, retry_failed, watch, on_verdict, give_up_after, early)
    verdicts = await judge.judge(plan, options)
    judgments = {dimension: both(verdicts, dimension) for dimension in plan.dimensions}
    names = _judges_of(verdicts, judge)

    def answers(dimension: str) -> Sequence[JudgedAnswer]:
        cases, about = plan.cases.get(dimension, ()), plan.rubrics[dimension].dimension
        return LazySequence(
            len(cases),
            lambda place: settle_scores(cases[place].matchup, about, verdicts.verdicts(dimension, place), names),
        )

    return JudgingResult(
        judge.name,
        judge.both_orders,
        {dimension: cases for dimension, (cases, _) in judgments.items() if dimension not in plan.scoring},
        {dimension: canaries for dimension, (_, canaries) in judgments.items()},
        verdicts.stats,
        verdicts if isinstance(verdicts, PanelVerdicts) else None,
        {dimension: answers(dimension) for dimension in plan.scoring},
    )


def _judges_of(verdicts: Verdicts, judge: Judge) -> tuple[str, ...]:
    return verdicts.members if isinstance(verdicts, PanelVerdicts) else (judge.name,)


def settled_canaries(plan: JudgingPlan, verdicts: Verdicts, dimension: str, judge: Judge) -> Sequence[Judgment]:
    """The canaries of a scored dimension as judgments: of two answers to one prompt, the one with more points won."""
    first, canaries = len(plan.cases.get(dimension, ())), plan.canaries.get(dimension, ())
    scoring, names = plan.scoring[dimension], _judges_of(verdicts, judge)

    def judgment(number: int) -> Judgment:
        places = (2 * number, 2 * number + 1)
        answers = [
            settle_scores(canaries[place].matchup, dimension, verdicts.verdicts(dimension, first + place), names)
            for place in places
        ]
        readable = all(answer.status == "ok" for answer in answers)
        means = [sum(answer.scores.values()) / len(scoring.names) if readable else 0.0 for answer in answers]
        winner = None if means[0] == means[1] else answers[means[1] > means[0]].entrant
        entrant_a, entrant_b = (answer.entrant for answer in answers)
        # in the words of pairs, for the message about it; a failure stays one
        label = VerdictLabel.TIE if winner is None else VerdictLabel.A if winner == entrant_a else VerdictLabel.B
        raw = (verdict for answer in answers for verdict in answer.raw)
        return Judgment(
            prompt_id=answers[0].prompt_id,
            dimension=dimension,
            entrant_a=entrant_a,
            entrant_b=entrant_b,
            winner=winner,
            inconsistent=False,
            status="ok" if readable else "failed",
            raw=tuple(
                replace(verdict, verdict=label) if verdict.verdict is VerdictLabel.SCORED else verdict
                for verdict in raw
            ),
        )

    return LazySequence(len(canaries) // 2, judgment)


def settled(
    plan: JudgingPlan, verdicts: Verdicts, dimension: str, *, both_orders: bool
) -> tuple[Sequence[Judgment], Sequence[Judgment]]:
    """One judge's judgments of a dimension's cases and of its canaries."""
    cases, canaries = plan.cases.get(dimension, ()), plan.canaries.get(dimension, ())

    def judgment(of: Sequence[Case], first: int, number: int) -> Judgment:
        given = verdicts.verdicts(dimension, first + number)
        return settle(of[number].matchup, given, both_orders=both_orders)

    return (
        LazySequence(len(cases), partial(judgment, cases, 0)),
        LazySequence(len(canaries), partial(judgment, canaries, len(cases))),
    )


def panel_name(members: Sequence[str]) -> str:
    """The name of a panel, which names its members: `panel(anthropic/…, openai/…)`."""
    return f"panel({', '.join(members)})"


class PanelVerdicts:
    """The verdicts of a panel, and the judgments that they become."""

    def __init__(self, judges: Sequence[Judge], heard: Sequence[Verdicts], plan: JudgingPlan, combine: Combine) -> None:
        self.members = tuple(judge.name for judge in judges)
        self.combine = combine
        self._plan = plan
        self._heard = tuple(heard)
        self._settled = {
            dimension: [
                settled(plan, verdicts, dimension, both_orders=judge.both_orders)
                for judge, verdicts in zip(judges, heard, strict=True)
            ]
            for dimension in plan.pair_dimensions
        }
        self.member_stats: Mapping[str, Mapping[str, JudgingStats]] = {
            name: verdicts.stats for name, verdicts in zip(self.members, heard, strict=True)
        }
        """How it went, by judge and dimension."""
        self.votes = cache(self._votes)
        self.reliability = cache(self._reliability)
        self._weighted = cache(self._decide)

    @property
    def stats(self) -> dict[str, JudgingStats]:
        """How it went with all judges together, by dimension."""
        heard = self.member_stats.values()
        added = {name: reduce(add_stats, (stats[name] for stats in heard)) for name in self._plan.dimensions}
        return {name: replace(stats, cases=stats.cases // len(heard)) for name, stats in added.items()}

    def verdicts(self, dimension: str, place: int) -> tuple[Verdict, ...]:
        return tuple(verdict for heard in self._heard for verdict in heard.verdicts(dimension, place))

    def member_judgments(self, dimension: str) -> list[Sequence[Judgment]]:
        """By judge, its own judgments of a dimension."""
        return [cases for cases, _ in self._settled[dimension]]

    def judgments(self, dimension: str) -> Sequence[Judgment]:
        """The judgments of a dimension; with `rows`, one of every judge for each case."""
        own = self.member_judgments(dimension)
        length = len(self._plan.cases.get(dimension, ()))
        if self.combine == "rows":
            return LazySequence(length * len(own), lambda number: own[number % len(own)][number // len(own)])
        weighted = self.combine == "weight"
        return LazySequence(length, partial(self._combined, dimension, own, weighted=weighted))

    def canary_judgments(self, dimension: str) -> Sequence[Judgment]:
        """The judgments of a dimension's canaries: what most judges found."""
        own: list[Sequence[Judgment]] = [canaries for _, canaries in self._settled[dimension]]
        return LazySequence(len(own[0]), partial(self._combined, dimension, own, weighted=False))

    def _votes(self, dimension: str) -> NDArray[np.int8]:
        """Cases × judges: what each judge found, as `tiltyard.stats.reliability` spells it."""
        own = self.member_judgments(dimension)
        return np.array([[vote(judgment) for judgment in case] for case in zip(*own, strict=True)], np.int8).reshape(
            -1, len(own)
        )

    def _reliability(self, dimension: str) -> Reliability | None:
        """How reliable each judge is, by the votes alone; None where too few judges name winners to tell."""
        votes = self.votes(dimension)
        naming = np.isin(votes, (A, B)).any(axis=0).sum()
        return estimate_reliability(votes) if naming >= FEWEST_JUDGES else None

    def _decide(self, dimension: str) -> NDArray[np.int8]:
        """By case, the most probable result; without reliabilities, the one with the most votes."""
        reliability = self.reliability(dimension)
        return plurality(self.votes(dimension)) if reliability is None else reliability.decided()

    def _combined(self, dimension: str, own: Sequence[Sequence[Judgment]], number: int, *, weighted: bool) -> Judgment:
        each = [judgments[number] for judgments in own]
        decided = int(self._weighted(dimension)[number]) if weighted else most_votes([vote(one) for one in each])
        return combine_judgments(self.members, each, decided)


def vote(judgment: Judgment) -> int:
    """What a judge found: `A`, `B`, `NEITHER`, or `MISSING` where it failed."""
    if judgment.status != "ok":
        return MISSING
    if judgment.winner is None:
        return NEITHER
    return A if judgment.winner == judgment.entrant_a else B


def most_votes(votes: Sequence[int]) -> int:
    """The result with the most votes; `MISSING` if the lead is shared."""
    winner = most_frequent([one for one in votes if one != MISSING])
    return MISSING if winner is None else winner


def combine_judgments(members: Sequence[str], judgments: Sequence[Judgment], decided: int) -> Judgment:
    """One judgment of several judges' own.

    Without a winner it is a tie if at least as many judges say tie as contradict themselves; else, and if the votes are
    split, it is inconsistent. It failed only if every judge failed.
    `decided` is the combined result: `A`, `B`, `NEITHER`, or `MISSING` if the votes are split.
    """
    first = judgments[0]
    read = [judgment for judgment in judgments if judgment.status == "ok"]
    outcomes = Counter(judgment.outcome for judgment in read)
    winner = {A: first.entrant_a, B: first.entrant_b}.get(decided) if read else None
    tied = decided == NEITHER and outcomes["tie"] > 0 and outcomes["tie"] >= outcomes["inconsistent"]
    return msgspec.structs.replace(
        first,
        winner=winner,
        inconsistent=bool(read) and winner is None and not tied,
        status="ok" if read else "failed",
        raw=tuple(verdict for judgment in judgments for verdict in judgment.raw),
        judge_model=panel_name(members),
        votes={name: judgment.outcome for name, judgment in zip(members, judgments, strict=True)},
    )

"""A panel: several judges of the same cases, asked side by side, and how their judgments become one.

Every judge settles its own verdicts first, as if it were alone: both orders, and repeats if there are any. What it
finds is its vote: a winner, or neither (a tie, or a contradiction between the orders). A judge that failed on a matchup
has no vote on it, and the others decide.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from copy import copy
from dataclasses import replace
from functools import cache, partial, reduce
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec
import numpy as np
from numpy.typing import NDArray

from tiltyard.errors import OptionError, TiltyardError
from tiltyard.judging.cache import ReplyLengths
from tiltyard.judging.judge import (
    Judge,
    JudgingOptions,
    JudgingStats,
    OnSettled,
    PanelFindings,
    Verdicts,
    add_stats,
    settled,
)
from tiltyard.judging.language_model import LanguageModelJudge
from tiltyard.judging.plan import JudgingPlan, LazySequence
from tiltyard.judging.records import Judgment, Verdict, most_frequent
from tiltyard.judging.reply_forms import ReplyForm
from tiltyard.llm.asking import Ask
from tiltyard.llm.journal import shared_folder
from tiltyard.llm.runner import AskingParts
from tiltyard.ratings.reliability import (
    FEWEST_JUDGES,
    MISSING,
    NEITHER,
    A,
    B,
    Reliability,
    estimate_reliability,
    plurality,
)

Combine = Literal["majority", "weight", "rows"]
"""How the votes of a panel become battles. `majority`: the result with the most votes, one battle per matchup.
`weight`: the most probable result, given how reliable each judge is, estimated from the votes. `rows`: every judge's
own judgment is a battle, and all battles of a prompt are one cluster."""


class PanelMember(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A judge of a panel with settings of its own; what is not given is as in `judge`."""

    model: str
    """The judge: `provider/model`."""
    options: dict[str, Any] | None = None
    """Further parameters for its provider, sent unchanged, instead of `judge.options`."""
    base_url: str | None = None
    """Address of its server, instead of `judge.base_url`."""
    headers: dict[str, str] | None = None
    """Further headers for its server, instead of `judge.headers`."""
    max_tokens: int | None = None
    """Token limit of its first attempt, instead of `judge.max_tokens`."""
    reply: ReplyForm | None = None
    """Its form of reply, instead of `judge.reply`."""


def panel_name(members: Sequence[str]) -> str:
    """The name of a panel, which names its members: `panel(anthropic/…, openai/…)`."""
    return f"panel({', '.join(members)})"


def panel_members(name: str) -> tuple[str, ...]:
    """The members that a panel's name lists; nothing for the name of a single judge."""
    if not (name.startswith("panel(") and name.endswith(")")):
        return ()
    return tuple(name[len("panel(") : -1].split(", "))


def judge_in_words(name: str) -> str:
    """A judge's name as people read it: `a panel of two judges, X and Y`, or the name of a single one."""
    members = panel_members(name)
    if not members:
        return name
    count = {2: "two", 3: "three", 4: "four", 5: "five"}.get(len(members), str(len(members)))
    return f"a panel of {count} judges, {', '.join(members[:-1])} and {members[-1]}"


class PanelJudge:
    """Several judges as one. They are asked side by side and share one budget; each has its own cached verdicts.

    If one of them stops with an error, the others are asked to the end first; the same call then continues with what
    is missing.

    Parameters:
        members: The judges.
        folder: The verdict caches, and the journal of batches, which the judges share.
        asking: Prices, budget, settings and callbacks of asking.
        combine: `majority`, `weight` or `rows`.
    """

    def __init__(
        self, members: Sequence[Judge], *, folder: Path, asking: AskingParts, combine: Combine = "majority"
    ) -> None:
        names = [member.name for member in members]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise OptionError(f"{', '.join(twice)} is in the panel twice. To ask a judge again, set repeats.")
        if len(names) < 2:
            raise OptionError("a panel has two judges or more; name a single one as usual.")
        if combine not in get_args(Combine):
            raise OptionError(f"combine is {combine!r}; it is one of {', '.join(get_args(Combine))}.")
        self._members = tuple(members)
        self._folder = folder
        self._asking = asking
        self._combine = combine
        self._notice = asking.notice or logging.getLogger("tiltyard.judging").info

    @property
    def name(self) -> str:
        """The names of the members."""
        return panel_name([member.name for member in self._members])

    @property
    def both_orders(self) -> bool:
        """Whether every judge saw both orders."""
        return all(member.both_orders for member in self._members)

    @property
    def language_models(self) -> list[LanguageModelJudge]:
        """The members that are asked; the others are recorded."""
        return [member for member in self._members if isinstance(member, LanguageModelJudge)]

    def pending(self, plan: JudgingPlan, *, retry_failed: bool = False) -> Iterator[Ask]:
        """What `judge` would ask first, judge by judge, each in groups of its own: for a quote."""
        for member in self.language_models:
            for ask in member.pending(plan, retry_failed=retry_failed):
                yield replace(ask, group=_group(member.name, ask.group))

    def reply_lengths(self, plan: JudgingPlan) -> dict[str, ReplyLengths]:
        """By the same groups, how long earlier replies were."""
        return {
            _group(member.name, dimension): length
            for member in self.language_models
            for dimension, length in member.reply_lengths(plan).items()
        }

    async def judge(self, plan: JudgingPlan, options: JudgingOptions) -> PanelFindings:
        """Every judge's verdicts on every case and canary."""
        async with AsyncExitStack() as stack:
            if self.language_models and not options.skip_judging:
                parts = self._asking
                share = shared_folder(self._folder, parts.now, notice=self._notice, sleep=parts.sleep)
                await stack.enter_async_context(share)
            early = _EarlyPanel(self._members, plan, self._combine, options.on_settled)
            tasks = [asyncio.create_task(self._heard(member, plan, options, early)) for member in self._members]
            try:
                await asyncio.wait(tasks)
            except asyncio.CancelledError:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                raise
        heard = [task.result() for task in tasks]
        return PanelVerdicts(self._members, heard, plan, self._combine)

    async def aclose(self) -> None:
        """Close the connections of all judges."""
        for member in self._members:
            await member.aclose()

    async def _heard(self, member: Judge, plan: JudgingPlan, options: JudgingOptions, early: _EarlyPanel) -> Verdicts:
        announce = None if options.on_settled is None else partial(early.settled, member.name)
        try:
            heard = await member.judge(plan, replace(options, on_settled=announce))
        except TiltyardError:
            self._notice(f"{member.name} stopped; the other judges of the panel are asked to the end first.")
            raise
        early.finished(member.name, heard)
        return heard


class _EarlyPanel:
    """Announces each dimension that all judges have settled, once, while some judge is still being asked."""

    def __init__(
        self, judges: Sequence[Judge], plan: JudgingPlan, combine: Combine, announce: OnSettled | None
    ) -> None:
        self._judges = judges
        self._plan = plan
        self._combine: Combine = combine
        self._announce = announce
        self._heard: dict[str, dict[str, Verdicts]] = {dimension: {} for dimension in plan.dimensions}
        self._asked = {judge.name for judge in judges}

    def settled(self, judge: str, dimension: str, verdicts: Verdicts) -> None:
        """A judge has settled a dimension."""
        heard = self._heard.get(dimension, {})
        heard[judge] = verdicts
        if self._announce is not None and self._asked and len(heard) == len(self._judges):
            del self._heard[dimension]
            in_order = [heard[judge.name] for judge in self._judges]
            self._announce(dimension, PanelVerdicts(self._judges, in_order, self._plan, self._combine))

    def finished(self, judge: str, verdicts: Verdicts) -> None:
        """A judge has settled every dimension."""
        self._asked.discard(judge)
        for dimension in list(self._heard):
            self.settled(judge, dimension, verdicts)


def _group(judge: str, dimension: str) -> str:
    return f"{judge} · {dimension}"


class PanelVerdicts:
    """The verdicts of a panel, and the judgments that they become.

    Parameters:
        judges: The judges.
        heard: The verdicts of each, in the same order.
        plan: What was judged.
        combine: `majority`, `weight` or `rows`.
    """

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
            for dimension in plan.dimensions
        }
        self.member_stats: Mapping[str, Mapping[str, JudgingStats]] = {
            name: verdicts.stats for name, verdicts in zip(self.members, heard, strict=True)
        }
        """How it went, by judge and dimension."""
        self._votes = cache(self._read_votes)
        self._reliability = cache(self._estimate)
        self._weighted = cache(self._decide)

    def with_stats(self, member_stats: Mapping[str, Mapping[str, JudgingStats]]) -> PanelVerdicts:
        """The same findings with other statistics: those of all rounds in which they were judged."""
        found = copy(self)
        found.member_stats = member_stats
        return found

    @property
    def stats(self) -> dict[str, JudgingStats]:
        """How it went with all judges together, by dimension."""
        heard = self.member_stats.values()
        added = {name: reduce(add_stats, (stats[name] for stats in heard)) for name in self._plan.dimensions}
        return {name: replace(stats, cases=stats.cases // len(heard)) for name, stats in added.items()}

    def verdicts(self, dimension: str, place: int) -> tuple[Verdict, ...]:
        """All verdicts on a case, judge by judge."""
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

    def votes(self, dimension: str) -> NDArray[np.int8]:
        """Cases × judges: what each judge found, as `tiltyard.ratings.reliability` spells it."""
        return self._votes(dimension)

    def reliability(self, dimension: str) -> Reliability | None:
        """How reliable each judge is, by the votes alone; None where too few judges name winners to tell."""
        return self._reliability(dimension)

    def _read_votes(self, dimension: str) -> NDArray[np.int8]:
        own = self.member_judgments(dimension)
        found = np.empty((len(own[0]), len(own)), np.int8)
        for judge, judgments in enumerate(own):
            for place, judgment in enumerate(judgments):
                found[place, judge] = vote(judgment)
        return found

    def _estimate(self, dimension: str) -> Reliability | None:
        votes = self.votes(dimension)
        naming = np.isin(votes, (A, B)).any(axis=0).sum()
        return estimate_reliability(votes) if naming >= FEWEST_JUDGES else None

    def _decide(self, dimension: str) -> NDArray[np.int8]:
        """By case, the most probable result; without reliabilities, the one with the most votes."""
        found = self.reliability(dimension)
        return plurality(self.votes(dimension)) if found is None else found.decided()

    def _combined(self, dimension: str, own: Sequence[Sequence[Judgment]], number: int, *, weighted: bool) -> Judgment:
        found = [judgments[number] for judgments in own]
        decided = int(self._weighted(dimension)[number]) if weighted else most_votes([vote(one) for one in found])
        return combine_judgments(self.members, found, decided)


def vote(judgment: Judgment) -> int:
    """What a judge found: `A`, `B`, `NEITHER`, or `MISSING` where it failed."""
    if judgment.status != "ok":
        return MISSING
    if judgment.winner is None:
        return NEITHER
    return A if judgment.winner == judgment.entrant_a else B


def most_votes(votes: Sequence[int]) -> int:
    """The result with the most votes; `MISSING` if the lead is shared."""
    found = most_frequent([one for one in votes if one != MISSING])
    return MISSING if found is None else found


def combine_judgments(members: Sequence[str], found: Sequence[Judgment], decided: int) -> Judgment:
    """One judgment of several judges' own.

    Without a winner it is a tie if at least as many judges say tie as contradict themselves; else, and if the votes are
    split, it is inconsistent. It failed only if every judge failed.

    Parameters:
        members: The judges.
        found: What each found, in the same order.
        decided: The combined result: `A`, `B`, `NEITHER`, or `MISSING` if the votes are split.
    """
    first = found[0]
    read = [judgment for judgment in found if judgment.status == "ok"]
    outcomes = Counter(judgment.outcome for judgment in read)
    winner = {A: first.entrant_a, B: first.entrant_b}.get(decided) if read else None
    tied = decided == NEITHER and outcomes["tie"] > 0 and outcomes["tie"] >= outcomes["inconsistent"]
    return msgspec.structs.replace(
        first,
        winner=winner,
        inconsistent=bool(read) and winner is None and not tied,
        status="ok" if read else "failed",
        raw=tuple(verdict for judgment in found for verdict in judgment.raw),
        judge_model=panel_name(members),
        votes={name: judgment.outcome for name, judgment in zip(members, found, strict=True)},
    )

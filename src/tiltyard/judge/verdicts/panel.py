"""A panel: several judges of the same cases, how their judgments become one, and what they agree on."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any, get_args

import msgspec
import numpy as np
from numpy.typing import NDArray

from tiltyard.errors import OptionError, TiltyardError
from tiltyard.judge.llm import Ask, AskingParts, shared_folder
from tiltyard.judge.verdicts.bias import Bias, measure_bias
from tiltyard.judge.verdicts.cache import ReplyLengths
from tiltyard.judge.verdicts.language_model import LanguageModelJudge
from tiltyard.judge.verdicts.plan import Case, JudgingPlan
from tiltyard.judge.verdicts.reading import ReplyForm
from tiltyard.judge.verdicts.verdicts import (
    Combine,
    Judge,
    JudgingOptions,
    JudgingResult,
    PanelVerdicts,
    Verdicts,
    panel_name,
)
from tiltyard.render import percent
from tiltyard.stats import MISSING, NEITHER, A, B, Estimate, Reliability, cohen_kappa, mean_of, plurality, share

Votes = NDArray[np.int8]


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
                yield msgspec.structs.replace(ask, group=_group(member.name, ask.group))

    def reply_lengths(self, plan: JudgingPlan) -> dict[str, ReplyLengths]:
        """By the same groups, how long earlier replies were."""
        return {
            _group(member.name, dimension): length
            for member in self.language_models
            for dimension, length in member.reply_lengths(plan).items()
        }

    async def judge(self, plan: JudgingPlan, options: JudgingOptions) -> PanelVerdicts:
        """Every judge's verdicts on every case and canary."""
        settled: dict[str, dict[str, Verdicts]] = {dimension: {} for dimension in plan.dimensions}
        asked = {member.name for member in self._members}

        def announce(judge: str, dimension: str, verdicts: Verdicts) -> None:
            """Announce each dimension that all judges have settled, once, while some judge is still being asked."""
            heard = settled.get(dimension, {})
            heard[judge] = verdicts
            if options.on_settled is not None and asked and len(heard) == len(self._members):
                del settled[dimension]
                in_order = [heard[member.name] for member in self._members]
                options.on_settled(dimension, PanelVerdicts(self._members, in_order, plan, self._combine))

        async def hear(member: Judge) -> Verdicts:
            early = None if options.on_settled is None else partial(announce, member.name)
            try:
                heard = await member.judge(plan, replace(options, on_settled=early))
            except TiltyardError:
                self._asking.notice(f"{member.name} stopped; the other judges of the panel are asked to the end first.")
                raise
            asked.discard(member.name)
            for dimension in list(settled):
                announce(member.name, dimension, heard)
            return heard

        async with AsyncExitStack() as stack:
            if self.language_models and not options.skip_judging:
                parts = self._asking
                share = shared_folder(self._folder, parts.now, notice=parts.notice, sleep=parts.sleep)
                await stack.enter_async_context(share)
            results = await asyncio.gather(*map(hear, self._members), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        verdicts = [result for result in results if not isinstance(result, BaseException)]
        return PanelVerdicts(self._members, verdicts, plan, self._combine)

    async def aclose(self) -> None:
        """Close the connections of all judges."""
        for member in self._members:
            await member.aclose()


def _group(judge: str, dimension: str) -> str:
    return f"{judge} · {dimension}"


MOST_NAMED = 10
"""How many matchups with dissent the manifest names; the verdict files have them all."""


class PanelJudgeRow(msgspec.Struct, frozen=True):
    """One judge of a panel, in one dimension. Intervals are clustered by prompt."""

    judge: str
    """The judge."""
    settled: int
    """Matchups on which it has a vote."""
    failed: int
    """Matchups on which it failed; the others decide those."""
    accuracy: float | None
    """Of the winners that it names, the share that is right, as estimated from the votes; None if it names none, or
    if fewer than three judges do."""
    weight: float | None
    """Its log-odds weight, ln(right / wrong); None likewise."""
    with_others: Estimate
    """Share of its votes that are those of most of the other judges, where these have a majority."""
    opposed: int
    """Matchups in which it names the loser of most of the other judges."""
    bias: Bias
    """Flip rate, first-slot rate, readable verdicts, and agreement with itself if questions were repeated."""
    leans_to: str | None
    """The entrant that it treats most differently from the other judges."""
    lean: Estimate
    """How much more often it lets that entrant win than the other judges do (as a share, a tie counting half); the
    interval is wider than 95 %, because the entrant was chosen among all."""


class JudgePair(msgspec.Struct, frozen=True):
    """Two judges of a panel, and how often they find the same."""

    first: str
    """One judge."""
    second: str
    """The other."""
    agreement: Estimate
    """Share of equal votes (entrant_a, entrant_b, neither)."""
    kappa: Estimate
    """Cohen's kappa of the same, with every matchup counted from both sides."""


class Dissent(msgspec.Struct, frozen=True):
    """A matchup on which the judges differ, with the vote of each."""

    prompt_id: str
    """The prompt."""
    entrant_a: str
    """The first entrant."""
    entrant_b: str
    """The second entrant."""
    votes: dict[str, str]
    """By judge, what it found: an entrant, `tie`, `inconsistent` or `failed`."""


class PanelStudy(msgspec.Struct, frozen=True):
    """A panel in one dimension."""

    matchups: int
    """How many matchups there were."""
    unanimous: int
    """Matchups in which all judges voted, and found the same."""
    opposed: int
    """Matchups in which two judges name different winners."""
    no_majority: int
    """Matchups in which the lead is shared."""
    incomplete: int
    """Matchups that were decided without some judge, which failed."""
    failed: int
    """Matchups on which every judge failed."""
    judges: tuple[PanelJudgeRow, ...]
    """Every judge."""
    pairs: tuple[JudgePair, ...]
    """Every pair of judges."""
    dissent: tuple[Dissent, ...]
    """The matchups with the most dissent."""
    prompts: dict[str, int]
    """Of the prompts with opposed judges, those with the most such matchups."""

    def lines(self) -> list[str]:
        """The panel in a few lines of text."""
        counts = (
            f"panel: {self.unanimous:,} of {self.matchups:,} matchups unanimous, {self.opposed:,} with opposed "
            f"winners, {self.no_majority:,} without a majority"
        )
        if self.incomplete or self.failed:
            counts += f"; {self.incomplete:,} decided without a judge that failed, {self.failed:,} failed altogether"
        width = max(len(row.judge) for row in self.judges)
        lines = [counts, f"  {'judge'.ljust(width)}   right  weight  as most others  changed with order  failed"]
        for row in self.judges:
            right, others, flips = map(percent, (row.accuracy, row.with_others.value, row.bias.flip_rate.value))
            lines.append(
                f"  {row.judge.ljust(width)}  {right:>6}  {_number(row.weight):>6}  {others:>14}  {flips:>18}  "
                f"{row.failed:>6,}"
            )
        lines += [
            f"  {pair.first} and {pair.second} agree in {_range(pair.agreement)}, kappa {_number(pair.kappa.value)}"
            for pair in self.pairs
        ]
        lines += [
            f"  {row.judge} lets {row.leans_to} win {abs(100 * (row.lean.value or 0)):.0f} points "
            f"{'more' if (row.lean.value or 0) > 0 else 'less'} often than the others do"
            for row in self.judges
            if row.lean.low is not None and row.lean.high is not None and not row.lean.low <= 0 <= row.lean.high
        ]
        if self.prompts:
            lines.append(
                "  most dissent: " + ", ".join(f"{name} ({count:,})" for name, count in list(self.prompts.items())[:5])
            )
        return lines


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _range(estimate: Estimate) -> str:
    if estimate.value is None or estimate.low is None or estimate.high is None:
        return "–"
    return f"{100 * estimate.value:.0f} % ({100 * estimate.low:.0f} to {100 * estimate.high:.0f}) of {estimate.n:,}"


def study_panel(plan: JudgingPlan, judged: JudgingResult) -> dict[str, PanelStudy]:
    """What the judges of a panel agree on, by dimension; nothing for a single judge.

    Parameters:
        plan: What was judged.
        judged: The result of judging it.
    """
    if judged.panel is None:
        return {}
    panel = judged.panel
    return {name: _study(panel, name, plan.cases.get(name, ())) for name in plan.pair_dimensions}


def _study(panel: PanelVerdicts, dimension: str, cases: Sequence[Case]) -> PanelStudy:
    votes = panel.votes(dimension)
    matchups = [case.matchup for case in cases]
    prompts = [matchup.prompt_id for matchup in matchups]
    entrants = [(matchup.entrant_a, matchup.entrant_b) for matchup in matchups]
    reliability = panel.reliability(dimension)
    voted = (votes != MISSING).sum(axis=1)
    opposed = (votes == A).any(axis=1) & (votes == B).any(axis=1)
    same = (votes == votes[:, :1]).all(axis=1) & (voted == votes.shape[1])
    own = panel.member_judgments(dimension)
    rows = (
        _judge_row(name, votes, place, prompts, entrants, reliability, measure_bias(own[place]))
        for place, name in enumerate(panel.members)
    )
    often = Counter(prompts[place] for place in np.flatnonzero(opposed).tolist())
    return PanelStudy(
        matchups=len(votes),
        unanimous=int(same.sum()),
        opposed=int(opposed.sum()),
        no_majority=int(((plurality(votes) == MISSING) & (voted > 0)).sum()),
        incomplete=int(((voted < votes.shape[1]) & (voted > 0)).sum()),
        failed=int((voted == 0).sum()),
        judges=tuple(rows),
        pairs=_pairs(panel.members, votes, prompts),
        dissent=tuple(
            Dissent(
                prompts[place],
                *entrants[place],
                {name: judgments[place].outcome for name, judgments in zip(panel.members, own, strict=True)},
            )
            for place in _most_dissent(votes)
        ),
        prompts=dict(often.most_common(MOST_NAMED)),
    )


def _judge_row(
    name: str,
    votes: Votes,
    place: int,
    prompts: Sequence[str],
    entrants: Sequence[tuple[str, str]],
    reliability: Reliability | None,
    bias: Bias,
) -> PanelJudgeRow:
    mine, others = votes[:, place], np.delete(votes, place, axis=1)
    most = plurality(others)
    comparable = np.flatnonzero((mine != MISSING) & (most != MISSING)).tolist()
    sides = np.isin(mine, (A, B)) & np.isin(most, (A, B))
    leans_to, lean = _lean(mine, others, prompts, entrants)
    rated = reliability if np.isin(mine, (A, B)).any() else None
    return PanelJudgeRow(
        judge=name,
        settled=int((mine != MISSING).sum()),
        failed=int((mine == MISSING).sum()),
        accuracy=None if rated is None else float(rated.accuracy[place]),
        weight=None if rated is None else float(rated.weights[place]),
        with_others=share([bool(mine[i] == most[i]) for i in comparable], [prompts[i] for i in comparable]),
        opposed=int((sides & (mine != most)).sum()),
        bias=bias,
        leans_to=leans_to,
        lean=lean,
    )


_SCORE = np.array([1.0, 0.0, 0.5])
"""What a vote gives entrant_a."""


def _lean(
    mine: Votes, others: Votes, prompts: Sequence[str], entrants: Sequence[tuple[str, str]]
) -> tuple[str | None, Estimate]:
    """The entrant that a judge treats most differently from the others, and the difference for it."""
    there = others != MISSING
    usable = (mine != MISSING) & there.any(axis=1)
    theirs = np.where(there, _SCORE[np.where(there, others, NEITHER)], 0.0).sum(axis=1) / np.maximum(
        1, there.sum(axis=1)
    )
    gap = _SCORE[np.where(usable, mine, NEITHER)] - theirs
    by_entrant: dict[str, tuple[list[float], list[str]]] = {}
    for i in np.flatnonzero(usable).tolist():
        for entrant, sign in zip(entrants[i], (1.0, -1.0), strict=True):
            values, clusters = by_entrant.setdefault(entrant, ([], []))
            values.append(sign * float(gap[i]))
            clusters.append(prompts[i])
    if not by_entrant:
        return None, mean_of([])
    level = 1 - 0.05 / len(by_entrant)
    leans = {entrant: mean_of(values, clusters, level=level) for entrant, (values, clusters) in by_entrant.items()}
    furthest = max(leans, key=lambda entrant: abs(leans[entrant].value or 0.0))
    return furthest, leans[furthest]


def _pairs(members: Sequence[str], votes: Votes, prompts: Sequence[str]) -> tuple[JudgePair, ...]:
    pairs = []
    for i, j in combinations(range(len(members)), 2):
        both = np.flatnonzero((votes[:, i] != MISSING) & (votes[:, j] != MISSING)).tolist()
        first, second = votes[both, i].tolist(), votes[both, j].tolist()
        clusters = [prompts[place] for place in both]
        pairs.append(
            JudgePair(
                members[i],
                members[j],
                share([a == b for a, b in zip(first, second, strict=True)], clusters),
                _kappa(first, second, clusters),
            )
        )
    return tuple(pairs)


_OTHER = {A: B, B: A, NEITHER: NEITHER}


def _kappa(first: list[int], second: list[int], clusters: list[str]) -> Estimate:
    """Cohen's kappa with every matchup counted from both sides.

    Which entrant is called A is arbitrary: where the better one is usually listed first, two good judges would agree
    hardly more than their habit of saying A explains.
    """
    swapped = [[_OTHER[one] for one in votes] for votes in (first, second)]
    kappa = cohen_kappa(first + swapped[0], second + swapped[1], clusters * 2)
    return msgspec.structs.replace(kappa, n=len(first))


def _most_dissent(votes: Votes) -> list[int]:
    """The matchups with the most dissent: most votes on the smaller side first, then most kinds of votes."""
    sides = np.stack([(votes == label).sum(axis=1) for label in (A, B, NEITHER)], axis=1)
    smaller, kinds = sides[:, :2].min(axis=1), (sides > 0).sum(axis=1)
    order = np.lexsort((np.arange(len(votes)), -kinds, -smaller))
    return [int(place) for place in order[:MOST_NAMED] if kinds[place] > 1]

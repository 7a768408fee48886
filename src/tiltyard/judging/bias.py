"""Judge bias: position, length and self-preference; and how many of its verdicts could be read."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import msgspec

from tiltyard.judging.judge import JudgingResult
from tiltyard.judging.plan import Case, JudgingPlan
from tiltyard.judging.records import Judgment, VerdictLabel, in_pairs, repeated
from tiltyard.validity import NO_ESTIMATE, Estimate, share

MOST_INCONSISTENT = 0.35
"""Above this share of contradictions the verdicts depend more on the order of the answers than on the answers. A judge
that tosses a coin contradicts itself half the time."""


class Check(msgspec.Struct, frozen=True):
    """One condition of what a run says of itself: GO or NO-GO."""

    check: str
    passed: bool
    detail: str
    """The numbers behind it."""


class Bias(msgspec.Struct, frozen=True):
    """How consistent a judge was over some judgments. Intervals are clustered by prompt."""

    judgments: int
    """How many judgments there were."""
    flip_rate: Estimate
    """Of the matchups read in both orders, the share whose two verdicts differ."""
    first_slot_rate: Estimate
    """Of the verdicts that prefer one answer, the share for the one shown first; 0.5 without position bias."""
    coverage: Estimate
    """Of the verdicts asked for, the share that could be read."""
    repeat_rate: Estimate = NO_ESTIMATE
    """Of every two verdicts on one question that was repeated, the share that is the same."""


class BiasRow(msgspec.Struct, frozen=True):
    """The bias of one group of a run: `group` is `all`, `judge`, `pair` or `source`; `name` says which one."""

    dimension: str
    """What is judged; each dimension has one rubric."""
    group: str
    """`all`, `judge`, `pair` or `source`."""
    name: str
    """Which of the group."""
    bias: Bias
    """The rates."""


def measure_bias(judgments: Iterable[Judgment]) -> Bias:
    """The bias over all these judgments.

    Parameters:
        judgments: Settled judgments.
    """
    tally = _Tally()
    for judgment in judgments:
        tally.add(judgment)
    return tally.bias()


def bias_rows(plan: JudgingPlan, judged: JudgingResult) -> list[BiasRow]:
    """The bias of a run by dimension: over all, by judge, by pair of entrants and by source of the prompts.

    Parameters:
        plan: What is judged.
        judged: The result of judging it.
    """
    rows = []
    for dimension, judgments in judged.judgments.items():
        sources = {case.prompt.prompt_id: case.prompt.source for case in plan.cases.get(dimension, ())}
        tallies: dict[tuple[str, str], _Tally] = {("all", ""): _Tally()}
        for judgment in judgments:
            for name in _groups(judgment, sources):
                tallies.setdefault(name, _Tally()).add(judgment)
        order = ("all", "judge", "pair", "source")
        keys = sorted(tallies, key=lambda key: order.index(key[0]))
        rows += [BiasRow(dimension, group, which, tallies[group, which].bias()) for group, which in keys]
    return rows


def length_preference(cases: Iterable[Case], judgments: Iterable[Judgment]) -> Estimate:
    """Of the decisive matchups with answers of unequal length, the share won by the longer answer (in characters).

    Parameters:
        cases: What is judged: matchups with their texts.
        judgments: Settled judgments.
    """
    hits, prompts = [], []
    for case, judgment in zip(cases, judgments, strict=True):
        longer = len(case.response_a) - len(case.response_b)
        if judgment.winner is not None and longer:
            hits.append((judgment.winner == judgment.entrant_a) == (longer > 0))
            prompts.append(case.prompt.text)
    return share(hits, prompts)


def self_preference(cases: Iterable[Case], judgments: Iterable[Judgment], own: Collection[str]) -> Estimate:
    """Of the decisive matchups in which exactly one answer is by an entrant of `own`, the share that answer won.

    Do not compare it with one half, since the judge's answers may really be better or worse: compare it with what
    people prefer.
    """
    hits, prompts = [], []
    for case, judgment in zip(cases, judgments, strict=True):
        if judgment.winner is not None and (judgment.entrant_a in own) != (judgment.entrant_b in own):
            hits.append(judgment.winner in own)
            prompts.append(case.prompt.text)
    return share(hits, prompts)


class _Tally:
    """Collects the counts behind the shares of a group: by rate, hits and their prompts."""

    def __init__(self) -> None:
        self._judgments = 0
        self._hits: dict[str, tuple[list[bool], list[str]]] = {
            name: ([], []) for name in ("flip_rate", "first_slot_rate", "coverage", "repeat_rate")
        }

    def add(self, judgment: Judgment) -> None:
        def count(rate: str, hit: bool) -> None:
            hits, prompts = self._hits[rate]
            hits.append(hit)
            prompts.append(judgment.prompt_id)

        self._judgments += 1
        for forward, swapped in in_pairs(judgment.raw):
            if forward.verdict.readable and swapped.verdict.readable:
                count("flip_rate", forward.for_entrants is not swapped.for_entrants)
        for same in repeated(judgment.raw) if len(judgment.raw) > 2 else ():
            count("repeat_rate", same)
        for verdict in judgment.raw:
            count("coverage", verdict.verdict.readable)
            if verdict.verdict in (VerdictLabel.A, VerdictLabel.B):
                count("first_slot_rate", verdict.verdict is VerdictLabel.A)

    def bias(self) -> Bias:
        return Bias(self._judgments, **{rate: share(hits, prompts) for rate, (hits, prompts) in self._hits.items()})


def _groups(judgment: Judgment, sources: Mapping[str, str]) -> list[tuple[str, str]]:
    first, second = sorted((judgment.entrant_a, judgment.entrant_b))
    judges = dict.fromkeys(verdict.judge_model for verdict in judgment.raw)
    return [
        ("all", ""),
        *(("judge", judge) for judge in judges),
        ("pair", f"{first} · {second}"),
        ("source", sources.get(judgment.prompt_id, "")),
    ]

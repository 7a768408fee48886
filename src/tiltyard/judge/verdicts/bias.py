"""Judge bias: position, length and self-preference; and how many of its verdicts could be read."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Collection, Iterable

import msgspec

from tiltyard.judge.verdicts.plan import Case, JudgingPlan
from tiltyard.judge.verdicts.records import Judgment, VerdictLabel, in_pairs, repeated
from tiltyard.judge.verdicts.verdicts import JudgingResult
from tiltyard.stats import NO_ESTIMATE, Estimate, share

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
    counts = BiasCounts()
    for judgment in judgments:
        counts.add(judgment)
    return counts.bias()


def bias_rows(plan: JudgingPlan, judged: JudgingResult) -> list[BiasRow]:
    """The bias of a run by dimension: over all, by judge, by pair of entrants and by source of the prompts.

    Parameters:
        plan: What is judged.
        judged: The result of judging it.
    """
    rows = []
    for dimension, judgments in judged.judgments.items():
        sources = {case.prompt.prompt_id: case.prompt.source for case in plan.cases.get(dimension, ())}
        groups: dict[str, defaultdict[str, BiasCounts]] = {
            name: defaultdict(BiasCounts) for name in ("all", "judge", "pair", "source")
        }
        whole = groups["all"][""]
        for judgment in judgments:
            whole.add(judgment)
            for name in dict.fromkeys(verdict.judge_model for verdict in judgment.raw):
                groups["judge"][name].add(judgment)
            groups["pair"][" · ".join(sorted((judgment.entrant_a, judgment.entrant_b)))].add(judgment)
            groups["source"][sources.get(judgment.prompt_id, "")].add(judgment)
        rows += [
            BiasRow(dimension, group, name, counts.bias())
            for group, some in groups.items()
            for name, counts in some.items()
        ]
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


class BiasCounts:
    """What the rates of a judge are made of: by rate, whether each was a hit and its prompt, in five bytes."""

    def __init__(self) -> None:
        self._judgments = 0
        self._prompts: dict[str, int] = {}
        self._hits: dict[str, tuple[array[int], array[int]]] = defaultdict(lambda: (array("b"), array("i")))

    def count(self, rate: str, prompt_id: str, hit: bool) -> None:
        hits, prompts = self._hits[rate]
        hits.append(hit)
        prompts.append(self._prompts.setdefault(prompt_id, len(self._prompts)))

    def add(self, judgment: Judgment) -> None:
        self._judgments += 1
        prompt = judgment.prompt_id
        for forward, swapped in in_pairs(judgment.raw):
            if forward.verdict.readable and swapped.verdict.readable:
                self.count("flip_rate", prompt, forward.for_entrants is not swapped.for_entrants)
        for same in repeated(judgment.raw) if len(judgment.raw) > 2 else ():
            self.count("repeat_rate", prompt, same)
        for verdict in judgment.raw:
            self.count("coverage", prompt, verdict.verdict.readable)
            if verdict.verdict in (VerdictLabel.A, VerdictLabel.B):
                self.count("first_slot_rate", prompt, verdict.verdict is VerdictLabel.A)

    def rate(self, name: str) -> Estimate:
        hits, prompts = self._hits[name]
        return share(hits, prompts)  # type: ignore[arg-type]

    def bias(self) -> Bias:
        return Bias(self._judgments, *map(self.rate, Bias.__struct_fields__[1:]))

"""Whether a model fails its readers: a both-bad rate that rises (a test that allows for the prompts), or is high.

Some prompts are failed by everyone, and one failing model raises the rate of all that meet it. So rates are compared
prompt by prompt, and a model that is found has its matchups set aside before the next one is looked for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import msgspec
import numpy as np

from tiltyard.types import Bools, Floats, Ints

ALPHA = 0.01
"""How often a report without any change may name a model: the chance over all models together."""

EXACT_UP_TO = 4000
"""Both-bad votes of a model up to which the distribution is summed exactly; above, it is normal to four digits."""

WORST_PROMPTS = 3


class QualityVotes(msgspec.Struct, frozen=True, eq=False):
    """Votes in arrays: models by side, prompt, whether both were called bad, and whether the vote is a recent one."""

    model_a: Ints
    model_b: Ints
    prompt: Ints
    both_bad: Bools
    recent: Bools

    def take(self, rows: Bools) -> QualityVotes:
        return QualityVotes(
            self.model_a[rows], self.model_b[rows], self.prompt[rows], self.both_bad[rows], self.recent[rows]
        )


class WorstPrompt(msgspec.Struct, frozen=True):
    """Where a model is worst."""

    prompt: int
    excess: float
    """Both-bad votes in excess of what the prompt explains."""
    both_bad: int
    votes: int


class QualityFlag(msgspec.Struct, frozen=True):
    """A model whose both-bad rate rose or is high: rates before and lately, the chance of that, and where it is worst.

    For a high rate `p_value` is the chance of as many both-bad votes at the level that is still acceptable.
    """

    model: int
    rate_before: float | None
    rate_recent: float
    votes_before: int
    votes_recent: int
    p_value: float
    worst_prompts: tuple[WorstPrompt, ...]
    trigger: Literal["rise", "level"] = "rise"


def rising_both_bad(
    votes: QualityVotes, models: Sequence[int], *, least_votes: int, least_rise: float, alpha: float = ALPHA
) -> list[QualityFlag]:
    """The models whose both-bad rate rose by `least_rise` or more and by more than chance, the clearest first.

    A model is looked at when it has `least_votes` before and lately. The test is exact given each prompt's totals
    (Fisher's, summed over prompts), one-sided, and Holm's (1979) step-down keeps false alarms of a whole report at
    `alpha`. Models that cannot be told apart, such as the only two of an arena, are named together.
    """
    result: list[QualityFlag] = []
    left, candidates = votes, list(models)
    while candidates:
        tested = []
        for model in candidates:
            own = left.take((left.model_a == model) | (left.model_b == model))
            if min(recent := int(own.recent.sum()), len(own.recent) - recent) >= least_votes:
                chance = _chance_of_rise(own, int((own.both_bad & own.recent).sum()))
                tested.append(_flag(own, model, chance, "rise"))
        if not tested:
            break
        clearest = min(tested, key=lambda flag: (flag.p_value, flag.model))
        if clearest.p_value * len(candidates) > alpha:
            break
        alike = [flag for flag in tested if flag.p_value == clearest.p_value]
        for flag in alike:
            if flag.rate_before is not None and flag.rate_recent - flag.rate_before >= least_rise:
                result.append(flag)
                left = left.take((left.model_a != flag.model) & (left.model_b != flag.model))
            candidates.remove(flag.model)
    return result


def high_both_bad(
    votes: QualityVotes, models: Sequence[int], *, least_votes: int, level: float, alpha: float = ALPHA
) -> list[QualityFlag]:
    """The models whose both-bad rate over recent votes is above a level by more than chance, the clearest first.

    A model that was always bad does not rise, but should be looked at. A both-bad vote is about two models, so the
    matchups of a model that is found are set aside before the next is looked for. Exact binomial test, one-sided;
    Holm's step-down keeps false alarms of a whole report at `alpha`.
    """
    from scipy.special import bdtrc

    result: list[QualityFlag] = []
    left, candidates = votes, list(models)
    while candidates and level < 1.0:
        tested = []
        for model in candidates:
            own = left.take((left.model_a == model) | (left.model_b == model))
            recent, bad = int(own.recent.sum()), int((own.both_bad & own.recent).sum())
            if recent >= least_votes:
                chance = float(bdtrc(bad - 1, recent, level)) if bad else 1.0
                tested.append((chance, -bad / recent, model, own))
        if not tested:
            break
        chance, _, model, own = min(tested, key=lambda one: one[:3])
        if chance * len(candidates) > alpha:
            break
        result.append(_flag(own, model, chance, "level"))
        left = left.take((left.model_a != model) & (left.model_b != model))
        candidates.remove(model)
    return result


def _flag(own: QualityVotes, model: int, chance: float, trigger: Literal["rise", "level"]) -> QualityFlag:
    """The worst prompts have most recent both-bad votes, of a rise: beyond what the prompt's own total explains."""
    recent, bad_recent = int(own.recent.sum()), int((own.both_bad & own.recent).sum())
    before, bad_before = len(own.recent) - recent, int(own.both_bad.sum()) - bad_recent
    prompts, count, lately, bad, bad_lately = _by_prompt(own)
    excess = bad_lately - bad * lately / count if trigger == "rise" else bad_lately
    worst = tuple(
        WorstPrompt(int(prompts[i]), float(excess[i]), int(bad_lately[i]), int(lately[i]))
        for i in np.argsort(-excess, kind="stable")[:WORST_PROMPTS]
        if excess[i] > 0
    )
    rate_before = bad_before / before if before else None
    return QualityFlag(model, rate_before, bad_recent / recent, before, recent, chance, worst, trigger)


def _by_prompt(own: QualityVotes) -> tuple[Ints, Ints, Ints, Ints, Ints]:
    """By prompt that has votes: its number, all votes, recent votes, both-bad votes, recent both-bad votes."""
    prompts, code = np.unique(own.prompt, return_inverse=True)
    size = len(prompts)
    count = np.bincount(code, minlength=size)
    recent = np.bincount(code[own.recent], minlength=size)
    bad = np.bincount(code[own.both_bad], minlength=size)
    bad_recent = np.bincount(code[own.both_bad & own.recent], minlength=size)
    return prompts, count, recent, bad, bad_recent


def _chance_of_rise(own: QualityVotes, bad_recent: int) -> float:
    """P(as many recent both-bad votes or more), if recent and earlier votes of a prompt are alike."""
    _, count, recent, bad, _ = _by_prompt(own)
    if int(bad.sum()) > EXACT_UP_TO:
        return _normal_tail(count, recent, bad, bad_recent)
    total = np.ones(1)
    lowest = 0
    for n, k, r in zip(count.tolist(), bad.tolist(), recent.tolist(), strict=True):
        first, chances = _hypergeometric(n, k, r)
        lowest += first
        total = np.convolve(total, chances)
    return float(min(1.0, total[max(0, bad_recent - lowest) :].sum()))


def _hypergeometric(n: int, bad: int, drawn: int) -> tuple[int, Floats]:
    """The least possible number of bad ones among `drawn` of `n`, and the chances of it and all that follow."""
    from scipy.special import gammaln

    low, high = max(0, drawn + bad - n), min(bad, drawn)
    x = np.arange(low, high + 1, dtype=np.float64)

    def log_choose(whole: float, part: Floats | float) -> Floats:
        return np.asarray(gammaln(whole + 1.0) - gammaln(np.add(part, 1.0)) - gammaln(whole - part + 1.0))

    return low, np.exp(log_choose(bad, x) + log_choose(n - bad, drawn - x) - log_choose(n, drawn))


def _normal_tail(count: Ints, recent: Ints, bad: Ints, bad_recent: int) -> float:
    from scipy.special import ndtr

    mean = (bad * recent / count).sum()
    spread = np.maximum(count - 1, 1)
    variance = (bad * recent / count * (count - recent) / count * (count - bad) / spread).sum()
    return float(ndtr(-(bad_recent - 0.5 - mean) / math.sqrt(variance))) if variance > 0.0 else 1.0

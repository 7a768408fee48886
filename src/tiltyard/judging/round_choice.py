"""What adaptive rounds decide and choose: who is told apart after a look, and which matchups are judged next.

Arrays in, decisions out. `decide` says after each round which entrants are told apart, at a level that is divided over
the planned looks and all pairs, and which pairs are still worth asking about. `choose` picks the cases of a round.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tiltyard.errors import OptionError
from tiltyard.ratings import POINTS_PER_LOGIT
from tiltyard.ratings.quantiles import t_quantile
from tiltyard.types import Bools, Floats, Ints

HOPELESS = 0.1
"""A pair that the rounds to come would tell apart with less than this chance, as things stand, is not asked about."""

LATER_LOOKS = {"top": 2.0, "order": 6.0, "width": 1.0, "budget": 1.0}
"""The error rate spent up to look k of R is α(k/R) to this power: more is left for looks with more verdicts."""

VARIETY = 0.5
"""How far chance may move the priority of a matchup, which is between 0 and 1: opponents vary from prompt to prompt."""

_WIDTH = re.compile(r"width: *([0-9]+(?:\.[0-9]+)?)")
_CALLS = re.compile(r"budget: *([0-9]+)")

Kind = Literal["top", "order", "width", "budget"]


@dataclass(frozen=True, slots=True)
class RoundGoal:
    """What adaptive rounds go on for.

    `top`: until it is known who is best. `order`: until every two entrants are told apart. `width`: until no interval
    is wider than `limit` points. `budget`: until `limit` calls are made (None: as many as the money allows).
    """

    kind: Kind
    """`top`, `order`, `width` or `budget`."""
    limit: float | None = None
    """Points that an interval may be wide, from end to end; or calls."""

    @classmethod
    def parse(cls, text: str) -> RoundGoal:
        """The goal that a user wrote: `top`, `order`, `width:80`, `budget` or `budget:5000`.

        Parameters:
            text: The goal in words.
        """
        words = text.strip()
        if words in ("top", "order", "budget"):
            return cls(words)  # type: ignore[arg-type]
        if (width := _WIDTH.fullmatch(words)) and float(width[1]) > 0.0:
            return cls("width", float(width[1]))
        if (calls := _CALLS.fullmatch(words)) and int(calls[1]) > 0:
            return cls("budget", float(calls[1]))
        raise OptionError(
            f"until {text!r} is no goal of rounds. Write top (who is best), order (every pair), width:80 (no interval "
            "wider than 80 points from end to end), budget (with a budget in USD) or budget:5000 (calls)."
        )

    def __str__(self) -> str:
        return self.kind if self.limit is None else f"{self.kind}:{self.limit:g}"

    @property
    def stops_on_order(self) -> bool:
        """Whether stopping depends on who is ahead, so that each look must be paid for with wider intervals."""
        return self.kind in ("top", "order")


@dataclass(frozen=True, slots=True, eq=False)
class Design:
    """The cases that could be judged: two entrants and a prompt each, as codes, and the order in which prompts come.

    `number` (prompts, entrants, entrants) finds a case by its codes, −1 where there is none.
    """

    first: Ints
    second: Ints
    prompt: Ints
    n_entrants: int
    n_prompts: int
    number: Ints
    queue: Ints

    @classmethod
    def of(cls, first: Ints, second: Ints, prompt: Ints, *, n_entrants: int, n_prompts: int, seed: int) -> Design:
        """The design of some cases; `seed` draws the order of the prompts."""
        number = np.full((n_prompts, n_entrants, n_entrants), -1, dtype=np.int64)
        places = np.arange(len(first))
        number[prompt, first, second] = number[prompt, second, first] = places
        queue = np.random.default_rng([seed, 0]).permutation(n_prompts)
        return cls(first, second, prompt, n_entrants, n_prompts, number, queue)

    def __len__(self) -> int:
        return len(self.first)

    def per_entrant(self, cases: Bools) -> Floats:
        """How many of the cases each entrant is in."""
        m = self.n_entrants
        return np.asarray(
            np.bincount(self.first[cases], minlength=m) + np.bincount(self.second[cases], minlength=m), dtype=np.float64
        )

    def prompts_per_entrant(self, cases: Bools) -> Floats:
        """On how many prompts of the cases each entrant is."""
        seen = np.zeros((self.n_entrants, self.n_prompts), dtype=bool)
        for side in (self.first, self.second):
            seen[side[cases], self.prompt[cases]] = True
        return np.asarray(seen.sum(axis=1), dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class Estimates:
    """What a fit says: strengths, the variance of each and of every difference, and degrees of freedom.

    `noise` is the part of a difference's variance that is noise of single verdicts.
    """

    strength: Floats
    own_variance: Floats
    variance: Floats
    noise: Floats
    degrees: Floats


@dataclass(frozen=True, slots=True, eq=False)
class RoundDecision:
    """What is known after a look: `above[i, j]` if i is told apart above j, now or at an earlier look.

    `rivals` are the pairs that are still worth asking about, `hopeless` those that even the whole design would hardly
    tell apart, `wanted` how much each entrant needs verdicts (0: not at all).
    """

    above: Bools
    rivals: Bools
    hopeless: Bools
    wanted: Floats

    @property
    def settled(self) -> bool:
        """Whether nothing is left to ask."""
        return not self.wanted.any()


def look_error(goal: RoundGoal, level: float, look: int, looks: int) -> float:
    """The error rate that look number `look` of `looks` may spend; over all looks they sum to 1 − level.

    Parameters:
        goal: What the rounds go on for: `order` leaves nearly all of it for the last looks, `top` less.
        level: Confidence level of the decision.
        look: Number of the look, from 1.
        looks: How many looks were planned.
    """
    power = LATER_LOOKS[goal.kind]
    return float((1.0 - level) * ((look / looks) ** power - ((look - 1) / looks) ** power))


def most_equal_pairs(strength: Floats, above: Bools) -> int:
    """How many pairs can at most be equal at once, given who is told apart (Shaffer 1986, JASA 81:826).

    Entrants that are equal to each other are groups without a pair that is told apart. In the order of strength the
    most pairs come from groups of neighbours, where a group reaches as far as any pair across it is undecided.
    """
    order = np.argsort(-strength, kind="stable")
    ranked = above[np.ix_(order, order)]
    undecided = ~(ranked | ranked.T)
    places = np.arange(len(order))
    reach = np.maximum.accumulate(np.where(undecided, places[None, :], 0).max(axis=1, initial=0))
    most = np.zeros(len(order) + 1, dtype=np.int64)
    for end in range(1, len(order) + 1):
        starts = places[:end][reach[:end] >= end - 1]
        size = end - starts
        most[end] = (most[starts] + size * (size - 1) // 2).max()
    return max(int(most[-1]), 1)


def cuts(goal: RoundGoal, estimates: Estimates, above: Bools, error: float, *, contenders: int | None = None) -> Floats:
    """How many standard errors tell each two entrants apart at a look, as (entrants, entrants).

    For `top` no entrant as good as the best may be ruled out. As many as there are contenders can be so good, and every
    other entrant could falsely be put above each of them: that many one-sided comparisons share the error. Otherwise it
    is shared by the pairs that can be equal at once.

    Parameters:
        goal: What the rounds go on for.
        estimates: The fit of all verdicts so far.
        above: Who is told apart already.
        error: The error rate of the look.
        contenders: How many could be best; None: those above whom nobody is told apart.
    """
    m = len(estimates.degrees)
    if goal.kind == "top":
        contenders = contenders or int(np.count_nonzero(~above.any(axis=0)))
        share = 2.0 * error / max(contenders * (m - 1), 1)
    else:
        share = error / most_equal_pairs(estimates.strength, above)
    cut = np.full(m, np.inf)
    known = estimates.degrees > 0.0
    cut[known] = t_quantile(1.0 - share, estimates.degrees[known])
    return np.asarray(np.maximum(cut[:, None], cut[None, :]))


def _newly_apart(goal: RoundGoal, estimates: Estimates, above: Bools, error: float) -> Bools:
    """Who is told apart beyond what is known already: an order that was decided stays as it is."""
    cut = cuts(goal, estimates, above, error)
    gap = estimates.strength[:, None] - estimates.strength[None, :]
    apart = np.isfinite(cut) & (gap > np.where(np.isfinite(cut), cut, 0.0) * np.sqrt(estimates.variance))
    return np.asarray(apart & ~above & ~above.T & ~np.eye(len(above), dtype=bool))


def decide(
    goal: RoundGoal,
    design: Design,
    judged: Bools,
    estimates: Estimates,
    before: RoundDecision | None,
    *,
    planned: Floats,
    prompts: float,
    level: float,
    look: int,
    looks: int,
) -> RoundDecision:
    """What is known after a look, and what is still to be asked.

    Parameters:
        goal: What the rounds go on for.
        design: The cases that could be judged.
        judged: Which of them were judged.
        estimates: The fit of all verdicts so far.
        before: The decision of the look before.
        planned: In how many cases each entrant will be at most when all rounds are over.
        prompts: On how many prompts.
        level: Confidence level.
        look: Number of the look, from 1.
        looks: How many looks were planned.
    """
    m = design.n_entrants
    error = look_error(goal, level, look, looks)
    above = np.zeros((m, m), dtype=bool) if before is None else before.above
    while (more := _newly_apart(goal, estimates, above, error)).any():
        above = above | more
    exhausted = design.per_entrant(~judged) == 0
    nothing = np.zeros_like(above)
    if not goal.stops_on_order:
        return RoundDecision(
            above, nothing, nothing, _wanted(goal, estimates, 1.0 - (1.0 - level) / looks) * ~exhausted
        )
    undecided = ~(above | above.T | np.eye(m, dtype=bool))
    if goal.kind == "top":
        contender: Bools = np.logical_not(above.any(axis=0))
        undecided &= contender[:, None] & contender[None, :]
    # A pair may be all that is left at the last look: no pair is given up because others are still open today.
    last = cuts(goal, estimates, above, look_error(goal, level, looks, looks), contenders=2)
    hopeless = undecided & (chance_to_separate(design, judged, estimates, last, planned, prompts) < HOPELESS)
    rivals = undecided & ~hopeless & ~(exhausted[:, None] & exhausted[None, :])
    return RoundDecision(above, rivals, hopeless, rivals.any(axis=1).astype(np.float64))


def _wanted(goal: RoundGoal, estimates: Estimates, level: float) -> Floats:
    """How much each entrant needs verdicts: its interval's width, 0 where that is narrow enough."""
    width = interval_widths(estimates, level)
    if goal.kind == "width" and goal.limit is not None:
        return np.where(width > goal.limit, width, 0.0)
    return np.where(np.isfinite(width), width, 1e9)


def interval_widths(estimates: Estimates, level: float) -> Floats:
    """How wide intervals at this level are, in points, from end to end; infinite where there is none."""
    width = np.full(len(estimates.degrees), np.inf)
    known = estimates.degrees > 0.0
    half = t_quantile(level, estimates.degrees[known]) * np.sqrt(estimates.own_variance[known])
    width[known] = 2.0 * POINTS_PER_LOGIT * half
    return width


def chance_to_separate(
    design: Design, judged: Bools, estimates: Estimates, cut: Floats, planned: Floats, prompts: float
) -> Floats:
    """The chance that the rounds to come tell each two entrants apart, given the verdicts so far.

    Noise of single verdicts shrinks with their number, what prompts do to an entrant with the number of prompts. The
    difference at the end is normal around today's.
    """
    from scipy.special import ndtr

    with np.errstate(divide="ignore", invalid="ignore"):
        verdicts = np.nan_to_num(design.per_entrant(judged) / planned, nan=1.0, posinf=1.0)
        seen = np.nan_to_num(design.prompts_per_entrant(judged) / prompts, nan=1.0, posinf=1.0)
    noise = np.minimum(estimates.noise, estimates.variance)
    rest = estimates.variance - noise
    with np.errstate(invalid="ignore"):
        final = noise * _mean_of_two(np.minimum(verdicts, 1.0)) + rest * _mean_of_two(np.minimum(seen, 1.0))
        moves = np.sqrt(np.maximum(estimates.variance - final, 1e-12))
        gap = np.abs(estimates.strength[:, None] - estimates.strength[None, :])
        needed = np.where(np.isfinite(cut), cut, 1e6) * np.sqrt(np.maximum(final, 0.0))
        chance = ndtr((gap - needed) / moves) + ndtr((-gap - needed) / moves)
    return np.asarray(np.nan_to_num(chance, nan=1.0), dtype=np.float64)


def _mean_of_two(share: Floats) -> Floats:
    return np.asarray(0.5 * (share[:, None] + share[None, :]))


def choose(
    design: Design,
    judged: Bools,
    prompts: Sequence[int] | Ints,
    wanted: Floats,
    rivals: Bools,
    strength: Floats | None,
    *,
    opponents: int,
    only_rivals: bool,
    rng: np.random.Generator,
) -> Ints:
    """The cases of a round: on every prompt, some new opponents for each entrant that needs verdicts.

    Rivals come first, then opponents of like strength, whose results say most; chance varies them from prompt to
    prompt. Where it can be had, no entrant has more than `opponents`.

    Parameters:
        design: The cases that could be judged.
        judged: Which of them were judged already.
        prompts: The prompts of the round.
        wanted: How much each entrant needs verdicts; 0 means that it is only an opponent for others.
        rivals: The pairs to be told apart.
        strength: The estimated strengths in logits; None before the first round.
        opponents: How many opponents each entrant meets on a prompt.
        only_rivals: Whether only rivals meet.
        rng: Source of randomness.
    """
    m = design.n_entrants
    prompts = np.asarray(prompts, dtype=np.int64)
    a, b = np.triu_indices(m, 1)
    number = design.number[prompts[:, None], a[None, :], b[None, :]]
    needs = wanted > 0.0
    useful = needs[a] | needs[b]
    if only_rivals:
        useful = useful & rivals[a, b]
    usable = (number >= 0) & useful[None, :]
    usable[usable] = ~judged[number[usable]]
    gap = np.zeros(len(a)) if strength is None else strength[a] - strength[b]
    priority = 2.0 * rivals[a, b] + 1.0 / np.cosh(0.5 * gap) ** 2
    score = priority[None, :] + VARIETY * rng.random(number.shape)
    score[~usable] = -np.inf
    taken = _match(score, a, b, needs, m, opponents)
    return np.sort(number[taken])


def _match(score: Floats, a: NDArray[np.intp], b: NDArray[np.intp], needs: Bools, m: int, most: int) -> Bools:
    """On every prompt (row) the pairs that are taken, best first: none with more than `most`, then what is lacking."""
    rows = np.arange(len(score))
    order = np.argsort(-score, axis=1, kind="stable")
    degree = np.zeros((len(score), m), dtype=np.int64)
    taken = np.zeros(score.shape, dtype=bool)
    for strict in (True, False):
        for place in range(score.shape[1]):
            pair = order[:, place]
            i, j = a[pair], b[pair]
            room_i, room_j = degree[rows, i] < most, degree[rows, j] < most
            fits = (room_i & room_j) if strict else ((room_i & needs[i]) | (room_j & needs[j]))
            take = fits & np.isfinite(score[rows, pair]) & ~taken[rows, pair]
            taken[rows[take], pair[take]] = True
            degree[rows[take], i[take]] += 1
            degree[rows[take], j[take]] += 1
    return taken

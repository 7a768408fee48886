"""Adaptive rounds of one dimension: which cases to judge next, and when the question is answered."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from tiltyard.analysis.boards import BradleyTerry
from tiltyard.data.battles import BattleTable, Codes, Outcome, Source
from tiltyard.errors import OptionError, RatingError
from tiltyard.stats import POINTS_PER_LOGIT, Covariance, t_quantile
from tiltyard.types import Bools, Floats, Ints

LEAST_CHANCE = 0.1
"""A pair that the rounds to come would tell apart with less than this chance, as things stand, is not asked about."""

LATER_LOOKS = {"top": 2.0, "order": 6.0, "width": 1.0, "budget": 1.0}
"""The error rate spent up to look k of R is α(k/R) to this power: more is left for looks with more verdicts."""

VARIETY = 0.5
"""How far chance may move the priority of a matchup, which is between 0 and 1: opponents vary from prompt to prompt."""

_WIDTH = re.compile(r"width: *([0-9]+(?:\.[0-9]+)?)")
_CALLS = re.compile(r"budget: *([0-9]+)")

Kind = Literal["top", "order", "width", "budget"]


class RoundGoal(msgspec.Struct, frozen=True):
    """What adaptive rounds go on for.

    `top`: until it is known who is best. `order`: until every two entrants are told apart. `width`: until no interval
    is wider than `limit` points. `budget`: until `limit` calls are made (None: as many as the money allows).
    """

    kind: Kind
    limit: float | None = None

    @classmethod
    def parse(cls, text: str) -> RoundGoal:
        """The goal that a user wrote: `top`, `order`, `width:80`, `budget` or `budget:5000`."""
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


class Design(msgspec.Struct, frozen=True, eq=False):
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
        m = self.n_entrants
        return np.asarray(
            np.bincount(self.first[cases], minlength=m) + np.bincount(self.second[cases], minlength=m), dtype=np.float64
        )


class Estimates(msgspec.Struct, frozen=True, eq=False):
    """What a fit says: strengths, the variance of each and of every difference, and degrees of freedom.

    `noise` is the part of a difference's variance that is noise of single verdicts.
    """

    strength: Floats
    own_variance: Floats
    variance: Floats
    noise: Floats
    degrees: Floats


class RoundDecision(msgspec.Struct, frozen=True, eq=False):
    """What is known after a look: `above[i, j]` if i is told apart above j, now or at an earlier look.

    `rivals` are the pairs that are still worth asking about, `too_close` those that even the whole design would hardly
    tell apart, `wanted` how much each entrant needs verdicts (0: not at all).
    """

    above: Bools
    rivals: Bools
    too_close: Bools
    wanted: Floats


def look_error(goal: RoundGoal, level: float, look: int, looks: int) -> float:
    """The error rate that look number `look` of `looks` may spend; over all looks they sum to 1 − level."""
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
    `contenders` is how many could be best; None: those above whom nobody is told apart.
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


def interval_widths(estimates: Estimates, level: float) -> Floats:
    """How wide intervals at this level are, in points, from end to end; infinite where there is none."""
    width = np.full(len(estimates.degrees), np.inf)
    known = estimates.degrees > 0.0
    half = t_quantile(level, estimates.degrees[known]) * np.sqrt(estimates.own_variance[known])
    width[known] = 2.0 * POINTS_PER_LOGIT * half
    return width


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


FAILED = -1
"""The outcome of a case that was asked about and has no verdict."""

ADDED_OPPONENTS = 0.1
"""Once all prompts were seen, a round adds this part of the other entrants as opponents on each prompt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundSettings:
    """How adaptive rounds go: a goal, and what a tournament file says below `rounds`."""

    goal: RoundGoal
    opponents: int | None = None
    prompts: int | None = None
    maximum: int = 6
    level: float = 0.95
    seed: int = 0
    calls_per_case: int = 2
    """Both orders, all judges of a panel, all repeats."""

    def __post_init__(self) -> None:
        for name in ("opponents", "prompts", "maximum"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise OptionError(f"{name} of rounds is {value}; it must be at least 1.")
        if not 0.5 <= self.level < 1.0:
            raise OptionError(f"level of rounds is {self.level:g}; it must be at least 0.5 and below 1.")

    @property
    def interval_level(self) -> float:
        """The level of printed intervals: each holds with `level` whichever of the planned looks was the last."""
        return 1.0 - (1.0 - self.level) / self.maximum

    @property
    def sweep(self) -> int:
        """How many rounds see new prompts; those after them add opponents on the same prompts."""
        return max(1, self.maximum - self.maximum // 3)


class RoundRecord(msgspec.Struct, frozen=True):
    """One round: cases judged and failed in it and so far, and what was known after it."""

    round: int
    cases: int
    cases_so_far: int
    failed: int
    open_entrants: int
    open_pairs: int
    told_apart: int
    contenders: int
    widest: float | None


@dataclass(slots=True)
class AdaptiveRounds:
    """The rounds of one dimension: `next_cases`, judge them, `take` their outcomes, until `stopped`."""

    design: Design
    settings: RoundSettings
    judged: Bools = field(init=False)
    outcome: Ints = field(init=False)
    score: Floats = field(init=False)
    decision: RoundDecision = field(init=False)
    estimates: Estimates | None = None
    records: list[RoundRecord] = field(default_factory=list)
    stopped: str | None = None

    def __post_init__(self) -> None:
        n, m = len(self.design), self.design.n_entrants
        self.judged = np.zeros(n, dtype=bool)
        self.outcome = np.full(n, FAILED, dtype=np.int64)
        self.score = np.full(n, np.nan)
        nothing = np.zeros((m, m), dtype=bool)
        rivals = ~np.eye(m, dtype=bool) if self.settings.goal.stops_on_order else nothing
        self.decision = RoundDecision(nothing, rivals, nothing, np.ones(m))
        if not n:
            self.stopped = "there is nothing to judge"

    @property
    def round(self) -> int:
        return len(self.records) + 1

    def next_cases(self) -> Ints:
        """The cases of the next round, in the order of the design; none once it has stopped."""
        if self.stopped is not None:
            return np.empty(0, dtype=np.int64)
        settings, design = self.settings, self.design
        rng = np.random.default_rng([settings.seed, self.round])
        start = self._block * (self.round - 1)
        sweeping = start < design.n_prompts
        prompts = design.queue[start : start + self._block] if sweeping else design.queue
        opponents = self.opponents if sweeping else self._added
        only_rivals = settings.goal.kind == "top" or (settings.goal.kind == "order" and sweeping)
        chosen = np.empty(0, dtype=np.int64)
        for only in (True, False) if only_rivals else (False,):
            chosen = choose(
                design,
                self.judged,
                prompts,
                self.decision.wanted,
                self.decision.rivals,
                None if self.estimates is None else self.estimates.strength,
                opponents=opponents,
                only_rivals=only,
                rng=rng,
            )
            if len(chosen):
                break
        else:
            self.stopped = "nothing is left to ask about the pairs that are open"
        most = len(chosen)
        if (left := self._cases_left) is not None:
            most = min(most, math.ceil(left / max(1, settings.maximum - self.round + 1)))
        return chosen if len(chosen) <= most else np.sort(rng.choice(chosen, most, replace=False))

    @property
    def _cases_left(self) -> int | None:
        goal = self.settings.goal
        if goal.kind != "budget" or goal.limit is None:
            return None
        return int(goal.limit) // self.settings.calls_per_case - int(self.judged.sum())

    @property
    def opponents(self) -> int:
        """How many opponents an entrant meets on a prompt while new prompts come."""
        return self.settings.opponents or max(1, min(3, (self.design.n_entrants - 1) // 3))

    @property
    def _block(self) -> int:
        return self.settings.prompts or max(1, math.ceil(self.design.n_prompts / self.settings.sweep))

    @property
    def _added(self) -> int:
        return max(1, round(ADDED_OPPONENTS * (self.design.n_entrants - 1)))

    def _decide(self, estimates: Estimates) -> RoundDecision:
        """What is known after a look, and what is still to be asked."""
        settings, design, goal, looks = self.settings, self.design, self.settings.goal, self.settings.maximum
        above, distinct = self.decision.above, ~np.eye(design.n_entrants, dtype=bool)
        error = look_error(goal, settings.level, self.round, looks)
        gap = estimates.strength[:, None] - estimates.strength[None, :]
        while True:  # each pair that is told apart may leave more error rate for the others
            cut = cuts(goal, estimates, above, error)
            with np.errstate(invalid="ignore"):  # an entrant that no fit knows, against itself
                apart = gap > cut * np.sqrt(estimates.variance)
            more = apart & ~above & ~above.T & distinct
            if not more.any():
                break
            above = above | more
        exhausted = design.per_entrant(~self.judged) == 0
        nothing = np.zeros_like(above)
        if not goal.stops_on_order:
            width = interval_widths(estimates, settings.interval_level)
            wanted = np.where(np.isfinite(width), width, 1e9)
            if goal.kind == "width" and goal.limit is not None:
                wanted = np.where(width > goal.limit, width, 0.0)
            return RoundDecision(above, nothing, nothing, wanted * ~exhausted)
        undecided = ~(above | above.T) & distinct
        if goal.kind == "top":
            contender: Bools = np.logical_not(above.any(axis=0))
            undecided &= contender[:, None] & contender[None, :]
        # A pair may be all that is left at the last look: no pair is given up because others are still open today.
        last = cuts(goal, estimates, above, look_error(goal, settings.level, looks, looks), contenders=2)
        too_close = undecided & (self._chance_to_separate(estimates, last) < LEAST_CHANCE)
        rivals = undecided & ~too_close & ~(exhausted[:, None] & exhausted[None, :])
        return RoundDecision(above, rivals, too_close, rivals.any(axis=1).astype(np.float64))

    def _chance_to_separate(self, estimates: Estimates, cut: Floats) -> Floats:
        """The chance that the rounds to come tell each two entrants apart, given the verdicts so far.

        Noise of single verdicts shrinks with their number, what prompts do to an entrant with the number of prompts.
        The difference at the end is normal around today's.
        """
        from scipy.special import ndtr

        design, rounds, block = self.design, self.settings.maximum, self._block
        later = max(0, rounds - max(math.ceil(design.n_prompts / block), self.round))
        last_prompt = min(design.n_prompts, block * rounds)
        left = last_prompt - min(design.n_prompts, block * self.round)
        now = design.per_entrant(self.judged)
        most = now + self.opponents * left + self._added * later * design.n_prompts
        planned = np.minimum(most, design.per_entrant(np.ones(len(design), dtype=bool)))
        met = np.zeros((design.n_entrants, design.n_prompts), dtype=bool)
        for side in (design.first, design.second):
            met[side[self.judged], design.prompt[self.judged]] = True
        with np.errstate(divide="ignore", invalid="ignore"):
            verdicts = np.nan_to_num(now / planned, nan=1.0, posinf=1.0)
            seen = np.nan_to_num(met.sum(axis=1) / last_prompt, nan=1.0, posinf=1.0)
        noise = np.minimum(estimates.noise, estimates.variance)
        with np.errstate(invalid="ignore"):  # an entrant that no fit knows has an infinite variance
            rest = estimates.variance - noise
            final = noise * _mean_of_two(np.minimum(verdicts, 1.0)) + rest * _mean_of_two(np.minimum(seen, 1.0))
            moves = np.sqrt(np.maximum(estimates.variance - final, 1e-12))
            gap = np.abs(estimates.strength[:, None] - estimates.strength[None, :])
            needed = np.where(np.isfinite(cut), cut, 1e6) * np.sqrt(np.maximum(final, 0.0))
            chance = ndtr((gap - needed) / moves) + ndtr((-gap - needed) / moves)
        return np.asarray(np.nan_to_num(chance, nan=1.0), dtype=np.float64)

    def take(self, cases: Ints, outcome: Ints, score: Floats | None = None) -> RoundRecord:
        """Take the outcomes of a round (`Outcome` codes, −1 where a case failed; `score` where they are soft)."""
        self.judged[cases] = True
        self.outcome[cases] = outcome
        if score is not None:
            self.score[cases] = score
        rows = np.flatnonzero(self.judged & (self.outcome != FAILED))
        if len(rows):
            self.estimates = estimate(self.design, rows, self.outcome[rows], self.score[rows]) or self.estimates
        widest = None
        if self.estimates is not None:
            self.decision = self._decide(self.estimates)
            width = float(interval_widths(self.estimates, self.settings.interval_level).max())
            widest = width if math.isfinite(width) else None
        decision = self.decision
        record = RoundRecord(
            round=self.round,
            cases=len(cases),
            cases_so_far=int(self.judged.sum()),
            failed=int((outcome == FAILED).sum()),
            open_entrants=int((decision.wanted > 0.0).sum()),
            open_pairs=int(decision.rivals.sum()) // 2,
            told_apart=int(decision.above.sum()),
            contenders=len(self.contenders),
            widest=widest,
        )
        self.records.append(record)
        self.stopped = self._why_stop()
        return record

    @property
    def contenders(self) -> list[int]:
        """The entrants that nobody was told apart above: all that are as good as the best are among them."""
        return np.flatnonzero(~self.decision.above.any(axis=0)).tolist()

    @property
    def settled(self) -> bool:
        """Whether the question is answered: not only given up, or out of rounds, cases or calls."""
        goal, decision = self.settings.goal, self.decision
        if goal.kind == "top":
            return len(self.contenders) == 1
        if goal.kind == "order":
            return int(decision.above.sum()) == self.design.n_entrants * (self.design.n_entrants - 1) // 2
        widest = self.records[-1].widest if self.records else None
        return goal.kind == "width" and widest is not None and widest <= (goal.limit or 0.0)

    def _why_stop(self) -> str | None:
        goal = self.settings.goal
        if self.settled:
            words = {
                "top": "one entrant is told apart from all others",
                "order": "every two entrants are told apart",
                "width": f"no interval is wider than {goal.limit or 0.0:g} points",
            }
            return words[goal.kind]
        if self.judged.all():
            return "everything was judged"
        if (left := self._cases_left) is not None and left < 1:
            return "the calls of the budget are made"
        if len(self.records) >= self.settings.maximum:
            return "all planned rounds are over"
        if self.estimates is not None and not self.decision.wanted.any():
            return "the rounds that are left would hardly tell the remaining pairs apart"
        return None


def estimate(design: Design, rows: Ints, outcome: Ints, score: Floats) -> Estimates | None:
    """The Bradley–Terry fit of some cases with errors by prompt; None if they do not allow one."""
    m = design.n_entrants
    table = BattleTable(
        models=tuple(f"{code:06d}" for code in range(m)),
        model_a=design.first[rows].astype(np.int32),
        model_b=design.second[rows].astype(np.int32),
        outcome=outcome.astype(np.int8),
        source=np.full(len(rows), Source.LLM_JUDGE.code, dtype=np.int8),
        weight=np.ones(len(rows)),
        score_a=None if np.isnan(score).all() else score,
        columns={"question_id": Codes(design.prompt[rows].astype(np.int32), [str(p) for p in range(design.n_prompts)])},
    ).compact()
    try:
        solved = BradleyTerry(only_connected=True).solve(table)
    except RatingError:
        return None
    covariance = solved.covariance
    if not isinstance(covariance, Covariance):
        return None
    here = np.array([int(name) for name in solved.fit_input.selected.table.models])
    strength, own, degrees = np.zeros(m), np.full(m, np.inf), np.zeros(m)
    variance, noise = np.full((m, m), np.inf), np.full((m, m), np.inf)
    strength[here] = solved.fit.parameters.strength
    own[here] = np.maximum(covariance.variances(), covariance.fisher_variances())
    degrees[here] = np.where(covariance.known, covariance.degrees, 0.0)
    square = np.ix_(here, here)
    variance[square] = covariance.differences()
    fisher = covariance.fisher[: len(here), : len(here)]
    noise[square] = np.diag(fisher)[:, None] + np.diag(fisher)[None, :] - 2.0 * fisher
    return Estimates(strength, own, variance, noise, degrees)


class ImaginedWorld(msgspec.Struct, frozen=True, kw_only=True):
    """What a forecast supposes: how far entrants differ, how much prompts do to each, and how often verdicts tie.

    Parameters:
        spread: Standard deviation of strengths in logits; 0.5 is 87 points.
        effects: Standard deviation, in logits, of what a prompt does to an entrant.
        ties: Share of ties between equals.
        strength: Known strengths, such as a pilot's; None draws them.
    """

    spread: float = 0.5
    effects: float = 1.0
    ties: float = 0.15
    strength: Floats | None = None

    def draw(self, design: Design, rng: np.random.Generator) -> tuple[Floats, Callable[[Ints], Ints]]:
        """Strengths, and a function that gives the outcomes of cases: the same case always has the same outcome."""
        m = design.n_entrants
        strength = rng.normal(0.0, self.spread, m) if self.strength is None else self.strength
        effect = rng.normal(0.0, self.effects, (design.n_prompts, m))
        uniform = rng.random(len(design))
        nu = 2.0 * self.ties / (1.0 - self.ties)

        def outcomes(cases: Ints) -> Ints:
            a, b, prompt = design.first[cases], design.second[cases], design.prompt[cases]
            half = 0.5 * (strength[a] - strength[b] + effect[prompt, a] - effect[prompt, b])
            win, lose = np.exp(half), np.exp(-half)
            u = uniform[cases] * (win + lose + nu)
            return np.where(u < win, Outcome.A.code, np.where(u < win + lose, Outcome.B.code, Outcome.TIE.code)).astype(
                np.int64
            )

        return strength, outcomes


def play(rounds: AdaptiveRounds, outcomes: Callable[[Ints], Ints]) -> None:
    """Play the rounds to their end."""
    while len(cases := rounds.next_cases()):
        rounds.take(cases, outcomes(cases))


def forecast(design: Design, settings: RoundSettings, world: ImaginedWorld, *, times: int = 10) -> list[int]:
    """How many cases the rounds took in imagined tournaments of the same shape, smallest first."""
    forecasts = []
    for seed in range(times):
        rounds = AdaptiveRounds(design, settings)
        play(rounds, world.draw(design, np.random.default_rng([settings.seed, 1, seed]))[1])
        forecasts.append(int(rounds.judged.sum()))
    return sorted(forecasts)

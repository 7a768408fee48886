"""How many prompts, verdicts or votes it takes to tell models apart.

From assumptions, or from battles: their clustered variance falls as everything grows together, prompts at the same
number of verdicts per prompt, voters at the same number of votes per voter. From scores: as if new prompts varied as
those that there are.

`plan_top`: how many more battles until the top of a board separates, at the differences it has now. The rule is the one
that ranges of ranks are made by: all pairs of models at once (`apart` in `boards`). A pair's own size comes from
the noncentral t. That all of them separate at once is simulated: the errors of the board are drawn from its covariance,
and the size is the one at which the wanted share of the draws has every pair in its order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache, partial
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from tiltyard.analysis import decisions
from tiltyard.analysis.boards import (
    BradleyTerry,
    Solved,
    apart,
    apart_at_any_time,
    check_number,
    check_whole,
    dimensions_of,
    kind_of,
    lacking,
    pooled_remark,
)
from tiltyard.analysis.decisions.compare_battles import (
    likely_to_cluster,
    make_bradley_terry,
    mean_result,
    obstacles,
    read_to_compare,
)
from tiltyard.analysis.decisions.compare_scores import PairedScores, noise_of, one_metric, scores_of_two
from tiltyard.analysis.decisions.contrast import Contrast, contrast, fit_sides, solve_plainly
from tiltyard.analysis.decisions.sample_size import Assumptions, Goal, Growth, chance_beyond, size_for
from tiltyard.analysis.decisions.units import POINTS, Unit, unit_of
from tiltyard.data.battles import BattleData, BattleTable, MissingVerdicts, Opened, Outcome, Source, no_go
from tiltyard.errors import OptionError, OptionValue, ScoreError
from tiltyard.options import (
    BattleOptions,
    CompareOptions,
    FitOptions,
    InputOptions,
    SideOptions,
    accepts_options,
    option,
)
from tiltyard.stats import (
    FEW,
    FEWEST,
    FEWEST_UNBOUNDED,
    POINTS_PER_LOGIT,
    Covariance,
    Reach,
    ScoreSpread,
    cluster_means,
    least_deviation,
)
from tiltyard.types import Floats, Result, named

ORDERS = 2
"""Calls of a judge for each verdict: one for each order of the answers."""
DIFFERENCES = (5.0, 10.0, 20.0, 50.0)
"""The differences in rating points that a plan is made for where none are given."""
SHARE_DIFFERENCES = (0.01, 0.02, 0.05, 0.1)
PARTS_OF_SPREAD = (0.1, 0.2, 0.5)
"""Differences that are planned for if none is given: of shares, and of other scores in standard deviations."""
GOAL = Goal()
DROPPED = ("tie", "inconsistent judgment", "both bad")
"""Battles that had to be decided though the options leave them out."""
FEWEST_PROMPTS = 30
"""A plan asks for no fewer prompts or voters: fewer say little of the others, and the reckoning is rough there."""
MOST_TIMES = 1000.0
"""More than this many times the battles there are is no sensible number."""
DRAWS = 4000
HARDEST = 400
"""Of more pairs than this, only those that are hardest to tell apart are drawn."""
ROUGH = 1e-3
"""Sizes of boards are found this closely."""


class CallPrice(msgspec.Struct, frozen=True):
    """What one call of a judge costs.

    Parameters:
        judge: The judge.
        direct: Price of a call in USD; None where it is unknown.
        batch: The same in a batch.
        as_of: Date of the prices; None where the price is unknown.
        input_tokens: Tokens a call sends.
        output_tokens: Tokens of the reply.
        measured: Whether the tokens are those of an earlier run.
    """

    judge: str
    direct: float | None
    batch: float | None
    as_of: str | None
    input_tokens: float
    output_tokens: float
    measured: bool = False


class Amount(msgspec.Struct, frozen=True):
    """How much data.

    Parameters:
        clusters: How many prompts and voters, by name: only what battles were counted as dependent by.
        battles: Battles, however they are decided.
        calls: Calls of a judge, both orders of every verdict; None where people decide.
        votes: Votes of people; None where a judge decides.
    """

    clusters: Mapping[str, int]
    battles: int
    calls: int | None = None
    votes: int | None = None

    def times(self, size: float) -> Amount:
        """So many times as much, in whole numbers."""

        def grown(count: int) -> int:
            return math.ceil(count * size - 1e-9)

        calls = None if self.calls is None else ORDERS * grown(self.calls // ORDERS)
        clusters = {kind: grown(count) for kind, count in self.clusters.items()}
        return Amount(clusters, grown(self.battles), calls, None if self.votes is None else grown(self.votes))

    def beyond(self, have: Amount) -> Amount:
        """What is to be added to what there is."""

        def left(value: int | None, there: int | None) -> int | None:
            return None if value is None else max(value - (there or 0), 0)

        clusters = {kind: max(count - have.clusters.get(kind, 0), 0) for kind, count in self.clusters.items()}
        more = max(self.battles - have.battles, 0)
        return Amount(clusters, more, left(self.calls, have.calls), left(self.votes, have.votes))

    def to_dict(self, prefix: str = "") -> dict[str, Any]:
        """The amount as plain values; `prompts` and `voters` are None where battles do not depend on them."""
        named = {"prompts": self.clusters.get("prompt"), "voters": self.clusters.get("voter")}
        named |= {"battles": self.battles, "calls": self.calls, "votes": self.votes}
        return {f"{prefix}{name}": value for name, value in named.items()}


class SampleNeed(msgspec.Struct, frozen=True, kw_only=True):
    """How much data something takes, and what is still to be gathered of it; None where no sensible number does it.

    Parameters:
        times: How many times the data there is; the number of prompts (or voters) where there is none.
        needed: How much data in all.
        more: How much of it is still to be gathered.
        cost: Price in USD of the calls that are still to be made; None where it is unknown.
        cost_batch: The same in batches.
    """

    times: float | None
    needed: Amount | None = None
    more: Amount | None = None
    cost: float | None = None
    cost_batch: float | None = None

    def amounts(self) -> dict[str, Any]:
        """Both amounts as plain values."""
        more = {} if self.more is None else self.more.to_dict("more_")
        return {**({} if self.needed is None else self.needed.to_dict()), **more}


def sample_need(times: float | None, unit: Amount, have: Amount, price: CallPrice | None) -> dict[str, Any]:
    """The values of a `SampleNeed` of so many times a unit."""
    if times is None:
        return {"times": None}
    needed = unit.times(times)
    more = needed.beyond(have)
    values = {"times": times, "needed": needed, "more": more}
    if price is None or price.direct is None or price.batch is None or more.calls is None:
        return values
    return {**values, "cost": more.calls * price.direct, "cost_batch": more.calls * price.batch}


class SampleSize(SampleNeed, frozen=True, kw_only=True):
    """How much data a difference takes.

    Parameters:
        difference: The true difference in rating points.
        win_rate: The mean result that it means: 1 for a win, a half for a tie.
        power: The chance to reach the goal with as much as is needed.
        power_now: The chance with the data there is; None where there is none.
        present: Whether it is the difference that the battles show now.
    """

    needed: Amount
    more: Amount
    difference: float
    win_rate: float
    power: float
    power_now: float | None
    present: bool = False

    def to_dict(self) -> dict[str, Any]:
        powers = named(self, "power power_now cost cost_batch")
        return {**named(self, "difference win_rate present times"), **self.amounts(), **powers}


class Pilot(msgspec.Struct, frozen=True):
    """What battles there are already say of the difference.

    Parameters:
        new: The model that stands first.
        old: The model it is compared with.
        difference: The difference now, in rating points.
        error: Its standard error, in rating points.
        low: Lower end of its interval; None where nothing bounds it.
        high: Upper end of its interval.
        worth: How many equally used prompts or voters its battles are worth.
        have: How much data there is.
        obstacles: Why no gate would decide on these battles; usually none.
    """

    new: str
    old: str
    difference: float
    error: float
    low: float | None
    high: float | None
    worth: float
    have: Amount
    obstacles: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {**named(self, "new old difference error low high worth"), **self.have.to_dict()}


class Plan(Result):
    """What `plan` returns."""

    __slots__ = ()

    @property
    def sentence(self) -> str:
        """The plan in one sentence."""
        return decisions.plan_words.sentence(self)

    def render(self, format: str = "table") -> str:
        """The plan as `table`, `json` or `md`."""
        return decisions.plan_words.render(self, format)


@dataclass(frozen=True, slots=True, eq=False)
class SamplePlan(Plan):
    """How much data each difference takes.

    Parameters:
        goal: What is to be shown, and how surely.
        rows: The sizes, one for each difference.
        assumed: What was assumed; None where battles say it.
        pilot: The battles it was made from; None where there are none.
        price: What one call of the judge costs; None where no judge was named.
        smallest: The smallest difference that a given size shows, by that size; empty where none was asked for.
        remarks: Sentences a reader should not miss.
    """

    goal: Goal
    rows: tuple[SampleSize, ...]
    assumed: Assumptions | None
    pilot: Pilot | None
    price: CallPrice | None
    smallest: Mapping[int, float | None] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {
            "sentence": self.sentence,
            "goal": asdict(self.goal),
            "assumed": None if self.assumed is None else asdict(self.assumed),
            "pilot": None if self.pilot is None else self.pilot.to_dict(),
            "price": msgspec.to_builtins(self.price),
            "sizes": [row.to_dict() for row in self.rows],
            "smallest": [{"size": size, "difference": points} for size, points in self.smallest.items()],
            "remarks": list(self.remarks),
        }


def plan_difference(
    assumed: Assumptions | None = None,
    *,
    goal: Goal | None = None,
    differences: Sequence[float] | None = None,
    people: bool = False,
    sizes: Sequence[int] = (),
    price: CallPrice | None = None,
) -> SamplePlan:
    """How many prompts and calls, or voters and votes, a difference takes, from assumptions alone.

    Parameters:
        assumed: What is assumed of the battles; None: the defaults.
        goal: What is to be shown, and how surely; None: `better` at 5 %, with chance 0.8.
        differences: True differences in rating points; None: 5, 10, 20 and 50, or 0 where the goal is a margin.
        people: Whether people vote; else a judge is asked in both orders.
        sizes: Numbers of prompts (or voters) for which the smallest difference that they show is given too.
        price: What one call of the judge costs.
    """
    goal = goal or Goal()
    assumed = assumed or Assumptions(flips=0.0 if people else Assumptions().flips)
    if people and assumed.flips:
        raise OptionError("flips are a judge's: people see each pair in one order. Leave flips at 0.")
    battles = assumed.battles_per_prompt
    unit = Amount({"prompt": 1}, battles, calls=ORDERS * battles)
    if people:
        unit = Amount({"voter": 1}, battles, votes=battles)
    growth = assumed.growth()
    rows = tuple(
        _row(points, assumed.win_rate(points), growth, goal, unit, None, price)
        for points in _differences(differences, goal)
    )
    return SamplePlan(goal, rows, assumed, None, price, _smallest(sizes, growth, goal, 1.0))


@dataclass(frozen=True, kw_only=True)
class PilotOptions(BattleOptions, FitOptions, SideOptions):
    """What a plan from battles is made by."""

    goal: Goal = option(GOAL, "What is to be shown, and how surely.")
    price: CallPrice | None = option(None, "What one call of the judge costs.")
    differences: Sequence[float] | None = option(
        None, "True differences in rating points.", "that of now, 5, 10, 20 and 50"
    )
    sizes: Sequence[int] = option((), "Numbers of prompts whose smallest difference is given too.")
    seed: int = option(0, "Seed of random draws.")


@accepts_options(PilotOptions)
def plan_from_battles(battles: BattleData, new: str, old: str, options: PilotOptions) -> SamplePlan:
    """How much more of the same data tells two models apart, from the variance that battles have now.

    Parameters:
        battles: A path, a run folder, a glob, a frame, an iterable of dicts, or a `BattleTable`; see `read_battles`.
        new: The model that stands first.
        old: The model it is compared with.
    """
    goal, price, differences = options.goal, options.price, options.differences
    if new == old:
        raise OptionError(f"{new!r} is compared with itself: give two different models, the new one first.")
    battles = Opened.of(battles)
    estimator, table, notes = _read_for_plan(battles, options, goal.level, {new, old})
    sides = fit_sides(solve_plainly(table, estimator), new, old, estimator, lambda other: other.solve(table))
    solved = sides.solved
    result = contrast(solved, new, old)
    _check_known(result, new, old)
    have = amount_of(solved)
    low, high = result.ends(goal.level, anytime=goal.anytime)
    likely = likely_to_cluster(battles, table, options.part(InputOptions))
    against = (*no_go(battles), *sides.obstacles, *obstacles(solved, (new, old), estimator, likely))
    pilot = Pilot(new, old, result.points, result.error, low, high, result.degrees + 1.0, have, against)
    growth = Growth(_variance_of(solved, result), pilot.worth, have.battles, result.clustered)

    def row(points: float, *, present: bool = False) -> SampleSize:
        rate = mean_result(solved, points)
        assert rate is not None
        return _row(points, rate, growth, goal, have, have, price, present=present)

    rows = [row(points) for points in _differences(differences, goal)]
    if differences is None and goal.margin is None and round(abs(result.points)) >= 1:
        rows.insert(0, row(abs(result.points), present=True))
    unit = next(iter(have.clusters.values()), have.battles)
    notes += [f"a gate would not decide on these: {clause}" for clause in against]
    remarks = (*notes, *dict.fromkeys(solved.remarks), *sides.remarks, *_caveats(pilot, goal))
    return SamplePlan(goal, tuple(rows), None, pilot, price, _smallest(options.sizes, growth, goal, unit), remarks)


def _read_for_plan(
    battles: Opened, options: PilotOptions, level: float, models: Collection[str] | None
) -> tuple[BradleyTerry, BattleTable, list[str]]:
    """What fits the battles that a plan is made from, the battles, and what is to be said of what they are."""
    estimator = make_bradley_terry(options, level=level, slot=options.slot)
    table = read_to_compare(battles, estimator, options.part(InputOptions), ())
    lost: MissingVerdicts = lacking(battles, estimator.selection).only(entrants=models)
    notes = [*pooled_remark(dimensions_of(table, estimator.selection))]
    return estimator, table, [*notes, f"{lost.sentence}: they are not counted"] if lost else notes


def amount_of(solved: Solved) -> Amount:
    """How much data a fit was made of: rated battles, and those that were gathered but are not rated."""
    selected = solved.fit_input.selected
    by_people = by_judge = 0.0
    for table in (selected.table, selected.both_bad):
        voted = table.source == Source.HUMAN.code
        by_people += float(table.weight[voted].sum())
        by_judge += float(table.weight[~voted].sum())
    dropped = sum(selected.left_out.get(reason, 0.0) for reason in DROPPED)
    if dropped:
        share = by_judge / (by_judge + by_people)
        by_judge, by_people = by_judge + share * dropped, by_people + (1.0 - share) * dropped
    covariance = solved.covariance
    assert covariance is not None, "a plan needs intervals"
    ways = zip(solved.fit_input.clusters, covariance.ways, strict=True)
    clusters = {kind_of(column): round(way.count) for column, way in ways}
    calls = ORDERS * round(by_judge) if by_judge else None
    return Amount(clusters, round(by_people + by_judge), calls, round(by_people) if by_people else None)


def _differences(given: Sequence[float] | None, goal: Goal) -> list[float]:
    """The true differences, each of them checked."""
    if given is None:
        given = DIFFERENCES if goal.margin is None else (0.0,)
    if not len(given):
        raise OptionError("differences is empty: give at least one, in rating points.")
    for points in given:
        check_number("difference", points, least=-2000.0, most=2000.0)
    return [float(points) for points in dict.fromkeys(given)]


def _row(
    points: float,
    win_rate: float,
    growth: Growth,
    goal: Goal,
    unit: Amount,
    have: Amount | None,
    price: CallPrice | None,
    *,
    present: bool = False,
) -> SampleSize:
    """How much data one difference takes; `unit` is what size 1 is, `have` what there is."""
    fewest = FEWEST_PROMPTS / min(unit.clusters.values(), default=unit.battles)
    size = max(growth.size(goal, points), fewest)
    size = math.ceil(size) if have is None else size
    return SampleSize(
        difference=points,
        win_rate=win_rate,
        power=growth.chance(goal, points, size),
        power_now=None if have is None else growth.chance(goal, points, 1.0),
        present=present,
        **sample_need(size, unit, have or Amount({}, 0), price),
    )


def _smallest(sizes: Sequence[int], growth: Growth, goal: Goal, unit: float) -> dict[int, float | None]:
    """The smallest difference that each size shows; `unit` prompts (or voters, or battles) are size 1."""
    result = {}
    for size in sizes:
        check_whole("size", size, least=1)
        result[size] = growth.smallest(goal, size / unit)
    return result


def _check_known(result: Contrast, new: str, old: str) -> None:
    if result.no_low or result.no_high:
        raise OptionError(
            f"the battles do not bound the difference of {new!r} and {old!r} on both sides (one of them won or lost "
            "all of its battles): nothing says how it varies. Add battles, or plan from assumptions, without battles."
        )
    if not result.known:
        raise OptionError(
            f"the battles of {new!r} or {old!r} come from too few prompts or voters to say how their difference "
            "varies. Add prompts, or plan from assumptions, without battles."
        )


def _variance_of(solved: Solved, result: Contrast) -> Callable[[float], float]:
    """The variance by the true difference.

    Where only the two met, it is carried from the present difference to another one by Davidson's formula for one
    battle, (2 cosh(δ/2) + ν)·2 cosh(δ/2); through a field it hardly depends on the difference.
    """
    present = max(result.variance, result.own_variance)
    table = solved.fit_input.selected.table
    if len(table.models) > 2:
        return lambda _: present
    tied = float(table.weight[table.outcome == Outcome.TIE.code].sum() / table.n_battles)
    at = 2.0 * math.cosh(0.5 * result.value)
    nu = tied / (1.0 - tied) * at

    def variance(points: float) -> float:
        cosh = 2.0 * math.cosh(0.5 * points / POINTS_PER_LOGIT)
        return present * (cosh + nu) * cosh / ((at + nu) * at)

    return variance


def _caveats(pilot: Pilot, goal: Goal) -> list[str]:
    """How far the pilot itself is to be trusted."""
    from scipy.special import chdtri

    degrees = max(pilot.worth - 1.0, 1.0)
    low, high = (degrees / float(chdtri(degrees, tail)) for tail in (0.05, 0.95))
    caveats, kinds = [], [f"{kind}s" for kind in pilot.have.clusters] or ["battles"]
    if high / low > 1.5:
        caveats.append(
            f"the variance is known from battles worth {pilot.worth:.0f} {' or '.join(kinds)}: the true numbers are "
            f"{low:.1f} to {high:.1f} times these (90 %)"
        )
    if goal.margin is None and abs(pilot.difference) < pilot.error:
        caveats.append(
            f"the present difference, {POINTS.signed(pilot.difference)} points, is within its standard error "
            f"({pilot.error:.0f}): it may be much larger or none, and so may the data it takes"
        )
    return caveats


class PairPlan(SampleNeed, frozen=True, kw_only=True):
    """How much data tells two neighbours of a board apart.

    Parameters:
        first: The higher one.
        second: The lower one.
        gap: By how many rating points they differ now.
        apart_now: Whether they are told apart already.
        obstacles: Why no number of battles like these tells them apart, where their sides are the reason.
    """

    first: str
    second: str
    gap: float
    apart_now: bool
    obstacles: tuple[str, ...] = ()

    @property
    def too_close(self) -> bool:
        """Whether no sensible number of battles tells them apart."""
        return self.times is None

    def to_dict(self) -> dict[str, Any]:
        known = named(self, "first second gap apart_now times too_close")
        return {**known, **self.amounts(), **named(self, "cost cost_batch")}


@dataclass(frozen=True, slots=True, eq=False)
class BoardPlan(Plan):
    """How much data separates the top of a board.

    Parameters:
        top: How many models at the top.
        models: How many models the board has.
        goal: The error rate, and with which chance all of them are to separate.
        pairs: The neighbours, the best first; the last of the top and the one below it are among them.
        need: How much data separates all of them at once.
        have: How much there is.
        price: What one call of the judge costs; None where no judge was named.
        remarks: Sentences a reader should not miss.
    """

    top: int
    models: int
    goal: Goal
    pairs: tuple[PairPlan, ...]
    need: SampleNeed
    have: Amount
    price: CallPrice | None
    remarks: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {
            **named(self, "sentence top models"),
            "goal": asdict(self.goal),
            "times": self.need.times,
            **self.need.amounts(),
            "have": self.have.to_dict(),
            "price": msgspec.to_builtins(self.price),
            **named(self.need, "cost cost_batch"),
            "pairs": [pair.to_dict() for pair in self.pairs],
            "remarks": list(self.remarks),
        }


@accepts_options(PilotOptions)
def plan_top(battles: BattleData, top: int, options: PilotOptions) -> BoardPlan:
    """How many times as many battles separate the top of a board: each of them from all below it.

    Parameters:
        battles: A path, a run folder, a glob, a frame, an iterable of dicts, or a `BattleTable`; see `read_battles`.
        top: How many models at the top.
    """
    goal, price = options.goal, options.price
    if goal.margin is not None or goal.one_sided:
        raise OptionError("a board's ranks have two sides and no margin: leave both out, or name two models.")
    battles = Opened.of(battles)
    estimator, table, notes = _read_for_plan(battles, options, 1.0 - goal.alpha, None)
    solved = solve_plainly(table, estimator)
    covariance = solved.covariance
    if not isinstance(covariance, Covariance):
        raise OptionError("a board of so many models has no table of all pairs: plan for fewer of them.")
    order, left_out = _order(solved, covariance)
    check_whole("top", top, least=1, most=max(len(order) - 1, 1))
    future, have = _Future(solved, covariance, goal), amount_of(solved)
    names = solved.fit_input.selected.table.models
    fit = cache(partial(BradleyTerry.solve, table=table))
    pairs = []
    for i, j in pairwise(order[: top + 1].tolist()):
        against = fit_sides(solved, names[i], names[j], estimator, fit).obstacles
        gap = float(future.strength[i] - future.strength[j])
        now = not against and gap > float(future.apart(1.0)[i, j])
        size = None if against else 1.0 if now else future.size(i, j)
        pairs.append(
            PairPlan(
                first=names[i],
                second=names[j],
                gap=POINTS_PER_LOGIT * gap,
                apart_now=now,
                obstacles=against,
                **sample_need(size, have, have, price),
            )
        )
    size = None if any(pair.too_close for pair in pairs) else future.all_at_once(order, top, options.seed)
    remarks = [*no_go(battles), *notes, *dict.fromkeys(solved.remarks), *left_out]
    remarks += _close_pairs(pairs, future, names)
    whole = SampleNeed(**sample_need(size, have, have, price))
    return BoardPlan(top, len(names), goal, tuple(pairs), whole, have, price, tuple(remarks))


def _order(solved: Solved, covariance: Covariance) -> tuple[NDArray[np.intp], list[str]]:
    """The models that can be planned for, the best first, and what is said of the others."""
    names = solved.fit_input.selected.table.models
    usable = covariance.known & (solved.state == Reach.HELD)
    strength = solved.fit.parameters.strength
    order = np.argsort(-strength, kind="stable")
    left = [names[i] for i in order if not usable[i]]
    remarks = []
    if left:
        remarks.append(f"left out, because too few battles, prompts or voters say how they vary: {', '.join(left)}")
    order = order[usable[order]]
    if len(order) < 2:
        raise OptionError("fewer than two models have intervals: add battles before a plan can be made from them.")
    return order, remarks


class _Future:
    """The board after so many times as many battles."""

    def __init__(self, solved: Solved, covariance: Covariance, goal: Goal) -> None:
        self.strength = solved.fit.parameters.strength
        self.goal = goal
        self._now = covariance
        self._battles = solved.fit_input.rows.battles_per_model()

    def covariance(self, size: float) -> Covariance:
        """The errors, with everything grown alike."""
        now = self._now
        degrees = (now.degrees + 1.0) * size - 1.0
        few = (self._battles * size < FEW) | (degrees + 1.0 < FEW if now.ways else False)
        matrices = tuple(matrix / size for matrix in now.matrices)
        return replace(now, matrices=matrices, fisher=now.fisher / size, degrees=degrees, few=few)

    def apart(self, size: float) -> Floats:
        """By how much every two must differ to be told apart."""
        level = 1.0 - self.goal.alpha
        if self.goal.anytime:
            return apart_at_any_time(self.covariance(size), level, self._battles * size)
        return apart(self.covariance(size), level)

    def error(self, i: int, j: int, size: float = 1.0) -> float:
        """The standard error of a difference in logits."""
        return math.sqrt(float(self.covariance(size).differences()[i, j]))

    def degrees(self, i: int, j: int, size: float) -> float:
        """Degrees of freedom of a difference."""
        if not self._now.ways:
            return math.inf
        return float(min(self._now.degrees[i], self._now.degrees[j]) + 1.0) * size - 1.0

    def size(self, i: int, j: int) -> float | None:
        """How many times as many battles tell two apart; None where no sensible number does."""
        gap = float(self.strength[i] - self.strength[j])

        def chance(size: float) -> float:
            error = self.error(i, j, size)
            return chance_beyond(gap / error, float(self.apart(size)[i, j]) / error, self.degrees(i, j, size))

        too_close = gap <= 0.0 or chance(MOST_TIMES) < self.goal.power
        return None if too_close else size_for(chance, self.goal.power, tolerance=ROUGH)

    def all_at_once(self, order: NDArray[np.intp], top: int, seed: int) -> float | None:
        """How many times as many battles tell each of the top from all below it, in the same draw of the errors."""
        first, second = np.triu_indices(len(order), 1)
        first, second = order[first[first < top]], order[second[first < top]]
        ease = (self.strength[first] - self.strength[second]) / self.apart(MOST_TIMES)[first, second]
        hardest = np.argsort(ease, kind="stable")[:HARDEST]
        first, second = first[hardest], second[hardest]
        rng, m = np.random.default_rng(seed), len(self.strength)
        values, vectors = np.linalg.eigh(self._now.matrix[:m, :m])
        draws = (rng.standard_normal((DRAWS, m)) * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
        chances = rng.standard_normal(DRAWS)
        errors = draws[:, first] - draws[:, second]
        gap = self.strength[first] - self.strength[second]

        degrees = float(self._now.degrees[order].min()) + 1.0 if self._now.ways else math.inf

        def chance(size: float) -> float:
            # Standard errors are off by chance too, all of them alike: by √(χ²/degrees), which is nearly normal.
            needed = self.apart(size)[first, second]
            off = np.maximum(1.0 + chances / math.sqrt(2.0 * max(degrees * size - 1.0, 0.5)), 0.05)
            return float((gap + errors / math.sqrt(size) > needed * off[:, None]).all(axis=1).mean())

        return size_for(chance, self.goal.power, most=100.0 * MOST_TIMES, tolerance=ROUGH)


def _close_pairs(pairs: list[PairPlan], future: _Future, names: tuple[str, ...]) -> list[str]:
    """What to say of neighbours whose order is little more than a guess."""
    close = []
    for pair in pairs:
        error = POINTS_PER_LOGIT * future.error(names.index(pair.first), names.index(pair.second))
        if not pair.apart_now and pair.gap < error:
            close.append(f"{pair.first} and {pair.second} ({error:.0f} points)")
    if not close:
        return []
    return [
        f"less than one standard error apart: {', '.join(close)}. They may be farther apart, closer, or the other way "
        "round, and what they take changes with that"
    ]


class ScorePlanRow(msgspec.Struct, frozen=True):
    """The prompts that one difference takes; None where there is no such number."""

    difference: float
    prompts: int | None


@dataclass(frozen=True, slots=True, eq=False)
class ScorePlan(Plan):
    """How many prompts it takes to tell two models apart by their scores.

    Parameters:
        new: The new model of the scores that there are.
        old: The old one.
        rows: Prompts by true difference.
        unit: The unit of differences.
        n_prompts: Prompts that there are.
        margin: By how much the new one may be worse, where that is to be shown; None: a difference is.
        power: The chance of showing it.
        alpha: The error rate.
        notes: What the plan rests on.
    """

    new: str
    old: str
    rows: tuple[ScorePlanRow, ...]
    unit: Unit
    n_prompts: int
    margin: float | None
    power: float
    alpha: float
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        values = named(self, "new old n_prompts margin power alpha sentence")
        rows = [msgspec.to_builtins(row) for row in self.rows]
        return {**values, "unit": self.unit.name, "rows": rows, "notes": list(self.notes)}


def plan_from_scores(
    new: Any,
    old: Any,
    options: CompareOptions,
    goal: Goal,
    margin: float | str | None = None,
    differences: Sequence[float | str] = (),
) -> ScorePlan:
    """The prompts that differences take, if new prompts vary as those that there are.

    The models are two of the battles of the options; without these, those of two sources of one model each.
    """
    if goal.anytime:
        raise OptionError(
            "a plan of scores is for one look: leave anytime out, or plan for 1.6 times as wide an interval."
        )
    tables, new, old = scores_of_two(options.battles, new, old, options)
    table = one_metric(tables).only(new, old)
    if not table.prompts:
        chosen = OptionValue("map", {"prompt": "COLUMN"})
        raise ScoreError("a plan needs scores by prompt: no column names the prompts. Name it with ", chosen, ".")
    pairs = PairedScores.of(table, (new, old), options).both
    if len(pairs.prompts) < 2:
        raise ScoreError(f"a plan needs two prompts or more with scores of both {new} and {old}.")
    gaps, unit_size, codes = pairs.differences, 1.0, pairs.clusters
    if codes is not None:
        gaps, sizes = cluster_means(gaps, codes)
        unit_size = float(sizes.mean())
    if not table.spread > 0.0 or len(gaps) < 2:
        raise ScoreError(
            "all scores are equal, or all prompts are one cluster: they say nothing of how much others vary."
        )
    spread = ScoreSpread.of(gaps, table.spread, unit_size)
    deviation = spread.variance**0.5
    unit = unit_of(table, deviation / 5 if deviation else None)
    limit = None if margin is None else unit.amount(margin, "margin")
    default = SHARE_DIFFERENCES if table.shares else tuple(part * deviation for part in PARTS_OF_SPREAD)
    wanted = [unit.amount(size, "differences", least=-np.inf) for size in differences]
    wanted = wanted or list(default if limit is None else (0.0,))
    tail = goal.alpha if limit is not None or goal.one_sided else goal.alpha / 2
    scale = table.reach if math.isfinite(table.reach) or not table.bounded else table.spread
    least, rows = FEWEST if table.bounded else FEWEST_UNBOUNDED, []
    for size in wanted:
        needed = spread.prompts(size + (limit or 0.0), tail, goal.power, least_deviation(limit or 0.0, scale))
        rows.append(ScorePlanRow(size, None if needed is None else int(np.ceil(max(needed, least) * unit_size))))
    apart = float(np.mean(np.abs(pairs.differences) > 1e-9 * table.spread))
    notes = [
        f"{goal.power:.0%} chance, error rate {goal.alpha:g}; the two differ on {apart:.0%} of prompts".replace(
            "%", " %"
        )
    ]
    if len(pairs.prompts) < FEWEST_PROMPTS:
        notes.append("fewer than 30 prompts: how much prompts vary is itself uncertain, so take more")
    noise = noise_of(table, (new, old))
    if noise is None:
        notes.append("prompts or repeats: with one answer to each prompt the scores do not say")
    else:
        best = noise.best_repeats()
        notes.append(
            "prompts or repeats: answers vary more than prompts do, so repeats help as much as prompts"
            if best is None
            else f"prompts or repeats: about {max(1, round(best))} repeats of each prompt are best if a new prompt "
            "costs as much as an answer"
        )
    notes += table.reading_notes
    return ScorePlan(new, old, tuple(rows), unit, len(pairs.prompts), limit, goal.power, goal.alpha, tuple(notes))

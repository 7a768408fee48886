"""`plan_difference` and `plan_from_battles`: how many prompts, verdicts or votes tell two models apart.

From assumptions, or from battles: their clustered variance falls as everything grows together, prompts at the same
number of verdicts per prompt, voters at the same number of votes per voter.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated

from tiltyard.battles.battle import Outcome, Source
from tiltyard.battles.reading import BattleData
from tiltyard.battles.table import BattleTable
from tiltyard.boards.bradley_terry import BradleyTerry
from tiltyard.boards.certainty import Solved
from tiltyard.boards.estimator import check_number, check_whole
from tiltyard.boards.inputs import lacking
from tiltyard.boards.preparation import kind_of
from tiltyard.decisions.contrast import Contrast, contrast
from tiltyard.decisions.gate import even_odds
from tiltyard.decisions.obstacles import obstacles
from tiltyard.decisions.plan_records import NOTHING, ORDERS, Amount, CallPrice, Pilot, SamplePlan, SampleSize
from tiltyard.decisions.sample_size import Assumptions, Goal, Growth
from tiltyard.decisions.sides import fit_sides
from tiltyard.decisions.sources import open_source
from tiltyard.decisions.two_models import make_bradley_terry, read_to_compare
from tiltyard.decisions.words import signed
from tiltyard.errors import OptionError
from tiltyard.options import BattleOptions, FitOptions, Help, InputOptions, takes
from tiltyard.ratings import POINTS_PER_LOGIT

DIFFERENCES = (5.0, 10.0, 20.0, 50.0)
"""The differences in rating points that a plan is made for where none are given."""
GOAL = Goal()
DROPPED = ("tie", "inconsistent judgment", "both bad")
"""Battles that had to be decided though the options leave them out."""
FEWEST_PROMPTS = 30
"""A plan asks for no fewer prompts or voters: fewer say little of the others, and the reckoning is rough there."""


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
    one = Amount({"voter" if people else "prompt": 1}, battles, None, battles)
    if not people:
        one = Amount(one.clusters, battles, ORDERS * battles, None)
    growth = assumed.growth()
    rows = tuple(_row(points, growth, goal, one, NOTHING, price) for points in _differences(differences, goal))
    return SamplePlan(goal, rows, assumed, None, price, _smallest(sizes, growth, goal, 1.0))


@dataclass(frozen=True, kw_only=True)
class PlanOptions(BattleOptions, FitOptions):
    """Options of every plan from battles."""

    goal: Annotated[Goal, Help("What is to be shown, and how surely.", "`better` at 5 %, with chance 0.8")] = GOAL
    price: Annotated[CallPrice | None, Help("What one call of the judge costs.")] = None


@dataclass(frozen=True, kw_only=True)
class PairPlanOptions(PlanOptions):
    """Options of `plan_from_battles`."""

    differences: Annotated[
        Sequence[float] | None,
        Help(
            "True differences in rating points.",
            default="the present one, 5, 10, 20 and 50, or 0 where the goal is a margin",
        ),
    ] = None
    sizes: Annotated[
        Sequence[int],
        Help("Numbers of prompts (else voters, else battles): the smallest difference that they show is given too."),
    ] = ()


@takes(PairPlanOptions)
def plan_from_battles(battles: BattleData, new: str, old: str, options: PairPlanOptions) -> SamplePlan:
    """How much more of the same data tells two models apart, from the variance that battles have now.

    Parameters:
        battles: A path, a run folder, a glob, a frame, an iterable of dicts, or a `BattleTable`; see `read_battles`.
        new: The model that stands first.
        old: The model it is compared with.
    """
    goal, price, differences = options.goal, options.price, options.differences
    if new == old:
        raise OptionError(f"{new!r} is compared with itself: give two different models, the new one first.")
    estimator, table = read_for_plan(battles, options, level=goal.level)
    sides = fit_sides(estimator.solve(table), new, old, estimator, lambda other: other.solve(table))
    solved = sides.solved
    found = contrast(solved, new, old)
    _check_known(found, new, old)
    have = amount_of(solved)
    low, high = found.ends(goal.level, anytime=goal.anytime)
    pilot = Pilot(new, old, found.points, found.error, low, high, found.degrees + 1.0, have)
    growth = Growth(_variance_of(solved, found), pilot.worth, have.battles, found.clustered)
    wanted = _differences(differences, goal)
    rows = [_row(points, growth, goal, have, have, price) for points in wanted]
    if differences is None and goal.margin is None and round(abs(found.points)) >= 1:
        rows.insert(0, _row(abs(found.points), growth, goal, have, have, price, present=True))
    unit = next(iter(have.clusters.values()), have.battles)
    lost = lacking(open_source(battles).battles, estimator.selection).only(entrants={new, old})
    notes = [f"{lost.sentence}: they are not counted"] if lost else []
    against = (*sides.obstacles, *obstacles(solved, (new, old), estimator))
    notes += [f"a gate would not decide on these: {clause}" for clause in against]
    remarks = (*notes, *dict.fromkeys(solved.fit_input.remarks), *sides.remarks, *_caveats(pilot, goal))
    return SamplePlan(goal, tuple(rows), None, pilot, price, _smallest(options.sizes, growth, goal, unit), remarks)


def read_for_plan(battles: BattleData, options: PlanOptions, level: float) -> tuple[BradleyTerry, BattleTable]:
    """What fits the battles that a plan is made from, and the battles."""
    estimator = make_bradley_terry(options, level=level)
    return estimator, read_to_compare(open_source(battles).battles, estimator, options.part(InputOptions), ())


def amount_of(solved: Solved) -> Amount:
    """How much data a fit was made of: rated battles, and those that were gathered but are not rated.

    Parameters:
        solved: The fit with its errors.
    """
    selected = solved.fit_input.selected
    by_people = by_judge = 0.0
    for table in (selected.table, selected.both_bad):
        voted = table.source == Source.HUMAN
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
    growth: Growth,
    goal: Goal,
    unit: Amount,
    have: Amount,
    price: CallPrice | None,
    *,
    present: bool = False,
) -> SampleSize:
    """How much data one difference takes; `unit` is what size 1 is."""
    fewest = FEWEST_PROMPTS / min(unit.clusters.values(), default=unit.battles)
    size = max(growth.size(goal, points), fewest)
    size = math.ceil(size) if have is NOTHING else size
    whole = unit.times(size)
    more = whole.beyond(have)
    now = None if have is NOTHING else growth.chance(goal, points, 1.0)
    direct, batch = (None, None) if price is None else price.of(more)
    reached = growth.chance(goal, points, size)
    return SampleSize(points, even_odds(points), size, whole, more, reached, now, direct, batch, present)


def _smallest(sizes: Sequence[int], growth: Growth, goal: Goal, unit: float) -> dict[int, float | None]:
    """The smallest difference that each size shows; `unit` prompts (or voters, or battles) are size 1."""
    found = {}
    for size in sizes:
        check_whole("size", size, least=1)
        found[size] = growth.smallest(goal, size / unit)
    return found


def _check_known(found: Contrast, new: str, old: str) -> None:
    if found.no_low or found.no_high:
        raise OptionError(
            f"the battles do not bound the difference of {new!r} and {old!r} on both sides (one of them won or lost "
            "all of its battles): nothing says how it varies. Add battles, or plan from assumptions, without battles."
        )
    if not found.known:
        raise OptionError(
            f"the battles of {new!r} or {old!r} come from too few prompts or voters to say how their difference "
            "varies. Add prompts, or plan from assumptions, without battles."
        )


def _variance_of(solved: Solved, found: Contrast) -> Callable[[float], float]:
    """The variance by the true difference.

    Where only the two met, it is carried from the present difference to another one by Davidson's formula for one
    battle, (2 cosh(δ/2) + ν)·2 cosh(δ/2); through a field it hardly depends on the difference.
    """
    present = max(found.variance, found.own_variance)
    table = solved.fit_input.selected.table
    if len(table.models) > 2:
        return lambda _: present
    tied = float(table.weight[table.outcome == Outcome.TIE].sum() / table.n_battles)
    at = 2.0 * math.cosh(0.5 * found.value)
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
            f"the present difference, {signed(pilot.difference)} points, is within its standard error "
            f"({pilot.error:.0f}): it may be much larger or none, and so may the data it takes"
        )
    return caveats

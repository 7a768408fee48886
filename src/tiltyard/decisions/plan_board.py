"""`plan_top`: how many more battles until the top of a board separates, at the differences it has now.

The rule is the one that ranges of ranks are made by: all pairs of models at once (`boards.certainty.apart`). A pair's
own size comes from the noncentral t. That all of them separate at once is simulated: the errors of the board are drawn
from its covariance, and the size is the one at which the wanted share of the draws has every pair in its order.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from tiltyard.battles.reading import BattleData
from tiltyard.boards.certainty import Solved, apart, apart_at_any_time
from tiltyard.boards.estimator import check_whole
from tiltyard.boards.inputs import lacking
from tiltyard.decisions.plan import PlanOptions, amount_of, read_for_plan
from tiltyard.decisions.plan_records import Amount, CallPrice
from tiltyard.decisions.plan_words import board_sentence, board_table
from tiltyard.decisions.sample_size import Goal, chance_beyond, size_for
from tiltyard.decisions.sources import open_source
from tiltyard.errors import OptionError
from tiltyard.options import Help, takes
from tiltyard.ratings import POINTS_PER_LOGIT
from tiltyard.ratings.graph import Reach
from tiltyard.ratings.intervals import FEW, Covariance
from tiltyard.types import Floats

MOST_TIMES = 1000.0
"""More than this many times the battles there are is no sensible number."""
DRAWS = 4000
HARDEST = 400
"""Of more pairs than this, only those that are hardest to tell apart are drawn."""
ROUGH = 1e-3
"""Sizes of boards are found this closely."""


@dataclass(frozen=True, slots=True)
class PairPlan:
    """How much data tells two neighbours of a board apart.

    Parameters:
        first: The higher one.
        second: The lower one.
        gap: By how many rating points they differ now.
        apart_now: Whether they are told apart already.
        times: How many times the data there is; None where no sensible number does it.
        needed: How much data in all; None where no sensible number does it.
        more: How much of it is still to be gathered.
        cost: Price in USD of the calls that are still to be made; None where it is unknown.
        cost_batch: The same in batches.
    """

    first: str
    second: str
    gap: float
    apart_now: bool
    times: float | None
    needed: Amount | None
    more: Amount | None
    cost: float | None
    cost_batch: float | None

    @property
    def hopeless(self) -> bool:
        """Whether no sensible number of battles tells them apart."""
        return self.times is None

    def to_dict(self) -> dict[str, Any]:
        """The pair as plain values."""
        names = ("first", "second", "gap", "apart_now", "times")
        return {
            **{name: getattr(self, name) for name in names},
            "too_close": self.hopeless,
            **({} if self.needed is None else self.needed.to_dict()),
            **({} if self.more is None else self.more.to_dict("more_")),
            "cost": self.cost,
            "cost_batch": self.cost_batch,
        }


@dataclass(frozen=True, slots=True, eq=False)
class BoardPlan:
    """How much data separates the top of a board.

    Parameters:
        top: How many models at the top.
        models: How many models the board has.
        goal: The error rate, and with which chance all of them are to separate.
        pairs: The neighbours, the best first; the last of the top and the one below it are among them.
        times: How many times the data there is separates all of them at once; None where no sensible number does.
        needed: How much data that is in all.
        more: How much of it is still to be gathered.
        have: How much there is.
        price: What one call of the judge costs; None where no judge was named.
        cost: Price in USD of the calls that are still to be made; None where it is unknown.
        cost_batch: The same in batches.
        remarks: Sentences a reader should not miss.
    """

    top: int
    models: int
    goal: Goal
    pairs: tuple[PairPlan, ...]
    times: float | None
    needed: Amount | None
    more: Amount | None
    have: Amount
    price: CallPrice | None
    cost: float | None
    cost_batch: float | None
    remarks: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """The plan in one sentence."""
        return board_sentence(self)

    def to_dict(self) -> dict[str, Any]:
        """The plan as plain values: what `--format json` prints."""
        return {
            "sentence": self.sentence,
            "top": self.top,
            "models": self.models,
            "goal": asdict(self.goal),
            "times": self.times,
            **({} if self.needed is None else self.needed.to_dict()),
            **({} if self.more is None else self.more.to_dict("more_")),
            "have": self.have.to_dict(),
            "price": None if self.price is None else asdict(self.price),
            "cost": self.cost,
            "cost_batch": self.cost_batch,
            "pairs": [pair.to_dict() for pair in self.pairs],
            "remarks": list(self.remarks),
        }

    def to_json(self) -> str:
        """The plan as JSON text."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n"

    def __str__(self) -> str:
        return board_table(self)

    def __repr__(self) -> str:
        return f"<BoardPlan: {self.sentence}>"


@dataclass(frozen=True, kw_only=True)
class TopPlanOptions(PlanOptions):
    """Options of `plan_top`, whose goal has no margin: ranges of ranks have two sides."""

    seed: Annotated[int, Help("Seed of the draws that say when all pairs separate at once.")] = 0


@takes(TopPlanOptions)
def plan_top(battles: BattleData, top: int, options: TopPlanOptions) -> BoardPlan:
    """How many times as many battles separate the top of a board: each of them from all below it.

    Parameters:
        battles: A path, a run folder, a glob, a frame, an iterable of dicts, or a `BattleTable`; see `read_battles`.
        top: How many models at the top.
    """
    goal, price, seed = options.goal, options.price, options.seed
    if goal.margin is not None or goal.one_sided:
        raise OptionError("a board's ranks have two sides and no margin: leave both out, or name two models.")
    estimator, table = read_for_plan(battles, options, level=1.0 - goal.alpha)
    solved = estimator.solve(table)
    covariance = solved.covariance
    if not isinstance(covariance, Covariance):
        raise OptionError("a board of so many models has no table of all pairs: plan for fewer of them.")
    order, remarks = _order(solved, covariance)
    check_whole("top", top, least=1, most=max(len(order) - 1, 1))
    future = _Future(solved, covariance, goal)
    have = amount_of(solved)
    names = solved.fit_input.selected.table.models
    pairs = [_pair(future, int(i), int(j), names, have, price) for i, j in pairwise(order[: top + 1])]
    factor = None if any(pair.hopeless for pair in pairs) else future.all_at_once(order, top, seed)
    needed = None if factor is None else have.times(factor)
    more = None if needed is None else needed.beyond(have)
    direct, batch = (None, None) if price is None else price.of(more)
    lost = lacking(open_source(battles).battles, estimator.selection)
    said = [f"{lost.sentence}: they are not counted"] if lost else []
    remarks = [*said, *dict.fromkeys(solved.fit_input.remarks), *remarks, *_noise(pairs, future, names)]
    return BoardPlan(
        top, len(names), goal, tuple(pairs), factor, needed, more, have, price, direct, batch, tuple(remarks)
    )


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

        hopeless = gap <= 0.0 or chance(MOST_TIMES) < self.goal.power
        return None if hopeless else size_for(chance, self.goal.power, tolerance=ROUGH)

    def all_at_once(self, order: NDArray[np.intp], top: int, seed: int) -> float | None:
        """How many times as many battles tell each of the top from all below it, in the same draw of the errors."""
        first, second = np.triu_indices(len(order), 1)
        first, second = order[first[first < top]], order[second[first < top]]
        ease = (self.strength[first] - self.strength[second]) / self.apart(MOST_TIMES)[first, second]
        hardest = np.argsort(ease, kind="stable")[:HARDEST]
        first, second = first[hardest], second[hardest]
        draws, chances = self._draws(seed)
        errors = draws[:, first] - draws[:, second]
        gap = self.strength[first] - self.strength[second]

        degrees = float(self._now.degrees[order].min()) + 1.0 if self._now.ways else math.inf

        def chance(size: float) -> float:
            # Standard errors are off by chance too, all of them alike: by √(χ²/degrees), which is nearly normal.
            needed = self.apart(size)[first, second]
            off = np.maximum(1.0 + chances / math.sqrt(2.0 * max(degrees * size - 1.0, 0.5)), 0.05)
            return float((gap + errors / math.sqrt(size) > needed * off[:, None]).all(axis=1).mean())

        return size_for(chance, self.goal.power, most=100.0 * MOST_TIMES, tolerance=ROUGH)

    def _draws(self, seed: int) -> tuple[Floats, Floats]:
        """Errors of all strengths at size 1, and those of their standard errors as normal variates, for each draw."""
        rng = np.random.default_rng(seed)
        m = len(self.strength)
        values, vectors = np.linalg.eigh(self._now.matrix[:m, :m])
        normal = rng.standard_normal((DRAWS, m))
        return (normal * np.sqrt(np.maximum(values, 0.0))) @ vectors.T, rng.standard_normal(DRAWS)


def _pair(future: _Future, i: int, j: int, names: tuple[str, ...], have: Amount, price: CallPrice | None) -> PairPlan:
    gap = float(future.strength[i] - future.strength[j])
    now = gap > float(future.apart(1.0)[i, j])
    size = future.size(i, j)
    size = 1.0 if now else size
    needed = None if size is None else have.times(max(size, 1.0))
    more = None if needed is None else needed.beyond(have)
    return PairPlan(
        names[i],
        names[j],
        POINTS_PER_LOGIT * gap,
        now,
        size,
        needed,
        more,
        *((None, None) if price is None else price.of(more)),
    )


def _noise(pairs: list[PairPlan], future: _Future, names: tuple[str, ...]) -> list[str]:
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

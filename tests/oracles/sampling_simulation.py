"""New models of known strength placed in simulated and real fields: what choosing opponents saves, what stopping costs.

The choosing and the stopping are Tiltyard's; everything else (verdicts, the fit of one strength, its interval, its
places) is written here the plain way and shares nothing with `tiltyard.stats`.

A verdict is won with exactly the logistic chance of the gap. Verdicts on one question may depend on each other: each is
decided by a uniform number, and the uniform numbers of a question are correlated through a normal copula, which leaves
every single chance as it was, so that the truth stays the strength that was put in.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

import numpy as np
from scipy.special import ndtr, stdtrit

from oracles.simulation import Coverage
from tiltyard.judge.placement.human_arena import Cells
from tiltyard.judge.placement.sampling import Belief, Chooser, Sampler, information_limit
from tiltyard.judge.placement.stopping import Until, decide, level_at_each_look, round_sizes, stopping_looks

POINTS = 400.0 / math.log(10.0)

Position = Literal["top", "middle", "bottom"]
POSITIONS: tuple[Position, ...] = ("top", "middle", "bottom")


def logistic(x: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-x))


# The field: opponents with known strengths, and the new model


@dataclass(frozen=True, eq=False)
class Field:
    """Opponents' strengths, the new model's, in logits, and how often each opponent's answers lie in the arena."""

    opponents: np.ndarray
    strength: float
    rows: np.ndarray


def field_of(strengths: np.ndarray, position: Position, rows: np.ndarray | None = None) -> Field:
    """The model at one end or in the middle is taken out and becomes the new one."""
    order = np.argsort(strengths)
    code = order[{"bottom": 0, "middle": len(order) // 2, "top": len(order) - 1}[position]]
    rows = np.ones(len(strengths)) if rows is None else rows
    return Field(np.delete(strengths, code), float(strengths[code]), np.delete(rows, code))


def simulated_field(position: Position, rng: np.random.Generator, *, models: int = 40, spread: float = 175.0) -> Field:
    """Opponents from a normal with this spread in points; the new model is the extreme or the median of one more."""
    return field_of(rng.normal(0.0, spread / POINTS, models + 1), position)


def field_with_an_equal(rng: np.random.Generator) -> Field:
    """One opponent exactly as strong as the new model, the others at least 150 points away.

    The exact place can only be claimed by telling the two apart, so that every early stop on `rank:1` is a mistake:
    the worst that looking often can do.
    """
    away = np.linspace(150.0, 500.0, 10) / POINTS
    return Field(np.concatenate([-away[::-1], [0.0], away]), 0.0, np.ones(21))


@lru_cache(maxsize=8)
def own_question_each(models: int, cells: int) -> Cells:
    """An arena in which every answer has a question of its own, spread evenly over the models."""
    return cells_of(np.arange(cells), np.arange(cells) % models)


@lru_cache(maxsize=8)
def shared_questions(models: int, questions: int) -> Cells:
    """An arena of few questions that every model has answered."""
    return cells_of(np.repeat(np.arange(questions), models), np.tile(np.arange(models), questions))


def cells_of(question: np.ndarray, model: np.ndarray) -> Cells:
    return Cells(
        question=question.astype(np.int32),
        model=model.astype(np.int32),
        language=np.zeros(len(question), dtype=np.int32),
        question_ids=[f"q{code}" for code in range(int(question.max()) + 1)],
        models=[f"m{code:02d}" for code in range(int(model.max()) + 1)],
        languages=["en"],
    )


# The judge


@dataclass(eq=False)
class Judge:
    """Hears the new model against an opponent; its verdicts depend on each other through questions and opponents.

    `alike` is the correlation of two verdicts' uniform numbers on one question; `idiosyncrasy` the standard deviation,
    in logits, of what the judge adds to every model's strength on its own account.
    """

    truth: Field
    rng: np.random.Generator
    alike: float = 0.0
    idiosyncrasy: float = 0.0
    _mood: dict[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        likes = self.idiosyncrasy * self.rng.normal(size=len(self.truth.opponents) + 1)
        self._gap = self.truth.strength + likes[-1] - (self.truth.opponents + likes[:-1])

    def hear(self, question: np.ndarray, opponent: np.ndarray) -> np.ndarray:
        mood = np.array([self._mood.setdefault(code, self.rng.normal()) for code in question.tolist()])
        own = self.rng.normal(size=len(question))
        luck = ndtr(math.sqrt(self.alike) * mood + math.sqrt(1.0 - self.alike) * own)
        return luck < logistic(self._gap[opponent])


# The fit


@dataclass(frozen=True)
class Estimate:
    """The new model's strength, the standard error of sampling, its degrees of freedom, and Σ of squared shares."""

    strength: float
    error: float
    degrees: int
    shares: np.ndarray

    def sd(self, idiosyncrasy: float = 0.0, anchor_variance: float = 0.0) -> float:
        squares = float((self.shares**2).sum())
        return math.sqrt(self.error**2 + idiosyncrasy**2 * (1.0 + squares) + anchor_variance * squares)


def estimate(opponents: np.ndarray, met: np.ndarray, won: np.ndarray, question: np.ndarray) -> Estimate:
    """By bisection on the score; half a win and half a loss, spread over the battles, where all went one way."""
    theta = opponents[met]
    half = 0.5 if won.all() or not won.any() else 0.0
    share = won + half / len(won)
    weight = 1.0 + 2.0 * half / len(won)
    low, high = float(theta.min()) - 20.0, float(theta.max()) + 20.0
    for _ in range(48):
        middle = 0.5 * (low + high)
        if (share - weight * logistic(middle - theta)).sum() > 0.0:
            low = middle
        else:
            high = middle
    p = logistic(0.5 * (low + high) - theta)
    information = weight * p * (1.0 - p)
    per_question = np.bincount(question, share - weight * p)
    clusters = len(np.unique(question))
    sandwich = clusters / max(1, clusters - 1) * (per_question**2).sum() / information.sum() ** 2
    fisher = 1.0 / information.sum()
    variance = max(sandwich, fisher) if clusters < 20 else sandwich
    by_opponent = np.bincount(met, information) / information.sum()
    return Estimate(0.5 * (low + high), math.sqrt(variance), max(1, clusters - 1), by_opponent)


# How many battles for the same interval


@dataclass(frozen=True)
class Saving:
    """Judged battles, informative over random, for the same standard error; means over runs.

    `limit` is the mean of p(1 − p) over ¼ among random opponents; `ratio / limit` is 1 when every battle is with an
    equal. `known` is the same ratio for choices made by someone who knows the new model's strength beforehand.
    """

    ratio: float
    known: float
    limit: float
    largest_share: float
    opponents: float

    def __str__(self) -> str:
        return (
            f"{self.ratio:.3f} of random; limit {self.limit:.3f}, × {self.ratio / self.limit:.2f}; strength known × "
            f"{self.known / self.limit:.2f}; {self.opponents:.0f} opponents, largest share {self.largest_share:.2f}"
        )


def simulate_saving(
    runs: int, seed: int, *, battles: int, looks: int = 5, make_field, cells: Cells, idiosyncrasy: float | None = None
) -> Saving:
    """`make_field(rng)` gives the field of a run; `battles` are chosen by information, then matched by random ones."""
    options = {} if idiosyncrasy is None else {"idiosyncrasy": idiosyncrasy}
    found = []
    for child in np.random.SeedSequence(seed).spawn(runs):
        rng = np.random.default_rng(child)
        truth = make_field(rng)
        met, error = informative_panel(truth, cells, round_sizes(battles, looks), rng, options)
        _, known_error = informative_panel(truth, cells, (battles,), rng, options, known=True)
        random = random_opponents(truth, cells, 40 * battles, rng)
        won = rng.random(len(random)) < logistic(truth.strength - truth.opponents[random])
        shares = np.bincount(met) / len(met)
        needed = [battles_for(truth, random, won, target) for target in (error, known_error)]
        limit = information_limit(truth.opponents[random], truth.strength)
        found.append((*needed, limit, shares.max(), (shares > 0).sum()))
    for_informative, for_known, limit, largest, opponents = np.mean(found, axis=0)
    return Saving(battles / for_informative, battles / for_known, limit, largest, opponents)


def informative_panel(truth, cells, sizes, rng, options, *, known: bool = False) -> tuple[np.ndarray, float]:
    """The opponents met in these rounds, and the standard error in the end."""
    eligible = np.ones(len(truth.opponents), dtype=bool)
    chooser = Chooser(cells, sampler="informative", eligible=eligible, strength=truth.opponents, **options)
    taken, won = np.empty(0, dtype=np.int64), np.empty(0, dtype=bool)
    belief = Belief(truth.strength, 0.0) if known else None
    for size in sizes:
        fresh = chooser.choose(size, belief, taken, rng)
        taken = np.concatenate([taken, fresh])
        gap = truth.strength - truth.opponents[cells.model[fresh]]
        won = np.concatenate([won, rng.random(len(fresh)) < logistic(gap)])
        now = estimate(truth.opponents, cells.model[taken], won, np.arange(len(won)))
        belief = Belief(now.strength, now.error)
    return cells.model[taken], fisher_error(truth.opponents[cells.model[taken]], now.strength)


def random_opponents(truth: Field, cells: Cells, n: int, rng: np.random.Generator) -> np.ndarray:
    """Opponents as often as they come up in the arena."""
    return rng.choice(len(truth.opponents), n, p=truth.rows / truth.rows.sum())


def fisher_error(opponents: np.ndarray, strength: float) -> float:
    p = logistic(strength - opponents)
    return 1.0 / math.sqrt((p * (1.0 - p)).sum())


def battles_for(truth: Field, met: np.ndarray, won: np.ndarray, error: float) -> int:
    """The fewest battles, in this order, after which the standard error is as small as this one (found by halving)."""
    low, high = 10, len(met)
    while high - low > 1:
        middle = (low + high) // 2
        now = estimate(truth.opponents, met[:middle], won[:middle], np.arange(middle))
        if fisher_error(truth.opponents[met[:middle]], now.strength) > error:
            low = middle
        else:
            high = middle
    return high


# Stopping early


@dataclass(frozen=True)
class Stopped:
    """How often the interval, and the rank interval, held the truth when the run ended; when it ended."""

    rating: Coverage
    rank: Coverage
    battles: float
    early: float

    def __str__(self) -> str:
        return f"rating {self.rating}, rank {self.rank.share:.3f}; {self.battles:.0f} battles, {self.early:.0%} early"


@dataclass(frozen=True)
class Rule:
    """What a run is told: how many battles in how many looks, until when, and by which interval."""

    until: Until | None
    battles: int = 300
    looks: int = 10
    sampler: Sampler = "informative"
    pocock: bool = True

    def sizes(self) -> tuple[int, ...]:
        return round_sizes(self.battles, self.looks)

    def level(self) -> float:
        if self.until is None or self.until.kind == "width" or not self.pocock:
            return 0.95
        return level_at_each_look(0.95, stopping_looks(self.sizes()))


@dataclass(frozen=True)
class Doubt:
    """What makes verdicts depend on each other or anchors inexact, beyond the luck of one verdict (logits)."""

    alike: float = 0.0
    idiosyncrasy: float = 0.0
    anchor_sd: float = 0.0


NO_DOUBT = Doubt()


def simulate_stopping(
    runs: int, seed: int, *, rule: Rule, make_field, cells: Cells, doubt: Doubt = NO_DOUBT
) -> Stopped:
    """Run after run until the rule stops it; the interval of the last look is the one that is published."""
    found = []
    for child in np.random.SeedSequence(seed).spawn(runs):
        rng = np.random.default_rng(child)
        found.append(run_until_stopped(make_field(rng), cells, rule, doubt, rng))
    rating, rank, battles, early = zip(*found, strict=True)
    return Stopped(Coverage.of(list(rating)), Coverage.of(list(rank)), float(np.mean(battles)), float(np.mean(early)))


def run_until_stopped(truth: Field, cells: Cells, rule: Rule, doubt: Doubt, rng: np.random.Generator):
    known = truth.opponents + doubt.anchor_sd * rng.normal(size=len(truth.opponents))
    judge = Judge(truth, rng, alike=doubt.alike, idiosyncrasy=doubt.idiosyncrasy)
    chooser = Chooser(cells, sampler=rule.sampler, eligible=np.ones(len(known), dtype=bool), strength=known)
    taken, won, belief = np.empty(0, dtype=np.int64), np.empty(0, dtype=bool), None
    for size in rule.sizes():
        fresh = chooser.choose(size, belief, taken, rng)
        taken = np.concatenate([taken, fresh])
        won = np.concatenate([won, judge.hear(cells.question[fresh], cells.model[fresh])])
        now = estimate(known, cells.model[taken], won, cells.question[taken])
        belief = Belief(now.strength, now.error)
        half = float(stdtrit(now.degrees, 0.5 + 0.5 * rule.level())) * now.sd(doubt.idiosyncrasy, doubt.anchor_sd**2)
        low, high = now.strength - half, now.strength + half
        ranks = (1 + int((known > high).sum()), len(known) + 1 - int((known < low).sum()))
        if decide(rule.until, battles=len(taken), interval=(POINTS * low, POINTS * high), ranks=ranks):
            break
    best, worst = 1 + int((truth.opponents > truth.strength).sum()), 1 + int((truth.opponents >= truth.strength).sum())
    held = float(low <= truth.strength <= high), float(ranks[0] <= best and worst <= ranks[1])
    return *held, len(taken), float(len(taken) < rule.battles)


# The real field: people's ratings of real models, and whom an arena's rows offer


def real_field(table, board, position: Position, *, least_battles: int = 500) -> tuple[Field, Cells]:
    """The strengths of a real board and the cells of its battles, each row a question; one model taken out."""
    rows = np.bincount(np.concatenate([table.model_a, table.model_b]), minlength=len(table.models))
    rated = np.flatnonzero(rows >= least_battles)
    strengths = np.array([(board[table.models[code]].rating - 1000.0) / POINTS for code in rated])
    truth = field_of(strengths, position, rows[rated])
    left = rated[strengths != truth.strength]
    recoded = np.full(len(table.models), -1)
    recoded[left] = np.arange(len(left))
    model = recoded[np.stack([table.model_a, table.model_b], axis=1).ravel()]
    question = np.repeat(np.arange(len(table.model_a)), 2)
    return truth, cells_of(question[model >= 0], model[model >= 0])

"""Glicko-2 ratings: a rating, a deviation (RD) and a volatility per model, updated as battles arrive.

Mark Glickman, "Example of the Glicko-2 system" (2012, revised 2022), http://www.glicko.net/glicko/glicko2.pdf. His
steps are cited by number here and in `glicko2_kernels`, where the loop is. Every battle is a rating period of its two
models, as in a live arena.

Not true, though often said: that a deviation shrinks after every battle (the volatility can win), and that what one
model gains the other loses.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from tiltyard.errors import OptionError
from tiltyard.stats.comparisons import codes
from tiltyard.stats.glicko2_kernels import Rules, rate_one_by_one
from tiltyard.types import Floats

PLAIN_SECONDS_PER_BATTLE = 9e-6
EVERY_ONE: Floats = np.empty(0)
"""In place of weights: every battle weighs 1."""

SCALE = 173.7178
"""Rating points per unit of Glickman's internal scale, 400 / ln 10 (step 2)."""

TAU_MIN, TAU_MAX = 0.01, 10.0
"""Glickman: reasonable values of tau are 0.3 to 1.2."""

LEAST, MOST = 1e-6, 1e6
"""The smallest volatility and deviation, and the largest deviation: beyond them squares run out of digits."""


@dataclass(frozen=True, slots=True)
class Glicko2Settings:
    """Where a new model starts, and how quickly everything moves.

    The volatility starts at 0.005, not at Glickman's 0.06, because here a battle is a rating period and a model's skill
    does not drift between two of them: with 0.06 a deviation never falls below about 60.
    """

    rating: float = 1500.0
    """Where a model starts."""
    deviation: float = 350.0
    """How uncertain it is at first."""
    volatility: float = 0.005
    """How much its skill is expected to drift, at first. Not Glickman's 0.06: a battle is a rating period here."""
    tau: float = 0.5
    """How fast volatilities may change; 0.3 to 1.2 are reasonable."""
    scale: float = SCALE
    """Rating points per unit of Glickman's internal scale: 400 / ln 10."""
    deviation_min: float = 10.0
    """Smallest deviation."""
    deviation_max: float = 350.0
    """Largest deviation."""
    epsilon: float = 1e-6
    """Where the solver of step 5 stops."""
    max_iterations: int = 50
    """How many of its steps may pass before bisection takes over."""

    def __post_init__(self) -> None:
        for field in fields(self):
            if not math.isfinite(getattr(self, field.name)):
                raise OptionError(f"Glicko-2: {field.name} is {getattr(self, field.name)}; it must be a finite number.")
        if not TAU_MIN <= self.tau <= TAU_MAX:
            raise OptionError(
                f"Glicko-2: tau is {self.tau}; take 0.3 to 1.2 (at least {TAU_MIN:g}, at most {TAU_MAX:g})."
            )
        if not LEAST <= self.deviation_min <= self.deviation <= self.deviation_max <= MOST:
            raise OptionError(
                f"Glicko-2: the starting deviation {self.deviation} must be within its limits, "
                f"{self.deviation_min} to {self.deviation_max}, and these between {LEAST:g} and {MOST:,.0f}."
            )
        if not (
            LEAST <= self.volatility <= 1.0 and self.scale > 0.0 and self.epsilon > 0.0 and self.max_iterations >= 0
        ):
            raise OptionError(
                f"Glicko-2: volatility must be between {LEAST:g} and 1, scale and epsilon above 0, iterations not "
                "below 0."
            )

    def rules(self) -> Rules:
        """What the loops need of the settings."""
        tau, least, most, epsilon = map(float, (self.tau, self.deviation_min, self.deviation_max, self.epsilon))
        return Rules(float(self.scale), tau, least, most, epsilon, int(self.max_iterations))


class Glicko2State(msgspec.Struct, frozen=True, eq=False):
    """Rating, deviation and volatility of every model. Handed back in, it continues as if there had been no break."""

    rating: Floats
    deviation: Floats
    volatility: Floats


class Glicko2History(msgspec.Struct, frozen=True, eq=False):
    """Ratings and deviations of the two models after each battle (battle, side: A then B), and the final state."""

    rating: Floats
    deviation: Floats
    state: Glicko2State


DEFAULT_SETTINGS = Glicko2Settings()


def rate_battles(
    a: ArrayLike,
    b: ArrayLike,
    score_a: ArrayLike,
    *,
    start: Glicko2State | int,
    settings: Glicko2Settings = DEFAULT_SETTINGS,
    weight: ArrayLike | None = None,
) -> Glicko2State:
    """The state after the battles in the order given, each rated on its own.

    `a` and `b` are model codes and `score_a` is 1, 0, or ½ for a tie. `start` is a state to continue from (left as it
    is), or the number of models when all are new. Both models of a battle are updated from their states before it.
    `weight` is how much of each battle counts, above 0: a battle of weight ½ moves ratings about half as far.
    """
    return rate_battles_history(a, b, score_a, start=start, settings=settings, weight=weight).state


def rate_battles_history(
    a: ArrayLike,
    b: ArrayLike,
    score_a: ArrayLike,
    *,
    start: Glicko2State | int,
    settings: Glicko2Settings = DEFAULT_SETTINGS,
    weight: ArrayLike | None = None,
) -> Glicko2History:
    """The state of `rate_battles` and the way there: both models' ratings and deviations after every battle."""
    state = _started(start, settings)
    first, second = codes(a), codes(b)
    scores = np.array(score_a, dtype=np.float64)
    weights = EVERY_ONE if weight is None else np.array(weight, dtype=np.float64)
    history = np.empty((len(first), 4))
    run = rate_one_by_one.run(len(first) * PLAIN_SECONDS_PER_BATTLE)
    run(first, second, scores, weights, state.rating, state.deviation, state.volatility, settings.rules(), history)
    return Glicko2History(history[:, :2], history[:, 2:], state)


def expected_score(rating: ArrayLike, rival_rating: ArrayLike, rival_deviation: ArrayLike) -> Floats:
    """The score a model should take from a rival (E of step 3), given how well the rival is known."""
    gap = (np.asarray(rating, np.float64) - np.asarray(rival_rating, np.float64)) / SCALE
    return np.asarray(0.5 + 0.5 * np.tanh(0.5 * _g(rival_deviation) * gap))


def _g(deviation: ArrayLike) -> Floats:
    phi = np.asarray(deviation, np.float64) / SCALE
    return np.asarray(1.0 / np.sqrt(1.0 + 3.0 * phi * phi / math.pi**2))


def _started(start: Glicko2State | int, settings: Glicko2Settings) -> Glicko2State:
    if isinstance(start, Glicko2State):
        columns = [start.rating, start.deviation, start.volatility]
    else:
        columns = [np.full(start, one) for one in (settings.rating, settings.deviation, settings.volatility)]
    return Glicko2State(*(np.array(column, dtype=np.float64) for column in columns))

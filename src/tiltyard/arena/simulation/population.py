"""Simulated voters over models with known strengths: honest, careless and malicious.

Used to tune the policy, and to test that the engine ranks correctly and what an attack costs.
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass, field
from typing import Literal, get_args

import msgspec
import numpy as np

from tiltyard.arena.rules.events import Choice
from tiltyard.arena.rules.schedule import Reserved
from tiltyard.errors import OptionError
from tiltyard.stats import LOGITS_PER_POINT
from tiltyard.types import Floats

Diligence = Literal["equal", "lognormal", "zipf"]
"""How many votes regular voters cast: all alike, some many more than others, or by Zipf's law."""
LOGNORMAL_SD = 1.5
"""Of the logarithm of a regular voter's diligence: the busiest tenth then casts about two thirds of the votes."""

Places = Literal["anywhere", "homes", "classes", "mixed"]
"""Where visitors are: nowhere in particular, so that no pair waits; each at home; classes of 30 behind one address who
come together; or half of them so, half so."""
CLASS_SIZE = 30

AttackKind = Literal["apathetic", "one-sided", "rigging", "sybil"]
ATTACKS: tuple[AttackKind, ...] = get_args(AttackKind)

READING_SECONDS = 20.0
"""Median time of a person who reads both answers; half are between 0.6 and 1.6 times that."""
CARELESS_SECONDS = 1.2
"""Time of a person who does not read."""
ONE_SIDED_SHARE = 0.95
SYBIL_VOTES = 8
"""Votes of one fake session: fewer than most flags need."""


class World(msgspec.Struct, frozen=True, eq=False):
    """True strengths in Elo points, by model, and on each prompt; and how honest people vote.

    Ties follow Davidson: more likely between equals. `tie_weight` is its parameter, chosen so that a round of all pairs
    has the given share of ties. The both-bad rate is the same for all.
    """

    strength: Floats
    on_prompt: tuple[tuple[float, ...], ...]
    tie_weight: float
    both_bad_rate: float
    wobble_sd: float = 0.0
    taste_sd: float = 0.0

    @classmethod
    def draw(
        cls,
        rng: np.random.Generator,
        models: int,
        prompts: int,
        *,
        sd: float,
        tie_rate: float = 0.08,
        both_bad_rate: float = 0.05,
        wobble_sd: float = 0.0,
        taste_sd: float = 0.0,
    ) -> World:
        """Strengths drawn from a normal distribution; with `wobble_sd` every model is better on some prompts.

        A model's strength is then its mean over these prompts.
        """
        if not 0.0 <= tie_rate < 1.0 or not 0.0 <= both_bad_rate < 1.0 or tie_rate + both_bad_rate >= 1.0:
            raise OptionError(
                f"tie rate {tie_rate} and both-bad rate {both_bad_rate} must be shares that leave a rest."
            )
        strength = rng.normal(0.0, sd, models)
        strength -= strength.mean()
        wobble = rng.normal(0.0, wobble_sd, (models, prompts))
        wobble -= wobble.mean(axis=1, keepdims=True)
        cells = strength[:, None] + wobble
        weight = _tie_weight(strength, tie_rate / (1.0 - both_bad_rate))
        return cls(strength, tuple(map(tuple, cells.tolist())), weight, both_bad_rate, wobble_sd, taste_sd)

    def taste(self, rng: np.random.Generator) -> tuple[float, ...]:
        """How much better than others one person finds each model, in Elo points; empty where all are alike."""
        return tuple(rng.normal(0.0, self.taste_sd, len(self.strength)).tolist()) if self.taste_sd > 0.0 else ()

    def opinion(self, rng: np.random.Generator, shown: Reserved, taste: tuple[float, ...] = ()) -> Choice:
        if rng.random() < self.both_bad_rate:
            return Choice.BOTH_BAD
        gap = self.on_prompt[shown.a][shown.prompt] - self.on_prompt[shown.b][shown.prompt]
        if taste:
            gap += taste[shown.a] - taste[shown.b]
        for_a, for_b = math.exp(0.5 * LOGITS_PER_POINT * gap), math.exp(-0.5 * LOGITS_PER_POINT * gap)
        place = rng.random() * (for_a + for_b + self.tie_weight)
        if place < for_a:
            return Choice.A
        return Choice.B if place < for_a + for_b else Choice.TIE


def _tie_weight(strength: Floats, rate: float) -> float:
    """Davidson's parameter that makes this share of a round of all pairs a tie, by bisection."""
    first, second = np.triu_indices(len(strength), 1)
    decisive = 2.0 * np.cosh(0.5 * LOGITS_PER_POINT * (strength[first] - strength[second]))
    if rate <= 0.0 or not len(first):
        return 0.0
    low, high = 0.0, 4.0 * float(decisive.max()) / (1.0 - rate)
    for _ in range(60):
        middle = 0.5 * (low + high)
        if float((middle / (middle + decisive)).mean()) < rate:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)


class Voter(msgspec.Struct, frozen=True):
    """How one session votes: honestly and to its own taste, with probability `noise` at random; or as an attack.

    `apathetic` clicks either side without reading, and `one-sided` nearly always the left one. Others recognise a
    `target` whenever it is shown and vote for it; else they are honest, so as not to be noticed.
    """

    attack: AttackKind | None = None
    noise: float = 0.0
    taste: tuple[float, ...] = ()
    target: int | None = None

    def choose(self, rng: np.random.Generator, world: World, shown: Reserved) -> Choice:
        if self.attack == "apathetic" or (self.noise > 0.0 and rng.random() < self.noise):
            return Choice.A if rng.random() < 0.5 else Choice.B
        if self.attack == "one-sided" and rng.random() < ONE_SIDED_SHARE:
            return Choice.A
        if self.target in (shown.a, shown.b):
            return Choice.A if self.target == shown.a else Choice.B
        return world.opinion(rng, shown, self.taste)

    def seconds(self, rng: np.random.Generator) -> float:
        """How long a vote takes: as long as reading both answers, or hardly any time."""
        if self.attack in ("apathetic", "one-sided"):
            return CARELESS_SECONDS * math.exp(0.5 * rng.standard_normal())
        return READING_SECONDS * math.exp(0.7 * rng.standard_normal())


class Attack(msgspec.Struct, frozen=True):
    """An attack: some votes are not cast by honest readers.

    `share` is about their share of all votes. `target` is the number of the model that riggers push; None takes the one
    in the middle of the true order, which has room to rise.
    """

    kind: AttackKind
    share: float = 0.1
    target: int | None = None

    def __post_init__(self) -> None:
        if self.kind not in ATTACKS:
            raise OptionError(f"attack is {self.kind!r}: expected one of {', '.join(ATTACKS)}.")
        if not 0.0 < self.share < 1.0:
            raise OptionError(f"attack: a share of {self.share} is out of range; expected more than 0 and less than 1.")

    def aim(self, world: World) -> int:
        if self.target is not None:
            return self.target
        return int(np.argsort(-world.strength, kind="stable")[len(world.strength) // 2])

    def voter(self, world: World) -> Voter:
        return Voter(self.kind, target=self.aim(world) if self.kind in ("rigging", "sybil") else None)


class VoterSession(msgspec.Struct, frozen=True):
    """One session: the voter, how they vote, and how many matchups they will see."""

    name: str
    voter: Voter
    matchups: int
    attacks: bool = False
    block: str = ""
    """The address block that it comes from; empty: none, so that no pair waits."""


class Regulars:
    """People who come again and again, some much more often than others, each with their own taste."""

    def __init__(self, seed: int, world: World, *, voters: int, diligence: Diligence) -> None:
        rng = np.random.default_rng([seed, 2])
        share = np.ones(voters)
        if diligence == "zipf":
            share = 1.0 / np.arange(1.0, voters + 1.0)
        elif diligence == "lognormal":
            share = np.exp(LOGNORMAL_SD * rng.standard_normal(voters))
        self._until = np.cumsum(share / share.sum())
        self._tastes = [world.taste(rng) for _ in range(voters)]

    def come(self, rng: np.random.Generator) -> tuple[str, tuple[float, ...]]:
        number = min(int(np.searchsorted(self._until, rng.random())), len(self._tastes) - 1)
        return f"voter-{number:06d}", self._tastes[number]


@dataclass(slots=True)
class Crowd:
    """Sessions that come one after the other: each of somebody new, or of one of the regulars."""

    rng: np.random.Generator
    world: World
    _: KW_ONLY
    attack: Attack | None
    noise: float
    session_votes: float
    regulars: Regulars | None = None
    places: Places = "anywhere"
    attackers: set[str] = field(default_factory=set)
    _sessions: int = 0

    def next_session(self) -> VoterSession:
        self._sessions += 1
        name = f"session-{self._sessions:06d}"
        attack, rng = self.attack, self.rng
        length = int(rng.geometric(1.0 / self.session_votes))
        attacks = attack is not None and rng.random() < self._attacking_sessions(attack)
        if attack is not None and attacks:
            self.attackers.add(name)
            voter, length = attack.voter(self.world), SYBIL_VOTES if attack.kind == "sybil" else length
        elif self.regulars is None:
            voter = Voter(noise=self.noise, taste=self.world.taste(rng))
        else:
            name, taste = self.regulars.come(rng)
            voter = Voter(noise=self.noise, taste=taste)
        group, place = self._sessions // CLASS_SIZE, self.places
        if place == "mixed":
            place = "classes" if group % 2 else "homes"
        at = {"anywhere": "", "homes": f"home of {name}", "classes": f"class {group}"}
        return VoterSession(name, voter, length, attacks, at[place])

    def _attacking_sessions(self, attack: Attack) -> float:
        """The share of sessions that gives attackers their share of votes: more where their sessions are short."""
        if attack.kind != "sybil":
            return attack.share
        each = attack.share / SYBIL_VOTES
        return each / (each + (1.0 - attack.share) / self.session_votes)

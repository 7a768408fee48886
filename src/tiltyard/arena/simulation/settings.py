"""What is simulated."""

from __future__ import annotations

from dataclasses import dataclass, field

from tiltyard.arena.policy import Policy
from tiltyard.arena.population import Attack  # noqa: TC001 - dataclasses resolve it
from tiltyard.errors import OptionError


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationSettings:
    """An arena, its voters and how long they vote. Same settings, same result.

    `votes` are counted votes; `in_flight` matchups are being looked at all the time. `sd` is the spread of true
    strengths in Elo points, `wobble_sd` how much they differ from prompt to prompt. `late_model`: the last model enters
    when half of the votes are cast. `skip_rate` of the matchups are skipped and `expire_rate` left to expire, after ten
    times the usual time. `curve_points`: how often on the way the order is compared with the truth.
    """

    models: int = 38
    """Models in the arena: `--models`."""
    prompts: int = 15
    """Prompts in the arena: `--prompts`."""
    votes: int = 20_000
    """Counted votes to cast: `--votes`."""
    in_flight: int = 50
    """Matchups being looked at all the time: `--in-flight`."""
    seed: int = 0
    """Seed of everything: `--seed`."""
    sd: float = 180.0
    """Spread of the true strengths, in Elo points: `--sd`."""
    tie_rate: float = 0.08
    """Share of ties: `--tie-rate`."""
    both_bad_rate: float = 0.05
    """Share of both-bad votes: `--both-bad-rate`."""
    wobble_sd: float = 0.0
    """How much strengths differ from prompt to prompt, in Elo points."""
    noise: float = 0.0
    """Share of honest votes that are cast by lot: `--noise`."""
    attack: Attack | None = None
    """Who else votes, and how much: `--attack`, `--attack-share`."""
    late_model: bool = False
    """Whether the last model enters when half of the votes are cast: `--late-model`."""
    skip_rate: float = 0.02
    """Share of matchups that are skipped."""
    expire_rate: float = 0.01
    """Share that is left to expire."""
    session_votes: float = 25.0
    """Votes of one visitor, on average."""
    curve_points: int = 20
    """How often on the way the order is compared with the truth."""
    phase: int = 4
    """Phase of the rollout."""
    policy: Policy = field(default_factory=Policy)
    """The policy: `--policy`; see above."""

    def __post_init__(self) -> None:
        least = 3 if self.late_model else 2
        for name, value, floor in (
            ("models", self.models, least),
            ("prompts", self.prompts, 1),
            ("votes", self.votes, 1),
            ("in_flight", self.in_flight, 1),
            ("session_votes", self.session_votes, 1),
        ):
            if value < floor:
                raise OptionError(f"simulate: {name} is {value}; it must be at least {floor}.")
        if self.skip_rate < 0.0 or self.expire_rate < 0.0 or self.skip_rate + self.expire_rate >= 1.0:
            raise OptionError("simulate: skip rate and expire rate must be shares that leave some votes.")

    @property
    def models_at_start(self) -> int:
        """How many models are there when the first matchup is served."""
        return self.models - 1 if self.late_model else self.models

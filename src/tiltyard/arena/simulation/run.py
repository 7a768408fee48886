"""The simulation itself: sessions arrive, are served, and vote, skip or leave, in time order."""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import get_args

import numpy as np

from tiltyard.arena import events as e
from tiltyard.arena.board import coverages
from tiltyard.arena.policy import Policy
from tiltyard.arena.simulation.attack_cost import Defence, attack_report, flagged_voters
from tiltyard.arena.simulation.ledger import MemoryArena, SimulatedArena
from tiltyard.arena.simulation.population import (
    Attack,
    Crowd,
    Diligence,
    Places,
    Regulars,
    VoterSession,
    World,
)
from tiltyard.arena.simulation.published import PublishedCheck, check_published
from tiltyard.arena.simulation.result import (
    CurvePoint,
    LateModel,
    Monitor,
    SimulationResult,
    established,
    official_tau,
    summary,
)
from tiltyard.arena.units import SECOND
from tiltyard.errors import OptionError

LEFT_ALONE_TIMES = 10.0
"""A matchup left to expire stays in flight this many times as long as one that is voted on."""

WATCHED_EVERY = 50
"""How often, in votes, to check whether the late model is established."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationSettings:
    """An arena, its voters and how long they vote. Same settings, same result.

    `votes` are counted votes; `in_flight` matchups are always open. `sd` is the spread of true
    strengths in Elo points, `wobble_sd` how much they differ from prompt to prompt. `late_model`: the last model enters
    when half of the votes are cast. `skip_rate` of the matchups are skipped and `expire_rate` left to expire, after ten
    times the usual time. `curve_points`: how often during the run the order is compared with the truth.
    """

    models: int = 38
    """Models in the arena: `--models`."""
    prompts: int = 15
    """Prompts in the arena: `--prompts`."""
    votes: int = 20_000
    """Counted votes to cast: `--votes`."""
    in_flight: int = 50
    """Matchups open at any time: `--in-flight`."""
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
    taste_sd: float = 0.0
    """How much people differ in what they make of each model, in Elo points: `--taste-sd`."""
    voters: int = 0
    """Regular voters, who come again and again: `--voters`. 0: every session is of somebody new."""
    diligence: Diligence = "lognormal"
    """How many votes regular voters cast: `equal`, `lognormal` or `zipf`: `--diligence`."""
    looks: int = 20
    """How often during the run the published board is looked at: `--looks`."""
    noise: float = 0.0
    """Share of honest votes that are random: `--noise`."""
    attack: Attack | None = None
    """Who else votes, and how much: `--attack`, `--attack-share`."""
    late_model: bool = False
    """Whether the last model enters when half of the votes are cast: `--late-model`."""
    skip_rate: float = 0.02
    """Share of matchups that are skipped: `--skip-rate`."""
    expire_rate: float = 0.01
    """Share that is left to expire."""
    visitors: Places = "anywhere"
    """Where visitors are: `anywhere` (no pair waits), `homes`, `classes` of thirty or `mixed`: `--visitors`."""
    session_votes: float = 25.0
    """Votes of one visitor, on average."""
    curve_points: int = 20
    """How often during the run the order is compared with the truth."""
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
            ("voters", self.voters, 0),
            ("taste_sd", self.taste_sd, 0),
            ("looks", self.looks, 0),
        ):
            if value < floor:
                raise OptionError(f"simulate: {name} is {value}; it must be at least {floor}.")
        if self.diligence not in get_args(Diligence):
            raise OptionError(f"simulate: diligence is {self.diligence!r}; expected {', '.join(get_args(Diligence))}.")
        if self.visitors not in get_args(Places):
            raise OptionError(f"simulate: visitors is {self.visitors!r}; expected {', '.join(get_args(Places))}.")
        if self.skip_rate < 0.0 or self.expire_rate < 0.0 or self.skip_rate + self.expire_rate >= 1.0:
            raise OptionError("simulate: skip rate and expire rate must be shares that leave some votes.")

    @property
    def models_at_start(self) -> int:
        """How many models there are when the first matchup is served."""
        return self.models - 1 if self.late_model else self.models


def simulate(
    settings: SimulationSettings, engine: SimulatedArena | None = None, defence: Defence = flagged_voters
) -> SimulationResult:
    """Simulate voters in an arena with known strengths; returns how accurately, fast and fairly it ranked.

    Parameters:
        settings: What is simulated.
        engine: An empty arena; without one, a ledger in memory.
        defence: Which voters an attacked arena would leave out.
    """
    rng = np.random.default_rng([settings.seed, 0])
    world = World.draw(
        rng,
        settings.models,
        settings.prompts,
        sd=settings.sd,
        tie_rate=settings.tie_rate,
        both_bad_rate=settings.both_bad_rate,
        wobble_sd=settings.wobble_sd,
        taste_sd=settings.taste_sd,
    )
    engine = MemoryArena(settings.seed) if engine is None else engine
    run = _Run(settings, engine, world, rng)
    run.play()
    votes, attack = engine.votes(), None
    if settings.attack is not None:
        attack = attack_report(settings.attack, world, votes, engine.state, run.crowd.attackers, defence)
    return summary(
        seed=settings.seed,
        state=engine.state,
        world=world,
        votes=votes,
        monitor=run.monitor,
        curve=run.curve,
        late_model=run.late_model(),
        attack=attack,
        looks=run.looks,
        published=published(engine, settings, world),
    )


def published(
    engine: SimulatedArena, settings: SimulationSettings, world: World, *, misfit: bool = True
) -> PublishedCheck:
    """What the site would publish now, held against the truth; without `misfit` its fit is not checked."""
    state = engine.state
    return check_published(
        engine.votes(), state.catalog, state.policy.intervals, world, settings.noise, misfit=misfit, state=state
    )


class _Run:
    """A running simulation. Each slot is one matchup in flight, used by one session after another."""

    def __init__(
        self, settings: SimulationSettings, engine: SimulatedArena, world: World, rng: np.random.Generator
    ) -> None:
        self._settings = settings
        self._engine = engine
        self._world = world
        self._rng = rng
        self.crowd = Crowd(
            rng,
            world,
            attack=settings.attack,
            noise=settings.noise,
            session_votes=settings.session_votes,
            places=settings.visitors,
            regulars=Regulars(settings.seed, world, voters=settings.voters, diligence=settings.diligence)
            if settings.voters
            else None,
        )
        self.monitor = Monitor(settings.policy, settings.prompts)
        self.curve: list[CurvePoint] = []
        self.looks: list[PublishedCheck] = []
        self._due: list[tuple[int, int, str, VoterSession, int, str]] = []
        self._served = 0
        self._cast = 0
        self._entered: int | None = None
        self._established: int | None = None

    def play(self) -> None:
        """Run the arena until the votes are cast."""
        settings = self._settings
        self._engine.append(_opening(settings), 0)
        for _ in range(settings.in_flight):
            session = self.crowd.next_session()
            self._serve(0, session, session.matchups)
        marks, looks = _marks(settings.votes, settings.curve_points), _marks(settings.votes, settings.looks)
        while self._cast < settings.votes:
            self._step()
            if self._cast in marks:
                marks.remove(self._cast)
                self.curve.append(self._point())
            if self._cast in looks:
                looks.remove(self._cast)
                self.looks.append(published(self._engine, settings, self._world, misfit=False))
            self._watch_late_model()

    def _point(self) -> CurvePoint:
        state = self._engine.state
        covered = float(coverages(state).mean())
        return CurvePoint(self._cast, official_tau(state, self._world), int(established(state).sum()), covered)

    def _step(self) -> None:
        """The next thing that happens: a session is done with its matchup, and it or the next one gets another."""
        at, _, matchup_id, session, left, act = heapq.heappop(self._due)
        if act == "vote":
            shown = self._engine.state.schedule.in_flight[matchup_id]
            choice = session.voter.choose(self._rng, self._world, shown)
            self._engine.vote(matchup_id, session.name, choice, at)
            self._cast += 1
        elif act == "skip":
            self._engine.skip(matchup_id, session.name, at)
        else:
            self._engine.expire(matchup_id, at)
        if left <= 1 or act == "expire":
            session = self.crowd.next_session()
            left = session.matchups + 1
        self._serve(at, session, left - 1)

    def _serve(self, at: int, session: VoterSession, left: int) -> None:
        matchup_id = self._engine.serve(session.name, at, session.block)
        state = self._engine.state
        self.monitor.note(state, state.schedule.in_flight[matchup_id], self._engine.reason)
        self._served += 1
        seconds = session.voter.seconds(self._rng)
        luck = self._rng.random()
        act = "vote"
        if luck < self._settings.expire_rate:
            act, seconds = "expire", seconds * LEFT_ALONE_TIMES
        elif luck < self._settings.expire_rate + self._settings.skip_rate:
            act = "skip"
        due = at + max(int(seconds * SECOND), 1)
        heapq.heappush(self._due, (due, self._served, matchup_id, session, left, act))

    def _watch_late_model(self) -> None:
        settings = self._settings
        if not settings.late_model:
            return
        if self._entered is None:
            if self._cast >= settings.votes // 2:
                self._engine.append(_model(settings.models - 1, settings.prompts), self._due[0][0])
                self._entered = self._cast
        elif self._established is None and self._cast % WATCHED_EVERY == 0 and self._is_established():
            self._established = self._cast - self._entered

    def _is_established(self) -> bool:
        return bool(established(self._engine.state)[-1])

    def late_model(self) -> LateModel | None:
        """How the late model did, if there was one."""
        if self._entered is None:
            return None
        share = self.monitor.largest_share.get(self._settings.models - 1, 0.0)
        return LateModel(self._entered, share, self._established)


def _opening(settings: SimulationSettings) -> Iterator[e.AnyBody]:
    """The events that set up the arena."""
    yield e.SettingsChanged(policy=settings.policy)
    yield e.PhaseChanged(phase=settings.phase)
    for number in range(settings.prompts):
        yield e.PromptAdded(prompt_id=f"prompt-{number:03d}", text=f"Prompt {number}")
    for number in range(settings.models_at_start):
        yield from _model(number, settings.prompts)


def _model(number: int, prompts: int) -> Iterator[e.AnyBody]:
    name = f"model-{number:03d}"
    yield e.ModelAdded(model=name, display_name=f"Model {number}")
    for prompt in range(prompts):
        answer = f"{name}-{prompt:03d}"
        text = f"A simulated answer, {hashlib.sha256(answer.encode()).hexdigest()[:8]}."  # nothing that reveals who
        yield e.ResponseAdded(response_id=answer, model=name, prompt_id=f"prompt-{prompt:03d}", text=text)


def _marks(votes: int, points: int) -> set[int]:
    """After how many votes the order is measured; the last is the end."""
    return {votes * step // points for step in range(1, points + 1)} - {0} if points else set()

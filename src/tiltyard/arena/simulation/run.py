"""The simulation itself: sessions arrive, are served, and vote, skip or leave, in time order."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from typing import get_args

import numpy as np

from tiltyard.arena.rules.policy import Policy
from tiltyard.arena.rules.units import SECOND
from tiltyard.arena.simulation.attack_cost import Defence, attack_report, flagged_voters
from tiltyard.arena.simulation.ledger import MemoryArena, add_model, opening
from tiltyard.arena.simulation.population import Attack, Crowd, Diligence, Places, Regulars, VoterSession, World
from tiltyard.arena.simulation.published import PublishedCheck, badge_summary, check_published
from tiltyard.arena.simulation.result import (
    CurvePoint,
    LateModel,
    Monitor,
    SimulationResult,
    contender_shares,
    deviation_coverage,
    established,
    lane_shares,
    neighbour_pairs,
    official_tau,
)
from tiltyard.arena.study.board import coverages
from tiltyard.arena.study.weekly import window_exposure
from tiltyard.errors import OptionError
from tiltyard.types import named

LEFT_ALONE_TIMES = 10.0
"""A matchup left to expire stays in flight this many times as long as one that is voted on."""

FAR_BEYOND = 0.20
"""No model should be this far from its exposure target, except one that entered or left the contender band."""

WATCHED_EVERY = 50
"""How often, in votes, to check whether the late model is established."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationSettings:
    """An arena, its voters and how long they vote. Same settings, same result."""

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
    """Share that is left to expire, after ten times the usual time."""
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


def simulate(
    settings: SimulationSettings, engine: MemoryArena | None = None, defence: Defence = flagged_voters
) -> SimulationResult:
    """Simulate voters in an arena with known strengths; returns how accurately, fast and fairly it ranked.

    Parameters:
        settings: What is simulated.
        engine: An empty arena; without one, a new one in memory.
        defence: Which voters an attacked arena would leave out.
    """
    run = _Run(settings, MemoryArena(settings.seed) if engine is None else engine)
    run.play()
    return run.result(defence)


class _Run:
    """A running simulation. Each slot is one matchup in flight, used by one session after another."""

    def __init__(self, settings: SimulationSettings, engine: MemoryArena) -> None:
        self._settings = settings
        self._engine = engine
        self._rng = rng = np.random.default_rng([settings.seed, 0])
        drawn = named(settings, "models prompts sd tie_rate both_bad_rate wobble_sd taste_sd")
        self._world = world = World.draw(rng, **drawn)
        regulars = None
        if settings.voters:
            regulars = Regulars(settings.seed, world, voters=settings.voters, diligence=settings.diligence)
        asked = named(settings, "attack noise session_votes")
        self._crowd = Crowd(rng, world, **asked, places=settings.visitors, regulars=regulars)
        self._monitor = Monitor(settings.policy, settings.prompts)
        self._curve: list[CurvePoint] = []
        self._looks: list[PublishedCheck] = []
        self._due: list[tuple[int, int, str, VoterSession, int, str]] = []
        self._served = 0
        self._cast = 0
        self._entered: int | None = None
        self._established: int | None = None

    def play(self) -> None:
        settings = self._settings
        start = opening(
            settings.policy,
            models=settings.models - settings.late_model,
            prompts=settings.prompts,
            phase=settings.phase,
        )
        self._engine.append(start, 0)
        for _ in range(settings.in_flight):
            session = self._crowd.next_session()
            self._serve(0, session, session.matchups)
        marks, looks = _marks(settings.votes, settings.curve_points), _marks(settings.votes, settings.looks)
        while self._cast < settings.votes:
            self._step()
            if self._cast in marks:
                marks.remove(self._cast)
                state = self._engine.state
                tau, covered = official_tau(state, self._world), float(coverages(state).mean())
                self._curve.append(CurvePoint(self._cast, tau, int(established(state).sum()), covered))
            if self._cast in looks:
                looks.remove(self._cast)
                self._looks.append(self._published(misfit=False))
            if not settings.late_model:
                continue
            if self._entered is None:
                if self._cast >= settings.votes // 2:
                    self._engine.append(add_model(settings.models - 1, settings.prompts), self._due[0][0])
                    self._entered = self._cast
            elif self._established is None and self._cast % WATCHED_EVERY == 0 and established(self._engine.state)[-1]:
                self._established = self._cast - self._entered

    def _step(self) -> None:
        at, _, matchup_id, session, left, act = heapq.heappop(self._due)
        if act == "vote":
            shown = self._engine.state.schedule.in_flight[matchup_id]
            choice = session.voter.choose(self._rng, self._world, shown)
            self._engine.vote(matchup_id, choice, at)
            self._cast += 1
        elif act == "skip":
            self._engine.skip(matchup_id, at)
        else:
            self._engine.expire(matchup_id, at)
        if left <= 1 or act == "expire":
            session = self._crowd.next_session()
            left = session.matchups + 1
        self._serve(at, session, left - 1)

    def _serve(self, at: int, session: VoterSession, left: int) -> None:
        matchup_id = self._engine.serve(session.name, at, session.block)
        state = self._engine.state
        self._monitor.note(state, state.schedule.in_flight[matchup_id], self._engine.chosen.meeting)
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

    def _published(self, *, misfit: bool = True) -> PublishedCheck:
        state, rules = self._engine.state, self._engine.state.policy.intervals
        return check_published(
            self._engine.votes(), state.catalog, rules, self._world, self._settings.noise, misfit=misfit, state=state
        )

    def result(self, defence: Defence) -> SimulationResult:
        settings, state, world, monitor = self._settings, self._engine.state, self._world, self._monitor
        votes, published, attack, late_model = self._engine.votes(), self._published(), None, None
        if settings.attack is not None:
            attack = attack_report(settings.attack, world, votes, state, self._crowd.attackers, defence)
        if self._entered is not None:
            share = monitor.largest_share.get(settings.models - 1, 0.0)
            late_model = LateModel(self._entered, share, self._established)
        names = [model.model for model in state.catalog.models]
        fair = window_exposure(state, votes.table(state.catalog), list(range(len(names))))
        wrong = [look.votes for look in self._looks if look.ranks_hold is False]
        ties = int(state.tallies.ties.view.sum()) // 2
        return SimulationResult(
            models=len(names),
            prompts=len(state.catalog.prompts),
            votes=len(votes),
            served=monitor.served,
            seed=settings.seed,
            kendall_tau=official_tau(state, world),
            kendall_tau_bradley_terry=published.tau,
            in_tolerance=int(fair.within.sum()),
            in_tolerance_of_even_share=int(fair.within_even.sum()),
            even_share=fair.even_target,
            exposure_targets=(float(fair.targets.min()), float(fair.targets.max())),
            beyond_20_percent=tuple(names[i] for i in np.flatnonzero(np.abs(fair.off) > FAR_BEYOND)),
            crossed_band=tuple(names[i] for i in sorted(monitor.crossed)),
            in_flight_duplicates=monitor.duplicates / monitor.served,
            diversity_broken=monitor.diversity_broken,
            lane_shares=lane_shares(monitor.lanes_when_open),
            lane_shares_all=lane_shares(monitor.lanes),
            matchups_lanes_open=monitor.lanes_when_open.total(),
            contender_lane=contender_shares(monitor.contender_meetings, state.policy.contender_band),
            neighbour_pairs=neighbour_pairs(state, monitor.contender_meetings),
            side_a_share=monitor.first_named_as_a / monitor.served,
            established=int(established(state).sum()),
            interval_coverage=published.intervals,
            ranks_hold=published.ranks_hold,
            looks=len(self._looks),
            looks_with_a_wrong_range=len(wrong),
            first_wrong_look=wrong[0] if wrong else None,
            deviation_coverage=deviation_coverage(state, world),
            mean_deviation=float(state.ratings.deviation.mean()),
            tie_share=ties / max(len(votes), 1),
            largest_traffic_share=max(monitor.largest_share.values(), default=0.0),
            curve=tuple(self._curve),
            late_model=late_model,
            attack=attack,
            remarks=published.remarks,
            badges=badge_summary([(look.votes, look.badges) for look in self._looks if look.badges is not None]),
            seen_again=monitor.seen_again,
        )


def _marks(votes: int, points: int) -> set[int]:
    """After how many votes the order is measured; the last is the end."""
    return {votes * step // points for step in range(1, points + 1)} - {0} if points else set()

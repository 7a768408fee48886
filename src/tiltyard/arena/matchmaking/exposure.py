"""How much of the traffic each model should get, gets, and may get at most."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tiltyard.validity.fairness import exposure_targets as two_targets

if TYPE_CHECKING:
    from tiltyard.arena.policy import Policy
    from tiltyard.arena.schedule import Schedule
    from tiltyard.arena.state import ArenaState

Floats = NDArray[np.float64]
Numbers = NDArray[np.intp]

RISES_OUTSIDE = 4.0
"""Outside the tolerance, urgency rises this many times as fast as inside."""

LEAN_STEEPNESS = 50.0
LEAN_REACH = 0.25
"""A draw leans to the less exposed by exp(−50 · deviation), to the reach either way. The contender lane fills its
models' share alone; with a gentler lean the other lanes would lift them out of tolerance."""
LEAN_FROM = 25.0
"""Targets below this many exposures lean as if they were this large: one exposure more or less is chance then."""


def playing(state: ArenaState) -> Numbers:
    """The models that can be served: those that share an answered prompt with another one."""
    cells = state.catalog.servable()
    return np.flatnonzero(cells[:, cells.sum(axis=0) > 1].any(axis=1))


def conservative_order(state: ArenaState, numbers: Numbers) -> Numbers:
    """These models, best first by conservative score; equal ones in the order of their numbers."""
    now = state.track.now
    score = now.rating[numbers] - 2.0 * now.deviation[numbers]
    return numbers[np.argsort(-score, kind="stable")]


def contenders(state: ArenaState) -> Numbers:
    """The contender band: the first K models that can be served, best first."""
    return conservative_order(state, playing(state))[: state.policy.contender_band]


def lane_opens(state: ArenaState, order: Numbers | None = None) -> bool:
    """Whether the contender lane may serve: the first K + 1 have the rated votes that keep it from chasing luck."""
    if order is None:
        order = conservative_order(state, playing(state))
    first = order[: state.policy.contender_band + 1]
    rated = state.tallies.rated_on.view[first].sum(axis=1)
    return len(first) > 1 and int(rated.min()) >= state.policy.contender_opens_at


def exposure_targets(state: ArenaState) -> Floats:
    """The exposures each model should have in the window as long as it is now; 0 for one that cannot be served."""
    order = conservative_order(state, playing(state))
    models, matchups = len(state.catalog.models), len(state.schedule.window)
    return targets(state.policy, order, models, matchups, opened=lane_opens(state, order))


def targets(policy: Policy, order: Numbers, models: int, matchups: int, *, opened: bool) -> Floats:
    """An even share for everybody, or what the contender lane alone gives a contender where that is more.

    The others then share what is left evenly. While the lane is closed nobody has a claim to more than the even share.
    """
    contender, other = _two_targets(policy, len(order), matchups, opened=opened)
    return _spread(order, policy.contender_band, models, contender, other)


def aims(policy: Policy, order: Numbers, models: int, matchups: int, *, opened: bool) -> Floats:
    """What the lanes steer by: the targets, but half a tolerance less for contenders who are due more than the others.

    Their own lane fills their target on average, by chance sometimes less and sometimes more. Filled up by other lanes
    after every less, they would run over with every more. The others are led to what is left.
    """
    contender, other = _two_targets(policy, len(order), matchups, opened=opened)
    others = len(order) - policy.contender_band
    if contender > other and others > 0:
        spared = 0.5 * policy.exposure_tolerance * contender
        contender, other = contender - spared, other + spared * policy.contender_band / others
    return _spread(order, policy.contender_band, models, contender, other)


def _two_targets(policy: Policy, players: int, matchups: int, *, opened: bool) -> tuple[float, float]:
    by_lane = policy.lanes.contender if opened else 0.0
    return two_targets(players, min(policy.contender_band, players), matchups, by_lane, policy.opponents.challenger)


def _spread(order: Numbers, band: int, models: int, contender: float, other: float) -> Floats:
    values = np.zeros(models)
    values[order] = other
    values[order[:band]] = contender
    return values


def deviations(exposures: NDArray[np.int64], target: Floats) -> Floats:
    """How far each model is from its target, as a share of it: −0.12 is 12 % below."""
    return np.asarray((exposures - target) / np.maximum(target, 1.0))


def urgency(deviation: Floats, tolerance: float) -> Floats:
    """How much a model should be preferred: 1 at the lower edge of the tolerance, −1 at the upper, steeper beyond."""
    edges = _within(deviation, 1.0) / -tolerance
    inside = _within(edges, 1.0)
    return np.asarray(inside + RISES_OUTSIDE * (edges - inside))


def leaning(deviation: Floats, target: Floats) -> Floats:
    """The factor by which a draw leans to the less exposed."""
    settled = deviation * np.minimum(np.maximum(target, 1.0) / LEAN_FROM, 1.0)
    return np.exp(-LEAN_STEEPNESS * _within(settled, LEAN_REACH))


def _within(values: Floats, reach: float) -> Floats:
    """Values cut to the reach either way; `numpy.clip` takes five times as long for so few."""
    return np.asarray(np.minimum(np.maximum(values, -reach), reach))


@dataclass(frozen=True, slots=True)
class TrafficCap:
    """The largest share of matchups that one model may take part in, over the window and over its latest part.

    The latest part matters: a model that is new has no exposure in a long window, and could otherwise take everything
    for a quarter of that window.
    """

    share: float
    span: int

    @classmethod
    def of(cls, policy: Policy, players: int) -> TrafficCap:
        """The cap for an arena with so many models in play."""
        share = max(policy.traffic_cap, policy.traffic_cap_even_shares * 2.0 / max(players, 1))
        return cls(share, policy.traffic_cap_from)

    def reached(self, schedule: Schedule) -> Numbers:
        """The models whose next exposure would exceed the cap."""
        matchups = len(schedule.window)
        if self.share >= 1.0 or matchups < self.span:
            return np.empty(0, dtype=np.intp)
        length = min(matchups + 1, schedule.window.maxlen or matchups + 1)
        in_window = schedule.in_window
        over = in_window + 1 > self.share * length
        most = max(int(self.share * self.span), 1)
        latest = [0] * len(in_window)
        for a, b, _ in islice(reversed(schedule.window), self.span - 1):
            latest[a] += 1
            latest[b] += 1
        if max(latest) >= most:
            over |= np.array(latest) >= most
        return over.nonzero()[0]

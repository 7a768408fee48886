"""How much of the traffic each model should get, gets, and may get at most."""

from __future__ import annotations

from itertools import islice

import numpy as np
from numpy.typing import NDArray

from tiltyard.arena.matchmaking import fairness
from tiltyard.arena.rules.policy import Policy
from tiltyard.arena.rules.schedule import Schedule
from tiltyard.arena.rules.state import ArenaState
from tiltyard.types import Floats

Numbers = NDArray[np.intp]

RISES_OUTSIDE = 4.0
"""Outside the tolerance, urgency rises this many times as fast as inside."""


def conservative_order(state: ArenaState, numbers: Numbers) -> Numbers:
    """These models, best first by conservative score; equal ones in the order of their numbers."""
    now = state.ratings
    score = now.rating[numbers] - 2.0 * now.deviation[numbers]
    return numbers[np.argsort(-score, kind="stable")]


def ready_contenders(state: ArenaState, order: Numbers) -> tuple[int, int]:
    """How many of the top K + 1 models have the rated votes that open the contender lane, and how many there are."""
    first = order[: state.policy.contender_band + 1]
    rated = np.add.reduce(state.tallies.rated_on.view[first], axis=1)
    return int(np.count_nonzero(rated >= state.policy.contender_opens_at)), len(first)


def lane_opens(state: ArenaState, order: Numbers) -> bool:
    """Whether the contender lane may serve: the top K + 1 models have enough rated votes to avoid chasing luck."""
    ready, models = ready_contenders(state, order)
    return models > 1 and ready == models


def targets(schedule: Schedule, players: Numbers) -> Floats:
    """The exposures that each model should have in the window; 0 for one that is not among the players.

    An even share for every model, or what the contender lane alone gave it if that is more.
    """
    values = np.zeros(len(schedule.in_window))
    values[players] = fairness.exposure_targets(schedule.by_contender_lane[players], len(schedule.window))
    return values


def urgency(deviation: Floats, tolerance: float) -> Floats:
    """How much to prefer a model: 1 at the lower edge of the tolerance, −1 at the upper, steeper outside it."""
    edges = np.clip(deviation, -1.0, 1.0) / -tolerance
    inside = np.clip(edges, -1.0, 1.0)
    return np.asarray(inside + RISES_OUTSIDE * (edges - inside))


def over_traffic_cap(schedule: Schedule, policy: Policy, players: int) -> set[int]:
    """The models whose next exposure would exceed the largest share of matchups that one may take part in.

    Over the window and over its latest part: a new model has no exposure in a long window, and could otherwise take
    all traffic for a quarter of that window.
    """
    share = max(policy.traffic_cap, policy.traffic_cap_even_shares * 2.0 / max(players, 1))
    matchups, span = len(schedule.window), policy.traffic_cap_from
    if share >= 1.0 or matchups < span:
        return set()
    length = min(matchups + 1, schedule.window.maxlen or matchups + 1)
    in_window = schedule.in_window
    over = set((in_window + 1 > share * length).nonzero()[0].tolist())
    most, latest = max(int(share * span), 1), [0] * len(in_window)
    for a, b, _ in islice(reversed(schedule.window), span - 1):
        for model in (a, b):
            latest[model] += 1
            if latest[model] >= most:
                over.add(model)
    return over

"""What the ratings were at earlier times, by replaying the votes that count now; and who moved since."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tiltyard.arena.board import OFFICIAL_FROM
from tiltyard.arena.weekly import Look
from tiltyard.ratings.glicko2 import rate_battles_history
from tiltyard.validity.badges import Badge
from tiltyard.validity.churn import BAND, Known

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from tiltyard.arena.board import LiveBoard
    from tiltyard.arena.policy import Policy
    from tiltyard.arena.vote_table import VoteTable

DAY = 86_400 * 1_000_000


def looks_back(votes: VoteTable, policy: Policy, times: Sequence[int], enabled: Collection[str]) -> tuple[Look, ...]:
    """What was known of enabled models at each time (microseconds); a model without a vote by then is left out."""
    rated = votes.rated
    a, b = votes.model_a[rated], votes.model_b[rated]
    history = rate_battles_history(
        a, b, votes.score_a()[rated], start=len(votes.models), settings=policy.rating.glicko2()
    )
    model = np.column_stack([a, b]).ravel()
    rating, deviation = history.rating.ravel(), history.deviation.ravel()
    # Events of several servers are not in the order of their clocks: a time is where the log had come to by then.
    clock = np.maximum.accumulate(votes.at[rated]) if rated.any() else votes.at[rated]
    looks = []
    for at in times:
        upto = 2 * int(np.searchsorted(clock, at, side="left"))
        last = np.full(len(votes.models), -1)
        last[model[:upto]] = np.arange(upto)
        looks.append(
            Look(
                at,
                {
                    name: Known(float(rating[last[number]]), float(deviation[last[number]]))
                    for number, name in enumerate(votes.models)
                    if last[number] >= 0 and name in enabled
                },
            )
        )
    return tuple(looks)


@dataclass(frozen=True, slots=True)
class Movement:
    """How many places a model rose (fell, if negative) in a day, and whether its rating left the band it had then."""

    places: int
    rating_change: float
    beyond_band: bool


def movements(board: LiveBoard, before: Look, policy: Policy) -> Mapping[str, Movement]:
    """The movement of every model that confidence allows to speak of.

    It must not be provisional, and must have had an established model's deviation at the earlier time as well: the
    places of others move by luck. Places are counted among the models that were there at both times. While legacy Elo
    orders the board there are no movements, because that order is not looked back at.
    """
    if board.phase < OFFICIAL_FROM:
        return {}
    then = sorted(before.standings, key=lambda name: -before.standings[name].low)
    now = [row.model for row in board.rows if row.model in before.standings]
    placed = {name: place for place, name in enumerate(now)}
    then = [name for name in then if name in placed]
    moved = {}
    for place, name in enumerate(then):
        row, known = board[name], before.standings[name]
        if row.badge is Badge.PROVISIONAL or known.deviation > policy.badges.established_deviation:
            continue
        change = row.rating - known.rating
        moved[name] = Movement(place - placed[name], change, abs(change) > BAND * known.deviation)
    return moved

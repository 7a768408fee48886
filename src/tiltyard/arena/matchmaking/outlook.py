"""What the lanes know from votes alone: it stays the same, however many matchups are served, until the next vote."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from tiltyard.arena.matchmaking.exposure import aims, conservative_order, lane_opens

if TYPE_CHECKING:
    from tiltyard.arena.matchmaking.servable import Servable
    from tiltyard.arena.policy import Policy
    from tiltyard.arena.rating_track import Ratings
    from tiltyard.arena.state import ArenaState

    _Key = tuple[Servable, Policy, Ratings, int]

Floats = NDArray[np.float64]


class Outlook:
    """The order of the models and what follows from it.

    `order` are the models that can be served, best first; `band` the contenders among them; `opened`: their lane may
    serve. `floors` are the decisive votes that each model should have on every prompt: more for contenders. `decisive`
    counts such votes of all models.
    """

    def __init__(self, state: ArenaState, servable: Servable) -> None:
        policy = state.policy
        self.order = conservative_order(state, servable)
        self.band = self.order[: policy.contender_band]
        self.opened = lane_opens(state, self.order)
        self.decisive = int(state.tallies.wins.view.sum())
        self.floors = np.full(len(servable.players), policy.prompt_floor, dtype=np.int32)
        if self.opened:
            self.floors[self.band] = max(policy.prompt_floor, policy.prompt_target_top)
        self._policy = policy
        self._aim: tuple[int, Floats] | None = None

    def aim(self, matchups: int) -> Floats:
        """How many exposures each model is led to in a window of so many matchups."""
        if self._aim is None or self._aim[0] != matchups:
            aim = aims(self._policy, self.order, len(self.floors), matchups, opened=self.opened)
            self._aim = (matchups, aim)
        return self._aim[1]


_known: WeakKeyDictionary[ArenaState, tuple[_Key, Outlook]] = WeakKeyDictionary()


def outlook_of(state: ArenaState, servable: Servable) -> Outlook:
    """The outlook of a state, worked out anew only when ratings, counts, policy or catalog have changed."""
    ratings, counted = state.track.now, state.tallies.counted
    known = _known.get(state)
    if known is not None:
        (servable_then, policy_then, ratings_then, counted_then), outlook = known
        if (
            ratings_then is ratings
            and counted_then == counted
            and servable_then is servable
            and policy_then is state.policy
        ):
            return outlook
    outlook = Outlook(state, servable)
    _known[state] = ((servable, state.policy, ratings, counted), outlook)
    return outlook

"""The tables that lanes use: who can meet whom, the order of the models, and every model's deficits.

Each table depends on the state alone. A caller that chooses often keeps `WorkingTables`, which recompute only what has
changed since the last choice; tests compare them with tables computed from scratch.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tiltyard.arena.matchmaking.exposure import conservative_order, lane_opens, targets
from tiltyard.arena.rules.catalog import Catalog
from tiltyard.arena.rules.state import ArenaState
from tiltyard.types import Bools, Floats

Narrow = NDArray[np.float32]
Counts = NDArray[np.int32]

ONE, HALF, NOTHING = np.float32(1.0), np.float32(0.5), np.float32(0.0)


@dataclass(frozen=True, slots=True, eq=False)
class Servable:
    """What the catalog allows. Arrays go by model and prompt number and are never written to.

    `cells` (model, prompt) may be shown; `shared` counts the prompts that two models can meet on; `partners` is true
    where that is not 0 (never for a model with itself); `players` have a partner, and `numbers` are their model numbers
    in order. `prompts_of` counts each model's cells and `partners_of` its partners, at least 1 so that they can be
    divisors. `fewest_shared` is the least of `shared` among partners. `complete`: every model can be served on every
    prompt.
    """

    cells: Bools
    shared: NDArray[np.int32]
    partners: Bools
    players: Bools
    numbers: NDArray[np.intp]
    prompts_of: NDArray[np.int32]
    partners_of: NDArray[np.intp]
    fewest_shared: int
    complete: bool

    @classmethod
    def of(cls, catalog: Catalog) -> Servable:
        cells = catalog.servable()
        as_numbers = cells.astype(np.float32)
        shared = (as_numbers @ as_numbers.T).astype(np.int32)
        partners = shared > 0
        np.fill_diagonal(partners, val=False)
        players = np.asarray(partners.any(axis=1))
        return cls(
            cells=cells,
            shared=shared,
            partners=partners,
            players=players,
            numbers=np.flatnonzero(players),
            prompts_of=np.maximum(cells.sum(axis=1, dtype=np.int32), 1),
            partners_of=np.maximum(partners.sum(axis=1), 1),
            fewest_shared=int(shared[partners].min(initial=cells.shape[1])),
            complete=bool(cells.all()),
        )


class RankOrder:
    """The order of the models and what depends on it.

    `order` lists the models that can be served, best first; `opened`: the contender lane may serve. `floors` are the
    decisive votes that each model should have on every prompt: more for contenders.
    """

    def __init__(self, state: ArenaState, servable: Servable) -> None:
        self._servable, self._policy, self._ratings = servable, state.policy, state.ratings
        policy = state.policy
        self.order = conservative_order(state, servable.numbers)
        self.opened = lane_opens(state, self.order)
        self.floors = np.full(len(servable.players), policy.prompt_floor, dtype=np.int32)
        if self.opened:
            self.floors[self.order[: policy.contender_band]] = max(policy.prompt_floor, policy.prompt_target_top)

    def holds(self, state: ArenaState, servable: Servable) -> bool:
        """Whether this is still the order: most votes change nothing until ratings are published again."""
        kept = self._servable is servable and self._policy is state.policy and self._ratings is state.ratings
        return kept and self.opened == lane_opens(state, self.order)


class Deficits:
    """Tables by model, with matchups in flight counted as if they had been voted on.

    `prompts` (model, prompt): how much a vote on that prompt is needed, 0 to 1. Prompts below the floor need it more
    than those above, and most of all those nearest to it: a prompt that was begun is finished before the next is begun.
    With many prompts none would be covered for long if all were begun first. Above the floor it is half of the share
    missing to the model's mean. `missing`: by model, the sum of the shares missing to the floor, or to the mean if that
    is more. `met` (model, model): decisive votes of the pair. A choice touches two models and a vote two, so only their
    rows are recomputed.
    """

    def __init__(self, servable: Servable) -> None:
        self.servable = servable
        models, prompts = servable.cells.shape
        self.prompts: Narrow = np.zeros((models, prompts), dtype=np.float32)
        self.missing: Narrow = np.zeros(models, dtype=np.float32)
        self.met: Counts = np.zeros((models, models), dtype=np.int32)
        self._floors: Counts = np.full(models, -1, dtype=np.int32)
        self._tallies_seen = self._schedule_seen = self._prompt_floor = -1

    def follow(self, state: ArenaState, floors: Counts) -> None:
        tallies, schedule = state.tallies, state.schedule
        stale = (tallies.revised > self._tallies_seen) | (schedule.revised > self._schedule_seen)
        self._tallies_seen, self._schedule_seen = tallies.revision, schedule.revision
        if self._floors is not floors:
            stale |= self._floors != floors
            self._floors = floors
        if self._prompt_floor != state.policy.prompt_floor:
            stale[:] = True
            self._prompt_floor = state.policy.prompt_floor
        if stale.any():
            self._compute(state, stale.nonzero()[0])

    def _compute(self, state: ArenaState, models: NDArray[np.intp]) -> None:
        tallies, schedule, floor, complete = state.tallies, state.schedule, self._prompt_floor, self.servable.complete
        have = tallies.decisive_on.view[models] + schedule.in_flight_on.view[models]
        aim = np.maximum(np.add.reduce(have, axis=1) / self.servable.prompts_of[models], self._floors[models])
        rows = have.astype(np.float32)
        rows *= (-0.5 / aim).astype(np.float32)[:, None]
        rows += HALF
        np.maximum(rows, NOTHING, out=rows)
        if not complete:
            rows *= self.servable.cells[models]
        self.missing[models] = 2.0 * np.add.reduce(rows, axis=1)
        begun = have < floor
        if begun.any():  # more than ½, and 1 where one vote is missing
            rows[begun] = (have[begun] + ONE) * np.float32(0.5 / floor) + HALF
            if not complete:
                rows *= self.servable.cells[models]
        self.prompts[models] = rows
        wins = tallies.wins.view
        self.met[models] = wins[models] + wins[:, models].T + schedule.in_flight_pairs.view[models]


class WorkingTables:
    """The tables of one state, kept from one choice to the next. Not thread-safe.

    Given another state they start over: they make a choice faster, but never change it.
    """

    def __init__(self) -> None:
        self._state: ArenaState | None = None
        self._servable: tuple[int, Servable] | None = None
        self._order: RankOrder | None = None
        self._deficits: Deficits | None = None
        self._targets: tuple[tuple[int, int, Servable], Floats] | None = None

    def servable(self, state: ArenaState) -> Servable:
        if self._state is not state:
            self._state, self._servable, self._order = state, None, None
            self._deficits = self._targets = None
        catalog = state.catalog
        if self._servable is None or self._servable[0] != catalog.revision:
            self._servable = (catalog.revision, Servable.of(catalog))
        return self._servable[1]

    def rank_order(self, state: ArenaState, servable: Servable) -> RankOrder:
        """The order of the models, recomputed when ratings, policy or catalog have changed, or the lane opens."""
        if self._order is None or not self._order.holds(state, servable):
            self._order = RankOrder(state, servable)
        return self._order

    def exposure_targets(self, state: ArenaState, servable: Servable) -> Floats:
        """The exposures each model should have, recomputed when the contender lane's part of the window has changed."""
        schedule = state.schedule
        key = (schedule.contender_revision, len(schedule.window), servable)
        if self._targets is None or self._targets[0] != key:
            self._targets = (key, targets(schedule, servable.numbers))
        return self._targets[1]

    def deficits(self, state: ArenaState, order: RankOrder, servable: Servable) -> Deficits:
        if self._deficits is None or self._deficits.servable is not servable:
            self._deficits = Deficits(servable)
        self._deficits.follow(state, order.floors)
        return self._deficits

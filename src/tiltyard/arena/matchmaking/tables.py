"""The tables that lanes use: who can meet whom, the order of the models, and every model's deficits.

Each table depends on the state alone. A caller that chooses often keeps `WorkingTables`, which recompute only what has
changed since the last choice; tests compare them with tables computed from scratch.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tiltyard.arena.catalog import Catalog
from tiltyard.arena.matchmaking.exposure import conservative_order, lane_opens, targets
from tiltyard.arena.policy import Policy
from tiltyard.arena.ratings import Ratings
from tiltyard.arena.state import ArenaState
from tiltyard.types import Bools, Floats

Narrow = NDArray[np.float32]
Counts = NDArray[np.int32]

ONE, HALF, NOTHING = np.float32(1.0), np.float32(0.5), np.float32(0.0)

WORTH_ARRAYS = 6
"""From this many models on it is faster to compute their rows together than one by one."""


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
        """What this catalog allows now."""
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
    """The order of the models and what depends on it: it changes with votes, not with served matchups.

    `order` lists the models that can be served, best first; `opened`: the contender lane may serve. `floors` are the
    decisive votes that each model should have on every prompt: more for contenders. `decisive` counts such votes of all
    models.
    """

    def __init__(self, state: ArenaState, servable: Servable) -> None:
        policy = state.policy
        self.order = conservative_order(state, servable.numbers)
        self.opened = lane_opens(state, self.order)
        self.decisive = int(state.tallies.wins.view.sum())
        self.floors = np.full(len(servable.players), policy.prompt_floor, dtype=np.int32)
        if self.opened:
            self.floors[self.order[: policy.contender_band]] = max(policy.prompt_floor, policy.prompt_target_top)


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
        """Update for what has happened since, and for changed floors."""
        stale = self._stale(state, floors)
        if len(stale) < WORTH_ARRAYS:
            for model in stale.tolist():
                self._one(state, model)
        else:
            self._many(state, stale)

    def _stale(self, state: ArenaState, floors: Counts) -> NDArray[np.intp]:
        """The models whose votes, matchups in flight or floors have changed since the last call."""
        tallies, schedule = state.tallies, state.schedule
        tallies_now, schedule_now = tallies.revision, schedule.revision
        stale = (tallies.revised > self._tallies_seen) | (schedule.revised > self._schedule_seen)
        self._tallies_seen, self._schedule_seen = tallies_now, schedule_now
        if self._floors is not floors:
            stale |= self._floors != floors
            self._floors = floors
        if self._prompt_floor != state.policy.prompt_floor:
            stale[:] = True
            self._prompt_floor = state.policy.prompt_floor
        return stale.nonzero()[0]

    def _one(self, state: ArenaState, model: int) -> None:
        """One model's rows: what `_many` does, to the last bit."""
        tallies, schedule, floor = state.tallies, state.schedule, self._prompt_floor
        have = tallies.decisive_on.view[model] + schedule.in_flight_on.view[model]
        aim = max(np.add.reduce(have) / self.servable.prompts_of[model], self._floors[model])
        row = self.prompts[model]
        np.multiply(have, np.float32(-0.5 / aim), out=row, casting="unsafe", dtype=np.float32)
        row += HALF
        np.maximum(row, NOTHING, out=row)
        if not self.servable.complete:
            row *= self.servable.cells[model]
        self.missing[model] = 2.0 * np.add.reduce(row)
        if np.minimum.reduce(have) < floor:
            begun = have < floor
            row[begun] = self._near_floor(have[begun], floor)
            if not self.servable.complete:
                row *= self.servable.cells[model]
        wins = tallies.wins.view
        self.met[model] = self.met[:, model] = wins[model] + wins[:, model] + schedule.in_flight_pairs.view[model]

    def _many(self, state: ArenaState, models: NDArray[np.intp]) -> None:
        tallies, schedule, floor = state.tallies, state.schedule, self._prompt_floor
        have = tallies.decisive_on.view[models] + schedule.in_flight_on.view[models]
        aim = np.maximum(have.sum(axis=-1) / self.servable.prompts_of[models], self._floors[models])
        rows = have.astype(np.float32)
        rows *= (-0.5 / aim).astype(np.float32)[:, None]
        rows += HALF
        np.maximum(rows, NOTHING, out=rows)
        if not self.servable.complete:
            rows *= self.servable.cells[models]
        self.missing[models] = 2.0 * rows.sum(axis=1)
        begun = have < floor
        rows[begun] = self._near_floor(have[begun], floor)
        if not self.servable.complete:
            rows *= self.servable.cells[models]
        self.prompts[models] = rows
        wins = tallies.wins.view
        met = wins[models] + wins[:, models].T + schedule.in_flight_pairs.view[models]
        self.met[models] = met
        self.met[:, models] = met.T

    @staticmethod
    def _near_floor(have: Counts, floor: int) -> Narrow:
        """How much prompts below the floor need a vote: more than ½, and 1 where one vote is missing."""
        return ((have + ONE) * np.float32(0.5 / floor) + HALF).astype(np.float32)


class WorkingTables:
    """The tables of one state, kept from one choice to the next. Not thread-safe.

    Given another state they start over: they make a choice faster, but never change it.
    """

    def __init__(self) -> None:
        self._state: ArenaState | None = None
        self._servable: tuple[tuple[object, ...], Servable] | None = None
        self._order: tuple[tuple[Servable, Policy, Ratings, int], RankOrder] | None = None
        self._deficits: Deficits | None = None
        self._targets: tuple[tuple[int, int, Servable], Floats] | None = None

    def servable(self, state: ArenaState) -> Servable:
        """What the catalog allows.

        Entries are only added or switched, so their counts and switches identify its version.
        """
        if self._state is not state:
            self._state, self._servable, self._order = state, None, None
            self._deficits = self._targets = None
        catalog = state.catalog
        key = (
            len(catalog.models),
            len(catalog.prompts),
            len(catalog.response_ids),
            bytes(catalog.model_enabled),
            bytes(catalog.prompt_enabled),
            catalog.revision,
        )
        if self._servable is None or self._servable[0] != key:
            self._servable = (key, Servable.of(catalog))
        return self._servable[1]

    def rank_order(self, state: ArenaState, servable: Servable) -> RankOrder:
        """The order of the models, recomputed when ratings, counts, policy or catalog have changed."""
        policy = state.policy
        ratings, revision = state.ratings, state.tallies.revision
        if self._order is not None:
            (servable_then, policy_then, ratings_then, revision_then), order = self._order
            if (
                ratings_then is ratings
                and revision_then == revision
                and servable_then is servable
                and policy_then is policy
            ):
                return order
        order = RankOrder(state, servable)
        self._order = ((servable, policy, ratings, revision), order)
        return order

    def exposure_targets(self, state: ArenaState, servable: Servable) -> Floats:
        """The exposures each model should have, recomputed when the contender lane's part of the window has changed."""
        schedule = state.schedule
        key = (schedule.contender_revision, len(schedule.window), servable)
        if self._targets is None or self._targets[0] != key:
            self._targets = (key, targets(schedule, servable.numbers))
        return self._targets[1]

    def deficits(self, state: ArenaState, order: RankOrder, servable: Servable) -> Deficits:
        """What every model lacks now."""
        if self._deficits is None or self._deficits.servable is not servable:
            self._deficits = Deficits(servable)
        self._deficits.follow(state, order.floors)
        return self._deficits

"""What every model lacks on every prompt, and how often every pair has met: kept from one choice to the next."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from tiltyard.arena.matchmaking.outlook import Outlook
    from tiltyard.arena.matchmaking.servable import Servable
    from tiltyard.arena.state import ArenaState

Narrow = NDArray[np.float32]
Counts = NDArray[np.int32]

ONE, NOTHING = np.float32(1.0), np.float32(0.0)

WORTH_ARRAYS = 6
"""From this many models on it is faster to work out their rows together than one by one."""


class Deficits:
    """Tables by model, with matchups in flight counted as if they had been voted on.

    `prompts` (model, prompt): the share missing to the floor, or to the model's mean if that is more; `missing` are its
    sums by model. `met` (model, model): decisive votes of the pair. A choice touches two models and a vote two, so only
    their rows are worked out anew.
    """

    def __init__(self, servable: Servable) -> None:
        self.servable = servable
        models, prompts = servable.cells.shape
        self.prompts: Narrow = np.zeros((models, prompts), dtype=np.float32)
        self.missing: Narrow = np.zeros(models, dtype=np.float32)
        self.met: Counts = np.zeros((models, models), dtype=np.int32)
        self._floors: Counts = np.full(models, -1, dtype=np.int32)

    def follow(self, state: ArenaState, floors: Counts) -> None:
        """Take in what has happened since, and other floors."""
        tallies, schedule = state.tallies, state.schedule
        stale = tallies.touched() | schedule.touched()
        if self._floors is not floors:
            stale.update((self._floors != floors).nonzero()[0].tolist())
            self._floors = floors
        if len(stale) < WORTH_ARRAYS:
            for model in stale:
                self._one(state, model)
        else:
            self._many(state, np.array(sorted(stale)))

    def _one(self, state: ArenaState, model: int) -> None:
        """One model's rows: what `_many` does, to the last bit."""
        tallies, schedule = state.tallies, state.schedule
        have = tallies.decisive_on.view[model] + schedule.flying_on.view[model]
        aim = max(np.add.reduce(have) / self.servable.prompts_of[model], self._floors[model])
        row = self.prompts[model]
        np.multiply(have, np.float32(-1.0 / aim), out=row, casting="unsafe", dtype=np.float32)
        row += ONE
        np.maximum(row, NOTHING, out=row)
        if not self.servable.whole:
            row *= self.servable.cells[model]
        self.missing[model] = np.add.reduce(row)
        wins = tallies.wins.view
        self.met[model] = self.met[:, model] = wins[model] + wins[:, model] + schedule.flying_pairs.view[model]

    def _many(self, state: ArenaState, models: NDArray[np.intp]) -> None:
        tallies, schedule = state.tallies, state.schedule
        have = tallies.decisive_on.view[models] + schedule.flying_on.view[models]
        aim = np.maximum(have.sum(axis=-1) / self.servable.prompts_of[models], self._floors[models])
        missing = have.astype(np.float32)
        missing *= (-1.0 / aim).astype(np.float32)[:, None]
        missing += ONE
        np.maximum(missing, NOTHING, out=missing)
        if not self.servable.whole:
            missing *= self.servable.cells[models]
        self.prompts[models] = missing
        self.missing[models] = missing.sum(axis=1)
        wins = tallies.wins.view
        met = wins[models] + wins[:, models].T + schedule.flying_pairs.view[models]
        self.met[models] = met
        self.met[:, models] = met.T


_known: WeakKeyDictionary[ArenaState, Deficits] = WeakKeyDictionary()


def deficits_of(state: ArenaState, servable: Servable, outlook: Outlook) -> Deficits:
    """The tables of a state as it is now. They belong to the state, and move on with it."""
    known = _known.get(state)
    if known is None or known.servable is not servable:
        known = _known[state] = Deficits(servable)
    known.follow(state, outlook.floors)
    return known

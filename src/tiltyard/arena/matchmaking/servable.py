"""Who can be served with whom, worked out once per catalog."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from tiltyard.arena.catalog import Catalog

Mask = NDArray[np.bool_]
_Key = tuple[int, int, int, bytes, bytes]


@dataclass(frozen=True, slots=True, eq=False)
class Servable:
    """What the catalog allows. Arrays go by model and prompt number and are never written to.

    `cells` (model, prompt) may be shown; `shared` counts the prompts that two models can meet on; `partners` is where
    that is not 0, and no model is its own partner; `players` have a partner, and `numbers` are theirs in order.
    `prompts_of` counts each model's cells and `partners_of` its partners, at least 1 so that one may divide by them.
    `fewest_shared` is the least of `shared` among partners. `whole`: every model can be served on every prompt.
    """

    cells: Mask
    shared: NDArray[np.int32]
    partners: Mask
    players: Mask
    numbers: NDArray[np.intp]
    prompts_of: NDArray[np.int32]
    partners_of: NDArray[np.intp]
    fewest_shared: int
    whole: bool


_known: WeakKeyDictionary[Catalog, tuple[_Key, Servable]] = WeakKeyDictionary()


def servable_of(catalog: Catalog) -> Servable:
    """What this catalog allows now; computed anew only when models, prompts or answers have changed.

    A catalog only grows and switches, so these counts and switches tell all its states apart; nothing can go stale.
    """
    key = (
        len(catalog.models),
        len(catalog.prompts),
        len(catalog.response_ids),
        bytes(catalog.model_enabled),
        bytes(catalog.prompt_enabled),
    )
    known = _known.get(catalog)
    if known is None or known[0] != key:
        known = _known[catalog] = (key, _work_out(catalog))
    return known[1]


def _work_out(catalog: Catalog) -> Servable:
    cells = catalog.servable()
    as_numbers = cells.astype(np.float32)
    shared = (as_numbers @ as_numbers.T).astype(np.int32)
    partners = shared > 0
    np.fill_diagonal(partners, val=False)
    players = np.asarray(partners.any(axis=1))
    return Servable(
        cells=cells,
        shared=shared,
        partners=partners,
        players=players,
        numbers=np.flatnonzero(players),
        prompts_of=np.maximum(cells.sum(axis=1, dtype=np.int32), 1),
        partners_of=np.maximum(partners.sum(axis=1), 1),
        fewest_shared=int(shared[partners].min(initial=cells.shape[1])),
        whole=bool(cells.all()),
    )

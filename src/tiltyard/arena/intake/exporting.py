"""An arena's votes as battle rows, straight from its database: what `arena export` writes and others read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec

from tiltyard.arena.rules.units import clock
from tiltyard.arena.rules.votes import battle_rows, vote_table
from tiltyard.arena.rules.weights import vote_weights
from tiltyard.arena.store.checkpoints import load_votes
from tiltyard.arena.store.desk import tags_by_matchup
from tiltyard.arena.store.matchups import public_until
from tiltyard.arena.store.reading import prompt_texts
from tiltyard.arena.store.store import Store
from tiltyard.arena.study.offline import CLUSTERS, rate_options


class ArenaExport(msgspec.Struct, frozen=True, eq=False):
    """The battles of an arena: rows to go through once, prompt texts by id, and how its board is rated."""

    rows: Iterator[dict[str, Any]]
    texts: Mapping[str, str]
    cluster: str
    rate_options: str


@contextmanager
def open_export(db: str, *, keys: bool = False) -> Iterator[ArenaExport]:
    """Every final vote, with its status and weight, while the database is open; with `keys` under those of the log."""
    store = Store.open(db)
    try:
        with store.database.read() as connection:
            state, votes, _ = load_votes(connection, public_until(connection, clock()))
        rules = state.policy.intervals
        weights = vote_weights(vote_table(votes, state.catalog), state.policy.defences)
        yield ArenaExport(
            battle_rows(votes, state.catalog, weights.tolist(), tags_by_matchup(store, state.seq), keys=keys),
            prompt_texts(store),
            CLUSTERS[rules.speak_for],
            rate_options(rules),
        )
    finally:
        store.close()

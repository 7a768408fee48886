"""From a method's arrays to a `Leaderboard`: sort, count, describe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tiltyard.boards.leaderboard import Leaderboard, RatingEntry
from tiltyard.boards.selection import Selected, entry_sources, judge_name, tally
from tiltyard.ratings.ranks import RankIntervals, ranks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tiltyard.battles.table import BattleTable

Column = Sequence[float | None]


def build_board(
    selected: Selected,
    *,
    rating: NDArray[np.float64],
    settings: Mapping[str, Any],
    low: Column | None = None,
    high: Column | None = None,
    places: RankIntervals | None = None,
    evaluated: str | None = None,
    notes: Sequence[str | None] | None = None,
    extra: Mapping[str, Column] | None = None,
    remarks: Sequence[str] = (),
    details: Mapping[str, Any] | None = None,
    arrays: Mapping[str, NDArray[np.generic]] | None = None,
) -> Leaderboard:
    """The board of a method: columns come in the order of the models, entries leave best first."""
    table: BattleTable = selected.table
    counts = tally(selected)
    sources = entry_sources(table, evaluated)
    rank = ranks(rating)
    entries = tuple(
        RatingEntry(
            model=table.models[i],
            rating=float(rating[i]),
            ci_low=None if low is None else low[i],
            ci_high=None if high is None else high[i],
            n_battles=float(counts.battles[i]),
            source=sources[i],
            rank=int(rank[i]),
            rank_low=None if places is None else int(places.low[i]),
            rank_high=None if places is None else int(places.high[i]),
            wins=float(counts.wins[i]),
            losses=float(counts.losses[i]),
            ties=float(counts.ties[i]),
            both_bad=float(counts.both_bad[i]),
            note=None if notes is None else notes[i],
            extra={name: column[i] for name, column in (extra or {}).items()},
        )
        for i in np.argsort(rank).tolist()
    )
    return Leaderboard(
        entries=entries,
        settings={**settings, "evaluated": evaluated, "judge_model": judge_name(table)},
        n_battles=table.n_battles + selected.both_bad.n_battles,
        left_out=selected.left_out,
        remarks=tuple(remarks),
        details=dict(details or {}),
        arrays={"models": np.array(table.models), **(arrays or {})},
    )

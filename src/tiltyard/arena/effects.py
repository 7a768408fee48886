"""What excluding or restoring votes would do to the board, tried on a copy: the state that is asked stays as it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tiltyard.arena.board import live_board
from tiltyard.arena.events import Event, Excluded, Restored
from tiltyard.arena.memory_book import MemoryBook
from tiltyard.arena.state import Standing
from tiltyard.arena.store.frozen import freeze, thaw

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tiltyard.arena.board import BoardRow, LiveBoard
    from tiltyard.arena.state import ArenaState, CastVote


@dataclass(frozen=True, slots=True)
class RowEffect:
    """One model's line before and after."""

    before: BoardRow
    after: BoardRow

    @property
    def rank_change(self) -> int:
        """Places gained (positive) or lost."""
        return self.before.rank - self.after.rank

    @property
    def rating_change(self) -> float:
        """What its rating gains."""
        return self.after.rating - self.before.rating

    @property
    def conservative_change(self) -> float:
        """What the score gains by which the official order goes."""
        return self.after.conservative - self.before.conservative

    @property
    def votes_change(self) -> int:
        """How many counted votes it gains."""
        return self.after.votes - self.before.votes

    @property
    def changed(self) -> bool:
        """Whether anything about the model is different."""
        return self.before != self.after


@dataclass(frozen=True, slots=True)
class Effects:
    """The board before and after, and how many votes would turn; rows stand in the order of the board before."""

    before: LiveBoard
    after: LiveBoard
    votes: int
    rows: tuple[RowEffect, ...]

    @property
    def places_changed(self) -> int:
        """How many models would stand at another place."""
        return sum(row.rank_change != 0 for row in self.rows)

    @property
    def largest_rating_change(self) -> float:
        """The largest change of any rating, up or down."""
        return max((abs(row.rating_change) for row in self.rows), default=0.0)


def copy_of(state: ArenaState, votes: Iterable[CastVote]) -> ArenaState:
    """A state equal to this one that lives in memory alone; `votes` are all that the state has taken in, in order."""
    book = MemoryBook()
    for vote in votes:
        book.cast(vote)
    copy = thaw(freeze(state), book)
    assert copy is not None, "a state frozen by this version thaws in this version"
    return copy


def effects_of(state: ArenaState, change: Excluded | Restored) -> Effects:
    """What the event would change if it came next. `state` is a copy of the caller's own (`copy_of`): it moves on."""
    before = live_board(state)
    turned = _turned(state, change)
    state.apply(state.seq + 1, Event(state.at, change))
    after = live_board(state)
    later = {row.model: row for row in after.rows}
    return Effects(before, after, turned, tuple(RowEffect(row, later[row.model]) for row in before.rows))


def _turned(state: ArenaState, change: Excluded | Restored) -> int:
    """How many of the votes do not stand yet as the event wants them; undone ones never turn."""
    wanted = Standing.COUNTED if isinstance(change, Restored) else Standing.EXCLUDED
    return sum(vote.standing not in (wanted, Standing.UNDONE) for vote in state.book.find(change.matchup_ids))

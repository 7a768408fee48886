"""One line of the live board: its figures, as far as they are public."""

from __future__ import annotations

import msgspec

from tiltyard.arena.board import OFFICIAL_FROM, SHADOW_PHASE, BoardRow
from tiltyard.arena.following.parts import ThenRow
from tiltyard.arena.following.replay import Movement
from tiltyard.arena.following.snapshots import ModelFacts
from tiltyard.arena.offline import OfflineRow
from tiltyard.arena.verdict import MODEL_VOTES
from tiltyard.pages.svg import Scale
from tiltyard.validity.publication import Badge


class BoardLine(msgspec.Struct, frozen=True):
    """One line of the board: the live row, who the model is, where Bradley–Terry puts it, how it moved in a day."""

    row: BoardRow
    facts: ModelFacts
    offline: OfflineRow | None
    moved: Movement | None
    phase: int
    """Phase of the rollout, which says what is public of the row."""
    anytime: bool
    """Whether its range of ranks holds at every time at which one looks."""
    then: ThenRow | None = None
    """Its figures on an earlier day, if the board is of one."""
    whole: bool = True
    """Whether the board is of all votes."""
    scale: Scale | None = None
    """What intervals are drawn on; None: none are."""

    @property
    def by_legacy(self) -> bool:
        """Whether legacy Elo is still the official rating."""
        return self.phase < OFFICIAL_FROM

    @property
    def in_shadow(self) -> bool:
        """Whether the new figures are not public yet."""
        return self.phase == SHADOW_PHASE

    @property
    def provisional(self) -> bool:
        """Whether its place is too uncertain to rely on, as far as that is public."""
        return self.row.badge is Badge.PROVISIONAL and not self.in_shadow

    @property
    def places(self) -> tuple[int, int] | None:
        """The best and the worst place it could hold overall."""
        low, high = self.row.rank_low, self.row.rank_high
        return None if low is None or high is None or self.in_shadow else (low, high)

    @property
    def category_places(self) -> tuple[int, int] | None:
        """The best and the worst place it could hold on the board of a part of the votes."""
        low, high = (self.offline.rank_low, self.offline.rank_high) if self.offline else (None, None)
        if low is None or high is None:
            return None
        return (low, high) if self.then is None else (min(low, self.then.place), max(high, self.then.place))

    @property
    def place(self) -> int | None:
        """Its place on the board of a part of the votes."""
        return self.then.place if self.then else self.offline.rank if self.offline else None

    @property
    def part_rating(self) -> float | None:
        """Its rating there."""
        return self.then.rating_shown if self.then else self.offline.rating if self.offline else None

    @property
    def part_votes(self) -> int | None:
        """Its votes there: rated ones, or all counted ones by the end of a day."""
        return self.then.votes if self.then else self.offline.votes if self.offline else None

    @property
    def raw(self) -> float:
        """The rating behind the one that is shown: what the interval is around."""
        if self.then is not None:
            return self.then.rating
        if not self.whole and self.offline is not None:
            return self.offline.rating
        return self.row.legacy_elo if self.by_legacy else self.row.rating

    @property
    def printed(self) -> float:
        """The rating that its cell shows."""
        if self.then is not None:
            return self.then.rating_shown
        return self.row.rating_shown if self.whole else self.raw

    @property
    def span(self) -> tuple[float | None, float | None] | None:
        """The ends of its interval; None where there is none, or too few votes to show it."""
        if self.offline is None or self.in_shadow or self.offline.votes < MODEL_VOTES:
            return None
        ends = self.offline.low, self.offline.high
        return None if ends == (None, None) else ends

    @property
    def width(self) -> float | None:
        """How wide the interval is; None where an end is open."""
        low, high = self.span or (None, None)
        return None if low is None or high is None else high - low

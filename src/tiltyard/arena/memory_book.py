"""A vote book in memory: for simulations, tests, and replaying a log without touching what is stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from tiltyard.arena.rating_track import SCORES, Ratings, Votes
from tiltyard.arena.state import CastVote, Standing

if TYPE_CHECKING:
    from collections.abc import Iterable


class MemoryBook:
    """Every vote in a list, in the order of the log."""

    def __init__(self) -> None:
        self.votes: list[CastVote] = []
        self._places: dict[str, int] = {}

    def cast(self, vote: CastVote) -> None:
        """Keep a new vote."""
        self._places[vote.matchup_id] = len(self.votes)
        self.votes.append(vote)

    def find(self, matchup_ids: Iterable[str]) -> list[CastVote]:
        """The votes on these matchups, in the order of the log."""
        places = sorted(self._places[name] for name in set(matchup_ids) if name in self._places)
        return [self.votes[place] for place in places]

    def change(self, votes: Iterable[CastVote], standing: Standing) -> None:
        """Give votes another standing."""
        for vote in votes:
            self.votes[self._places[vote.matchup_id]] = msgspec.structs.replace(vote, standing=standing)

    def ratings_before(self, seq: int) -> Ratings | None:  # noqa: ARG002
        """None: everything is at hand, so a replay begins at the beginning."""
        return None

    def votes_after(self, seq: int) -> Iterable[Votes]:
        """The votes that count, in one piece."""
        counted = [vote for vote in self.votes if vote.seq > seq and vote.standing is Standing.COUNTED]
        yield Votes(
            np.array([vote.seq for vote in counted], dtype=np.int64),
            np.array([vote.a for vote in counted], dtype=np.int32),
            np.array([vote.b for vote in counted], dtype=np.int32),
            np.array([SCORES[vote.choice] for vote in counted], dtype=np.float64),
        )

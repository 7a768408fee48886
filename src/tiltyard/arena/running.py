"""The ratings that matchups are chosen by: the published ones, and every vote after them, one by one.

What is published is up to a minute old, or a day. Under load neighbours of a minute ago are no neighbours, so lanes use
these. They are in no state, checkpoint or page: whoever holds the lock keeps them.
"""

from __future__ import annotations

from itertools import islice

from tiltyard.arena.ratings import Ratings, after_votes
from tiltyard.arena.state import ArenaState
from tiltyard.arena.store.matchups import TableVotes
from tiltyard.arena.votes import VoteStanding


class RunningRatings:
    """Kept by the writing thread; only `start_from` is set by others.

    `start_from` are published ratings, and the last event of the log that is in them; None: nobody has published any.
    """

    def __init__(self) -> None:
        self.start_from: tuple[Ratings, int] | None = None
        self._ratings: Ratings | None = None
        self._made_of: tuple[object, ...] = ()
        self._folded = 0

    def ratings(self, state: ArenaState) -> Ratings | None:
        """The published ratings after every later vote of the state that counts."""
        if self.start_from is None:
            return None
        (published, seq), votes = self.start_from, state.votes
        assert isinstance(votes, TableVotes)
        made_of = (published, votes, votes.corrections, state.policy.rating, len(state.catalog.models))
        if self._ratings is None or made_of != self._made_of:
            if published not in self._made_of or votes not in self._made_of:
                votes.keep_from(seq)
            self._ratings, self._made_of, self._folded = published, made_of, 0
            if len(state.catalog.models) > len(published.rating):
                self._ratings = published.grown(state.policy.rating, len(state.catalog.models))
        new = [
            (vote.a, vote.b, vote.choice)
            for vote in islice(votes.recent.values(), self._folded, None)
            if vote.standing is VoteStanding.COUNTED
        ]
        self._folded = len(votes.recent)
        if new:
            self._ratings = after_votes(self._ratings, new, state.policy.rating)
        return self._ratings

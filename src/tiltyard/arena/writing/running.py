"""The ratings that matchups are chosen by: the published ones, and every vote after them, one by one.

What is published is up to an hour old, or a day. Under load neighbours of a minute ago are no neighbours, so lanes use
these. They are in no state, checkpoint or page: whoever holds the lock keeps them.
"""

from __future__ import annotations

from itertools import islice

from tiltyard.arena.rules.ratings import Ratings, after_votes
from tiltyard.arena.rules.state import ArenaState
from tiltyard.arena.rules.votes import VoteStanding
from tiltyard.arena.store.matchups import TableVotes

STEP = 1_024
"""Votes, the latest, of which as many as twice this are kept to be folded again when one of them is undone."""


class RunningRatings:
    """Kept by the writing thread; only `start_from` is set by others.

    `start_from` are published ratings, and the last event of the log that is in them; None: nobody has published any.
    """

    def __init__(self) -> None:
        self.start_from: tuple[Ratings, int] | None = None
        self._published: tuple[object, ...] = ()
        self._made_of: tuple[object, ...] = ()
        self._base: Ratings | None = None
        """The ratings before the votes that are kept."""
        self._later: tuple[Ratings, int, int] | None = None
        """The next such: after which event, and after how many votes."""
        self._ratings: Ratings | None = None
        self._folded = 0

    def ratings(self, state: ArenaState) -> Ratings | None:
        """The published ratings after every later vote of the state that counts."""
        if self.start_from is None:
            return None
        (published, seq), votes = self.start_from, state.votes
        assert isinstance(votes, TableVotes)
        rules, models = state.policy.rating, len(state.catalog.models)
        if self._published != (published, votes):
            votes.keep_from(seq)
            self._published, self._made_of, self._base = (published, votes), (), published
        assert self._base is not None
        if self._made_of != (votes.corrections, rules, models):
            if models > len(self._base.rating):
                self._base = self._base.grown(rules, models)
            self._made_of, self._later = (votes.corrections, rules, models), None
            self._ratings, self._folded = self._base, 0
        assert self._ratings is not None
        pending = list(islice(votes.recent.values(), self._folded, None))
        while pending:
            part, pending = pending[:STEP], pending[STEP:]
            new = [(vote.a, vote.b, vote.choice) for vote in part if vote.standing is VoteStanding.COUNTED]
            if new:
                self._ratings = after_votes(self._ratings, new, rules)
            self._folded += len(part)
            if self._later is not None and self._folded >= self._later[2] + STEP:
                self._base, after, folded = self._later
                votes.keep_from(after)
                self._folded, self._later = self._folded - folded, None
            if self._later is None and self._folded >= STEP:
                self._later = self._ratings, part[-1].seq, self._folded
        return self._ratings

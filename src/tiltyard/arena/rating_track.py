"""Ratings after every vote, in log order. The order matters, so a vote is removed by replaying.

The ratings are saved every few votes, so that removing a recent vote replays only what followed it; for an older one
the store supplies the nearest checkpoint and the votes since (`VoteHistory`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tiltyard.arena.events import Choice
from tiltyard.arena.policy import RatingRules
from tiltyard.errors import ArenaError
from tiltyard.ratings import LOGITS_PER_POINT
from tiltyard.ratings.elo_kernels import rate_with_baseline
from tiltyard.ratings.glicko2 import EVERY_ONE, PLAIN_SECONDS_PER_BATTLE
from tiltyard.ratings.glicko2_kernels import rate_one_by_one
from tiltyard.types import Floats, Ints

Codes = NDArray[np.int32]

KEPT_EVERY = 64
KEPT_TIMES = 64
"""The ratings of the last 4,096 votes are kept in steps of 64: an undo replays at most 64 votes and what came since."""

FAILED_BOTH = -1.0
"""Represents BOTH_BAD among the scores of votes (1, ½ and 0)."""

SCORES = {Choice.A: 1.0, Choice.B: 0.0, Choice.TIE: 0.5, Choice.BOTH_BAD: FAILED_BOTH}


SETTLED_AT = 1 << 16
"""Votes that may wait to be rated."""

NO_HISTORY = np.empty((0, 4))

Vote = tuple[int, int, int, float]
"""Sequence number, model on side A, model on side B, score of side A."""


@dataclass(frozen=True, slots=True, eq=False)
class Ratings:
    """Every model's Glicko-2 state and legacy Elo, after the vote with sequence number `seq` (0: before the first)."""

    seq: int
    rating: Floats
    deviation: Floats
    volatility: Floats
    legacy: Floats

    def columns(self) -> tuple[Floats, Floats, Floats, Floats]:
        """The four columns."""
        return self.rating, self.deviation, self.volatility, self.legacy


@dataclass(frozen=True, slots=True, eq=False)
class Votes:
    """Counted votes in order: sequence numbers, models by side, score of side A (`FAILED_BOTH` for BOTH_BAD)."""

    seq: Ints
    a: Codes
    b: Codes
    score_a: Floats

    def __len__(self) -> int:
        return len(self.seq)

    def part(self, start: int, end: int) -> Votes:
        """The votes of these places."""
        return Votes(self.seq[start:end], self.a[start:end], self.b[start:end], self.score_a[start:end])

    def rows(self) -> Iterable[Vote]:
        """The votes one by one."""
        return zip(self.seq.tolist(), self.a.tolist(), self.b.tolist(), self.score_a.tolist(), strict=True)


class VoteHistory(Protocol):
    """Where older votes can be read again."""

    def ratings_before(self, seq: int) -> Ratings | None:
        """The latest saved ratings from before a vote, under the current rules; None to start from the beginning."""
        ...

    def votes_after(self, seq: int) -> Iterable[Votes]:
        """The votes after a sequence number that count now, in order, in pieces."""
        ...


class NoHistory:
    """A history that stores nothing: enough if all votes fit into the track's memory."""

    def ratings_before(self, seq: int) -> Ratings | None:  # noqa: ARG002
        """Nothing is kept."""
        return None

    def votes_after(self, seq: int) -> Iterable[Votes]:
        """Nothing can be read again."""
        raise ArenaError(f"the votes after number {seq} are needed to replay, and were not kept.")


class RatingTrack:
    """The current ratings, and enough history to remove a recent vote."""

    def __init__(self, rules: RatingRules, history: VoteHistory | None = None) -> None:
        self.rules = rules
        self.history: VoteHistory = history or NoHistory()
        self._now = _start(0, rules, 0)
        self._kept: deque[Ratings] = deque([_copy(self._now)], maxlen=KEPT_TIMES)
        self._recent: deque[Vote] = deque()
        self._waiting: list[Vote] = []
        self._ahead = 0
        self._glicko2 = rules.glicko2().rules()

    @property
    def now(self) -> Ratings:
        """The ratings after the last vote."""
        if self._waiting:
            self._settle()
        return self._now

    def expect(self, votes: int) -> None:
        """Announce that about this many votes follow: compiling the loops may then be worthwhile."""
        self._ahead = votes

    def grow(self, models: int) -> None:
        """Add models that have not played."""
        if models > len(self._now.rating):
            self._now = grown(self._now, self.rules, models)

    def restore(self, ratings: Ratings) -> None:
        """Continue from ratings saved elsewhere."""
        self._waiting.clear()
        self._now = _copy(ratings)
        self._keep_only_now()

    def vote(self, seq: int, a: int, b: int, choice: Choice) -> None:
        """Rate one vote. It is queued until the ratings are read: many votes then go through the loop together."""
        self._waiting.append((seq, a, b, SCORES[choice]))
        if len(self._waiting) >= SETTLED_AT:
            self._settle()

    def vote_all(self, votes: Votes) -> None:
        """Rate many votes, which follow those before."""
        self._settle()
        self._take(votes)

    def change(self, seqs: Collection[int]) -> None:
        """Votes with these numbers were removed or restored: re-rate what followed the first of them.

        Recently removed votes are dropped here; for all others the history says which votes count now.
        """
        self._settle()
        first = min(seqs)
        kept = next((ratings for ratings in reversed(self._kept) if ratings.seq < first), None)
        known = {vote[0] for vote in self._recent}
        if kept is None or not known.issuperset(seqs):
            self._replay(first)
            return
        gone = set(seqs)
        self._waiting = [vote for vote in self._recent if vote[0] > kept.seq and vote[0] not in gone]
        self._recent = deque(vote for vote in self._recent if vote[0] <= kept.seq)
        while self._kept[-1].seq >= first:
            self._kept.pop()
        self._now = grown(_copy(kept), self.rules, len(self._now.rating))
        self._settle()

    def rerate(self, rules: RatingRules) -> None:
        """Re-rate the whole log with other rules."""
        self._settle()
        self.rules = rules
        self._glicko2 = rules.glicko2().rules()
        if self._now.seq == 0 and not self._recent:
            self._now = _start(0, rules, len(self._now.rating))
            self._keep_only_now()
        else:
            self._replay(0)

    def _replay(self, first: int) -> None:
        models = len(self._now.rating)
        start = self.history.ratings_before(first) if first > 0 else None
        self._now = grown(_start(0, self.rules, models) if start is None else _copy(start), self.rules, models)
        for votes in self.history.votes_after(self._now.seq):
            self._rate(votes)
        self._keep_only_now()

    def _settle(self) -> None:
        """Rate the queued votes."""
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            self._take(_votes(waiting))

    def _take(self, votes: Votes) -> None:
        """Rate votes. Intermediate ratings are saved only where an undo might still need them."""
        done = max(len(votes) - KEPT_EVERY * KEPT_TIMES, 0)
        if done:
            self._rate(votes.part(0, done))
            self._keep_only_now()
        while done < len(votes):
            part = votes.part(done, done + KEPT_EVERY - len(self._recent) % KEPT_EVERY)
            self._recent.extend(part.rows())
            self._rate(part)
            if len(self._recent) % KEPT_EVERY == 0:
                self._keep()
            done += len(part)

    def _rate(self, votes: Votes) -> None:
        if not len(votes):
            return
        now, rules = self._now, self.rules
        played = votes.score_a >= 0.0
        a, b, score = votes.a[played], votes.b[played], votes.score_a[played]
        plain_seconds = max(len(votes), self._ahead) * PLAIN_SECONDS_PER_BATTLE
        rate = rate_one_by_one.run(plain_seconds)
        rate(a, b, score, EVERY_ONE, now.rating, now.deviation, now.volatility, self._glicko2, NO_HISTORY)
        legacy = rate_with_baseline.run(plain_seconds)  # where one loop is compiled, so is the other
        legacy(votes.a, votes.b, votes.score_a, now.legacy, rules.legacy_k, LOGITS_PER_POINT, rules.legacy_baseline)
        self._now = Ratings(int(votes.seq[-1]), *now.columns())

    def _keep(self) -> None:
        self._kept.append(_copy(self._now))
        while self._recent and self._recent[0][0] <= self._kept[0].seq:
            self._recent.popleft()

    def _keep_only_now(self) -> None:
        self._kept = deque([_copy(self._now)], maxlen=KEPT_TIMES)
        self._recent.clear()


def _votes(votes: list[Vote]) -> Votes:
    seq, a, b, score = zip(*votes, strict=True)
    return Votes(
        np.array(seq, dtype=np.int64), np.array(a, dtype=np.int32), np.array(b, dtype=np.int32), np.array(score)
    )


def _start(seq: int, rules: RatingRules, models: int) -> Ratings:
    starts = (rules.rating, rules.deviation, rules.volatility, rules.legacy_rating)
    return Ratings(seq, *(np.full(models, start) for start in starts))


def _copy(ratings: Ratings) -> Ratings:
    return Ratings(ratings.seq, *(column.copy() for column in ratings.columns()))


def grown(ratings: Ratings, rules: RatingRules, models: int) -> Ratings:
    """Ratings with room for this many models; new ones start as the rules say."""
    new = _start(ratings.seq, rules, models - len(ratings.rating))
    pairs = zip(ratings.columns(), new.columns(), strict=True)
    return Ratings(ratings.seq, *(np.concatenate(pair) for pair in pairs))

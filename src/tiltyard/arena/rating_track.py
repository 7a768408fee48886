"""Ratings after every vote, in the order of the log. Their order matters, so a vote is taken out by replaying.

Every few votes the ratings are kept, so that taking out a recent vote replays only what followed it; for an older one
the store hands over the nearest checkpoint and the votes since (`VoteHistory`).
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from tiltyard.arena.events import Choice
from tiltyard.errors import ArenaError
from tiltyard.ratings.elo_kernels import RATING_PER_DECADE, rate_with_baseline
from tiltyard.ratings.glicko2 import PLAIN_SECONDS_PER_BATTLE
from tiltyard.ratings.glicko2_kernels import rate_one_by_one

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from tiltyard.arena.policy import RatingRules

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Codes = NDArray[np.int32]

KEPT_EVERY = 64
KEPT_TIMES = 64
"""The ratings of the last 4,096 votes are kept in steps of 64: an undo replays at most 64 votes and what came since."""

FAILED_BOTH = -1.0
"""Stands for BOTH_BAD among the scores of votes (1, ½ and 0)."""

SCORES = {Choice.A: 1.0, Choice.B: 0.0, Choice.TIE: 0.5, Choice.BOTH_BAD: FAILED_BOTH}


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


class VoteHistory(Protocol):
    """Where older votes can be read again."""

    def ratings_before(self, seq: int) -> Ratings | None:
        """The latest kept ratings from before a vote, made by the present rating rules; None to begin anew."""
        ...

    def votes_after(self, seq: int) -> Iterable[Votes]:
        """The votes after a sequence number that count now, in order, in pieces."""
        ...


class NoHistory:
    """A history that keeps nothing: enough for an arena whose every vote fits into the track's own memory."""

    def ratings_before(self, seq: int) -> Ratings | None:  # noqa: ARG002
        """Nothing is kept."""
        return None

    def votes_after(self, seq: int) -> Iterable[Votes]:
        """Nothing can be read again."""
        raise ArenaError(f"the votes after number {seq} are needed to replay, and nobody kept them.")


class RatingTrack:
    """The ratings now, and enough of the way here to take a recent vote out again."""

    def __init__(self, rules: RatingRules, history: VoteHistory | None = None) -> None:
        self.rules = rules
        self.history: VoteHistory = history or NoHistory()
        self.now = _start(0, rules, 0)
        self._kept: deque[Ratings] = deque([_copy(self.now)], maxlen=KEPT_TIMES)
        self._recent: deque[tuple[int, int, int, float]] = deque()

    def grow(self, models: int) -> None:
        """Let models in that have not played."""
        self.now = _grown(self.now, self.rules, models)

    def restore(self, ratings: Ratings) -> None:
        """Go on from ratings that were kept elsewhere."""
        self.now = _copy(ratings)
        self._kept = deque([_copy(ratings)], maxlen=KEPT_TIMES)
        self._recent.clear()

    def vote(self, seq: int, a: int, b: int, choice: Choice) -> None:
        """Rate one vote."""
        score = SCORES[choice]
        self._recent.append((seq, a, b, score))
        self._rate(_single(seq, a, b, score))
        if len(self._recent) % KEPT_EVERY == 0:
            self._keep()

    def rate_many(self, votes: Votes) -> None:
        """Rate votes in one go; they can be taken out again only with a history."""
        self._rate(votes)
        self._kept = deque([_copy(self.now)], maxlen=KEPT_TIMES)
        self._recent.clear()

    def change(self, seqs: Collection[int]) -> None:
        """Votes with these numbers were taken out, or put back: rate again what followed the first of them.

        Votes taken out lately are forgotten here; for all others the history says which votes count now.
        """
        first = min(seqs)
        kept = next((ratings for ratings in reversed(self._kept) if ratings.seq < first), None)
        known = {vote[0] for vote in self._recent}
        if kept is None or not known.issuperset(seqs):
            self._replay(first)
            return
        gone = set(seqs)
        after = [vote for vote in self._recent if vote[0] > kept.seq and vote[0] not in gone]
        before = [vote for vote in self._recent if vote[0] <= kept.seq]
        while self._kept[-1].seq >= first:
            self._kept.pop()
        models = len(self.now.rating)
        self.now = _grown(_copy(kept), self.rules, models)
        self._recent = deque(before)
        for place, (seq, a, b, score) in enumerate(after, start=1):
            self._recent.append((seq, a, b, score))
            self._rate(_single(seq, a, b, score))
            if place % KEPT_EVERY == 0:
                self._keep()

    def rerate(self, rules: RatingRules) -> None:
        """Rate the whole log anew by other rules."""
        self.rules = rules
        if self.now.seq == 0 and not self._recent:
            self.now = _start(0, rules, len(self.now.rating))
            self._kept = deque([_copy(self.now)], maxlen=KEPT_TIMES)
        else:
            self._replay(0)

    def _replay(self, first: int) -> None:
        models = len(self.now.rating)
        start = self.history.ratings_before(first) if first > 0 else None
        self.now = _grown(_start(0, self.rules, models) if start is None else _copy(start), self.rules, models)
        for votes in self.history.votes_after(self.now.seq):
            self._rate(votes)
        self._kept = deque([_copy(self.now)], maxlen=KEPT_TIMES)
        self._recent.clear()

    def _rate(self, votes: Votes) -> None:
        if not len(votes):
            return
        now, rules = self.now, self.rules
        played = votes.score_a >= 0.0
        a, b, score = votes.a[played], votes.b[played], votes.score_a[played]
        rate = rate_one_by_one.run(len(a) * PLAIN_SECONDS_PER_BATTLE)
        rate(a, b, score, now.rating, now.deviation, now.volatility, rules.glicko2().rules(), np.empty((0, 4)))
        steepness = math.log(10.0) / RATING_PER_DECADE
        legacy = rate_with_baseline.run(len(votes) * 1e-6)
        legacy(votes.a, votes.b, votes.score_a, now.legacy, rules.legacy_k, steepness, rules.legacy_baseline)
        self.now = Ratings(int(votes.seq[-1]), *now.columns())

    def _keep(self) -> None:
        self._kept.append(_copy(self.now))
        while self._recent and self._recent[0][0] <= self._kept[0].seq:
            self._recent.popleft()


def _single(seq: int, a: int, b: int, score: float) -> Votes:
    models = np.array([a, b], dtype=np.int32)
    return Votes(np.array([seq]), models[:1], models[1:], np.array([score]))


def _start(seq: int, rules: RatingRules, models: int) -> Ratings:
    starts = (rules.rating, rules.deviation, rules.volatility, rules.legacy_rating)
    return Ratings(seq, *(np.full(models, start) for start in starts))


def _copy(ratings: Ratings) -> Ratings:
    return Ratings(ratings.seq, *(column.copy() for column in ratings.columns()))


def _grown(ratings: Ratings, rules: RatingRules, models: int) -> Ratings:
    new = _start(ratings.seq, rules, models - len(ratings.rating))
    pairs = zip(ratings.columns(), new.columns(), strict=True)
    return Ratings(ratings.seq, *(np.concatenate(pair) for pair in pairs))

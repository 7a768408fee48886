"""What a reader of the log keeps besides the state: every vote with its current status, and recent events."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter, deque
from operator import attrgetter
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from tiltyard.arena import events as e
from tiltyard.arena.state import VoteStanding
from tiltyard.arena.store.reading import cast_votes, contender_votes
from tiltyard.arena.store.vote_book import votes_as_of
from tiltyard.arena.weekly import Note, ServedPairs, closed_only, note_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from tiltyard.arena.catalog import Catalog
    from tiltyard.arena.state import ArenaState, CastVote
    from tiltyard.arena.store import Store
    from tiltyard.arena.store.database import Connection

LANES_READ = 20_000
"""Exposure is looked at over a window of the latest votes, some of which may be excluded."""

CHANGE_VOTES = (e.Excluded, e.Restored)


class FollowedVotes:
    """All votes in log order, whether they count or not; read once, then updated by the events.

    Of the votes read at the start only the latest `LANES_READ`, or twice the window, know their lane.
    """

    def __init__(self, store: Store, seq: int, window: int) -> None:
        self.votes: list[CastVote] = []
        self._of_voter: dict[str, array[int]] = {}
        for vote in cast_votes(store, seq):
            self.take(vote)
        self._read_lanes(store, seq, window)

    def follow(self, connection: Connection, events: Iterable[e.Event], seq: int) -> None:
        """Update the votes that these events changed: their status after event `seq`."""
        changed = set(_changed(events))
        for vote in votes_as_of(connection, changed, seq) if changed else ():
            self.take(vote)

    def of_voter(self, voter: str) -> list[CastVote]:
        """One voter's votes, in the order of the log."""
        return [self.votes[place] for place in self._of_voter.get(voter, ())]

    def of_model(self, model: int, most: int) -> list[CastVote]:
        """The latest votes on one model, newest first, without undone ones."""
        found: list[CastVote] = []
        for vote in reversed(self.votes):
            if model in (vote.a, vote.b) and vote.standing is not VoteStanding.UNDONE:
                found.append(vote)
                if len(found) == most:
                    break
        return found

    def take(self, vote: CastVote) -> None:
        """Add a new vote, or change the status of a known one."""
        votes = self.votes
        if votes and vote.seq <= votes[-1].seq:
            place = bisect_left(votes, vote.seq, key=_seq)
            assert votes[place].seq == vote.seq, "votes arrive in the order of the log"
            votes[place] = msgspec.structs.replace(vote, lane=votes[place].lane)
            return
        places = self._of_voter.get(vote.voter)
        if places is None:
            places = self._of_voter[vote.voter] = array("I")
        places.append(len(votes))
        votes.append(vote)

    def _read_lanes(self, store: Store, seq: int, window: int) -> None:
        start = max(len(self.votes) - max(2 * window, LANES_READ), 0)
        if start == len(self.votes):
            return
        contender = contender_votes(store, self.votes[start].seq - 1, seq)
        for place in range(start, len(self.votes)):
            if self.votes[place].seq in contender:
                self.votes[place] = msgspec.structs.replace(self.votes[place], lane="contender")


_seq = attrgetter("seq")


def _changed(events: Iterable[e.Event]) -> Iterator[str]:
    for event in events:
        body = event.body
        if isinstance(body, e.Undone):
            yield body.matchup_id
        elif isinstance(body, CHANGE_VOTES):
            yield from body.matchup_ids


class _RecentEvent(msgspec.Struct, frozen=True, gc=False):
    at: int
    kind: str
    matchup_id: str = ""
    a: str = ""
    b: str = ""
    lane: str = ""
    note: Note | None = None


class RecentEvents:
    """The events of the last days, as a report needs them. Voters are not named, because pages are public."""

    def __init__(self, keep: int) -> None:
        self._keep = keep
        self._events: deque[_RecentEvent] = deque()

    def follow(self, events: Iterable[e.Event]) -> None:
        """Add events, and drop those that are too old to matter."""
        latest = 0
        for event in events:
            self._events.append(_recent(event.at, event.body))
            latest = max(latest, event.at)
        while self._events and self._events[0].at < latest - self._keep:
            self._events.popleft()

    def served(self, since: int, catalog: Catalog, voted: Iterable[str]) -> ServedPairs:
        """Counts of matchups with a counted vote since a time, by model and side, and by lane.

        `voted` names all matchups with a counted vote, which may be many more than there were events.
        """
        served = [event for event in self._events if event.kind == "matchup_served" and event.at >= since]
        names = {event.matchup_id for event in served}
        counted = {name for name in voted if name in names}
        inside = [event for event in served if event.matchup_id in counted]
        return ServedPairs(
            np.array([catalog.model(event.a) for event in inside], dtype=np.int64),
            np.array([catalog.model(event.b) for event in inside], dtype=np.int64),
            dict(Counter(event.lane for event in inside)),
        )

    def kinds(self, since: int, state: ArenaState) -> Mapping[str, int]:
        """How many events of each kind there were since a time; a matchup counts as served once it is closed."""
        inside = [event for event in self._events if event.at >= since]
        served = (event.matchup_id for event in inside if event.kind == "matchup_served")
        return closed_only(Counter(event.kind for event in inside), served, state)

    def notes(self, since: int, *kinds: str) -> tuple[Note, ...]:
        """Flags and exclusions since a time."""
        return tuple(
            event.note for event in self._events if event.kind in kinds and event.at >= since and event.note is not None
        )


def _recent(at: int, body: e.AnyBody) -> _RecentEvent:
    kind = str(body.__struct_config__.tag)
    match body:
        case e.MatchupServed():
            return _RecentEvent(at, kind, body.matchup_id, body.model_a, body.model_b, body.lane)
        case e.Flagged() | e.Excluded() | e.Restored():
            return _RecentEvent(at, kind, note=note_of(body))
    return _RecentEvent(at, kind)

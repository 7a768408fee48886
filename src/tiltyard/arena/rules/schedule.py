"""What was served: exposure over the rolling window, open matchups, and the last meetings of each pair."""

from __future__ import annotations

from collections import Counter, deque

import msgspec
import numpy as np
from numpy.typing import NDArray

from tiltyard.arena.rules.events import Lane
from tiltyard.arena.rules.tallies import Grid, Pair, count_by_prompt, pair_of

CONTENDER: Lane = "contender"


class Reserved(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A matchup that is open: numbers of its models by side and of its prompt, for whom, by which lane.

    `asked`, `answer_a` and `answer_b` are the events with the texts that are shown. The fields are in the order of the
    table of matchups.
    """

    matchup_id: str
    seq: int
    voter: str
    block: str
    a: int
    b: int
    prompt: int
    asked: int
    answer_a: int
    answer_b: int
    lane: Lane
    served_at: int
    expires_at: int

    @property
    def pair(self) -> Pair:
        return pair_of(self.a, self.b)


class Schedule:
    """Counts of served matchups. A served matchup is in flight, and counts as if voted on, until it is resolved."""

    def __init__(self, window: int, last_meetings: int) -> None:
        self.shown: list[int] = []
        """Exposures of each model since the beginning."""
        self.shown_as_a: list[int] = []
        self.lanes: Counter[str] = Counter()
        self.window: deque[tuple[int, int, str]] = deque(maxlen=window)
        """The latest served matchups: both models and the lane."""
        self.in_flight: dict[str, Reserved] = {}
        self.in_flight_on = Grid()
        """In flight by (model, prompt)."""
        self.in_flight_pairs = Grid()
        """In flight by (model, model), both ways."""
        self.in_flight_by_prompt: dict[Pair, dict[int, int]] = {}
        """In flight of each pair by prompt; prompts and pairs without any are left out."""
        self.revision = 0
        """A number that grows whenever a count of matchups in flight changes."""
        self.revised: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        """By model: the revision at which its matchups in flight last changed."""
        self.meetings: dict[Pair, deque[int]] = {}
        """The prompts of each pair's latest served meetings."""
        self.contender_revision = 0
        """A number that grows whenever `by_contender_lane` changes."""
        self._in_window: list[int] = []
        self._by_contender_lane: list[int] = []
        self._last_meetings = last_meetings
        self._open_of: dict[str, list[str]] = {}

    @property
    def in_window(self) -> NDArray[np.int64]:
        """Exposures of each model in the window."""
        return np.array(self._in_window, dtype=np.int64)

    @property
    def by_contender_lane(self) -> NDArray[np.int64]:
        return np.array(self._by_contender_lane, dtype=np.int64)

    def open_of(self, voter: str) -> list[Reserved]:
        return [self.in_flight[name] for name in self._open_of.get(voter, ())]

    def grow(self, models: int, prompts: int) -> None:
        missing = models - len(self.shown)
        if missing:
            for counts in (self.shown, self.shown_as_a, self._in_window, self._by_contender_lane):
                counts += [0] * missing
            self.revised = np.concatenate([self.revised, np.zeros(missing, dtype=np.int64)])
        self.in_flight_on.grow(models, prompts)
        self.in_flight_pairs.grow(models, models)

    def resize(self, window: int, last_meetings: int) -> None:
        """Apply new lengths; what falls out of the window no longer counts as exposure."""
        kept = list(self.window)[-window:]
        self.window = deque(kept, maxlen=window)
        self._in_window, self._by_contender_lane = [0] * len(self.shown), [0] * len(self.shown)
        self.contender_revision += 1
        for served in kept:
            self._expose(*served, 1)
        self._last_meetings = last_meetings
        self.meetings = {pair: deque(prompts, maxlen=last_meetings) for pair, prompts in self.meetings.items()}

    def serve(self, served: Reserved) -> None:
        a, b, window = served.a, served.b, self.window
        if len(window) == window.maxlen:
            self._expose(*window[0], -1)
        window.append((a, b, served.lane))
        self._expose(a, b, served.lane, 1)
        self.shown[a] += 1
        self.shown[b] += 1
        self.shown_as_a[a] += 1
        self.lanes[served.lane] += 1
        self.meetings.setdefault(served.pair, deque(maxlen=self._last_meetings)).append(served.prompt)
        self.reserve(served)

    def reserve(self, served: Reserved) -> None:
        self.in_flight[served.matchup_id] = served
        self._open_of.setdefault(served.voter, []).append(served.matchup_id)
        self._count_in_flight(served, 1)

    def resolve(self, matchup_id: str) -> Reserved | None:
        """Release and return a reservation that was voted on, skipped or expired; None if it was not in flight."""
        served = self.in_flight.pop(matchup_id, None)
        if served is not None:
            own = self._open_of[served.voter]
            own.remove(matchup_id)
            if not own:
                del self._open_of[served.voter]
            self._count_in_flight(served, -1)
        return served

    def _expose(self, a: int, b: int, lane: str, sign: int) -> None:
        self._in_window[a] += sign
        self._in_window[b] += sign
        if lane == CONTENDER:
            self._by_contender_lane[a] += sign
            self._by_contender_lane[b] += sign
            self.contender_revision += 1

    def _count_in_flight(self, served: Reserved, sign: int) -> None:
        a, b, prompt = served.a, served.b, served.prompt
        self.revision += 1
        self.revised[a] = self.revised[b] = self.revision
        self.in_flight_on.view[a, prompt] += sign
        self.in_flight_on.view[b, prompt] += sign
        self.in_flight_pairs.view[a, b] += sign
        self.in_flight_pairs.view[b, a] += sign
        count_by_prompt(self.in_flight_by_prompt, served.pair, prompt, sign)

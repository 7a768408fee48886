"""What was served: exposure over the rolling window, matchups in flight, and the last meetings of each pair.

A process that serves a matchup counts it at once, as *early*, before its event has a sequence number. When the event
arrives in the log the early count becomes the real one; if other events came first, early ones are removed and counted
again after them. So the counts are always those of the log, in log order, plus the early ones.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from tiltyard.arena.events import Lane
from tiltyard.arena.tallies import Grid, Pair, pair_of

CONTENDER: Lane = "contender"

RECOUNTED_AT = 256
"""How many queued starts and landings, beyond twice those in flight, make a recount cheaper."""


class Reserved(msgspec.Struct, frozen=True, gc=False):
    """A matchup that was served: numbers of its models by side and of its prompt, for whom, by which lane."""

    matchup_id: str
    voter: str
    a: int
    b: int
    prompt: int
    lane: str
    expires_at: int
    block: str = ""


class Early(NamedTuple):
    """A matchup counted before its event, and what it pushed out of the window and of the pair's meetings."""

    served: Reserved
    from_window: tuple[int, int, str] | None
    from_meetings: int | None


class ServedRun(NamedTuple):
    """Served matchups one after the other, as columns: models by side, prompts and lanes."""

    a: list[int]
    b: list[int]
    prompt: list[int]
    lane: list[str]


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
        self.meetings: dict[Pair, deque[int]] = {}
        """The prompts of each pair's latest served meetings."""
        self.in_window: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        """Exposures of each model in the window."""
        self.by_contender_lane: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        """Those that the contender lane chose."""
        self.contender_revision = 0
        """A number that grows whenever these change."""
        self._revision = 0
        self._revised: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self._in_flight_on, self._in_flight_pairs = Grid(), Grid()
        self._in_flight_by_prompt: Counter[tuple[int, int, int]] = Counter()
        self._flights: list[tuple[Reserved, int]] = []
        self._recount = False
        self._last_meetings = last_meetings
        self._early: dict[str, Early] = {}

    @property
    def in_flight_on(self) -> Grid:
        """In flight by (model, prompt)."""
        self._settle()
        return self._in_flight_on

    @property
    def in_flight_pairs(self) -> Grid:
        """In flight by (model, model), both ways."""
        self._settle()
        return self._in_flight_pairs

    @property
    def in_flight_by_prompt(self) -> Counter[tuple[int, int, int]]:
        """In flight by pair and prompt."""
        self._settle()
        return self._in_flight_by_prompt

    @property
    def revision(self) -> int:
        """A number that grows whenever a count of matchups in flight changes."""
        self._settle()
        return self._revision

    @property
    def revised(self) -> NDArray[np.int64]:
        """By model: the revision at which its matchups in flight last changed."""
        self._settle()
        return self._revised

    @property
    def early(self) -> int:
        """How many counted matchups have no event in the log yet."""
        return len(self._early)

    def grow(self, models: int, prompts: int) -> None:
        """Make room for more models and prompts."""
        missing = models - len(self.shown)
        if missing:
            for counts in (self.shown, self.shown_as_a):
                counts += [0] * missing
            self.in_window = np.concatenate([self.in_window, np.zeros(missing, dtype=np.int64)])
            self.by_contender_lane = np.concatenate([self.by_contender_lane, np.zeros(missing, dtype=np.int64)])
            self._revised = np.concatenate([self._revised, np.zeros(missing, dtype=np.int64)])
        self._in_flight_on.grow(models, prompts)
        self._in_flight_pairs.grow(models, models)

    def resize(self, window: int, last_meetings: int) -> None:
        """Apply new lengths; what falls out of the window no longer counts as exposure."""
        early = self.set_aside()
        kept = list(self.window)[-window:]
        self.window = deque(kept, maxlen=window)
        self.in_window = self._exposures(kept)
        self.by_contender_lane = self._exposures([served for served in kept if served[2] == CONTENDER])
        self.contender_revision += 1
        self._last_meetings = last_meetings
        self.meetings = {pair: deque(prompts, maxlen=last_meetings) for pair, prompts in self.meetings.items()}
        for served in early:
            self.reserve(served)

    def reserve(self, served: Reserved) -> None:
        """Count a matchup whose event is still to come. A known one is not counted twice."""
        if served.matchup_id not in self.in_flight:
            self._early[served.matchup_id] = Early(served, *self._count(served))

    def release(self, matchup_id: str) -> None:
        """Remove an early matchup whose event will never come. Others stay."""
        if matchup_id in self._early:
            for served in self.set_aside():
                if served.matchup_id != matchup_id:
                    self.reserve(served)

    def serve(self, served: Reserved) -> None:
        """Count a matchup at its position in the log and keep it reserved. A known one is not counted twice."""
        if self._early:
            if next(iter(self._early)) == served.matchup_id:
                del self._early[served.matchup_id]
                return
            early = self.set_aside()
            self.serve(served)
            for later in early:
                self.reserve(later)
        elif served.matchup_id not in self.in_flight:
            self._count(served)

    def take_run(self, served: ServedRun, closed: Iterable[str], opened: Iterable[Reserved]) -> None:
        """Count many matchups at their position in the log, none of them early; `opened` are those still in flight.

        `closed` are the matchups from before that were resolved meanwhile.
        """
        window, new = self.window, list(zip(served.a, served.b, served.lane, strict=True))
        room = window.maxlen if window.maxlen is not None else len(window) + len(new)
        out = max(len(window) + len(new) - room, 0)
        dropped = [*islice(window, out), *new[: max(out - len(window), 0)]]
        window.extend(new)
        self.in_window += self._exposures(new) - self._exposures(dropped)
        by_contender = [[one for one in part if one[2] == CONTENDER] for part in (new, dropped)]
        self.by_contender_lane += self._exposures(by_contender[0]) - self._exposures(by_contender[1])
        self.contender_revision += len(by_contender[0]) + len(by_contender[1])
        for counts, models in ((self.shown, served.a + served.b), (self.shown_as_a, served.a)):
            more = np.bincount(np.array(models, dtype=np.int64), minlength=len(counts))
            counts[:] = (np.array(counts, dtype=np.int64) + more).tolist()
        self.lanes.update(served.lane)
        self._note_meetings(served)
        for name in closed:
            self.in_flight.pop(name, None)
        self.in_flight.update((one.matchup_id, one) for one in opened)
        self._flights.clear()
        self._recount = True

    def _note_meetings(self, served: ServedRun) -> None:
        meetings, length = self.meetings, self._last_meetings
        for a, b, prompt in zip(served.a, served.b, served.prompt, strict=True):
            pair = (a, b) if a < b else (b, a)
            prompts = meetings.get(pair)
            if prompts is None:
                prompts = meetings[pair] = deque(maxlen=length)
            prompts.append(prompt)

    def resolve(self, matchup_id: str) -> Reserved | None:
        """Release and return a reservation that was voted on, skipped or expired; None if it was not in flight."""
        served = self.in_flight.pop(matchup_id, None)
        if served is not None:
            self._note_flight(served, -1)
        return served

    def restore_in_flight(self, in_flight: Iterable[Reserved]) -> None:
        """Restore what is in flight, and nothing else, from a saved state."""
        self.in_flight = {served.matchup_id: served for served in in_flight}
        self._recount = True

    def _count(self, served: Reserved) -> tuple[tuple[int, int, str] | None, int | None]:
        """Count a served matchup; returns what it pushed out of the window and of the meetings."""
        a, b = served.a, served.b
        window = self.window
        out = None
        if len(window) == window.maxlen:
            out = window[0]
            self._expose(out, -1)
        window.append((a, b, served.lane))
        self._expose(window[-1], 1)
        shown = self.shown
        shown[a] += 1
        shown[b] += 1
        self.shown_as_a[a] += 1
        self.lanes[served.lane] += 1
        pair = (a, b) if a < b else (b, a)
        meetings = self.meetings.get(pair)
        if meetings is None:
            meetings = self.meetings[pair] = deque(maxlen=self._last_meetings)
        forgotten = meetings[0] if len(meetings) == self._last_meetings else None
        meetings.append(served.prompt)
        self.in_flight[served.matchup_id] = served
        self._note_flight(served, 1)
        return out, forgotten

    def set_aside(self) -> list[Reserved]:
        """Uncount all early matchups, the last first; they are returned in their order, to be reserved again."""
        early = list(self._early.values())
        self._early.clear()
        for served, out, forgotten in reversed(early):
            self.resolve(served.matchup_id)
            self._expose(self.window.pop(), -1)
            for i in (served.a, served.b):
                self.shown[i] -= 1
            if out is not None:
                self.window.appendleft(out)
                self._expose(out, 1)
            self.shown_as_a[served.a] -= 1
            self.lanes[served.lane] -= 1
            pair = pair_of(served.a, served.b)
            meetings = self.meetings[pair]
            meetings.pop()
            if forgotten is not None:
                meetings.appendleft(forgotten)
            if not meetings:
                del self.meetings[pair]
        self.lanes = +self.lanes
        return [matchup.served for matchup in early]

    def _expose(self, served: tuple[int, int, str], sign: int) -> None:
        a, b, lane = served
        self.in_window[a] += sign
        self.in_window[b] += sign
        if lane == CONTENDER:
            self.by_contender_lane[a] += sign
            self.by_contender_lane[b] += sign
            self.contender_revision += 1

    def _exposures(self, window: Iterable[tuple[int, int, str]]) -> NDArray[np.int64]:
        shown = [model for a, b, _ in window for model in (a, b)]
        return np.bincount(np.array(shown, dtype=np.int64), minlength=len(self.shown))

    def _note_flight(self, served: Reserved, sign: int) -> None:
        """Queue a start or a landing. They are counted when read; in a replay most have landed by then."""
        if self._recount:
            return
        self._flights.append((served, sign))
        if len(self._flights) > 2 * len(self.in_flight) + RECOUNTED_AT:
            self._flights.clear()
            self._recount = True

    def _settle(self) -> None:
        if not self._flights and not self._recount:
            return
        flights, self._flights = self._flights, []
        self._revision += 1
        if self._recount:
            self._recount = False
            self._in_flight_on.view[:] = 0
            self._in_flight_pairs.view[:] = 0
            self._in_flight_by_prompt.clear()
            self._revised[:] = self._revision
            flights = [(served, 1) for served in self.in_flight.values()]
        on, pairs, by_prompt = self._in_flight_on.view, self._in_flight_pairs.view, self._in_flight_by_prompt
        for served, sign in flights:
            a, b, prompt = served.a, served.b, served.prompt
            self._revised[a] = self._revised[b] = self._revision
            on[a, prompt] += sign
            on[b, prompt] += sign
            pairs[a, b] += sign
            pairs[b, a] += sign
            triple = (*pair_of(a, b), prompt)
            by_prompt[triple] += sign
            if not by_prompt[triple]:
                del by_prompt[triple]

"""Who was shown to whom: exposure over the rolling window, matchups in flight, and the last meetings of each pair."""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from tiltyard.arena.grid import Grid
from tiltyard.arena.tallies import Pair, pair_of

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Reserved(msgspec.Struct, frozen=True):
    """A matchup that was served: numbers of its models by side and of its prompt, for whom, by which lane."""

    matchup_id: str
    voter: str
    a: int
    b: int
    prompt: int
    lane: str
    expires_at: int


class Schedule:
    """Counts of served matchups. A served matchup is in flight, and counts as if voted on, until it is resolved."""

    def __init__(self, window: int, last_meetings: int) -> None:
        self.shown: list[int] = []
        """Exposures of each model since the beginning."""
        self.shown_as_a: list[int] = []
        self.lanes: Counter[str] = Counter()
        self.window: deque[tuple[int, int, str]] = deque(maxlen=window)
        """The latest served matchups: both models and the lane."""
        self.in_window: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        """Exposures of each model in the window."""
        self.in_flight: dict[str, Reserved] = {}
        self.flying_on = Grid()
        """In flight by (model, prompt)."""
        self.flying_pairs = Grid()
        """In flight by (model, model), both ways."""
        self.flying: Counter[tuple[int, int, int]] = Counter()
        """In flight by pair and prompt."""
        self.meetings: dict[Pair, deque[int]] = {}
        """The prompts of each pair's latest served meetings."""
        self._last_meetings = last_meetings

    def grow(self, models: int, prompts: int) -> None:
        """Make room for more models and prompts."""
        missing = models - len(self.shown)
        self.shown += [0] * missing
        self.shown_as_a += [0] * missing
        self.in_window = np.concatenate([self.in_window, np.zeros(missing, dtype=np.int64)])
        self.flying_on.grow(models, prompts)
        self.flying_pairs.grow(models, models)

    def resize(self, window: int, last_meetings: int) -> None:
        """Take over other lengths; what falls out of the window is exposure no more."""
        kept = list(self.window)[-window:]
        self.window = deque(kept, maxlen=window)
        self.in_window = np.zeros_like(self.in_window)
        for a, b, _ in kept:
            self.in_window[a] += 1
            self.in_window[b] += 1
        self._last_meetings = last_meetings
        self.meetings = {pair: deque(prompts, maxlen=last_meetings) for pair, prompts in self.meetings.items()}

    def serve(self, served: Reserved) -> None:
        """Count a served matchup and keep it reserved. One that is known already counts once."""
        if served.matchup_id in self.in_flight:
            return
        a, b = served.a, served.b
        if len(self.window) == self.window.maxlen:
            old_a, old_b, _ = self.window[0]
            self.in_window[old_a] -= 1
            self.in_window[old_b] -= 1
        self.window.append((a, b, served.lane))
        for i in (a, b):
            self.shown[i] += 1
            self.in_window[i] += 1
        self.shown_as_a[a] += 1
        self.lanes[served.lane] += 1
        meetings = self.meetings.setdefault(pair_of(a, b), deque(maxlen=self._last_meetings))
        meetings.append(served.prompt)
        self.in_flight[served.matchup_id] = served
        self._fly(served, 1)

    def resolve(self, matchup_id: str) -> Reserved | None:
        """The reservation, let go of: the matchup was voted on, skipped or expired. None where it was not in flight."""
        served = self.in_flight.pop(matchup_id, None)
        if served is not None:
            self._fly(served, -1)
        return served

    def _fly(self, served: Reserved, sign: int) -> None:
        a, b, prompt = served.a, served.b, served.prompt
        self.flying_on.view[a, prompt] += sign
        self.flying_on.view[b, prompt] += sign
        self.flying_pairs.view[a, b] += sign
        self.flying_pairs.view[b, a] += sign
        triple = (*pair_of(a, b), prompt)
        self.flying[triple] += sign
        if not self.flying[triple]:
            del self.flying[triple]

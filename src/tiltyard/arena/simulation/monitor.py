"""What is noted while a simulation runs, one served matchup at a time."""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING

from tiltyard.arena.matchmaking.exposure import conservative_order, lane_opens
from tiltyard.arena.matchmaking.tables import WorkingTables
from tiltyard.arena.matchmaking.voter_view import diversity_most
from tiltyard.arena.tallies import pair_of

if TYPE_CHECKING:
    from tiltyard.arena.policy import Policy
    from tiltyard.arena.schedule import Reserved
    from tiltyard.arena.state import ArenaState

TRAFFIC_SPAN = 200
"""A model's share of the traffic is looked at over this many matchups in a row."""


class Monitor:
    """Counts over served matchups. It keeps its own records, so that a rule is not checked by the code that follows it.

    `lanes_when_open` counts only matchups served while the contender lane could serve: before that its share goes to
    coverage. `crossed` are the models that were in the contender band for a part of the last window only.
    """

    def __init__(self, policy: Policy, prompts: int) -> None:
        self._most = diversity_most(policy.diversity_last, policy.diversity_most, prompts)
        self._last = policy.diversity_last
        self._tables = WorkingTables()
        self._meetings: dict[tuple[int, int], deque[int]] = {}
        self._bands: deque[tuple[int, ...]] = deque(maxlen=policy.window_matchups)
        self._latest: deque[tuple[int, int]] = deque(maxlen=TRAFFIC_SPAN)
        self._latest_counts: Counter[int] = Counter()
        self.served = 0
        self.lanes: Counter[str] = Counter()
        self.lanes_when_open: Counter[str] = Counter()
        self.first_named_as_a = 0
        self.duplicates = 0
        self.diversity_broken = 0
        self.largest_share: dict[int, float] = {}

    def note(self, state: ArenaState, served: Reserved) -> None:
        """Take in a matchup that was just served from this state."""
        pair = pair_of(served.a, served.b)
        self.served += 1
        self.lanes[served.lane] += 1
        self.first_named_as_a += served.a < served.b
        self.duplicates += state.schedule.flying[(*pair, served.prompt)] > 1
        meetings = self._meetings.setdefault(pair, deque(maxlen=self._last))
        meetings.append(served.prompt)
        self.diversity_broken += meetings.count(served.prompt) > self._most
        order = conservative_order(state, self._tables.servable(state).numbers)
        self._bands.append(tuple(order[: state.policy.contender_band].tolist()))
        if lane_opens(state, order):
            self.lanes_when_open[served.lane] += 1
        self._note_traffic(served)

    def _note_traffic(self, served: Reserved) -> None:
        if len(self._latest) == TRAFFIC_SPAN:
            self._latest_counts.subtract(self._latest[0])
        self._latest.append((served.a, served.b))
        self._latest_counts.update((served.a, served.b))
        if len(self._latest) == TRAFFIC_SPAN:
            for model in (served.a, served.b):
                share = self._latest_counts[model] / TRAFFIC_SPAN
                self.largest_share[model] = max(share, self.largest_share.get(model, 0.0))

    @property
    def crossed(self) -> set[int]:
        """Models that were in the band at some time of the last window, and out of it at another."""
        bands = {frozenset(band) for band in self._bands}
        if not bands:
            return set()
        return set(frozenset.union(*bands) - frozenset.intersection(*bands))

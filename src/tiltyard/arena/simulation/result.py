"""What a simulation found."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from itertools import pairwise

import msgspec
import numpy as np
from numpy.typing import NDArray

from tiltyard.arena.matchmaking.exposure import conservative_order, lane_opens
from tiltyard.arena.matchmaking.matchup import ContenderMeeting
from tiltyard.arena.matchmaking.tables import WorkingTables
from tiltyard.arena.matchmaking.voter_view import diversity_most
from tiltyard.arena.rules.events import LANES
from tiltyard.arena.rules.policy import Policy
from tiltyard.arena.rules.schedule import Reserved
from tiltyard.arena.rules.state import ArenaState
from tiltyard.arena.rules.tallies import pair_of
from tiltyard.arena.simulation.attack_cost import AttackReport
from tiltyard.arena.simulation.population import World
from tiltyard.arena.simulation.published import BadgeSummary
from tiltyard.arena.study.board import badge_floors, coverages
from tiltyard.arena.study.offline import tau

TRAFFIC_SPAN = 200
"""A model's share of the traffic is measured over this many consecutive matchups."""

NORMAL_95 = 1.959963984540054


class CurvePoint(msgspec.Struct, frozen=True):
    """After this many votes: the accuracy of the official order, models no longer provisional, mean prompt coverage."""

    votes: int
    kendall_tau: float | None
    established: int = 0
    prompt_coverage: float = 0.0


class LateModel(msgspec.Struct, frozen=True):
    """How the late model did; votes are those cast in the arena since it entered."""

    entered_after_votes: int
    largest_traffic_share: float
    """The largest share of any 200 matchups in a row that it took part in."""
    votes_until_established: int | None


class ContenderShares(msgspec.Struct, frozen=True):
    """What the contender lane served: shares of its matchups, and counts by rank.

    `above` is the share of neighbours above among those where the anchor has one on either side and neither pair is
    below its floor. Pairs below it come first, and are the share `below_floor`.
    """

    served: int
    neighbour: float
    close: float
    challenger: float
    below_floor: float
    above: float | None
    anchors: dict[int, int]
    """Matchups by the anchor's rank: all ranks of the band are drawn alike."""
    challengers: dict[int, int]
    """Challengers by rank: all alike."""


class NeighbourPair(msgspec.Struct, frozen=True):
    """Two ranks next to each other: how often the contender lane had those who stood there meet, over the whole run.

    `decisive` and `prompts` are the decisive votes between the two that stand there at the end, and their prompts.
    """

    ranks: tuple[int, int]
    met: int
    decisive: int
    prompts: int


class SeenAgain(msgspec.Struct, frozen=True):
    """What visitors notice of pairs that wait: shares of the matchups served, where visitors have places."""

    pair_by_visitor: float
    """The visitor had seen these two models before."""
    pair_by_block: float
    """Somebody of the same block had."""
    same_page: float
    """The visitor had seen them on this very prompt."""


class SimulationResult(msgspec.Struct, frozen=True):
    """How fast and accurately the arena ranked, and how fairly it served.

    Bradley–Terry's values are None if the votes cannot be rated, and `remarks` says why.
    """

    models: int
    """How many models took part."""
    prompts: int
    """How many prompts there were."""
    votes: int
    """Votes that were cast."""
    served: int
    """Matchups served."""
    seed: int
    """Seed of everything."""
    kendall_tau: float | None
    """Kendall's tau of the official order to the true strengths."""
    kendall_tau_bradley_terry: float | None
    """The same of Bradley–Terry on the same votes."""
    in_tolerance: int
    """Models within tolerance of their exposure target in the last window: an even share, or what the contender lane
    alone gave them where that is more."""
    in_tolerance_of_even_share: int
    """Models within tolerance of 2W/M, the policy's own target."""
    even_share: float
    """2W/M: exposures in the last window, if all models had the same."""
    exposure_targets: tuple[float, float]
    """The least and the largest target of a model."""
    beyond_20_percent: tuple[str, ...]
    """Models further than 20 % from it."""
    crossed_band: tuple[str, ...]
    """Models that were contenders for a part of that window."""
    in_flight_duplicates: float
    """Share of matchups that repeat a pair and prompt already in flight."""
    diversity_broken: int
    """Matchups that broke prompt diversity."""
    lane_shares: dict[str, float]
    """Shares of the lanes while the contender lane could serve."""
    lane_shares_all: dict[str, float]
    """The same over all matchups."""
    matchups_lanes_open: int
    """Matchups served while the contender lane could serve."""
    contender_lane: ContenderShares | None
    """What the contender lane served; None if it never did."""
    neighbour_pairs: tuple[NeighbourPair, ...]
    """The neighbouring pairs of the top that publication rules look at."""
    side_a_share: float
    """Share of matchups with the first-named model on side A."""
    established: int
    """Models that are no longer provisional."""
    interval_coverage: float | None
    """Share of Bradley–Terry's 95 % intervals that contain the true strength."""
    ranks_hold: bool | None
    """Whether all published ranges of ranks contain the truth at the end."""
    looks: int
    """How often the published board was looked at."""
    looks_with_a_wrong_range: int
    """At how many of these looks some range of ranks did not contain the truth."""
    first_wrong_look: int | None
    """After how many votes that was seen first; None: never."""
    deviation_coverage: float
    """Share of rating ± 1.96 Glicko deviations that contain it."""
    mean_deviation: float
    """Mean Glicko deviation at the end."""
    tie_share: float
    """Share of ties."""
    largest_traffic_share: float
    """The largest share of consecutive matchups that one model took part in."""
    curve: tuple[CurvePoint, ...]
    """The accuracy of the order over time."""
    late_model: LateModel | None
    """How the late model did."""
    attack: AttackReport | None
    """How far an attack got, and what it cost."""
    remarks: tuple[str, ...]
    """Why Bradley–Terry could not rate the votes, if so."""
    badges: BadgeSummary | None = None
    """What badges and the label were worth over the looks."""
    seen_again: SeenAgain | None = None
    """What visitors notice of pairs that wait; None where visitors are anywhere, and none waits."""


class Monitor:
    """Counts over served matchups.

    It keeps separate records, so that a rule is not checked by the code that implements it.

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
        self.contender_meetings: list[ContenderMeeting] = []
        self._seen: set[tuple[object, ...]] = set()
        self._again: Counter[str] = Counter()

    def note(self, state: ArenaState, served: Reserved, meeting: ContenderMeeting | None) -> None:
        pair = pair_of(served.a, served.b)
        self.served += 1
        self.lanes[served.lane] += 1
        self.first_named_as_a += served.a < served.b
        self.duplicates += state.schedule.in_flight_by_prompt[pair][served.prompt] > 1
        meetings = self._meetings.setdefault(pair, deque(maxlen=self._last))
        meetings.append(served.prompt)
        self.diversity_broken += meetings.count(served.prompt) > self._most
        order = conservative_order(state, self._tables.servable(state).numbers)
        self._bands.append(tuple(order[: state.policy.contender_band].tolist()))
        if lane_opens(state, order):
            self.lanes_when_open[served.lane] += 1
        if meeting is not None:
            self.contender_meetings.append(meeting)
        if len(self._latest) == TRAFFIC_SPAN:
            self._latest_counts.subtract(self._latest[0])
        self._latest.append((served.a, served.b))
        self._latest_counts.update((served.a, served.b))
        if len(self._latest) == TRAFFIC_SPAN:
            for model in (served.a, served.b):
                share = self._latest_counts[model] / TRAFFIC_SPAN
                self.largest_share[model] = max(share, self.largest_share.get(model, 0.0))
        if served.block:
            visitor, block = (served.voter, *pair), (served.block, *pair)
            seen = {("visitor", *visitor), ("block", *block), ("page", *visitor, served.prompt)}
            self._again.update(str(name) for name, *_ in seen & self._seen)
            self._again["served"] += 1
            self._seen |= seen

    @property
    def seen_again(self) -> SeenAgain | None:
        again, served = self._again, self._again["served"]
        return SeenAgain(*(again[name] / served for name in ("visitor", "block", "page"))) if served else None

    @property
    def crossed(self) -> set[int]:
        """Models that were in the band at some time of the last window, and out of it at another."""
        bands = {frozenset(band) for band in self._bands}
        if not bands:
            return set()
        return set(frozenset.union(*bands) - frozenset.intersection(*bands))


def contender_shares(meetings: Sequence[ContenderMeeting], band: int) -> ContenderShares | None:
    """The shares of a contender lane over what it served."""
    if not meetings:
        return None
    kinds = Counter(meeting.kind for meeting in meetings)
    either = [
        meeting.opponent < meeting.anchor
        for meeting in meetings
        if meeting.kind == "neighbour" and not meeting.short and meeting.anchor > 1
    ]
    anchors = Counter(meeting.anchor for meeting in meetings)
    challengers = Counter(meeting.opponent for meeting in meetings if meeting.kind == "challenger")
    return ContenderShares(
        served=len(meetings),
        neighbour=kinds["neighbour"] / len(meetings),
        close=kinds["close"] / len(meetings),
        challenger=kinds["challenger"] / len(meetings),
        below_floor=sum(meeting.short for meeting in meetings) / len(meetings),
        above=sum(either) / len(either) if either else None,
        anchors={rank: anchors[rank] for rank in range(1, band + 1)},
        challengers={rank: challengers[rank] for rank in sorted(challengers)},
    )


def neighbour_pairs(state: ArenaState, meetings: Sequence[ContenderMeeting]) -> tuple[NeighbourPair, ...]:
    """The pairs of the top that publication rules look at, best first."""
    met = Counter(pair_of(meeting.anchor, meeting.opponent) for meeting in meetings)
    top, tallies = state.order()[: state.policy.publication.top], state.tallies
    return tuple(
        NeighbourPair(
            (rank, rank + 1),
            met[rank, rank + 1],
            tallies.pair_decisive(above, below),
            tallies.distinct_prompts(above, below),
        )
        for rank, (above, below) in enumerate(pairwise(top), start=1)
    )


def official_tau(state: ArenaState, world: World) -> float | None:
    """Kendall's tau of the conservative order to the truth, over the models present."""
    models = len(state.catalog.models)
    return tau(np.column_stack([state.conservative, world.strength[:models]]))


def established(state: ArenaState) -> NDArray[np.bool_]:
    """Which models are no longer provisional."""
    floor, _ = badge_floors(state.policy.badges)
    deviation, decisive = state.ratings.deviation, state.tallies.decisive
    enough = (decisive >= floor.decisive) & (deviation <= floor.deviation)
    return np.asarray(enough & (coverages(state) >= floor.coverage))


def deviation_coverage(state: ArenaState, world: World) -> float:
    """The share of models whose true strength lies within 1.96 Glicko deviations of the rating, means aligned."""
    now, truth = state.ratings, world.strength[: len(state.catalog.models)]
    off = (now.rating - now.rating.mean()) - (truth - truth.mean())
    return float((np.abs(off) <= NORMAL_95 * now.deviation).mean())


def lane_shares(lanes: dict[str, int]) -> dict[str, float]:
    """The share of every lane."""
    total = sum(lanes.values())
    known = [*LANES, *sorted(set(lanes) - set(LANES))]
    return {lane: lanes.get(lane, 0) / total if total else 0.0 for lane in known}

"""The site's view of its arena: a thread that follows the log and publishes values which never change.

Pages read the latest `Snapshot` and nothing else, so they never wait for the writer nor make it wait. What every vote
may change (the live board) is published at most once a second; what takes all votes to compute (Bradley–Terry, the
weekly report, movements) more rarely, and the more rarely the longer it takes.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from tiltyard.arena.board import live_board
from tiltyard.arena.events import decode_body
from tiltyard.arena.offline import OfflineBoard, offline_board
from tiltyard.arena.service import clock
from tiltyard.arena.store import Store, log
from tiltyard.arena.store.texts import Texts
from tiltyard.arena.vote_table import VoteTable, vote_table
from tiltyard.arena.weekly import Period, WeeklyReport, weekly_report
from tiltyard.errors import ArenaError, StoreError, TiltyardError
from tiltyard.web.followed_votes import FollowedVotes, Lately
from tiltyard.web.looking_back import DAY, Movement, Replay, movements, replay

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from types import TracebackType
    from typing import Self

    from tiltyard.arena.board import LiveBoard
    from tiltyard.arena.policy import Policy
    from tiltyard.arena.state import ArenaState, CastVote
    from tiltyard.arena.store.replica import Replica
    from tiltyard.arena.weekly import Look

R = TypeVar("R")
Ints = NDArray[np.int32]

WEEK_DAYS = 7
KEPT_VALUES = 128
"""Values computed on demand (a model's detail, a category's board) that are kept."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How often the observatory looks: seconds between boards, seconds and votes between studies.

    A study also waits `rest` times as long as the last one took; after `longest_seconds` one new event is enough.
    """

    board_seconds: float = 1.0
    study_seconds: float = 20.0
    study_votes: int = 10
    longest_seconds: float = 120.0
    rest: float = 10.0
    swaps_models: int = 60
    """Up to this many models every study says how few votes would swap neighbours; with more it takes far longer
    than all the rest, and is done by itself after `swaps_seconds` and `rest` times as long as it took."""
    swaps_seconds: float = 600.0


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """Who a model is."""

    number: int
    model: str
    display_name: str
    provider: str
    licence: str
    link: str
    enabled: bool


@dataclass(frozen=True, slots=True)
class PromptFacts:
    """What a prompt is about; its text stays in the store."""

    number: int
    prompt_id: str
    subject: str | None
    tags: tuple[str, ...]
    enabled: bool

    @property
    def categories(self) -> tuple[str, ...]:
        """Its subject and tags, each once."""
        return tuple(dict.fromkeys(filter(None, (self.subject, *self.tags))))


@dataclass(frozen=True, slots=True, eq=False)
class Study:
    """What all counted votes up to event `seq` say: Bradley–Terry beside the live board, the week, who moved."""

    seq: int
    votes: VoteTable
    replay: Replay
    offline: OfflineBoard | None
    offline_trouble: str
    """Why there is no offline board, if there is none."""
    weekly: WeeklyReport
    moved: Mapping[str, Movement]
    categories: Mapping[str, int]
    """Categories of prompts with the number of counted votes on them, the largest first."""


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """The arena after event `seq`, whose hash is `head_hash`. Grids are by model number and cannot be written."""

    seq: int
    head_hash: str
    at: int
    policy: Policy
    board: LiveBoard
    models: tuple[ModelFacts, ...]
    prompts: tuple[PromptFacts, ...]
    wins: Ints
    ties: Ints
    both_bad: Ints
    study: Study

    def model(self, name: str) -> ModelFacts:
        """A model by its id; one that was never there is an `ArenaError`."""
        for facts in self.models:
            if facts.model == name:
                return facts
        raise ArenaError(f"there is no model {name!r} in this arena.")


class Observatory:
    """Follows an arena's log. `start` publishes a first snapshot and begins to follow; `close` ends it.

    `refresh` follows once, by hand. `trouble` says what is wrong while the log cannot be read; the last snapshot stays.
    """

    def __init__(self, url: str, *, now: Callable[[], int] = clock, pace: Pace | None = None) -> None:
        self._url = url
        self._now = now
        self._pace = pace or Pace()
        self._moving = threading.Lock()
        """Held by whoever follows the log, from one snapshot to the next."""
        self._state = threading.RLock()
        """Held while the replica moves or is looked at; long sums are done without it."""
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._store: Store | None = None
        self._replica: Replica | None = None
        self._votes: FollowedVotes | None = None
        self._lately = Lately(WEEK_DAYS * DAY)
        self._texts = Texts()
        self._snapshot: Snapshot | None = None
        self._studied = (0.0, 0.0)
        """When the last study ended, and how long it took; below, the same of the last look at swaps."""
        self._swapped = (float("-inf"), 0.0)
        self._swaps: Mapping[tuple[str, str], int | None] = {}
        self._kept: OrderedDict[tuple[object, ...], object] = OrderedDict()
        self.trouble: str | None = None

    def start(self) -> None:
        """Publish a first snapshot, then follow in the background."""
        self.refresh()
        self._thread = threading.Thread(target=self._follow, name="tiltyard-observatory", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop following and let go of the database."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        if self._store is not None:
            self._store.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def snapshot(self) -> Snapshot:
        """The latest snapshot."""
        if self._snapshot is None:
            raise StoreError("the site has not read its arena yet. Try again in a moment.")
        return self._snapshot

    def refresh(self) -> Snapshot:
        """Follow the log to its end and publish everything anew, studies too."""
        with self._moving:
            self._catch_up()
            self._publish(self._study())
        return self.snapshot

    def look(self, what: Callable[[ArenaState, FollowedVotes], R], *key: object) -> R:
        """What a function makes of the state and the votes; with a key it is kept until the next event.

        The observatory waits meanwhile, the arena does not. Take out what is needed, and keep neither.
        """
        with self._state:
            state, votes = self._following().state, self._votes
            assert votes is not None
            return self._keep((*key, state.seq) if key else (), lambda: what(state, votes))

    def category(self, name: str) -> OfflineBoard | None:
        """Bradley–Terry on the votes of one category of prompts; None where they are too few to rate."""
        snapshot = self.snapshot
        return self._keep(("category", name, snapshot.study.seq), lambda: category_board(snapshot, name))

    def votes_of(self, voter: str) -> list[CastVote]:
        """One voter's votes in the order of the log, whether they count or not."""
        return self.look(lambda _, votes: votes.of_voter(voter))

    def texts(self, keys: Iterable[tuple[str, str]]) -> Mapping[tuple[str, str], str]:
        """The texts of prompts and answers: keys are `("prompt", id)` and `("response", id)`."""
        with self._state:
            self._following()
            assert self._store is not None
            with self._store.database.read() as connection:
                return self._texts.get(connection, keys)

    def _keep(self, key: tuple[object, ...], make: Callable[[], R]) -> R:
        with self._state:
            if key and key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]  # type: ignore[return-value]
        made = make()
        if key:
            with self._state:
                self._kept[key] = made
                while len(self._kept) > KEPT_VALUES:
                    self._kept.popitem(last=False)
        return made

    def _follow(self) -> None:
        while not self._ended.wait(self._pace.board_seconds):
            try:
                with self._moving:
                    if self._catch_up():
                        due = self._snapshot is None or self._study_is_due()
                        self._publish(self._study() if due else self.snapshot.study)
                    self._look_at_swaps()
                self.trouble = None
            except TiltyardError as error:
                self.trouble = str(error)
                self._forget()

    def _forget(self) -> None:
        """Begin again from the database next time: a failed reading may have left the state between two events."""
        with self._state:
            self._replica = self._votes = None
            self._lately = Lately(WEEK_DAYS * DAY)

    def _following(self) -> Replica:
        if self._replica is None:
            raise StoreError("the arena's log cannot be read just now. Try again in a moment.")
        return self._replica

    def _catch_up(self) -> bool:
        """Take in what is new. Whether there was anything, or a study is due though there was not."""
        if self._store is None:
            self._store = Store.open(self._url)
        with self._state:
            if self._replica is None or self._votes is None:
                self._load(self._store)
                return True
            replica, votes = self._replica, self._votes
            with self._store.database.read() as connection:
                seq = replica.state.seq
                if log.head(connection)[0] == seq:
                    return self._snapshot is None or (self._snapshot.study.seq < seq and self._study_is_due())
                replica.catch_up(connection)
                for page in log.chained_after(connection, seq):
                    bodies = [decode_body(row.text) for row in page]
                    self._lately.follow(page, bodies)
                    votes.follow(connection, bodies, replica.state.seq)
        return True

    def _load(self, store: Store) -> None:
        replica = store.load()
        votes = FollowedVotes(store, replica.state.seq)
        since = replica.state.latest - WEEK_DAYS * DAY
        before = [vote.seq for vote in votes.votes if vote.at < since]
        with store.database.read() as connection:
            for page in log.chained_after(connection, max(before, default=0)):
                kept = [row for row in page if row.seq <= replica.state.seq]
                self._lately.follow(kept, [decode_body(row.text) for row in kept])
        self._replica, self._votes = replica, votes

    def _study_is_due(self) -> bool:
        replica, study, pace = self._following(), self.snapshot.study, self._pace
        ended, took = self._studied
        waited = time.monotonic() - ended
        if waited < max(pace.study_seconds, pace.rest * took):
            return False
        new = replica.state.seq - study.seq
        return new > 2 * pace.study_votes or (new > 0 and waited > pace.longest_seconds)

    def _study(self) -> Study:
        """A study; the state is held only while it is looked at, so that pages need not wait for the long sums."""
        began = time.monotonic()
        with self._state:
            state, followed = self._following().state, self._votes
            assert followed is not None
            votes = vote_table(followed.votes, state.catalog)
            order = [state.catalog.models[number].model for number in state.order()]
            policy, until = state.policy, state.latest
        offline, trouble = _rated(votes, order, swaps=len(order) <= self._pace.swaps_models)
        if offline is not None and len(order) > self._pace.swaps_models:
            offline = with_swaps(offline, self._swaps)
        again = replay(votes, policy)
        looks = again.looks(_times(until, self._now()), set(order))
        with self._state:
            weekly = _weekly(state, self._lately, votes, offline, looks[:-1])
            study = Study(
                seq=state.seq,
                votes=votes,
                replay=again,
                offline=offline,
                offline_trouble=trouble,
                weekly=weekly,
                moved=movements(weekly.board, looks[-1], state.policy),
                categories=_categories(state, votes),
            )
        self._studied = (time.monotonic(), time.monotonic() - began)
        return study

    def _look_at_swaps(self) -> None:
        """Where there are many models, find out now and then which neighbours few votes would swap."""
        study, pace = self.snapshot.study, self._pace
        ended, took = self._swapped
        order = [row.model for row in self.snapshot.board.rows]
        if len(order) <= pace.swaps_models or time.monotonic() - ended < max(pace.swaps_seconds, pace.rest * took):
            return
        began = time.monotonic()
        offline, _ = _rated(study.votes, order, swaps=True)
        self._swapped = (time.monotonic(), time.monotonic() - began)
        if offline is not None:
            self._swaps = swaps_of(offline)
            self._publish(replace(study, offline=offline, weekly=replace(study.weekly, offline=offline)))

    def _publish(self, study: Study) -> None:
        with self._state:
            replica = self._following()
            self._snapshot = snapshot_of(replica.state, replica.hash, study)


def snapshot_of(state: ArenaState, head_hash: str, study: Study) -> Snapshot:
    """A snapshot of a state, with a study that may be a little older."""
    catalog, tallies = state.catalog, state.tallies
    return Snapshot(
        seq=state.seq,
        head_hash=head_hash,
        at=state.at,
        policy=state.policy,
        board=live_board(state),
        models=tuple(
            ModelFacts(number, card.model, card.display_name, card.provider, card.licence, card.link, enabled)
            for number, (card, enabled) in enumerate(zip(catalog.models, catalog.model_enabled, strict=True))
        ),
        prompts=tuple(
            PromptFacts(number, card.prompt_id, card.subject, card.tags, enabled)
            for number, (card, enabled) in enumerate(zip(catalog.prompts, catalog.prompt_enabled, strict=True))
        ),
        wins=_frozen(tallies.wins.view),
        ties=_frozen(tallies.ties.view),
        both_bad=_frozen(tallies.both_bad.view),
        study=study,
    )


def _frozen(grid: Ints) -> Ints:
    copy = grid.copy()
    copy.flags.writeable = False
    return copy


def _times(until: int, now: int) -> list[int]:
    """When a study looks back to: the days of the week that ends with the last event, and a day before now."""
    return [*(until - (WEEK_DAYS - day) * DAY for day in range(WEEK_DAYS)), now - DAY]


def _weekly(
    state: ArenaState, lately: Lately, votes: VoteTable, offline: OfflineBoard | None, days: tuple[Look, ...]
) -> WeeklyReport:
    """The report of the days that were looked at, of the state at their end."""
    since = days[0].at
    period = Period(
        since=since,
        until=state.latest,
        looks=tuple(look for look in days if look.standings) or days[-1:],
        votes=votes,
        served=lately.served(since, state.catalog),
        events=lately.kinds(since),
        flags=lately.notes(since, "flagged"),
        exclusions=lately.notes(since, "excluded", "restored"),
    )
    return weekly_report(state, period, offline)


def _rated(votes: VoteTable, order: list[str], *, swaps: bool) -> tuple[OfflineBoard | None, str]:
    try:
        return offline_board(votes, order, swaps=swaps), ""
    except TiltyardError as error:
        return None, str(error)


def swaps_of(board: OfflineBoard) -> Mapping[tuple[str, str], int | None]:
    """The votes that would swap two neighbours, by the two of them."""
    return {(above.model, below.model): above.votes_to_swap for above, below in pairwise(board.rows)}


def with_swaps(board: OfflineBoard, swaps: Mapping[tuple[str, str], int | None]) -> OfflineBoard:
    """A board with what was found out about swaps earlier, for neighbours that still are neighbours."""
    rows = [
        replace(above, votes_to_swap=swaps.get((above.model, below.model))) for above, below in pairwise(board.rows)
    ]
    return replace(board, rows=(*rows, *board.rows[-1:]))


def _categories(state: ArenaState, votes: VoteTable) -> Mapping[str, int]:
    counts = np.bincount(votes.prompt, minlength=len(state.catalog.prompts))
    totals: dict[str, int] = {}
    for prompt, n in zip(state.catalog.prompts, counts.tolist(), strict=True):
        for name in dict.fromkeys(filter(None, (prompt.subject, *prompt.tags))):
            totals[name] = totals.get(name, 0) + n
    return dict(sorted(totals.items(), key=lambda item: (-item[1], item[0])))


def category_board(snapshot: Snapshot, name: str) -> OfflineBoard | None:
    """Bradley–Terry on the counted votes of one category of prompts; None where they are too few to rate."""
    votes = snapshot.study.votes
    inside = [prompt.number for prompt in snapshot.prompts if name in prompt.categories]
    of = np.isin(votes.prompt, inside)
    part = replace(
        votes,
        at=votes.at[of],
        model_a=votes.model_a[of],
        model_b=votes.model_b[of],
        prompt=votes.prompt[of],
        voter=votes.voter[of],
        outcome=votes.outcome[of],
        matchup_ids=(),
    )
    try:
        return offline_board(part, [row.model for row in snapshot.board.rows], swaps=False)
    except TiltyardError:
        return None

"""The site's view of its arena: a thread that follows the log and publishes immutable values.

Pages only read the latest `Snapshot`, so they and the writer never wait for each other. They show nothing of a vote
that can still be undone, nor of anything after it. Counts, which any vote may change, are published at most once a
second; what is computed from all votes (weights, ratings, Bradley–Terry, the weekly report, movements) less often: once
in `defences.publish_seconds`, or more rarely if it takes long. While no vote has a block nothing is weighed, and the
running ratings are shown.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from types import TracebackType
from typing import Self, TypeVar

from tiltyard.arena.board import raw_ratings
from tiltyard.arena.events import Event, Excluded, PhaseChanged, Restored, SettingsChanged, decode_body
from tiltyard.arena.folding import give_back_memory
from tiltyard.arena.following.evidence import findings_of
from tiltyard.arena.following.followed_votes import FollowedVotes, RecentEvents
from tiltyard.arena.following.parts import KeptParts, PartBoard, VotePart, counts_by
from tiltyard.arena.following.replay import movements, published_ratings, replay
from tiltyard.arena.following.snapshots import (
    WEEK_DAYS,
    Snapshot,
    Study,
    rated,
    snapshot_of,
    swaps_of,
    times_of,
    weekly_of,
    with_swaps,
)
from tiltyard.arena.policy import Policy
from tiltyard.arena.rating_track import Ratings
from tiltyard.arena.service import clock
from tiltyard.arena.state import ArenaState, CastVote
from tiltyard.arena.store import Store, log
from tiltyard.arena.store.publications import (
    PublishedState,
    latest_publication,
    policy_at,
    publication_of,
    record_publication,
)
from tiltyard.arena.store.publishing import published_until
from tiltyard.arena.store.replica import Replica
from tiltyard.arena.store.texts import TextCache
from tiltyard.arena.thread_health import ThreadHealth
from tiltyard.arena.units import DAY
from tiltyard.arena.weights import blocks_to_swap, contested_models, weighed
from tiltyard.bank.responses import measure_style
from tiltyard.errors import StoreError

__all__ = ["Observatory", "Pace", "Snapshot", "Study"]

R = TypeVar("R")

KEPT_VALUES = 128
"""Values computed on demand (a model's detail) that are kept."""

TEXTS_AT_ONCE = 500
"""Answers that are read in one go when their style is measured; pages wait for one reading at most."""

DECISIONS = (SettingsChanged, PhaseChanged, Excluded, Restored)
"""What an operator does, and wants to see at once."""

LONGEST_FOR_MATCHMAKING = 3600
"""Seconds between publications up to which matchmaking uses published ratings."""

STUDY_END_SECONDS = 2.0
"""How long closing waits for a slow study: votes-to-swap of many models can take a minute."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How often the observatory updates: seconds between boards, seconds and votes between studies.

    A study also waits `rest` times the duration of the last one; after `longest_seconds` one new event is enough.
    """

    board_seconds: float = 1.0
    study_seconds: float = 3.0
    study_votes: int = 1
    longest_seconds: float = 120.0
    rest: float = 30.0
    swaps_models: int = 60
    """Up to this many models every study computes votes-to-swap; with more models it takes far longer than everything
    else, and runs separately after `swaps_seconds` and `rest` times its last duration."""
    swaps_seconds: float = 600.0
    publish_seconds: float | None = None
    """Seconds between publications while votes are weighed; None: as the policy says (`defences.publish_seconds`)."""


class Observatory:
    """Follows an arena's log. `start` publishes a first snapshot and begins to follow; `close` ends it.

    `refresh` updates once, on demand. `trouble` says what is wrong while the log cannot be read; the last snapshot
    remains.
    """

    def __init__(
        self, url: str, *, now: Callable[[], int] = clock, pace: Pace | None = None, records: bool = False
    ) -> None:
        self._url = url
        self._records = records
        """Whether publications are recorded in the database, as those of a site are."""
        self._listener: Callable[[Ratings | None], None] | None = None
        self._now = now
        self._pace = pace or Pace()
        self._moving = threading.Lock()
        """Held while following the log, from one snapshot to the next."""
        self._state = threading.RLock()
        """Held while the replica changes or is read; long computations run without it."""
        self._ended = threading.Event()
        self._threads: tuple[threading.Thread, ...] = ()
        self._store: Store | None = None
        self._replica: Replica | None = None
        self._votes: FollowedVotes | None = None
        self._recent_events = RecentEvents(WEEK_DAYS * DAY)
        self._texts = TextCache()
        self._snapshot: Snapshot | None = None
        self._studied = (0.0, 0.0)
        """When the last study ended, and how long it took; below, the same for the last votes-to-swap computation."""
        self._swapped = (float("-inf"), 0.0)
        self._swaps: Mapping[tuple[str, str], int | None] = {}
        self._published_at = 0
        """When the latest study was begun (microseconds), and whether the operator decided something since."""
        self._decided = False
        self._parts = KeptParts(self._answer_styles)
        self._styles: dict[str, tuple[int, ...]] = {}
        self._kept: OrderedDict[tuple[object, ...], object] = OrderedDict()
        self._kept_at = 0
        """Computed on demand, and the event after which: what was computed before it is dropped."""
        self.failures = (ThreadHealth("thread that follows the log"), ThreadHealth("thread of the slow studies"))
        """What went wrong in each of the two threads."""

    def start(self) -> None:
        """Publish a first snapshot, then follow in the background."""
        self.refresh()
        self._threads = tuple(
            threading.Thread(target=work, name=f"tiltyard-{work.__name__.strip('_')}", daemon=True)
            for work in (self._follow, self._run_slow_studies)
        )
        for thread in self._threads:
            thread.start()

    def hand_over(self, listener: Callable[[Ratings | None], None]) -> None:
        """Pass the published ratings to matchmaking, now and after every publication.

        Ratings that are published rarely are too old to choose matchups by; then it gets None and uses its own.
        """
        self._listener = listener
        self._tell(self.snapshot)

    def _tell(self, snapshot: Snapshot) -> None:
        if self._listener is not None:
            rare = snapshot.policy.defences.publish_seconds > LONGEST_FOR_MATCHMAKING
            self._listener(None if rare else snapshot.study.ratings)

    def close(self) -> None:
        """Stop following and close the database.

        A slow study does not use it, so closing does not wait long for one.
        """
        self._ended.set()
        for thread, seconds in zip(self._threads, (None, STUDY_END_SECONDS), strict=False):
            thread.join(seconds)
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
        """Follow the log as far as it is final and republish everything, including studies."""
        with self._moving:
            self._catch_up()
            self._publish(self._study())
            self._parts.clear()
        return self.snapshot

    def look(self, what: Callable[[ArenaState, FollowedVotes], R], *key: object) -> R:
        """The result of a function of the state and the votes; with a key it is cached until the next event.

        The observatory waits meanwhile, the arena does not. Copy what is needed, and keep no reference to either.
        """
        with self._state:
            state, votes = self._following().state, self._votes
            assert votes is not None
            if self._snapshot is not None:
                state = state.showing(self._snapshot.study.ratings)
            if self._kept_at != state.seq:
                self._kept_at = state.seq
                self._kept.clear()
            return self._keep(key, lambda: what(state, votes))

    def part(self, part: VotePart) -> PartBoard | None:
        """The board of a part of the votes; None if no vote can be in it.

        Once asked for, it is recomputed after every study for a while; until then the previous one is returned. Only
        the latest few are kept.
        """
        return self._parts.get(self.snapshot, part)

    def _answer_styles(self) -> dict[tuple[int, int], tuple[int, ...]]:
        """The style of the current answers by model and prompt number; each text is read and measured once."""
        with self._state:
            ids = dict(self._following().state.catalog.response_ids)
        missing = [name for name in ids.values() if name not in self._styles]
        for start in range(0, len(missing), TEXTS_AT_ONCE):
            texts = self.texts(("response", name) for name in missing[start : start + TEXTS_AT_ONCE])
            self._styles.update({name: measure_style(text) for (_, name), text in texts.items()})
        return {cell: self._styles[name] for cell, name in ids.items() if name in self._styles}

    def votes_of(self, voter: str) -> list[CastVote]:
        """One voter's votes in log order, whether they count or not."""
        return self.look(lambda _, votes: votes.votes.of_voter(voter))

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

    @property
    def trouble(self) -> str | None:
        """The current problem of a thread; None while both work."""
        return next((failures.trouble for failures in self.failures if failures.trouble is not None), None)

    def _follow(self) -> None:
        self._repeat(self._follow_once, self.failures[0], self._forget)

    def _follow_once(self) -> None:
        with self._moving:
            if self._catch_up():
                due = self._snapshot is None or self._study_is_due()
                self._publish(self._study() if due else self.snapshot.study)

    def _run_slow_studies(self) -> None:
        self._repeat(self._run_slow_studies_once, self.failures[1], lambda: None)

    def _run_slow_studies_once(self) -> None:
        """The slow computations, in a separate thread: boards of parts that are asked for, and votes-to-swap."""
        self._parts.follow(self.snapshot, self._ended.is_set)
        self._look_at_swaps()

    def _repeat(self, once: Callable[[], None], failures: ThreadHealth, recover: Callable[[], None]) -> None:
        """Run repeatedly until closed; after a failure with a delay, and with partial results discarded."""
        pause = self._pace.board_seconds
        while not self._ended.wait(pause):
            try:
                once()
            except BaseException as error:  # the thread must not end, because nothing else does its work
                recover()
                failures.note(error)
                pause = failures.pause_seconds(self._pace.board_seconds)
            else:
                failures.clear()
                pause = self._pace.board_seconds

    def _forget(self) -> None:
        """Reload from the database next time: a failed read may have left the state between two events."""
        with self._state:
            self._replica = self._votes = None
            self._recent_events = RecentEvents(WEEK_DAYS * DAY)

    def _following(self) -> Replica:
        if self._replica is None:
            raise StoreError("the arena's log cannot be read just now. Try again in a moment.")
        return self._replica

    def _catch_up(self) -> bool:
        """Read new events. Whether there were any, or a study is due anyway."""
        if self._store is None:
            self._store = Store.open(self._url)
        with self._state:
            if self._replica is None or self._votes is None:
                self._load(self._store)
                return True
            replica, votes = self._replica, self._votes
            with self._store.database.read() as connection:
                seq, until = replica.state.seq, published_until(connection, self._now())
                if until <= seq:
                    return self._snapshot is None or (self._snapshot.study.seq < seq and self._study_is_due())

                def follow(events: list[Event]) -> None:
                    self._recent_events.follow(events, replica.state.seq - len(events), replica.state.catalog)
                    self._decided = self._decided or any(isinstance(event.body, DECISIONS) for event in events)
                    votes.follow(connection, events, replica.state.seq)

                replica.catch_up(connection, follow, until)
        return True

    def _load(self, store: Store) -> None:
        with store.database.read() as connection:
            until = published_until(connection, self._now())
            published = latest_publication(connection) if self._records else None
            if published is not None and published.seq <= until:
                period = policy_at(connection, until).defences.publish_seconds * 1_000_000
                if published.at // period == self._now() // period:
                    until = published.seq  # what other servers show, and this one showed before
            replica = Replica.load(connection, store.checkpoint_every, until)
        votes = FollowedVotes(store, replica.state.seq, replica.state.policy.window_matchups)
        since = replica.state.latest - WEEK_DAYS * DAY
        seq = votes.votes.latest_before(since)
        with store.database.read() as connection:
            for page in log.chained_after(connection, seq, replica.state.seq):
                events = [Event(row.at, decode_body(row.text)) for row in page]
                self._recent_events.follow(events, seq, replica.state.catalog)
                seq += len(page)
        replica.book.on_cast = votes.take
        self._replica, self._votes = replica, votes

    def _study_is_due(self) -> bool:
        replica, study, pace = self._following(), self.snapshot.study, self._pace
        ended, took = self._studied
        waited = time.monotonic() - ended
        if waited < max(pace.study_seconds, pace.rest * took) or not self._may_publish(replica.state.policy):
            return False
        new = replica.state.seq - study.seq  # events; a vote is two of them: served, voted
        return self._decided or new > 2 * pace.study_votes or (new > 0 and waited > pace.longest_seconds)

    def _may_publish(self, policy: Policy) -> bool:
        """Whether a new period of publication has begun, the same for all servers; a decision need not wait for it."""
        if self.snapshot.study.ratings is None or self._decided:
            return True
        seconds = policy.defences.publish_seconds if self._pace.publish_seconds is None else self._pace.publish_seconds
        period = max(int(seconds * 1e6), 1)
        return self._now() // period > self._published_at // period

    def _study(self) -> Study:
        """A study; the lock is held only while the state is read, so that pages need not wait for long computations."""
        began, self._published_at, self._decided = time.monotonic(), self._now(), False
        with self._state:
            state, followed = self._following().state, self._votes
            assert followed is not None
            votes, policy, until = followed.votes.table(state.catalog), state.policy, state.latest
        votes = weighed(votes, policy.defences)
        again = replay(votes, policy)
        with self._state:
            ratings = published_ratings(again, votes, state)
            shown = state.showing(ratings)
            raw = raw_ratings(shown)
        order = list(raw)
        offline, trouble = rated(votes, order, policy.intervals, swaps=len(order) <= self._pace.swaps_models)
        if offline is not None and len(order) > self._pace.swaps_models:
            offline = with_swaps(offline, self._swaps)
        looks = again.looks(times_of(until, self._now()), set(order))
        contested = contested_models(votes, policy.defences, until)
        blocks = blocks_to_swap(votes, order, policy.defences)
        swapped_by = {pair: number for pair, number in zip(pairwise(order), blocks, strict=True) if number is not None}
        result = findings_of(votes, offline, again, policy, shown.phase, raw)
        with self._state:
            weekly = weekly_of(shown, self._recent_events, followed.votes, votes, looks[:-1], result)
            study = Study(
                seq=state.seq,
                votes=votes,
                replay=again,
                ratings=ratings,
                offline=result.offline,
                offline_trouble=trouble,
                evidence=result.evidence,
                weekly=weekly,
                moved=movements(weekly.board, looks[-1], state.policy),
                categories=counts_by([(one.subject or "", *one.tags) for one in state.catalog.prompts], votes),
                languages=counts_by([(one.language,) for one in state.catalog.prompts], votes),
                kinds=counts_by([(state.catalog.kind(n),) for n in range(len(state.catalog.prompts))], votes),
                contested=contested,
                blocks_to_swap=swapped_by,
            )
        if self._records and ratings is not None:
            self._record(publication_of(study.seq, self._published_at, votes, again.end))
        self._studied = (time.monotonic(), time.monotonic() - began)
        return study

    def _record(self, published: PublishedState) -> None:
        """Record a publication; if the database takes no writes now, the next one will be recorded."""
        assert self._store is not None
        with contextlib.suppress(StoreError):
            record_publication(self._store, published)

    def _look_at_swaps(self) -> None:
        """With many models, recompute votes-to-swap from time to time."""
        study, pace = self.snapshot.study, self._pace
        ended, took = self._swapped
        order = [row.model for row in self.snapshot.board.rows]
        if len(order) <= pace.swaps_models or time.monotonic() - ended < max(pace.swaps_seconds, pace.rest * took):
            return
        began = time.monotonic()
        offline, _ = rated(study.votes, order, self.snapshot.policy.intervals, swaps=True)
        self._swapped = (time.monotonic(), time.monotonic() - began)
        if offline is None:
            return
        self._swaps = swaps_of(offline)
        with self._moving:
            study = self.snapshot.study
            if study.offline is not None:
                result = with_swaps(study.offline, self._swaps)
                self._publish(replace(study, offline=result, weekly=replace(study.weekly, offline=result)))

    def _publish(self, study: Study) -> None:
        with self._state:
            replica = self._following()
            before = self._snapshot
            edition = 1 if before is None else before.edition + 1
            self._snapshot = snapshot_of(replica.state, replica.hash, study, edition)
        self._tell(self._snapshot)
        if before is None or study is not before.study:
            del before
            give_back_memory()

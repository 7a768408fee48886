"""The site's view of its arena: a thread that follows the log and publishes immutable values.

Pages only read the latest `Snapshot`, so they and the writer never wait for each other. All that is public moves at
once, and at stated times: with every full period of `defences.publish_seconds`, an hour by default, and when the
operator decides something. So whoever polls the site does not learn when a vote was cast. Nothing shows a vote that can
still be undone.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import Self, TypeVar

import msgspec
from msgspec.structs import replace

from tiltyard.arena.rules.events import Erased
from tiltyard.arena.rules.ratings import Ratings, ratings_of
from tiltyard.arena.rules.state import ArenaState
from tiltyard.arena.rules.thread_health import ThreadHealth
from tiltyard.arena.rules.units import DAY, SECOND, clock
from tiltyard.arena.rules.votes import CastVote, VoteColumns
from tiltyard.arena.rules.voting import CLOCK_MARGIN
from tiltyard.arena.rules.weights import blocks_to_swap, contested_models, weighed
from tiltyard.arena.store import checkpoints, log
from tiltyard.arena.store.database import Connection
from tiltyard.arena.store.matchups import final_from, public_until
from tiltyard.arena.store.public_log import record_hourly
from tiltyard.arena.store.store import Store
from tiltyard.arena.study.board import raw_ratings
from tiltyard.arena.study.parts import KeptParts, PartBoard, VotePart, counts_by
from tiltyard.arena.study.recent_events import RecentEvents
from tiltyard.arena.study.replay import findings_of, movements, rated, replay
from tiltyard.arena.study.snapshots import WEEK_DAYS, Snapshot, Study, snapshot_of, with_swaps
from tiltyard.arena.study.weekly import weekly_report
from tiltyard.data.bank import measure_style
from tiltyard.errors import StoreError

__all__ = ["Observatory", "Pace", "Snapshot", "Study"]

R = TypeVar("R")

KEPT_VALUES = 128
"""Values computed on demand (a model's detail) that are kept."""

TEXTS_AT_ONCE = 500
"""Answers that are read in one go when their style is measured; pages wait for one reading at most."""

LONGEST_UNDO = 60
"""Seconds that a period waits for votes that can be undone; votes that can be undone for longer are public later."""

HEAD_SECONDS = 30.0
"""How often it is looked at whether the head of this hour was published."""

STUDY_END_SECONDS = 2.0
"""How long closing waits for a slow study: votes-to-swap of many models can take a minute."""


class Pace(msgspec.Struct, frozen=True):
    """How often the observatory looks whether something is due; after a publication it rests `rest` times as long."""

    board_seconds: float = 1.0
    rest: float = 30.0
    swaps_models: int = 60
    """Up to this many models every study computes votes-to-swap; with more models it takes far longer than everything
    else, and runs separately after `swaps_seconds` and `rest` times its last duration."""
    swaps_seconds: float = 600.0
    publish_seconds: float | None = None
    """Seconds between publications; None: as the policy says (`defences.publish_seconds`). 0: as soon as votes are
    final."""


class Observatory:
    """Follows an arena's log. `start` publishes a first snapshot and begins to follow; `close` ends it.

    `refresh` updates once, on demand. `trouble` says what is wrong while the log cannot be read; the last snapshot
    remains.
    """

    def __init__(self, url: str, *, now: Callable[[], int] = clock, pace: Pace | None = None) -> None:
        self._url = url
        self._listener: Callable[[Ratings, int], None] | None = None
        self._now = now
        self._pace = pace or Pace()
        self._moving = threading.Lock()
        """Held while following the log, from one snapshot to the next."""
        self._state = threading.RLock()
        """Held while the state changes or is read; long computations run without it."""
        self._ended = threading.Event()
        self._threads: tuple[threading.Thread, ...] = ()
        self._store: Store | None = None
        self._arena: ArenaState | None = None
        self._votes = VoteColumns()
        self._hash = ""
        self._checkpoint = 0
        """The event of the last checkpoint that is known here."""
        self._headed = time.monotonic()
        """When it was last looked at whether a head is due."""
        self.followed = float("-inf")
        """When it was last looked, without an error, whether there is more to publish."""
        self._recent_events = RecentEvents(WEEK_DAYS * DAY)
        self._snapshot: Snapshot | None = None
        self._studied = (0.0, 0.0)
        """When the last study ended, and how long it took; below, the same for the last votes-to-swap computation."""
        self._swapped = (float("-inf"), 0.0)
        self._swaps: Mapping[tuple[str, str], int | None] = {}
        self._period = (-1, 0)
        """When this period of publication began, and the last event of the one before."""
        self._decision = (0, 0)
        """Up to which event decisions of the operator were looked for, and the last event that is public by one."""
        self._parts = KeptParts(self._answer_styles)
        self._styles: dict[str, tuple[int, ...]] = {}
        self._kept: OrderedDict[tuple[object, ...], object] = OrderedDict()
        self._kept_at = 0
        """Computed on demand, and the event after which: what was computed before it is dropped."""
        self.failures = (ThreadHealth("thread that follows the log"), ThreadHealth("thread of the slow studies"))
        """What went wrong in each of the two threads."""

    def start(self) -> None:
        self.refresh()
        works = (("follow", self._follow_once, self._forget), ("run_slow_studies", self._run_slow_studies, None))
        self._threads = tuple(
            threading.Thread(target=self._repeat, args=(once, failures, recover), name=f"tiltyard-{name}", daemon=True)
            for (name, once, recover), failures in zip(works, self.failures, strict=True)
        )
        for thread in self._threads:
            thread.start()

    def hand_over(self, listener: Callable[[Ratings, int], None]) -> None:
        """Pass ratings and the last event that is in them to matchmaking, now and after every publication."""
        self._listener = listener
        listener(self.snapshot.study.ratings, self.snapshot.study.seq)

    def close(self) -> None:
        """Stop following and close the database. A slow study does not use it, so it is not waited for long."""
        self._ended.set()
        for thread, seconds in zip(self._threads, (None, STUDY_END_SECONDS), strict=False):
            thread.join(seconds)
        if self._store is not None:
            self._store.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def snapshot(self) -> Snapshot:
        if self._snapshot is None:
            raise StoreError("the site has not read its arena yet. Try again in a moment.")
        return self._snapshot

    def refresh(self) -> Snapshot:
        with self._moving:
            self._catch_up()
            self._publish(self._study())
            self._parts.clear()
        self.followed = time.monotonic()
        return self.snapshot

    def look(self, what: Callable[[ArenaState, VoteColumns], R], *key: object) -> R:
        """The result of a function of the state and the votes; with a key it is cached until the next event.

        The observatory waits meanwhile, the arena does not. Copy what is needed, and keep no reference to either.
        """
        with self._state:
            state, votes = self._following(), self._votes
            if self._snapshot is not None:
                state = state.showing(self._snapshot.study.ratings)
            if self._kept_at != state.seq:
                self._kept_at = state.seq
                self._kept.clear()
            if key and key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]  # type: ignore[return-value]
            result = what(state, votes)
            if key:
                self._kept[key] = result
                while len(self._kept) > KEPT_VALUES:
                    self._kept.popitem(last=False)
            return result

    def part(self, part: VotePart) -> PartBoard | None:
        """The board of a part of the votes, which may be that of the last study; None if no vote can be in it."""
        return self._parts.get(self.snapshot, part)

    def _answer_styles(self) -> dict[tuple[int, int], tuple[int, ...]]:
        """The style of the current answers by model and prompt number; each text is read and measured once."""
        with self._state:
            catalog = self._following().catalog
            ids = {cell: name for cell, name in catalog.response_ids.items() if name not in catalog.withdrawn}
        missing = [name for name in ids.values() if name not in self._styles]
        for start in range(0, len(missing), TEXTS_AT_ONCE):
            texts = self.texts(("response", name) for name in missing[start : start + TEXTS_AT_ONCE])
            self._styles.update({name: measure_style(text) for (_, name), text in texts.items()})
        return {cell: self._styles[name] for cell, name in ids.items() if name in self._styles}

    def votes_of(self, voter: str) -> list[CastVote]:
        return self.look(lambda _, votes: votes.of_voter(voter))

    def texts(self, keys: Iterable[tuple[str, str]]) -> Mapping[tuple[str, str], str]:
        """The texts of prompts and answers: keys are `("prompt", id)` and `("response", id)`."""
        with self._state:
            catalog = self._following().catalog
            seqs = {
                (kind, name): catalog.prompt_seq[catalog.prompt(name)] if kind == "prompt" else catalog.answers[name]
                for kind, name in keys
                if kind == "prompt" or name in catalog.answers
            }
        assert self._store is not None
        with self._store.database.read() as connection:
            bodies = self._store.texts.get(connection, seqs.values())
        return {key: bodies[seq].text for key, seq in seqs.items()}

    @property
    def trouble(self) -> str | None:
        return next((failures.trouble for failures in self.failures if failures.trouble is not None), None)

    def _follow_once(self) -> None:
        with self._moving:
            if self._catch_up() or self._snapshot is None:
                self._publish(self._study())
        self.followed = time.monotonic()
        assert self._store is not None
        with self._state:
            state = self._following()
            if state.seq - self._checkpoint >= checkpoints.EVERY:  # for the next start
                with self._store.database.write() as connection:
                    checkpoints.keep_checkpoint(connection, state)
                self._checkpoint = state.seq
        if time.monotonic() - self._headed >= HEAD_SECONDS:  # here, because the first head of a long log takes a while
            self._headed = time.monotonic()
            record_hourly(self._store, self._now(), self.snapshot.seq)

    def _repeat(self, once: Callable[[], None], failures: ThreadHealth, recover: Callable[[], None] | None) -> None:
        """Run repeatedly until closed; after a failure with a delay, and with partial results discarded."""
        pause = self._pace.board_seconds
        while not self._ended.wait(pause):
            try:
                once()
            except BaseException as error:  # the thread must not end, because nothing else does its work
                if recover is not None:
                    recover()
                failures.note(error)
                pause = failures.pause_seconds(self._pace.board_seconds)
            else:
                failures.clear()
                pause = self._pace.board_seconds

    def _forget(self) -> None:
        """Reload from the database next time: a failed read may have left the state between two events."""
        with self._state:
            self._arena = None
            self._recent_events = RecentEvents(WEEK_DAYS * DAY)

    def _following(self) -> ArenaState:
        if self._arena is None:
            raise StoreError("the arena's log cannot be read just now. Try again in a moment.")
        return self._arena

    def catch_up(self) -> None:
        """Follow the log as far as it is public now, and publish nothing: for `look` alone."""
        with self._moving:
            self._catch_up()

    def _catch_up(self) -> bool:
        """Read what is public since the last time. Whether there is any."""
        if self._store is None:
            self._store = Store.open(self._url)
        with self._state, self._store.database.read() as connection:
            until, state = self._public_end(connection), self._arena
            if state is None:
                self._load(connection, until)
                return True
            ended, took = self._studied
            rests = time.monotonic() - ended < self._pace.rest * took and self._decision[1] <= state.seq
            if until <= state.seq or rests:
                return False
            for page in log.pages(connection, state.seq, until):
                for event in page.events:
                    state.apply(state.seq + 1, event)
                self._hash = page.head
                self._recent_events.follow(page.events, page.first - 1, state.catalog)
                if any(isinstance(event.body, Erased) for event in page.events):
                    self._recent_events = RecentEvents(WEEK_DAYS * DAY)  # it may hold what was erased
                    self._load(connection, until)
                    break
        return True

    def _public_end(self, connection: Connection) -> int:
        """The last event that is public now: the same for all servers, whenever they look or were started.

        A period ends a few seconds late: when all votes of it are final.
        """
        now = self._now()
        final, policy = public_until(connection, now), log.policy(connection)
        pace = self._pace.publish_seconds
        if not (seconds := policy.defences.publish_seconds if pace is None else pace):
            return final
        settled = now - min(policy.undo_seconds, LONGEST_UNDO) * SECOND - CLOCK_MARGIN
        begun = settled - settled % round(seconds * SECOND)
        if begun != self._period[0]:
            before = connection.value("SELECT seq FROM events WHERE at < ? ORDER BY seq DESC LIMIT 1", begun) or 0
            self._period = begun, final_from(connection, before)
        looked, decided = self._decision
        latest = log.latest_decision(connection, looked, final)
        self._decision = final, decided if latest is None else final_from(connection, latest)
        return min(final, max(self._period[1], self._decision[1]))

    def _load(self, connection: Connection, until: int) -> None:
        state, votes, digest = checkpoints.load_votes(connection, until)
        seq = votes.latest_before(state.latest - WEEK_DAYS * DAY)
        for page in log.pages(connection, seq, state.seq):
            self._recent_events.follow(page.events, page.first - 1, state.catalog)
        self._checkpoint = connection.value("SELECT max(seq) FROM checkpoints") or 0
        self._arena, self._votes, self._hash = state, votes, digest

    def _study(self) -> Study:
        """A study; the lock is held only while the state is read, so that pages need not wait for long computations."""
        began = time.monotonic()
        with self._state:
            state, followed = self._following(), self._votes
            votes, policy, until = followed.table(state.catalog), state.policy, state.latest
        votes = weighed(votes, policy.defences)
        again = replay(votes, policy)
        ratings = ratings_of(again.end, votes, policy.rating)
        with self._state:
            shown = state.showing(ratings)
            raw = raw_ratings(shown)
        order = list(raw)
        offline, trouble = rated(votes, order, policy.intervals, swaps=len(order) <= self._pace.swaps_models)
        if offline is not None and len(order) > self._pace.swaps_models:
            offline = with_swaps(offline, self._swaps)
        days = [until - (WEEK_DAYS - day) * DAY for day in range(WEEK_DAYS)]
        looks = again.looks((at, set(order)) for at in (*days, self._now() - DAY))
        contested = contested_models(votes, policy.defences, until)
        blocks = blocks_to_swap(votes, order, policy.defences)
        swapped_by = {pair: number for pair, number in zip(pairwise(order), blocks, strict=True) if number is not None}
        result = findings_of(votes, offline, again, policy, shown.phase, raw)
        with self._state:
            days_known = tuple(look for look in looks[:-1] if look.standings) or looks[-2:-1]
            period = self._recent_events.period(days[0], shown.latest, shown, days_known, followed, votes)
            weekly = weekly_report(shown, period, result)
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
        self._studied = (time.monotonic(), time.monotonic() - began)
        return study

    def _run_slow_studies(self) -> None:
        self._parts.follow(self.snapshot, self._ended.is_set)
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
        self._swaps = {(above.model, below.model): above.votes_to_swap for above, below in pairwise(offline.rows)}
        with self._moving:
            study = self.snapshot.study
            if study.offline is not None:
                result = with_swaps(study.offline, self._swaps)
                self._publish(replace(study, offline=result, weekly=replace(study.weekly, offline=result)))

    def _publish(self, study: Study) -> None:
        with self._state:
            edition = 1 if self._snapshot is None else self._snapshot.edition + 1
            self._snapshot = snapshot_of(self._following(), self._hash, study, edition)
        if self._listener is not None:
            self._listener(study.ratings, study.seq)

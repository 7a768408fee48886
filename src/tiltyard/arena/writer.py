"""The writer: one thread that takes commands in groups and commits each group under the one lock.

    queue ─▶ group ─▶ lock ─▶ catch up ─▶ limits ─▶ each command in turn: rules ─▶ events ─▶ state ─▶ commit ─▶ answers

Whoever holds the lock is the only writer of the log, on all hosts: what the state says is exact, events get their
numbers when they are written, and nobody is told of success before the commit has returned. If the process dies before
the commit, nothing of the group happened; after it, all of it did, whether or not an answer left. If the commit itself
fails, everybody is told so, though it may have been written: a vote may safely be sent again. After any error but a
refusal the state is read again from the database.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from tiltyard.arena import voting
from tiltyard.arena.commands import (
    NO_SUCH_MATCHUP,
    AppendEvents,
    CloseExpired,
    Command,
    EnterVoter,
    ExplainVote,
    ImportVotes,
    Mailbox,
    MatchupCommand,
    ProbeWriter,
    ReadState,
    ReportAnswer,
    ServedMatchup,
    ServeMatchup,
    UndoVote,
    check_events,
)
from tiltyard.arena.events import AnyBody, Event, Expired, MatchupServed, PromptAdded, ResponseAdded
from tiltyard.arena.limits import Limiter
from tiltyard.arena.matchmaking import Chooser, FollowsLog, Matchmaker, SeenMatchups, prompt_for_pair, served_event
from tiltyard.arena.randomness import random_seed
from tiltyard.arena.running import RunningRatings
from tiltyard.arena.schedule import Reserved
from tiltyard.arena.state import ArenaState
from tiltyard.arena.store import Store, files, log, matchups
from tiltyard.arena.store.checkpoints import load_state
from tiltyard.arena.store.database import Connection
from tiltyard.arena.store.desk import add_report, note_withdrawn
from tiltyard.arena.store.forgetting import tidy
from tiltyard.arena.store.visitors import try_write
from tiltyard.arena.thread_health import ThreadHealth
from tiltyard.arena.waiting import WaitingPairs, again_for, shown_pair
from tiltyard.errors import ArenaError, StoreError

R = TypeVar("R")

_log = logging.getLogger("tiltyard.arena")

LARGEST_GROUP = 256
"""The most commands in one transaction: larger groups save nothing."""

FOLLOW_SECONDS = 1.0
"""How long a process may not have read what others wrote: after that it catches up before it takes the lock."""

TIDY_SECONDS = 30
"""How often expired matchups are closed and old counts dropped."""

FORGET_SECONDS = 6 * 3600
"""How often voters are looked for who have not been here for as long as the policy keeps them."""

EXPIRED_AT_ONCE = 500
VOTERS_KEPT = 4096
"""How many voters' seen matchups are kept in memory."""


@dataclass(frozen=True, slots=True)
class Load:
    """How busy the writing thread is: commands that wait, and how long the current group has been running."""

    waiting: int
    group_seconds: float


class Writer:
    """Runs commands. `submit` may be called from any thread; everything else here belongs to the writing thread."""

    def __init__(
        self,
        store: Store,
        chooser: Chooser,
        now: Callable[[], int],
        rng: np.random.Generator | None,
        new_id: Callable[[], str],
        idle_seconds: float,
    ) -> None:
        self._store = store
        self._chooser = chooser
        given: object = chooser
        self._follower = given if isinstance(given, FollowsLog) else None
        self._again = chooser.prompt_for_pair if isinstance(chooser, Matchmaker) else prompt_for_pair
        self._now = now
        self._rng = rng
        self._new_id = new_id
        self._idle_seconds = idle_seconds
        self.running = RunningRatings()
        self._state: ArenaState | None = None
        self._hash = ""
        self._limiter = Limiter()
        self._waiting = WaitingPairs()
        self._seen: OrderedDict[str, SeenMatchups] = OrderedDict()
        self._followed = self._tidied = self._forget_voters_at = time.monotonic()
        self._queue: queue.SimpleQueue[Command[Any] | None] = queue.SimpleQueue()
        self._closed = threading.Event()
        self._open = True
        self._began: float | None = None
        self.failures = ThreadHealth("arena writer")
        self._thread = threading.Thread(target=self._work, name="arena writer", daemon=True)
        self._thread.start()

    def submit(self, command: Command[R], mailbox: Mailbox) -> None:
        """Take a command; the mailbox gets it back when it is done."""
        if self._closed.is_set():
            raise ArenaError("the arena is closed. Open it again.")
        command.mailbox = mailbox
        self._queue.put(command)

    def load(self) -> Load:
        """How busy the thread is now."""
        began = self._began
        return Load(self._queue.qsize(), 0.0 if began is None else time.monotonic() - began)

    def close(self) -> None:
        """Finish all queued commands, then stop."""
        if not self._closed.is_set():
            self._closed.set()
            self._queue.put(None)
            self._thread.join()

    # --- The thread: groups, and what is done between them ---

    def _work(self) -> None:
        while self._open:
            try:
                group = self._gather()
                if group:
                    self._began = time.monotonic()
                    self._run(group)
                    self._began = None
                else:
                    self._store.database.check_files()
                if self._open:
                    self._idle()
            except BaseException as error:  # only this thread writes, so it must not end
                self._state = self._began = None
                self.failures.note(error)
            else:
                self.failures.clear()
        while not self._queue.empty():
            if (command := self._queue.get()) is not None:
                _fail([command], ArenaError("the arena was closed before this was done. Open it again."))

    def _gather(self) -> list[Command[Any]]:
        """Wait for a command, then take all that are queued."""
        group: list[Command[Any]] = []
        with contextlib.suppress(queue.Empty):
            self._take(self._queue.get(timeout=self._idle_seconds), group)
        return group

    def _take(self, command: Command[Any] | None, group: list[Command[Any]]) -> None:
        """Add a command to a group, and all that are queued; None is the last of the queue."""
        while command is not None:
            group.append(command)
            if len(group) >= LARGEST_GROUP or self._queue.empty():
                return
            command = self._queue.get()
        self._open = False

    def _run(self, group: list[Command[Any]], *, joined: bool = True) -> None:
        """Run a group and deliver its answers. With `joined`, what comes while it waits for the lock is run with it.

        A `StoreError` refuses the whole group; after any other error each command is run by itself.
        """
        try:
            self._execute(group, joined=joined)
        except StoreError as error:
            self._state = None
            _fail(group, error)
        except BaseException as error:
            self._state = None
            if len(group) == 1:
                _fail(group, error if isinstance(error, Exception) else RuntimeError(f"a command ended in {error!r}"))
                return
            for command in group:
                command.reset()
                self._run([command], joined=False)
        else:
            _deliver(group)

    def _idle(self) -> None:
        """Between groups: read what others wrote, and occasionally clean up."""
        passed = time.monotonic()
        if passed - self._tidied >= TIDY_SECONDS:
            self._tidied, now, days = passed, self._now(), None
            self._execute([CloseExpired(now)])
            if self._state is not None and passed >= self._forget_voters_at:
                days = self._state.policy.retention.voter_days
                self._forget_voters_at = passed + FORGET_SECONDS
            tidy(self._store, now, days)
        elif self._state is not None and passed - self._followed >= FOLLOW_SECONDS:
            self._follow()

    # --- One group ---

    def _execute(self, group: list[Command[Any]], *, joined: bool = False) -> None:
        """Run the writes in the order of their arrival and commit, then the reads. Every answer is set here.

        What waited past its deadline is refused once the group has the lock.
        """
        if self._state is None:
            self._load()
        elif time.monotonic() - self._followed >= FOLLOW_SECONDS:
            self._follow()
        if any(not isinstance(command, ReadState) for command in group):
            with self._store.database.write(lock=True) as connection:
                if joined and not self._queue.empty() and len(group) < LARGEST_GROUP:
                    self._take(self._queue.get(), group)
                _refuse_late(group)
                state = self._catch_up(connection)
                self._state = None  # until the commit it may be ahead of the database
                group_ = _Group(self, connection, state, self._now())
                group_.run([command for command in group if not isinstance(command, ReadState)])
                digest = group_.finish()
            self._state, self._hash = state, digest
        else:
            _refuse_late(group)
            self._follow()
        for command in group:
            if isinstance(command, ReadState):
                assert self._state is not None
                try:
                    command.answer(command.look(self._state))
                except Exception as error:  # it comes from the caller's function, and goes back to the caller
                    command.refuse(error)

    def _load(self) -> None:
        self._seen.clear()
        self._limiter.forget()
        self._waiting = WaitingPairs()
        with self._store.database.read() as connection:
            self._state, self._hash = load_state(connection)
            if self._follower is not None:
                self._follower.begin()
                for page in log.pages(connection, 0, self._state.seq):
                    for event in page.events:
                        self._follower.note(event)

    def _follow(self) -> None:
        """Catch up without the lock."""
        with self._store.database.read() as connection:
            self._catch_up(connection)

    def _catch_up(self, connection: Connection) -> ArenaState:
        """Apply what others have written.

        If the last event we know is no longer in the log, somebody has put another database in place: this group
        fails, and the next one reads what is there now.
        """
        state = self._state
        assert state is not None
        assert isinstance(state.votes, matchups.TableVotes)
        state.votes.begin(connection)
        if log.hash_at(connection, state.seq) != self._hash:
            self._store.database.check_files()
            raise StoreError(f"event {state.seq} of the log is another one than before. Run `tiltyard arena verify`.")
        for page in log.pages(connection, state.seq):
            for event in page.events:
                state.apply(state.seq + 1, event)
                self._note(event, state)
            self._hash = page.head
        self._followed = time.monotonic()
        return state

    def _note(self, event: Event, state: ArenaState) -> None:
        """Remember what a voter has seen, and which pairs wait."""
        body = event.body
        if self._follower is not None:
            self._follower.note(event)
        if not isinstance(body, MatchupServed):
            self._waiting.close(body, event.at)
            return
        served = state.schedule.in_flight[body.matchup_id]
        shown = shown_pair(body, served.a, served.b, served.prompt, event.at)
        self._waiting.served(body.matchup_id, shown, state.policy.waiting)
        seen = self._seen.get(body.voter)
        if seen is not None:
            seen.note((*shown.pair, shown.prompt), event.at)


class _Group:
    """One transaction: the state, what is appended to the log, and what is to be shown."""

    def __init__(self, writer: Writer, connection: Connection, state: ArenaState, now: int) -> None:
        self.writer = writer
        self.connection = connection
        self.state = state
        self.now = now
        self._events: list[Event] = []
        self._rows = matchups.NotedEvents()
        self._first = state.seq
        self._ballots: dict[str, voting.Ballot] = {}
        self._shown: list[tuple[ServeMatchup, Reserved, bool]] = []

    def run(self, commands: Sequence[Command[Any]]) -> None:
        """Check limits for all of them, read what they need at once, then do one after the other."""
        writer, connection, state = self.writer, self.connection, self.state
        writer._limiter.check(connection, commands, state.policy, self.now)
        allowed = [command for command in commands if not command.refused]
        in_flight = state.schedule.in_flight
        closed = {one.matchup_id for one in allowed if isinstance(one, MatchupCommand)} - in_flight.keys()
        if closed:
            self._ballots = matchups.closed_ballots(connection, closed)
        self._load_shown([command for command in allowed if isinstance(command, ServeMatchup)])
        for command in allowed:
            self._do(command)

    def finish(self) -> str:
        """Answer with the texts that are shown, and write everything; the hash of the last event."""
        self._answer_shown()
        digest = log.append_events(self.connection, self._events, self._first, self.writer._hash, self.writer._new_id)
        self._rows.write(self.connection)
        return digest

    def _do(self, command: Command[Any]) -> None:
        match command:
            case MatchupCommand():
                self._decide(command)
            case ServeMatchup():
                self._serve(command)
            case EnterVoter():
                self.writer._limiter.enter(self.connection, command, self.now)
            case AppendEvents():
                self._append_checked(command)
            case ImportVotes():
                self._import_votes(command)
            case CloseExpired():
                self._expire(command)
            case ProbeWriter():
                try_write(self.connection, self.now)
                command.answer(self.state.seq)

    def _append(self, body: AnyBody, at: int) -> None:
        """The next event of the log: from here on the state includes it."""
        self._append_event(Event(at, body))

    def _append_event(self, event: Event) -> None:
        self._rows.apply(self.state, event)
        self.writer._note(event, self.state)
        self._events.append(event)

    def _decide(self, command: MatchupCommand[Any]) -> None:
        """Vote, reveal, skip, undo, explain or report: the rules of `voting` decide."""
        served = self.state.schedule.in_flight.get(command.matchup_id)
        ballot = self._ballots.get(command.matchup_id) if served is None else matchups.ballot_of(served)
        if ballot is None or ballot.voter != command.voter:
            command.refuse(voting.NotYours(NO_SUCH_MATCHUP))
            return
        follower = self.writer._follower
        if isinstance(command, UndoVote) and follower is not None and follower.is_final(ballot.id):
            command.refuse(voting.TooLate("somebody has this item to decide it, so your vote stays. Go on."))
            return
        decision = command.decide(ballot, self.now, self.state)
        if isinstance(command, ReportAnswer):
            add_report(self.connection, ballot.id, command.side, command.reason, self.now)
        elif isinstance(command, ExplainVote) and decision.refusal is None:
            try:
                note_withdrawn(self.writer._store, self.connection, ballot.id)
            except StoreError as error:  # of the folder beside the database: others' votes are written
                command.refuse(error)
                return
        self._ballots[ballot.id] = decision.ballot
        if decision.body is not None:
            self._append(decision.body, self.now)
        if decision.refusal is not None:
            command.refuse(decision.refusal)
            return
        command.answer(command.reply(decision.ballot, self.now, self.state))

    def _expire(self, command: CloseExpired) -> None:
        due = [one for one in self.state.schedule.in_flight.values() if one.expires_at <= command.now]
        for served in due[:EXPIRED_AT_ONCE]:
            self._append(Expired(matchup_id=served.matchup_id), command.now)
        left = [served.voter for served in due[:EXPIRED_AT_ONCE] if served.block]
        self.writer._limiter.note_abandoned(self.connection, left, self.state.policy.limits, self.now)
        command.answer(len(due[:EXPIRED_AT_ONCE]))

    def _append_checked(self, command: AppendEvents) -> None:
        added = [body for body in command.bodies if isinstance(body, ResponseAdded)]
        try:
            check_events(command.bodies, self.state)
            self._check_answers(added)
            files.keep_files(self.connection, command.files, {body.file for body in added} - {""})
        except StoreError:
            raise
        except ArenaError as error:
            command.refuse(error)
            return
        for body in command.bodies:
            self._append(body, self.now)

    def _import_votes(self, command: ImportVotes) -> None:
        if self.state.catalog.matchups != command.before:
            message = (
                f"{self.state.catalog.matchups:,} matchups were served meanwhile. Import votes before anybody votes."
            )
            command.refuse(ArenaError(message))
            return
        for event in command.events:
            self._append_event(event)

    def _check_answers(self, added: Sequence[ResponseAdded]) -> None:
        """An answer's id always has the same content: what was voted on must stay what was shown."""
        known = self.state.catalog.answers
        there = self.writer._store.texts.get(
            self.connection, {known[body.response_id] for body in added if body.response_id in known}
        )
        taken = {body.response_id: body for body in there.values() if isinstance(body, ResponseAdded)}
        for body in added:
            first = taken.setdefault(body.response_id, body)
            if (first.text, first.file) != (body.text, body.file):
                raise ArenaError(f"response {body.response_id!r} has another text already. Give the new one a new id.")

    def _serve(self, command: ServeMatchup) -> None:
        """Choose a matchup and record it; who has as many open as they may gets the latest of them again."""
        writer, state, now = self.writer, self.state, self.now
        mine = [one for one in state.schedule.open_of(command.voter) if one.expires_at > now]
        if command.open_at_most and len(mine) >= command.open_at_most:
            self._shown.append((command, mine[-1], True))
            return
        state.show(writer.running.ratings(state))
        seed = random_seed() if writer._rng is None else int(writer._rng.integers(2**63 - 1))
        rng, seen = np.random.default_rng(seed), writer._seen[command.voter]
        again = again_for(writer._again, state, rng, seen)
        asked = (command.block_key, command.voter)
        try:
            chosen = writer._waiting.choose(
                asked, state.policy.waiting, now, again, lambda: writer._chooser(state, rng, seen)
            )
        except ArenaError as error:
            command.refuse(error)
            return
        name = writer._new_id()
        body = served_event(
            state, chosen, matchup_id=name, voter=command.voter, seed=seed, at=now, block=command.block_key
        )
        self._append(body, now)
        self._shown.append((command, state.schedule.in_flight[name], False))

    def _answer_shown(self) -> None:
        """Answer with the texts of the matchups that are shown."""
        if not self._shown:
            return
        wanted = {seq for _, one, _ in self._shown for seq in (one.asked, one.answer_a, one.answer_b)}
        texts = self.writer._store.texts.get(self.connection, wanted - {0})
        new = {number: event.body for number, event in enumerate(self._events, start=self._first + 1)}
        for command, one, again in self._shown:
            prompt, a, b = (texts.get(seq) or new[seq] for seq in (one.asked, one.answer_a, one.answer_b))
            assert isinstance(prompt, PromptAdded)
            assert isinstance(a, ResponseAdded)
            assert isinstance(b, ResponseAdded)
            command.answer(
                ServedMatchup(
                    matchup_id=one.matchup_id,
                    prompt=prompt.text,
                    response_a=a.text,
                    response_b=b.text,
                    expires_at=one.expires_at,
                    kind=a.answer_kind,
                    again=again,
                )
            )

    def _load_shown(self, serves: Sequence[ServeMatchup]) -> None:
        """Load what these voters and their blocks were shown. From then on each served event adds to it."""
        writer, connection, rules = self.writer, self.connection, self.state.policy.waiting
        seen, waiting = writer._seen, writer._waiting
        voters = {command.voter for command in serves}
        missing = [voter for voter in voters if voter not in seen or not waiting.knows_session(voter)]
        for voter, past in matchups.past_of_voters(connection, missing).items() if missing else ():
            seen[voter] = known = SeenMatchups(voter=voter)
            for one in past:
                known.note((*one.shown.pair, one.shown.prompt), one.shown.at)
            waiting.enter_session(voter, rules, [one for one in past if one.shown.block])
        for voter in voters:
            seen.move_to_end(voter)
        while len(seen) > max(VOTERS_KEPT, len(voters)):
            seen.popitem(last=False)
        for block in {command.block_key for command in serves} - {""}:
            if not waiting.knows(block):
                waiting.enter(block, rules, *matchups.past_of_block(connection, block))


def _refuse_late(group: list[Command[Any]]) -> None:
    """Take what waited past its deadline out of the group: its senders are told to come back."""
    now = time.monotonic()
    late = [command for command in group if command.deadline is not None and command.deadline < now]
    if late:
        _fail(late, voting.TooBusy("the arena is too busy. Try again in a moment."))
        group[:] = [command for command in group if command not in late]


def _fail(group: list[Command[Any]], error: Exception) -> None:
    """Refuse every command with the same message; each gets its own error, since several threads may raise it."""
    for command in group:
        command.refuse(StoreError(str(error)) if isinstance(error, StoreError) else error)
    _deliver(group)


def _deliver(group: list[Command[Any]]) -> None:
    """Deliver the commands, all those of one mailbox together, because waking a thread is expensive."""
    by_mailbox: dict[Mailbox, list[Command[Any]]] = {}
    for command in group:
        assert command.mailbox is not None
        by_mailbox.setdefault(command.mailbox, []).append(command)
    for mailbox, done in by_mailbox.items():
        try:
            mailbox.take(done)
        except Exception:  # a failing mailbox must not block the others
            _log.exception("%d answers could not be handed back", len(done))

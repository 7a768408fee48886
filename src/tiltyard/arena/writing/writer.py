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
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np

from tiltyard.arena.matchmaking.choosing import Matchmaker
from tiltyard.arena.matchmaking.matchup import Chooser, FollowsLog, SeenMatchups, served_event
from tiltyard.arena.matchmaking.waiting import WaitingPairs, again_for
from tiltyard.arena.rules import voting
from tiltyard.arena.rules.events import Event, Expired, MatchupServed, PromptAdded, ResponseAdded
from tiltyard.arena.rules.randomness import random_id, random_seed
from tiltyard.arena.rules.ratings import Ratings
from tiltyard.arena.rules.schedule import Reserved
from tiltyard.arena.rules.state import ArenaState
from tiltyard.arena.rules.thread_health import ThreadHealth
from tiltyard.arena.rules.units import clock
from tiltyard.arena.store import files, log, matchups
from tiltyard.arena.store.checkpoints import load_state
from tiltyard.arena.store.database import Connection
from tiltyard.arena.store.desk import add_report, note_withdrawn
from tiltyard.arena.store.forgetting import forget_again, tidy
from tiltyard.arena.store.store import Store
from tiltyard.arena.store.visitors import try_write
from tiltyard.arena.writing.commands import (
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
    check_events,
)
from tiltyard.arena.writing.limits import Limiter
from tiltyard.arena.writing.running import RunningRatings
from tiltyard.errors import ArenaError, StoreError

_log = logging.getLogger("tiltyard.arena")

LARGEST_GROUP = 256
"""The most commands in one transaction: larger groups save nothing."""

IDLE_SECONDS = 0.2
"""How often an idle process checks for what others have written."""

FOLLOW_SECONDS = 1.0
"""How long a process may not have read what others wrote: after that it catches up before it takes the lock."""

TIDY_SECONDS = 30
"""How often expired matchups are closed and old counts dropped."""

FORGET_SECONDS = 6 * 3600
"""How often voters are looked for who have not been here for as long as the policy keeps them."""

EXPIRED_AT_ONCE = 500
VOTERS_KEPT = 4096
"""How many voters' seen matchups are kept in memory."""


class Load(msgspec.Struct, frozen=True):
    """How busy the writing thread is: commands that wait, and how long the current group has been running."""

    waiting: int
    group_seconds: float


class Writer:
    """The writing thread of a process. `post` may be called from any thread; what begins with `_` belongs to its own.

    Parameters:
        store: The arena's database, opened.
        chooser: Chooses matchups; passed in by tests and simulations.
        now: The clock.
        rng: Seeds of choices, passed in by tests and simulations; else the system's random numbers, so that nobody can
            predict a choice from earlier ones.
        new_id: Creates ids; passed in by tests and simulations.
        idle_seconds: How often an idle writer checks for due work.
    """

    def __init__(
        self,
        store: Store,
        *,
        chooser: Chooser | None = None,
        now: Callable[[], int] = clock,
        rng: np.random.Generator | None = None,
        new_id: Callable[[], str] = random_id,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        forget_again(store)
        self.store = store
        self.now = now
        self._chooser = chooser or Matchmaker()
        self._rng = rng
        self._new_id = new_id
        self._idle_seconds = idle_seconds
        self._running = RunningRatings()
        self._memory: ArenaMemory | None = None
        """None before the first group and after an error: it is then read again."""
        self._followed = self._tidied = self._forget_voters_at = time.monotonic()
        self._queue: queue.SimpleQueue[Command[Any] | None] = queue.SimpleQueue()
        self._closed = threading.Event()
        self._open = True
        self._began: float | None = None
        self.failures = ThreadHealth("arena writer")
        """What went wrong between requests."""
        self._thread = threading.Thread(target=self._work, name="arena writer", daemon=True)
        self._thread.start()

    def post(self, command: Command[Any], mailbox: Mailbox) -> None:
        """Take a command without waiting; the mailbox gets it back when its group is committed."""
        if self._closed.is_set():
            raise ArenaError("the arena is closed. Open it again.")
        command.mailbox = mailbox
        self._queue.put(command)

    def load(self) -> Load:
        began = self._began
        return Load(self._queue.qsize(), 0.0 if began is None else time.monotonic() - began)

    def choose_by(self, ratings: Ratings, seq: int) -> None:
        """Choose matchups by these ratings, of the votes up to an event of the log, and by every later vote."""
        self._running.start_from = (ratings, seq)

    def close(self) -> None:
        """Finish what was submitted, then close the database."""
        if not self._closed.is_set():
            self._closed.set()
            self._queue.put(None)
            self._thread.join()
        self.store.close()

    # --- The thread: groups, and what is done between them ---

    def _work(self) -> None:
        while self._open:
            try:
                group: list[Command[Any]] = []
                with contextlib.suppress(queue.Empty):
                    self._take(self._queue.get(timeout=self._idle_seconds), group)
                if group:
                    self._began = time.monotonic()
                    self._run(group)
                    self._began = None
                else:
                    self.store.database.check_files()
                if self._open:
                    self._idle()
            except BaseException as error:  # only this thread writes, so it must not end
                self._memory = self._began = None
                self.failures.note(error)
            else:
                self.failures.clear()
        while not self._queue.empty():
            if (command := self._queue.get()) is not None:
                _fail([command], ArenaError("the arena was closed before this was done. Open it again."))

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
            self._memory = None
            _fail(group, error)
        except BaseException as error:
            self._memory = None
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
            self._tidied, now, retention = passed, self.now(), None
            self._execute([CloseExpired(now)])
            if self._memory is not None and passed >= self._forget_voters_at:
                retention = self._memory.state.policy.retention
                self._forget_voters_at = passed + FORGET_SECONDS
            tidy(self.store, now, retention)
        elif self._memory is not None and passed - self._followed >= FOLLOW_SECONDS:
            self._follow(self._memory)

    # --- One group ---

    def _execute(self, group: list[Command[Any]], *, joined: bool = False) -> None:
        """Run the writes in the order of their arrival and commit, then the reads. Every answer is set here.

        What waited past its deadline is refused once the group has the lock.
        """
        memory = self._memory
        if memory is None:
            with self.store.database.read() as connection:
                memory = ArenaMemory(self.store, connection, self._chooser, self._running)
        elif time.monotonic() - self._followed >= FOLLOW_SECONDS:
            self._follow(memory)
        if any(not isinstance(command, ReadState) for command in group):
            with self.store.database.write(lock=True) as connection:
                if joined and not self._queue.empty() and len(group) < LARGEST_GROUP:
                    self._take(self._queue.get(), group)
                _refuse_late(group)
                memory.catch_up(connection)
                self._followed = time.monotonic()
                self._memory = None  # until the commit it may be ahead of the database
                transaction = WriteTransaction(memory, connection, self.now(), self._new_id, self._rng)
                transaction.run([command for command in group if not isinstance(command, ReadState)])
                transaction.finish()
        else:
            _refuse_late(group)
            self._follow(memory)
        self._memory = memory
        for command in group:
            if isinstance(command, ReadState):
                try:
                    command.answer(command.look(memory.state))
                except Exception as error:  # it comes from the caller's function, and goes back to the caller
                    command.refuse(error)

    def _follow(self, memory: ArenaMemory) -> None:
        with self.store.database.read() as connection:
            memory.catch_up(connection)
        self._followed = time.monotonic()


class ArenaMemory:
    """What the writing thread keeps of the log: the state after its last event, what voters saw, which pairs wait.

    What an error leaves behind may be ahead of the database, and is thrown away as a whole.
    """

    def __init__(self, store: Store, connection: Connection, chooser: Chooser, running: RunningRatings) -> None:
        self.store = store
        self.chooser = chooser
        self.running = running
        self.again = (chooser if isinstance(chooser, Matchmaker) else Matchmaker()).prompt_for_pair
        self.limiter = Limiter()
        self.waiting = WaitingPairs()
        self.seen: OrderedDict[str, SeenMatchups] = OrderedDict()
        self.state, self.head = load_state(connection)
        """`head` is the hash of the last event that the state has."""
        follower: object = chooser
        self.follower = follower if isinstance(follower, FollowsLog) else None
        if self.follower is not None:
            self.follower.begin()
            for page in log.pages(connection, 0, self.state.seq):
                for event in page.events:
                    self.follower.note(event)

    def catch_up(self, connection: Connection) -> None:
        """Apply what others have written.

        If the last event we know is no longer in the log, somebody has put another database in place: this group
        fails, and the next one reads what is there now.
        """
        state = self.state
        assert isinstance(state.votes, matchups.TableVotes)
        state.votes.begin(connection)
        if log.hash_at(connection, state.seq) != self.head:
            self.store.database.check_files()
            raise StoreError(f"event {state.seq} of the log is another one than before. Run `tiltyard arena verify`.")
        for page in log.pages(connection, state.seq):
            for event in page.events:
                state.apply(state.seq + 1, event)
                self.note(event)
            self.head = page.head

    def note(self, event: Event) -> None:
        """Remember what an event, which the state has, says of voters and of pairs that wait."""
        body, state = event.body, self.state
        if self.follower is not None:
            self.follower.note(event)
        if not isinstance(body, MatchupServed):
            self.waiting.close(body, event.at)
            return
        served = state.schedule.in_flight[body.matchup_id]
        self.waiting.served(served, state.policy.waiting)
        seen = self.seen.get(body.voter)
        if seen is not None:
            seen.note((*served.pair, served.prompt), event.at)

    def load_shown(self, connection: Connection, serves: Sequence[ServeMatchup]) -> None:
        """Load what these voters and their blocks were shown. From then on each served event adds to it."""
        seen, waiting, rules = self.seen, self.waiting, self.state.policy.waiting
        voters = {command.voter for command in serves}
        missing = [voter for voter in voters if voter not in seen or not waiting.knows_session(voter)]
        for voter, past in matchups.past_of_voters(connection, missing).items() if missing else ():
            seen[voter] = known = SeenMatchups(voter=voter)
            for matchup in past:
                known.note((*matchup.shown.pair, matchup.shown.prompt), matchup.shown.served_at)
            waiting.enter_session(voter, rules, [matchup for matchup in past if matchup.shown.block])
        for voter in voters:
            seen.move_to_end(voter)
        while len(seen) > max(VOTERS_KEPT, len(voters)):
            seen.popitem(last=False)
        for block in {command.block_key for command in serves} - {""}:
            if not waiting.knows(block):
                waiting.enter(block, rules, *matchups.past_of_block(connection, block))


@dataclass(slots=True)
class WriteTransaction:
    """One transaction: what is appended to the log, and the matchups that are to be shown."""

    memory: ArenaMemory
    connection: Connection
    now: int
    new_id: Callable[[], str]
    rng: np.random.Generator | None
    state: ArenaState = field(init=False)
    _first: int = field(init=False)
    _events: list[Event] = field(default_factory=list)
    _rows: matchups.NotedEvents = field(default_factory=matchups.NotedEvents)
    _ballots: dict[str, voting.Ballot] = field(default_factory=dict)
    _shown: list[tuple[ServeMatchup, Reserved, bool]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.state, self._first = self.memory.state, self.memory.state.seq

    def run(self, commands: Sequence[Command[Any]]) -> None:
        """Check limits for all of them, read what they need at once, then do one after the other."""
        self.memory.limiter.check(self.connection, commands, self.state.policy, self.now)
        allowed = [command for command in commands if not command.refused]
        ids = {command.matchup_id for command in allowed if isinstance(command, MatchupCommand)}
        if closed := ids - self.state.schedule.in_flight.keys():
            self._ballots = matchups.closed_ballots(self.connection, closed)
        self.memory.load_shown(self.connection, [command for command in allowed if isinstance(command, ServeMatchup)])
        for command in allowed:
            match command:
                case MatchupCommand():
                    self._decide(command)
                case ServeMatchup():
                    self._serve(command)
                case EnterVoter():
                    self.memory.limiter.enter(self.connection, command, self.now)
                case AppendEvents():
                    self._append_checked(command)
                case ImportVotes():
                    served = self.state.catalog.matchups
                    if served != command.before:
                        message = f"{served:,} matchups were served meanwhile. Import votes before anybody votes."
                        command.refuse(ArenaError(message))
                    else:
                        for event in command.events:
                            self._append(event)
                case CloseExpired():
                    self._expire(command)
                case ProbeWriter():
                    try_write(self.connection, self.now)
                    command.answer(self.state.seq)

    def finish(self) -> None:
        """Answer with the texts that are shown, and write everything."""
        self._answer_shown()
        memory = self.memory
        memory.head = log.append_events(self.connection, self._events, self._first, memory.head, self.new_id)
        self._rows.write(self.connection)

    def _append(self, event: Event) -> None:
        """The next event of the log: from here on the state includes it."""
        self._rows.apply(self.state, event)
        self.memory.note(event)
        self._events.append(event)

    def _decide(self, command: MatchupCommand[Any]) -> None:
        """Vote, reveal, skip, undo, explain or report: the rules of `voting` decide."""
        served = self.state.schedule.in_flight.get(command.matchup_id)
        ballot = self._ballots.get(command.matchup_id) if served is None else matchups.ballot_of(served)
        if ballot is None or ballot.voter != command.voter:
            command.refuse(voting.NotYours(NO_SUCH_MATCHUP))
            return
        decision = command.decide(ballot, self.now, self.state)
        if decision.body is not None and self.memory.follower is not None:
            objection = self.memory.follower.objection(decision.body)
            decision = decision if objection is None else voting.Decision(ballot, refusal=objection)
        if isinstance(command, ReportAnswer):
            add_report(self.connection, ballot.id, command.side, command.reason, self.now)
        elif isinstance(command, ExplainVote) and decision.refusal is None:
            try:
                note_withdrawn(self.memory.store, self.connection, ballot.id)
            except StoreError as error:  # of the folder beside the database: others' votes are written
                command.refuse(error)
                return
        self._ballots[ballot.id] = decision.ballot
        if decision.body is not None:
            self._append(Event(self.now, decision.body))
        if decision.refusal is not None:
            command.refuse(decision.refusal)
            return
        command.answer(command.reply(decision.ballot, self.now, self.state))

    def _expire(self, command: CloseExpired) -> None:
        due = [served for served in self.state.schedule.in_flight.values() if served.expires_at <= command.now]
        del due[EXPIRED_AT_ONCE:]
        for served in due:
            self._append(Event(command.now, Expired(matchup_id=served.matchup_id)))
        left = [served.voter for served in due if served.block]
        self.memory.limiter.note_abandoned(self.connection, left, self.state.policy.limits, self.now)
        command.answer(len(due))

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
            self._append(Event(self.now, body))

    def _check_answers(self, added: Sequence[ResponseAdded]) -> None:
        """An answer's id always has the same content: what was voted on must stay what was shown."""
        known = self.state.catalog.answers
        there = self.memory.store.texts.get(
            self.connection, {known[body.response_id] for body in added if body.response_id in known}
        )
        taken = {body.response_id: body for body in there.values() if isinstance(body, ResponseAdded)}
        for body in added:
            first = taken.setdefault(body.response_id, body)
            if (first.text, first.file) != (body.text, body.file):
                raise ArenaError(f"response {body.response_id!r} has another text already. Give the new one a new id.")

    def _serve(self, command: ServeMatchup) -> None:
        """Choose a matchup and record it; who has as many open as they may gets the latest of them again."""
        memory, state, now = self.memory, self.state, self.now
        mine = [served for served in state.schedule.open_of(command.voter) if served.expires_at > now]
        if command.open_at_most and len(mine) >= command.open_at_most:
            self._shown.append((command, mine[-1], True))
            return
        state.show(memory.running.ratings(state))
        seed = random_seed() if self.rng is None else int(self.rng.integers(2**63 - 1))
        rng, seen = np.random.default_rng(seed), memory.seen[command.voter]
        again = again_for(memory.again, state, rng, seen)
        asked = (command.block_key, command.voter)
        try:
            chosen = memory.waiting.choose(
                asked, state.policy.waiting, now, again, lambda: memory.chooser(state, rng, seen)
            )
        except ArenaError as error:
            command.refuse(error)
            return
        name = self.new_id()
        body = served_event(
            state, chosen, matchup_id=name, voter=command.voter, seed=seed, at=now, block=command.block_key
        )
        self._append(Event(now, body))
        self._shown.append((command, state.schedule.in_flight[name], False))

    def _answer_shown(self) -> None:
        if not self._shown:
            return
        wanted = {seq for _, served, _ in self._shown for seq in (served.asked, served.answer_a, served.answer_b)}
        texts = self.memory.store.texts.get(self.connection, wanted - {0})
        new = {number: event.body for number, event in enumerate(self._events, start=self._first + 1)}
        for command, served, again in self._shown:
            prompt, a, b = (texts.get(seq) or new[seq] for seq in (served.asked, served.answer_a, served.answer_b))
            assert isinstance(prompt, PromptAdded)
            assert isinstance(a, ResponseAdded)
            assert isinstance(b, ResponseAdded)
            command.answer(
                ServedMatchup(
                    matchup_id=served.matchup_id,
                    prompt=prompt.text,
                    response_a=a.text,
                    response_b=b.text,
                    expires_at=served.expires_at,
                    kind=a.answer_kind,
                    again=again,
                )
            )


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

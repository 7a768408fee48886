"""How the writing thread runs a group of commands: in one transaction, causes before effects."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import cast

import msgspec
import numpy as np

from tiltyard.arena import voting
from tiltyard.arena.admission import Admission
from tiltyard.arena.catalog import Catalog
from tiltyard.arena.commands import (
    NO_SUCH_MATCHUP,
    AppendEvents,
    CloseExpired,
    Command,
    ExplainVote,
    MatchupCommand,
    ProbeWriter,
    ReadState,
    ServedMatchup,
    ServeMatchup,
    check_events,
)
from tiltyard.arena.events import AnyBody, Event, MatchupServed, PromptAdded, ResponseAdded
from tiltyard.arena.matchmaking import Chooser, Matchmaker, SeenMatchups, prompt_for_pair, served_event
from tiltyard.arena.randomness import random_seed
from tiltyard.arena.rating_track import Ratings
from tiltyard.arena.state import ArenaState
from tiltyard.arena.store import Store, files, log, matchup_table
from tiltyard.arena.store.database import Connection
from tiltyard.arena.store.explanations import keep_comment
from tiltyard.arena.store.matchup_table import OpenMatchup, open_of
from tiltyard.arena.store.replica import Replica
from tiltyard.arena.store.texts import TextCache, responses_taken
from tiltyard.arena.store.visitors import tidy_visitors
from tiltyard.arena.store.witnessing import record_hourly
from tiltyard.arena.visitor_rules import WaitingRules
from tiltyard.arena.waiting_pairs import WaitingPairs, again_for, shown_pair
from tiltyard.errors import ArenaError, StoreError

TIDY_SECONDS = 30
"""How often expired matchups are closed and old counts dropped."""

FORGET_SECONDS = 6 * 3600
"""How often voters are looked for who have not been here for as long as the policy keeps them."""

EXPIRED_AT_ONCE = 500
VOTERS_KEPT = 4096
"""How many voters' seen matchups are kept in memory."""


class Executor:
    """Runs groups of commands. It and everything it holds are used by one thread only."""

    def __init__(
        self,
        store: Store,
        chooser: Chooser,
        now: Callable[[], int],
        rng: np.random.Generator | None,
        new_id: Callable[[], str],
    ) -> None:
        self._store = store
        self._chooser = chooser
        self._again = chooser.prompt_for_pair if isinstance(chooser, Matchmaker) else prompt_for_pair
        self._now = now
        self._rng = rng
        self._new_id = new_id
        self._replica: Replica | None = None
        self._texts = TextCache()
        self._admission = Admission()
        self._waiting = WaitingPairs()
        self._seen: OrderedDict[str, SeenMatchups] = OrderedDict()
        self._tidied = self._forget_voters_at = time.monotonic()
        self.published: Ratings | None = None
        """The ratings to choose matchups by; None: the running ones."""

    def execute(self, group: Sequence[Command[object]]) -> None:
        """Run a group of commands, commit it, and set every answer. After an error, nothing has changed."""
        replica = self._loaded()
        writes = [command for command in group if not isinstance(command, ReadState)]
        if writes:
            with self._store.database.write() as connection:
                self._replica = None  # until the commit the state may be ahead of the database
                self._write(connection, replica, writes)
            self._replica = replica
        reads = [command for command in group if isinstance(command, ReadState)]
        if reads:
            self._follow(replica, wait=True)
        for command in reads:
            _look(command, replica)

    def idle(self) -> None:
        """Between groups: read what others wrote, and occasionally clean up. After an error the log is read again."""
        try:
            if time.monotonic() - self._tidied >= TIDY_SECONDS:
                self._tidied, now = time.monotonic(), self._now()
                self.execute([cast("Command[object]", CloseExpired(now))])
                self._tidy(now)
                record_hourly(self._store, now)
            elif self._replica is not None:
                self._follow(self._replica, wait=False)
        except BaseException:
            self._replica = None
            raise

    def _tidy(self, now: int) -> None:
        """Delete what is known about visitors for longer than needed; old voters are looked for every few hours."""
        days = None
        if self._replica is not None and time.monotonic() >= self._forget_voters_at:
            days = self._replica.state.policy.retention.voter_days
            self._forget_voters_at = time.monotonic() + FORGET_SECONDS
        with self._store.database.write() as connection:
            tidy_visitors(connection, now, days)

    def _loaded(self) -> Replica:
        if self._replica is None:
            self._seen.clear()
            self._admission.forget()
            self._replica = self._store.load()
            self._waiting = WaitingPairs()
            self._replica.on_matchup = self._note_matchup
        return self._replica

    def _follow(self, replica: Replica, *, wait: bool) -> None:
        self._replica = None
        self._store.follow(replica, wait=wait)
        self._replica = replica

    def _write(self, connection: Connection, replica: Replica, group: Sequence[Command[object]]) -> None:
        """Write what the commands ask for, in one transaction.

        Votes, skips and undos come first: they may concern matchups that other processes served, whose events are at
        least pending by now.
        """
        now = self._now()
        appends = [command for command in group if isinstance(command, AppendEvents)]
        locked = self._store.begin(connection, replica, wait=bool(appends))
        rules = replica.state.policy.entry
        self._admission.check(connection, group, rules, now)
        decided = self._decide_matchups(connection, replica, group, now)
        if locked:
            self._store.chain_pending(connection, replica)
        self._record_events(connection, replica, decided, locked=locked)
        for append in appends:
            self._append(connection, replica, append, now)
        self._find_open(connection, group, now)
        self._serve(connection, replica, group, now, locked=locked)
        self._admission.enter(connection, group, now)
        self._probe(connection, replica, group, now)

    def _decide_matchups(
        self, connection: Connection, replica: Replica, group: Sequence[Command[object]], now: int
    ) -> list[Event]:
        """Decide about votes, reveals, skips, undos and expiries, and write the resulting matchups."""
        steps = [command for command in group if isinstance(command, MatchupCommand) and not command.refused]
        expires = [command for command in group if isinstance(command, CloseExpired)]
        due = {command: matchup_table.due_ballots(connection, command.now, EXPIRED_AT_ONCE) for command in expires}
        names = [step.matchup_id for step in steps] + [name for ids in due.values() for name in ids]
        if not names:
            for command in expires:
                command.answer(0)
            return []
        before = matchup_table.lock_ballots(connection, names)
        after, events = dict(before), list[Event]()
        for command, ids in due.items():
            decisions = [voting.expire(after[name], command.now) for name in ids]
            after.update({decision.ballot.id: decision.ballot for decision in decisions})
            happened = [Event(command.now, decision.body) for decision in decisions if decision.body is not None]
            events += happened
            left = [decision.ballot.voter for decision in decisions if decision.body and decision.ballot.block]
            self._admission.note_abandoned(connection, left, replica.state.policy.limits, now)
            command.answer(len(happened))
        for step in steps:
            event = _decide(step, after, replica, now)
            if event is not None:
                events.append(event)
            if isinstance(step, ExplainVote) and not step.refused:
                keep_comment(connection, step, now)
        matchup_table.write_ballots(connection, before, after)
        for event in events:
            self._waiting.close(event.body, event.at)
        return events

    def _record_events(
        self, connection: Connection, replica: Replica, events: Sequence[Event], *, locked: bool
    ) -> None:
        """Write events: with their sequence number if this process holds the lock, else as pending."""
        written = log.write_events(connection, events)
        if locked:
            replica.project(connection, written)
        else:
            log.leave_pending(connection, written)

    def _append(self, connection: Connection, replica: Replica, append: AppendEvents, now: int) -> None:
        bodies = append.bodies
        try:
            check_events(bodies, replica.state)
            added = [body for body in bodies if isinstance(body, ResponseAdded)]
            _check_responses(connection, added)
            files.keep_files(connection, append.files, {body.file for body in added} - {""})
        except StoreError:
            raise
        except ArenaError as error:
            append.refuse(error)
            return
        self._record_events(connection, replica, [Event(now, self._salted(body)) for body in bodies], locked=True)
        for body in bodies:
            if isinstance(body, PromptAdded):
                self._texts.forget(("prompt", body.prompt_id))

    def _salted(self, body: AnyBody) -> AnyBody:
        """The event as it is written: an answer gets a random salt, so that its hash does not reveal its author."""
        if isinstance(body, ResponseAdded) and not body.salt:
            return msgspec.structs.replace(body, salt=self._new_id())
        return body

    def _find_open(self, connection: Connection, group: Sequence[Command[object]], now: int) -> None:
        """Find the voters who have as many matchups open as they may: they get one of those, or one of this group."""
        asked = [
            command
            for command in group
            if isinstance(command, ServeMatchup) and command.open_at_most and not command.refused
        ]
        if not asked:
            return
        known: dict[str, list[OpenMatchup | ServeMatchup]] = {
            voter: [*result] for voter, result in open_of(connection, [command.voter for command in asked], now).items()
        }
        for command in asked:
            result = known[command.voter]
            if len(result) >= command.open_at_most:
                command.same_as = result[-1]
            else:
                result.append(command)

    def _serve(
        self, connection: Connection, replica: Replica, group: Sequence[Command[object]], now: int, *, locked: bool
    ) -> None:
        """Choose and reserve one matchup after the other, then write them all."""
        asked = [command for command in group if isinstance(command, ServeMatchup) and not command.refused]
        serves = [command for command in asked if command.same_as is None]
        if serves:
            self._load_shown(connection, serves, replica.state.policy.waiting)
        chosen = {command: body for command in serves if (body := self._choose(command, replica, now)) is not None}
        served = list(chosen.values())
        if served:
            matchup_table.serve_ballots(connection, [(body, now) for body in served], replica.state.catalog)
            self._record_events(connection, replica, [Event(now, body) for body in served], locked=locked)
        shown: dict[ServeMatchup, MatchupServed | OpenMatchup] = {**chosen}
        for command in asked:
            other = command.same_as
            if isinstance(other, ServeMatchup):
                if other.refused:
                    command.refuse_like(other)
                else:
                    shown[command] = chosen[other]
            elif other is not None:
                shown[command] = other
        self._show(connection, shown, replica.state.catalog)

    def _show(
        self, connection: Connection, shown: dict[ServeMatchup, MatchupServed | OpenMatchup], catalog: Catalog
    ) -> None:
        """Answer with the texts of these matchups."""
        texts = self._texts.get(
            connection,
            [("prompt", body.prompt_id) for body in shown.values()]
            + [("response", name) for body in shown.values() for name in (body.response_a, body.response_b)],
        )
        for command, body in shown.items():
            command.answer(
                ServedMatchup(
                    matchup_id=body.matchup_id,
                    prompt=texts["prompt", body.prompt_id],
                    response_a=texts["response", body.response_a],
                    response_b=texts["response", body.response_b],
                    expires_at=body.expires_at,
                    kind=catalog.kind(catalog.prompt(body.prompt_id)),
                    again=command.same_as is not None,
                )
            )

    def _choose(self, command: ServeMatchup, replica: Replica, now: int) -> MatchupServed | None:
        """A reserved matchup for one voter; None if there is nothing to serve, and the voter is told why."""
        state = replica.state
        state.show(self.published)
        seed = random_seed() if self._rng is None else int(self._rng.integers(2**63 - 1))
        rng, seen = np.random.default_rng(seed), self._seen[command.voter]
        again = again_for(self._again, state, rng, seen)
        asked, rules = (command.block_key, command.voter), state.policy.waiting
        try:
            chosen = self._waiting.choose(asked, rules, now, again, lambda: self._chooser(state, rng, seen))
        except ArenaError as error:
            command.refuse(error)
            return None
        body = served_event(
            *(state, chosen), matchup_id=self._new_id(), voter=command.voter, seed=seed, at=now, block=command.block_key
        )
        state.reserve(body)
        self._note_matchup(Event(now, body), state)
        return body

    def _load_shown(self, connection: Connection, serves: Sequence[ServeMatchup], rules: WaitingRules) -> None:
        """Load what these voters and their blocks were shown. From then on each served event adds to it."""
        voters = {command.voter for command in serves}
        missing = [voter for voter in voters if voter not in self._seen or not self._waiting.knows_session(voter)]
        for voter, past in matchup_table.past_of(connection, missing).items() if missing else ():
            self._seen[voter] = seen = SeenMatchups()
            for one in past:
                seen.note((*one.shown.pair, one.shown.prompt), one.shown.at)
            self._waiting.enter_session(voter, rules, [one for one in past if one.shown.block])
        for voter in voters:
            self._seen.move_to_end(voter)
        while len(self._seen) > max(VOTERS_KEPT, len(voters)):
            self._seen.popitem(last=False)
        for block in {command.block_key for command in serves} - {""}:
            if not self._waiting.knows(block):
                matchup_table.load_waiting(connection, block, self._waiting, rules)

    def _note_matchup(self, event: Event, state: ArenaState) -> None:
        """Remember what a voter has seen, and which pairs wait; the same event may be noted twice."""
        body = event.body
        if not isinstance(body, MatchupServed):
            self._waiting.close(body, event.at)
            return
        catalog = state.catalog
        numbers = catalog.model(body.model_a), catalog.model(body.model_b), catalog.prompt(body.prompt_id)
        shown = shown_pair(body, *numbers, event.at)
        self._waiting.served(body.matchup_id, shown, state.policy.waiting)
        seen = self._seen.get(body.voter)
        if seen is not None:
            seen.note((*shown.pair, shown.prompt), event.at)

    def _probe(self, connection: Connection, replica: Replica, group: Sequence[Command[object]], now: int) -> None:
        """Write a dummy row, once for all probes of the group."""
        probes = [command for command in group if isinstance(command, ProbeWriter)]
        if probes:
            self._admission.usage.probe(connection, now)
        for probe in probes:
            probe.answer(replica.state.seq)


def _decide(step: MatchupCommand[object], rows: dict[str, voting.Ballot], replica: Replica, now: int) -> Event | None:
    """The resulting event, if any; stores the changed row and the answer."""
    ballot = rows.get(step.matchup_id)
    if ballot is None or ballot.voter != step.voter:
        step.refuse(voting.NotYours(NO_SUCH_MATCHUP))
        return None
    decision = step.decide(ballot, now, replica.state)
    rows[ballot.id] = decision.ballot
    if decision.refusal is not None:
        step.refuse(decision.refusal)
    else:
        step.answer(step.reply(decision.ballot, now, replica.state))
    return None if decision.body is None else Event(now, decision.body)


def _check_responses(connection: Connection, added: Sequence[ResponseAdded]) -> None:
    """A response id always has the same content: what was voted on must stay what was shown."""
    taken = responses_taken(connection, added)
    for response in added:
        content = (response.text, response.file)
        if taken.setdefault(response.response_id, content) != content:
            raise ArenaError(f"response {response.response_id!r} has another text already. Give the new one a new id.")


def _look(command: ReadState[object], replica: Replica) -> None:
    try:
        command.answer(command.look(replica.state))
    except Exception as error:  # the error comes from the caller's function, and goes back to the caller
        command.refuse(error)

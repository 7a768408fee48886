"""What the writing thread does with a group of requests: one transaction, in an order that keeps causes first."""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import TYPE_CHECKING, cast

import msgspec
import numpy as np

from tiltyard.arena import asks, voting
from tiltyard.arena.admission import Admission
from tiltyard.arena.events import Event, MatchupServed, PromptAdded, ResponseAdded
from tiltyard.arena.matchmaking import Past
from tiltyard.arena.store import ballots, log
from tiltyard.arena.store.texts import Texts, responses_taken
from tiltyard.arena.store.visitors import Usage, enter_voter, known_cookies
from tiltyard.arena.tallies import pair_of
from tiltyard.errors import ArenaError, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import sqlalchemy as sa

    from tiltyard.arena.catalog import Catalog
    from tiltyard.arena.events import AnyBody
    from tiltyard.arena.group_commit import Ask
    from tiltyard.arena.store import Store
    from tiltyard.arena.store.replica import Replica
    from tiltyard.arena.store.visitors import Quota

TIDY_SECONDS = 30
"""How often expired matchups are closed and old counts dropped."""

EXPIRED_AT_ONCE = 500
VOTERS_KEPT = 4096
"""Voters whose past is kept in memory."""


class Worker:
    """Executes groups of requests. It belongs to one thread, and so does everything it holds."""

    def __init__(
        self,
        store: Store,
        chooser: asks.Chooser,
        now: Callable[[], int],
        rng: np.random.Generator,
        new_id: Callable[[], str],
    ) -> None:
        self._store = store
        self._chooser = chooser
        self._now = now
        self._rng = rng
        self._new_id = new_id
        self._replica: Replica | None = None
        self._texts = Texts()
        self._usage = Usage()
        self._pasts: OrderedDict[str, Past] = OrderedDict()
        self._tidied = time.monotonic()

    def execute(self, group: Sequence[Ask[object]]) -> None:
        """Run a group, commit it, and leave every request its answer. After an error nothing of it has happened."""
        replica = self._loaded()
        writes = [ask for ask in group if not isinstance(ask, asks.Read)]
        if writes:
            with self._store.database.write() as connection:
                self._replica = None  # until the commit the state may be ahead of the database
                self._write(connection, replica, writes)
            self._replica = replica
        reads = [ask for ask in group if isinstance(ask, asks.Read)]
        if reads:
            self._follow(replica, wait=True)
        for ask in reads:
            _look(ask, replica)

    def idle(self) -> None:
        """Between groups: take in what others wrote, and now and then tidy up. After an error the log is read anew."""
        try:
            if time.monotonic() - self._tidied >= TIDY_SECONDS:
                self._tidied, now = time.monotonic(), self._now()
                self.execute([cast("Ask[object]", asks.Expire(now))])
                with self._store.database.write() as connection:
                    self._usage.tidy(connection, now)
            elif self._replica is not None:
                self._follow(self._replica, wait=False)
        except BaseException:
            self._replica = None
            raise

    def _loaded(self) -> Replica:
        if self._replica is None:
            self._pasts.clear()
            self._replica = self._store.load()
            self._replica.on_served = self._note_served
        return self._replica

    def _follow(self, replica: Replica, *, wait: bool) -> None:
        self._replica = None
        self._store.follow(replica, wait=wait)
        self._replica = replica

    def _write(self, connection: sa.Connection, replica: Replica, group: Sequence[Ask[object]]) -> None:
        """Steps first: they may rest on matchups of other processes, which are then pending at the latest now."""
        now = self._now()
        appends = [ask for ask in group if isinstance(ask, asks.Append)]
        locked = self._store.begin(connection, replica, wait=bool(appends))
        self._check_quotas(connection, group, now)
        stepped = self._steps(connection, replica, group, now)
        if locked:
            self._store.take_pending(connection, replica)
        self._happened(connection, replica, stepped, locked=locked)
        for append in appends:
            self._append(connection, replica, append, now)
        self._serve(connection, replica, group, now, locked=locked)
        entering = [ask for ask in group if isinstance(ask, asks.Enter) and not ask.refused]
        for ask in sorted(entering, key=lambda ask: ask.cookie_hash):  # in one order: workers may wait for each other
            ask.answer(enter_voter(connection, ask.cookie_hash, ask.address, now))
        probes = [ask for ask in group if isinstance(ask, asks.Probe)]
        if probes:
            self._usage.probe(connection, now)
        for probe in probes:
            probe.answer(replica.state.seq)

    def _happened(self, connection: sa.Connection, replica: Replica, events: Sequence[Event], *, locked: bool) -> None:
        written = log.write_events(connection, events)
        if locked:
            replica.project(connection, written)
        else:
            log.leave_pending(connection, written)

    def _steps(
        self, connection: sa.Connection, replica: Replica, group: Sequence[Ask[object]], now: int
    ) -> list[Event]:
        """Decide about matchups, and write what became of them."""
        steps = [ask for ask in group if isinstance(ask, asks.Step) and not ask.refused]
        expires = [ask for ask in group if isinstance(ask, asks.Expire)]
        due = {ask: ballots.due_ballots(connection, ask.now, EXPIRED_AT_ONCE) for ask in expires}
        names = [step.matchup_id for step in steps] + [name for ids in due.values() for name in ids]
        if not names:
            for ask in expires:
                ask.answer(0)
            return []
        before = ballots.lock_ballots(connection, names)
        after, events = dict(before), list[Event]()
        for ask, ids in due.items():
            decisions = [voting.expire(after[name], ask.now) for name in ids]
            after.update({decision.ballot.id: decision.ballot for decision in decisions})
            happened = [Event(ask.now, decision.body) for decision in decisions if decision.body is not None]
            events += happened
            ask.answer(len(happened))
        for step in steps:
            event = _decide(step, after, replica, now)
            if event is not None:
                events.append(event)
        ballots.write_ballots(connection, before, after)
        return events

    def _salted(self, body: AnyBody) -> AnyBody:
        """The event as it is written: an answer with a salt of its own, so that its hash does not tell its author."""
        if isinstance(body, ResponseAdded) and not body.salt:
            return msgspec.structs.replace(body, salt=self._new_id())
        return body

    def _append(self, connection: sa.Connection, replica: Replica, append: asks.Append, now: int) -> None:
        bodies = append.bodies
        try:
            Admission(replica.state).check(bodies)
            _check_responses(connection, [body for body in bodies if isinstance(body, ResponseAdded)])
        except StoreError:
            raise
        except ArenaError as error:
            append.refuse(error)
            return
        self._happened(connection, replica, [Event(now, self._salted(body)) for body in bodies], locked=True)
        for body in bodies:
            if isinstance(body, PromptAdded):
                self._texts.forget(("prompt", body.prompt_id))

    def _serve(
        self, connection: sa.Connection, replica: Replica, group: Sequence[Ask[object]], now: int, *, locked: bool
    ) -> None:
        """Choose and reserve one matchup after the other, then write them all."""
        serves = [ask for ask in group if isinstance(ask, asks.Serve) and not ask.refused]
        if not serves:
            return
        self._load_pasts(connection, {ask.voter for ask in serves})
        chosen = [(ask, body) for ask in serves if (body := self._choose(ask, replica, now)) is not None]
        served = [body for _, body in chosen]
        ballots.serve_ballots(connection, [(body, now) for body in served], replica.state.catalog)
        self._happened(connection, replica, [Event(now, body) for body in served], locked=locked)
        texts = self._texts.get(
            connection,
            [("prompt", body.prompt_id) for body in served]
            + [("response", name) for body in served for name in (body.response_a, body.response_b)],
        )
        for ask, body in chosen:
            ask.answer(
                asks.Served(
                    matchup_id=body.matchup_id,
                    prompt=texts["prompt", body.prompt_id],
                    response_a=texts["response", body.response_a],
                    response_b=texts["response", body.response_b],
                    expires_at=body.expires_at,
                )
            )

    def _choose(self, ask: asks.Serve, replica: Replica, now: int) -> MatchupServed | None:
        """A matchup for one voter, reserved; None where there is nothing to serve, and the voter is told why."""
        state, catalog = replica.state, replica.state.catalog
        seed = int(self._rng.integers(2**63 - 1))
        try:
            chosen = self._chooser(state, np.random.default_rng(seed), self._pasts[ask.voter])
        except ArenaError as error:
            ask.refuse(error)
            return None
        body = asks.served_event(state, chosen, matchup_id=self._new_id(), voter=ask.voter, seed=seed, at=now)
        state.reserve(body)
        self._note_served(body, now, catalog)
        return body

    def _check_quotas(self, connection: sa.Connection, group: Sequence[Ask[object]], now: int) -> None:
        """Refuse what is over a limit, and count the rest. Entering counts once for a cookie that nobody knows yet."""
        limited = [ask for ask in group if isinstance(ask, asks.Serve | asks.Step | asks.Enter) and ask.quotas]
        if not limited:
            return
        used = self._usage.used(connection, [quota for ask in limited for quota in ask.quotas], now)
        entered = known_cookies(connection, [ask.cookie_hash for ask in limited if isinstance(ask, asks.Enter)])
        noted: list[Quota] = []
        for ask in limited:
            if isinstance(ask, asks.Enter) and ask.cookie_hash in entered:
                continue
            over = next((quota for quota in ask.quotas if used[quota.name] >= quota.most), None)
            if over is not None:
                wait = self._usage.free_in(connection, over, now)
                said = f"{over.most} in {over.seconds} seconds is the limit. Try again in {wait} seconds."
                ask.refuse(voting.TooMany(said, wait))
                continue
            noted += ask.quotas
            if isinstance(ask, asks.Enter):
                entered.add(ask.cookie_hash)
            used.update(quota.name for quota in ask.quotas)
        self._usage.note(connection, noted, now)

    def _load_pasts(self, connection: sa.Connection, voters: set[str]) -> None:
        """Bring the pasts of these voters into memory. From then on each served event adds to them."""
        missing = [voter for voter in voters if voter not in self._pasts]
        if missing:
            self._pasts.update((voter, Past(seen)) for voter, seen in ballots.past_of(connection, missing).items())
        for voter in voters:
            self._pasts.move_to_end(voter)
        while len(self._pasts) > max(VOTERS_KEPT, len(voters)):
            self._pasts.popitem(last=False)

    def _note_served(self, body: MatchupServed, at: int, catalog: Catalog) -> None:
        past = self._pasts.get(body.voter)
        if past is not None:
            pair = pair_of(catalog.model(body.model_a), catalog.model(body.model_b))
            past.note((*pair, catalog.prompt(body.prompt_id)), at)


def _decide(step: asks.Step[object], rows: dict[str, voting.Ballot], replica: Replica, now: int) -> Event | None:
    """What happened, if anything; the row and the answer are left where they belong."""
    ballot = rows.get(step.matchup_id)
    if ballot is None or ballot.voter != step.voter:
        step.refuse(voting.NotYours("there is no such matchup for this voter. Ask for one."))
        return None
    decision = step.decide(ballot, now, replica.state)
    rows[ballot.id] = decision.ballot
    if decision.refusal is not None:
        step.refuse(decision.refusal)
    else:
        step.answer(step.say(decision.ballot, now, replica.state))
    return None if decision.body is None else Event(now, decision.body)


def _check_responses(connection: sa.Connection, added: Sequence[ResponseAdded]) -> None:
    """An id stands for one text for ever: what was voted on must stay what was shown."""
    texts = responses_taken(connection, added)
    for response in added:
        if texts.setdefault(response.response_id, response.text) != response.text:
            raise ArenaError(f"response {response.response_id!r} has another text already. Give the new one a new id.")


def _look(ask: asks.Read[object], replica: Replica) -> None:
    try:
        ask.answer(ask.look(replica.state))
    except Exception as error:  # it is the caller's function, and goes back to the caller
        ask.refuse(error)

"""The engine of a live arena: serves matchups, takes votes, and answers only for what is committed.

An `Arena` is safe to call from many threads. Behind it one thread owns the state and writes (`group_commit`); several
processes may run an `Arena` each on one PostgreSQL database.
"""

from __future__ import annotations

import re
import secrets
import time
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from tiltyard.arena import asks, voting
from tiltyard.arena.group_commit import GroupCommit
from tiltyard.arena.store import Store
from tiltyard.arena.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType
    from typing import Self

    from tiltyard.arena.asks import Chooser, Receipt, Served
    from tiltyard.arena.events import AnyBody, Choice
    from tiltyard.arena.state import ArenaState
    from tiltyard.arena.store.visitors import Quota
    from tiltyard.arena.voting import Ballot

R = TypeVar("R")

IDLE_SECONDS = 0.2
"""How often a process looks for what others have written, when nobody asks it anything."""

SAFE_ID = re.compile(r"[A-Za-z0-9_.:-]{1,200}\Z")
"""Keys of voters and matchups: what cannot be one is refused before it reaches the database."""


def clock() -> int:
    """The time in microseconds since 1970."""
    return time.time_ns() // 1000


def random_id() -> str:
    """A name that nobody can guess: 144 random bits."""
    return secrets.token_urlsafe(18)


class Arena:
    """An arena that can be voted in. `chooser`, `now`, `rng` and `new_id` are handed in by tests and simulations."""

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
        self.store = store
        self._now = now
        self._worker = Worker(store, chooser or _default_chooser(), now, rng or np.random.default_rng(), new_id)
        self._commits = GroupCommit(self._worker.execute, self._worker.idle, idle_seconds)

    @classmethod
    def open(cls, url: str) -> Arena:
        """The arena at a URL, ready to serve."""
        return cls(Store.open(url))

    def serve(self, voter: str, quotas: Sequence[Quota] = ()) -> Served:
        """A matchup for this voter, kept and reserved before it is shown. May raise `TooMany`."""
        _check_id(voter)
        return self._commits.ask(asks.Serve(voter, quotas)).result()

    def vote(self, matchup_id: str, voter: str, choice: Choice, quotas: Sequence[Quota] = ()) -> Receipt:
        """The names, once the vote is on the disk; the same vote again gets the same answer.

        Raises `NotYours`, `ChoiceDiffers`, `Gone` or `TooMany`; `StoreError` where nothing could be confirmed.
        """

        def decide(ballot: Ballot, at: int, state: ArenaState) -> voting.Decision:  # noqa: ARG001
            return voting.vote(ballot, choice, at)

        return self._step(asks.Step(matchup_id, voter, decide, _receipt, quotas))

    def skip(self, matchup_id: str, voter: str) -> None:
        """Pass a matchup, which nobody can vote on then. Raises `NotYours`, `TooLate` or `Gone`."""

        def decide(ballot: Ballot, at: int, state: ArenaState) -> voting.Decision:  # noqa: ARG001
            return voting.skip(ballot, at)

        self._step(asks.Step(matchup_id, voter, decide, _nothing))

    def undo(self, matchup_id: str, voter: str) -> None:
        """Take a fresh vote back; the matchup stays burnt. Raises `NotYours` or `TooLate`."""

        def decide(ballot: Ballot, at: int, state: ArenaState) -> voting.Decision:
            return voting.undo(ballot, at, state.policy.undo_seconds)

        self._step(asks.Step(matchup_id, voter, decide, _nothing))

    def expire_due(self, now: int | None = None) -> int:
        """How many matchups were closed because nobody voted on them in time. Also done now and then by itself."""
        return self._commits.ask(asks.Expire(self._now() if now is None else now)).result()

    def append(self, bodies: Sequence[AnyBody]) -> None:
        """Write events by hand: models, prompts, answers, settings, flags, exclusions. All are checked, or none is."""
        self._commits.ask(asks.Append(bodies)).result()

    def voter(self, cookie_hash: str, address: str = "") -> str:
        """The random key of whoever holds this cookie; a new one on the first visit."""
        _check_id(cookie_hash)
        return self.store.known_voter(cookie_hash) or self._commits.ask(asks.Enter(cookie_hash, address)).result()

    def read(self, look: Callable[[ArenaState], R]) -> R:
        """What `look` makes of the state, with everything in it that was acknowledged before.

        The writer waits meanwhile: take out what is needed, and keep neither the state nor its arrays.
        """
        return self._commits.ask(asks.Read(look)).result()

    def close(self) -> None:
        """Finish what was asked, then let go of the database."""
        self._commits.close()
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _step(self, step: asks.Step[R]) -> R:
        if not SAFE_ID.match(step.matchup_id) or not SAFE_ID.match(step.voter):
            raise voting.NotYours("there is no such matchup for this voter. Ask for one.")
        return self._commits.ask(step).result()


def _check_id(name: str) -> None:
    if not SAFE_ID.match(name):
        raise voting.NotYours(f"{name[:40]!r} is not the key of a voter. Come back without the cookie.")


def _receipt(ballot: Ballot, state: ArenaState) -> Receipt:
    a, b = state.catalog.models[ballot.a], state.catalog.models[ballot.b]
    assert ballot.choice is not None
    assert ballot.closed_at is not None
    return asks.Receipt(
        matchup_id=ballot.id,
        choice=ballot.choice,
        model_a=a.model,
        model_b=b.model,
        display_a=a.display_name,
        display_b=b.display_name,
        undo_until=ballot.closed_at + state.policy.undo_seconds * voting.SECOND,
    )


def _nothing(ballot: Ballot, state: ArenaState) -> None:
    """There is nothing to say but that it is done."""


def _default_chooser() -> Chooser:
    from tiltyard.arena.matchmaking import next_matchup

    return next_matchup

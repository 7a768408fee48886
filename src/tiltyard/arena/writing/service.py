"""The engine of a live arena: serves matchups and takes votes, and answers only after the commit.

An `Arena` is safe to call from many threads. Behind it one thread owns the state and writes (`arena/writer.py`);
several processes may run an `Arena` each on one database.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Self, TypeVar

from tiltyard.arena.rules.events import AnyBody, Choice
from tiltyard.arena.rules.state import ArenaState
from tiltyard.arena.store.files import CleanFile
from tiltyard.arena.store.store import Store
from tiltyard.arena.store.visitors import Quota
from tiltyard.arena.writing import commands
from tiltyard.arena.writing.commands import Command, Receipt, ServedMatchup
from tiltyard.arena.writing.writer import Writer

R = TypeVar("R")


class Arena(Writer):
    """An arena that takes votes: its writer, and what one asks of it."""

    @classmethod
    def open(cls, url: str) -> Arena:
        return cls(Store.open(url))

    def serve(self, voter: str, quotas: Sequence[Quota] = (), *, block: str = "") -> ServedMatchup:
        """A matchup for this voter, saved and reserved before it is shown. May raise `TooMany`."""
        return self.submit(commands.ServeMatchup(voter, quotas=quotas, block=block)).result()

    def vote(
        self,
        matchup_id: str,
        voter: str,
        choice: Choice | None,
        quotas: Sequence[Quota] = (),
        *,
        reveal: bool = True,
        block: str = "",
        unrendered: str = "",
    ) -> Receipt:
        """Vote and get the names, once the vote is on disk and final; repeating the same vote gets the same answer.

        Without `reveal` there are no names yet, and the vote can be undone for the policy's `undo_seconds`. With
        `unrendered` (`A`, `B` or `AB`) instead of a choice, those answers could not be shown. Raises `NotYours`,
        `ChoiceDiffers`, `Gone`, `NothingToRender` or `TooMany`; `StoreError` if nothing could be confirmed.
        """
        vote = commands.SubmitVote(matchup_id, voter, choice, reveal, unrendered, quotas=quotas, block=block)
        return self.submit(vote).result()

    def reveal(self, matchup_id: str, voter: str) -> Receipt:
        """The names of a vote that held them back; it is final from then on. Raises `NotYours`, `NoVote` or `Gone`."""
        return self.submit(commands.RevealNames(matchup_id, voter)).result()

    def skip(self, matchup_id: str, voter: str, quotas: Sequence[Quota] = ()) -> None:
        """Skip a matchup, which can then no longer be voted on. Raises `NotYours`, `TooLate`, `Gone` or `TooMany`."""
        self.submit(commands.SkipMatchup(matchup_id, voter, quotas=quotas)).result()

    def undo(self, matchup_id: str, voter: str, quotas: Sequence[Quota] = ()) -> None:
        """Undo a recent vote whose names were held back. Raises `NotYours`, `TooLate` or `TooMany`."""
        self.submit(commands.UndoVote(matchup_id, voter, quotas=quotas)).result()

    def expire_due(self, now: int | None = None) -> int:
        """Close matchups that were not voted on in time; returns how many. Also runs periodically by itself."""
        return self.submit(commands.CloseExpired(self.now() if now is None else now)).result()

    def append(self, bodies: Sequence[AnyBody], files: Sequence[CleanFile] = ()) -> None:
        """Append events: models, prompts, answers with their files, settings, flags, exclusions. Writes all or none."""
        self.submit(commands.AppendEvents(bodies, files)).result()

    def voter(self, cookie_hash: str) -> str:
        """The random key of the visitor with this cookie; a new one on the first visit."""
        commands.check_voter(cookie_hash)
        return self.store.known_voter(cookie_hash) or self.submit(commands.EnterVoter(cookie_hash)).result()

    def read(self, look: Callable[[ArenaState], R]) -> R:
        """The result of `look` on the state, including everything acknowledged before.

        The writer waits meanwhile: copy what is needed, and keep no reference to the state or its arrays.
        """
        return self.submit(commands.ReadState(look)).result()

    def submit(self, command: Command[R]) -> Future[R]:
        """A future for the answer. The command will be done, so it cannot be cancelled."""
        answer = _Answer[R]()
        answer.set_running_or_notify_cancel()
        self.post(command, answer)
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class _Answer(Future[R]):
    """The mailbox of one command, for callers that wait in a thread."""

    def take(self, done: Sequence[Command[R]]) -> None:
        for command in done:
            try:
                self.set_result(command.result())
            except BaseException as error:  # it is what the caller is told
                self.set_exception(error)

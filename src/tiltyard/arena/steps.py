"""What visitors ask of an arena, as requests on their way to the writing thread: `Arena.ask` takes them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeVar

from tiltyard.arena import asks, voting

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tiltyard.arena.events import Choice
    from tiltyard.arena.state import ArenaState
    from tiltyard.arena.store.visitors import Quota
    from tiltyard.arena.voting import Ballot, Decision

R = TypeVar("R")

SAFE_ID = re.compile(r"[A-Za-z0-9_.:-]{1,200}\Z")
"""Keys of voters and matchups: what cannot be one is refused before it reaches the database."""


def serve(voter: str, quotas: Sequence[Quota] = ()) -> asks.Serve:
    """A matchup for this voter, kept and reserved before it is shown."""
    check_voter(voter)
    return asks.Serve(voter, quotas)


def vote(
    matchup_id: str, voter: str, choice: Choice, quotas: Sequence[Quota] = (), *, reveal: bool = True
) -> asks.Step[asks.Receipt]:
    """A vote. Without `reveal` the names are held back while it can be undone."""

    def decide(ballot: Ballot, at: int, state: ArenaState) -> Decision:
        return voting.vote(ballot, choice, at, reveal=reveal, undo_seconds=state.policy.undo_seconds)

    return _step(matchup_id, voter, decide, _receipt, quotas)


def reveal(matchup_id: str, voter: str) -> asks.Step[asks.Receipt]:
    """The names of a vote, which is final from then on."""

    def decide(ballot: Ballot, at: int, state: ArenaState) -> Decision:  # noqa: ARG001
        return voting.reveal(ballot, at)

    return _step(matchup_id, voter, decide, _receipt)


def skip(matchup_id: str, voter: str, quotas: Sequence[Quota] = ()) -> asks.Step[None]:
    """Pass a matchup."""

    def decide(ballot: Ballot, at: int, state: ArenaState) -> Decision:  # noqa: ARG001
        return voting.skip(ballot, at)

    return _step(matchup_id, voter, decide, _nothing, quotas)


def undo(matchup_id: str, voter: str, quotas: Sequence[Quota] = ()) -> asks.Step[None]:
    """Take back a fresh vote whose names were held back."""

    def decide(ballot: Ballot, at: int, state: ArenaState) -> Decision:  # noqa: ARG001
        return voting.undo(ballot, at)

    return _step(matchup_id, voter, decide, _nothing, quotas)


def enter(cookie_hash: str, address: str, quotas: Sequence[Quota] = ()) -> asks.Enter:
    """The random key of whoever holds this cookie. A first visit uses the quotas, or is refused by them."""
    check_voter(cookie_hash)
    return asks.Enter(cookie_hash, address, quotas)


def check_voter(name: str) -> None:
    """Refuse what cannot be the key of a voter."""
    if not SAFE_ID.match(name):
        raise voting.NotYours(f"{name[:40]!r} is not the key of a voter. Come back without the cookie.")


def _step(
    matchup_id: str,
    voter: str,
    decide: Callable[[Ballot, int, ArenaState], Decision],
    say: Callable[[Ballot, int, ArenaState], R],
    quotas: Sequence[Quota] = (),
) -> asks.Step[R]:
    if not SAFE_ID.match(matchup_id) or not SAFE_ID.match(voter):
        raise voting.NotYours("there is no such matchup for this voter. Ask for one.")
    return asks.Step(matchup_id, voter, decide, say, quotas)


def _receipt(ballot: Ballot, at: int, state: ArenaState) -> asks.Receipt:
    assert ballot.choice is not None
    if not voting.shows_names(ballot.status, ballot.undo_until, at):
        return asks.Receipt(matchup_id=ballot.id, choice=ballot.choice, undo_until=ballot.undo_until)
    a, b = state.catalog.models[ballot.a], state.catalog.models[ballot.b]
    names = asks.Names(model_a=a.model, model_b=b.model, display_a=a.display_name, display_b=b.display_name)
    return asks.Receipt(matchup_id=ballot.id, choice=ballot.choice, names=names)


def _nothing(ballot: Ballot, at: int, state: ArenaState) -> None:
    """There is nothing to say but that it is done."""

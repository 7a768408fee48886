"""What visitors ask of an arena, as requests on their way to the writing thread: `Arena.ask` takes them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tiltyard.arena import asks, voting
from tiltyard.arena.effect import Voted, effect_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tiltyard.arena.events import Choice
    from tiltyard.arena.state import ArenaState
    from tiltyard.arena.store.visitors import Quota
    from tiltyard.arena.voting import Ballot, Decision

SAFE_ID = re.compile(r"[A-Za-z0-9_.:-]{1,200}\Z")
"""Keys of voters and matchups: what cannot be one is refused before it reaches the database."""


def serve(voter: str, quotas: Sequence[Quota] = ()) -> asks.Serve:
    """A matchup for this voter, kept and reserved before it is shown."""
    check_voter(voter)
    return asks.Serve(voter, quotas)


def vote(matchup_id: str, voter: str, choice: Choice, quotas: Sequence[Quota] = ()) -> asks.Step[asks.Receipt]:
    """A vote, answered with the names."""

    def decide(ballot: Ballot, at: int, state: ArenaState) -> Decision:  # noqa: ARG001
        return voting.vote(ballot, choice, at)

    _check(matchup_id, voter)
    return asks.Step(matchup_id, voter, decide, _receipt, quotas)


def vote_seen(matchup_id: str, voter: str, choice: Choice, quotas: Sequence[Quota] = ()) -> asks.Step[Voted]:
    """A vote, answered with the names and what it did; a repeated one did nothing more."""
    repeated = False

    def decide(ballot: Ballot, at: int, state: ArenaState) -> Decision:  # noqa: ARG001
        nonlocal repeated
        repeated = ballot.status is voting.Status.VOTED
        return voting.vote(ballot, choice, at)

    def say(ballot: Ballot, state: ArenaState) -> Voted:
        return Voted(_receipt(ballot, state), None if repeated else effect_of(state, ballot.a, ballot.b, choice))

    _check(matchup_id, voter)
    return asks.Step(matchup_id, voter, decide, say, quotas)


def skip(matchup_id: str, voter: str) -> asks.Step[None]:
    """Pass a matchup."""

    def decide(ballot: Ballot, at: int, state: ArenaState) -> Decision:  # noqa: ARG001
        return voting.skip(ballot, at)

    _check(matchup_id, voter)
    return asks.Step(matchup_id, voter, decide, _nothing)


def undo(matchup_id: str, voter: str) -> asks.Step[None]:
    """Take a fresh vote back."""

    def decide(ballot: Ballot, at: int, state: ArenaState) -> Decision:
        return voting.undo(ballot, at, state.policy.undo_seconds)

    _check(matchup_id, voter)
    return asks.Step(matchup_id, voter, decide, _nothing)


def enter(cookie_hash: str, address: str, quotas: Sequence[Quota] = ()) -> asks.Enter:
    """The random key of whoever holds this cookie. A first visit uses the quotas, or is refused by them."""
    check_voter(cookie_hash)
    return asks.Enter(cookie_hash, address, quotas)


def check_voter(name: str) -> None:
    """Refuse what cannot be the key of a voter."""
    if not SAFE_ID.match(name):
        raise voting.NotYours(f"{name[:40]!r} is not the key of a voter. Come back without the cookie.")


def _check(matchup_id: str, voter: str) -> None:
    if not SAFE_ID.match(matchup_id) or not SAFE_ID.match(voter):
        raise voting.NotYours("there is no such matchup for this voter. Ask for one.")


def _receipt(ballot: Ballot, state: ArenaState) -> asks.Receipt:
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

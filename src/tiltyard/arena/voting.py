"""What may be done with a matchup: pure rules. A matchup in and a request; out comes what it becomes, or a refusal."""

from __future__ import annotations

import enum

import msgspec

from tiltyard.arena import events as e
from tiltyard.errors import ArenaError

SECOND = 1_000_000
"""Times are in microseconds."""


class NotYours(ArenaError):
    """There is no such matchup for this voter."""


class ChoiceDiffers(ArenaError):
    """The matchup was voted on already, with another choice."""


class Gone(ArenaError):
    """The matchup was skipped, has expired, or its vote was taken back: it cannot be voted on any more."""


class TooLate(ArenaError):
    """The step is no longer possible: skipping what was voted on, or taking back what is too old."""


class TooMany(ArenaError):
    """A limit was reached. `retry_seconds` says when it makes sense to try again."""

    def __init__(self, message: str, retry_seconds: int) -> None:
        super().__init__(message)
        self.retry_seconds = retry_seconds


class Status(enum.StrEnum):
    """What became of a matchup."""

    OPEN = "open"
    VOTED = "voted"
    SKIPPED = "skipped"
    EXPIRED = "expired"
    UNDONE = "undone"


class Ballot(msgspec.Struct, frozen=True, kw_only=True):
    """A matchup, as far as deciding about it needs: for whom, which models, until when, and how it stands."""

    id: str
    voter: str
    a: int
    b: int
    served_at: int
    expires_at: int
    status: Status
    choice: e.Choice | None
    closed_at: int | None


class Decision(msgspec.Struct, frozen=True):
    """How the matchup stands afterwards, what happened (None: nothing), and why the request was refused, if it was."""

    ballot: Ballot
    body: e.AnyBody | None = None
    refusal: ArenaError | None = None


def vote(ballot: Ballot, choice: e.Choice, now: int) -> Decision:
    """Vote. The same vote again changes nothing and is no error: its first answer may have been lost on the way."""
    if ballot.status is Status.VOTED:
        if ballot.choice is choice:
            return Decision(ballot)
        said = f"matchup {ballot.id} was voted on already, with {ballot.choice}; a vote cannot be changed."
        return Decision(ballot, refusal=ChoiceDiffers(said + " Take it back, if it is recent."))
    if ballot.status is not Status.OPEN:
        return Decision(ballot, refusal=_gone(ballot))
    if now >= ballot.expires_at:
        expired = expire(ballot, now)
        return Decision(expired.ballot, expired.body, _gone(expired.ballot))
    voted = _closed(ballot, Status.VOTED, now, choice)
    return Decision(voted, e.Voted(matchup_id=ballot.id, choice=choice))


def skip(ballot: Ballot, now: int) -> Decision:
    """Pass. The matchup is burnt; skipping it again changes nothing."""
    if ballot.status is Status.SKIPPED:
        return Decision(ballot)
    if ballot.status is Status.VOTED:
        return Decision(ballot, refusal=TooLate(f"matchup {ballot.id} was voted on already. Ask for another."))
    if ballot.status is not Status.OPEN:
        return Decision(ballot, refusal=_gone(ballot))
    return Decision(_closed(ballot, Status.SKIPPED, now, None), e.Skipped(matchup_id=ballot.id))


def undo(ballot: Ballot, now: int, undo_seconds: int) -> Decision:
    """Take a vote back while it is fresh. The matchup stays burnt: the names have been seen."""
    if ballot.status is Status.UNDONE:
        return Decision(ballot)
    if ballot.status is not Status.VOTED or ballot.closed_at is None:
        return Decision(ballot, refusal=TooLate(f"matchup {ballot.id} has no vote to take back. Ask for another."))
    if now - ballot.closed_at > undo_seconds * SECOND:
        late = TooLate(f"the vote on {ballot.id} is older than {undo_seconds} seconds, and stays. Ask for another.")
        return Decision(ballot, refusal=late)
    return Decision(_closed(ballot, Status.UNDONE, now, ballot.choice), e.Undone(matchup_id=ballot.id))


def expire(ballot: Ballot, now: int) -> Decision:
    """Close a matchup that nobody voted on in time; anything else stays as it is."""
    if ballot.status is not Status.OPEN or now < ballot.expires_at:
        return Decision(ballot)
    return Decision(_closed(ballot, Status.EXPIRED, now, None), e.Expired(matchup_id=ballot.id))


def after(ballot: Ballot, body: e.AnyBody, at: int) -> Ballot:
    """The matchup after an event of the log: what the decision that led to it made of the row."""
    match body:
        case e.Voted():
            return _closed(ballot, Status.VOTED, at, body.choice)
        case e.Skipped():
            return _closed(ballot, Status.SKIPPED, at, None)
        case e.Expired():
            return _closed(ballot, Status.EXPIRED, at, None)
        case e.Undone():
            return _closed(ballot, Status.UNDONE, at, ballot.choice)
    return ballot


def _closed(ballot: Ballot, status: Status, at: int, choice: e.Choice | None) -> Ballot:
    return msgspec.structs.replace(ballot, status=status, closed_at=at, choice=choice)


def _gone(ballot: Ballot) -> Gone:
    why = {Status.SKIPPED: "was skipped", Status.EXPIRED: "has expired", Status.UNDONE: "was voted on and taken back"}
    return Gone(f"matchup {ballot.id} {why[ballot.status]} and cannot be voted on. Ask for another.")

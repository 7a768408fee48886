"""The rules of voting as pure functions: from a matchup and a request to the changed matchup or a refusal.

**A voter can never undo after learning the names**, as long as hosts' clocks differ by no more than `CLOCK_MARGIN`. A
vote either shows the names and is final, or holds them back and can be undone until `undo_until`. Names are shown by a
committed step (`vote` with `reveal`, or `reveal`), which clears `undo_until`, or once that time is over by
`CLOCK_MARGIN` (`shows_names`). After `undo_until`, `undo` is refused. `now` is the time at which a group got the lock.
"""

from __future__ import annotations

import enum

import msgspec

from tiltyard.arena.rules import events as e
from tiltyard.arena.rules.policy import UnrenderedCounts
from tiltyard.arena.rules.units import SECOND
from tiltyard.errors import ArenaError

CLOCK_MARGIN = 2 * SECOND
"""How far the clocks of two hosts may differ: one host's clock decides when names are shown, another's until when to
undo."""

NAMES_LATER = "this review shows who wrote the answers when it is closed."
REVIEW_OVER = "this review is closed. Thank you; there is nothing more to do."


class NotYours(ArenaError):
    """There is no such matchup for this voter."""


class ChoiceDiffers(ArenaError):
    """The matchup was voted on already, with another choice."""


class Gone(ArenaError):
    """The matchup was skipped, has expired, or its vote was undone: it can no longer be voted on."""


class TooLate(ArenaError):
    """The action is no longer possible: skipping after a vote, or undoing a final vote."""


class NoVote(ArenaError):
    """There is no vote yet whose names could be shown."""


class NothingLeft(ArenaError):
    """A reviewer has done all that is theirs to do now."""


class ReviewClosed(ArenaError):
    """The review is over: nothing is served or voted on any more."""


class NotInvited(ArenaError):
    """The arena is closed, and this visitor has no valid invitation."""


class TooBusy(ArenaError):
    """The command waited longer than its deadline, and was not done."""


class TooMany(ArenaError):
    """A limit was reached. `retry_seconds` says when it makes sense to try again."""

    def __init__(self, message: str, retry_seconds: int) -> None:
        super().__init__(message)
        self.retry_seconds = retry_seconds


class NothingToRender(ArenaError):
    """A vote says that a text could not be shown, or which answer could not be shown is not among A, B and AB."""


class MatchupStatus(enum.StrEnum):
    """The status of a matchup."""

    OPEN = "open"
    VOTED = "voted"
    SKIPPED = "skipped"
    EXPIRED = "expired"
    UNDONE = "undone"


class Ballot(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a matchup needed for decisions: voter, models, expiry and status."""

    id: str
    voter: str
    a: int
    b: int
    served_at: int
    expires_at: int
    status: MatchupStatus
    choice: e.Choice | None
    closed_at: int | None
    undo_until: int | None = None
    """Until when the vote can be undone while its names are held back; None: there is no vote, or it is final."""
    block: str = ""
    """The key of the block that it was served to."""
    prompt: int = 0
    unrendered: str = ""
    """Which answers the voter said could not be shown."""


class Decision(msgspec.Struct, frozen=True):
    """The resulting matchup, the event (None: nothing happened), and the reason if the request was refused."""

    ballot: Ballot
    body: e.AnyBody | None = None
    refusal: ArenaError | None = None


class VotingPolicy(msgspec.Struct, frozen=True):
    """What an arena makes of the rules below. Where anybody votes they hold as they are."""

    over: ArenaError | None = None
    """Why nothing is voted on, skipped, undone or explained any more."""
    names_later: ArenaError | None = None
    """Why nobody is told a name now: votes hold names back, whatever is asked for."""
    explains_all: bool = False
    """Whether votes that can be undone, and skips, are explained, too."""

    @classmethod
    def of_review(cls, review: e.ReviewSet) -> VotingPolicy:
        """A team's review: it ends, and until then it may hold all names back."""
        return cls(
            over=ReviewClosed(REVIEW_OVER) if review.closed else None,
            names_later=NoVote(NAMES_LATER) if review.holds_names else None,
            explains_all=True,
        )


def vote(
    ballot: Ballot,
    choice: e.Choice,
    now: int,
    *,
    reveal: bool = True,
    undo_seconds: int = 0,
    block: str = "",
    unrendered: str = "",
) -> Decision:
    """Vote. Repeating the same vote makes no second one and is no error: the first response may have been lost.

    A first vote that comes too late expires the matchup, and is refused.

    Without `reveal` the names are held back and the vote can be undone for `undo_seconds`; if that is 0, it is final at
    once. The same vote again with `reveal` shows the names. `block` is the key of the block that the vote comes from,
    `unrendered` the answers that could not be shown.
    """
    if ballot.status is MatchupStatus.VOTED:
        if ballot.choice is choice and ballot.unrendered == unrendered:
            return _show(ballot, now) if reveal else Decision(ballot)
        message = f"matchup {ballot.id} was voted on already, with {ballot.choice}; a vote cannot be changed."
        return Decision(ballot, refusal=ChoiceDiffers(message + " Ask for another matchup."))
    if ballot.status is not MatchupStatus.OPEN:
        return Decision(ballot, refusal=_gone(ballot))
    if now >= ballot.expires_at:
        expired = expire(ballot, now)
        return Decision(expired.ballot, expired.body, _gone(expired.ballot))
    undo_until = None if reveal or not undo_seconds else now + undo_seconds * SECOND
    moved = block if block != ballot.block else ""
    return _decided(
        ballot,
        e.Voted(matchup_id=ballot.id, choice=choice, undo_until=undo_until, block=moved, unrendered=unrendered),
        now,
    )


def choice_if_unrendered(unrendered: str, counts: UnrenderedCounts) -> e.Choice:
    """What "this answer could not be shown" counts as: a loss of that answer, or that both are bad, by the policy."""
    if unrendered == "AB" or counts == "both_bad":
        return e.Choice.BOTH_BAD
    return e.Choice.B if unrendered == "A" else e.Choice.A


def reveal(ballot: Ballot, now: int) -> Decision:
    """Show the names, which ends the chance to undo. Repeated, or once they show by themselves, it changes nothing."""
    if ballot.status is MatchupStatus.VOTED:
        return _show(ballot, now)
    if ballot.status is MatchupStatus.OPEN:
        return Decision(ballot, refusal=NoVote(f"matchup {ballot.id} has no vote yet. Vote first."))
    return Decision(ballot, refusal=_gone(ballot))


def shows_names(status: MatchupStatus, undo_until: int | None, now: int) -> bool:
    """Whether the voter may see the names: the vote is final by any host's clock."""
    return status is MatchupStatus.VOTED and (undo_until is None or now > undo_until + CLOCK_MARGIN)


def _show(ballot: Ballot, now: int) -> Decision:
    if shows_names(ballot.status, ballot.undo_until, now):
        return Decision(ballot)
    return _decided(ballot, e.Revealed(matchup_id=ballot.id), now)


def _decided(ballot: Ballot, body: e.AnyBody, now: int) -> Decision:
    return Decision(after(ballot, body, now), body)


def skip(ballot: Ballot, now: int) -> Decision:
    """Skip. The matchup can no longer be voted on; skipping it again changes nothing."""
    if ballot.status is MatchupStatus.SKIPPED:
        return Decision(ballot)
    if ballot.status is MatchupStatus.VOTED:
        return Decision(ballot, refusal=TooLate(f"matchup {ballot.id} was voted on already. Ask for another."))
    if ballot.status is not MatchupStatus.OPEN:
        return Decision(ballot, refusal=_gone(ballot))
    return _decided(ballot, e.Skipped(matchup_id=ballot.id), now)


def undo(ballot: Ballot, now: int) -> Decision:
    """Undo a vote while its names are held back and its time is not over. The matchup stays closed."""
    if ballot.status is MatchupStatus.UNDONE:
        return Decision(ballot)
    if ballot.status is not MatchupStatus.VOTED:
        return Decision(ballot, refusal=TooLate(f"matchup {ballot.id} has no vote to take back. Ask for another."))
    if ballot.undo_until is None:
        final = TooLate(f"the vote on matchup {ballot.id} is final: its names may be seen. Ask for another.")
        return Decision(ballot, refusal=final)
    if now > ballot.undo_until:
        late = TooLate(f"the time to undo the vote on {ballot.id} is over; it is final. Ask for another.")
        return Decision(ballot, refusal=late)
    return _decided(ballot, e.Undone(matchup_id=ballot.id), now)


def explain(
    ballot: Ballot, tags: tuple[str, ...], comment: str, now: int, policy: VotingPolicy | None = None
) -> Decision:
    """Say why. Only the voter of a final vote can, whose names were shown, unless the policy has all explained."""
    explains_all = policy is not None and policy.explains_all
    if not (explains_all and ballot.status in (MatchupStatus.VOTED, MatchupStatus.SKIPPED)):
        if ballot.status is MatchupStatus.OPEN:
            return Decision(ballot, refusal=NoVote(f"vote on {ballot.id} first."))
        if ballot.status is not MatchupStatus.VOTED:
            return Decision(ballot, refusal=_gone(ballot))
        if not shows_names(ballot.status, ballot.undo_until, now):
            return Decision(ballot, refusal=NoVote(f"the vote on {ballot.id} is not final yet. Show the names first."))
    return Decision(ballot, e.Explained(matchup_id=ballot.id, tags=tags, comment=comment))


def expire(ballot: Ballot, now: int) -> Decision:
    """Close a matchup that nobody voted on in time; others are unchanged."""
    if ballot.status is not MatchupStatus.OPEN or now < ballot.expires_at:
        return Decision(ballot)
    return _decided(ballot, e.Expired(matchup_id=ballot.id), now)


def after(ballot: Ballot, body: e.AnyBody, at: int) -> Ballot:
    """The matchup after an event of the log: the same row that the original decision produced."""
    match body:
        case e.Voted():
            voted = _closed(ballot, MatchupStatus.VOTED, at, body.choice)
            return msgspec.structs.replace(voted, undo_until=body.undo_until, unrendered=body.unrendered)
        case e.Revealed():
            return msgspec.structs.replace(ballot, undo_until=None)
        case e.Skipped():
            return _closed(ballot, MatchupStatus.SKIPPED, at, None)
        case e.Expired():
            return _closed(ballot, MatchupStatus.EXPIRED, at, None)
        case e.Undone():
            return _closed(ballot, MatchupStatus.UNDONE, at, ballot.choice)
    return ballot


def _closed(ballot: Ballot, status: MatchupStatus, at: int, choice: e.Choice | None) -> Ballot:
    return msgspec.structs.replace(ballot, status=status, closed_at=at, choice=choice)


def _gone(ballot: Ballot) -> Gone:
    why = {
        MatchupStatus.SKIPPED: "was skipped",
        MatchupStatus.EXPIRED: "has expired",
        MatchupStatus.UNDONE: "was voted on and taken back",
    }
    return Gone(f"matchup {ballot.id} {why[ballot.status]} and cannot be voted on. Ask for another.")

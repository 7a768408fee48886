"""Errors as an HTTP status, a short name for programs and a sentence for people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tiltyard.arena.reasons import BadReason
from tiltyard.arena.voting import (
    ChoiceDiffers,
    Gone,
    NothingToRender,
    NotInvited,
    NotYours,
    NoVote,
    TooLate,
    TooMany,
)
from tiltyard.errors import ArenaError, StoreError

RETRY_SECONDS = 5
"""Retry-After for a failed database."""

BY_STATUS = {
    404: ("not_found", "there is nothing at this address."),
    405: ("method_not_allowed", "this address is not used with this method."),
    500: ("internal", "something broke here; it is noted. Try again."),
}
"""The name and the words of failures that are known by their status alone."""


@dataclass(slots=True)
class Failure(Exception):
    """A request that is answered with an error: its status, its name, and what to do, in one line."""

    status: int
    code: str
    message: str
    headers: Mapping[str, str] = field(default_factory=dict)


def failure_of(error: ArenaError) -> Failure:
    """The HTTP error for an error of the arena. Database messages stay in the server's log."""
    message = str(error)
    match error:
        case NotYours():
            return Failure(404, "not_yours", message)
        case NotInvited():
            return Failure(403, "not_invited", message)
        case ChoiceDiffers():
            return Failure(409, "choice_differs", message)
        case Gone():
            return Failure(410, "gone", message)
        case TooLate():
            return Failure(409, "too_late", message)
        case NoVote():
            return Failure(409, "no_vote", message)
        case NothingToRender() | BadReason():
            return Failure(400, "bad_request", message)
        case TooMany():
            return Failure(429, "too_many", message, {"retry-after": str(error.retry_seconds)})
        case StoreError():
            return unavailable()
    if message.startswith("nothing to serve"):
        return Failure(503, "nothing_to_serve", "no two models have answered one prompt yet. Come back later.", _LATER)
    return unavailable()


def unavailable() -> Failure:
    """The database did not confirm."""
    message = "the arena's database did not answer, and nothing is confirmed. Send the same request again in a moment."
    return Failure(503, "unavailable", message, {"retry-after": str(RETRY_SECONDS)})


def failure_with(status: int) -> Failure:
    """A failure described by its status alone."""
    return Failure(status, *BY_STATUS.get(status, ("bad_request", "the request cannot be read.")))


_LATER = {"retry-after": "60"}

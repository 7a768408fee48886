"""What an arena keeps about its visitors, why, and for how long: the one table that all others are made from.

The page `/privacy`, the table in the manual and the defaults of the policy come from it, and `store/forgetting.py` does
what it says.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

KEY_DAYS = 3
"""For how many days, its own included, the key of a day is kept: the longest window is a day and a twelfth."""


class Kept(NamedTuple):
    """One kind of thing. `{days}` in `until` are those of the policy's `retention` named `rule`."""

    what: str
    why: str
    until: str
    rule: str = ""
    days: int = 0
    where: Literal["everywhere", "open"] = "everywhere"
    """In which arenas: in all, or in those open to everyone."""

    def row(self, days: int = 0) -> tuple[str, str, str]:
        """The row of a table, with the days of a policy; else with the default."""
        return self.what, self.why, self.until.format(days=days or self.days)


KEPT = (
    Kept(
        "Your votes, under a random key",
        "They are the arena. The key says which votes belong together, not whose they are.",
        "They stay. The log of votes only grows, so that anybody can check it. Once you are forgotten, nothing leads "
        "from the key to you, except to an invitation that several people used.",
    ),
    Kept(
        "The hash of your cookie, and the random key it leads to",
        "So that your votes are yours: limits, undo, and the page “You”.",
        "Until you press “Forget me” on that page, or {days} days after your last pair.",
        "voter_days",
        400,
    ),
    Kept(
        "Which invitation you used, if you did, and what the operator wrote on it",
        "So that only those vote who were invited, where that is so; limits count by it. The log holds a random key.",
        "As long as the hash of your cookie. An invitation for several people, and what is written on it, stays until "
        "it is revoked or over, and {days} days more: votes under it lead to it, those of the forgotten too. The "
        "operator can delete it sooner.",
        "voter_days",
        400,
    ),
    Kept(
        "How often you voted, looked at pairs or reported",
        "Limits.",
        "Until the limit's time is over, 26 hours at most, or you are forgotten.",
    ),
    Kept(
        "The same for your address and the networks around it, together with everybody there",
        "Limits. Both are hashed with the site's secret and with a random key of the day.",
        f"Until the limit's time is over, 26 hours at most; the key of a day is deleted after {KEY_DAYS} days.",
        where="open",
    ),
    Kept(
        "A random key for your network (the first 24 bits of an IPv4 address, 48 of an IPv6 address)",
        "So that nobody decides the board from one network. The log holds the random key, never an address.",
        "What the key stands for is forgotten when you are, and after {days} days at most. If somebody of your network "
        "was forgotten in these days before you voted, your votes have a key that such networks share until then.",
        "network_days",
        7,
        "open",
    ),
    Kept(
        "Reasons that you choose for a vote",
        "They say what voters look at. They are in the log with the vote, and public with it.",
        "They stay, like the vote.",
    ),
    Kept(
        "A comment that you write about a vote",
        "The operator reads it. It is not public, and not in the log, which holds only a salted hash of it.",
        "Until you are forgotten, {days} days at most.",
        "voter_days",
        400,
    ),
    Kept(
        "What you write when you report an answer, and which pair it was about",
        "The operator reads it.",
        "The words until you are forgotten, {days} days at most; that there was a report stays.",
        "voter_days",
        400,
    ),
    Kept(
        "That you were forgotten: a hash of your cookie, outside the database",
        "So that a backup, when it is restored, forgets you again. It recognizes the cookie for nothing else.",
        "It stays.",
    ),
)

DAYS = {kept.rule: kept.days for kept in KEPT if kept.rule}
"""The policy's defaults."""

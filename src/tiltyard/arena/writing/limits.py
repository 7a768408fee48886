"""Who may do what they ask: invitations, limits, and the blocks that requests come from.

Asked by the writing thread, inside the transaction of a group, before anything else is decided: what is counted is
counted exactly, however many requests come at once.
"""

from __future__ import annotations

from collections.abc import Sequence

from tiltyard.arena.rules import voting
from tiltyard.arena.rules.policy import Act, Limits, Policy, limits_of
from tiltyard.arena.rules.units import SECOND
from tiltyard.arena.store.database import Connection
from tiltyard.arena.store.invitations import by_invitation, enter_by_invitation, invited
from tiltyard.arena.store.visitors import (
    KEYS_CHANGED,
    BlockKeys,
    Quota,
    QuotaCounter,
    enter_voter,
    known_among,
)
from tiltyard.arena.writing.commands import (
    NO_SUCH_MATCHUP,
    Command,
    EnterVoter,
    MatchupCommand,
    ServeMatchup,
    SubmitVote,
)

NOT_INVITED = "voting here is by invitation. Open the link that you were given, or ask for one."


class Limiter:
    """Refuses what may not be done, and counts the rest. It is used by the writing thread only."""

    def __init__(self) -> None:
        self.usage = QuotaCounter()
        self._blocks = BlockKeys()
        self._changed: int | None = None

    def check(self, connection: Connection, group: Sequence[Command[object]], policy: Policy, now: int) -> None:
        """Refuse commands of the forgotten, without an invitation or over a limit; the others get their block's key."""
        closed = policy.entry.invitation_only
        if closed:
            self._admit_invited(connection, group, now)
        asked = [command for command in group if isinstance(command, ServeMatchup | MatchupCommand)]
        known = known_among(connection, "voter", [command.voter for command in asked if command.needs_cookie])
        for one in asked:  # who was forgotten after the site recognized them
            if one.needs_cookie and one.voter not in known and not one.refused:
                one.refuse(voting.NotYours(NO_SUCH_MATCHUP))
        changed = self._check_quotas(connection, group, now, closed=closed)
        located = [command for command in group if command.block and not command.refused and not closed]
        if located and (changed is None or changed != self._changed):  # where nothing is limited nobody can tell
            self._blocks.forget()
            self.usage.forget()
            self._changed = changed
        if located:
            keys = self._blocks.of(
                connection, [command.block for command in located], now, policy.retention.network_days
            )
            for command in located:
                command.block_key = keys[command.block]

    def _admit_invited(self, connection: Connection, group: Sequence[Command[object]], now: int) -> None:
        """In a closed arena, refuse matchups and votes without a valid invitation, which stands for a block."""
        asked = [command for command in group if isinstance(command, ServeMatchup | MatchupCommand)]
        keys = invited(connection, [command.voter for command in asked], now) if asked else {}
        for command in asked:
            if command.voter not in keys and isinstance(command, ServeMatchup | SubmitVote):
                command.refuse(voting.NotInvited(NOT_INVITED))
            command.block_key = keys.get(command.voter, "") if command.quotas or command.block else ""
        for enter in group:
            if isinstance(enter, EnterVoter) and not enter.invitation:
                enter.refuse(voting.NotInvited(NOT_INVITED))

    def _check_quotas(
        self, connection: Connection, group: Sequence[Command[object]], now: int, *, closed: bool
    ) -> int | None:
        """Refuse what is over a limit, and count the rest. A new cookie's first visit counts once.

        In a `closed` arena limits count by invitation instead of address. The result tells whether somebody deleted
        keys of networks since; None: nothing was limited.
        """
        limited = {command: command.quotas for command in group if command.quotas and not command.refused}
        if closed:  # they count by the invitation that is used now, or that the voter has
            for command, quotas in limited.items():
                key = command.invitation if isinstance(command, EnterVoter) else command.block_key
                limited[command] = by_invitation(quotas, key)
        if not limited:
            return None
        used = self.usage.used(connection, [quota for quotas in limited.values() for quota in quotas], now)
        cookies = [command.cookie_hash for command in limited if isinstance(command, EnterVoter)]
        entered = known_among(connection, "cookie_hash", cookies)
        noted: list[Quota] = []
        for command, quotas in limited.items():
            if isinstance(command, EnterVoter) and command.cookie_hash in entered:
                continue
            over = next((quota for quota in quotas if used[quota.name] >= quota.most), None)
            if over is not None:
                wait = self.usage.free_in(connection, over, now)
                message = f"{over.most} in {_span(over.seconds)} is the limit. Try again in {_span(wait)}."
                command.refuse(voting.TooMany(message, wait))
                continue
            noted += quotas
            if isinstance(command, EnterVoter):
                entered.add(command.cookie_hash)
            used.update(quota.name for quota in quotas)
        self.usage.note(connection, noted, now)
        return used[KEYS_CHANGED]

    def note_abandoned(self, connection: Connection, voters: Sequence[str], limits: Limits, now: int) -> None:
        """Count matchups that these voters left until they expired like skipped ones; who was forgotten stays so."""
        known = known_among(connection, "voter", voters)
        quotas = [quota for voter in voters if voter in known for quota in session_quotas(limits, "skip", voter)]
        self.usage.note(connection, quotas, now)

    def enter(self, connection: Connection, command: EnterVoter, now: int) -> None:
        if not command.invitation:
            command.answer(enter_voter(connection, command.cookie_hash, now))
            return
        try:
            command.answer(enter_by_invitation(connection, command.cookie_hash, command.invitation, now))
        except voting.NotInvited as refusal:
            command.refuse(refusal)


def session_quotas(limits: Limits, act: Act, voter: str) -> list[Quota]:
    """The quotas of one kind of action that count by session."""
    return [
        Quota(f"{act}:session:{limit.window // SECOND}:{voter}", limit.limit, limit.window // SECOND)
        for limit in limits_of(limits)
        if limit.act == act and limit.counted_by == "session"
    ]


def _span(seconds: int) -> str:
    for unit, length in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= 2 * length or seconds == length:
            return f"{seconds / length:.2g} {unit}s" if seconds != length else f"one {unit}"
    return f"{seconds} seconds" if seconds != 1 else "one second"

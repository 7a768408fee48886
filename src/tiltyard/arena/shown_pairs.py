"""What one block or one session was shown and has not voted on: which pairs wait for it, since when, on which prompts.

Nothing here knows a database or a clock: times are handed in. `waiting_pairs` decides by it what to show.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from tiltyard.arena.events import Lane
from tiltyard.arena.tallies import Pair
from tiltyard.arena.units import DAY
from tiltyard.arena.visitor_rules import WaitingRules
from tiltyard.arena.voting import MatchupStatus

WAITING_MOST = 500
"""How many pairs of one block may wait; older ones are given up."""


LONGEST_WAIT = 7 * DAY
"""After this time a pair gives way. A day would give somebody with 50 blocks 350 pairs a week to choose from."""


class ShownPair(NamedTuple):
    """A matchup that was served to a block: the two models and the prompt by number, who saw them, when, which lane."""

    block: str
    pair: Pair
    voter: str
    lane: Lane
    prompt: int = 0
    at: int = 0


class PastMatchup(NamedTuple):
    """A matchup of the past: what was shown, its status, and when it was closed, if it was."""

    matchup_id: str
    shown: ShownPair
    status: MatchupStatus
    closed_at: int | None
    carried: bool = False
    """Whether it was shown because its session brought the pair along from another block."""


class UnvotedPair(msgspec.Struct):
    """A pair that was shown and not voted on: on which prompts, since when, first in which block, and if it waits."""

    lane: Lane
    block: str
    since: int
    prompts: frozenset[int] = frozenset()
    waits: bool = True


class ShownRecord:
    """What one block or one session was shown and has not voted on."""

    __slots__ = ("gave_way", "held", "open", "tentative", "undone", "unvoted", "votes")

    def __init__(self, votes: int = 0) -> None:
        self.votes = votes
        self.unvoted: dict[Pair, UnvotedPair] = {}
        """The pairs without a vote; of a session the one shown last comes last, of a block the longest waiting first.
        """
        self.open: dict[str, Pair] = {}
        """The matchups that visitors have before them now."""
        self.gave_way: list[int] = []
        """When a pair gave way to another."""
        self.held: dict[str, int] = {}
        """Votes that can still be undone, and until when."""
        self.undone: list[int] = []
        """Until when votes could be undone that were."""
        self.tentative: dict[Pair, int] = {}
        """Pairs whose vote settles them only when it cannot be undone any more, and when that is."""

    def age(self, now: int) -> None:
        """Settle what is final, let pairs give way that have waited too long, and forget counts older than a day."""
        for pair in [pair for pair, until in self.tentative.items() if now > until]:
            self.settle(pair)
        for unvoted in self.unvoted.values():
            if unvoted.waits and now - unvoted.since >= LONGEST_WAIT:
                unvoted.waits = False
                self.gave_way.append(now)
        if self.gave_way and now - self.gave_way[0] >= DAY:
            self.gave_way = [at for at in self.gave_way if now - at < DAY]
        if self.undone and now - self.undone[0] >= DAY:
            self.undone = [at for at in self.undone if now - at < DAY]

    def settle(self, pair: Pair) -> None:
        """A vote that did not count at once is final now."""
        if self.tentative.pop(pair, None) is not None:
            self.unvoted.pop(pair, None)

    def doubts(self, rules: WaitingRules, at: int) -> bool:
        """Whether a vote at this time settles nothing while it can be undone.

        So it is while other votes can be undone, or where many were: otherwise voting on a pair, asking for another and
        undoing the vote would show pair after pair. The more votes are final, the more may be undone.
        """
        self.held = {name: until for name, until in self.held.items() if until > at}
        final = (self.votes - len(self.held)) // rules.votes_per_open_pair
        return len(self.held) >= rules.open_pairs + final or len(self.undone) > rules.give_ways_per_day + final

    def full(self, waiting: int, rules: WaitingRules) -> bool:
        """Whether no further pair may be opened while so many wait."""
        return waiting >= rules.open_pairs + self.votes // rules.votes_per_open_pair

    def may_open(self, waiting: int, rules: WaitingRules) -> bool:
        """Whether another pair may be opened, if need be because one gives way."""
        return not self.full(waiting, rules) or len(self.gave_way) < rules.give_ways_per_day

    def show(
        self, shown: ShownPair, waiting: Sequence[Pair], rules: WaitingRules, *, is_new: bool, latest_last: bool
    ) -> None:
        """A pair is shown. A new one that is opened over the limit lets the one that was shown most give way."""
        self.age(shown.at)
        waiting = [pair for pair in waiting if self.waits(pair)]  # one may have been settled just now
        if is_new and self.full(len(waiting), rules):
            leaving = max(waiting, key=lambda pair: len(self.unvoted[pair].prompts))
            self.unvoted[leaving].waits = False
            self.gave_way.append(shown.at)
        self.note(shown, rules, latest_last=latest_last)

    def note(self, shown: ShownPair, rules: WaitingRules, *, latest_last: bool) -> None:
        """A pair was shown; it waits from now on, on no more prompts than the policy says."""
        known = self.unvoted.get(shown.pair)
        if known is None:
            known = UnvotedPair(shown.lane, shown.block, shown.at)
        elif not known.waits:
            known.waits, known.since, known.block = True, shown.at, shown.block
        elif latest_last:
            del self.unvoted[shown.pair]
        if len(known.prompts) < rules.prompts:
            known.prompts |= {shown.prompt}
        self.unvoted[shown.pair] = known
        if len(self.unvoted) > WAITING_MOST:
            del self.unvoted[next(iter(self.unvoted))]

    def was_shown(self, pair: Pair, prompt: int) -> bool:
        """Whether this pair was shown on this prompt and not voted on since."""
        result = self.unvoted.get(pair)
        return result is not None and prompt in result.prompts

    def waits(self, pair: Pair) -> bool:
        """Whether this pair waits."""
        result = self.unvoted.get(pair)
        return result is not None and result.waits

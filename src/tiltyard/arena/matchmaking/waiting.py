"""The pair waits: who skips, undoes or leaves two models gets the same two again, on one of a few prompts.

Someone who wants to lift one model needs matchups with it, and skips, undoes or abandons all others. So a pair that a
block (the visitors of one address block, or of one invitation) or a session was shown and has not voted on waits for
it: a skip gives the same two models on another prompt, and so does a new session once as many pairs wait as the policy
allows. The names that a vote reveals are also those of every other prompt on which the pair was shown; so a pair that
waits is shown on a few prompts only, which are then repeated. Nothing here knows a database or a clock; the same rule
runs in the writer and in simulations.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import msgspec
from numpy.random import Generator

from tiltyard.arena.matchmaking.matchup import ChosenMatchup, SeenMatchups
from tiltyard.arena.rules import events as e
from tiltyard.arena.rules.events import AnyBody, Lane
from tiltyard.arena.rules.policy import LONGEST_WAIT, WaitingRules
from tiltyard.arena.rules.schedule import Reserved
from tiltyard.arena.rules.state import ArenaState
from tiltyard.arena.rules.tallies import Pair, pair_of
from tiltyard.arena.rules.units import DAY, SECOND
from tiltyard.arena.rules.voting import MatchupStatus

BLOCKS_KEPT = 4096
"""How many blocks, and how many sessions, are kept in memory. The least recently served are dropped, and read again
when they come back."""

TRIES = 3
"""How often another pair is drawn in place of one that gave way before."""

UNDONE_WITHIN = 60 * SECOND
"""So long after the last moment to undo a vote a host with a slow clock may write that it was undone."""

WAITING_MOST = 500
"""How many pairs of one block may wait; older ones are given up."""


class PastMatchup(NamedTuple):
    """A matchup of the past: what was shown, its status, and when it was closed, if it was."""

    shown: Reserved
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
        self, shown: Reserved, waiting: Sequence[Pair], rules: WaitingRules, *, is_new: bool, latest_last: bool
    ) -> None:
        """A pair is shown. A new one that is opened over the limit lets the one that was shown most give way."""
        self.age(shown.served_at)
        waiting = [pair for pair in waiting if self.waits(pair)]  # one may have been settled just now
        if is_new and self.full(len(waiting), rules):
            leaving = max(waiting, key=lambda pair: len(self.unvoted[pair].prompts))
            self.unvoted[leaving].waits = False
            self.gave_way.append(shown.served_at)
        self.note(shown, rules, latest_last=latest_last)

    def note(self, shown: Reserved, rules: WaitingRules, *, latest_last: bool) -> None:
        """A pair was shown; it waits from now on, on no more prompts than the policy says."""
        known = self.unvoted.get(shown.pair)
        if known is None:
            known = UnvotedPair(shown.lane, shown.block, shown.served_at)
        elif not known.waits:
            known.waits, known.since, known.block = True, shown.served_at, shown.block
        elif latest_last:
            del self.unvoted[shown.pair]
        if len(known.prompts) < rules.prompts:
            known.prompts |= {shown.prompt}
        self.unvoted[shown.pair] = known
        if len(self.unvoted) > WAITING_MOST:
            del self.unvoted[next(iter(self.unvoted))]

    def was_shown(self, pair: Pair, prompt: int) -> bool:
        result = self.unvoted.get(pair)
        return result is not None and prompt in result.prompts

    def waits(self, pair: Pair) -> bool:
        result = self.unvoted.get(pair)
        return result is not None and result.waits


class DuePair(NamedTuple):
    """A pair to show again: on a prompt of `prompts`, where it was shown before, or if `more` on any other."""

    pair: Pair
    lane: Lane
    prompts: frozenset[int]
    more: bool


class Due(NamedTuple):
    """The pairs to try for a voter, in order, and whether another one may be opened where none is left to see."""

    pairs: tuple[DuePair, ...] = ()
    may_open: bool = True


Again = Callable[..., ChosenMatchup | None]
"""Finds a prompt for a `DuePair`; None where this voter has seen all, unless one may be repeated (`repeat`)."""


class _HeldVote(NamedTuple):
    """A vote that can still be undone: what was shown, the block it came from, and what each record knew before."""

    shown: Reserved
    block: str
    before: dict[int, UnvotedPair]
    until: int


class WaitingPairs:
    """The pairs that wait, by block and by session. Every event of the log is told once, in order."""

    def __init__(self) -> None:
        self._blocks: OrderedDict[str, ShownRecord] = OrderedDict()
        self._sessions: OrderedDict[str, ShownRecord] = OrderedDict()
        self._open: dict[str, Reserved] = {}
        self._held: OrderedDict[str, _HeldVote] = OrderedDict()
        """The votes that can still be undone, in their order."""
        self._rules = WaitingRules()

    def knows(self, block: str) -> bool:
        return block in self._blocks

    def knows_session(self, voter: str) -> bool:
        return voter in self._sessions

    def enter(self, block: str, rules: WaitingRules, past: Iterable[PastMatchup] = (), votes: int = 0) -> None:
        """Begin to keep a block, given what it was shown and, besides, how many votes it has cast before that."""
        record = ShownRecord(votes)
        self._replay(record, past, rules, latest_last=False)
        _keep(self._blocks, block, record)

    def enter_session(self, voter: str, rules: WaitingRules, past: Iterable[PastMatchup] = ()) -> None:
        """Begin to keep a session, given what it was shown.

        What others of its blocks voted on is not known here, so pairs that gave way are not counted.
        """
        record = ShownRecord()
        self._replay(record, past, rules, latest_last=True)
        record.gave_way.clear()
        _keep(self._sessions, voter, record)

    def _replay(
        self, record: ShownRecord, past: Iterable[PastMatchup], rules: WaitingRules, *, latest_last: bool
    ) -> None:
        happened = [(one.shown.served_at, 0, one) for one in past]
        happened += [(one.closed_at, 1, one) for _, _, one in happened if one.closed_at is not None]
        for _, closes, one in sorted(happened, key=lambda each: each[:2]):
            pair, voted = one.shown.pair, one.status == MatchupStatus.VOTED
            if not closes and not (one.carried and not record.was_shown(pair, one.shown.prompt)):
                waiting = [pair for pair, unvoted in record.unvoted.items() if unvoted.waits]
                record.show(one.shown, waiting, rules, is_new=not record.waits(pair), latest_last=latest_last)
            elif closes and voted:
                record.unvoted.pop(pair, None)
                record.votes += 1
            if one.closed_at is None:
                self._open[one.shown.matchup_id] = one.shown
                record.open[one.shown.matchup_id] = pair

    def served(self, shown: Reserved, rules: WaitingRules) -> None:
        """A matchup was served: its pair waits until it is voted on. One over the limit lets another give way."""
        here, own = self._blocks.get(shown.block), self._sessions.get(shown.voter)
        if not shown.block or (here or own) is None:
            return
        self._rules = rules
        is_new = not any(record is not None and record.waits(shown.pair) for record in (here, own))
        carried = _brought_along(shown, here, own)
        self._open[shown.matchup_id] = shown
        for records, record, name in ((self._blocks, here, shown.block), (self._sessions, own, shown.voter)):
            if record is None or (carried and record is here):
                continue
            records.move_to_end(name)
            record.show(shown, self._waiting(record), rules, is_new=is_new, latest_last=record is own)
            record.open[shown.matchup_id] = shown.pair

    def close(self, body: AnyBody, at: int) -> None:
        """A matchup was voted on, skipped, left to expire, or its vote shown or undone."""
        match body:
            case e.Voted():
                shown = self._closed(body.matchup_id)
                if shown is not None:
                    self._vote(body, shown, at)
            case e.Skipped() | e.Expired():
                self._closed(body.matchup_id)
            case e.Revealed():
                vote = self._held.pop(body.matchup_id, None)
                if vote is not None:
                    for record in self._records(vote.shown, vote.block):
                        record.held.pop(body.matchup_id, None)
                        record.settle(vote.shown.pair)
            case e.Undone():
                vote = self._held.pop(body.matchup_id, None)
                if vote is not None:
                    self._take_back(body.matchup_id, vote)

    def due(self, block: str, voter: str, rules: WaitingRules, now: int) -> Due:
        """What to try for this voter.

        First the pairs that this voter skipped, undid or left, the latest first, if nobody of the block has voted on
        them since. Then, if the session may not open a further pair, those before it now; and if the block may not,
        those that wait for it: the ones that fewest visitors have before them, the oldest first.
        """
        here, own = self._blocks.get(block), self._sessions.get(voter)
        if here is None or not rules.pairs_wait:
            return Due()
        here.age(now)
        waiting = self._waiting(here)
        pairs: list[Pair] = []
        may_open = here.may_open(len(waiting), rules)
        if own is not None:
            own.age(now)
            mine = self._waiting(own)[::-1]
            before = set(own.open.values())
            pairs = [pair for pair in mine if pair not in before]
            if own.full(len(mine), rules):
                pairs += [pair for pair in mine if pair in before]
            may_open = may_open and own.may_open(len(mine), rules)
        if here.full(len(waiting), rules):
            seen_by = Counter(here.open.values())
            pairs += sorted((pair for pair in waiting if pair not in pairs), key=lambda pair: seen_by[pair])
        result = (self.shown_before(block, voter, pair, rules) for pair in pairs)
        return Due(tuple(due for due in result if due is not None), may_open)

    def choose(
        self,
        asked: tuple[str, str],
        rules: WaitingRules,
        now: int,
        again: Again,
        another: Callable[[], ChosenMatchup],
    ) -> ChosenMatchup:
        """What to serve to a block and voter who ask now.

        A pair that waits, on a prompt new to this voter; else `another`, or the first pair once more where no other may
        be opened. Another pair that was shown before without a vote stays on the prompts that it was shown on.
        """
        due = self.due(*asked, rules, now)
        result = next((result for pair in due.pairs if (result := again(pair)) is not None), None)
        if result is None and not due.may_open:
            result = next((result for pair in due.pairs if (result := again(pair, repeat=True)) is not None), None)
        if result is not None:
            return result
        for _ in range(TRIES):
            chosen = another()
            before = self.shown_before(*asked, pair_of(chosen.a, chosen.b), rules)
            if before is None:
                return chosen
            is_allowed = before.more or chosen.prompt in before.prompts
            result = chosen if is_allowed else again(before) or again(before, repeat=True)
        return result or chosen

    def shown_before(self, block: str, voter: str, pair: Pair, rules: WaitingRules) -> DuePair | None:
        """On what a pair was shown to this voter or this block since the last vote on it; None if it was not.

        Somebody who brings the pair along stays on their own prompts: those of this block would be further ones.
        """
        if not rules.pairs_wait or block not in self._blocks:
            return None
        session = self._sessions.get(voter)
        own, here = None if session is None else session.unvoted.get(pair), self._blocks[block].unvoted.get(pair)
        known = own or here
        if known is None:
            return None
        if own is None or here is None:
            return DuePair(pair, known.lane, known.prompts, len(known.prompts) < rules.prompts)
        if own.block != block or len(own.prompts) >= rules.prompts:
            return DuePair(pair, own.lane, own.prompts, more=False)
        return DuePair(pair, own.lane, own.prompts | here.prompts, len(here.prompts) < rules.prompts)

    def _waiting(self, record: ShownRecord) -> list[Pair]:
        """The pairs that wait, without those that somebody of their block has voted on."""
        return [
            pair
            for pair, unvoted in record.unvoted.items()
            if unvoted.waits and ((of := self._blocks.get(unvoted.block)) is None or pair in of.unvoted)
        ]

    def _closed(self, matchup_id: str) -> Reserved | None:
        shown = self._open.pop(matchup_id, None)
        if shown is not None:
            for record in self._records(shown):
                record.open.pop(matchup_id, None)
        return shown

    def _vote(self, body: e.Voted, shown: Reserved, at: int) -> None:
        """A vote settles the pair for the session, and for the blocks in which it was shown and cast."""
        block = body.block or shown.block
        records = self._records(shown, block)
        until = body.undo_until or 0
        doubted = until and any(record.doubts(self._rules, at) for record in records)
        before: dict[int, UnvotedPair] = {}
        for record in records:
            unvoted = record.unvoted.get(shown.pair)
            if unvoted is not None:
                before[id(record)] = msgspec.structs.replace(unvoted)
            if doubted:
                record.tentative[shown.pair] = until
            else:
                record.unvoted.pop(shown.pair, None)
            if until:
                record.held[body.matchup_id] = until
        for record in self._records(msgspec.structs.replace(shown, block=block)):
            record.votes += 1
        if until:
            self._held[body.matchup_id] = _HeldVote(shown, block, before, until)
        while self._held and next(iter(self._held.values())).until + UNDONE_WITHIN < at:
            self._held.popitem(last=False)

    def _take_back(self, matchup_id: str, vote: _HeldVote) -> None:
        """An undone vote settles nothing: the pair waits again where it did, whatever network the vote came from."""
        shown = vote.shown
        for record in self._records(msgspec.structs.replace(shown, block=vote.block)):
            record.votes -= 1
        for record in self._records(shown, vote.block):
            record.undone.append(vote.until)
            record.held.pop(matchup_id, None)
            record.tentative.pop(shown.pair, None)
            before = vote.before.get(id(record))
            if before is not None:
                record.note(shown, self._rules, latest_last=record is self._sessions.get(shown.voter))
                again = record.unvoted[shown.pair]
                again.prompts, again.since = again.prompts | before.prompts, min(again.since, before.since)
                again.block = before.block

    def _records(self, shown: Reserved, cast_in: str = "") -> list[ShownRecord]:
        """What is known of the block and of the session that a pair was shown to, and of the block of its vote."""
        names = dict.fromkeys((shown.block, cast_in or shown.block))
        result = (*(self._blocks.get(name) for name in names), self._sessions.get(shown.voter))
        return [record for record in result if record is not None]


def _brought_along(shown: Reserved, here: ShownRecord | None, own: ShownRecord | None) -> bool:
    """Whether a session was shown a pair that waits for it since it was in another block.

    It does not wait for this block then: otherwise a cookie would carry a pair from block to block, where others see it
    on further prompts, or vote on it because their target is in it. Where the pair waits anyway, it does not wait on
    the prompt that was brought along.
    """
    if own is None or not own.waits(shown.pair) or own.unvoted[shown.pair].block == shown.block:
        return False
    return here is None or not here.was_shown(shown.pair, shown.prompt)


def _keep(records: OrderedDict[str, ShownRecord], name: str, record: ShownRecord) -> None:
    records[name] = record
    while len(records) > BLOCKS_KEPT:
        records.popitem(last=False)


def again_for(
    find: Callable[..., ChosenMatchup | None], state: ArenaState, rng: Generator, seen: SeenMatchups
) -> Again:
    """How to show this voter a pair again, by `prompt_for_pair` of the matchmaking."""

    def again(due: DuePair, *, repeat: bool = False) -> ChosenMatchup | None:
        result = None
        if due.more and not repeat:
            result = find(state, rng, seen, due.pair, lane=due.lane)
        return result or find(state, rng, seen, due.pair, lane=due.lane, among=due.prompts, repeat=repeat)

    return again

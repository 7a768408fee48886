"""The pair waits: who skips, undoes or leaves two models gets the same two again, on another prompt.

Someone who wants to lift one model needs matchups with it, and skips, undoes or abandons all others. So a pair that a
block (the visitors of one address block, or of one invitation) was shown and has not voted on waits for that block: a
skip gives the same two models on another prompt, and so does a new session once as many pairs wait as the policy
allows. Nothing here knows a database or a clock; the same rule runs in the writer and in simulations.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from typing import TYPE_CHECKING, NamedTuple

from tiltyard.arena import events as e
from tiltyard.arena.tallies import Pair, pair_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tiltyard.arena.events import AnyBody, Lane
    from tiltyard.arena.matchmaking import ChosenMatchup
    from tiltyard.arena.policy import WaitingRules

BLOCKS_KEPT = 4096
"""How many blocks are kept in memory. The least recently served are dropped, and read again when they come back."""

WAITING_MOST = 500
"""How many pairs of one block may wait; older ones are given up. Only someone who exhausts the prompts of pair after
pair gets this far."""

VOTED_KEPT = 20_000
"""How many voted matchups are remembered in case they are undone, which is possible for a few seconds."""


class ShownPair(NamedTuple):
    """A matchup that was served to a block: the two models by number, who saw them, and the lane that chose them."""

    block: str
    pair: Pair
    voter: str
    lane: Lane


class _Block:
    """What one block was shown and has not voted on."""

    __slots__ = ("of_voter", "open", "votes", "waiting")

    def __init__(self, votes: int = 0) -> None:
        self.votes = votes
        self.waiting: dict[Pair, Lane] = {}
        """The pairs that wait, the longest waiting first."""
        self.open: dict[str, Pair] = {}
        """The matchups that visitors have before them now."""
        self.of_voter: dict[str, Pair] = {}
        """The pair that a voter skipped or undid last."""


class WaitingPairs:
    """The pairs that wait, block by block. Every method may be told the same thing twice; once counts."""

    def __init__(self) -> None:
        self._blocks: OrderedDict[str, _Block] = OrderedDict()
        self._open: dict[str, ShownPair] = {}
        self._voted: OrderedDict[str, ShownPair] = OrderedDict()

    def knows(self, block: str) -> bool:
        """Whether this block is in memory."""
        return block in self._blocks

    def enter(self, block: str, votes: int = 0) -> None:
        """Begin to keep a block, which has cast this many votes before."""
        self._blocks[block] = _Block(votes)
        while len(self._blocks) > BLOCKS_KEPT:
            _, gone = self._blocks.popitem(last=False)
            for matchup_id in gone.open:
                del self._open[matchup_id]

    def served(self, matchup_id: str, shown: ShownPair) -> None:
        """A matchup was served: its pair waits until the block votes on it."""
        block = self._blocks.get(shown.block)
        if block is None or matchup_id in self._open:
            return
        self._blocks.move_to_end(shown.block)
        self._open[matchup_id] = shown
        block.open[matchup_id] = shown.pair
        block.waiting.setdefault(shown.pair, shown.lane)
        if len(block.waiting) > WAITING_MOST:
            del block.waiting[next(iter(block.waiting))]

    def close(self, body: AnyBody) -> None:
        """A matchup was voted on, skipped, left to expire, or its vote undone."""
        match body:
            case e.Voted():
                shown = self._closed(body.matchup_id)
                if shown is not None:
                    self._vote(body, shown)
            case e.Skipped():
                shown = self._closed(body.matchup_id)
                if shown is not None:
                    self._put_back(shown)
            case e.Expired():
                self._closed(body.matchup_id)
            case e.Undone():
                shown = self._voted.pop(body.matchup_id, None)
                if shown is not None and shown.block in self._blocks:
                    self._blocks[shown.block].votes -= 1
                    self._put_back(shown)

    def due(self, block: str, voter: str, rules: WaitingRules) -> list[tuple[Pair, Lane]]:
        """The pairs to try for this voter, in order; empty where any pair may be chosen.

        First the pair that this voter skipped or undid, if nobody of the block has voted on it since. Then, if no
        further pair may be opened, those that wait: the ones that fewest visitors have before them, the oldest first.
        """
        kept = self._blocks.get(block)
        if kept is None or not rules.pairs_wait:
            return []
        own = kept.of_voter.get(voter)
        first = [own] if own in kept.waiting else []
        others: list[Pair] = []
        if len(kept.waiting) >= rules.open_pairs + kept.votes // rules.votes_per_open_pair:
            seen_by = Counter(kept.open.values())
            others = sorted((pair for pair in kept.waiting if pair != own), key=lambda pair: seen_by[pair])
        return [(pair, kept.waiting[pair]) for pair in (*first, *others)]

    def _closed(self, matchup_id: str) -> ShownPair | None:
        """Take a matchup from those before a visitor."""
        shown = self._open.pop(matchup_id, None)
        if shown is not None:
            del self._blocks[shown.block].open[matchup_id]
        return shown

    def _vote(self, body: e.Voted, shown: ShownPair) -> None:
        voted = shown._replace(block=body.block or shown.block)
        for name in {shown.block, voted.block}:
            if name in self._blocks:
                self._blocks[name].waiting.pop(shown.pair, None)
        if voted.block in self._blocks:
            self._blocks[voted.block].votes += 1
        self._voted[body.matchup_id] = voted
        while len(self._voted) > VOTED_KEPT:
            self._voted.popitem(last=False)

    def _put_back(self, shown: ShownPair) -> None:
        block = self._blocks[shown.block]
        block.waiting.setdefault(shown.pair, shown.lane)
        if len(block.of_voter) >= WAITING_MOST:
            block.of_voter.clear()
        block.of_voter[shown.voter] = shown.pair


def choose_waiting(
    due: Iterable[tuple[Pair, Lane]], again: Callable[[Pair, Lane], ChosenMatchup | None]
) -> ChosenMatchup | None:
    """The first of the pairs that can be shown on another prompt, as `again` finds it; None if there is none."""
    return next((found for pair, lane in due if (found := again(pair, lane)) is not None), None)


def shown_pair(body: e.MatchupServed, a: int, b: int) -> ShownPair:
    """What a block was shown, from the event and the numbers of its models."""
    return ShownPair(body.block, pair_of(a, b), body.voter, body.lane)

"""What an attack achieves and what it costs, with every vote counted and with flagged sessions left out."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial

import msgspec

from tiltyard.analysis.boards import BradleyTerry
from tiltyard.arena.rules.state import ArenaState
from tiltyard.arena.rules.votes import CastVote, VoteColumns, vote_table
from tiltyard.arena.simulation.population import Attack, World
from tiltyard.arena.study.integrity import flag_voters

Defence = Callable[["VoteColumns", "ArenaState"], Collection[str]]
"""A defence: returns the voters to leave out, given all votes and the state after them."""

RANKS = (1, 5)
"""Places gained whose cost is found."""


def fewest(most: int, reaches: Callable[[int], bool]) -> int | None:
    """The fewest of an attack's votes that reach something, by bisection, as if more votes never hurt.

    None if all of them, `most`, do not.
    """
    low, high = 0, most
    if not reaches(high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reaches(middle) else (middle, high)
    return high


def flagged_voters(votes: VoteColumns, state: ArenaState) -> Collection[str]:
    """The voters with a sure flag."""
    table = vote_table(votes, state.catalog)
    flags = flag_voters(table, state.ratings.rating, state.policy.flags)
    return {flag.voter for flag in flags if flag.sure}


class AttackReport(msgspec.Struct, frozen=True):
    """How far an attack got. Ranks are Bradley–Terry's of the pushed model; None if no model is pushed.

    `votes_per_ranks`: for 1 and 5 ranks gained, how many attackers' votes that took (None: more than they cast), with
    all honest votes included; `…_defended` counts the votes that had to be cast if flagged sessions are left out.
    """

    kind: str
    votes: int
    sessions: int
    target: str | None
    rank_true: int | None
    rank_honest_votes: int | None
    rank_undefended: int | None
    rank_defended: int | None
    votes_per_ranks: dict[int, int | None] | None
    votes_per_ranks_defended: dict[int, int | None] | None
    attackers_flagged: int
    honest_flagged: int
    honest_sessions: int


def attack_report(
    attack: Attack, world: World, votes: VoteColumns, state: ArenaState, attackers: Collection[str], defence: Defence
) -> AttackReport:
    """Compare the board of honest votes with those of all votes and of the votes that a defence leaves."""
    flagged = set(defence(votes, state))
    cast = [vote for vote in votes if vote.voter in attackers]
    pushes = attack.kind in ("rigging", "sybil")
    target = attack.aim(world) if pushes else None
    honest = [vote for vote in votes if vote.voter not in attackers]
    kept = [vote for vote in honest if vote.voter not in flagged]
    voters = {vote.voter for vote in votes}
    undefended = _Push(state, target, honest, cast, set())
    defended = _Push(state, target, kept, cast, flagged)
    return AttackReport(
        kind=attack.kind,
        votes=len(cast),
        sessions=len(voters & set(attackers)),
        target=None if target is None else state.catalog.models[target].model,
        rank_true=None if target is None else 1 + int((world.strength > world.strength[target]).sum()),
        rank_honest_votes=undefended.rank(0),
        rank_undefended=undefended.rank(len(cast)),
        rank_defended=defended.rank(len(cast)),
        votes_per_ranks=undefended.costs(),
        votes_per_ranks_defended=defended.costs(),
        attackers_flagged=len(flagged & set(attackers)),
        honest_flagged=len((flagged & voters) - set(attackers)),
        honest_sessions=len(voters - set(attackers)),
    )


class _Push(msgspec.Struct, frozen=True):
    """Honest votes, and attackers' votes in order, some of which are left out."""

    state: ArenaState
    target: int | None
    honest: list[CastVote]
    cast: list[CastVote]
    left_out: set[str]

    def rank(self, pushed: int) -> int | None:
        if self.target is None:
            return None
        counted = self.honest + [vote for vote in self.cast[:pushed] if vote.voter not in self.left_out]
        table = vote_table(counted, self.state.catalog).battles()
        board = BradleyTerry(ci="none", only_connected=True).fit(table)
        return board[self.state.catalog.models[self.target].model].rank

    def costs(self) -> dict[int, int | None] | None:
        start = self.rank(0)
        if start is None:
            return None
        return {gain: fewest(len(self.cast), partial(self._has_gained, start - gain)) for gain in RANKS}

    def _has_gained(self, wanted: int, pushed: int) -> bool:
        rank = self.rank(pushed)
        return rank is not None and rank <= wanted

"""What a board says, in one sentence: who leads, who else could be first, and which places cannot be told apart.

The sentence claims no more than the published ranges of ranks do. Provisional models are left aside, as the policy
leaves them out of claims about the top; while most models have hardly been voted on, nobody leads.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import msgspec

from tiltyard.arena.study.board import SHADOW_PHASE, LiveBoard
from tiltyard.arena.study.publication import Badge
from tiltyard.render import count, plural

MODEL_VOTES = 10
"""Rated votes (A, B, tie) that a model needs before an interval is drawn for it."""

NAMED = 3
"""The most models that the sentence names as possible firsts; more are counted."""


class Standing(msgspec.Struct, frozen=True):
    """One model of an order: its name, its place, the best and the worst it could hold, and whether it is provisional.

    Without a range nothing is known about how sure the place is.
    """

    model: str
    name: str
    place: int
    low: int | None
    high: int | None
    provisional: bool = False


class BoardVerdict(msgspec.Struct, frozen=True):
    """The board in words."""

    text: str
    """In one sentence."""
    leader: str | None
    """The model that leads, if no other could be first."""
    could_be_first: tuple[str, ...] = ()
    """Without provisional ones."""
    alike: tuple[int, int] | None = None
    """First and last of the longest row of places that cannot be told apart."""
    too_few_votes: bool = False
    """To rank."""
    votes_needed: int = 0
    """How many more it takes at least."""


def board_verdict(board: LiveBoard) -> BoardVerdict:
    """What the whole board says."""
    if not board.rows:
        return BoardVerdict("There are no models yet.", None, too_few_votes=True)
    many = plural(len(board.rows), "model")
    rated = sorted((row.votes - row.both_bad for row in board.rows), reverse=True)
    known = rated[: (len(rated) + 1) // 2]
    needed = -(-sum(max(MODEL_VOTES - votes, 0) for votes in known) // 2)
    if needed:  # at least half of the models have hardly been voted on
        message = f"{plural(board.votes, 'vote')} so far: too few to rank {many}" if board.votes else "No votes yet"
        return BoardVerdict(f"{message}.", None, too_few_votes=True, votes_needed=needed)
    if board.phase == SHADOW_PHASE:
        first = board.rows[0]
        text = f"{first.display_name} has the highest Elo of {many}. "
        return BoardVerdict(f"{text}This phase does not publish how sure the order is.", None)
    standings = [
        Standing(row.model, row.display_name, row.rank, row.rank_low, row.rank_high, row.badge is Badge.PROVISIONAL)
        for row in board.rows
    ]
    return verdict(standings, by="Elo" if board.ordered_by == "legacy_elo" else "")


def verdict(standings: Sequence[Standing], *, by: str = "") -> BoardVerdict:
    """What an order with ranges of ranks says."""
    if not standings:
        return BoardVerdict("Too few votes to rank any model.", None, too_few_votes=True)
    by = f" by {by}" if by else ""
    settled = [one for one in standings if not one.provisional]
    aside = len(standings) - len(settled)
    if not settled:
        return BoardVerdict("Nobody leads yet: all models are provisional.", None)
    if settled[0].low is None:
        unsure = f"{settled[0].name} is first{by}; it is too early to say how sure that is."
        return BoardVerdict(unsure, None)
    top = settled[0]
    firsts = [one for one in settled if one.low is None or one.low <= top.place or one is top]
    alike = _alike(settled)
    newcomers = any(one.provisional and (one.low is None or one.low <= top.place) for one in standings)
    others = [one.name for one in firsts if one is not top]
    if top.place != 1:
        parts = [f"No model with enough votes is first{by}"]
    elif not others:
        enough = " with enough votes" if newcomers else ""
        parts = [f"{top.name} leads{by}, and no other model{enough} could be first"]
    elif len(others) > NAMED:
        parts = [f"{top.name} is first{by}, but {count(len(others))} others could be"]
    else:
        named = others[0] if len(others) == 1 else f"{', '.join(others[:-1])} or {others[-1]}"
        parts = [f"{top.name} is first{by}, but {named} could be"]
    if alike is not None and (alike[1] - alike[0] > 1 or alike[0] > top.place):
        parts.append(f"places {alike[0]}–{alike[1]} cannot be told apart")
    elif alike is None and len(settled) > 1 and all(one.low == one.high == one.place for one in standings):
        parts.append("every place is settled")
    text = "; ".join(parts) + "."
    if aside:
        text += f" {plural(aside, 'provisional model')} {'is' if aside == 1 else 'are'} left aside."
    leader = top.model if len(firsts) == 1 and top.place == 1 and not newcomers else None
    return BoardVerdict(text, leader, tuple(one.model for one in firsts), alike)


def _alike(settled: Sequence[Standing]) -> tuple[int, int] | None:
    """The longest row of neighbours each of whom could hold every place of the row; the first of several equal ones."""
    best: tuple[int, int] | None = None
    for start, first in enumerate(settled):
        low, high = 1, settled[-1].place
        for one in islice(settled, start, None):
            low, high = max(low, one.low or 1), min(high, one.high or settled[-1].place)
            if low > first.place or high < one.place:
                break
            if one is not first and (best is None or one.place - first.place > best[1] - best[0]):
                best = (first.place, one.place)
        if best is not None and settled[-1].place - first.place <= best[1] - best[0]:
            break
    return best

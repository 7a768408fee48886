"""The witness: a file from which anybody recomputes an arena's head and board, without its database.

It has one line per event, up to the last that is public. A line of an event that is public gives half of its salt, the
public part of its text and the hash of the rest; any other line only gives its leaf, from which nothing can be guessed
(`chain`). Public are the catalog without answers, settings, exclusions, matchups with a final vote and their votes, and
everything about prompts that nobody can be voting on any more. What is never public of an event that is: which answers
were shown, the seed of the choice, and times to the second; of flags, nothing.

This module reads and checks the file, and needs no database. `store.witnessing` writes it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isclose
from typing import TYPE_CHECKING

import msgspec

from tiltyard.arena import events as e
from tiltyard.arena.chain import FIRST_HASH, HOUR, Leaf, link
from tiltyard.arena.following.replay import published_ratings, replay
from tiltyard.arena.heads import Head, HeadFile
from tiltyard.arena.offline import offline_board
from tiltyard.arena.state import ArenaState
from tiltyard.arena.votes import MemoryVoteBook, vote_table
from tiltyard.arena.weights import weighed
from tiltyard.errors import ArenaError, BattleError, RatingError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tiltyard.arena.state import CastVote

FORMAT = 1
"""The version of the file."""


class WitnessHeader(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The first line: what the file is, and the head that its lines must lead to."""

    witness: int
    """The version of the format: 1."""
    head: str
    """`HASH@SEQ` of the last line."""
    title: str = ""
    """What the arena is called."""
    statement: HeadFile | None = None
    """The latest signed head of the arena, if it has one."""


class WitnessLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One event: with `body`, `salt` and `rest` if it is public, else with its `leaf`."""

    seq: int
    hour: int
    """Whole hours since 1970."""
    leaf: str = ""
    body: str = ""
    """The public part of the event's text, byte for byte."""
    salt: str = ""
    rest: str = ""

    def link(self, previous: str) -> str:
        """The link over the one before."""
        leaf = self.leaf or Leaf(self.salt, self.rest, self.body).hash()
        return link(previous, self.seq, self.hour, leaf)


class _Served(msgspec.Struct, frozen=True, tag_field="kind", tag="matchup_served"):
    """The public part of a matchup."""

    matchup_id: str
    voter: str
    prompt_id: str
    model_a: str
    model_b: str
    block: str = ""


class RatedModel(msgspec.Struct, frozen=True, array_like=True):
    """One model of a published board."""

    model: str
    rating: float
    """Its Glicko-2 rating."""
    deviation: float
    bradley_terry: float | None = None
    """Its Bradley–Terry rating; None if the votes do not connect it with the others."""


def published_board(state: ArenaState, votes: Iterable[CastVote]) -> list[RatedModel]:
    """The board of a state, best first, from the votes of its log alone: the same for the arena and for a witness.

    Parameters:
        state: The state at the end of the public log.
        votes: Every vote up to there, whether it counts or not.
    """
    table = weighed(vote_table(votes, state.catalog), state.policy.defences)
    state = state.showing(published_ratings(replay(table, state.policy), table, state))
    order = [state.catalog.models[number].model for number in state.order()]
    try:
        fitted = {
            row.model: row.rating for row in offline_board(table, order, state.policy.intervals, swaps=False).rows
        }
    except (BattleError, RatingError):
        fitted = {}
    now = state.ratings
    return [
        RatedModel(
            state.catalog.models[number].model,
            float(now.rating[number]),
            float(now.deviation[number]),
            fitted.get(state.catalog.models[number].model),
        )
        for number in state.order()
    ]


def differing(stated: Sequence[RatedModel], found: Sequence[RatedModel]) -> Iterator[str]:
    """Where two boards differ by more than computers differ."""
    ours = {row.model: row for row in found}
    if [row.model for row in stated] != [row.model for row in found]:
        yield f"the order is {', '.join(row.model for row in found)}"
    for row in stated:
        other = ours.get(row.model)
        if other is None:
            yield f"{row.model} is not on the board"
            continue
        for name in ("rating", "deviation", "bradley_terry"):
            left, right = getattr(row, name), getattr(other, name)
            if (left is None) != (right is None) or (left is not None and not isclose(left, right, rel_tol=SAME)):
                yield f"the {name.replace('_', '–')} of {row.model} is {right}, not {left}"


SAME = 1e-9
"""How far figures of two computers may differ, as a part of their size."""


@dataclass(slots=True)
class Witness:
    """What a witness file proves: a head, and the state that follows from its public events.

    `problems` are contradictions in the file itself; `hidden` counts the events of which only the leaf is known.
    """

    head: Head = field(default_factory=lambda: Head(0, FIRST_HASH))
    state: ArenaState = field(default_factory=lambda: ArenaState(MemoryVoteBook()))
    hidden: int = 0
    changed_after: int = 0
    """The last event of a chain of version 1; 0 if there is none. Heads up to here cannot be compared."""
    old_head: Head | None = None
    """The head of that chain."""
    heads: dict[int, str] = field(default_factory=dict)
    """The hash at each number that was asked for."""
    boards: dict[int, list[RatedModel]] = field(default_factory=dict)
    """The board at each number that was asked for, and at the end."""
    problems: list[str] = field(default_factory=list)

    @property
    def book(self) -> MemoryVoteBook:
        """Every vote that is public."""
        book = self.state.book
        assert isinstance(book, MemoryVoteBook)
        return book


def read_witness(
    lines: Iterable[bytes], source: str, wanted: Iterable[int] = (), boards: Iterable[int] = ()
) -> tuple[WitnessHeader, Witness]:
    """Recompute the chain of a witness file, and fold its public events.

    Parameters:
        lines: The lines of the file.
        source: Its name, for errors.
        wanted: The numbers whose hashes are to be kept in `Witness.heads`.
        boards: The numbers at which the board is to be computed, besides the end.
    """
    stream = iter(lines)
    header = _header(next(stream, b""), source)
    found, asked, looks = Witness(), frozenset(wanted), frozenset(boards)
    for number, raw in enumerate(stream, start=2):
        try:
            line = _line(raw)
        except msgspec.MsgspecError as error:
            raise ArenaError(f"{source}, line {number}: not a line of a witness ({error}). Fetch it again.") from None
        if line.seq != found.head.seq + 1:
            found.problems.append(f"number {found.head.seq + 1} is missing; {line.seq} comes next")
            break
        if not _take(line, found, f"{source}, line {number}"):
            break
        if line.seq in asked:
            found.heads[line.seq] = found.head.hash
        if line.seq in looks:
            found.boards[line.seq] = published_board(found.state, found.book.votes)
    found.boards[found.head.seq] = published_board(found.state, found.book.votes)
    if not found.problems and Head.parse(header.head) != found.head:
        found.problems.append(f"its lines lead to {found.head}, and its first line states {header.head}")
    return header, found


def is_witness(first_line: bytes) -> bool:
    """Whether a file with this first line is a witness."""
    return first_line.startswith(b'{"witness":')


def _header(line: bytes, source: str) -> WitnessHeader:
    try:
        header = msgspec.json.decode(line, type=WitnessHeader)
    except msgspec.MsgspecError as error:
        raise ArenaError(f"{source} is not a witness file ({error}). `tiltyard arena witness` writes one.") from None
    if header.witness != FORMAT:
        raise ArenaError(
            f"{source} has version {header.witness} of the format, not {FORMAT}. Install a newer tiltyard."
        )
    return header


_line = msgspec.json.Decoder(WitnessLine).decode
_served = msgspec.json.Decoder(_Served).decode
_SERVED = '{"kind":"matchup_served"'


def _take(line: WitnessLine, found: Witness, where: str) -> bool:
    """Take in one line; False if the rest of the file cannot be understood."""
    previous = found.head.hash
    body = None
    if line.body:
        try:
            body = _body(line)
        except msgspec.MsgspecError as error:
            found.problems.append(f"number {line.seq} is no event that this version knows ({error})")
            return False
    if isinstance(body, e.ChainUpgraded):
        if found.changed_after or body.until != line.seq - 1 or body.link != previous:
            found.problems.append(
                f"number {line.seq} changes the version of the chain, and does not fit those before it"
            )
        found.changed_after, found.old_head = body.until, Head(body.until, body.head)
        previous = body.head
    found.head = Head(line.seq, line.link(previous))
    found.hidden += body is None
    try:
        found.state.apply(line.seq, e.Event(line.hour * HOUR, _HIDDEN if body is None else body))
    except ArenaError as error:
        found.problems.append(f"{where}: the event does not follow from those before it: {error}")
        return False
    return True


_HIDDEN = e.Revealed(matchup_id="")
"""Stands for an event that is not public: one that changes nothing."""


def _body(line: WitnessLine) -> e.AnyBody:
    """The event of a line. What is private of a matchup is not needed for any figure, and is left empty."""
    if not line.body.startswith(_SERVED):
        return e.decode_body(line.body)
    served = _served(line.body)
    known = {name: getattr(served, name) for name in ("matchup_id", "voter", "prompt_id", "model_a", "model_b")}
    if served.block and "block" in e.MatchupServed.__struct_fields__:
        known["block"] = served.block
    return e.MatchupServed(
        **known, response_a="", response_b="", lane="exploration", reason="", probability=0.0, seed=0, expires_at=0
    )


def check_heads(found: Witness, heads: Iterable[Head]) -> Iterator[str]:
    """What is wrong with the witness, given heads that were kept; nothing if it contains them all."""
    for head in sorted(heads):
        if head == found.old_head or (head.seq == 0 and head.hash == FIRST_HASH):
            continue
        if head.seq > found.head.seq:
            yield f"the log ends with number {found.head.seq}, before the head that was kept ({head}): it was cut"
        elif head.seq <= found.changed_after:
            yield (
                f"the head {head} is of the chain's version 1, which ended with number {found.changed_after}: only the "
                "operator can compare it (tiltyard arena verify --head)"
            )
        elif found.heads.get(head.seq) != head.hash:
            yield (
                f"number {head.seq} has the hash {found.heads.get(head.seq)}, not that of the head that was kept "
                f"({head.hash}): something up to here was rewritten"
            )

"""The witness: a file from which anybody recomputes an arena's head and board, without its database.

It has one line per event, up to the last that is public. Every line says of which kind its event is, and which matchup
it is about (`chain.Label`). An open line also gives half of its salt, the public part of its text and the hash of the
rest; a closed one only gives its leaf, from which nothing can be guessed (`chain`). Open are settings, models,
exclusions, prompts that were served, every vote that is final with its matchup, and everything about prompts that
nobody can be voting on any more. What is never public of an event that is: which answers were shown, the seed of the
choice, and times to the second; of flags, nothing.

A file that leaves out a vote contradicts itself (`MatchupCourse`): its labels say that there is one.

This module reads and checks the file, and needs no database. `store.witnessing` writes it.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import isclose

import msgspec

from tiltyard.arena import events as e
from tiltyard.arena.board import OFFICIAL_FROM, SHADOW_PHASE, official_order
from tiltyard.arena.chain import FIRST_HASH, LABELLED, OF_MATCHUPS, OTHER, Label, Leaf, label_of, link
from tiltyard.arena.following.replay import published_ratings
from tiltyard.arena.heads import Head, HeadFile
from tiltyard.arena.state import ArenaState
from tiltyard.arena.units import HOUR, SECOND
from tiltyard.arena.votes import CastVote, VoteColumns, vote_table
from tiltyard.arena.voting import CLOCK_MARGIN
from tiltyard.errors import ArenaError

FORMAT = 1
"""The version of the file."""


LAST_HOUR = 8_000_000
"""Somewhere in the year 2882: later hours are mistakes."""


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
    """One event: open with `body`, `salt` and `rest`, or closed with `kind`, `matchup_id` and `leaf`."""

    seq: int
    hour: int
    """Whole hours since 1970."""
    kind: str = ""
    """The kind of a closed event; `other` for all kinds on which no board depends."""
    matchup_id: str = ""
    """The matchup that a closed event is about."""
    leaf: str = ""
    body: str = ""
    """The public part of the event's text, byte for byte."""
    salt: str = ""
    rest: str = ""

    def __post_init__(self) -> None:
        if bool(self.body) is bool(self.leaf) or bool(self.body) is bool(self.kind):
            raise ValueError("an event is either open (body, salt, rest) or closed (kind, leaf)")
        if not 0 <= self.hour <= LAST_HOUR:
            raise ValueError(f"{self.hour} is no hour since 1970")

    @property
    def label(self) -> Label:
        """What every line says of its event."""
        return label_of(self.body) if self.body else Label(self.kind, self.matchup_id)

    def link(self, previous: str, label: Label) -> str:
        """The link over the one before."""
        leaf = self.leaf or Leaf(self.salt, self.rest, self.body).hash()
        return link(previous, self.seq, self.hour, label, leaf)


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
    """The rating shown: its conservative score, or legacy Elo in phases 1 and 2."""
    deviation: float | None
    """Its Glicko-2 deviation; None in phase 1, which does not show it."""


def published_board(state: ArenaState, votes: Iterable[CastVote]) -> list[RatedModel]:
    """The board of a state as its phase shows it, from the votes of its log alone: the same for arena and witness.

    Parameters:
        state: The state at the end of the public log.
        votes: Every vote up to there, whether it counts or not.
    """
    state = state.showing(published_ratings(vote_table(votes, state.catalog), state.policy))
    shown = state.conservative if state.phase >= OFFICIAL_FROM else state.ratings.legacy
    deviation = state.ratings.deviation
    return [
        RatedModel(
            state.catalog.models[number].model,
            float(shown[number]),
            None if state.phase == SHADOW_PHASE else float(deviation[number]),
        )
        for number in official_order(state)
    ]


def differing(stated: Sequence[RatedModel], result: Sequence[RatedModel]) -> Iterator[str]:
    """Where two boards differ by more than computers differ."""
    ours = {row.model: row for row in result}
    if [row.model for row in stated] != [row.model for row in result]:
        yield f"the order is {', '.join(row.model for row in result)}"
    for row in stated:
        other = ours.get(row.model)
        if other is None:
            yield f"{row.model} is not on the board"
            continue
        for name in ("rating", "deviation"):
            left, right = getattr(row, name), getattr(other, name)
            if (left is None) != (right is None) or (left is not None and not isclose(left, right, rel_tol=SAME)):
                yield f"the {name} of {row.model} is {right}, not {left}"


SAME = 1e-9
"""How far figures of two computers may differ, as a part of their size."""


class _Stage(enum.Enum):
    """How far a matchup has come."""

    SERVED = "is open"
    VOTED = "has a vote"
    FINAL = "has a vote that is final"
    CLOSED = "was skipped or has expired"
    UNDONE = "had a vote that was undone"


_COURSE = {
    "matchup_served": ((None,), _Stage.SERVED),
    "voted": ((_Stage.SERVED,), _Stage.VOTED),
    "revealed": ((_Stage.VOTED,), _Stage.FINAL),
    "undone": ((_Stage.VOTED,), _Stage.UNDONE),
    "skipped": ((_Stage.SERVED,), _Stage.CLOSED),
    "expired": ((_Stage.SERVED,), _Stage.CLOSED),
}

ALWAYS_OPEN = frozenset(
    (
        *("settings_changed", "phase_changed", "model_added", "model_enabled", "model_disabled"),
        *("excluded", "restored"),
    )
)
"""The kinds that a file must show: a board depends on each of them."""

NAMED = 5
"""How many votes that were left out are named; the others are counted."""


@dataclass(slots=True)
class MatchupCourse:
    """Follows every matchup by the labels of its events, to find votes that a file leaves out."""

    stages: dict[str, _Stage] = field(default_factory=dict)
    votes: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By matchup: the number of its vote, and the last hour in which that could be undone."""
    closed: dict[str, int] = field(default_factory=dict)
    """The votes that are known by their hashes alone, unless they were undone: by matchup, their numbers."""
    undone: list[tuple[int, int]] = field(default_factory=list)
    """Votes that were undone: the number of the vote, and of its undoing."""

    def take(self, line: WitnessLine, label: Label, undo_seconds: int) -> str:
        """Take in the next event of a matchup; what is wrong with it, or an empty text."""
        name, before = label.matchup_id, self.stages.get(label.matchup_id)
        allowed, self.stages[name] = _COURSE[label.kind]
        if before not in allowed:
            return f"{label.kind} of matchup {name}, which {before.value if before else 'was not served'}"
        if label.kind == "voted":
            latest = (line.hour + 1) * HOUR - 1 + undo_seconds * SECOND + CLOCK_MARGIN
            self.votes[name] = (line.seq, latest // HOUR)
            if line.leaf:
                self.closed[name] = line.seq
        elif label.kind == "undone":
            self.closed.pop(name, None)
            seq, hour = self.votes[name]
            self.undone.append((seq, line.seq))
            if line.hour > hour:
                return f"the vote on matchup {name} was undone when its time for that was over"
        return ""

    def story(self, matchup_id: str, votes: VoteColumns) -> str | None:
        """What became of a matchup, for whoever was served it; None if it is not in the file."""
        stage = self.stages.get(matchup_id)
        if stage not in (_Stage.VOTED, _Stage.FINAL) or matchup_id not in self.votes:
            return None if stage is None else f"matchup {matchup_id} {stage.value}"
        cast = votes.find([matchup_id])
        meaning = f"{cast[0].choice.value}, {cast[0].standing.value}" if cast else "known by its hash alone"
        return f"matchup {matchup_id} has the vote with number {self.votes[matchup_id][0]}: {meaning}"

    def left_out(self) -> Iterator[str]:
        """The votes that were not undone, and of which the file only gives the hash."""
        numbers = sorted(self.closed.values())
        if len(numbers) == 1:
            where = f"number {numbers[0]}"
            yield f"a vote that was not undone is known by its hash alone, so the board leaves it out: {where}"
        elif numbers:
            more = f" and {len(numbers) - NAMED:,} more" if len(numbers) > NAMED else ""
            yield (
                f"{len(numbers):,} votes that were not undone are known by their hashes alone, so the board leaves "
                f"them out: numbers {', '.join(map(str, numbers[:NAMED]))}{more}"
            )

    def undone_after(self, head: Head) -> Iterator[str]:
        """The votes that were final in a head of the public log, and undone after it."""
        for vote, undoing in self.undone:
            if vote <= head.seq < undoing:
                yield f"the vote with number {vote} was final when the head {head} was published; {undoing} undoes it"


@dataclass(slots=True)
class Witness:
    """What a witness file proves: a head, and the state that follows from its public events.

    `problems` are contradictions in the file itself; `hidden` counts the events that are known by their hashes alone.
    """

    head: Head = field(default_factory=lambda: Head(0, FIRST_HASH))
    state: ArenaState = field(default_factory=ArenaState)
    hidden: int = 0
    heads: dict[int, str] = field(default_factory=dict)
    """The hash at each number that was asked for."""
    boards: dict[int, list[RatedModel]] = field(default_factory=dict)
    """The board at each number that was asked for, and at the end."""
    course: MatchupCourse = field(default_factory=MatchupCourse)
    problems: list[str] = field(default_factory=list)

    @property
    def votes(self) -> VoteColumns:
        """Every vote that is public."""
        votes = self.state.votes
        assert isinstance(votes, VoteColumns)
        return votes


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
    header = read_header(next(stream, b""), source)
    result, asked, looks = Witness(), frozenset(wanted), frozenset(boards)
    for number, raw in enumerate(stream, start=2):
        try:
            line = _line(raw)
            twice = _doubled(raw)
        except (msgspec.MsgspecError, RecursionError) as error:  # what `WitnessLine` refuses comes as the first
            raise ArenaError(f"{source}, line {number}: not a line of a witness ({error}). Fetch it again.") from None
        if line.seq != result.head.seq + 1:
            result.problems.append(f"number {result.head.seq + 1} is missing; {line.seq} comes next")
            break
        if not _take(line, result, f"{source}, line {number}"):
            break
        twice = twice or (_doubled(line.body.encode()) if line.body else "")
        if twice:
            result.problems.append(
                f"number {line.seq} says {twice!r} twice: some would read the first, others the last"
            )
            break
        if line.seq in asked:
            result.heads[line.seq] = result.head.hash
        if line.seq in looks:
            result.boards[line.seq] = published_board(result.state, result.votes)
    else:
        result.problems += result.course.left_out()
    result.boards[result.head.seq] = published_board(result.state, result.votes)
    if not result.problems and Head.parse(header.head) != result.head:
        result.problems.append(f"its lines lead to {result.head}, and its first line states {header.head}")
    return header, result


def is_witness(first_line: bytes) -> bool:
    """Whether a file with this first line is a witness."""
    return first_line.startswith(b'{"witness":')


def read_header(line: bytes, source: str) -> WitnessHeader:
    """The first line of a witness; `source` names the file in errors."""
    try:
        header = msgspec.json.decode(line, type=WitnessHeader)
        twice = _doubled(line)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ArenaError(f"{source} is not a witness file ({error}). `tiltyard arena witness` writes one.") from None
    if twice:
        raise ArenaError(f"{source} says {twice!r} twice in its first line. Fetch it again.")
    if header.witness != FORMAT:
        raise ArenaError(
            f"{source} has version {header.witness} of the format, not {FORMAT}. Install a newer tiltyard."
        )
    return header


def _doubled(text: bytes) -> str:
    """A key that an object of this JSON has twice; empty if there is none, as in all that this program writes."""
    with suppress(msgspec.MsgspecError):  # numbers that only some can read
        if msgspec.json.encode(msgspec.json.decode(text)) == text.strip():
            return ""
    result: list[str] = []

    def look(pairs: list[tuple[str, object]]) -> None:
        keys = [key for key, _ in pairs]
        result.extend(key for key in keys if keys.count(key) > 1)

    json.loads(text, object_pairs_hook=look, parse_int=str, parse_float=str)
    return result[0] if result else ""


_line = msgspec.json.Decoder(WitnessLine).decode
_served = msgspec.json.Decoder(_Served).decode
_SERVED = '{"kind":"matchup_served"'


def _take(line: WitnessLine, result: Witness, where: str) -> bool:
    """Take in one line; False if the rest of the file cannot be understood."""
    previous = result.head.hash
    try:
        label = line.label
        body = _body(line, label)
    except (msgspec.MsgspecError, KeyError, RecursionError) as error:
        result.problems.append(f"number {line.seq} is no event that this version knows ({error})")
        return False
    result.head = Head(line.seq, line.link(previous, label))
    result.hidden += bool(line.leaf) and label.kind not in _TOLD_BY_LABEL
    if label.kind in OF_MATCHUPS:
        wrong = result.course.take(line, label, result.state.policy.undo_seconds)
        if wrong:
            result.problems.append(f"number {line.seq}: {wrong}")
    elif line.leaf and label.kind in ALWAYS_OPEN:
        result.problems.append(f"number {line.seq}: {label.kind} is known by its hash alone, and the board needs it")
    try:
        result.state.apply(line.seq, e.Event(line.hour * HOUR, body))
    except ArenaError as error:
        result.problems.append(f"{where}: the event does not follow from those before it: {error}")
        return False
    return True


_TOLD_BY_LABEL: dict[str, Callable[..., e.AnyBody]] = {
    "revealed": e.Revealed,
    "skipped": e.Skipped,
    "expired": e.Expired,
    "undone": e.Undone,
}
"""The kinds of which the label says everything."""

_HIDDEN = e.Revealed(matchup_id="")
"""Stands for an event that is not public: one that changes nothing."""


def _body(line: WitnessLine, label: Label) -> e.AnyBody:
    """The event of a line, as far as it is public."""
    if line.leaf:
        if label.kind not in LABELLED and label.kind != OTHER:
            raise msgspec.DecodeError(f"{label.kind!r}; install a newer tiltyard")
        told = _TOLD_BY_LABEL.get(label.kind)
        return _HIDDEN if told is None else told(matchup_id=label.matchup_id)
    body = _open_body(line)
    kind = str(body.__struct_config__.tag)
    if (kind if kind in LABELLED else OTHER, getattr(body, "matchup_id", "") if kind in OF_MATCHUPS else "") != label:
        raise msgspec.DecodeError("it names two kinds, or two matchups")
    return body


def _open_body(line: WitnessLine) -> e.AnyBody:
    """The event of an open line. What is private of a matchup is not needed for any figure, and is left empty."""
    if not line.body.startswith(_SERVED):
        return e.decode_body(line.body)
    known = msgspec.structs.asdict(_served(line.body))
    return e.MatchupServed(
        **known, response_a="", response_b="", lane="exploration", reason="", probability=0.0, seed=0, expires_at=0
    )


def check_heads(result: Witness, heads: Iterable[Head]) -> Iterator[str]:
    """What is wrong with the witness, given heads that were kept; nothing if it contains them all.

    In a head of the public log every vote is final: one that it contains is not undone later.
    """
    for head in sorted(heads):
        if head.seq == 0 and head.hash == FIRST_HASH:
            continue
        if head.seq > result.head.seq:
            yield f"the log ends with number {result.head.seq}, before the head that was kept ({head}): it was cut"
        elif result.heads.get(head.seq) != head.hash:
            yield (
                f"number {head.seq} has the hash {result.heads.get(head.seq)}, not that of the head that was kept "
                f"({head.hash}): something up to here was rewritten"
            )
        elif head.published:
            yield from result.course.undone_after(head)

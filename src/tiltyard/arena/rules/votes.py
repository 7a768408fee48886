"""Votes as columns of numbers: every vote of an arena in the order of its log, some 65 bytes each.

A vote is an object (`CastVote`) only while somebody looks at it. `VoteColumns` keeps them all, whether they count or
not; `VoteTable` is what boards and weights are computed from: those that count.
"""

from __future__ import annotations

import enum
import sys
from array import array
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from struct import Struct
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from tiltyard.arena.rules.catalog import Catalog
from tiltyard.arena.rules.events import Choice
from tiltyard.arena.rules.units import HOUR
from tiltyard.data.battles import BattleTable, Codes, Outcome, Source
from tiltyard.types import Bools, Floats, Ints

Int8s = NDArray[np.int8]


class SessionActs(msgspec.Struct, frozen=True):
    """What a session did with the matchups it was shown: votes cast, how many of those it undid, and skips."""

    cast: int = 0
    undone: int = 0
    skipped: int = 0


class VoteStanding(enum.StrEnum):
    """Whether a vote counts. An undone vote never counts again; an excluded one may be restored."""

    COUNTED = "counted"
    UNDONE = "undone"
    EXCLUDED = "excluded"

    __hash__ = str.__hash__  # as of `Choice`


class CastVote(msgspec.Struct, frozen=True, gc=False):
    """One vote in the log: its sequence number, models, prompt, choice, and whether it counts."""

    seq: int
    at: int
    matchup_id: str
    voter: str
    a: int
    b: int
    prompt: int
    choice: Choice
    standing: VoteStanding = VoteStanding.COUNTED
    block: str = ""
    """The key of the address block or invitation it came from; empty: none is known."""
    lane: str = ""
    """The lane that chose the matchup."""
    unrendered: str = ""
    """Which answers the voter said could not be shown: `A`, `B` or `AB`."""


@dataclass(frozen=True, slots=True, eq=False)
class VoteTable:
    """Votes in the order of the log: when (microseconds), models by side, prompt, voter, outcome codes.

    Models and prompts are the arena's numbers, and `models` and `prompts` their names; voters are numbered here, and
    `matchup_ids` names each vote. Without voters, every vote counts as a different voter's.
    """

    models: tuple[str, ...]
    prompts: tuple[str, ...]
    at: Ints
    model_a: Ints
    model_b: Ints
    prompt: Ints
    voter: Ints
    outcome: Int8s
    voters: tuple[str, ...] = ()
    matchup_ids: tuple[str, ...] = ()
    block: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """The block that each vote came from, as a number in `blocks`; -1: none is known. Left out: none is known."""
    blocks: tuple[str, ...] = ()
    weight: Floats = field(default_factory=lambda: np.zeros(0))
    """How much of each vote counts (`arena/weights.py`). Left out: all of it."""
    by_contender_lane: Bools = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    """Which matchups the contender lane chose. Left out: none."""

    def __post_init__(self) -> None:
        if not len(self.by_contender_lane):
            object.__setattr__(self, "by_contender_lane", np.zeros(len(self.at), dtype=np.bool_))
        if not len(self.block):
            object.__setattr__(self, "block", np.full(len(self.at), -1, dtype=np.int64))
        if not len(self.weight):
            object.__setattr__(self, "weight", np.ones(len(self.at)))

    def __len__(self) -> int:
        return len(self.at)

    @property
    def rated(self) -> Bools:
        """Which votes move ratings: all but the both-bad ones."""
        return np.asarray(self.outcome != Outcome.BOTH_BAD.code)

    def score_a(self) -> Floats:
        """The score of side A of every vote: 1, 0, or ½; meaningless where both were bad."""
        return np.array([1.0, 0.0, 0.5, 0.5])[self.outcome]

    def battles(self, weight: Floats | None = None) -> BattleTable:
        """The votes as battles that people decided, with prompt, voter and time as columns, and their weights."""
        names = tuple(sorted(self.models))
        code = np.array([names.index(name) for name in self.models], dtype=np.int32)
        voters = list(self.voters) or [str(number) for number in range(int(self.voter.max(initial=-1)) + 1)]
        return BattleTable(
            models=names,
            model_a=code[self.model_a],
            model_b=code[self.model_b],
            outcome=self.outcome,
            source=np.full(len(self), Source.HUMAN.code, dtype=np.int8),
            weight=self.weight if weight is None else weight,
            columns={
                "question_id": Codes(self.prompt.astype(np.int32), list(self.prompts)),
                "voter": Codes(self.voter.astype(np.int32), voters),
                "timestamp": self.at / 1e6,
            },
        ).compact()


_CHOICES = tuple(Choice)
_CHOICE_NUMBERS = {choice: number for number, choice in enumerate(_CHOICES)}
_OUTCOMES = np.array([choice.outcome.code for choice in _CHOICES], dtype=np.int8)

_STANDINGS = tuple(VoteStanding)
_STANDING_NUMBERS = {standing: number for number, standing in enumerate(_STANDINGS)}
_COUNTED, _UNDONE = _STANDING_NUMBERS[VoteStanding.COUNTED], _STANDING_NUMBERS[VoteStanding.UNDONE]

_FIELDS = {
    **dict.fromkeys(("seq", "at"), "q"),
    **dict.fromkeys(("voter", "block", "a", "b", "prompt"), "I"),
    **dict.fromkeys(("choice", "standing", "lane", "unrendered"), "B"),
}
"""The numbers that are kept of a vote, in the types of `struct`."""
_ROW = Struct("<" + "".join(_FIELDS.values()))
_ROWS = np.dtype([(name, f"<{code}") for name, code in _FIELDS.items()])


class NumberedTexts(dict[str, int]):
    """The numbers of texts that recur, in the order of their first use; asking for a new one numbers it."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def __missing__(self, text: str) -> int:
        number = self[text] = len(self.texts)
        self.texts.append(text)
        return number

    def __copy__(self) -> NumberedTexts:
        made = NumberedTexts()
        made.update(self)
        made.texts = self.texts.copy()
        return made


class VoteColumns:
    """Votes in the order of the log, whether they count or not. Reading one by its place makes it an object again."""

    def __init__(self, votes: Iterable[CastVote] = ()) -> None:
        self._rows = bytearray()
        self._ids, self._id_ends = bytearray(), array("Q", [0])
        self._voters, self._blocks, self._words = NumberedTexts(), NumberedTexts(), NumberedTexts()
        for vote in votes:
            self.cast(vote)

    def __len__(self) -> int:
        return len(self._rows) // _ROW.size

    def __iter__(self) -> Iterator[CastVote]:
        return (self[place] for place in range(len(self)))

    def __getitem__(self, place: int) -> CastVote:
        if place < 0:
            place += len(self)
        row = _ROW.unpack_from(self._rows, place * _ROW.size)
        seq, at, voter, block, a, b, prompt, choice, standing, lane, unrendered = row
        return CastVote(
            seq,
            at,
            self._ids[self._id_ends[place] : self._id_ends[place + 1]].decode(),
            self._voters.texts[voter],
            a,
            b,
            prompt,
            _CHOICES[choice],
            _STANDINGS[standing],
            self._blocks.texts[block],
            self._words.texts[lane],
            self._words.texts[unrendered],
        )

    def cast(self, vote: CastVote) -> None:
        self._rows += _ROW.pack(
            vote.seq,
            vote.at,
            self._voters[vote.voter],
            self._blocks[vote.block],
            vote.a,
            vote.b,
            vote.prompt,
            _CHOICE_NUMBERS[vote.choice],
            _STANDING_NUMBERS[vote.standing],
            self._words[vote.lane],
            self._words[vote.unrendered],
        )
        self._ids += vote.matchup_id.encode()
        self._id_ends.append(len(self._ids))

    def column(self, name: str) -> NDArray[Any]:
        """A field of every vote, without a copy; no vote can be added until it is dropped."""
        return np.frombuffer(self._rows, dtype=_ROWS)[name]

    def place(self, seq: int) -> int | None:
        """The place of the vote that is event `seq`; None if there is none."""
        seqs = self.column("seq")
        result = bisect_left(seqs, seq)
        return result if result < len(seqs) and seqs[result] == seq else None

    def find(self, matchup_ids: Collection[str]) -> list[CastVote]:
        """The votes on these matchups, in the order of the log. They are looked for from the end."""
        wanted, ends, ids = {name.encode() for name in matchup_ids}, self._id_ends, self._ids
        result: list[CastVote] = []
        for place in range(len(self) - 1, -1, -1):
            if not wanted:
                break
            name = bytes(ids[ends[place] : ends[place + 1]])
            if name in wanted:
                wanted.discard(name)
                result.append(self[place])
        return result[::-1]

    def change(self, vote: CastVote, standing: VoteStanding) -> None:
        place = self.place(vote.seq)
        assert place is not None, "the vote was found here"
        self.column("standing")[place] = _STANDING_NUMBERS[standing]

    def of_voter(self, voter: str) -> list[CastVote]:
        number = self._voters.get(voter, -1)
        return [self[place] for place in np.flatnonzero(self.column("voter") == number).tolist()]

    def of_model(self, model: int, most: int) -> list[CastVote]:
        """The latest votes on one model, newest first, without undone ones."""
        on_model = (self.column("a") == model) | (self.column("b") == model)
        places = np.flatnonzero(on_model & (self.column("standing") != _UNDONE))
        return [self[place] for place in places[: -most - 1 : -1].tolist()]

    def standings(self) -> dict[str, dict[VoteStanding, int]]:
        """How many votes of each status every voter has; voters in the order of their first vote."""
        kinds = len(_STANDINGS)
        cells = self.column("voter").astype(np.int64) * kinds + self.column("standing")
        counts = np.bincount(cells, minlength=kinds * len(self._voters.texts)).reshape(-1, kinds).tolist()
        return {
            voter: dict(zip(_STANDINGS, row, strict=True))
            for voter, row in zip(self._voters.texts, counts, strict=True)
        }

    def latest_before(self, at: int) -> int:
        """The largest number of a vote cast before a time; 0 if there is none."""
        return int(self.column("seq")[self.column("at") < at].max(initial=0))

    def are_counted(self, seqs: Ints) -> NDArray[np.bool_]:
        places = np.searchsorted(self.column("seq"), seqs)
        return np.asarray(self.column("standing")[places] == _COUNTED)

    def copy(self) -> VoteColumns:
        made = VoteColumns()
        for name, column in vars(self).items():
            setattr(made, name, copy(column))
        return made

    def table(self, catalog: Catalog, *, with_ids: bool = False) -> VoteTable:
        """The counted votes; their ids only if asked for."""
        counted = np.flatnonzero(self.column("standing") == _COUNTED)
        voter, voters = _renumbered(self.column("voter")[counted], self._voters.texts)
        block, blocks = _renumbered(self.column("block")[counted], self._blocks.texts, left_out="")
        contender = self._words.get("contender", -1)
        ids, ends = self._ids, self._id_ends
        return VoteTable(
            models=tuple(model.model for model in catalog.models),
            prompts=tuple(prompt.prompt_id for prompt in catalog.prompts),
            at=self.column("at")[counted],
            model_a=self.column("a")[counted].astype(np.int64),
            model_b=self.column("b")[counted].astype(np.int64),
            prompt=self.column("prompt")[counted].astype(np.int64),
            voter=voter,
            outcome=_OUTCOMES[self.column("choice")[counted]],
            voters=voters,
            matchup_ids=tuple(ids[ends[n] : ends[n + 1]].decode() for n in counted.tolist()) if with_ids else (),
            block=block,
            blocks=blocks,
            by_contender_lane=self.column("lane")[counted] == contender,
        )


def view_of(column: array[int]) -> NDArray[Any]:
    """A column without a copy of it; it cannot grow until this is dropped."""
    return np.frombuffer(column, dtype=column.typecode)


def _renumbered(numbers: NDArray[Any], texts: list[str], left_out: str | None = None) -> tuple[Ints, tuple[str, ...]]:
    """Numbers in the order of first use among these, and their texts; -1 for the text that is left out."""
    first = np.full(len(texts), len(numbers), dtype=np.int64)
    first[numbers[::-1]] = np.arange(len(numbers))[::-1]  # of several values for one place the last one stays
    order = [n for n in np.argsort(first, kind="stable").tolist() if first[n] < len(numbers) and texts[n] != left_out]
    new = np.full(len(texts), -1, dtype=np.int64)
    new[order] = np.arange(len(order))
    return new[numbers], tuple(texts[n] for n in order)


def vote_table(votes: Iterable[CastVote], catalog: Catalog) -> VoteTable:
    """The counted votes among these, which are in log order."""
    columns = votes if isinstance(votes, VoteColumns) else VoteColumns(votes)
    return columns.table(catalog, with_ids=True)


def battle_rows(
    votes: Iterable[CastVote],
    catalog: Catalog,
    weights: Iterable[float],
    reasons: Mapping[str, Sequence[str]] | None = None,
    *,
    between: tuple[int, int] = (0, sys.maxsize),
    keys: bool = False,
) -> Iterator[dict[str, Any]]:
    """One row per vote, in the order of the log, with its status and weight; votes that were undone are left out.

    `weights` are those of the votes that count; `between` are the first second of the votes that are asked for, and the
    first one after them.

    An excluded vote weighs 0, a counted one as much as on the published board, so that rating the rows gives that
    board. `voter` is a number in order of appearance in these rows, or with `keys` the random key of the log: it says
    which votes belong together. The time is rounded down to the hour. `unrendered` is
    a column where any voter said that answer `A`, `B` or both (`AB`) could not be shown, and `reasons` one where any
    voter gave reasons; these are lists of tags.
    """
    cast = [vote for vote in votes if vote.standing is not VoteStanding.UNDONE]
    weight = iter(weights)
    models: Sequence[str] = [model.model for model in catalog.models]
    prompts = [prompt.prompt_id for prompt in catalog.prompts]
    numbers: dict[str, int] = {}
    says_unrendered = any(vote.unrendered for vote in cast)
    for vote in cast:
        hour, counts = vote.at // HOUR * 3600, vote.standing is VoteStanding.COUNTED
        weighs = next(weight) if counts else 0.0
        if not between[0] <= hour < between[1]:
            continue
        yield {
            "model_a": models[vote.a],
            "model_b": models[vote.b],
            "winner": vote.choice.outcome.value,
            "source": "human",
            "question_id": prompts[vote.prompt],
            "voter": vote.voter if keys else f"v{numbers.setdefault(vote.voter, len(numbers) + 1)}",
            "timestamp": hour,
            "status": str(vote.standing),
            "weight": weighs,
            **({"unrendered": vote.unrendered} if says_unrendered else {}),
            **({"reasons": list(reasons.get(vote.matchup_id, ()))} if reasons else {}),
        }

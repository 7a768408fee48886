"""Votes as columns of numbers: some 80 bytes each, where objects with their texts take 450.

A site keeps every vote of its arena in memory, for as long as it runs. So a vote is an object only while somebody looks
at it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tiltyard.arena.catalog import Catalog
from tiltyard.arena.events import Choice
from tiltyard.arena.state import CastVote, VoteStanding
from tiltyard.arena.votes import CatalogNames, VoteTable
from tiltyard.types import Ints

_TYPES = {"q": np.int64, "I": np.uint32, "B": np.uint8}

_CHOICES = tuple(Choice)
_CHOICE_NUMBERS = {choice: number for number, choice in enumerate(_CHOICES)}
_OUTCOMES = np.array([choice.outcome for choice in _CHOICES], dtype=np.int8)

_STANDINGS = tuple(VoteStanding)
_STANDING_NUMBERS = {standing: number for number, standing in enumerate(_STANDINGS)}
_COUNTED = _STANDING_NUMBERS[VoteStanding.COUNTED]


class NumberedTexts:
    """Texts that recur, each kept once: their numbers in the order of their first use."""

    __slots__ = ("numbers", "texts")

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        """The number of a text, which is new if the text is."""
        result = self.numbers.get(text)
        if result is None:
            result = self.numbers[text] = len(self.texts)
            self.texts.append(text)
        return result


class VoteColumns:
    """Votes in the order of the log, whether they count or not. Reading one by its place makes it an object again."""

    def __init__(self, votes: Iterable[CastVote] = ()) -> None:
        self._seq, self._at = array("q"), array("q")
        self._voter, self._block = array("I"), array("I")
        self._a, self._b, self._prompt = array("I"), array("I"), array("I")
        self._choice, self._standing = array("B"), array("B")
        self._lane, self._unrendered = array("B"), array("B")
        self._ids, self._id_ends = bytearray(), array("Q", [0])
        self._voters, self._blocks, self._words = NumberedTexts(), NumberedTexts(), NumberedTexts()
        for vote in votes:
            self.append(vote)

    def __len__(self) -> int:
        return len(self._seq)

    def __iter__(self) -> Iterator[CastVote]:
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, place: int) -> CastVote:
        words = self._words.texts
        return CastVote(
            self._seq[place],
            self._at[place],
            self._ids[self._id_ends[place] : self._id_ends[place + 1]].decode(),
            self._voters.texts[self._voter[place]],
            self._a[place],
            self._b[place],
            self._prompt[place],
            _CHOICES[self._choice[place]],
            _STANDINGS[self._standing[place]],
            self._blocks.texts[self._block[place]],
            words[self._lane[place]],
            words[self._unrendered[place]],
        )

    def append(self, vote: CastVote) -> None:
        """Add the next vote of the log."""
        self._seq.append(vote.seq)
        self._at.append(vote.at)
        self._ids += vote.matchup_id.encode()
        self._id_ends.append(len(self._ids))
        self._voter.append(self._voters.number(vote.voter))
        self._block.append(self._blocks.number(vote.block))
        self._a.append(vote.a)
        self._b.append(vote.b)
        self._prompt.append(vote.prompt)
        self._choice.append(_CHOICE_NUMBERS[vote.choice])
        self._standing.append(_STANDING_NUMBERS[vote.standing])
        self._lane.append(self._words.number(vote.lane))
        self._unrendered.append(self._words.number(vote.unrendered))

    def place(self, seq: int) -> int | None:
        """The place of the vote that is event `seq`; None if there is none."""
        result = bisect_left(self._seq, seq)
        return result if result < len(self._seq) and self._seq[result] == seq else None

    def set_standing(self, place: int, standing: VoteStanding) -> None:
        """Change whether a vote counts."""
        self._standing[place] = _STANDING_NUMBERS[standing]

    def set_lane(self, place: int, lane: str) -> None:
        """Say which lane chose a vote's matchup."""
        self._lane[place] = self._words.number(lane)

    def of_voter(self, voter: str) -> list[CastVote]:
        """One voter's votes."""
        number = self._voters.numbers.get(voter)
        if number is None:
            return []
        return [self[place] for place in np.flatnonzero(view_of(self._voter) == number).tolist()]

    def of_model(self, model: int, most: int) -> list[CastVote]:
        """The latest votes on one model, newest first, without undone ones."""
        result: list[CastVote] = []
        for place in range(len(self) - 1, -1, -1):
            if model in (self._a[place], self._b[place]):
                vote = self[place]
                if vote.standing is not VoteStanding.UNDONE:
                    result.append(vote)
                    if len(result) == most:
                        break
        return result

    def named(self, matchup_ids: Collection[str]) -> list[CastVote]:
        """The votes on these matchups."""
        wanted, ends, ids = {name.encode() for name in matchup_ids}, self._id_ends, self._ids
        return [self[n] for n in range(len(self)) if bytes(ids[ends[n] : ends[n + 1]]) in wanted] if wanted else []

    def standings(self) -> dict[str, dict[VoteStanding, int]]:
        """How many votes of each status every voter has; voters in the order of their first vote."""
        kinds = len(_STANDINGS)
        cells = view_of(self._voter).astype(np.int64) * kinds + view_of(self._standing)
        counts = np.bincount(cells, minlength=kinds * len(self._voters.texts)).reshape(-1, kinds).tolist()
        return {
            voter: dict(zip(_STANDINGS, row, strict=True))
            for voter, row in zip(self._voters.texts, counts, strict=True)
        }

    def latest_before(self, at: int) -> int:
        """The largest number of a vote cast before a time; 0 if there is none."""
        return int(view_of(self._seq)[view_of(self._at) < at].max(initial=0))

    def are_counted(self, seqs: Ints) -> NDArray[np.bool_]:
        """Which of these events, all of them votes, count now."""
        places = np.searchsorted(view_of(self._seq), seqs)
        return np.asarray(view_of(self._standing)[places] == _COUNTED)

    def copy(self) -> VoteColumns:
        """The votes as they are now."""
        made = VoteColumns()
        for name, column in vars(self).items():
            if isinstance(column, NumberedTexts):
                names = NumberedTexts()
                names.texts, names.numbers = column.texts.copy(), column.numbers.copy()
                setattr(made, name, names)
            else:
                setattr(made, name, column[:])
        return made

    def table(self, catalog: Catalog | CatalogNames, *, with_ids: bool = False) -> VoteTable:
        """The counted votes, the same as `vote_table` makes of them; their ids only if asked for."""
        counted = np.flatnonzero(view_of(self._standing) == _COUNTED)
        voter, voters = _renumbered(view_of(self._voter)[counted], self._voters.texts)
        block, blocks = _renumbered(view_of(self._block)[counted], self._blocks.texts, left_out="")
        contender = self._words.numbers.get("contender", -1)
        ids, ends = self._ids, self._id_ends
        return VoteTable(
            models=tuple(model.model for model in catalog.models),
            prompts=tuple(prompt.prompt_id for prompt in catalog.prompts),
            at=view_of(self._at)[counted],
            model_a=view_of(self._a)[counted].astype(np.int64),
            model_b=view_of(self._b)[counted].astype(np.int64),
            prompt=view_of(self._prompt)[counted].astype(np.int64),
            voter=voter,
            outcome=_OUTCOMES[view_of(self._choice)[counted]],
            voters=voters,
            matchup_ids=tuple(ids[ends[n] : ends[n + 1]].decode() for n in counted.tolist()) if with_ids else (),
            block=block,
            blocks=blocks,
            by_contender_lane=view_of(self._lane)[counted] == contender,
        )


def view_of(column: array[int]) -> NDArray[Any]:
    """A column without a copy of it; it cannot grow until this is dropped."""
    return np.frombuffer(column, dtype=_TYPES[column.typecode])


def _renumbered(numbers: NDArray[Any], texts: list[str], left_out: str | None = None) -> tuple[Ints, tuple[str, ...]]:
    """Numbers in the order of first use among these, and their texts; -1 for the text that is left out."""
    first = np.full(len(texts), len(numbers), dtype=np.int64)
    first[numbers[::-1]] = np.arange(len(numbers))[::-1]  # of several values for one place the last one stays
    order = [n for n in np.argsort(first, kind="stable").tolist() if first[n] < len(numbers) and texts[n] != left_out]
    new = np.full(len(texts), -1, dtype=np.int64)
    new[order] = np.arange(len(order))
    return new[numbers], tuple(texts[n] for n in order)

"""The contents of an arena: cells with a text, pairs that people decided, and exchanges to show a judge.

A cell is a question and a model whose answer is known. `CellBuilder` enters each once, row by row.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tiltyard.battles import BattleTable, Codes
from tiltyard.battles.conversations import Dialogue
from tiltyard.types import Floats, Int32s

Int8s = NDArray[np.int8]


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """Every (question, model) whose prompt and answer the arena holds, each once; arrays of equal length.

    `question` indexes `question_ids`, `model` indexes `models` (the models of the arena's battles), `language` indexes
    `languages` and is -1 where the language is unknown.
    """

    question: Int32s
    model: Int32s
    language: Int32s
    question_ids: Sequence[str]
    models: Sequence[str]
    languages: Sequence[str]

    def __len__(self) -> int:
        return len(self.question)


@dataclass(frozen=True, slots=True, eq=False)
class HumanPairs:
    """Battles that people decided, with both answers available.

    `first` (side A) and `second` index `Cells`; `outcome` holds the codes of `battles.Outcome` as the model of `first`
    sees it; `weight` is a frequency.
    """

    first: Int32s
    second: Int32s
    outcome: Int8s
    weight: Floats

    def __len__(self) -> int:
        return len(self.first)


@dataclass(frozen=True, slots=True)
class Exchange:
    """One question and one model's answer to it, as a judge is shown them.

    `turns` are the user's messages: one for a row of a single turn, or where only the first turn counts.
    """

    question_id: str
    model: str
    language: str | None
    prompt: str
    answer: str
    turns: tuple[str, ...]


class TextSource(Protocol):
    """A source of the texts of cells."""

    def dialogues(self, cells: Sequence[int]) -> list[Dialogue]:
        """The prompts and answers of some cells, in their order."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class ArenaContents:
    """The contents of an arena: cells, pairs, their texts, what was left out, and the files besides the battles."""

    cells: Cells
    pairs: HumanPairs
    texts: TextSource
    remarks: tuple[str, ...]
    files: tuple[Path, ...] = ()


class Contradiction(NamedTuple):
    """A text that contradicts an earlier one: in what, and which row the earlier one came from."""

    what: str
    earlier: int


class CellBuilder:
    """The cells and pairs of human battles, entered row by row.

    A row without a question id is a separate question. `rows` and `sides` say where the text of each cell is.
    """

    def __init__(self, battles: BattleTable) -> None:
        self._battles = battles
        self._models = battles.model_a.tolist(), battles.model_b.tolist()
        self._questions, self._ids = _codes(battles, "question_id")
        self._languages, self._language_names = _codes(battles, "language")
        self._place: dict[int, int] = {}
        self._names: list[str] = []
        self._asked: dict[int, tuple[int, int]] = {}
        self._cells: dict[tuple[int, int], int] = {}
        self._replied = array("q")
        self._columns = array("i"), array("i"), array("i")
        self._pairs = array("i"), array("i"), array("i")
        self.rows = array("q")
        self.sides = array("b")

    def add_row(self, at: int, row: int, asked: Sequence[int], replied: Sequence[int]) -> Contradiction | None:
        """Enter both sides of the battle at a position, by fingerprints (0 = no text), or say what prevents it.

        `row` identifies the row in `rows` and in a `Contradiction`. A row with a contradiction changes nothing.
        """
        question = self._questions[at] if self._questions[at] >= 0 else -1 - at
        sides = [side for side in (0, 1) if asked[side]]
        for side in sides:
            contradiction = self._find_contradiction(question, self._models[side][at], asked[side], replied[side])
            if contradiction is not None:
                return contradiction
        entered = [self._enter(at, row, question, side, asked[side], replied[side]) for side in sides]
        if len(entered) == 2:
            for column, value in zip(self._pairs, (*entered, at), strict=True):
                column.append(value)
        return None

    def _find_contradiction(self, question: int, model: int, asked: int, replied: int) -> Contradiction | None:
        known = self._asked.get(question)
        if known is not None and known[0] != asked:
            return Contradiction(f"question_id {self._ids[question]!r} has another prompt", known[1])
        cell = self._cells.get((question, model))
        if cell is not None and self._replied[cell] != replied:
            name = self._battles.models[model]
            return Contradiction(f"{name!r} has another answer to question_id {self._ids[question]!r}", self.rows[cell])
        return None

    def _enter(self, at: int, row: int, question: int, side: int, asked: int, replied: int) -> int:
        """The cell of one side of a row, new or known."""
        model = self._models[side][at]
        cell = self._cells.setdefault((question, model), len(self._replied))
        if cell < len(self._replied):
            return cell
        self._asked.setdefault(question, (asked, row))
        if question not in self._place:
            self._place[question] = len(self._names)
            self._names.append(self._ids[question] if question >= 0 else f"(row {row + 1})")
        self._replied.append(replied)
        self.rows.append(row)
        self.sides.append(side)
        for column, value in zip(self._columns, (self._place[question], model, self._languages[at]), strict=True):
            column.append(value)
        return cell

    def cells(self) -> Cells:
        """The cells, in order of first appearance."""
        question, model, language = (np.array(column, dtype=np.int32) for column in self._columns)
        codes, names = _used(language, self._language_names)
        return Cells(question, model, codes, tuple(self._names), self._battles.models, names)

    def pairs(self) -> HumanPairs:
        """The battles with both answers available, in row order."""
        first, second, at = (np.array(column, dtype=np.int32) for column in self._pairs)
        return HumanPairs(first, second, self._battles.outcome[at], self._battles.weight[at])


def _used(codes: Int32s, labels: Sequence[str]) -> tuple[Int32s, tuple[str, ...]]:
    """The codes over only those labels that are used, sorted; -1 stays."""
    used = sorted({labels[code] for code in np.unique(codes).tolist() if code >= 0})
    place = {label: at for at, label in enumerate(used)}
    new = np.array([place.get(label, -1) for label in labels] + [-1], dtype=np.int32)
    return new[codes], tuple(used)


def _codes(battles: BattleTable, name: str) -> tuple[list[int], Sequence[str]]:
    column = battles.columns.get(name)
    if not isinstance(column, Codes):
        return [-1] * len(battles), ()
    return column.codes.tolist(), column.labels

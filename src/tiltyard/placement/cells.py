"""What an arena holds, as records: cells with a text, pairs that people decided, and one exchange to show a judge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Sequence

Ints = NDArray[np.int32]
Int8s = NDArray[np.int8]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """Every (question, model) whose prompt and answer the arena holds, each once; arrays of equal length.

    `question` indexes `question_ids`, `model` indexes `models` (the models of the arena's battles), `language` indexes
    `languages` and is -1 where the language is unknown.
    """

    question: Ints
    model: Ints
    language: Ints
    question_ids: Sequence[str]
    models: Sequence[str]
    languages: Sequence[str]

    def __len__(self) -> int:
        return len(self.question)


@dataclass(frozen=True, slots=True, eq=False)
class HumanPairs:
    """Battles that people decided and of which both answers are at hand.

    `first` (side A) and `second` index `Cells`; `outcome` holds the codes of `battles.Outcome` as the model of `first`
    sees it; `weight` is a frequency.
    """

    first: Ints
    second: Ints
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

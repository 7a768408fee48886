"""Who won (`Outcome`), who decided (`Source`), and one battle as a record (`Battle`)."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from functools import cache
from typing import Any, NoReturn, Self

import msgspec

from tiltyard.errors import BattleError


class CodedEnum(enum.StrEnum):
    """A word as battle rows spell it, and its place in the list of words: the `code` that arrays hold in its stead."""

    code: int

    def __init__(self, word: str) -> None:  # noqa: ARG002 - the enum keeps the word
        self.code = len(type(self).__members__)

    @classmethod
    @cache
    def of_code(cls, code: int) -> Self:
        return {one.code: one for one in cls}[code]

    def __repr__(self) -> str:
        return f"<{type(self).__name__}.{self.name}: {self.code}>"

    def __array_ufunc__(self, *_: object, **__: object) -> NoReturn:
        raise TypeError(f"arrays hold codes: compare them with {self.code}, the `code` of {self.value!r}.")


class Outcome(CodedEnum):
    """The outcome of one battle: `model_a`, `model_b`, `tie` or `tie (bothbad)`."""

    A = "model_a"
    B = "model_b"
    TIE = "tie"
    BOTH_BAD = "tie (bothbad)"

    @property
    def decisive(self) -> bool:
        """True when one model won; a tie of either kind is not decisive."""
        return self in (Outcome.A, Outcome.B)

    @property
    def swapped(self) -> Outcome:
        """The same outcome with the battle written from the other side."""
        return {Outcome.A: Outcome.B, Outcome.B: Outcome.A}.get(self, self)

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        """Any other word is an error, never a tie."""
        raise BattleError(f"unknown winner {value!r}: expected one of {', '.join(cls)}")


OUTCOME_LABELS = tuple(one.value for one in Outcome)
"""The spelling of every outcome in the order of their codes."""


class Source(CodedEnum):
    """Who decided a battle: `llm-judge` or `human`."""

    LLM_JUDGE = "llm-judge"
    HUMAN = "human"

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        raise BattleError(f"unknown source {value!r}: expected one of {', '.join(cls)}")


SOURCE_LABELS = tuple(one.value for one in Source)
"""The spelling of every source in the order of their codes."""

REQUIRED_FIELDS = ("model_a", "model_b", "winner", "source")
"""Columns that every battle row has."""

TEXT_FIELDS = ("question_id", "voter", "judge_model", "dimension", "category", "language", "battle_id")
"""Optional columns of a battle row that hold text."""

FLAGS = ("inconsistent", "one_order", "winner_first")
"""Optional columns that say yes; a row without one says no."""

OPTIONAL_FIELDS = (*TEXT_FIELDS[:-1], "timestamp", "battle_id", *FLAGS)
"""Optional columns that a battle row may carry besides `score_a`, `weight` and the control pairs."""


class Battle(msgspec.Struct, frozen=True, kw_only=True):
    """One battle: two models, an outcome, and who decided it.

    An inconsistent judgment is a tie with `inconsistent=True`.

    Parameters:
        model_a: The model on side A.
        model_b: The model on side B.
        winner: Who won; the spelling of a battle row is taken too.
        source: Who decided: a person or a language model.
        question_id: The prompt; battles on one prompt are not independent.
        voter: A key of who voted, without identity; battles of one voter are not independent.
        judge_model: The judge's name.
        dimension: What is judged, one rubric each.
        score_a: The soft outcome (1 = A won) where there is one.
        weight: How many equal battles the row stands for.
        category: What the prompt is about, for splitting.
        language: The prompt's language.
        timestamp: Seconds since 1970.
        battle_id: A name to trace it back by.
        inconsistent: Whether it is a judgment that changed with the order; the winner is then a tie.
        one_order: Whether the answers were shown in one order only, that of side A first.
        winner_first: Whether the winner was written on side A, so that sides do not say who was shown first.
        controls: Number pairs such as `len_a` and `len_b`, by column name.
    """

    model_a: str
    model_b: str
    winner: Outcome
    source: Source
    question_id: str | None = None
    voter: str | None = None
    judge_model: str | None = None
    dimension: str | None = None
    score_a: float | None = None
    weight: float = 1.0
    category: str | None = None
    language: str | None = None
    timestamp: float | None = None
    battle_id: str | None = None
    inconsistent: bool = False
    one_order: bool = False
    winner_first: bool = False
    controls: Mapping[str, float] = {}

    def __post_init__(self) -> None:
        """Take the spellings of a battle row too, where the outcome and the source are given as text."""
        if type(self.winner) is not Outcome:
            msgspec.structs.force_setattr(self, "winner", Outcome(self.winner))
        if type(self.source) is not Source:
            msgspec.structs.force_setattr(self, "source", Source(self.source))

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> Battle:
        """Read a battle row; unknown keys are ignored, so rows of a newer or older schema load too."""
        missing = [name for name in REQUIRED_FIELDS if row.get(name) is None]
        if missing:
            raise BattleError(f"a battle row needs {', '.join(missing)}; this one has {', '.join(map(str, row))}")
        known = {name: row[name] for name in cls.__struct_fields__ if row.get(name) is not None}
        known["winner"] = Outcome(known["winner"])
        known["source"] = Source(known["source"])
        plain = {name: value for name, value in row.items() if not isinstance(value, bool)}
        numbers = {name: value for name, value in plain.items() if isinstance(value, int | float)}
        pairs = {name: float(value) for name, value in numbers.items() if is_pair(name, numbers)}
        known["controls"] = dict(known.get("controls", {})) | pairs
        try:
            return msgspec.convert(known, cls)
        except msgspec.ValidationError as error:
            raise BattleError(f"a battle row has a value of the wrong type: {error}") from None

    def to_dict(self) -> dict[str, Any]:
        """The battle row as it is written to a file: labels, and only the keys that say something."""
        row: dict[str, Any] = {name: str(getattr(self, name)) for name in REQUIRED_FIELDS}
        for name in (*OPTIONAL_FIELDS, "score_a"):
            value = getattr(self, name)
            if value is not None and value is not False:
                row[name] = value
        if self.weight != 1.0:
            row["weight"] = self.weight
        return row | dict(self.controls)


def is_pair(name: str, names: Mapping[str, object] | frozenset[str] | set[str]) -> bool:
    """True when `name` is one half of a control pair: `<something>_a` beside `<something>_b`."""
    if name in ("model_a", "model_b", "score_a", "score_b", "_a", "_b"):
        return False
    return other_slot(name) != name and name in names and other_slot(name) in names


def other_slot(column: str) -> str:
    """`len_a` for `len_b` and the other way round; any other name stays."""
    other = {"_a": "_b", "_b": "_a"}.get(column[-2:])
    return column[:-2] + other if other else column

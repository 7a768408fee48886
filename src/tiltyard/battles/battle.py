"""Who won (`Outcome`), who decided (`Source`), and one battle as a record (`Battle`)."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any

import msgspec

from tiltyard.errors import BattleError


class Spelled(enum.IntEnum):
    """A code with a spelling in files, which it is equal to as well: `battle.winner == "model_a"`."""

    @property
    def label(self) -> str:
        """The spelling in a battle row."""
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        return self.label == other if isinstance(other, str) else super().__eq__(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = enum.IntEnum.__hash__


class Outcome(Spelled):
    """The outcome of one battle. The number is its code in every array; the label is its spelling in every file."""

    A = 0
    B = 1
    TIE = 2
    BOTH_BAD = 3

    @property
    def label(self) -> str:
        """The spelling in a battle row: `model_a`, `model_b`, `tie` or `tie (bothbad)`."""
        return OUTCOME_LABELS[self]

    @property
    def decisive(self) -> bool:
        """True when one model won; a tie of either kind is not decisive."""
        return self in (Outcome.A, Outcome.B)

    @property
    def swapped(self) -> Outcome:
        """The same outcome with the battle written from the other side."""
        return {Outcome.A: Outcome.B, Outcome.B: Outcome.A}.get(self, self)

    @classmethod
    def from_label(cls, label: str) -> Outcome:
        """Read the spelling of a battle row; any other word is an error, never a tie."""
        try:
            return cls(OUTCOME_LABELS.index(label))
        except ValueError:
            raise BattleError(f"unknown winner {label!r}: expected one of {', '.join(OUTCOME_LABELS)}") from None


OUTCOME_LABELS: tuple[str, ...] = ("model_a", "model_b", "tie", "tie (bothbad)")


class Source(Spelled):
    """Who decided a battle. The number is its code in every array."""

    LLM_JUDGE = 0
    HUMAN = 1

    @property
    def label(self) -> str:
        """The spelling in a battle row: `llm-judge` or `human`."""
        return SOURCE_LABELS[self]

    @classmethod
    def from_label(cls, label: str) -> Source:
        """Read the spelling of a battle row."""
        try:
            return cls(SOURCE_LABELS.index(label))
        except ValueError:
            raise BattleError(f"unknown source {label!r}: expected one of {', '.join(SOURCE_LABELS)}") from None


SOURCE_LABELS: tuple[str, ...] = ("llm-judge", "human")


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
        msgspec.structs.force_setattr(self, "winner", _outcome(self.winner))
        msgspec.structs.force_setattr(self, "source", _source(self.source))

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> Battle:
        """Read a battle row; unknown keys are ignored, so rows of a newer or older schema load too."""
        missing = [name for name in ("model_a", "model_b", "winner", "source") if row.get(name) is None]
        if missing:
            raise BattleError(f"a battle row needs {', '.join(missing)}; this one has {', '.join(map(str, row))}")
        known = {name: row[name] for name in cls.__struct_fields__ if row.get(name) is not None}
        known["winner"] = _outcome(known["winner"])
        known["source"] = _source(known["source"])
        known["controls"] = dict(known.get("controls", {})) | _control_pairs(row)
        try:
            return msgspec.convert(known, cls)
        except msgspec.ValidationError as error:
            raise BattleError(f"a battle row has a value of the wrong type: {error}") from None

    def to_dict(self) -> dict[str, Any]:
        """The battle row as it is written to a file: labels, and only the keys that say something."""
        row: dict[str, Any] = {
            "model_a": self.model_a,
            "model_b": self.model_b,
            "winner": self.winner.label,
            "source": self.source.label,
        }
        for name in (*OPTIONAL_FIELDS, "score_a"):
            value = getattr(self, name)
            if value is not None and value is not False:
                row[name] = value
        if self.weight != 1.0:
            row["weight"] = self.weight
        return row | dict(self.controls)


def is_pair(name: str, names: Mapping[str, object] | frozenset[str] | set[str]) -> bool:
    """True when `name` is one half of a control pair: `<something>_a` beside `<something>_b`."""
    if name in ("model_a", "model_b", "score_a", "score_b") or name[-2:] not in ("_a", "_b"):
        return False
    return len(name) > 2 and f"{name[:-2]}_a" in names and f"{name[:-2]}_b" in names


def _control_pairs(row: Mapping[str, Any]) -> dict[str, float]:
    numbers = {
        name: value for name, value in row.items() if isinstance(value, int | float) and not isinstance(value, bool)
    }
    return {name: float(value) for name, value in numbers.items() if is_pair(name, numbers)}


def _outcome(value: object) -> Outcome:
    return value if isinstance(value, Outcome) else Outcome.from_label(str(value))


def _source(value: object) -> Source:
    return value if isinstance(value, Source) else Source.from_label(str(value))

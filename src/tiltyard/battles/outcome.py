"""Who won, spelled one way: `Outcome`; and who decided: `Source`."""

from __future__ import annotations

import enum

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

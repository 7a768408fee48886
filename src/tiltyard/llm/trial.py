"""Checks whether a model answers at all: tracks its first questions until one succeeds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from tiltyard.errors import TiltyardError
from tiltyard.llm.keys import redact

GIVE_UP_AFTER = 20
"""If this many first questions all fail, the questions are hardly to blame: nothing more is asked."""

_LONGEST_QUOTE = 300


@dataclass(frozen=True, slots=True)
class FailureSummary:
    """A summary of the failures: how many, and the most common one with its name, count and quoted message."""

    total: int
    name: str
    why: str
    count: int
    quoted: str


@dataclass(slots=True)
class Trial:
    """How the questions to a model ended so far, until the first success.

    `give_up` makes the error that is raised once `enough` have failed.
    """

    give_up: Callable[[FailureSummary], TiltyardError]
    enough: int = GIVE_UP_AFTER
    _passed: bool = False
    _kinds: Counter[tuple[str, str]] = field(default_factory=Counter)
    _examples: dict[tuple[str, str], str] = field(default_factory=dict)

    def succeeded(self) -> None:
        """A question succeeded: from now on the model is trusted."""
        self._passed = True

    def failed(self, name: str, why: str, words: str = "") -> None:
        """A question failed under this name; `words` are the model's or the provider's message."""
        if not self._passed:
            self._kinds[name, why] += 1
            self._examples.setdefault((name, why), words)

    def failures_left(self) -> float:
        """How many more questions may fail; raises if none may."""
        left = float("inf") if self._passed else self.enough - self._kinds.total()
        if left <= 0:
            raise self.give_up(self._failures())
        return left

    def _failures(self) -> FailureSummary:
        (name, why), count = self._kinds.most_common(1)[0]
        words = " ".join(redact(self._examples[name, why]).split())
        quoted = f" (“{'…' if len(words) > _LONGEST_QUOTE else ''}{words[-_LONGEST_QUOTE:]}”)" if words else ""
        return FailureSummary(self._kinds.total(), name, redact(why), count, quoted)

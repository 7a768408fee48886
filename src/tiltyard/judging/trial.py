"""Whether a judge answers at all: the first questions of a run, until one of them gets a readable verdict."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tiltyard.errors import JudgingError
from tiltyard.judging.records import Said
from tiltyard.llm.keys import redact

if TYPE_CHECKING:
    from pathlib import Path

    from tiltyard.judging.records import Verdict

_LONGEST_QUOTE = 300
_ADVICE = {
    Said.UNPARSED: "Use a judge that follows instructions, or look at the rubric",
    Said.TRUNCATED: "Allow the judge more tokens",
    Said.REFUSED: "Use another judge, or look at the rubric and the prompts",
    Said.ERROR: "Check the judge's name, address and account",
}


@dataclass(slots=True)
class Trial:
    """How the questions of a judge ended so far, as long as none had a readable verdict."""

    _passed: bool = False
    _kinds: Counter[tuple[Said, str]] = field(default_factory=Counter)
    _examples: dict[tuple[Said, str], str] = field(default_factory=dict)

    def ended(self, verdict: Verdict) -> None:
        """A question has ended with this verdict."""
        if self._passed or verdict.verdict.readable:
            self._passed = True
            return
        kind = (verdict.verdict, verdict.error or "")
        self._kinds[kind] += 1
        self._examples.setdefault(kind, verdict.reasoning)

    def wanted(self, enough: int) -> int:
        """How many more questions have to end before `enough` have, if all of them fail."""
        return 0 if self._passed else max(0, enough - self._kinds.total())

    def check(self, enough: int, judge: str, folder: Path) -> None:
        """Nothing, unless `enough` questions have ended and none of them well: then the error that says so."""
        if self._passed or self._kinds.total() < enough:
            return
        (said, why), count = self._kinds.most_common(1)[0]
        words = " ".join(redact(self._examples[said, why]).split())
        quoted = f" (“{'…' if len(words) > _LONGEST_QUOTE else ''}{words[-_LONGEST_QUOTE:]}”)" if words else ""
        raise JudgingError(
            f"{judge} gave no readable verdict on any of the first {self._kinds.total()} questions; {count} ended as "
            f"{said.value}: {redact(why)}{quoted}. {_ADVICE[said]}, then run again; what came is kept in {folder}."
        )

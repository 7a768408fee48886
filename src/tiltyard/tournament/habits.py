"""The judge's habits in a run, counted while its judgments pass by, and what they mean for the board.

The counts take five bytes a verdict, so that a million judgments need no more memory than their battles do.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tiltyard.judging.plan import Case
from tiltyard.judging.records import Judgment, Verdict, VerdictLabel, in_pairs, repeated
from tiltyard.tournament.gate import MOST_INCONSISTENT
from tiltyard.validity.agreement import NO_ESTIMATE, Estimate, share

EVEN = 0.5


@dataclass(frozen=True, slots=True)
class JudgeHabits:
    """How a judge behaved in one dimension. Intervals are clustered by prompt."""

    flips: Estimate
    """Of the judgments read in both orders, the share that changed with the order."""
    first_slot: Estimate
    """Of the verdicts for one answer, the share for the one shown first; 0.5 without position bias."""
    longer: Estimate
    """Of the decisive judgments on answers of unequal length, the share won by the longer one."""
    repeats: Estimate = NO_ESTIMATE
    """Of every two verdicts on one question that was repeated, the share that is the same."""

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> JudgeHabits:
        """The habits that a manifest has."""
        return cls(**{name: Estimate(**found) for name, found in record.items()})

    @property
    def unreliable(self) -> bool:
        """Whether the order of the answers decides so often that the board says little about the entrants."""
        return self.flips.value is not None and self.flips.value > MOST_INCONSISTENT

    def lines(self) -> list[str]:
        """What these habits mean for the board, in sentences; a warning first, where one is due."""
        if self.flips.value is None and self.first_slot.value is None:
            return []
        lines = [self._about_flips()] if self.flips.value is not None else []
        if self.repeats.value is not None:
            lines.append(f"judge: asked again, gave the same verdict in {_percent(self.repeats)} of repeats")
        if _is_uneven(self.first_slot):
            lines.append(self._about_slots())
        if _is_uneven(self.longer):
            which = "longer" if (self.longer.value or 0) > EVEN else "shorter"
            lines.append(
                f"judge: {which} answers won more often; the longer one won {_percent(self.longer)} of decisive "
                f"judgments. If {which} is not better here, say so in the rubric: part of the ratings may be length"
            )
        if not (_is_uneven(self.first_slot) or _is_uneven(self.longer) or self.unreliable):
            lines.append("judge: no clear preference for the answer shown first, or for the longer one, was found")
        return lines

    def _about_slots(self) -> str:
        which = "first" if (self.first_slot.value or 0) > EVEN else "second"
        said = (
            f"judge: preferred the answer shown {which}; the first one got {_percent(self.first_slot)} of its choices."
        )
        if self.flips.value is None:
            return f"{said} It saw one order only, so whoever was shown there is rated too high"
        return f"{said} Both orders were judged, so this favours no entrant, but it turns wins into ties"

    def _about_flips(self) -> str:
        value, n = self.flips.value or 0.0, self.flips.n
        said = f"changed its verdict with the order of the answers in {round(value * n):,} of {n:,} judgments"
        if self.unreliable:
            return (
                f"WARNING: the judge {said} ({100 * value:.0f} %). A judge that guesses does so in 50 to 67 %: this "
                "board says more about the judge than about the entrants. Try another judge or a clearer rubric"
            )
        means = "; these count as ties, which pulls ratings together" if value else ""
        return f"judge: {said} ({100 * value:.0f} %){means}"


def panel_warnings(study: Mapping[str, Any], combine: str) -> list[str]:
    """What a reader of a panel's board should know: ties that are disagreements, and judges that go by the order.

    Parameters:
        study: What the judges of the panel did in a dimension, as the manifest has it.
        combine: How their votes became battles.
    """
    lines = []
    judges, split = study["judges"], study["no_majority"]
    if split and combine != "rows":
        two = len(judges) == 2
        why, keeps = ("the two judges disagreed", "both") if two else ("no result had the most votes", "every verdict")
        lines.append(
            f"{split:,} of {study['matchups']:,} matchups became ties because {why}; combine: rows keeps {keeps}"
        )
    return lines + [
        f"WARNING: {row['judge']} changed its verdict with the order of the answers in {100 * rate:.0f} % of its "
        "judgments, which then name no winner. Leave it out of the panel, or try a clearer rubric"
        for row in judges
        if (rate := row["bias"]["flip_rate"]["value"]) is not None and rate > MOST_INCONSISTENT
    ]


def _is_uneven(found: Estimate) -> bool:
    """Whether a share is above or below one half by more than chance."""
    return found.low is not None and found.high is not None and not found.low <= EVEN <= found.high


def _percent(found: Estimate) -> str:
    low, high = found.low or 0.0, found.high or 0.0
    return f"{100 * (found.value or 0.0):.0f} % ({100 * low:.0f} to {100 * high:.0f})"


@dataclass(slots=True)
class _Shares:
    """Hits with the prompt of each, in columns."""

    hits: array[int] = field(default_factory=lambda: array("b"))
    prompts: array[int] = field(default_factory=lambda: array("i"))

    def add(self, hit: bool, prompt: int) -> None:
        self.hits.append(hit)
        self.prompts.append(prompt)

    def estimate(self) -> Estimate:
        return share(self.hits, self.prompts)  # type: ignore[arg-type]


class HabitCounts:
    """Counts the habits of a judge as its judgments pass by; with `cases`, its preference for length too."""

    def __init__(self, cases: Sequence[Case] | None = None) -> None:
        self._cases = cases
        self._numbers: dict[str, int] = {}
        self._flips, self._firsts, self._longer, self._repeats = _Shares(), _Shares(), _Shares(), _Shares()

    def watch(self, judgments: Iterable[Judgment]) -> Iterator[Judgment]:
        """The same judgments, counted."""
        for place, judgment in enumerate(judgments):
            prompt = self._numbers.setdefault(judgment.prompt_id, len(self._numbers))
            if len(judgment.raw) > 2:
                self._count_several(judgment.raw, prompt)
            elif len(judgment.raw) == 2 and judgment.status == "ok":
                self._flips.add(judgment.inconsistent, prompt)
            for verdict in judgment.raw:
                if verdict.verdict in (VerdictLabel.A, VerdictLabel.B):
                    self._firsts.add(verdict.verdict is VerdictLabel.A, prompt)
            if judgment.winner is not None and self._cases is not None:
                case = self._cases[place]
                longer = len(case.response_a) - len(case.response_b)
                if longer:
                    self._longer.add((judgment.winner == judgment.entrant_a) == (longer > 0), prompt)
            yield judgment

    def _count_several(self, raw: Sequence[Verdict], prompt: int) -> None:
        """Count the verdicts of several judges, or of repeated questions."""
        for forward, swapped in in_pairs(raw):
            if forward.verdict.readable and swapped.verdict.readable:
                self._flips.add(forward.for_entrants is not swapped.for_entrants, prompt)
        for same in repeated(raw):
            self._repeats.add(same, prompt)

    def habits(self) -> JudgeHabits:
        """What was counted."""
        shares = (self._flips, self._firsts, self._longer, self._repeats)
        return JudgeHabits(*(share.estimate() for share in shares))

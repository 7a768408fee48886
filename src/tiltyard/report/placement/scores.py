"""What came of some battles of the placed model, and what the board would have led one to expect."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tiltyard.report.rates import wilson

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tiltyard.report.bouts import Bout
    from tiltyard.report.placement.folder import Placement

POINTS_PER_LOGIT = 400.0 / math.log(10.0)
OUTCOMES = ("won", "lost", "tie", "inconsistent", "failed")


def outcome(model: str, bout: Bout) -> str:
    """What came of a battle for the model, one of `OUTCOMES`."""
    if bout.settled and bout.winner is not None:
        return "won" if bout.winner == model else "lost"
    return bout.outcome


@dataclass(frozen=True, slots=True)
class Tally:
    """Outcomes counted from the model's side. An inconsistent battle is a tie too; a failed one is nothing."""

    won: int
    lost: int
    tied: int
    inconsistent: int
    failed: int
    expected_sum: float | None
    """The sum of the expected scores of the settled battles; None where an opponent has no rating."""

    @property
    def n(self) -> int:
        """Battles that count."""
        return self.won + self.lost + self.tied

    @property
    def score(self) -> float | None:
        """The share won, ties counting half."""
        return (self.won + 0.5 * self.tied) / self.n if self.n else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Wilson's interval of the score: a little too wide where there are ties, never too narrow."""
        return wilson(self.won + 0.5 * self.tied, self.n)

    @property
    def expected(self) -> float | None:
        """The score one would expect from the ratings."""
        return self.expected_sum / self.n if self.n and self.expected_sum is not None else None


def tally(placed: Placement, bouts: Iterable[Bout]) -> Tally:
    """These battles, counted."""
    counts = dict.fromkeys(OUTCOMES, 0)
    expected: float | None = 0.0
    for bout in bouts:
        counts[outcome(placed.model, bout)] += 1
        if bout.settled and expected is not None:
            one = expected_score(placed, placed.opponent(bout))
            expected = None if one is None else expected + one
    return Tally(
        won=counts["won"],
        lost=counts["lost"],
        tied=counts["tie"] + counts["inconsistent"],
        inconsistent=counts["inconsistent"],
        failed=counts["failed"],
        expected_sum=expected,
    )


def expected_score(placed: Placement, opponent: str) -> float | None:
    """The chance to win and half that to tie, by the board's ratings and its model of the judge's ties.

    A calibrated rating is on people's scale and the battles are the judge's: its slope and slot lead from one to the
    other, and a battle heard in both orders scores what its two verdicts do on average.
    """
    if opponent not in placed.entries:
        return None
    delta = (placed.entry.rating - placed.entries[opponent].rating) / POINTS_PER_LOGIT
    scale = placed.report.details.get("calibration")
    if scale is not None:
        slot = scale["slot_points"] / POINTS_PER_LOGIT
        return 0.5 * (_share(scale["slope"] * delta + slot) + _share(scale["slope"] * delta - slot))
    parameters: Mapping[str, float] = placed.report.details.get("tie_parameters") or {}
    tie = parameters.get("llm-judge", parameters.get("all"))
    model = placed.report.details.get("tie_model")
    if tie is not None and model == "davidson":
        up = math.exp(0.5 * delta)
        return (up + 0.5 * tie) / (up + 1.0 / up + tie)
    if tie is not None and model == "rao-kupper":
        return 0.5 * (1.0 + _share(delta - math.log(tie)) - _share(-delta - math.log(tie)))
    return _share(delta)


def _share(logit: float) -> float:
    return 0.5 * (1.0 + math.tanh(0.5 * logit))

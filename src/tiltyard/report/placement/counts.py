"""Counts over the placed model's battles: outcomes, predictions of its rating, and whether the files agree."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tiltyard.ratings import POINTS_PER_LOGIT
from tiltyard.report.counts import behaviour, share_interval
from tiltyard.report.placement.folder import Placement
from tiltyard.report.run import JudgedBattle

OUTCOMES = ("won", "lost", "tie", "inconsistent", "failed")


def outcome(model: str, battle: JudgedBattle) -> str:
    """The outcome of a battle for the model, one of `OUTCOMES`."""
    if battle.settled and battle.winner is not None:
        return "won" if battle.winner == model else "lost"
    return battle.outcome


@dataclass(frozen=True, slots=True)
class Results:
    """Outcomes counted from the model's side. An inconsistent battle is also a tie; a failed one is not counted."""

    won: int
    lost: int
    tied: int
    inconsistent: int
    failed: int
    expected_sum: float | None
    """The sum of the expected scores of the settled battles; None if an opponent has no rating."""

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
        return share_interval(self.won + 0.5 * self.tied, self.n)

    @property
    def expected(self) -> float | None:
        """The score predicted by the ratings."""
        return self.expected_sum / self.n if self.n and self.expected_sum is not None else None


def count_results(placed: Placement, battles: Iterable[JudgedBattle]) -> Results:
    """These battles, counted."""
    counts = dict.fromkeys(OUTCOMES, 0)
    expected: float | None = 0.0
    for battle in battles:
        counts[outcome(placed.model, battle)] += 1
        if battle.settled and expected is not None:
            one = expected_score(placed, placed.opponent(battle))
            expected = None if one is None else expected + one
    tied = counts["tie"] + counts["inconsistent"]
    return Results(counts["won"], counts["lost"], tied, counts["inconsistent"], counts["failed"], expected)


def expected_score(placed: Placement, opponent: str) -> float | None:
    """The chance to win and half that to tie, by the board's ratings and its model of the judge's ties.

    A calibrated rating is on people's scale, but the battles are on the judge's: its slope and slot advantage convert
    between them, and a battle judged in both orders scores the average of its two verdicts.
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


def disagreements(placed: Placement) -> list[str]:
    """A sentence for every number that disagrees with the files it was computed from; none if all is well."""
    counted, judged, entry = count_results(placed, placed.run.battles), placed.manifest.judged, placed.entry
    pairs = {
        "wins": (judged.wins, counted.won),
        "losses": (judged.losses, counted.lost),
        "ties": (judged.ties, counted.tied),
        "inconsistent battles": (judged.inconsistent, counted.inconsistent),
        "failed battles": (judged.failed, counted.failed),
    }
    lines = [
        f"manifest.json counts {written:,} {what}, the verdicts {seen:,}"
        for what, (written, seen) in pairs.items()
        if written != seen
    ]
    dropped = counted.inconsistent if placed.report.details.get("inconsistent") == "drop" else 0
    written, seen = [entry.wins, entry.losses, entry.ties], [counted.won, counted.lost, counted.tied - dropped]
    if written != seen:
        lines.append(f"the board gives {entry.model} (won, lost, tied) {written}, the verdicts {seen}")
    return [*lines, *_flips(placed), *_rounds(placed), *_panel(placed)]


def _flips(placed: Placement) -> list[str]:
    written, seen = placed.manifest.flips, behaviour(placed.run.battles).flips
    if written is None or written.share is None or seen.value is None:
        return []
    if written.n == seen.n and math.isclose(written.share, seen.value, rel_tol=1e-9, abs_tol=1e-12):
        return []
    return [f"manifest.json has {written.share:.3f} of {written.n:,} changed, the verdicts {seen.hits:,} of {seen.n:,}"]


def _rounds(placed: Placement) -> list[str]:
    """The last round against the board: both are the same estimate."""
    if not placed.manifest.rounds:
        return []
    last, entry = placed.manifest.rounds[-1], placed.entry
    if last.rating is None:
        return [f"the last round has no rating, the board {entry.rating:.1f}"]
    known = [entry.rating, entry.extra.get("judge_scale_rating")]
    if any(value is not None and math.isclose(last.rating, value, rel_tol=0.0, abs_tol=0.05) for value in known):
        return []
    return [f"the last round has {last.rating:.1f}, the board {entry.rating:.1f}"]


def _panel(placed: Placement) -> list[str]:
    lines = []
    if placed.panel.fingerprint != placed.manifest.panel.fingerprint:
        lines.append("panel.json has another fingerprint than manifest.json")
    planned = {(seat.question_id, seat.opponent) for seat in placed.panel.battles}
    heard = {(battle.prompt_id, placed.opponent(battle)) for battle in placed.run.battles}
    if planned - heard:
        lines.append(f"{len(planned - heard):,} battles of panel.json have no line in verdicts.jsonl")
    if heard - planned:
        lines.append(f"{len(heard - planned):,} battles of verdicts.jsonl are not in panel.json")
    return lines

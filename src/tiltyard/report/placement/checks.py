"""Every count a second time, to see whether the manifest and the board follow from the verdicts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tiltyard.report.placement.scores import Tally, tally
from tiltyard.report.rates import behaviour

if TYPE_CHECKING:
    from tiltyard.report.placement.folder import Placement


def disagreements(placed: Placement) -> list[str]:
    """A sentence for every number that does not follow from the files it was made from; none where all is well."""
    counted = tally(placed, placed.run.bouts)
    return [*_counts(placed, counted), *_board(placed, counted), *_flips(placed), *_rounds(placed), *_panel(placed)]


def _counts(placed: Placement, counted: Tally) -> list[str]:
    written = placed.manifest.judged
    pairs = {
        "wins": (written.wins, counted.won),
        "losses": (written.losses, counted.lost),
        "ties": (written.ties, counted.tied),
        "inconsistent battles": (written.inconsistent, counted.inconsistent),
        "failed battles": (written.failed, counted.failed),
    }
    return [
        f"manifest.json counts {said:,} {what}, the verdicts {seen:,}"
        for what, (said, seen) in pairs.items()
        if said != seen
    ]


def _board(placed: Placement, counted: Tally) -> list[str]:
    """The model's line against the verdicts; a board may leave inconsistent battles out."""
    entry = placed.entry
    dropped = counted.inconsistent if placed.report.details.get("inconsistent") == "drop" else 0
    written = [entry.wins, entry.losses, entry.ties]
    seen = [counted.won, counted.lost, counted.tied - dropped]
    if written == seen:
        return []
    return [f"the board gives {entry.model} (won, lost, tied) {written}, the verdicts {seen}"]


def _flips(placed: Placement) -> list[str]:
    written, seen = placed.manifest.flips, behaviour(placed.run.bouts).flips
    if written is None or seen.value is None:
        return []
    if written.n == seen.n and math.isclose(written.share, seen.value, rel_tol=1e-9, abs_tol=1e-12):
        return []
    return [f"manifest.json has {written.share:.3f} of {written.n:,} changed, the verdicts {seen.hits:,} of {seen.n:,}"]


def _rounds(placed: Placement) -> list[str]:
    """The last round against the board: they are one estimate."""
    if not placed.manifest.rounds:
        return []
    last, entry = placed.manifest.rounds[-1], placed.entry
    known = [entry.rating, entry.extra.get("judge_scale_rating")]
    if any(value is not None and math.isclose(last.rating, value, rel_tol=0.0, abs_tol=0.05) for value in known):
        return []
    return [f"the last round has {last.rating:.1f}, the board {entry.rating:.1f}"]


def _panel(placed: Placement) -> list[str]:
    found = []
    if placed.panel.fingerprint != placed.manifest.panel.fingerprint:
        found.append("panel.json has another fingerprint than manifest.json")
    planned = {(line.question_id, line.opponent) for line in placed.panel.battles}
    heard = {(bout.prompt_id, placed.opponent(bout)) for bout in placed.run.bouts}
    if planned - heard:
        found.append(f"{len(planned - heard):,} battles of panel.json have no line in verdicts.jsonl")
    if heard - planned:
        found.append(f"{len(heard - planned):,} battles of verdicts.jsonl are not in panel.json")
    return found

"""What a placement found, in a few sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tiltyard.placement.folder import FolderRatings


def summary_lines(manifest: Mapping[str, Any], rated: FolderRatings) -> list[str]:
    """Where the model stands, what the number means, and how far the judge is to be believed."""
    entry = rated.board[str(manifest["model"])]
    panel, judged = manifest["panel"], manifest["judged"]
    lines = [
        f"{entry.model} stands at {entry.rating:.0f} {_ends(entry.ci_low, entry.ci_high)}, place {entry.rank} "
        f"({entry.rank_low}–{entry.rank_high}) of {len(rated.board)}: {judged['wins']:g} won, "
        f"{judged['losses']:g} lost, {judged['ties']:g} tied against {panel['opponents']} opponents on "
        f"{panel['questions']} questions; {manifest['stopped']}."
    ]
    lines.append(_meaning(manifest, entry.extra))
    if manifest["flips"] is not None and manifest["flips"]["share"] is not None:
        flips = manifest["flips"]
        lines.append(
            f"the verdict changed with the order in {100 * flips['share']:.0f} % of {flips['n']} battles "
            f"({100 * flips['low']:.0f} % to {100 * flips['high']:.0f} %)"
        )
    if judged["failed"]:
        why = ", ".join(f"{name} {count}" for name, count in judged["failed_by"].items())
        lines.append(f"{judged['failed']} battles have no result and count for nothing: {why}")
    lines += _calibration_lines(manifest)
    lines += _leave_one_out_lines(manifest)
    return lines


def _meaning(manifest: Mapping[str, Any], extra: Mapping[str, Any]) -> str:
    if manifest["calibration"] is None:
        return (
            "the rating is on the judge's scale, sampling error only: --calibrate 300 says how far to trust the judge"
        )
    low, high = extra.get("judge_scale_ci_low"), extra.get("judge_scale_ci_high")
    return (
        f"calibrated on people's scale; without calibration it would be {extra['judge_scale_rating']:.0f} "
        f"{_ends(low, high)} (judge's scale, sampling error only)"
    )


def _calibration_lines(manifest: Mapping[str, Any]) -> list[str]:
    found = manifest["calibration"]
    if found is None:
        return []
    agreement = found["agreement"]
    agrees = (
        ""
        if agreement["value"] is None
        else f"agrees with people in {100 * agreement['value']:.0f} % (n = {agreement['n']}), "
    )
    lines = [
        f"the judge {agrees}stretches their scale {found['slope']:.2f}-fold ({found['slope_low']:.2f} to "
        f"{found['slope_high']:.2f}), gives the first slot {found['slot_points']:+.0f} points",
        f"its likes and dislikes leave ±{found['floor_points']:.0f} points that more battles cannot lower",
    ]
    return lines + [f"note: {warning}" for warning in found["warnings"]]


def _leave_one_out_lines(manifest: Mapping[str, Any]) -> list[str]:
    found = manifest["leave_one_out"]
    if found is None:
        return []
    inside = "inside" if found["covered"] else "outside"
    return [
        f"people put it at {found['human_rating']:.0f} {_ends(found['human_ci_low'], found['human_ci_high'])}: "
        f"the judge is off by {found['error']:+.0f}, {inside} its interval"
    ]


def _ends(low: float | None, high: float | None) -> str:
    words = ("no bound" if end is None else f"{end:.0f}" for end in (low, high))
    return f"[{', '.join(words)}]"

"""What a placement says on the terminal: where the model stands, what the number means, how reliable the judge is."""

from __future__ import annotations

from tiltyard.boards.leaderboard import RatingEntry
from tiltyard.placement.folder import FolderRatings
from tiltyard.placement.manifest import JUDGE_SCALE, JudgeAgainstPeople, PlacementManifest
from tiltyard.placement.robustness import FamilyCheck


def summary_lines(manifest: PlacementManifest, rated: FolderRatings) -> list[str]:
    """Where the model is placed, what the number means, and how reliable the judge is."""
    entry, effect = rated.board[manifest.model], manifest.sensitivity.stated
    panel, judged, flips, calibration = manifest.panel, manifest.judged, manifest.flips, manifest.calibration
    lines = [f"NO-GO: {check.check}: {check.detail}" for check in manifest.gate if not check.passed]
    lines += [
        first_sentence(entry, len(rated.board), manifest.scale),
        f"{judged.wins:g} won, {judged.losses:g} lost, {judged.ties:g} tied against {panel.opponents} opponents on "
        f"{panel.questions} questions; {manifest.stopped}",
    ]
    if calibration is not None:
        ends = _ends(entry.extra.get("judge_scale_ci_low"), entry.extra.get("judge_scale_ci_high"))
        lines.append(f"without calibration it would be {entry.extra['judge_scale_rating']:.0f} {ends} {JUDGE_SCALE}")
    unseen = "nothing here measures" if calibration is None else "the calibration did not see"
    lines.append(
        f"a style bias of ±{effect.bias_points:.0f} points that {unseen} would move the rating by "
        f"about ±{effect.bias_points:.0f}: to {effect.rating_low:.0f} or {effect.rating_high:.0f}"
    )
    if flips is not None and flips.share is not None:
        ends = " to ".join(f"{100 * end:.0f} %" for end in (flips.low, flips.high) if end is not None)
        lines.append(f"the verdict changed with the order in {100 * flips.share:.0f} % of {flips.n} battles ({ends})")
    if judged.failed:
        why = ", ".join(f"{name} {count}" for name, count in judged.failed_by.items())
        lines.append(f"{judged.failed} battles have no result and are not counted: {why}")
    if calibration is not None:
        lines += [*_calibration_lines(calibration), _families_line(manifest.families)]
    if (left_out := manifest.leave_one_out) is not None:
        inside = "inside" if left_out.covered else "outside"
        lines.append(
            f"people rate it {left_out.human_rating:.0f} {_ends(left_out.human_ci_low, left_out.human_ci_high)}: "
            f"the judge is off by {left_out.error:+.0f}, {inside} its interval"
        )
    return lines


def first_sentence(entry: RatingEntry, models: int, scale: str) -> str:
    """The model's rating, interval and rank, and the scale that they are on."""
    return (
        f"{entry.model} is rated {entry.rating:.0f} {_ends(entry.ci_low, entry.ci_high)} {scale}, "
        f"rank {entry.rank} ({entry.rank_low}–{entry.rank_high}) of {models}"
    )


def _families_line(result: FamilyCheck | None) -> str:
    if result is None:
        return "not checked on unseen families: the models' families are unknown (--families FILE)"
    if not result.models:
        return "not checked on unseen families: no family has two models with enough calibration battles"
    worst = max(result.families, key=lambda one: abs(one.error))
    skipped = f", {len(result.not_checked)} not checked" if result.not_checked else ""
    return (
        f"calibrated without their own family, {result.covered} of {result.models} models' intervals cover people's "
        f"rating; {worst.family} is off most, by {worst.error:+.0f} points on average "
        f"(families: {len(result.families)}{skipped})"
    )


def _calibration_lines(result: JudgeAgainstPeople) -> list[str]:
    agreement, agrees = result.agreement, ""
    if agreement.value is not None:
        agrees = f"agrees with people in {100 * agreement.value:.0f} % where neither says tie (n = {agreement.n}), "
    slopes = ("no bound" if end is None else f"{end:.2f}" for end in (result.slope_low, result.slope_high))
    return [
        f"the judge {agrees}stretches their scale {result.slope:.2f}-fold ({' to '.join(slopes)}), "
        f"gives the first slot {result.slot_points:+.0f} points",
        f"judge bias adds ±{result.floor_points:.0f} points; more battles won't reduce it",
        *(f"note: {warning}" for warning in result.warnings),
    ]


def _ends(low: float | None, high: float | None) -> str:
    words = ("no bound" if end is None else f"{end:.0f}" for end in (low, high))
    return f"[{', '.join(words)}]"

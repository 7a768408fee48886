"""The contents of a placement's `manifest.json` as records, and the summary made from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from tiltyard.boards.leaderboard import RatingEntry
from tiltyard.placement.rating import Recipe
from tiltyard.placement.robustness import FamilyCheck, Sensitivity

if TYPE_CHECKING:
    from tiltyard.placement.folder import FolderRatings


class ArenaFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The human battles among which the model is placed. `with_text` counts the answers whose text is known."""

    name: str
    files: tuple[str, ...]
    sha256: dict[str, str]
    human_battles: float
    models: int
    questions: int
    with_text: int


class RubricFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What the judge was asked to judge by."""

    dimension: str
    version: str


class Looks(msgspec.Struct, frozen=True, kw_only=True):
    """The planned number of looks at the estimate, and what would have ended the judging early.

    `sizes` are the battles of each round. `critical` is the constant of a repeated interval, if the rule needs one.
    """

    planned: int
    sizes: tuple[int, ...]
    critical: float | None = None
    until: str | None = None


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """The estimate after a round; None where its battles did not allow a rating yet.

    `battles` counts all that were judged until then.
    """

    round: int
    battles: int
    rating: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    rank_low: int | None = None
    rank_high: int | None = None


class JudgedFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Outcomes of the judged battles; an inconsistent one also counts as a tie, a failed one in no other count.

    `no_answer` says why the model gave no answer, for the first such questions.
    """

    battles: int
    wins: float
    losses: float
    ties: float
    inconsistent: int
    failed: int
    failed_by: dict[str, int]
    no_answer: dict[str, str]


class Flips(msgspec.Struct, frozen=True, kw_only=True):
    """How often the verdict changed with the order of the answers; None if no battle has two readable verdicts."""

    share: float | None
    low: float | None
    high: float | None
    n: int


class Agreement(msgspec.Struct, frozen=True, kw_only=True):
    """How often the judge agreed with people; None if nothing could be compared."""

    value: float | None
    low: float | None
    high: float | None
    n: int


class JudgeAgainstPeople(msgspec.Struct, frozen=True, kw_only=True):
    """The judge's calibration: the model of its logits and what it adds to the variance, in rating points."""

    asked: int
    compared: int
    models: int
    slope: float
    slope_low: float | None = None
    slope_high: float | None = None
    slot_points: float
    tau_points: float
    floor_points: float
    variance_points2: dict[str, float]
    warnings: tuple[str, ...]
    agreement: Agreement
    flips: Flips | None = None


class LeaveOneOut(msgspec.Struct, frozen=True, kw_only=True):
    """People's own rating of the placed model, which the placement did not use."""

    human_rating: float
    human_ci_low: float | None = None
    human_ci_high: float | None = None
    human_battles: float
    human_rank: int
    error: float
    covered: bool


class Information(msgspec.Struct, frozen=True, kw_only=True):
    """The information of a judged battle, and that of a battle against a random opponent."""

    per_battle: float
    limit: float


class PanelFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Which battles were chosen, and how."""

    fingerprint: str
    sampling: str
    battles: int
    opponents: int
    questions: int


class StartedManifest(msgspec.Struct, frozen=True, kw_only=True):
    """What is known when a placement starts: settings, inputs and seeds."""

    kind: str
    arena: ArenaFacts
    model: str
    model_source: str
    judge_model: str
    rubric: RubricFacts
    options: dict[str, Any]
    recipe: Recipe
    rate_command: str | None
    seed: int
    both_orders: bool
    looks: Looks
    started_at: str
    finished_at: str | None = None
    versions: dict[str, str]


class PlacementManifest(StartedManifest, frozen=True, kw_only=True):
    """The manifest of a finished placement: its inputs and results."""

    rounds: tuple[Round, ...]
    stopped: str
    judged: JudgedFacts
    flips: Flips | None = None
    calibration: JudgeAgainstPeople | None = None
    leave_one_out: LeaveOneOut | None = None
    information: Information
    panel: PanelFacts
    sensitivity: Sensitivity
    families: FamilyCheck | None = None

    @property
    def scale(self) -> str:
        """The scale of the rating, and what its interval leaves out, in words for the first sentence."""
        return JUDGE_SCALE if self.calibration is None else PEOPLE_SCALE


PEOPLE_SCALE = "on people's scale (calibrated)"
JUDGE_SCALE = "on the judge's scale (sampling error only: does not cover judge bias)"


def summary_lines(manifest: PlacementManifest, rated: FolderRatings) -> list[str]:
    """Where the model is placed, what the number means, and how reliable the judge is."""
    entry = rated.board[manifest.model]
    panel, judged = manifest.panel, manifest.judged
    lines = [
        first_sentence(entry, len(rated.board), manifest.scale),
        f"{judged.wins:g} won, {judged.losses:g} lost, {judged.ties:g} tied against {panel.opponents} opponents on "
        f"{panel.questions} questions; {manifest.stopped}",
    ]
    if manifest.calibration is not None:
        lines.append(_without_calibration(entry.extra))
    lines.append(_sensitivity_line(manifest.sensitivity, calibrated=manifest.calibration is not None))
    flips = manifest.flips
    if flips is not None and flips.share is not None:
        ends = " to ".join(f"{100 * end:.0f} %" for end in (flips.low, flips.high) if end is not None)
        lines.append(f"the verdict changed with the order in {100 * flips.share:.0f} % of {flips.n} battles ({ends})")
    if judged.failed:
        why = ", ".join(f"{name} {count}" for name, count in judged.failed_by.items())
        lines.append(f"{judged.failed} battles have no result and are not counted: {why}")
    if manifest.calibration is not None:
        lines += [*_calibration_lines(manifest.calibration), _families_line(manifest.families)]
    return [*lines, *_leave_one_out_lines(manifest.leave_one_out)]


def first_sentence(entry: RatingEntry, models: int, scale: str) -> str:
    """The model's rating, interval and rank, and the scale that they are on."""
    return (
        f"{entry.model} is rated {entry.rating:.0f} {_ends(entry.ci_low, entry.ci_high)} {scale}, "
        f"rank {entry.rank} ({entry.rank_low}–{entry.rank_high}) of {models}"
    )


def _without_calibration(extra: Mapping[str, Any]) -> str:
    ends = _ends(extra.get("judge_scale_ci_low"), extra.get("judge_scale_ci_high"))
    return f"without calibration it would be {extra['judge_scale_rating']:.0f} {ends} {JUDGE_SCALE}"


def _sensitivity_line(result: Sensitivity, *, calibrated: bool) -> str:
    effect = result.stated
    unseen = "the calibration did not see" if calibrated else "nothing here measures"
    return (
        f"a style bias of ±{effect.bias_points:.0f} points that {unseen} would move the rating by "
        f"about ±{effect.bias_points:.0f}: to {effect.rating_low:.0f} or {effect.rating_high:.0f}"
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
    lines = [
        f"the judge {agrees}stretches their scale {result.slope:.2f}-fold ({_ends_of_slope(result)}), "
        f"gives the first slot {result.slot_points:+.0f} points",
        f"judge bias adds ±{result.floor_points:.0f} points; more battles won't reduce it",
    ]
    return lines + [f"note: {warning}" for warning in result.warnings]


def _ends_of_slope(result: JudgeAgainstPeople) -> str:
    ends = ("no bound" if end is None else f"{end:.2f}" for end in (result.slope_low, result.slope_high))
    return " to ".join(ends)


def _leave_one_out_lines(result: LeaveOneOut | None) -> list[str]:
    if result is None:
        return []
    inside = "inside" if result.covered else "outside"
    return [
        f"people rate it {result.human_rating:.0f} {_ends(result.human_ci_low, result.human_ci_high)}: "
        f"the judge is off by {result.error:+.0f}, {inside} its interval"
    ]


def _ends(low: float | None, high: float | None) -> str:
    words = ("no bound" if end is None else f"{end:.0f}" for end in (low, high))
    return f"[{', '.join(words)}]"

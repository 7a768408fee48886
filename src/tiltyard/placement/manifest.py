"""The contents of a placement's `manifest.json` as records, and the summary made from them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from tiltyard.boards.leaderboard import RatingEntry
from tiltyard.judging.bias import MOST_INCONSISTENT, Check
from tiltyard.placement.rating import Recipe
from tiltyard.placement.robustness import FamilyCheck, Sensitivity
from tiltyard.validity.agreement import Estimate

if TYPE_CHECKING:
    from tiltyard.placement.folder import FolderRatings


class ArenaFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The human battles among which the model is placed."""

    name: str
    files: tuple[str, ...]
    sha256: dict[str, str]
    """Hashes of the files."""
    human_battles: float
    models: int
    questions: int
    with_text: int
    """Answers whose text is known."""


class RubricFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What the judge was asked to judge by."""

    dimension: str
    version: str


class Looks(msgspec.Struct, frozen=True, kw_only=True):
    """The planned number of looks at the estimate, and what would have ended the judging early."""

    planned: int
    """Looks at which the run may stop."""
    sizes: tuple[int, ...]
    """Battles of each round."""
    critical: float | None = None
    """Pocock's constant, if a run may stop on its rank."""
    until: str | None = None
    """The stopping rule."""


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """The estimate after a round; null where its battles did not allow a rating yet."""

    round: int
    battles: int
    """All that were judged until then."""
    rating: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    rank_low: int | None = None
    rank_high: int | None = None


class JudgedFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Outcomes of the judged battles; a failed one is in no other count."""

    battles: int
    wins: float
    """Won by the new model."""
    losses: float
    ties: float
    """With the inconsistent ones."""
    inconsistent: int
    """Changed with the order."""
    failed: int
    failed_by: dict[str, int]
    """Why, by name."""
    no_answer: dict[str, str]
    """Questions that the new model did not answer (20 at most), and why."""


class Flips(msgspec.Struct, frozen=True, kw_only=True):
    """How often the verdict changed with the order of the answers; null if no battle has two readable verdicts."""

    share: float | None
    low: float | None
    high: float | None
    n: int
    """Battles it is based on."""

    @classmethod
    def of(cls, rate: Estimate) -> Flips:
        """A flip rate as it is written."""
        return cls(share=rate.value, low=rate.low, high=rate.high, n=rate.n)

    def check(self) -> Check:
        """Whether the answers decide rather than their order, by the limit of a tournament."""
        changed = round((self.share or 0.0) * self.n)
        why = f"{changed} of {self.n} verdicts changed with the order of the answers"
        if passed := (self.share or 0.0) <= MOST_INCONSISTENT:
            return Check("judge consistent", passed, why)
        return Check("judge consistent", passed, f"{why}: this place says more about the judge than about the model")


class JudgeAgainstPeople(msgspec.Struct, frozen=True, kw_only=True):
    """The judge's calibration: its scale against people's, and what that adds to the variance, in rating points."""

    asked: int
    """Battles the judge was asked about."""
    compared: int
    """Battles behind it."""
    models: int
    """Models in them."""
    slope: float
    """β: the judge's logits for one of people's."""
    slope_low: float | None = None
    slope_high: float | None = None
    slot_points: float
    """γ: the advantage of the first slot, in points of the judge's scale."""
    tau_points: float
    """τ: spread of its bias for or against single models, in points of the judge's scale."""
    floor_points: float
    """τ/β: in people's points; more battles do not lower it."""
    variance_points2: dict[str, float]
    """Parts of the variance: `sampling` of questions and battles, `idiosyncrasy` (bias for or against single models),
    `slope`, and `anchors` (people's own uncertainty)."""
    warnings: tuple[str, ...]
    agreement: Estimate
    """With people, where neither says tie."""
    flips: Flips | None = None


class LeaveOneOut(msgspec.Struct, frozen=True, kw_only=True):
    """People's own rating of the placed model, which the placement did not use."""

    human_rating: float
    human_ci_low: float | None = None
    human_ci_high: float | None = None
    human_battles: float
    human_rank: int
    error: float
    """The placed rating minus people's."""
    covered: bool
    """Whether the interval contains people's rating."""


class Information(msgspec.Struct, frozen=True, kw_only=True):
    """The information of a judged battle, as a share of the best possible."""

    per_battle: float
    limit: float
    """The same for battles against random opponents."""


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
    """`placement`."""
    arena: ArenaFacts
    model: str
    """The new model."""
    model_source: str
    """`--model` as given."""
    judge_model: str
    """The judge."""
    rubric: RubricFacts
    options: dict[str, Any]
    """Every option: see [settings](python/placement.md)."""
    recipe: Recipe
    rate_command: str | None
    """The command that reproduces the ratings of a joint fit."""
    seed: int
    """Of sampling, sides and bootstrap."""
    both_orders: bool
    """Whether both orders were judged."""
    looks: Looks
    started_at: str
    """UTC."""
    finished_at: str | None = None
    """Null until it is finished; everything below `versions` is written then."""
    versions: dict[str, str]
    """The versions of Tiltyard and Python."""


class PlacementManifest(StartedManifest, frozen=True, kw_only=True):
    """`manifest.json` of a placement: inputs, written when it starts, and results, from `rounds` on."""

    rounds: tuple[Round, ...]
    stopped: str
    """Why it ended."""
    judged: JudgedFacts
    flips: Flips | None = None
    gate: tuple[Check, ...] = ()
    """What speaks against the placement itself: NO-GO where a check did not pass, as with a pilot."""
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

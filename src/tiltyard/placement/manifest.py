"""The contents of a placement's `manifest.json` as records, and the summary made from them."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from tiltyard.boards import RatingEntry
from tiltyard.judging import MOST_INCONSISTENT, Check
from tiltyard.placement.rating import Recipe
from tiltyard.placement.robustness import FamilyCheck, Sensitivity
from tiltyard.validity import Estimate


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

    @classmethod
    def of(cls, number: int, battles: int, entry: RatingEntry | None) -> Round:
        """The estimate after a round; without an entry there is none yet."""
        names = ("rating", "ci_low", "ci_high", "rank_low", "rank_high") if entry is not None else ()
        return cls(round=number, battles=battles, **{name: getattr(entry, name) for name in names})


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

    asked: int | UnsetType = UNSET
    """Battles the judge was asked about; in the manifest alone, as are `agreement` and `flips`."""
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
    agreement: Estimate | UnsetType = UNSET
    """With people, where neither says tie."""
    flips: Flips | UnsetType | None = UNSET


class PlacementMode(msgspec.Struct, frozen=True):
    """How a placement is rated."""

    mode: str
    """`joint`, `fixed` or `calibrated`."""
    overall_level: float
    """Confidence level of all looks together."""


class PlacementFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What the ratings file of a placement says beside what every ratings file does."""

    placement: PlacementMode
    calibration: JudgeAgainstPeople | UnsetType = UNSET
    sensitivity: Sensitivity
    """What a style bias that nothing measured would do."""
    families: FamilyCheck | UnsetType = UNSET


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
        return JUDGE_SCALE if self.calibration is None else PEOPLE_SCALE


PEOPLE_SCALE = "on people's scale (calibrated)"
JUDGE_SCALE = "on the judge's scale (sampling error only: does not cover judge bias)"

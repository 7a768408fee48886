"""What `manifest.json` of a placement says, as records: the parts of it that the page turns into sentences."""

from __future__ import annotations

from typing import Any

import msgspec


class ArenaFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The human battles the model is placed among."""

    name: str
    human_battles: float


class RubricFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What the judge was asked to judge by."""

    dimension: str
    version: str


class PanelFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Which battles were chosen, and how."""

    fingerprint: str
    sampling: str
    battles: int


class Looks(msgspec.Struct, frozen=True, kw_only=True):
    """How often the estimate was to be looked at, and what would have ended the judging early.

    `critical` is the constant of a repeated interval where the rule needs one.
    """

    planned: int
    critical: float | None = None
    until: str | None = None


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """The estimate after a round; `battles` counts all that were judged until then."""

    round: int
    battles: int
    rating: float
    ci_low: float | None = None
    ci_high: float | None = None
    rank_low: int | None = None
    rank_high: int | None = None


class JudgedFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What came of the judged battles; an inconsistent one is also among the ties, a failed one among nothing else."""

    battles: int
    wins: int
    losses: int
    ties: int
    inconsistent: int
    failed: int
    failed_by: dict[str, int] = {}


class Flips(msgspec.Struct, frozen=True, kw_only=True):
    """How often the judge changed its mind with the order."""

    share: float
    low: float
    high: float
    n: int


class Agreement(msgspec.Struct, frozen=True, kw_only=True):
    """How often the judge said what people said."""

    value: float
    low: float
    high: float
    n: int


class JudgeAgainstPeople(msgspec.Struct, frozen=True, kw_only=True):
    """The judge against people: the model of the judge's logits and what it adds to the variance."""

    asked: int
    compared: int
    models: int
    agreement: Agreement
    flips: Flips | None = None
    slope: float
    slope_low: float | None = None
    slope_high: float | None = None
    slot_points: float | None = None
    tau_points: float
    floor_points: float
    warnings: tuple[str, ...] = ()
    variance_points2: dict[str, float] = {}


class LeaveOneOut(msgspec.Struct, frozen=True, kw_only=True):
    """What people say of the placed model, whom the placement was not shown."""

    human_rating: float
    human_ci_low: float | None = None
    human_ci_high: float | None = None
    error: float
    covered: bool


class Information(msgspec.Struct, frozen=True, kw_only=True):
    """How much a judged battle told, and how much it could at most."""

    per_battle: float
    limit: float


class PlacementManifest(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of `manifest.json`; what stands there besides is shown with the run, as it is."""

    kind: str
    arena: ArenaFacts
    model: str
    judge_model: str
    rubric: RubricFacts
    options: dict[str, Any]
    both_orders: bool
    panel: PanelFacts
    looks: Looks
    rounds: tuple[Round, ...]
    stopped: str
    judged: JudgedFacts
    flips: Flips | None = None
    calibration: JudgeAgainstPeople | None = None
    leave_one_out: LeaveOneOut | None = None
    information: Information | None = None

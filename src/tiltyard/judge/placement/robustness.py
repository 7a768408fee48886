"""What a placement rests on besides its interval: a bias that calibration did not see, and families left out of it.

The calibrated interval allows for biases like those that the judge showed toward the calibration models. It holds for a
new model that is exchangeable with them. `sensitivity` says what a further bias would do. `check_families` tests the
assumption where it can be tested: it calibrates without a whole family of models, places that family's members by the
judge alone, and counts how often their intervals cover people's ratings.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from tiltyard.analysis.boards import Leaderboard
from tiltyard.errors import OptionError, RatingError
from tiltyard.judge.placement.rating import to_points
from tiltyard.stats import Anchors, CalibrationVerdicts, NewModelVerdicts, calibrate, place_on_scale

BIASES = (25.0, 50.0, 100.0)
"""Style biases, in points, whose effect every new placement records."""

STEP = 50.0
"""The bias named in the summary is a multiple of this: the smallest that is no less than the judge's measured bias."""

ENOUGH_BATTLES = 5
"""A model is placed without its family only if it has this many calibration battles against other families."""


class BiasEffect(msgspec.Struct, frozen=True, kw_only=True):
    """Where a style bias of `bias_points` toward or against the model would put it, all else equal."""

    bias_points: float
    rating_low: float
    """The rating if the judge favors the model that much."""
    rating_high: float
    """If it disfavors it."""
    ci_low: float | None
    ci_high: float | None
    rank_best: int
    """Place at `rating_high`."""
    rank_worst: int


class Sensitivity(msgspec.Struct, frozen=True, kw_only=True):
    """Where a style bias that nothing measured would put the model."""

    stated_points: float
    """The bias that the summary names: the judge's measured bias rounded up to the next 50, at least 50."""
    effects: tuple[BiasEffect, ...]

    @property
    def stated(self) -> BiasEffect:
        return next(effect for effect in self.effects if effect.bias_points == self.stated_points)


def sensitivity(board: Leaderboard, model: str, biases: Sequence[float], floor_points: float = 0.0) -> Sensitivity:
    """The model's rating, interval and place under each bias; `floor_points` is the judge's measured bias, τ/β.

    A bias of d points adds d to the distance between the model and every opponent, so the rating moves by d. Points are
    those of the board's scale: a calibrated one is too wide by the noise in people's ratings, which flattens the slope.
    """
    entry = board[model]
    others = np.array([one.rating for one in board if one.model != model])
    stated = STEP * max(1, math.ceil(floor_points / STEP))
    effects = [
        BiasEffect(
            bias_points=bias,
            rating_low=float(entry.rating - bias),
            rating_high=float(entry.rating + bias),
            ci_low=None if entry.ci_low is None else float(entry.ci_low - bias),
            ci_high=None if entry.ci_high is None else float(entry.ci_high + bias),
            rank_best=1 + int((others > entry.rating + bias).sum()),
            rank_worst=1 + int((others > entry.rating - bias).sum()),
        )
        for bias in sorted({*biases, stated})
    ]
    return Sensitivity(stated_points=stated, effects=tuple(effects))


class HeldOutModel(msgspec.Struct, frozen=True, kw_only=True):
    """One model, placed by a calibration without its family, beside people's rating of it."""

    model: str
    battles: int
    """Calibration battles against other families."""
    human_rating: float
    rating: float
    """The judge's, on people's scale."""
    ci_low: float | None
    ci_high: float | None
    covered: bool
    """Whether the interval contains people's rating."""


class HeldOutFamily(msgspec.Struct, frozen=True, kw_only=True):
    """A family that was left out of the calibration."""

    family: str
    error: float
    """Mean of its models' ratings minus people's, in points."""
    models: tuple[HeldOutModel, ...]

    @property
    def covered(self) -> int:
        return sum(one.covered for one in self.models)


class FamilyCheck(msgspec.Struct, frozen=True, kw_only=True):
    """The judge calibrated without each family, and the family's models placed."""

    covered: int
    """Models whose interval covers people's rating."""
    models: int
    """Models that were placed without their family."""
    families: tuple[HeldOutFamily, ...]
    not_checked: dict[str, str] = {}
    """Families without a result, and why."""


def check_families(
    anchors: Anchors,
    names: Sequence[str],
    verdicts: CalibrationVerdicts,
    families: Mapping[str, str],
    level: float,
) -> FamilyCheck:
    """Leave out each family with two or more calibration models in turn, calibrate, and place its members.

    `names` are the anchors' names by number; a model without a family is never left out.
    """
    codes = {name: code for code, name in enumerate(dict.fromkeys(families.values()))}
    family = np.array([codes.get(families.get(name, ""), -1) for name in names])
    met = np.zeros(len(names), dtype=np.bool_)
    met[verdicts.shown_first] = met[verdicts.shown_second] = True
    result: list[HeldOutFamily] = []
    not_checked: dict[str, str] = {}
    for name, code in sorted(codes.items()):
        members = np.flatnonzero(met & (family == code))
        if len(members) < 2:
            continue
        try:
            placed = _place_members(anchors, names, verdicts, family == code, members, level)
        except RatingError as error:
            not_checked[name] = str(error)
            continue
        if placed:
            error_points = float(np.mean([one.rating - one.human_rating for one in placed]))
            result.append(HeldOutFamily(family=name, error=error_points, models=tuple(placed)))
        else:
            not_checked[name] = f"no model with {ENOUGH_BATTLES} calibration battles against other families"
    return FamilyCheck(
        covered=sum(one.covered for one in result),
        models=sum(len(one.models) for one in result),
        families=tuple(result),
        not_checked=not_checked,
    )


def _place_members(
    anchors: Anchors,
    names: Sequence[str],
    verdicts: CalibrationVerdicts,
    inside: NDArray[np.bool_],
    members: NDArray[np.intp],
    level: float,
) -> list[HeldOutModel]:
    """The members of one family, each placed by the verdicts on it and a calibration that saw no member."""
    cluster = verdicts.battle if verdicts.cluster is None else verdicts.cluster
    first_inside, second_inside = inside[verdicts.shown_first], inside[verdicts.shown_second]
    others = ~(first_inside | second_inside)
    kept = msgspec.structs.asdict(verdicts)
    unseen: dict[str, Any] = {name: None if column is None else column[others] for name, column in kept.items()}
    scale = calibrate(anchors.strength, CalibrationVerdicts(**unseen))
    placed = []
    for member in members.tolist():
        first = (verdicts.shown_first == member) & ~second_inside
        rows = first | ((verdicts.shown_second == member) & ~first_inside)
        battles = len(np.unique(verdicts.battle[rows]))
        if battles < ENOUGH_BATTLES:
            continue
        on_it = NewModelVerdicts(
            opponent=np.where(first, verdicts.shown_second, verdicts.shown_first)[rows],
            share=np.where(first, verdicts.share, 1.0 - verdicts.share)[rows],
            shown_first=first[rows],
            weight=verdicts.weight[rows],
            cluster=cluster[rows],
        )
        result = place_on_scale(scale, anchors, on_it)
        low, high = result.interval(level)
        own = float(anchors.strength[member])
        placed.append(
            HeldOutModel(
                model=names[member],
                battles=battles,
                human_rating=to_points(own),
                rating=float(to_points(result.strength)),
                ci_low=None if low is None else float(to_points(low)),
                ci_high=None if high is None else float(to_points(high)),
                covered=bool((low is None or low <= own) and (high is None or own <= high)),
            )
        )
    return placed


def families_of(models: Sequence[str], path: Path | None) -> dict[str, str]:
    """The family of each model that has one: from a file, or the maker before the slash of a name (`maker/model`)."""
    if path is None:
        return {name: name.partition("/")[0] for name in models if "/" in name.strip("/")}
    known = _read_families(path)
    result = {name: known[name] for name in models if name in known}
    if not result:
        raise OptionError(
            f"{path}: names no model of the arena. It has {', '.join(repr(name) for name in models[:3])} …"
        )
    return result


def _read_families(path: Path) -> dict[str, str]:
    """A JSON object of model: family, or a CSV file with the columns model and family."""
    wrong = f"{path}: not a JSON object of model: family, nor a CSV file with the columns model and family."
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"cannot read {path}: {error}.") from None
    if text.lstrip().startswith("{"):
        try:
            return dict(msgspec.json.decode(text, type=dict[str, str]))
        except msgspec.MsgspecError as error:
            raise OptionError(f"{wrong} ({error})") from None
    rows = list(csv.DictReader(text.splitlines()))
    if not rows or not {"model", "family"} <= set(rows[0]):
        raise OptionError(wrong)
    return {row["model"].strip(): row["family"].strip() for row in rows if row["model"] and row["family"]}

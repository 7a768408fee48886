"""The folder of a placement: its files, and the ratings computed from nothing but them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from tiltyard.battles import Source, read_battles, write_battles
from tiltyard.battles.table import concat, merge_equal
from tiltyard.boards.leaderboard import EloReport, Leaderboard
from tiltyard.boards.rating import rate_with
from tiltyard.errors import RunFolderError
from tiltyard.files import write_arrays, write_lines, write_text
from tiltyard.judging.records import Judgment
from tiltyard.judging.run_folder import again, read_lines, read_object, require
from tiltyard.placement.plan import PlacementPlan
from tiltyard.placement.rating import (
    HumanBoard,
    NewModelRating,
    Recipe,
    calibration_details,
    calibration_rows,
    judge_scale,
    rate_new_model,
)
from tiltyard.placement.robustness import FamilyCheck, Sensitivity, check_families, sensitivity
from tiltyard.placement.rounds import JudgeCalibration, PanelResult, judged_battles
from tiltyard.ratings import POINTS_PER_LOGIT

KEPT_COLUMNS = ("question_id", "language")
PLACE = "tiltyard place"
"""The command that writes the folder."""

SAME_DIGITS = 1e-9
"""How far apart numbers may be that are the same. Processors compute exponentials by different instructions."""


class PlacementText(msgspec.Struct, frozen=True, kw_only=True):
    """A line of `texts.jsonl`: the texts of a judged battle."""

    question_id: str
    opponent: str
    language: str | None
    prompt: str
    """What was asked."""
    model_answer: str
    opponent_answer: str


def write_evidence(
    folder: Path, plan: PlacementPlan, result: PanelResult, calibration: JudgeCalibration | None
) -> None:
    """The files that ratings are computed from: battles, verdicts, calibration; and the texts beside them."""
    write_lines(folder / "verdicts.jsonl", result.judgments)
    write_lines(
        folder / "texts.jsonl",
        (
            PlacementText(
                question_id=battle.planned.question_id,
                opponent=battle.planned.opponent,
                language=battle.exchange.language,
                prompt=battle.exchange.prompt,
                model_answer=battle.answer,
                opponent_answer=battle.exchange.answer,
            )
            for battle in result.battles
            if battle.answer is not None
        ),
    )
    if calibration is not None:
        write_lines(folder / "calibration.jsonl", calibration.lines())
    human = replace(plan.human, columns={k: v for k, v in plan.human.columns.items() if k in KEPT_COLUMNS})
    if not plan.options.inline_human:
        human = merge_equal(replace(human, columns={}))
    write_battles(folder / "battles.jsonl", concat([judged_battles(result.judgments), human]))


class FolderRatings(msgspec.Struct, frozen=True, eq=False):
    """The result of rating a folder: the board, the joint fit (the same for a plain run), and the ratings report."""

    board: Leaderboard
    joint: Leaderboard
    rating: NewModelRating
    report: EloReport
    sensitivity: Sensitivity
    """What biases that no calibration has seen would do."""
    families: FamilyCheck | None = None
    """Leave-one-family-out coverage of the calibration; None where no family is known."""


def rate_folder(folder: Path, recipe: Recipe) -> FolderRatings:
    """The ratings of a placement, from its battles and verdicts alone.

    Parameters:
        folder: The folder of a placement.
        recipe: How it is rated.
    """
    path = folder / "battles.jsonl"
    joint = rate_with(recipe.estimator(), path)
    battles = read_battles(path)
    people = HumanBoard.of(battles.take(battles.source == Source.HUMAN.code).compact(), recipe.anchor)
    judgments = read_judgments(folder, "verdicts.jsonl")
    scale, families = None, None
    if recipe.mode == "calibrated":
        calibration = read_judgments(folder, "calibration.jsonl")
        scale = judge_scale(people, calibration)
        if recipe.families:
            rows = calibration_rows(calibration, people)
            families = check_families(people.anchors, people.models, rows, recipe.families, recipe.overall_level)
    rating = rate_new_model(recipe, people, battles, judgments, scale)
    if recipe.mode == "joint":
        board = replace(joint, remarks=(*joint.remarks, f"{recipe.model}: judge's scale, sampling error only"))
    else:
        origin = {name: joint.settings[name] for name in ("where", "battles_sha256", "tiltyard_version")}
        plain = joint[recipe.model]
        extra = {
            "judge_scale_rating": plain.rating,
            "judge_scale_ci_low": plain.ci_low,
            "judge_scale_ci_high": plain.ci_high,
        }
        placed = replace(rating.entry, extra={**rating.entry.extra, **extra})
        entries = tuple(placed if entry.model == recipe.model else entry for entry in rating.board)
        board = replace(rating.board, entries=entries, settings={**rating.board.settings, **origin})
    report = EloReport.of(board, arena=recipe.arena, model=recipe.model, judge_model=recipe.judge_model)
    details = {**report.details, "placement": {"mode": recipe.mode, "overall_level": recipe.overall_level}}
    if rating.scaled is not None and scale is not None:
        details["calibration"] = calibration_details(scale, rating.scaled, recipe.overall_level)
    floor = 0.0 if scale is None else POINTS_PER_LOGIT * scale.floor
    effects = sensitivity(board, recipe.model, recipe.sensitivity, floor)
    details["sensitivity"] = msgspec.to_builtins(effects)
    if families is not None:
        details["families"] = msgspec.to_builtins(families)
    report = replace(report, details=details, n_bootstraps=recipe.bootstraps, seed=recipe.seed)
    return FolderRatings(board, joint, rating, report, effects, families)


def write_ratings(folder: Path, rated: FolderRatings) -> None:
    """`elo_ratings.json`, `bootstrap_ratings.npz` and `leaderboard.txt`."""
    from tiltyard.boards.text import as_table

    rated.report.write(folder / "elo_ratings.json")
    rounds = rated.joint.arrays.get("bootstrap_ratings")
    if rounds is not None:
        arrays = {"ratings": rounds, "models": rated.joint.arrays["models"]}
        write_arrays(folder / "bootstrap_ratings.npz", arrays, compressed=True)
    write_text(folder / "leaderboard.txt", as_table(rated.board) + "\n")


def read_judgments(folder: Path, name: str) -> list[Judgment]:
    """The judgments of a file of a placement."""
    path = require(folder / name, folder, PLACE)
    return [judgment for _, judgment in read_lines(path, msgspec.json.Decoder(Judgment), PLACE)]


def read_recipe(folder: Path) -> Recipe:
    """The recipe of a folder's ratings.

    Parameters:
        folder: The folder of a placement.
    """
    path = require(folder / "manifest.json", folder, PLACE)
    manifest = read_object(path, PLACE)
    if manifest.get("kind") != "placement":
        raise RunFolderError(f"{folder} is not the folder of a placement. Give one that `tiltyard place` wrote.")
    try:
        return msgspec.convert(manifest.get("recipe"), Recipe)
    except msgspec.ValidationError as error:
        raise RunFolderError(f"{path}: without its recipe ({error}). {again(PLACE)}") from None


class Recomputed(msgspec.Struct, frozen=True, eq=False):
    """Ratings recomputed from the saved files, and the differences from the saved ones: none if all is well."""

    rated: FolderRatings
    differences: Sequence[str]
    identical: bool
    """Whether the saved file has the same bytes. Another processor may round the last digits in another way."""


def recompute(folder: Path) -> Recomputed:
    """Rate the saved battles and verdicts again, and compare with the saved ratings: byte for byte, or to nine digits.

    Parameters:
        folder: The folder of a placement.
    """
    rated = rate_folder(folder, read_recipe(folder))
    saved = require(folder / "elo_ratings.json", folder, PLACE)
    identical = saved.read_text(encoding="utf-8") == rated.report.to_json()
    return Recomputed(rated, () if identical else _differences(EloReport.read(saved), rated.report), identical)


def _differences(saved: EloReport, again: EloReport) -> list[str]:
    result = []
    before = {entry.model: entry for entry in saved.ratings}
    for entry in again.ratings:
        old = before.pop(entry.model, None)
        if old is None:
            result.append(f"{entry.model} is not in the saved ratings")
        elif not _agree(old.to_dict(), entry.to_dict()):
            result.append(f"{entry.model}: saved {old.rating:.4f}, now {entry.rating:.4f}")
    result += [f"{name} is only in the saved ratings" for name in before]
    for name in sorted({*saved.details, *again.details} - {"tiltyard_version"}):
        if not _agree(saved.details.get(name), again.details.get(name)):
            result.append(f"{name}: saved {saved.details.get(name)!r}, now {again.details.get(name)!r}")
    return result


def _agree(saved: Any, again: Any) -> bool:
    """Whether two values are the same, numbers to `SAME_DIGITS`."""
    if isinstance(saved, dict) and isinstance(again, dict):
        return saved.keys() == again.keys() and all(_agree(value, again[name]) for name, value in saved.items())
    if isinstance(saved, list | tuple) and isinstance(again, list | tuple):
        return len(saved) == len(again) and all(map(_agree, saved, again))
    if isinstance(saved, float) and isinstance(again, float):
        return math.isclose(saved, again, rel_tol=SAME_DIGITS, abs_tol=SAME_DIGITS)
    return bool(saved == again)

"""A placement from beginning to end: calibrate, hold the rounds, keep everything, rate what was kept, report."""

from __future__ import annotations

import re
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from tiltyard.boards.leaderboard import whole
from tiltyard.files import write_json
from tiltyard.judging.bias import measure_bias
from tiltyard.judging.judge import JudgingResult, JudgingStats
from tiltyard.judging.run_folder import Clock, iso_time, new_folder, time_stamp, usage_report, utc_now, versions
from tiltyard.placement.calibration import JudgeCalibration, calibrate_judge, flip_facts, sample_pairs
from tiltyard.placement.folder import FolderRatings, failure_counts, rate_folder, write_evidence, write_ratings
from tiltyard.placement.panel import Panel
from tiltyard.placement.rating import HumanBoard, judge_scale
from tiltyard.placement.rounds import PanelResult, Participants, hold_rounds
from tiltyard.placement.sampling import information_limit
from tiltyard.placement.stopping import critical, stopping_looks
from tiltyard.ratings import POINTS_PER_LOGIT

if TYPE_CHECKING:
    from tiltyard.judging.run_folder import Finish
    from tiltyard.llm.prices import PriceTable
    from tiltyard.placement.plan import PlacementPlan


@dataclass(frozen=True, slots=True, eq=False)
class PlacementResult:
    """A placement that came to its end: where it is, what it found."""

    folder: Path
    held: PanelResult
    rated: FolderRatings
    manifest: dict[str, Any]


def run_folder(plan: PlacementPlan, now: Clock) -> Path:
    """`<out>/<arena>-<model>-<UTC time>`; a slash in a name becomes a dash."""
    name = re.sub(r"[^\w.+-]+", "-", f"{plan.arena.name}-{plan.model}").strip("-.")
    return new_folder(plan.options.out / f"{name}-{time_stamp(now)}")


async def carry_out(
    plan: PlacementPlan,
    bench: Participants,
    folder: Path,
    *,
    prices: PriceTable,
    now: Clock = utc_now,
    finish: Finish | None = None,
) -> PlacementResult:
    """Judge, save and rate. Interrupted anywhere, the same command asks nothing twice.

    `finish` is called with the complete folder: the command line writes the report there.
    """
    started = iso_time(now)
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "manifest.json", _manifest(plan, started_at=started, finished_at=None))
    async with aclosing(bench.judge), aclosing(bench.answers):
        calibration = None
        scale = None
        if plan.options.calibrate:
            calibration = await calibrate_judge(plan, bench, sample_pairs(plan))
            scale = judge_scale(plan.field, calibration.judgments)
        held = await hold_rounds(plan, bench, scale)
    panel = _panel(plan, held)
    write_json(folder / "panel.json", panel.to_dict())
    write_evidence(folder, plan, held, calibration)
    write_json(folder / "usage.json", _usage(bench, held, calibration, prices))
    rated = rate_folder(folder, plan.recipe)
    write_ratings(folder, rated)
    results = {**_results(plan, bench, held, rated, calibration), "panel": _panel_facts(panel)}
    manifest = _manifest(plan, started_at=started, finished_at=iso_time(now), results=results)
    write_json(folder / "manifest.json", manifest)
    if finish is not None:
        finish(folder)
    return PlacementResult(folder, held, rated, manifest)


def _panel(plan: PlacementPlan, held: PanelResult) -> Panel:
    sampling = "panel" if plan.panel is not None else plan.options.sampling
    return Panel(
        arena=plan.arena.name,
        arena_sha256=_hashes(plan),
        sampling=sampling,
        seed=plan.options.seed,
        battles=tuple(bout.seat for bout in held.bouts),
    )


def _panel_facts(panel: Panel) -> dict[str, Any]:
    return {
        "fingerprint": panel.fingerprint,
        "sampling": panel.sampling,
        "battles": len(panel.battles),
        "opponents": len({seat.opponent for seat in panel.battles}),
        "questions": len({seat.question_id for seat in panel.battles}),
    }


def _manifest(
    plan: PlacementPlan, *, started_at: str, finished_at: str | None, results: dict[str, Any] | None = None
) -> dict[str, Any]:
    """What ran, on what, with which seeds; `results` is what only the end knows."""
    arena, options = plan.arena, plan.options
    looks = stopping_looks(plan.sizes)
    by_rank = options.until is not None and options.until.kind == "rank"
    return {
        "kind": "placement",
        "arena": {
            "name": arena.name,
            "files": [path.name for path in arena.files],
            "sha256": _hashes(plan),
            "human_battles": whole(plan.human.n_battles),
            "models": len(plan.field.models),
            "questions": len(arena.cells.question_ids),
            "with_text": len(arena.cells),
        },
        "model": plan.model,
        "model_source": options.model,
        "judge_model": options.judge,
        "rubric": {"dimension": plan.rubric.dimension, "version": plan.rubric.version},
        "options": options.record(),
        "recipe": msgspec.to_builtins(plan.recipe),
        "rate_command": plan.recipe.rate_command("battles.jsonl") if plan.recipe.mode == "joint" else None,
        "seed": options.seed,
        "both_orders": options.swap == "both",
        "looks": {
            "planned": looks,
            "sizes": list(plan.sizes),
            "critical": critical(plan.recipe.overall_level, looks) if by_rank else None,
            "until": None if options.until is None else str(options.until),
        },
        "started_at": started_at,
        "finished_at": finished_at,
        "versions": versions(),
        **(results or {}),
    }


def _results(
    plan: PlacementPlan,
    bench: Participants,
    held: PanelResult,
    rated: FolderRatings,
    calibration: JudgeCalibration | None,
) -> dict[str, Any]:
    entry = rated.board[plan.model]
    no_answer = sum(bout.judgment is None for bout in held.bouts)
    failed = failure_counts(held, no_answer)
    flips = flip_facts(measure_bias(held.judgments).flip_rate) if plan.options.swap == "both" else None
    return {
        "rounds": [
            {
                "round": look.round,
                "battles": look.battles,
                **_entry_facts(look.standing.entry if look.standing is not None else None),
            }
            for look in held.looks
        ],
        "stopped": held.stopped,
        "judged": {
            "battles": sum(judgment.status == "ok" for judgment in held.judgments),
            "wins": whole(entry.wins),
            "losses": whole(entry.losses),
            "ties": whole(entry.ties),
            "inconsistent": sum(judgment.inconsistent for judgment in held.judgments),
            "failed": sum(failed.values()),
            "failed_by": failed,
            "no_answer": dict(list(bench.answers.failed.items())[:20]),
        },
        "flips": flips,
        "calibration": None if calibration is None else _calibration_facts(calibration, rated),
        "leave_one_out": _leave_one_out(plan, rated) if plan.options.leave_one_out else None,
        "information": _information(plan, rated),
    }


def _entry_facts(entry: Any) -> dict[str, Any]:
    names = ("rating", "ci_low", "ci_high", "rank_low", "rank_high")
    return {name: None if entry is None else getattr(entry, name) for name in names}


def _calibration_facts(calibration: JudgeCalibration, rated: FolderRatings) -> dict[str, Any]:
    return {
        "asked": len(calibration.pairs),
        **rated.report.details["calibration"],
        "agreement": calibration.agreement,
        "flips": calibration.flips,
    }


def _leave_one_out(plan: PlacementPlan, rated: FolderRatings) -> dict[str, Any]:
    """The placed rating against people's own, both measured from the same opponents' mean."""
    everybody = HumanBoard.of(plan.arena.battles, plan.options.anchor)
    shift = float(np.mean([rated.board[name].rating - everybody.board[name].rating for name in plan.field.models]))
    own, placed = everybody.board[plan.model], rated.board[plan.model]
    human = own.rating + shift
    low, high = placed.ci_low, placed.ci_high
    return {
        "human_rating": human,
        "human_ci_low": None if own.ci_low is None else own.ci_low + shift,
        "human_ci_high": None if own.ci_high is None else own.ci_high + shift,
        "human_battles": whole(own.n_battles),
        "human_rank": own.rank,
        "error": placed.rating - human,
        "covered": (low is None or low <= human) and (high is None or human <= high),
    }


def _information(plan: PlacementPlan, rated: FolderRatings) -> dict[str, Any]:
    """What a battle of the panel told, against the best possible, and what random opponents would have told."""
    fit = rated.standing.alone
    strength = (rated.board[plan.model].rating - 1000.0) / POINTS_PER_LOGIT
    cells = plan.arena.cells.model[plan.usable]
    numbers = [plan.field.number(plan.arena.cells.models[code]) for code in cells.tolist()]
    opponents = np.array([plan.field.anchors.strength[number] for number in numbers if number is not None])
    return {
        "per_battle": float(fit.information.sum() / fit.battles / 0.25),
        "limit": information_limit(opponents, strength),
    }


def _usage(
    bench: Participants, held: PanelResult, calibration: JudgeCalibration | None, prices: PriceTable
) -> dict[str, Any]:
    judgments: dict[str, Any] = {"panel": held.judgments}
    stats: dict[str, JudgingStats] = {"panel": held.stats}
    if calibration is not None:
        judgments["calibration"], stats["calibration"] = calibration.judgments, calibration.stats
    judged = JudgingResult(bench.judge.name, bench.judge.both_orders, judgments, {}, stats)
    totals = bench.answers.totals.all
    return {
        **usage_report(judged, prices),
        "answers": {
            "asked": totals.sent,
            "failed": totals.failed,
            **msgspec.structs.asdict(totals.usage),
            "cost_usd": totals.cost,
            "replies_without_usage": totals.without_usage,
        },
    }


def _hashes(plan: PlacementPlan) -> dict[str, str]:
    """The SHA-256 of the arena's files by name: where they lie is nobody's business."""
    return {Path(path).name: digest for path, digest in plan.arena.sha256.items()}

"""A placement from start to end: calibrate, run the rounds, save everything, rate what was saved, report."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from tiltyard.boards.bradley_terry import CENTRE
from tiltyard.boards.leaderboard import whole
from tiltyard.files import write_json
from tiltyard.judging.judge import JudgingResult, JudgingStats
from tiltyard.judging.plan import JudgingPlan
from tiltyard.judging.run_folder import Clock, iso_time, new_folder, time_stamp, usage_report, utc_now, versions
from tiltyard.llm.prices import PriceTable
from tiltyard.placement.folder import (
    FolderRatings,
    flips_of,
    judged_facts,
    panel_facts,
    rate_folder,
    write_evidence,
    write_manifest,
    write_ratings,
)
from tiltyard.placement.human_arena import Exchange
from tiltyard.placement.manifest import (
    ArenaFacts,
    Information,
    JudgeAgainstPeople,
    LeaveOneOut,
    Looks,
    PlacementManifest,
    Round,
    RubricFacts,
    StartedManifest,
)
from tiltyard.placement.plan import PlacementPlan, panel_cells, recorded
from tiltyard.placement.rating import HumanBoard, judge_scale
from tiltyard.placement.rounds import (
    JudgeCalibration,
    PanelResult,
    Participants,
    calibrate_judge,
    make_case,
    run_rounds,
    sample_pairs,
)
from tiltyard.placement.sampling import Panel, fingerprint, information_limit, planned_battle
from tiltyard.placement.stopping import critical, stopping_looks
from tiltyard.placement.summary import summary_lines
from tiltyard.ratings import POINTS_PER_LOGIT


def likely_exchanges(plan: PlacementPlan) -> list[Exchange]:
    """Exchanges like those that the run will choose, as many as it will judge at most.

    Later rounds depend on verdicts that do not exist yet; their number does not, and their length hardly does.
    """
    if plan.panel is not None:
        cells = [cell for cell in panel_cells(plan.arena.cells, plan.panel) if cell is not None]
        return plan.arena.exchanges(cells[: sum(plan.sizes)])
    rng = np.random.default_rng(np.random.SeedSequence(plan.options.seed).spawn(2)[0])
    chosen = plan.chooser().choose(sum(plan.sizes), None, [], rng)
    return plan.arena.exchanges([int(plan.usable[cell]) for cell in chosen])


def likely_judging_plan(plan: PlacementPlan, exchanges: list[Exchange], answers: Mapping[str, str]) -> JudgingPlan:
    """What the judge would be asked; a missing answer is replaced by a text as long as the opponent's answer.

    It must not be the same text: both orders would then be one question, and the quote only half of the real cost.
    """
    cases = []
    for exchange in exchanges:
        answer = answers.get(exchange.question_id, f"{exchange.answer} …")
        cases.append(make_case(plan, planned_battle(exchange, model_first=True), exchange, answer))
    if plan.options.calibrate:
        cases += [pair.case for pair in sample_pairs(plan)]
    return JudgingPlan({plan.rubric.dimension: plan.rubric}, {plan.rubric.dimension: cases})


class PlacementResult(msgspec.Struct, frozen=True, eq=False):
    """A finished placement: where it is, and its results."""

    folder: Path
    rated: FolderRatings
    manifest: PlacementManifest

    def lines(self) -> list[str]:
        known = self.manifest.calibration is not None
        advice = (
            "--calibrate 300 measures the judge against people, and puts the rating and its interval on their scale"
        )
        return [*summary_lines(self.manifest, self.rated), *([] if known else [advice])]

    def render(self, format: str = "table") -> str:
        """The board, as a `table` with what it means below; or as `json` (`elo_ratings.json`), `csv`, `md`, `latex`."""
        text = self.rated.render(format)
        return "\n".join([text, "", *self.lines()]) if format == "table" else text

    __str__ = render


def run_folder(plan: PlacementPlan, now: Clock) -> Path:
    """`<out>/<arena>-<model>-<UTC time>`; a slash in a name becomes a dash."""
    name = re.sub(r"[^\w.+-]+", "-", f"{plan.arena.name}-{plan.model}").strip("-.")
    return new_folder(plan.options.out / f"{name}-{time_stamp(now)}")


async def carry_out(
    plan: PlacementPlan,
    participants: Participants,
    folder: Path,
    *,
    prices: PriceTable,
    now: Clock = utc_now,
) -> PlacementResult:
    """Judge, save and rate. If interrupted at any point, the same command asks nothing twice."""
    started = _started(plan, iso_time(now))
    folder.mkdir(parents=True, exist_ok=True)
    write_manifest(folder, started)
    async with aclosing(participants.judge), aclosing(participants.answers):
        calibration = await calibrate_judge(plan, participants) if plan.options.calibrate else None
        scale = None if calibration is None else judge_scale(plan.people, calibration.judgments)
        result = await run_rounds(plan, participants, scale)
    battles = tuple(battle.planned for battle in result.battles)
    panel = Panel(
        fingerprint=fingerprint(battles),
        arena=plan.arena.name,
        arena_sha256=_hashes(plan),
        sampling="panel" if plan.panel is not None else plan.options.sampling,
        seed=plan.options.seed,
        battles=battles,
    )
    write_json(folder / "panel.json", msgspec.to_builtins(panel))
    write_evidence(folder, plan, result, calibration)
    write_json(folder / "usage.json", _usage(participants, result, calibration, prices))
    rated = rate_folder(folder, plan.recipe)
    write_ratings(folder, rated)
    flips = flips_of(result.judgments, both_orders=plan.options.swap == "both")
    manifest = PlacementManifest(
        **{**msgspec.structs.asdict(started), "finished_at": iso_time(now)},
        rounds=_rounds(result),
        stopped=result.stopped,
        judged=judged_facts(
            result.judgments,
            rated,
            unanswered=len(result.battles) - len(result.judgments),
            no_answer=dict(list(participants.answers.failed.items())[:20]),
        ),
        flips=flips,
        gate=() if flips is None or flips.share is None else (flips.check(),),
        calibration=None if calibration is None else _calibration_facts(calibration, rated),
        leave_one_out=_leave_one_out(plan, rated) if plan.options.leave_one_out else None,
        information=_information(plan, rated),
        panel=panel_facts(panel),
        sensitivity=rated.sensitivity,
        families=rated.families,
    )
    write_manifest(folder, manifest)
    return PlacementResult(folder, rated, manifest)


def _started(plan: PlacementPlan, started_at: str) -> StartedManifest:
    """Settings, inputs and seeds of the run."""
    arena, options = plan.arena, plan.options
    looks = stopping_looks(plan.sizes)
    by_rank = plan.until is not None and plan.until.kind == "rank"
    return StartedManifest(
        kind="placement",
        arena=ArenaFacts(
            name=arena.name,
            files=tuple(path.name for path in arena.files),
            sha256=_hashes(plan),
            human_battles=whole(plan.human.n_battles),
            models=len(plan.people.models),
            questions=len(arena.cells.question_ids),
            with_text=len(arena.cells),
        ),
        model=plan.model,
        model_source=options.model,
        judge_model=options.judge,
        rubric=RubricFacts(dimension=plan.rubric.dimension, version=plan.rubric.version),
        options=recorded(options),
        recipe=plan.recipe,
        rate_command=plan.recipe.rate_command("battles.jsonl") if plan.recipe.mode == "joint" else None,
        seed=options.seed,
        both_orders=options.swap == "both",
        looks=Looks(
            planned=looks,
            sizes=plan.sizes,
            critical=critical(plan.recipe.overall_level, looks) if by_rank else None,
            until=None if plan.until is None else str(plan.until),
        ),
        started_at=started_at,
        versions=versions(),
    )


def _rounds(result: PanelResult) -> tuple[Round, ...]:
    names = ("rating", "ci_low", "ci_high", "rank_low", "rank_high")
    return tuple(
        Round(
            round=one.round,
            battles=one.battles,
            **({} if one.rating is None else {name: getattr(one.rating.entry, name) for name in names}),
        )
        for one in result.rounds
    )


def _calibration_facts(calibration: JudgeCalibration, rated: FolderRatings) -> JudgeAgainstPeople:
    measured = rated.report.details["calibration"]
    return JudgeAgainstPeople(
        asked=len(calibration.pairs),
        **{**measured, "warnings": tuple(measured["warnings"])},
        agreement=calibration.agreement,
        flips=calibration.flips,
    )


def _leave_one_out(plan: PlacementPlan, rated: FolderRatings) -> LeaveOneOut:
    """The placed rating against people's own, both measured from the same opponents' mean."""
    everybody = HumanBoard.of(plan.arena.battles, plan.options.anchor)
    shift = float(np.mean([rated.board[name].rating - everybody.board[name].rating for name in plan.people.models]))
    own, placed = everybody.board[plan.model], rated.board[plan.model]
    human = own.rating + shift
    low, high = placed.ci_low, placed.ci_high
    return LeaveOneOut(
        human_rating=human,
        human_ci_low=None if own.ci_low is None else own.ci_low + shift,
        human_ci_high=None if own.ci_high is None else own.ci_high + shift,
        human_battles=whole(own.n_battles),
        human_rank=own.rank,
        error=placed.rating - human,
        covered=(low is None or low <= human) and (high is None or human <= high),
    )


def _information(plan: PlacementPlan, rated: FolderRatings) -> Information:
    """The information of a battle of the panel relative to the best possible, and that of random opponents."""
    fit = rated.rating.alone
    strength = (rated.board[plan.model].rating - CENTRE) / POINTS_PER_LOGIT
    cells = plan.arena.cells.model[plan.usable]
    known = dict(zip(plan.people.models, plan.people.anchors.strength.tolist(), strict=True))
    names = (plan.arena.cells.models[code] for code in cells.tolist())
    opponents = np.array([known[name] for name in names if name in known])
    return Information(
        per_battle=float(fit.information.sum() / fit.battles / 0.25), limit=information_limit(opponents, strength)
    )


def _usage(
    participants: Participants, result: PanelResult, calibration: JudgeCalibration | None, prices: PriceTable
) -> dict[str, Any]:
    judgments: dict[str, Any] = {"panel": result.judgments}
    stats: dict[str, JudgingStats] = {"panel": result.stats}
    if calibration is not None:
        judgments["calibration"], stats["calibration"] = calibration.judgments, calibration.stats
    judged = JudgingResult(participants.judge.name, participants.judge.both_orders, judgments, {}, stats)
    totals = participants.answers.totals.all
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
    """The SHA-256 of the arena's files by name, without their folders."""
    return {Path(path).name: digest for path, digest in plan.arena.sha256.items()}

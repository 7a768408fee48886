"""A placement from start to end: calibrate, run the rounds, save everything, rate what was saved, report."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from tiltyard.analysis.boards import CENTRE, RatingEntry, whole
from tiltyard.files import write_json
from tiltyard.judge.llm import PriceTable
from tiltyard.judge.placement.folder import (
    JUDGE_SCALE,
    ArenaFacts,
    FolderRatings,
    Information,
    JudgeAgainstPeople,
    LeaveOneOut,
    Looks,
    PlacementManifest,
    Round,
    RubricFacts,
    StartedManifest,
    against_people,
    panel_results,
    rate_folder,
    write_evidence,
    write_manifest,
    write_ratings,
)
from tiltyard.judge.placement.human_arena import Exchange
from tiltyard.judge.placement.plan import PlacementPlan, panel_cells, recorded
from tiltyard.judge.placement.rating import HumanBoard, judge_scale
from tiltyard.judge.placement.robustness import FamilyCheck
from tiltyard.judge.placement.rounds import (
    JudgeCalibration,
    PanelResult,
    Participants,
    calibrate_judge,
    make_case,
    run_rounds,
    sample_pairs,
)
from tiltyard.judge.placement.sampling import Panel, fingerprint, information_limit, planned_battle
from tiltyard.judge.placement.stopping import critical, stopping_looks
from tiltyard.judge.verdicts import (
    Clock,
    JudgingPlan,
    JudgingResult,
    JudgingStats,
    iso_time,
    new_folder,
    time_stamp,
    usage_report,
    utc_now,
    versions,
)
from tiltyard.stats import POINTS_PER_LOGIT


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
        cases += [case for case, _ in sample_pairs(plan)]
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


async def run_placement(
    plan: PlacementPlan, participants: Participants, folder: Path, *, prices: PriceTable, now: Clock = utc_now
) -> PlacementResult:
    """Judge, save and rate. If interrupted at any point, the same command asks nothing twice."""
    started = _started(plan, iso_time(now))
    folder.mkdir(parents=True, exist_ok=True)
    write_manifest(folder, started)
    async with aclosing(participants.judge), aclosing(participants.answers):
        calibration = await calibrate_judge(plan, participants) if plan.options.calibrate else None
        scale = None if calibration is None else judge_scale(plan.people, calibration.lines)
        result = await run_rounds(plan, participants, scale)
    battles = tuple(battle.planned for battle in result.battles)
    panel = Panel(
        fingerprint=fingerprint(battles),
        arena=plan.arena.name,
        arena_sha256=dict(plan.arena.sha256),
        sampling="panel" if plan.panel is not None else plan.options.sampling,
        seed=plan.options.seed,
        battles=battles,
    )
    write_json(folder / "panel.json", msgspec.to_builtins(panel))
    write_evidence(folder, plan, result, calibration)
    write_json(folder / "usage.json", _usage(participants, result, calibration, prices))
    rated = rate_folder(folder, plan.recipe)
    write_ratings(folder, rated)
    both = plan.options.swap == "both"
    manifest = PlacementManifest(
        **{**msgspec.structs.asdict(started), "finished_at": iso_time(now)},
        rounds=tuple(
            Round.of(one.round, one.battles, None if one.rating is None else one.rating.entry) for one in result.rounds
        ),
        stopped=result.stopped,
        calibration=None if calibration is None else against_people(rated, calibration.lines, both_orders=both),
        leave_one_out=_leave_one_out(plan, rated) if plan.options.leave_one_out else None,
        information=_information(plan, rated),
        **panel_results(
            result.judgments,
            rated,
            panel,
            both_orders=both,
            no_answer=dict(list(participants.answers.failed.items())[:20]),
        ),
    )
    write_manifest(folder, manifest)
    return PlacementResult(folder, rated, manifest)


def _started(plan: PlacementPlan, started_at: str) -> StartedManifest:
    arena, options = plan.arena, plan.options
    looks = stopping_looks(plan.sizes)
    by_rank = plan.until is not None and plan.until.kind == "rank"
    return StartedManifest(
        kind="placement",
        arena=ArenaFacts(
            name=arena.name,
            files=tuple(path.name for path in arena.files),
            sha256=dict(plan.arena.sha256),
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
        judgments["calibration"], stats["calibration"] = calibration.lines, calibration.stats
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


# What a placement says on the terminal


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
    if agreement and agreement.value is not None:
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

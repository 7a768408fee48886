"""A tournament run: plan, quote, judge, rate, write. Each step is one call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tiltyard.files import write_json
from tiltyard.judging.by_name import closing_judge, judge_by_name
from tiltyard.judging.canaries import canary_cases, canary_report
from tiltyard.judging.judge import Judge, JudgingResult, judge
from tiltyard.judging.language_model import AskingParts
from tiltyard.judging.plan import JudgingPlan
from tiltyard.judging.usage import usage_report
from tiltyard.llm.accounting import Budget
from tiltyard.llm.asking import AskingSettings
from tiltyard.llm.prices import PriceTable
from tiltyard.llm.provider import parse_model_name
from tiltyard.tournament.artifacts import forget_other_dimensions, write_matches, write_standings, write_verdicts
from tiltyard.tournament.gate import Check, gate
from tiltyard.tournament.manifest import manifest, run_results
from tiltyard.tournament.standings import DimensionRatings, rate_dimension

if TYPE_CHECKING:
    from tiltyard.judging.judge import OnVerdict
    from tiltyard.judging.run_folder import Finish
    from tiltyard.llm.asking import Watch
    from tiltyard.tournament.config import EloSettings, JudgeSection, Setup
    from tiltyard.tournament.plan import RunPlan

Notice = Callable[[str], None]
Clock = Callable[[], datetime]


def utc_now() -> datetime:
    """The time, for whoever was handed no other clock."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class RunResult:
    """A run that came to its end: where it is, and what it found."""

    folder: Path
    standings: dict[str, DimensionRatings]
    judged: JudgingResult
    checks: list[Check] = field(default_factory=list)


def make_judging_plan(plan: RunPlan) -> JudgingPlan:
    """What the judge will hear: every match, and the canaries where the config wants them."""
    rubrics = {rubric.dimension: rubric for rubric in plan.rubrics}
    canaries = canary_cases(rubrics) if plan.setup.config.canaries else {}
    return JudgingPlan(rubrics, plan.matches.by_dimension, canaries)


def make_judge(setup: Setup, judge_model: str, asking: AskingParts, *, silent: bool = False) -> Judge:
    """The judge of a run, asked as the config says; a `silent` one only knows what it said before, and needs no key."""
    settings = setup.config.judge
    return judge_by_name(
        judge_model,
        folder=setup.judgments_dir,
        asking=asking,
        base_url=_judge_address(settings, judge_model),
        max_tokens=settings.max_tokens,
        max_attempts=settings.max_attempts,
        options=settings.options,
        reply=settings.reply,
        min_choice_mass=settings.min_choice_mass,
        silent=silent,
        look_in=(setup.path.parent, Path()),
    )


def _judge_address(settings: JudgeSection, judge_model: str) -> str | None:
    """The config's `base_url`, if it is meant for this judge: a maker's key goes to no server of somebody else's.

    It is for `local/…` judges, and for a maker's if both judges of the config are that maker's: then it is a gateway.
    """
    if settings.base_url is None:
        return None
    asked = parse_model_name(judge_model).provider
    if asked == "local":
        return settings.base_url
    configured = {parse_model_name(name).provider for name in (settings.pilot_model, settings.headline_model)}
    return settings.base_url if configured == {asked} else None


def asking_parts(setup: Setup, notice: Notice, *, budget_usd: float | None, max_batch: int | None) -> AskingParts:
    """How models are asked: the config's settings, with what the command line changes."""
    settings = setup.config.judge
    limit_usd = settings.budget_usd if budget_usd is None else budget_usd
    return AskingParts(
        prices=PriceTable.load(setup.prices_path),
        settings=AskingSettings(
            batch=settings.batch,
            concurrency=settings.concurrency,
            max_batch=max_batch or settings.max_batch,
            poll_initial_seconds=settings.poll_initial_seconds,
            poll_max_seconds=settings.poll_max_seconds,
            budget_usd=limit_usd,
        ),
        # One budget for all that a command asks: the pre-warm and the bulk, one entrant and the next.
        budget=Budget(limit_usd),
        notice=notice,
    )


def run_folder(plan: RunPlan, now: Clock) -> Path:
    """Where a run is kept: what was asked for, or `runs/<mode>_<UTC time>`."""
    if plan.options.output_dir is not None:
        return plan.options.output_dir
    stamp = f"{plan.options.mode}_{now().strftime('%Y%m%d_%H%M%S')}"
    folder, copies = Path("runs") / stamp, 1
    while folder.exists():  # another run began in the same second
        copies += 1
        folder = Path("runs") / f"{stamp}-{copies}"
    return folder


async def carry_out(
    plan: RunPlan,
    judging_plan: JudgingPlan,
    chosen: Judge,
    folder: Path,
    *,
    prices: PriceTable,
    now: Clock = utc_now,
    watch: Watch | None = None,
    on_verdict: OnVerdict | None = None,
    finish: Finish | None = None,
) -> RunResult:
    """Judge, rate and write everything. Interrupted anywhere, the same command continues where it was.

    `finish` is called with the complete folder: the command line writes the report there.
    """
    started = _iso(now)
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "manifest.json", manifest(plan, started_at=started, finished_at=None))
    write_matches(folder, plan.matches)
    async with closing_judge(chosen):
        judged = await judge(
            judging_plan,
            chosen,
            skip_judging=plan.options.skip_judging,
            prewarm=plan.prewarm,
            retry_failed=plan.options.retry_failed,
            single_order=True,
            watch=watch,
            on_verdict=on_verdict,
        )
    standings = rate_all(judged, plan.elo, folder)
    write_json(folder / "usage.json", usage_report(judged, prices))
    results: dict[str, Any] = {"both_orders": judged.both_orders, "dimensions": run_results(judged, standings)}
    if judging_plan.canaries:
        results["canaries"] = canary_report(judging_plan.canaries, judged.canaries)
    checks = gate(plan, judged, standings) if plan.options.mode == "pilot" else []
    if checks:
        results["gate"] = [{"check": c.name, "passed": c.passed, "detail": c.detail} for c in checks]
    finished = manifest(plan, started_at=started, finished_at=_iso(now), results=results)
    write_json(folder / "manifest.json", finished)
    if finish is not None:
        finish(folder)
    return RunResult(folder, standings, judged, checks)


def rate_all(judged: JudgingResult, elo: EloSettings, folder: Path) -> dict[str, DimensionRatings]:
    """Rate every dimension, and write verdicts and numbers."""
    standings = {}
    for dimension, judgments in judged.judgments.items():
        write_verdicts(folder, dimension, judgments)
        standings[dimension] = rate_dimension(dimension, judgments, elo, judged.judge_model)
    write_standings(folder, standings, elo.default_k)
    forget_other_dimensions(folder, standings)
    return standings


def _iso(now: Clock) -> str:
    return now().isoformat(timespec="seconds")

"""`tiltyard generate`, `tiltyard run` and `tiltyard report`: a judged tournament from answers to a page."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tiltyard.cli.asking import ProgressView, confirm, interruptible, judging_quote, money, run_to_end
from tiltyard.cli.options import with_options
from tiltyard.cli.output import THE_ANSWER_IS_NO, note, say
from tiltyard.cli.sending import ToOption, check_trackers, figures_of_boards, send
from tiltyard.errors import BudgetReached, ModelError, OptionError, TiltyardError
from tiltyard.llm.asking import plural
from tiltyard.options import RunOptions, options_of

if TYPE_CHECKING:
    from tiltyard.judging.judge import Judge
    from tiltyard.judging.plan import JudgingPlan
    from tiltyard.llm.asking import AskingParts
    from tiltyard.tournament.config import Setup
    from tiltyard.tournament.plan import RunPlan
    from tiltyard.tournament.ratings import DimensionRatings
    from tiltyard.tournament.run import RunResult

HELP = options_of(RunOptions)
MOST_NAMED = 5
"""How many failed prompts of an entrant are shown."""

ConfigArgument = Annotated[Path | None, typer.Argument(metavar="CONFIG", help="The tournament file (YAML).")]
ConfigOption = Annotated[Path | None, typer.Option("--config", help="The same, as an option.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Go ahead without asking.")]
BudgetOption = Annotated[float | None, typer.Option(min=0, help="Stop before this many USD are spent.")]


@with_options(RunOptions, leave_out=["mode", "judge_model"])
def run_command(
    mode: Annotated[Literal["pilot", "headline"], typer.Option(help=HELP["mode"].help.text)],
    config_argument: ConfigArgument = None,
    config: ConfigOption = None,
    judge_model: Annotated[list[str] | None, typer.Option(help=HELP["judge_model"].help.text)] = None,
    *,
    given: dict[str, Any],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be asked and what that costs; needs no key.")
    ] = False,
    yes: YesOption = False,
    to: ToOption = None,
) -> None:
    """Judge a tournament in both orders, rate it, write a run folder with a report; exit 3 if a pilot says NO-GO."""
    from tiltyard.judging.judge import panel_name
    from tiltyard.tournament.config import load_setup
    from tiltyard.tournament.plan import make_plan
    from tiltyard.tournament.scoring import check_people
    from tiltyard.tournament.summary import passes

    check_trackers(to)
    setup = load_setup(_config_path(config_argument, config), mode=None if judge_model else mode)
    judges = judge_model or []
    judge = panel_name(judges) if len(judges) > 1 else next(iter(judges), None)
    options = RunOptions(mode=mode, judge_model=judge, **given)
    plan = make_plan(setup, options)
    if plan.labels is not None:
        check_people(plan.labels, plan.setup)
    for line in plan.announcements():
        note(line)
    if dry_run:
        _dry_run(plan)
        return
    finished = _run(plan, yes=yes)
    boards = {name: one.board for name, one in finished.standings.items() if one.board is not None}
    send(to, lambda: figures_of_boards(boards))
    if not passes(finished.checks):
        raise typer.Exit(THE_ANSWER_IS_NO)


def _run(plan: RunPlan, *, yes: bool) -> RunResult:
    """Quote, judge, rate, write, and print the result."""
    from tiltyard.judging.run_folder import utc_now
    from tiltyard.reporting import write_report
    from tiltyard.tournament.rounds import round_line
    from tiltyard.tournament.run import asking_parts, carry_out, make_judging_plan, run_folder

    judging_plan = make_judging_plan(plan)
    asking = asking_parts(plan.setup, note, budget_usd=plan.options.budget_usd, max_batch=plan.options.max_batch)
    plan, judge = _agreed_judge(plan, judging_plan, asking, yes=yes)
    folder = run_folder(plan, utc_now)
    again = _again(plan, folder, yes=yes)
    limit = "" if plan.options.budget_usd is None else f" --budget {plan.options.budget_usd:g}"
    try:
        with interruptible(f"go on with {again}{limit}"), ProgressView() as progress:
            finished = run_to_end(
                carry_out(
                    plan,
                    judging_plan,
                    judge,
                    folder,
                    prices=asking.prices,
                    watch=progress.watch,
                    on_verdict=progress.verdict,
                    on_round=lambda dimension, state: note(round_line(dimension, state)),
                    finish=write_report,
                    on_standing=_say_early,
                )
            )
    except BudgetReached as error:
        raise BudgetReached(f"{error} That is: {again} --budget USD") from None
    except OSError as error:
        raise TiltyardError(
            f"cannot write {error.filename or folder}: {error.strerror or error}. Make room, or choose another "
            f"--output-dir; nothing is lost: {again}"
        ) from None
    _say_what_came_out(finished)
    return finished


def _say_early(standing: DimensionRatings) -> None:
    """The board of a dimension that is settled while others are still being judged; stdout has all at the end."""
    from tiltyard.tournament.summary import board_text

    note(f"{standing.dimension} is settled, others are still being judged\n{board_text(standing)}\n")


def _agreed_judge(plan: RunPlan, judging_plan: JudgingPlan, asking: AskingParts, *, yes: bool) -> tuple[RunPlan, Judge]:
    """The judge, after its price was shown (before a key is needed) and agreed to; and the plan with its rounds."""
    from tiltyard.judging.language_model import LanguageModelJudge
    from tiltyard.judging.panel import judge_in_words
    from tiltyard.tournament.run import make_judge

    silent = make_judge(plan.setup, plan.judge_model, asking, silent=True, functions=True)
    if plan.options.skip_judging:
        return plan, silent
    queries, table = judging_quote(silent, judging_plan, asking.prices, retry_failed=plan.options.retry_failed)
    if queries:
        note(table)
    plan = _foresee_rounds(plan, judging_plan, silent, asking)
    judge = make_judge(plan.setup, plan.judge_model, asking, functions=True)
    if isinstance(judge, LanguageModelJudge) and isinstance(silent, LanguageModelJudge):
        judge.continue_from(silent)
    if queries:
        most = "" if plan.rounds is None else "at most "
        confirm(f"Ask {judge_in_words(judge.name)} {most}{plural(queries, 'question')}?", yes=yes)
    return plan, judge


def _dry_run(plan: RunPlan) -> None:
    """What a run would ask and cost, without a key and without writing anything."""
    from tiltyard.judging.panel import judge_in_words
    from tiltyard.tournament.run import asking_parts, make_judge, make_judging_plan

    asking = asking_parts(plan.setup, note, budget_usd=plan.options.budget_usd, max_batch=plan.options.max_batch)
    silent = make_judge(plan.setup, plan.judge_model, asking, silent=True, functions=True)
    judging_plan = make_judging_plan(plan)
    queries, table = judging_quote(silent, judging_plan, asking.prices, retry_failed=plan.options.retry_failed)
    if queries and not plan.options.skip_judging:
        say(table)
    plan = _foresee_rounds(plan, judging_plan, silent, asking)
    if queries and not plan.options.skip_judging:
        most = "" if plan.rounds is None else "at most "
        asked = f"{judge_in_words(plan.judge_model)} would be asked {most}{plural(queries, 'question')}"
        note(f"dry run: {asked}; nothing was asked or written")
    else:
        note("dry run: nothing would be asked; nothing was written")


def _foresee_rounds(plan: RunPlan, judging_plan: JudgingPlan, silent: Judge, asking: AskingParts) -> RunPlan:
    """Say what adaptive rounds will probably cost; a budget in USD becomes a number of calls."""
    import asyncio

    from tiltyard.cli.asking import needed_quote
    from tiltyard.tournament.rounds import calls_of_budget, make_forecast

    if plan.rounds is None:
        return plan
    result = needed_quote(silent, judging_plan, asking.prices)
    plan = calls_of_budget(plan, asking.settings, None if result is None else result[0])
    foreseen = asyncio.run(make_forecast(plan, judging_plan, silent))
    note(foreseen.line())
    row = None if result is None else result[0].all_expected if result[0].expected else result[0].all
    if row is not None and row.queries and row.direct is not None:
        direct, batch = (money(foreseen.share * (value or 0.0)) for value in (row.direct_cached, row.batch_cached))
        note(f"that is about {direct} direct, {batch} in batches, with the provider's cache")
    return plan


def _say_what_came_out(finished: RunResult) -> None:
    """Ratings, boards and the gate on standard output; usage and the folder on standard error."""
    from dataclasses import asdict

    from tiltyard.tournament.ratings import panel_warnings
    from tiltyard.tournament.rounds import outcome_lines
    from tiltyard.tournament.summary import (
        board_text,
        canary_lines,
        failure_lines,
        score_text,
        summary_table,
        usage_lines,
        verdict_lines,
    )

    for dimension, standing in finished.standings.items():
        if dimension in finished.calibrated:
            say(f"{dimension}, corrected by people's labels\n{finished.calibrated[dimension].text()}\n")
        alone = ", by the judge alone" if dimension in finished.calibrated else ""
        say(f"{dimension}{alone}\n{board_text(standing)}")
        if dimension in finished.studies:
            study = finished.studies[dimension]
            combine = "" if finished.judged.panel is None else finished.judged.panel.combine
            say("\n".join([*study.lines(), *panel_warnings(asdict(study), combine)]))
        say()
    told = [*canary_lines(finished.canaries), *failure_lines(finished.judged)]
    ending = [summary_table(finished.standings)] if finished.standings else []
    if finished.scores.dimensions:
        say(score_text(finished.scores) + "\n")
    say("\n".join([*told, *([""] if told and ending else []), *ending]))
    if not finished.judged.both_orders:
        note(f"{finished.judged.judge_model} saw one order only: its position bias is in these numbers")
    for line in usage_lines(finished.judged):
        note(line)
    if finished.rounds is not None:
        say("\n" + "\n".join(outcome_lines(finished.rounds)))
    if finished.checks:
        say("\n" + "\n".join(verdict_lines(finished.checks)))
    note(f"run folder: {finished.folder}; report: {finished.folder / 'report.html'}")


def _again(plan: RunPlan, folder: Path, *, yes: bool) -> str:
    """The command that continues a run: the same options and folder, without the budget."""
    from tiltyard.judging.panel import panel_members

    options = plan.options
    words = ["tiltyard", "run", str(plan.setup.path), "--mode", options.mode, "--output-dir", str(folder)]
    judges = panel_members(options.judge_model or "") or (options.judge_model,)
    words += [word for name in judges if name is not None for word in ("--judge-model", name)]
    for name, option in HELP.items():
        value = getattr(options, name)
        if name not in ("mode", "output_dir", "judge_model", "budget_usd", "retry_failed") and value != option.default:
            words += [option.flag] if value is True else [option.flag, str(value)]
    return shlex.join([*words, *(["--yes"] if yes else [])])


def _config_path(argument: Path | None, option: Path | None) -> Path:
    if (argument is None) == (option is None):
        raise typer.BadParameter("name the tournament file once, as CONFIG or as --config CONFIG.", param_hint="CONFIG")
    return argument or option  # type: ignore[return-value]


def generate_command(
    config_argument: ConfigArgument = None,
    config: ConfigOption = None,
    entrant: Annotated[list[str] | None, typer.Option(help="Only this entrant; may be given again.")] = None,
    yes: YesOption = False,
    budget: BudgetOption = None,
) -> None:
    """Fill the entrants' response files from their models: only what is missing, so it can be run again."""
    from tiltyard.tournament.config import load_setup
    from tiltyard.tournament.generate import generate_missing

    setup = load_setup(_config_path(config_argument, config))
    chosen = _entrants(setup, entrant)

    def ask(question: str) -> None:
        confirm(question, yes=yes)

    with interruptible("the same command continues where it stopped."), ProgressView() as progress:
        results, errors = run_to_end(
            generate_missing(setup, chosen, budget_usd=budget, confirm=ask, watch=progress.watch, notice=note)
        )
    failed = 0
    for result in results:
        failed += len(result.failed)
        totals = result.totals.all
        cost = money(totals.cost, without_usage=totals.without_usage)
        say(
            f"{result.entrant_id}: {result.present} there before, {result.written} written, "
            f"{result.truncated} of them cut off, {len(result.failed)} failed, {cost}"
        )
        for prompt_id, why in list(result.failed.items())[:MOST_NAMED]:
            note(f"  {prompt_id}: {why}")
    if errors:
        named = "; ".join(f"{name}: {error}" for name, error in errors.items())
        raise ModelError(
            f"{len(errors)} of {plural(len(chosen), 'entrant')} could not be asked to the end. {named} Then run the "
            "same again: only what is missing is asked."
        )
    if failed:
        were = "was" if failed == 1 else "were"
        raise ModelError(
            f"{plural(failed, 'answer')} failed and {were} not written; {setup.responses_dir}/failures_ENTRANT.jsonl "
            "has the whole list. Run the same again to try once more; `tiltyard run` leaves out prompts that lack an "
            "answer."
        )


def _entrants(setup: Setup, asked: list[str] | None) -> list[str]:
    for name in asked or []:
        if name not in setup.entrant_ids:
            raise OptionError(f"there is no entrant {name!r}; the file has {', '.join(setup.entrant_ids)}.")
    return list(asked or setup.entrant_ids)


def report_command(
    folder: Annotated[Path, typer.Argument(metavar="RUN_DIR", help="A run folder.")],
) -> None:
    """Rebuild the report of a run from its files."""
    from tiltyard.reporting import write_report

    say(str(write_report(folder)))

"""`tiltyard place`: one new model among models that people voted on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tiltyard.cli.asking import (
    HeaderOption,
    PricesOption,
    ProgressView,
    RequestsPerMinuteOption,
    TimeoutOption,
    TokensPerMinuteOption,
    asking_limits,
    confirm,
    interruptible,
    quote_table,
    read_headers,
    run_to_end,
)
from tiltyard.cli.options import rare, with_options
from tiltyard.cli.output import Format, deliver, note, say
from tiltyard.errors import OptionError, TiltyardError
from tiltyard.options import PlaceOptions, options_of

if TYPE_CHECKING:
    from tiltyard.judging.judge import Judge
    from tiltyard.llm.asking import AskingParts
    from tiltyard.placement.answers import Answers
    from tiltyard.placement.folder import FolderRatings
    from tiltyard.placement.plan import PlacementPlan
    from tiltyard.placement.rounds import RoundResult
    from tiltyard.placement.run import PlacementResult


@with_options(PlaceOptions, leave_out=["judge"])
def place_command(
    judge: Annotated[list[str] | None, typer.Option(help=options_of(PlaceOptions)["judge"].help.text)] = None,
    *,
    given: dict[str, Any],
    batch: Annotated[
        bool, rare("--batch", help="Ask in batches at half price, however few the questions are.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Go ahead without asking.")] = False,
    budget: Annotated[float | None, typer.Option(min=0, help="Stop before this many USD are spent.")] = None,
    prices: PricesOption = None,
    header: HeaderOption = None,
    timeout: TimeoutOption = None,
    requests_per_minute: RequestsPerMinuteOption = None,
    tokens_per_minute: TokensPerMinuteOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be asked and what it would cost; ask nothing.")
    ] = False,
    format: Annotated[
        Format, rare("--format", help="How the board is printed; json is the contents of elo_ratings.json.")
    ] = "table",
    recompute: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Rate a saved run again from its files, and compare.")
    ] = None,
) -> None:
    """Place one new model among models that people voted on, by a judge, and save everything that the result needs."""
    if recompute is not None:
        _recompute(recompute, format)
        return
    from tiltyard.placement.answers import asking_parts

    if judge is not None and len(judge) > 1:
        raise OptionError("a placement has one judge; only tournaments are judged by a panel. Give --judge once.")
    given |= {"judge": judge[0]} if judge else {}
    for name in ("arena", "model", "judge"):
        if not given.get(name):
            raise typer.BadParameter("needed, unless --recompute DIR is given.", param_hint=f"--{name}")
    limits = asking_limits(budget, timeout, requests_per_minute, tokens_per_minute)
    asking = asking_parts(note, batch=batch, limits=limits, prices_path=prices, headers=read_headers(header))
    _place(PlaceOptions(**given), asking, yes=yes, dry_run=dry_run, format=format)


def _place(
    options: PlaceOptions,
    asking: AskingParts,
    *,
    yes: bool,
    dry_run: bool,
    format: Format,
) -> None:
    """Plan, quote, judge, rate, write, and print the result."""
    from tiltyard.judging.run_folder import utc_now
    from tiltyard.placement.answers import make_answers, make_judge, name_of
    from tiltyard.placement.plan import make_plan, with_judge
    from tiltyard.placement.rounds import Participants
    from tiltyard.placement.run import carry_out, run_folder
    from tiltyard.reporting import write_report

    with interruptible("run the same command again; nothing was asked yet."):
        model, known = name_of(options)
        plan = make_plan(options, model, known)
        judge = make_judge(options, asking, silent=dry_run)
        plan = with_judge(plan, judge.name)
        answers = make_answers(plan, known, asking, silent=dry_run)
        for line in plan.announcements():
            note(line)
        _quote(plan, judge, answers, asking, yes=yes or dry_run)
    if dry_run:
        return
    folder = run_folder(plan, utc_now)
    with (
        interruptible("the same command continues where it stopped, and asks nothing twice."),
        ProgressView() as progress,
    ):
        participants = Participants(judge, answers, progress.watch, progress.verdict, _show_round)
        answers.watch = progress.watch
        finished = run_to_end(carry_out(plan, participants, folder, prices=asking.prices, finish=write_report))
    _say_result(finished, format)


def _quote(plan: PlacementPlan, judge: Judge, answers: Answers, asking: AskingParts, *, yes: bool) -> None:
    """Show what will be asked at most, and ask for confirmation."""
    from tiltyard.judging.language_model import LanguageModelJudge
    from tiltyard.llm.prices import quote
    from tiltyard.placement.run import likely_exchanges, likely_judging_plan

    exchanges = likely_exchanges(plan)
    asks = list(answers.asks(exchanges))
    if isinstance(judge, LanguageModelJudge):
        asks += judge.pending(likely_judging_plan(plan, exchanges, answers.at_hand()))
    needed = quote(asks, asking.prices)
    if needed.all.queries:
        note(quote_table(needed))
        confirm(f"Ask up to {needed.all.queries:,} questions?", yes=yes)


def _show_round(last: RoundResult) -> None:
    if last.rating is None:
        note(f"round {last.round}: {last.battles} battles, which do not allow a rating yet")
        return
    entry = last.rating.entry
    where = "" if last.rating.scale is not None else " on the judge's scale"
    low, high = ("–" if end is None else f"{end:.0f}" for end in (entry.ci_low, entry.ci_high))
    note(
        f"round {last.round}: {last.battles} battles, {entry.rating:.0f} [{low}, {high}]{where}, "
        f"rank {entry.rank} ({entry.rank_low}–{entry.rank_high})"
    )


def _say_result(finished: PlacementResult, format: Format) -> None:
    """The board on standard output; its explanation below it, or on standard error with a machine-readable format."""
    from tiltyard.placement.summary import summary_lines

    deliver(_text(finished.rated, format), None, exact=format in ("csv", "md"))
    if format == "table":
        say()
    tell = say if format == "table" else note
    for line in summary_lines(finished.manifest, finished.rated):
        tell(line)
    if finished.manifest.calibration is None:
        tell("--calibrate 300 measures the judge against people, and puts the rating and its interval on their scale")
    note(f"saved in {finished.folder}; open {finished.folder / 'report.html'}")


def _text(rated: FolderRatings, format: Format) -> str:
    from tiltyard.boards.text import as_csv, as_markdown, as_table

    if format == "json":
        return rated.report.to_json()
    return {"table": as_table, "csv": as_csv, "md": as_markdown}[format](rated.board)


def _recompute(folder: Path, format: Format) -> None:
    from tiltyard.placement.folder import rate_folder, read_recipe
    from tiltyard.publishing import check_run

    result = check_run(folder)
    if result.problems:
        shown = "; ".join(result.problems[:3])
        raise TiltyardError(f"{folder}: the saved files do not follow from the saved verdicts: {shown}.")
    deliver(_text(rate_folder(folder, read_recipe(folder)), format), None, exact=format in ("csv", "md"))
    note(result.conclusion)

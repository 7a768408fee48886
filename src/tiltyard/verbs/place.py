"""`place`: one new model among models that people voted on."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from tiltyard.errors import TiltyardError
from tiltyard.judge.llm import quote
from tiltyard.judge.placement import (
    FolderRatings,
    Participants,
    PlacementResult,
    RoundResult,
    likely_exchanges,
    likely_judging_plan,
    make_answers,
    make_judge,
    make_plan,
    name_of,
    rate_folder,
    read_recipe,
    run_folder,
    run_placement,
    with_judge,
)
from tiltyard.judge.verdicts import LanguageModelJudge, utc_now
from tiltyard.options import PlacementOptions, PlaceOptions, VerbOptions, accepts_options
from tiltyard.reports import write_report
from tiltyard.reports.publish import check_run
from tiltyard.verbs.asking import AskingQuote, server_parts, to_end


@accepts_options(PlacementOptions)
def place(options: PlacementOptions) -> PlacementResult | Any:
    """Place one new model among models that people voted on, by a judge, and save everything that the result needs.

    If it is interrupted, the same call asks nothing twice. A `dry_run` returns what would be asked and what it would
    cost.
    """
    asking = server_parts(options, batch=options.batch)
    model, known = name_of(options)
    plan = make_plan(options.part(PlaceOptions), model, known)
    judge = make_judge(options, asking, silent=options.dry_run)
    plan = with_judge(plan, judge.name)
    answers = make_answers(plan, known, asking, silent=options.dry_run)
    for line in plan.announcements():
        options.note(line)
    exchanges = likely_exchanges(plan)
    asks = list(answers.asks(exchanges))
    if isinstance(judge, LanguageModelJudge):
        asks += judge.pending(likely_judging_plan(plan, exchanges, answers.at_hand()))
    needed = AskingQuote(quote(asks, asking.prices))
    if needed.queries:
        options.note(str(needed))
    if options.dry_run:
        return needed
    if needed.queries:
        options.agree(f"Ask up to {needed.queries:,} questions?")
    folder = run_folder(plan, utc_now)
    options.progress.begin(folder)
    watch = answers.watch = options.progress.watch
    participants = Participants(judge, answers, watch, options.progress.verdict, partial(_tell_round, options))
    placed = to_end(run_placement(plan, participants, folder, prices=asking.prices))
    write_report(folder)
    return placed


def _tell_round(options: VerbOptions, last: RoundResult) -> None:
    if last.rating is None:
        options.note(f"round {last.round}: {last.battles} battles, which do not allow a rating yet")
        return
    entry = last.rating.entry
    where = "" if last.rating.scale is not None else " on the judge's scale"
    low, high = ("–" if end is None else f"{end:.0f}" for end in (entry.ci_low, entry.ci_high))
    options.note(
        f"round {last.round}: {last.battles} battles, {entry.rating:.0f} [{low}, {high}]{where}, "
        f"rank {entry.rank} ({entry.rank_low}–{entry.rank_high})"
    )


@accepts_options(VerbOptions)
def recompute(folder: str | Path, options: VerbOptions) -> FolderRatings:
    """Rate a saved placement again from its files, and compare.

    Parameters:
        folder: The folder of a placement.
    """
    folder = Path(folder)
    result = check_run(folder)
    if result.problems:
        shown = "; ".join(result.problems[:3])
        raise TiltyardError(f"{folder}: the saved files do not follow from the saved verdicts: {shown}.")
    options.note(result.conclusion)
    return rate_folder(folder, read_recipe(folder))

"""`run`: a judged tournament: plan, price, judge, rate, write a folder with a report."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from tiltyard.errors import OptionError
from tiltyard.judge.llm import AskingParts
from tiltyard.judge.tournament import (
    RunPlan,
    RunResult,
    asking_parts,
    board_text,
    calls_of_budget,
    check_people,
    load_setup,
    make_forecast,
    make_judge,
    make_judging_plan,
    make_plan,
    round_line,
    run_folder,
    run_tournament,
)
from tiltyard.judge.verdicts import Judge, JudgingPlan, LanguageModelJudge, function_name, judge_in_words, utc_now
from tiltyard.options import RunOptions, TournamentOptions, accepts_options
from tiltyard.render import money, plural
from tiltyard.reports import write_report
from tiltyard.verbs.asking import AskingQuote, judging_quote, to_end


@accepts_options(TournamentOptions)
def run(config: str | Path, options: TournamentOptions) -> RunResult | Any:
    """Judge a tournament in both orders, rate it, and write its folder with a report.

    The result has the `folder`, the `report`, the boards by dimension (`boards`), the scores of answers (`scores`), and
    whether a pilot `passed`. If it is interrupted, the same call goes on: with `output_dir`, into the same folder. A
    `dry_run` returns what would be asked and what that costs.

    Parameters:
        config: The tournament file (YAML).
    """
    if options.judge is not None:
        if options.judges:
            raise OptionError("judge and judge_model both say who judges. Leave one of them out.")
        options = replace(options, judge_model=function_name(options.judge))
    setup = load_setup(config, mode=None if options.judges else options.mode)
    plan = make_plan(setup, options.part(RunOptions))
    if plan.labels is not None:
        check_people(plan.labels, plan.setup)
    for line in plan.announcements():
        options.note(line)
    asking = asking_parts(plan.setup, options.note, budget_usd=options.budget_usd, max_batch=options.max_batch)
    judging_plan = make_judging_plan(plan)
    judge = make_judge(plan.setup, plan.judge_model, asking, silent=True, functions=options.judge or True)
    quote = AskingQuote()
    if not options.skip_judging:
        quote = judging_quote(judge, judging_plan, asking.prices, retry_failed=options.retry_failed)
        if quote.queries and not options.dry_run:
            options.note(str(quote))  # before a key is needed
        plan = _foresee_rounds(plan, judging_plan, judge, asking, quote, options)
    questions = ("" if plan.rounds is None else "at most ") + plural(quote.queries, "question")
    if options.dry_run:
        asked = f"{judge_in_words(plan.judge_model)} would be asked {questions}; nothing was asked or written"
        what = asked if quote.queries else "nothing would be asked; nothing was written"
        return replace(quote, sentence=f"dry run: {what}")
    if not options.skip_judging:
        silent, judge = judge, make_judge(plan.setup, plan.judge_model, asking, functions=options.judge or True)
        if isinstance(judge, LanguageModelJudge) and isinstance(silent, LanguageModelJudge):
            judge.continue_from(silent)
    if quote.queries:
        options.agree(f"Ask {judge_in_words(judge.name)} {questions}?")
    folder = run_folder(plan, utc_now)
    options.progress.begin(folder)
    finished = to_end(
        run_tournament(
            plan,
            judging_plan,
            judge,
            folder,
            prices=asking.prices,
            watch=options.progress.watch,
            on_verdict=options.progress.verdict,
            on_round=lambda dimension, state: options.note(round_line(dimension, state)),
            on_standing=lambda standing: options.note(
                f"{standing.dimension} is settled, others are still being judged\n{board_text(standing)}\n"
            ),
        )
    )
    write_report(folder)
    return finished


def _foresee_rounds(
    plan: RunPlan,
    judging_plan: JudgingPlan,
    silent: Judge,
    asking: AskingParts,
    quote: AskingQuote,
    options: TournamentOptions,
) -> RunPlan:
    """Say what adaptive rounds will probably cost; a budget in USD becomes a number of calls."""
    if plan.rounds is None:
        return plan
    plan = calls_of_budget(plan, asking.settings, quote.quote)
    foreseen = to_end(make_forecast(plan, judging_plan, silent))
    options.note(foreseen.line())
    row = None if quote.quote is None else quote.quote.all_expected if quote.quote.expected else quote.quote.all
    if row is not None and row.queries and row.direct is not None:
        direct, batch = (money(foreseen.share * (value or 0.0)) for value in (row.direct_cached, row.batch_cached))
        options.note(f"that is about {direct} direct, {batch} in batches, with the provider's cache")
    return plan

"""`tiltyard judge`: a judge against people, a finished run judged again by another, and the journal of batches."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tiltyard.cli.asking import (
    HeaderOption,
    PricesOption,
    ProgressView,
    RequestsPerMinuteOption,
    TimeoutOption,
    TokensPerMinuteOption,
    agree_to_price,
    asking_limits,
    interruptible,
    read_headers,
    run_to_end,
)
from tiltyard.cli.options import App, rare
from tiltyard.cli.output import note, say
from tiltyard.errors import OptionError
from tiltyard.llm.asking import plural

if TYPE_CHECKING:
    from tiltyard.judging.human_agreement import JudgeCheck, LabelledPair
    from tiltyard.judging.judge import Judge
    from tiltyard.judging.plan import Rubric
    from tiltyard.llm.asking import AskingParts, Watch
    from tiltyard.llm.journal import JournalBatch

app = App(
    no_args_is_help=True,
    help="A judge against people, a run judged again by another judge, and the journal of its batches.",
)

GO_ON = "the same command continues where it stopped."

YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Go ahead without asking.")]
BudgetOption = Annotated[float | None, typer.Option(min=0, help="Stop before this many USD are spent.")]


@app.command("check")
def check_command(
    pairs: Annotated[
        Path,
        typer.Argument(help="Labelled pairs (JSONL): prompt, response_a, response_b, and label or votes."),
    ],
    judge_model: Annotated[
        list[str],
        typer.Option(
            help="The judge: anthropic/…, openai/…, gemini/…, ollama/…, local/…, scripted/FILE or recorded/FILE; may "
            "be given again, for each judge of a panel."
        ),
    ],
    rubric: Annotated[Path | None, typer.Option(help="The rubric it judges by. (default: a general one)")] = None,
    cache_dir: Annotated[Path, typer.Option(help="Where verdicts are kept between runs.")] = Path("judgments"),
    base_url: Annotated[
        str | None, rare(help="Address of a compatible server, for local/…, vllm/… and others of one's own.")
    ] = None,
    reply: Annotated[
        Literal["reasoned", "label", "choice", "json", "tool"],
        typer.Option(
            help="Ask for a comparison, for one word, for a letter (a multiple choice, for small judges), for a JSON "
            "object, or for a tool call."
        ),
    ] = "reasoned",
    grades: Annotated[
        bool, rare("--grades", help="Ask by how much an answer is better: A>>B, A>B, A=B, B>A or B>>A.")
    ] = False,
    min_choice_mass: Annotated[
        float,
        rare(min=0, max=1, help="Minimum total probability of the allowed words, if the server gives probabilities."),
    ] = 0.5,
    single_order: Annotated[
        bool, rare("--single-order", help="Accept a recording of one order only; there is then no flip rate.")
    ] = False,
    own: Annotated[
        str | None,
        rare(help="The entrant that is the judge itself, for self-preference. (default: by its name)"),
    ] = None,
    format: Annotated[Literal["table", "json"], typer.Option(help="For people or for programs.")] = "table",
    yes: YesOption = False,
    budget: BudgetOption = None,
    prices: PricesOption = None,
    header: HeaderOption = None,
    timeout: TimeoutOption = None,
    requests_per_minute: RequestsPerMinuteOption = None,
    tokens_per_minute: TokensPerMinuteOption = None,
) -> None:
    """Compare a judge with people on labelled pairs: accuracy, agreement, kappa, flips, slot and length preference."""
    from tiltyard.judging.human_agreement import read_labelled_pairs
    from tiltyard.judging.language_model import JudgeSettings
    from tiltyard.judging.plan import Rubric, default_rubric
    from tiltyard.judging.run_folder import judge_by_name
    from tiltyard.llm.asking import BATCH_FLOOR, AskingParts

    labelled = read_labelled_pairs(pairs)
    entrants = {name for pair in labelled for name in (pair.case.matchup.entrant_a, pair.case.matchup.entrant_b)}
    if own is not None and own not in entrants:
        raise OptionError(f"--own {own!r} is in no pair; the entrants are {', '.join(sorted(entrants)[:8])}.")
    limits = asking_limits(budget, timeout, requests_per_minute, tokens_per_minute)
    asking = AskingParts.for_command(
        replace(limits, batch_floor=BATCH_FLOOR), note, prices, headers=read_headers(header)
    )
    judges = [
        judge_by_name(
            JudgeSettings(model=name, reply=reply, grades=grades, min_choice_mass=min_choice_mass),
            folder=cache_dir,
            asking=asking,
            base_url=base_url,
        )
        for name in judge_model
    ]
    chosen_rubric = default_rubric() if rubric is None else Rubric.load("quality", rubric)
    if chosen_rubric.version_note:
        note(chosen_rubric.version_note)
    result = [
        _check(labelled, judge, asking, rubric=chosen_rubric, single_order=single_order, own=own, yes=yes)
        for judge in judges
    ]
    if format == "json":
        say(_json(result if len(result) > 1 else result[0]))
        return
    tables = [check_table(one) for one in result] + ([_side_by_side(result)] if len(result) > 1 else [])
    say("\n\n".join(tables))


def _json(value: object) -> str:
    import msgspec

    from tiltyard.files import json_text

    return json_text(msgspec.to_builtins(value)).rstrip()


def _side_by_side(result: list[JudgeCheck]) -> str:
    """Several judges against the same labels: how often each names people's choice, and the weight that gives it."""
    import math

    from tiltyard.pages.tables import Table

    rows = []
    for one in result:
        right = (one.agreement.value or 0.0) * one.agreement.n
        # As in a panel's estimate from votes: two right and one wrong come first, so that no judge is certain.
        weight = math.log((right + 2) / (one.agreement.n - right + 1))
        share = "–" if one.agreement.value is None else f"{100 * one.agreement.value:.0f} %"
        rows.append([one.judge_model, share, f"{weight:.2f}", f"{one.agreement.n:,}"])
    return "\n".join(Table.of(["judge", " right", "weight", "pairs that both decided"], rows).text(ruled=False))


def _check(
    labelled: list[LabelledPair],
    judge: Judge,
    asking: AskingParts,
    *,
    rubric: Rubric,
    single_order: bool,
    own: str | None,
    yes: bool,
) -> JudgeCheck:
    """Quote, judge and compare."""
    from contextlib import aclosing

    from tiltyard.judging.human_agreement import check_judge, labelled_plan

    agree_to_price(judge, labelled_plan(labelled, rubric), asking.prices, yes=yes)

    async def check(watch: Watch) -> JudgeCheck:
        async with aclosing(judge):
            return await check_judge(labelled, judge, rubric=rubric, single_order=single_order, own=own, watch=watch)

    with interruptible(GO_ON), ProgressView() as progress:
        return run_to_end(check(progress.watch))


def check_table(result: JudgeCheck) -> str:
    """The comparison of a judge with people, for people."""
    lines = [
        f"{result.judge_model} against people: {result.pairs:,} pairs, people agree on {result.with_majority:,}, "
        f"{result.compared:,} compared",
        _first_sentence(result),
        "",
    ]
    for name, estimate in result.estimates():
        value = "–" if estimate.value is None else f"{estimate.value:.3f}"
        ends = "" if estimate.low is None else f"{estimate.low:.3f} … {estimate.high:.3f}"
        lines.append(f"{name:<30} {value:>7}  {ends:<17} n = {estimate.n:,}")
    message = ", ".join(f"{word} {count:,}" for word, count in sorted(result.labels.items()))
    return "\n".join([*lines, "", f"said of the slots as shown: {message}"])


def _first_sentence(result: JudgeCheck) -> str:
    """The strictest figure in words: both orders right, or one order where only one was judged."""
    strict = result.right_in_both_orders if result.both_orders else result.mean_accuracy
    if strict.value is None:
        return "no pair that people decided has readable verdicts"
    ends = "" if strict.low is None else f" ({100 * strict.low:.0f} % to {100 * (strict.high or 1.0):.0f} %)"
    how = "in both orders" if result.both_orders else "in the one order that was judged"
    guess = "25 %" if result.both_orders else "50 %"
    return (
        f"it names people's choice {how} in {100 * strict.value:.0f} %{ends} of the {strict.n:,} pairs that people "
        f"decided; a guess would in {guess}"
    )


@app.command("rejudge")
def rejudge_command(
    folder: Annotated[Path, typer.Argument(metavar="RUN_DIR", help="A finished run folder.")],
    judge_model: Annotated[list[str], typer.Option(help="The other judge; given several times, a panel.")],
    out: Annotated[Path | None, typer.Option(help="Folder of the new run. (default: RUN_DIR/rejudged/<judge>)")] = None,
    yes: YesOption = False,
    budget: BudgetOption = None,
) -> None:
    """Judge the matchups of a finished run by another judge, and say what changed: verdicts, ratings, ranks."""
    from tiltyard.judging.judge import panel_name
    from tiltyard.tournament.rejudge import change_lines, prepare, rejudge

    name = panel_name(judge_model) if len(judge_model) > 1 else judge_model[0]
    job = prepare(folder, name, out=out, budget_usd=budget, notice=note)
    agree_to_price(job.judge, job.judging_plan, job.asking.prices, yes=yes)
    with interruptible(GO_ON), ProgressView() as progress:
        changed, standings = run_to_end(rejudge(job, watch=progress.watch))
    say("\n".join(change_lines(changed, standings)))
    note(f"new run folder: {job.folder}; changes.json says what changed")


@app.command("journal")
def journal_command(
    folder: Annotated[
        Path,
        typer.Argument(metavar="CACHE_DIR", help="The folder of batches.jsonl: a verdict cache, or asking_<entrant>."),
    ],
    forget: Annotated[
        str | None,
        typer.Option(
            metavar="BATCH", help="Give up an open batch that is gone for good: its requests are sent and paid again."
        ),
    ] = None,
    format: Annotated[Literal["table", "json"], typer.Option(help="For people or for programs.")] = "table",
) -> None:
    """List the batches in a journal with their states, or forget one that its provider no longer knows."""
    import time

    from tiltyard.llm.journal import forget_batch, list_batches

    if forget is not None:
        count = forget_batch(folder, forget, time.time)
        note(f"batch {forget} is forgotten: the next run sends its {plural(count, 'request')} again")
    batches = list_batches(folder)
    say(_json(batches) if format == "json" else _batches_table(batches))


def _batches_table(batches: list[JournalBatch]) -> str:
    from datetime import UTC, datetime

    from tiltyard.pages.tables import Table

    heads, rows = ["batch", "provider", "model", "requests", "created", "state"], []
    for batch in batches:
        created = datetime.fromtimestamp(batch.created_at, UTC).strftime("%Y-%m-%d %H:%M")
        state = f"{batch.state} ({batch.why})" if batch.why else batch.state
        rows.append([batch.name, batch.provider, batch.model, f"{batch.requests:,}", created, state])
    lines = Table.of(heads, rows, left=len(heads)).text(ruled=False)
    still = sum(batch.state == "open" for batch in batches)
    return "\n".join([*lines, f"{still} of {plural(len(batches), 'batch')} {'is' if still == 1 else 'are'} open"])

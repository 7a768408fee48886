"""`tiltyard place`: one new model among models that people voted on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tiltyard.cli.asking import ProgressView, confirm, interruptible, quote_table
from tiltyard.cli.output import note
from tiltyard.errors import OptionError, TiltyardError

if TYPE_CHECKING:
    from tiltyard.judging.judge import Judge
    from tiltyard.judging.language_model import AskingParts
    from tiltyard.placement.answers import Answers
    from tiltyard.placement.options import PlaceOptions
    from tiltyard.placement.plan import Plan
    from tiltyard.placement.rounds import Look
    from tiltyard.placement.run import Finished


def place_command(
    arena: Annotated[
        list[Path] | None,
        typer.Option(
            help="Human battles with conversations (Parquet, JSONL, CSV); may be given again.", metavar="FILE"
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(help="The new model: provider/model, or a file of its answers (prompt_id = question_id)."),
    ] = None,
    judge: Annotated[
        str | None, typer.Option(help="The judge: anthropic/…, openai/…, local/…, scripted/FILE or recorded/FILE.")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="What the new model is called on the board. (default: as --model says)")
    ] = None,
    n_battles: Annotated[int, typer.Option(min=1, help="Battles to judge at most.")] = 100,
    bootstraps: Annotated[
        int, typer.Option(min=0, help="Bootstrap rounds over prompts; 0 takes sandwich intervals instead.")
    ] = 100,
    seed: Annotated[int, typer.Option(min=0, help="Seed of sampling, sides and bootstrap.")] = 0,
    languages: Annotated[
        str | None, typer.Option(help="Only battles in these languages, separated by commas (en,fr).")
    ] = None,
    per_language: Annotated[int | None, typer.Option(min=1, help="At most N judged battles per language.")] = None,
    min_opponent_battles: Annotated[int, typer.Option(min=1, help="Human battles that an opponent must have.")] = 500,
    rubric: Annotated[Path | None, typer.Option(help="The rubric to judge by. (default: a general one)")] = None,
    sampling: Annotated[
        Literal["informative", "random", "head"],
        typer.Option(help="How opponents and questions are chosen; informative shrinks the interval fastest."),
    ] = "informative",
    panel: Annotated[
        Path | None, typer.Option(help="Judge exactly the battles of an earlier run's panel.json.")
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(
            metavar="WIDTH", help="Stop when the interval is this narrow in points (80), or in places (rank:5)."
        ),
    ] = None,
    looks: Annotated[
        int, typer.Option(min=1, help="Rounds: after each, opponents are chosen anew and the run may stop.")
    ] = 5,
    turns: Annotated[
        Literal["first", "all"], typer.Option(help="The first turn of a conversation, or all of it.")
    ] = "first",
    swap: Annotated[Literal["both", "random"], typer.Option(help="Judge both orders, or one, drawn by lot.")] = "both",
    calibrate: Annotated[
        int,
        typer.Option(
            min=0, help="Ask the judge about N battles that people decided, and widen the interval by what it shows."
        ),
    ] = 0,
    fixed_anchors: Annotated[
        bool, typer.Option("--fixed-anchors", help="Hold people's ratings fixed; fit only the new model.")
    ] = False,
    leave_one_out: Annotated[
        bool,
        typer.Option("--leave-one-out", help="Place a model of the arena by the judge alone, and compare with people."),
    ] = False,
    anchor: Annotated[
        str | None, typer.Option(metavar="MODEL=RATING", help="Pin a model of the arena to a rating.")
    ] = None,
    no_inline_human: Annotated[
        bool, typer.Option("--no-inline-human", help="Save human battles as counts by pair, not one by one.")
    ] = False,
    prompts: Annotated[
        Path | None,
        typer.Option(help="Prompt bank with the texts of the questions, for battles without conversations."),
    ] = None,
    answers: Annotated[
        Path | None, typer.Option(help="Opponents' answers: a response file, or a folder of responses_<model>.jsonl.")
    ] = None,
    on_bad: Annotated[
        Literal["error", "skip"], typer.Option(help="Stop at a bad row of the arena, or skip and count it.")
    ] = "error",
    batch: Annotated[
        bool, typer.Option("--batch", help="Ask in batches at half price, however few the questions are.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Where the folder of the run goes.")] = Path("placements"),
    cache_dir: Annotated[Path, typer.Option(help="Where verdicts and answers are kept between runs.")] = Path(
        "judgments"
    ),
    base_url: Annotated[str | None, typer.Option(help="Address of the judge's server, for local/….")] = None,
    model_base_url: Annotated[
        str | None, typer.Option(help="Address of the new model's server, for local/…. (default: --base-url)")
    ] = None,
    max_tokens: Annotated[int, typer.Option(min=1, help="How long an answer of the new model may be.")] = 1024,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Go ahead without asking.")] = False,
    budget: Annotated[float | None, typer.Option(min=0, help="Stop before this many USD are spent.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be asked and what it would cost; ask nothing.")
    ] = False,
    recompute: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Rate a saved run again from its files, and compare.")
    ] = None,
) -> None:
    """Place one new model among models that people voted on, by a judge, and save everything that the result needs."""
    if recompute is not None:
        _recompute(recompute)
        return
    from tiltyard.placement.options import PlaceOptions
    from tiltyard.placement.stopping import Until

    for option, value in (("arena", arena), ("model", model), ("judge", judge)):
        if not value:
            raise typer.BadParameter("needed, unless --recompute DIR is given.", param_hint=f"--{option}")
    assert arena is not None
    assert model is not None
    assert judge is not None
    options = PlaceOptions(
        arena=tuple(arena),
        model=model,
        judge=judge,
        name=name,
        n_battles=n_battles,
        bootstraps=bootstraps,
        seed=seed,
        languages=tuple(word.strip() for word in languages.split(",") if word.strip()) if languages else (),
        per_language=per_language,
        min_opponent_battles=min_opponent_battles,
        rubric=rubric,
        sampling=sampling,
        panel=panel,
        until=None if until is None else Until.parse(until),
        looks=looks,
        turns=turns,
        swap=swap,
        calibrate=calibrate,
        fixed_anchors=fixed_anchors,
        leave_one_out=leave_one_out,
        anchor=None if anchor is None else _anchor(anchor),
        inline_human=not no_inline_human,
        prompts=prompts,
        answers=answers,
        on_bad=on_bad,
        out=out,
        cache_dir=cache_dir,
        base_url=base_url,
        model_base_url=model_base_url,
        max_tokens=max_tokens,
    )
    _place(options, batch=batch, budget=budget, yes=yes, dry_run=dry_run)


def _anchor(text: str) -> tuple[str, float]:
    name, equals, value = text.rpartition("=")
    try:
        return name, float(value) if equals and name else float("x")
    except ValueError:
        raise OptionError(f"--anchor {text!r}: expected MODEL=RATING, such as gpt-4o=1200.") from None


def _place(options: PlaceOptions, *, batch: bool, budget: float | None, yes: bool, dry_run: bool) -> None:
    """Plan, quote, judge, rate, write, and say what came out."""
    import asyncio

    from tiltyard.placement.parts import asking_parts, make_answers, make_judge, name_of
    from tiltyard.placement.plan import make_plan, with_judge
    from tiltyard.placement.rounds import Bench
    from tiltyard.placement.run import carry_out, run_folder, utc_now

    asking = asking_parts(note, batch=batch, budget_usd=budget)
    with interruptible("nothing was asked yet."):
        model, known = name_of(options)
        plan = make_plan(options, model, known)
        judge = make_judge(options, asking)
        plan = with_judge(plan, judge.name)
        answers = make_answers(plan, known, asking)
        for line in plan.announcements():
            note(line)
        _quote(plan, judge, answers, asking, yes=yes or dry_run)
    if dry_run:
        return
    folder = run_folder(plan, utc_now)
    with (
        interruptible("the same command goes on where it stopped, and asks nothing twice."),
        ProgressView() as progress,
    ):
        bench = Bench(judge, answers, progress.watch, progress.verdict, _say_look)
        if hasattr(answers, "watch"):
            answers.watch = progress.watch
        finished = asyncio.run(carry_out(plan, bench, folder, prices=asking.prices))
    _say_result(finished)


def _quote(plan: Plan, judge: Judge, answers: Answers, asking: AskingParts, *, yes: bool) -> None:
    """Show what will be asked at most, and have it confirmed."""
    from tiltyard.judging.language_model import LanguageModelJudge
    from tiltyard.llm.quote import quote
    from tiltyard.placement.answers import ModelAnswers
    from tiltyard.placement.quoting import likely_docket, likely_exchanges

    exchanges = likely_exchanges(plan)
    at_hand = answers.at_hand() if isinstance(answers, ModelAnswers) else answers.known() or {}
    asks = list(answers.asks(exchanges)) if isinstance(answers, ModelAnswers) else []
    if isinstance(judge, LanguageModelJudge):
        asks += judge.pending(likely_docket(plan, exchanges, at_hand))
    needed = quote(asks, asking.prices)
    if needed.all.queries:
        note(quote_table(needed))
        confirm(f"Ask up to {needed.all.queries:,} questions?", yes=yes)


def _say_look(look: Look) -> None:
    if look.standing is None:
        note(f"round {look.round}: {look.battles} battles, which do not allow a rating yet")
        return
    entry = look.standing.entry
    note(
        f"round {look.round}: {look.battles} battles, {entry.rating:.0f} {_interval(entry.ci_low, entry.ci_high)}, "
        f"place {entry.rank} ({entry.rank_low}–{entry.rank_high})"
    )


def _interval(low: float | None, high: float | None) -> str:
    ends = ("–" if end is None else f"{end:.0f}" for end in (low, high))
    return f"[{', '.join(ends)}]"


def _say_result(finished: Finished) -> None:
    from tiltyard.boards.text import as_table
    from tiltyard.placement.summary import summary_lines

    typer.echo(as_table(finished.rated.board))
    typer.echo()
    for line in summary_lines(finished.manifest, finished.rated):
        typer.echo(line)
    note(f"saved in {finished.folder}; look at {finished.folder / 'report.html'}")


def _recompute(folder: Path) -> None:
    from tiltyard.boards.text import as_table
    from tiltyard.placement.folder import recompute

    found = recompute(folder)
    typer.echo(as_table(found.rated.board))
    if found.differences:
        shown = "; ".join(found.differences[:3])
        raise TiltyardError(f"{folder}: the saved ratings do not follow from the saved battles: {shown}.")
    note(f"the same as {folder / 'elo_ratings.json'}, byte for byte")

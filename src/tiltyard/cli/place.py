"""`tiltyard place`: one new model among models that people voted on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

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
from tiltyard.cli.options import rare, read_anchor, read_pairs
from tiltyard.cli.output import Format, deliver, note, say
from tiltyard.errors import OptionError, TiltyardError

if TYPE_CHECKING:
    from tiltyard.judging.judge import Judge
    from tiltyard.llm.asking import AskingParts
    from tiltyard.placement.answers import Answers
    from tiltyard.placement.folder import FolderRatings
    from tiltyard.placement.plan import PlacementPlan, PlaceOptions
    from tiltyard.placement.rounds import RoundResult
    from tiltyard.placement.run import PlacementResult

Given = TypeVar("Given")


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
        list[str] | None,
        typer.Option(
            help="The judge: anthropic/…, openai/…, gemini/…, ollama/…, local/…, scripted/FILE or recorded/FILE."
        ),
    ] = None,
    name: Annotated[str | None, rare(help="The new model's name on the board. (default: as --model says)")] = None,
    n_battles: Annotated[int, typer.Option(min=1, help="Battles to judge at most.")] = 100,
    bootstraps: Annotated[int, rare(min=0, help="Bootstrap rounds over prompts; 0 means sandwich intervals.")] = 1000,
    seed: Annotated[int, rare(min=0, help="Seed of sampling, sides and bootstrap.")] = 0,
    languages: Annotated[
        str | None, typer.Option(help="Only battles in these languages, separated by commas (en,fr).")
    ] = None,
    per_language: Annotated[int | None, rare(min=1, help="At most N judged battles per language.")] = None,
    min_opponent_battles: Annotated[int, rare(min=1, help="Human battles that an opponent must have.")] = 500,
    rubric: Annotated[Path | None, typer.Option(help="The rubric to judge by. (default: a general one)")] = None,
    sampling: Annotated[
        Literal["informative", "random", "head"],
        rare(help="How opponents and questions are chosen; informative shrinks the interval fastest."),
    ] = "informative",
    panel: Annotated[Path | None, rare(help="Judge exactly the battles of an earlier run's panel.json.")] = None,
    until: Annotated[
        str | None,
        typer.Option(
            metavar="WIDTH", help="Stop when the interval is this narrow in points (80), or in places (rank:5)."
        ),
    ] = None,
    looks: Annotated[int, rare(min=1, help="Rounds: after each, opponents are chosen again and the run may stop.")] = 5,
    turns: Annotated[Literal["first", "all"], rare(help="The first turn of a conversation, or all of it.")] = "first",
    swap: Annotated[Literal["both", "random"], rare(help="Judge both orders, or one at random.")] = "both",
    calibrate: Annotated[
        int,
        typer.Option(
            min=0, help="Ask the judge about N battles that people decided, and widen the interval by what it shows."
        ),
    ] = 0,
    families: Annotated[
        Path | None,
        rare(
            metavar="FILE",
            help="Families of the models (CSV model,family or JSON): checks the calibration on each as if it were "
            "unseen. (default: the maker in names like maker/model)",
        ),
    ] = None,
    fixed_anchors: Annotated[
        bool, rare("--fixed-anchors", help="Hold people's ratings fixed; fit only the new model.")
    ] = False,
    leave_one_out: Annotated[
        bool,
        rare("--leave-one-out", help="Place a model of the arena by the judge alone, and compare with people."),
    ] = False,
    anchor: Annotated[str | None, rare(metavar="MODEL=RATING", help="Pin a model of the arena to a rating.")] = None,
    no_inline_human: Annotated[
        bool, rare("--no-inline-human", help="Save human battles as counts by pair, not one by one.")
    ] = False,
    prompts: Annotated[
        Path | None,
        rare(help="Prompt bank with the texts of the questions, for battles without conversations."),
    ] = None,
    answers: Annotated[
        Path | None, rare(help="Opponents' answers: a response file, or a folder of responses_<model>.jsonl.")
    ] = None,
    on_bad: Annotated[
        Literal["error", "skip"], rare(help="Stop at a bad row of the arena, or skip and count it.")
    ] = "error",
    map: Annotated[
        list[str] | None,
        rare(
            "--map",
            metavar="OURS=THEIRS",
            help="A column of the arena under another name (winner=choice, prompt=question, conversation_a=left); may "
            "be given again.",
        ),
    ] = None,
    batch: Annotated[
        bool, rare("--batch", help="Ask in batches at half price, however few the questions are.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Where the folder of the run goes.")] = Path("placements"),
    cache_dir: Annotated[Path, rare(help="Where verdicts and answers are kept between runs.")] = Path("judgments"),
    base_url: Annotated[str | None, rare(help="Address of the judge's server, for local/….")] = None,
    model_base_url: Annotated[
        str | None, rare(help="Address of the new model's server. (default: for local/…, --base-url)")
    ] = None,
    max_tokens: Annotated[int, rare(min=1, help="How long an answer of the new model may be.")] = 1024,
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
        Format, typer.Option(help="How the board is printed; json is the contents of elo_ratings.json.")
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
    from tiltyard.placement.plan import PlaceOptions
    from tiltyard.placement.stopping import Until

    options = PlaceOptions(
        arena=tuple(_needed("arena", arena)),
        model=_needed("model", model),
        judge=_needed("judge", _one_judge(judge)),
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
        families=families,
        fixed_anchors=fixed_anchors,
        leave_one_out=leave_one_out,
        anchor=None if anchor is None else read_anchor(anchor),
        inline_human=not no_inline_human,
        prompts=prompts,
        answers=answers,
        on_bad=on_bad,
        map=tuple(read_pairs(map).items()),
        out=out,
        cache_dir=cache_dir,
        base_url=base_url,
        model_base_url=model_base_url,
        max_tokens=max_tokens,
    )
    limits = asking_limits(budget, timeout, requests_per_minute, tokens_per_minute)
    asking = asking_parts(note, batch=batch, limits=limits, prices_path=prices, headers=read_headers(header))
    _place(options, asking, yes=yes, dry_run=dry_run, format=format)


def _needed(option: str, value: Given | None) -> Given:
    if not value:
        raise typer.BadParameter("needed, unless --recompute DIR is given.", param_hint=f"--{option}")
    return value


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
    from tiltyard.placement.answers import ModelAnswers, make_answers, make_judge, name_of
    from tiltyard.placement.plan import make_plan, with_judge
    from tiltyard.placement.rounds import Participants
    from tiltyard.placement.run import carry_out, run_folder
    from tiltyard.report import write_report

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
        if isinstance(answers, ModelAnswers):
            answers.watch = progress.watch
        finished = run_to_end(carry_out(plan, participants, folder, prices=asking.prices, finish=write_report))
    _say_result(finished, format)


def _one_judge(given: list[str] | None) -> str | None:
    if given is not None and len(given) > 1:
        raise OptionError("a placement has one judge; only tournaments are judged by a panel. Give --judge once.")
    return given[0] if given else None


def _quote(plan: PlacementPlan, judge: Judge, answers: Answers, asking: AskingParts, *, yes: bool) -> None:
    """Show what will be asked at most, and ask for confirmation."""
    from tiltyard.judging.language_model import LanguageModelJudge
    from tiltyard.llm.prices import quote
    from tiltyard.placement.answers import ModelAnswers
    from tiltyard.placement.run import likely_exchanges, likely_judging_plan

    exchanges = likely_exchanges(plan)
    at_hand = answers.at_hand() if isinstance(answers, ModelAnswers) else answers.known() or {}
    asks = list(answers.asks(exchanges)) if isinstance(answers, ModelAnswers) else []
    if isinstance(judge, LanguageModelJudge):
        asks += judge.pending(likely_judging_plan(plan, exchanges, at_hand))
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
    note(
        f"round {last.round}: {last.battles} battles, {entry.rating:.0f} "
        f"{_interval(entry.ci_low, entry.ci_high)}{where}, rank {entry.rank} ({entry.rank_low}–{entry.rank_high})"
    )


def _interval(low: float | None, high: float | None) -> str:
    ends = ("–" if end is None else f"{end:.0f}" for end in (low, high))
    return f"[{', '.join(ends)}]"


def _say_result(finished: PlacementResult, format: Format) -> None:
    """The board on standard output; its explanation below it, or on standard error with a machine-readable format."""
    from tiltyard.placement.manifest import summary_lines

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
    from tiltyard.placement.folder import recompute

    result = recompute(folder)
    deliver(_text(result.rated, format), None, exact=format in ("csv", "md"))
    if result.differences:
        shown = "; ".join(result.differences[:3])
        raise TiltyardError(f"{folder}: the saved ratings do not follow from the saved battles: {shown}.")
    how = "byte for byte" if result.identical else "to nine digits (processors round the last ones differently)"
    note(f"the same as {folder / 'elo_ratings.json'}, {how}")

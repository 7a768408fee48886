"""`tiltyard place`: one new model among models that people voted on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

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
from tiltyard.cli.options import read_anchor, read_pairs
from tiltyard.cli.output import Format, deliver, note, say
from tiltyard.cli.place_options import (
    AnchorOption,
    AnswersOption,
    ArenaOption,
    BaseUrlOption,
    BatchOption,
    BootstrapsOption,
    BudgetOption,
    CacheDirOption,
    CalibrateOption,
    DryRunOption,
    FamiliesOption,
    FixedAnchorsOption,
    FormatOption,
    JudgeOption,
    LanguagesOption,
    LeaveOneOutOption,
    LooksOption,
    MapOption,
    MaxTokensOption,
    MinOpponentBattlesOption,
    ModelBaseUrlOption,
    ModelOption,
    NameOption,
    NBattlesOption,
    NoInlineHumanOption,
    OnBadOption,
    OutOption,
    PanelOption,
    PerLanguageOption,
    PromptsOption,
    RecomputeOption,
    RubricOption,
    SamplingOption,
    SeedOption,
    SwapOption,
    TurnsOption,
    UntilOption,
    YesOption,
)
from tiltyard.errors import OptionError, TiltyardError

if TYPE_CHECKING:
    from tiltyard.judging.judge import Judge
    from tiltyard.llm.asking import AskingParts
    from tiltyard.placement.answers import Answers
    from tiltyard.placement.folder import FolderRatings
    from tiltyard.placement.options import PlaceOptions
    from tiltyard.placement.plan import PlacementPlan
    from tiltyard.placement.rounds import RoundResult
    from tiltyard.placement.run import PlacementResult

Given = TypeVar("Given")


def place_command(
    arena: ArenaOption = None,
    model: ModelOption = None,
    judge: JudgeOption = None,
    name: NameOption = None,
    n_battles: NBattlesOption = 100,
    bootstraps: BootstrapsOption = 1000,
    seed: SeedOption = 0,
    languages: LanguagesOption = None,
    per_language: PerLanguageOption = None,
    min_opponent_battles: MinOpponentBattlesOption = 500,
    rubric: RubricOption = None,
    sampling: SamplingOption = "informative",
    panel: PanelOption = None,
    until: UntilOption = None,
    looks: LooksOption = 5,
    turns: TurnsOption = "first",
    swap: SwapOption = "both",
    calibrate: CalibrateOption = 0,
    families: FamiliesOption = None,
    fixed_anchors: FixedAnchorsOption = False,
    leave_one_out: LeaveOneOutOption = False,
    anchor: AnchorOption = None,
    no_inline_human: NoInlineHumanOption = False,
    prompts: PromptsOption = None,
    answers: AnswersOption = None,
    on_bad: OnBadOption = "error",
    map: MapOption = None,
    batch: BatchOption = False,
    out: OutOption = Path("placements"),
    cache_dir: CacheDirOption = Path("judgments"),
    base_url: BaseUrlOption = None,
    model_base_url: ModelBaseUrlOption = None,
    max_tokens: MaxTokensOption = 1024,
    yes: YesOption = False,
    budget: BudgetOption = None,
    prices: PricesOption = None,
    header: HeaderOption = None,
    timeout: TimeoutOption = None,
    requests_per_minute: RequestsPerMinuteOption = None,
    tokens_per_minute: TokensPerMinuteOption = None,
    dry_run: DryRunOption = False,
    format: FormatOption = "table",
    recompute: RecomputeOption = None,
) -> None:
    """Place one new model among models that people voted on, by a judge, and save everything that the result needs."""
    if recompute is not None:
        _recompute(recompute, format)
        return
    from tiltyard.placement.answers import asking_parts
    from tiltyard.placement.options import PlaceOptions
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

    found = recompute(folder)
    deliver(_text(found.rated, format), None, exact=format in ("csv", "md"))
    if found.differences:
        shown = "; ".join(found.differences[:3])
        raise TiltyardError(f"{folder}: the saved ratings do not follow from the saved battles: {shown}.")
    how = "byte for byte" if found.identical else "to nine digits (processors round the last ones differently)"
    note(f"the same as {folder / 'elo_ratings.json'}, {how}")

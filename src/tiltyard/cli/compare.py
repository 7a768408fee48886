"""`tiltyard compare` and `tiltyard gate`: is the new one better than the old one, and may it replace it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tiltyard.cli.options import with_options
from tiltyard.cli.output import THE_ANSWER_IS_NO, deliver, note, working
from tiltyard.cli.scores import answers_text, score_answers, with_flags
from tiltyard.cli.sending import (
    ToOption,
    check_trackers,
    figures_of_differences,
    figures_of_gate,
    figures_of_runs,
    send,
)
from tiltyard.errors import OptionError, OptionValue
from tiltyard.options import DifferenceOptions, ReadingOptions, RunsOptions, SelectionOptions, options_of

if TYPE_CHECKING:
    from tiltyard.decisions import Difference, RunComparison

Shape = Literal["table", "json", "md", "html"]
SHAPES: dict[str, Shape] = {".txt": "table", ".json": "json", ".md": "md", ".html": "html", ".htm": "html"}
NewArgument = Annotated[
    str,
    typer.Argument(
        metavar="NEW",
        help="The new model (with --in), its file of scores, or the new run: a folder, battles, or ratings.",
    ),
]
OldArgument = Annotated[str, typer.Argument(metavar="OLD", help="The old model (with --in), or the old run.")]
MorePlacesArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="PLACE", help="More places, as with --in; `--in battles/*` becomes this in a shell."),
]
InOption = Annotated[
    list[str] | None,
    typer.Option(
        "--in",
        metavar="PLACE",
        help="Where the two models met: battle files, a run folder, or an arena's database URL. May be repeated.",
    ),
]


@with_options(
    DifferenceOptions,
    RunsOptions,
    leave_out=["texts"],
    daily=["by", "control", "dimension", "format", "map", "anyway", "score"],
)
def compare_command(
    new: NewArgument,
    old: OldArgument,
    more: MorePlacesArgument = None,
    places: InOption = None,
    *,
    given: dict[str, Any],
    prompts: Annotated[int, typer.Option("--prompts", min=0, help="How many prompts to list of each kind.")] = 5,
    format: Annotated[
        Shape | None, typer.Option("--format", help="How to write it. (default: table, or what --out ends in)")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write it here instead of printing it: .html, .json, .md or .txt.")
    ] = None,
    to: ToOption = None,
) -> None:
    """Is NEW better than OLD, by how much, how sure, and on which prompts.

    Two models: `tiltyard compare v2 v1 --in battles.jsonl`. Two files of scores: `tiltyard compare v2.csv v1.csv`. Two
    runs of the same prompts, or two ratings files: `tiltyard compare runs/today runs/last-week`.
    """
    from tiltyard.decisions import Difference

    check_trackers(to)
    shape = choose_shape(format, out)
    where = (*(places or ()), *(more or ()))
    scored = score_answers(new, old, where, given)
    if scored is not None:
        deliver(answers_text(scored, shape, prompts), out, exact=shape in ("md", "html"))
        send(to, lambda: figures_of_differences(scored))
        return
    battles, known = read_places(where) if where else (None, {})
    answer = _answer(new, old, battles, {**known, **given})
    if shape == "html":
        text = _page(answer, battles, given) if isinstance(answer, Difference) else _two_runs_page(answer, new, old)
    else:
        text = answer_text(answer, shape, prompts)
    deliver(text, out, exact=shape in ("md", "html"))
    send(to, lambda: figures_of_differences([answer]) if isinstance(answer, Difference) else figures_of_runs(answer))


@with_options(
    DifferenceOptions,
    RunsOptions,
    leave_out=["texts", "level", "by"],
    daily=["dimension", "missing", "score"],
)
def gate_command(
    new: NewArgument,
    old: OldArgument,
    more: MorePlacesArgument = None,
    places: InOption = None,
    margin: Annotated[
        str | None,
        typer.Option(
            metavar="N",
            help="By how much NEW may be worse: rating points (30 is about 54 : 46), 2pp of shares, or a number in the "
            "unit of the scores, with --scale log 1.1x. (default: 30, or 2pp)",
        ),
    ] = None,
    alpha: Annotated[
        float, typer.Option(help="Error rate: how often equal models may be called better or worse.")
    ] = 0.05,
    by: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Judge each value of this column too: one that is worse fails."),
    ] = None,
    pool_dimensions: Annotated[
        bool,
        typer.Option("--pool-dimensions", help="One verdict on all dimensions together, in place of one on each."),
    ] = False,
    *,
    given: dict[str, Any],
    allow_unknown: Annotated[
        bool, typer.Option("--allow-unknown", help="Exit 0 also when the battles cannot tell.")
    ] = False,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="ENTRANT",
            hidden=True,
            help="Which entrant, where two runs are compared. (default: the one with new answers)",
        ),
    ] = None,
    format: Annotated[Literal["table", "json", "md"], typer.Option("--format", help="How to print it.")] = "table",
    markdown: Annotated[
        Path | None, typer.Option("--markdown", help="Also write Markdown here, for a step summary.")
    ] = None,
    junit: Annotated[Path | None, typer.Option("--junit", help="Also write JUnit XML here.")] = None,
    json: Annotated[Path | None, typer.Option("--json", hidden=True, help="Also write JSON here.")] = None,
    to: ToOption = None,
) -> None:
    """May NEW replace OLD: better, not worse than the margin, worse, or cannot tell.

    Where battles have several dimensions, or answers several scores, each is judged, and one that is worse fails.
    Exit code 0: better, or not worse. 3: worse, or cannot tell. `tiltyard gate v2 v1 --in battles.jsonl`, two files of
    scores: `tiltyard gate v2.csv v1.csv --margin 2pp`, or two run folders: `tiltyard gate runs/today runs/last-week`.
    """
    from tiltyard.decisions import gate_words as words
    from tiltyard.decisions import judge_metrics

    check_trackers(to)
    where = (*(places or ()), *(more or ()))
    missing = given.pop("missing", "worst")
    if pool_dimensions and "dimension" in given:
        raise OptionError("--pool-dimensions is about several: leave it out, or leave out --dimension.")
    if 0.0 < alpha < 0.5:
        given["level"] = 1.0 - alpha
    if by is not None and where:
        given["by"] = [by]
    scored = score_answers(new, old, where, {**given, **({} if by is None else {"by": [by]})})
    if scored is not None and model is not None:
        raise OptionError("--model is about two runs of battles: leave it out for scores.")
    if scored is None:
        battles, known = read_places(where) if where else (None, {})
        answers = [_about(_answer(new, old, battles, {**known, **given}), model)]
    else:
        answers = scored
    result = judge_metrics(answers, margin=margin, alpha=alpha, by=by, missing=missing, pool_dimensions=pool_dimensions)
    for path, render in ((markdown, words.as_markdown), (junit, words.as_junit), (json, words.as_json)):
        if path is not None:
            deliver(render(result), path)
    shown = {"table": words.as_table, "md": words.as_markdown, "json": words.as_json}[format]
    deliver(shown(result), None, exact=format == "md")
    send(to, lambda: figures_of_gate(result))
    if not result.passed and not (result.verdict == "unknown" and allow_unknown):
        raise typer.Exit(THE_ANSWER_IS_NO)


def _answer(new: str, old: str, battles: Any, given: dict[str, Any]) -> Difference | RunComparison:
    """The difference of two models of the same battles, or without any (None) of two runs."""
    with working("comparing …"):
        if battles is not None:
            return two_models(battles, new, old, given)
        for name in (new, old):
            if not Path(name).exists() and "*" not in name:
                raise OptionError(
                    f"there is no file or folder {name}. To compare two models, say where they met: "
                    f"tiltyard compare {new} {old} --in battles.jsonl"
                )
        return two_runs(new, old, given)


def two_models(battles: Any, new: str, old: str, given: dict[str, Any]) -> Difference:
    """The difference of two models of the same battles."""
    from tiltyard.decisions import difference

    for name in ("anyway", "unchanged"):
        if name in given:
            raise OptionError(OptionValue(name), " is about two runs: leave it out for two models of the same battles.")
    found = difference(battles, new, old, **given)
    return replace(found, remarks=with_flags(found.remarks))


def two_runs(new: str, old: str, given: dict[str, Any], names: tuple[str, str] | None = None) -> RunComparison:
    """What moved between two runs, or two ratings files, which are called by `names`."""
    from tiltyard.boards.leaderboard import EloReport
    from tiltyard.decisions import compare_runs
    from tiltyard.decisions.two_boards import compare_ratings

    for name in ("control", "by", "score", "bounds"):
        if name in given:
            what = "scores" if name in ("score", "bounds") else "two models of the same battles"
            raise OptionError(OptionValue(name, None), f" is about {what}: leave it out for two runs.")
    if not all(
        path.suffix == ".json" and path.is_file() and b'"ratings"' in path.read_bytes()
        for path in (Path(new), Path(old))
    ):
        return compare_runs(new, old, **given)
    if given.keys() - {"level", "picked_from"}:
        raise OptionError("two ratings files have no battles: leave out what is about reading or choosing them.")
    return compare_ratings(EloReport.read(new), EloReport.read(old), names=names or (new, old), **given)


def choose_shape(asked: Shape | None, out: Path | None) -> Shape:
    """The requested format, else the one of the file's suffix; a table on the screen."""
    if asked is not None or out is None or not out.suffix:
        return asked or "table"
    if out.suffix.lower() not in SHAPES:
        raise OptionError(f"--out {out.name}: a comparison is written as {', '.join(SHAPES)}, or say --format.")
    return SHAPES[out.suffix.lower()]


def answer_text(answer: Difference | RunComparison, shape: Literal["table", "json", "md"], prompts: int) -> str:
    """An answer in a format, with so many prompts of each kind."""
    from tiltyard.decisions import RunComparison
    from tiltyard.decisions.words import as_markdown, as_table, changes_table

    if shape == "json":
        return answer.to_json()
    if isinstance(answer, RunComparison):
        return changes_table(answer, shape, prompts)
    return as_markdown(answer, prompts) if shape == "md" else as_table(answer, prompts)


def _page(answer: Difference, battles: Any, given: dict[str, Any]) -> str:
    """The self-contained page with the grid of prompts, from the counted battles behind the answer."""
    from tiltyard.battles.reading import read_battles
    from tiltyard.battles.table import concat
    from tiltyard.boards.selection import Selection, select
    from tiltyard.decisions import open_source
    from tiltyard.report.comparison import comparison_page, run_behind

    origin = open_source(battles)
    reading, selecting = (
        {name: value for name, value in given.items() if name in options_of(struct)}
        for struct in (ReadingOptions, SelectionOptions)
    )
    kept = select(read_battles(origin.battles, **reading), Selection(**selecting))
    run = None if origin.folder is None else run_behind(origin.folder)
    texts = {prompt.prompt: prompt.text for prompt in answer.prompts if prompt.text is not None}
    return comparison_page(answer, concat([kept.table, kept.both_bad]), run=run, texts=texts)


def _two_runs_page(answer: RunComparison, *names: str) -> str:
    """The same for two runs; with answers and the judge's words where both are run folders."""
    from tiltyard.decisions import is_run_folder
    from tiltyard.report.comparison import run_behind, runs_page

    if not all(is_run_folder(Path(name)) for name in names):
        return runs_page(answer)
    new, old = (run_behind(Path(name)) for name in names)
    return runs_page(answer, new=new, old=old)


def _about(answer: Difference | RunComparison, model: str | None) -> Difference:
    """The difference that is judged: of two models, or of one entrant then and now."""
    from tiltyard.decisions import RunComparison

    if not isinstance(answer, RunComparison):
        if model is not None:
            raise OptionError("--model is about two runs: leave it out with --in.")
        return answer
    if model is None:
        return answer.subject
    try:
        return answer[model]
    except KeyError:
        names = ", ".join(change.entrant for change in answer.changes)
        raise OptionError(f"the runs do not both have {model!r}: they share {names}.") from None


def read_places(places: tuple[str, ...]) -> tuple[Any, dict[str, Any]]:
    """Battles from files, or from one arena's database with its prompt texts and what its board clusters by."""
    if not all(place.strip() for place in places):
        raise OptionError("--in is empty: give a file of battles, a run folder, or an arena's database.")
    if any((Path(place) / "review.json").is_file() for place in places):
        return _read_review(places)
    databases = [place for place in places if place.startswith(("sqlite:", "postgresql:", "postgres:"))]
    if not databases:
        return list(places), {}
    if len(places) > 1:
        raise OptionError(
            "an arena's database stands alone: export it (`tiltyard arena export`) to join it with others."
        )
    from tiltyard.cli.arena_options import need_arena

    need_arena()
    from tiltyard.arena.exporting import open_export

    with open_export(databases[0]) as export:
        return list(export.rows), {"texts": export.texts, "cluster": export.cluster}


def _read_review(places: tuple[str, ...]) -> tuple[Any, dict[str, Any]]:
    """The battles of a review. Its reviewers are a fixed panel, so what varies is the prompts."""
    if len(places) > 1:
        raise OptionError(
            "a review's folder stands alone: export it (`tiltyard review export`) to join it with others."
        )
    from tiltyard.cli.arena_options import need_arena

    need_arena()
    from tiltyard.pages.figures import plural
    from tiltyard.review.desk import open_review
    from tiltyard.review.results import ReviewResult, agreement_sentence, battle_rows, panel_words

    result = ReviewResult.of(open_review(Path(places[0])))
    rows = list(battle_rows(result, result.finished))
    if not rows:
        nothing = "no item has all its reviews" if result.behind else "nobody has reviewed anything"
        raise OptionError(f"{nothing} in {places[0]} yet. `tiltyard review status` says who is where.")
    note(f"{panel_words(result.panel)}; --cluster prompt,voter is for other reviewers like them")
    note(agreement_sentence(result))
    if result.behind:
        note(
            f"{plural(result.behind, 'label')} after items that wait for somebody are left out: quick people made them"
        )
    return rows, {"cluster": "prompt"}

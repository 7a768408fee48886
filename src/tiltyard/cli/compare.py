"""`tiltyard compare` and `tiltyard gate`: is the new one better than the old one, and may it replace it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tiltyard.cli.options import with_options
from tiltyard.cli.output import THE_ANSWER_IS_NO, as_flag, deliver, working
from tiltyard.errors import OptionError, OptionValue
from tiltyard.options import DifferenceOptions, ReadingOptions, RunsOptions, SelectionOptions

if TYPE_CHECKING:
    from tiltyard.battles.table import BattleTable
    from tiltyard.decisions import Difference, GateResult, RunComparison
    from tiltyard.report.run import Run

Shape = Literal["table", "json", "md", "html"]
SHAPES: dict[str, Shape] = {".txt": "table", ".json": "json", ".md": "md", ".html": "html", ".htm": "html"}
NewArgument = Annotated[
    str,
    typer.Argument(
        metavar="NEW", help="The new model (with --in), or the new run: a run folder, battles, or a ratings file."
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
    daily=["by", "control", "dimension", "source", "format", "map", "anyway"],
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
) -> None:
    """Is NEW better than OLD, by how much, how sure, and on which prompts.

    Two models: `tiltyard compare v2 v1 --in battles.jsonl`. Two runs of the same prompts, or two ratings files:
    `tiltyard compare runs/today runs/last-week`.
    """
    shape = choose_shape(format, out)
    question = TwoNames(new, old, (*(places or ()), *(more or ())), given)
    deliver(_text(question, question.answer(), shape, prompts), out, exact=shape in ("md", "html"))


@with_options(
    DifferenceOptions,
    RunsOptions,
    leave_out=["texts", "level", "by"],
    daily=["dimension", "source", "format", "missing"],
)
def gate_command(
    new: NewArgument,
    old: OldArgument,
    more: MorePlacesArgument = None,
    places: InOption = None,
    margin: Annotated[
        float, typer.Option(help="By how many rating points NEW may be worse: 30 is about 54 : 46.")
    ] = 30.0,
    alpha: Annotated[
        float, typer.Option(help="Error rate: how often equal models may be called better or worse.")
    ] = 0.05,
    by: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Judge each value of this column too: one that is worse fails."),
    ] = None,
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
) -> None:
    """May NEW replace OLD: better, not worse than the margin, worse, or cannot tell.

    Exit code 0: better, or not worse. 3: worse, or cannot tell. `tiltyard gate v2 v1 --in battles.jsonl`, or two run
    folders: `tiltyard gate runs/today runs/last-week`.
    """
    from tiltyard.decisions import gate as words

    places = [*(places or ()), *(more or ())]
    missing = given.pop("missing", "worst")
    if 0.0 < alpha < 0.5:
        given["level"] = 1.0 - alpha
    if by is not None and places:
        given["by"] = [by]
    result = _about(TwoNames(new, old, tuple(places), given).answer(), model).gate(
        margin=margin, alpha=alpha, by=by, missing=missing
    )
    for path, text in ((markdown, words.as_markdown), (junit, words.as_junit), (json, _json)):
        if path is not None:
            deliver(text(result), path)
    render = {"table": words.as_table, "md": words.as_markdown, "json": _json}
    deliver(render[format](result), None, exact=format == "md")
    if not result.passed and not (result.verdict == "unknown" and allow_unknown):
        raise typer.Exit(THE_ANSWER_IS_NO)


@dataclass(frozen=True, slots=True, eq=False)
class TwoNames:
    """What was asked: two names, where to look, and the options that were given."""

    new: str
    old: str
    places: tuple[str, ...]
    given: dict[str, Any]

    def answer(self) -> Difference | RunComparison:
        """The difference of two models of the same battles, or of two runs."""
        with working("comparing …"):
            return self._of_models() if self.places else self._of_runs()

    def _of_models(self) -> Difference:
        from tiltyard.decisions import difference

        for name in ("anyway", "unchanged"):
            if name in self.given:
                raise OptionError(f"{as_flag(OptionValue(name))} is about two runs: leave it out with --in.")
        battles, more = read_places(self.places)
        return difference(battles, self.new, self.old, **{**more, **self.given})

    def _of_runs(self) -> RunComparison:
        from tiltyard.boards.leaderboard import EloReport
        from tiltyard.decisions import compare_runs
        from tiltyard.decisions.two_boards import compare_ratings

        for name in (self.new, self.old):
            if not Path(name).exists() and "*" not in name:
                raise OptionError(
                    f"there is no file or folder {name}. To compare two models, say where they met: "
                    f"tiltyard compare {self.new} {self.old} --in battles.jsonl"
                )
        for name in ("control", "by"):
            if name in self.given:
                raise OptionError(
                    f"{as_flag(OptionValue(name))} does not go with two runs: it is about two models (--in)."
                )
        if is_ratings(self.new) and is_ratings(self.old):
            if self.given.keys() - {"level"}:
                raise OptionError("two ratings files have no battles: only --level and the format can be chosen.")
            level = self.given.get("level", 0.95)
            return compare_ratings(
                EloReport.read(self.new), EloReport.read(self.old), names=(self.new, self.old), level=level
            )
        return compare_runs(self.new, self.old, **self.given)


def choose_shape(asked: Shape | None, out: Path | None) -> Shape:
    """The requested format, else the one of the file's suffix; a table on the screen."""
    if asked is not None or out is None or not out.suffix:
        return asked or "table"
    if out.suffix.lower() not in SHAPES:
        raise OptionError(f"--out {out.name}: a comparison is written as {', '.join(SHAPES)}, or say --format.")
    return SHAPES[out.suffix.lower()]


def _text(question: TwoNames, answer: Difference | RunComparison, shape: Shape, prompts: int) -> str:
    from tiltyard.decisions import RunComparison
    from tiltyard.decisions.words import as_markdown, as_table, changes_table

    if shape == "json":
        return answer.to_json()
    if isinstance(answer, RunComparison):
        return _two_runs_page(question, answer) if shape == "html" else changes_table(answer, shape, prompts)
    if shape == "html":
        return _page(question, answer)
    return as_markdown(answer, prompts) if shape == "md" else as_table(answer, prompts)


def _page(question: TwoNames, answer: Difference) -> str:
    """The self-contained page with the grid of prompts."""
    from tiltyard.report.comparison import comparison_page

    table, run = battles_behind(question)
    texts = {prompt.prompt: prompt.text for prompt in answer.prompts if prompt.text is not None}
    return comparison_page(answer, table, run=run, texts=texts)


def _two_runs_page(question: TwoNames, answer: RunComparison) -> str:
    """The same for two runs; with answers and the judge's words where both are run folders."""
    from tiltyard.decisions.records import is_run_folder
    from tiltyard.report.comparison import run_behind, runs_page

    folders = [Path(name) for name in (question.new, question.old)]
    if not all(is_run_folder(folder) for folder in folders):
        return runs_page(answer)
    new, old = map(run_behind, folders)
    return runs_page(answer, new=new, old=old)


def _json(result: GateResult) -> str:
    return result.to_json()


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


def is_ratings(name: str) -> bool:
    """Whether a path is a ratings file: one JSON object with `ratings`."""
    path = Path(name)
    return path.suffix == ".json" and path.is_file() and b'"ratings"' in path.read_bytes()


def is_database(name: str) -> bool:
    """Whether a place is an arena's database."""
    return name.startswith(("sqlite:", "postgresql:", "postgres:"))


def read_places(places: tuple[str, ...]) -> tuple[Any, dict[str, Any]]:
    """Battles from files, or from one arena's database with its prompt texts and what its board clusters by."""
    if not all(place.strip() for place in places):
        raise OptionError("--in is empty: give a file of battles, a run folder, or an arena's database.")
    databases = [place for place in places if is_database(place)]
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


def battles_behind(question: TwoNames) -> tuple[BattleTable, Run | None]:
    """The counted battles behind an answer about two models, and the run folder that they come from if there is one."""
    from tiltyard.battles.reading import read_battles
    from tiltyard.battles.table import concat
    from tiltyard.boards.selection import Selection, select
    from tiltyard.decisions.records import open_source
    from tiltyard.options import options_of
    from tiltyard.report.comparison import run_behind

    data, _ = read_places(question.places)
    origin = open_source(data)
    reading, selecting = (
        {name: value for name, value in question.given.items() if name in options_of(struct)}
        for struct in (ReadingOptions, SelectionOptions)
    )
    kept = select(read_battles(origin.battles, **reading), Selection(**selecting))
    return concat([kept.table, kept.both_bad]), None if origin.folder is None else run_behind(origin.folder)

"""`tiltyard compare`: is the new one better than the old one, by how much, and how sure are we."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tiltyard.cli.decision_options import (
    AnytimeOption,
    AnywayOption,
    ByPartsOption,
    InOption,
    MissingOption,
    MorePlacesArgument,
    NewArgument,
    OldArgument,
    SidesOption,
    TwoNames,
    UnchangedOption,
    battle_options,
    battles_behind,
)
from tiltyard.cli.output import deliver
from tiltyard.cli.rate_options import (
    OUTPUT,
    BothBadOption,
    ClusterOption,
    ControlOption,
    DefaultSourceOption,
    DimensionOption,
    FromFormatOption,
    InconsistentOption,
    LevelOption,
    MapOption,
    OnBadOption,
    SourceOption,
    TieBandOption,
    TiesOption,
    WhereOption,
    style_columns,
)
from tiltyard.errors import OptionError

if TYPE_CHECKING:
    from tiltyard.decisions import Difference, RunComparison

Shape = Literal["table", "json", "md", "html"]
SHAPES: dict[str, Shape] = {".txt": "table", ".json": "json", ".md": "md", ".html": "html", ".htm": "html"}

ShapeOption = Annotated[
    Shape | None,
    typer.Option("--format", help="How to write it. (default: table, or what --out ends in)", rich_help_panel=OUTPUT),
]
OutOption = Annotated[
    Path | None,
    typer.Option(help="Write it here instead of printing it: .html, .json, .md or .txt.", rich_help_panel=OUTPUT),
]
PromptsOption = Annotated[
    int, typer.Option("--prompts", min=0, help="How many prompts to list of each kind.", rich_help_panel=OUTPUT)
]


def compare_command(
    new: NewArgument,
    old: OldArgument,
    more: MorePlacesArgument = None,
    places: InOption = None,
    anyway: AnywayOption = False,
    unchanged: UnchangedOption = None,
    ties: TiesOption = None,
    both_bad: BothBadOption = "separate",
    inconsistent: InconsistentOption = "tie",
    control: ControlOption = None,
    slot: SidesOption = None,
    level: LevelOption = None,
    cluster: ClusterOption = None,
    anytime: AnytimeOption = False,
    missing: MissingOption = None,
    by: ByPartsOption = None,
    source: SourceOption = None,
    dimension: DimensionOption = None,
    where: WhereOption = None,
    from_format: FromFormatOption = "auto",
    default_source: DefaultSourceOption = None,
    on_bad: OnBadOption = "error",
    map: MapOption = None,
    tie_band: TieBandOption = None,
    prompts: PromptsOption = 5,
    format: ShapeOption = None,
    out: OutOption = None,
) -> None:
    """Is NEW better than OLD, by how much, how sure, and on which prompts.

    Two models: `tiltyard compare v2 v1 --in battles.jsonl`. Two runs of the same prompts, or two ratings files:
    `tiltyard compare runs/today runs/last-week`.
    """
    shape = choose_shape(format, out)
    options = battle_options(
        cluster=cluster,
        ties=ties,
        both_bad=both_bad,
        inconsistent=inconsistent,
        control=style_columns(control),
        slot=slot,
        level=level,
        anytime=anytime or None,
        missing=missing,
        unchanged=unchanged,
        by=by,
        source=source,
        dimension=dimension,
        where=where,
        from_format=from_format,
        default_source=default_source,
        on_bad=on_bad,
        map=map,
        tie_band=tie_band,
    )
    question = TwoNames(new, old, (*(places or ()), *(more or ())), anyway, options)
    deliver(_text(question, question.answer(), shape, prompts), out, exact=shape in ("md", "html"))


def choose_shape(asked: Shape | None, out: Path | None) -> Shape:
    """The requested format, else the one of the file's suffix; a table on the screen."""
    if asked is not None or out is None or not out.suffix:
        return asked or "table"
    if out.suffix.lower() not in SHAPES:
        raise OptionError(f"--out {out.name}: a comparison is written as {', '.join(SHAPES)}, or say --format.")
    return SHAPES[out.suffix.lower()]


def _text(question: TwoNames, found: Difference | RunComparison, shape: Shape, prompts: int) -> str:
    from tiltyard.decisions import RunComparison
    from tiltyard.decisions.run_words import changes_table
    from tiltyard.decisions.words import as_markdown, as_table

    if shape == "json":
        return found.to_json()
    if isinstance(found, RunComparison):
        return _two_runs_page(question, found) if shape == "html" else changes_table(found, shape, prompts)
    if shape == "html":
        return _page(question, found)
    return as_markdown(found, prompts) if shape == "md" else as_table(found, prompts)


def _page(question: TwoNames, found: Difference) -> str:
    """The self-contained page with the grid of prompts."""
    from tiltyard.report.comparison import comparison_page

    table, run = battles_behind(question)
    texts = {prompt.prompt: prompt.text for prompt in found.prompts if prompt.text is not None}
    return comparison_page(found, table, run=run, texts=texts)


def _two_runs_page(question: TwoNames, found: RunComparison) -> str:
    """The same for two runs; with answers and the judge's words where both are run folders."""
    from tiltyard.decisions.sources import is_run_folder
    from tiltyard.report.comparison import run_behind
    from tiltyard.report.run_changes import runs_page

    folders = [Path(name) for name in (question.new, question.old)]
    if not all(is_run_folder(folder) for folder in folders):
        return runs_page(found)
    new, old = map(run_behind, folders)
    return runs_page(found, new=new, old=old)

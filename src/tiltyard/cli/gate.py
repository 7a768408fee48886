"""`tiltyard gate`: may the new one ship: better, not worse than a margin, worse, or cannot tell."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tiltyard.cli.decision_options import (
    AnytimeOption,
    AnywayOption,
    InOption,
    MissingOption,
    MorePlacesArgument,
    NewArgument,
    OldArgument,
    SidesOption,
    TwoNames,
    UnchangedOption,
    battle_options,
)
from tiltyard.cli.output import THE_ANSWER_IS_NO, deliver
from tiltyard.cli.rate_options import (
    OUTPUT,
    BothBadOption,
    ClusterOption,
    ControlOption,
    DefaultSourceOption,
    DimensionOption,
    FromFormatOption,
    InconsistentOption,
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
    from tiltyard.decisions import Difference, GateResult, RunComparison

RULE = "The rule"

MarginOption = Annotated[
    float, typer.Option(help="By how many rating points NEW may be worse: 30 is about 54 : 46.", rich_help_panel=RULE)
]
AlphaOption = Annotated[
    float, typer.Option(help="Error rate: how often equal models may be called better or worse.", rich_help_panel=RULE)
]
ByOption = Annotated[
    str | None,
    typer.Option(help="Judge each value of this column too: one that is worse fails.", rich_help_panel=RULE),
]
AllowUnknownOption = Annotated[
    bool,
    typer.Option("--allow-unknown", help="Exit 0 also when the battles cannot tell.", rich_help_panel=RULE),
]
ModelOption = Annotated[
    str | None,
    typer.Option(help="Which entrant, where two runs are compared. (default: the one with new answers)"),
]
ShapeOption = Annotated[
    Literal["table", "json", "md"], typer.Option("--format", help="How to print it.", rich_help_panel=OUTPUT)
]
MarkdownOption = Annotated[
    Path | None,
    typer.Option("--markdown", help="Also write Markdown here, for a step summary.", rich_help_panel=OUTPUT),
]
JunitOption = Annotated[Path | None, typer.Option("--junit", help="Also write JUnit XML here.", rich_help_panel=OUTPUT)]
JsonOption = Annotated[Path | None, typer.Option("--json", help="Also write JSON here.", rich_help_panel=OUTPUT)]


def gate_command(
    new: NewArgument,
    old: OldArgument,
    more: MorePlacesArgument = None,
    places: InOption = None,
    margin: MarginOption = 30.0,
    alpha: AlphaOption = 0.05,
    anytime: AnytimeOption = False,
    by: ByOption = None,
    missing: MissingOption = None,
    allow_unknown: AllowUnknownOption = False,
    model: ModelOption = None,
    anyway: AnywayOption = False,
    unchanged: UnchangedOption = None,
    ties: TiesOption = None,
    both_bad: BothBadOption = "separate",
    inconsistent: InconsistentOption = "tie",
    control: ControlOption = None,
    slot: SidesOption = None,
    cluster: ClusterOption = None,
    source: SourceOption = None,
    dimension: DimensionOption = None,
    where: WhereOption = None,
    from_format: FromFormatOption = "auto",
    default_source: DefaultSourceOption = None,
    on_bad: OnBadOption = "error",
    map: MapOption = None,
    tie_band: TieBandOption = None,
    format: ShapeOption = "table",
    markdown: MarkdownOption = None,
    junit: JunitOption = None,
    json: JsonOption = None,
) -> None:
    """May NEW replace OLD: better, not worse than the margin, worse, or cannot tell.

    Exit code 0: better, or not worse. 3: worse, or cannot tell. `tiltyard gate v2 v1 --in battles.jsonl`, or two run
    folders: `tiltyard gate runs/today runs/last-week`.
    """
    from tiltyard.decisions import gate as words

    found_in = (*(places or ()), *(more or ()))
    options = battle_options(
        cluster=cluster,
        ties=ties,
        both_bad=both_bad,
        inconsistent=inconsistent,
        control=style_columns(control),
        slot=slot,
        level=1.0 - alpha if 0.0 < alpha < 0.5 else None,
        anytime=anytime or None,
        unchanged=unchanged,
        by=[by] if by is not None and found_in else None,
        source=source,
        dimension=dimension,
        where=where,
        from_format=from_format,
        default_source=default_source,
        on_bad=on_bad,
        map=map,
        tie_band=tie_band,
    )
    question = TwoNames(new, old, found_in, anyway, options)
    result = _about(question.answer(), model).gate(margin=margin, alpha=alpha, by=by, missing=missing or "worst")
    for path, text in ((markdown, words.as_markdown), (junit, words.as_junit), (json, _json)):
        if path is not None:
            deliver(text(result), path)
    render = {"table": words.as_table, "md": words.as_markdown, "json": _json}
    deliver(render[format](result), None, exact=format == "md")
    if not result.passed and not (result.verdict == "unknown" and allow_unknown):
        raise typer.Exit(THE_ANSWER_IS_NO)


def _json(result: GateResult) -> str:
    return result.to_json()


def _about(found: Difference | RunComparison, model: str | None) -> Difference:
    """The difference that is judged: of two models, or of one entrant then and now."""
    from tiltyard.decisions import RunComparison

    if not isinstance(found, RunComparison):
        if model is not None:
            raise OptionError("--model is about two runs: leave it out with --in.")
        return found
    if model is None:
        return found.subject
    try:
        return found[model]
    except KeyError:
        names = ", ".join(change.entrant for change in found.changes)
        raise OptionError(f"the runs do not both have {model!r}: they share {names}.") from None

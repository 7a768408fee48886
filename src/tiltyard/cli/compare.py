"""`tiltyard compare`, `gate` and `plan`: is the new one better, may it replace the old one, how much data it takes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from tiltyard.cli.options import with_options
from tiltyard.cli.output import THE_ANSWER_IS_NO, as_flag, choose_shape, deliver, note, working
from tiltyard.cli.sending import ToOption, check_trackers, send
from tiltyard.options import CompareOptions, GateOptions, PlanOptions

SHAPES = {".txt": "table", ".json": "json", ".md": "md", ".html": "html", ".htm": "html"}
PLAN_SHAPES = {".json": "json", ".md": "md", ".txt": "table"}
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


@with_options(CompareOptions, daily=["battles", "by", "control", "dimension", "format", "map", "anyway", "score"])
def compare_command(
    new: NewArgument,
    old: OldArgument,
    more: MorePlacesArgument = None,
    *,
    given: dict[str, Any],
    prompts: int = typer.Option(5, min=0, help="How many prompts to list of each kind."),
    format: Literal["table", "json", "md", "html"] | None = typer.Option(
        None, help="How to write it. (default: table, or what --out ends in)"
    ),
    out: Path | None = typer.Option(None, help="Write it here instead of printing it: .html, .json, .md or .txt."),
    to: ToOption = None,
) -> None:
    """Is NEW better than OLD, by how much, how sure, and on which prompts.

    Two models: `tiltyard compare v2 v1 --in battles.jsonl`. Two files of scores: `tiltyard compare v2.csv v1.csv`. Two
    runs of the same prompts, or two ratings files: `tiltyard compare runs/today runs/last-week`.
    """
    from tiltyard.verbs.compare import compare
    from tiltyard.verbs.figures import figures_of_comparison

    check_trackers(to)
    shape = choose_shape(format, out, SHAPES, "a comparison")
    with working("comparing …"):
        answer = compare(new, old, **with_places(given, more), notify=note).spelled(as_flag)
    deliver(answer.render(shape, prompts), out, exact=shape in ("md", "html"))
    send(to, lambda: figures_of_comparison(answer))


def with_places(given: dict[str, Any], more: list[str] | None) -> dict[str, Any]:
    """The options, with further places among those of the battles."""
    return {**given, "battles": [*given.get("battles", ()), *more]} if more else given


@with_options(
    GateOptions, daily=["battles", "margin", "alpha", "by", "pool_dimensions", "dimension", "missing", "score"]
)
def gate_command(
    new: NewArgument,
    old: OldArgument,
    more: MorePlacesArgument = None,
    *,
    given: dict[str, Any],
    allow_unknown: bool = typer.Option(False, "--allow-unknown", help="Exit 0 also when the battles cannot tell."),
    format: Literal["table", "json", "md"] = typer.Option("table", help="How to print it."),
    markdown: Path | None = typer.Option(None, help="Also write Markdown here, for a step summary."),
    junit: Path | None = typer.Option(None, help="Also write JUnit XML here."),
    json: Path | None = typer.Option(None, hidden=True, help="Also write JSON here."),
    to: ToOption = None,
) -> None:
    """May NEW replace OLD: better, not worse than the margin, worse, or cannot tell.

    Where battles have several dimensions, or answers several scores, each is judged, and one that is worse fails.
    Exit code 0: better, or not worse. 3: worse, or cannot tell. `tiltyard gate v2 v1 --in battles.jsonl`, two files of
    scores: `tiltyard gate v2.csv v1.csv --margin 2pp`, or two run folders: `tiltyard gate runs/today runs/last-week`.
    """
    from tiltyard.verbs.figures import figures_of_gate
    from tiltyard.verbs.gate import gate

    check_trackers(to)
    with working("comparing …"):
        result = gate(new, old, **with_places(given, more), notify=note).spelled(as_flag)
    for path, written in ((markdown, "md"), (junit, "junit"), (json, "json")):
        if path is not None:
            deliver(result.render(written), path)
    deliver(result.render(format), None, exact=format == "md")
    send(to, lambda: figures_of_gate(result))
    if not result.passed and not (result.verdict == "unknown" and allow_unknown):
        raise typer.Exit(THE_ANSWER_IS_NO)


@with_options(
    PlanOptions,
    daily=[*("margin", "power", "alpha", "battles", "top", "differences"), *("dimension", "format", "people", "judge")],
)
def plan_command(
    new: str | None = typer.Argument(None, metavar="NEW", help="The new model, in battles given by --in."),
    old: str | None = typer.Argument(None, metavar="OLD", help="The model it is compared with."),
    *,
    given: dict[str, Any],
    format: Literal["table", "json", "md"] | None = typer.Option(
        None, help="How to write it. (default: table, or what --out ends in)"
    ),
    out: Path | None = typer.Option(None, help="Write it here instead of printing it."),
) -> None:
    """How many prompts, verdicts or votes it takes to tell models apart.

    Without battles: `tiltyard plan`. From a pilot: `tiltyard plan v2 v1 --in battles.jsonl`, or two files of scores:
    `tiltyard plan v2.csv v1.csv --difference 2pp`. For a whole board: `tiltyard plan --top 3 --in battles.jsonl`.
    """
    from tiltyard.verbs.plan import plan

    shape = choose_shape(format, out, PLAN_SHAPES, "a plan")
    answer = plan(new, old, **given, notify=note).spelled(as_flag)
    deliver(answer.render(shape), out, exact=shape == "md")

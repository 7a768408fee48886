"""`tiltyard compare`: is the new one better than the old one, by how much, how sure, and on which prompts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from tiltyard.cli.options import with_options
from tiltyard.cli.output import as_flag, choose_shape, deliver, note, working
from tiltyard.cli.sending import ToOption, check_trackers, send
from tiltyard.options import CompareOptions

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


@with_options(CompareOptions, daily=["battles", "by", "control", "dimension", "format", "map", "anyway", "score"])
def compare_command(
    new: NewArgument,
    old: OldArgument,
    more: MorePlacesArgument = None,
    *,
    given: dict[str, Any],
    prompts: int = typer.Option(5, "--prompts", min=0, help="How many prompts to list of each kind."),
    format: Shape | None = typer.Option(
        None, "--format", help="How to write it. (default: table, or what --out ends in)"
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

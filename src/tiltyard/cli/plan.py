"""`tiltyard plan`: how many prompts, verdicts or votes it takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import typer

from tiltyard.cli.options import with_options
from tiltyard.cli.output import as_flag, choose_shape, deliver, note
from tiltyard.options import PlanOptions

Shape = Literal["table", "json", "md"]
SHAPES: dict[str, Shape] = {".json": "json", ".md": "md", ".txt": "table"}


@with_options(
    PlanOptions,
    daily=[*("margin", "power", "alpha", "battles", "top", "differences"), *("dimension", "format", "people", "judge")],
)
def plan_command(
    new: str | None = typer.Argument(None, metavar="NEW", help="The new model, in battles given by --in."),
    old: str | None = typer.Argument(None, metavar="OLD", help="The model it is compared with."),
    *,
    given: dict[str, Any],
    format: Shape | None = typer.Option(None, help="How to write it. (default: table, or what --out ends in)"),
    out: Path | None = typer.Option(None, help="Write it here instead of printing it."),
) -> None:
    """How many prompts, verdicts or votes it takes to tell models apart.

    Without battles: `tiltyard plan`. From a pilot: `tiltyard plan v2 v1 --in battles.jsonl`, or two files of scores:
    `tiltyard plan v2.csv v1.csv --difference 2pp`. For a whole board: `tiltyard plan --top 3 --in battles.jsonl`.
    """
    from tiltyard.verbs.plan import plan

    shape = choose_shape(format, out, SHAPES, "a plan")
    answer = plan(new, old, **given, notify=note).spelled(as_flag)
    deliver(answer.render(shape), out, exact=shape == "md")

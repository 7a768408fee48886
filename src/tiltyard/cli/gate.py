"""`tiltyard gate`: may the new one replace the old one."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import typer

from tiltyard.cli.compare import MorePlacesArgument, NewArgument, OldArgument, with_places
from tiltyard.cli.options import with_options
from tiltyard.cli.output import THE_ANSWER_IS_NO, as_flag, deliver, note, working
from tiltyard.cli.sending import ToOption, check_trackers, send
from tiltyard.options import GateOptions


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
    format: Literal["table", "json", "md"] = typer.Option("table", "--format", help="How to print it."),
    markdown: Path | None = typer.Option(None, "--markdown", help="Also write Markdown here, for a step summary."),
    junit: Path | None = typer.Option(None, "--junit", help="Also write JUnit XML here."),
    json: Path | None = typer.Option(None, "--json", hidden=True, help="Also write JSON here."),
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

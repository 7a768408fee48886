"""`tiltyard place`: one new model among models that people voted on."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import typer

from tiltyard.cli.asking import ProgressView, YesOption, confirm
from tiltyard.cli.options import rare, with_options
from tiltyard.cli.output import Format, deliver, note
from tiltyard.errors import OptionError
from tiltyard.options import PlacementOptions, options_of

HELP = options_of(PlacementOptions)


@with_options(PlacementOptions, leave_out=["judge"])
def place_command(
    judge: list[str] | None = typer.Option(None, help=HELP["judge"].help.text),
    *,
    given: dict[str, Any],
    yes: YesOption = False,
    format: Format = rare("table", help="How the board is printed; json is the contents of elo_ratings.json."),
    recompute: Path | None = typer.Option(
        None, metavar="DIR", help="Rate a saved run again from its files, and compare."
    ),
) -> None:
    """Place one new model among models that people voted on, by a judge, and save everything that the result needs."""
    from tiltyard.verbs import place

    exact = format in ("csv", "md", "latex")
    if recompute is not None:
        deliver(place.recompute(recompute, notify=note).render(format), None, exact=exact)
        return
    if judge is not None and len(judge) > 1:
        raise OptionError("a placement has one judge; only tournaments are judged by a panel. Give --judge once.")
    given |= {"judge": judge[0]} if judge else {}
    for name in ("arena", "model", "judge"):
        if not given.get(name):
            raise typer.BadParameter("needed, unless --recompute DIR is given.", param_hint=f"--{name}")
    with ProgressView(_go_on) as progress:
        answer = place.place(**given, notify=note, confirm=partial(confirm, yes=yes), progress=progress)
    if given.get("dry_run"):
        return
    deliver(answer.render(format), None, exact=exact)
    for line in answer.lines() if format != "table" else ():
        note(line)
    note(f"saved in {answer.folder}; open {answer.folder / 'report.html'}")


def _go_on(folder: Path | None) -> str:
    if folder is None:
        return "run the same command again; nothing was asked yet."
    return "the same command continues where it stopped, and asks nothing twice."

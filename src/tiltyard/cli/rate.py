"""`tiltyard rate`: battles in, a leaderboard out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from tiltyard.cli.options import FilesArgument, with_options
from tiltyard.cli.output import BY_SUFFIX, Format, as_flag, choose_shape, deliver, note, working
from tiltyard.cli.sending import ToOption, check_trackers, send
from tiltyard.errors import OptionError
from tiltyard.options import BoardOptions


@with_options(BoardOptions)
def rate_command(
    files: FilesArgument,
    *,
    given: dict[str, Any],
    format: Format | None = typer.Option(None, help="How to write it. (default: table, or what --out ends in)"),
    out: Path | None = typer.Option(
        None,
        metavar="FILE",
        help="Write the leaderboard here instead of printing it; .svg, .png, .pdf or .html is drawn.",
    ),
    plot: Path | None = typer.Option(
        None, metavar="FILE", help="Draw it too: a file that ends in .svg, .png, .pdf or .html."
    ),
    to: ToOption = None,
) -> None:
    """Rate models from files of battles: battles in, a leaderboard with intervals out.

    Files of scores give a board of mean scores; with --as-battles, ratings.
    """
    from tiltyard.verbs.figures import figures_of_rating
    from tiltyard.verbs.rate import SUFFIXES, check_path, rate

    check_trackers(to)
    drawn = out if out is not None and format is None and out.suffix.lower() in SUFFIXES else None
    pictures = [picture for picture in (drawn, plot) if picture is not None]
    for picture in pictures:
        check_path(picture)
    shape = choose_shape(
        format, None if drawn is not None else out, BY_SUFFIX, "a leaderboard (drawn as .svg, .png, .pdf, .html)"
    )
    with working("rating …"):
        answer = rate(files, **given, notify=note).spelled(as_flag)
    if pictures and not hasattr(answer, "plot"):
        raise OptionError("a board of mean scores is a table: leave --plot out.")
    for text in answer.remarks if "by" in given else ():
        note(text)
    if drawn is None:
        deliver(answer.render(shape), out, exact=shape in ("csv", "md", "latex"))
    for picture in pictures:
        written = answer.plot(picture)
        for target in written if isinstance(written, list) else [picture]:
            note(f"wrote {target}")
    send(to, lambda: figures_of_rating(answer))

"""`tiltyard rate`: battles in, a leaderboard out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tiltyard.cli.options import FilesArgument, rare, with_options
from tiltyard.cli.output import Format, as_flag, choose_format, deliver, note, working
from tiltyard.cli.scores import are_scores, battles_of_scores, boards_of_files, boards_text, with_flags
from tiltyard.cli.sending import ToOption, check_trackers, figures_of_boards, figures_of_means, send
from tiltyard.errors import OptionError, OptionValue
from tiltyard.options import RateOptions, ScoreBoardOptions, options_of

LONG_SECONDS = 5.0
"""What takes longer is announced."""

if TYPE_CHECKING:
    from tiltyard.battles import BattleTable
    from tiltyard.boards import Leaderboard
    from tiltyard.boards.inputs import Estimator


@with_options(RateOptions, ScoreBoardOptions)
def rate_command(
    files: FilesArgument,
    *,
    given: dict[str, Any],
    by: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="One leaderboard per value of this column; a value that cannot be rated is named and left out.",
        ),
    ] = None,
    pool: Annotated[
        bool,
        typer.Option(
            "--pool",
            hidden=True,
            help="With --by: pull each board's ratings towards the model's over all values, by as much as the results "
            "say: for values with few battles. (bt)",
        ),
    ] = False,
    compare: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            hidden=True,
            help="Compare with this ratings file: agreement of the orders, and who moved.",
        ),
    ] = None,
    as_battles: Annotated[
        bool,
        rare(
            "--as-battles",
            help="Of scores: make battles, in which the higher score wins, and rate these. Right for grades without a "
            "unit; it forgets by how much one is better.",
        ),
    ] = False,
    format: Annotated[
        Format | None, typer.Option(help="How to write it. (default: table, or what --out ends in)")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write the leaderboard here instead of printing it; .svg, .png, .pdf or .html is drawn.",
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw it too: a file that ends in .svg, .png, .pdf or .html."),
    ] = None,
    to: ToOption = None,
) -> None:
    """Rate models from files of battles: battles in, a leaderboard with intervals out.

    Files of scores give a board of mean scores; with --as-battles, ratings.
    """
    from tiltyard.boards import rate_by
    from tiltyard.boards.charts import SUFFIXES, check_path
    from tiltyard.boards.rating import estimator_of, rate_as

    check_trackers(to)
    if pool and by is None:
        raise OptionError("--pool pulls the boards of --by together: name the column, such as --by language --pool.")
    if "people" in given and by is not None:
        raise OptionError("--people corrects one board: choose its battles with --dimension or --where, without --by.")
    drawn = out if out is not None and format is None and out.suffix.lower() in SUFFIXES else None
    for picture in (plot, drawn):
        if picture is not None:
            check_path(picture)
    shape = choose_format(format, None if drawn is not None else out)
    data: Any = files
    reading = {name: value for name, value in given.items() if not (as_battles and name == "tie_band")}
    if given.get("engine", "duckdb") == "duckdb" and not set(files) & {"-"} and are_scores(files, reading):
        if not as_battles:
            if drawn or plot or by or compare:
                raise OptionError("a board of mean scores is a table: leave --by, --compare and --plot out.")
            means = [replace(one, notes=with_flags(one.notes)) for one in boards_of_files(files, given)]
            deliver(boards_text(means, shape), out, exact=shape in ("csv", "md", "latex"))
            send(to, lambda: figures_of_means(means))
            return
        data = battles_of_scores(files, given)
    elif as_battles:
        raise OptionError("--as-battles makes battles of scores, and these are battles already: leave it out.")
    strange = [name for name in given if name not in options_of(RateOptions)]
    if strange:
        raise OptionError(OptionValue(strange[0], None), " is about scores, and these are battles: leave it out.")
    options = RateOptions(**given)
    estimator = estimator_of(options)
    with working("rating …"):
        if by is None:
            boards = {"": rate_as(estimator, data, options, lambda table: _say_cost(estimator, table))}
        else:
            boards = rate_by(
                data, by, estimator, options, pool=pool, leave_out=lambda error: note(error.spelled(as_flag))
            )
    if compare is not None:
        boards = {value: _compared(board, compare) for value, board in boards.items()}
    if drawn is None:
        deliver(_text(boards, by, shape), out, exact=shape in ("csv", "md", "latex"))
    for picture in (drawn, plot):
        if picture is None:
            continue
        for value, board in boards.items():
            name = "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in value)
            target = picture.with_stem(f"{picture.stem}-{name}") if value else picture
            board.plot(target)
            note(f"wrote {target}")
    send(to, lambda: figures_of_boards(boards))


def _say_cost(estimator: Estimator, table: BattleTable) -> None:
    """Before work that takes long: how much it is, and what makes it less."""
    from tiltyard.boards import PermutationElo

    if isinstance(estimator, PermutationElo):
        battles, seconds = estimator.cost(table)
        if seconds >= LONG_SECONDS:
            note(
                f"playing {battles / 1e6:,.0f} million battles in random orders, about {seconds:,.0f} s; "
                "--n-perms N plays fewer, --ci none leaves the sampling interval out"
            )


def _compared(board: Leaderboard, path: Path) -> Leaderboard:
    """The board with how it differs from a ratings file."""
    from tiltyard.boards import EloReport

    comparison = {"with": str(path), **board.changes_since(EloReport.read(path)).to_dict()}
    return replace(board, details={**board.details, "comparison": comparison})


def _text(boards: dict[str, Leaderboard], by: str | None, format: Format) -> str:
    """One board, or one per value of a column, in a format."""
    from tiltyard.boards import text
    from tiltyard.boards.leaderboard import EloReport
    from tiltyard.pages.tables import markdown_text

    if by is None:
        if format == "json":
            return boards[""].to_json()
        render = {"table": text.as_table, "csv": text.as_csv, "md": text.as_markdown, "latex": text.as_latex}
        return render[format](boards[""])
    if format == "json":
        reports = {value: EloReport.of(board).to_dict() for value, board in boards.items()}
        return text.json_text({"by": by, "boards": reports})
    if format == "csv":
        return text.boards_as_csv(by, boards)
    if format == "latex":
        return "\n".join(
            f"% {by}: {' '.join(value.split())}\n{text.as_latex(board)}" for value, board in boards.items()
        )
    if format == "md":
        parts = [
            f"## {markdown_text(f'{by}: {value}')}\n\n{text.as_markdown(board)}" for value, board in boards.items()
        ]
        return "\n".join([*parts, *_not_joint(boards)])
    parts = [f"{by}: {value}\n{text.as_table(board)}" for value, board in boards.items()]
    return "\n\n".join([*parts, *_not_joint(boards)])


def _not_joint(boards: dict[str, Leaderboard]) -> list[str]:
    """That the intervals of several boards do not hold together; nothing for one board, or without intervals."""
    if len(boards) < 2 or not any(entry.ci_low is not None for board in boards.values() for entry in board):
        return []
    return [
        f"Intervals and ranks are those of each board alone. They do not hold for all {len(boards)} boards at once: "
        "among many boards, some will be wrong by chance."
    ]

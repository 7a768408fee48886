"""`tiltyard rate`: battles in, a leaderboard out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tiltyard.cli.output import Format, choose_format, deliver, note, working
from tiltyard.errors import OptionError

if TYPE_CHECKING:
    from tiltyard.boards import Leaderboard

BATTLES, METHOD, INTERVALS, FILTERS, ELO, OUTPUT = (
    "Battles",
    "Method",
    "Intervals",
    "Which battles",
    "Elo",
    "Output",
)


def rate_command(
    files: Annotated[
        list[str],
        typer.Argument(help="Files, folders or globs of battles (JSONL, CSV, TSV, Parquet; - for standard input)."),
    ],
    method: Annotated[
        Literal["bt", "elo", "elo-perm", "glicko2", "winrate"],
        typer.Option(
            help="Bradley–Terry, Elo in order, Elo averaged over shuffles, Glicko-2, or win rates.",
            rich_help_panel=METHOD,
        ),
    ] = "bt",
    ties: Annotated[
        Literal["davidson", "rao-kupper", "half", "drop"] | None,
        typer.Option(
            help="What a tie says: a model of ties, half a win, or nothing. (bt; default: davidson)",
            rich_help_panel=METHOD,
        ),
    ] = None,
    both_bad: Annotated[
        Literal["separate", "half", "drop"],
        typer.Option(
            help="Both-bad battles: counted beside the rating, rated as ties, or left out.", rich_help_panel=METHOD
        ),
    ] = "separate",
    inconsistent: Annotated[
        Literal["tie", "drop"],
        typer.Option(help="Judgments whose two orders disagreed: rated as ties, or left out.", rich_help_panel=METHOD),
    ] = "tie",
    evaluated: Annotated[
        str | None, typer.Option(help="The model under test: its entry has source `evaluated`.", rich_help_panel=METHOD)
    ] = None,
    anchor: Annotated[
        str | None,
        typer.Option(
            help="Pin a model to a rating: MODEL=RATING. Without one the mean is 1000. (bt)", rich_help_panel=METHOD
        ),
    ] = None,
    control: Annotated[
        str | None,
        typer.Option(
            help="Style columns to control for: `len,bold` reads len_a, len_b, bold_a, bold_b. (bt)",
            rich_help_panel=METHOD,
        ),
    ] = None,
    slot: Annotated[
        bool | None,
        typer.Option(
            "--slot/--no-slot",
            help="Fit the advantage of the first side. (bt; default: only with --control, on votes)",
            rich_help_panel=METHOD,
        ),
    ] = None,
    only_connected: Annotated[
        bool,
        typer.Option(
            "--only-connected", help="Where groups of models never met, rate the largest. (bt)", rich_help_panel=METHOD
        ),
    ] = False,
    robustness: Annotated[
        bool,
        typer.Option(
            "--robustness",
            help="For each neighbouring pair, how few battles have to go to swap it. (bt)",
            rich_help_panel=METHOD,
        ),
    ] = False,
    ci: Annotated[
        Literal["sandwich", "bootstrap", "none"] | None,
        typer.Option(
            help="How intervals are made. (bt; elo-perm knows its own, or none; default: sandwich)",
            rich_help_panel=INTERVALS,
        ),
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(min=2, help="Bootstrap rounds. (default: 1000)", rich_help_panel=INTERVALS)
    ] = None,
    level: Annotated[
        float | None, typer.Option(help="Confidence level. (default: 0.95)", rich_help_panel=INTERVALS)
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            help="Column whose equal values make battles dependent, or `none`. (default: question_id if there)",
            rich_help_panel=INTERVALS,
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed of bootstrap and shuffles. (default: 0)", rich_help_panel=INTERVALS)
    ] = None,
    by: Annotated[
        str | None, typer.Option(help="One leaderboard per value of this column.", rich_help_panel=FILTERS)
    ] = None,
    source: Annotated[
        Literal["human", "llm-judge"] | None,
        typer.Option(help="Only battles decided by people, or by a judge.", rich_help_panel=FILTERS),
    ] = None,
    dimension: Annotated[
        str | None, typer.Option(help="Only battles of this dimension.", rich_help_panel=FILTERS)
    ] = None,
    where: Annotated[
        str | None,
        typer.Option(
            help="Only rows that satisfy this SQL expression over the file's own columns.", rich_help_panel=FILTERS
        ),
    ] = None,
    min_battles: Annotated[
        float, typer.Option(help="Leave out models with fewer battles.", rich_help_panel=FILTERS)
    ] = 0,
    from_format: Annotated[
        str,
        typer.Option(
            "--from",
            help="Format: auto, tiltyard, lmarena, evalica, alpaca_eval, judgearena, arena-hard, winner-loser.",
            rich_help_panel=FILTERS,
        ),
    ] = "auto",
    default_source: Annotated[
        Literal["human", "llm-judge"] | None,
        typer.Option(help="Who decided where a row does not say.", rich_help_panel=FILTERS),
    ] = None,
    on_bad: Annotated[
        Literal["error", "skip"],
        typer.Option(help="Stop at the first bad row, or skip and count bad rows.", rich_help_panel=FILTERS),
    ] = "error",
    k: Annotated[
        float | None, typer.Option("--k", help="Points at stake. (elo, elo-perm; default: 16)", rich_help_panel=ELO)
    ] = None,
    initial_rating: Annotated[
        float | None, typer.Option(help="(elo, elo-perm; default: 1400)", rich_help_panel=ELO)
    ] = None,
    n_perms: Annotated[
        int | None, typer.Option(min=2, help="Shuffles. (elo-perm; default: 500)", rich_help_panel=ELO)
    ] = None,
    k_sweep: Annotated[
        str | None,
        typer.Option(help="Further K on the same shuffles. (elo-perm; default: 1,4,8,16,32)", rich_help_panel=ELO),
    ] = None,
    format: Annotated[
        Format | None, typer.Option(help="(default: table, or what --out ends in)", rich_help_panel=OUTPUT)
    ] = None,
    compare: Annotated[
        Path | None,
        typer.Option(
            help="Compare with this ratings file: agreement of the orders, and who moved.", rich_help_panel=OUTPUT
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write the leaderboard here instead of printing it.", rich_help_panel=OUTPUT)
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw it: a file that ends in .svg, .png or .html.", rich_help_panel=OUTPUT)
    ] = None,
) -> None:
    """Rate models from files of battles: any file of battles in, a leaderboard one can defend out."""
    from tiltyard.boards import Reading, Selection, make_estimator, rate_by
    from tiltyard.boards.rating import rate_with

    selection = Selection(
        source=source, dimension=dimension, both_bad=both_bad, inconsistent=inconsistent, min_battles=min_battles
    )
    options = {
        "ties": ties,
        "ci": ci,
        "level": level,
        "rounds": rounds,
        "cluster": cluster,
        "anchor": None if anchor is None else _anchor(anchor),
        "control": None if control is None else tuple(name.strip() for name in control.split(",") if name.strip()),
        "slot": slot,
        "only_connected": only_connected or None,
        "robustness": robustness or None,
        "k": k,
        "k_sweep": None if k_sweep is None else _numbers(k_sweep),
        "initial_rating": initial_rating,
        "n_perms": n_perms,
        "seed": seed,
        "evaluated": evaluated,
    }
    estimator = make_estimator(method, selection, **options)
    reading = Reading(format=from_format, where=where, default_source=default_source, on_bad=on_bad)
    with working("rating …"):
        boards = {"": rate_with(estimator, files, reading)} if by is None else rate_by(files, by, estimator, reading)
    if compare is not None:
        boards = {value: _compared(board, compare) for value, board in boards.items()}
    deliver(_text(boards, by, choose_format(format, out)), out)
    if plot is not None:
        _plot(boards, plot)


def _anchor(text: str) -> tuple[str, float]:
    """MODEL=RATING; the model's name may hold equal signs itself."""
    model, equals, rating = text.rpartition("=")
    try:
        if not equals or not model:
            raise ValueError
        return model, float(rating)
    except ValueError:
        raise OptionError(f"--anchor is {text!r}: expected MODEL=RATING, such as gpt-4=1200.") from None


def _numbers(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise OptionError(f"--k-sweep is {text!r}: expected numbers with commas, such as 1,4,8,16,32.") from None


def _compared(board: Leaderboard, path: Path) -> Leaderboard:
    """The board with how it differs from a ratings file."""
    from dataclasses import replace

    from tiltyard.boards import EloReport, compare

    comparison = {"with": str(path), **compare(EloReport.read(path), board).to_dict()}
    return replace(board, details={**board.details, "comparison": comparison})


def _text(boards: dict[str, Leaderboard], by: str | None, format: Format) -> str:
    """One board, or one per value of a column, in a format."""
    from tiltyard.boards import text
    from tiltyard.boards.ratings_file import EloReport

    if by is None:
        render = {"table": text.as_table, "json": text.as_json, "csv": text.as_csv, "md": text.as_markdown}
        return render[format](boards[""])
    if format == "json":
        reports = {value: EloReport.of(board).to_dict() for value, board in boards.items()}
        return text.json_text({"by": by, "boards": reports})
    if format == "csv":
        return text.boards_as_csv(by, boards)
    if format == "md":
        return "\n".join(f"## {by}: {value}\n\n{text.as_markdown(board)}" for value, board in boards.items())
    return "\n\n".join(f"{by}: {value}\n{text.as_table(board)}" for value, board in boards.items())


def _plot(boards: dict[str, Leaderboard], path: Path) -> None:
    """One chart, or one file per value of the column."""
    for value, board in boards.items():
        target = path if not value else path.with_stem(f"{path.stem}-{_file_name(value)}")
        board.plot(target)
        note(f"wrote {target}")


def _file_name(value: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in value)

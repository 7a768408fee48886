"""`rate`: battles in, a leaderboard out; scores in, a board of means."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import structs

from tiltyard.analysis.boards import SUFFIXES as SUFFIXES
from tiltyard.analysis.boards import (
    BoardsByValue,
    Estimator,
    Leaderboard,
    PermutationElo,
    RatingsFile,
    make_estimator,
    open_source,
    rate_with,
)
from tiltyard.analysis.boards import check_path as check_path
from tiltyard.analysis.boards import rate_by as boards_by_value
from tiltyard.analysis.decisions import ABOUT_BATTLES, ScoreBoard, ScoreBoards, score_boards
from tiltyard.data.battles import BattleTable, Opened, check_tie_band
from tiltyard.data.scores import ReadScoresOptions, as_battles, holds_scores, read_scores
from tiltyard.errors import Message, OptionError, OptionValue, RatingError
from tiltyard.options import BoardOptions, RateOptions, ScoreBoardOptions, VerbOptions, accepts_options, options_of

LONG_SECONDS = 5.0
"""What takes longer is announced."""
OF_MEANS = options_of(ScoreBoardOptions).keys() - set(ABOUT_BATTLES) | options_of(VerbOptions).keys()
OF_RATINGS = options_of(RateOptions).keys()


@accepts_options(BoardOptions)
def rate(battles: Any, options: BoardOptions) -> Leaderboard | Any:
    """A leaderboard from battles; from scores of answers, which have no winner, a `ScoreBoard` of means.

    With `by`, `BoardsByValue`; from scores by several metrics, `ScoreBoards`. An option that the method does not have
    is an error. With `engine="spark"` (or a Spark DataFrame) the battles are counted where they are: paths may then be
    anything that Spark reads.

    Parameters:
        battles: A path, a folder, a glob, a frame, an iterable of dicts, or a `BattleTable`; see `read_battles`.
    """
    if options.pool and options.by is None:
        how = ", such as ", OptionValue("by", "language"), " ", OptionValue("pool", True), "."
        raise OptionError(
            OptionValue("pool", True),
            " pulls the boards of ",
            OptionValue("by", None),
            " together: name the column",
            *how,
        )
    if options.people is not None:
        options.refuse(
            ["by"],
            " makes several boards, and people correct one: choose its battles with ",
            OptionValue("where", None),
            ".",
        )
    data = open_source(battles, options)
    if _are_scores(data, options):
        if not options.as_battles:
            return _means(data, options)
        data, options = _battles_of_scores(data, options)
    elif options.as_battles:
        options.refuse(["as_battles"], " makes battles of scores, and these are battles already: leave it out.")
    strange = options_of(ScoreBoardOptions).keys() - OF_RATINGS
    options.refuse(strange, " is about scores, and these are battles: leave it out.")
    given = options.part(RateOptions)
    estimator = make_estimator(given)
    if options.by is None:
        announce = partial(_say_cost, estimator, options=options)
        return _compared(rate_with(estimator, data, given, people=options.people, before=announce), options.compare)
    left_out: list[RatingError] = []
    boards = boards_by_value(data, options.by, estimator, given, pool=options.pool, leave_out=left_out.append)
    compared = {value: _compared(board, options.compare) for value, board in boards.items()}
    return BoardsByValue(options.by, compared, tuple(Message(*error.args) for error in left_out))


@accepts_options(BoardOptions)
def rate_by(battles: Any, column: str, options: BoardOptions) -> BoardsByValue:
    """One leaderboard for each value of a column: `rate` with `by`, for battles.

    A value whose battles cannot be rated has no board, and `remarks` say why; it is an error only if none has one.

    Parameters:
        battles: A path, a folder, a glob, a frame, an iterable of dicts, or a `BattleTable`; see `read_battles`.
        column: The column whose values get a board each.
    """
    options.refuse(["by", "as_battles"], " does not belong to rate_by, which has the column: use rate.")
    board = rate(battles, **{**options.given(), "by": column})
    assert isinstance(board, BoardsByValue)
    return board


def _are_scores(data: Opened, options: BoardOptions) -> bool:
    if data.engine == "spark" or "-" in data.paths:
        return False
    reading = options.part(ReadScoresOptions)
    return holds_scores(data, replace(reading, tie_band=None) if options.as_battles else reading)


def _means(data: Opened, options: BoardOptions) -> ScoreBoard | ScoreBoards:
    """Boards of mean scores; options that have no effect on them are refused."""
    why = " is about ratings, and these are scores: leave it out, or make battles of them with "
    options.refuse(options_of(BoardOptions).keys() - OF_MEANS, why, OptionValue("as_battles", True), ".")
    given = {name: value for name, value in options.given().items() if name in options_of(ScoreBoardOptions)}
    boards = score_boards(data, **given)
    return boards[0] if len(boards) == 1 else ScoreBoards({board.metric: board for board in boards})


def _battles_of_scores(data: Opened, options: BoardOptions) -> tuple[Opened, BoardOptions]:
    """Logs as they are, whose repeats are paired one by one; else rows of battles, with nothing left to be read."""
    if any(data.tool(part, options.format) is not None for part in data.parts):
        named = OptionValue("dimension", None)
        options.refuse(["score"], ": the metrics of a log are dimensions of its battles: name one with ", named, ".")
        return data, options
    options.refuse(["default_source"], " is about battles: those of scores are a judge's.")
    reading, plain = vars(options.part(ReadScoresOptions)), vars(ReadScoresOptions())
    rows = as_battles(read_scores(data, **reading), check_tie_band(options.tie_band))
    return Opened(rows), replace(options, **{name: value for name, value in plain.items() if name != "columns"})


def _say_cost(estimator: Estimator, table: BattleTable, options: BoardOptions) -> None:
    """Before work that takes long: how much it is, and what makes it less."""
    if isinstance(estimator, PermutationElo):
        battles, seconds = estimator.cost(table)
        if seconds >= LONG_SECONDS:
            options.note(
                f"playing {battles / 1e6:,.0f} million battles in random orders, about {seconds:,.0f} s; "
                "--n-perms N plays fewer, --ci none leaves the sampling interval out"
            )


def _compared(board: Leaderboard, earlier: Any) -> Leaderboard:
    """The board with how it differs from another, or from a ratings file."""
    if earlier is None:
        return board
    is_file = isinstance(earlier, str | Path)
    moved = board.changes_since(RatingsFile.read(earlier) if is_file else earlier)
    comparison = structs.replace(moved, with_=str(earlier) if is_file else "another board")
    return replace(board, details=structs.replace(board.details, comparison=comparison))

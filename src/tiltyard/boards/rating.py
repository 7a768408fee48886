"""`rate`: battles from anywhere in, a `Leaderboard` out; also battles that another engine (Spark) counts."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import fields, replace
from typing import Any

from tiltyard.battles.formats import LOG_FORMATS
from tiltyard.battles.layout import ReadBattlesOptions, choose_format
from tiltyard.battles.missing_verdicts import no_go
from tiltyard.battles.reading import BattleData, peek_headers
from tiltyard.battles.spark import RemoteClusters
from tiltyard.battles.table import BattleTable
from tiltyard.boards.bradley_terry import BradleyTerry
from tiltyard.boards.building import WinRate
from tiltyard.boards.inputs import (
    AS_IT_IS,
    Estimator,
    columns_for,
    is_remote,
    lacking,
    origin_beside,
    read_for,
    with_dimensions,
    with_missing_verdicts,
)
from tiltyard.boards.leaderboard import Leaderboard
from tiltyard.boards.selection import DIMENSION, Selection
from tiltyard.boards.sequential import Elo, Glicko2, PermutationElo
from tiltyard.errors import BattleError, OptionError, OptionValue, RatingError, TooLarge
from tiltyard.options import BattleOptions, InputOptions, RateOptions, check_choice, options_of, takes

METHODS: dict[str, type[Estimator]] = {
    "bt": BradleyTerry,
    "elo": Elo,
    "elo-perm": PermutationElo,
    "glicko2": Glicko2,
    "winrate": WinRate,
}
"""The estimator of each method: `bt`, `elo`, `elo-perm`, `glicko2`, `winrate`."""

METHOD_OPTIONS = (
    options_of(RateOptions).keys() - options_of(BattleOptions, InputOptions, Selection) - {"method", "people"}
)
"""The options that an estimator is built from."""


@takes(RateOptions)
def rate(battles: BattleData, options: RateOptions) -> Leaderboard:
    """A leaderboard from battles: a path, a folder, a glob, a frame, an iterable of dicts, or a `BattleTable`.

    An option that the method does not have is an error. With `engine="spark"` (or a Spark DataFrame) the battles are
    counted where they are: paths may then be anything that Spark reads.

    Parameters:
        battles: A path, a folder, a glob, a frame, an iterable of dicts, or a `BattleTable`; see `read_battles`.
    """
    return rate_as(estimator_of(options), battles, options)


def rate_as(
    estimator: Estimator,
    battles: BattleData,
    options: RateOptions,
    before: Callable[[BattleTable], None] | None = None,
) -> Leaderboard:
    """The board of battles by the estimator of the options, corrected by people's labels where they are given."""
    if options.people is not None:
        from tiltyard.boards.people import rate_with_people

        board = rate_with_people(estimator, battles, options.people, options)
    else:
        board = rate_with(estimator, battles, options, before)
    if is_remote(battles, options):
        return board
    board = replace(board, remarks=(*no_go(battles), *board.remarks))
    return with_missing_verdicts(board, lacking(battles, estimator.selection))


def estimator_of(options: RateOptions) -> Estimator:
    """The estimator that options describe."""
    given = {name: getattr(options, name) for name in METHOD_OPTIONS}
    lists = {name: tuple(given[name]) for name in ("control", "k_sweep") if given[name] is not None}
    return make_estimator(options.method, options.part(Selection), **{**given, **lists})


def rate_with(
    estimator: Estimator,
    battles: BattleData,
    reading: InputOptions = AS_IT_IS,
    before: Callable[[BattleTable], None] | None = None,
) -> Leaderboard:
    """A leaderboard from an estimator that is built already; `before` is called with the battles that were read."""
    came_from, clusters = origin_beside(battles, reading), None
    if is_remote(battles, reading):
        table, clusters = _count(estimator, battles, reading)
    else:
        table = read_for(estimator, battles, reading)
        if before is not None:
            before(table)
    board = _fit(estimator, table, clusters)
    board = with_dimensions(board, table, estimator.selection)
    return replace(board, settings={**board.settings, **came_from()})


def rate_by(
    battles: BattleData,
    column: str,
    estimator: Estimator,
    reading: InputOptions = AS_IT_IS,
    *,
    pool: bool = False,
    leave_out: Callable[[RatingError], None] | None = None,
) -> dict[str, Leaderboard]:
    """One leaderboard per value of a column; an error names the value whose battles cannot be rated.

    With `leave_out` such a value has no board, and `leave_out` is called with the reason; it is an error only if no
    value has a board. With `pool` all values are rated together (Bradley–Terry with the sandwich): a model's rating
    under each value is pulled towards its rating over all values, by as much as the battles themselves say that the
    two differ, those with few battles most.

    Parameters:
        battles: Battles: a table, or whatever `read_battles` takes.
        column: The column whose values get a board each.
        estimator: The estimator, built.
        reading: How to read the battles.
        pool: Whether ratings are pulled towards those over all values; by default each value is rated alone.
        leave_out: Called with an error for each value whose battles cannot be rated; such a value has no board.
            None: an error.
    """
    from tiltyard.boards.pooling import check_poolable, pooled_boards

    poolable = check_poolable(estimator) if pool else None
    remote, clusters = is_remote(battles, reading), None
    came_from = origin_beside(battles, reading)
    if remote and pool:
        raise OptionError(
            "pool needs the battles on this machine. Leave it out, or use ", OptionValue("engine", "duckdb"), "."
        )
    if remote:
        table, clusters = _count(estimator, battles, reading, also=(column,))
    else:
        table = read_for(estimator, battles, reading, also=(column,))
    boards: dict[str, Leaderboard] = {}
    failures: list[RatingError] = []

    def failed(error: RatingError) -> None:
        failures.append(error)
        if leave_out is None:
            raise error from None

    if poolable is not None:
        boards = pooled_boards(table, column, poolable, failed)
    for value, part in () if pool else table.split(column):
        try:
            boards[value] = _fit(estimator, part, clusters)
        except TooLarge:
            raise
        except (BattleError, RatingError) as error:
            failed(RatingError(f"{column} {value}: ", *error.args))
    settings = came_from()
    boards = {value: replace(board, settings={**board.settings, **settings}) for value, board in boards.items()}
    if column != DIMENSION:
        boards = {value: with_dimensions(board, table, estimator.selection) for value, board in boards.items()}
    if not remote:
        missing = lacking(battles, estimator.selection)
        by_board = column == DIMENSION and {one.dimension for one in missing.matchups} <= boards.keys()
        for value, board in boards.items():
            part_of = missing.only(dimensions={value}) if by_board else missing
            boards[value] = with_missing_verdicts(board, part_of, "" if by_board else "of the whole run, ")
    if failures and not boards:
        raise failures[0]
    if leave_out is not None:
        for failure in failures:
            leave_out(RatingError("no board: ", *failure.args))
    return boards


def _fit(estimator: Estimator, table: BattleTable, clusters: RemoteClusters | None) -> Leaderboard:
    return estimator.fit(table, clusters=clusters) if isinstance(estimator, BradleyTerry) else estimator.fit(table)


def make_estimator(method: str, selection: Selection, **options: Any) -> Estimator:
    """The estimator of a method; an option that is given (not None) but that the method does not have is an error.

    Parameters:
        method: `bt`, `elo`, `elo-perm`, `glicko2` or `winrate`.
        selection: Which battles are rated.
        options: Parameters of the estimator by name; None means not given.
    """
    check_choice("method", method, tuple(METHODS))
    kind = METHODS[method]
    known = {field.name for field in fields(kind)}
    given = {name: value for name, value in options.items() if value is not None}
    strange = sorted(set(given) - known)
    if strange:
        homes = [name for name, other in METHODS.items() if strange[0] in {field.name for field in fields(other)}]
        raise OptionError(f"{strange[0]} does not apply to method {method}: it belongs to {', '.join(homes)}.")
    ci = given.get("ci", next((field.default for field in fields(kind) if field.name == "ci"), None))
    idle = () if ci not in IDLE else [name for name in IDLE[ci] if given.get(name, False) is not False]
    if idle:
        what = "there are no intervals" if ci == "none" else "only a bootstrap has rounds"
        raise OptionError(
            OptionValue(idle[0], None),
            f" has no effect: {what}. Leave it out, or choose other intervals with ",
            OptionValue("ci", None),
            ".",
        )
    return kind(**given, selection=selection)


IDLE = {"none": ("anytime", "cluster", "level", "misfit", "rounds"), "sandwich": ("rounds",)}
"""Options that change nothing, by how intervals are made."""


def _count(
    estimator: Estimator, battles: BattleData, reading: InputOptions, also: Collection[str] = ()
) -> tuple[BattleTable, RemoteClusters | None]:
    """The battles as Spark counts them, with the columns that the estimator looks at, and their clusters."""
    from tiltyard.battles.spark import count_on_spark, open_on_spark

    here = OptionValue("engine", "duckdb")
    if not isinstance(estimator, BradleyTerry | WinRate):
        raise OptionError(
            f"{type(estimator).__name__} goes through the battles one by one, and the spark engine only counts them. "
            "Use ",
            OptionValue("method", "bt"),
            " or ",
            OptionValue("method", "winrate"),
            ", or ",
            here,
            ".",
        )
    if isinstance(estimator, BradleyTerry) and (estimator.control or estimator.shrink):
        what = "control" if estimator.control else "shrink"
        raise OptionError(
            f"{what} looks at every battle, and the spark engine only counts them. Leave {what} out, or use ", here, "."
        )
    if reading.format in LOG_FORMATS or reading.tie_band is not None:
        raise OptionError("the spark engine reads rows of battles, not logs with scores. Use ", here, ".")
    rows = open_on_spark(battles)
    asked = reading.part(ReadBattlesOptions)
    plain = replace(asked, where=None, counted=True)
    seen = peek_headers([(choose_format(rows.header, plain, rows.name), rows.header)])
    clusters, columns = columns_for(estimator, seen, also)
    if isinstance(estimator, BradleyTerry) and estimator.ci == "bootstrap" and clusters:
        raise OptionError(
            f"a bootstrap by {clusters[0]} needs every {clusters[0]} on one machine. Use ",
            OptionValue("ci", "sandwich"),
            f", which the spark engine clusters by {clusters[0]} too, or ",
            OptionValue("cluster", "none"),
            ", or ",
            here,
            ".",
        )
    hashed = [name for name in clusters[:1] if name not in also]
    kept = [name for name in columns if name in also or name not in (*clusters, "timestamp")]
    options = replace(asked, columns=kept, counted=True, hashed=hashed)
    return count_on_spark(rows, options, on_bad=reading.on_bad)

"""`rate`: battles from anywhere in, a `Leaderboard` out; also battles that another engine (Spark) counts."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import fields, replace

from tiltyard.battles.formats import LOG_FORMATS
from tiltyard.battles.layout import ReadBattlesOptions, choose_format
from tiltyard.battles.missing_verdicts import no_go
from tiltyard.battles.opened import BattleData, Opened
from tiltyard.battles.reading import peek_headers
from tiltyard.battles.spark import RemoteClusters
from tiltyard.battles.table import BattleTable
from tiltyard.boards.bradley_terry import BradleyTerry
from tiltyard.boards.building import WinRate
from tiltyard.boards.inputs import (
    DEFAULT_INPUT,
    Estimator,
    columns_for,
    is_remote,
    lacking,
    read_for,
    start_hashing,
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
    return rate_with(make_estimator(options), battles, options, people=options.people)


def rate_with(
    estimator: Estimator,
    battles: BattleData,
    reading: InputOptions = DEFAULT_INPUT,
    *,
    people: BattleData | None = None,
    before: Callable[[BattleTable], None] | None = None,
) -> Leaderboard:
    """A leaderboard from an estimator that is built already, corrected by people's labels where they are given.

    `before` is called with the battles that were read.
    """
    opened = Opened.of(battles)
    if people is not None:
        from tiltyard.boards.people import rate_with_people

        board = rate_with_people(estimator, opened, people, reading)
    else:
        came_from = start_hashing(opened, reading)
        table, clusters = _read(estimator, opened, reading)
        if before is not None:
            before(table)
        board = with_dimensions(_fit(estimator, table, clusters), table, estimator.selection)
        board = replace(board, settings={**board.settings, **came_from()})
    if is_remote(opened, reading):
        return board
    board = replace(board, remarks=(*no_go(opened), *board.remarks))
    return with_missing_verdicts(board, lacking(opened, estimator.selection))


def rate_by(
    battles: BattleData,
    column: str,
    estimator: Estimator,
    reading: InputOptions = DEFAULT_INPUT,
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
    opened = Opened.of(battles)
    remote, came_from = is_remote(opened, reading), start_hashing(opened, reading)
    if remote and pool:
        raise OptionError(
            "pool needs the battles on this machine. Leave it out, or use ", OptionValue("engine", "duckdb"), "."
        )
    table, clusters = _read(estimator, opened, reading, also=(column,))
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
        missing = lacking(opened, estimator.selection)
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


def make_estimator(options: RateOptions) -> Estimator:
    """The estimator that options describe; an option that its method does not have is an error."""
    method = options.method
    check_choice("method", method, tuple(METHODS))
    kind = METHODS[method]
    known = {field.name for field in fields(kind)}
    given = {name: getattr(options, name) for name in METHOD_OPTIONS}
    given = {name: tuple(value) if name in LISTS else value for name, value in given.items() if value is not None}
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
    return kind(**given, selection=options.part(Selection))


LISTS = ("control", "k_sweep")
"""Options that are lists."""
IDLE = {"none": ("anytime", "cluster", "level", "misfit", "rounds"), "sandwich": ("rounds",)}
"""Options that change nothing, by how intervals are made."""


def _read(
    estimator: Estimator, battles: Opened, reading: InputOptions, also: Collection[str] = ()
) -> tuple[BattleTable, RemoteClusters | None]:
    """The battles with the columns that the estimator looks at; the clusters of those that Spark counts."""
    if is_remote(battles, reading):
        return _count(estimator, battles, reading, also)
    return read_for(estimator, battles, reading, also), None


def _count(
    estimator: Estimator, battles: Opened, reading: InputOptions, also: Collection[str]
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
    rows = open_on_spark(battles.data)
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

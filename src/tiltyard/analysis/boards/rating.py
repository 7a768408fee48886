"""`rate`: battles from anywhere in, a `Leaderboard` out; also battles that another engine (Spark) counts."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import fields, replace
from threading import Thread
from typing import Any

from msgspec import structs

from tiltyard.analysis.boards.bradley_terry import BradleyTerry
from tiltyard.analysis.boards.leaderboard import Leaderboard
from tiltyard.analysis.boards.misfit import MOST_TIMES
from tiltyard.analysis.boards.preparation import (
    DIMENSION,
    SIDE_FLAGS,
    Selection,
    asked_clusters,
    dimensions_of,
    known_clusters,
    pooled_remark,
)
from tiltyard.analysis.boards.sequential import Elo, Glicko2, PermutationElo
from tiltyard.analysis.boards.win_rate import WinRate
from tiltyard.data.battles import (
    BattleData,
    BattleFile,
    BattleTable,
    MissingVerdicts,
    Opened,
    ReadBattlesOptions,
    Source,
    SparkSource,
    about_rows,
    find_key,
    from_spreadsheet,
    is_sheet,
    no_go,
    peek,
    read_battles,
    read_sheet,
)
from tiltyard.data.battles.missing_verdicts import missing_verdicts
from tiltyard.errors import BattleError, OptionError, OptionValue, RatingError, TooLarge
from tiltyard.options import BattleOptions, InputOptions, RateOptions, accepts_options, check_choice, options_of

MATCHED_BY = ("question_id", "dimension")
"""Columns by which labels find their matchups."""

LARGE_BYTES = 50_000_000
"""Files of fewer bytes in all cannot hold very many battles: how many they hold is not asked."""

Estimator = BradleyTerry | Elo | PermutationElo | Glicko2 | WinRate
"""`BradleyTerry`, `Elo`, `PermutationElo`, `Glicko2` or `WinRate`."""


DEFAULT_INPUT = InputOptions()


def open_source(battles: BattleData, reading: InputOptions) -> Opened:
    """The battles, to be read here or counted where they are, by Spark."""
    opened = Opened.of(battles)
    return SparkSource(opened.items or opened.data) if "spark" in (reading.engine, opened.engine) else opened


def read_for(
    estimator: Estimator, battles: BattleData, reading: InputOptions, also: Collection[str] = ()
) -> BattleTable:
    """The battles with the columns that the estimator looks at, counted while reading where the order does not matter.

    A column that is wanted but not there is an error.
    """
    source = open_source(battles, reading)
    if isinstance(source.data, BattleTable):
        if reading.where is not None:
            raise OptionError("where filters a file or frame while it is read: give it to read_battles instead.")
        return source.read(reading.part(ReadBattlesOptions))
    in_order = isinstance(estimator, Elo | PermutationElo | Glicko2)
    if in_order:
        source.need_every_battle(type(estimator).__name__)
    elif isinstance(estimator, BradleyTerry) and (estimator.control or estimator.shrink):
        source.need_every_battle("control" if estimator.control else "shrink")
    seen = source.peek(reading)
    columns = [name for name in estimator.selection.columns() if name != "inconsistent" or name in seen.columns]
    columns += [name for name in ("judge_model", DIMENSION, *SIDE_FLAGS) if name in seen.columns]
    clusters: tuple[str, ...] = ()
    if isinstance(estimator, BradleyTerry | PermutationElo) and estimator.ci != "none":
        asked = asked_clusters(estimator.cluster)
        clusters = known_clusters(seen.columns) if asked is None else asked
        if clusters and estimator.ci == "bootstrap":
            source.need_every_battle(f"a bootstrap by {clusters[0]}")
    controls = [f"{name}_{side}" for name in getattr(estimator, "control", ()) for side in "ab"]
    times = in_order or (isinstance(estimator, BradleyTerry) and estimator.reads_times)
    times = times and "timestamp" in seen.columns
    wanted = dict.fromkeys([*columns, *clusters, *(["timestamp"] if times else []), *controls, *also])
    absent = wanted.keys() - {*seen.columns, *seen.raw_columns}
    if absent:
        raise OptionError(f"the battles have no column {min(absent)!r}; they have {', '.join(seen.raw_columns)}.")
    if times and not (in_order or clusters or "timestamp" in also):
        size = sum(part.path.stat().st_size for part in source.parts)
        if size > LARGE_BYTES and about_rows(source.parts) > MOST_TIMES:  # counted rather than held to look at times
            times = bool(wanted.pop("timestamp", None))
    options = replace(
        reading.part(ReadBattlesOptions),
        columns=tuple(wanted),
        counted=not (clusters or in_order or times or controls),
        hashed=tuple(column for column in clusters if column not in also),
        numbers=controls,
    )
    return source.read(options)


def lacking(battles: BattleData, selection: Selection) -> MissingVerdicts:
    """The matchups without a verdict of the runs that battles come from, among those that are selected."""
    if selection.source == Source.HUMAN.value:
        return MissingVerdicts()
    result = missing_verdicts(battles)
    return result if selection.dimension is None else result.only(dimensions={selection.dimension})


def with_dimensions(board: Leaderboard, table: BattleTable, selection: Selection) -> Leaderboard:
    """The board with the dimensions whose battles it takes together, where there are several."""
    names = dimensions_of(table, selection)
    if not names:
        return board
    settings = structs.replace(board.settings, dimensions=list(names))
    return replace(board, settings=settings, remarks=(*pooled_remark(names), *board.remarks))


def with_missing_verdicts(board: Leaderboard, missing: MissingVerdicts, of: str = "") -> Leaderboard:
    """The board, which says how many matchups (`of` what, if of more than the board) have no verdict."""
    if not missing:
        return board
    remarks = (*board.remarks, f"{of}{missing.sentence}: they are in no rating")
    return replace(board, remarks=remarks, details=structs.replace(board.details, missing=missing.facts))


def start_hashing(battles: BattleData, reading: InputOptions = DEFAULT_INPUT) -> Callable[[], dict[str, Any]]:
    """Where battles came from, as written to a ratings file: the filter, the files' hash, our version.

    Files are hashed while battles are read and rated, which takes long enough for a large file.
    """
    from tiltyard import __version__

    source = Opened.of(battles)
    parts = source.parts  # by this thread: a pipe is read once, and can be interrupted
    answers: list[str | Exception | None] = []

    def find() -> None:
        try:
            answers.append(files_sha256(parts))
        except Exception as error:
            answers.append(error)

    beside = Thread(target=find, daemon=True)
    beside.start()

    def origin() -> dict[str, Any]:
        beside.join()
        if isinstance(answers[0], Exception):
            raise answers[0]
        return {
            "where": reading.where,
            "battles_sha256": answers[0],
            "tiltyard_version": __version__,
            **({"map": dict(reading.map)} if reading.map else {}),
            **({} if reading.tie_band is None else {"tie_band": reading.tie_band}),
            **({"engine": "spark"} if source.engine == "spark" else {}),
        }

    return origin


def files_sha256(parts: Sequence[BattleFile]) -> str | None:
    """The SHA-256 of the bytes of files, one after the other; None for battles that came from memory."""
    digest = hashlib.sha256()
    for part in parts:
        with part.path.open("rb") as file:
            while chunk := file.read(1 << 20):
                digest.update(chunk)
    return digest.hexdigest() if parts else None


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


@accepts_options(RateOptions)
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
    source = open_source(battles, reading)
    if people is not None:
        board = rate_with_people(estimator, source, people, reading)
    else:
        came_from = start_hashing(source, reading)
        table = read_for(estimator, source, reading)
        if before is not None:
            before(table)
        board = with_dimensions(estimator.fit(table), table, estimator.selection)
        board = replace(board, settings=structs.replace(board.settings, **came_from()))
    board = replace(board, remarks=(*no_go(source), *board.remarks))
    return with_missing_verdicts(board, lacking(source, estimator.selection))


def rate_with_people(
    estimator: Estimator, battles: BattleData, people: BattleData, reading: InputOptions = DEFAULT_INPUT
) -> Leaderboard:
    """A judge's battles corrected by people's, on people's scale.

    Labels are matched by prompt, the two models in either order, and dimension where both have one. They must be a
    random draw of the judged matchups, or of whole prompts.

    Where no column says who decided, all battles are the judge's and all labels people's. Columns under other names
    (`reading`) are looked for in people's labels too.
    """
    from tiltyard.analysis.boards.people import KINDS, LENGTHS, by_judge, check_correctable, corrected_board

    if not isinstance(estimator, BradleyTerry):
        raise OptionError(
            "people's labels correct Bradley–Terry ratings only: leave them out, or use ",
            OptionValue("method", "bt"),
            ".",
        )
    battles, people = open_source(battles, reading), open_source(people, DEFAULT_INPUT)
    for source in (battles, people):
        source.need_every_battle("a correction by people's labels")
    check_correctable(estimator)
    named = {*battles.peek(replace(reading, default_source="llm-judge")).raw_columns, *(reading.map or {})}
    if reading.default_source is None and "source" not in named:
        reading = replace(reading, default_source="llm-judge")
    seen = battles.peek(reading)
    wanted = [name for name in MATCHED_BY if name in seen.columns]
    wanted += [name for name in (*LENGTHS, *KINDS) if name in {*seen.columns, *seen.raw_columns}]
    judged = read_for(by_judge(estimator), battles, reading, also=wanted)
    board = corrected_board(judged, _read_labels(people, judged, battles, reading), estimator)
    came_from = {**start_hashing(battles, reading)(), "people_sha256": files_sha256(people.parts)}
    board = with_dimensions(board, judged, estimator.selection)
    return replace(board, settings=structs.replace(board.settings, **came_from))


def _read_labels(people: Opened, judged: BattleTable, battles: Opened, reading: InputOptions) -> BattleTable:
    """People's labels: battles whose rows are people's unless they say otherwise, or a filled-in label sheet."""
    from tiltyard.analysis.boards.people import DRAW

    data = from_spreadsheet(people)
    if is_sheet(data):
        return read_sheet(data, judged, find_key(battles), reading.on_bad)
    seen = peek(data, default_source="human")
    mapped = {ours: theirs for ours, theirs in (reading.map or {}).items() if theirs in seen.raw_columns or ":" in ours}
    if mapped:
        seen = peek(data, default_source="human", map=mapped)
    draw = [name for name in DRAW if name in seen.raw_columns]
    return read_battles(
        data,
        columns=[*seen.columns, *draw],
        numbers=draw,
        default_source="human",
        on_bad=reading.on_bad,
        map=mapped or None,
    )


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
    from tiltyard.analysis.boards.pooling import check_poolable, pooled_boards

    poolable = check_poolable(estimator) if pool else None
    source = open_source(battles, reading)
    if pool:
        source.need_every_battle("pool")
    came_from = start_hashing(source, reading)
    table = read_for(estimator, source, reading, also=(column,))
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
            boards[value] = estimator.fit(part)
        except TooLarge:
            raise
        except (BattleError, RatingError) as error:
            failed(RatingError(f"{column} {value}: ", *error.args))
    origin = came_from()
    boards = {
        value: replace(board, settings=structs.replace(board.settings, **origin)) for value, board in boards.items()
    }
    if column != DIMENSION:
        boards = {value: with_dimensions(board, table, estimator.selection) for value, board in boards.items()}
    missing = lacking(source, estimator.selection)
    by_board = column == DIMENSION and {matchup.dimension for matchup in missing.matchups} <= boards.keys()
    for value, board in boards.items():
        part_of = missing.only(dimensions={value}) if by_board else missing
        boards[value] = with_missing_verdicts(board, part_of, "" if by_board else "of the whole run, ")
    if failures and not boards:
        raise failures[0]
    if leave_out is not None:
        for failure in failures:
            leave_out(RatingError("no board: ", *failure.args))
    return boards


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

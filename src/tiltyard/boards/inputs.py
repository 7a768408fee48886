"""How boards read battles: the columns that an estimator looks at, and where battles came from as a file says it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from threading import Thread
from typing import Any

from tiltyard.battles.battle import Source
from tiltyard.battles.fast import about_rows
from tiltyard.battles.frames import is_spark_frame
from tiltyard.battles.inputs import Part
from tiltyard.battles.missing_verdicts import MissingVerdicts, missing_verdicts
from tiltyard.battles.opened import BattleData, Opened
from tiltyard.battles.reading import Peek, peek, read_battles
from tiltyard.battles.table import BattleTable
from tiltyard.boards.bradley_terry import BradleyTerry
from tiltyard.boards.building import WinRate
from tiltyard.boards.leaderboard import Leaderboard
from tiltyard.boards.misfit import MOST_TIMES
from tiltyard.boards.preparation import SIDE_FLAGS, asked_clusters, known_clusters
from tiltyard.boards.selection import DIMENSION, Selection, dimensions_of, pooled_remark
from tiltyard.boards.sequential import Elo, Glicko2, PermutationElo
from tiltyard.errors import OptionError
from tiltyard.options import InputOptions

LARGE_BYTES = 50_000_000
"""Files of fewer bytes in all cannot hold very many battles: how many they hold is not asked."""

Estimator = BradleyTerry | Elo | PermutationElo | Glicko2 | WinRate
"""`BradleyTerry`, `Elo`, `PermutationElo`, `Glicko2` or `WinRate`."""


DEFAULT_INPUT = InputOptions()


def read_for(
    estimator: Estimator, battles: BattleData, reading: InputOptions, also: Collection[str] = ()
) -> BattleTable:
    """The battles with the columns that the estimator needs, counted while reading where the order does not matter."""
    opened = Opened.of(battles)
    if isinstance(opened.data, BattleTable):
        if reading.where is not None:
            raise OptionError("where filters a file or frame while it is read: give it to read_battles instead.")
        return read_battles(opened.data, map=reading.map, tie_band=reading.tie_band)
    seen = peek(opened, reading.format, reading.default_source, reading.map)
    clusters, columns = columns_for(estimator, seen, also)
    in_order = isinstance(estimator, Elo | PermutationElo | Glicko2)
    times = "timestamp" in columns and not in_order
    if times and not clusters and "timestamp" not in also and _are_very_many(opened.parts):
        times, columns = False, tuple(name for name in columns if name != "timestamp")
    return read_battles(
        opened,
        format=reading.format,
        columns=columns,
        where=reading.where,
        default_source=reading.default_source,
        on_bad=reading.on_bad,
        counted=not (clusters or in_order or times or getattr(estimator, "control", ())),
        hashed=tuple(column for column in clusters if column not in also),
        numbers=_controls(estimator),
        map=reading.map,
        tie_band=reading.tie_band,
    )


def _are_very_many(parts: Sequence[Part]) -> bool:
    """Whether files have so many battles that they are counted rather than held to look at their times."""
    return sum(part.path.stat().st_size for part in parts) > LARGE_BYTES and about_rows(parts) > MOST_TIMES


def is_remote(battles: BattleData, reading: InputOptions) -> bool:
    """Whether battles are counted where they are, by Spark."""
    return reading.engine == "spark" or is_spark_frame(Opened.of(battles).data)


def columns_for(estimator: Estimator, seen: Peek, also: Collection[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The cluster columns, and all columns to read; a column that is wanted but not there is an error."""
    columns = [name for name in estimator.selection.columns() if name != "inconsistent" or name in seen.columns]
    columns += [name for name in ("judge_model", DIMENSION, *SIDE_FLAGS) if name in seen.columns]
    clusters: tuple[str, ...] = ()
    if isinstance(estimator, BradleyTerry | PermutationElo) and estimator.ci != "none":
        asked = asked_clusters(estimator.cluster)
        clusters = known_clusters(seen.columns) if asked is None else asked
    counts = isinstance(estimator, WinRate) or (isinstance(estimator, BradleyTerry) and not estimator.reads_times)
    times = ["timestamp"] if "timestamp" in seen.columns and not counts else []
    wanted = dict.fromkeys([*columns, *clusters, *times, *_controls(estimator), *also])
    absent = wanted.keys() - {*seen.columns, *seen.raw_columns}
    if absent:
        raise OptionError(f"the battles have no column {min(absent)!r}; they have {', '.join(seen.raw_columns)}.")
    return clusters, tuple(wanted)


def _controls(estimator: Estimator) -> list[str]:
    """The columns of style that are controlled for: all must be numbers."""
    return [f"{name}_{side}" for name in getattr(estimator, "control", ()) for side in "ab"]


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
    settings = {**board.settings, "dimensions": list(names)}
    return replace(board, settings=settings, remarks=(*pooled_remark(names), *board.remarks))


def with_missing_verdicts(board: Leaderboard, missing: MissingVerdicts, of: str = "") -> Leaderboard:
    """The board, which says how many matchups (`of` what, if of more than the board) have no verdict."""
    if not missing:
        return board
    remarks = (*board.remarks, f"{of}{missing.sentence}: they are in no rating")
    return replace(board, remarks=remarks, details={**board.details, "missing": missing.to_dict()})


def start_hashing(battles: BattleData, reading: InputOptions = DEFAULT_INPUT) -> Callable[[], dict[str, Any]]:
    """Where battles came from, as written to a ratings file: the filter, the files' hash, our version.

    Files are hashed while battles are read and rated, which takes long enough for a large file.
    """
    from tiltyard import __version__

    remote = is_remote(battles, reading)
    parts = [] if remote else Opened.of(battles).parts  # by this thread: a pipe is read once, and can be interrupted
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
            **({"engine": "spark"} if remote else {}),
        }

    return origin


def files_sha256(parts: Sequence[Part]) -> str | None:
    """The SHA-256 of the bytes of files, one after the other; None for battles that came from memory."""
    digest = hashlib.sha256()
    for part in parts:
        with part.path.open("rb") as file:
            while chunk := file.read(1 << 20):
                digest.update(chunk)
    return digest.hexdigest() if parts else None

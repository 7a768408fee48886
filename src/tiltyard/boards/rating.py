"""`rate`: battles from anywhere in, a `Leaderboard` out; also battles that another engine (Spark) counts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, Literal

from tiltyard.battles.formats import LOG_FORMATS
from tiltyard.battles.layout import choose_format
from tiltyard.battles.missing_verdicts import MissingVerdicts
from tiltyard.battles.reading import BattleData, OnBad, make_options, peek_headers
from tiltyard.battles.spark import RemoteCounts
from tiltyard.battles.table import BattleTable
from tiltyard.boards.bradley_terry import BradleyTerry, Interval
from tiltyard.boards.estimator import check_choice
from tiltyard.boards.inputs import (
    AS_IT_IS,
    Engine,
    Estimator,
    InputOptions,
    columns_for,
    is_remote,
    lacking,
    origin,
    read_for,
    with_missing_verdicts,
)
from tiltyard.boards.leaderboard import Leaderboard
from tiltyard.boards.preparation import Ties
from tiltyard.boards.selection import BothBad, Inconsistent, Selection
from tiltyard.boards.sequential import Elo, Glicko2, PermutationElo
from tiltyard.boards.win_rate import WinRate
from tiltyard.errors import BattleError, OptionError, RatingError, TooLarge

Method = Literal["bt", "elo", "elo-perm", "glicko2", "winrate"]
"""`bt`, `elo`, `elo-perm`, `glicko2` or `winrate`."""

Countable = BradleyTerry | WinRate

METHODS: dict[str, type[Estimator]] = {
    "bt": BradleyTerry,
    "elo": Elo,
    "elo-perm": PermutationElo,
    "glicko2": Glicko2,
    "winrate": WinRate,
}
"""The estimator of each method: `bt`, `elo`, `elo-perm`, `glicko2`, `winrate`."""

IN_ORDER = ("elo", "elo-perm", "glicko2")
"""Methods that read battles one by one, in the order of `timestamp`."""


def rate(
    battles: BattleData,
    *,
    method: Method = "bt",
    ties: Ties | None = None,
    ci: Interval | Literal["sampling"] | None = None,
    level: float | None = None,
    rounds: int | None = None,
    cluster: str | None = None,
    anytime: bool | None = None,
    anchor: tuple[str, float] | None = None,
    control: Sequence[str] | None = None,
    slot: bool | None = None,
    shrink: bool | None = None,
    only_connected: bool | None = None,
    robustness: bool | None = None,
    misfit: bool | None = None,
    k: float | None = None,
    k_sweep: Sequence[float] | None = None,
    initial_rating: float | None = None,
    n_perms: int | None = None,
    seed: int | None = None,
    evaluated: str | None = None,
    source: str | None = None,
    dimension: str | None = None,
    both_bad: BothBad = "separate",
    inconsistent: Inconsistent = "tie",
    min_battles: float = 0,
    format: str = "auto",
    where: str | None = None,
    default_source: str | None = None,
    on_bad: OnBad = "error",
    engine: Engine = "duckdb",
    map: Mapping[str, str] | None = None,
    tie_band: float | None = None,
    people: BattleData | None = None,
) -> Leaderboard:
    """A leaderboard from battles: a path, a folder, a glob, a frame, an iterable of dicts, or a `BattleTable`.

    The estimators (`BradleyTerry`, `Elo`, `PermutationElo`, `Glicko2`, `WinRate`) say more about their own parameters.
    With `engine="spark"` (or a Spark DataFrame) the battles are counted where they are: paths may then be anything that
    Spark reads.

    Parameters:
        battles: A path, a folder, a glob, a frame, an iterable of dicts, or a `BattleTable`; see `read_battles`.
        method: `bt` (Bradley–Terry), `elo`, `elo-perm`, `glicko2` or `winrate`. An option that the method does not
            have is an error; an option left out (None) takes the estimator's default.
        ties: How ties are read: `davidson` (the default), `rao-kupper`, `half` or `drop`.
        ci: How intervals are made: `sandwich` (the default), `bootstrap`, `none`; for `elo-perm` `sampling` (the
            default) or `none`. They hold if results did not decide who met whom.
        level: Confidence level, by default 0.95.
        rounds: Bootstrap rounds, by default 1000.
        cluster: What makes battles dependent: `prompt`, `voter`, `prompt,voter`, or other columns by name; `auto` takes
            each of the two that is known, `none` treats every battle as independent.
        anytime: Whether ranges of places hold at every time at which one looks, for a board that is watched while
            battles come in; they are wider than those of a single look. By default they are for one look.
        anchor: A model and the rating it is pinned to; intervals are then those of the difference from it. Without
            one the mean is 1000.
        control: Style columns to control for: `len` reads `len_a` and `len_b`. Not for a feature that is part of what
            makes an answer good.
        slot: Whether to fit the advantage of the first side; None fits it together with controls, where people voted.
        shrink: Whether to pull ratings towards the mean, by as much as the spread of the battles' own results says:
            with few battles a model, plain ratings spread too wide. Intervals are then not for a model picked because
            it is extreme.
        only_connected: Where groups of models never met, rate the largest instead of failing.
        robustness: For each neighbouring pair, find how few battles would have to go for the two to swap.
        misfit: Whether to check how well Bradley–Terry describes the battles (by default yes); with False the times
            of battles are not read.
        k: Points at stake in a battle of Elo, by default 16.
        k_sweep: Further K of permutation Elo, on the same shuffles.
        initial_rating: Where every model starts in Elo, by default 1400.
        n_perms: Shuffles of permutation Elo, by default 500, and fewer where there are more than 100,000 battles.
        seed: Seed of bootstrap and shuffles.
        evaluated: The model under test: its entry has source `evaluated`.
        source: Only battles decided by `human` or `llm-judge`.
        dimension: Only battles of this dimension.
        both_bad: Battles in which both answers were bad: `separate` counts them beside the rating, `half` rates
            them as ties, `drop` leaves them out.
        inconsistent: Judgments whose two orders disagreed: rated as `tie`, or `drop`.
        min_battles: Models with fewer battles are left out.
        format: The format of the battles; `auto` recognises it by the header.
        where: A DuckDB expression over the source's own columns; only rows that satisfy it are read.
        default_source: Who decided where a row does not say: `human` or `llm-judge`.
        on_bad: `error` stops at the first bad row, `skip` leaves bad rows out and counts them.
        engine: What counts the battles: `duckdb` here, or `spark` where they are.
        map: Columns under other names, ours first: `{"winner": "choice", "prompt": "question"}`.
            `{"winner:0": "model_b"}` says what a word in the winner's column means.
        tie_band: For logs with scores: a tie is a difference of scores that is not larger. By default only equal
            scores tie.
        people: People's labels on a random draw of the matchups that a judge judged: battles, matched by prompt and
            the two models. The board is then on people's scale: the judge's ratings, corrected by the labels.
    """
    selection = Selection(
        source=source, dimension=dimension, both_bad=both_bad, inconsistent=inconsistent, min_battles=min_battles
    )
    estimator = make_estimator(
        method,
        selection,
        ties=ties,
        ci=ci,
        level=level,
        rounds=rounds,
        cluster=cluster,
        anytime=anytime,
        anchor=anchor,
        control=None if control is None else tuple(control),
        slot=slot,
        shrink=shrink,
        only_connected=only_connected,
        robustness=robustness,
        misfit=misfit,
        k=k,
        k_sweep=None if k_sweep is None else tuple(k_sweep),
        initial_rating=initial_rating,
        n_perms=n_perms,
        seed=seed,
        evaluated=evaluated,
    )
    reading = InputOptions(
        format=format,
        where=where,
        default_source=default_source,
        on_bad=on_bad,
        engine=engine,
        map=map,
        tie_band=tie_band,
    )
    if people is not None:
        from tiltyard.boards.people import rate_with_people

        board = rate_with_people(estimator, battles, people, reading)
    else:
        board = rate_with(estimator, battles, reading)
    return board if is_remote(battles, reading) else with_missing_verdicts(board, lacking(battles, selection))


def rate_with(
    estimator: Estimator,
    battles: BattleData,
    reading: InputOptions = AS_IT_IS,
    before: Callable[[BattleTable], None] | None = None,
) -> Leaderboard:
    """A leaderboard from an estimator that is built already; `before` is called with the battles that were read."""
    if is_remote(battles, reading):
        counted = _count(countable(estimator), battles, reading)
        board = fit_counted(countable(estimator), counted, counted.table)
    else:
        table = read_for(estimator, battles, reading)
        if before is not None:
            before(table)
        board = estimator.fit(table)
    return replace(board, settings={**board.settings, **origin(battles, reading)})


def rate_by(
    battles: BattleData,
    column: str,
    estimator: Estimator,
    reading: InputOptions = AS_IT_IS,
    *,
    pool: bool = False,
    leave_out: Callable[[str], None] | None = None,
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
        leave_out: Called with a sentence for each value whose battles cannot be rated; such a value has no board.
            None: an error.
    """
    from tiltyard.boards.pooling import check_poolable, pooled_boards

    poolable = check_poolable(estimator) if pool else None
    counted = None
    if is_remote(battles, reading):
        if pool:
            raise OptionError('pool needs the battles on this machine. Leave it out, or use engine="duckdb".')
        counted = _count(countable(estimator), battles, reading, also=(column,))
    table = read_for(estimator, battles, reading, also=(column,)) if counted is None else counted.table
    settings = origin(battles, reading)
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
            boards[value] = estimator.fit(part) if counted is None else fit_counted(countable(estimator), counted, part)
        except TooLarge:
            raise
        except (BattleError, RatingError) as error:
            failed(RatingError(f"{column} {value}: {error}"))
    boards = {value: replace(board, settings={**board.settings, **settings}) for value, board in boards.items()}
    if counted is None:
        boards = _say_missing(boards, column, lacking(battles, estimator.selection))
    if failures and not boards:
        raise failures[0]
    if leave_out is not None:
        for failure in failures:
            leave_out(f"no board: {failure}")
    return boards


def _say_missing(boards: dict[str, Leaderboard], column: str, missing: MissingVerdicts) -> dict[str, Leaderboard]:
    """Each board with its matchups without a verdict; with those of the whole run where some belong to no board."""
    if column == "dimension" and {one.dimension for one in missing.matchups} <= boards.keys():
        parts = {value: missing.only(dimensions={value}) for value in boards}
        return {value: with_missing_verdicts(board, parts[value]) for value, board in boards.items()}
    return {value: with_missing_verdicts(board, missing, "of the whole run, ") for value, board in boards.items()}


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
    return kind(**given, selection=selection)


def countable(estimator: BradleyTerry | Elo | PermutationElo | Glicko2 | WinRate) -> Countable:
    """The estimator, if counts are all it looks at; else an error that says what to use instead."""
    if not isinstance(estimator, BradleyTerry | WinRate):
        raise OptionError(
            f"{type(estimator).__name__} goes through the battles one by one, and the spark engine only counts them. "
            'Use method="bt" or method="winrate", or engine="duckdb".'
        )
    if isinstance(estimator, BradleyTerry) and estimator.control:
        raise OptionError(
            "style control looks at every battle, and the spark engine only counts them. "
            'Leave control out, or use engine="duckdb".'
        )
    if isinstance(estimator, BradleyTerry) and estimator.shrink:
        raise OptionError('shrink needs the battles on this machine. Leave it out, or use engine="duckdb".')
    return estimator


def check_interval(estimator: Countable, cluster: str | None) -> None:
    """Refuse the one interval that needs every cluster on this machine."""
    if isinstance(estimator, BradleyTerry) and estimator.ci == "bootstrap" and cluster is not None:
        raise OptionError(
            f'a bootstrap by {cluster} needs every {cluster} on one machine. Use ci="sandwich", which the spark engine '
            f'clusters by {cluster} too, or cluster="none", or engine="duckdb".'
        )


def _count(
    estimator: Countable, battles: BattleData, reading: InputOptions, also: Collection[str] = ()
) -> RemoteCounts:
    """The battles as Spark counts them, with the columns that the estimator looks at."""
    from tiltyard.battles.spark import count_on_spark, open_on_spark

    if reading.format in LOG_FORMATS or reading.tie_band is not None:
        raise OptionError('the spark engine reads rows of battles, not logs with scores. Use engine="duckdb".')
    rows = open_on_spark(battles)
    plain = make_options(reading.format, None, None, reading.default_source, True, (), reading.map)
    seen = peek_headers([(choose_format(rows.header, plain, rows.name), rows.header)])
    clusters, columns = columns_for(estimator, seen, also)
    cluster = clusters[0] if clusters else None
    check_interval(estimator, cluster)
    hashed = () if cluster is None or cluster in also else (cluster,)
    kept = [name for name in columns if name in also or name not in (*clusters, "timestamp")]
    options = make_options(reading.format, kept, reading.where, reading.default_source, True, hashed, reading.map)
    return count_on_spark(rows, options, on_bad=reading.on_bad)


def fit_counted(estimator: Countable, counted: RemoteCounts, part: BattleTable) -> Leaderboard:
    """The board of a part of the counted battles."""
    if isinstance(estimator, BradleyTerry):
        return estimator.fit(part, clusters=counted.clusters)
    return estimator.fit(part)

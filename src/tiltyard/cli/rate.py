"""`tiltyard rate`: battles in, a leaderboard out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tiltyard.cli.output import Format, as_options, choose_format, deliver, note, working
from tiltyard.cli.rate_options import (
    AnchorOption,
    AnytimeOption,
    BothBadOption,
    ByOption,
    CiOption,
    ClusterOption,
    CompareOption,
    ControlOption,
    DefaultSourceOption,
    DimensionOption,
    EngineOption,
    EvaluatedOption,
    FilesArgument,
    FormatOption,
    FromFormatOption,
    InconsistentOption,
    InitialRatingOption,
    KOption,
    KSweepOption,
    LevelOption,
    MapOption,
    MethodOption,
    MinBattlesOption,
    MisfitOption,
    NPermsOption,
    OnBadOption,
    OnlyConnectedOption,
    OutOption,
    PeopleOption,
    PlotOption,
    PoolOption,
    RobustnessOption,
    RoundsOption,
    SeedOption,
    ShrinkOption,
    SlotOption,
    SourceOption,
    TieBandOption,
    TiesOption,
    WhereOption,
    read_anchor,
    read_map_options,
    style_columns,
)
from tiltyard.errors import OptionError

LONG_SECONDS = 5.0
"""What takes longer is announced."""

if TYPE_CHECKING:
    from tiltyard.battles import BattleTable
    from tiltyard.boards import InputOptions, Leaderboard
    from tiltyard.boards.inputs import Estimator


def rate_command(
    files: FilesArgument,
    method: MethodOption = "bt",
    ties: TiesOption = None,
    both_bad: BothBadOption = "separate",
    inconsistent: InconsistentOption = "tie",
    evaluated: EvaluatedOption = None,
    people: PeopleOption = None,
    anchor: AnchorOption = None,
    control: ControlOption = None,
    slot: SlotOption = None,
    shrink: ShrinkOption = False,
    only_connected: OnlyConnectedOption = False,
    robustness: RobustnessOption = False,
    misfit: MisfitOption = None,
    ci: CiOption = None,
    rounds: RoundsOption = None,
    level: LevelOption = None,
    cluster: ClusterOption = None,
    anytime: AnytimeOption = False,
    seed: SeedOption = None,
    by: ByOption = None,
    pool: PoolOption = False,
    source: SourceOption = None,
    dimension: DimensionOption = None,
    where: WhereOption = None,
    min_battles: MinBattlesOption = 0,
    from_format: FromFormatOption = "auto",
    map: MapOption = None,
    tie_band: TieBandOption = None,
    default_source: DefaultSourceOption = None,
    on_bad: OnBadOption = "error",
    engine: EngineOption = "duckdb",
    k: KOption = None,
    initial_rating: InitialRatingOption = None,
    n_perms: NPermsOption = None,
    k_sweep: KSweepOption = None,
    format: FormatOption = None,
    compare: CompareOption = None,
    out: OutOption = None,
    plot: PlotOption = None,
) -> None:
    """Rate models from files of battles: battles in, a leaderboard with intervals out."""
    from tiltyard.boards import InputOptions, Selection, make_estimator
    from tiltyard.boards.charts import SUFFIXES, check_path

    if pool and by is None:
        raise OptionError("--pool pulls the boards of --by together: name the column, such as --by language --pool.")
    if people is not None and by is not None:
        raise OptionError("--people corrects one board: choose its battles with --dimension or --where, without --by.")
    drawn = out if out is not None and format is None and out.suffix.lower() in SUFFIXES else None
    for picture in (plot, drawn):
        if picture is not None:
            check_path(picture)
    shape = choose_format(format, None if drawn is not None else out)
    selection = Selection(
        source=source, dimension=dimension, both_bad=both_bad, inconsistent=inconsistent, min_battles=min_battles
    )
    options = {
        "ties": ties,
        "ci": ci,
        "level": level,
        "rounds": rounds,
        "cluster": cluster,
        "anytime": anytime or None,
        "anchor": None if anchor is None else read_anchor(anchor),
        "control": style_columns(control),
        "slot": slot,
        "shrink": shrink or None,
        "only_connected": only_connected or None,
        "robustness": robustness or None,
        "misfit": misfit,
        "k": k,
        "k_sweep": None if k_sweep is None else _numbers(k_sweep),
        "initial_rating": initial_rating,
        "n_perms": n_perms,
        "seed": seed,
        "evaluated": evaluated,
    }
    estimator = make_estimator(method, selection, **options)
    reading = InputOptions(
        format=from_format,
        where=where,
        default_source=default_source,
        on_bad=on_bad,
        engine=engine,
        map=read_map_options(map),
        tie_band=tie_band,
    )
    with working("rating …"):
        boards = _boards(estimator, files, reading, people=people, by=by, pool=pool)
    if compare is not None:
        boards = {value: _compared(board, compare) for value, board in boards.items()}
    if drawn is None:
        deliver(_text(boards, by, shape), out, exact=shape in ("csv", "md"))
    for picture in (drawn, plot):
        if picture is not None:
            _plot(boards, picture)


def _boards(
    estimator: Estimator, files: list[str], reading: InputOptions, *, people: str | None, by: str | None, pool: bool
) -> dict[str, Leaderboard]:
    """One board, under an empty name, or one for each value of a column."""
    from tiltyard.boards import rate_by

    if by is None:
        return {"": _rated(estimator, files, people, reading)}
    return rate_by(files, by, estimator, reading, pool=pool, leave_out=lambda text: note(as_options(text)))


def _rated(estimator: Estimator, files: list[str], people: str | None, reading: InputOptions) -> Leaderboard:
    """The board of battles, with people's labels a corrected one."""
    from tiltyard.boards.inputs import is_remote, lacking, with_missing_verdicts
    from tiltyard.boards.rating import rate_with

    if people is None:
        board = rate_with(estimator, files, reading, lambda table: _say_cost(estimator, table))
    else:
        from tiltyard.boards.people import rate_with_people

        board = rate_with_people(estimator, files, people, reading)
    if is_remote(files, reading):
        return board
    return with_missing_verdicts(board, lacking(files, estimator.selection))


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


def _numbers(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise OptionError(f"--k-sweep is {text!r}: expected numbers with commas, such as 1,4,8,16,32.") from None


def _compared(board: Leaderboard, path: Path) -> Leaderboard:
    """The board with how it differs from a ratings file."""
    from dataclasses import replace

    from tiltyard.boards import EloReport, compare_boards

    comparison = {"with": str(path), **compare_boards(EloReport.read(path), board).to_dict()}
    return replace(board, details={**board.details, "comparison": comparison})


def _text(boards: dict[str, Leaderboard], by: str | None, format: Format) -> str:
    """One board, or one per value of a column, in a format."""
    from tiltyard.boards import text
    from tiltyard.boards.leaderboard import EloReport

    if by is None:
        if format == "json":
            return boards[""].to_json()
        render = {"table": text.as_table, "csv": text.as_csv, "md": text.as_markdown}
        return render[format](boards[""])
    if format == "json":
        reports = {value: EloReport.of(board).to_dict() for value, board in boards.items()}
        return text.json_text({"by": by, "boards": reports})
    if format == "csv":
        return text.boards_as_csv(by, boards)
    if format == "md":
        parts = [f"## {by}: {value}\n\n{text.as_markdown(board)}" for value, board in boards.items()]
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


def _plot(boards: dict[str, Leaderboard], path: Path) -> None:
    """One chart, or one file per value of the column."""
    for value, board in boards.items():
        target = path if not value else path.with_stem(f"{path.stem}-{_file_name(value)}")
        board.plot(target)
        note(f"wrote {target}")


def _file_name(value: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in value)

"""A leaderboard as text: a table for people, Markdown, LaTeX, CSV, JSON, HTML."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter

import msgspec

from tiltyard.analysis.boards.leaderboard import Leaderboard, RatingEntry
from tiltyard.analysis.boards.record import BoardComparison, BoardSettings, IntervalFacts
from tiltyard.options import check_choice
from tiltyard.render import Cell, Kind, Table, TableColumn, markdown_text

METHOD_NAMES = {
    "bt": "Bradley–Terry",
    "elo": "Elo, in order",
    "elo-perm": "Elo, averaged over shuffles",
    "glicko2": "Glicko-2",
    "winrate": "Average win rate",
}
TIE_NAMES = {
    "davidson": "ties by Davidson",
    "rao-kupper": "ties by Rao–Kupper",
    "half": "ties as half-wins",
    "drop": "ties left out",
}
CLUSTER_NAMES = {"question_id": "prompt"}
FORMATS = ("table", "json", "csv", "md", "latex")
STRIP_WIDTH = 25
MARKS = "†‡§¶"


def percent(level: float) -> str:
    """A level as a reader knows it: 95 %, 98.9 %."""
    return f"{round(100 * level, 1):g} %"


def headline(board: Leaderboard) -> str:
    """One line: method, how much data, what the interval is."""
    settings = board.settings
    parts = [
        METHOD_NAMES.get(str(settings.method), str(settings.method)),
        f"{board.n_battles:,.0f} battles",
        f"{len(board)} models",
    ]
    if settings.tie_model:
        parts.append(TIE_NAMES[settings.tie_model])
    if board.details.people:
        parts.append(f"corrected by {board.details.people.labels:,} labels of people")
    return " · ".join([*parts, interval_name(board)])


def interval_name(board: Leaderboard) -> str:
    """What the interval column holds, in words."""
    interval = board.settings.interval
    if not interval or not interval.level:
        return "no intervals"
    level = percent(interval.level)
    if interval.kind == "deviation":
        return f"{level} from the Glicko deviation"
    unit = "by " + " and ".join(CLUSTER_NAMES.get(name, name) for name in (interval.cluster or "battle").split(","))
    name = {"sandwich": "intervals", "bootstrap": "bootstrap intervals", "sampling": "sampling intervals"}
    return f"{level} {name[interval.kind]} {unit}"


def interval_head(settings: BoardSettings) -> str:
    """The head of the column of intervals."""
    level = settings.interval and settings.interval.level
    return f"{percent(level)} interval" if level else "interval"


def render(board: Leaderboard, format: str) -> str:
    """The board as `table`, `json`, `csv`, `md` or `latex`."""
    check_choice("format", format, FORMATS)
    if format == "json":
        return board.to_json()
    if format == "csv":
        return Table.of_records(entry.to_dict() for entry in board).csv()
    if format == "latex":
        return board_table(board).latex(headline(board), footnotes(board))
    return as_table(board) if format == "table" else as_markdown(board)


def as_table(board: Leaderboard) -> str:
    """The table for people: rank interval, rating, interval, a picture of it, battles, and what they were."""
    lines = board_table(board, strip=True).text()
    return "\n".join([headline(board), "", *lines, lines[1], *footnotes(board)])


def as_markdown(board: Leaderboard) -> str:
    """The table as Markdown."""
    notes = [f"- {markdown_text(note)}" for note in footnotes(board)]
    return "\n".join([markdown_text(headline(board)), "", board_table(board).markdown(), "", *notes]) + "\n"


def as_html(board: Leaderboard) -> str:
    """The table as HTML, for notebooks."""
    return board_table(board).html(headline(board), footnotes(board))


def boards_as_csv(column: str, boards: Mapping[str, Leaderboard]) -> str:
    """Several boards in one CSV, told apart by the value of a column."""
    return Table.of_records(
        {column: value, **entry.to_dict()} for value, board in boards.items() for entry in board
    ).csv()


class BoardColumn(msgspec.Struct, frozen=True):
    """A column that only some boards have: its name in files, what it means, and its head where people see it.

    `is_open` says that a file may have null there.
    """

    name: str
    meaning: str = ""
    head: str = ""
    kind: Kind = "figure"
    is_open: bool = False


EXTRA_COLUMNS = (
    BoardColumn("bootstrap_mean", "Mean of the bootstrap rounds."),
    BoardColumn("sem", "Of elo-perm, standard error over shuffles: shuffle error only.", "± SEM"),
    BoardColumn("ci95_low", "Mean − 1.96 SEM: shuffle error only."),
    BoardColumn("ci95_high", "Mean + 1.96 SEM: shuffle error only."),
    BoardColumn("sampling_low", "Of elo-perm, lower end of the sampling interval over prompts.", is_open=True),
    BoardColumn("sampling_high", is_open=True),
    BoardColumn("deviation", "Of glicko2, RD.", "deviation"),
    BoardColumn("volatility", "Of glicko2."),
    BoardColumn("conservative", "Of glicko2, rating − 2 deviations."),
    BoardColumn("rating_without_control", "The rating when style is not controlled for.", "uncontrolled"),
    BoardColumn("rating_over_all", "The rating over all values of the column, where boards are pooled.", "over all"),
    BoardColumn(
        "judge_rating", "The rating by the judge's battles alone, where people's labels correct it.", "judge alone"
    ),
    BoardColumn(
        *("labels", "Labelled matchups that it is in; 0: on the judge's scale, not corrected.", "labels", "count")
    ),
    BoardColumn("people_only_rating", "The rating by people's labels alone."),
    BoardColumn("people_only_low", is_open=True),
    BoardColumn("people_only_high", is_open=True),
    BoardColumn(
        "battles_to_swap_with_next",
        "The fewest battles whose removal makes the next model level; null for the last.",
        *("to swap", "count", True),
    ),
    BoardColumn("overall", "Of winrate, share of all its battles won.", "overall"),
    BoardColumn("score", "Of winrate, wins plus half the ties."),
    BoardColumn(
        "judge_scale_rating",
        "Of the new model of a placement, fixed or calibrated: its rating in the joint fit, on the judge's scale.",
    ),
    BoardColumn("judge_scale_ci_low", "Sampling error only.", is_open=True),
    BoardColumn("judge_scale_ci_high", is_open=True),
)
"""The columns that only some boards have; those with a head are in printed tables, in this order."""


def board_table(board: Leaderboard, *, strip: bool = False) -> Table:
    """The table that people see, with a small drawing of each interval if asked."""
    digits = 3 if board.settings.method == "winrate" else 1
    has_interval = any(entry.ci_low is not None or entry.ci_high is not None for entry in board)
    marks, strips = _marks(board), _strips(board) if strip and has_interval else []
    columns = [TableColumn("rank"), TableColumn("model"), TableColumn("rating", "figure", digits)]
    fields: list[Callable[[RatingEntry], Cell]] = [
        rank_text,
        lambda entry: entry.model + marks.get(entry.note or "", ""),
        lambda entry: entry.rating,
    ]
    if has_interval:
        columns.append(TableColumn(interval_head(board.settings), left=False))
        fields.append(lambda entry: interval_text(entry, digits))
    for extra in EXTRA_COLUMNS:
        if extra.head and any(entry.extra.get(extra.name) is not None for entry in board):
            columns.append(TableColumn(extra.head, extra.kind, max(digits, 2) if extra.name == "sem" else digits))
            fields.append(lambda entry, name=extra.name: entry.extra.get(name))  # type: ignore[misc]
    if strips:
        columns.append(TableColumn("", left=True))
        fields.append(lambda entry: strips[board.entries.index(entry)])
    counts = {"battles": "n_battles", "W": "wins", "L": "losses", "T": "ties"}
    if any(entry.both_bad for entry in board):
        counts["both bad"] = "both_bad"
    for title, name in counts.items():
        columns.append(TableColumn(title, "count"))
        fields.append(attrgetter(name))
    return Table(columns, [[field(entry) for field in fields] for entry in board])


def rank_text(entry: RatingEntry) -> str:
    """`3`, or `2–5` where the data allow more than one place."""
    if entry.rank_low is None or entry.rank_high is None:
        return str(entry.rank)
    return str(entry.rank_low) if entry.rank_low == entry.rank_high else f"{entry.rank_low}–{entry.rank_high}"


def interval_text(entry: RatingEntry, digits: int = 1) -> str:
    """`1012.3 – 1050.1`, with an ellipsis on an open side."""
    low = "…" if entry.ci_low is None else f"{entry.ci_low:.{digits}f}"
    high = "…" if entry.ci_high is None else f"{entry.ci_high:.{digits}f}"
    return f"{low} – {high}"


def _marks(board: Leaderboard) -> dict[str, str]:
    notes = dict.fromkeys(entry.note for entry in board if entry.note)
    return {note: " " + MARKS[i % len(MARKS)] * (1 + i // len(MARKS)) for i, note in enumerate(notes)}


def _strips(board: Leaderboard) -> list[str]:
    """A small drawing of each interval, all on one scale: the dot is the rating, the line its interval.

    The scale spans the ratings and a third more on each side; an interval that leaves it ends in an arrow head.
    """
    ratings = [entry.rating for entry in board]
    ends = [value for entry in board for value in (entry.rating, entry.ci_low, entry.ci_high) if value is not None]
    room = (max(ratings) - min(ratings)) / 3.0 or 1.0
    low, high = max(min(ends), min(ratings) - room), min(max(ends), max(ratings) + room)
    step = (high - low) / (STRIP_WIDTH - 1) or 1.0
    last = STRIP_WIDTH - 1

    def place(value: float | None, if_open: int) -> int:
        return if_open if value is None else round((value - low) / step)

    strips = []
    for entry in board:
        start, end = place(entry.ci_low, -1), place(entry.ci_high, last + 1)
        cells = ["─" if start <= i <= end else " " for i in range(STRIP_WIDTH)]
        if start < 0:
            cells[0] = "‹"
        if end > last:
            cells[last] = "›"
        cells[place(entry.rating, 0)] = "●"
        strips.append("".join(cells))
    return strips


NOT_FOR_PICKED = "the interval of the best is not for a model picked because it is the best"


def footnotes(board: Leaderboard) -> list[str]:
    """What a reader has to know to understand the table."""
    notes = []
    if any(entry.rank_low is not None for entry in board):
        interval = board.settings.interval or IntervalFacts(kind="none")
        sure = f"{percent(interval.level)} " if interval.level else ""
        if board.settings.rounds:
            notes.append(f"rank: {board.settings.rounds.ranks}")
        elif interval.anytime:
            notes.append(f"rank: {sure}range of places, valid at any time you look (the intervals are for one look)")
        else:
            assumed = "assumes that results did not decide who met whom"
            notes.append(f"rank: {sure}range of places, adjusted for all comparisons; {assumed}")
    if sum(entry.ci_low is not None and entry.ci_high is not None for entry in board) > 2:
        notes.append(NOT_FOR_PICKED)
    if any("battles_to_swap_with_next" in entry.extra for entry in board):
        notes.append("to swap: removing as few as this many battles puts the next model level or ahead")
    notes += [f"{mark.strip()} {note}" for note, mark in _marks(board).items()]
    for name, effect in (board.details.coefficients or {}).items():
        ends = "" if effect.ci_low is None else f" ({effect.ci_low:+.1f} … {effect.ci_high:+.1f})"
        notes.append(
            f"{name}: {effect.points:+.1f} points{ends}" + ("" if name == "first slot" else " per typical difference")
        )
    if board.details.comparison:
        notes += _comparison_notes(board.details.comparison)
    notes += board.remarks
    if board.left_out:
        notes.append("left out: " + "; ".join(f"{count:,.0f} × {reason}" for reason, count in board.left_out.items()))
    return notes


def _comparison_notes(comparison: BoardComparison) -> list[str]:
    moved = [change for change in comparison.changes if change.places_gained]
    moved.sort(key=lambda change: -abs(change.places_gained))
    moves = ", ".join(f"{change.model} {change.rank_before}→{change.rank_after}" for change in moved[:6])
    more = f" and {len(moved) - 6} more" if len(moved) > 6 else ""
    notes = [
        f"against {comparison.with_}: Kendall τ {comparison.kendall_tau:.3f}, "
        f"Spearman ρ {comparison.spearman_rho:.3f}; {f'moved: {moves}{more}' if moved else 'nobody moved'}"
    ]
    for models, where in ((comparison.only_before, "only there"), (comparison.only_after, "only here")):
        if models:
            notes.append(f"{where}: {', '.join(models)}")
    return notes

"""The leaderboard as values: the rows that match a query, and the same as CSV and JSON.

In phase 1 the new figures are computed but not public: pages leave them out, files and the JSON interface say null.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from tiltyard.arena import (
    MODEL_VOTES,
    SHADOW_PHASE,
    Badge,
    BoardIntervals,
    BoardRow,
    BoardVerdict,
    LiveBoard,
    OfflineBoard,
    Publication,
    Standing,
    board_verdict,
)
from tiltyard.arena.study import PartBoard, Snapshot
from tiltyard.arena.study.verdict import verdict
from tiltyard.render import Html, Scale
from tiltyard.site.board_columns import CATEGORY_COLUMNS, COLUMNS, PART_COLUMNS, BoardLine
from tiltyard.site.board_query import NOT_THERE, BoardQuery, as_public
from tiltyard.site.rendering import environment

Row = TypeVar("Row", bound=msgspec.Struct)

LEGACY_UNTIL = 3
"""The last phase in which legacy Elo is shown."""

IN_SHADOW = frozenset(
    (
        *("rank_score", "rating", "deviation", "confidence", "coverage", "stability", "place_best", "place_worst"),
        *("interval_note", "conservative", "volatility", "badge", "official_top", "prompt_coverage", "pair_coverage"),
        *("conservative_rank", "rank_low", "rank_high", "outside_range"),
        *("place_outside_range", "interval_low", "interval_high"),
    )
)
"""What a row says from phase 2 on."""

LEGACY = frozenset(("legacy_elo", "legacy_rank"))
"""What a row says until phase 3."""


def board_lines(snapshot: Snapshot, query: BoardQuery, part: PartBoard | None = None) -> tuple[BoardLine, ...]:
    """The rows that match a query, in its order; of a part of the votes, those with a rating there."""
    query = as_public(query, snapshot.board.phase)
    whole = query.whole
    offline = snapshot.study.offline if whole else part.offline if part else None
    places = {row.model: row for row in offline.rows} if offline else {}
    then = {} if part is None else {row.model: row for row in part.then}
    facts = {model.model: model for model in snapshot.models}
    scale = None if snapshot.board.phase == SHADOW_PHASE else _scale(snapshot, offline)
    lines = [
        BoardLine(
            row,
            facts[row.model],
            places.get(row.model),
            snapshot.study.moved.get(row.model) if whole else None,
            phase=snapshot.board.phase,
            anytime=offline is not None and offline.anytime,
            then=then.get(row.model),
            whole=whole,
            scale=scale,
        )
        for row in snapshot.board.rows
        if whole or row.model in (then or places)
    ]
    return _in_order([line for line in lines if _answers(line, query)], query)


def _scale(snapshot: Snapshot, offline: OfflineBoard | None) -> Scale | None:
    """A scale for the intervals of all models with enough votes; the same until the next study."""
    rows = snapshot.board.rows
    shown = {row.model for row in rows if row.badge is not Badge.PROVISIONAL} or {row.model for row in rows}
    known = [row for row in (offline.rows if offline else ()) if row.votes >= MODEL_VOTES and row.model in shown]
    ends = [end for row in known for end in (row.rating, row.low, row.high) if end is not None]
    printed = {row.model: row.rating_shown for row in rows}
    return Scale.of([*ends, *(printed[row.model] for row in known if row.model in printed)], 4) if ends else None


def board_sentence(snapshot: Snapshot, query: BoardQuery, part: PartBoard | None = None) -> BoardVerdict:
    """The board of a query in one sentence; filters by name do not change it."""
    query = as_public(query, snapshot.board.phase)
    if query.whole:
        return board_verdict(snapshot.board)
    if part is None:
        return BoardVerdict("There are no votes in this part.", None, too_few_votes=True)
    votes = replace(query.unfiltered, sort="", direction="", columns="")
    standings = []
    for line in board_lines(snapshot, votes, part):  # with few votes in the part a model is provisional there
        provisional = line.provisional or (line.votes or 0) < MODEL_VOTES
        low, high = line.places or (None, None)
        standings.append(Standing(line.row.model, line.row.display_name, line.place or 0, low, high, provisional))
    return verdict(standings)


def withholds(snapshot: Snapshot) -> bool:
    """Whether there are so few votes that the board shows no ranks or ratings; nor does any other page then."""
    return board_verdict(snapshot.board).too_few_votes


def part_words(query: BoardQuery) -> str:
    """Which votes a query asks for, in words: `prompts about “maths”, up to 2026-11-01`."""
    message = (
        ("category", query.category, f"on prompts about “{query.category}”"),
        ("language", query.language, f"on prompts in {query.language}"),
        ("kind", query.kind, f"on answers of the kind {query.kind}"),
    )
    missing = "of a {} that this arena does not have"
    parts = [missing.format(name) if value == NOT_THERE else words for name, value, words in message if value]
    if query.on:
        parts.append(f"up to the end of {query.on}")
    return ", ".join(parts)


def hidden_figures(phase: int) -> frozenset[str]:
    """What a phase does not show of a row: null there, and keys stay, so that programs need not change."""
    return (IN_SHADOW if phase == SHADOW_PHASE else frozenset()) | (LEGACY if phase > LEGACY_UNTIL else frozenset())


def public_row(row: Row, phase: int) -> Row:
    """A row as far as its phase makes it public."""
    return replace(row, **dict.fromkeys(hidden_figures(phase).intersection(row.__struct_fields__)))


def public_board(board: LiveBoard) -> LiveBoard:
    """The board, as far as its phase makes it public: in phase 1 without status, rules and top tier."""
    rows = tuple(public_row(row, board.phase) for row in board.rows)
    if board.phase > SHADOW_PHASE:
        return replace(board, rows=rows)
    hidden: dict[str, Any] = {"status": None, "rules": ()}
    return replace(board, publication=replace(board.publication, **hidden), official_top_tier=(), rows=rows)


def _answers(line: BoardLine, query: BoardQuery) -> bool:
    facts = line.facts
    names = f"{facts.display_name}\n{facts.model}\n{facts.provider}".casefold()
    return (
        all(word in names for word in query.q.casefold().split())
        and query.provider in ("", facts.provider)
        and query.licence in ("", facts.licence)
        and query.stability.casefold() in ("", line.row.badge.value.casefold())
    )


def _in_order(lines: list[BoardLine], query: BoardQuery) -> tuple[BoardLine, ...]:
    """Rows sorted as requested; equal ones in the official order, those without the value at the end."""
    column = COLUMNS[query.sort if query.sort in (COLUMNS if query.whole else CATEGORY_COLUMNS) else "rank"]
    known = [line for line in lines if column.key(line) is not None]
    known.sort(key=column.key, reverse=(query.direction or column.first) == "desc")  # type: ignore[arg-type]
    return (*known, *(line for line in lines if column.key(line) is None))


class SiteModel(msgspec.Struct, frozen=True, kw_only=True):
    """What every page says about a model."""

    place: int
    place_best: int | None
    """Best place of its rank interval (Bradley–Terry)."""
    place_worst: int | None
    model: str
    display_name: str
    """Name on the site."""
    provider: str
    licence: str


class SiteRow(SiteModel, frozen=True, kw_only=True):
    """A model on the page of the whole board."""

    stability: str
    """Badge."""
    rank_score: float | None
    """Conservative score."""
    rating: float | None
    """Glicko-2 rating."""
    deviation: float | None
    """RD."""
    legacy_elo: float | None
    confidence: float | None
    """0 to 100."""
    coverage: float | None
    """Prompt coverage."""
    consistency: float | None
    """0 to 100."""
    spread: float | None
    average_score: float | None
    wins: int
    losses: int
    ties: int
    votes: int
    both_bad: int
    places_moved_24h: int | None
    """Places gained (positive) in a day."""
    interval_note: str | None
    """Why its interval is rough, open or missing."""
    rating_shown: float | None
    """The number of the Rating column."""
    interval_low: float | None
    """Lower end of the 95 % interval of the *raw* rating: of `rating`, or of `legacy_elo` in phase 2. It is not an
    interval of `rating_shown`, which from phase 3 on is two deviations lower and often below it."""
    interval_high: float | None
    place_outside_range: bool | None
    """Whether its place is outside the range found, which was widened."""
    quality_floor: float | None
    """1 − both-bad rate."""
    pair_coverage: float | None
    """Contenders only."""
    price: float | None
    """US dollars for a million tokens of output, as stated."""
    speed: float | None
    """Tokens of output per second, as stated."""


class PartRow(SiteModel, frozen=True, kw_only=True):
    """A model by a part of the votes, by Bradley–Terry."""

    stability: str
    """Badge on the whole board."""
    bradley_terry_rating: float
    """On the board's scale."""
    interval_low: float | None
    interval_high: float | None
    rated_votes: int
    """A, B and TIE votes."""
    overall_place: int
    """Official place on the whole board."""
    interval_note: str | None
    """Why its interval is rough, open or missing."""


class DayRow(SiteModel, frozen=True, kw_only=True):
    """A model on an earlier day, by the votes that count now."""

    rating_shown: float
    """The number of the Rating column on that day."""
    rating: float
    """The rating behind it."""
    deviation: float | None
    """RD; null while Elo orders the board."""
    interval_low: float | None
    interval_high: float | None
    votes: int
    """Counted up to then."""
    place_now: int
    """Official place today."""


class SiteBoard(msgspec.Struct, frozen=True, kw_only=True):
    """What every page says about its board."""

    seq: int
    """Events of the log that it includes."""
    head: str
    """The latest head that was published, `HASH@N`; empty before the first."""
    at: int
    """Time of the last event (microseconds)."""
    phase: int
    """Of the rollout."""
    ordered_by: str
    """`conservative` or `legacy_elo`; `bradley_terry` for a part of the votes."""
    votes: int
    """Counted votes."""
    verdict: BoardVerdict
    publication: Publication
    official_top_tier: tuple[str, ...]
    """Its models, best first."""
    intervals: BoardIntervals | None
    query: dict[str, str]
    """What was asked for."""


class LeaderboardFile(SiteBoard, frozen=True, kw_only=True):
    """`/leaderboard.json`; `/leaderboard.csv` has `rows[]` as columns. Both take the page's search and filters."""

    rows: tuple[SiteRow, ...]


class PartFile(SiteBoard, frozen=True, kw_only=True):
    """`/leaderboard.json` with `?category=…`, `?language=…`, `?kind=…` or `?view=style`, together or alone."""

    rows: tuple[PartRow, ...]
    all_votes: int
    """Votes of the whole board; `votes` are those of the part."""


class DayFile(PartFile, frozen=True, kw_only=True):
    """`/leaderboard.json?on=2026-11-01`: the end of that day (UTC)."""

    rows: tuple[DayRow, ...]  # type: ignore[assignment]


class LiveBoardAnswer(LiveBoard, frozen=True, kw_only=True):
    """`GET /api/v1/leaderboard`: the board, with what the page shows beside each model."""

    rows: tuple[dict[str, Any], ...]  # type: ignore[assignment]
    """The fields of a [board row](#board-row), and those of a row of the [leaderboard files](#leaderboard-files)."""
    head: str
    """The latest head that was published, `HASH@N`; empty before the first."""
    verdict: BoardVerdict
    """The board in words."""
    intervals: BoardIntervals | None
    """What the intervals rest on."""


SHARED = [name for name in SiteRow.__struct_fields__ if name in BoardRow.__struct_fields__]
"""What a row of the site says as the row of the board does."""


def _about(line: BoardLine) -> dict[str, Any]:
    """Where a model stands on a board, and its interval there."""
    (low, high), offline = line.places or (None, None), line.offline
    return {
        "place": line.place,
        "place_best": low,
        "place_worst": high,
        **{name: getattr(line.facts, name) for name in ("model", "display_name", "provider", "licence")},
        "interval_low": None if offline is None else offline.low,
        "interval_high": None if offline is None else offline.high,
    }


def line_values(line: BoardLine) -> SiteRow | PartRow | DayRow:
    """A line of a board, as far as it is public."""
    if not line.whole:
        return _part_values(line)
    row = SiteRow(
        **_about(line) | {name: getattr(line.row, name) for name in SHARED},
        stability=line.row.badge.value,
        rank_score=line.row.conservative,
        coverage=line.row.prompt_coverage,
        places_moved_24h=None if line.moved is None else line.moved.places,
        interval_note=None if line.offline is None else line.offline.note,
        place_outside_range=line.row.outside_range,
        price=line.facts.price,
        speed=line.facts.speed,
    )
    return public_row(row, line.phase)


def _part_values(line: BoardLine) -> PartRow | DayRow:
    shared, offline = _about(line), line.offline
    if line.then is not None:
        then = {name: getattr(line.then, name) for name in ("rating_shown", "rating", "deviation", "votes")}
        return DayRow(**shared, **then, place_now=line.row.rank)
    assert offline is not None
    return PartRow(
        **shared,
        stability=line.row.badge.value,
        bradley_terry_rating=offline.rating,
        rated_votes=offline.votes,
        overall_place=line.row.rank,
        interval_note=offline.note,
    )


def _about_board(snapshot: Snapshot, offline: OfflineBoard | None) -> dict[str, Any]:
    """What every answer says beside the rows; in phase 1, and before there are any, it has no intervals."""
    has_intervals = offline is not None and snapshot.board.phase > SHADOW_PHASE
    return {"head": snapshot.head, "intervals": offline.intervals if offline and has_intervals else None}


def board_values(
    snapshot: Snapshot, query: BoardQuery, part: PartBoard | None = None
) -> LeaderboardFile | PartFile | DayFile:
    """What the page of a query shows: its position in the log, the status, the lines."""
    query, board = as_public(query, snapshot.board.phase), public_board(snapshot.board)
    values: dict[str, Any] = {
        **_about_board(snapshot, snapshot.study.offline if query.whole else part.offline if part else None),
        "seq": snapshot.seq,
        "at": snapshot.at,
        "phase": board.phase,
        "ordered_by": board.ordered_by if query.whole or query.part.is_dated else "bradley_terry",
        "votes": board.votes if query.whole else part.votes if part else 0,
        "verdict": board_sentence(snapshot, query, part),
        "publication": board.publication,
        "official_top_tier": board.official_top_tier,
        "query": query.asked,
        "rows": tuple(map(line_values, board_lines(snapshot, query, part))),
    }
    if query.whole:
        return LeaderboardFile(**values)
    return (DayFile if query.part.is_dated else PartFile)(**values, all_votes=board.votes)


def whole_board_values(snapshot: Snapshot) -> LiveBoardAnswer:
    """The whole board for programs: every field of its rows, and what the page adds to them."""
    board = public_board(snapshot.board)
    pairs = zip(board.rows, board_lines(snapshot, BoardQuery()), strict=True)
    rows = tuple({**msgspec.to_builtins(row), **msgspec.to_builtins(line_values(line))} for row, line in pairs)
    return LiveBoardAnswer(
        **msgspec.structs.asdict(board) | {"rows": rows},
        **_about_board(snapshot, snapshot.study.offline),
        verdict=board_verdict(snapshot.board),
    )


def board_csv(snapshot: Snapshot, query: BoardQuery, part: PartBoard | None = None) -> str:
    """What the page of a query shows, as CSV with the same lines in the same order."""
    rows = [msgspec.structs.asdict(line_values(line)) for line in board_lines(snapshot, query, part)]
    return csv_text(rows[0] if rows else ("place", "model"), (row.values() for row in rows))


def csv_text(head: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """A table as CSV; no cell is a formula to a spreadsheet."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(head)
    formulas = ("=", "+", "-", "@", "\t", "\r")
    writer.writerows(
        [f"'{value}" if isinstance(value, str) and value.startswith(formulas) else value for value in row]
        for row in rows
    )
    return out.getvalue()


KEPT_LINES = 4096
"""Cached rendered rows: a vote changes few of them."""


def lines_html(lines: Iterable[BoardLine], columns: Iterable[str]) -> Html:
    """Lines of a board with these columns, as rows of its table."""
    return Html("".join([_line_html(line, tuple(columns)) for line in lines]))


@lru_cache(maxsize=KEPT_LINES)
def _line_html(line: BoardLine, columns: tuple[str, ...]) -> str:
    macros: Any = environment().get_template("board_lines.html").module
    return str(macros.row(line, {name: PART_COLUMNS.get(name) or COLUMNS[name] for name in columns}))

"""The leaderboard as values: the visitor's query, the matching rows, and the same as CSV and JSON.

Everything a visitor can ask for is in the address, so any view is a permalink and works without a script. In phase 1
the new figures are computed but not public: pages leave them out, files and the JSON interface say null.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from tiltyard.arena.board import OFFICIAL_FROM, SHADOW_PHASE, publication_values
from tiltyard.pages.markup import Html
from tiltyard.validity.publication import Badge
from tiltyard.web.rendering import environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from tiltyard.arena.board import BoardRow, LiveBoard
    from tiltyard.arena.following.replay import Movement
    from tiltyard.arena.following.snapshots import ModelFacts, Snapshot
    from tiltyard.arena.offline import OfflineBoard, OfflineRow


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

MOST_ASKED = 200
"""The most characters of a search that are used."""


@dataclass(frozen=True, slots=True)
class BoardQuery:
    """What a visitor asked for; empty means everything, in the official order."""

    q: str = ""
    provider: str = ""
    licence: str = ""
    stability: str = ""
    category: str = ""
    sort: str = ""
    direction: str = ""

    @classmethod
    def of(cls, asked: Mapping[str, str]) -> BoardQuery:
        """The query of an address; unknown parts are ignored."""
        known = {field.name: asked[field.name].strip()[:MOST_ASKED] for field in fields(cls) if field.name in asked}
        query = cls(**known)
        sort = query.sort if query.sort in COLUMNS else ""
        direction = query.direction if sort and query.direction in ("asc", "desc") else ""
        return replace(query, sort=sort, direction=direction)

    @property
    def address(self) -> str:
        """The query part of an address, with its question mark; empty for an empty query."""
        asked = {field.name: getattr(self, field.name) for field in fields(self) if getattr(self, field.name)}
        return f"?{urlencode(asked)}" if asked else ""

    def sorted_by(self, column: str) -> BoardQuery:
        """The query for a click on a column's head: its natural direction, reversed on the next click."""
        first = COLUMNS[column].first
        now = (self.direction or COLUMNS[self.sort].first) if self.sort else ""
        direction = "" if self.sort != column else {"asc": "desc", "desc": "asc"}[now]
        return replace(self, sort=column, direction="" if direction == first else direction)

    def of_category(self, category: str) -> BoardQuery:
        """The same query on another category's votes; columns that only the whole board has cannot sort it."""
        keep = not category or self.sort in CATEGORY_COLUMNS
        return replace(
            self, category=category, sort=self.sort if keep else "", direction=self.direction if keep else ""
        )

    @property
    def filters(self) -> bool:
        """Whether anything is left out."""
        return bool(self.q or self.provider or self.licence or self.stability)


@dataclass(frozen=True, slots=True)
class BoardLine:
    """One line of the board: the live row, who the model is, where Bradley–Terry puts it, how it moved in a day."""

    row: BoardRow
    facts: ModelFacts
    offline: OfflineRow | None
    moved: Movement | None
    phase: int
    """Phase of the rollout, which says what is public of the row."""
    anytime: bool
    """Whether its range of ranks holds at every time at which one looks."""

    @property
    def by_legacy(self) -> bool:
        """Whether legacy Elo is still the official rating."""
        return self.phase < OFFICIAL_FROM

    @property
    def in_shadow(self) -> bool:
        """Whether the new figures are not public yet."""
        return self.phase == SHADOW_PHASE

    @property
    def provisional(self) -> bool:
        """Whether its place is too uncertain to rely on, as far as that is public."""
        return self.row.badge is Badge.PROVISIONAL and not self.in_shadow

    @property
    def places(self) -> tuple[int, int] | None:
        """The best and the worst place it could hold overall."""
        low, high = self.row.rank_low, self.row.rank_high
        return None if low is None or high is None or self.in_shadow else (low, high)

    @property
    def category_places(self) -> tuple[int, int] | None:
        """The best and the worst place it could hold on the board of a category."""
        low, high = (self.offline.rank_low, self.offline.rank_high) if self.offline else (None, None)
        return None if low is None or high is None else (low, high)


Key = float | int | str | None


@dataclass(frozen=True, slots=True)
class Column:
    """What lines are sorted by, and in which direction first."""

    key: Callable[[BoardLine], Key]
    first: str


COLUMNS: Mapping[str, Column] = {
    "rank": Column(lambda line: line.row.rank, "asc"),
    "model": Column(lambda line: line.row.display_name.casefold(), "asc"),
    "rating": Column(lambda line: line.row.rating_shown, "desc"),
    "confidence": Column(lambda line: -line.row.deviation, "desc"),
    "coverage": Column(lambda line: line.row.prompt_coverage, "desc"),
    "consistency": Column(lambda line: line.row.consistency, "desc"),
    "spread": Column(lambda line: line.row.spread, "asc"),
    "average": Column(lambda line: line.row.average_score, "desc"),
    "record": Column(lambda line: _win_share(line.row), "desc"),
    "votes": Column(lambda line: line.row.votes, "desc"),
}
SHADOW_COLUMNS = ("confidence", "coverage")
CATEGORY_COLUMNS = ("rank", "model", "rating", "votes")
_CATEGORY_KEYS: Mapping[str, Callable[[BoardLine], Key]] = {
    "rank": lambda line: line.offline.rank if line.offline else None,
    "model": COLUMNS["model"].key,
    "rating": lambda line: line.offline.rating if line.offline else None,
    "votes": lambda line: line.offline.votes if line.offline else None,
}


def _win_share(row: BoardRow) -> float | None:
    decisive = row.wins + row.losses
    return row.wins / decisive if decisive else None


def board_lines(snapshot: Snapshot, query: BoardQuery, category: OfflineBoard | None = None) -> tuple[BoardLine, ...]:
    """The rows that match a query, in its order; for a category, those with a rating."""
    query = as_public(query, snapshot.board.phase)
    offline = category if query.category else snapshot.study.offline
    places = {row.model: row for row in offline.rows} if offline else {}
    facts = {model.model: model for model in snapshot.models}
    lines = [
        BoardLine(
            row,
            facts[row.model],
            places.get(row.model),
            None if query.category else snapshot.study.moved.get(row.model),
            phase=snapshot.board.phase,
            anytime=offline is not None and offline.anytime,
        )
        for row in snapshot.board.rows
        if not query.category or row.model in places
    ]
    return _in_order([line for line in lines if _answers(line, query)], query)


def as_public(query: BoardQuery, phase: int) -> BoardQuery:
    """The query without what it must not ask for: in phase 1 an order or a filter by figures that are not public."""
    if phase > SHADOW_PHASE:
        return query
    hidden = query.sort in SHADOW_COLUMNS
    sort, direction = ("", "") if hidden else (query.sort, query.direction)
    return replace(query, stability="", category="", sort=sort, direction=direction)


def public_row(values: Mapping[str, Any], phase: int) -> dict[str, Any]:
    """The values of a row with null for what its phase does not show: keys stay, so that programs need not change."""
    hidden = (IN_SHADOW if phase == SHADOW_PHASE else frozenset()) | (LEGACY if phase > LEGACY_UNTIL else frozenset())
    return {name: None if name in hidden else value for name, value in values.items()}


def public_publication(board: LiveBoard) -> dict[str, Any]:
    """The status and its rules as plain values; without either in phase 1."""
    values = publication_values(board.publication)
    return values if board.phase > SHADOW_PHASE else {**values, "status": None, "rules": []}


def _answers(line: BoardLine, query: BoardQuery) -> bool:
    facts = line.facts
    said = f"{facts.display_name}\n{facts.model}\n{facts.provider}".casefold()
    return (
        all(word in said for word in query.q.casefold().split())
        and query.provider in ("", facts.provider)
        and query.licence in ("", facts.licence)
        and query.stability.casefold() in ("", line.row.badge.value.casefold())
    )


def _in_order(lines: list[BoardLine], query: BoardQuery) -> tuple[BoardLine, ...]:
    """Rows sorted as requested; equal ones in the official order, those without the value at the end."""
    column = query.sort or "rank"
    if query.category:
        column = column if column in _CATEGORY_KEYS else "rank"
        key = _CATEGORY_KEYS[column]
    else:
        key = COLUMNS[column].key
    known = [line for line in lines if key(line) is not None]
    unknown = [line for line in lines if key(line) is None]
    known.sort(key=key, reverse=(query.direction or COLUMNS[column].first) == "desc")  # type: ignore[arg-type]
    return (*known, *unknown)


@dataclass(frozen=True, slots=True)
class Choices:
    """What the filters offer."""

    providers: tuple[str, ...]
    licences: tuple[str, ...]
    stabilities: tuple[str, ...]
    categories: tuple[tuple[str, int], ...]


def choices(snapshot: Snapshot) -> Choices:
    """The filters that are useful for this board."""
    enabled = [model for model in snapshot.models if model.enabled]
    public = snapshot.board.phase > SHADOW_PHASE
    return Choices(
        tuple(sorted({model.provider for model in enabled} - {""}, key=str.casefold)),
        tuple(sorted({model.licence for model in enabled} - {""}, key=str.casefold)),
        tuple(badge.value for badge in Badge) if public else (),
        tuple(snapshot.study.categories.items()) if public else (),
    )


def line_values(line: BoardLine) -> dict[str, Any]:
    """A line as plain values, under the names that the CSV file heads its columns with."""
    row, places = line.row, line.places
    values = {
        "place": row.rank,
        "place_best": None if places is None else places[0],
        "place_worst": None if places is None else places[1],
        "model": row.model,
        "display_name": row.display_name,
        "provider": row.provider,
        "licence": line.facts.licence,
        "stability": row.badge.value,
        "rank_score": row.conservative,
        "rating": row.rating,
        "deviation": row.deviation,
        "legacy_elo": row.legacy_elo,
        "confidence": row.confidence,
        "coverage": row.prompt_coverage,
        "consistency": row.consistency,
        "spread": row.spread,
        "average_score": row.average_score,
        "wins": row.wins,
        "losses": row.losses,
        "ties": row.ties,
        "votes": row.votes,
        "both_bad": row.both_bad,
        "places_moved_24h": None if line.moved is None else line.moved.places,
        "interval_note": None if line.offline is None else line.offline.note,
        "rating_shown": row.rating_shown,
        "interval_low": None if line.offline is None else line.offline.low,
        "interval_high": None if line.offline is None else line.offline.high,
        "place_outside_range": row.outside_range,
        "quality_floor": row.quality_floor,
        "pair_coverage": row.pair_coverage,
    }
    return public_row(values, line.phase)


def category_values(line: BoardLine) -> dict[str, Any]:
    """A line of a category's board as plain values."""
    place = line.offline
    assert place is not None
    return {
        "place": place.rank,
        "place_best": place.rank_low,
        "place_worst": place.rank_high,
        "model": line.row.model,
        "display_name": line.row.display_name,
        "provider": line.row.provider,
        "licence": line.facts.licence,
        "stability": line.row.badge.value,
        "bradley_terry_rating": place.rating,
        "interval_low": place.low,
        "interval_high": place.high,
        "rated_votes": place.votes,
        "overall_place": line.row.rank,
        "interval_note": place.note,
    }


def intervals_values(offline: OfflineBoard | None) -> dict[str, Any] | None:
    """What the intervals and ranges of ranks hold for, as plain values; None before there are any."""
    if offline is None:
        return None
    return {
        "clusters": offline.clusters,
        "speaks_for": offline.speaks_for,
        "anytime": offline.anytime,
        "remarks": list(offline.remarks),
        "centre": offline.centre,
        "slope": offline.slope,
    }


def _public_intervals(snapshot: Snapshot, offline: OfflineBoard | None) -> dict[str, Any] | None:
    return None if snapshot.board.phase == SHADOW_PHASE else intervals_values(offline)


def board_values(snapshot: Snapshot, query: BoardQuery, category: OfflineBoard | None = None) -> dict[str, Any]:
    """What the page of a query shows, as plain values: its position in the log, the status, the lines."""
    query = as_public(query, snapshot.board.phase)
    lines = board_lines(snapshot, query, category)
    asked = {field.name: getattr(query, field.name) for field in fields(query) if getattr(query, field.name)}
    board = snapshot.board
    return {
        "seq": snapshot.seq,
        "head_hash": snapshot.head_hash,
        "at": snapshot.at,
        "phase": board.phase,
        "ordered_by": "bradley_terry" if query.category else board.ordered_by,
        "votes": snapshot.study.categories.get(query.category, 0) if query.category else board.votes,
        "publication": public_publication(board),
        "official_top_tier": _top_tier(board),
        "intervals": _public_intervals(snapshot, category if query.category else snapshot.study.offline),
        "query": asked,
        "rows": [category_values(line) if query.category else line_values(line) for line in lines],
    }


def _top_tier(board: LiveBoard) -> list[str]:
    return [row.model for row in board.top_tier] if board.phase > SHADOW_PHASE else []


def public_board(board: LiveBoard) -> dict[str, Any]:
    """The board as plain values, as far as its phase makes them public."""
    values = board.to_dict()
    return {
        **values,
        "publication": public_publication(board),
        "official_top_tier": _top_tier(board),
        "rows": [public_row(row, board.phase) for row in values["rows"]],
    }


def whole_board_values(snapshot: Snapshot) -> dict[str, Any]:
    """The whole board for programs: every field of its rows, and what the page adds to them."""
    lines = board_lines(snapshot, BoardQuery())
    board = public_board(snapshot.board)
    return {
        **board,
        "head_hash": snapshot.head_hash,
        "intervals": _public_intervals(snapshot, snapshot.study.offline),
        "rows": [{**row, **line_values(line)} for row, line in zip(board["rows"], lines, strict=True)],
    }


def board_csv(snapshot: Snapshot, query: BoardQuery, category: OfflineBoard | None = None) -> str:
    """What the page of a query shows, as CSV with the same lines in the same order."""
    query = as_public(query, snapshot.board.phase)
    lines = board_lines(snapshot, query, category)
    rows = [category_values(line) if query.category else line_values(line) for line in lines]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(rows[0] if rows else ("place", "model"))
    writer.writerows([_safe(value) for value in row.values()] for row in rows)
    return out.getvalue()


def _safe(value: object) -> object:
    """A cell that a spreadsheet treats as text, not as a formula."""
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")) else value


KEPT_LINES = 4096
"""Cached rendered rows: a vote changes few of them."""


def lines_html(lines: Iterable[BoardLine], *, of_category: bool) -> Html:
    """Lines of the whole board, or of a category's, as rows of its table."""
    return Html("".join([_line_html(line, "category" if of_category else "overall") for line in lines]))


@lru_cache(maxsize=KEPT_LINES)
def _line_html(line: BoardLine, kind: str) -> str:
    macros = environment().get_template("board_lines.html").module
    return str(getattr(macros, kind)(line))

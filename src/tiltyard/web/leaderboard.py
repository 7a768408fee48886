"""The leaderboard as values: the visitor's query, the matching rows, and the same as CSV and JSON.

Everything a visitor can ask for is in the address, so any view is a permalink and works without a script.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from tiltyard.arena.board import publication_values
from tiltyard.pages.markup import Html
from tiltyard.validity.publication import Badge
from tiltyard.web.rendering import environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from tiltyard.arena.board import BoardRow
    from tiltyard.arena.following.replay import Movement
    from tiltyard.arena.following.snapshots import ModelFacts, Snapshot
    from tiltyard.arena.offline import OfflineBoard, OfflineRow


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
    by_legacy: bool
    """Whether legacy Elo is still the official rating."""
    anytime: bool
    """Whether its range of ranks holds at every time at which one looks."""

    @property
    def official_rating(self) -> float:
        """What the Rating column shows: the conservative score, or legacy Elo while that orders the board."""
        return self.row.legacy_elo if self.by_legacy else self.row.conservative

    @property
    def provisional(self) -> bool:
        """Whether its place is too uncertain to rely on."""
        return self.row.badge is Badge.PROVISIONAL

    @property
    def places(self) -> tuple[int, int] | None:
        """The best and the worst place it could hold."""
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
    "rating": Column(lambda line: line.official_rating, "desc"),
    "confidence": Column(lambda line: -line.row.deviation, "desc"),
    "coverage": Column(lambda line: line.row.prompt_coverage, "desc"),
    "consistency": Column(lambda line: line.row.consistency, "desc"),
    "spread": Column(lambda line: line.row.spread, "asc"),
    "average": Column(lambda line: line.row.average_score, "desc"),
    "record": Column(lambda line: _win_share(line.row), "desc"),
    "votes": Column(lambda line: line.row.votes, "desc"),
}
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
    offline = category if query.category else snapshot.study.offline
    places = {row.model: row for row in offline.rows} if offline else {}
    facts = {model.model: model for model in snapshot.models}
    lines = [
        BoardLine(
            row,
            facts[row.model],
            places.get(row.model),
            None if query.category else snapshot.study.moved.get(row.model),
            by_legacy=snapshot.board.ordered_by == "legacy_elo",
            anytime=offline is not None and offline.anytime,
        )
        for row in snapshot.board.rows
        if not query.category or row.model in places
    ]
    return _in_order([line for line in lines if _answers(line, query)], query)


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
    return Choices(
        tuple(sorted({model.provider for model in enabled} - {""}, key=str.casefold)),
        tuple(sorted({model.licence for model in enabled} - {""}, key=str.casefold)),
        tuple(badge.value for badge in Badge),
        tuple(snapshot.study.categories.items()),
    )


def line_values(line: BoardLine) -> dict[str, Any]:
    """A line as plain values, under the names that the CSV file heads its columns with."""
    row, places = line.row, line.places
    return {
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
    }


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
    }


def board_values(snapshot: Snapshot, query: BoardQuery, category: OfflineBoard | None = None) -> dict[str, Any]:
    """What the page of a query shows, as plain values: its position in the log, the status, the lines."""
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
        "publication": publication_values(board.publication),
        "intervals": intervals_values(category if query.category else snapshot.study.offline),
        "query": asked,
        "rows": [category_values(line) if query.category else line_values(line) for line in lines],
    }


def whole_board_values(snapshot: Snapshot) -> dict[str, Any]:
    """The whole board for programs: every field of its rows, and what the page adds to them."""
    lines = board_lines(snapshot, BoardQuery())
    rows = snapshot.board.to_dict()["rows"]
    return {
        **snapshot.board.to_dict(),
        "head_hash": snapshot.head_hash,
        "intervals": intervals_values(snapshot.study.offline),
        "rows": [{**row, **line_values(line)} for row, line in zip(rows, lines, strict=True)],
    }


def board_csv(snapshot: Snapshot, query: BoardQuery, category: OfflineBoard | None = None) -> str:
    """What the page of a query shows, as CSV with the same lines in the same order."""
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

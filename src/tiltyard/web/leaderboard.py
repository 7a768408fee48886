"""The leaderboard as values: the rows that match a query, and the same as CSV and JSON.

In phase 1 the new figures are computed but not public: pages leave them out, files and the JSON interface say null.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from functools import lru_cache
from typing import Any

from tiltyard.arena.board import SHADOW_PHASE, LiveBoard, publication_values
from tiltyard.arena.following.parts import PartBoard, ThenRow
from tiltyard.arena.following.snapshots import Snapshot
from tiltyard.arena.offline import OfflineBoard
from tiltyard.arena.verdict import MODEL_VOTES, BoardVerdict, Standing, board_verdict, verdict
from tiltyard.pages.escaping import Html
from tiltyard.pages.svg import Scale
from tiltyard.validity.publication import Badge
from tiltyard.web.board_line import BoardLine
from tiltyard.web.board_query import COLUMNS, NOT_THERE, PART_KEYS, BoardQuery, as_public
from tiltyard.web.rendering import environment

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


def said_of(snapshot: Snapshot, query: BoardQuery, part: PartBoard | None = None) -> BoardVerdict:
    """The board of a query in one sentence; filters by name do not change it."""
    query = as_public(query, snapshot.board.phase)
    if query.whole:
        return board_verdict(snapshot.board)
    if part is None:
        return BoardVerdict("There are no votes in this part.", None, too_few_votes=True)
    votes = replace(query.unfiltered, sort="", direction="", columns="")
    return verdict([_standing(line) for line in board_lines(snapshot, votes, part)])


def withholds(snapshot: Snapshot) -> bool:
    """Whether there are so few votes that the board shows no ranks or ratings; nor does any other page then."""
    return board_verdict(snapshot.board).too_few_votes


def _standing(line: BoardLine) -> Standing:
    """Where a model stands on the board of a part of the votes. With few votes there it is provisional there."""
    low, high = line.category_places or (None, None)
    few = (line.part_votes or 0) < MODEL_VOTES
    return Standing(line.row.model, line.row.display_name, line.place or 0, low, high, line.provisional or few)


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
    names = f"{facts.display_name}\n{facts.model}\n{facts.provider}".casefold()
    return (
        all(word in names for word in query.q.casefold().split())
        and query.provider in ("", facts.provider)
        and query.licence in ("", facts.licence)
        and query.stability.casefold() in ("", line.row.badge.value.casefold())
    )


def _in_order(lines: list[BoardLine], query: BoardQuery) -> tuple[BoardLine, ...]:
    """Rows sorted as requested; equal ones in the official order, those without the value at the end."""
    column = query.sort or "rank"
    if not query.whole:
        column = column if column in PART_KEYS else "rank"
        key = PART_KEYS[column]
    else:
        key = COLUMNS[column].key
    known = [line for line in lines if key(line) is not None]
    unknown = [line for line in lines if key(line) is None]
    known.sort(key=key, reverse=(query.direction or COLUMNS[column].first) == "desc")  # type: ignore[arg-type]
    return (*known, *unknown)


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
        "price": line.facts.price,
        "speed": line.facts.speed,
    }
    return public_row(values, line.phase)


def category_values(line: BoardLine) -> dict[str, Any]:
    """A line of the board of a part of the votes as plain values."""
    if line.then is not None:
        return _then_values(line, line.then)
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


def _then_values(line: BoardLine, then: ThenRow) -> dict[str, Any]:
    """A line of the board of an earlier day as plain values."""
    low, high = line.category_places or (None, None)
    return {
        "place": then.place,
        "place_best": low,
        "place_worst": high,
        "model": line.row.model,
        "display_name": line.row.display_name,
        "provider": line.row.provider,
        "licence": line.facts.licence,
        "rating_shown": then.rating_shown,
        "rating": then.rating,
        "deviation": then.deviation,
        "interval_low": None if line.offline is None else line.offline.low,
        "interval_high": None if line.offline is None else line.offline.high,
        "votes": then.votes,
        "place_now": line.row.rank,
    }


def _values(lines: Sequence[BoardLine], query: BoardQuery) -> list[dict[str, Any]]:
    return [line_values(line) if query.whole else category_values(line) for line in lines]


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


def board_values(snapshot: Snapshot, query: BoardQuery, part: PartBoard | None = None) -> dict[str, Any]:
    """What the page of a query shows, as plain values: its position in the log, the status, the lines."""
    query = as_public(query, snapshot.board.phase)
    lines = board_lines(snapshot, query, part)
    asked = {field.name: getattr(query, field.name) for field in fields(query) if getattr(query, field.name)}
    board = snapshot.board
    return {
        "seq": snapshot.seq,
        "head": snapshot.head,
        "at": snapshot.at,
        "phase": board.phase,
        "ordered_by": board.ordered_by if query.whole or query.part.is_dated else "bradley_terry",
        "votes": board.votes if query.whole else part.votes if part else 0,
        "verdict": said_of(snapshot, query, part).to_dict(),
        "publication": public_publication(board),
        "official_top_tier": _top_tier(board),
        "intervals": _public_intervals(
            snapshot, snapshot.study.offline if query.whole else part.offline if part else None
        ),
        "query": asked,
        "rows": _values(lines, query),
    } | ({} if query.whole else {"all_votes": board.votes})


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
        "head": snapshot.head,
        "verdict": board_verdict(snapshot.board).to_dict(),
        "intervals": _public_intervals(snapshot, snapshot.study.offline),
        "rows": [{**row, **line_values(line)} for row, line in zip(board["rows"], lines, strict=True)],
    }


def board_csv(snapshot: Snapshot, query: BoardQuery, part: PartBoard | None = None) -> str:
    """What the page of a query shows, as CSV with the same lines in the same order."""
    query = as_public(query, snapshot.board.phase)
    rows = _values(board_lines(snapshot, query, part), query)
    return csv_text(rows[0] if rows else ("place", "model"), (row.values() for row in rows))


def csv_text(head: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """A table as CSV; no cell is a formula to a spreadsheet."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(head)
    writer.writerows([_safe(value) for value in row] for row in rows)
    return out.getvalue()


def _safe(value: object) -> object:
    """A cell that a spreadsheet treats as text, not as a formula."""
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")) else value


KEPT_LINES = 4096
"""Cached rendered rows: a vote changes few of them."""


def lines_html(lines: Iterable[BoardLine], columns: tuple[str, ...] | None) -> Html:
    """Lines of the whole board with these columns, or of the board of a part (None), as rows of its table."""
    return Html("".join([_line_html(line, columns) for line in lines]))


@lru_cache(maxsize=KEPT_LINES)
def _line_html(line: BoardLine, columns: tuple[str, ...] | None) -> str:
    macros: Any = environment().get_template("board_lines.html").module
    return str(macros.part(line) if columns is None else macros.overall(line, columns))

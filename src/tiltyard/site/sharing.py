"""What shows this site elsewhere: a board for other sites' frames, pictures of boards and models, a weekly feed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import NAMESPACE_URL, uuid5
from xml.sax.saxutils import escape, quoteattr

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tiltyard.arena import SHADOW_PHASE
from tiltyard.arena.store import KeptWeek
from tiltyard.arena.study import Snapshot
from tiltyard.render import INK, MUTED, CardRow, Interval, board_card, count, legible, model_card, points
from tiltyard.site import charts
from tiltyard.site.board_columns import BoardLine
from tiltyard.site.board_query import BoardQuery
from tiltyard.site.failures import Failure
from tiltyard.site.leaderboard import board_lines, board_sentence
from tiltyard.site.pages import prepared, public_page, public_weeks
from tiltyard.site.site import site_of

FETCHED = {"cache-control": "public, max-age=300"}
"""Pictures and feeds are fetched by programs that ask often: five minutes old is new enough."""

EMBEDDED = 10
MOST_EMBEDDED = 50
"""Models of an embedded board: unless asked otherwise, and at most."""

CARD_ROWS = 6
"""Models on the picture of a board."""


async def embed(request: Request) -> Response:
    """A small board that other sites may frame."""
    asked = request.query_params.get("models", "")
    number = min(max(int(asked), 1), MOST_EMBEDDED) if asked.isdecimal() and len(asked) < 4 else EMBEDDED
    return await public_page(request, "embed.html", "", lambda _, snapshot: embed_view(snapshot, number), number)


def embed_view(snapshot: Snapshot, number: int) -> dict[str, Any]:
    """What the template of an embedded board shows."""
    lines = board_lines(snapshot, BoardQuery())
    message = board_sentence(snapshot, BoardQuery())
    return {
        "lines": [(line, charts.interval_bar(line)) for line in lines[:number]],
        "more": len(lines) - number,
        "verdict": message,
        "snapshot": snapshot,
        "shadow": snapshot.board.phase == SHADOW_PHASE,
    }


async def board_picture(request: Request) -> Response:
    """The board as a picture."""
    title = site_of(request).settings.title

    def draw(snapshot: Snapshot) -> bytes:
        sentence, lines = board_sentence(snapshot, BoardQuery()), board_lines(snapshot, BoardQuery())
        words = sentence.text
        for line in lines:
            words = words.replace(line.row.display_name, _name(line))
        rows = [
            CardRow(
                str(line.row.rank),
                _name(line),
                points(line.row.rating_shown),
                _interval(line),
                MUTED if line.provisional else INK,
            )
            for line in ([] if sentence.too_few_votes else lines[:CARD_ROWS])
        ]
        return board_card(title, words, rows, _votes(snapshot.board.votes))

    return await _picture(request, ("board",), draw)


async def model_picture(request: Request) -> Response:
    """One model as a picture; its address ends in .png."""
    site, name = site_of(request), request.path_params["name"]
    model = name.removesuffix(".png")
    if name == model or all(row.model != model for row in site.observatory.snapshot.board.rows):
        raise Failure(404, "not_found", "there is no picture of this name.")

    def draw(snapshot: Snapshot) -> bytes:
        line = next(line for line in board_lines(snapshot, BoardQuery()) if line.row.model == model)
        rank, rating, interval = "too few votes for a rank", "", None
        if not (board_sentence(snapshot, BoardQuery()).too_few_votes or line.provisional):
            allowed = f", could be {line.places[0]} to {line.places[1]}" if line.places else ""
            rank = f"rank {line.row.rank} of {len(snapshot.board.rows)}{allowed}"
            rating, interval = f"rating {points(line.row.rating_shown)}", _interval(line)
        return model_card(site.settings.title, _name(line), rank, rating, interval, _votes(line.row.votes))

    return await _picture(request, ("model", model), draw)


async def _picture(request: Request, asked: tuple[str, ...], draw: Callable[[Snapshot], bytes]) -> Response:
    return await prepared(request, ("share", *asked), draw, "image/png", FETCHED, fits=True)


def _name(line: BoardLine) -> str:
    return legible(line.row.display_name, line.row.model)


def _interval(line: BoardLine) -> Interval | None:
    return None if line.span is None or line.scale is None else (line.scale, line.raw, line.span)


def _votes(number: int) -> str:
    return f"{count(number)} votes by people who did not know who wrote what"


async def weeks_feed(request: Request) -> Response:
    """The weekly reports as an Atom feed."""
    site, kept = site_of(request), await public_weeks(request)
    title, base = site.settings.title, (site.settings.public_url or "").rstrip("/")

    def make(snapshot: Snapshot) -> bytes:
        return weeks_atom(title, base, kept, snapshot.at).encode()

    return await prepared(request, ("weeks.atom", *kept), make, "application/atom+xml", FETCHED)


def weeks_atom(title: str, base: str, weeks: Sequence[KeptWeek], at: int) -> str:
    """An Atom feed of weekly reports, newest first.

    Parameters:
        title: The title of the site.
        base: Where the site is; empty: addresses are relative to the feed.
        weeks: The reports.
        at: The time of the log's last event (microseconds), for a feed without reports.
    """
    entries = [
        f"  <entry>\n    <title>{escape(f'{week.week}: {week.status}')}</title>\n"
        f"    <id>{_id(title, base, week.week)}</id>\n"
        f"    <link href={quoteattr(f'{base}/validity/weeks/{week.week}')}/>\n"
        f"    <updated>{_written(week.written_at)}</updated>\n"
        f"    <summary>{escape(f'{week.votes:,} counted votes; the board was {week.status}.')}</summary>\n  </entry>\n"
        for week in weeks
    ]
    updated = _written(max((week.written_at for week in weeks), default=at))
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n<feed xmlns="http://www.w3.org/2005/Atom">\n'
        f"  <title>{escape(title)}: weekly validity reports</title>\n  <id>{_id(title, base, '')}</id>\n"
        f"  <updated>{updated}</updated>\n  <author><name>{escape(title)}</name></author>\n"
        f'  <link rel="self" href={quoteattr(f"{base}/validity/weeks.atom")}/>\n'
        f"  <link href={quoteattr(f'{base}/validity/weeks')}/>\n{''.join(entries)}</feed>\n"
    )


def _id(title: str, base: str, week: str) -> str:
    """An id that stays the same for as long as the site keeps its address and title."""
    return f"urn:uuid:{uuid5(NAMESPACE_URL, f'{base or title}/validity/weeks/{week}')}"


def _written(at: int) -> str:
    return datetime.fromtimestamp(at // 1_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


ROUTES = [
    Route("/embed", embed),
    Route("/share/board.png", board_picture),
    Route("/share/models/{name:path}", model_picture),
    Route("/validity/weeks.atom", weeks_feed),
]

"""The routes of the board: the page, its files, the board over time, and a board to embed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tiltyard.arena import OFFICIAL_FROM, SHADOW_PHASE
from tiltyard.arena.study import PartBoard, Snapshot, history
from tiltyard.files import json_text
from tiltyard.render import axis, plural
from tiltyard.reports import worth_knowing
from tiltyard.site import charts
from tiltyard.site.board_columns import COLUMNS, FIXED, PART_COLUMNS, Column, chosen_columns
from tiltyard.site.board_query import BoardQuery, as_public, choices, query_of
from tiltyard.site.leaderboard import (
    board_csv,
    board_lines,
    board_sentence,
    board_values,
    csv_text,
    lines_html,
    part_words,
)
from tiltyard.site.pages import CHECKED, names_of, page_at, prepared, public_page, rules_of
from tiltyard.site.site import Site, site_of

FILTERED_FROM = 8
"""Models from which there is something to search and filter."""

PREDICTIONS_PHASE = 2
"""The phase in which the board itself shows how well the ratings predict votes; `/validity` always does."""


async def leaderboard(request: Request) -> Response:
    """The board that a visitor asked for."""
    query = query_of(request.query_params, site_of(request).observatory.snapshot)
    return await public_page(
        request,
        "leaderboard.html",
        "leaderboard",
        lambda site, snapshot: leaderboard_view(snapshot, query, _part(site, snapshot, query)),
        query,
        fits=not query.whole,
    )


def leaderboard_view(snapshot: Snapshot, query: BoardQuery, part: PartBoard | None) -> dict[str, Any]:
    """What the leaderboard's template shows."""
    query = as_public(query, snapshot.board.phase)
    shadow = snapshot.board.phase == SHADOW_PHASE
    lines = board_lines(snapshot, query, part)
    overall = bool(lines) and query.whole
    columns = chosen_columns(query.columns, snapshot.board.phase)
    message, curve = board_sentence(snapshot, query, part), snapshot.study.weekly.calibration
    return {
        "query": query,
        "verdict": message,
        "young": message.too_few_votes and query.whole,
        "few": len(snapshot.board.rows) < FILTERED_FROM and not query.filters and not query.columns and query.whole,
        "columns": columns,
        "column_of": COLUMNS,
        "policy_columns": ",".join(chosen_columns("", snapshot.board.phase)),
        "offered": _offered(snapshot),
        "meanings": _meanings(snapshot.board.phase, columns if query.whole else {"votes": COLUMNS["votes"]}),
        "lines_html": lines_html(lines, columns if query.whole else PART_COLUMNS),
        "axis": axis(lines[0].scale) if lines and lines[0].scale else None,
        "snapshot": snapshot,
        "lines": lines,
        "total": len(board_lines(snapshot, query.unfiltered, part) if query.filters else lines),
        "choices": choices(snapshot),
        "rules": rules_of(snapshot.board),
        "also": worth_knowing(snapshot.board.publication),
        "part": part,
        "part_words": part_words(query),
        "offline": snapshot.study.offline if query.whole else part.offline if part else None,
        "names": names_of(snapshot),
        "shadow": shadow,
        "marked": any(line.row.outside_range for line in lines) and overall and not shadow,
        "calibration": curve,
        "calibration_chart": charts.calibration_chart(curve, "side A, all votes")
        if curve is not None and overall and snapshot.board.phase == PREDICTIONS_PHASE
        else None,
        "price_chart": charts.price_plot(lines) if overall else None,
        "win_rates": charts.win_rate_heatmap(snapshot, lines) if overall else None,
        "battles": charts.battles_heatmap(snapshot, lines) if overall else None,
        "heatmap_models": min(len(lines), charts.HEATMAP_MODELS),
    }


def _offered(snapshot: Snapshot) -> list[str]:
    """The columns that a visitor can choose: not prices or speeds if no model states one."""
    return [
        name
        for name, column in chosen_columns(",".join(COLUMNS), snapshot.board.phase).items()
        if not column.stated or any(getattr(facts, name) for facts in snapshot.models)
    ]


def _meanings(phase: int, columns: Mapping[str, Column]) -> dict[str, str]:
    """What each column that is shown means, in this phase."""
    meanings = {name: COLUMNS[name].meaning for name in (*FIXED, *columns)}
    if phase == SHADOW_PHASE:
        meanings["rank"] = "The official place."
    if phase < OFFICIAL_FROM:
        meanings["rating"] = "Elo."
    return meanings


def _part(site: Site, snapshot: Snapshot, query: BoardQuery) -> PartBoard | None:
    """The board of the part of the votes that a query asks for; None for the whole board, or without any vote."""
    asked = as_public(query, snapshot.board.phase)
    return None if asked.whole else site.observatory.part(asked.part)


def _file_at(ending: str, media_type: str, text: Callable[[Snapshot, BoardQuery, PartBoard | None], str]) -> Route:
    """The same board as a file."""

    async def answer(request: Request) -> Response:
        site = site_of(request)
        query = query_of(request.query_params, site.observatory.snapshot)

        def make(snapshot: Snapshot) -> bytes:
            return text(snapshot, query, _part(site, snapshot, query)).encode()

        name = _named(f"leaderboard{'-' if query.on else ''}{query.on}.{ending}")
        return await prepared(request, (f"leaderboard.{ending}", query), make, media_type, name, fits=not query.whole)

    return Route(f"/leaderboard.{ending}", answer)


def _named(name: str) -> dict[str, str]:
    return {"content-disposition": f'attachment; filename="{name}"', **CHECKED}


def history_view(_: Site, snapshot: Snapshot) -> dict[str, Any]:
    """Ratings and places by day, and the boards and battles of every day."""
    result, names = history(snapshot), names_of(snapshot)
    days = range(len(result.days) - 1, -1, -1)
    return {
        "ratings": charts.rating_history(result, names),
        "places": charts.place_history(result, names),
        "days": [
            {
                "day": result.days[day],
                "votes": result.votes[day] - (result.votes[day - 1] if day else 0),
                "all_votes": result.votes[day],
                "leader": next(
                    (name for name, at in zip(result.models, result.place[day], strict=True) if at == 1), ""
                ),
                "changes": result.changes(day),
            }
            for day in days
        ],
        "names": names,
        "shadow": snapshot.board.phase == SHADOW_PHASE,
        "by_elo": snapshot.board.ordered_by == "legacy_elo",
        "earlier": plural(result.left_out, "earlier day") if result.left_out else "",
    }


async def history_csv(request: Request) -> Response:
    """The same as CSV: one row per day and model."""

    def make(snapshot: Snapshot) -> bytes:
        past = history(snapshot)
        rows = [
            (day, model, int(past.place[d, m]), float(past.rating[d, m]), past.votes[d])
            for d, day in enumerate(past.days)
            for m, model in enumerate(past.models)
            if past.place[d, m]
        ]
        return csv_text(("day", "model", "place", "rating_shown", "votes"), rows).encode()

    return await prepared(request, ("history.csv",), make, "text/csv", _named("history.csv"))


ROUTES = [
    Route("/leaderboard", leaderboard),
    _file_at("csv", "text/csv", board_csv),
    _file_at("json", "application/json", lambda *query: json_text(board_values(*query))),
    page_at("/history", "leaderboard", history_view),
    Route("/history.csv", history_csv),
]

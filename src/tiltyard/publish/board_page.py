"""The pages of boards and models: the table with its intervals, counting it again, and whom a model met."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from tiltyard.battles.outcome import Outcome
from tiltyard.battles.table import concat
from tiltyard.boards.selection import select
from tiltyard.boards.text import footnotes, headline, interval_text, percent, rank_text
from tiltyard.pages import svg
from tiltyard.pages.document import package_text
from tiltyard.pages.figures import count, plural, points
from tiltyard.pages.markup import Html, el, join, link, number, pairs, table
from tiltyard.pages.markup import percent as share_text
from tiltyard.pages.markup import rating as rating_figure
from tiltyard.publish.columns import NAME as COLUMNS
from tiltyard.publish.pages import TOLERANCE, Spot, rate_options
from tiltyard.publish.publication import slug
from tiltyard.ratings import POINTS_PER_LOGIT
from tiltyard.report.sections.board import rating_row, rating_scale, ratings_table
from tiltyard.report.sections.header import warning_list

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from tiltyard.boards.leaderboard import RatingEntry
    from tiltyard.publish.publication import PublishedBoard, StaticSite

ROWS = 500
"""Models on one page of a board."""

MODEL_PAGES = 1_000
"""Models that have a page: the first of each board."""

OPPONENTS = 100
"""Opponents on a model's page: those it met most."""

RECOUNT_POLICY = "connect-src 'self'; worker-src blob:"


@dataclass(frozen=True, slots=True)
class PageMap:
    """Which models and which pairs have pages.

    Parameters:
        models: Files of models by name.
        pairs: Files of pairs, by their two names in the order of the page.
    """

    models: Mapping[str, str]
    pairs: Mapping[tuple[str, str], str]

    def pair(self, one: str, other: str) -> str | None:
        """The page of two models, whichever stands first on it."""
        return self.pairs.get((one, other)) or self.pairs.get((other, one))


def model_files(publication: StaticSite) -> dict[str, str]:
    """The page of every model that has one, the best first.

    Parameters:
        publication: What is published.
    """
    names = dict.fromkeys(entry.model for one in publication.boards for entry in one.board.entries[:MODEL_PAGES])
    return {name: f"models/{slug(name)}.html" for name in names}


def board_pages(
    publication: StaticSite, pages: PageMap, sha256: str, cards: frozenset[str]
) -> Iterator[tuple[str, bytes]]:
    """The front page, and further pages of boards that are too long for it.

    Parameters:
        publication: What is published.
        pages: Which models and pairs have pages.
        sha256: The hash of the column file.
        cards: The pictures to share that there are.
    """
    for one in publication.boards:
        for first in range(ROWS, len(one.board), ROWS):
            spot = Spot(publication, _part_file(one, first), cards)
            title = f"Ranks {first + 1} to {min(first + ROWS, len(one.board))}"
            body = [
                el("header", el("h1", title, *([] if one.dimension is None else [f": {one.dimension}"]))),
                el("main", _board_section(spot, one, pages, first), id="main", tabindex="-1"),
            ]
            yield spot.file, spot.page(f"{title} · {publication.title}", body, title)
    yield "index.html", _front_page(Spot(publication, "index.html", cards), pages, sha256)


def _part_file(one: PublishedBoard, first: int) -> str:
    return "index.html" if first == 0 else f"{one.anchor}-{first // ROWS + 1}.html"


def _front_page(spot: Spot, pages: PageMap, sha256: str) -> bytes:
    publication = spot.publication
    sentence = verdict(publication, publication.boards[0])
    body = [
        el(
            "header",
            el("p", "Tiltyard · published board", class_="over"),
            el("h1", publication.title),
            el("ul", *[el("li", *_lead(publication, one)) for one in publication.boards], class_="leads"),
            pairs(_tiles(publication), class_="tiles"),
        ),
        warning_list([note for note in publication.notes if "not blind" in note]),
        el(
            "main",
            *[_board_section(spot, one, pages, 0) for one in publication.boards],
            _recount_section(publication),
            _pairs_section(spot, pages),
            id="main",
            tabindex="-1",
        ),
        data_block("recount-data", "application/json", _recount_data(publication, sha256)),
        data_block("recount-worker", "text/plain", package_text("tiltyard.publish", "recount_worker.js")),
    ]
    script = package_text("tiltyard.publish", "recount.js")
    return spot.page(publication.title, body, sentence, script=script, allow=RECOUNT_POLICY)


def data_block(id: str, kind: str, content: str) -> Html:
    """Data that a script of the page reads, and that no browser runs."""
    if "</script" in content.lower() or "<!--" in content:
        raise ValueError("the data would end their element")
    return Html(f'<script type="{kind}" id="{id}">{content}</script>')


def verdict(publication: StaticSite, one: PublishedBoard) -> str:
    """Who could be first, in a sentence."""
    first = [publication.name(entry.model) for entry in one.board if (entry.rank_low or entry.rank) == 1]
    if len(first) == 1:
        return f"{first[0]} leads; no other could be first"
    if len(first) > 4:
        return f"{count(len(first))} models could each be first"
    return f"{', '.join(first[:-1])} and {first[-1]} could each be first"


def _lead(publication: StaticSite, one: PublishedBoard) -> list[str]:
    said = el("span", verdict(publication, one))
    return [said] if one.dimension is None else [link(f"#{one.anchor}", one.dimension, class_="dimension"), said]


def _tiles(publication: StaticSite) -> list[tuple[str, str]]:
    table = publication.table
    tiles: list[tuple[str, str]] = [("battles", number(round(table.n_battles))), ("models", number(len(table.models)))]
    for column, what in (("question_id", "prompts"), ("voter", "voters")):
        if column in table.columns:
            found = len(np.unique(table.text_column(column).codes))
            tiles.append((what, number(found)))
    if publication.updated is not None:
        tiles.append(("newest battle", iso_day(publication.updated)))
    return tiles


def iso_day(seconds: int) -> str:
    """A day as 2026-11-16."""
    from datetime import UTC, datetime

    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d")


def _board_section(spot: Spot, one: PublishedBoard, pages: PageMap, first: int) -> Html:
    board, codes = one.board, {name: code for code, name in enumerate(spot.publication.table.models)}
    shown = board.entries[first : first + ROWS]
    scale = rating_scale(shown)
    rows = [rating_row(entry, _model_link(spot, entry.model, pages, codes[entry.model]), scale) for entry in shown]
    notes = [el("li", note) for note in footnotes(board)]
    places = range(0, len(board), ROWS)
    others = [
        link(
            spot.to(_part_file(one, at)),
            f"{at + 1}–{min(at + ROWS, len(board))}",
            aria_current="page" if at == first else None,
        )
        for at in places
    ]
    return el(
        "section",
        el("h2", one.dimension or "Board"),
        el("p", headline(board), class_="note"),
        ratings_table(board, rows, scale, who="model"),
        el("nav", *others, class_="pages", aria_label="Ranks") if len(others) > 1 else Html(""),
        el("ul", *notes, class_="note") if notes else Html(""),
        id=one.anchor,
    )


def _model_link(spot: Spot, model: str, pages: PageMap, code: int | None = None) -> Html:
    name, file = el("bdi", spot.publication.name(model)), pages.models.get(model)
    return el("span", name, data_code=code) if file is None else link(spot.to(file), name, data_code=code)


def _recount_section(publication: StaticSite) -> Html:
    where = publication.url or "."
    return el(
        "section",
        el("h2", "Verify this board"),
        el("p", "Every battle is in this folder. Recompute everything with the program that made it:"),
        el("pre", f"tiltyard verify {where}"),
        el(
            "div",
            el(
                "p",
                "Or let your browser count: it reads the battles, fits the ratings and compares them with this page.",
            ),
            el("p", el("button", "Verify this board", id="recount-start", type="button")),
            el("label", f"{COLUMNS}: ", el("input", type="file", id="recount-file", accept=".cols"), hidden=True),
            el("div", id="recount-said", role="status"),
            el("form", class_="filter", id="recount-filter", hidden=True, aria_label="Rate a part of the battles"),
            el("div", id="recount-board", aria_live="polite"),
            id="recount",
            hidden=True,
        ),
        class_="recount",
        id="verify",
    )


def _recount_data(publication: StaticSite, sha256: str) -> str:
    codes = {name: code for code, name in enumerate(publication.table.models)}
    said = {
        "file": COLUMNS,
        "sha256": sha256,
        "tolerance": TOLERANCE,
        "options": rate_options(publication),
        "rules": msgspec.to_builtins(publication.rules),
        "boards": [
            {
                "anchor": one.anchor,
                "filter": {} if one.dimension is None else {"dimension": one.dimension},
                "ratings": [[codes[entry.model], entry.rating] for entry in one.board],
            }
            for one in publication.boards
        ],
    }
    return json.dumps(said, ensure_ascii=True).replace("<", "\\u003c")


def _pairs_section(spot: Spot, pages: PageMap) -> Html:
    if not pages.pairs:
        return Html("")
    name = spot.publication.name
    links = [
        el("li", link(spot.to(file), el("bdi", name(one)), " against ", el("bdi", name(other))))
        for (one, other), file in pages.pairs.items()
    ]
    said = "Neighbours on the board, and the first models with each other. For any other pair: tiltyard compare."
    return el(
        "section",
        el("h2", "Two models compared"),
        el("p", said, class_="note"),
        el("ul", *links, class_="columns"),
        id="pairs",
    )


@dataclass(frozen=True, slots=True, eq=False)
class PairTallies:
    """Battles by pair, both ways round: `model` met `other`, with its wins, losses, ties and both-bad battles.

    Parameters:
        models: The names.
        start: Where the rows of each model begin.
        other: Whom it met.
        counts: Won, lost, tied, both bad.
    """

    models: tuple[str, ...]
    start: NDArray[np.int64]
    other: NDArray[np.int64]
    counts: NDArray[np.float64]

    def of(self, model: str) -> list[tuple[str, NDArray[np.float64]]]:
        """Whom a model met, most often first."""
        if model not in self.models:
            return []
        code = self.models.index(model)
        rows = slice(int(self.start[code]), int(self.start[code + 1]))
        found = [
            (self.models[other], row) for other, row in zip(self.other[rows].tolist(), self.counts[rows], strict=True)
        ]
        return sorted(found, key=lambda one: (-float(one[1].sum()), one[0]))


def pair_tallies(publication: StaticSite, one: PublishedBoard) -> PairTallies:
    """The battles behind a board, by pair.

    Parameters:
        publication: What is published.
        one: The board.
    """
    selected = select(publication.table, publication.rules.estimator(one.dimension).selection)
    battles = concat([selected.table, selected.both_bad])
    m = len(battles.models)
    swapped = np.array([Outcome(code).swapped for code in range(len(Outcome))])
    model = np.concatenate([battles.model_a, battles.model_b]).astype(np.int64)
    other = np.concatenate([battles.model_b, battles.model_a]).astype(np.int64)
    result = np.concatenate([battles.outcome.astype(np.int64), swapped[battles.outcome]])
    weight = np.concatenate([battles.weight, battles.weight])
    keys, place = np.unique(model * m + other, return_inverse=True)
    counts = np.zeros((len(keys), len(Outcome)))
    np.add.at(counts, (place, result), weight)
    start = np.searchsorted(keys // m, np.arange(m + 1))
    return PairTallies(battles.models, start, keys % m, counts)


def model_page(spot: Spot, model: str, pages: PageMap, tallies: Sequence[PairTallies]) -> bytes:
    """The page of a model: where it stands, and whom it met.

    Parameters:
        spot: The page.
        model: The model.
        pages: Which models and pairs have pages.
        tallies: The battles of each board, by pair.
    """
    publication = spot.publication
    name = publication.name(model)
    boards = list(zip(publication.boards, tallies, strict=True))
    placed = [(one, tally, entry) for one, tally in boards for entry in one.board if entry.model == model]
    sections = [_standing(spot, one, entry, tally, pages) for one, tally, entry in placed]
    one, _, entry = placed[0]
    said = f"{name}: rank {rank_text(entry)} of {len(one.board)}, rating {points(entry.rating)}"
    known = [] if name == model else [el("p", model, class_="sub")]
    body = [
        el("header", el("p", "Model", class_="over"), el("h1", el("bdi", name)), *known),
        el("main", *sections, id="main", tabindex="-1"),
    ]
    card = f"share/{slug(model)}.png"
    return spot.page(f"{name} · {publication.title}", body, said, card=card)


def _standing(spot: Spot, one: PublishedBoard, entry: RatingEntry, tally: PairTallies, pages: PageMap) -> Html:
    level = (one.board.settings.get("interval") or {}).get("level")
    tiles: list[tuple[str, str]] = [
        (f"rank of {count(len(one.board))}", rank_text(entry)),
        ("rating", join([rating_figure(entry.rating), el("small", interval_text(entry, 0))])),
        ("won–lost–tied", "–".join(count(value) for value in (entry.wins, entry.losses, entry.ties))),
    ]
    if entry.both_bad:
        tiles.append(("both answers bad", number(entry.both_bad)))
    note = [] if entry.note is None else [el("p", entry.note, class_="note")]
    said = f"The interval has a level of {percent(level)}; the ranks hold for all models at once." if level else ""
    return el(
        "section",
        el("h2", one.dimension or "On the board"),
        pairs(tiles, class_="tiles"),
        *note,
        el("p", said, class_="note"),
        _opponents(spot, one, entry, tally, pages),
        id=one.anchor,
    )


def _opponents(spot: Spot, one: PublishedBoard, entry: RatingEntry, tally: PairTallies, pages: PageMap) -> Html:
    met = tally.of(entry.model)
    ratings = one.board.ratings
    rows = []
    for other, (won, lost, tied, bad) in met[:OPPONENTS]:
        rated = won + lost + tied
        share = (won + 0.5 * tied) / rated if rated else None
        label = f"{spot.publication.name(other)}: won {count(won)}, tied {count(tied)}, lost {count(lost)}"
        picture = svg.shares((won, tied, lost), label) if rated else Html("")
        file = pages.pair(entry.model, other)
        compare = Html("") if file is None else link(spot.to(file), "compare", aria_label=f"compare with {other}")
        expected = None if other not in ratings else _expected(entry.rating - ratings[other])
        rows.append(
            [
                _model_link(spot, other, pages),
                share_text(share),
                picture,
                share_text(expected),
                *(number(value) for value in (rated + bad, won, lost, tied)),
                compare,
            ]
        )
    left = len(met) - len(rows)
    more = [el("p", f"{plural(left, 'opponent')} that it met least are left out.", class_="note")] if left else []
    head: list[str | tuple[str, str]] = [
        "opponent",
        ("score", "num"),
        ("won, tied, lost", "chart"),
        ("expected", "num"),
        *((word, "num extra") for word in ("battles", "won", "lost", "tied")),
        (el("span", "both", class_="aloud"), "way"),
    ]
    said = "Score: the share it won, ties counting half. Expected: what the two ratings say, ties apart."
    return el(
        "div", el("h3", "Opponents"), el("p", said, class_="note"), table(head, rows, class_="board opponents"), *more
    )


def _expected(difference: float) -> float:
    return float(1.0 / (1.0 + np.exp(-difference / POINTS_PER_LOGIT)))

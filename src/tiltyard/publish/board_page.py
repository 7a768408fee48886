"""The pages of boards: the table with its intervals, its parts by category and language, and counting it again."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import msgspec
import numpy as np

from tiltyard.boards.text import footnotes, headline, rank_text
from tiltyard.pages.document import package_text
from tiltyard.pages.figures import count, plural
from tiltyard.pages.markup import Html, el, join, link, number, pairs, shortened, table
from tiltyard.publish.columns import NAME as COLUMNS
from tiltyard.publish.pages import PARTS_PAGE, TOLERANCE, Spot, parts_title, rate_options
from tiltyard.publish.publication import BoardPart, PublishedBoard, StaticSite, slug
from tiltyard.report.sections.board import rating_row, rating_scale, ratings_table
from tiltyard.report.sections.header import warning_list

ROWS = 500
"""Models on one page of a board."""

ROWS_OF_PART, ROWS_OF_RANKS, PARTS_OF_RANKS = 100, 50, 12
"""Models on the board of a part, and models and parts in the table of all parts' ranks."""

MODEL_PAGES = 1_000
"""Models that have a page: the first of each board."""

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
    for part in publication.parts:
        if part.boards:
            yield part.file, _part_page(Spot(publication, part.file, cards), part, pages)
    if publication.parts:
        yield PARTS_PAGE, _parts_page(Spot(publication, PARTS_PAGE, cards), pages)
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
        warning_list(
            [
                *(note for note in publication.notes if "not blind" in note),
                *([publication.missing] if publication.missing else []),
            ]
        ),
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


def _part_page(spot: Spot, part: BoardPart, pages: PageMap) -> bytes:
    """The boards of one category or language."""
    said = [
        f"Rated from {plural(round(part.battles), 'battle')} of this {part.column} alone. ",
        link(spot.to(PARTS_PAGE), "All parts"),
    ]
    sections = [_board_section(spot, one, pages, 0, of_part=True) for one in part.boards]
    body = [
        el("header", el("p", part.column.capitalize(), class_="over"), el("h1", el("bdi", part.label))),
        el("main", el("p", *said), *sections, id="main", tabindex="-1"),
    ]
    sentence = f"{part.label}: {verdict(spot.publication, part.boards[0])}"
    return spot.page(f"{shortened(part.label)} · {spot.publication.title}", body, sentence)


def _parts_page(spot: Spot, pages: PageMap) -> bytes:
    """Who leads in each category and language, and the ranks of the first models in all of them."""
    publication, title = spot.publication, parts_title(spot.publication)
    sections = []
    for column in dict.fromkeys(part.column for part in publication.parts):
        parts = [part for part in publication.parts if part.column == column]
        rows = [
            [
                link(spot.to(part.file), el("bdi", part.label)) if part.boards else el("bdi", part.label),
                number(round(part.battles)),
                el("ul", *[el("li", *_lead_of(spot, part, one)) for one in part.boards], class_="plain")
                if part.boards
                else f"no board: {part.why_none}",
            ]
            for part in parts
        ]
        head: list[str | tuple[str, str]] = [column, ("battles", "num"), "who could be first"]
        ranks = [_ranks(spot, one, parts, pages) for one in publication.boards]
        sections.append(
            el("section", el("h2", column.capitalize()), table(head, rows, class_="parts"), *ranks, id=column)
        )
    said = "Each board is rated from its own battles alone, by the same rules. Battles without a value are on none."
    body = [el("header", el("h1", title)), el("main", el("p", said), *sections, id="main", tabindex="-1")]
    return spot.page(f"{title} · {publication.title}", body, f"{title}: who leads in each.")


def _lead_of(spot: Spot, part: BoardPart, one: PublishedBoard) -> list[str]:
    said = verdict(spot.publication, one)
    return [said] if one.dimension is None else [link(spot.to(part.file, one.anchor), one.dimension), f": {said}"]


def _ranks(spot: Spot, one: PublishedBoard, parts: list[BoardPart], pages: PageMap) -> Html:
    """The range of ranks of the first models, on the board of all battles and in each part."""
    boards = [(part, other) for part in parts for other in part.boards if other.dimension == one.dimension]
    if not boards:
        return Html("")
    rows = []
    ranks = [{entry.model: rank_text(entry) for entry in other.board} for _, other in boards[:PARTS_OF_RANKS]]
    for entry in one.board.entries[:ROWS_OF_RANKS]:
        found = [places.get(entry.model, "–") for places in ranks]
        rows.append([model_link(spot, entry.model, pages), rank_text(entry), *found])
    title = "Ranges of ranks" if one.dimension is None else f"Ranges of ranks: {one.dimension}"
    head: list[str | tuple[str, str]] = ["model", ("all", "num")]
    head += [(el("bdi", shortened(part.label, 24)), "num") for part, _ in boards[:PARTS_OF_RANKS]]
    return join([el("h3", title), table(head, rows, class_="ranks")])


def data_block(id: str, kind: str, content: str) -> Html:
    """Data that a script of the page reads, and that no browser runs."""
    if "</script" in content.lower() or "<!--" in content:
        raise ValueError("the data would end their element")
    return Html(f'<script type="{kind}" id="{id}">{content}</script>')


def verdict(publication: StaticSite, one: PublishedBoard) -> str:
    """Who could be first, in a sentence."""
    first = [publication.name(entry.model) for entry in one.board if (entry.rank_low or entry.rank) == 1]
    if len(first) == 1:
        return f"{first[0]} leads; first place is settled"
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


def _board_section(spot: Spot, one: PublishedBoard, pages: PageMap, first: int, *, of_part: bool = False) -> Html:
    board, codes = one.board, {name: code for code, name in enumerate(spot.publication.table.models)}
    shown = board.entries[first : first + (ROWS_OF_PART if of_part else ROWS)]
    scale = rating_scale(shown)
    rows = [rating_row(entry, model_link(spot, entry.model, pages, codes[entry.model]), scale) for entry in shown]
    notes = [el("li", note) for note in footnotes(board)]
    places = range(0, 0 if of_part else len(board), ROWS)
    if of_part and len(board) > len(shown):
        notes.append(el("li", f"The first {len(shown)} of {plural(len(board), 'model')}."))
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


def model_link(spot: Spot, model: str, pages: PageMap, code: int | None = None) -> Html:
    """A model's name, leading to its page where it has one.

    Parameters:
        spot: The page.
        model: The model.
        pages: Which models have pages.
        code: Its number in the column file, for the script that counts again.
    """
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

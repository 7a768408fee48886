"""The pages of a published folder: what each shows; the templates beside this file make the HTML."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from tiltyard.battles.battle import Outcome
from tiltyard.battles.table import MISSING, BattleTable, Codes, concat
from tiltyard.boards.leaderboard import RatingEntry
from tiltyard.boards.selection import select
from tiltyard.boards.text import footnotes, headline, interval_text, percent, rank_text
from tiltyard.decisions.records import Difference
from tiltyard.pages.escaping import Html, shortened
from tiltyard.pages.figures import count, plural, points
from tiltyard.pages.html import package_text, page
from tiltyard.publish.columns import NAME as COLUMNS
from tiltyard.publish.folder import MANIFEST
from tiltyard.publish.publication import PROMPT, BoardPart, PublishedBoard, StaticSite, slug
from tiltyard.ratings import POINTS_PER_LOGIT
from tiltyard.report.boards import BoardView, board_view
from tiltyard.report.comparison import comparison_page
from tiltyard.report.page import own_file
from tiltyard.validity.misfit import fit_sentences, fit_verdict

FEED = "feed.atom"
PARTS_PAGE = "parts.html"
SCHEMA = "battles.schema.json"
BOARD_CARD = "share/board.png"
TOLERANCE = 0.001
"""Points by which a rating counted again in a browser may differ from the published one."""

ALLOWED = "img-src data:"
"""What every page may load besides its own style: the empty picture of its tab."""

RECOUNT_POLICY = "connect-src 'self'; worker-src blob:"

ROWS = 500
"""Models on one page of a board."""

ROWS_OF_PART, ROWS_OF_RANKS, PARTS_OF_RANKS = 100, 50, 12
"""Models on the board of a part, and models and parts in the table of all parts' ranks."""

MODEL_PAGES = 1_000
"""Models that have a page: the first of each board."""

OPPONENTS = 100
"""Opponents on a model's page: those it met most."""

PROMPTS_EACH_WAY = 10
"""Prompts on a model's page on which it did worst, and as many on which it did best."""


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


@dataclass(frozen=True, slots=True)
class Spot:
    """One page of a published folder while it is written: makes links from there to the others.

    Parameters:
        publication: What is published.
        file: The page's path.
        cards: The pictures to share that there are.
    """

    publication: StaticSite
    file: str
    cards: frozenset[str] = frozenset()

    def to(self, file: str, anchor: str = "") -> str:
        """The address of a file of the folder."""
        path = posixpath.relpath(file, posixpath.dirname(self.file) or ".")
        return f"{path}#{anchor}" if anchor else path

    @property
    def places(self) -> list[tuple[str, str]]:
        """The pages that the head of every page leads to."""
        parts = [(PARTS_PAGE, parts_title(self.publication))] if self.publication.parts else []
        return [("index.html", "Board"), *parts, ("methods.html", "Methods"), ("data.html", "Data and verification")]

    def page(
        self,
        template: str,
        heading: str,
        description: str,
        *,
        title: str = "",
        allow: str = "",
        card: str = BOARD_CARD,
        **values: Any,
    ) -> bytes:
        """A whole page; its title is the heading and the name of the site, unless it has one of its own."""
        from tiltyard import __version__

        return page(
            f"publish/{template}",
            title=title or f"{heading} · {self.publication.title}",
            style=own_file("style.css") + package_text("tiltyard.publish", "publish.css"),
            allow=f"{ALLOWED}; {allow}" if allow else ALLOWED,
            spot=self,
            heading=heading,
            description=description,
            card=card,
            version=__version__,
            **values,
        ).encode()


def parts_title(publication: StaticSite) -> str:
    """What the boards of parts are called: by category, by language, or both."""
    return "By " + " and ".join(dict.fromkeys(part.column for part in publication.parts))


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
            ranks = f"Ranks {first + 1} to {min(first + ROWS, len(one.board))}"
            heading = ranks if one.dimension is None else f"{ranks}: {one.dimension}"
            title = f"{ranks} · {publication.title}"
            section = _board_section(publication, one, first)
            yield spot.file, spot.page("ranks.html", heading, ranks, title=title, pages=pages, section=section)
    for part in publication.parts:
        if part.boards:
            spot = Spot(publication, part.file, cards)
            yield (
                part.file,
                spot.page(
                    "part.html",
                    shortened(part.label),
                    f"{part.label}: {verdict(publication, part.boards[0])}",
                    part=part,
                    battles=round(part.battles),
                    pages=pages,
                    sections=[_board_section(publication, one, 0, of_part=True) for one in part.boards],
                ),
            )
    if publication.parts:
        yield PARTS_PAGE, _parts_page(Spot(publication, PARTS_PAGE, cards), pages)
    yield "index.html", _front_page(Spot(publication, "index.html", cards), pages, sha256)


def _part_file(one: PublishedBoard, first: int) -> str:
    return "index.html" if first == 0 else f"{one.anchor}-{first // ROWS + 1}.html"


@dataclass(frozen=True, slots=True)
class BoardSection:
    """A board on a page: its lines, and the pages on which the others are as `(file, ranks, whether it is this)`."""

    board: PublishedBoard
    headline: str
    view: BoardView
    notes: list[str]
    others: list[tuple[str, str, bool]]
    codes: Mapping[str, int]
    """The numbers of models in the column file, for the script that counts again."""


def _board_section(publication: StaticSite, one: PublishedBoard, first: int, *, of_part: bool = False) -> BoardSection:
    board = one.board
    places = range(first, min(first + (ROWS_OF_PART if of_part else ROWS), len(board)))
    notes = footnotes(board)
    if of_part and len(board) > len(places):
        notes.append(f"The first {len(places)} of {plural(len(board), 'model')}.")
    return BoardSection(
        board=one,
        headline=headline(board),
        view=board_view(board, places),
        notes=notes,
        others=[
            (_part_file(one, at), f"{at + 1}–{min(at + ROWS, len(board))}", at == first)
            for at in range(0, 0 if of_part else len(board), ROWS)
        ],
        codes={name: code for code, name in enumerate(publication.table.models)},
    )


def _front_page(spot: Spot, pages: PageMap, sha256: str) -> bytes:
    publication = spot.publication
    return spot.page(
        "front.html",
        publication.title,
        verdict(publication, publication.boards[0]),
        title=publication.title,
        script=package_text("tiltyard.publish", "recount.js"),
        allow=RECOUNT_POLICY,
        pages=pages,
        leads=[(one, verdict(publication, one)) for one in publication.boards],
        tiles=_tiles(publication),
        told=_told(publication),
        sections=[_board_section(publication, one, 0) for one in publication.boards],
        columns=COLUMNS,
        recount_data=_data(_recount_data(publication, sha256)),
        recount_worker=_data(package_text("tiltyard.publish", "recount_worker.js")),
    )


def _told(publication: StaticSite) -> list[str]:
    """What a reader must know first."""
    told = [publication.missing] if publication.missing else []
    if not publication.blind:
        from tiltyard.arena.blindness import NOT_BLIND

        told.insert(0, NOT_BLIND)
    return told


def _data(content: str) -> Html:
    """Data that a script of the page reads, and that no browser runs."""
    if "</script" in content.lower() or "<!--" in content:
        raise ValueError("the data would end their element")
    return Html(content)


def _tiles(publication: StaticSite) -> list[tuple[str, int | str]]:
    table = publication.table
    tiles: list[tuple[str, int | str]] = [("battles", round(table.n_battles)), ("models", len(table.models))]
    for column, what in (("question_id", "prompts"), ("voter", "voters")):
        if column in table.columns:
            tiles.append((what, len(np.unique(table.text_column(column).codes))))
    if publication.updated is not None:
        tiles.append(("newest battle", datetime.fromtimestamp(publication.updated, UTC).strftime("%Y-%m-%d")))
    return tiles


def verdict(publication: StaticSite, one: PublishedBoard) -> str:
    """Who could be first, in a sentence."""
    first = [publication.name(entry.model) for entry in one.board if (entry.rank_low or entry.rank) == 1]
    if len(first) == 1:
        return f"{first[0]} leads; first place is settled"
    if len(first) > 4:
        return f"{count(len(first))} models could each be first"
    return f"{', '.join(first[:-1])} and {first[-1]} could each be first"


def _recount_data(publication: StaticSite, sha256: str) -> str:
    codes = {name: code for code, name in enumerate(publication.table.models)}
    data = {
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
    return json.dumps(data, ensure_ascii=True).replace("<", "\\u003c")


def _parts_page(spot: Spot, pages: PageMap) -> bytes:
    """Who leads in each category and language, and the ranks of the first models in all of them."""
    publication, title = spot.publication, parts_title(spot.publication)
    columns = []
    for column in dict.fromkeys(part.column for part in publication.parts):
        parts = [part for part in publication.parts if part.column == column]
        rows = [
            (part, round(part.battles), [(one, verdict(publication, one)) for one in part.boards]) for part in parts
        ]
        ranks = [_ranks(one, parts) for one in publication.boards]
        columns.append((column, rows, [one for one in ranks if one is not None]))
    return spot.page("parts.html", title, f"{title}: who leads in each.", pages=pages, columns=columns)


def _ranks(one: PublishedBoard, parts: list[BoardPart]) -> tuple[str, list[str], list[tuple[str, list[str]]]] | None:
    """The range of ranks of the first models, on the board of all battles and in each part; None without any."""
    boards = [(part, other) for part in parts for other in part.boards if other.dimension == one.dimension]
    boards = boards[:PARTS_OF_RANKS]
    if not boards:
        return None
    ranks = [{entry.model: rank_text(entry) for entry in other.board} for _, other in boards]
    rows = [
        (entry.model, [rank_text(entry), *(places.get(entry.model, "–") for places in ranks)])
        for entry in one.board.entries[:ROWS_OF_RANKS]
    ]
    title = "Ranges of ranks" if one.dimension is None else f"Ranges of ranks: {one.dimension}"
    return title, [shortened(part.label, 24) for part, _ in boards], rows


def pair_page(spot: Spot, result: Difference) -> str:
    """The page of two models.

    Parameters:
        spot: The page.
        result: Their difference.
    """
    return comparison_page(
        result,
        spot.publication.table,
        texts=spot.publication.texts,
        template="publish/pair.html",
        style=package_text("tiltyard.publish", "publish.css"),
        allow=ALLOWED,
        spot=spot,
        card=BOARD_CARD,
    )


@dataclass(frozen=True, slots=True, eq=False)
class GroupedCounts:
    """Battles of each model by something else: whom it met, or on which prompt.

    Parameters:
        labels: The names of what they are grouped by.
        start: Where the rows of each model begin.
        label: The place in `labels` of each row.
        counts: Won, lost, tied, both bad.
        expected: The wins, ties counting half, that the ratings of the two sides say.
    """

    labels: tuple[str, ...]
    start: NDArray[np.int64]
    label: NDArray[np.int64]
    counts: NDArray[np.float64]
    expected: NDArray[np.float64]

    def of(self, code: int) -> list[tuple[str, NDArray[np.float64], float]]:
        """The rows of a model: name, counts, expected wins."""
        rows = slice(int(self.start[code]), int(self.start[code + 1]))
        names = [self.labels[label] for label in self.label[rows].tolist()]
        return list(zip(names, self.counts[rows], self.expected[rows].tolist(), strict=True))


@dataclass(frozen=True, slots=True, eq=False)
class ModelTallies:
    """The battles behind a board, of each model.

    Parameters:
        models: The names.
        opponents: By whom it met.
        prompts: By prompt; None where no battle names one.
    """

    models: tuple[str, ...]
    opponents: GroupedCounts
    prompts: GroupedCounts | None


def board_tallies(publication: StaticSite, one: PublishedBoard) -> ModelTallies:
    """The battles behind a board, by opponent and by prompt.

    Parameters:
        publication: What is published.
        one: The board.
    """
    selected = select(publication.table, publication.rules.estimator(one.dimension).selection)
    battles = concat([selected.table, selected.both_bad])
    ratings = np.array([one.board.ratings.get(name, np.nan) for name in battles.models])
    column = battles.columns.get(PROMPT)
    prompts = None
    if isinstance(column, Codes):
        known = (column.codes != MISSING) & np.isfinite(ratings[battles.model_a] + ratings[battles.model_b])
        named = battles.take(known)
        prompts = _grouped(named, ratings, tuple(column.labels), np.tile(column.codes[known], 2))
    opponents = np.concatenate([battles.model_b, battles.model_a])
    return ModelTallies(battles.models, _grouped(battles, ratings, battles.models, opponents), prompts)


def _grouped(
    battles: BattleTable, ratings: NDArray[np.float64], labels: tuple[str, ...], label: NDArray[np.int32]
) -> GroupedCounts:
    """Every battle from both sides, side A first, grouped by model and label."""
    width, models = max(len(labels), 1), np.arange(len(battles.models) + 1)
    swapped = np.array([Outcome(code).swapped for code in range(len(Outcome))])
    model = np.concatenate([battles.model_a, battles.model_b]).astype(np.int64)
    result = np.concatenate([battles.outcome.astype(np.int64), swapped[battles.outcome]])
    weight = np.concatenate([battles.weight, battles.weight])
    keys, place = np.unique(model * width + label, return_inverse=True)
    counts = np.zeros((len(keys), len(Outcome)))
    np.add.at(counts, (place, result), weight)
    share_a = _expected(ratings[battles.model_a] - ratings[battles.model_b])
    share = np.where(result == Outcome.BOTH_BAD, 0.0, np.concatenate([share_a, 1.0 - share_a]))
    expected = np.zeros(len(keys))
    np.add.at(expected, place, weight * share)
    return GroupedCounts(labels, np.searchsorted(keys // width, models), keys % width, counts, expected)


@dataclass(frozen=True, slots=True)
class ResultRow:
    """Results against an opponent or on a prompt: the share won, what was expected, and counts."""

    name: str
    label: str
    won: float
    tied: float
    lost: float
    battles: float
    score: float | None
    expected: float | None
    compare: str = ""


@dataclass(frozen=True, slots=True)
class ModelStanding:
    """A model on one board: its line, whom it met, and its prompts in one table or two."""

    board: PublishedBoard
    entry: RatingEntry
    places: str
    interval: str
    level: str
    opponents: list[ResultRow]
    opponents_left_out: int
    prompts: list[tuple[str, list[ResultRow]]]
    prompts_note: str


def model_page(spot: Spot, model: str, pages: PageMap, tallies: Sequence[ModelTallies]) -> bytes:
    """The page of a model: where it stands, whom it met, and its best and worst prompts.

    Parameters:
        spot: The page.
        model: The model.
        pages: Which models and pairs have pages.
        tallies: The battles of each board.
    """
    publication = spot.publication
    name = publication.name(model)
    boards = list(zip(publication.boards, tallies, strict=True))
    placed = [(one, entry, tally) for one, tally in boards for entry in one.board if entry.model == model]
    one, entry, _ = placed[0]
    return spot.page(
        "model.html",
        name,
        f"{name}: rank {rank_text(entry)} of {len(one.board)}, rating {points(entry.rating)}",
        card=f"share/{slug(model)}.png",
        name=name,
        model=model,
        pages=pages,
        standings=[_standing(spot, one, entry, tally, pages) for one, entry, tally in placed],
    )


def _standing(
    spot: Spot, one: PublishedBoard, entry: RatingEntry, tally: ModelTallies, pages: PageMap
) -> ModelStanding:
    level = (one.board.settings.get("interval") or {}).get("level")
    met = tally.opponents.of(tally.models.index(entry.model))
    met.sort(key=lambda row: (-float(row[1].sum()), row[0]))
    opponents = []
    for other, counts, _ in met[:OPPONENTS]:
        file, rated = pages.pair(entry.model, other), one.board.ratings.get(other)
        expected = None if rated is None else float(_expected(np.float64(entry.rating - rated)))
        compare = "" if file is None else spot.to(file)
        opponents.append(_result_row(other, spot.publication.name(other), counts, expected, compare))
    prompts, note = _prompts(entry, tally)
    return ModelStanding(
        board=one,
        entry=entry,
        places=rank_text(entry),
        interval=interval_text(entry, 0),
        level=percent(level) if level else "",
        opponents=opponents,
        opponents_left_out=len(met) - len(opponents),
        prompts=prompts,
        prompts_note=note,
    )


def _prompts(entry: RatingEntry, tally: ModelTallies) -> tuple[list[tuple[str, list[ResultRow]]], str]:
    """The prompts on which a model won fewest and most battles beyond what the ratings say, and what to know."""
    rows = [] if tally.prompts is None else tally.prompts.of(tally.models.index(entry.model))
    rated = [row for row in rows if row[1][:3].sum() > 0]
    if len(rated) < 2:
        return [], ""
    rated.sort(key=lambda row: (row[1][0] + 0.5 * row[1][2] - row[2], row[0]))
    each, parts = PROMPTS_EACH_WAY, [("Prompts", rated)]
    note = "Ordered by battles won beyond what the ratings of both sides say, fewest first."
    if len(rated) > 2 * each:
        parts = [("Worst prompts", rated[:each]), ("Best prompts", rated[: -each - 1 : -1])]
        note = (
            f"Of {plural(len(rated), 'prompt')}: where it won fewest and most battles beyond what the ratings of both "
            "sides say."
        )
    return [
        (
            title,
            [_result_row(name, name, counts, expected / float(counts[:3].sum())) for name, counts, expected in some],
        )
        for title, some in parts
    ], note


def _result_row(
    name: str, shown: str, counts: NDArray[np.float64], expected: float | None, compare: str = ""
) -> ResultRow:
    won, lost, tied, bad = (float(value) for value in counts)
    rated = won + lost + tied
    return ResultRow(
        name=name,
        label=f"{shortened(shown)}: won {count(won)}, tied {count(tied)}, lost {count(lost)}",
        won=won,
        tied=tied,
        lost=lost,
        battles=rated + bad,
        score=(won + 0.5 * tied) / rated if rated else None,
        expected=expected,
        compare=compare,
    )


def _expected(difference: NDArray[np.float64] | np.float64) -> NDArray[np.float64]:
    return np.asarray(1.0 / (1.0 + np.exp(-difference / POINTS_PER_LOGIT)))


def methods_page(spot: Spot) -> bytes:
    """How the ratings were made.

    Parameters:
        spot: The page.
    """
    rules = spot.publication.rules
    anchor = f"none: the mean is {rules.centre:g}" if rules.anchor is None else "{} at {:g}".format(*rules.anchor)
    cluster = "prompt and voter, where known" if rules.cluster == "auto" else rules.cluster
    return spot.page(
        "methods.html",
        "Methods",
        "How the ratings of this board are made.",
        boards=[(one, headline(one.board), footnotes(one.board), _fit(one)) for one in spot.publication.boards],
        rules=[
            ("ties", rules.ties),
            ("both answers bad", rules.both_bad),
            ("judgments that changed with the order", rules.inconsistent),
            ("fewest battles of a model", f"{rules.min_battles:g}"),
            ("battles depend on each other by", cluster),
            ("level of intervals", f"{100 * rules.level:g} %"),
            ("anchor", anchor),
        ],
    )


def _fit(one: PublishedBoard) -> dict[str, Any] | None:
    record = one.board.details.get("misfit")
    return None if record is None else {"verdict": fit_verdict(record), "checks": fit_sentences(record)}


FILES = {
    "battles.parquet": "every battle, as columns",
    "battles.jsonl": "every battle, one JSON object a line",
    SCHEMA: "what a battle row holds, as JSON Schema",
    COLUMNS: "what the board page reads to count the board again",
    MANIFEST: "how the board is rated, and the SHA-256 of every file here",
    FEED: "a feed that has a new entry whenever the battles change",
}


def data_page(spot: Spot, sizes: dict[str, tuple[int, str]], more: dict[str, str]) -> bytes:
    """What can be downloaded, and how to check it.

    Parameters:
        spot: The page.
        sizes: Bytes and SHA-256 of files that are known already.
        more: Further files, and what they are.
    """
    publication = spot.publication
    boards = {
        one.file: "the ratings" + ("" if one.dimension is None else f" of {one.dimension}")
        for one in publication.boards
    }
    named = {**FILES, **boards, **more}
    if publication.updated is None:
        named.pop(FEED)
    return spot.page(
        "data.html",
        "Data and verification",
        "The battles behind this board, and how to check it.",
        title=f"Data · {publication.title}",
        files=[(name, what, *sizes.get(name, (None, ""))) for name, what in named.items()],
        rate_options=rate_options(publication),
    )


def rate_options(publication: StaticSite) -> str:
    """The options with which `tiltyard rate` gives the board of these battles."""
    rules: Any = publication.rules
    options = [
        f"--ties {rules.ties}" if rules.ties != "davidson" else "",
        f"--both-bad {rules.both_bad}" if rules.both_bad != "separate" else "",
        f"--inconsistent {rules.inconsistent}" if rules.inconsistent != "tie" else "",
        f"--min-battles {rules.min_battles:g}" if rules.min_battles else "",
        f"--cluster {rules.cluster}" if rules.cluster != "auto" else "",
        "--anytime" if rules.anytime else "",
        "--only-connected" if rules.only_connected else "",
        ""
        if rules.anchor is None
        else "--anchor '{}={:g}'".format(rules.anchor[0].replace("'", "'\\''"), rules.anchor[1]),
    ]
    return "".join(f" {option}" for option in options if option)

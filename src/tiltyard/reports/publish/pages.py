"""The pages of a published folder: what each shows; the templates beside this file make the HTML."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from tiltyard.analysis.boards import (
    RatingEntry,
    fit_sentences,
    fit_verdict,
    footnotes,
    headline,
    interval_text,
    percent,
    rank_text,
    select,
)
from tiltyard.analysis.decisions import RatingDifference
from tiltyard.data.battles import MISSING, BattleTable, Codes, Outcome, concat
from tiltyard.render import Html, count, package_text, page, plural, points, shortened
from tiltyard.reports import board_view, comparison_page, own_file
from tiltyard.reports.publish.columns import NAME as COLUMNS
from tiltyard.reports.publish.folder import PublishedFile
from tiltyard.reports.publish.publication import PROMPT, BoardPart, PublishedBoard, StaticSite, slug
from tiltyard.stats import POINTS_PER_LOGIT

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
class PageContext:
    """One page of a published folder while it is written: makes links from there to the others.

    Parameters:
        publication: What is published.
        file: The page's path.
        cards: The pictures to share that there are.
        models: Files of models by name.
        pairs: Files of pairs, by their two names in the order of the page.
    """

    publication: StaticSite
    file: str = "index.html"
    cards: frozenset[str] = frozenset()
    models: Mapping[str, str] = field(default_factory=dict)
    pairs: Mapping[tuple[str, str], str] = field(default_factory=dict)

    def to(self, file: str, anchor: str = "") -> str:
        """The address of a file of the folder."""
        path = posixpath.relpath(file, posixpath.dirname(self.file) or ".")
        return f"{path}#{anchor}" if anchor else path

    @property
    def parts_title(self) -> str:
        """What the boards of parts are called: by category, by language, or both."""
        return "By " + " and ".join(dict.fromkeys(part.column for part in self.publication.parts))

    def page(
        self,
        file: str,
        template: str,
        heading: str,
        description: str,
        *,
        title: str = "",
        allow: str = "",
        card: str = BOARD_CARD,
        **values: Any,
    ) -> tuple[str, bytes]:
        """A whole page; its title is the heading and the name of the site, unless it has one of its own."""
        from tiltyard import __version__

        text = page(
            f"publish/{template}",
            title=title or f"{heading} · {self.publication.title}",
            style=own_file("style.css") + package_text("tiltyard.reports.publish", "publish.css"),
            allow=f"{ALLOWED}; {allow}" if allow else ALLOWED,
            context=replace(self, file=file),
            publication=self.publication,
            heading=heading,
            description=description,
            card=card,
            version=__version__,
            verdict=verdict,
            **values,
        )
        return file, text.encode()


def model_files(publication: StaticSite) -> dict[str, str]:
    """The page of every model that has one, the best first."""
    names = dict.fromkeys(
        entry.model for published in publication.boards for entry in published.board.entries[:MODEL_PAGES]
    )
    return {name: f"models/{slug(name)}.html" for name in names}


def board_pages(context: PageContext, sha256: str) -> Iterator[tuple[str, bytes]]:
    """Further pages of long boards, the boards of parts, and the front page."""
    publication = context.publication
    for published in publication.boards:
        for first in range(ROWS, len(published.board), ROWS):
            ranks = f"Ranks {first + 1} to {min(first + ROWS, len(published.board))}"
            heading = ranks if published.dimension is None else f"{ranks}: {published.dimension}"
            title = f"{ranks} · {publication.title}"
            sections = [_section(publication, published, first)]
            yield context.page(
                _part_file(published, first), "ranks.html", heading, ranks, title=title, sections=sections
            )
    for part in publication.parts:
        if part.boards:
            description = f"{part.label}: {verdict(publication, part.boards[0])}"
            sections = [_section(publication, published, 0, of_part=True) for published in part.boards]
            heading = shortened(part.label)
            yield context.page(part.file, "ranks.html", heading, description, part=part, sections=sections)
    if publication.parts:
        title = context.parts_title
        yield context.page(PARTS_PAGE, "parts.html", title, f"{title}: who leads in each.", ranks_in=_ranks_in)
    yield context.page(
        "index.html",
        "front.html",
        publication.title,
        verdict(publication, publication.boards[0]),
        title=publication.title,
        script=package_text("tiltyard.reports.publish", "recount.js"),
        allow=RECOUNT_POLICY,
        tiles=_tiles(publication),
        cautions=_cautions(publication),
        sections=[_section(publication, published, 0) for published in publication.boards],
        columns=COLUMNS,
        recount_data=_data(_recount_data(publication, sha256)),
        recount_worker=_data(package_text("tiltyard.reports.publish", "recount_worker.js")),
    )


def _part_file(published: PublishedBoard, first: int) -> str:
    return "index.html" if first == 0 else f"{published.anchor}-{first // ROWS + 1}.html"


def _section(
    publication: StaticSite, published: PublishedBoard, first: int, *, of_part: bool = False
) -> dict[str, Any]:
    """A board on a page: its lines, the pages with the others, and the numbers of models in the column file."""
    board = published.board
    places = range(first, min(first + (ROWS_OF_PART if of_part else ROWS), len(board)))
    notes = footnotes(board)
    if of_part and len(board) > len(places):
        notes.append(f"The first {len(places)} of {plural(len(board), 'model')}.")
    return {
        "board": published,
        "headline": headline(board),
        "view": board_view(board, places),
        "notes": notes,
        "others": [
            (_part_file(published, at), f"{at + 1}–{min(at + ROWS, len(board))}", at == first)
            for at in range(0, 0 if of_part else len(board), ROWS)
        ],
        "codes": {name: code for code, name in enumerate(publication.table.models)},
    }


def _cautions(publication: StaticSite) -> list[str]:
    """What a reader must know first."""
    cautions = [publication.missing] if publication.missing else []
    if not publication.blind:
        from tiltyard.arena import NOT_BLIND

        cautions.insert(0, NOT_BLIND)
    return cautions


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
        newest = datetime.fromtimestamp(publication.updated, UTC)
        tiles.append(("newest battle", f"{newest.day} {newest:%B %Y}"))
    return tiles


def verdict(publication: StaticSite, published: PublishedBoard) -> str:
    """Who could be first, in a sentence."""
    first = [publication.name(entry.model) for entry in published.board if (entry.rank_low or entry.rank) == 1]
    if len(first) == 1:
        return f"{first[0]} is best"
    others = (
        f"{count(len(first) - 1)} others"
        if len(first) > 4
        else " or ".join(filter(None, (", ".join(first[1:-1]), first[-1])))
    )
    return f"{first[0]} leads, but {others} could be best"


def _recount_data(publication: StaticSite, sha256: str) -> str:
    codes = {name: code for code, name in enumerate(publication.table.models)}
    data = {
        "file": COLUMNS,
        "sha256": sha256,
        "tolerance": TOLERANCE,
        "options": rate_options(publication),
        "rules": msgspec.to_builtins(publication.rules),
        "names": {codes[model]: name for model, name in publication.names.items() if model in codes},
        "shown": ROWS,
        "boards": [
            {
                "anchor": published.anchor,
                "filter": {} if published.dimension is None else {"dimension": published.dimension},
                "ratings": [[codes[entry.model], entry.rating] for entry in published.board],
            }
            for published in publication.boards
        ],
    }
    return json.dumps(data, ensure_ascii=True).replace("<", "\\u003c")


def _ranks_in(published: PublishedBoard, parts: list[BoardPart]) -> tuple[list[str], list[tuple[str, list[str]]]]:
    """Parts with such a board, and the ranges of ranks of the first models: among all battles, and in each part."""
    boards = [(part, other) for part in parts for other in part.boards if other.dimension == published.dimension]
    boards = boards[:PARTS_OF_RANKS]
    ranks = [{entry.model: rank_text(entry) for entry in other.board} for _, other in boards]
    rows = [
        (entry.model, [rank_text(entry), *(places.get(entry.model, "–") for places in ranks)])
        for entry in published.board.entries[:ROWS_OF_RANKS]
    ]
    return [shortened(part.label, 24) for part, _ in boards], rows


def pair_page(context: PageContext, file: str, result: RatingDifference) -> bytes:
    """The page of two models."""
    return comparison_page(
        result,
        context.publication.table,
        texts=context.publication.texts,
        template="publish/pair.html",
        style=package_text("tiltyard.reports.publish", "publish.css"),
        allow=ALLOWED,
        context=replace(context, file=file),
        card=BOARD_CARD,
    ).encode()


class GroupedCounts(msgspec.Struct, frozen=True, eq=False):
    """Battles of each model by something else: whom it met, or on which prompt.

    Parameters:
        models: The names of the models.
        labels: The names of what they are grouped by.
        start: Where the rows of each model begin.
        label: The place in `labels` of each row.
        counts: Won, lost, tied, both bad.
        expected: The wins, ties counting half, that the ratings of the two sides say.
    """

    models: tuple[str, ...]
    labels: tuple[str, ...]
    start: NDArray[np.int64]
    label: NDArray[np.int64]
    counts: NDArray[np.float64]
    expected: NDArray[np.float64]

    def of(self, model: str) -> list[tuple[str, list[float], float]]:
        """The rows of a model: name, counts, expected wins."""
        code = self.models.index(model)
        rows = slice(int(self.start[code]), int(self.start[code + 1]))
        names = [self.labels[label] for label in self.label[rows].tolist()]
        return list(zip(names, self.counts[rows].tolist(), self.expected[rows].tolist(), strict=True))


Tallies = tuple[GroupedCounts, GroupedCounts | None]
"""The battles behind a board by model: by whom it met, and by prompt where battles name one."""


def board_tallies(publication: StaticSite, published: PublishedBoard) -> Tallies:
    """The battles behind a board, by opponent and by prompt."""
    selected = select(publication.table, publication.rules.estimator(published.dimension).selection)
    battles = concat([selected.table, selected.both_bad])
    ratings = np.array([published.board.ratings.get(name, np.nan) for name in battles.models])
    opponents = _grouped(battles, ratings, battles.models, np.concatenate([battles.model_b, battles.model_a]))
    column = battles.columns.get(PROMPT)
    if not isinstance(column, Codes):
        return opponents, None
    known = (column.codes != MISSING) & np.isfinite(ratings[battles.model_a] + ratings[battles.model_b])
    codes = np.tile(column.codes[known], 2)
    return opponents, _grouped(battles.take(known), ratings, tuple(column.labels), codes)


def _grouped(
    battles: BattleTable, ratings: NDArray[np.float64], labels: tuple[str, ...], label: NDArray[np.int32]
) -> GroupedCounts:
    """Every battle from both sides, side A first, grouped by model and label."""
    width, models = max(len(labels), 1), np.arange(len(battles.models) + 1)
    swapped = np.array([outcome.swapped.code for outcome in Outcome])
    model = np.concatenate([battles.model_a, battles.model_b]).astype(np.int64)
    result = np.concatenate([battles.outcome.astype(np.int64), swapped[battles.outcome]])
    weight = np.concatenate([battles.weight, battles.weight])
    keys, place = np.unique(model * width + label, return_inverse=True)
    counts = np.zeros((len(keys), len(Outcome)))
    np.add.at(counts, (place, result), weight)
    share_a = _expected(ratings[battles.model_a] - ratings[battles.model_b])
    share = np.where(result == Outcome.BOTH_BAD.code, 0.0, np.concatenate([share_a, 1.0 - share_a]))
    expected = np.zeros(len(keys))
    np.add.at(expected, place, weight * share)
    start = np.searchsorted(keys // width, models)
    return GroupedCounts(battles.models, labels, start, keys % width, counts, expected)


Result = tuple[str, list[float], float | None]
"""An opponent or a prompt, counts (won, lost, tied, both bad), and the share that the ratings expect."""


def model_page(context: PageContext, model: str, tallies: Sequence[Tallies]) -> tuple[str, bytes]:
    """The page of a model: where it stands, whom it met, and its best and worst prompts."""
    publication, name = context.publication, context.publication.name(model)
    standings = [
        _standing(published, entry, tally)
        for published, tally in zip(publication.boards, tallies, strict=True)
        for entry in published.board
        if entry.model == model
    ]
    published, entry = standings[0]["board"], standings[0]["entry"]
    return context.page(
        f"models/{slug(model)}.html",
        "model.html",
        name,
        f"{name}: rank {rank_text(entry)} of {len(published.board)}, rating {points(entry.rating)}",
        card=f"share/{slug(model)}.png",
        name=name,
        model=model,
        standings=standings,
    )


def _standing(published: PublishedBoard, entry: RatingEntry, tally: Tallies) -> dict[str, Any]:
    """A model on one board: its line, whom it met, and the prompts on which it did worst and best."""
    by_opponent, by_prompt = tally
    met = sorted(by_opponent.of(entry.model), key=lambda row: (-sum(row[1]), row[0]))
    opponents: list[Result] = []
    for other, counts, _ in met[:OPPONENTS]:
        rated = published.board.ratings.get(other)
        share = None if rated is None else float(_expected(np.float64(entry.rating - rated)))
        opponents.append((other, counts, share))
    battles = [] if by_prompt is None else [row for row in by_prompt.of(entry.model) if sum(row[1][:3]) > 0]
    battles.sort(key=lambda row: (row[1][0] + 0.5 * row[1][2] - row[2], row[0]))
    prompts: list[Result] = [(name, counts, expected / sum(counts[:3])) for name, counts, expected in battles]
    level = published.board.settings.interval and published.board.settings.interval.level
    return {
        "board": published,
        "entry": entry,
        "ranks": rank_text(entry),
        "interval": interval_text(entry, 0),
        "level": percent(level) if level else "",
        "opponents": opponents,
        "opponents_left_out": len(met) - len(opponents),
        "prompts": prompts if len(prompts) > 1 else [],
        "each_way": PROMPTS_EACH_WAY,
    }


def _expected(difference: NDArray[np.float64] | np.float64) -> NDArray[np.float64]:
    return np.asarray(1.0 / (1.0 + np.exp(-difference / POINTS_PER_LOGIT)))


def methods_page(context: PageContext) -> tuple[str, bytes]:
    """How the ratings were made."""
    return context.page(
        "methods.html",
        "methods.html",
        "Methods",
        "How the ratings of this board are made.",
        rules=context.publication.rules,
        headline_of=headline,
        notes_of=footnotes,
        fit_verdict=fit_verdict,
        fit_checks=fit_sentences,
    )


FILES = {
    "battles.parquet": "every battle, as columns",
    "battles.jsonl": "every battle, one JSON object a line",
    SCHEMA: "what a battle row holds, as JSON Schema",
    COLUMNS: "what the board page reads to count the board again",
    "published.json": "how the board is rated, and the SHA-256 of every file here",
    FEED: "a feed that has a new entry whenever the battles change",
}


def data_page(context: PageContext, hashes: Mapping[str, PublishedFile], more: dict[str, str]) -> tuple[str, bytes]:
    """What can be downloaded, and how to check it."""
    publication = context.publication
    named = FILES | {
        published.file: "the ratings" + ("" if published.dimension is None else f" of {published.dimension}")
        for published in publication.boards
    }
    files = [
        (name, what, hashes.get(name))
        for name, what in (named | more).items()
        if name != FEED or publication.updated is not None
    ]
    return context.page(
        "data.html",
        "data.html",
        "Data and verification",
        "The battles behind this board, and how to check it.",
        title=f"Data · {publication.title}",
        files=files,
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

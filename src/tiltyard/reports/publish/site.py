"""The files of a published folder, one after the other: data first, then the pages that lead to them."""

from __future__ import annotations

import hashlib
import io
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

import msgspec

from tiltyard.analysis.boards import RatingEntry, RatingsFile, Solved, rank_text
from tiltyard.analysis.decisions import RatingDifference, compare_in
from tiltyard.data.battles import write_battles, write_lines
from tiltyard.data.schemas import schema_text
from tiltyard.errors import BattleError, RatingError
from tiltyard.files import json_text
from tiltyard.render import Scale, plain_count, points, render
from tiltyard.reports import rating_scale
from tiltyard.reports.publish.columns import NAME as COLUMNS
from tiltyard.reports.publish.columns import column_file
from tiltyard.reports.publish.folder import (
    MANIFEST,
    BoardFile,
    PublishedFile,
    PublishedManifest,
    write_folder,
    writer_hash,
)
from tiltyard.reports.publish.pages import (
    BOARD_CARD,
    FEED,
    SCHEMA,
    PageContext,
    board_pages,
    board_tallies,
    data_page,
    methods_page,
    model_files,
    model_page,
    pair_page,
    verdict,
)
from tiltyard.reports.publish.publication import StaticSite, slug

FIRST = 10
"""Models of which every pair has a page."""

MOST_PAIRS = 150
PARQUET, PROMPTS, NAMES = "battles.parquet", "prompts.json", "models.json"
"""Texts of prompts by id, and names of models as people read them: only where there are any that may be public."""

ROWS_FOR_PAIRS = 20_000_000
"""Pages of pairs at the most, and battles looked at for all of them together: a large board has fewer."""


CARD_ROWS = 6
"""Models on the picture of a board."""

MODEL_CARDS = 50
"""Models that have a picture: the first ones."""


Kept = Callable[[str, bytes], bytes]
"""Takes a file's path and its bytes as they were made, and says which bytes are those of the folder."""


def write_publication(publication: StaticSite, out: Path) -> tuple[int, str]:
    """Write a publication to a folder; say how many files it has, and its fingerprint."""
    with tempfile.TemporaryDirectory(prefix="tiltyard-") as spare:
        return write_folder(out, site_files(publication, Path(spare), lambda _, content: content))


def site_files(publication: StaticSite, spare: Path, kept: Kept) -> Iterator[tuple[str, bytes]]:
    """Every file of the folder, its manifest last.

    Parameters:
        publication: What is published.
        spare: A folder for files on the way.
        kept: Which bytes count, for the hashes in later files: of a folder that is checked those that are there, where
            they differ in nothing but the last digits of numbers.
    """
    hashes: dict[str, PublishedFile] = {}

    def noted(name: str, content: bytes) -> tuple[str, bytes]:
        content = kept(name, content)
        hashes[name] = PublishedFile(sha256=hashlib.sha256(content).hexdigest(), bytes=len(content))
        return name, content

    lines = io.BytesIO()
    write_lines(lines, publication.table)
    yield noted("battles.jsonl", lines.getvalue())
    parquet = spare / PARQUET
    write_battles(parquet, publication.table)
    yield noted(PARQUET, parquet.read_bytes())
    yield noted(COLUMNS, column_file(publication.table))
    yield noted(SCHEMA, schema_text("battle").encode())
    for published in publication.boards:
        report = RatingsFile.of(published.board)
        settings = msgspec.structs.replace(report.settings, battles_sha256=hashes["battles.jsonl"].sha256)
        report = replace(report, settings=settings)
        yield noted(published.file, report.to_json().encode())
    if publication.texts:
        yield noted(PROMPTS, json_text(dict(publication.texts)).encode())
    if publication.names:
        yield noted(NAMES, json_text(dict(publication.names)).encode())
    for name, content in sorted(publication.evidence.items()):
        yield noted(name, content)
    cards = dict(share_cards(publication))
    for name, content in cards.items():
        yield noted(name, content)
    if publication.updated is not None:
        yield noted(FEED, feed(publication, hashes["battles.jsonl"].sha256).encode())
    for name, content in _pages(publication, hashes, frozenset(cards)):
        yield noted(name, content)
    stated = msgspec.json.format(msgspec.json.encode(manifest_of(publication, hashes)), indent=1)
    yield MANIFEST, kept(MANIFEST, stated + b"\n")


def manifest_of(publication: StaticSite, hashes: dict[str, PublishedFile]) -> PublishedManifest:
    """What the folder says about itself."""
    from tiltyard import __version__

    return PublishedManifest(
        tiltyard_version=__version__,
        writer=writer_hash(),
        title=publication.title,
        source=publication.kind,
        updated=None if publication.updated is None else _instant(publication.updated),
        url=publication.url,
        battles=publication.table.n_battles,
        models=len(publication.table.models),
        rules=publication.rules,
        boards=tuple(BoardFile(file=published.file, dimension=published.dimension) for published in publication.boards),
        texts=publication.show_texts,
        notes=publication.notes,
        blind=publication.blind,
        missing=publication.missing,
        files=dict(sorted(hashes.items())),
    )


def _pages(
    publication: StaticSite, hashes: dict[str, PublishedFile], cards: frozenset[str]
) -> Iterator[tuple[str, bytes]]:
    compared = _compared(publication)
    pairs = {pair: f"compare/{slug(pair[0])}--{slug(pair[1])}.html" for pair in compared}
    for pair, file in pairs.items():
        yield file, pair_page(PageContext(publication, cards=cards), file, compared[pair])
    context = PageContext(publication, cards=cards, models=model_files(publication), pairs=pairs)
    tallies = [board_tallies(publication, published) for published in publication.boards]
    for model in context.models:
        yield model_page(context, model, tallies)
    yield methods_page(context)
    more = dict.fromkeys(sorted(publication.evidence), "the arena’s public log, from which the battles are made")
    more |= {PROMPTS: "the texts of prompts"} if publication.texts else {}
    more |= {NAMES: "the names of models"} if publication.names else {}
    yield data_page(context, hashes, more)
    yield from board_pages(context, hashes[COLUMNS].sha256)


def _compared(publication: StaticSite) -> dict[tuple[str, str], RatingDifference]:
    """The difference of every pair that has a page: neighbours on the board, and the first models with each other."""
    estimator, solved_before = publication.rules.estimator(), dict[tuple[str, str], "Solved"]()
    compared = {}
    for better, other in chosen_pairs(publication):
        try:
            result = compare_in(
                publication.table, better, other, estimator, texts=publication.texts, solved_before=solved_before
            )
        except (BattleError, RatingError):
            continue
        if publication.missing:
            result = replace(result, remarks=(*result.remarks, f"of the whole run, {publication.missing}"))
        compared[better, other] = result
    return compared


def chosen_pairs(publication: StaticSite) -> list[tuple[str, str]]:
    """The pairs that have a page, the better model first."""
    pairs: dict[frozenset[str], tuple[str, str]] = {}
    for published in publication.boards:
        names = published.board.models
        first = names[:FIRST]
        chosen = [(a, b) for place, a in enumerate(first) for b in first[place + 1 :]]
        for pair in [*pairwise(names), *chosen]:
            pairs.setdefault(frozenset(pair), pair)
    most = min(MOST_PAIRS, max(FIRST, ROWS_FOR_PAIRS // max(len(publication.table), 1)))
    return list(pairs.values())[:most]


def share_cards(publication: StaticSite) -> Iterator[tuple[str, bytes]]:
    """A picture of the first board, and of each of its first models; empty where Pillow, which draws them, is missing.

    A picture is only of use where its address is known: programs that show it do not look at relative ones.
    """
    if not publication.pictures:
        return
    board, title = publication.boards[0].board, publication.title
    shown = board.entries[:MODEL_CARDS]
    files = [f"share/{slug(entry.model)}.png" for entry in shown]
    if find_spec("PIL") is None:
        yield from ((file, b"") for file in (BOARD_CARD, *files))
        return
    from tiltyard.render import CardRow, board_card, legible, model_card

    scale = rating_scale(shown)

    def name(entry: RatingEntry) -> str:
        return legible(publication.name(entry.model), entry.model)

    def interval(entry: RatingEntry) -> tuple[Scale, float, tuple[float | None, float | None]]:
        return scale, entry.rating, (entry.ci_low, entry.ci_high)

    rows = [
        CardRow(rank_text(entry), name(entry), points(entry.rating), interval(entry))
        for entry in board.entries[:CARD_ROWS]
    ]
    foot = f"{plain_count(board.n_battles)} battles of {len(board):,} models"
    yield BOARD_CARD, board_card(title, verdict(publication, publication.boards[0]), rows, foot)
    for entry, file in zip(shown, files, strict=True):
        rank, rating = f"rank {rank_text(entry)} of {len(board):,}", f"rating {points(entry.rating)}"
        foot = f"{plain_count(entry.n_battles)} battles"
        yield file, model_card(title, name(entry), rank, rating, interval(entry), foot)


def feed(publication: StaticSite, sha256: str) -> str:
    """An Atom feed with one entry: the board as it is. Its id follows from the battles, so new battles are news."""
    assert publication.updated is not None
    url, title = publication.url, publication.title
    return render(
        "publish/feed.atom",
        publication=publication,
        at=_instant(publication.updated),
        id=uuid5(NAMESPACE_URL, url or title),
        entry=uuid5(NAMESPACE_URL, f"{url or title}#{sha256}"),
        words="; ".join(
            f"{published.dimension}: {verdict(publication, published)}"
            if published.dimension
            else verdict(publication, published)
            for published in publication.boards
        ),
    )


def _instant(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

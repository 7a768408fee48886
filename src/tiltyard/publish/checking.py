"""Checking a published folder from nothing but its files: hashes, the three copies of the battles, boards, pages."""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from tiltyard.battles.frames import Unfolded
from tiltyard.battles.reading import read_battles
from tiltyard.battles.table import BattleTable
from tiltyard.boards.leaderboard import EloReport, Leaderboard
from tiltyard.errors import TiltyardError
from tiltyard.files import write_bytes
from tiltyard.publish.columns import NAME as COLUMNS
from tiltyard.publish.columns import read_columns, stored_columns
from tiltyard.publish.folder import MANIFEST, PublishedManifest, described, read_manifest, writer_hash
from tiltyard.publish.publication import PublishedBoard, StaticSite, make_parts, rate_by_rules
from tiltyard.publish.site import NAMES, PROMPTS, site_files

AGREE = 1e-6
"""Points by which ratings that were computed again may differ: other processors round differently."""

BY_PLATFORM = (".png", ".parquet")
"""Files whose bytes depend on other libraries: their hashes and what is in them are checked, not every byte again."""

MOST_LISTED = 20
NUMBER = re.compile(rb"\d+(?:\.\d+)?(?:e-?\d+)?")


@dataclass(slots=True)
class FolderCheck:
    """What was found in a published folder.

    Parameters:
        manifest: What it says about itself.
        fingerprint: The SHA-256 of its manifest: whoever keeps it notices any change.
        said: What was recomputed, in sentences.
        problems: What does not agree, a line each.
        boards: The boards as the battles give them.
        extra: Files, and folders of such files, that are there and not in the manifest.
    """

    manifest: PublishedManifest
    fingerprint: str
    said: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    boards: list[PublishedBoard] = field(default_factory=list)
    extra: list[str] = field(default_factory=list)


def check_folder(
    fetch: Callable[[str, int | None], bytes | None], source: str, present: Iterable[str] = ()
) -> FolderCheck:
    """Compare a published folder with its hashes, and recompute from its battles whatever follows from them.

    Parameters:
        fetch: The bytes of a file of the folder by its path, given how many it should have; None: there is none.
        source: What to call the folder.
        present: The paths of all files in it, where they can be listed.
    """
    data = fetch(MANIFEST, None)
    if data is None:
        raise TiltyardError(f"{source} has no {MANIFEST}: it is no published board.")
    manifest = read_manifest(data, f"{source}: {MANIFEST}")
    result = FolderCheck(manifest, hashlib.sha256(data).hexdigest())
    kept = _check_hashes(result, fetch)
    result.extra = _extra(manifest.files.keys() | {MANIFEST}, present)
    if result.extra:
        more = f" and {len(result.extra) - MOST_LISTED:,} more" if len(result.extra) > MOST_LISTED else ""
        result.said.append(
            f"extra files: {MANIFEST} does not name {', '.join(result.extra[:MOST_LISTED])}{more}, so nothing here "
            "vouches for them"
        )
    with tempfile.TemporaryDirectory(prefix="tiltyard-") as folder:
        table = _check_battles(result, kept, Path(folder))
    if table is not None:
        _check_boards(result, kept, table)
        _check_pages(result, kept, table, fetch)
    return result


def _extra(known: AbstractSet[str], present: Iterable[str]) -> list[str]:
    """Files that are not known; a folder without a known file in it is named once, with a slash."""
    folders = {str(parent) for name in known for parent in PurePosixPath(name).parents}
    result: dict[str, None] = {}
    for name in sorted(set(present) - known):
        outer = reversed(PurePosixPath(name).parents)
        strange = next((f"{parent}/" for parent in outer if str(parent) not in folders), name)
        result[strange] = None
    return list(result)


def _check_hashes(result: FolderCheck, fetch: Callable[[str, int | None], bytes | None]) -> dict[str, bytes]:
    """Compare every file with its hash; the data files are kept for what follows."""
    kept: dict[str, bytes] = {}
    wrong = 0
    for name, file in result.manifest.files.items():
        data = fetch(name, file.bytes)
        problem = described(name, file, data)
        if problem is not None:
            wrong += 1
            result.problems.append(problem)
        if data is not None and not name.endswith((".html", ".png")):
            kept[name] = data
    if not wrong:
        result.said.append(f"files: all {len(result.manifest.files):,} have the hashes that {MANIFEST} says")
    return kept


def _check_battles(result: FolderCheck, kept: dict[str, bytes], folder: Path) -> BattleTable | None:
    """The battles, read from their lines; the other two copies must hold the same."""
    tables: dict[str, BattleTable] = {}
    for name in ("battles.jsonl", "battles.parquet"):
        if name not in kept:
            continue
        path = folder / name
        write_bytes(path, kept[name])
        try:
            tables[name] = replace(read_battles(path), repeated=0)
        except TiltyardError as error:
            result.problems.append(str(error).replace(str(path), name))
    table = tables.get("battles.jsonl")
    if table is None:
        return None
    problems = len(result.problems)
    if "battles.parquet" in tables:
        result.problems += _differing_rows(table, tables["battles.parquet"])
    if COLUMNS in kept:
        result.problems += _differing_columns(table, kept[COLUMNS])
    if len(result.problems) == problems:
        result.said.append(f"battles: {table.n_battles:,.0f}, the same in battles.jsonl, battles.parquet and {COLUMNS}")
    return table


def _differing_rows(lines: BattleTable, parquet: BattleTable) -> list[str]:
    """Where the two files of battles differ, a line each."""
    if len(lines) != len(parquet):
        return [f"battles.jsonl has {len(lines):,} rows, battles.parquet {len(parquet):,}"]
    ours, theirs = Unfolded(lines).columns(slice(None)), Unfolded(parquet).columns(slice(None))
    said = []
    for name in dict.fromkeys([*ours, *theirs]):
        one, other = ours.get(name), theirs.get(name)
        if one is None or other is None:
            values = one if one is not None else other
            assert values is not None
            if any(value is not None and value == value and value is not False for value in values.tolist()):
                said.append(f"only {'battles.jsonl' if other is None else 'battles.parquet'} has the column {name}")
            continue
        same = one == other
        if one.dtype != object and other.dtype != object:
            same |= np.isnan(one.astype(float)) & np.isnan(other.astype(float))
        said += [
            f"battle {row + 1:,}: {name} is {one[row]!r} in battles.jsonl and {other[row]!r} in battles.parquet"
            for row in np.flatnonzero(~same)[:MOST_LISTED].tolist()
        ]
    return said[:MOST_LISTED]


def _differing_columns(table: BattleTable, data: bytes) -> list[str]:
    """Where the column file differs from the battles, a line each."""
    try:
        models, columns = read_columns(data, COLUMNS)
    except TiltyardError as error:
        return [str(error)]
    expected = {column.name: column for column in stored_columns(table)}
    if models != table.models:
        return [f"{COLUMNS} names other models than battles.jsonl"]
    if columns.keys() != expected.keys():
        return [f"{COLUMNS} has the columns {', '.join(columns)}, the battles give {', '.join(expected)}"]
    lines = []
    for name, one in expected.items():
        other = columns[name]
        if one.labels != other.labels or len(one.values) != len(other.values):
            lines.append(f"{COLUMNS}: the column {name} is not that of battles.jsonl")
            continue
        differs = (one.values != other.values) & ~((one.values != one.values) & (other.values != other.values))
        lines += [
            f"battle {row + 1:,}: {name} in {COLUMNS} is not that of battles.jsonl" for row in np.flatnonzero(differs)
        ]
    return lines[:MOST_LISTED]


def _check_boards(result: FolderCheck, kept: dict[str, bytes], table: BattleTable) -> None:
    """Rate the battles by the rules of the manifest, and compare with the boards that are published."""
    problems = len(result.problems)
    for one in result.manifest.boards:
        try:
            board = rate_by_rules(table, result.manifest.rules, one.dimension)
        except TiltyardError as error:
            result.problems.append(f"{one.file}: the battles cannot be rated: {error}")
            continue
        result.boards.append(PublishedBoard(one.dimension, board))
        if one.file not in kept:
            continue
        try:
            stated = EloReport.from_dict(json.loads(kept[one.file]))
        except (TiltyardError, ValueError, TypeError) as error:
            result.problems.append(f"{one.file}: not a ratings file ({error})")
            continue
        result.problems += [f"{one.file}: {line}" for line in _differing_boards(stated, board)]
    if len(result.problems) == problems:
        ratings = sum(len(one.board) for one in result.boards)
        result.said.append(f"ratings: all {ratings:,} are what the battles give")


def _differing_boards(stated: EloReport, board: Leaderboard) -> list[str]:
    said, known = [], {entry.model: entry for entry in stated.ratings}
    for entry in board:
        one = known.pop(entry.model, None)
        if one is None:
            said.append(f"{entry.model} is missing")
            continue
        for name in (
            "rating",
            "ci_low",
            "ci_high",
            "rank",
            "rank_low",
            "rank_high",
            "n_battles",
            "wins",
            "losses",
            "ties",
        ):
            published, counted = getattr(one, name), getattr(entry, name)
            if published is None and counted is None:
                continue
            if published is None or counted is None or not abs(published - counted) <= AGREE:
                said.append(f"{entry.model}: {name} is {_shown(published)}, its battles give {_shown(counted)}")
                break
    said += [f"{name} is not in the battles" for name in known]
    return said[:MOST_LISTED]


def _shown(value: Any) -> str:
    return "open" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)


def _check_pages(
    result: FolderCheck,
    kept: dict[str, bytes],
    table: BattleTable,
    fetch: Callable[[str, int | None], bytes | None],
) -> None:
    """Write every page again from the battles, and compare; only by the version that wrote them."""
    from tiltyard import __version__

    manifest = result.manifest
    if (manifest.tiltyard_version, manifest.writer) != (__version__, writer_hash()):
        result.said.append(
            f"pages: compared by their hashes alone, because {manifest.tiltyard_version} ({manifest.writer}) wrote "
            f"them and this is {__version__} ({writer_hash()})"
        )
        return
    if len(result.boards) != len(manifest.boards):
        return
    try:
        publication = _again(result, kept, table)
    except (ValueError, TypeError) as error:
        result.problems.append(f"the texts or names of the folder cannot be read ({error})")
        return
    wrong, seen = len(result.problems), set(manifest.not_recomputed)
    with tempfile.TemporaryDirectory(prefix="tiltyard-") as spare:
        for name, content in site_files(publication, Path(spare)):
            seen.add(name)
            file = manifest.files.get(name)
            if file is None:
                result.problems.append(f"{name} is left out: the battles give it")
            elif not name.endswith(BY_PLATFORM) and hashlib.sha256(content).hexdigest() != file.sha256:
                published = fetch(name, file.bytes)
                if published is None or not _same_but_for_rounding(published, content):
                    result.problems.append(f"{name} is not the page or file that these battles give")
    cards = {name for name in manifest.files if name.endswith(".png")}
    result.problems += [
        f"{name} is not a file that these battles give" for name in manifest.files.keys() - seen - cards
    ]
    if len(result.problems) == wrong:
        result.said.append("pages: written again from the battles, and the same")


def _again(result: FolderCheck, kept: dict[str, bytes], table: BattleTable) -> StaticSite:
    """The publication that the folder should be."""
    from datetime import datetime

    manifest = result.manifest
    texts = json.loads(kept[PROMPTS]) if PROMPTS in kept else {}
    names = json.loads(kept[NAMES]) if NAMES in kept else {}
    updated = None if manifest.updated is None else int(datetime.fromisoformat(manifest.updated).timestamp())
    return StaticSite(
        kind=manifest.source,
        title=manifest.title,
        table=replace(table, skipped={}),
        rules=manifest.rules,
        boards=tuple(result.boards),
        parts=make_parts(table, manifest.rules),
        texts={str(name): str(text) for name, text in texts.items()},
        names={str(name): str(text) for name, text in names.items()},
        updated=updated,
        notes=manifest.notes,
        blind=manifest.blind,
        missing=manifest.missing,
        url=manifest.url,
        extra={name: kept.get(name, b"") for name in manifest.not_recomputed},
        statement="" if "witness.jsonl.gz" in manifest.files else None,
    )


def _same_but_for_rounding(one: bytes, other: bytes) -> bool:
    """Whether two texts differ only in the last digits of numbers, as they do between processors."""
    if NUMBER.split(one) != NUMBER.split(other):
        return False
    pairs = zip(NUMBER.findall(one), NUMBER.findall(other), strict=True)
    return all(a == b or abs(float(a) - float(b)) <= AGREE * (1.0 + abs(float(b))) for a, b in pairs)

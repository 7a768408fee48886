"""Checking a published folder from nothing but its files: hashes, the three copies of the battles, boards, pages."""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec
import numpy as np

from tiltyard.battles.frames import Unfolded
from tiltyard.battles.reading import read_battles
from tiltyard.battles.table import BattleTable
from tiltyard.boards.leaderboard import EloReport, Leaderboard
from tiltyard.errors import TiltyardError
from tiltyard.files import write_bytes
from tiltyard.pages.figures import plural
from tiltyard.publish.columns import NAME as COLUMNS
from tiltyard.publish.columns import column_file
from tiltyard.publish.folder import MANIFEST, PublishedManifest, read_manifest, writer_hash
from tiltyard.publish.publication import PublishedBoard, StaticSite, make_parts, rate_by_rules
from tiltyard.publish.site import NAMES, PROMPTS, site_files

AGREE = 1e-6
"""Points by which ratings that were computed again may differ: other processors round differently."""

BY_PLATFORM = (".png", ".parquet")
"""Files whose bytes depend on other libraries: their hashes and what is in them are checked, not every byte again."""

MOST_LISTED = 20
NUMBER = re.compile(rb"\d+(?:\.\d+)?(?:e-?\d+)?")


class FolderCheck(msgspec.Struct):
    """What was found in a published folder.

    Parameters:
        manifest: What it says about itself.
        fingerprint: The SHA-256 of its manifest: whoever keeps it notices any change.
        messages: What was recomputed, in sentences.
        problems: What does not agree, a line each.
        boards: The boards as the battles give them.
        extra: Files, and folders of such files, that are there and not in the manifest.
    """

    manifest: PublishedManifest
    fingerprint: str
    messages: list[str] = msgspec.field(default_factory=list)
    problems: list[str] = msgspec.field(default_factory=list)
    boards: list[PublishedBoard] = msgspec.field(default_factory=list)
    extra: list[str] = msgspec.field(default_factory=list)


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
        result.messages.append(
            f"extra files: {MANIFEST} does not name {', '.join(result.extra[:MOST_LISTED])}{more}, so nothing here "
            "vouches for them"
        )
    with tempfile.TemporaryDirectory(prefix="tiltyard-") as folder:
        table = _check_battles(result, kept, Path(folder))
    if table is not None and not any(line.startswith("battles.") for line in result.problems):
        _check_boards(result, kept, table)
        _check_pages(result, kept, table, fetch)
    elif result.problems:
        result.messages.append("ratings and pages: not compared, because these are not the battles that were published")
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
    for name, file in result.manifest.files.items():
        data = fetch(name, file.bytes)
        if data is None:
            result.problems.append(f"{name} is missing")
        elif hashlib.sha256(data).hexdigest() != file.sha256:
            size = "" if len(data) == file.bytes else f" ({file.bytes:,} bytes were published, now {len(data):,})"
            result.problems.append(f"{name} was changed: its hash is not the one in {MANIFEST}{size}")
        if data is not None and not name.endswith((".html", ".png")):
            kept[name] = data
    if not result.problems:
        result.messages.append(f"files: all {len(result.manifest.files):,} have the hashes that {MANIFEST} says")
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
            tables[name] = replace(read_battles(path), repeated=0, repeated_ids=0)
        except TiltyardError as error:
            result.problems.append(str(error).replace(str(path), name))
    table = tables.get("battles.jsonl")
    if table is None:
        return None
    changed = [place for place, line in enumerate(result.problems) if line.startswith("battles.")]
    differing = _differing_rows(table, tables["battles.parquet"]) if "battles.parquet" in tables else []
    if COLUMNS in kept and kept[COLUMNS] != column_file(table) and not differing:
        differing = [f"{COLUMNS} does not hold the battles of battles.jsonl"]
    more = f", and {len(differing) - 1:,} more" if len(differing) > 1 else ""
    if differing and changed:  # one thing happened: it is said once
        result.problems[changed[0]] += f"; {differing[0]}{more}"
    elif differing:
        result.problems.append(f"battles.jsonl and its copies differ: {differing[0]}{more}")
    elif not changed:
        result.messages.append(
            f"battles: {table.n_battles:,.0f}, the same in battles.jsonl, battles.parquet and {COLUMNS}"
        )
    return table


def _differing_rows(table: BattleTable, parquet: BattleTable) -> list[str]:
    """Where the two files of battles differ, a line each."""
    if len(table) != len(parquet):
        return [f"battles.jsonl has {len(table):,} rows, battles.parquet {len(parquet):,}"]
    ours, theirs = Unfolded(table).columns(slice(None)), Unfolded(parquet).columns(slice(None))
    differences = []
    for name in dict.fromkeys([*ours, *theirs]):
        missing = np.full(len(table), None, object)
        one, other = ours.get(name, missing).tolist(), theirs.get(name, missing).tolist()
        for row, (a, b) in enumerate(zip(one, other, strict=True), start=1):
            # A column of missing values, or of flags that are all false, may be left out.
            if a != b and not (_nothing(a) and _nothing(b)):
                differences.append(f"battle {row:,}: {name} is {a!r} in battles.jsonl and {b!r} in battles.parquet")
    return differences[:MOST_LISTED]


def _nothing(value: Any) -> bool:
    return value is None or value is False or value != value


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
        result.messages.append(f"ratings: all {ratings:,} are what the battles give")


FIELDS = ("rating", "ci_low", "ci_high", "rank", "rank_low", "rank_high", "n_battles", "wins", "losses", "ties")
"""What is compared of a line of a board."""


def _differing_boards(stated: EloReport, board: Leaderboard) -> list[str]:
    lines, known = [], {entry.model: entry for entry in stated.ratings}
    for entry in board:
        one = known.pop(entry.model, None)
        if one is None:
            lines.append(f"{entry.model} is missing")
            continue
        for name in FIELDS:
            published, counted = getattr(one, name), getattr(entry, name)
            if published != counted and (None in (published, counted) or not abs(published - counted) <= AGREE):
                lines.append(f"{entry.model}: {name} is {_shown(published)}, its battles give {_shown(counted)}")
                break
    lines += [f"{name} is not in the battles" for name in known]
    return [f"{lines[0]}; other lines that differ: {len(lines) - 1:,}"] if len(lines) > 1 else lines


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
        result.messages.append(
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
    seen, wrong = set(manifest.not_recomputed), list[str]()
    with tempfile.TemporaryDirectory(prefix="tiltyard-") as spare:
        for name, content in site_files(publication, Path(spare)):
            seen.add(name)
            file = manifest.files.get(name)
            if file is None:
                wrong.append(f"{name} is left out: the battles give it")
            elif not name.endswith(BY_PLATFORM) and hashlib.sha256(content).hexdigest() != file.sha256:
                published = fetch(name, file.bytes)
                if published is None or not _same_but_for_rounding(published, content):
                    wrong.append(f"{name} is not the page or file that these battles give")
    cards = {name for name in manifest.files if name.endswith(".png")}
    wrong += [f"{name} is not a file that these battles give" for name in manifest.files.keys() - seen - cards]
    if wrong and any(line.startswith(one.file) for one in manifest.boards for line in result.problems):
        result.messages.append(f"pages: {plural(len(wrong), 'file')} differ, as the ratings do")
    elif wrong:
        result.problems += wrong
    else:
        result.messages.append("pages: written again from the battles, and the same")


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

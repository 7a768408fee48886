"""Checking a published folder: it is published again from what is vouched for, and every file is compared.

What is vouched for are the battles; of an arena its witness, from which the battles are made. The rest follows by the
functions that publish, the manifest included. Nothing in the folder decides what is compared. What only its operator
can know (title, address, notes, rules, texts of prompts) is told as the operator's.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import tempfile
from collections.abc import Collection, Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any

import msgspec

from tiltyard.battles.reading import read_battles
from tiltyard.battles.writing import same_parquet
from tiltyard.boards.leaderboard import EloReport, Leaderboard
from tiltyard.errors import TiltyardError
from tiltyard.pages.figures import plural
from tiltyard.publish.arenas import SALTS, WITNESS, witness_site
from tiltyard.publish.fetching import bounded_lines
from tiltyard.publish.folder import MANIFEST, PublishedManifest, read_manifest, writer_hash
from tiltyard.publish.pages import BOARD_CARD
from tiltyard.publish.publication import PublishOptions, StaticSite, static_site
from tiltyard.publish.site import NAMES, PARQUET, PROMPTS, site_files

AGREE = 1e-9
"""How far, and by what share, numbers with decimals may differ: other processors round the last digits differently."""

DECIMAL = re.compile(
    rb'(?:(?<=":)|(?<=": )|(?<=<data value=")|(?<=, )(?=[\d.e+-]+\])|(?<=  )(?=[\d.e+-]+,?\n))'
    rb"-?\d+\.\d+(?:e[+-]?\d+)?"
)
"""A number with decimals where a file has a value: in JSON, and behind a figure of a page; in no name and no text."""

PAGES = (".html", ".atom", ".png")
FIELDS = ("rating", "ci_low", "ci_high", "rank", "rank_low", "rank_high", "n_battles", "wins", "losses", "ties")
"""What is named of a line of a board that differs."""


class FolderCheck(msgspec.Struct):
    """What was found in a published folder.

    Parameters:
        manifest: What it says about itself.
        fingerprint: The SHA-256 of its manifest: whoever keeps it notices any change.
        site: What was published again; None where that was not possible.
        problems: What does not agree, a line each.
        not_compared: Files that another version wrote, or other libraries drew, and that were not compared.
    """

    manifest: PublishedManifest
    fingerprint: str
    site: StaticSite | None = None
    problems: list[str] = msgspec.field(default_factory=list)
    not_compared: list[str] = msgspec.field(default_factory=list)

    @property
    def ours(self) -> bool:
        """Whether this very program wrote the folder, as it says."""
        from tiltyard import __version__

        return (self.manifest.tiltyard_version, self.manifest.writer) == (__version__, writer_hash())

    @property
    def operators_words(self) -> list[str]:
        """What only its operator can know, a line each; nothing here can check it."""
        one = self.manifest
        texts = [] if self.site is None or not self.site.texts else [f"texts of prompts: {len(self.site.texts):,}"]
        texts += [] if self.site is None or not self.site.names else [f"names of models: {len(self.site.names):,}"]
        made = [] if one.source in ("arena", "battles") else [f"made from: a {one.source}"]
        address = [f"address: {one.url}"] if one.url else []
        missing = [f"missing: {one.missing}"] if one.missing else []
        return [f"title: {one.title}", *address, *made, *texts, *missing, *(f"note: {note}" for note in one.notes)]

    def conclusion(self, *, kept: bool = False, heads: bool = False) -> str:
        """What was compared with what, and whom one has to trust for the rest.

        Parameters:
            kept: Whether the reader kept the fingerprint.
            heads: Whether the reader kept a head or a key of the arena.
        """
        if self.problems or self.site is None:
            return f"does NOT agree: {plural(len(self.problems), 'problem')}"
        arena = self.manifest.source == "arena"
        battles = plural(round(self.site.table.n_battles), "battle") + (" of its witness" if arena else "")
        what = "ratings, ranges and pages are what these" if not self.not_compared else "ratings and ranges are what"
        how = "in part" if self.not_compared else "with itself"
        words = [f"agrees {how}: {what} {battles} give under these rules ({self.manifest.rules.sentence})."]
        if self.not_compared:
            words.append(f"Not compared: {self._not_compared}")
        if kept:
            words.append("It is the folder whose fingerprint you kept, unchanged since.")
        who = "Whoever published it could have changed the battles"
        if arena:
            who = "Whoever runs the arena could have written another log"
        if arena and heads:
            words.append("Nobody but its operator vouches for what came after the head you kept, or was signed.")
        else:
            words.append(f"{who}{' before' if kept else ''}.")
        return " ".join(words)

    @property
    def _not_compared(self) -> str:
        files = ", ".join(self.not_compared[:5])
        if len(self.not_compared) > 5:
            files += f" and {len(self.not_compared) - 5:,} more"
        if self.ours:
            return f"pictures that other libraries drew, or a Parquet file that another one wrote ({files})."
        return (
            f"pages and files that another version wrote ({files}). Check them with that version: tiltyard "
            f"{self.manifest.tiltyard_version}, writer {self.manifest.writer}; this is writer {writer_hash()}."
        )


def check_folder(folder: Path, besides: Collection[str] = ()) -> FolderCheck:
    """Publish a folder again from its battles or its witness, and compare every file of it.

    Parameters:
        folder: A folder that `publish` wrote.
        besides: Files in it, or folders, that the reader knows to be others', such as `CNAME`.
    """
    files, others = files_of(folder)
    if MANIFEST not in files:
        raise TiltyardError(f"{folder} has no {MANIFEST}: it is no published board.")
    data = (folder / MANIFEST).read_bytes()
    manifest = read_manifest(data, f"{folder}: {MANIFEST}")
    result = FolderCheck(manifest, hashlib.sha256(data).hexdigest())
    made = set[str]()
    try:
        result.site = _again(folder, files, manifest)
        with tempfile.TemporaryDirectory(prefix="tiltyard-") as spare:
            comparison = _Comparison(result, folder, files, Path(spare))
            made = {name for name, _ in site_files(result.site, Path(spare), comparison.kept)}
    except (TiltyardError, ValueError, TypeError, ArithmeticError) as error:
        result.problems.append(f"it cannot be published again: {error}")
    if result.site is not None:
        foreign = set() if result.ours else {name for name in manifest.files if name.endswith(PAGES)}
        result.not_compared += [] if result.ours else [MANIFEST, *sorted(foreign & files - made)]
        result.problems += strangers(files - (foreign - made), others, made, besides)
    return result


def strangers(files: set[str], others: Mapping[str, str], made: set[str], besides: Collection[str]) -> list[str]:
    """What is in a folder and does not belong there, a line each.

    Parameters:
        files: Its files.
        others: What is neither a file nor a folder, and what it is.
        made: The files that belong there.
        besides: Files and folders that the reader knows to be others'.
    """
    known = tuple(one.rstrip("/") for one in besides)
    lines = []
    for name in sorted(files | others.keys() - made):
        if name in others and not _is_below(name, known):
            lines.append(f"{name} {others[name]}")
        elif name not in made and not _is_below(name, known):
            lines.append(f"{name} is no file of this folder. If it is the host's, say --besides {name}")
    return lines


def _is_below(name: str, known: Collection[str]) -> bool:
    return any(name == one or name.startswith(f"{one}/") for one in known)


def files_of(folder: Path) -> tuple[set[str], dict[str, str]]:
    """The files of a folder by path, and what is neither a file nor a folder: nothing leads out of it."""
    files, others = set[str](), dict[str, str]()
    for home, folders, names in os.walk(folder):
        for entry in [*folders, *names]:
            path = Path(home) / entry
            name = path.relative_to(folder).as_posix()
            if path.is_symlink():
                others[name] = "is a symbolic link, which is not followed"
            elif path.is_file():
                files.add(name)
            elif not path.is_dir():
                others[name] = "is no file"
    return files, others


def _again(folder: Path, files: set[str], manifest: PublishedManifest) -> StaticSite:
    """The publication that a folder has to be, from its evidence and its operator's words."""
    options = PublishOptions(
        title=manifest.title,
        url=manifest.url,
        pictures=BOARD_CARD in manifest.files,
        texts=manifest.texts,
        rules=manifest.rules,
    )
    texts = msgspec.json.decode((folder / PROMPTS).read_bytes(), type=dict[str, str]) if PROMPTS in files else {}
    evidence = WITNESS if manifest.source == "arena" else "battles.jsonl"
    if evidence not in files:
        raise TiltyardError(f"{evidence} is missing, from which everything follows.")
    if manifest.source == "arena":
        data = (folder / WITNESS).read_bytes()
        salts = msgspec.json.decode((folder / SALTS).read_bytes(), type=dict[str, str]) if SALTS in files else {}
        asked = [(name, texts[name], salt) for name, salt in salts.items() if name in texts]
        names = msgspec.json.decode((folder / NAMES).read_bytes(), type=dict[str, str]) if NAMES in files else {}
        return witness_site(data, bounded_lines(io.BytesIO(data), WITNESS), options, asked, names)
    if manifest.source not in ("battles", "run", "placement"):
        raise TiltyardError(f"nothing is published from {manifest.source[:40]!r}.")
    return static_site(
        read_battles(folder / evidence),
        manifest.source,
        manifest.title,
        options,
        texts,
        notes=manifest.notes,
        missing=manifest.missing,
    )


class _Comparison:
    """Compares the files of a folder with those that are made again, one by one."""

    def __init__(self, result: FolderCheck, folder: Path, files: set[str], spare: Path) -> None:
        self.result = result
        self.folder = folder
        self.files = files
        self.spare = spare
        site = result.site
        assert site is not None
        self.boards = {one.file: one.board for one in site.boards}

    def kept(self, name: str, content: bytes) -> bytes:
        """The bytes in the folder, where they are there; a difference is a problem, or not compared."""
        needed = self.result.ours or name in (PARQUET, MANIFEST, "battles.jsonl", *self.boards)
        if name not in self.files:
            if needed:
                self.result.problems.append(f"{name} is missing")
            return content
        published = (self.folder / name).read_bytes()
        if name == MANIFEST:
            self.result.problems += self._manifest_problems(published, content)
            return published
        same = published == content if name == PARQUET else is_same_text(published, content)
        if name == PARQUET and not same and same_parquet(self.folder / name, self.spare / name):
            self.result.not_compared.append(name)  # its rows are the same; its statistics may be another version's
            return published
        if same:
            return published
        if name in self.boards:
            self.result.problems += _board_problems(name, published, self.boards[name], exact=self.result.ours)
        elif not needed or (name.endswith(".png") and not _is_drawn_alike(published, content)):
            self.result.not_compared.append(name)
        else:
            line = first_difference(published, content)
            self.result.problems.append(f"{name} is not the file that these battles give: line {line:,} differs")
        return published

    def _manifest_problems(self, published: bytes, content: bytes) -> Iterator[str]:
        """Where the manifest is not that of this folder."""
        stated, made = json.loads(published), json.loads(content)
        files, hashes = stated.pop("files"), made.pop("files")
        ours = self.result.ours
        for name in sorted({*files, *hashes}):
            if name not in hashes and not ours and name in self.files:  # a page that only another version makes
                data = (self.folder / name).read_bytes()
                hashes[name] = {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
            if name not in files and not ours and name not in self.files:
                continue
            if files.get(name) != hashes.get(name) and not any(name in line for line in self.result.problems):
                yield f"{MANIFEST} says of {name} what does not hold here, or does not name it"
        passing = () if ours else ("tiltyard_version", "writer")
        for key in sorted({*stated, *made} - {*passing}):
            one, other = (json.dumps(values.get(key), ensure_ascii=False)[:200] for values in (stated, made))
            if (key in stated) != (key in made):
                yield f"{MANIFEST}: {key!r} is {'not to be' if key in stated else 'to be'} there"
            elif one != other and not is_same_text(one.encode(), other.encode()):
                yield f"{MANIFEST}: {key} is {one}, these battles give {other}"
        if ours and published != content and not self.result.problems and not is_same_text(published, content):
            yield f"{MANIFEST} is not written as the program writes it"


def first_difference(one: bytes, other: bytes) -> int:
    """The first line in which two files differ."""
    pairs = zip_longest(one.split(b"\n"), other.split(b"\n"))
    return next(number for number, (a, b) in enumerate(pairs, start=1) if a != b)


def is_same_text(one: bytes, other: bytes) -> bool:
    """Whether two texts differ only in the last digits of numbers with decimals, as they do between processors."""
    if one == other:
        return True
    if DECIMAL.split(one) != DECIMAL.split(other):
        return False
    pairs = zip(DECIMAL.findall(one), DECIMAL.findall(other), strict=True)
    return all(a == b or abs(float(a) - float(b)) <= AGREE * (1.0 + abs(float(b))) for a, b in pairs)


def _is_drawn_alike(published: bytes, content: bytes) -> bool:
    """Whether the libraries that drew a picture are those that are here, so that its bytes would be the same."""
    if not content:
        return False
    from tiltyard.pages.share_card import drawn_with

    return drawn_with().encode() in published


def _board_problems(file: str, published: bytes, board: Leaderboard, *, exact: bool) -> list[str]:
    """Where a ratings file is not that of the battles."""
    try:
        known = {entry.model: entry for entry in EloReport.from_dict(json.loads(published)).ratings}
    except (TiltyardError, ValueError, TypeError, RecursionError) as error:
        return [f"{file} is no ratings file ({error})"]
    lines = []
    for entry in board:
        one = known.pop(entry.model, None)
        differing = (
            [] if one is None else [name for name in FIELDS if _differ(getattr(one, name), getattr(entry, name))]
        )
        if one is None:
            lines.append(f"{entry.model} is missing")
        elif differing:
            values = (_shown(getattr(line, differing[0])) for line in (one, entry))
            lines.append("{}: {} is {}, these battles give {}".format(entry.model, differing[0], *values))
    lines += [f"{name} is not in the battles" for name in known]
    more = f"; other lines that differ: {len(lines) - 1:,}" if len(lines) > 1 else ""
    if lines:
        return [f"{file}: {lines[0]}{more}"]
    return [f"{file} is not the file that these battles give"] if exact else []


def _differ(one: Any, other: Any) -> bool:
    return one != other and (None in (one, other) or not abs(one - other) <= AGREE * (1.0 + abs(other)))


def _shown(value: Any) -> str:
    return "open" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)

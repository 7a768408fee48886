"""The published folder: its manifest `published.json`, and writing it without touching what is not ours.

Files are written to a hidden folder beside it first, so that a failure changes nothing. Then each replaces its older
version in one step, `published.json` last, and files that the new version no longer has are removed. A list of what is
coming (`.published.next.json`) lies in the folder meanwhile, so that publishing again after a kill finishes the work.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import shutil
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import msgspec

from tiltyard.errors import OptionError, TiltyardError
from tiltyard.files import file_sha256, write_bytes
from tiltyard.reports.publish.publication import BoardRules

MANIFEST = "published.json"
NEXT = ".published.next.json"
KIND = "published-board"
FORMAT = 1
MOST_BYTES = 1 << 34
"""Of one file, and of all files of a folder at an address."""


class PublishedFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file of a published folder."""

    sha256: str
    """The SHA-256 of its bytes."""
    bytes: int
    """How many there are."""


class BoardFile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One board of a published folder."""

    file: str
    """Its ratings file."""
    dimension: str | None = None
    """What is judged, where there are several boards."""


class PublishedManifest(msgspec.Struct, frozen=True, kw_only=True):
    """`published.json`: what was published, how it is rated, and the hash of every file."""

    kind: str = KIND
    """`published-board`."""
    format: int = FORMAT
    """The version of this file."""
    tiltyard_version: str
    """The version that wrote it."""
    writer: str
    """A hash of the program's files that make pages: only the same program writes the same pages."""
    title: str
    """What the site is called."""
    source: str
    """What it was made from: `battles`, `run`, `placement` or `arena`."""
    updated: str | None
    """When the newest battle was, in UTC; null where nothing says."""
    url: str
    """Where it was to be served."""
    battles: float
    """How many battles there are."""
    models: int
    """How many models they have."""
    rules: BoardRules
    """How the battles are rated."""
    boards: tuple[BoardFile, ...]
    """The boards and their files."""
    texts: bool
    """Whether texts of prompts were to be published, where the source allows it."""
    notes: tuple[str, ...]
    """What only the operator knows, in sentences."""
    blind: bool = True
    """Whether an arena hid who wrote an answer while it was voted on."""
    missing: str
    """How many matchups of the run have no verdict, in words; empty where all have one, or where it is no run."""
    files: dict[str, PublishedFile]
    """Every file except this one, by path."""


def read_manifest(data: bytes, source: str) -> PublishedManifest:
    """The manifest of a published folder; anything else is an error.

    Parameters:
        data: The bytes of `published.json`.
        source: What to call it in errors.
    """
    try:
        manifest = msgspec.json.decode(data, type=PublishedManifest)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise TiltyardError(f"{source}: not the manifest of a published board ({error}).") from None
    if manifest.kind != KIND or manifest.format != FORMAT:
        raise TiltyardError(
            f"{source}: is a {manifest.kind[:40]!r} in format {manifest.format}, not a {KIND!r} in format {FORMAT}. "
            "Update tiltyard, or use the program that wrote it."
        )
    if not all(re.fullmatch(r"[\w.+]{1,60}", one) for one in (manifest.tiltyard_version, manifest.writer)):
        raise TiltyardError(f"{source}: {manifest.tiltyard_version[:60]!a} or its writer is no version.")
    for name, file in manifest.files.items():
        if "\\" in name or "\0" in name or not {"", ".", ".."}.isdisjoint(name.split("/")) or name == MANIFEST:
            raise TiltyardError(f"{source}: {name!r} is no file inside the folder. Do not trust this folder.")
        if not 0 <= file.bytes <= MOST_BYTES:
            raise TiltyardError(f"{source}: {name} cannot have {file.bytes:,} bytes. Do not trust this folder.")
    return manifest


def write_folder(out: Path, files: Iterable[tuple[str, bytes]]) -> tuple[int, str]:
    """Write or replace a published folder; say how many files it has, and its fingerprint: the manifest's SHA-256.

    Parameters:
        out: The folder; it is made if need be. One that is not ours is refused, and so is a file of ours that was
            changed since, or one of somebody else in the place of a new one.
        files: The files by path, the manifest among them.
    """
    before = _ours(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    part = out.parent / f".{out.name[:40]}.{secrets.token_hex(6)}.part"
    try:
        hashes: dict[str, str] = {}
        for name, content in files:
            write_bytes(part / name, content)
            hashes[name] = hashlib.sha256(content).hexdigest()
        fingerprint = hashes.pop(MANIFEST)
        _refuse_strangers(out, before, hashes)
        _move(part, out, before, hashes)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return len(hashes) + 1, fingerprint


def _ours(out: Path) -> dict[str, set[str]]:
    """The hashes of every file in the folder that we wrote: those of its manifest, and of one that was coming."""
    if not out.exists():
        return {}
    if not out.is_dir():
        raise OptionError(f"{out} is a file. Name a folder to publish to.")
    known: dict[str, set[str]] = {}
    earlier = [out / name for name in (MANIFEST, NEXT) if (out / name).is_file()]
    if not earlier and any(out.iterdir()):
        raise OptionError(
            f"{out} holds other files and is no published board (there is no {MANIFEST} in it). "
            "Name an empty or a new folder."
        )
    for path in earlier:
        for name, file in read_manifest(path.read_bytes(), str(path)).files.items():
            known.setdefault(name, set()).add(file.sha256)
    return known


def _refuse_strangers(out: Path, before: dict[str, set[str]], new: dict[str, str]) -> None:
    """Refuse where a file would be replaced or removed that is not as we wrote it."""
    for name in sorted({*before, *new}):
        path = out / name
        if not path.resolve().is_relative_to(out.resolve()):
            raise OptionError(f"{path} leads out of the folder by a link. Nothing was changed; remove the link.")
        known = before.get(name, set()) | ({new[name]} if name in new else set())
        if path.is_dir() or (path.exists() and file_sha256(path) not in known):
            raise OptionError(
                f"{path} is not as `publish` wrote it. Nothing was changed. Move it away, or publish to another folder."
            )


def _move(part: Path, out: Path, before: dict[str, set[str]], new: dict[str, str]) -> None:
    out.mkdir(exist_ok=True)
    write_bytes(out / NEXT, (part / MANIFEST).read_bytes())
    for name in sorted(new, key=lambda name: (name.endswith(".html"), name == "index.html", name)):
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (part / name).replace(out / name)
    (part / MANIFEST).replace(out / MANIFEST)
    for name in before.keys() - new.keys():
        (out / name).unlink(missing_ok=True)
    for folder in sorted({(out / name).parent for name in before.keys() - new.keys()} - {out}, reverse=True):
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
    (out / NEXT).unlink(missing_ok=True)


@cache
def writer_hash() -> str:
    """A hash of this program's files: versions between releases have the same number."""
    home, digest = Path(__file__).parents[2], hashlib.sha256()
    for path in sorted(home.rglob("*")):
        if path.suffix in (".py", ".css", ".js", ".html", ".atom"):
            digest.update(path.relative_to(home).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]

"""`verify`: recompute what somebody published, from the published files alone."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec

from tiltyard.arena import Choice, Finding, Head, HeadFile, KeptProof, check_witness, kept_heads, trusted_keys
from tiltyard.errors import OptionError, OptionValue, TiltyardError
from tiltyard.options import VerifyOptions, accepts_options
from tiltyard.render import points, shortened
from tiltyard.reports.publish import (
    MANIFEST,
    MOST_MANIFEST,
    RemoteHost,
    bounded_lines,
    check_folder,
    check_run,
    fetch_folder,
)

WITNESS_PATH = "/api/v1/witness.jsonl"
HEADS_PATH = "/api/v1/heads"
SHA256, RECEIPT = re.compile(r"[0-9a-f]{64}"), re.compile(rf"[^=]+(=({'|'.join(Choice)}))?")
VERIFIABLE = "name a folder that `tiltyard publish` wrote, a witness file of an arena, or the address of either."


@accepts_options(VerifyOptions)
def verify(source: str | Path, options: VerifyOptions) -> Finding:
    """Recompute what somebody published from what is vouched for, and compare all of it.

    A published board is published again from its battles, or from an arena's witness; the folder of a run or placement
    is made again from its verdicts; every file is compared. The conclusion says what agrees with what, and whom you
    have to trust for the rest.

    Parameters:
        source: A folder that `publish`, `run` or `place` wrote, the address of a published one, a witness file (.gz
            too), or the address of an arena's site.
    """
    place, named = str(source), OptionValue("fingerprint", None)
    fingerprint, besides = (options.fingerprint or "").strip().lower(), options.besides or ()
    if options.fingerprint is not None and not SHA256.fullmatch(fingerprint):
        raise OptionError(named, f" {fingerprint[:80]!r} is no fingerprint: it has 64 letters from 0-9 and a-f.")
    for text in options.receipt or ():
        if not RECEIPT.fullmatch(text):
            said = f" {text[:80]!r} names no vote. Write ID or ID=CHOICE: {', '.join(Choice)}."
            raise OptionError(OptionValue("receipt", None), said)
    with _published_folder(place) as folder:
        outside, path = folder or Path(place), Path(place)
        for text in (*(options.head or ()), *(options.key or ())):  # none of them may have come with what is checked
            if text.startswith("@") and Path(text[1:]).resolve().is_relative_to(outside.resolve()):
                raise OptionError(f"{text[1:]} is in the folder that is checked. Name a file that you kept elsewhere.")
        heads, keys = kept_heads(options.head or ()), trusted_keys(options.key or ())
        kept = KeptProof(fingerprint=fingerprint, heads=heads, keys=keys, receipts=options.receipt or ())
        if folder is not None:
            result = check_folder(folder, besides, kept)
            if _is_address(place):
                result.messages.append("files that published.json does not name cannot be seen at an address")
            return result
        if (path / "manifest.json").is_file():
            if kept.of_an_arena or fingerprint:
                raise OptionError(f"{place} is the folder of a run: it has no heads, keys, receipts or fingerprint.")
            return check_run(path, besides)
        if fingerprint or besides:
            others = OptionValue("besides", None)
            raise OptionError(
                f"{place} is no published board: ", named, " and ", others, " are for those. Leave them out."
            )
        return _check_lines(place, kept)


@contextmanager
def _published_folder(source: str) -> Iterator[Path | None]:
    """The folder of a published board, that of an address fetched; None: it is something else."""
    if not _is_address(source):
        folder = Path(source).parent if Path(source).name == MANIFEST else Path(source)
        yield folder if (folder / MANIFEST).is_file() else None
        return
    with tempfile.TemporaryDirectory(prefix="tiltyard-") as spare:
        yield Path(spare) if fetch_folder(source, Path(spare)) else None


def _is_address(source: str) -> bool:
    """Whether a source is an address, and no path."""
    return source.startswith(("http://", "https://"))


def _check_lines(source: str, kept: KeptProof) -> Finding:
    """What the lines of a witness file or of a site agree with, and the board at their end."""
    path = Path(source)
    heads: list[Head | HeadFile] = []
    if _is_address(source):
        address = source if source.endswith((".jsonl", ".jsonl.gz")) else source.rstrip("/") + WITNESS_PATH
        lines = RemoteHost(address).lines(address)
        heads = _heads_of_site(source.removesuffix(WITNESS_PATH)) if address.endswith(WITNESS_PATH) else []
    elif path.is_file():
        lines = bounded_lines(path)
    elif path.is_dir():
        raise OptionError(f"{source} is a folder without published.json: {VERIFIABLE}")
    else:
        raise OptionError(f"there is no file or folder {source}: {VERIFIABLE}")
    first = next(lines, b"")
    if not first.startswith(b'{"witness":'):
        raise OptionError(f"{source} cannot be verified: {VERIFIABLE}")
    result = check_witness(chain([first], lines), source, kept, heads)
    for rank, row in enumerate(result.values["board"], start=1):
        deviation = "" if row["deviation"] is None else f"  RD {points(row['deviation'], 1):>5}"
        result.messages.append(f"{rank:>4}  {points(row['rating']):>6}{deviation}  {shortened(row['model'])}")
    if _is_address(source):
        result.messages.append("no page of the site was compared with it: `tiltyard publish` writes pages that are")
    return result


def _heads_of_site(site: str) -> list[Head | HeadFile]:
    """The heads that a site publishes, which its own witness must contain."""
    address = site.rstrip("/") + HEADS_PATH
    try:
        found = msgspec.json.decode(RemoteHost(address).file(address, MOST_MANIFEST) or b'{"heads":[]}')
        rows = msgspec.convert(found["heads"], list[dict[str, Any]])
        heads = [Head.parse(str(row["head"])) for row in rows]
        return [*heads, *(msgspec.convert(row["signed"], HeadFile) for row in rows if row.get("signed"))]
    except (ValueError, LookupError, TypeError) as error:
        raise TiltyardError(f"{address} is no list of heads ({error}). Do not trust it.") from None

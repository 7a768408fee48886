"""`tiltyard verify`: recompute what somebody published, from the published files alone."""

from __future__ import annotations

import re
import tempfile
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
import typer

from tiltyard.cli.arena_heads import HeadOption, KeyOption
from tiltyard.cli.output import say
from tiltyard.errors import OptionError, TiltyardError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tiltyard.arena.heads import Head, HeadFile
    from tiltyard.arena.witness import Finding, KeptProof

SHOWN = 20
"""Problems that are printed."""

WITNESS_PATH = "/api/v1/witness.jsonl"
HEADS_PATH = "/api/v1/heads"
SHA256 = re.compile(r"[0-9a-f]{64}")
VERIFIABLE = "name a folder that `tiltyard publish` wrote, a witness file of an arena, or the address of either."


def verify_command(
    source: Annotated[
        str,
        typer.Argument(
            metavar="FOLDER-or-URL",
            help="A folder that `publish`, `run` or `place` wrote, the address of a published one, a witness file (.gz "
            "too), or the address of an arena's site.",
        ),
    ],
    head: HeadOption = None,
    key: KeyOption = None,
    receipt: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ID[=CHOICE]", help="Your own vote: it must be there, and be your choice; may be given again."
        ),
    ] = None,
    fingerprint: Annotated[
        str | None,
        typer.Option(
            metavar="SHA256", help="The fingerprint of a published folder that you kept: it must be the same."
        ),
    ] = None,
    besides: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATH",
            help="A file in the folder that is the host's, such as CNAME, or a folder of such; may be given again.",
        ),
    ] = None,
    ratings_only: Annotated[
        bool,
        typer.Option(
            "--ratings-only", help="Agreement of the ratings is enough where another version wrote the pages."
        ),
    ] = False,
    format: Annotated[Literal["table", "json"], typer.Option(help="For people or for programs.")] = "table",
) -> None:
    """Recompute what somebody published from what is vouched for, and compare all of it.

    A published board is published again from its battles, or from an arena's witness; the folder of a run or placement
    is made again from its verdicts; every file is compared. The last line says what agrees with what, and whom you
    have to trust for the rest. Exit code 3 if something does not agree, is missing or is too much, or could not be
    compared (see --ratings-only).
    """
    from tiltyard.arena.heads import kept_heads, trusted_keys
    from tiltyard.publishing import KeptProof, check_folder, check_run

    unasked, fingerprint = fingerprint is None, (fingerprint or "").strip().lower()
    if not unasked and not SHA256.fullmatch(fingerprint):
        raise OptionError(f"--fingerprint {fingerprint[:80]!r} is no fingerprint: it has 64 letters from 0-9 and a-f.")
    with published_folder(source) as folder:
        outside, path = folder or Path(source), Path(source)
        heads, keys = kept_heads(_outside(head, outside)), trusted_keys(_outside(key, outside))
        kept = KeptProof(fingerprint=fingerprint, heads=heads, keys=keys, receipts=receipt or [])
        if folder is not None:
            result = check_folder(folder, besides or [], kept)
            if is_address(source):
                result.messages.append("files that published.json does not name cannot be seen at an address")
        elif (path / "manifest.json").is_file():
            if kept.of_an_arena or fingerprint:
                raise OptionError(f"{source} is the folder of a run: it has no heads, keys, receipts or fingerprint.")
            result = check_run(path, besides or [])
        elif fingerprint or besides:
            raise OptionError(
                f"{source} is no published board: --fingerprint and --besides are for those. Leave them out."
            )
        else:
            result = _check_lines(source, kept)
    _print(result, format)
    if result.problems or (result.not_compared and not ratings_only):
        raise typer.Exit(3)


@contextmanager
def published_folder(source: str) -> Iterator[Path | None]:
    """The folder of a published board, that of an address fetched; None: it is something else."""
    from tiltyard.publishing.fetching import fetch_folder
    from tiltyard.publishing.folder import MANIFEST

    if not is_address(source):
        folder = Path(source).parent if Path(source).name == MANIFEST else Path(source)
        yield folder if (folder / MANIFEST).is_file() else None
        return
    with tempfile.TemporaryDirectory(prefix="tiltyard-") as spare:
        yield Path(spare) if fetch_folder(source, Path(spare)) else None


def _outside(given: list[str] | None, folder: Path) -> list[str]:
    """Heads or keys as they were given; a file of them may not be one that came with what is checked."""
    for text in given or ():
        path = Path(text.removeprefix("@"))
        if text.startswith("@") and path.resolve().is_relative_to(folder.resolve()):
            raise OptionError(f"{path} is in the folder that is checked. Name a file that you kept elsewhere.")
    return given or []


def _print(result: Finding, format: str) -> None:
    if format == "json":
        from tiltyard.files import json_text

        more = {"agrees": result.agrees, "conclusion": result.conclusion, "problems": result.problems}
        say(json_text({**result.values, **more}))
        return
    wrong = [f"WRONG: {problem}" for problem in result.problems[:SHOWN]]
    if len(result.problems) > SHOWN:
        wrong.append(f"WRONG: {len(result.problems) - SHOWN:,} more")
    for line in (*result.messages, *wrong, result.conclusion):
        say("".join(_seen(letter) for letter in line))  # what others wrote makes no line of its own


def _seen(letter: str) -> str:
    from tiltyard.pages.escaping import is_unseen

    return letter.encode("unicode_escape").decode() if is_unseen(letter) else letter


def is_address(source: str) -> bool:
    """Whether a source is an address, and no path."""
    return source.startswith(("http://", "https://"))


def _check_lines(source: str, kept: KeptProof) -> Finding:
    """What the lines of a witness file or of a site agree with, and the board at their end."""
    from tiltyard.arena.witness import check_witness
    from tiltyard.pages.escaping import shortened
    from tiltyard.pages.figures import points
    from tiltyard.publishing.fetching import RemoteHost, bounded_lines

    path = Path(source)
    heads: list[Head | HeadFile] = []
    if is_address(source):
        site = None if source.endswith((".jsonl", ".jsonl.gz")) else source.rstrip("/")
        address = source if site is None else site + WITNESS_PATH
        lines = RemoteHost(address).lines(address)
        heads = _heads_of_site(source.removesuffix(WITNESS_PATH)) if address.endswith(WITNESS_PATH) else []
    elif path.is_file():
        lines = bounded_lines(path)
    elif path.is_dir():
        raise OptionError(f"{source} is a folder without published.json: {VERIFIABLE}")
    else:
        raise OptionError(
            f"there is no file or folder {source}. Name a published board or a witness file, or its address."
        )
    first = next(lines, b"")
    if not first.startswith(b'{"witness":'):
        raise OptionError(f"{source} cannot be verified: {VERIFIABLE}")
    result = check_witness(chain([first], lines), source, kept.heads, heads, kept.keys, kept.receipts)
    for rank, row in enumerate(result.values["board"], start=1):
        deviation = "" if row["deviation"] is None else f"  RD {points(row['deviation'], 1):>5}"
        result.messages.append(f"{rank:>4}  {points(row['rating']):>6}{deviation}  {shortened(row['model'])}")
    if is_address(source):
        result.messages.append("no page of the site was compared with it: `tiltyard publish` writes pages that are")
    return result


def _heads_of_site(site: str) -> list[Head | HeadFile]:
    """The heads that a site publishes, which its own witness must contain."""
    from tiltyard.arena.heads import Head, HeadFile
    from tiltyard.publishing.fetching import MOST_MANIFEST, RemoteHost

    address = site.rstrip("/") + HEADS_PATH
    try:
        found = msgspec.json.decode(RemoteHost(address).file(address, MOST_MANIFEST) or b'{"heads":[]}')
        rows = msgspec.convert(found["heads"], list[dict[str, Any]])
        heads = [Head.parse(str(row["head"])) for row in rows]
        return [*heads, *(msgspec.convert(row["signed"], HeadFile) for row in rows if row.get("signed"))]
    except (ValueError, LookupError, TypeError) as error:
        raise TiltyardError(f"{address} is no list of heads ({error}). Do not trust it.") from None

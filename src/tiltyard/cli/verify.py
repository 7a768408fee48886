"""`tiltyard verify`: recompute what somebody published, from the published file alone."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable
from contextlib import contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
import typer

from tiltyard.cli.arena_heads import HeadOption, KeyOption
from tiltyard.cli.output import note, say
from tiltyard.errors import OptionError, TiltyardError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tiltyard.arena.heads import Head, HeadFile
    from tiltyard.publish.folder import PublishedFile

Fetch = Callable[[str, int | None], bytes | None]
"""The bytes of a file of a published board, given its path and how many it should have."""

SHOWN = 20
"""Models of a board that are printed."""

MOST_MANIFEST = 64_000_000
"""Bytes of a manifest that are read at the most."""

FETCH_SECONDS = 60.0
"""How long a site may take to answer, and between two pieces of its answer."""

WITNESS_PATH = "/api/v1/witness.jsonl"
HEADS_PATH = "/api/v1/heads"
VERIFIABLE = "name a folder that `tiltyard publish` wrote, a witness file of an arena, or the address of either."


class VerifyRequest(msgspec.Struct, frozen=True):
    """What a user wants verified: where it comes from, its lines, and what was kept of it."""

    source: str
    first: bytes
    lines: Iterator[bytes]
    given: list[Head | HeadFile]
    """Heads that the user kept."""
    published: list[Head | HeadFile]
    """Heads that the site publishes."""
    keys: list[str]
    receipts: list[str]
    """Votes that must be there, as their voter knows them."""


class Finding(msgspec.Struct, frozen=True):
    """What was recomputed: sentences for people, values for programs, and what does not agree."""

    messages: list[str]
    values: dict[str, Any]
    problems: list[str]


def verify_command(
    source: Annotated[
        str,
        typer.Argument(
            metavar="FOLDER-or-URL",
            help="A folder that `publish` wrote or its address, a witness file (.gz too), or the address of an arena's "
            "site.",
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
    format: Annotated[Literal["table", "json"], typer.Option(help="For people or for programs.")] = "table",
) -> None:
    """Recompute what somebody published: a board and its pages from their battles, an arena's log from its witness.

    Exit code 3 if it does not agree with itself, with a head or fingerprint that was kept, or with the board that was
    stated, or if it leaves out a vote.
    """
    from tiltyard.arena.heads import kept_heads, trusted_keys

    keys, kept = trusted_keys(key or ()), kept_heads(head or ())
    fetch = published_folder(source)
    if fetch is not None:
        result = _verify_folder(fetch, source, fingerprint, kept, keys, receipt or [])
        _print(result, format)
        if result.problems:
            raise typer.Exit(3)
        return
    if fingerprint is not None:
        raise OptionError(
            f"{source} is no published board, and only those have a fingerprint. Leave out --fingerprint."
        )
    with _opened(source) as lines:
        first = next(lines, b"")
        verifier = next((verify for recognises, verify in VERIFIERS if recognises(first)), None)
        if verifier is None:
            raise OptionError(f"{source} cannot be verified: {VERIFIABLE}")
        result = verifier(VerifyRequest(source, first, lines, kept, _heads_of_site(source), keys, receipt or []))
    _print(result, format)
    if result.problems:
        raise typer.Exit(3)


def published_folder(source: str) -> Fetch | None:
    """How to get the files of a published board, in a folder or at an address; None: it is something else."""
    from tiltyard.publish.folder import MANIFEST

    if source.startswith(("http://", "https://")):
        base = source.removesuffix(MANIFEST).split("#")[0].split("?")[0]
        base = base if base.endswith("/") else base.rpartition("/")[0] + "/" if base.endswith(".html") else f"{base}/"
        if base.endswith((".jsonl/", ".jsonl.gz/")) or _at_address(base, MANIFEST, None) is None:
            return None
        return partial(_at_address, base)
    folder = Path(source).parent if Path(source).name == MANIFEST else Path(source)
    return partial(_in_folder, folder) if (folder / MANIFEST).is_file() else None


def _present(source: str) -> list[str]:
    """The files of a published folder; none for an address, which cannot be listed."""
    from tiltyard.publish.folder import MANIFEST

    folder = Path(source).parent if Path(source).name == MANIFEST else Path(source)
    if not folder.is_dir():
        return []
    return [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_symlink() or not path.is_dir()]


def _in_folder(folder: Path, name: str, size: int | None) -> bytes | None:  # noqa: ARG001 - addresses need the size
    path = folder / name
    return path.read_bytes() if path.is_file() else None


def _at_address(base: str, name: str, size: int | None) -> bytes | None:
    """A file of a published board from its address; no more of it than it should have, and a byte."""
    from urllib.error import HTTPError
    from urllib.parse import quote
    from urllib.request import urlopen

    address = base + quote(name)
    try:
        with urlopen(address, timeout=FETCH_SECONDS) as answer:  # noqa: S310 - http or https, as checked above
            data: bytes = answer.read(MOST_MANIFEST if size is None else size + 1)
            return data
    except HTTPError as error:
        if error.code in (403, 404, 410):
            return None
        raise OptionError(f"cannot fetch {address}: {error}. Try again later.") from None
    except (OSError, ValueError) as error:
        raise OptionError(f"cannot fetch {address}: {error}. Check the address, or download the folder.") from None


def _verify_folder(
    fetch: Fetch,
    source: str,
    fingerprint: str | None,
    kept: list[Head | HeadFile],
    keys: list[str],
    receipts: list[str],
) -> Finding:
    from tiltyard.pages.figures import points
    from tiltyard.publish import check_folder

    result = check_folder(fetch, source, _present(source))
    manifest, problems = result.manifest, result.problems
    proved = _verify_beside(fetch, manifest.files, kept, keys, receipts)
    problems += proved.problems
    if fingerprint is not None and fingerprint.strip().lower() != result.fingerprint:
        problems = [f"the fingerprint is {result.fingerprint}, not the one that was kept", *problems]
    messages = [f"published board: {manifest.title}, made from {manifest.source}", *result.messages]
    for one in result.boards:
        messages += [] if one.dimension is None else [one.dimension]
        messages += [
            f"{entry.rank:>4}  {points(entry.rating):>6}  {entry.model}" for entry in one.board.entries[:SHOWN]
        ]
        messages += [f"      and {len(one.board) - SHOWN:,} more"] if len(one.board) > SHOWN else []
    messages += [*proved.messages, f"fingerprint: {result.fingerprint}"]
    values = {
        **({"witness": proved.values} if proved.values else {}),
        "title": manifest.title,
        "source": manifest.source,
        "fingerprint": result.fingerprint,
        "battles": manifest.battles,
        "files": len(manifest.files),
        "extra_files": result.extra,
        "boards": {one.file: one.board.ratings for one in result.boards},
    }
    return Finding(messages, values, problems)


def _verify_beside(
    fetch: Fetch, files: Mapping[str, PublishedFile], kept: list[Head | HeadFile], keys: list[str], receipts: list[str]
) -> Finding:
    """What the witness of a published arena proves: its own log and board, the heads, and every battle."""
    from tiltyard.arena.heads import parse_heads
    from tiltyard.arena.witness import read_witness
    from tiltyard.publish.arenas import HEAD, SALTS, WITNESS, text_differences, witness_differences
    from tiltyard.publish.site import PROMPTS

    if WITNESS not in files:
        if kept or keys or receipts:
            raise OptionError("this board has no witness: heads, keys and receipts are for those of an arena.")
        return Finding([], {}, [])
    data, lines = fetch(WITNESS, files[WITNESS].bytes), fetch("battles.jsonl", files["battles.jsonl"].bytes)
    if data is None or lines is None:
        return Finding([], {}, [])
    try:
        first, *rest = gzip.decompress(data).splitlines(keepends=True)
        stated = parse_heads((fetch(HEAD, files[HEAD].bytes) or b"").decode(), HEAD) if HEAD in files else []
        result = _verify_witness(VerifyRequest(WITNESS, first, iter(rest), kept, stated, keys, receipts))
        rows = [json.loads(line) for line in lines.splitlines()]
        problems = [*result.problems, *witness_differences(data, rows)]
        if PROMPTS in files:
            texts, salts = (
                json.loads((fetch(name, files[name].bytes) if name in files else None) or b"{}")
                for name in (PROMPTS, SALTS)
            )
            problems += text_differences(read_witness([first, *rest], WITNESS)[1], texts, salts)
        return Finding(result.messages, result.values, problems)
    except (OSError, EOFError, ValueError, zlib.error, TiltyardError) as error:
        return Finding([], {}, [f"{WITNESS} or {HEAD} cannot be read: {error}"])


def _is_witness(first: bytes) -> bool:
    from tiltyard.arena.witness import is_witness

    return is_witness(first)


def _verify_witness(request: VerifyRequest) -> Finding:
    from tiltyard.arena.witness import check_witness
    from tiltyard.publish.arenas import WITNESS

    lines = chain([request.first], request.lines)
    found = check_witness(lines, request.source, request.given, request.published, request.keys, request.receipts)
    board = [] if request.source == WITNESS else found.board  # a published folder shows its own
    said = [*found.messages, *board, *([found.conclusion] if found.conclusion else [])]
    return Finding(said, found.values, found.problems)


VERIFIERS: list[tuple[Callable[[bytes], bool], Callable[[VerifyRequest], Finding]]] = [(_is_witness, _verify_witness)]
"""What can be verified: how its first line is recognised, and what recomputes it."""


def _print(result: Finding, format: str) -> None:
    if format == "json":
        from tiltyard.boards.text import json_text

        say(json_text({**result.values, "verified": not result.problems, "problems": result.problems}))
        return
    from tiltyard.pages.figures import plural

    for line in result.messages:
        say(line)
    for problem in result.problems:
        say(f"WRONG: {problem}")
    say("verified" if not result.problems else f"NOT verified: {plural(len(result.problems), 'problem')}")


@contextmanager
def _opened(source: str) -> Iterator[Iterator[bytes]]:
    """The lines of a file or address."""
    if source.startswith(("http://", "https://")):
        with _fetched(_witness_address(source)) as answer:
            yield iter(answer)
        return
    path = Path(source)
    if not path.is_file():
        raise OptionError(
            f"{source} is a folder without published.json: {VERIFIABLE}"
            if path.is_dir()
            else f"there is no file or folder {source}. Name a published board or a witness file, or its address."
        )
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            yield iter(file)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise OptionError(f"{source} is cut off or not a gzip file ({error}). Download it again.") from None


def _witness_address(source: str) -> str:
    return source if source.endswith((".jsonl", ".jsonl.gz")) else source.rstrip("/") + WITNESS_PATH


def _heads_of_site(source: str) -> list[Head | HeadFile]:
    """The heads that a site publishes, which its own witness must contain."""
    if not source.startswith(("http://", "https://")) or not _witness_address(source).endswith(WITNESS_PATH):
        return []
    import msgspec

    from tiltyard.arena.heads import Head, HeadFile

    with _fetched(_witness_address(source).removesuffix(WITNESS_PATH) + HEADS_PATH) as answer:
        rows = msgspec.json.decode(answer.read())["heads"]
    note(
        "1 head published there is compared too"
        if len(rows) == 1
        else f"{len(rows):,} heads published there are compared too"
    )
    return [msgspec.convert(row["signed"], HeadFile) if row.get("signed") else Head.parse(row["head"]) for row in rows]


@contextmanager
def _fetched(address: str) -> Iterator[Any]:
    from urllib.error import URLError
    from urllib.request import urlopen

    try:
        with urlopen(address, timeout=FETCH_SECONDS) as answer:  # noqa: S310 - http or https, as checked above
            yield answer
    except (URLError, OSError, ValueError) as error:
        raise OptionError(f"cannot fetch {address}: {error}. Check the address, or download the file.") from None

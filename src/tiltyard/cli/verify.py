"""`tiltyard verify`: recompute what somebody published, from the published file alone."""

from __future__ import annotations

import gzip
import json
import zlib
from collections import Counter
from collections.abc import Callable
from contextlib import contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
import typer

from tiltyard.cli.arena_heads import HeadOption, KeyOption, trusted_keys
from tiltyard.cli.output import note, say
from tiltyard.errors import OptionError, TiltyardError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tiltyard.arena.heads import Head, HeadFile
    from tiltyard.arena.witness import Witness
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
    matchups: list[str]
    """Matchups that the user was served."""

    @property
    def heads(self) -> list[Head | HeadFile]:
        """All heads with which it must agree."""
        return [*self.given, *self.published]


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
    matchup: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ID", help="A matchup that you were served: it must be there, with your vote; may be given again."
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
    fetch = published_folder(source)
    if fetch is not None:
        result = _verify_folder(fetch, source, fingerprint, _kept(head), trusted_keys(key), matchup or [])
        _print(result, format)
        if result.problems:
            raise typer.Exit(3)
        return
    if fingerprint is not None:
        raise OptionError(
            f"{source} is no published board, and only those have a fingerprint. Leave out --fingerprint."
        )
    keys, kept = trusted_keys(key), _kept(head)
    with _opened(source) as lines:
        first = next(lines, b"")
        verifier = next((verify for recognises, verify in VERIFIERS if recognises(first)), None)
        if verifier is None:
            raise OptionError(f"{source} cannot be verified: {VERIFIABLE}")
        result = verifier(VerifyRequest(source, first, lines, kept, _heads_of_site(source), keys, matchup or []))
    _print(result, format)
    if result.problems:
        raise typer.Exit(3)


def _kept(given: list[str] | None) -> list[Head | HeadFile]:
    """The heads that a user named, each as text or as a file."""
    from tiltyard.arena.heads import Head, read_heads

    kept: list[Head | HeadFile] = []
    for text in given or ():
        kept += read_heads(Path(text)) if Path(text).exists() else [Head.parse(text)]
    return kept


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
    matchups: list[str],
) -> Finding:
    from tiltyard.pages.figures import points
    from tiltyard.publish import check_folder

    result = check_folder(fetch, source, _present(source))
    manifest, problems = result.manifest, result.problems
    proved = _verify_beside(fetch, manifest.files, kept, keys, matchups)
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
    fetch: Fetch, files: Mapping[str, PublishedFile], kept: list[Head | HeadFile], keys: list[str], matchups: list[str]
) -> Finding:
    """What the witness of a published arena proves: its own log and board, the heads, and every battle."""
    from tiltyard.arena.heads import parse_heads
    from tiltyard.publish.arenas import HEAD, WITNESS, witness_differences

    if WITNESS not in files:
        if kept or keys or matchups:
            raise OptionError("this board has no witness: heads, keys and matchups are for those of an arena.")
        return Finding([], {}, [])
    data, lines = fetch(WITNESS, files[WITNESS].bytes), fetch("battles.jsonl", files["battles.jsonl"].bytes)
    if data is None or lines is None:
        return Finding([], {}, [])
    try:
        first, *rest = gzip.decompress(data).splitlines(keepends=True)
        stated = parse_heads((fetch(HEAD, files[HEAD].bytes) or b"").decode(), HEAD) if HEAD in files else []
        result = _verify_witness(VerifyRequest(WITNESS, first, iter(rest), kept, stated, keys, matchups))
        rows = [json.loads(line) for line in lines.splitlines()]
        return Finding(result.messages[:3], result.values, [*result.problems, *witness_differences(data, rows)])
    except (OSError, EOFError, ValueError, zlib.error, TiltyardError) as error:
        return Finding([], {}, [f"{WITNESS} or {HEAD} cannot be read: {error}"])


def _is_witness(first: bytes) -> bool:
    from tiltyard.arena.witness import is_witness

    return is_witness(first)


def _verify_witness(request: VerifyRequest) -> Finding:
    from tiltyard.arena.heads import Head, HeadFile, plain
    from tiltyard.arena.witness import check_heads, read_header, read_witness

    header = read_header(request.first, request.source)
    files = [*request.heads, *([header.statement] if header.statement else [])]
    kept = list(dict.fromkeys(plain(files, request.keys)))
    stated = {Head.parse(file.stated.head): file.stated.board for file in files if isinstance(file, HeadFile)}
    _, result = read_witness(
        chain([request.first], request.lines),
        request.source,
        {head.seq for head in kept},
        {head.seq for head in stated},
    )
    problems = [*result.problems, *check_heads(result, kept)]
    if request.keys and not stated:
        problems.append("no head signed by the key was given or published")
    boards, different = _compare_boards(stated, result)
    problems += different
    stories = {name: result.course.story(name, result.votes) for name in request.matchups}
    problems += [f"there is no matchup {name} in it" for name, story in stories.items() if story is None]
    message = _witness_lines(header.title, result, len(kept), boards, problems)
    values = {**_witness_values(result, kept, boards), "matchups": stories}
    return Finding([*message, *filter(None, stories.values())], values, problems)


def _compare_boards(stated: dict[Head, tuple[tuple[str, float, float], ...]], result: Witness) -> tuple[int, list[str]]:
    """How many boards that were stated could be compared, and where they differ."""
    from tiltyard.arena.witness import RatedModel, differing

    compared, problems = 0, list[str]()
    for head, rows in stated.items():
        if rows and head.seq in result.boards and result.heads.get(head.seq) == head.hash:
            compared += 1
            board = result.boards[head.seq]
            problems += [
                f"board at {head.seq}: {what}" for what in differing([RatedModel(*row) for row in rows], board)
            ]
    return compared, problems


def _witness_lines(title: str, result: Witness, heads: int, boards: int, problems: list[str]) -> list[str]:
    """What was found, for people. The board has the numbers of the site's page."""
    from tiltyard.pages.figures import day, points

    counts = _vote_counts(result)
    message = [
        f"witness of {title or 'an arena'}: {result.head.seq:,} events up to {day(result.state.latest)}, of which "
        f"{result.hidden:,} are known by their hashes alone",
        f"votes: {counts['votes']:,} counted, {counts['excluded']:,} excluded, {counts['undone']:,} undone by their "
        "voters" + ("; none is left out" if not problems else ""),
        f"head: {result.head}",
    ]
    if heads and not problems:
        message.append(f"heads: {_all(heads)} in the log")
    if boards and not problems:
        message.append(f"boards: {_all(boards)} as stated")
    for rank, row in enumerate(result.boards[result.head.seq], start=1):
        deviation = "" if row.deviation is None else f"  RD {points(row.deviation, 1):>5}"
        message.append(f"{rank:>4}  {points(row.rating):>6}{deviation}  {row.model}")
    return message


def _witness_values(result: Witness, heads: list[Head], boards: int) -> dict[str, Any]:
    """The same, for programs."""
    rows = result.boards[result.head.seq]
    return {
        "head": str(result.head),
        "events": result.head.seq,
        **_vote_counts(result),
        "hidden": result.hidden,
        "heads_checked": [str(head) for head in heads],
        "boards_compared": boards,
        "phase": result.state.phase,
        "board": [{name: getattr(row, name) for name in row.__struct_fields__} for row in rows],
    }


def _vote_counts(result: Witness) -> dict[str, int]:
    standings = Counter(vote.standing.value for vote in result.votes)
    return {"votes": standings["counted"], "excluded": standings["excluded"], "undone": len(result.course.undone)}


def _all(number: int) -> str:
    return "the one given or published is" if number == 1 else f"all {number} given or published are"


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

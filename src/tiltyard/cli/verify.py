"""`tiltyard verify`: recompute what somebody published, from the published files alone."""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
import typer

from tiltyard.cli.arena_heads import HeadOption, KeyOption, given_heads, trusted_keys
from tiltyard.cli.output import note, say
from tiltyard.errors import OptionError, TiltyardError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tiltyard.arena.heads import Head, HeadFile
    from tiltyard.arena.witness import Witness

SHOWN = 20
"""Models of a board that are printed, and problems."""

WITNESS_PATH = "/api/v1/witness.jsonl"
HEADS_PATH = "/api/v1/heads"
SHA256 = re.compile(r"[0-9a-f]{64}")
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
    """What was recomputed: sentences for people, values for programs, what does not agree, and what follows."""

    messages: list[str]
    values: dict[str, Any]
    problems: list[str]
    conclusion: str = ""
    """What agrees with what, and whom one has to trust for the rest."""
    in_part: bool = False
    """Whether something could not be compared."""


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
    if fingerprint is not None and not SHA256.fullmatch(fingerprint.strip().lower()):
        raise OptionError(f"--fingerprint {fingerprint[:80]!r} is no fingerprint: it has 64 letters from 0-9 and a-f.")
    with published_folder(source) as folder:
        outside = folder or Path(source)
        kept, keys = given_heads(_outside(head, outside)), trusted_keys(_outside(key, outside))
        if folder is None and (Path(source) / "manifest.json").is_file():
            if kept or keys or matchup or fingerprint:
                raise OptionError(f"{source} is the folder of a run: it has no heads, keys, matchups or fingerprint.")
            result = _verify_run(Path(source), besides or [])
        elif folder is not None:
            result = _verify_folder(folder, source, fingerprint, besides or [], kept, keys, matchup or [])
        elif fingerprint is not None or besides:
            raise OptionError(
                f"{source} is no published board: --fingerprint and --besides are for those. Leave them out."
            )
        else:
            result = _verify_lines(source, kept, keys, matchup or [])
    _print(result, format)
    if result.problems or (result.in_part and not ratings_only):
        raise typer.Exit(3)


@contextmanager
def published_folder(source: str) -> Iterator[Path | None]:
    """The folder of a published board, that of an address fetched; None: it is something else."""
    from tiltyard.publish.fetching import fetch_folder, is_address
    from tiltyard.publish.folder import MANIFEST

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


def _verify_folder(
    folder: Path,
    source: str,
    fingerprint: str | None,
    besides: list[str],
    kept: list[Head | HeadFile],
    keys: list[str],
    matchups: list[str],
) -> Finding:
    from tiltyard.pages.figures import points
    from tiltyard.publish import check_folder
    from tiltyard.publish.fetching import is_address

    result = check_folder(folder, besides)
    manifest = result.manifest
    same = fingerprint is not None and fingerprint.strip().lower() == result.fingerprint
    if fingerprint is not None and not same:
        result.problems.insert(0, f"the fingerprint is {result.fingerprint}, not the one that was kept")
    proved = _verify_beside(folder, manifest.source, kept, keys, matchups)
    result.problems += proved.problems
    messages = ["published board; of its operator, and not checked:", *(f"  {one}" for one in result.operators_words)]
    for one in () if result.site is None else result.site.boards:
        messages += [] if one.dimension is None else [one.dimension]
        messages += [
            f"{entry.rank:>4}  {points(entry.rating):>6}  {entry.model}" for entry in one.board.entries[:SHOWN]
        ]
        messages += [f"      and {len(one.board) - SHOWN:,} more"] if len(one.board) > SHOWN else []
    if is_address(source):
        messages.append("files that published.json does not name cannot be seen at an address")
    messages += [*proved.messages, f"fingerprint: {result.fingerprint}"]
    values = {
        **({"witness": proved.values} if proved.values else {}),
        "title": manifest.title,
        "source": manifest.source,
        "fingerprint": result.fingerprint,
        "battles": manifest.battles,
        "files": len(manifest.files),
        "operator": result.operators_words,
        "rules": msgspec.to_builtins(manifest.rules),
        "not_compared": result.not_compared,
        "boards": {} if result.site is None else {one.file: one.board.ratings for one in result.site.boards},
    }
    conclusion = result.conclusion(kept=same, heads=bool(kept or keys))
    return Finding(messages, values, result.problems, conclusion, bool(result.not_compared))


def _verify_run(folder: Path, besides: list[str]) -> Finding:
    from tiltyard.publish import check_run

    result = check_run(folder, besides)
    words = f"of its maker, and not checked: {', '.join(result.makers_words)}"
    values = {"verdicts": result.verdicts, "rules": result.rules, "not_checked": result.makers_words}
    return Finding([words], values, result.problems, result.conclusion, bool(result.not_compared))


def _print(result: Finding, format: str) -> None:
    if format == "json":
        from tiltyard.boards.text import json_text

        agrees = "no" if result.problems else "in part" if result.in_part else "with itself"
        more = {"agrees": agrees, "conclusion": result.conclusion, "problems": result.problems}
        say(json_text({**result.values, **more}))
        return
    for line in result.messages:
        say(line)
    for problem in result.problems[:SHOWN]:
        say(f"WRONG: {problem}")
    if len(result.problems) > SHOWN:
        say(f"WRONG: {len(result.problems) - SHOWN:,} more")
    say(result.conclusion)


# An arena's witness: alone, at a site, or beside a published board.


def _verify_lines(source: str, kept: list[Head | HeadFile], keys: list[str], matchups: list[str]) -> Finding:
    """What the lines of a witness file or of a site prove."""
    with _opened(source) as lines:
        first = next(lines, b"")
        if not _is_witness(first):
            raise OptionError(f"{source} cannot be verified: {VERIFIABLE}")
        return _verify_witness(VerifyRequest(source, first, lines, kept, _heads_of_site(source), keys, matchups))


def _verify_beside(
    folder: Path, made_from: str, kept: list[Head | HeadFile], keys: list[str], matchups: list[str]
) -> Finding:
    """What the witness of a published arena proves besides its battles: heads, boards, matchups."""
    from tiltyard.publish.arenas import WITNESS
    from tiltyard.publish.fetching import bounded_lines

    path = folder / WITNESS
    if made_from != "arena" or path.is_symlink() or not path.is_file():
        if kept or keys or matchups:
            raise OptionError("this board has no witness: heads, keys and matchups are for those of an arena.")
        return Finding([], {}, [])
    try:
        with path.open("rb") as file:
            first, *rest = bounded_lines(file, WITNESS)
        result = _verify_witness(VerifyRequest(WITNESS, first, iter(rest), kept, [], keys, matchups))
        return Finding(result.messages[:3], result.values, result.problems)
    except (ValueError, TiltyardError) as error:
        return Finding([], {}, [f"{WITNESS} cannot be read: {error}"])


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
    conclusion = (
        f"agrees with itself: votes, heads and boards are what this log of {result.head.seq:,} events gives. Whoever "
        "runs the arena could have written another log: keep its head to notice that later."
    )
    if problems:
        conclusion = f"does NOT agree: {len(problems):,} problems"
    return Finding([*message, *filter(None, stories.values())], values, problems, conclusion)


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


@contextmanager
def _opened(source: str) -> Iterator[Iterator[bytes]]:
    """The lines of a file or address."""
    from tiltyard.publish.fetching import RemoteHost, bounded_lines, is_address

    if is_address(source):
        address = _witness_address(source)
        yield RemoteHost(address).lines(address)
        return
    path = Path(source)
    if not path.is_file():
        raise OptionError(
            f"{source} is a folder without published.json: {VERIFIABLE}"
            if path.is_dir()
            else f"there is no file or folder {source}. Name a published board or a witness file, or its address."
        )
    with path.open("rb") as file:
        yield bounded_lines(file, source)


def _witness_address(source: str) -> str:
    return source if source.endswith((".jsonl", ".jsonl.gz")) else source.rstrip("/") + WITNESS_PATH


def _heads_of_site(source: str) -> list[Head | HeadFile]:
    """The heads that a site publishes, which its own witness must contain."""
    from tiltyard.publish.fetching import MOST_MANIFEST, RemoteHost, is_address

    if not is_address(source) or not _witness_address(source).endswith(WITNESS_PATH):
        return []
    from tiltyard.arena.heads import Head, HeadFile

    address = _witness_address(source).removesuffix(WITNESS_PATH) + HEADS_PATH
    rows = msgspec.json.decode(RemoteHost(address).file(address, MOST_MANIFEST) or b'{"heads":[]}')["heads"]
    note(
        "1 head published there is compared too"
        if len(rows) == 1
        else f"{len(rows):,} heads published there are compared too"
    )
    return [msgspec.convert(row["signed"], HeadFile) if row.get("signed") else Head.parse(row["head"]) for row in rows]

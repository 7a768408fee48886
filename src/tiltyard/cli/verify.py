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
from tiltyard.cli.output import note, say
from tiltyard.errors import OptionError, TiltyardError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tiltyard.arena.heads import Head, HeadFile

SHOWN = 20
"""Models of a board that are printed, and problems."""

WITNESS_PATH = "/api/v1/witness.jsonl"
HEADS_PATH = "/api/v1/heads"
SHA256 = re.compile(r"[0-9a-f]{64}")
VERIFIABLE = "name a folder that `tiltyard publish` wrote, a witness file of an arena, or the address of either."


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

    if fingerprint is not None and not SHA256.fullmatch(fingerprint.strip().lower()):
        raise OptionError(f"--fingerprint {fingerprint[:80]!r} is no fingerprint: it has 64 letters from 0-9 and a-f.")
    with published_folder(source) as folder:
        outside = folder or Path(source)
        kept, keys = kept_heads(_outside(head, outside)), trusted_keys(_outside(key, outside))
        if folder is None and (Path(source) / "manifest.json").is_file():
            if kept or keys or receipt or fingerprint:
                raise OptionError(f"{source} is the folder of a run: it has no heads, keys, receipts or fingerprint.")
            result = _verify_run(Path(source), besides or [])
        elif folder is not None:
            result = _verify_folder(folder, source, fingerprint, besides or [], kept, keys, receipt or [])
        elif fingerprint is not None or besides:
            raise OptionError(
                f"{source} is no published board: --fingerprint and --besides are for those. Leave them out."
            )
        else:
            result = _verify_lines(source, kept, keys, receipt or [])
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
    receipts: list[str],
) -> Finding:
    from tiltyard.pages.figures import points
    from tiltyard.publish import check_folder
    from tiltyard.publish.fetching import is_address

    result = check_folder(folder, besides)
    manifest = result.manifest
    same = fingerprint is not None and fingerprint.strip().lower() == result.fingerprint
    if fingerprint is not None and not same:
        result.problems.insert(0, f"the fingerprint is {result.fingerprint}, not the one that was kept")
    proved = _verify_beside(folder, manifest.source, kept, keys, receipts)
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
        from tiltyard.files import json_text

        agrees = "no" if result.problems else "in part" if result.in_part else "with itself"
        more = {"agrees": agrees, "conclusion": result.conclusion, "problems": result.problems}
        say(json_text({**result.values, **more}))
        return
    for line in result.messages:
        say(_in_one_line(line))
    for problem in result.problems[:SHOWN]:
        say(_in_one_line(f"WRONG: {problem}"))
    if len(result.problems) > SHOWN:
        say(f"WRONG: {len(result.problems) - SHOWN:,} more")
    say(_in_one_line(result.conclusion))


def _in_one_line(text: str) -> str:
    """What others wrote makes no line of its own."""
    return text.replace("\n", "\\n").replace("\r", "\\r")


# An arena's witness: alone, at a site, or beside a published board.


def _verify_lines(source: str, kept: list[Head | HeadFile], keys: list[str], receipts: list[str]) -> Finding:
    """What the lines of a witness file or of a site agree with."""
    from tiltyard.arena.witness import check_witness, is_witness
    from tiltyard.pages.figures import plural

    with _opened(source) as lines:
        first = next(lines, b"")
        if not is_witness(first):
            raise OptionError(f"{source} cannot be verified: {VERIFIABLE}")
        found = check_witness(chain([first], lines), source, kept, _heads_of_site(source), keys, receipts)
    conclusion = found.conclusion or f"does NOT agree: {plural(len(found.problems), 'problem')}"
    return Finding([*found.messages, *found.board], found.values, found.problems, conclusion)


def _verify_beside(
    folder: Path, made_from: str, kept: list[Head | HeadFile], keys: list[str], receipts: list[str]
) -> Finding:
    """What the witness of a published arena agrees with besides its battles: heads, boards, votes."""
    from tiltyard.arena.witness import check_witness
    from tiltyard.publish.arenas import WITNESS
    from tiltyard.publish.fetching import bounded_lines

    path = folder / WITNESS
    if made_from != "arena" or path.is_symlink() or not path.is_file():
        if kept or keys or receipts:
            raise OptionError("this board has no witness: heads, keys and receipts are for those of an arena.")
        return Finding([], {}, [])
    try:
        with path.open("rb") as file:
            found = check_witness(bounded_lines(file, WITNESS), WITNESS, kept, (), keys, receipts)
    except (ValueError, TiltyardError) as error:
        return Finding([], {}, [f"{WITNESS} cannot be read: {error}"])
    return Finding(found.messages, found.values, found.problems)


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

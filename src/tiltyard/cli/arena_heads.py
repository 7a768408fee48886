"""The commands of `tiltyard arena` that look after it: verify, backup, head, witness, doctor."""

from __future__ import annotations

import sys
import time
from collections import Counter
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tiltyard.cli.arena_options import DEFAULT_DB, DbOption, OutOption, need_arena, shown_url
from tiltyard.cli.output import note, printable, say
from tiltyard.errors import OptionError, StoreError, TiltyardError
from tiltyard.files import json_line, write_bytes, write_private

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tiltyard.arena.heads import HeadFile
    from tiltyard.arena.store.verify import Verification
    from tiltyard.web.checkup import CheckupLine

HeadOption = Annotated[
    list[str] | None,
    typer.Option(
        "--head", metavar="HASH@N|@FILE", help="A head that was kept, or a file of heads; may be given again."
    ),
]
KeyOption = Annotated[
    list[str] | None,
    typer.Option("--key", metavar="KEY|@FILE", help="Heads must be signed by this public key; may be given again."),
]


def verify_command(
    db: DbOption = DEFAULT_DB,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Write the table of matchups anew from the log, then verify.")
    ] = False,
    head: HeadOption = None,
    key: KeyOption = None,
    since: Annotated[
        Path | None,
        typer.Option(
            "--since",
            metavar="FILE",
            help="Begin at this signed head, whose state is still kept: reads only what is newer.",
        ),
    ] = None,
) -> None:
    """Read the log once, recompute its chain, its public rows and all that follows from it, and compare.

    Every head that was published is compared with its rows, board, signature and time. With --head, the public rows
    must lead to a head that was kept elsewhere: those of a cut or rewritten log do not. With --since, events up to that
    head are not read again; what was signed then is trusted.
    """
    need_arena()
    from tiltyard.arena.heads import kept_heads, trusted_keys
    from tiltyard.arena.store import verify as checking

    kept, keys = kept_heads(head or ()), trusted_keys(key or ())
    if rebuild:
        checking.rebuild(db)
        note("the table of matchups was written anew from the log")
    result = checking.verify(db, kept, keys, None if since is None else signed_head(since))
    say(f"{result.events:,} events, {result.votes:,} counted votes")
    say(f"head: {result.head}")
    for problem in result.problems:
        say(f"{problem}")
    if any(problem.table == "head" for problem in result.problems):
        raise TiltyardError(
            f"{shown_url(db)}: the log is not the one whose heads were kept: it was cut or rewritten. "
            "Restore a backup whose log contains them."
        )
    if not result.clean:
        more = f" (and {result.more_problems} more)" if result.more_problems else ""
        raise TiltyardError(
            f"{shown_url(db)}: {len(result.problems)}{more} tables or rows are not as the log says. If the log "
            "itself is intact, --rebuild writes the matchups anew."
        )
    for line in _agreement(result, len(kept)):
        say(line)


def _agreement(result: Verification, kept: int) -> Iterator[str]:
    """What agrees with what, and whom one has to trust for the rest."""
    from tiltyard.pages.figures import day, plural

    log = "the log and all that follows from it agree"
    if result.since:
        log += f" since event {result.since:,}; what came before was not read again"
    yield f"{log}: matchups, checkpoints, texts, files"
    if result.published:
        last, first = result.published[0], result.published[-1]
        signed = Counter(one.file.key for one in result.published if one.file is not None)
        by = "".join(f", {number:,} signed by {key}" for key, number in signed.items())
        when = day(last.at) if first is last else f"{day(first.at)} to {day(last.at)}"
        heads = plural(len(result.published), "published head")
        yield f"{heads} ({when}){by}: rows, boards, signatures and times agree with the log"
    if kept:
        heads = "the head" if kept == 1 else f"all {kept} heads"
        yield f"the public rows lead to {heads} given: up to there nothing was changed since"
    else:
        yield "whoever holds the database could have written all of it: only a head kept elsewhere can tell (--head)"


def backup_command(
    out: Annotated[Path, typer.Option("--out", help="A new file; nothing is overwritten.")],
    db: DbOption = DEFAULT_DB,
) -> None:
    """Copy an arena in SQLite to one file while it is in use; on PostgreSQL pg_dump does that."""
    need_arena()
    from tiltyard.arena.service import clock
    from tiltyard.arena.store import Store
    from tiltyard.arena.store.forgetting import open_store
    from tiltyard.arena.store.witnessing import public_head

    store = open_store(db)
    try:
        store.database.copy(out)
    finally:
        store.close()
    copied = Store.open(f"sqlite:///{out}")
    try:
        head = public_head(copied, clock())
    finally:
        copied.close()
    say(f"head: {head}")
    note(f"wrote {out}. Check it: tiltyard arena verify --db sqlite:///{out}")


def head_command(
    db: DbOption = DEFAULT_DB,
    sign: Annotated[
        Path | None, typer.Option("--sign", metavar="KEY", help="Sign with this private key; --new-key makes one.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Write a head file: the head, the board, the signature.")
    ] = None,
    title: Annotated[str, typer.Option(help="What the arena is called, in the head file.")] = "",
    new_key: Annotated[
        Path | None, typer.Option("--new-key", metavar="KEY", help="Make a private key, and do nothing else.")
    ] = None,
    next_key: Annotated[
        str | None,
        typer.Option(
            "--next-key",
            metavar="KEY|@FILE",
            help="With --sign: the public key that signs later heads. Whoever trusts this one then trusts that one.",
        ),
    ] = None,
) -> None:
    """Print the head of the public rows, and publish it in the arena's history of heads.

    Whoever keeps it can tell later whether anything before it was cut or rewritten (--head of `verify`). Keep the
    private key on another machine than the arena's, or at least out of its backups.
    """
    need_arena()
    from tiltyard.arena.heads import trusted_keys
    from tiltyard.arena.service import clock
    from tiltyard.arena.store import Store
    from tiltyard.arena.store.witnessing import record_head, state_head

    if new_key is not None:
        _make_key(new_key)
        return
    named = trusted_keys([next_key]) if next_key is not None else []
    if len(named) > 1 or (named and sign is None):
        raise OptionError("--next-key is one public key, and the present key vouches for it: give --sign too.")
    pem = None if sign is None else sign.read_bytes()
    store = Store.open(db)
    try:
        new = state_head(store, clock(), title=title, pem=pem, next_key="".join(named))
        if out is not None:  # first: a head that could not be written is not in the history either
            write_bytes(out, json_line(new.file), new_folder=False)
        record_head(store, new, clock())
    finally:
        store.close()
    say(str(new.head))
    if out is not None:
        note(f"wrote {out}" + (f", signed by {new.file.key}" if new.file.key else ", not signed"))


def _make_key(path: Path) -> None:
    """Write a new private key, readable by its owner alone, and print the public one."""
    from tiltyard.arena.heads import new_key

    if path.exists():
        raise OptionError(f"{path} is there already. A key overwrites nothing: name another file.")
    pem, public = new_key()
    write_private(path, pem)
    say(public)
    note(f"wrote the private key to {path}. Publish the line above; whoever has the file can sign heads.")


def witness_command(
    db: DbOption = DEFAULT_DB,
    out: OutOption = None,
    title: Annotated[str, typer.Option(help="What the arena is called, in the file.")] = "",
) -> None:
    """Write the witness: the public rows, from which anybody recomputes head and board without the database.

    Check it: tiltyard verify FILE.
    """
    need_arena()
    from tiltyard.arena.service import clock
    from tiltyard.arena.store import Store
    from tiltyard.arena.store.witnessing import witness_lines

    store = Store.open(db)
    try:
        lines = witness_lines(store, clock(), title)
        if out is None:
            for line in lines:
                sys.stdout.write(printable(line.decode()))
        else:
            write_bytes(out, b"".join(lines))
            note(f"wrote {out}. Check it: tiltyard verify {out}")
    finally:
        store.close()


def signed_head(path: Path) -> HeadFile:
    """The signed head of a file, with the digest of the state that is kept there."""
    from tiltyard.arena.heads import HeadFile, parse_heads, read_named

    for file in parse_heads(read_named(f"@{path}"), str(path)):
        if isinstance(file, HeadFile) and file.signature and isinstance(file.stated.state, str):
            if wrong := file.wrong():
                raise OptionError(f"{path}: {wrong}.")
            return file
    raise OptionError(f"{path} is no signed head. `tiltyard arena head --sign KEY --out FILE` writes one.")


UrlOption = Annotated[
    str | None, typer.Option("--url", metavar="URL", help="The address that visitors use: asks the running site too.")
]
BackupsOption = Annotated[
    Path | None, typer.Option("--backups", metavar="DIR", help="Where deploy/backup.sh puts its copies.")
]


def doctor_command(db: DbOption = DEFAULT_DB, url: UrlOption = None, backups: BackupsOption = None) -> None:
    """Look over a deployment: database, clock, disk, secrets, heads, backups, limits; with --url also its proxy.

    Every line says ok, look or repair, and what to do. Exit code 3 if something has to be repaired.
    """
    need_arena()
    lines = _findings(db, url, backups)
    width = max(len(line.part) for line in lines)
    for line in lines:
        say(f"{line.need:<6}  {line.part:<{width}}  {line.message}")
        if line.todo:
            say(f"{'':<6}  {'':<{width}}  → {line.todo}")
    wrong = sum(line.need == "repair" for line in lines)
    if wrong:
        say(f"{wrong} to repair")
        raise typer.Exit(3)
    say("nothing to repair")


def _findings(db: str, url: str | None, backups: Path | None) -> list[CheckupLine]:
    """The lines of all checks that can be made with what was given."""
    from tiltyard.arena.service import Arena
    from tiltyard.web import checkup
    from tiltyard.web.settings import check_web_address, secrets_of

    address = None if url is None else check_web_address(url)
    now, secret = time.time(), secrets_of()[0]
    try:
        with Arena.open(db) as arena:
            lines = [*checkup.check_store(arena.store, arena.read(lambda state: state.policy), now)]
            lines += checkup.check_secrets(arena.store)
            with suppress(StoreError):  # named by now
                secret = secret or arena.store.outside.secrets(date.today())
    except (TiltyardError, OSError) as error:
        lines = [checkup.repair("database", str(error), "Check its disk, the rights of its folder, and --db.")]
        lines += checkup.check_secrets(None)
    if backups is not None:
        lines.append(checkup.check_backups(backups, now))
    else:
        lines.append(checkup.look("backups", "not checked", "Name their folder: --backups DIR"))
    if address is not None:
        lines += checkup.check_site(address, secret.partition(",")[0])
    else:
        lines.append(checkup.look("site", "not checked", "Name the address that visitors use: --url URL"))
    return lines

"""The commands of `tiltyard arena` that look after it: verify, backup, head, witness, doctor."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tiltyard.cli.arena_options import DEFAULT_DB, DbOption, OutOption, need_arena, read_text_file, shown_url
from tiltyard.cli.output import note, printable, say
from tiltyard.errors import OptionError, TiltyardError
from tiltyard.files import json_line, write_bytes, write_lines, write_private

if TYPE_CHECKING:
    from tiltyard.arena.heads import Head, HeadFile
    from tiltyard.web.checkup import CheckupLine

HeadOption = Annotated[
    list[str] | None,
    typer.Option(
        "--head", metavar="HASH@SEQ|@FILE", help="A head that was kept, or a file of heads; may be given again."
    ),
]
KeyOption = Annotated[
    list[str] | None,
    typer.Option("--key", metavar="KEY|@FILE", help="Signed heads must be signed by this public key; may be repeated."),
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
    """Read the log once, recompute its chain and all that follows from it, and compare.

    With --head, the log must contain what was there when the head was kept: a cut or rewritten log does not. With
    --since, events up to that head are not read again; what was signed then is trusted.
    """
    need_arena()
    from tiltyard.arena.store import verify as checking

    kept = kept_heads(head, key)
    if rebuild:
        checking.rebuild(db)
        note("the table of matchups was written anew from the log")
    result = checking.verify(db, kept, *(() if since is None else signed_state(since, key)))
    seq, digest = result.head
    say(f"{result.events:,} events, {result.votes:,} counted votes")
    say(f"head: {seq} {digest}")
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
    if kept:
        say(f"heads: the log contains {'the head' if len(kept) == 1 else f'all {len(kept)} heads'} given")
    if result.since:
        say(
            f"clean since event {result.since:,}: events up to it were not read again, and rows about them were taken "
            "as they are"
        )
    else:
        say("clean: everything is what the log says")


def backup_command(
    out: Annotated[Path, typer.Option("--out", help="A new file; nothing is overwritten.")],
    db: DbOption = DEFAULT_DB,
) -> None:
    """Copy an arena in SQLite to one file while it is in use; on PostgreSQL pg_dump does that."""
    need_arena()
    from tiltyard.arena.store import Store, log

    store = Store.open(db)
    try:
        store.database.copy(out)
    finally:
        store.close()
    copied = Store.open(f"sqlite:///{out}")
    try:
        with copied.database.read() as connection:
            seq, digest = log.head(connection)
    finally:
        copied.close()
    say(f"head: {seq} {digest}")
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
) -> None:
    """Print the head of the public log, and add it to the arena's history of heads.

    Whoever keeps it can tell later whether anything before it was cut or rewritten (--head of `verify`). Keep the
    private key on another machine than the arena's, or at least out of its backups.
    """
    need_arena()
    from tiltyard.arena.service import clock
    from tiltyard.arena.store import Store
    from tiltyard.arena.store.witnessing import record_head, state_head

    if new_key is not None:
        _make_key(new_key)
        return
    pem = None if sign is None else sign.read_bytes()
    store = Store.open(db)
    try:
        now = clock()
        head, file = state_head(store, now, title=title, pem=pem)
        if out is not None:  # first: a head that could not be written is not in the history either
            write_bytes(out, json_line(file), new_folder=False)
        record_head(store, head, now, file if pem is not None else None)
    finally:
        store.close()
    say(str(head))
    if out is not None:
        note(f"wrote {out}" + (f", signed by {file.key}" if file.key else ", not signed"))


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
    """Write the witness: a file from which anybody recomputes head and board without the database.

    It tells nothing of who wrote an answer that can still be served. Check it: tiltyard verify FILE.
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
                sys.stdout.write(printable(json_line(line).decode()))
        else:
            write_lines(out, lines)
            note(f"wrote {out}. Check it: tiltyard verify {out}")
    finally:
        store.close()


def given_heads(given: list[str] | None) -> list[Head | HeadFile]:
    """The heads that a user named, each as text, or as `@` and a file."""
    from tiltyard.arena.heads import Head, read_heads

    result: list[Head | HeadFile] = []
    for text in given or ():
        result += read_heads(Path(text[1:])) if text.startswith("@") else [Head.parse(text)]
    return result


def kept_heads(given: list[str] | None, keys: list[str] | None) -> list[Head]:
    """The heads that a user named, alone; signatures are checked."""
    from tiltyard.arena.heads import plain

    return plain(given_heads(given), trusted_keys(keys))


def signed_state(path: Path, keys: list[str] | None) -> tuple[Head, str]:
    """The head of a signed head file, and the digest of the state that is kept there."""
    from tiltyard.arena.heads import Head, HeadFile, read_heads

    for file in read_heads(path):
        if isinstance(file, HeadFile) and file.signature and isinstance(file.stated.state, str):
            file.check(trusted_keys(keys))
            return Head.parse(file.stated.head), file.stated.state
    raise OptionError(f"{path} is no signed head. `tiltyard arena head --sign KEY --out FILE` writes one.")


def trusted_keys(given: list[str] | None) -> list[str]:
    """The public keys that a user named, each as text, or as `@` and a file with one a line."""
    from tiltyard.arena.heads import check_key

    texts = [read_text_file(Path(text[1:])) if text.startswith("@") else text for text in given or ()]
    return [check_key(line) for text in texts for line in text.splitlines() if line.strip()]


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
    from tiltyard.arena.store import site_texts
    from tiltyard.web import checkup
    from tiltyard.web.settings import check_web_address, secrets_of

    address = None if url is None else check_web_address(url)
    now = time.time()
    try:
        with Arena.open(db) as arena:
            lines = [*checkup.check_store(arena.store, arena.read(lambda state: state.policy), now)]
            secret = secrets_of()[0] or site_texts.secret(arena.store)
    except (TiltyardError, OSError) as error:
        lines, secret = (
            [checkup.repair("database", str(error), "Check its disk, the rights of its folder, and --db.")],
            secrets_of()[0],
        )
    lines += checkup.check_secrets()
    if backups is not None:
        lines.append(checkup.check_backups(backups, now))
    else:
        lines.append(checkup.look("backups", "not checked", "Name their folder: --backups DIR"))
    if address is not None:
        lines += checkup.check_site(address, secret)
    else:
        lines.append(checkup.look("site", "not checked", "Name the address that visitors use: --url URL"))
    return lines

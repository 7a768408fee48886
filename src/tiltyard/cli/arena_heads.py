"""The commands of `tiltyard arena` that look after it: verify, backup, upgrade, head, witness, doctor."""

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
    from tiltyard.arena.heads import Head
    from tiltyard.web.checkup import CheckupLine

HeadOption = Annotated[
    list[str] | None,
    typer.Option(
        "--head", metavar="HASH@SEQ|FILE", help="A head that was kept, or a file of heads; may be given again."
    ),
]
KeyOption = Annotated[
    list[str] | None,
    typer.Option("--key", metavar="KEY|FILE", help="Signed heads must be signed by this public key; may be repeated."),
]


def verify_command(
    db: DbOption = DEFAULT_DB,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Rebuild every table from the log, then verify.")] = False,
    head: HeadOption = None,
    key: KeyOption = None,
    seals: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Start at the last seal in this folder, and seal what ended since. Keep it apart from the database.",
        ),
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="With --seals: verify everything from the first event, and every seal.")
    ] = False,
) -> None:
    """Recompute the hash chain and every table from the log, and compare bit for bit.

    With --head, the log must contain what was there when the head was kept: a cut or rewritten log does not. With
    --seals, what earlier runs verified and sealed is not read again; segments end with each month and after a million
    events.
    """
    need_arena()
    from tiltyard.arena.store import verify as checking
    from tiltyard.arena.store.seals import Seals

    if full and seals is None:
        raise OptionError("--full goes with --seals: without a folder of seals everything is verified anyway.")
    kept = kept_heads(head, key)
    if rebuild:
        checking.rebuild(db)
        note("every table was rebuilt from the log")
    sealed = None if seals is None else Seals(seals, full=full)
    result = checking.verify(db, heads=kept, seals=sealed)
    seq, digest = result.head
    say(f"{result.events:,} events, {result.votes:,} counted votes, {result.unchained:,} events not yet chained")
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
            f"{shown_url(db)}: {len(result.problems)}{more} tables or rows are not as the log says. If the chain "
            "itself is intact, --rebuild rebuilds the tables."
        )
    if kept:
        say(f"heads: the log contains {'the head' if len(kept) == 1 else f'all {len(kept)} heads'} given")
    if sealed is not None:
        for seal in sealed.write():
            note(f"sealed up to event {seal.seq:,}: {seals}/{seal.name}")
    if result.since:
        say(
            f"clean since the last seal: events 1 to {result.since:,} were not read again, and tables about them were "
            "taken as they are; --full verifies everything"
        )
    else:
        say("clean: every table is what the log says, bit for bit")


def backup_command(
    out: Annotated[Path, typer.Option("--out", help="A new file; nothing is overwritten.")],
    db: DbOption = DEFAULT_DB,
) -> None:
    """Copy an arena in SQLite to one file while it is in use; on PostgreSQL pg_dump does that."""
    need_arena()
    from tiltyard.arena.store import Store
    from tiltyard.arena.store.maintenance import copy_arena

    store = Store.open(db)
    try:
        seq, digest = copy_arena(store.database, out)
    finally:
        store.close()
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


def upgrade_arena(db: str, *, rolling: bool) -> None:
    """Bring an arena to this version: a copy first, then the tables, then the chain of its log."""
    from tiltyard.arena.store import Store
    from tiltyard.arena.store.maintenance import copy_before_upgrade, switch_chain

    made = copy_before_upgrade(db)
    if made is not None:
        note(f"{shown_url(db)}: copied to {made} first")
    elif not db.startswith("sqlite"):
        note(f"PostgreSQL: no copy was made here. pg_dump --format=custom --file FILE {shown_url(db)} makes one.")
    store = Store.upgrade(db)
    try:
        if rolling:
            note(
                f"{shown_url(db)}: has the tables of this version. Replace every host's program, then run it again "
                "without --rolling."
            )
            return
        changed = switch_chain(store)
    finally:
        store.close()
    if changed is not None:
        note(f"the log is chained by version 2 after event {changed.until}; its head there was {changed.head}")
    note(f"{shown_url(db)}: has the tables of this version")


def kept_heads(given: list[str] | None, keys: list[str] | None) -> list[Head]:
    """The heads that a user named, each as text or as a file; signatures are checked."""
    from tiltyard.arena.heads import Head, HeadFile, plain, read_heads

    result: list[Head | HeadFile] = []
    for text in given or ():
        result += read_heads(Path(text)) if Path(text).exists() else [Head.parse(text)]
    return plain(result, trusted_keys(keys))


def trusted_keys(given: list[str] | None) -> list[str]:
    """The public keys that a user named, each as text or as a file with one a line."""
    from tiltyard.arena.heads import check_key

    texts = [read_text_file(Path(text)) if Path(text).is_file() else text for text in given or ()]
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

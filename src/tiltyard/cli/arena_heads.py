"""The commands of `tiltyard arena` that look after it: verify, backup, head, witness, doctor."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tiltyard.cli.arena_options import DEFAULT_DB, DbOption, OutOption, need_arena
from tiltyard.cli.output import note, printable, say
from tiltyard.files import write_bytes

if TYPE_CHECKING:
    pass

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
    from tiltyard.verbs.heads import verify

    lines, problem = verify(db, head or (), key or (), since, note, rebuild=rebuild)
    for line in lines:
        say(line)
    if problem is not None:
        raise problem


def backup_command(
    out: Annotated[Path, typer.Option("--out", help="A new file; nothing is overwritten.")], db: DbOption = DEFAULT_DB
) -> None:
    """Copy an arena in SQLite to one file while it is in use; on PostgreSQL pg_dump does that."""
    need_arena()
    from tiltyard.verbs.heads import backup

    say(f"head: {backup(db, out)}")
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
    from tiltyard.verbs.heads import make_key, publish_head

    if new_key is not None:
        say(make_key(new_key))
        note(f"wrote the private key to {new_key}. Publish the line above; whoever has the file can sign heads.")
        return
    new = publish_head(db, sign, out, title, next_key)
    say(str(new.head))
    if out is not None:
        note(f"wrote {out}" + (f", signed by {new.file.key}" if new.file.key else ", not signed"))


def witness_command(
    db: DbOption = DEFAULT_DB,
    out: OutOption = None,
    title: Annotated[str, typer.Option(help="What the arena is called, in the file.")] = "",
) -> None:
    """Write the witness: the public rows, from which anybody recomputes head and board without the database.

    Check it: tiltyard verify FILE.
    """
    need_arena()
    from tiltyard.verbs.heads import witness

    with witness(db, title) as lines:
        if out is not None:
            write_bytes(out, b"".join(lines))
            note(f"wrote {out}. Check it: tiltyard verify {out}")
            return
        for line in lines:
            sys.stdout.write(printable(line.decode()))


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
    from tiltyard.verbs.doctor import findings

    lines = findings(db, url, backups)
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

"""`tiltyard arena invite`, `screen` and `tidy`: who may vote, who votes oddly, and how long visitors are kept."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from tiltyard.arena.units import SECOND
from tiltyard.cli.arena_options import DEFAULT_DB, DbOption, OutOption, need_arena
from tiltyard.cli.output import note, say
from tiltyard.errors import OptionError

LOOPBACK = ("127.0.0.1", "localhost", "::1")
"""Hosts whose links nobody else can open."""


def invite_command(
    db: DbOption = DEFAULT_DB,
    n: Annotated[int | None, typer.Option("--n", min=1, max=100_000, help="Make this many invitations.")] = None,
    out: OutOption = None,
    uses: Annotated[
        int,
        typer.Option(
            min=0, max=1_000_000, help="How many visitors may use each; 0 is any number, for one link to many."
        ),
    ] = 1,
    label: Annotated[str, typer.Option(help="What they are for; they can be revoked by it.")] = "",
    days: Annotated[
        int | None, typer.Option(min=1, max=3650, help="Days until they expire; without it, never.")
    ] = None,
    public_url: Annotated[
        str, typer.Option(metavar="URL", help="The address of the site, with which the links begin.")
    ] = "http://127.0.0.1:8000",
    revoke: Annotated[
        str | None, typer.Option(metavar="NAME", help="Revoke the invitation with this name, or all with this label.")
    ] = None,
    format: Annotated[Literal["table", "json"], typer.Option(help="How the list is printed.")] = "table",
) -> None:
    """List the invitations of an arena, make new ones, or revoke some.

    A link is shown once, when it is made: the database keeps only its hash. Whoever opens a link and starts uses it,
    and votes from then on in that browser. Invitations matter once the arena is closed: `arena settings
    --invitation-only`. A revoked invitation ends the voting of those who used it; their votes stay.
    """
    need_arena()
    from urllib.parse import urlsplit

    from tiltyard.arena.service import clock
    from tiltyard.arena.store import Store
    from tiltyard.arena.store.invitations import all_invitations, make_invitations, revoke_invitations
    from tiltyard.boards.text import json_text
    from tiltyard.files import write_private
    from tiltyard.web.settings import check_web_address

    if n is not None and revoke is not None:
        raise OptionError("--n and --revoke are two different things. Give one of them.")
    site = check_web_address(public_url)

    def keep(secrets: list[str]) -> None:
        links = "".join(f"{site}/invited/{secret}\n" for secret in secrets)
        if out is None:
            say(links, end="")
        else:
            write_private(out, links.encode())
            note(f"wrote {n} links to {out}. Whoever has one may vote; keep the file safe, or delete it.")

    store = Store.open(db)
    try:
        now = clock()
        if revoke is not None:
            note(f"revoked: {revoke_invitations(store, revoke, now)}.")
        elif n is not None:
            until = None if days is None else now + days * 86_400 * SECOND
            make_invitations(store, n, now=now, most=uses, label=label, expires_at=until, keep=keep)
            if urlsplit(site).hostname in LOOPBACK:
                note("these links work on this machine only. For others: --public-url http://NAME-OR-ADDRESS:PORT")
            if not store.load().state.policy.entry.invitation_only:
                note("the arena is open to all: close it with `tiltyard arena settings --invitation-only`.")
            return
        found = all_invitations(store)
    finally:
        store.close()
    rows = [
        {"name": one.name, "label": one.label, "status": one.status(now), "uses": one.uses, "most": one.most}
        for one in found
    ]
    if format == "json":
        say(json_text({"invitations": rows}).rstrip())
        return
    for row in rows:
        most = row["most"] or "any number"
        say(f"{row['name']}  {row['status']:<8}  used {row['uses']} of {most}  {row['label']}".rstrip())
    if not rows:
        say("no invitations. Make some: tiltyard arena invite --n 50 --out links.txt")


def tidy_command(
    db: DbOption = DEFAULT_DB,
    voter_days: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=36_500,
            metavar="DAYS",
            help="Forget who was not here for this long; without it, what the policy says.",
        ),
    ] = None,
) -> None:
    """Delete what is known about visitors for longer than needed. A running site does the same by itself.

    Counts of limits, keys of addresses and blocks go when their time is over; links from cookies to votes after the
    policy's `retention.voter_days`. Votes stay: they are under random keys, which nothing leads to any more.
    """
    need_arena()
    from tiltyard.arena.service import clock
    from tiltyard.arena.store import Store
    from tiltyard.arena.store.visitors import tidy_visitors

    store = Store.open(db)
    try:
        kept = store.load().state.policy.retention.voter_days if voter_days is None else voter_days
        with store.database.write() as connection:
            done = tidy_visitors(connection, clock(), kept)
    finally:
        store.close()
    say(
        f"deleted: {done.voters} links from cookies to votes, {done.counts} counts of limits, {done.blocks} address "
        f"blocks, {done.keys} keys of addresses."
    )


def screen_command(
    db: DbOption = DEFAULT_DB,
    exclude: Annotated[
        bool, typer.Option("--exclude", help="Carry out every proposed exclusion, not only those the policy orders.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what was found; write nothing.")] = False,
) -> None:
    """Flag sessions that vote oddly and answers that name their model; propose which votes should not count."""
    need_arena()
    from tiltyard.arena.screening import screen
    from tiltyard.arena.service import Arena

    with Arena.open(db) as arena:
        found = arena.read(lambda state: screen(arena.store, state, exclude=exclude))
        for flag in found.voters:
            say(f"session {flag.voter}: {flag.flag}: {flag.detail}{' (sure)' if flag.sure else ''}")
        for answer in found.answers:
            done = "released" if answer.response_id in found.released else "held" if answer.held else "served"
            say(f"answer {answer.response_id} of {answer.model} ({done}): “{answer.phrase}”")
        for line in found.lines:
            say(line)
        for proposal in found.proposals:
            say(f"proposed: exclude {len(proposal.matchup_ids):,} votes: {proposal.reason}")
        for model in found.contested:
            say(f"model {model.model}: contested: {model.sentence}")
        if not (found.voters or found.answers or found.contested):
            say("nothing odd was found")
        if found.events and not dry_run:
            arena.append(found.events)
            note(f"{len(found.events)} events written")

"""`tiltyard arena forget`, `tidy` and `new-secret`: what is kept about visitors, and when it goes."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Annotated

import typer

from tiltyard.cli.arena_options import DEFAULT_DB, DbOption, need_arena
from tiltyard.cli.output import note, say
from tiltyard.errors import OptionError
from tiltyard.pages import plural

if TYPE_CHECKING:
    from tiltyard.arena.store import Deleted


def forget_command(
    voter: Annotated[
        list[str] | None,
        typer.Argument(metavar="VOTER", help="The random key of a visitor, as screening and /me show it."),
    ] = None,
    db: DbOption = DEFAULT_DB,
    invitation: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The invitation with this name, or all with this label, and who used them."),
    ] = None,
    everybody: Annotated[
        bool, typer.Option("--all", help="Every visitor, such as after restoring an old copy.")
    ] = False,
) -> None:
    """Forget visitors as if they had pressed "Forget me": whatever leads from their votes to them is deleted.

    Cookie hash, key of the network, counts, comments, words of reports, and a link made for them alone, with its label.
    The votes stay, under random keys that lead to nobody. Hashes of what was deleted are kept outside the database: a
    restored copy forgets again. A running site takes nothing more of them from then on.
    """
    need_arena()
    from tiltyard.arena import clock
    from tiltyard.arena.store import Store, forget_everybody, forget_invitation, forget_voters, load_state

    if bool(voter) + (invitation is not None) + everybody != 1:
        raise OptionError("forget whom? Give the keys of visitors, or --invitation NAME, or --all.")
    with closing(Store.open(db)) as store:
        with store.database.read() as connection:
            if load_state(connection)[0].review is not None:
                raise OptionError("this is the database of a review. Use `tiltyard review people --erase`.")
        if voter:
            done = forget_voters(store, voter)
        else:
            done = forget_everybody(store, clock()) if everybody else forget_invitation(store, invitation or "")
    _say_deleted(done)
    note(f"kept for restored copies in {store.outside.deletions_path}")


def tidy_command(db: DbOption = DEFAULT_DB) -> None:
    """Delete what is kept about visitors for longer than needed. A running site does the same by itself.

    Counts of limits, keys of networks and what they stand for go when their time is over; whoever had their last pair
    longer ago than the policy's `retention.voter_days` is forgotten, and what was written before that. Votes stay,
    under random keys.
    """
    need_arena()
    from tiltyard.arena import clock
    from tiltyard.arena.store import load_state, open_store, tidy

    with closing(open_store(db)) as store:
        with store.database.read() as connection:
            retention = load_state(connection)[0].policy.retention
        done = tidy(store, clock(), retention)
    _say_deleted(done)
    if store.database.purge_due:
        note("others read the database meanwhile: traces may be in its files. Run it again later.")


def _say_deleted(done: Deleted) -> None:
    say(
        f"deleted: {plural(done.voters, 'link')} from cookies to votes, {plural(done.comments, 'comment')}, "
        f"words of {plural(done.reports, 'report')}, {plural(done.counts, 'count')} of limits, "
        f"{plural(done.blocks, 'address block')}, {plural(done.keys, 'key')} of addresses."
    )


def new_secret_command(db: DbOption = DEFAULT_DB) -> None:
    """Change the site's secret, such as after it leaked; what was made of networks under the old one is dropped.

    Visitors keep what is theirs: for 30 days, and until the site is started after them, cookies signed with an old
    secret are taken, and signed anew. Restart the site now. If TILTYARD_SECRET is set, change it there to NEW,OLD; this
    command then drops the networks alone.
    """
    need_arena()
    import os
    from datetime import date

    from tiltyard.arena.store import Store, forget_networks
    from tiltyard.web.settings import SECRET_VARIABLE

    today = date.today()
    with closing(Store.open(db)) as store:
        outside, done = store.outside, "Restart the site."
        if os.environ.get(SECRET_VARIABLE):
            done = f"set {SECRET_VARIABLE}=NEW,OLD on every host, restart, and take OLD away after 30 days."
        elif outside.secrets(today):
            until = outside.change_secret(today)
            done = f"new secret in {outside.key_path}; the old one is taken until {until}. {done}"
        else:
            done = f"{outside.about_secret()} {done}"
        forget_networks(store)  # and again at the next start, since a running site has the old secret until then
    say("dropped: all keys of networks, what they stood for, and counts of limits.")
    note(done)

"""`tiltyard arena forget`, `tidy` and `new-secret`: what is kept about visitors, and when it goes."""

from __future__ import annotations

from typing import Annotated

import typer

from tiltyard.cli.arena_options import DEFAULT_DB, DbOption, need_arena
from tiltyard.cli.output import note, say


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
    from tiltyard.verbs.visitors import forget

    say(forget(db, voter or [], invitation, note, everybody=everybody))


def tidy_command(db: DbOption = DEFAULT_DB) -> None:
    """Delete what is kept about visitors for longer than needed. A running site does the same by itself.

    Counts of limits, keys of networks and what they stand for go when their time is over; whoever had their last pair
    longer ago than the policy's `retention.voter_days` is forgotten, and what was written before that. Votes stay,
    under random keys.
    """
    need_arena()
    from tiltyard.verbs.visitors import tidy

    say(tidy(db, note))


def new_secret_command(db: DbOption = DEFAULT_DB) -> None:
    """Change the site's secret, such as after it leaked; what was made of networks under the old one is dropped.

    Visitors keep what is theirs: for 30 days, and until the site is started after them, cookies signed with an old
    secret are taken, and signed anew. Restart the site now. If TILTYARD_SECRET is set, change it there to NEW,OLD; this
    command then drops the networks alone.
    """
    need_arena()
    from tiltyard.verbs.visitors import new_secret

    note(new_secret(db, say))

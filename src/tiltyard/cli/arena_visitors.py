"""`tiltyard arena tidy`: what is known about visitors, and for how long."""

from __future__ import annotations

from typing import Annotated

import typer

from tiltyard.cli.arena_options import DEFAULT_DB, DbOption, need_arena


def tidy_command(
    db: DbOption = DEFAULT_DB,
    voter_days: Annotated[
        int | None,
        typer.Option(
            min=0, metavar="DAYS", help="Forget who was not here for this long; without it, what the policy says."
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
    typer.echo(
        f"deleted: {done.voters} links from cookies to votes, {done.counts} counts of limits, {done.blocks} address "
        f"blocks, {done.keys} keys of addresses."
    )

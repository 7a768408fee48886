"""What is kept about an arena's visitors, and how it goes: forgotten, tidied by age, a new secret of the site."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import date

from tiltyard.arena import clock
from tiltyard.arena import store as stored
from tiltyard.errors import OptionError
from tiltyard.pages import plural
from tiltyard.web.settings import SECRET_VARIABLE


def forget(
    db: str, voters: Sequence[str], invitation: str | None, note: Callable[[str], None], *, everybody: bool = False
) -> str:
    """Forget visitors by their keys or by the invitation that they used, or all of them; what was deleted."""
    if bool(voters) + (invitation is not None) + everybody != 1:
        raise OptionError("forget whom? Give the keys of visitors, or --invitation NAME, or --all.")
    with closing(stored.Store.open(db)) as store:
        with store.database.read() as connection:
            if stored.load_state(connection)[0].review is not None:
                raise OptionError("this is the database of a review. Use `tiltyard review people --erase`.")
        if voters:
            done = stored.forget_voters(store, voters)
        elif everybody:
            done = stored.forget_everybody(store, clock())
        else:
            done = stored.forget_invitation(store, invitation or "")
    note(f"kept for restored copies in {store.outside.deletions_path}")
    return _deleted(done)


def tidy(db: str, note: Callable[[str], None]) -> str:
    """Delete what is kept about visitors for longer than the policy says; what was deleted."""
    with closing(stored.open_store(db)) as store:
        with store.database.read() as connection:
            retention = stored.load_state(connection)[0].policy.retention
        done = stored.tidy(store, clock(), retention)
    if store.database.purge_due:
        note("others read the database meanwhile: traces may be in its files. Run it again later.")
    return _deleted(done)


def _deleted(done: stored.Deleted) -> str:
    return (
        f"deleted: {plural(done.voters, 'link')} from cookies to votes, {plural(done.comments, 'comment')}, "
        f"words of {plural(done.reports, 'report')}, {plural(done.counts, 'count')} of limits, "
        f"{plural(done.blocks, 'address block')}, {plural(done.keys, 'key')} of addresses."
    )


def new_secret(db: str, say: Callable[[str], None]) -> str:
    """Change the site's secret, and drop what was made of networks under the old one; what is to be done next."""
    today = date.today()
    with closing(stored.Store.open(db)) as store:
        outside, todo = store.outside, "Restart the site."
        if os.environ.get(SECRET_VARIABLE):
            todo = f"set {SECRET_VARIABLE}=NEW,OLD on every host, restart, and take OLD away after 30 days."
        elif outside.secrets(today):
            until = outside.change_secret(today)
            todo = f"new secret in {outside.key_path}; the old one is taken until {until}. {todo}"
        else:
            todo = f"{outside.about_secret()} {todo}"
        stored.forget_networks(store)  # and again at the next start, since a running site has the old secret until then
    say("dropped: all keys of networks, what they stood for, and counts of limits.")
    return todo

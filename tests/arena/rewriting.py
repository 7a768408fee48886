"""What someone does who has the database and wants another history: everything is made to fit again."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import text

from tiltyard.arena.chain import FIRST_HASH, link_event
from tiltyard.arena.store import Store
from tiltyard.arena.store.rebuild import links
from tiltyard.arena.store.verify import rebuild

EVERY = 40


def rewrite(url: str, change: Callable[[Callable[[str], None]], None]) -> None:
    """Change the tables of the log by SQL, chain every event anew, and make every other table from the log."""
    store = Store.open(url)
    with store.database.write() as connection:

        def run(command: str) -> None:
            connection.execute(text(command))

        change(run)
        previous = FIRST_HASH
        for page in links(connection):
            for link in page:
                assert link.text is not None
                assert link.at is not None
                assert link.salt is not None
                previous = link_event(previous, link.seq, link.at, link.text, link.salt)
                run(f"UPDATE chain SET hash = '{previous}' WHERE seq = {link.seq}")
        run("DELETE FROM heads")
    store.close()
    rebuild(url, checkpoint_every=EVERY)

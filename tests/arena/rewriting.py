"""What someone does who has the database and wants another history: everything is made to fit again."""

from __future__ import annotations

from collections.abc import Callable

from tiltyard.arena.audit.verify import rebuild
from tiltyard.arena.rules.chain import FIRST_HASH, link_events
from tiltyard.arena.store import Store


def chain_anew(url: str, change: Callable[[Callable[[str], None]], None]) -> None:
    """Change the log by SQL, and chain every event anew."""
    store = Store.open(url)
    with store.database.write(lock=True) as connection:

        def run(command: str) -> None:
            connection.driver.execute(command)

        change(run)
        previous = FIRST_HASH
        for seq, at, text in connection.rows("SELECT seq, at, body FROM events ORDER BY seq"):
            (previous,) = link_events(previous, [at], [text])
            connection.execute("UPDATE events SET hash = ? WHERE seq = ?", previous, seq)
    store.close()


def rewrite(url: str, change: Callable[[Callable[[str], None]], None]) -> None:
    """The same, and everything else is made from the log."""
    chain_anew(url, change)
    rebuild(url)

"""What someone does who has the database and wants another history: everything is made to fit again."""

from __future__ import annotations

from collections.abc import Callable

from tiltyard.arena.chain import FIRST_HASH, link_event
from tiltyard.arena.store import Store
from tiltyard.arena.store.verify import rebuild


def rewrite(url: str, change: Callable[[Callable[[str], None]], None]) -> None:
    """Change the log by SQL, chain every event anew, and make everything else from the log."""
    store = Store.open(url)
    with store.database.write(lock=True) as connection:

        def run(command: str) -> None:
            connection.driver.execute(command)

        change(run)
        previous = FIRST_HASH
        for seq, at, text, salt in connection.rows("SELECT seq, at, body, salt FROM events ORDER BY seq"):
            previous = link_event(previous, seq, at, text, salt)
            connection.execute("UPDATE events SET hash = ? WHERE seq = ?", previous, seq)
        run("DELETE FROM heads")
    store.close()
    rebuild(url)

"""What an arena's site says of itself. It is for show: it lies beside the log, and nothing is computed from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from tiltyard.arena.store.tables import site_texts
from tiltyard.errors import OptionError

if TYPE_CHECKING:
    from tiltyard.arena.store import Store

NOTICE = "notice"
LONGEST = 500


def notice(store: Store) -> str:
    """The sentence that the site shows on every page; '' where there is none."""
    with store.database.read() as connection:
        return str(connection.execute(sa.select(site_texts.c.text).where(site_texts.c.name == NOTICE)).scalar() or "")


def set_notice(store: Store, text: str) -> None:
    """Show this sentence on every page from the next start of the site on; an empty one takes the notice away."""
    plain = " ".join(text.replace("\0", " ").split())
    if len(plain) > LONGEST:
        raise OptionError(f"the notice has {len(plain)} characters; a page has room for {LONGEST}. Shorten it.")
    with store.database.write() as connection:
        connection.execute(sa.delete(site_texts).where(site_texts.c.name == NOTICE))
        if plain:
            connection.execute(sa.insert(site_texts), {"name": NOTICE, "text": plain})

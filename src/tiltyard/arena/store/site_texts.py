"""What an arena's site stores outside the log: the notice it shows, and its secret.

Nothing here is evidence, and no rating is computed from it. Read a text by its name, never the table as a whole.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from tiltyard.arena.store.tables import site_texts
from tiltyard.errors import OptionError

if TYPE_CHECKING:
    from tiltyard.arena.store import Store

NOTICE = "notice"
SECRET = "secret"  # noqa: S105 - the name of a row
LONGEST = 500


def notice(store: Store) -> str:
    """The sentence that the site shows on every page; '' if there is none."""
    with store.database.read() as connection:
        return _text(connection, NOTICE)


def set_notice(store: Store, text: str) -> None:
    """Show this sentence on every page from the next start of the site on; an empty one takes the notice away."""
    plain = " ".join(text.replace("\0", " ").split())
    if len(plain) > LONGEST:
        raise OptionError(f"the notice has {len(plain)} characters; a page has room for {LONGEST}. Shorten it.")
    with store.database.write() as connection:
        connection.execute(sa.delete(site_texts).where(site_texts.c.name == NOTICE))
        if plain:
            connection.execute(sa.insert(site_texts), {"name": NOTICE, "text": plain})


def secret(store: Store) -> str:
    """The random secret of a site that was given none: created once, then the same for every start, worker and host."""
    with store.database.read() as connection:
        found = _text(connection, SECRET)
    if found:
        return found
    dialect = sqlite if store.database.is_sqlite else postgresql
    row = {"name": SECRET, "text": secrets.token_urlsafe(32)}
    with store.database.write() as connection:
        connection.execute(dialect.insert(site_texts).values(row).on_conflict_do_nothing(index_elements=["name"]))
        return _text(connection, SECRET)


def _text(connection: sa.Connection, name: str) -> str:
    return str(connection.execute(sa.select(site_texts.c.text).where(site_texts.c.name == name)).scalar() or "")

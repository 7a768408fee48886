"""What an arena's site stores outside the log: the texts of its operator, its secret, and what was screened last.

Nothing here is evidence, and no rating is computed from it. Read a text by its name, never the table as a whole.
"""

from __future__ import annotations

import secrets
from typing import Literal

from tiltyard.arena.store import Store
from tiltyard.arena.store.database import Connection
from tiltyard.errors import OptionError

Shown = Literal["notice", "consent", "privacy"]
"""What an operator may say: on every page, beside the start button, and on the privacy page."""

SCREENED = "screened"
SECRET = "secret"  # noqa: S105 - the name of a row
LONGEST: dict[Shown, int] = {"notice": 500, "consent": 500, "privacy": 10_000}


def site_text(store: Store, name: Shown) -> str:
    """The text that the site shows under this name; '' if there is none."""
    with store.database.read() as connection:
        return _text(connection, name)


def set_site_text(store: Store, name: Shown, text: str) -> None:
    """Show this text from the next start of the site on; an empty one takes it away. Empty lines part paragraphs."""
    parts = (" ".join(part.split()) for part in text.replace("\0", " ").split("\n\n"))
    plain = ("\n\n" if name == "privacy" else " ").join(part for part in parts if part)
    if len(plain) > LONGEST[name]:
        raise OptionError(
            f"the {name} text has {len(plain)} characters; there is room for {LONGEST[name]}. Shorten it."
        )
    with store.database.write() as connection:
        connection.execute("DELETE FROM site_texts WHERE name = ?", name)
        if plain:
            connection.execute("INSERT INTO site_texts VALUES (?, ?)", name, plain)


def screened(store: Store) -> str:
    """What the answers were last screened as, for whether they name their authors; '' if never."""
    with store.database.read() as connection:
        return _text(connection, SCREENED)


def set_screened(store: Store, digest: str) -> None:
    """Remember a digest of the models and answers that were screened; of two at once, either."""
    with store.database.write() as connection:
        connection.execute(
            "INSERT INTO site_texts VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET text = excluded.text",
            SCREENED,
            digest,
        )


def secret(store: Store) -> str:
    """The random secret of a site that was given none: created once, then the same for every start, worker and host."""
    with store.database.read() as connection:
        result = _text(connection, SECRET)
    if result:
        return result
    with store.database.write() as connection:
        row = (SECRET, secrets.token_urlsafe(32))
        connection.insert("site_texts", ("name", "text"), [row], or_ignore=True)
        return _text(connection, SECRET)


def _text(connection: Connection, name: str) -> str:
    return str(connection.value("SELECT text FROM site_texts WHERE name = ?", name) or "")

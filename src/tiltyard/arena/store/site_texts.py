"""What an arena's site stores outside the log: the texts of its operator, and what was screened last.

Nothing here is evidence, and no rating is computed from it. Read a text by its name, never the table as a whole.
"""

from __future__ import annotations

import hashlib
from datetime import date
from typing import Literal

from tiltyard.arena.store.forgetting import TABLES, drop_networks
from tiltyard.arena.store.store import Store
from tiltyard.errors import OptionError

Shown = Literal["notice", "consent", "privacy"]
"""What an operator may say: on every page, beside the start button, and on the privacy page."""

MADE_UNDER: Literal["networks"] = "networks"
"""The row that says under which secret networks were hashed last: 16 bits of its hash, too few to find it by."""

LONGEST: dict[Shown, int] = {"notice": 500, "consent": 500, "privacy": 10_000}


def site_text(store: Store, name: Shown | Literal["screened", "networks"]) -> str:
    """The text under this name; '' if there is none. `screened` is what the answers were screened as last."""
    with store.database.read() as connection:
        return str(connection.value("SELECT text FROM site_texts WHERE name = ?", name) or "")


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


def set_screened(store: Store, digest: str) -> None:
    """Remember a digest of the models and answers that were screened; of two at once, either."""
    with store.database.write() as connection:
        connection.execute(
            "INSERT INTO site_texts VALUES ('screened', ?) ON CONFLICT (name) DO UPDATE SET text = excluded.text",
            digest,
        )


def site_secrets(store: Store, given: str, today: date) -> str:
    """The secret of a site and, after commas, those that it still takes: as given, else of the key file.

    The key file is made if there is none. If the secret is another one than last time, what was made of networks under
    the old one is dropped.
    """
    before = site_text(store, MADE_UNDER)
    if not given and not store.outside.key_path.exists():
        store.outside.make_secret()
    result = given or store.outside.secrets(today)
    mark = hashlib.sha256(f"networks\n{result.partition(',')[0]}".encode("utf-8", "surrogateescape")).hexdigest()[:4]
    if mark != before:
        with store.database.write(lock=True) as connection:
            connection.execute("DELETE FROM site_texts WHERE name = ?", MADE_UNDER)
            connection.execute("INSERT INTO site_texts VALUES (?, ?)", MADE_UNDER, mark)
            if before:
                drop_networks(connection)
        store.database.purge_deleted(*TABLES)
    return result

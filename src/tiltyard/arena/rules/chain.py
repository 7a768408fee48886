"""The hashes of an arena: of its log, of the public rows that follow from it, and of texts that are kept elsewhere.

The log's own chain covers everything and stays in the database, because times and answers can be guessed from it. Heads
that people keep are of the chain over the public rows (`public_rows`), which has nothing to hide (decision 2).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Final

FIRST_HASH: Final = "0" * 64


def link_events(previous: str, times: Iterable[int], texts: Iterable[str]) -> list[str]:
    """The hashes of events, each over the one before: its 64 letters, the time, and the text, with spaces between."""
    links, sha256 = list[str](), hashlib.sha256
    for at, text in zip(times, texts, strict=True):
        previous = sha256(f"{previous} {at} {text}".encode()).hexdigest()
        links.append(previous)
    return links


def link_line(previous: str, line: bytes) -> str:
    """The hash of a public row: over the 64 letters of the one before and the 64 letters of the line's own hash."""
    return hashlib.sha256(f"{previous}{hashlib.sha256(line).hexdigest()}".encode()).hexdigest()


def salted_digest(salt: str, text: str) -> str:
    """What is kept of a text that may have to go: without the salt, which goes with it, it says nothing."""
    return hashlib.sha256(f"{salt}\n{text}".encode()).hexdigest()

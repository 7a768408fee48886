"""The hash chain over the log, in its two versions.

Version 1 hashes an event's text as it is: whoever checks a link must be given the whole text. Version 2 hashes a leaf
instead, so that a link can be checked without the event behind it (decision 0029):

- `rest` = H(second half of the salt, exact time, the private part of the text);
- `leaf` = H(first half of the salt, rest, the public part of the text);
- `link` = H(link before, number, hour, leaf).

With the leaf alone nothing can be guessed: the salt is random, and known only to the database. Half of the salt, the
public part and `rest` prove an event without its exact time and without what stays private of it: which answers were
shown, the seed of the choice, and times to the microsecond.

A log that began with version 1 changes once, by the event `chain_upgraded`. It carries the last version-1 hash and the
link that version 2 has over all events before, so that these too can be proved without their texts.
"""

from __future__ import annotations

import base64
import hashlib
import os
from typing import Final, Literal, NamedTuple

Version = Literal[1, 2]

FIRST_HASH: Final = "0" * 64
HOUR: Final = 3_600_000_000
"""An hour in microseconds: how exactly the chain states times openly."""

SALT_BYTES: Final = 33
SALT_LENGTH: Final = SALT_BYTES * 4 // 3
"""Letters of a salt: two halves of 132 random bits each."""

_PRIVATE: Final = {
    "matchup_served": (',"response_a":', ',"expires_at":'),
    "voted": (',"undo_until":', ',"undo_until":'),
}
"""What stays private of an event that is public: everything from one field to another, whose value is a number. A
quotation mark after a comma is never inside a JSON string, where it is escaped, so these are fields and not something
that a text says."""

_KIND_FROM = len('{"kind":"')


class Leaf(NamedTuple):
    """The parts from which the leaf of an event follows: half a salt, the hash of the rest, and the public text."""

    salt: str
    rest: str
    public: str

    def hash(self) -> str:
        """The leaf."""
        return _sha256(f"tiltyard leaf 2\n{self.salt}\n{self.rest}\n{self.public}")


def chain_hash(previous: str, seq: int, at: int, text: str) -> str:
    """The link of version 1: over the one before, the number, the time, and every byte of text."""
    return _sha256(f"{previous}\n{seq}\n{at}\n{text}")


def leaf_of(at: int, text: str, salt: str) -> Leaf:
    """The parts of an event's leaf."""
    public, private = split(text)
    half = len(salt) // 2
    return Leaf(salt[:half], _sha256(f"tiltyard rest 2\n{salt[half:]}\n{at}\n{private}"), public)


def link(previous: str, seq: int, hour: int, leaf: str) -> str:
    """The link of version 2; `hour` is a number of whole hours since 1970."""
    return _sha256(f"tiltyard link 2\n{previous}\n{seq}\n{hour}\n{leaf}")


def link_event(previous: str, seq: int, at: int, text: str, salt: str) -> str:
    """The link of version 2 of an event that is known."""
    return link(previous, seq, at // HOUR, leaf_of(at, text, salt).hash())


def split(text: str) -> tuple[str, str]:
    """The public and the private part of an event's text. The public part is JSON again, without the private fields."""
    fields = _PRIVATE.get(text[_KIND_FROM : text.find('"', _KIND_FROM)])
    if fields is None or (start := text.find(fields[0])) < 0 or (last := text.find(fields[1], start)) < 0:
        return text, ""
    value = last + len(fields[1])
    end = text.find(",", value)
    if end < 0:
        end = text.find("}", value)
    return text[:start] + text[end:], text[start:end]


def new_salts(count: int) -> list[str]:
    """Random salts for so many events."""
    letters = base64.urlsafe_b64encode(os.urandom(SALT_BYTES * count)).decode()
    return [letters[start : start + SALT_LENGTH] for start in range(0, len(letters), SALT_LENGTH)]


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()

"""The hash chain over the log: each link can be checked without the event behind it (decision 2).

- `rest` = H(second half of the salt, exact time, the private part of the text);
- `leaf` = H(first half of the salt, rest, the public part of the text);
- `link` = H(link before, number, hour, label, leaf).

With the leaf alone nothing can be guessed: the salt is random, and known only to the database. Half of the salt, the
public part and `rest` prove an event without its exact time and without what stays private of it: which answers were
shown, the seed of the choice, and times to the microsecond.

The label is open in every link: the kind of the event, and the matchup that it is about. So a vote cannot be passed off
as something else. Kinds on which no board depends (answers, flags, reasons) share one label: a voter who was flagged is
not told so.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterable
from itertools import count
from typing import Final, NamedTuple

import msgspec

from tiltyard.arena.units import HOUR

FIRST_HASH: Final = "0" * 64

SALT_BYTES: Final = 33
SALT_LENGTH: Final = SALT_BYTES * 4 // 3
"""Letters of a salt: two halves of 132 random bits each."""

_PRIVATE: Final = {
    "matchup_served": (',"response_a":', ',"expires_at":'),
    "voted": (',"undo_until":', ',"undo_until":'),
    "explained": (',"comment":', ',"comment":'),
}
"""What stays private of an event that is public: everything from one field to another, whose value is a number
or a digest. A quotation mark after a comma is never inside a JSON string, where it is escaped, so these are fields and
not something that a text says."""

OF_MATCHUPS: Final = frozenset({"matchup_served", "voted", "revealed", "skipped", "expired", "undone"})
"""The kinds whose label has the id of a matchup."""

LABELLED: Final = OF_MATCHUPS | {
    *("settings_changed", "phase_changed", "review_set", "model_added", "model_enabled", "model_disabled"),
    *("prompt_added", "prompt_enabled", "prompt_disabled", "prompt_reserved"),
    *("excluded", "restored"),
}
"""The kinds that are named in a label: all on which a board depends, and the prompts."""

OTHER: Final = "other"
"""The label of every other kind."""

_KIND_FROM: Final = len('{"kind":"')
_ID_AFTER: Final = '","matchup_id":"'


class Label(NamedTuple):
    """What is open about an event: its kind, or `other`; and the matchup that it is about, or nothing."""

    kind: str
    matchup_id: str = ""


_OTHER: Final = Label(OTHER)


class Leaf(NamedTuple):
    """The parts from which the leaf of an event follows: half a salt, the hash of the rest, and the public text."""

    salt: str
    rest: str
    public: str

    def hash(self) -> str:
        """The leaf."""
        return _sha256(f"tiltyard leaf 2\n{self.salt}\n{self.rest}\n{self.public}")


def leaf_of(at: int, text: str, salt: str) -> Leaf:
    """The parts of an event's leaf."""
    public, private = split(text)
    half = len(salt) // 2
    return Leaf(salt[:half], _sha256(f"tiltyard rest 2\n{salt[half:]}\n{at}\n{private}"), public)


def label_of(text: str) -> Label:
    """The label of an event, from its text or the public part of it."""
    end = text.find('"', _KIND_FROM)
    kind = text[_KIND_FROM:end]
    if kind not in LABELLED:
        return _OTHER
    if kind not in OF_MATCHUPS:
        return Label(kind)
    start = end + len(_ID_AFTER)
    name = text[start : text.find('"', start)]
    if not text.startswith(_ID_AFTER, end) or "\\" in name:  # never so in what this program wrote
        name = str(msgspec.json.decode(text)["matchup_id"])
    return Label(kind, name)


def link(previous: str, seq: int, hour: int, label: Label, leaf: str) -> str:
    """The link over the one before; `hour` is a number of whole hours since 1970."""
    return _sha256(f"tiltyard link 2\n{previous}\n{seq}\n{hour}\n{label.kind}\n{label.matchup_id}\n{leaf}")


def link_event(previous: str, seq: int, at: int, text: str, salt: str) -> str:
    """The link of an event that is known."""
    return link(previous, seq, at // HOUR, label_of(text), leaf_of(at, text, salt).hash())


_SERVED: Final = '{"kind":"matchup_served","matchup_id":"'
_UNDO_UNTIL: Final = _PRIVATE["voted"][0]
_VOTED: Final = '{"kind":"voted","matchup_id":"'
_rest, _leaf, _link = (hashlib.sha256(f"tiltyard {name} 2\n".encode()) for name in ("rest", "leaf", "link"))


def link_events(previous: str, seq: int, times: Iterable[int], texts: Iterable[str], salts: Iterable[str]) -> list[str]:
    """The links of many events, which follow number `seq`, whose link is `previous`.

    The same as `link_event`, in half the time: matchups served and votes, of which long logs consist, are taken apart
    here, and a copy of a hash that was begun is cheaper than a new one.
    """
    links = list[str]()
    begin_rest, begin_leaf, begin_link = _rest.copy, _leaf.copy, _link.copy
    for place, at, text, salt in zip(count(seq + 1), times, texts, salts, strict=False):
        if text.startswith(_SERVED):
            kind, start = "matchup_served", 39
        elif text.startswith(_VOTED):
            kind, start = "voted", 30
        else:
            previous = link_event(previous, place, at, text, salt)
            links.append(previous)
            continue
        name = text[start : text.find('"', start)]
        if "\\" in name:
            kind, name = label_of(text)
        public, private = split(text) if kind != "voted" or _UNDO_UNTIL in text else (text, "")
        half = len(salt) // 2
        rest, leaf, link = begin_rest(), begin_leaf(), begin_link()
        rest.update(f"{salt[half:]}\n{at}\n{private}".encode())
        leaf.update(f"{salt[:half]}\n{rest.hexdigest()}\n{public}".encode())
        link.update(f"{previous}\n{place}\n{at // HOUR}\n{kind}\n{name}\n{leaf.hexdigest()}".encode())
        previous = link.hexdigest()
        links.append(previous)
    return links


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

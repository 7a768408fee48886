"""Seals: what was verified once need not be verified every time.

A log is cut into segments, at the end of every month and after so many events. A seal has the head and the whole state
at the end of a segment. `verify` starts from the last one, and what it then proves is: the log since the seal is
chained to the sealed head, and the arena is what follows from the sealed state and the events since. Whatever changed
before the seal without changing the head's hash is found only by verifying everything.

Seals are files, for a folder that whoever can write to the database cannot write to: a seal in the database would prove
nothing. Each names the digest of the one before, so that none can be left out or exchanged.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from tiltyard.arena.events import Event
from tiltyard.arena.state import ArenaState
from tiltyard.arena.store.comparing import Finder
from tiltyard.arena.store.state_bytes import encode_state, is_of_another_version
from tiltyard.errors import ArenaError
from tiltyard.files import write_bytes

KIND: Final = "tiltyard arena seal 1"

SEGMENT_EVENTS = 1_000_000
"""A segment has at most this many events."""


class Seal(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a segment: the number and hash of its last event, and the state after it."""

    kind: str = KIND
    seq: int
    hash: str
    latest: int
    """The latest time of any event so far, in microseconds since 1970."""
    votes: int
    """How many votes counted."""
    state: str
    """The state in base64, as checkpoints have it."""
    previous: str
    """The digest of the seal before; empty for the first."""
    digest: str = ""
    """SHA-256 of all of this with an empty digest."""

    @property
    def name(self) -> str:
        """The name of its file."""
        return f"seal-{self.seq:012d}.json"

    def state_bytes(self) -> bytes:
        """The state."""
        return base64.b64decode(self.state)

    def computed_digest(self) -> str:
        """What the digest should be."""
        return hashlib.sha256(_encoder.encode(msgspec.structs.replace(self, digest=""))).hexdigest()


_encoder = msgspec.json.Encoder(order="deterministic")
_decoder = msgspec.json.Decoder(Seal)


class Seals:
    """The seals of one log in a folder, and those that a verification adds.

    Parameters:
        folder: Where they are; it need not exist yet.
        full: Verify everything: seals are then compared with the log, not relied on.
        segment_events: How many events a segment has at most; the same for every run over one folder.
    """

    def __init__(self, folder: Path, *, full: bool = False, segment_events: int = SEGMENT_EVENTS) -> None:
        self._folder = folder
        self._segment = segment_events
        self.kept = read_seals(folder)
        """Those that are there, by number."""
        usable = [seal for seal in self.kept if not is_of_another_version(seal.state_bytes())]
        self.last = usable[-1] if usable and not full else None
        """The one to start from; None: the beginning."""
        self._made: list[Seal] = []

    def cuts(self, state: ArenaState, events: Sequence[Event]) -> list[int]:
        """After how many of the next events segments end."""
        if not events:
            return []
        times = np.array([state.latest, *(event.at for event in events)], dtype=np.int64)
        months = np.maximum.accumulate(times).astype("datetime64[us]").astype("datetime64[M]").astype(np.int64)
        begun = np.flatnonzero(np.diff(months) > 0)
        full = np.arange(self._segment - state.seq % self._segment, len(events) + 1, self._segment)
        last = 0 if self.last is None else self.last.seq
        # Before the first event with a time there is no month to end.
        ended = [place for place in begun.tolist() if times[: place + 1].max() > 0 and state.seq + place > last]
        return sorted({*ended, *full.tolist()})

    def note(self, state: ArenaState, hash_: str, finder: Finder) -> None:
        """A segment ends here: seal it, or compare it with its seal."""
        there = next((seal for seal in self.kept if seal.seq == state.seq), None)
        votes = int(state.tallies.rated.sum() + state.tallies.both_bad.view.sum()) // 2
        frozen = base64.b64encode(encode_state(state)).decode()
        made = Seal(seq=state.seq, hash=hash_, latest=state.latest, votes=votes, state=frozen, previous="")
        if there is None:
            self._made.append(made)
            return
        of_another_version = is_of_another_version(there.state_bytes())
        names = [
            name
            for name in ("hash", "latest", "votes", "state")
            if getattr(there, name) != getattr(made, name) and not (name == "state" and of_another_version)
        ]
        if names:
            finder.find("seals", there.name, f"{', '.join(names)} differ from what the log says")
        elif of_another_version:
            self._made.append(made)

    def write(self) -> list[Seal]:
        """Write the new seals, and say which they are. Only for a log in which nothing is wrong."""
        new = {seal.seq: seal for seal in self._made}
        whole = sorted({seal.seq: seal for seal in self.kept} | new)
        seals = {seal.seq: seal for seal in self.kept} | new
        before, written = "", []
        for seq in whole:
            seal = msgspec.structs.replace(seals[seq], previous=before, digest="")
            seal = msgspec.structs.replace(seal, digest=seal.computed_digest())
            before = seal.digest
            if seal != seals[seq]:
                write_bytes(self._folder / seal.name, _encoder.encode(seal) + b"\n")
                written += [seal] if seq in new else []
        return written


def read_seals(folder: Path) -> list[Seal]:
    """The seals of a folder by number. One that was changed, or does not follow the one before, is refused."""
    seals: list[Seal] = []
    for path in sorted(folder.glob("seal-*.json")):
        try:
            seal = _decoder.decode(path.read_bytes())
        except msgspec.DecodeError as error:
            raise ArenaError(f"{path}: this is not a seal ({error}). {_ADVICE}") from error
        if seal.kind != KIND or seal.computed_digest() != seal.digest or path.name != seal.name:
            raise ArenaError(f"{path}: the seal was changed, or is of another version. {_ADVICE}")
        if seal.previous != (seals[-1].digest if seals else ""):
            raise ArenaError(f"{path}: a seal before this one was changed or is missing. {_ADVICE}")
        seals.append(seal)
    return seals


_ADVICE = "Restore the folder from a copy, or verify everything with an empty folder."

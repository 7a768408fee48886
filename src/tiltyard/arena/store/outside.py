"""What an arena keeps outside its database, so that no copy of it has it: its secret, and hashes of what was deleted.

Both are files of this host in `$XDG_STATE_HOME/tiltyard`, for their owner alone, and named by the random id of the
arena, which its copies share: so a restored copy finds what was deleted since it was made.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import secrets
from contextlib import suppress
from datetime import date, timedelta
from pathlib import Path

from tiltyard.errors import StoreError
from tiltyard.files import sync_to_disk, write_private

OLD_SECRET_DAYS = 30
"""For how many days cookies signed with a secret before are taken, and signed anew."""

KEY_FILE = re.compile(r"[\w-]{43}(?:\n[\w-]{43} [0-9-]{10})*\n?", re.ASCII)
"""The secret; below it, for a while, those before it and their last days, the latest first."""

ALL = "all"
"""In the file of deletions: every visitor in a database that does not know of this."""

TEXT = "text"
"""In the file of deletions: a text, by its salted digest as it is in the log."""

_DELETED = rf"(?:(?:voter|invitation|{TEXT}) [0-9a-f]{{64}}|{ALL} [0-9]{{1,18}})"
DELETION = re.compile(rf"(?:{_DELETED}(?: {_DELETED})*\.)?")
"""A line is one deletion, all that goes with it, up to a full stop: without it the line was cut off. Or it is empty."""


class Outside:
    """The two files of one arena on this host."""

    def __init__(self, arena: str) -> None:
        self.arena = arena
        named = Path(os.environ.get("XDG_STATE_HOME", ""))
        home = os.path.expanduser("~/.local/state")  # noqa: PTH111 - who has no home is told once the folder is needed
        self.folder = (named if named.is_absolute() else Path(home)) / "tiltyard"
        self.key_path = self.folder / f"{arena}.key"
        self.deletions_path = self.folder / f"{arena}.forgotten"

    # --- The secret ---

    def secrets(self, today: date) -> str:
        """The secret of the key file and, after commas, those before it that are still taken; '' without a file."""
        return ",".join(line[:43] for line in self._key_lines(today))

    def _key_lines(self, today: date) -> list[str]:
        try:
            text = self.key_path.read_text("ascii")
        except FileNotFoundError:
            return []
        except (OSError, UnicodeDecodeError) as error:
            raise StoreError(f"cannot read the key file {self.key_path}: {error}. Restore or remove it.") from None
        if not KEY_FILE.fullmatch(text):
            raise StoreError(
                f"the key file {self.key_path} is empty or damaged. Restore it, or remove it: then every visitor "
                "starts anew."
            )
        now, *before = text.splitlines()
        return [now, *(line for line in before if today.isoformat() <= line[44:])]

    def about_secret(self) -> str:
        """Where the secret is that signs cookies, for whoever starts a site; without a file it is about to be made."""
        where = f"the secret that signs cookies is in {self.key_path}: leave it out of backups"
        new = "It is new, since there was no such file: whoever has a cookie of before starts anew."
        return where if self.key_path.exists() else f"{where}. {new}"

    def make_secret(self) -> None:
        """Make the key file with a random secret; of two at once, either."""
        self.check_folder()
        part = self.key_path.with_name(f"{self.arena}.{secrets.token_hex(6)}.part")
        try:
            write_private(part, f"{secrets.token_urlsafe(32)}\n".encode())
            with suppress(FileExistsError):
                os.link(part, self.key_path)
        finally:
            part.unlink(missing_ok=True)

    def change_secret(self, today: date) -> date:
        (now, *before), until = self._key_lines(today), today + timedelta(OLD_SECRET_DAYS)
        lines = (secrets.token_urlsafe(32), f"{now} {until}", *before, "")
        write_private(self.key_path, "\n".join(lines).encode())
        return until

    # --- What was deleted: kinds and hashes, a line for each deletion ---

    def note_deleted(self, *deleted: tuple[str, str]) -> None:
        """Keep hashes of what is deleted, by kind and name; they are on the disk before it is."""
        line = " ".join(f"{kind} {name if kind in (ALL, TEXT) else deletion(kind, name)}" for kind, name in deleted)
        if not line:
            return
        self.check_folder()
        try:
            with os.fdopen(os.open(self.deletions_path, os.O_RDWR | os.O_CREAT, 0o600), "rb+") as file:
                fcntl.flock(file, fcntl.LOCK_EX)  # the system releases it when the file is closed
                last = file.read().rpartition(b"\n")[2]
                if last and DELETION.fullmatch(last.decode("ascii", "replace")):
                    line = f"\n{line}"
                else:  # what a full disk or a kill cut off
                    file.truncate(file.seek(-len(last), os.SEEK_END))
                file.write(f"{line}.\n".encode())
                file.flush()
                os.fsync(file.fileno())
            sync_to_disk(self.folder)
        except OSError as error:
            raise StoreError(f"cannot write {self.deletions_path}: {error.strerror}. Nothing was deleted.") from None

    def deletions(self) -> tuple[set[str], int]:
        """All hashes, and when everybody was forgotten last, in microseconds; a `StoreError` at any other line.

        What was cut off at the end, when a disk was full or a process killed, says nothing: nothing was deleted.
        """
        try:
            text = self.deletions_path.read_text("ascii")
        except (FileNotFoundError, NotADirectoryError):
            return set(), 0
        except (OSError, UnicodeDecodeError) as error:
            raise StoreError(f"cannot read the deletions in {self.deletions_path}: {error}. Restore it.") from None
        *lines, last = text.split("\n")
        for number, line in enumerate(lines, start=1):
            if not DELETION.fullmatch(line):
                raise StoreError(
                    f"line {number} of the deletions in {self.deletions_path} is malformed: {line[:80]!r}. Restore it."
                )
        words = "".join([*lines, last] if DELETION.fullmatch(last) else lines).replace(".", " ").split()
        pairs = list(zip(words[::2], words[1::2], strict=True))
        until = max((int(at) for kind, at in pairs if kind == ALL), default=0)
        return {name for kind, name in pairs if kind != ALL}, until

    def check_folder(self) -> None:
        """Make the folder; a `StoreError` if nothing can be written there."""
        with suppress(OSError):
            if self.folder.is_absolute():  # a user may have no home
                self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                if os.access(self.folder, os.W_OK | os.X_OK):
                    return
        raise StoreError(
            f"cannot write to {self.folder}, where the secret and what was deleted are kept apart from the database. "
            "Let XDG_STATE_HOME name a folder that stays."
        )


def deletion(kind: str, name: str) -> str:
    """The hash that says that something of this kind and name was deleted."""
    return hashlib.sha256(f"{kind}\n{name}".encode("utf-8", "surrogatepass")).hexdigest()

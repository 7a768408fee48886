"""What an arena keeps outside its database, so that no copy of it has it: its secret, and hashes of what was deleted.

Both are files of this host in `$XDG_STATE_HOME/tiltyard`, for their owner alone, and named by the random id of the
arena, which its copies share: so a restored copy finds what was deleted since it was made.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from collections.abc import Iterable
from datetime import date, timedelta
from pathlib import Path

from tiltyard.errors import StoreError
from tiltyard.files import append_bytes, write_private

OLD_SECRET_DAYS = 30
"""For how many days cookies signed with a secret before are taken, and signed anew."""

KEY_FILE = re.compile(r"[\w-]{43}(?:\n[\w-]{43} [0-9-]{10})*\n?", re.ASCII)
"""The secret; below it, for a while, those before it and their last days, the latest first."""

ALL = "all"
"""Of a line of deletions: every visitor in a database that does not know of this line."""

TEXT = "text"
"""Of a line of deletions: a text, by its salted digest as it is in the log."""

DELETION = re.compile(rf"(?:(?:voter|invitation|{TEXT}) (?P<hash>[0-9a-f]{{64}})|{ALL} (?P<until>[0-9]{{1,18}}))?")
"""A line of deletions; an empty one says nothing."""


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
            os.link(part, self.key_path)
        except FileExistsError:
            pass
        finally:
            part.unlink(missing_ok=True)

    def change_secret(self, today: date) -> date:
        (now, *before), until = self._key_lines(today), today + timedelta(OLD_SECRET_DAYS)
        lines = (secrets.token_urlsafe(32), f"{now} {until}", *before, "")
        write_private(self.key_path, "\n".join(lines).encode())
        return until

    # --- What was deleted: a kind and a hash on each line ---

    def note_deleted(self, kind: str, names: Iterable[str]) -> None:
        """Keep hashes of what is deleted; they are on the disk before it is."""
        lines = [f"{kind} {name if kind in (ALL, TEXT) else deletion(kind, name)}\n" for name in names]
        if not lines:
            return
        self.check_folder()
        try:
            self.deletions_path.touch(0o600)
            if self.deletions_path.read_bytes()[-1:] not in (b"", b"\n"):
                lines.insert(0, "\n")
            append_bytes(self.deletions_path, "".join(lines).encode())
        except OSError as error:
            raise StoreError(f"cannot write {self.deletions_path}: {error.strerror}. Nothing was deleted.") from None

    def deletions(self) -> tuple[set[str], int]:
        """All hashes, and when everybody was forgotten last, in microseconds; a `StoreError` at any other line."""
        try:
            text = self.deletions_path.read_text("ascii")
        except (FileNotFoundError, NotADirectoryError):
            return set(), 0
        except (OSError, UnicodeDecodeError) as error:
            raise StoreError(f"cannot read the deletions in {self.deletions_path}: {error}. Restore it.") from None
        hashes, everybody = set[str](), 0
        for number, line in enumerate(text.split("\n"), start=1):
            found = DELETION.fullmatch(line)
            if found is None:
                raise StoreError(
                    f"line {number} of the deletions in {self.deletions_path} is malformed: {line[:80]!r}. Restore "
                    "the file; if the line was cut off when it was written, delete it, and repeat that deletion."
                )
            if found["hash"]:
                hashes.add(found["hash"])
            everybody = max(everybody, int(found["until"] or 0))
        return hashes, everybody

    def check_folder(self) -> None:
        """Make the folder; a `StoreError` if nothing can be written there."""
        writable = self.folder.is_absolute()  # a user may have no home
        try:
            if writable:
                self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                writable = os.access(self.folder, os.W_OK | os.X_OK)
        except OSError:
            writable = False
        if not writable:
            raise StoreError(
                f"cannot write to {self.folder}, where the secret and what was deleted are kept apart from the "
                "database. Let XDG_STATE_HOME name a folder that stays."
            )


def deletion(kind: str, name: str) -> str:
    """The hash that says that something of this kind and name was deleted."""
    return hashlib.sha256(f"{kind}\n{name}".encode("utf-8", "surrogatepass")).hexdigest()

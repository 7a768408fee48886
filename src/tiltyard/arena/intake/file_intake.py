"""Files of an import: checked against the policy's limits, cleaned, and kept in a temporary folder until written."""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections.abc import Iterable
from html import unescape
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from tiltyard.arena.intake.media.cleaning import clean
from tiltyard.arena.rules.policy import MediaRules
from tiltyard.arena.store.files import CleanFile, StoredFile, stored_files
from tiltyard.arena.store.store import Store
from tiltyard.data.bank import AnswerKind, Response, answer_path
from tiltyard.errors import BankError
from tiltyard.files import write_bytes

WITH_WORDS = (AnswerKind.SVG, AnswerKind.HTML)

_TAG = re.compile(r"<[^<>]*>")
_INVISIBLE = re.compile("[\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]")
_CSS_LETTER = re.compile(r"\\([0-9a-fA-F]{1,6})\s?")


class TakenFile(NamedTuple):
    """A cleaned file: its name in the store, its size, and the words in it."""

    sha256: str
    size: int
    words: str


class FileIntake:
    """Cleans the files of an import, each once; those that the arena has already are recognised by their source."""

    def __init__(self, rules: MediaRules, store: Store) -> None:
        self._rules = rules
        self._folder = tempfile.TemporaryDirectory(prefix="tiltyard-files-")
        self.answers: dict[str, StoredFile] = {}
        """The answers of the arena that are files, by id."""
        self._sources: dict[str, StoredFile] = {}
        self._there: dict[str, int] = {}
        for file, source in stored_files(store):
            self.answers[file.response_id] = file
            self._there[file.sha256] = file.size
            if source and file.kind not in WITH_WORDS:
                self._sources[source] = file
        self._new: dict[str, tuple[str, str]] = {}
        self.new_bytes = 0

    @property
    def total(self) -> int:
        """The bytes of all files, the new ones included."""
        return sum(self._there.values()) + self.new_bytes

    def take(self, folder: Path, response: Response) -> TakenFile:
        path = answer_path(folder, response)
        kind = response.answer_kind
        where = f"the answer of {response.entrant_id!r} to {response.prompt_id!r}: {response.file}"
        try:
            self._check(path.stat().st_size, kind, where)
            data = path.read_bytes()
        except OSError as error:
            raise BankError(f"{where} cannot be read: {error.strerror}. Check the file.") from None
        return self.take_bytes(data, kind, where)

    def take_bytes(self, data: bytes, kind: AnswerKind, where: str) -> TakenFile:
        self._check(len(data), kind, where)
        source = hashlib.sha256(data).hexdigest()
        known = self._sources.get(source)
        if known is not None and known.kind == kind:
            return TakenFile(known.sha256, known.size, "")
        try:
            made = clean(kind, data)
        except BankError as error:
            raise BankError(f"{where} {error}") from None
        self._check(len(made.content), kind, f"{where} (cleaned)")
        name = hashlib.sha256(made.content).hexdigest()
        if name not in self._there and name not in self._new:
            self._new[name] = (made.media_type, source)
            self.new_bytes += len(made.content)
            most = self._rules.most_bytes("total")
            if self.total > most:
                raise BankError(
                    f"{where} would bring the arena's files to {self.total / 1e6:,.1f} MB of {most / 1e6:,.0f}. Import "
                    "less, or raise the policy's media.total."
                )
            write_bytes(Path(self._folder.name) / name, made.content)
        return TakenFile(name, len(made.content), words_of(made.words))

    def load(self, names: Iterable[str]) -> list[CleanFile]:
        return [
            CleanFile(
                content=(Path(self._folder.name) / name).read_bytes(),
                media_type=self._new[name][0],
                source=self._new[name][1],
            )
            for name in dict.fromkeys(names)
            if name in self._new
        ]

    def close(self) -> None:
        self._folder.cleanup()

    def _check(self, size: int, kind: AnswerKind, where: str) -> None:
        most = self._rules.most_bytes(kind)
        if size > most:
            raise BankError(
                f"{where} has {size / 1e6:,.1f} MB, and {kind} answers may have {most / 1e6:,.1f}. Make it smaller, or "
                f"raise the policy's media.{kind}."
            )


def words_of(markup: str) -> str:
    """What a page or a drawing says: as it is written, and without tags, codes and invisible letters."""
    if not markup:
        return ""
    plain = _INVISIBLE.sub("", unescape(unquote(markup)))
    spelled = _CSS_LETTER.sub(lambda match: chr(min(int(match[1], 16), 0x10FFFF)), plain)
    return "\n".join((markup, plain, spelled, _TAG.sub(" ", plain), _TAG.sub("", plain)))

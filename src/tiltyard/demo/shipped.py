"""The demo's material: the files in the package, and a copy of them in a user's folder."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from tiltyard.errors import OptionError, TiltyardError
from tiltyard.files import write_bytes

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

NOTE = "recorded verdicts of a small local model: a demo, not a finding"
"""Shown on everything that the demo prints and writes."""

CONFIG = "tournament.yaml"
BANK = "bank.jsonl"
RESPONSES = "responses"
CARDS = "models.yaml"
VERDICTS = "verdicts.jsonl"
PROVENANCE = "provenance.json"


class Copied(msgspec.Struct, frozen=True):
    """The result of copying: files written, files that existed, and those of them that differ from the shipped ones."""

    folder: Path
    written: int
    kept: int
    changed: tuple[str, ...] = ()

    def line(self) -> str:
        if not self.kept:
            return f"{self.written} files copied to {self.folder}"
        sentence = f"{self.kept} files exist already and are kept"
        if self.written:
            sentence += f", {self.written} are new"
        if self.changed:
            sentence += f"; not as shipped: {', '.join(self.changed)}"
        return sentence


def copy_material(folder: Path) -> Copied:
    """Copy the material into a new or empty folder; in the folder of an earlier demo, only what is missing."""
    if folder.exists() and not folder.is_dir():
        raise OptionError(f"{folder} is a file. Choose another folder.")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / PROVENANCE).is_file():
        raise OptionError(f"{folder} holds other things. Choose a new or empty folder.")
    written, kept, changed = 0, 0, []
    for name, source in sorted(shipped()):
        target = folder / name
        if target.exists():
            kept += 1
            changed += [name] if target.read_bytes() != source.read_bytes() else []
            continue
        try:
            write_bytes(target, source.read_bytes())
        except OSError as error:
            raise TiltyardError(
                f"cannot write {target}: {error.strerror or error}. Make room, or choose another folder."
            ) from None
        written += 1
    return Copied(folder, written, kept, tuple(changed))


def shipped(folder: Traversable | None = None, prefix: str = "") -> Iterator[tuple[str, Traversable]]:
    """Every file of the material, by its path in the folder."""
    for entry in (folder or files("tiltyard.demo").joinpath("material")).iterdir():
        if entry.is_dir():
            yield from shipped(entry, f"{prefix}{entry.name}/")
        else:
            yield f"{prefix}{entry.name}", entry

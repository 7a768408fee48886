"""Filling the arena from a form: the same files as `tiltyard arena import`, as text."""

from __future__ import annotations

import copy
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from tiltyard.arena.importing import Import, plan_import, said_of_telling
from tiltyard.arena.screening import hide_self_naming
from tiltyard.arena.store.reading import prompt_texts, texts_of_answers
from tiltyard.errors import BankError
from tiltyard.files import write_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tiltyard.arena.catalog import Catalog
    from tiltyard.arena.service import Arena
    from tiltyard.arena.state import ArenaState
    from tiltyard.arena.store import Store

MOST_BYTES = 8_000_000
"""The largest form: percent-encoding makes a text up to three times as long. Use the command line for more."""

FILE_NAME = re.compile(r"[^/\\\x00-\x1f]{1,100}\Z")
"""Names of models that can be part of a file's name."""


class _Owner(msgspec.Struct, frozen=True):
    """Whose answer a line holds."""

    entrant_id: str


def catalog_of(state: ArenaState) -> Catalog:
    """A copy of the catalog, to compare an import with."""
    return copy.deepcopy(state.catalog)


def plan_of(form: Mapping[str, str], catalog: Catalog, store: Store) -> Import:
    """The events that would import the form's three fields into the arena; empty fields are left out."""
    with tempfile.TemporaryDirectory(prefix="tiltyard-import-") as name:
        folder = Path(name)
        try:
            return plan_import(
                catalog,
                prompt_texts(store),
                texts_of_answers(store),
                bank=_file(folder / "prompts.jsonl", form.get("prompts", "")),
                responses=_responses(folder / "responses", form.get("responses", "")),
                cards=_file(folder / "models.yaml", form.get("models", "")),
            )
        except Exception as error:
            # messages name the file, not the temporary folder it was in
            error.args = tuple(str(part).replace(f"{folder}/", "") for part in error.args)
            raise


def done(plan: Import, arena: Arena) -> list[str]:
    """What an import did, once its events are written; older answers are screened for the names of new models."""
    return [*plan.lines(), *said_of_telling(hide_self_naming(arena))]


def _file(path: Path, text: str) -> Path | None:
    if not text.strip():
        return None
    write_text(path, _lines(text))
    return path


def _responses(folder: Path, text: str) -> Path | None:
    """A folder with one file per `entrant_id`."""
    if not text.strip():
        return None
    folder.mkdir()
    owners: dict[str, list[str]] = {}
    for number, line in enumerate(_lines(text).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            owner = msgspec.json.decode(line, type=_Owner).entrant_id
        except msgspec.DecodeError as error:
            raise BankError(f"answers, line {number}: {error}. Write one JSON object per line.") from None
        if not FILE_NAME.match(owner):
            raise BankError(f"answers, line {number}: the entrant_id {owner[:40]!r} cannot be used. Rename the model.")
        owners.setdefault(owner, []).append(line)
    for owner, lines in owners.items():
        write_text(folder / f"responses_{owner}.jsonl", "\n".join(lines) + "\n")
    return folder


def _lines(text: str) -> str:
    """A text with plain line feeds: browsers send line breaks as two characters."""
    return text.replace("\r\n", "\n").encode("utf-8", "replace").decode()

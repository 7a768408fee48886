"""Battles to compare, and what is known of where they come from: a file, or a run folder with its manifest."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from tiltyard.battles.inputs import MANIFEST, MATCHES, run_files
from tiltyard.battles.missing_verdicts import MissingVerdicts, missing_verdicts
from tiltyard.battles.reading import BattleData, Opened
from tiltyard.errors import RunFolderError


class BattleSource(msgspec.Struct, frozen=True, eq=False):
    """Battles, and what is known about where they come from.

    Parameters:
        name: What to call them.
        battles: The battles, opened.
        folder: The run folder; None where they are no run.
        judge: The judge of a run.
        rubrics: A fingerprint of each dimension's rubric.
        bank: A fingerprint of the prompt bank.
        answers: A fingerprint of each entrant's answers.
    """

    name: str
    battles: Opened
    folder: Path | None = None
    judge: str | None = None
    rubrics: Mapping[str, str] = {}
    bank: str | None = None
    answers: Mapping[str, str] = {}

    def prompt_texts(self) -> dict[str, str]:
        """The text of every prompt of a run, by id; empty where they are not known."""
        if self.folder is None or not (self.folder / MATCHES).is_file():
            return {}
        texts: dict[str, str] = {}
        with (self.folder / MATCHES).open("rb") as file:
            for number, line in enumerate(file, start=1):
                try:
                    match = json.loads(line)
                    texts.setdefault(match["prompt_id"], match["prompt_text"])
                except (ValueError, KeyError, TypeError):
                    where = f"{self.folder / MATCHES}:{number}"
                    raise RunFolderError(
                        f"{where}: not a match of a run. Write it again with `tiltyard run`."
                    ) from None
        return texts

    def missing_verdicts(self) -> MissingVerdicts:
        """The matchups of the run, or of several, that have no verdict; none where the battles come from no run."""
        return missing_verdicts(self.battles)


def is_run_folder(path: Path) -> bool:
    """Whether a folder is that of a run with battles or verdicts."""
    return bool(run_files(path))


def open_source(data: BattleData, unnamed: str = "battles") -> BattleSource:
    """Battles from anywhere; a path to a run folder also gives its judge, rubrics, bank and answers."""
    opened = Opened.of(data)
    if len(opened.paths) == 1 and is_run_folder(Path(opened.paths[0])):
        return _run(opened, Path(opened.paths[0]))
    return BattleSource(" and ".join(Path(path).stem for path in opened.paths[:3]) or unnamed, opened)


def _run(opened: Opened, folder: Path) -> BattleSource:
    try:
        manifest = json.loads((folder / MANIFEST).read_bytes())
    except ValueError as error:
        raise RunFolderError(f"{folder / MANIFEST}: torn or not JSON ({error}).") from None
    if not isinstance(manifest, dict):
        raise RunFolderError(f"{folder / MANIFEST}: expected one JSON object.")
    hashes = _texts(manifest.get("sha256"))
    rubrics = {**_texts(manifest.get("rubric_versions")), **_texts(hashes.get("rubrics"))}
    judge, bank = manifest.get("judge_model"), hashes.get("bank")
    return BattleSource(
        folder.name or str(folder),
        opened,
        folder=folder,
        judge=None if judge is None else str(judge),
        rubrics=rubrics,
        bank=None if bank is None else str(bank),
        answers=_texts(hashes.get("responses")),
    )


def _texts(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}

"""The panel: the opponents and questions of the new model.

Saved with its fingerprint, it can be reused for another model.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from tiltyard.errors import RunFolderError
from tiltyard.placement.cells import Exchange


class PlannedBattle(msgspec.Struct, frozen=True, kw_only=True):
    """One battle to be judged. `first` says whose answer is shown first if only one order is judged.

    `sha256` is that of the prompt and the opponent's answer: the same panel means the same texts.
    """

    question_id: str
    opponent: str
    first: Literal["model", "opponent"] = "model"
    sha256: str = ""


def planned_battle(exchange: Exchange, *, model_first: bool) -> PlannedBattle:
    """The battle planned over an exchange."""
    text = f"{exchange.prompt}\0{exchange.answer}"
    return PlannedBattle(
        question_id=exchange.question_id,
        opponent=exchange.model,
        first="model" if model_first else "opponent",
        sha256=hashlib.sha256(text.encode()).hexdigest(),
    )


class Panel(msgspec.Struct, frozen=True, kw_only=True):
    """All planned battles of a run, in the order in which they were judged."""

    arena: str
    arena_sha256: dict[str, str]
    sampling: str
    seed: int
    battles: tuple[PlannedBattle, ...]

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of the battles: two models with the same one met the same opponents on the same texts."""
        return hashlib.sha256(msgspec.json.encode(self.battles)).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """What `panel.json` holds."""
        return {"fingerprint": self.fingerprint, **msgspec.to_builtins(self)}


def read_panel(path: Path) -> Panel:
    """A saved panel; one whose battles do not match its fingerprint was edited, and is refused.

    Parameters:
        path: The file.
    """
    try:
        contents = msgspec.json.decode(path.read_bytes())
        panel: Panel = msgspec.convert(contents, Panel)
    except OSError as error:
        raise RunFolderError(f"cannot read the panel {path}: {error.strerror}. Check the path.") from None
    except (msgspec.MsgspecError, UnicodeDecodeError, TypeError) as error:
        raise RunFolderError(f"{path} is not a panel: {error}. Give the panel.json of a placement run.") from None
    if contents.get("fingerprint") != panel.fingerprint:
        raise RunFolderError(
            f"{path}: the battles do not match the fingerprint {str(contents.get('fingerprint'))[:12]}…: "
            "the file was changed. Take the panel.json as the run wrote it."
        )
    return panel


def check_texts(planned_battles: Sequence[PlannedBattle], exchanges: Sequence[Exchange], path: Path) -> None:
    """Refuse a panel whose texts are not those of this arena."""
    for planned, exchange in zip(planned_battles, exchanges, strict=True):
        if planned.sha256 != planned_battle(exchange, model_first=True).sha256:
            raise RunFolderError(
                f"{path}: question {planned.question_id!r} of {planned.opponent!r} has other texts in this arena. "
                "Use the arena that the panel came from."
            )

"""Battles with the conversations they were decided on: `read_conversations`.

The battles are those of `read_battles`, row for row. Only fingerprints of the texts are kept;
`BattleConversations.dialogues` reads the texts of a few battles again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tiltyard.battles.conversation_rows import (
    CONVERSATIONS,
    ConversationRows,
    Dialogue,
    MissingText,
    Turns,
    conversation_rows,
    read_dialogue,
)
from tiltyard.battles.formats import FORMAT_NAMES, listed
from tiltyard.battles.inputs import Part, PathLike, find_parts
from tiltyard.battles.layout import ReadOptions
from tiltyard.battles.mapping import read_map
from tiltyard.battles.reading import OnBad
from tiltyard.battles.sources import RowSource, find_sources
from tiltyard.battles.table import BattleTable, concat
from tiltyard.errors import NoBattles, OptionError

COLUMNS = ("question_id", "language")


@dataclass(frozen=True, slots=True, eq=False)
class BattleConversations:
    """Battles, and what was said in them.

    `asked` and `replied` hold one row per battle and one column per side: fingerprints that are equal where the texts
    are, and 0 where there is nothing to show; `missing` then says why (the codes of `MissingText`).
    `has_text_columns` is false for files that do not carry conversations at all.
    """

    battles: BattleTable
    asked: NDArray[np.int64]
    replied: NDArray[np.int64]
    missing: NDArray[np.int8]
    files: tuple[Part, ...]
    has_text_columns: bool
    turns: Turns
    sources: tuple[ConversationRows, ...]

    def place(self, battle: int) -> str:
        """Where a battle is: `file:line`, or the number of its row."""
        number, at = self._located(battle)
        return self.sources[number].place(at)

    def dialogues(self, battles: Iterable[int]) -> dict[int, tuple[Dialogue | None, Dialogue | None]]:
        """What was said on both sides of some battles, read from the files now; None where there is nothing to show."""
        wanted: dict[int, dict[int, int]] = defaultdict(dict)
        for battle in battles:
            number, at = self._located(battle)
            wanted[number][at] = battle
        dialogues = {}
        for number, places in wanted.items():
            for at, (side_a, side_b) in self.sources[number].sides(sorted(places)):
                dialogues[places[at]] = self._dialogue(side_a), self._dialogue(side_b)
        return dialogues

    def _dialogue(self, conversation: object) -> Dialogue | None:
        dialogue = read_dialogue(conversation, self.turns)
        return None if isinstance(dialogue, MissingText) else dialogue

    def _located(self, battle: int) -> tuple[int, int]:
        """The source of a battle, and its position there."""
        for number, source in enumerate(self.sources):
            if battle < len(source.battles):
                return number, battle
            battle -= len(source.battles)
        raise IndexError(battle)


def read_conversations(
    data: PathLike | Sequence[PathLike],
    *,
    format: str = "auto",
    on_bad: OnBad = "error",
    turns: Turns = "first",
    map: Mapping[str, str] | None = None,
) -> BattleConversations:
    """The battles of files with what was said in them: the first turn, or all.

    The options are those of `read_battles`, and so are the battles; of the optional columns they keep the question's id
    and the language. `map` may name the columns of the conversations too.
    """
    if on_bad not in ("error", "skip"):
        raise OptionError(f"unknown on_bad {on_bad!r}: expected error or skip")
    if turns not in ("first", "all"):
        raise OptionError(f"unknown turns {turns!r}: expected first or all")
    if format != "auto" and format not in FORMAT_NAMES:
        raise OptionError(f"unknown format {format!r}: expected auto or one of {', '.join(FORMAT_NAMES)}")
    parts = find_parts(data)
    given = dict(map or {})
    texts = given.pop(CONVERSATIONS[0], CONVERSATIONS[0]), given.pop(CONVERSATIONS[1], CONVERSATIONS[1])
    found = find_sources(data, ReadOptions(format, COLUMNS, map=read_map(given)))
    _check_texts(found, texts)
    sources = tuple(conversation_rows(source, turns, texts, stop=on_bad == "error") for source in found)
    battles = sources[0].battles if len(sources) == 1 else concat([source.battles for source in sources])
    if not len(battles):
        why = ", ".join(f"{count} × {reason}" for reason, count in battles.skipped.items()) or "it has no rows"
        raise NoBattles(f"{parts[0].name}: no row is a battle ({why}). Check the format (format=...).")
    return BattleConversations(
        battles=battles,
        asked=np.concatenate([_both_sides(source, "asked") for source in sources]),
        replied=np.concatenate([_both_sides(source, "replied") for source in sources]),
        missing=np.concatenate([_both_sides(source, "missing") for source in sources]).astype(np.int8),
        files=tuple(parts),
        has_text_columns=any(name in source.layout.header for source in found for name in texts),
        turns=turns,
        sources=sources,
    )


def _check_texts(found: Sequence[RowSource], texts: tuple[str, str]) -> None:
    """Refuse a mapping to conversations that are not there."""
    for ours, theirs in zip(CONVERSATIONS, texts, strict=True):
        for source in found:
            header = source.layout.header
            if ours != theirs and theirs not in header:
                raise OptionError(
                    f"{source.name} has no column {theirs!r} for {ours}. Its columns are {listed(header.top_names)}."
                )


def _both_sides(source: ConversationRows, what: str) -> NDArray[np.int64]:
    """One kind of fingerprint of the good rows, side A beside side B."""
    sides: NDArray[np.int64] = np.stack([getattr(side, what)[source.good] for side in source.prints], axis=1)
    return sides

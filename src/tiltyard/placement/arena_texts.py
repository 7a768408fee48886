"""Texts that stand in the battle rows themselves: `texts_in_rows`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tiltyard.battles.conversation_rows import Dialogue, MissingText
from tiltyard.errors import BattleError
from tiltyard.placement.arena_cells import ArenaContents, CellBuilder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tiltyard.battles import BattleTable
    from tiltyard.battles.conversations import BattleConversations
    from tiltyard.placement.arena_anchors import Rows
    from tiltyard.placement.arena_cells import Contradiction

SILENCES = {
    MissingText.NO_TEXT: "without text",
    MissingText.NOT_ONLY_TEXT: "with more than text, such as an image",
    MissingText.UNREADABLE: "with a conversation that cannot be read",
}


@dataclass(frozen=True, slots=True, eq=False)
class RowTexts:
    """The texts of cells that stand in the battle rows: for each cell, a row and its side (0 = A)."""

    said: BattleConversations
    rows: Sequence[int]
    sides: Sequence[int]

    def talks(self, cells: Sequence[int]) -> list[Dialogue]:
        """What was asked and replied in some cells, in their order."""
        read = self.said.dialogues({self.rows[cell] for cell in cells})
        talks = []
        for cell in cells:
            talk = read.get(self.rows[cell], (None, None))[self.sides[cell]]
            if talk is None:
                raise BattleError(
                    f"{self.said.place(self.rows[cell])}: the text is gone: the file has changed. Start anew."
                )
            talks.append(talk)
        return talks


def texts_in_rows(said: BattleConversations, rows: Rows, battles: BattleTable, *, skip: bool) -> ArenaContents:
    """The cells and pairs of the kept rows; `battles` holds the same rows, over the models that are left.

    A row that contradicts an earlier one is an error, or with `skip` lends no text.
    """
    book = CellBuilder(battles)
    asked, replied, missing = said.asked[rows], said.replied[rows], said.missing[rows].max(axis=1)
    differing = (missing == 0) & (asked[:, 0] != asked[:, 1])
    contradictions = 0
    columns = (rows.tolist(), differing.tolist(), asked.tolist(), replied.tolist())
    for at, (row, differs, both_asked, both_replied) in enumerate(zip(*columns, strict=True)):
        trouble = None if differs else book.add_row(at, row, both_asked, both_replied)
        if trouble is not None and not skip:
            raise _contradiction(said, row, trouble)
        contradictions += trouble is not None
    counts = {words: int((missing == code).sum()) for code, words in SILENCES.items()}
    counts["whose two sides were asked different things"] = int(differing.sum())
    counts["whose text contradicts an earlier row"] = contradictions
    remarks = [
        f"Human battles {words}: {count:,} (counted as battles, not shown to a judge)."
        for words, count in counts.items()
        if count
    ]
    return ArenaContents(book.cells(), book.pairs(), RowTexts(said, book.rows, book.sides), tuple(remarks))


def _contradiction(said: BattleConversations, row: int, trouble: Contradiction) -> BattleError:
    return BattleError(
        f"{said.place(row)}: {trouble.what} than in {said.place(trouble.earlier)}. Give different texts different ids, "
        "or leave such texts out with --on-bad skip."
    )

"""Counts by model and prompt, or by model and model, that grow as models and prompts are added."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int32]


class Grid:
    """A table of counts with room to grow; `view` is the part in use, and writing to it counts."""

    def __init__(self, rows: int = 0, columns: int = 0) -> None:
        self._room = np.zeros((max(rows, 8), max(columns, 8)), dtype=np.int32)
        self._rows = rows
        self._columns = columns
        self.view: Ints = self._room[:rows, :columns]

    def grow(self, rows: int, columns: int) -> None:
        """Make the table this large; what was counted stays."""
        if rows > self._room.shape[0] or columns > self._room.shape[1]:
            room = np.zeros((_room(rows, self._room.shape[0]), _room(columns, self._room.shape[1])), dtype=np.int32)
            room[: self._rows, : self._columns] = self.view
            self._room = room
        self._rows, self._columns = rows, columns
        self.view = self._room[:rows, :columns]


def _room(needed: int, there: int) -> int:
    return there if needed <= there else max(needed, 2 * there)

"""Two boards compared: the correlation of their orders, and what moved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tiltyard.analysis.boards.leaderboard import Leaderboard, RankedModels, RatingsFile
from tiltyard.analysis.boards.record import BoardComparison, RankChange
from tiltyard.analysis.boards.text import FORMATS, boards_as_csv
from tiltyard.errors import RatingError
from tiltyard.files import json_text
from tiltyard.options import check_choice
from tiltyard.render import markdown_text
from tiltyard.stats import kendall_tau, spearman_rho
from tiltyard.stats.ranks import ranks
from tiltyard.types import Result


def compare_boards(before: RankedModels, after: RankedModels) -> BoardComparison:
    """The orders of two boards, or ratings files; changes are listed in the order of the second."""
    old, new = before.by_model, after.by_model
    shared = [model for model in new if model in old]
    if len(shared) < 2:
        raise RatingError(f"the two boards share {len(shared)} models: at least 2 are needed to compare orders.")
    left = np.array([old[model] for model in shared])
    right = np.array([new[model] for model in shared])
    rank_left, rank_right = ranks(left), ranks(right)
    changes = tuple(
        RankChange(model, before, after, old[model], new[model], before - after)
        for model, before, after in zip(shared, rank_left.tolist(), rank_right.tolist(), strict=True)
    )
    return BoardComparison(
        kendall_tau=kendall_tau(left, right),
        spearman_rho=spearman_rho(left, right),
        changes=changes,
        only_before=tuple(model for model in old if model not in new),
        only_after=tuple(model for model in new if model not in old),
    )


@dataclass(frozen=True, slots=True, eq=False)
class BoardsByValue(Result):
    """A leaderboard for each value of a column.

    Parameters:
        by: The column.
        boards: The boards by value.
        remarks: Why a value has no board.
    """

    by: str
    boards: Mapping[str, Leaderboard]
    remarks: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {"by": self.by, "boards": {value: RatingsFile.of(one).to_dict() for value, one in self.boards.items()}}

    def to_json(self) -> str:
        return json_text(self.to_dict())

    def render(self, format: str = "table") -> str:
        """The boards as `table`, `json`, `csv`, `md` or `latex`."""
        check_choice("format", format, FORMATS)
        if format == "json":
            return self.to_json()
        if format == "csv":
            return boards_as_csv(self.by, self.boards)
        texts = {value: board.render(format) for value, board in self.boards.items()}
        if format == "latex":
            return "\n".join(f"% {self.by}: {' '.join(value.split())}\n{text}" for value, text in texts.items())
        if format == "md":
            parts = [f"## {markdown_text(f'{self.by}: {value}')}\n\n{text}" for value, text in texts.items()]
            return "\n".join([*parts, *self._not_joint()])
        parts = [f"{self.by}: {value}\n{text}" for value, text in texts.items()]
        return "\n\n".join([*parts, *self._not_joint()])

    def _not_joint(self) -> list[str]:
        """That the intervals of several boards do not hold together; nothing for one board, or without intervals."""
        if len(self.boards) < 2 or all(entry.ci_low is None for board in self.boards.values() for entry in board):
            return []
        return [
            f"Intervals and ranks are those of each board alone. They do not hold for all {len(self.boards)} boards at "
            "once: among many boards, some will be wrong by chance."
        ]

    def plot(self, path: str | Path) -> list[Path]:
        """Draw each board, to a file with its value in the name."""
        paths = []
        for value, board in self.boards.items():
            name = "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in value)
            paths.append(Path(path).with_stem(f"{Path(path).stem}-{name}") if value else Path(path))
            board.plot(paths[-1])
        return paths

"""The field that a new model enters: the models people have voted on, each with its strength and how sure it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tiltyard.boards.bradley_terry import CENTRE, SCALE, BradleyTerry
from tiltyard.ratings.one_model import Anchors

if TYPE_CHECKING:
    from tiltyard.battles.table import BattleTable
    from tiltyard.boards.leaderboard import Leaderboard


@dataclass(frozen=True, slots=True, eq=False)
class HumanBoard:
    """The board of people's battles alone, and the same strengths in logits (0 is a rating of 1000)."""

    board: Leaderboard
    models: tuple[str, ...]
    anchors: Anchors

    @classmethod
    def of(cls, battles: BattleTable, anchor: tuple[str, float] | None = None) -> HumanBoard:
        """Rate people's battles: Bradley–Terry with intervals by prompt, the largest connected group of models."""
        board = BradleyTerry(anchor=anchor, only_connected=True).fit(battles)
        models = tuple(str(name) for name in board.arrays["models"])
        m = len(models)
        rating = np.array([board[name].rating for name in models])
        covariance = np.asarray(board.arrays["covariance"], dtype=np.float64)[:m, :m] / SCALE**2
        return cls(board, models, Anchors((rating - CENTRE) / SCALE, covariance))

    def number(self, model: str) -> int | None:
        """The number of a model among the anchors; None for one that is not rated."""
        return self.models.index(model) if model in self.models else None


def to_points(strength: float) -> float:
    """A strength in logits as a rating."""
    return CENTRE + SCALE * strength

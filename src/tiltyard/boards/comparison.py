"""Two boards side by side: how alike their orders are, and who moved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tiltyard.boards.ratings_file import EloReport
from tiltyard.errors import RatingError
from tiltyard.ratings.agreement import kendall_tau, spearman_rho
from tiltyard.ratings.ranks import ranks

if TYPE_CHECKING:
    from tiltyard.boards.leaderboard import Leaderboard


@dataclass(frozen=True, slots=True)
class RankChange:
    """One model's place on both boards, counted among the models that both have."""

    model: str
    rank_before: int
    rank_after: int
    rating_before: float
    rating_after: float

    @property
    def places_gained(self) -> int:
        """Positive when the model rose."""
        return self.rank_before - self.rank_after


@dataclass(frozen=True, slots=True)
class BoardComparison:
    """Kendall's tau-b, Spearman's rho and every model's move, over the models on both boards."""

    kendall_tau: float
    spearman_rho: float
    changes: tuple[RankChange, ...]
    only_before: tuple[str, ...]
    only_after: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """The comparison as plain values."""
        return {
            "kendall_tau": self.kendall_tau,
            "spearman_rho": self.spearman_rho,
            "only_before": list(self.only_before),
            "only_after": list(self.only_after),
            "changes": [
                {
                    "model": change.model,
                    "rank_before": change.rank_before,
                    "rank_after": change.rank_after,
                    "places_gained": change.places_gained,
                    "rating_before": change.rating_before,
                    "rating_after": change.rating_after,
                }
                for change in self.changes
            ],
        }


def compare(before: Leaderboard | EloReport, after: Leaderboard | EloReport) -> BoardComparison:
    """Compare the orders of two boards, or ratings files; changes are listed in the order of the second."""
    old, new = _ratings(before), _ratings(after)
    shared = [model for model in new if model in old]
    if len(shared) < 2:
        raise RatingError(f"the two boards share {len(shared)} models: at least 2 are needed to compare orders.")
    left = np.array([old[model] for model in shared])
    right = np.array([new[model] for model in shared])
    rank_left, rank_right = ranks(left), ranks(right)
    changes = tuple(
        RankChange(model, int(rank_left[i]), int(rank_right[i]), old[model], new[model])
        for i, model in enumerate(shared)
    )
    return BoardComparison(
        kendall_tau=kendall_tau(left, right),
        spearman_rho=spearman_rho(left, right),
        changes=changes,
        only_before=tuple(model for model in old if model not in new),
        only_after=tuple(model for model in new if model not in old),
    )


def _ratings(board: Leaderboard | EloReport) -> dict[str, float]:
    """Each model's rating, best first."""
    entries = board.ratings if isinstance(board, EloReport) else board.entries
    return {entry.model: entry.rating for entry in sorted(entries, key=lambda entry: entry.rank)}

"""Two boards compared: the correlation of their orders, and what moved."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tiltyard.boards.leaderboard import EloReport, Leaderboard
from tiltyard.errors import RatingError
from tiltyard.ratings.ranks import kendall_tau, ranks, spearman_rho


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
    """Kendall's tau-b, Spearman's rho and every model's move, over the models on both boards.

    Parameters:
        kendall_tau: Kendall's tau-b of the two orders.
        spearman_rho: Spearman's rho of the two orders.
        changes: Every model's place and rating on both boards.
        only_before: Models that only the first board has.
        only_after: Models that only the second board has.
    """

    kendall_tau: float
    spearman_rho: float
    changes: tuple[RankChange, ...]
    only_before: tuple[str, ...]
    only_after: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """The comparison as plain values."""
        changes = [{**asdict(change), "places_gained": change.places_gained} for change in self.changes]
        return {
            "kendall_tau": self.kendall_tau,
            "spearman_rho": self.spearman_rho,
            "only_before": list(self.only_before),
            "only_after": list(self.only_after),
            "changes": changes,
        }


def compare_boards(before: Leaderboard | EloReport, after: Leaderboard | EloReport) -> BoardComparison:
    """Compare the orders of two boards, or ratings files; changes are listed in the order of the second.

    Parameters:
        before: The first board, or ratings file.
        after: The second; changes are listed in its order.
    """
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

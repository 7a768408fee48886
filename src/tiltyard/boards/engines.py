"""Rating battles that another engine counts: the same boards from data larger than one machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from tiltyard.boards.bradley_terry import BradleyTerry
from tiltyard.boards.win_rate import WinRate
from tiltyard.errors import OptionError

if TYPE_CHECKING:
    from tiltyard.battles.elsewhere import CountedElsewhere
    from tiltyard.battles.table import BattleTable
    from tiltyard.boards.elo import Elo, PermutationElo
    from tiltyard.boards.glicko2 import Glicko2
    from tiltyard.boards.leaderboard import Leaderboard

Engine = Literal["duckdb", "spark"]
Countable = BradleyTerry | WinRate


def countable(estimator: BradleyTerry | Elo | PermutationElo | Glicko2 | WinRate) -> Countable:
    """The estimator, if counts are all it looks at; else an error that says what to use instead."""
    if not isinstance(estimator, BradleyTerry | WinRate):
        raise OptionError(
            f"{type(estimator).__name__} goes through the battles one by one, and the spark engine only counts them. "
            "Use --method bt or winrate, or --engine duckdb."
        )
    if isinstance(estimator, BradleyTerry) and estimator.control:
        raise OptionError(
            "style control looks at every battle, and the spark engine only counts them. "
            "Leave --control out, or use --engine duckdb."
        )
    return estimator


def check_interval(estimator: Countable, cluster: str | None) -> None:
    """Refuse the one interval that needs every cluster on this machine."""
    if isinstance(estimator, BradleyTerry) and estimator.ci == "bootstrap" and cluster is not None:
        raise OptionError(
            f"a bootstrap by {cluster} needs every {cluster} on one machine. Use --ci sandwich, which the spark engine "
            f"clusters by {cluster} too, or --cluster none, or --engine duckdb."
        )


def fit_counted(estimator: Countable, counted: CountedElsewhere, part: BattleTable) -> Leaderboard:
    """The board of a part of the counted battles."""
    if isinstance(estimator, BradleyTerry):
        return estimator.fit(part, clusters=counted.clusters)
    return estimator.fit(part)

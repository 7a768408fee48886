"""The Glicko-2 board: a rating, a deviation and a volatility per model, updated battle by battle."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tiltyard.battles.reading import BattleData, read_battles
from tiltyard.boards.assemble import build_board
from tiltyard.boards.parameters import Parameters, check_level
from tiltyard.boards.selection import Selection, select
from tiltyard.boards.sequence import in_order
from tiltyard.ratings.glicko2 import DEFAULT_SETTINGS, Glicko2Settings, rate_battles
from tiltyard.ratings.quantiles import normal_quantile

if TYPE_CHECKING:
    from tiltyard.boards.leaderboard import Leaderboard

REMARK = "the interval comes from the Glicko deviation, honest only where the schedule did not chase the ratings"


@dataclass(frozen=True, slots=True, kw_only=True)
class Glicko2(Parameters):
    """Glicko-2 ratings, per battle in order, ties ½, both models updated from their states before the battle."""

    parameters: Glicko2Settings = DEFAULT_SETTINGS
    level: float = 0.95
    evaluated: str | None = None
    selection: Selection = field(default_factory=Selection)

    def __post_init__(self) -> None:
        check_level(self.level)

    def fit(self, table: BattleData) -> Leaderboard:
        """Rate the battles in order."""
        selected = select(read_battles(table), self.selection)
        remarks = [REMARK]
        battles = in_order(selected.table, remarks)
        state = rate_battles(
            battles.a, battles.b, battles.score_a, start=len(selected.table.models), settings=self.parameters
        )
        half = normal_quantile(self.level) * state.deviation
        settings = {
            "method": "glicko2",
            "both_bad": self.selection.both_bad,
            "inconsistent": self.selection.inconsistent,
            "initial_rating": self.parameters.rating,
            "initial_deviation": self.parameters.deviation,
            "initial_volatility": self.parameters.volatility,
            "tau": self.parameters.tau,
            "interval": {"kind": "deviation", "level": self.level},
        }
        return build_board(
            selected,
            rating=state.rating,
            low=(state.rating - half).tolist(),
            high=(state.rating + half).tolist(),
            settings=settings,
            evaluated=self.evaluated,
            extra={
                "deviation": state.deviation.tolist(),
                "volatility": state.volatility.tolist(),
                "conservative": (state.rating - 2.0 * state.deviation).tolist(),
            },
            remarks=remarks,
        )

"""The simplest board: average win rates over opponents."""

from __future__ import annotations

from dataclasses import dataclass, field

from tiltyard.analysis.boards.estimator import FEWER, PAIR_BYTES, WIN_RATE_TABLES, EstimatorParameters, check_memory
from tiltyard.analysis.boards.leaderboard import Leaderboard, build_board
from tiltyard.analysis.boards.preparation import Selection, comparisons, fixed_order, select
from tiltyard.analysis.boards.record import BoardSettings, IntervalFacts
from tiltyard.data.battles import BattleData, BattleTable, oddities, read_battles
from tiltyard.errors import OptionValue
from tiltyard.options import explains
from tiltyard.stats import WinRates, count_pairs, win_rates

REMARK = "a win rate depends on who was met: compare with Bradley–Terry (method bt), which allows for the opponents"


@explains(selection="Which battles are rated.")
@dataclass(frozen=True, slots=True, kw_only=True)
class WinRate(EstimatorParameters):
    """Average win rate over opponents; the extra column `overall` counts every battle once."""

    evaluated: str | None = None
    selection: Selection = field(default_factory=Selection)

    def fit(self, table: BattleData, *, memory: float | None = None) -> Leaderboard:
        """Rate the battles, in at most `memory` bytes (None: what the machine has)."""
        selected = select(fixed_order(read_battles(table)), self.selection)
        models = len(selected.table.models)
        check_memory(
            f"win rates of all pairs of {models:,} models",
            float(PAIR_BYTES) * WIN_RATE_TABLES * models * models,
            ("Use ", OptionValue("method", "bt"), " with ", OptionValue("ci", "none"), ", or ", *FEWER),
            memory,
        )
        rates = pairwise(selected.table)
        return build_board(
            selected,
            rating=rates.average,
            settings=BoardSettings(**self.selection.settings("winrate"), interval=IntervalFacts(kind="none")),
            evaluated=self.evaluated,
            extra={"overall": rates.overall.tolist(), "score": rates.score.tolist()},
            remarks=[REMARK, *oddities(selected.table)],
            arrays={"win_rate_matrix": rates.matrix, "battle_matrix": rates.battles},
        )


def pairwise(table: BattleTable) -> WinRates:
    """Win rates of every pair in a table that holds no both-bad rows."""
    return win_rates(count_pairs(comparisons(table)).cells)

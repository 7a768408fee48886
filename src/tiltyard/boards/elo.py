"""Elo boards: one pass over the battles in order (`Elo`), or averaged over shuffles (`PermutationElo`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tiltyard.battles.outcome import Outcome
from tiltyard.battles.reading import BattleData, read_battles
from tiltyard.boards.assemble import Column, build_board
from tiltyard.boards.parameters import Parameters
from tiltyard.boards.selection import Selected, Selection, check_choice, cluster_codes, only_rated_models, select
from tiltyard.boards.sequence import decisive, in_order
from tiltyard.ratings import elo

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tiltyard.battles.table import BattleTable
    from tiltyard.boards.leaderboard import Leaderboard

ORDER_REMARK = "Elo depends on the order of the battles and has no interval: compare with --method bt"
SEM_REMARK = "± SEM: shuffle error only; says nothing about other prompts. The interval is the sampling interval"


@dataclass(frozen=True, slots=True, kw_only=True)
class Elo(Parameters):
    """Sequential Elo: every battle moves both models by K times the surprise; a tie scores ½."""

    k: float = 16.0
    initial_rating: float = 1400.0
    evaluated: str | None = None
    selection: Selection = field(default_factory=Selection)

    def fit(self, table: BattleData) -> Leaderboard:
        """Rate the battles in order."""
        selected = select(read_battles(table), self.selection)
        remarks = [ORDER_REMARK]
        battles = in_order(selected.table, remarks)
        ratings = elo.sequential_elo(
            battles.a,
            battles.b,
            battles.score_a,
            n_models=len(selected.table.models),
            k=self.k,
            initial_rating=self.initial_rating,
        )
        settings = {
            "method": "elo",
            "both_bad": self.selection.both_bad,
            "inconsistent": self.selection.inconsistent,
            "k": self.k,
            "initial_rating": self.initial_rating,
            "interval": {"kind": "none"},
        }
        return build_board(selected, rating=ratings, settings=settings, evaluated=self.evaluated, remarks=remarks)


@dataclass(frozen=True, slots=True, kw_only=True)
class PermutationElo(Parameters):
    """Elo averaged over shuffles of the decisive battles, with a K sweep on the same shuffles.

    Ties and inconsistent judgments are left out. `ci="none"` skips the sampling interval (resampled prompts).
    """

    k: float = 16.0
    k_sweep: tuple[float, ...] = elo.K_SWEEP
    initial_rating: float = 1400.0
    n_perms: int = 500
    seed: int = 0
    ci: str = "sampling"
    level: float = 0.95
    cluster: str = "auto"
    evaluated: str | None = None
    selection: Selection = field(default_factory=Selection)

    def __post_init__(self) -> None:
        check_choice("ci", self.ci, ("sampling", "none"))

    def fit(self, table: BattleData) -> Leaderboard:
        """Rate the battles in `n_perms` orders."""
        selected = self._decisive_only(select(read_battles(table), self.selection))
        remarks: list[str] = []
        battles = in_order(selected.table, remarks)
        n_models = len(selected.table.models)
        a_won = battles.score_a > 0.5
        result = elo.permutation_elo(
            battles.a,
            battles.b,
            a_won,
            n_models=n_models,
            k=self.k,
            k_sweep=self.k_sweep,
            initial_rating=self.initial_rating,
            n_perms=self.n_perms,
            seed=self.seed,
        )
        extra: dict[str, Column] = {
            "sem": result.default.sem.tolist(),
            "ci95_low": result.default.ci95_low.tolist(),
            "ci95_high": result.default.ci95_high.tolist(),
        }
        low = high = None
        column = self._cluster_column(selected.table)
        if self.ci != "none":
            clusters = None if column is None else cluster_codes(selected.table, column)[battles.row]
            sampling = elo.sampling_interval(
                battles.a,
                battles.b,
                a_won,
                result.default.mean,
                clusters=clusters,
                k=self.k,
                level=self.level,
                seed=self.seed,
            )
            low, high = sampling.low.tolist(), sampling.high.tolist()
            extra |= {"sampling_low": low, "sampling_high": high}
            remarks.append(SEM_REMARK)
        return build_board(
            selected,
            rating=result.default.mean,
            low=low,
            high=high,
            settings=self._settings(column),
            evaluated=self.evaluated,
            extra=extra,
            remarks=remarks,
            details={"k_sensitivity": _sweep(result, selected.table.models)},
            arrays={"permutation_ratings": result.default.ratings},
        )

    def _decisive_only(self, selected: Selected) -> Selected:
        table = selected.table
        rated = decisive(table)
        left_out = dict(selected.left_out)
        ties = float(table.weight[table.outcome == Outcome.TIE].sum())
        if ties:
            left_out["tie (permutation Elo rates decisive battles only)"] = ties
        return only_rated_models(table.take(rated), selected.both_bad, left_out)

    def _cluster_column(self, table: BattleTable) -> str | None:
        if self.cluster == "auto":
            return "question_id" if "question_id" in table.columns else None
        return None if self.cluster == "none" else self.cluster

    def _settings(self, cluster: str | None) -> Mapping[str, Any]:
        interval: dict[str, Any] = {"kind": "none"}
        if self.ci != "none":
            interval = {"kind": "sampling", "level": self.level, "cluster": cluster}
        return {
            "method": "elo-perm",
            "both_bad": self.selection.both_bad,
            "inconsistent": self.selection.inconsistent,
            "k": self.k,
            "initial_rating": self.initial_rating,
            "n_perms": self.n_perms,
            "seed": self.seed,
            "interval": interval,
        }


def _sweep(result: elo.PermutationElo, models: tuple[str, ...]) -> dict[str, dict[str, dict[str, float]]]:
    """Mean and SEM of every model at every K."""
    return {
        f"{trace.k:g}": {
            name: {"mean": float(mean), "sem": float(sem)}
            for name, mean, sem in zip(models, np.asarray(trace.mean), np.asarray(trace.sem), strict=True)
        }
        for trace in result.sweep
    }

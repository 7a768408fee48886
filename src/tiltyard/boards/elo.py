"""Elo boards: one pass over the battles in order (`Elo`), or averaged over shuffles (`PermutationElo`)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tiltyard.battles.outcome import Outcome
from tiltyard.battles.reading import BattleData, read_battles
from tiltyard.boards.assemble import Column, build_board
from tiltyard.boards.parameters import DRAWS_MAX, RATING_MAX, Parameters, check_level, check_number, check_whole
from tiltyard.boards.selection import Selected, Selection, check_choice, cluster_codes, only_rated_models, select, tally
from tiltyard.boards.sequence import decisive, in_order
from tiltyard.ratings import elo

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tiltyard.battles.table import BattleTable
    from tiltyard.boards.leaderboard import Leaderboard
    from tiltyard.boards.sequence import Sequence

ORDER_REMARK = "Elo depends on the order of the battles and has no interval: compare with --method bt"
SEM_REMARK = "± SEM: shuffle error only; says nothing about other prompts. The interval is the sampling interval"
ONLY_WON = "won all its decisive battles; no bounds"
ONLY_LOST = "lost all its decisive battles; no bounds"

Ends = list[float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Elo(Parameters):
    """Sequential Elo: every battle moves both models by K times the surprise; a tie scores ½."""

    k: float = 16.0
    initial_rating: float = 1400.0
    evaluated: str | None = None
    selection: Selection = field(default_factory=Selection)

    def __post_init__(self) -> None:
        _check_scale(self.initial_rating, self.k)

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
        _check_scale(self.initial_rating, self.k, *self.k_sweep)
        check_whole("n_perms", self.n_perms, least=2, most=DRAWS_MAX)
        check_whole("seed", self.seed, least=0)
        check_level(self.level)

    def fit(self, table: BattleData) -> Leaderboard:
        """Rate the battles in `n_perms` orders."""
        selected = self._decisive_only(select(read_battles(table), self.selection))
        models = selected.table.models
        remarks: list[str] = []
        battles = in_order(selected.table, remarks)
        result = elo.permutation_elo(
            battles.a,
            battles.b,
            battles.score_a > 0.5,
            n_models=len(models),
            k=self.k,
            k_sweep=self.k_sweep,
            initial_rating=self.initial_rating,
            n_perms=self.n_perms,
            seed=self.seed,
        )
        trace = result.default
        extra: dict[str, Column] = {name: getattr(trace, name).tolist() for name in ("sem", "ci95_low", "ci95_high")}
        cluster = self._cluster_column(selected.table)
        low = high = None
        if self.ci != "none":
            low, high = self._sampling_ends(selected.table, battles, cluster, trace)
            extra |= {"sampling_low": low, "sampling_high": high}
            remarks.append(SEM_REMARK)
        return build_board(
            selected,
            rating=trace.mean,
            low=low,
            high=high,
            settings=self._settings(cluster),
            evaluated=self.evaluated,
            notes=None if low is None else _notes(selected, low),
            extra=extra,
            remarks=remarks,
            details={"k_sensitivity": _sweep(result, models)},
            arrays={"permutation_ratings": trace.ratings},
        )

    def _sampling_ends(
        self, table: BattleTable, battles: Sequence, cluster: str | None, trace: elo.EloTraces
    ) -> tuple[Ends, Ends]:
        """The ends of the sampling intervals; None for a model that has none."""
        sampling = elo.sampling_interval(
            battles.a,
            battles.b,
            battles.score_a > 0.5,
            trace.mean,
            clusters=None if cluster is None else cluster_codes(table, cluster)[battles.row],
            k=self.k,
            level=self.level,
            seed=self.seed,
        )
        low, high = (
            [None if math.isnan(end) else end for end in ends.tolist()] for ends in (sampling.low, sampling.high)
        )
        return low, high

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


def _check_scale(initial_rating: float, *ks: float) -> None:
    check_number("initial_rating", initial_rating, least=-RATING_MAX, most=RATING_MAX)
    for k in ks:
        elo.check_k(k)


def _notes(selected: Selected, low: Ends) -> list[str | None]:
    """Why a model has no interval."""
    wins = tally(selected).wins
    return [None if end is not None else ONLY_WON if won > 0 else ONLY_LOST for end, won in zip(low, wins, strict=True)]


def _sweep(result: elo.PermutationElo, models: tuple[str, ...]) -> dict[str, dict[str, dict[str, float]]]:
    """Mean and SEM of every model at every K."""
    return {
        f"{trace.k:g}": {
            name: {"mean": float(mean), "sem": float(sem)}
            for name, mean, sem in zip(models, np.asarray(trace.mean), np.asarray(trace.sem), strict=True)
        }
        for trace in result.sweep
    }

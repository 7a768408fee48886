"""The Bradley–Terry board: battles in, ratings with intervals and rank intervals out."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, get_args

import msgspec
import numpy as np
from numpy.typing import NDArray

from tiltyard.battles.battle import Source
from tiltyard.battles.opened import BattleData
from tiltyard.battles.reading import oddities, read_battles
from tiltyard.battles.spark import RemoteClusters
from tiltyard.battles.table import BattleTable, merge_equal
from tiltyard.boards.building import Column, build_board
from tiltyard.boards.certainty import (
    Certainty,
    Solved,
    certainty,
    cluster_notes,
    coefficients,
    interval_settings,
    rating_ends,
    remote_sandwich,
    share_remarks,
    shrink_notes,
    shrunk_fit,
)
from tiltyard.boards.estimator import (
    BOOTSTRAP_TABLES,
    DRAWS_MAX,
    FEWER,
    PAIR_BYTES,
    RATING_MAX,
    ROUNDS_COPIES,
    SANDWICH_TABLES,
    EstimatorParameters,
    check_level,
    check_memory,
    check_number,
    check_whole,
)
from tiltyard.boards.leaderboard import Leaderboard
from tiltyard.boards.misfit import report_fit
from tiltyard.boards.preparation import (
    SIDE_FLAGS,
    FitInput,
    asked_clusters,
    choose_clusters,
    choose_slot,
    choose_tie_model,
    comparisons,
    connected,
    count_nameless,
    covariates,
    nameless_remark,
    one_cluster,
    settle_sides,
    settle_tie_model,
    without_ties,
)
from tiltyard.boards.selection import Selected, Selection, cluster_codes, fixed_order, known_models, select
from tiltyard.errors import OptionError, OptionValue
from tiltyard.options import Interval, Ties, check_choice, explains
from tiltyard.ratings import POINTS_PER_LOGIT
from tiltyard.ratings.bradley_terry import BradleyTerryFit, fit_bounded
from tiltyard.ratings.comparisons import count_pairs
from tiltyard.ratings.graph import Reach, wins_and_losses
from tiltyard.ratings.intervals import (
    DRAWS,
    MANY_MODELS,
    Uncertainty,
    drawn_sandwich,
    sandwich,
)

DRAWN_REMARK = (
    "more than 2,000 models: standard errors from {draws} random draws (seed {seed}), places from intervals that hold "
    "for all models at once"
)

CENTRE = 1000.0
"""The mean rating where no anchor is given."""

MANY_ROUNDS = 1000
"""Bootstrap rounds by default: with 100 the ends of a 95 % interval are themselves uncertain (covers 0.92–0.93)."""

OPEN_ABOVE = "kept finite by half a win and half a loss; no upper bound"
OPEN_BELOW = "kept finite by half a win and half a loss; no lower bound"
REACH_NOTES = {
    Reach.UNBEATEN: f"unbeaten; {OPEN_ABOVE}",
    Reach.WINLESS: f"winless; {OPEN_BELOW}",
    Reach.APART: "met the rest only through unbounded models; kept finite by half a win and half a loss; no bounds",
}


@explains(selection="Which battles are rated.")
@dataclass(frozen=True, slots=True, kw_only=True)
class BradleyTerry(EstimatorParameters):
    """Bradley–Terry ratings: parameters when built, battles when fitted."""

    ties: Ties = "davidson"
    ci: Interval = "sandwich"
    level: float = 0.95
    rounds: int = MANY_ROUNDS
    seed: int = 0
    cluster: str = "auto"
    anytime: bool = False
    anchor: tuple[str, float] | None = None
    control: tuple[str, ...] = ()
    slot: bool | None = None
    shrink: bool = False
    only_connected: bool = False
    robustness: bool = False
    misfit: bool = True
    evaluated: str | None = None
    selection: Selection = field(default_factory=Selection)

    def __post_init__(self) -> None:
        check_choice("ties", self.ties, get_args(Ties))
        check_choice("ci", self.ci, get_args(Interval))
        asked_clusters(self.cluster)
        check_level(self.level)
        check_whole("seed", self.seed, least=0)
        if self.anchor is not None:
            check_number(
                f"the rating of the anchor {self.anchor[0]}", self.anchor[1], least=-RATING_MAX, most=RATING_MAX
            )
        if self.shrink and (self.ci != "sandwich" or self.robustness or self.anytime):
            raise OptionError(
                "shrink goes with ", OptionValue("ci", "sandwich"), " alone: leave out robustness and anytime."
            )
        if self.ci == "bootstrap":
            check_whole("rounds", self.rounds, least=2, most=DRAWS_MAX)

    def fit(
        self, table: BattleData, *, clusters: RemoteClusters | None = None, memory: float | None = None
    ) -> Leaderboard:
        """Rate the battles. A second fit knows nothing of the first.

        `clusters` is the engine that counted the battles, where they did not leave it: it sums them by prompt.
        `memory` is how many bytes the fit may take (None: what the machine has); a board that needs more is refused.
        """
        return self.fit_with_errors(table, clusters=clusters, memory=memory)[0]

    def fit_with_errors(
        self, table: BattleData, *, clusters: RemoteClusters | None = None, memory: float | None = None
    ) -> tuple[Leaderboard, Solved]:
        """The board of `fit`, and the fit behind it.

        Parameters:
            table: Battles: a table, or whatever `read_battles` takes.
            clusters: The engine that counted the battles, where they did not leave it.
            memory: How many bytes the fit may take; None: what the machine has.
        """
        table = fixed_order(read_battles(table), self.control)
        remarks: list[str] = []
        if clusters is None and self._needs_only_counts(table, remarks):
            counted = {name: column for name, column in table.columns.items() if name in ("judge_model", *SIDE_FLAGS)}
            table = merge_equal(replace(table, columns=counted))
            return replace(self, cluster="none")._fit(table, remarks, None, memory)
        return self._fit(table, remarks, clusters, memory)

    def solve(self, table: BattleData, *, memory: float | None = None) -> Solved:
        """The fit behind a board, with its errors: for differences of models rather than a leaderboard.

        Parameters:
            table: Battles: a table, or whatever `read_battles` takes.
            memory: How many bytes the fit may take; None: what the machine has.
        """
        return self._solve(fixed_order(read_battles(table), self.control), [], None, memory)

    def _solve(
        self, table: BattleTable, remarks: list[str], clusters: RemoteClusters | None, memory: float | None
    ) -> Solved:
        """Select, prepare, fit, and find the errors."""
        selected = select(table, self.selection)
        if self.ties == "drop":
            selected = without_ties(selected)
        if not self.only_connected:
            self._check_memory(len(selected.table.models), memory)
        selected = connected(selected, remarks, only_connected=self.only_connected)
        if self.slot is None:
            table, notes = settle_sides(selected.table)
            selected = msgspec.structs.replace(selected, table=table)
            remarks += notes
        self._check_memory(len(selected.table.models), memory)
        fit_input = self._prepare(selected, remarks, clusters)
        shrunk = shrunk_fit(fit_input, partial(self._errors, fit_input)) if self.shrink else None
        if shrunk is None:
            fitted, state = fit_bounded(fit_input.counted.cells, fit_input.tie_model)
        else:
            fitted, state = shrunk.fit, np.full(len(selected.table.models), Reach.HELD, dtype=np.int8)
        fit_input, covariance = self._covariance(fit_input, fitted, clusters)
        fit_input.remarks.extend([*share_remarks(covariance, fit_input.clusters), *oddities(selected.table)])
        return Solved(fit_input, fitted, state, covariance, shrunk)

    def _fit(
        self, table: BattleTable, remarks: list[str], clusters: RemoteClusters | None, memory: float | None
    ) -> tuple[Leaderboard, Solved]:
        solved = self._solve(table, remarks, clusters, memory)
        fit_input, fitted, shrunk = solved.fit_input, solved.fit, solved.shrunk
        sure = certainty(
            fitted,
            fit_input,
            solved.covariance,
            anchor=self._anchor_code(fit_input),
            level=self.level,
            rounds=self.rounds if self.ci == "bootstrap" else 0,
            seed=self.seed,
            anytime=self.anytime,
        )
        more = {}
        if self.reads_times:
            plain = fitted if shrunk is None else None
            more["misfit"] = report_fit(fit_input, plain, seed=self.seed, remote=clusters is not None)
        board = self._board(fit_input, fitted, solved.state, sure, more)
        if shrunk is None:
            return board, solved
        prior = {"sd": POINTS_PER_LOGIT * math.sqrt(shrunk.variance), "dispersion": shrunk.dispersion}
        return replace(board, settings={**board.settings, "shrink": prior}), solved

    def _anchor_code(self, fit_input: FitInput) -> int | None:
        """The number of the anchor among the models."""
        if self.anchor is None:
            return None
        table = fit_input.selected.table
        if self.anchor[0] not in table.models:
            raise OptionError(f"the anchor {self.anchor[0]!r} is in none of the rated battles. {known_models(table)}")
        return table.models.index(self.anchor[0])

    def _check_memory(self, models: int, memory: float | None) -> None:
        """Refuse intervals whose tables of pairs would not fit into memory; ratings alone need none.

        Above 2,000 models only the bootstrap and robustness do.
        """
        tables = {"none": 0, "sandwich": SANDWICH_TABLES, "bootstrap": BOOTSTRAP_TABLES}[self.ci]
        if self._draws(models):
            tables = 0
        instead: tuple[str | OptionValue, ...] = ("Use ", OptionValue("ci", "none"), " for the ratings alone, or ")
        if self.robustness:
            tables = max(tables, SANDWICH_TABLES)
            instead = ("Leave out ", OptionValue("robustness", True), " and use ", *instead[1:])
        elif self.ci == "bootstrap" and models > MANY_MODELS:
            instead = ("Use ", OptionValue("ci", "sandwich"), ", which needs little memory, or ")
        rounds = ROUNDS_COPIES * self.rounds if self.ci == "bootstrap" else 0
        needed = float(PAIR_BYTES) * models * (tables * models + rounds)
        check_memory(f"intervals and places of {models:,} models", needed, (*instead, *FEWER), memory)

    @property
    def reads_times(self) -> bool:
        """Whether the fit is checked against its battles, and looks at when they were for that."""
        return self.misfit and self.ci != "none"

    def _needs_only_counts(self, table: BattleTable, remarks: list[str]) -> bool:
        """Whether no column of the rows is looked at, so that equal rows can be counted first."""
        if self.control or self.selection.columns() or (self.reads_times and "timestamp" in table.columns):
            return False
        notes: list[str] = []
        if self.ci != "none" and choose_clusters(table, self.cluster, notes):
            return False
        remarks += notes
        return True

    def _prepare(self, selected: Selected, remarks: list[str], clusters: RemoteClusters | None) -> FitInput:
        """Comparisons with their clusters, tie groups and covariates, counted by pair."""
        table = selected.table
        tie_model = choose_tie_model(table, self.ties, remarks, controlled=bool(self.control))
        rows = comparisons(table)
        if tie_model.has_parameter and table.source.min() != table.source.max():
            rows = msgspec.structs.replace(rows, group=table.source)
        columns: tuple[str, ...] = ()
        if clusters is not None:
            shared = clusters.shared(table)
            if self.ci != "none" and shared.any():
                columns = (clusters.column,)
                remarks += nameless_remark(clusters.column, *count_nameless(table, clusters.column, shared))
        elif self.ci != "none":
            columns = choose_clusters(table, self.cluster, remarks)
            rows = msgspec.structs.replace(rows, clusters=tuple(cluster_codes(table, column) for column in columns))
        slot = choose_slot(table, self.slot, controlled=bool(self.control), evaluated=self.evaluated)
        if self.control:
            rows = msgspec.structs.replace(rows, covariates=covariates(table, self.control))
        counted = count_pairs(rows, slot=slot)
        tie_model = settle_tie_model(counted, tie_model, remarks)
        return FitInput(selected, rows, counted, tie_model, slot, columns, remarks)

    def _covariance(
        self, fit_input: FitInput, fitted: BradleyTerryFit, clusters: RemoteClusters | None
    ) -> tuple[FitInput, Uncertainty | None]:
        """The covariance, summed where the battles are; clusters elsewhere may turn out to be one, which is none."""
        if self.ci == "none":
            return fit_input, None
        if clusters is not None and fit_input.clusters:
            covariance = remote_sandwich(fitted, fit_input, clusters)
            if covariance is not None:
                return fit_input, covariance
            fit_input.remarks.append(one_cluster(clusters.column))
            fit_input = msgspec.structs.replace(fit_input, clusters=())
        if self._draws(fitted.cells.n_models):
            fit_input.remarks.append(DRAWN_REMARK.format(draws=DRAWS, seed=self.seed))
        return fit_input, self._errors(fit_input, fitted)

    def _errors(self, fit_input: FitInput, fitted: BradleyTerryFit) -> Uncertainty:
        """The sandwich of battles that are here."""
        if self._draws(fitted.cells.n_models):
            return drawn_sandwich(fitted, fit_input.rows, fit_input.counted, seed=self.seed)
        return sandwich(fitted, fit_input.rows, fit_input.counted)

    def _draws(self, models: int) -> bool:
        """Whether there are too many models for a covariance of all pairs; a bootstrap needs one."""
        return models > MANY_MODELS and self.ci == "sandwich"

    def _board(
        self,
        fit_input: FitInput,
        fitted: BradleyTerryFit,
        state: NDArray[np.int8],
        sure: Certainty,
        more: Mapping[str, Any],
    ) -> Leaderboard:
        zero = (CENTRE if self.anchor is None else self.anchor[1]) - POINTS_PER_LOGIT * sure.zero
        extra: dict[str, Column] = {}
        low, high = rating_ends(sure, state, zero, self._anchor_code(fit_input))
        if sure.rounds is not None:
            means = (zero + POINTS_PER_LOGIT * sure.rounds.mean(axis=0)).tolist()
            extra["bootstrap_mean"] = [None if math.isnan(mean) else mean for mean in means]
        if self.control:
            extra["rating_without_control"] = self._without_control(fit_input)
        if self.robustness:
            extra["battles_to_swap_with_next"] = _swaps(fit_input, fitted)
        return build_board(
            fit_input.selected,
            rating=zero + POINTS_PER_LOGIT * sure.strength,
            low=low,
            high=high,
            places=sure.places,
            settings=self._settings(fit_input, sure),
            evaluated=self.evaluated,
            notes=_notes(fit_input, state, sure, shrunk=self.shrink),
            extra=extra,
            remarks=fit_input.remarks,
            details={**self._details(fit_input, fitted, sure), **more},
            arrays=_arrays(sure, zero),
        )

    def _without_control(self, fit_input: FitInput) -> list[float]:
        """The ratings the same battles give when style is not controlled for."""
        already, ci = Selection(), self.ci if self.shrink else "none"
        plain = replace(self, selection=already, control=(), ci=ci, robustness=False, ties="half", slot=fit_input.slot)
        board = plain.fit(fit_input.selected.table)
        return [board[name].rating for name in fit_input.selected.table.models]

    def _settings(self, fit_input: FitInput, sure: Certainty) -> dict[str, Any]:
        interval: dict[str, Any] = {"kind": self.ci}
        if self.ci != "none":
            interval |= {"level": self.level, **interval_settings(sure.covariance, fit_input.clusters)}
            interval["anytime"] = self.anytime
        return {
            "method": "bt",
            "tie_model": "drop" if self.ties == "drop" else fit_input.tie_model.name,
            **self.selection.settings("bt"),
            "scale": POINTS_PER_LOGIT,
            "anchor": None if self.anchor is None else {"model": self.anchor[0], "rating": self.anchor[1]},
            "interval": interval,
            "n_bootstraps": self.rounds if self.ci == "bootstrap" else 0,
            "seed": self.seed,
        }

    def _details(self, fit_input: FitInput, fitted: BradleyTerryFit, sure: Certainty) -> Mapping[str, Any]:
        details: dict[str, Any] = {"log_likelihood": fitted.log_likelihood}
        if len(fitted.tied_groups):
            labels = (
                [Source.of_code(int(code)).value for code in fitted.tied_groups]
                if fitted.cells.n_groups > 1
                else ["all"]
            )
            values = fitted.parameters.tie[fitted.tied_groups]
            details["tie_parameters"] = {
                label: float(np.exp(value)) for label, value in zip(labels, values, strict=True)
            }
        names = (["first slot"] if fit_input.slot else []) + list(self.control)
        if names:
            details["coefficients"] = coefficients(names, fitted, sure.covariance, self.level)
        if sure.covariance is not None:
            counts = [way.count for way in sure.covariance.ways]
            details["n_clusters"] = min(counts, default=float(fit_input.rows.weight.sum()))
        return details


def _notes(fit_input: FitInput, state: NDArray[np.int8], sure: Certainty, *, shrunk: bool) -> list[str | None]:
    """Why an interval is open, rough or missing."""
    records = zip(state, *wins_and_losses(fit_input.counted.cells), strict=True)
    notes = shrink_notes(fit_input) if shrunk else [_reach_note(Reach(one), won, lost) for one, won, lost in records]
    rough = cluster_notes(sure.covariance, fit_input.clusters) or [None] * len(notes)
    return ["; ".join(filter(None, both)) or None for both in zip(notes, rough, strict=True)]


def _reach_note(reach: Reach, won: float, lost: float) -> str | None:
    """Why a rating is open, in words that are true of the model itself: a group may be unbeaten, its members not."""
    if reach == Reach.UNBEATEN and (lost or not won):
        return f"{'lost only to' if lost else 'tied only with'} models without an upper bound; {OPEN_ABOVE}"
    if reach == Reach.WINLESS and (won or not lost):
        return f"{'won only against' if won else 'tied only with'} models without a lower bound; {OPEN_BELOW}"
    return REACH_NOTES.get(reach)


def _swaps(fit_input: FitInput, fitted: BradleyTerryFit) -> list[int | None]:
    """For each model the number of battles to remove until the next one on the board is level; None for the last."""
    from tiltyard.ratings.influence import battles_to_swap, prepare

    robustness = prepare(fitted, fit_input.rows, fit_input.counted)
    order = np.argsort(-fitted.parameters.strength, kind="stable")
    swaps: list[int | None] = [None] * len(order)
    for above, below in zip(order[:-1].tolist(), order[1:].tolist(), strict=True):
        swaps[above] = battles_to_swap(robustness, above, below)
    return swaps


def _arrays(sure: Certainty, zero: float) -> dict[str, NDArray[np.generic]]:
    arrays: dict[str, NDArray[np.generic]] = dict(sure.errors)
    if sure.rounds is not None:
        arrays["bootstrap_ratings"] = zero + POINTS_PER_LOGIT * sure.rounds
    if sure.places is not None and sure.places.below is not None:
        arrays["below"] = sure.places.below
    return arrays

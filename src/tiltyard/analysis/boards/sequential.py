"""Methods that read battles one by one, in order: `Elo`, `PermutationElo` (averaged over shuffles) and `Glicko2`."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import msgspec
import numpy as np
from numpy.typing import NDArray

from tiltyard.analysis.boards.estimator import (
    DRAWS_MAX,
    RATING_MAX,
    EstimatorParameters,
    check_level,
    check_number,
    check_whole,
)
from tiltyard.analysis.boards.leaderboard import Column, Leaderboard, ModelCounts, build_board
from tiltyard.analysis.boards.preparation import (
    Selection,
    asked_clusters,
    choose_clusters,
    cluster_codes,
    only_rated_models,
    select,
)
from tiltyard.analysis.boards.record import BoardDetails, BoardSettings, IntervalFacts, SweepMean
from tiltyard.data.battles import BattleData, BattleTable, Outcome, oddities, read_battles
from tiltyard.errors import OptionValue, RatingError
from tiltyard.options import check_choice, explains
from tiltyard.stats import DEFAULT_SETTINGS, Glicko2Settings, elo, normal_quantile, rate_battles
from tiltyard.types import Floats, Int32s

SCORE_A = np.array([1.0, 0.0, 0.5, np.nan])
"""The first model's score for each `Outcome`; both-bad has none."""
MANY_SHUFFLES, FEW_SHUFFLES = 500, 50
"""How many shuffles are played by default, and how many at least where battles are very many."""
PLAYED_BATTLES = 50_000_000
"""With more battles than a 500th of this, fewer shuffles are played by default: the mean of 50 is known to a seventh of
the noise of one order, and each would take a second."""
MOST_BATTLES = 200_000_000
"""More battles than this are not played one by one: their order alone would take gigabytes."""

DEVIATION_REMARK = "the interval comes from the Glicko deviation, and holds only if matches were not chosen by rating"
ORDER_REMARK = "Elo depends on the order of the battles and has no interval: compare with Bradley–Terry (method bt)"
SEM_REMARK = "± SEM: shuffle error only; says nothing about other prompts. The interval is the sampling interval"
ONLY_WON = "won all its decisive battles; no bounds"
ONLY_LOST = "lost all its decisive battles; no bounds"
ONE_ORDER = "no SEM where every order that was played gives the same rating"
ONE_BATTLE = "no interval: one battle says nothing of others"


class OrderedBattles(msgspec.Struct, frozen=True, eq=False):
    """Battles one by one: the two models and the first one's score; `row` is each battle's row in the table.

    `weight` is how much of each counts: 1, or less in a row whose weight is less. `odd` are sentences about what is odd
    in the battles, or in their times.
    """

    a: Int32s
    b: Int32s
    score_a: Floats
    row: NDArray[np.intp]
    weight: Floats
    odd: list[str]


def in_order(table: BattleTable, *, parts: bool = False) -> OrderedBattles:
    """The battles by `timestamp` where every battle has one, else in file order; a row of weight n is n battles.

    With `parts` a row of weight below 1 is a part of a battle; without, it is an error.
    """
    order, odd = np.arange(len(table)), oddities(table)
    when = table.columns.get("timestamp")
    if isinstance(when, np.ndarray):
        missing = int(np.isnan(when).sum())
        if missing:
            odd.append(f"{missing:,} battles have no timestamp: the order of the file was used")
        else:
            order = np.argsort(when, kind="stable")
    repeats = table.weight[order]
    part = parts & (repeats < 1.0)
    if ((repeats != np.floor(repeats)) & ~part).any():
        raise RatingError(
            "a battle has a weight that is not a whole number: use ",
            OptionValue("method", "bt"),
            ", which allows such weights.",
        )
    if repeats.sum() > MOST_BATTLES:
        raise RatingError(
            f"the weights add up to {repeats.sum():,.0f} battles, which are played one by one. Correct the weights, or "
            "use ",
            OptionValue("method", "bt"),
            ".",
        )
    row = np.repeat(order, np.where(part, np.ceil(repeats), repeats).astype(np.intp))
    score = SCORE_A[table.outcome]
    if table.score_a is not None:
        score = np.where(np.isnan(table.score_a), score, table.score_a)
    weight = np.minimum(table.weight[row], 1.0)
    return OrderedBattles(table.model_a[row], table.model_b[row], score[row], row, weight, odd)


def decisive(table: BattleTable) -> NDArray[np.bool_]:
    """Which rows one model won."""
    return np.asarray((table.outcome == Outcome.A.code) | (table.outcome == Outcome.B.code))


@explains(selection="Which battles are rated.")
@dataclass(frozen=True, slots=True, kw_only=True)
class Elo(EstimatorParameters):
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
        battles = in_order(selected.table)
        ratings = elo.sequential_elo(
            battles.a,
            battles.b,
            battles.score_a,
            n_models=len(selected.table.models),
            k=self.k,
            initial_rating=self.initial_rating,
        )
        settings = BoardSettings(
            **self.selection.settings("elo"),
            k=self.k,
            initial_rating=self.initial_rating,
            interval=IntervalFacts(kind="none"),
        )
        return build_board(
            selected, rating=ratings, settings=settings, evaluated=self.evaluated, remarks=[ORDER_REMARK, *battles.odd]
        )


@explains(selection="Which battles are rated.")
@dataclass(frozen=True, slots=True, kw_only=True)
class PermutationElo(EstimatorParameters):
    """Elo averaged over shuffles of the decisive battles, with a K sweep on the same shuffles.

    Ties and inconsistent judgments are left out.
    """

    k: float = 16.0
    k_sweep: tuple[float, ...] = elo.K_SWEEP
    initial_rating: float = 1400.0
    n_perms: int | None = None
    seed: int = 0
    ci: str = "sampling"
    level: float = 0.95
    cluster: str = "auto"
    evaluated: str | None = None
    selection: Selection = field(default_factory=Selection)

    def __post_init__(self) -> None:
        check_choice("ci", self.ci, ("sampling", "none"))
        asked_clusters(self.cluster)
        _check_scale(self.initial_rating, self.k, *self.k_sweep)
        if self.n_perms is not None:
            check_whole("n_perms", self.n_perms, least=2, most=DRAWS_MAX)
        check_whole("seed", self.seed, least=0)
        check_level(self.level)

    def fit(self, table: BattleData) -> Leaderboard:
        """Rate the battles in `n_perms` orders."""
        selected = select(read_battles(table), self.selection)
        left_out, every = dict(selected.left_out), selected.table
        if ties := float(every.weight[every.outcome == Outcome.TIE.code].sum()):
            left_out["tie (permutation Elo rates decisive battles only)"] = ties
        selected = only_rated_models(every.take(decisive(every)), selected.both_bad, left_out)
        models = selected.table.models
        battles = in_order(selected.table)
        remarks = [*battles.odd]
        n_perms = self.n_shuffles(len(battles.a))
        if self.n_perms is None and n_perms < MANY_SHUFFLES:
            remarks.append(f"{n_perms} shuffles, because there are so many battles; n_perms={MANY_SHUFFLES} plays more")
        result = elo.permutation_elo(
            battles.a,
            battles.b,
            battles.score_a > 0.5,
            n_models=len(models),
            k=self.k,
            k_sweep=self.k_sweep,
            initial_rating=self.initial_rating,
            n_perms=n_perms,
            seed=self.seed,
        )
        trace = result.default
        extra: dict[str, Column] = {name: _or_none(getattr(trace, name)) for name in ("sem", "ci95_low", "ci95_high")}
        if None in extra["sem"]:
            remarks.append(ONE_ORDER)
        interval = IntervalFacts(kind="none")
        low = high = None
        notes: list[str | None] | None = None
        if self.ci != "none" and len(battles.a) < 2:
            notes = [ONE_BATTLE] * len(models)
        elif self.ci != "none":
            clusters = choose_clusters(selected.table, self.cluster)
            low, high = self._sampling_ends(selected.table, battles, clusters.columns, trace)
            extra |= {"sampling_low": low, "sampling_high": high}
            remarks += [*clusters.sentences(), SEM_REMARK]
            columns = ",".join(clusters.columns) or None
            interval = IntervalFacts(kind="sampling", level=self.level, cluster=columns)
            wins = ModelCounts.of(selected).wins > 0
            notes = [
                None if end is not None else ONLY_WON if won else ONLY_LOST for end, won in zip(low, wins, strict=True)
            ]
        return build_board(
            selected,
            rating=trace.mean,
            low=low,
            high=high,
            settings=BoardSettings(
                **self.selection.settings("elo-perm"),
                k=self.k,
                initial_rating=self.initial_rating,
                n_perms=n_perms,
                seed=self.seed,
                interval=interval,
            ),
            evaluated=self.evaluated,
            notes=notes,
            extra=extra,
            remarks=remarks,
            details=BoardDetails(
                k_sensitivity={
                    str(float(trace.k)): dict(
                        zip(models, map(SweepMean, trace.mean.tolist(), _or_none(trace.sem)), strict=True)
                    )
                    for trace in result.sweep
                }
            ),
            arrays={"permutation_ratings": trace.ratings},
        )

    def n_shuffles(self, n_battles: int) -> int:
        if self.n_perms is not None:
            return self.n_perms
        return min(MANY_SHUFFLES, max(FEW_SHUFFLES, PLAYED_BATTLES // n_battles))

    def cost(self, table: BattleTable) -> tuple[int, float]:
        """How many battles of all shuffles and resamples will be played, and about how many seconds that takes."""
        n = max(1, int(table.weight[decisive(table)].sum()))
        ways = len(choose_clusters(table, self.cluster).columns) if self.ci != "none" else 0
        sampled = 0 if self.ci == "none" else max(ways, 1) * elo.n_resampled(n) * elo.SHUFFLES
        shuffled = self.n_shuffles(n)
        lanes = shuffled * len({self.k, *self.k_sweep}) + sampled
        drawn = shuffled + sampled
        return n * drawn, n * (lanes * elo.SECONDS_PER_LANE + drawn * elo.SECONDS_PER_DRAW)

    def _sampling_ends(
        self, table: BattleTable, battles: OrderedBattles, clusters: tuple[str, ...], trace: elo.EloTraces
    ) -> tuple[Column, Column]:
        """The ends of the sampling intervals, the widest of all clusterings; None for a model that has none."""
        ways: list[Int32s | None] = [cluster_codes(table, column)[battles.row] for column in clusters]
        result = [
            elo.sampling_interval(
                battles.a,
                battles.b,
                battles.score_a > 0.5,
                trace.mean,
                clusters=way,
                k=self.k,
                level=self.level,
                seed=self.seed,
            )
            for way in ways or [None]
        ]
        ends = np.min([one.low for one in result], axis=0), np.max([one.high for one in result], axis=0)
        return _or_none(ends[0]), _or_none(ends[1])


def _or_none(values: Floats) -> Column:
    """The values as a column of a board, None for NaN."""
    return [None if math.isnan(value) else value for value in values.tolist()]


def _check_scale(initial_rating: float, *ks: float) -> None:
    check_number("initial_rating", initial_rating, least=-RATING_MAX, most=RATING_MAX)
    for k in ks:
        elo.check_k(k)


@explains(selection="Which battles are rated.", parameters="Constants of Glicko-2.")
@dataclass(frozen=True, slots=True, kw_only=True)
class Glicko2(EstimatorParameters):
    """Glicko-2 ratings, per battle in order, ties ½, both models updated from their states before the battle.

    A battle of weight below 1, such as a vote that an arena counts in part, moves ratings that much less.
    """

    parameters: Glicko2Settings = DEFAULT_SETTINGS
    level: float = 0.95
    evaluated: str | None = None
    selection: Selection = field(default_factory=Selection)

    def __post_init__(self) -> None:
        check_level(self.level)

    def fit(self, table: BattleData) -> Leaderboard:
        """Rate the battles in order."""
        selected = select(read_battles(table), self.selection)
        battles = in_order(selected.table, parts=True)
        state = rate_battles(
            *(battles.a, battles.b, battles.score_a),
            start=len(selected.table.models),
            settings=self.parameters,
            weight=battles.weight,
        )
        half = normal_quantile(self.level) * state.deviation
        settings = BoardSettings(
            **self.selection.settings("glicko2"),
            initial_rating=self.parameters.rating,
            initial_deviation=self.parameters.deviation,
            initial_volatility=self.parameters.volatility,
            tau=self.parameters.tau,
            interval=IntervalFacts(kind="deviation", level=self.level),
        )
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
            remarks=[DEVIATION_REMARK, *battles.odd],
        )

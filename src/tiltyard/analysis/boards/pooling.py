"""Boards by category that learn from each other: every category's ratings are pulled towards the whole board's.

One joint fit (`stats.shrinkage`) rates every model in every category it was seen in. Each category then gets its
board as if it had been rated alone: its own counts and places, intervals that include what the pull may be wrong by.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType

from tiltyard.analysis.boards.bradley_terry import (
    CENTRE,
    TIES_BECAUSE,
    BradleyTerry,
    certainty,
    outside_sentence,
    share_remarks,
    zero_weights,
)
from tiltyard.analysis.boards.leaderboard import Leaderboard
from tiltyard.analysis.boards.misfit import MisfitFacts, report_fit
from tiltyard.analysis.boards.preparation import (
    Clusters,
    FitInput,
    RatedBattles,
    TieReason,
    choose_clusters,
    choose_tie_model,
    cluster_codes,
    connected,
    fixed_order,
    kind_of,
    restrict,
    select,
    ties_have_no_answer,
    without_ties,
)
from tiltyard.analysis.boards.record import PoolFacts
from tiltyard.data.battles import MISSING, BattleTable, Source
from tiltyard.errors import BattleError, OptionError, OptionValue, RatingError, TooLarge
from tiltyard.stats import (
    OWN_CLUSTER,
    POINTS_PER_LOGIT,
    TIE_MODELS,
    Clustering,
    Comparisons,
    PooledFit,
    Reach,
    TieModel,
    count_pairs,
    covariance_within,
    fit_of_category,
    fit_pooled,
    islands,
    reach,
    sum_by,
    ties_bounded,
)
from tiltyard.types import AnyInts, Floats, Ints

MOST_STRENGTHS = 4000
"""Above so many pairs of a category and a model a joint fit would take many minutes."""

ALONE = {
    Reach.UNBEATEN: "unbeaten here: only its battles elsewhere bound it above (pool)",
    Reach.WINLESS: "winless here: only its battles elsewhere bound it below (pool)",
    Reach.APART: "not joined to the others here: only its battles elsewhere bound it (pool)",
}


class _Category(msgspec.Struct, frozen=True, eq=False):
    """One value of the column: its battles as if rated alone, the numbers of its models' strengths in the joint fit.

    `tie_group` holds the joint fit's tie group of battles decided by a judge, and of those decided by people.
    """

    value: str
    alone: FitInput
    ids: Ints
    tie_group: Ints

    @property
    def models(self) -> tuple[str, ...]:
        return self.alone.selected.table.models


def check_poolable(estimator: object) -> BradleyTerry:
    """The estimator, if its boards can be pooled; else an error that says what to leave out."""
    if not isinstance(estimator, BradleyTerry):
        raise OptionError("pool goes with ", OptionValue("method", "bt"), " alone.")
    wrong = {
        OptionValue("ci", estimator.ci): estimator.ci != "sandwich",
        OptionValue("shrink", True): estimator.shrink,
        OptionValue("control", ",".join(estimator.control)): bool(estimator.control),
        OptionValue("slot", True): bool(estimator.slot),
        OptionValue("robustness", True): estimator.robustness,
        OptionValue("anytime", True): estimator.anytime,
    }
    named = [part for choice, given in wrong.items() if given for part in (", ", choice)]
    if named:
        raise OptionError("pool goes with ", OptionValue("ci", "sandwich"), " alone: leave out ", *named[1:], ".")
    return estimator


def pooled_boards(
    table: BattleTable, column: str, estimator: BradleyTerry, leave_out: Callable[[RatingError], None]
) -> dict[str, Leaderboard]:
    """One board per value of a column, all rated together; `leave_out` is told of values that cannot be rated."""
    table = fixed_order(table)
    codes = table.text_column(column).codes
    table = table if (codes != MISSING).all() else table.take(codes != MISSING)
    known = choose_clusters(table, estimator.cluster)
    clusters = tuple(name for name in known.columns if name != column)
    remarks = known.sentences()
    if clusters != known.columns:
        remarks.append(f"the intervals of each board are for its own {kind_of(column)} alone")
    table = replace(table, columns={**table.columns, **{name: table.text_column(name) for name in clusters}})
    joined, outside = _joined(_select(table, column, estimator, leave_out), estimator)
    remarks += outside_sentence(outside)
    categories = _prepare(joined, estimator)
    if len(categories) < 2:
        raise RatingError(
            f"pool needs battles of at least 2 values of {column}, and {len(categories)} can be rated: "
            "there is nothing to pool."
        )
    strengths = sum(len(category.ids) for category in categories)
    if strengths > MOST_STRENGTHS:
        raise TooLarge(
            f"pool fits {strengths:,} pairs of a {column} and a model at once, and {MOST_STRENGTHS:,} is the most",
            "Leave rare models out with ",
            OptionValue("min_battles"),
            ", or rate without pool.",
        )
    estimator._check_memory(strengths, None)
    rows, model, where = _together(categories, clusters)
    tie_model, because = _tie_model(categories, rows, model, estimator)
    remarks += [TIES_BECAUSE[reason] for reason in because]
    pooled = fit_pooled(rows, count_pairs(rows), tie_model, model, where)
    sd = POINTS_PER_LOGIT * math.sqrt(pooled.shrunk.variance)
    if pooled.shrunk.equal:
        differs = f"no model's strength differs by {column} beyond chance, so ratings are nearly those of all battles"
    else:
        differs = (
            f"a model's strength differs by {sd:.0f} points by {column} (standard deviation, estimated); ratings are "
            "pulled towards the model's over all, those with few battles most"
        )
    remarks.append(f"pool: {differs}")
    record = PoolFacts(by=column, categories=len(categories), sd=sd, dispersion=pooled.shrunk.dispersion)
    boards = {}
    for category in categories:
        fit_input = msgspec.structs.replace(category.alone, tie_model=tie_model, clustered=Clusters(clusters))
        board = _board(category, fit_input, pooled, estimator, remarks)
        boards[category.value] = replace(board, settings=msgspec.structs.replace(board.settings, pool=record))
    return boards


def _select(
    table: BattleTable, column: str, estimator: BradleyTerry, leave_out: Callable[[RatingError], None]
) -> list[tuple[str, RatedBattles]]:
    result = []
    for value, part in table.split(column):
        try:
            selected = select(part, estimator.selection)
            selected = without_ties(selected) if estimator.ties == "drop" else selected
            choose_tie_model(selected.table, estimator.ties, controlled=False)  # refuses nothing but ties
        except (BattleError, RatingError) as error:
            leave_out(RatingError(f"{column} {value}: {error}"))
        else:
            result.append((value, selected))
    return result


def _joined(
    result: list[tuple[str, RatedBattles]], estimator: BradleyTerry
) -> tuple[list[tuple[str, RatedBattles]], tuple[str, ...]]:
    """Only models that the battles of all categories join, and the others: an error unless `only_connected`."""
    names = sorted({name for _, selected in result for name in selected.table.models})
    at = {name: code for code, name in enumerate(names)}
    pairs = [np.empty((0, 2), dtype=np.int32)]
    for _, selected in result:
        code = np.array([at[name] for name in selected.table.models], dtype=np.int32)
        pairs.append(np.unique(code[np.column_stack([selected.table.model_a, selected.table.model_b])], axis=0))
    met = np.concatenate(pairs)
    if not len(met):
        return [], ()
    outcome, source = np.zeros((2, len(met)), dtype=np.int8)
    every = BattleTable(tuple(names), met[:, 0], met[:, 1], outcome, source, np.ones(len(met)))
    kept = connected(RatedBattles(every, every.take(outcome > 0), {}), only_connected=estimator.only_connected)
    inside = set(kept.table.models)
    joined = []
    for value, one in result:
        mask = np.array([name in inside for name in one.table.models])
        if mask.any():
            joined.append((value, restrict(one, mask, "model outside the largest connected group")))
    return joined, kept.outside


def _prepare(result: list[tuple[str, RatedBattles]], estimator: BradleyTerry) -> list[_Category]:
    """Every category with its numbers in the joint fit.

    A category whose battles alone do not bound a tie parameter shares that of the largest one that does.
    """
    alone = [estimator._prepare(selected) for _, selected in result]
    own = [ties_bounded(one.counted.cells) for one in alone]
    size = [one.rows.weight.sum() if bounded else 0.0 for one, bounded in zip(alone, own, strict=True)]
    largest = int(np.argmax(size)) if size else 0
    people = bool(alone) and float((alone[largest].selected.table.source == Source.HUMAN.code).mean()) >= 0.5
    common = np.full(2, 2 * largest + int(people))
    starts = np.cumsum([0, *(one.rows.n_models for one in alone)])
    return [
        _Category(
            value,
            one,
            np.arange(starts[number], starts[number + 1]),
            2 * number + np.arange(2) if own[number] else common,
        )
        for number, ((value, _), one) in enumerate(zip(result, alone, strict=True))
    ]


def _together(categories: list[_Category], clusters: tuple[str, ...]) -> tuple[Comparisons, Ints, Ints]:
    """All battles as comparisons between models in categories; for each of those its model, and its category."""
    names = sorted({name for category in categories for name in category.models})
    at = {name: code for code, name in enumerate(names)}
    model = np.array([at[name] for category in categories for name in category.models], dtype=np.int64)
    where = np.repeat(np.arange(len(categories)), [len(category.ids) for category in categories])
    tables = [category.alone.selected.table for category in categories]
    rows = [category.alone.rows for category in categories]
    soft = any(one.share is not None for one in rows)
    shares = [np.full(len(one), np.nan) if one.share is None else one.share for one in rows]
    together = Comparisons(
        n_models=len(model),
        first=np.concatenate([category.ids[one.first] for category, one in zip(categories, rows, strict=True)]),
        second=np.concatenate([category.ids[one.second] for category, one in zip(categories, rows, strict=True)]),
        result=np.concatenate([one.result for one in rows]),
        weight=np.concatenate([one.weight for one in rows]),
        share=np.concatenate(shares) if soft else None,
        group=np.concatenate([one.tie_group[table.source] for one, table in zip(categories, tables, strict=True)]),
        clusters=tuple(np.concatenate([cluster_codes(table, name) for table in tables]) for name in clusters),
    )
    return together, model, where


def _tie_model(
    categories: list[_Category], rows: Comparisons, model: Ints, estimator: BradleyTerry
) -> tuple[TieModel, list[TieReason]]:
    """One tie model for all categories; half-wins, with the reasons, where one is soft or nothing bounds it."""
    tables = [category.alone.selected.table for category in categories]
    models, reasons = zip(*(choose_tie_model(table, estimator.ties, controlled=False) for table in tables), strict=True)
    because = list(dict.fromkeys(filter(None, reasons)))
    half = [one for one in models if not one.has_parameter]
    if half:
        return half[0], because
    over_all = msgspec.structs.replace(
        rows, n_models=int(model.max()) + 1, first=model[rows.first], second=model[rows.second]
    )
    if ties_have_no_answer(count_pairs(over_all), models[0]):
        return TIE_MODELS["half"], ["unbounded"]
    return models[0], because


def _board(
    category: _Category, fit_input: FitInput, pooled: PooledFit, estimator: BradleyTerry, remarks: list[str]
) -> Leaderboard:
    cells, tie = category.alone.counted.cells, pooled.shrunk.fit.parameters.tie[category.tie_group]
    if cells.n_groups == 1:
        tie = tie[category.alone.selected.table.source[:1]]
    fitted = fit_of_category(pooled, category.ids, cells, tie)
    table, weight = fit_input.selected.table, fit_input.rows.weight
    ways = tuple(
        _clusters_within(cluster_codes(table, name), weight, way.effective[category.ids])
        for name, way in zip(fit_input.clusters, pooled.covariance.ways, strict=True)
    )
    covariance = covariance_within(pooled, category.ids, ways)
    remarks = [*remarks, *share_remarks(covariance, fit_input.clusters)]
    anchor = estimator._anchor_code(fit_input)
    sure = certainty(fitted, fit_input, covariance, anchor=anchor, level=estimator.level, rounds=0, seed=estimator.seed)
    state = pooled.state[category.ids]
    joined = len(islands(cells)) <= 1
    misfit: MisfitFacts | UnsetType = UNSET
    if estimator.reads_times and joined:  # a plain fit of the category alone
        misfit, lines = report_fit(category.alone, None, seed=estimator.seed)
        remarks += lines
    elif estimator.reads_times:
        misfit = MisfitFacts(checked=False, reason="groups of models never met here")
        remarks.append(f"fit not checked: {misfit.reason}")
    board = estimator._board(fit_input, fitted, state, sure, misfit, remarks)
    means = pooled.means[category.ids]
    weights = zero_weights(covariance.known, anchor)
    zero = float(means.mean() if weights is None else weights @ means)
    start = CENTRE if estimator.anchor is None else estimator.anchor[1]
    over_all = dict(zip(category.models, start + POINTS_PER_LOGIT * (means - zero), strict=True))
    here = np.where(state == Reach.HELD, reach(cells) if joined else Reach.HELD, Reach.HELD)
    notes = {name: ALONE.get(Reach(one)) for name, one in zip(category.models, here.tolist(), strict=True)}
    entries = tuple(
        replace(
            entry,
            note="; ".join(filter(None, (entry.note, notes[entry.model]))) or None,
            extra={**entry.extra, "rating_over_all": float(over_all[entry.model])},
        )
        for entry in board.entries
    )
    return replace(board, entries=entries)


def _clusters_within(codes: AnyInts, weight: Floats, effective: Floats) -> Clustering:
    """How many clusters a category's battles have, and what they are worth; `effective` is that of each model's."""
    named = codes != OWN_CLUSTER
    size = sum_by(codes[named], weight[named], int(codes.max(initial=-1)) + 1)
    size = np.concatenate([size[size > 0.0], weight[~named]])
    total = float(size.sum())
    worth = total**2 / float(size @ size)
    return Clustering(np.empty((0, 0)), float(len(size)), worth, effective, float(size.max()) / total)

"""Two models of the same battles: is the new one better than the old one, by how much, and how sure is that."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from tiltyard.battles.battle import Outcome
from tiltyard.battles.formats import likely_clusters, likely_dimension
from tiltyard.battles.inputs import SCORES
from tiltyard.battles.missing_verdicts import MissingVerdicts, no_go
from tiltyard.battles.reading import BattleData, Opened, peek
from tiltyard.battles.table import BattleTable, concat
from tiltyard.boards.bradley_terry import BradleyTerry, Solved, cluster_notes, interval_settings
from tiltyard.boards.preparation import DIMENSION, Selection, dimensions_of, known_clusters, known_models, settle_sides
from tiltyard.boards.rating import read_for
from tiltyard.decisions.contrast import Contrast, contrast, fit_sides, solve_plainly
from tiltyard.decisions.missing import Missing, add_decided, in_part, missing_among, part_of, worst_case
from tiltyard.decisions.obstacles import NOTHING, distinct, obstacles, only_for
from tiltyard.decisions.picked import candidates, for_picked, level_for
from tiltyard.decisions.prompts import PROMPT, prompt_scores, scores
from tiltyard.decisions.records import Difference, EstimatedDifference, HeadToHead, PartDifference, with_missing
from tiltyard.decisions.scores import difference_of_scores
from tiltyard.decisions.sources import open_source
from tiltyard.decisions.words import side, signed, size_of
from tiltyard.errors import (
    BattleError,
    Message,
    NotConnected,
    OptionError,
    OptionValue,
    RatingError,
    ScoreError,
)
from tiltyard.options import CompareOptions, FitOptions, InputOptions, MissingRule
from tiltyard.ratings import POINTS_PER_LOGIT
from tiltyard.ratings.tie_models import FAR
from tiltyard.scores import read_scores

VOTER = "voter"
EVERYTHING = ("", "")
WITH_SIDES = ("", "sides")
SolvedBefore = dict[tuple[str, str], "Solved"]
"""Fits by column and value, and of all battles under `EVERYTHING`, with the first side's advantage `WITH_SIDES`."""
PARTS = ("dimension", "category")
"""The columns by whose values a difference is also given, where battles have them."""
MANY_VALUES = 40
"""A column with more values than this is not taken apart: the intervals of so many would say nothing."""
UNLIKE = 0.01
"""Below this p-value the battles between the two and those through the field are said to disagree."""


ABOUT_RUNS = ("anyway", "unchanged")


def compare_models(battles: BattleData, new: str, old: str, options: CompareOptions) -> Difference:
    """Whether `new` is better than `old` in some battles, by how much in rating points, and how sure that is."""
    options.refuse(ABOUT_RUNS, " is about two runs: leave it out for two models of the same battles.")
    selection, by = options.part(Selection), options.by
    estimator = make_bradley_terry(
        options, level=level_for(options), control=tuple(options.control or ()), slot=options.slot
    )
    where_from = open_source(battles)
    table = read_to_compare(where_from.battles, estimator, options.part(InputOptions), by)
    known = where_from.prompt_texts() if options.texts is None else options.texts
    lost = missing_among(where_from.missing_verdicts(), table, selection, filtered=options.where is not None)
    lost = lost.only(entrants={new, old})
    missing = {one.dimension for one in lost.matchups}
    result = compare_in(
        table,
        new,
        old,
        estimator,
        by=by,
        texts=known,
        anytime=options.anytime,
        dimensions=missing,
        likely=likely_to_cluster(where_from.battles, table, options.part(InputOptions)),
    )
    result = replace(
        result,
        obstacles=(*no_go(where_from.battles), *result.obstacles),
        remarks=(*result.remarks, *_unnamed_dimension(where_from.battles, table, options.part(InputOptions))),
    )
    result = _with_missing(result, table, lost, estimator, options.missing)
    if where_from.folder is not None and (where_from.folder / SCORES).is_file() and selection.dimension is None:
        worse = worse_by_scores(where_from.folder / SCORES, new, old, options)
        result = replace(result, obstacles=(*result.obstacles, *worse))
    return for_picked(result, options.picked_from)


def worse_by_scores(scores: BattleData, new: str, old: str, options: CompareOptions) -> list[str]:
    """A clause for each metric by which the scores of the same runs say that the new one is worse, all at once."""
    try:
        tables = [table for table in read_scores(scores) if {new, old} <= table.models.keys()]
    except ScoreError:  # no answer has a score
        return []
    worse = []
    for table in tables:
        level = 1.0 - (1.0 - level_for(options)) / len(tables)
        try:
            found = difference_of_scores(table, new, old, CompareOptions(level=level, anytime=options.anytime))
        except ScoreError:  # no prompt has a score of both
            continue
        if side(found.low, found.high) == "worse":
            worse.append(f"{new} is worse by {table.metric} in {SCORES}, {size_of(found, found.low, found.high)}")
    return worse


def make_bradley_terry(options: FitOptions, **more: Any) -> BradleyTerry:
    """The estimator behind a decision: Bradley–Terry over the battles that count, without a check of its fit."""
    given = {"ties": options.ties, "cluster": options.cluster, **more}
    given = {name: value for name, value in given.items() if value is not None}
    return BradleyTerry(**given, misfit=False, selection=options.part(Selection))


def _with_missing(
    result: Difference, table: BattleTable, lost: MissingVerdicts, estimator: BradleyTerry, rule: MissingRule
) -> Difference:
    """The difference with what its matchups without a verdict could change, on the whole and in each part."""
    new, old = result.new, result.old
    if estimator.slot is None:
        table, _ = settle_sides(table, mark_all=True)

    def missing_in(battles: BattleTable, some: MissingVerdicts) -> Missing:
        def fit(against: bool) -> Contrast:
            best, worst = (old, new) if against else (new, old)
            decided = add_decided(
                battles, some.matchups, lambda one: best if best in one.entrants else one.rival(worst)
            )
            plain, joined, _ = _solved_together(decided, estimator, new, old, {})
            sides = fit_sides(plain, new, old, estimator, lambda other: other.solve(joined))
            if sides.obstacles:
                raise RatingError(f"{'; '.join(sides.obstacles)}.")
            return contrast(sides.solved, new, old)

        by_entrant = {name: some.by_entrant.get(name, 0) for name in (new, old)}
        return Missing.of_verdicts(some, by_entrant, worst_case(fit), rule)

    def of_part(column: str, value: str) -> Missing | None:
        some = in_part(lost, table, column, value)
        return missing_in(part_of(table, column, value), some) if some else None

    return with_missing(result, missing_in(table, lost), of_part) if lost else result


def likely_to_cluster(battles: BattleData, table: BattleTable, reading: InputOptions) -> Mapping[str, str]:
    """Columns of the source that may name the prompt or the voter; none where one of them is known."""
    if known_clusters(table.columns):
        return NOTHING
    return likely_clusters(peek(battles, reading.format, reading.default_source, reading.map).raw_columns)


def _unnamed_dimension(battles: BattleData, table: BattleTable, reading: InputOptions) -> list[Message]:
    """That a column of the source may name dimensions, whose battles are then taken together."""
    if DIMENSION in table.columns:
        return []
    name = likely_dimension(peek(battles, reading.format, reading.default_source, reading.map).raw_columns)
    chosen = OptionValue("map", {DIMENSION: name})
    return (
        [] if name is None else [Message(f"battles of every {name} are taken together: if it is a dimension, ", chosen)]
    )


def read_to_compare(
    battles: BattleData, estimator: BradleyTerry, reading: InputOptions, by: Sequence[str] | None = None
) -> BattleTable:
    """The battles with every column that a difference looks at."""
    battles = Opened.of(battles)
    if isinstance(battles.data, BattleTable):
        return read_for(estimator, battles, reading)
    there = peek(battles, reading.format, reading.default_source, reading.map).columns
    wanted = (*(PARTS if by is None else ()), PROMPT, VOTER)
    return read_for(estimator, battles, reading, also=(*(name for name in wanted if name in there), *(by or ())))


def compare_in(
    table: BattleTable,
    new: str,
    old: str,
    estimator: BradleyTerry,
    *,
    by: Sequence[str] | None = None,
    texts: Mapping[str, str] | None = None,
    anytime: bool = False,
    level: float | None = None,
    solved_before: SolvedBefore | None = None,
    dimensions: Collection[str] = (),
    likely: Mapping[str, str] = NOTHING,
) -> Difference:
    """The difference of two models in a table of battles, with an estimator that is built already.

    `dimensions` are those of matchups without a verdict, of which there may be no battle; `likely` are columns of the
    source that may name the prompt or the voter, where none does.
    """
    level = estimator.level if level is None else level
    before = {} if solved_before is None else solved_before
    _check_names(table, new, old)
    labels: list[str] = []
    if estimator.slot is None:
        table, labels = settle_sides(table, mark_all=True)
    plain, joined, apart = _solved_together(table, estimator, new, old, before)
    sides = fit_sides(plain, new, old, estimator, partial(_solve_once, joined, before=before, key=WITH_SIDES))
    solved = sides.solved
    result = contrast(solved, new, old)
    selected = solved.fit_input.selected
    ours = _of_either(selected.table, new, old)
    fitting = replace(estimator, slot=solved.fit_input.slot)
    direct = _head_to_head(selected.table, selected.both_bad, new, old, fitting, level, anytime=anytime)
    estimate = estimate_of(result, solved, level, ours.n_battles, anytime=anytime, bounded=True)
    if direct is not None and direct.estimate is not None and direct.estimate.n_battles >= ours.n_battles:
        alone = direct.estimate  # only the two met: their mean result is known, and need not be fitted
        estimate = replace(
            estimate, win_rate=alone.win_rate, win_rate_low=alone.win_rate_low, win_rate_high=alone.win_rate_high
        )
    if sides.obstacles:
        estimate = replace(estimate, probability_better=None)
        direct = None if direct is None else direct.unsure()
    remarks = [*apart, *labels, *solved.remarks, *sides.remarks, *_disagreement(direct, result, level)]
    if len(np.unique(selected.table.source)) > 1:
        remarks.append("verdicts of a judge and votes of people are taken together; source=... takes one of them")
    if not result.known:
        remarks.append("no interval: the battles of one of the two come from too few prompts or voters")
    remarks += few_clusters(solved, (new, old))
    only = only_for(solved, estimator)
    counted = concat([ours, _of_either(selected.both_bad, new, old)])
    pooled = dimensions_of(counted, estimator.selection, dimensions)
    models = selected.table.models
    return Difference(
        new=new,
        old=old,
        estimate=estimate,
        contrast=result,
        level=level,
        direct=direct,
        parts=_parts(table, new, old, estimator, pooled, by, level, before, anytime=anytime),
        prompts=prompt_scores(concat([selected.table, selected.both_bad]), new, old, texts),
        n_battles=ours.n_battles,
        n_prompts=distinct(ours, PROMPT),
        n_voters=distinct(ours, VOTER),
        interval={"level": level, **interval_settings(solved.covariance, solved.fit_input.clusters)},
        left_out=selected.left_out,
        remarks=tuple(dict.fromkeys(remarks)),
        anytime=anytime,
        only_for=only,
        obstacles=(*sides.obstacles, *obstacles(solved, (new, old), estimator, likely)),
        first_side=sides.advantage,
        dimensions=pooled,
        best_of=candidates(solved.fit.parameters.strength, models.index(new), models.index(old)),
    )


def _solve_once(table: BattleTable, estimator: BradleyTerry, before: SolvedBefore, key: tuple[str, str]) -> Solved:
    """The fit, or the one of this key that was made before."""
    if key not in before:
        before[key] = estimator.solve(table) if key == WITH_SIDES else solve_plainly(table, estimator)
    return before[key]


def _solved_together(
    table: BattleTable, estimator: BradleyTerry, new: str, old: str, before: SolvedBefore
) -> tuple[Solved, BattleTable, list[str]]:
    """The fit of everyone whom battles join to the two, their battles, and a sentence about the others."""
    try:
        return _solve_once(table, estimator, before, EVERYTHING), table, []
    except NotConnected as error:
        group = next((group for group in error.islands if new in group), [])
        if old not in group:
            raise RatingError(
                f"{new} and {old} never met, and no chain of battles joins them: nothing compares them. "
                "Add battles between them, or against the same other models."
            ) from None
    joined = among(table, group)
    left = len(table.models) - len(joined.models)
    before.pop(WITH_SIDES, None)
    return (
        solve_plainly(joined, estimator),
        joined,
        [f"left out: {left} models that no chain of battles joins to the two"],
    )


def among(table: BattleTable, models: Collection[str]) -> BattleTable:
    """The battles between some of the models."""
    inside = np.array([name in models for name in table.models], dtype=bool)
    return table.take(inside[table.model_a] & inside[table.model_b]).compact()


def few_clusters(solved: Solved, names: Sequence[str]) -> list[str]:
    """A sentence for each of these models whose battles come from too few prompts or voters."""
    notes = cluster_notes(solved.covariance, solved.fit_input.clusters)
    models = solved.fit_input.selected.table.models
    named = [(name, notes[models.index(name)] if notes else None) for name in names]
    return [f"{name}: {text}" for name, text in named if text is not None]


def _check_names(table: BattleTable, new: str, old: str) -> None:
    if new == old:
        raise OptionError(f"{new!r} is compared with itself: give two different models, the new one first.")
    for name in (new, old):
        if name not in table.models:
            raise OptionError(f"no battle of {name!r}. {known_models(table)}")


def _of_either(table: BattleTable, new: str, old: str) -> BattleTable:
    """The battles in which one of the two took part."""
    codes = [table.models.index(new), table.models.index(old)]
    return table.take(np.isin(table.model_a, codes) | np.isin(table.model_b, codes))


def _between(table: BattleTable, new: str, old: str) -> BattleTable:
    """The battles between the two, the new one always on side A."""
    i, j = table.models.index(new), table.models.index(old)
    forward = table.take((table.model_a == i) & (table.model_b == j))
    backward = table.take((table.model_a == j) & (table.model_b == i)).swapped()
    return forward if not len(backward) else backward if not len(forward) else concat([forward, backward])


def estimate_of(
    result: Contrast, solved: Solved, level: float, n_battles: float, *, anytime: bool = False, bounded: bool = False
) -> EstimatedDifference:
    """The difference in points, and the mean result that the fit expects of such a difference.

    With `bounded`, a mean result that nothing else bounds ends at 0 or 1.
    """
    low, high = result.ends(level, anytime=anytime)
    rate, rate_low, rate_high = (mean_result(solved, points) for points in (result.points, low, high))
    assert rate is not None
    if result.known and bounded:
        rate_low = 0.0 if rate_low is None else rate_low
        rate_high = 1.0 if rate_high is None else rate_high
    return EstimatedDifference(
        result.points, low, high, result.probability_above(anytime=anytime), rate, rate_low, rate_high, n_battles
    )


def mean_result(solved: Solved, points: float | None) -> float | None:
    """What a model that many points ahead gets on average: 1 for a win, a half for a tie; ties of the first kind."""
    if points is None:
        return None
    fit, logit = solved.fit, points / POINTS_PER_LOGIT
    if abs(logit) > FAR:
        return float(logit > 0.0)
    if not len(fit.tied_groups):  # nobody tied, or ties are half-wins
        return 1.0 / (1.0 + math.exp(-logit))
    won, _, tied = fit.tie_model.chances(np.array([logit]), fit.parameters.tie[fit.tied_groups[:1]])[0]
    return float(won + 0.5 * tied)


def _head_to_head(
    table: BattleTable,
    both_bad: BattleTable,
    new: str,
    old: str,
    estimator: BradleyTerry,
    level: float,
    *,
    anytime: bool,
) -> HeadToHead | None:
    """What the battles between the two alone say; None where they never met.

    The mean result of two models is the chance that Bradley–Terry with ties as half-wins gives, so the interval of
    the one is that of the other: it never leaves 0 to 1, and is clustered in the same way.
    """
    rated, bad = _between(table, new, old), _between(both_bad, new, old)
    if not len(rated) and not len(bad):
        return None
    won, lost, tied = (
        float(rated.weight[rated.outcome == result].sum())
        for result in (Outcome.A.code, Outcome.B.code, Outcome.TIE.code)
    )
    estimate = rate = None
    if len(rated):
        rate = float((rated.weight * scores(rated)).sum() / rated.n_battles)
        codes = [table.models.index(new), table.models.index(old)]
        met = np.isin(table.model_a, codes) & np.isin(table.model_b, codes)
        as_shown = table.take(met) if estimator.slot else rated
        estimate = _direct_estimate(as_shown, rate, new, old, estimator, level, anytime=anytime)
    return HeadToHead(won, lost, tied, bad.n_battles, estimate, rate)


def _direct_estimate(
    rated: BattleTable, rate: float, new: str, old: str, estimator: BradleyTerry, level: float, *, anytime: bool
) -> EstimatedDifference | None:
    """The difference of the two from their own battles, and their mean result with its interval.

    Where the first side's advantage or style is fitted, the mean result is that of battles without it.
    """
    already, adjusted = replace(estimator, selection=Selection()), bool(estimator.slot or estimator.control)
    try:
        solved = already.solve(rated.compact())
        halves = replace(already, ties="half").solve(rated.compact())
    except (BattleError, RatingError, OptionError):
        if adjusted:  # these battles alone do not tell the two from their sides, or their style
            return None
        # ties alone: nothing to tell the two apart by
        return EstimatedDifference(0.0, None, None, None, rate, None, None, rated.n_battles)
    result, half = contrast(solved, new, old), contrast(halves, new, old)
    rates = estimate_of(half, halves, level, rated.n_battles, anytime=anytime, bounded=True)
    return replace(
        estimate_of(result, solved, level, rated.n_battles, anytime=anytime, bounded=True),
        win_rate=rates.win_rate if adjusted else rate,
        win_rate_low=rates.win_rate_low,
        win_rate_high=rates.win_rate_high,
    )


def _disagreement(direct: HeadToHead | None, result: Contrast, level: float) -> list[str]:
    """A sentence where the battles between the two and those through the field tell different stories.

    The difference between them is set against the part of the variance that the field takes away (Hausman's test).
    """
    if direct is None or direct.estimate is None or not result.known:
        return []
    own = direct.estimate
    if own.low is None or own.high is None:
        return []
    from scipy.special import ndtr, ndtri

    error = (own.high - own.low) / (2.0 * float(ndtri(0.5 + 0.5 * level)))
    gap = own.difference - result.points
    spread = error * error - result.error * result.error
    if spread <= 0.05 * error * error or 2.0 * float(ndtr(-abs(gap) / spread**0.5)) > UNLIKE:
        return []
    return [
        f"their own battles say {signed(own.difference)} points, all battles together {signed(result.points)}: more "
        "apart than chance explains, so the field may rate them on other things than they differ in"
    ]


def _parts(
    table: BattleTable,
    new: str,
    old: str,
    estimator: BradleyTerry,
    dimensions: Sequence[str],
    by: Sequence[str] | None,
    level: float,
    before: SolvedBefore,
    *,
    anytime: bool,
) -> tuple[PartDifference, ...]:
    """The difference for each value of each column, with intervals that hold for all values of a column at once."""
    parts: list[PartDifference] = []
    for column in dict.fromkeys((DIMENSION, *(PARTS if by is None else by))):
        if column == DIMENSION:
            values = {value: part_of(table, DIMENSION, value) for value in dimensions}
        else:
            values = dict(table.split(column)) if column in table.columns else {}
        if len(values) < 2 or (by is None and column != DIMENSION and len(values) > MANY_VALUES):
            continue
        inside = 1.0 - (1.0 - level) / len(values)
        for value, battles in values.items():
            estimate, result, reason = None, None, None
            against: tuple[str, ...] = ()
            try:
                _check_names(battles, new, old)
                joined = replace(estimator, only_connected=True)
                plain = _solve_once(battles, joined, before, (column, value))
                sides = fit_sides(plain, new, old, joined, partial(BradleyTerry.solve, table=battles))
                if sides.obstacles:
                    raise RatingError(f"{'; '.join(sides.obstacles)}.")
                solved = sides.solved
                result = contrast(solved, new, old)
                ours = _of_either(solved.fit_input.selected.table, new, old)
                estimate = estimate_of(result, solved, inside, ours.n_battles, anytime=anytime, bounded=True)
                against = obstacles(solved, (new, old), joined)
            except (BattleError, RatingError, OptionError) as error:
                reason = str(error)
            parts.append(PartDifference(column, value, estimate, result, reason, obstacles=against))
    return tuple(parts)

"""Two models of the same battles: is the new one better than the old one, by how much, and how sure is that."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec
import numpy as np

from tiltyard.battles import (
    MANIFEST,
    MATCHES,
    MISSING,
    SCORES,
    BattleData,
    BattleTable,
    MissingVerdicts,
    Opened,
    Outcome,
    concat,
    likely_clusters,
    likely_dimension,
    no_go,
    peek,
    run_files,
)
from tiltyard.battles.missing_verdicts import missing_verdicts
from tiltyard.boards import (
    DIMENSION,
    FEW_CLUSTERS,
    BradleyTerry,
    Selection,
    Solved,
    asked_clusters,
    cluster_notes,
    dimensions_of,
    interval_settings,
    kind_of,
    known_clusters,
    known_models,
    nameless,
    read_for,
    settle_sides,
)
from tiltyard.decisions.answer import (
    MANY_VALUES,
    EstimatedDifference,
    HeadToHead,
    OnlyFor,
    PartDifference,
    PromptScore,
    RatingDifference,
    candidates,
    for_picked,
    level_for,
    shared_level,
    side,
    with_missing,
)
from tiltyard.decisions.compare_scores import difference_of_scores
from tiltyard.decisions.contrast import Contrast, contrast, fit_sides, solve_plainly
from tiltyard.decisions.missing import (
    PROMPT,
    Missing,
    add_decided,
    missing_among,
    missing_in_part,
    part_of,
    worst_case,
)
from tiltyard.decisions.render import size_of
from tiltyard.decisions.units import POINTS
from tiltyard.errors import (
    BattleError,
    Message,
    NotConnected,
    OptionError,
    OptionValue,
    RatingError,
    RunFolderError,
    ScoreError,
)
from tiltyard.options import CompareOptions, FitOptions, InputOptions
from tiltyard.ratings import FAR, POINTS_PER_LOGIT, sum_by
from tiltyard.scores import read_scores
from tiltyard.types import Floats

VOTER = "voter"
EVERYTHING = ("", "")
WITH_SIDES = ("", "sides")
SolvedBefore = dict[tuple[str, str], "Solved"]
"""Fits by column and value, and of all battles under `EVERYTHING`, with the first side's advantage `WITH_SIDES`."""
PARTS = ("dimension", "category")
"""The columns by whose values a difference is also given, where battles have them."""
UNLIKE = 0.01
"""Below this p-value the battles between the two and those through the field are said to disagree."""
NOTHING: Mapping[str, str] = MappingProxyType({})
MOST_NAMELESS = 0.05
"""A gate decides nothing where a larger part of the battles names no prompt, or no voter, though others do."""


class BattleSource(msgspec.Struct, frozen=True, eq=False):
    """Battles, and what is known about where they come from.

    Parameters:
        name: What to call them.
        battles: The battles, opened.
        folder: The run folder; None where they are no run.
        judge: The judge of a run.
        rubrics: A fingerprint of each dimension's rubric.
        bank: A fingerprint of the prompt bank.
        answers: A fingerprint of each entrant's answers.
    """

    name: str
    battles: Opened
    folder: Path | None = None
    judge: str | None = None
    rubrics: Mapping[str, str] = {}
    bank: str | None = None
    answers: Mapping[str, str] = {}

    @property
    def scores(self) -> Path | None:
        """The scores beside the battles of a run; None where it has none."""
        path = None if self.folder is None else self.folder / SCORES
        return path if path is not None and path.is_file() else None

    def prompt_texts(self) -> dict[str, str]:
        """The text of every prompt of a run, by id; empty where they are not known."""
        if self.folder is None or not (self.folder / MATCHES).is_file():
            return {}
        texts: dict[str, str] = {}
        with (self.folder / MATCHES).open("rb") as file:
            for number, line in enumerate(file, start=1):
                try:
                    match = json.loads(line)
                    texts.setdefault(match["prompt_id"], match["prompt_text"])
                except (ValueError, KeyError, TypeError):
                    where = f"{self.folder / MATCHES}:{number}"
                    raise RunFolderError(
                        f"{where}: not a match of a run. Write it again with `tiltyard run`."
                    ) from None
        return texts


def is_run_folder(path: Path) -> bool:
    """Whether a folder is that of a run with battles or verdicts."""
    return bool(run_files(path))


def battle_source(data: BattleData, unnamed: str = "battles") -> BattleSource:
    """Battles from anywhere; a path to a run folder also gives its judge, rubrics, bank and answers."""
    opened = Opened.of(data)
    folder = Path(opened.paths[0]) if len(opened.paths) == 1 else None
    if folder is None or not is_run_folder(folder):
        return BattleSource(" and ".join(Path(path).stem for path in opened.paths[:3]) or unnamed, opened)
    try:
        manifest = json.loads((folder / MANIFEST).read_bytes())
    except ValueError as error:
        raise RunFolderError(f"{folder / MANIFEST}: torn or not JSON ({error}).") from None
    if not isinstance(manifest, dict):
        raise RunFolderError(f"{folder / MANIFEST}: expected one JSON object.")

    def texts(value: Any) -> dict[str, Any]:
        return value if isinstance(value, dict) else {}

    hashes = texts(manifest.get("sha256"))
    judge, bank = manifest.get("judge_model"), hashes.get("bank")
    return BattleSource(
        folder.name or str(folder),
        opened,
        folder=folder,
        judge=None if judge is None else str(judge),
        rubrics={**texts(manifest.get("rubric_versions")), **texts(hashes.get("rubrics"))},
        bank=None if bank is None else str(bank),
        answers=texts(hashes.get("responses")),
    )


def compare_models(battles: BattleData, new: str, old: str, options: CompareOptions) -> RatingDifference:
    """Whether `new` is better than `old` in some battles, by how much in rating points, and how sure that is."""
    options.refuse(("anyway", "unchanged"), " is about two runs: leave it out for two models of the same battles.")
    selection, reading = options.part(Selection), options.part(InputOptions)
    estimator = make_bradley_terry(
        options, level=level_for(options), control=tuple(options.control or ()), slot=options.slot
    )
    source = battle_source(battles)
    table = read_to_compare(source.battles, estimator, reading, options.by)
    lost = missing_among(missing_verdicts(source.battles), table, selection, filtered=options.where is not None)
    lost = lost.only(entrants={new, old})
    result = compare_in(
        table,
        new,
        old,
        estimator,
        by=options.by,
        texts=source.prompt_texts() if options.texts is None else options.texts,
        anytime=options.anytime,
        dimensions={matchup.dimension for matchup in lost.matchups},
        likely=likely_to_cluster(source.battles, table, reading),
    )
    remarks = [*result.remarks]
    if DIMENSION not in table.columns and (name := likely_dimension(_raw_columns(source.battles, reading))):
        chosen = OptionValue("map", {DIMENSION: name})
        remarks.append(Message(f"battles of every {name} are taken together: if it is a dimension, ", chosen))
    result = replace(result, obstacles=(*no_go(source.battles), *result.obstacles), remarks=tuple(remarks))
    if lost:
        result = _with_missing(result, table, lost, estimator, options)
    if source.scores is not None and selection.dimension is None:
        worse = worse_by_scores(source.scores, new, old, options)
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
        asked = CompareOptions(level=shared_level(level_for(options), len(tables)), anytime=options.anytime)
        try:
            found = difference_of_scores(table, new, old, asked)
        except ScoreError:  # no prompt has a score of both
            continue
        if side(found.low, found.high) == "worse":
            worse.append(f"{new} is worse by {table.metric} in {SCORES}, {size_of(found, found.low, found.high)}")
    return worse


def make_bradley_terry(options: FitOptions, **more: Any) -> BradleyTerry:
    """The estimator behind a decision: Bradley–Terry over the battles that count, without a check of its fit."""
    chosen = {"ties": options.ties, "cluster": options.cluster, **more}
    chosen = {name: value for name, value in chosen.items() if value is not None}
    return BradleyTerry(**chosen, misfit=False, selection=options.part(Selection))


def _with_missing(
    result: RatingDifference,
    table: BattleTable,
    lost: MissingVerdicts,
    estimator: BradleyTerry,
    options: CompareOptions,
) -> RatingDifference:
    """The difference with what its matchups without a verdict could change, on the whole and in each part."""
    new, old = result.new, result.old
    if estimator.slot is None:
        table, _ = settle_sides(table, mark_all=True)

    def missing_in(battles: BattleTable, some: MissingVerdicts) -> Missing:
        def fit(against: bool) -> Contrast:
            best, worst = (old, new) if against else (new, old)
            decided = add_decided(
                battles,
                some.matchups,
                lambda matchup: best if best in matchup.entrants else matchup.rival(worst),
            )
            plain, joined, _ = _solved_together(decided, estimator, new, old, {})
            sides = fit_sides(plain, new, old, estimator, lambda other: other.solve(joined))
            if sides.obstacles:
                raise RatingError(f"{'; '.join(sides.obstacles)}.")
            return contrast(sides.solved, new, old)

        by_name = {name: some.by_entrant.get(name, 0) for name in (new, old)}
        return Missing.of_verdicts(some, by_name, worst_case(fit), options.missing)

    def in_part(column: str, value: str) -> Missing | None:
        some = missing_in_part(lost, table, column, value)
        return missing_in(part_of(table, column, value), some) if some else None

    return with_missing(result, missing_in(table, lost), in_part)


def _raw_columns(battles: BattleData, reading: InputOptions) -> Any:
    return peek(battles, reading.format, reading.default_source, reading.map).raw_columns


def likely_to_cluster(battles: BattleData, table: BattleTable, reading: InputOptions) -> Mapping[str, str]:
    """Columns of the source that may name the prompt or the voter; none where one of them is known."""
    return NOTHING if known_clusters(table.columns) else likely_clusters(_raw_columns(battles, reading))


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
    solved_before: SolvedBefore | None = None,
    dimensions: Collection[str] = (),
    likely: Mapping[str, str] = NOTHING,
) -> RatingDifference:
    """The difference of two models in a table of battles, with an estimator that is built already.

    `dimensions` are those of matchups without a verdict, of which there may be no battle; `likely` are columns of the
    source that may name the prompt or the voter, where none does.
    """
    level = estimator.level
    before = {} if solved_before is None else solved_before
    _check_names(table, new, old)
    labels: list[str] = []
    if estimator.slot is None:
        table, labels = settle_sides(table, mark_all=True)
    plain, joined, apart = _solved_together(table, estimator, new, old, before)
    sides = fit_sides(plain, new, old, estimator, partial(_solve_once, joined, before=before, key=WITH_SIDES))
    solved = sides.solved
    found, selected = contrast(solved, new, old), solved.fit_input.selected
    ours = _of_either(selected.table, new, old)
    direct = _head_to_head(
        solved, new, old, replace(estimator, slot=solved.fit_input.slot, selection=Selection()), anytime=anytime
    )
    estimate = estimate_of(found, solved, level, ours.n_battles, anytime=anytime, bounded=True)
    if direct is not None and direct.estimate is not None and direct.estimate.n_battles >= ours.n_battles:
        rates = {name: getattr(direct.estimate, name) for name in ("win_rate", "win_rate_low", "win_rate_high")}
        estimate = msgspec.structs.replace(estimate, **rates)  # only the two met: their mean result is known
    disagreement = _disagreement(direct, found, level)
    if sides.obstacles:
        estimate = msgspec.structs.replace(estimate, probability_better=None)
        if direct is not None and direct.estimate is not None:
            unsure = msgspec.structs.replace(direct.estimate, probability_better=None)
            direct = msgspec.structs.replace(direct, estimate=unsure)
    remarks = [*apart, *labels, *solved.remarks, *sides.remarks, *disagreement]
    if len(np.unique(selected.table.source)) > 1:
        remarks.append("verdicts of a judge and votes of people are taken together; source=... takes one of them")
    if not found.known:
        remarks.append("no interval: the battles of one of the two come from too few prompts or voters")
    remarks += few_clusters(solved, (new, old))
    pooled = dimensions_of(concat([ours, _of_either(selected.both_bad, new, old)]), estimator.selection, dimensions)
    models = selected.table.models
    return RatingDifference(
        new=new,
        old=old,
        estimate=estimate,
        contrast=found,
        level=level,
        direct=direct,
        parts=tuple(_parts(table, new, old, estimator, pooled, by, before, anytime=anytime)),
        prompts=prompt_scores(concat([selected.table, selected.both_bad]), new, old, texts or {}),
        n_battles=ours.n_battles,
        n_prompts=distinct(ours, PROMPT),
        n_voters=distinct(ours, VOTER),
        interval={
            "level": level,
            **msgspec.to_builtins(interval_settings(solved.covariance, solved.fit_input.clusters)),
        },
        left_out=selected.left_out,
        remarks=tuple(dict.fromkeys(remarks)),
        anytime=anytime,
        only_for=only_for(solved, estimator),
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
    remark = f"left out: {left} models that no chain of battles joins to the two"
    return solve_plainly(joined, estimator), joined, [remark]


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


def estimate_of(
    found: Contrast, solved: Solved, level: float, n_battles: float, *, anytime: bool = False, bounded: bool = False
) -> EstimatedDifference:
    """The difference in points, and the mean result that the fit expects of such a difference.

    With `bounded`, a mean result that nothing else bounds ends at 0 or 1.
    """
    low, high = found.ends(level, anytime=anytime)
    rate, rate_low, rate_high = (mean_result(solved, points) for points in (found.points, low, high))
    if found.known and bounded:
        rate_low = 0.0 if rate_low is None else rate_low
        rate_high = 1.0 if rate_high is None else rate_high
    return EstimatedDifference(
        found.points, low, high, found.probability_above(anytime=anytime), rate, rate_low, rate_high, n_battles
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


def _head_to_head(solved: Solved, new: str, old: str, estimator: BradleyTerry, *, anytime: bool) -> HeadToHead | None:
    """What the battles between the two alone say; None where they never met.

    The mean result of two models is the chance that Bradley–Terry with ties as half-wins gives, so the interval of
    the one is that of the other: it never leaves 0 to 1, and is clustered in the same way.
    """
    selected = solved.fit_input.selected
    (met, rated), (_, bad) = (_between(table, new, old) for table in (selected.table, selected.both_bad))
    if not len(rated) and not len(bad):
        return None
    won, lost, tied = (
        float(rated.weight[rated.outcome == result].sum())
        for result in (Outcome.A.code, Outcome.B.code, Outcome.TIE.code)
    )
    if not len(rated):
        return HeadToHead(won, lost, tied, bad.n_battles, None)
    rate = float((rated.weight * results_of_a(rated)).sum() / rated.n_battles)
    estimate = _direct_estimate(met if estimator.slot else rated, rate, new, old, estimator, anytime=anytime)
    return HeadToHead(won, lost, tied, bad.n_battles, estimate, rate)


def _between(table: BattleTable, new: str, old: str) -> tuple[BattleTable, BattleTable]:
    """The battles between the two as they were shown, and with the new one always on side A."""
    i, j = table.models.index(new), table.models.index(old)
    ahead, behind = (table.model_a == i) & (table.model_b == j), (table.model_a == j) & (table.model_b == i)
    forward, backward = table.take(ahead), table.take(behind).swapped()
    turned = forward if not len(backward) else backward if not len(forward) else concat([forward, backward])
    return table.take(ahead | behind), turned


def _direct_estimate(
    rated: BattleTable, rate: float, new: str, old: str, estimator: BradleyTerry, *, anytime: bool
) -> EstimatedDifference | None:
    """The difference of the two from their own battles, and their mean result with its interval.

    Where the first side's advantage or style is fitted, the mean result is that of battles without it.
    """
    adjusted = bool(estimator.slot or estimator.control)
    try:
        solved, halves = (one.solve(rated.compact()) for one in (estimator, replace(estimator, ties="half")))
    except (BattleError, RatingError, OptionError):
        if adjusted:  # these battles alone do not tell the two from their sides, or their style
            return None
        # ties alone: nothing to tell the two apart by
        return EstimatedDifference(0.0, None, None, None, rate, None, None, rated.n_battles)
    estimate, rates = (
        estimate_of(contrast(fit, new, old), fit, estimator.level, rated.n_battles, anytime=anytime, bounded=True)
        for fit in (solved, halves)
    )
    return msgspec.structs.replace(
        estimate,
        win_rate=rates.win_rate if adjusted else rate,
        win_rate_low=rates.win_rate_low,
        win_rate_high=rates.win_rate_high,
    )


def _disagreement(direct: HeadToHead | None, found: Contrast, level: float) -> list[str]:
    """A sentence where the battles between the two and those through the field tell different stories.

    The difference between them is set against the part of the variance that the field takes away (Hausman's test).
    """
    alone = None if direct is None else direct.estimate
    if alone is None or alone.low is None or alone.high is None or not found.known:
        return []
    from scipy.special import ndtr, ndtri

    error = (alone.high - alone.low) / (2.0 * float(ndtri(0.5 + 0.5 * level)))
    gap = alone.difference - found.points
    spread = error * error - found.error * found.error
    if spread <= 0.05 * error * error or 2.0 * float(ndtr(-abs(gap) / spread**0.5)) > UNLIKE:
        return []
    signed = POINTS.signed
    return [
        f"their own battles say {signed(alone.difference)} points, all battles together {signed(found.points)}: more "
        "apart than chance explains, so the field may rate them on other things than they differ in"
    ]


def _parts(
    table: BattleTable,
    new: str,
    old: str,
    estimator: BradleyTerry,
    dimensions: Sequence[str],
    by: Sequence[str] | None,
    before: SolvedBefore,
    *,
    anytime: bool,
) -> Iterator[PartDifference]:
    """The difference for each value of each column, with intervals that hold for all values of a column at once."""
    joined = replace(estimator, only_connected=True)
    for column in dict.fromkeys((DIMENSION, *(PARTS if by is None else by))):
        if column == DIMENSION:
            values = {value: part_of(table, DIMENSION, value) for value in dimensions}
        else:
            values = dict(table.split(column)) if column in table.columns else {}
        if len(values) < 2 or (by is None and column != DIMENSION and len(values) > MANY_VALUES):
            continue
        level = shared_level(estimator.level, len(values))
        for value, battles in values.items():
            try:
                _check_names(battles, new, old)
                plain = _solve_once(battles, joined, before, (column, value))
                sides = fit_sides(plain, new, old, joined, partial(BradleyTerry.solve, table=battles))
                if sides.obstacles:
                    raise RatingError(f"{'; '.join(sides.obstacles)}.")
                found = contrast(sides.solved, new, old)
                n_battles = _of_either(sides.solved.fit_input.selected.table, new, old).n_battles
                estimate = estimate_of(found, sides.solved, level, n_battles, anytime=anytime, bounded=True)
                against = obstacles(sides.solved, (new, old), joined)
                yield PartDifference(column, value, estimate, found, obstacles=against)
            except (BattleError, RatingError, OptionError) as error:
                yield PartDifference(column, value, reason=str(error))


# Why no gate may decide on some battles, whatever their interval says. What a gate says is about the next prompts and
# voters. Battles of a handful of them say nothing of others, and battles that do not name theirs count as independent
# though they may all be of one.


def only_for(solved: Solved, estimator: BradleyTerry) -> OnlyFor | None:
    """The prompts or voters that are too few to stand for others, so that the interval is for them alone."""
    if estimator.cluster != "auto":
        return None
    table = solved.fit_input.selected.table
    for column in known_clusters(table.columns):
        count = distinct(table, column) if column not in solved.fit_input.clusters else None
        if count and count < FEW_CLUSTERS and not (table.text_column(column).codes < 0).any():
            return OnlyFor(kind_of(column), count)
    return None


def obstacles(
    solved: Solved, names: Sequence[str], estimator: BradleyTerry, likely: Mapping[str, str] = NOTHING
) -> tuple[str, ...]:
    """Why no gate may decide between models: one clause for each reason; usually none.

    `likely` are columns of the source that may name the prompt or the voter, where nothing does. Prompts and voters are
    looked at where the estimator takes them as what makes battles dependent, or would have done so had there been more
    of them. A column that the user's own choice leaves out is no obstacle.
    """
    table = solved.fit_input.selected.table
    asked = asked_clusters(estimator.cluster)
    if asked is None and not known_clusters(table.columns):
        mapped = " ".join(f"--map {ours}={theirs}" for ours, theirs in likely.items()) or "--map prompt=COLUMN"
        return (
            f"the battles name neither prompt nor voter, so all of them may be of one ({mapped} names it; --cluster "
            "none says that each stands for itself)",
        )
    looked_at = [column for column in known_clusters(table.columns) if asked is None or column in asked]
    few = (_too_few(table, names, column) for column in looked_at)
    named = dict.fromkeys([*looked_at, *solved.fit_input.clusters])
    return tuple(filter(None, (*few, *(unnamed_clause(table, column, names) for column in named))))


def _too_few(table: BattleTable, names: Sequence[str], column: str) -> str | None:
    """A clause where the battles of one of the models come from too few prompts or voters, effectively."""
    for name in names:
        battles = _of_either(table, name, name)
        count, worth = distinct(battles, column) or 0, _effective_count(battles, column)
        if count == 0 or worth >= FEW_CLUSTERS:
            continue
        if count < FEW_CLUSTERS:
            return OnlyFor(kind_of(column), count).clause
        return (
            f"the {count:,} {kind_of(column)}s of {name} are worth only {worth:.1f} of equal weight, which cannot "
            "stand for others"
        )
    return None


def _effective_count(table: BattleTable, column: str) -> float:
    """How many equally large prompts or voters the battles are worth: (Σn)²/Σn²; a row without one is its own."""
    codes, weight = table.text_column(column).codes, table.weight
    named = codes != MISSING
    sizes = np.concatenate([weight[~named], np.bincount(codes[named], weight[named], minlength=1)])
    squares = float(sizes @ sizes)
    return float(sizes.sum()) ** 2 / squares if squares > 0.0 else 0.0


def unnamed_clause(table: BattleTable, column: str, names: Sequence[str]) -> str | None:
    """A clause where too many battles name no prompt or no voter; None where nearly all do.

    All battles are looked at, then those of each model that is compared: others cannot make up for them.
    """
    codes = [table.models.index(name) for name in names if name in table.models]
    for rows in (None, *((table.model_a == code) | (table.model_b == code) for code in codes)):
        without, of = nameless(table, column, rows)
        if without > MOST_NAMELESS * of:
            return f"{without:,.0f} of {of:,.0f} battles name no {kind_of(column)}"
    return None


def distinct(table: BattleTable, column: str) -> int | None:
    """How many values of a column these battles have; None without the column."""
    if column not in table.columns:
        return None
    codes = table.text_column(column).codes
    return len(np.unique(codes[codes >= 0]))


# Which prompts decide a difference: where the new model lost, where it won, and where the two fare differently.


def prompt_scores(table: BattleTable, new: str, old: str, texts: Mapping[str, str]) -> tuple[PromptScore, ...]:
    """One record for every prompt on which one of the two has a battle; empty where prompts are unknown."""
    if PROMPT not in table.columns or new not in table.models or old not in table.models:
        return ()
    prompts, (_, met) = table.text_column(PROMPT), _between(table, new, old)
    codes = met.text_column(PROMPT).codes

    def count(outcome: Outcome) -> Floats:
        rows = (codes >= 0) & (met.outcome == outcome.code)
        return sum_by(codes[rows], met.weight[rows], len(prompts.labels))

    counts = [count(outcome) for outcome in (Outcome.A, Outcome.B, Outcome.TIE, Outcome.BOTH_BAD)]
    means = [mean_results(table, name) for name in (new, old)]
    seen = np.flatnonzero(~np.isnan(means[0]) | ~np.isnan(means[1]) | (counts[3] > 0))
    return tuple(
        PromptScore(
            prompts.labels[p],
            new_score=None if np.isnan(means[0][p]) else float(means[0][p]),
            old_score=None if np.isnan(means[1][p]) else float(means[1][p]),
            wins=float(counts[0][p]),
            losses=float(counts[1][p]),
            ties=float(counts[2][p]),
            both_bad=float(counts[3][p]),
            text=texts.get(prompts.labels[p]),
        )
        for p in seen.tolist()
    )


def mean_results(table: BattleTable, name: str) -> Floats:
    """A model's mean result on each prompt: 1 won, 0 lost, a half for ties; NaN without a battle."""
    prompts, model = table.text_column(PROMPT), table.models.index(name)
    rated = (table.outcome != Outcome.BOTH_BAD.code) & (prompts.codes >= 0)
    first, second = rated & (table.model_a == model), rated & (table.model_b == model)
    score, n = results_of_a(table), len(prompts.labels)
    won = sum_by(prompts.codes[first], (table.weight * score)[first], n)
    won += sum_by(prompts.codes[second], (table.weight * (1.0 - score))[second], n)
    met = sum_by(prompts.codes[first | second], table.weight[first | second], n)
    return np.asarray(np.divide(won, met, out=np.full(n, np.nan), where=met > 0.0))


def results_of_a(table: BattleTable) -> Floats:
    """The result of each row for side A: 1 won, 0 lost, a half for ties; soft outcomes as they are."""
    worth = np.full(len(Outcome), 0.5)
    worth[Outcome.A.code], worth[Outcome.B.code] = 1.0, 0.0
    score = worth[table.outcome]
    if table.score_a is None:
        return np.asarray(score)
    return np.where(np.isnan(table.score_a), score, table.score_a)

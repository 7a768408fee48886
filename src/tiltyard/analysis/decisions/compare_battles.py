"""Two models of the same battles, or two runs: is the new one better, by how much, and how sure is that."""

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

from tiltyard.analysis.boards import (
    CENTRE,
    DIMENSION,
    FEW_CLUSTERS,
    BradleyTerry,
    EloReport,
    RatingEntry,
    Selection,
    Solved,
    asked_clusters,
    cluster_notes,
    dimensions_of,
    first_share,
    interval_settings,
    kind_of,
    known_clusters,
    known_models,
    nameless,
    read_for,
    settle_sides,
    with_sides,
)
from tiltyard.analysis.decisions.answer import (
    MANY_VALUES,
    EntrantChange,
    EstimatedDifference,
    HeadToHead,
    OnlyFor,
    PartDifference,
    PromptScore,
    RatingDifference,
    RunComparison,
    candidates,
    for_picked,
    level_for,
    shared_level,
    side,
    with_missing,
)
from tiltyard.analysis.decisions.compare_scores import difference_of_scores
from tiltyard.analysis.decisions.contrast import (
    Contrast,
    contrast,
    contrast_of,
    even_odds,
    fit_sides,
    is_balanced,
    is_identified,
    side_lean,
    side_remark,
    solve_plainly,
)
from tiltyard.analysis.decisions.missing import PROMPT, add_decided, missing_among, part_of
from tiltyard.analysis.decisions.render import size_of
from tiltyard.analysis.decisions.units import POINTS
from tiltyard.data.battles import (
    MANIFEST,
    MATCHES,
    MISSING,
    SCORES,
    BattleData,
    BattleTable,
    MissingVerdicts,
    Opened,
    Outcome,
    Source,
    concat,
    likely_clusters,
    likely_dimension,
    no_go,
    run_files,
)
from tiltyard.data.battles.missing_verdicts import missing_verdicts
from tiltyard.data.scores import read_scores
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
from tiltyard.options import CompareOptions, FitOptions, InputOptions, MissingRule, ScoreOptions, options_of
from tiltyard.stats import FAR, OWN_CLUSTER, POINTS_PER_LOGIT, cluster_moves, in_both, normal_quantile, sum_by
from tiltyard.stats.ranks import ranks
from tiltyard.types import AnyInts, Floats

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
FEWEST_SHARED = 2
DONE_WITH = {"ignore": "those without are ignored", "worst": "intervals hold however they would have been decided"}
WELL_KNOWN = 1e6
"""Degrees of freedom of a board's interval: its own were spent when it was made."""


class BattleSource(msgspec.Struct, frozen=True, eq=False):
    """Battles, and where they come from: a run has fingerprints of its rubrics, its bank and its entrants' answers."""

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
    if DIMENSION not in table.columns and (name := likely_dimension(source.battles.peek(reading).raw_columns)):
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

    def fit(battles: Sequence[BattleTable], some: Sequence[MissingVerdicts], against: bool) -> Contrast:
        best, worst = (old, new) if against else (new, old)
        decided = add_decided(
            battles[0], some[0].matchups, lambda matchup: best if best in matchup.entrants else matchup.rival(worst)
        )
        plain, joined, _ = _solved_together(decided, estimator, new, old, {})
        sides = fit_sides(plain, new, old, estimator, lambda other: other.solve(joined))
        if sides.obstacles:
            raise RatingError(f"{'; '.join(sides.obstacles)}.")
        return contrast(sides.solved, new, old)

    def by_name(some: Sequence[MissingVerdicts]) -> dict[str, int]:
        return {name: some[0].by_entrant.get(name, 0) for name in (new, old)}

    return with_missing(result, (table,), (lost,), fit, by_name, options.missing)


def likely_to_cluster(battles: Opened, table: BattleTable, reading: InputOptions) -> Mapping[str, str]:
    """Columns of the source that may name the prompt or the voter; none where one of them is known."""
    return NOTHING if known_clusters(table.columns) else likely_clusters(battles.peek(reading).raw_columns)


def read_to_compare(
    battles: Opened, estimator: BradleyTerry, reading: InputOptions, by: Sequence[str] | None = None
) -> BattleTable:
    """The battles with every column that a difference looks at."""
    if isinstance(battles.data, BattleTable):
        return read_for(estimator, battles, reading)
    there = battles.peek(reading).columns
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
        values = _split(table, column, dimensions)
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


def _split(table: BattleTable, column: str, dimensions: Collection[str]) -> dict[str, BattleTable]:
    """The battles by the values of a column; of dimensions those that are named, though one may have no battle."""
    if column == DIMENSION:
        return {value: part_of(table, DIMENSION, value) for value in dimensions}
    return dict(table.split(column)) if column in table.columns else {}


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


# Two runs over the same prompts, or two boards: each entrant then and now. Each run is rated on its own. What happens
# on a prompt happens in both, so the errors are paired: the two fits' moves when a prompt is left out are subtracted
# before they are squared. Clusters of two kinds are put together as in one fit (`ratings/intervals.py`). Changes are
# measured from the entrants whose answers are the same in both runs, where that is known, and from the mean of all that
# both have where it is not.


Tables = tuple[BattleTable, BattleTable]
Sources = tuple[BattleSource, BattleSource]


def compare_runs(new: BattleData, old: BattleData, options: CompareOptions) -> RunComparison:
    """What moved between two runs over the same prompts, and whether that is more than noise."""
    about_models = ("control",) if set(options.by or ()) <= set(PARTS) else ("control", "by")
    options.refuse(about_models, " is about two models of the same battles: leave it out for two runs.")
    options.refuse(options_of(ScoreOptions), " is about scores: leave it out for two runs.")
    estimator = make_bradley_terry(options, level=level_for(options), slot=options.slot)
    runs = (battle_source(new, unnamed="new run"), battle_source(old, unnamed="old run"))
    if runs[0].name == runs[1].name:
        new_run, old_run = (
            msgspec.structs.replace(run, name=f"{which} {run.name}")
            for which, run in zip(("new", "old"), runs, strict=True)
        )
        runs = (new_run, old_run)
    read = partial(read_to_compare, estimator=estimator, reading=options.part(InputOptions))
    tables = (read(runs[0].battles), read(runs[1].battles))
    notes = _check_comparable(runs, tables, anyway=options.anyway)
    lost_now, lost_then = (
        missing_among(missing_verdicts(run.battles), table, options.part(Selection), filtered=options.where is not None)
        for run, table in zip(runs, tables, strict=True)
    )
    lost = (lost_now, lost_then)
    missing = {matchup.dimension for some in lost for matchup in some.matchups}
    result = _compare(
        tables, runs, estimator, notes, options.unchanged or (), dimensions=missing, anytime=options.anytime
    )
    if any(lost):
        result = _runs_with_missing(result, tables, lost, estimator, options.missing)
    return replace(result, changes=tuple(_change_with_scores(change, runs, options) for change in result.changes))


def _change_with_scores(change: EntrantChange, runs: Sources, options: CompareOptions) -> EntrantChange:
    """The change with what the scores of both runs say against it, and what holds of the best of several."""
    found, name = change.difference, change.entrant
    files = [run.scores for run in runs if run.scores is not None]
    if len(files) == len(runs) and options.dimension is None:
        names = (f"{name} now", f"{name} then")
        rows = [
            {**row, "model": when}
            for when, file in zip(names, files, strict=True)
            for row in map(json.loads, file.read_text(encoding="utf-8").splitlines())
            if row.get("model") == name
        ]
        found = replace(found, obstacles=(*found.obstacles, *worse_by_scores(rows, *names, options)))
    return replace(change, difference=for_picked(found, options.picked_from))


def _runs_with_missing(
    result: RunComparison,
    tables: Tables,
    lost: tuple[MissingVerdicts, MissingVerdicts],
    estimator: BradleyTerry,
    rule: MissingRule,
) -> RunComparison:
    """The comparison with what matchups without a verdict could change for each entrant, on the whole and in parts."""
    names = (result.new, result.old)
    notes = [f"{run}: {some.sentence}; {DONE_WITH[rule]}" for run, some in zip(names, lost, strict=True) if some]
    changes = []
    for change in result.changes:
        of_entrant = tuple(some.only(entrants={change.entrant}) for some in lost)
        if any(of_entrant):
            changed = _difference_with_missing(change, tables, of_entrant, estimator, result.zero, rule)
            change = replace(change, difference=changed)
        if rule == "worst":
            change = replace(change, beyond_noise=_beyond_noise(change.difference, len(result.changes)))
        changes.append(change)
    return replace(result, changes=tuple(changes), notes=(*notes, *result.notes))


def _difference_with_missing(
    change: EntrantChange,
    tables: Tables,
    lost: Sequence[MissingVerdicts],
    estimator: BradleyTerry,
    zero: Sequence[str],
    rule: MissingRule,
) -> RatingDifference:
    """One entrant's change with what its matchups without a verdict could change.

    Against it are those of the new run that it loses, and those of the old run that it wins.
    """
    name, result = change.entrant, change.difference

    def fit(battles: Sequence[BattleTable], some: Sequence[MissingVerdicts], against: bool) -> Contrast:
        def decided(run: int, *, wins: bool) -> BattleTable:
            return add_decided(battles[run], some[run].matchups, lambda matchup: name if wins else matchup.rival(name))

        shared = _shared_only((decided(0, wins=not against), decided(1, wins=against)), [])
        fits, blocked = _fit_sides(TwoFits.of(shared, estimator, zero), shared, estimator)
        if name in blocked:
            raise RatingError(f"{blocked[name]}.")
        return fits.contrast(fits.models.index(name))

    def by_name(some: Sequence[MissingVerdicts]) -> dict[str, int]:
        return {title: len(one) for title, one in zip((result.new, result.old), some, strict=True)}

    return with_missing(result, tables, lost, fit, by_name, rule)


def _beyond_noise(result: RatingDifference, entrants: int) -> bool:
    """Whether an entrant moved by more than chance and matchups without a verdict explain, all looked at together."""
    return side(*result.cases.ends(shared_level(result.level, entrants))) != "unclear"


def _check_comparable(runs: Sources, tables: Tables, *, anyway: bool) -> list[str]:
    """How the runs differ in judge, rubrics and bank; another judge or rubric is an error unless `anyway`."""
    notes: list[str] = []
    unknown: list[str] = []
    new, old = (_judges(run, table) for run, table in zip(runs, tables, strict=True))
    if new and old and new != old:
        notes.append(f"another judge: {', '.join(sorted(new))} (new), {', '.join(sorted(old))} (old)")
    deciders = [{Source.of_code(int(code)).value for code in np.unique(table.source)} for table in tables]
    if deciders[0] != deciders[1]:
        notes.append(f"decided by {' and '.join(sorted(deciders[0]))} (new), {' and '.join(sorted(deciders[1]))} (old)")
    elif bool(new) != bool(old):
        unknown.append(f"the judge of the {'old' if new else 'new'} run is not known: it may be another one")
    shared = sorted(runs[0].rubrics.keys() & runs[1].rubrics.keys())
    changed = [name for name in shared if runs[0].rubrics[name] != runs[1].rubrics[name]]
    if changed:
        notes.append(f"another rubric: {', '.join(changed)}")
    if notes and not anyway:
        raise OptionError(
            f"the runs are not alike: {'; '.join(notes)}. What moved would be the judge's doing as much as the "
            "entrants'. Judge both alike, or pass ",
            OptionValue("anyway", True),
            ".",
        )
    if runs[0].bank and runs[1].bank and runs[0].bank != runs[1].bank:
        notes.append("the prompt banks differ: only prompts of both runs are compared")
    return notes + unknown


def _judges(run: BattleSource, table: BattleTable) -> set[str]:
    if run.judge is not None:
        return {run.judge}
    if "judge_model" not in table.columns:
        return set()
    judges = table.text_column("judge_model")
    return {judges.labels[code] for code in np.unique(judges.codes[judges.codes >= 0])}


def _compare(
    tables: Tables,
    runs: Sources,
    estimator: BradleyTerry,
    notes: list[str],
    unchanged: Sequence[str],
    *,
    dimensions: Collection[str],
    anytime: bool,
) -> RunComparison:
    whole = tables
    several = any(dimensions_of(table, estimator.selection, dimensions) for table in tables)
    if several or all(DIMENSION in table.columns for table in tables):
        dimensions = dimensions_of(concat(list(tables)), estimator.selection, dimensions)
    else:
        dimensions = ()  # one run does not say what it was about
    tables = _shared_only(_of_shared_dimensions(tables, dimensions, notes), notes)
    same = _same_answers(tables[0].models, runs, unchanged)
    zero = [name for name in tables[0].models if same.get(name)]
    try:
        fits = TwoFits.of(tables, estimator, zero)
    except RatingError:
        if estimator.slot is not True:
            raise
        fits = TwoFits.of(tables, replace(estimator, slot=False), zero)
    parts = _run_parts(tables, estimator, fits.zero_names, dimensions, anytime=anytime)
    fits, blocked = _fit_sides(fits, tables, estimator)
    estimator = replace(estimator, slot=fits.new.fit_input.slot)
    prompts_known = all(PROMPT in table.columns for table in tables)
    texts = {**runs[1].prompt_texts(), **runs[0].prompt_texts()} if prompts_known else {}
    pooled = dimensions_of(concat(list(tables)), estimator.selection)
    only = only_for(fits.new, estimator) or only_for(fits.old, estimator)
    voters = distinct(concat(list(tables)), VOTER) if all(VOTER in table.columns for table in tables) else None
    settings = interval_settings(fits.new.covariance, fits.new.fit_input.clusters)
    clusters = msgspec.to_builtins(settings.get("clusters", []))
    interval = {"level": estimator.level, "cluster": settings["cluster"], "clusters": clusters}
    ratings = [CENTRE + POINTS_PER_LOGIT * fits.from_zero(run) for run in (0, 1)]
    moves = np.array([np.nan if same.get(name) else fits.contrast(i).points for i, name in enumerate(fits.models)])
    differences = []
    for i, name in enumerate(fits.models):
        found, prompts = fits.contrast(i), _prompt_changes(name, tables, texts) if prompts_known else ()
        unnamed = (unnamed_clause(table, PROMPT, (name,)) for table in whole if PROMPT in table.columns)
        against = [clause for run in runs for clause in no_go(run.battles)]
        against += [*filter(None, (*unnamed, blocked.get(name)))]
        against += [clause for fit in fits.both for clause in obstacles(fit, (name,), estimator)]
        n_battles = _battles(tables, name)
        differences.append(
            RatingDifference(
                new=f"{name} in {runs[0].name}",
                old=f"{name} in {runs[1].name}",
                estimate=estimate_of(found, fits.new, estimator.level, n_battles, anytime=anytime),
                contrast=found,
                level=estimator.level,
                interval=interval,
                parts=tuple(parts.get(name, ())),
                prompts=prompts,
                n_battles=n_battles,
                n_prompts=len(prompts) if prompts_known else None,
                n_voters=voters,
                remarks=(*fits.remarks, *few_clusters(fits.new, (name,)), *few_clusters(fits.old, (name,))),
                anytime=anytime,
                then_and_now=True,
                only_for=only,
                obstacles=tuple(dict.fromkeys(against)),
                dimensions=pooled,
                best_of=None if same.get(name) else candidates(moves, i, None),
            )
        )
    changed = {name: not unmoved for name, unmoved in same.items()}
    changes = _then_and_now(fits.models, differences, ratings, changed)
    n_prompts = max((change.difference.n_prompts or 0 for change in changes), default=0) or None
    if not fits.variances.any():
        notes.append("the two runs hold the same battles")
    remarks = tuple(dict.fromkeys([*notes, *fits.remarks]))
    return RunComparison(
        runs[0].name, runs[1].name, changes, tuple(fits.zero_names), n_prompts, estimator.level, remarks
    )


def _then_and_now(
    names: Sequence[str],
    differences: Sequence[RatingDifference],
    ratings: Sequence[Floats],
    changed: Mapping[str, bool],
) -> tuple[EntrantChange, ...]:
    """Every entrant with its ratings and places now and then, the best first."""
    places = [ranks(rating) for rating in ratings]
    changes = [
        EntrantChange(
            entrant=name,
            rating_new=float(ratings[0][i]),
            rating_old=float(ratings[1][i]),
            rank_new=int(places[0][i]),
            rank_old=int(places[1][i]),
            answers_changed=changed.get(name),
            beyond_noise=_beyond_noise(result, len(names)),
            difference=result,
        )
        for i, (name, result) in enumerate(zip(names, differences, strict=True))
    ]
    return tuple(sorted(changes, key=lambda change: change.rank_new))


def _prompt_changes(name: str, tables: Tables, texts: Mapping[str, str]) -> tuple[PromptScore, ...]:
    """An entrant's mean result on every prompt that both runs have, now and then."""
    new, old = (
        {
            prompt: mean
            for prompt, mean in zip(table.text_column(PROMPT).labels, mean_results(table, name).tolist(), strict=True)
            if not math.isnan(mean)
        }
        for table in tables
    )
    shared = sorted(new.keys() & old.keys())
    return tuple(PromptScore(prompt, new[prompt], old[prompt], text=texts.get(prompt)) for prompt in shared)


def _fit_sides(fits: TwoFits, tables: Tables, estimator: BradleyTerry) -> tuple[TwoFits, dict[str, str]]:
    """The fits with what the first side is worth, where sides changed between the runs and battles say who sat first.

    Also for each entrant why its change cannot be told from its side, where that is so. An entrant that sat on the same
    sides in both runs owes nothing of its change to them.
    """
    if estimator.slot is False:
        return fits, {}
    rated = [solved.fit_input.selected.table for solved in fits.both]
    sided = [with_sides(table) for table in rated]
    from_zero = np.eye(len(fits.models)) - fits.zero
    leaning = []
    for i, weights in enumerate(from_zero):
        now, then = (side_lean(solved, rows, weights) for solved, rows in zip(fits.both, sided, strict=True))
        if not is_balanced(now - then, fits.contrast(i)):
            leaning.append(i)
    unsure = leaning
    if leaning and all(rows.all() for rows in sided):
        try:
            joint = TwoFits.of(tables, replace(estimator, slot=True), fits.zero_names)
            unsure = [i for i in leaning if not all(is_identified(solved, from_zero[i]) for solved in joint.both)]
            worth = float(np.mean([solved.fit.parameters.coefficient[0] for solved in joint.both]))
            if unsure != leaning:
                fits = msgspec.structs.replace(joint, remarks=(*joint.remarks, side_remark(worth)))
        except (RatingError, OptionError):
            unsure = leaning
    blocked: dict[str, str] = {}
    for i in unsure:
        now, then = (100 * first_share(table, rows, i) for table, rows in zip(rated, sided, strict=True))
        blocked[fits.models[i]] = (
            f"{fits.models[i]} was shown first in {now:.0f} % of its battles now and in {then:.0f} % then, so its "
            "change cannot be told from the side's advantage (battles with the same sides in both runs would tell; "
            "pass --no-slot if the order in a row does not say who was shown first)"
        )
    return fits, blocked


def _same_answers(models: Sequence[str], runs: Sources, unchanged: Sequence[str]) -> dict[str, bool]:
    """Which entrants have the same answers in both runs, as far as that is known: by name, or by fingerprint."""
    strange = sorted(set(unchanged) - set(models))
    if strange:
        raise OptionError(f"{strange[0]!r} is not in both runs: they share {', '.join(models)}.")
    if unchanged:
        return {name: name in unchanged for name in models}
    new, old = runs[0].answers, runs[1].answers
    return {name: new[name] == old[name] for name in models if name in new and name in old}


def _shared_only(tables: Tables, notes: list[str]) -> Tables:
    """The battles among entrants, and on prompts, that both runs have."""
    new, old = tables
    for table, other, run in ((new, old, "new"), (old, new, "old")):
        only = sorted(set(table.models) - set(other.models))
        if only:
            notes.append(f"only in the {run} run: {', '.join(only[:6])}{', …' if len(only) > 6 else ''}")
    if PROMPT in new.columns and PROMPT in old.columns:
        asked = [set(np.asarray(table.text_column(PROMPT).labels, dtype=object)) for table in tables]
        both = asked[0] & asked[1]
        if both:
            lost = len(asked[0] | asked[1]) - len(both)
            if lost:
                notes.append(f"{len(both):,} prompts are in both runs; {lost:,} that are only in one are left out")
            for table, run in zip(tables, ("new", "old"), strict=True):
                without, of = nameless(table, PROMPT)
                if without:
                    notes.append(f"{run} run: {without:,.0f} of {of:,.0f} battles name no prompt and are left out")
            new, old = (_on(table, both) for table in (new, old))
        else:
            notes.append("the runs share no prompt: they are compared as independent")
    before = -1
    while len(new) + len(old) != before:
        before = len(new) + len(old)
        shared = set(new.models) & set(old.models)
        if len(shared) < FEWEST_SHARED:
            names = ", ".join(sorted(shared)) or "none"
            raise OptionError(
                f"the runs share too few entrants to compare ({names}): two are needed. Two models that met others in "
                "different runs are compared by giving both runs as the battles."
            )
        new, old = (among(table, shared) for table in (new, old))
    return new, old


def _on(table: BattleTable, prompts: set[str]) -> BattleTable:
    column = table.text_column(PROMPT)
    keep = np.array([label in prompts for label in column.labels] + [False], dtype=bool)
    return table.take(keep[column.codes]).compact()


def _of_shared_dimensions(tables: Tables, dimensions: Collection[str], notes: list[str]) -> Tables:
    """The battles in dimensions that both runs have: one that only one of them has says nothing of what moved."""
    new, old = ([part_of(table, DIMENSION, value) for value in dimensions] for table in tables)
    shared = [value for value, now, then in zip(dimensions, new, old, strict=True) if len(now) and len(then)]
    for run, some in (("new", new), ("old", old)):
        only = [value for value, part in zip(dimensions, some, strict=True) if len(part) and value not in shared]
        if only:
            notes.append(f"only in the {run} run, and left out: {', '.join(only)}")
    if len(shared) == len(dimensions):
        return tables
    if not shared:
        raise OptionError("the runs share no dimension: there is nothing to compare.")
    both = (
        concat([part for value, part in zip(dimensions, some, strict=True) if value in shared]) for some in (new, old)
    )
    return next(both), next(both)


def _run_parts(
    tables: Tables, estimator: BradleyTerry, zero: Sequence[str], dimensions: Collection[str], *, anytime: bool
) -> dict[str, list[PartDifference]]:
    """For each entrant what changed in each dimension and category; intervals hold for all values of a column."""
    parts: dict[str, list[PartDifference]] = {name: [] for name in tables[0].models}
    for column in PARTS:
        values = [_split(table, column, dimensions) for table in tables]
        shared = sorted(values[0].keys() & values[1].keys())
        if len(shared) < 2 or (column != DIMENSION and len(shared) > MANY_VALUES):
            continue
        level = shared_level(estimator.level, len(shared))
        for value in shared:
            try:
                if not all(len(some[value]) for some in values):
                    raise RatingError("one of the runs has no battle of it")
                pair = _shared_only((values[0][value], values[1][value]), [])
                fits, blocked = _fit_sides(TwoFits.of(pair, estimator, zero), pair, estimator)
            except (BattleError, RatingError, OptionError) as error:
                for some in parts.values():
                    some.append(PartDifference(column, value, reason=str(error)))
                continue
            for name, some in parts.items():
                if name not in fits.models:
                    some.append(PartDifference(column, value, reason=f"one of the runs has no battle of {name}"))
                    continue
                found = fits.contrast(fits.models.index(name))
                estimate = estimate_of(found, fits.new, level, _battles(pair, name), anytime=anytime)
                clauses = [blocked[name]] if name in blocked else []
                clauses += [clause for fit in fits.both for clause in obstacles(fit, (name,), estimator)]
                against = tuple(dict.fromkeys(clauses))
                some.append(PartDifference(column, value, estimate, found, obstacles=against))
    return parts


def _battles(tables: Sequence[BattleTable], name: str) -> float:
    """How many battles an entrant has in both runs."""
    total = 0.0
    for table in tables:
        code = table.models.index(name)
        rows = ((table.model_a == code) | (table.model_b == code)) & (table.outcome != Outcome.BOTH_BAD.code)
        total += float(table.weight[rows].sum())
    return total


class TwoFits(msgspec.Struct, frozen=True, eq=False):
    """Two runs fitted over the same models, with the variances of what changed.

    `zero` weighs the models that changes are measured from.
    """

    new: Solved
    old: Solved
    zero: Floats
    variances: Floats
    own_variances: Floats
    remarks: tuple[str, ...]

    @classmethod
    def of(cls, tables: Tables, estimator: BradleyTerry, zero: Sequence[str]) -> TwoFits:
        """Fit both; `zero` names the models that changes are measured from (none: all of them)."""
        new, old = (estimator.solve(table) for table in tables)
        models = new.fit_input.selected.table.models
        if models != old.fit_input.selected.table.models:
            raise RatingError("some entrants have rated battles in one run only: leave them out and compare again.")
        weights = np.array([float(name in zero) for name in models])
        weights = np.ones(len(models)) if not weights.any() else weights
        weights /= weights.sum()
        variances = _paired_variances(new, old, weights)
        assert new.covariance is not None
        assert old.covariance is not None
        if variances is None:
            variances = new.covariance.variances(weights) + old.covariance.variances(weights)
        own = new.covariance.fisher_variances(weights) + old.covariance.fisher_variances(weights)
        remarks = (*new.remarks, *old.remarks)
        return cls(new, old, weights, variances, own, tuple(dict.fromkeys(remarks)))

    @property
    def both(self) -> tuple[Solved, Solved]:
        return self.new, self.old

    @property
    def models(self) -> tuple[str, ...]:
        return self.new.fit_input.selected.table.models

    @property
    def zero_names(self) -> list[str]:
        return [name for name, weight in zip(self.models, self.zero, strict=True) if weight > 0.0]

    def from_zero(self, side: int) -> Floats:
        """The strengths of one run, measured from the zero."""
        strength = self.both[side].fit.parameters.strength
        return np.asarray(strength - self.zero @ strength)

    def contrast(self, i: int) -> Contrast:
        """What changed for one model."""
        value = float(self.from_zero(0)[i] - self.from_zero(1)[i])
        sides = ((self.new, i), (self.old, i))
        return contrast_of(sides, value, float(self.variances[i]), float(self.own_variances[i]))


def _paired_variances(new: Solved, old: Solved, zero: Floats) -> Floats | None:
    """The variance of each change, with clusters that both runs share; None where they share no kind of cluster."""
    columns = new.fit_input.clusters
    if not columns or columns != old.fit_input.clusters:
        return None
    both_runs = concat([solved.fit_input.selected.table for solved in (new, old)])
    numbered = [_own_where_missing(both_runs.text_column(column).codes) for column in columns]
    result = [_variance_of_moves(new, old, codes, zero, corrected=True) for codes in numbered]
    if len(numbered) == 2:
        both = _own_where_missing(in_both(*numbered))
        result.append(result[0] + result[1] - _variance_of_moves(new, old, both, zero, corrected=False))
    return np.asarray(np.max(result, axis=0))


def _own_where_missing(codes: AnyInts) -> AnyInts:
    full, missing = codes.copy(), codes == OWN_CLUSTER
    full[missing] = int(codes.max(initial=-1)) + 1 + np.arange(int(missing.sum()))
    return full


def _variance_of_moves(new: Solved, old: Solved, codes: AnyInts, zero: Floats, *, corrected: bool) -> Floats:
    """Σ over clusters of the squared difference of the two fits' moves without it; the new run's rows come first."""
    used, numbered = np.unique(codes, return_inverse=True)
    count, n = len(used), len(new.fit_input.rows)
    now, then = (
        cluster_moves(solved.fit, solved.fit_input.rows, solved.fit_input.counted, rows, count, corrected=corrected)
        for solved, rows in ((new, numbered[:n]), (old, numbered[n:]))
    )
    difference = now - then
    difference -= (difference @ zero)[:, None]
    factor = (count - 1.0) / count if corrected else 1.0
    return np.asarray(factor * (difference**2).sum(axis=0))


# Two ratings files: what moved where nothing but the boards is left.


def compare_ratings(now: tuple[str, EloReport], then: tuple[str, EloReport], options: CompareOptions) -> RunComparison:
    """What moved between two ratings files. Their errors are counted as independent, which is wider than paired."""
    if options.given().keys() - {"level", "picked_from", "notify"}:
        raise OptionError("two ratings files have no battles: leave out what is about reading or choosing them.")
    names, new, old = (now[0], then[0]), now[1], then[1]
    _check_same_scale(new, old)
    level = level_for(options)
    new_entries, old_entries = ({entry.model: entry for entry in report.ratings} for report in (new, old))
    shared = [name for name in new_entries if name in old_entries]
    if len(shared) < FEWEST_SHARED:
        raise OptionError(
            f"the boards share too few models to compare ({', '.join(shared) or 'none'}): two are needed."
        )
    both = [np.array([entries[name].rating for name in shared]) for entries in (new_entries, old_entries)]
    centred = [rating - rating.mean() + CENTRE for rating in both]
    differences = []
    moves = centred[0] - centred[1]
    pooled = tuple(dict.fromkeys([*(new.settings.dimensions or ()), *(old.settings.dimensions or ())]))
    for i, name in enumerate(shared):
        entries = (new_entries[name], old_entries[name])
        errors = [_error(entry, report) for entry, report in zip(entries, (new, old), strict=True)]
        found = Contrast(
            value=float(moves[i]) / POINTS_PER_LOGIT,
            variance=sum((error / POINTS_PER_LOGIT) ** 2 for error in errors if error is not None),
            own_variance=0.0,
            degrees=0.0 if None in errors else WELL_KNOWN,
            clustered=False,
            battles=min(entry.n_battles for entry in entries),
        )
        n_battles = sum(entry.n_battles for entry in entries)
        low, high = found.ends(level)
        rate, rate_low, rate_high = (
            None if points is None or math.isinf(points) else even_odds(points) for points in (found.points, low, high)
        )
        result = RatingDifference(
            new=f"{name} in {names[0]}",
            old=f"{name} in {names[1]}",
            estimate=EstimatedDifference(
                found.points, low, high, found.probability_above(), rate, rate_low, rate_high, n_battles
            ),
            contrast=found,
            level=level,
            n_battles=n_battles,
            interval={"level": level, "cluster": None, "clusters": []},
            then_and_now=True,
            dimensions=pooled,
            best_of=candidates(moves, i, None),
        )
        differences.append(for_picked(result, options.picked_from))
    changes = _then_and_now(shared, differences, centred, {})
    note = (
        "two boards alone: their errors are counted as independent, and no prompt is known; compare the runs for more"
    )
    return RunComparison(names[0], names[1], changes, tuple(shared), None, level, (note,))


def _check_same_scale(new: EloReport, old: EloReport) -> None:
    """Refuse ratings whose difference would mean nothing: of two methods, or on two scales."""
    methods = [report.settings.method or "bt" for report in (new, old)]
    if methods[0] != methods[1]:
        raise OptionError(f"the files are rated by different methods: {methods[0]} (new), {methods[1]} (old).")
    if methods[0] == "winrate":
        raise OptionError(
            "win rates are not ratings: rate both with ", OptionValue("method", "bt"), ", or compare the battles."
        )
    if bool(new.details.people) != bool(old.details.people):
        raise OptionError(
            "one board is on people's scale (corrected by labels), the other on its judge's: correct both, or none."
        )


def _error(entry: RatingEntry, report: EloReport) -> float | None:
    """The standard error that an entry's interval tells; None where it has none."""
    if entry.ci_low is None or entry.ci_high is None:
        return None
    level = report.settings.interval and report.settings.interval.level
    return (entry.ci_high - entry.ci_low) / (2.0 * normal_quantile(level or 0.95))

"""Two runs over the same prompts, or two boards: each entrant then and now.

Each run is rated on its own. What happens on a prompt happens in both, so the errors are paired: the two fits' moves
when a prompt is left out are subtracted before they are squared. Clusters of two kinds are put together as in one fit
(`ratings/intervals.py`). Changes are measured from the entrants whose answers are the same in both runs, where that is
known, and from the mean of all that both have where it is not.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial

import msgspec
import numpy as np

from tiltyard.battles import BattleData, BattleTable, MissingVerdicts, Outcome, Source, concat, no_go, together
from tiltyard.battles.missing_verdicts import missing_verdicts
from tiltyard.boards import (
    CENTRE,
    DIMENSION,
    BradleyTerry,
    EloReport,
    RatingEntry,
    Selection,
    Solved,
    dimensions_of,
    first_share,
    interval_settings,
    nameless,
    with_sides,
)
from tiltyard.decisions.answer import (
    MANY_VALUES,
    EntrantChange,
    EstimatedDifference,
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
from tiltyard.decisions.compare_battles import (
    PARTS,
    VOTER,
    BattleSource,
    among,
    battle_source,
    distinct,
    estimate_of,
    few_clusters,
    make_bradley_terry,
    mean_results,
    obstacles,
    only_for,
    read_to_compare,
    unnamed_clause,
    worse_by_scores,
)
from tiltyard.decisions.contrast import (
    Contrast,
    contrast_of,
    even_odds,
    is_balanced,
    is_identified,
    side_lean,
    side_remark,
)
from tiltyard.decisions.missing import (
    PROMPT,
    Missing,
    add_decided,
    missing_among,
    missing_in_part,
    part_of,
    worst_case,
)
from tiltyard.errors import BattleError, OptionError, OptionValue, RatingError
from tiltyard.options import CompareOptions, InputOptions, MissingRule, ScoreOptions, options_of
from tiltyard.ratings import OWN_CLUSTER, POINTS_PER_LOGIT, cluster_moves, in_both, normal_quantile
from tiltyard.ratings.ranks import ranks
from tiltyard.types import AnyInts, Floats

FEWEST_SHARED = 2
DONE_WITH = {"ignore": "those without are ignored", "worst": "intervals hold however they would have been decided"}
WELL_KNOWN = 1e6
"""Degrees of freedom of a board's interval: its own were spent when it was made."""

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
        result = _with_missing(result, tables, lost, estimator, options.missing)
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


def _with_missing(
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

    def missing_in(battles: Sequence[BattleTable], some: Sequence[MissingVerdicts]) -> Missing:
        def fit(against: bool) -> Contrast:
            def decided(run: int, *, wins: bool) -> BattleTable:
                return add_decided(
                    battles[run], some[run].matchups, lambda matchup: name if wins else matchup.rival(name)
                )

            shared = _shared_only((decided(0, wins=not against), decided(1, wins=against)), [])
            fits, blocked = _fit_sides(TwoFits.of(shared, estimator, zero), shared, estimator)
            if name in blocked:
                raise RatingError(f"{blocked[name]}.")
            return fits.contrast(fits.models.index(name))

        counts = {title: len(one) for title, one in zip((result.new, result.old), some, strict=True)}
        return Missing.of_verdicts(together(some), counts, worst_case(fit), rule)

    def in_part(column: str, value: str) -> Missing | None:
        some = [missing_in_part(one, table, column, value) for one, table in zip(lost, tables, strict=True)]
        return missing_in([part_of(table, column, value) for table in tables], some) if any(some) else None

    return with_missing(result, missing_in(tables, lost), in_part)


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
    parts = _parts(tables, estimator, fits.zero_names, dimensions, anytime=anytime)
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
    places = [ranks(rating) for rating in ratings]
    moves = np.array([np.nan if same.get(name) else fits.contrast(i).points for i, name in enumerate(fits.models)])
    changes = []
    for i, name in enumerate(fits.models):
        found, prompts = fits.contrast(i), _prompt_changes(name, tables, texts) if prompts_known else ()
        unnamed = (unnamed_clause(table, PROMPT, (name,)) for table in whole if PROMPT in table.columns)
        against = [clause for run in runs for clause in no_go(run.battles)]
        against += [*filter(None, (*unnamed, blocked.get(name)))]
        against += [clause for fit in fits.both for clause in obstacles(fit, (name,), estimator)]
        n_battles = _battles(tables, name)
        result = RatingDifference(
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
        changes.append(
            EntrantChange(
                entrant=name,
                rating_new=float(ratings[0][i]),
                rating_old=float(ratings[1][i]),
                rank_new=int(places[0][i]),
                rank_old=int(places[1][i]),
                answers_changed=None if name not in same else not same[name],
                beyond_noise=_beyond_noise(result, len(fits.models)),
                difference=result,
            )
        )
    changes.sort(key=lambda change: change.rank_new)
    n_prompts = max((change.difference.n_prompts or 0 for change in changes), default=0) or None
    if not fits.variances.any():
        notes.append("the two runs hold the same battles")
    remarks = tuple(dict.fromkeys([*notes, *fits.remarks]))
    return RunComparison(
        runs[0].name, runs[1].name, tuple(changes), tuple(fits.zero_names), n_prompts, estimator.level, remarks
    )


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


def _parts(
    tables: Tables, estimator: BradleyTerry, zero: Sequence[str], dimensions: Collection[str], *, anytime: bool
) -> dict[str, list[PartDifference]]:
    """For each entrant what changed in each dimension and category; intervals hold for all values of a column."""
    parts: dict[str, list[PartDifference]] = {name: [] for name in tables[0].models}
    for column in PARTS:
        if column == DIMENSION:
            values = [{value: part_of(table, column, value) for value in dimensions} for table in tables]
        else:
            values = [dict(table.split(column)) if column in table.columns else {} for table in tables]
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
    places = [ranks(rating) for rating in centred]
    changes = []
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
        result = for_picked(result, options.picked_from)
        changes.append(
            EntrantChange(
                name,
                float(centred[0][i]),
                float(centred[1][i]),
                int(places[0][i]),
                int(places[1][i]),
                answers_changed=None,
                beyond_noise=_beyond_noise(result, len(shared)),
                difference=result,
            )
        )
    changes.sort(key=lambda change: change.rank_new)
    note = (
        "two boards alone: their errors are counted as independent, and no prompt is known; compare the runs for more"
    )
    return RunComparison(names[0], names[1], tuple(changes), tuple(shared), None, level, (note,))


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

"""Two runs: each entrant then and now, in two runs over the same prompts.

Each run is rated on its own, and errors are paired by prompt (`contrast`). Changes are measured from the entrants
whose answers are the same in both runs, where that is known, and from the mean of all that both have where it is not.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np
from msgspec.structs import replace as replace_struct

from tiltyard.battles.battle import Outcome, Source
from tiltyard.battles.inputs import SCORES
from tiltyard.battles.missing_verdicts import MissingVerdicts, no_go, together
from tiltyard.battles.reading import BattleData
from tiltyard.battles.table import BattleTable, concat
from tiltyard.boards.bradley_terry import CENTRE, BradleyTerry
from tiltyard.boards.preparation import DIMENSION, Selection, dimensions_of, first_share, nameless, with_sides
from tiltyard.decisions.contrast import Contrast, TwoFits, is_balanced, is_identified, side_lean, side_remark
from tiltyard.decisions.missing import Missing, add_decided, in_part, missing_among, part_of, worst_case
from tiltyard.decisions.obstacles import distinct, obstacles, only_for, unnamed_clause
from tiltyard.decisions.picked import candidates, for_picked, level_for
from tiltyard.decisions.prompts import PROMPT, prompt_changes
from tiltyard.decisions.records import Difference, EntrantChange, PartDifference, RunComparison, with_missing
from tiltyard.decisions.sources import BattleSource, open_source
from tiltyard.decisions.two_models import (
    MANY_VALUES,
    PARTS,
    VOTER,
    among,
    estimate_of,
    few_clusters,
    make_bradley_terry,
    read_to_compare,
    worse_by_scores,
)
from tiltyard.decisions.words import side
from tiltyard.errors import BattleError, OptionError, OptionValue, RatingError
from tiltyard.options import CompareOptions, InputOptions, MissingRule, ScoreOptions, options_of
from tiltyard.ratings import POINTS_PER_LOGIT
from tiltyard.ratings.ranks import ranks

FEWEST_SHARED = 2
DONE_WITH = {"ignore": "those without are ignored", "worst": "intervals hold however they would have been decided"}


def compare_runs(new: BattleData, old: BattleData, options: CompareOptions) -> RunComparison:
    """What moved between two runs over the same prompts, and whether that is more than noise."""
    by_parts = set(options.by or ()) <= set(PARTS)
    about_models = ("control",) if by_parts else ("control", "by")
    options.refuse(about_models, " is about two models of the same battles: leave it out for two runs.")
    options.refuse(options_of(ScoreOptions), " is about scores: leave it out for two runs.")
    estimator = make_bradley_terry(options, level=level_for(options), slot=options.slot)
    reading = options.part(InputOptions)
    runs = (open_source(new, unnamed="new run"), open_source(old, unnamed="old run"))
    if runs[0].name == runs[1].name:
        runs = (
            replace_struct(runs[0], name=f"new {runs[0].name}"),
            replace_struct(runs[1], name=f"old {runs[1].name}"),
        )
    tables = tuple(read_to_compare(run.battles, estimator, reading) for run in runs)
    notes = _unlike(runs, tables, anyway=options.anyway)
    lost = [
        missing_among(run.missing_verdicts(), table, options.part(Selection), filtered=options.where is not None)
        for run, table in zip(runs, tables, strict=True)
    ]
    missing = {one.dimension for some in lost for one in some.matchups}
    result = _compare(
        (tables[0], tables[1]),
        runs,
        estimator,
        notes,
        options.unchanged or (),
        dimensions=missing,
        anytime=options.anytime,
    )
    if any(lost):
        result = _with_missing(result, (tables[0], tables[1]), (lost[0], lost[1]), estimator, options.missing)
    return replace(result, changes=tuple(_change_with_scores(change, runs, options) for change in result.changes))


def _change_with_scores(
    change: EntrantChange, runs: tuple[BattleSource, BattleSource], options: CompareOptions
) -> EntrantChange:
    """The change with what the scores of both runs say against it, and what holds of the best of several."""
    found, name = change.difference, change.entrant
    files = [run.folder / SCORES for run in runs if run.folder is not None and (run.folder / SCORES).is_file()]
    if len(files) == len(runs) and options.dimension is None:
        sides = (f"{name} now", f"{name} then")
        rows = [
            {**row, "model": side}
            for side, file in zip(sides, files, strict=True)
            for row in map(json.loads, file.read_text(encoding="utf-8").splitlines())
            if row.get("model") == name
        ]
        found = replace(found, obstacles=(*found.obstacles, *worse_by_scores(rows, *sides, options)))
    return replace(change, difference=for_picked(found, options.picked_from))


def _with_missing(
    result: RunComparison,
    tables: tuple[BattleTable, BattleTable],
    lost: tuple[MissingVerdicts, MissingVerdicts],
    estimator: BradleyTerry,
    rule: MissingRule,
) -> RunComparison:
    """The comparison with what matchups without a verdict could change for each entrant, on the whole and in parts."""
    notes = [
        f"{run}: {some.sentence}; {DONE_WITH[rule]}"
        for run, some in zip((result.new, result.old), lost, strict=True)
        if some
    ]
    changes = []
    for change in result.changes:
        own = (lost[0].only(entrants={change.entrant}), lost[1].only(entrants={change.entrant}))
        changes.append(_change_with_missing(change, tables, own, estimator, result.zero, rule) if any(own) else change)
    if rule == "worst":
        changes = [replace(one, beyond_noise=beyond_noise(one.difference, len(changes))) for one in changes]
    return replace(result, changes=tuple(changes), notes=(*notes, *result.notes))


def _change_with_missing(
    change: EntrantChange,
    tables: tuple[BattleTable, BattleTable],
    lost: tuple[MissingVerdicts, MissingVerdicts],
    estimator: BradleyTerry,
    zero: Sequence[str],
    rule: MissingRule,
) -> EntrantChange:
    """One entrant's change with what its matchups without a verdict could change.

    Against it are those of the new run that it loses, and those of the old run that it wins.
    """
    name, result = change.entrant, change.difference

    def missing_in(battles: Sequence[BattleTable], some: Sequence[MissingVerdicts]) -> Missing:
        def fit(against: bool) -> Contrast:
            def decided(run: int, *, wins: bool) -> BattleTable:
                return add_decided(battles[run], some[run].matchups, lambda one: name if wins else one.rival(name))

            new, old = decided(0, wins=not against), decided(1, wins=against)
            shared = _shared_only((new, old), [])
            fits, blocked = _fit_sides(TwoFits.of(shared, estimator, zero), shared, estimator)
            if name in blocked:
                raise RatingError(f"{'; '.join(blocked[name])}.")
            return fits.contrast(fits.models.index(name))

        counts = {title: len(one) for title, one in zip((result.new, result.old), some, strict=True)}
        return Missing.of_verdicts(together(some), counts, worst_case(fit), rule)

    def of_part(column: str, value: str) -> Missing | None:
        some = [in_part(one, table, column, value) for one, table in zip(lost, tables, strict=True)]
        return missing_in([part_of(table, column, value) for table in tables], some) if any(some) else None

    return replace(change, difference=with_missing(result, missing_in(tables, lost), of_part))


def beyond_noise(result: Difference, entrants: int) -> bool:
    """Whether an entrant moved by more than chance and matchups without a verdict explain, all looked at together."""
    level, lost = 1.0 - (1.0 - result.level) / entrants, result.missing
    ends = result.contrast.ends(level, anytime=result.anytime)
    low, high = ends if lost is None else lost.worst().ends(result.contrast, level, anytime=result.anytime)
    return side(low, high) != "unclear"


def _unlike(runs: tuple[BattleSource, BattleSource], tables: Sequence[BattleTable], *, anyway: bool) -> list[str]:
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
    tables: tuple[BattleTable, BattleTable],
    runs: tuple[BattleSource, BattleSource],
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
    pooled = dimensions_of(concat(list(tables)), estimator.selection)
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
    texts = {**runs[1].prompt_texts(), **runs[0].prompt_texts()}
    ratings = [CENTRE + POINTS_PER_LOGIT * fits.from_zero(run) for run in (0, 1)]
    places = [ranks(rating) for rating in ratings]
    moves = np.array([np.nan if same.get(name) else fits.contrast(i).points for i, name in enumerate(fits.models)])
    changes, no_goes = [], [clause for run in runs for clause in no_go(run.battles)]
    for i, name in enumerate(fits.models):
        one = fits.contrast(i)
        result = _difference(name, one, fits, tables, runs, estimator, parts.get(name, ()), texts, anytime=anytime)
        unnamed = (unnamed_clause(table, PROMPT, (name,)) for table in whole if PROMPT in table.columns)
        against = [*no_goes, *filter(None, unnamed), *blocked.get(name, ()), *result.obstacles]
        result = replace(
            result,
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
                beyond_noise=beyond_noise(result, len(fits.models)),
                difference=result,
            )
        )
    changes.sort(key=lambda change: change.rank_new)
    prompts = max((change.difference.n_prompts or 0 for change in changes), default=0) or None
    if not fits.variances.any():
        notes.append("the two runs hold the same battles")
    remarks = tuple(dict.fromkeys([*notes, *fits.remarks]))
    return RunComparison(
        runs[0].name, runs[1].name, tuple(changes), tuple(fits.zero_names), prompts, estimator.level, remarks
    )


def _fit_sides(
    fits: TwoFits, tables: tuple[BattleTable, BattleTable], estimator: BradleyTerry
) -> tuple[TwoFits, dict[str, tuple[str, ...]]]:
    """The fits with what the first side is worth, where sides changed between the runs and battles say who sat first.

    Also for each entrant why its change cannot be told from its side, where that is so. An entrant that sat on the same
    sides in both runs owes nothing of its change to them.
    """
    shown = [with_sides(solved.fit_input.selected.table) for solved in (fits.new, fits.old)]
    from_zero = np.eye(len(fits.models)) - fits.zero
    leaning = []
    for i, weights in enumerate(from_zero):
        now, then = (side_lean(one, rows, weights) for one, rows in zip((fits.new, fits.old), shown, strict=True))
        if not is_balanced(now - then, fits.contrast(i)):
            leaning.append(i)
    if estimator.slot is False or not leaning:
        return fits, {}
    unsure, joint = leaning, fits
    if all(rows.all() for rows in shown):
        try:
            joint = TwoFits.of(tables, replace(estimator, slot=True), fits.zero_names)
            sure = [all(is_identified(one, from_zero[i]) for one in (joint.new, joint.old)) for i in leaning]
            unsure = [i for i, enough in zip(leaning, sure, strict=True) if not enough]
            worth = float(np.mean([one.fit.parameters.coefficient[0] for one in (joint.new, joint.old)]))
            joint = replace_struct(joint, remarks=(*joint.remarks, side_remark(worth))) if unsure != leaning else fits
        except (RatingError, OptionError):
            joint = fits
    blocked: dict[str, tuple[str, ...]] = {}
    for i in unsure:
        name, rated = fits.models[i], [one.fit_input.selected.table for one in (fits.new, fits.old)]
        now, then = (100 * first_share(table, rows, i) for table, rows in zip(rated, shown, strict=True))
        blocked[name] = (
            f"{name} was shown first in {now:.0f} % of its battles now and in {then:.0f} % then, so its change "
            "cannot be told from the side's advantage (battles with the same sides in both runs would tell; pass "
            "--no-slot if the order in a row does not say who was shown first)",
        )
    return joint, blocked


def _same_answers(
    models: Sequence[str], runs: tuple[BattleSource, BattleSource], unchanged: Sequence[str]
) -> dict[str, bool]:
    """Which entrants have the same answers in both runs, as far as that is known: by name, or by fingerprint."""
    strange = sorted(set(unchanged) - set(models))
    if strange:
        raise OptionError(f"{strange[0]!r} is not in both runs: they share {', '.join(models)}.")
    if unchanged:
        return {name: name in unchanged for name in models}
    new, old = runs[0].answers, runs[1].answers
    return {name: new[name] == old[name] for name in models if name in new and name in old}


def _shared_only(tables: tuple[BattleTable, BattleTable], notes: list[str]) -> tuple[BattleTable, BattleTable]:
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


def _of_shared_dimensions(
    tables: tuple[BattleTable, BattleTable], dimensions: Collection[str], notes: list[str]
) -> tuple[BattleTable, BattleTable]:
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
    tables: tuple[BattleTable, BattleTable],
    estimator: BradleyTerry,
    zero: Sequence[str],
    dimensions: Collection[str],
    *,
    anytime: bool,
) -> dict[str, tuple[PartDifference, ...]]:
    """For each entrant what changed in each dimension and category; intervals hold for all values of a column."""
    result: dict[str, list[PartDifference]] = {}
    for column in PARTS:
        if column == DIMENSION:
            values = [{value: part_of(table, column, value) for value in dimensions} for table in tables]
        else:
            values = [dict(table.split(column)) if column in table.columns else {} for table in tables]
        shared = sorted(values[0].keys() & values[1].keys())
        if len(shared) < 2 or (column != DIMENSION and len(shared) > MANY_VALUES):
            continue
        level = 1.0 - (1.0 - estimator.level) / len(shared)
        for value in shared:
            try:
                if not all(len(some[value]) for some in values):
                    raise RatingError("one of the runs has no battle of it")
                pair = _shared_only((values[0][value], values[1][value]), [])
                fits, blocked = _fit_sides(TwoFits.of(pair, estimator, zero), pair, estimator)
            except (BattleError, RatingError, OptionError) as error:
                for name in tables[0].models:
                    result.setdefault(name, []).append(PartDifference(column, value, None, None, str(error)))
                continue
            for i, name in enumerate(fits.models):
                one = fits.contrast(i)
                estimate = estimate_of(one, fits.new, level, _battles(pair, name), anytime=anytime)
                clauses = (
                    *blocked.get(name, ()),
                    *(c for run in (fits.new, fits.old) for c in obstacles(run, (name,), estimator)),
                )
                result.setdefault(name, []).append(
                    PartDifference(column, value, estimate, one, obstacles=tuple(dict.fromkeys(clauses)))
                )
            for name in set(tables[0].models) - set(fits.models):
                why = f"one of the runs has no battle of {name}"
                result.setdefault(name, []).append(PartDifference(column, value, None, None, why))
    return {name: tuple(parts) for name, parts in result.items()}


def _battles(tables: Sequence[BattleTable], name: str) -> float:
    """How many battles an entrant has in both runs."""
    total = 0.0
    for table in tables:
        code = table.models.index(name)
        rows = ((table.model_a == code) | (table.model_b == code)) & (table.outcome != Outcome.BOTH_BAD.code)
        total += float(table.weight[rows].sum())
    return total


def _difference(
    name: str,
    one: Contrast,
    fits: TwoFits,
    tables: tuple[BattleTable, BattleTable],
    runs: tuple[BattleSource, BattleSource],
    estimator: BradleyTerry,
    parts: tuple[PartDifference, ...],
    texts: Mapping[str, str],
    *,
    anytime: bool,
) -> Difference:
    """The change of one entrant in the form of a difference of two models."""
    level = estimator.level
    n_battles = _battles(tables, name)
    prompts = prompt_changes(name, tables, texts)
    voters = distinct(concat(list(tables)), VOTER) if all(VOTER in table.columns for table in tables) else None
    errors = fits.new.covariance
    assert errors is not None
    clusters = [
        {"column": column, "count": way.count, "effective": way.effective_count, "largest_share": way.largest_share}
        for column, way in zip(fits.new.fit_input.clusters, errors.ways, strict=True)
    ]
    only = only_for(fits.new, estimator) or only_for(fits.old, estimator)
    return Difference(
        new=f"{name} in {runs[0].name}",
        old=f"{name} in {runs[1].name}",
        estimate=estimate_of(one, fits.new, level, n_battles, anytime=anytime),
        contrast=one,
        level=level,
        parts=parts,
        prompts=prompts,
        n_battles=n_battles,
        n_prompts=len(prompts) if PROMPT in tables[0].columns and PROMPT in tables[1].columns else None,
        n_voters=voters,
        interval={"level": level, "cluster": ",".join(fits.new.fit_input.clusters) or None, "clusters": clusters},
        remarks=(*fits.remarks, *few_clusters(fits.new, (name,)), *few_clusters(fits.old, (name,))),
        anytime=anytime,
        then_and_now=True,
        only_for=only,
        obstacles=(*obstacles(fits.new, (name,), estimator), *obstacles(fits.old, (name,), estimator)),
    )

"""What a board says about how well Bradley–Terry describes its battles: one line, or a note for each check that fails.

A note needs two things. The deviation is certain: over all checks of a board together, one that fits gets any note in
at most 5 % of cases (Holm's rule, with the shares of `SHARES`). And it is large enough to matter, because with very
many battles every model is certainly wrong a little: prompts and voters with tastes of their own bend the curve.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType

from tiltyard.analysis.boards.preparation import FitInput, with_sides
from tiltyard.data.battles import BattleTable, Source
from tiltyard.errors import RatingError
from tiltyard.stats import (
    MOST_MODELS,
    POINTS_PER_LOGIT,
    BradleyTerryFit,
    Misfit,
    TieLaw,
    check_fit,
    count_pairs,
    fit_bounded,
    sum_by,
)

FALSE_ALARMS = 0.05
"""How often a board that fits may get a note."""

SHARES = {"pairs": 0.15, "ties": 0.25, "drift": 0.55, "slot": 0.05}
"""How `FALSE_ALARMS` is divided among the checks: drift has to look at every model. Pairs and schedule share one."""

SMALL_PAIRS = 0.015
"""Pairs that are off by less than this share of wins, on average, are not mentioned, ..."""
SMALL_PAIR = 0.03
"""... unless one pair is certainly off by more than this."""
SMALL_TIES = 0.01
"""A tie law is mentioned when uneven pairs, against even ones, tie by more than this more or less than expected."""
SMALL_MOVE = 10.0
SMALL_CHANGE = 15.0
SMALL_SLOT = 5.0
"""Moves with the schedule, changes over time and slot effects below these points are not mentioned."""

MOST_TIMES = 5_000_000
"""More battles than these, in files and without clusters, are counted while they are read, in the same little memory
however many they are; when each was is then not known."""

SKEWED = 0.05
SKEWED_ERRORS = 4.0
"""A model is said to be shown first unevenly where that is by more than this share, and than so many standard errors
of a coin that chose the sides."""

WORST = 5
"""How many pairs and models are listed."""


class OddPair(msgspec.Struct, frozen=True):
    """Two models whose battles do not fit their ratings."""

    model: str
    """It wins more than its rating says."""
    against: str
    battles: float
    share: float
    """What it won of them, ties half."""
    expected: float
    """The same according to the ratings."""
    error: float
    """Standard error of the difference of the two."""
    z: float
    """The difference in standard errors."""


class PairsMisfit(msgspec.Struct, frozen=True):
    """Pairs against ratings."""

    p: float
    """p-value, with the schedule."""
    size: float
    """How far pairs are off beyond chance: root mean square of the share of wins."""
    worst: list[OddPair]


class ScheduleMisfit(msgspec.Struct, frozen=True):
    """Whose rating depends most on who met whom how often."""

    p: float
    model: str
    points: float
    """How far it moves when all pairs weigh the same."""
    z: float
    """The move in standard errors."""

    @property
    def matters(self) -> bool:
        return self.p <= FALSE_ALARMS and abs(self.points) > SMALL_MOVE


class Drifter(msgspec.Struct, frozen=True):
    """A model that changed, or the one with the largest change."""

    model: str
    points: float
    """What it gained on its opponents from first battle to last."""
    error: float
    """Standard error of the gain."""


class DriftMisfit(msgspec.Struct, frozen=True):
    """Models that changed over time."""

    p: float
    models: list[Drifter]


class SlotMisfit(msgspec.Struct, frozen=True):
    """What being shown first is worth."""

    p: float
    points: float
    """What the first slot, or one typical difference in style, is worth."""
    ci_low: float | None
    ci_high: float | None


class MisfitFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The fit against its battles."""

    checked: bool
    reason: str | UnsetType = UNSET
    """Why it was not checked."""
    notes: list[str] | UnsetType = UNSET
    """The checks that failed: `pairs`, `ties`, `drift`, `slot`."""
    too_small: list[str] | UnsetType = UNSET
    """Those that fail by less than matters."""
    by_chance: list[str] | UnsetType = UNSET
    """Those with p below 0.05, which among so many checks may be chance."""
    pairs: PairsMisfit | UnsetType = UNSET
    schedule: ScheduleMisfit | UnsetType = UNSET
    ties: TieLaw | UnsetType = UNSET
    drift: DriftMisfit | UnsetType = UNSET
    slot: SlotMisfit | UnsetType = UNSET
    not_checked: list[str] | UnsetType = UNSET
    """The checks that could not be made, each with the reason."""


def report_fit(fit_input: FitInput, fitted: BradleyTerryFit | None, *, seed: int) -> tuple[MisfitFacts, list[str]]:
    """Check a fit against its battles: the record for a ratings file, and lines for a reader.

    Where ratings were pulled towards the mean (`fitted` is None) the plain fit is checked, because what is pulled does
    not describe the battles on purpose. Where clusters are on another machine, nothing can be checked.
    """
    table = fit_input.selected.table
    seconds = table.number_column("timestamp") if "timestamp" in table.columns else None
    no_slot = _sides_mean_nothing(table, fit_input)
    try:
        if fit_input.elsewhere:
            raise RatingError("the battles of each cluster are on another machine")
        if len(table.models) > MOST_MODELS:
            raise RatingError(f"more than {MOST_MODELS} models")
        if fitted is None:
            fitted = fit_bounded(fit_input.counted.cells, fit_input.tie_model)[0]
        result = check_fit(
            fitted,
            fit_input.rows,
            fit_input.counted,
            fitted.inverse_information(),
            seconds=seconds,
            slot=no_slot is None,
            seed=seed,
        )
    except RatingError as error:
        return MisfitFacts(checked=False, reason=str(error)), [f"fit not checked: {error}"]
    no_ties = "no ties" if len(fitted.tied_groups) == 0 else "all gaps are alike"
    no_times = "no timestamps" if seconds is None else "the times tell nothing apart"
    if seconds is None and float(table.weight.sum()) > MOST_TIMES:
        no_times = f"no timestamps, or more than {MOST_TIMES:,} battles to remember them for"
    missing = {
        "pairs": "too few pairs met",
        "schedule": "all pairs met about equally often",
        "ties": no_ties if fitted.tie_model.has_parameter else "ties count as half a win",
        "drift": no_times,
        "slot": no_slot or "who sat first follows from the models",
    }
    lines, record = fit_lines(result, table.models, fit_input.tie_model.name, missing)
    skewed = None if "slot" in (record.notes or ()) else _skewed_sides(table, fit_input)
    if skewed is not None:
        lines = [*(lines if any(getattr(record, name) is not UNSET for name in SHARES) else ()), skewed]
    return record, lines


def _sides_mean_nothing(table: BattleTable, fit_input: FitInput) -> str | None:
    """Why the first side's advantage is not checked; None where it can be."""
    if fit_input.slot:
        return "the fit includes it"
    shown = with_sides(table)
    if shown.all():
        return None
    if bool((table.source == Source.HUMAN.code).all()):
        marked = "winner_first" in table.columns and bool(table.number_column("winner_first").all())
        why = "columns are labels" if marked else "one side never wins"
        return f"{why}: sides tell nothing of who was shown first"
    return "judgments are settled over both orders"


def _skewed_sides(table: BattleTable, fit_input: FitInput) -> str | None:
    """A sentence about the model that was shown first most unevenly; None where chance explains its sides."""
    shown = with_sides(table)
    if fit_input.slot or not shown.any():
        return None
    m = len(table.models)
    first, second = (sum_by(side[shown], table.weight[shown], m) for side in (table.model_a, table.model_b))
    n = first + second
    away = np.where(n > 0.0, np.abs(first - second), 0.0)
    certain = (away > SKEWED_ERRORS * np.sqrt(np.maximum(n, 1.0))) & (away > 2.0 * SKEWED * n)
    if not certain.any():
        return None
    worst = int(np.argmax(np.where(certain, away / np.maximum(n, 1.0), 0.0)))
    if not shown.all():
        cure = "no fit removes it, as other battles have no sides"
    elif _tells_sides(fit_input):
        cure = "the slot term (option slot) removes it"
    else:
        cure = "only battles that show it on the other side would tell the two apart"
    return (
        f"sides: {table.models[worst]} was shown first in {_percent(first[worst] / n[worst])} of its battles, so its "
        f"rating includes what the first side is worth; {cure}"
    )


def _tells_sides(fit_input: FitInput) -> bool:
    """Whether the battles tell the first side's advantage from the strengths."""
    try:
        fit_bounded(count_pairs(fit_input.rows, slot=True).cells, fit_input.tie_model)
    except RatingError:
        return False
    return True


def fit_lines(
    result: Misfit, models: Sequence[str], tie_model: str, missing: Mapping[str, str]
) -> tuple[list[str], MisfitFacts]:
    """Lines for a reader, and the record for a ratings file; `missing` says why a check was not made."""
    made = _records(result, models)
    ps = {name: part.p for name, part in made.items() if name in SHARES}
    certain, schedule = holm(ps), made.get("schedule")
    noted = [name for name in ps if name in certain and _matters(made[name], schedule)]
    absent = [name for name in missing if name not in made]
    record = MisfitFacts(
        checked=True,
        notes=noted,
        too_small=[name for name in ps if name in certain and name not in noted],
        by_chance=[name for name, p in ps.items() if p < FALSE_ALARMS and name not in certain],
        not_checked=[f"{name}: {missing[name]}" for name in absent],
        **made,
    )
    lines = [_note(made[name], schedule, tie_model) for name in noted]
    return lines or [_without_notes(record, ps, absent)], record


def holm(ps: Mapping[str, float]) -> set[str]:
    """The checks that are certain to fail: Holm's rule with unequal shares (Holm 1979)."""
    left, certain = dict(ps), set[str]()
    while left:
        share = sum(SHARES[name] for name in left)
        name = min(left, key=lambda one: left[one] / SHARES[one])
        if left.pop(name) > FALSE_ALARMS * SHARES[name] / share:
            break
        certain.add(name)
    return certain


def _matters(part: Any, schedule: ScheduleMisfit | None) -> bool:
    match part:
        case PairsMisfit():
            worst = part.worst[0]
            sure = abs(worst.share - worst.expected) - 2.0 * worst.error > SMALL_PAIR
            return part.size > SMALL_PAIRS or sure or bool(schedule and schedule.matters)
        case TieLaw():
            return abs(part.far - part.far_expected - part.close + part.close_expected) > SMALL_TIES
        case DriftMisfit():
            return any(abs(row.points) > SMALL_CHANGE for row in part.models)
        case _:
            return bool(abs(part.points) > SMALL_SLOT)


def _records(result: Misfit, models: Sequence[str]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    if (pairs := result.pairs) is not None:
        rows = []
        for k in range(min(WORST, len(pairs.z))):
            one, other = models[pairs.first[k]], models[pairs.second[k]]
            share, expected = float(pairs.share[k]), float(pairs.expected[k])
            if share < expected:
                one, other, share, expected = other, one, 1.0 - share, 1.0 - expected
            battles, error, z = (float(values[k]) for values in (pairs.battles, pairs.error, pairs.z))
            rows.append(OddPair(one, other, battles, share, expected, error, abs(z)))
        made["pairs"] = PairsMisfit(pairs.p, pairs.size, rows)
    if (schedule := result.schedule) is not None:
        at = int(np.argmax(np.abs(schedule.z)))
        points = POINTS_PER_LOGIT * float(schedule.move[at])
        made["schedule"] = ScheduleMisfit(schedule.p, models[at], points, float(schedule.z[at]))
    if result.ties is not None:
        made["ties"] = result.ties
    if (drift := result.drift) is not None:
        order = np.argsort(-np.abs(drift.z), kind="stable").tolist()
        sure = [i for i in order if abs(drift.z[i]) >= drift.cut] or order[:1]
        moved = [(models[i], *(POINTS_PER_LOGIT * float(x[i]) for x in (drift.change, drift.error))) for i in sure]
        made["drift"] = DriftMisfit(drift.p, [Drifter(*row) for row in moved[:WORST]])
    if (slot := result.slot) is not None:
        low, points, high = (POINTS_PER_LOGIT * part for part in (slot.low, slot.advantage, slot.high))
        made["slot"] = SlotMisfit(slot.p, points, low, high)
    return made


def _note(part: Any, schedule: ScheduleMisfit | None, tie_model: str) -> str:
    match part:
        case PairsMisfit():
            worst = part.worst[0]
            off = f"; pairs are off by {_percent(part.size)} on average" if part.size > SMALL_PAIRS else ""
            moves = ""
            if schedule is not None and schedule.matters:
                moves = (
                    f"; with all pairs met equally often {schedule.model} would move by {schedule.points:+.0f} points"
                )
            return (
                f"misfit, pairs: {worst.model} scores {_percent(worst.share)} against {worst.against} where the "
                f"ratings say {_percent(worst.expected)} ({_p(part.p)}{off}): "
                f"a rating is an average over the opponents met, and does not predict single pairs{moves}"
            )
        case TieLaw():
            law = {"davidson": "Davidson's", "rao-kupper": "Rao and Kupper's"}.get(tie_model, "the")
            return (
                f"misfit, ties: {law} model says {_percent(part.close_expected)} ties among close models and "
                f"{_percent(part.far_expected)} among others, seen are {_percent(part.close)} and "
                f"{_percent(part.far)} ({_p(part.p)}): gaps between ratings depend on the tie model; try another"
            )
        case DriftMisfit():
            rows = [row for row in part.models if abs(row.points) > SMALL_CHANGE]
            changes = ", ".join(
                f"{row.model} {'gained' if row.points > 0 else 'lost'} {abs(row.points):.0f}" for row in rows
            )
            return (
                f"misfit, drift: {changes} points from first battle to last ({_p(part.p)}): "
                f"{'such a' if len(rows) > 1 else 'that'} rating is an average over the time, not the present strength"
            )
        case _:
            ends = f"{part.ci_low:+.0f} … {part.ci_high:+.0f}"
            return (
                f"misfit, sides: being shown first is worth {part.points:+.0f} points ({ends}, {_p(part.p)}): "
                "a model shown first more often than others is rated accordingly; the slot term removes it"
            )


def _without_notes(record: MisfitFacts, ps: Mapping[str, float], missing: Sequence[str]) -> str:
    """The line of a board without notes: what it says follows from the p-values beside it."""
    if not ps:
        return "fit: nothing to check"
    names = {"pairs": "pairs", "ties": "ties", "drift": "drift", "slot": "sides"}
    sentence = "no sign of misfit"
    if record.too_small:
        sentence = f"misfit too small to matter in {' and '.join(names[name] for name in record.too_small)}"
    elif record.by_chance:
        sentence = f"no clear misfit: of {len(ps)} checks, one may come out like this by chance"
    rest = [names[name] for name in names if name in missing]
    seen = ", ".join(f"{names[name]} {_p(p)}" for name, p in ps.items())
    return f"fit: {sentence} ({seen})" + (f"; not checked: {', '.join(rest)}" if rest else "")


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _p(p: float) -> str:
    return f"p {p:.3f}" if p < FALSE_ALARMS else f"p {p:.2f}"

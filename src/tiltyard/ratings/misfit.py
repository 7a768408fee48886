"""Does a Bradley–Terry fit describe its battles? Five checks, each with a p-value that holds under clustering.

- **pairs**: does each pair win as often as its two ratings say (a cycle of styles does not)?
- **schedule**: do ratings depend on who met whom how often? They are compared with those of a fit in which every pair
  weighs the same; if the model holds, both estimate one thing.
- **ties**: do ties fall with the gap as the tie model says?
- **drift**: does a model's strength change from its first battle to its last?
- **slot**: does the first side win more than it should?

Every check is a score test of added parameters (`sign_flips`). A model that is better on some prompts, or liked more by
some voters, is not misfit: such effects move strengths cluster by cluster, and the tests take clusters as they are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tiltyard.ratings.added_parameters import ScoredBattles, own_times, sample, sum_up
from tiltyard.ratings.battle_derivatives import tie_places
from tiltyard.ratings.bradley_terry import BradleyTerryFit, assemble, invert_centred
from tiltyard.ratings.bradley_terry import fit as refit
from tiltyard.ratings.comparisons import FIRST_WON, TIED, Comparisons, Counted, sum_by
from tiltyard.ratings.sign_flips import (
    Family,
    Tested,
    draw_signs,
    groupings,
    p_value,
    smallest_p,
    test_scores,
)
from tiltyard.ratings.tie_models import Curvature
from tiltyard.types import Floats, Ints

MOST_MODELS = 300
"""Above this many models nothing is checked: the tables would take longer than the fit."""

LEAST_OWN = 0.02
"""A parameter of which less than this part is its own, not the fit's parameters', cannot be tested."""


@dataclass(frozen=True, slots=True, eq=False)
class PairResiduals:
    """What every checked pair won beside what the ratings say, the most remarkable first.

    `share` is the part of its battles that `first` won (ties half), `expected` the same by the fit. `size` is the
    root mean square of the true deviations over battles, the part that chance explains taken off. `p` is of pairs and
    schedule together.
    """

    p: float
    size: float
    first: Ints
    second: Ints
    battles: Floats
    share: Floats
    expected: Floats
    error: Floats
    z: Floats


@dataclass(frozen=True, slots=True, eq=False)
class ScheduleMoves:
    """How far each strength moves when every pair weighs the same, in logits, with the standard error of the move."""

    p: float
    move: Floats
    z: Floats


@dataclass(frozen=True, slots=True)
class TieLaw:
    """Ties among the half of the battles with the smaller gaps, and among the other half: seen and expected shares."""

    p: float
    z: float
    close: float
    close_expected: float
    far: float
    far_expected: float


@dataclass(frozen=True, slots=True, eq=False)
class Drift:
    """How much each model gained on its opponents from its first battle to its last, in logits.

    `cut` is how many standard errors a change must have to be remarkable among those of all models.
    """

    p: float
    change: Floats
    error: Floats
    z: Floats
    cut: float


@dataclass(frozen=True, slots=True)
class SlotEffect:
    """The advantage of the first side in logits, with its 95 % interval."""

    p: float
    advantage: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, eq=False)
class Misfit:
    """The checks that could be made; None for the others."""

    pairs: PairResiduals | None = None
    schedule: ScheduleMoves | None = None
    ties: TieLaw | None = None
    drift: Drift | None = None
    slot: SlotEffect | None = None


def check_fit(
    fit: BradleyTerryFit,
    rows: Comparisons,
    counted: Counted,
    inverse: Floats,
    *,
    seconds: Floats | None,
    slot: bool,
    seed: int = 0,
) -> Misfit:
    """Check a fit against its battles, which depend on each other as the clusters of `rows` say.

    Parameters:
        fit: The fit.
        rows: The battles that it was fitted to.
        counted: The same, counted by pair.
        inverse: The inverse of the fit's information (`Covariance.fisher`).
        seconds: When each battle was, NaN where unknown; None where drift is not to be checked.
        slot: Whether sides mean something, so that the first side's advantage can be checked.
        seed: Seed of the random signs.
    """
    rng = np.random.default_rng(seed)
    chosen = sample(rows, rng)
    if len(chosen) < len(rows):
        inverse = inverse * (float(rows.weight.sum()) / float(rows.weight[chosen].sum()))
        rows, counted = rows.take(chosen), counted.take(chosen)
        seconds = None if seconds is None else seconds[chosen]
    battles = ScoredBattles.of(fit, rows, counted)
    families = {"pairs": battles.pair_family(), "schedule": battles.schedule_family()}
    if len(fit.tied_groups):
        families["ties"] = battles.tie_family()
    if slot:
        families["slot"] = battles.slot_family()
    times = None if seconds is None else own_times(rows, seconds)
    if times is not None:
        families["drift"] = battles.drift_family(times)
    ways = groupings(rows, sum(family.size for family in families.values()), rng)
    totals, by_parameter = sum_up(battles, families, ways)
    signs = draw_signs(ways, rng)
    tested = {
        name: test_scores(
            family.left_score(totals, inverse), family.projected(by_parameter, inverse), family.left(inverse), signs
        )
        for name, family in families.items()
        if name != "schedule"
    }
    moves = _schedule_test(battles, families["schedule"], totals, by_parameter, inverse, signs)
    pairs, schedule = _pairs_and_schedule(battles, families["pairs"], tested["pairs"], moves, inverse)
    return Misfit(
        pairs=pairs,
        schedule=schedule,
        ties=_tie_law(battles, families["ties"], tested["ties"]) if "ties" in tested else None,
        drift=_drift(families["drift"], tested["drift"]) if "drift" in tested else None,
        slot=_slot_effect(families["slot"], tested["slot"]) if "slot" in tested else None,
    )


def _schedule_test(
    battles: ScoredBattles,
    family: Family,
    totals: Floats,
    by_parameter: list[Floats],
    inverse: Floats,
    signs: list[NDArray[np.float32]],
) -> Tested:
    """The moves of strengths, in one Newton step, when every pair weighs the same; `information` is their variance."""
    fit, m = battles.fit, battles.rows.n_models
    total = fit.curvature()
    weight = np.ones(len(fit.cells))
    weight[: len(battles.even)] = battles.even
    share = float(battles.rows.weight.sum()) / float(battles.met.sum())

    def assembled(factor: Floats) -> Floats:
        bend = Curvature(*(part * factor * share for part in (total.delta, total.cross, total.tie)))
        return assemble(fit.cells, bend, fit.tied_groups)

    towards = invert_centred(assembled(weight), m)
    family.cross[:] = assembled(weight)
    model = np.diag(towards @ assembled(weight * weight) @ towards - inverse)[:m]
    tables = [(table @ towards)[:, :m] for table in family.projected(by_parameter, inverse)]
    return test_scores((towards @ family.left_score(totals, inverse))[:m], tables, np.maximum(model, 0.0), signs)


def _pairs_and_schedule(
    battles: ScoredBattles, family: Family, tested: Tested, moves: Tested, inverse: Floats
) -> tuple[PairResiduals | None, ScheduleMoves | None]:
    """Both checks, with one p-value for the two together: they look at the same residuals."""
    free = tested.information > LEAST_OWN * family.own
    if not free.any():
        return None, None
    kept = battles.checked_pairs[free]
    tested = tested.keep(free)
    z, drawn = tested.z, tested.draws
    seen = [float((z * z).sum()), float(np.abs(z).max())]
    chance = [(drawn * drawn).sum(axis=1), np.abs(drawn).max(axis=1)]
    schedule, apart = _schedule(battles, moves, inverse)
    if schedule is not None:
        seen.append(float(np.abs(schedule.z).max()))
        chance.append(apart)
    return _pair_residuals(battles, tested, kept, smallest_p(seen, chance)), schedule


def _schedule(battles: ScoredBattles, moves: Tested, inverse: Floats) -> tuple[ScheduleMoves | None, Floats]:
    """The moves as a refit has them, and the largest of each draw."""
    movable = moves.information > LEAST_OWN * np.diag(inverse)[: len(moves.score)]
    if not movable.any():
        return None, np.zeros(0)
    fit = battles.fit
    weight = np.ones(len(fit.cells))
    weight[: len(battles.even)] = battles.even
    again = refit(fit.cells.with_counts(fit.cells.counts * weight[:, None]), fit.tie_model, start=fit.parameters)
    z = np.where(movable, moves.z, 0.0)
    apart = np.abs(moves.draws[:, movable]).max(axis=1)
    p = p_value(float(np.abs(z).max()), apart)
    return ScheduleMoves(p, again.parameters.strength - fit.parameters.strength, z), apart


def _pair_residuals(battles: ScoredBattles, tested: Tested, kept: Ints, p: float) -> PairResiduals:
    """The pairs, the largest deviation in standard errors first."""
    cells, fit = battles.counted.cells, battles.fit
    n_pairs = len(battles.met)
    chance = fit.tie_model.chances(battles.gap, fit.parameters.tie[cells.group])
    n = cells.counts.sum(axis=1)
    turned = battles.turn < 0.0
    won = cells.counts[:, FIRST_WON] + 0.5 * cells.counts[:, TIED]
    due = n * (chance[:, FIRST_WON] + 0.5 * chance[:, TIED])
    share = sum_by(battles.pair, np.where(turned, n - won, won), n_pairs) / battles.met
    expected = sum_by(battles.pair, np.where(turned, n - due, due), n_pairs) / battles.met
    order = np.lexsort((kept, -np.round(np.abs(tested.z), 6)))
    at = kept[order]
    off, met = share[at] - expected[at], battles.met[at]
    part = float(battles.rows.weight.sum()) / float(battles.met.sum())
    error = np.sqrt(tested.variance[order] / part) / met
    excess = float((met * (off * off - error * error)).sum() / met.sum())
    return PairResiduals(
        p=p,
        size=float(np.sqrt(max(excess, 0.0))),
        first=battles.low[at],
        second=battles.high[at],
        battles=met,
        share=share[at],
        expected=expected[at],
        error=error,
        z=tested.z[order],
    )


def _tie_law(battles: ScoredBattles, family: Family, tested: Tested) -> TieLaw | None:
    """Ties of close and of far pairs, seen and expected."""
    if tested.information[0] <= LEAST_OWN * family.own[0] or tested.score[0] == 0.0:
        return None
    cells, fit = battles.counted.cells, battles.fit
    has = tie_places(fit)[cells.group] >= 0
    n = np.where(has, cells.counts.sum(axis=1), 0.0)
    tied = np.where(has, cells.counts[:, TIED], 0.0)
    due = n * fit.tie_model.chances(battles.gap, fit.parameters.tie[cells.group])[:, TIED]
    order = np.argsort(np.abs(battles.gap), kind="stable")
    far = np.zeros(len(n), dtype=bool)
    far[order] = np.cumsum(n[order]) > 0.5 * n.sum()

    def share(what: Floats, where: NDArray[np.bool_]) -> float:
        return float(what[where].sum() / max(float(n[where].sum()), 1e-300))

    z = float(tested.z[0])
    p = p_value(abs(z), np.abs(tested.draws[:, 0]))
    return TieLaw(p, z, share(tied, ~far), share(due, ~far), share(tied, far), share(due, far))


def _drift(family: Family, tested: Tested) -> Drift | None:
    """The change of every model; none for those whose battles all have one time."""
    free = tested.information > LEAST_OWN * np.maximum(family.own, 1e-300)
    if not free.any():
        return None
    z = np.where(free, tested.z, 0.0)
    largest = np.abs(tested.draws[:, free]).max(axis=1)
    safe = np.where(free, tested.information, np.inf)
    return Drift(
        p=p_value(float(np.abs(z).max()), largest),
        change=tested.score / safe,
        error=np.where(free, np.sqrt(tested.variance) / safe, np.inf),
        z=z,
        cut=float(np.quantile(largest, 0.95)),
    )


def _slot_effect(family: Family, tested: Tested) -> SlotEffect | None:
    """The advantage of the first side, unless the models' strengths explain who sat there."""
    if tested.information[0] <= LEAST_OWN * family.own[0]:
        return None
    drawn = np.abs(tested.draws[:, 0])
    value, error = float(tested.estimate[0]), float(tested.error[0])
    half = error * max(float(np.quantile(drawn, 0.95)), 1.96)
    return SlotEffect(p_value(abs(float(tested.z[0])), drawn), value, value - half, value + half)

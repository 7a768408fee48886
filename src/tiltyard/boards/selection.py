"""Which battles are rated: the filters every method shares, with a count of what each left out."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from tiltyard.battles.battle import Outcome, Source
from tiltyard.battles.table import MISSING, BattleTable
from tiltyard.boards.estimator import check_number
from tiltyard.errors import NoBattles
from tiltyard.options import MinBattles, SelectionOptions, explains
from tiltyard.ratings.comparisons import OWN_CLUSTER, sum_by
from tiltyard.types import Floats, Int32s

WEIGHT_ZERO = "row of weight 0"
DIMENSION = "dimension"
NO_DIMENSION = "an unnamed dimension"
"""What battles are called that name no dimension, though others do."""


@explains()
@dataclass(frozen=True, kw_only=True)
class Selection(SelectionOptions):
    """The filters: who decided, which dimension, both-bad and inconsistent battles, and how few battles are too few."""

    min_battles: MinBattles = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("min_battles", self.min_battles, least=0)

    def columns(self) -> tuple[str, ...]:
        """The optional columns that these filters look at."""
        wanted = {"dimension": self.dimension is not None, "inconsistent": self.inconsistent == "drop"}
        return tuple(name for name, needed in wanted.items() if needed)

    def settings(self, method: str) -> dict[str, Any]:
        """What a ratings file says of the method and of these filters."""
        return {"method": method, "both_bad": self.both_bad, "inconsistent": self.inconsistent}


class Selected(msgspec.Struct, frozen=True, eq=False):
    """The battles that are rated (`table`), the both-bad ones kept beside them, and what was left out."""

    table: BattleTable
    both_bad: BattleTable
    left_out: dict[str, float]


def select(table: BattleTable, selection: Selection) -> Selected:
    """Apply the filters in order and count what each removed."""
    left_out: dict[str, float] = {f"bad row: {reason}": count for reason, count in table.skipped.items()}

    def keep(mask: NDArray[np.bool_], reason: str) -> None:
        nonlocal table
        if not mask.all():
            left_out[reason] = float(table.weight[~mask].sum())
            table = table.take(mask)

    absent = table.n_weightless
    if absent:
        keep(table.weight > 0.0, WEIGHT_ZERO)
        left_out[WEIGHT_ZERO] = float(absent)
    if selection.source is not None:
        keep(table.source == Source(selection.source).code, f"source is not {selection.source}")
    if selection.dimension is not None:
        texts = table.text_column("dimension")
        here = np.array([text == selection.dimension for text in texts.labels] + [False])[texts.codes]
        keep(here, f"dimension is not {selection.dimension}")
    if selection.inconsistent == "drop" and "inconsistent" in table.columns:
        keep(table.number_column("inconsistent") != 1.0, "inconsistent judgment")
    is_both_bad = table.outcome == Outcome.BOTH_BAD.code
    if selection.both_bad == "half":
        table = replace(table, outcome=np.where(is_both_bad, np.int8(Outcome.TIE.code), table.outcome))
    elif selection.both_bad == "drop":
        keep(~is_both_bad, "both bad")
    if selection.min_battles > 0:
        rare = per_model(table, table.weight) < selection.min_battles
        reason = f"model with fewer than {selection.min_battles:g} battles"
        keep(~(rare[table.model_a] | rare[table.model_b]), reason)
    table = table.compact()
    is_both_bad = table.outcome == Outcome.BOTH_BAD.code
    rated = table.take(~is_both_bad) if is_both_bad.any() else table
    if not len(rated) or rated.n_battles == 0:
        why = "; ".join(f"{count:,.0f} left out: {reason}" for reason, count in left_out.items())
        raise NoBattles(f"no battle is left to rate{' (' + why + ')' if why else ''}.")
    both_bad = table.take(is_both_bad)
    return Selected(table, both_bad, left_out) if rated is table else only_rated_models(rated, both_bad, left_out)


def only_rated_models(rated: BattleTable, both_bad: BattleTable, left_out: dict[str, float]) -> Selected:
    """Leave out, and name, models that have no rated battle: only both-bad ones, or ties where ties do not count."""
    has_battle = rated.used
    without = [name for name, has in zip(rated.models, has_battle, strict=True) if not has]
    return restrict(Selected(rated, both_bad, left_out), has_battle, f"no rated battle: {', '.join(without)}")


def restrict(selected: Selected, inside: NDArray[np.bool_], reason: str) -> Selected:
    """Only the models that are `inside`, and the battles among them; the others are counted under `reason`."""
    if inside.all():
        return selected
    code = np.cumsum(inside, dtype=np.int32) - np.int32(1)
    models = tuple(name for name, keep in zip(selected.table.models, inside, strict=True) if keep)

    def among(table: BattleTable) -> BattleTable:
        kept = table.take(inside[table.model_a] & inside[table.model_b])
        return replace(kept, models=models, model_a=code[kept.model_a], model_b=code[kept.model_b])

    table, both_bad = among(selected.table), among(selected.both_bad)
    gone = selected.table.n_battles + selected.both_bad.n_battles - table.n_battles - both_bad.n_battles
    left_out = {**selected.left_out, reason: gone} if gone else selected.left_out
    return Selected(table, both_bad, left_out)


def per_model(table: BattleTable, weight: Floats) -> Floats:
    """The sum of a weight over the battles of each model."""
    m = len(table.models)
    return sum_by(table.model_a, weight, m) + sum_by(table.model_b, weight, m)


def known_models(table: BattleTable) -> str:
    """A hint that lists the models there are."""
    shown = ", ".join(table.models[:8])
    return f"The models are {shown}{', …' if len(table.models) > 8 else ''}."


def dimensions_of(table: BattleTable, selection: Selection, more: Collection[str] = ()) -> tuple[str, ...]:
    """The dimensions that are taken together, where there are several; `NO_DIMENSION` is one beside others.

    `more` are dimensions of which there may be no battle; an empty text is no dimension.
    """
    if selection.dimension is not None:
        return ()
    names = set(more)
    if DIMENSION in table.columns:
        texts, counts = table.text_column(DIMENSION), table.weight > 0.0
        if selection.source is not None:
            counts = counts & (table.source == Source(selection.source).code)
        names |= {"" if code == MISSING else texts.labels[code] for code in np.unique(texts.codes[counts])}
    named = sorted(names - {""})
    return () if len(names) < 2 else (*named, NO_DIMENSION) if "" in names else tuple(named)


def pooled_remark(names: Collection[str]) -> list[str]:
    """A sentence where battles of several dimensions are taken together."""
    return [f"{len(names)} dimensions are pooled: {', '.join(names)}"] if names else []


def cluster_codes(table: BattleTable, column: str) -> Int32s:
    """The cluster of every row, numbered in the order of their names; a row without a value is its own."""
    assert MISSING == OWN_CLUSTER
    return table.text_column(column).by_label.codes


def fixed_order(table: BattleTable, controls: Sequence[str] = ()) -> BattleTable:
    """The same battles, in an order of their own where the order of the rows would show in the last digits of sums.

    Whole weights add up to the same in any order. Text columns are numbered by their texts.
    """
    whole = table.score_a is None and bool((table.weight == np.floor(table.weight)).all())
    return table if whole and not controls else table.in_canonical_order()

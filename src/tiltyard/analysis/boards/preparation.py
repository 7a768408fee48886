"""Which battles are rated, with a count of what each filter left out; and how they are prepared for a fit.

Prepared are connections, ties, sides, and which battles depend on each other.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from tiltyard.analysis.boards.estimator import check_number
from tiltyard.data.battles import MISSING, BattleTable, Outcome, Source
from tiltyard.errors import NoBattles, NotConnected, OptionError, OptionValue, RatingError
from tiltyard.options import SelectionOptions, Ties, explains, min_battles_option
from tiltyard.stats import (
    OWN_CLUSTER,
    TIE_MODELS,
    Comparisons,
    Counted,
    TieModel,
    bounded,
    count_pairs,
    islands,
    scaled_difference,
    sum_by,
    ties_bounded,
)
from tiltyard.types import Floats, Int32s, occurring

WEIGHT_ZERO = "row of weight 0"
DIMENSION = "dimension"
NO_DIMENSION = "an unnamed dimension"
"""What battles are called that name no dimension, though others do."""


@explains()
@dataclass(frozen=True, kw_only=True)
class Selection(SelectionOptions):
    """The filters: who decided, which dimension, both-bad and inconsistent battles, and how few battles are too few."""

    min_battles: float = min_battles_option(0)

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


class RatedBattles(msgspec.Struct, frozen=True, eq=False):
    """The battles that are rated (`table`), the both-bad ones kept beside them, and what was left out.

    `outside` are models that were left out because they never met the others.
    """

    table: BattleTable
    both_bad: BattleTable
    left_out: dict[str, float]
    outside: tuple[str, ...] = ()


def select(table: BattleTable, selection: Selection) -> RatedBattles:
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
    return RatedBattles(table, both_bad, left_out) if rated is table else only_rated_models(rated, both_bad, left_out)


def only_rated_models(rated: BattleTable, both_bad: BattleTable, left_out: dict[str, float]) -> RatedBattles:
    """Leave out, and name, models that have no rated battle: only both-bad ones, or ties where ties do not count."""
    has_battle = rated.used
    without = [name for name, has in zip(rated.models, has_battle, strict=True) if not has]
    return restrict(RatedBattles(rated, both_bad, left_out), has_battle, f"no rated battle: {', '.join(without)}")


def restrict(selected: RatedBattles, inside: NDArray[np.bool_], reason: str) -> RatedBattles:
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
    return RatedBattles(table, both_bad, left_out)


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


KINDS = {"question_id": "prompt"}
"""What people call the columns that make battles dependent."""


def kind_of(column: str) -> str:
    """What people call one value of a column: a prompt, a voter, or the column's own name."""
    return KINDS.get(column, column)


class Clusters(msgspec.Struct, frozen=True):
    """The columns whose equal values make battles dependent (none: all are independent), and how they were chosen.

    `nameless` has, for a column, how many battles name no value though others do, and of how many; `alone` are columns
    with one value, `too_few` one that has too few to stand for others, and how many. `absent` says that there is
    neither prompt nor voter.
    """

    columns: tuple[str, ...] = ()
    nameless: tuple[tuple[str, float, float], ...] = ()
    alone: tuple[str, ...] = ()
    too_few: tuple[str, int] | None = None
    absent: bool = False

    def sentences(self, unit: str = "battles") -> list[str]:
        lines = []
        if self.too_few is not None:
            column, count = self.too_few
            lines.append(f"the intervals are for these {count} {kind_of(column)}s: too few to stand for others")
        lines += [
            f"{without:,.0f} of {of:,.0f} {unit} name no {kind_of(column)}: each of them counts as independent"
            for column, without, of in self.nameless
        ]
        for kind in map(kind_of, self.alone):
            lines.append(f"all {unit} have the same {kind}: the intervals are for that {kind} alone")
        return [*lines, INDEPENDENT] if self.absent else lines


TieReason = Literal["soft", "controls", "unbounded"]
"""Why ties count as half-wins though a model of them was asked for."""


class FitInput(msgspec.Struct, frozen=True, eq=False):
    """Battles ready to fit: what was selected, as rows and by pair, and how ties, slot and clusters are read.

    `ties_because` says why no tie model could be used, `sides` what columns A and B are taken for. With `by_counts`
    equal rows were counted before anything else.
    """

    selected: RatedBattles
    rows: Comparisons
    counted: Counted
    tie_model: TieModel
    slot: bool
    clustered: Clusters
    ties_because: TieReason | None = None
    sides: tuple[str, ...] = ()
    by_counts: bool = False

    @property
    def clusters(self) -> tuple[str, ...]:
        return self.clustered.columns

    @property
    def elsewhere(self) -> bool:
        """Whether the clusters are where the battles were counted."""
        return bool(self.clusters) and self.selected.table.clusters is not None


def comparisons(table: BattleTable) -> Comparisons:
    """Battles as the arithmetic sees them; the table holds no both-bad rows."""
    return Comparisons(
        n_models=len(table.models),
        first=table.model_a,
        second=table.model_b,
        result=table.outcome,
        weight=table.weight,
        share=table.score_a,
    )


def without_ties(selected: RatedBattles) -> RatedBattles:
    """Decisive (and soft) battles only; the ties are counted as left out."""
    table = selected.table
    tie = table.outcome == Outcome.TIE.code
    left_out = {**selected.left_out, "tie": float(table.weight[tie].sum())}
    return only_rated_models(table.take(~tie), selected.both_bad, left_out)


MANY_ROWS = 100_000


def connected(selected: RatedBattles, *, only_connected: bool) -> RatedBattles:
    """All models, if battles join them; else only the largest group, or an error that names the groups."""
    table = selected.table
    groups = []
    for some in (table.take(np.arange(min(len(table), MANY_ROWS))), table):  # the first rows alone join most models
        groups = islands(count_pairs(comparisons(some)).cells)
        if len(groups) <= 1:
            return selected
    names = [[selected.table.models[code] for code in group] for group in groups]
    if not only_connected:
        raise NotConnected(names, *_say_islands(names))
    inside = np.zeros(len(selected.table.models), dtype=bool)
    inside[groups[0]] = True
    outside = tuple(name for group in names[1:] for name in group)
    kept = restrict(selected, inside, "model outside the largest connected group")
    return msgspec.structs.replace(kept, outside=outside)


def _say_islands(names: list[list[str]]) -> tuple[str | OptionValue, ...]:
    """Which groups never met, in one line however many there are."""
    small = names[1:]
    shown = [", ".join(group[:4]) + (f" and {len(group) - 4} more" if len(group) > 4 else "") for group in small[:4]]
    if len(small) > 4:
        shown.append(f"and {len(small) - 4} more groups")
    groups = "1 group" if len(small) == 1 else f"{len(small)} groups"
    return (
        f"cannot rate {sum(map(len, names))} models together: {groups} never met the largest one of {len(names[0])}: "
        f"{'; '.join(shown)}. Add battles between them, or pass ",
        OptionValue("only_connected", True),
        ".",
    )


def choose_tie_model(table: BattleTable, ties: Ties, *, controlled: bool) -> tuple[TieModel, TieReason | None]:
    """The tie model asked for; half-wins, with the reason, where the data or the controls allow nothing else."""
    soft = table.score_a is not None and not np.isnan(table.score_a).all()
    decided = (table.outcome == Outcome.A.code) | (table.outcome == Outcome.B.code)
    if not decided.any() and not soft:
        raise RatingError("every battle is a tie: there is nothing to tell the models apart by.")
    if soft or controlled or ties in ("half", "drop"):
        why: TieReason | None = None if ties in ("half", "drop") else "soft" if soft else "controls"
        return TIE_MODELS["half"], why
    for source in Source:
        rows = table.source == source.code
        if rows.any() and not (decided & rows).any():
            raise RatingError(
                f"all {table.weight[rows].sum():,.0f} battles of source {source} are ties, so how often it ties "
                "has no answer. Use ",
                OptionValue("ties", "half"),
                ", or leave that source out.",
            )
    return TIE_MODELS[ties], None


def ties_have_no_answer(counted: Counted, tie_model: TieModel) -> bool:
    """Whether the tie parameter would be infinite: no win contradicts another one."""
    cells = counted.cells
    return tie_model.has_parameter and not (ties_bounded(cells) or ties_bounded(bounded(cells)[0]))


KNOWN_CLUSTERS = ("question_id", "voter")
"""The columns whose equal values make battles dependent, where nothing else is asked for."""

CLUSTER_ALIASES = {"prompt": "question_id"}
"""What a column of clusters may also be called."""

FEW_CLUSTERS = 5
"""With fewer prompts than this, and enough voters, intervals are for these prompts; likewise the other way round."""

INDEPENDENT = "each battle counted as independent: no prompt or voter column"


def asked_clusters(cluster: str) -> tuple[str, ...] | None:
    """The columns that a `cluster` option names; None for those that are known."""
    if cluster == "auto":
        return None
    names = [name.strip() for name in cluster.split(",")]
    columns = tuple(dict.fromkeys(CLUSTER_ALIASES.get(name, name) for name in names if name != "none"))
    if "none" in names and columns:
        raise OptionError(f'cluster is {cluster!r}: "none" goes with no column.')
    if len(columns) > 2 or not all(names):
        raise OptionError(f"cluster is {cluster!r}: expected one column, or two with a comma between them.")
    return columns


def known_clusters(columns: Collection[str]) -> tuple[str, ...]:
    """The columns of clusters that battles have: prompts and voters."""
    return tuple(name for name in KNOWN_CLUSTERS if name in columns)


def choose_clusters(table: BattleTable, cluster: str) -> Clusters:
    """The columns whose equal values make battles dependent."""
    asked = asked_clusters(cluster)
    named = asked if asked is not None else known_clusters(table.columns)
    count = {column: _count_clusters(table, column) for column in named}
    columns = tuple(column for column in named if count[column] > 1)
    few = [column for column in columns if count[column] < FEW_CLUSTERS]
    too_few = few[0] if asked is None and len(columns) == 2 and len(few) == 1 else None
    without = ((column, *nameless(table, column)) for column in named)
    alone = tuple(column for column in named if count[column] == 1)
    return Clusters(
        columns=tuple(column for column in columns if column != too_few),
        nameless=tuple(line for line in without if line[1] > 0.0),
        alone=alone,
        too_few=None if too_few is None else (too_few, count[too_few]),
        absent=asked is None and not columns and not alone,
    )


def nameless(
    table: BattleTable,
    column: str,
    rows: NDArray[np.bool_] | None = None,
    *,
    named: NDArray[np.bool_] | None = None,
) -> tuple[float, float]:
    """How many battles name no prompt (or voter, …), though others do, and of how many; judges have no voters.

    With `rows`, how many of these battles; `named` says which name theirs, where the table's column does not.
    """
    named = table.text_column(column).codes != MISSING if named is None else named
    should = table.source == Source.HUMAN.code if column == "voter" else np.ones(len(table), dtype=bool)
    counted = should if rows is None else should & rows
    without = float(table.weight.sum(where=counted & ~named)) if (named & should).any() else 0.0
    return without, float(table.weight.sum(where=counted))


def _count_clusters(table: BattleTable, column: str) -> int:
    """How many clusters a column makes: rows without a value are one each."""
    codes = cluster_codes(table, column)
    named = int(np.count_nonzero(occurring(codes, int(codes.max(initial=OWN_CLUSTER)) + 2)[:-1]))
    return named + int(np.count_nonzero(codes == OWN_CLUSTER)) if named else 0


SIDE_FLAGS = ("one_order", "winner_first")
"""The columns that say whether sides mean who was shown first."""


LABELS = (
    "columns A and B are taken for labels: every pair has the same model on side A in all its rows, and nothing says "
    "who was shown first;"
)
SAME_SIDE = 8
"""Columns are taken for labels only if at least so many rows follow another one of their pair, all on its sides: sides
that a coin chose look like that in one file of 256."""


def settle_sides(table: BattleTable, *, mark_all: bool = False) -> tuple[BattleTable, list[str]]:
    """The battles, with those marked whose columns A and B are labels, and a note where there are some.

    A file says by `one_order` or `winner_first`, or by its format, whether sides tell who was shown first. Where
    nothing says so and each pair has the same model on side A in every row, the columns are labels. Where a pair sits
    both ways, the order in a row is taken for the one that people saw; `mark_all` marks that too, so that no part of
    the battles is looked at anew.
    """
    judged = table.source != Source.HUMAN.code
    unsaid = table.weight > 0.0
    for name in SIDE_FLAGS:
        if name in table.columns:
            unsaid &= table.number_column(name) != 1.0
    notes = []
    if "judge_model" not in table.columns and _one_way(table, unsaid & judged):
        notes.append(f"{LABELS} if the judge saw answers in this order only, a column one_order that is true says so")
    voted = unsaid & ~judged
    if labels := _one_way(table, voted):
        notes.append(
            f"{LABELS} if answers were shown in this order, set the option slot, and collect battles "
            "shown the other way round"
        )
    elif not mark_all:
        return table, notes
    name = "winner_first" if labels else "one_order"
    known = table.number_column(name) if name in table.columns else np.zeros(len(table))
    return replace(table, columns={**table.columns, name: np.where(voted, 1.0, known)}), notes


def _one_way(table: BattleTable, rows: NDArray[np.bool_]) -> bool:
    """Whether each pair has the same model on side A in all of some rows, and too many of them for chance."""
    m, at, ways = len(table.models), np.flatnonzero(rows), np.array([], dtype=np.int64)
    for some in (at[:MANY_ROWS], at):  # the first rows alone usually have a pair both ways
        ways = np.unique(table.model_a[some].astype(np.int64) * m + table.model_b[some])
        if np.isin(ways % m * m + ways // m, ways).any():
            return False
    return float(table.weight[at].sum()) - len(ways) >= SAME_SIDE


def with_sides(table: BattleTable) -> NDArray[np.bool_]:
    """Which battles say whose answer was shown first: votes of people, and verdicts of a judge asked in one order.

    A judgment settled over both orders has no side, and neither has a row whose winner was written first. Rows that do
    not say so are taken for such where side A, or side B, wins every decided battle, whoever sits there.
    """
    shown = np.asarray(table.source == Source.HUMAN.code, dtype=np.bool_)
    if "one_order" in table.columns:
        shown |= table.number_column("one_order") == 1.0
    if "winner_first" in table.columns:
        shown &= table.number_column("winner_first") != 1.0
    decided = table.outcome[shown & (table.weight > 0.0)]
    one_side_wins = (decided == Outcome.A.code).any() != (decided == Outcome.B.code).any()
    if one_side_wins and np.isin(table.model_a[shown], table.model_b[shown]).any():
        return np.zeros_like(shown)
    return shown


def first_share(table: BattleTable, shown: NDArray[np.bool_], code: int) -> float:
    """In which part of its battles that have sides a model was shown first."""
    first = float(table.weight[shown & (table.model_a == code)].sum())
    second = float(table.weight[shown & (table.model_b == code)].sum())
    return first / (first + second) if first + second > 0.0 else 0.5


def choose_slot(table: BattleTable, slot: bool | None, *, controlled: bool, evaluated: str | None) -> bool:
    """Whether to fit the first side's advantage; refused where sides mean nothing."""
    shown = bool(with_sides(table).all())
    if slot is None:
        return controlled and shown
    if slot and not shown:
        raise OptionError(
            "the slot term needs the side each answer was shown on. A judgment settled over both orders has none, nor "
            "has a row that names the winner first. Use ",
            OptionValue("source", "human"),
            ", or leave the slot term out.",
        )
    if slot and evaluated in table.models:
        code = table.models.index(evaluated)
        if not ((table.model_a == code).any() and (table.model_b == code).any()):
            raise OptionError(f"{evaluated!r} always sat on one side: its rating and the slot cannot be told apart.")
    return slot


def covariates(table: BattleTable, controls: tuple[str, ...]) -> Floats:
    """One scaled difference per control: `len` reads the columns `len_a` and `len_b`."""
    columns = []
    for name in controls:
        missing = [column for column in (f"{name}_a", f"{name}_b") if column not in table.columns]
        if missing:
            raise OptionError(f"control {name!r} needs columns {name}_a and {name}_b; missing: {', '.join(missing)}.")
        value_a, value_b = table.number_column(f"{name}_a"), table.number_column(f"{name}_b")
        columns.append(scaled_difference(name, value_a, value_b, table.weight))
    return np.column_stack(columns)

"""From selected battles to what Bradley–Terry fits: connections, ties, and which battles depend on each other."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import msgspec
import numpy as np
from numpy.typing import NDArray

from tiltyard.battles.battle import Outcome, Source
from tiltyard.battles.table import MISSING, BattleTable
from tiltyard.boards.selection import Selected, cluster_codes, only_rated_models, restrict
from tiltyard.errors import NotConnected, OptionError, OptionValue, RatingError
from tiltyard.options import Ties
from tiltyard.ratings.bradley_terry import bounded
from tiltyard.ratings.comparisons import (
    OWN_CLUSTER,
    Comparisons,
    Counted,
    count_pairs,
    scaled_difference,
)
from tiltyard.ratings.graph import islands, ties_bounded
from tiltyard.ratings.tie_models import TIE_MODELS, TieModel
from tiltyard.types import Floats, occurring

KINDS = {"question_id": "prompt"}
"""What people call the columns that make battles dependent."""


def kind_of(column: str) -> str:
    """What people call one value of a column: a prompt, a voter, or the column's own name."""
    return KINDS.get(column, column)


class FitInput(msgspec.Struct, frozen=True, eq=False):
    """Battles ready to fit: what was selected, as rows and by pair, and how ties, slot and clusters are read."""

    selected: Selected
    rows: Comparisons
    counted: Counted
    tie_model: TieModel
    slot: bool
    clusters: tuple[str, ...]
    remarks: list[str]


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


def without_ties(selected: Selected) -> Selected:
    """Decisive (and soft) battles only; the ties are counted as left out."""
    table = selected.table
    tie = table.outcome == Outcome.TIE.code
    left_out = {**selected.left_out, "tie": float(table.weight[tie].sum())}
    return only_rated_models(table.take(~tie), selected.both_bad, left_out)


MANY_ROWS = 100_000


def connected(selected: Selected, remarks: list[str], *, only_connected: bool) -> Selected:
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
    remarks.append(f"not rated, never met the others: {', '.join(name for group in names[1:] for name in group)}")
    return restrict(selected, inside, "model outside the largest connected group")


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


def choose_tie_model(table: BattleTable, ties: Ties, remarks: list[str], *, controlled: bool) -> TieModel:
    """The tie model asked for; half-wins, with a remark, where the data or the controls allow nothing else."""
    soft = table.score_a is not None and not np.isnan(table.score_a).all()
    decided = (table.outcome == Outcome.A.code) | (table.outcome == Outcome.B.code)
    if not decided.any() and not soft:
        raise RatingError("every battle is a tie: there is nothing to tell the models apart by.")
    if ties in ("half", "drop"):
        return TIE_MODELS["half"]
    if soft:
        remarks.append("soft outcomes: a win counts by how sure it was (score_a), so ratings lie closer together")
    elif controlled:
        remarks.append("ties count as half a win (controls have no tie model)")
    if soft or controlled:
        return TIE_MODELS["half"]
    for source in Source:
        rows = table.source == source.code
        if rows.any() and not (decided & rows).any():
            raise RatingError(
                f"all {table.weight[rows].sum():,.0f} battles of source {source} are ties, so how often it ties "
                "has no answer. Use ",
                OptionValue("ties", "half"),
                ", or leave that source out.",
            )
    return TIE_MODELS[ties]


def settle_tie_model(counted: Counted, tie_model: TieModel, remarks: list[str]) -> TieModel:
    """The tie model, or half-wins where its tie parameter would be infinite: no win contradicts another one."""
    if not tie_model.has_parameter or ties_bounded(counted.cells) or ties_bounded(bounded(counted.cells)[0]):
        return tie_model
    remarks.append("ties count as half a win: no win contradicts another, so how likely a tie is has no finite answer")
    return TIE_MODELS["half"]


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


def choose_clusters(table: BattleTable, cluster: str, remarks: list[str], *, unit: str = "battles") -> tuple[str, ...]:
    """The columns whose equal values make battles dependent; empty when all battles are independent."""
    asked = asked_clusters(cluster)
    result = asked if asked is not None else known_clusters(table.columns)
    count = {column: _count_clusters(table, column) for column in result}
    columns = tuple(column for column in result if count[column] > 1)
    alone = [column for column in result if count[column] == 1]
    if asked is None and len(columns) == 2:
        few = [column for column in columns if count[column] < FEW_CLUSTERS]
        if len(few) == 1:
            columns = tuple(column for column in columns if column not in few)
            remarks.append(
                f"the intervals are for these {count[few[0]]} {kind_of(few[0])}s: too few to stand for others"
            )
    for column in result:
        remarks += nameless_remark(column, *nameless(table, column), unit)
    remarks += [one_cluster(column, unit) for column in alone]
    if asked is None and not columns and not alone:
        remarks.append(INDEPENDENT)
    return columns


def nameless(table: BattleTable, column: str, rows: NDArray[np.bool_] | None = None) -> tuple[float, float]:
    """How many battles name no prompt (or voter, …), though others do, and of how many; judges have no voters.

    With `rows`, how many of these battles.
    """
    return count_nameless(table, column, table.text_column(column).codes != MISSING, rows)


def count_nameless(
    table: BattleTable, column: str, named: NDArray[np.bool_], rows: NDArray[np.bool_] | None = None
) -> tuple[float, float]:
    """The same where it is known which battles name theirs."""
    should = table.source == Source.HUMAN.code if column == "voter" else np.ones(len(table), dtype=bool)
    counted = should if rows is None else should & rows
    without = float(table.weight.sum(where=counted & ~named)) if (named & should).any() else 0.0
    return without, float(table.weight.sum(where=counted))


def nameless_remark(column: str, without: float, of: float, unit: str = "battles") -> list[str]:
    """A sentence where some battles do not name their cluster, or none."""
    if without <= 0.0:
        return []
    return [f"{without:,.0f} of {of:,.0f} {unit} name no {kind_of(column)}: each of them counts as independent"]


def _count_clusters(table: BattleTable, column: str) -> int:
    """How many clusters a column makes: rows without a value are one each."""
    codes = cluster_codes(table, column)
    named = int(np.count_nonzero(occurring(codes, int(codes.max(initial=OWN_CLUSTER)) + 2)[:-1]))
    return named + int(np.count_nonzero(codes == OWN_CLUSTER)) if named else 0


def one_cluster(column: str, unit: str = "battles") -> str:
    """What to remark where nothing can be clustered."""
    return f"all {unit} have the same {kind_of(column)}: the intervals are for that {kind_of(column)} alone"


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

"""Why no gate may decide on some battles, whatever their interval says: too few prompts or voters, or rows without ids.

What a gate says is about the next prompts and voters. Battles of a handful of them say nothing of others, and battles
that do not name theirs count as independent though they may all be of one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

from tiltyard.battles.table import MISSING, BattleTable
from tiltyard.boards.bradley_terry import BradleyTerry, Solved
from tiltyard.boards.preparation import FEW_CLUSTERS, asked_clusters, kind_of, known_clusters, nameless
from tiltyard.decisions.records import OnlyFor

NOTHING: Mapping[str, str] = MappingProxyType({})
MOST_NAMELESS = 0.05
"""A gate decides nothing where a larger part of the battles names no prompt, or no voter, though others do."""


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
    named = [*looked_at, *(column for column in solved.fit_input.clusters if column not in looked_at)]
    return tuple(filter(None, (*few, *(unnamed_clause(table, column, names) for column in named))))


def _too_few(table: BattleTable, names: Sequence[str], column: str) -> str | None:
    """A clause where the battles of one of the models come from too few prompts or voters, effectively."""
    codes = table.text_column(column).codes
    for name in names:
        code = table.models.index(name)
        own = (table.model_a == code) | (table.model_b == code)
        count, worth = len(np.unique(codes[own & (codes != MISSING)])), effective_count(table.take(own), column)
        if count == 0 or worth >= FEW_CLUSTERS:
            continue
        if count < FEW_CLUSTERS:
            return OnlyFor(kind_of(column), count).clause
        return (
            f"the {count:,} {kind_of(column)}s of {name} are worth only {worth:.1f} of equal weight, which cannot "
            "stand for others"
        )
    return None


def effective_count(table: BattleTable, column: str) -> float:
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

"""Battles that another engine holds: counted and summed by prompt there.

A rating needs the counts of each pair, and an interval clustered by prompt needs the products of scores that share a
prompt. Both are sums, so an engine that holds the battles can make them, and no battle has to leave it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tiltyard.battles.table import BattleTable
from tiltyard.types import Bools, Floats

GROUP = "number of the group"
"""The column that says which group of equal rows, by its number at the engine, a row of the table represents."""


NO_LIMIT = 1e300
"""A leverage that no cluster has: with it every cluster is summed by the engine."""


@dataclass(frozen=True, slots=True, eq=False)
class GroupScores:
    """What one battle of a group adds to the score of a parameter: three arrays side by side.

    `leverage` is what one battle adds to its cluster's leverage g, by the number of the group. The scores of a cluster
    are divided by 1 − g; clusters with a g above `most_leverage` are not summed but handed over.
    """

    group: NDArray[np.int64]
    parameter: NDArray[np.int64]
    score: Floats
    n_parameters: int
    leverage: Mapping[int, float]
    most_leverage: float


@dataclass(frozen=True, slots=True, eq=False)
class ClusterSums:
    """Over the small clusters: the sum of s sᵀ (`squares`), how many there are, and in how many each parameter appears.

    `sizes_of` is, for each parameter, the sum over clusters of the squared number of its battles there; `sizes` is the
    same for all battles, and `largest` the number of battles in the largest cluster. `large` holds the other clusters.
    """

    squares: Floats
    clusters: float
    clusters_of: Floats
    sizes_of: Floats
    sizes: float
    largest: float
    large: LargeClusters


@dataclass(frozen=True, slots=True, eq=False)
class LargeClusters:
    """Clusters of which every group is known, as triples: the cluster's number, the group's, and how many battles."""

    cluster: NDArray[np.int64]
    group: NDArray[np.int64]
    battles: Floats


class RemoteClusters(Protocol):
    """The engine that holds the battles, as the intervals see it."""

    @property
    def column(self) -> str:
        """The column whose equal values make battles dependent."""
        ...

    def shared(self, table: BattleTable) -> Bools:
        """Which rows of a counted table hold battles that have a cluster; the others are independent."""
        ...

    def sums(self, scores: GroupScores) -> ClusterSums:
        """The sums over the clusters of the battles in these groups."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class RemoteCounts:
    """The battles of another engine as counts: one row of `table` per group of equal rows.

    `clusters` is there when battles depend on each other.
    """

    table: BattleTable
    clusters: RemoteClusters | None = None


def groups(table: BattleTable) -> NDArray[np.int64]:
    """The group of every row."""
    return table.number_column(GROUP).astype(np.int64)


def with_groups(table: BattleTable, numbers: NDArray[np.intp], skipped: Mapping[str, int]) -> BattleTable:
    """The table with its rows' groups, and with the bad rows that the engine counted."""
    return replace(table, columns={**table.columns, GROUP: numbers.astype(np.float64)}, skipped=skipped)

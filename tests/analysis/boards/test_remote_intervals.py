"""Battles that another engine counts and sums by prompt have the intervals of battles that are here."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from tests.records import replace

from tiltyard.analysis.boards import BradleyTerry
from tiltyard.data.battles import BattleTable, GroupScores, read_battles
from tiltyard.data.battles.spark import GROUP, ClusterSums


@dataclass
class Engine:
    """Holds a table whose equal rows share a group, and sums it by prompt."""

    table: BattleTable
    group: np.ndarray
    column: str = "question_id"

    def shared(self, table):
        return np.ones(len(table), dtype=bool)

    def sums(self, scores: GroupScores) -> ClusterSums:
        n, prompt = scores.n_parameters, self.table.text_column("question_id").codes
        by_group = np.zeros((int(self.group.max()) + 1, n))
        np.add.at(by_group, (scores.group, scores.parameter), scores.score)
        leverage = np.array([scores.leverage[group] for group in self.group.tolist()])
        large, squares, kept = [], np.zeros((n, n)), []
        for name in np.unique(prompt):
            inside = prompt == name
            trace = leverage[inside].sum()
            if trace > scores.most_leverage:
                large += [(name, group, np.sum(inside & (self.group == group))) for group in set(self.group[inside])]
                continue
            line = by_group[self.group[inside]].sum(axis=0) / (1.0 - trace)
            squares += np.outer(line, line)
            kept.append([np.sum(by_group[self.group[inside]][:, k] != 0.0) for k in range(n)] + [inside.sum()])
        sizes = np.array(kept or np.zeros((0, n + 1)), dtype=float)
        return ClusterSums(
            squares,
            float(len(kept)),
            (sizes[:, :n] ** 2).sum(axis=0),
            float((sizes[:, n] ** 2).sum()),
            float(sizes[:, n].max(initial=0.0)),
            np.array(large, dtype=float).reshape(-1, 3),
        )


@pytest.mark.parametrize(("prompts", "battles"), [(40, 600), (900, 4000)])
def test_the_sandwich_is_that_of_battles_that_are_here(prompts, battles):
    rng = np.random.default_rng(4)
    rows = [
        {
            "model_a": f"m{a}",
            "model_b": f"m{(a + 1 + rng.integers(4)) % 5}",
            "winner": rng.choice(["model_a", "model_b", "tie"], p=[0.5, 0.3, 0.2]),
            "source": "human",
            "question_id": f"q{rng.integers(prompts)}",
        }
        for a in rng.integers(5, size=battles)
    ]
    table = read_battles(rows)
    key = (table.model_a * 5 + table.model_b) * 4 + table.outcome
    _, first, group = np.unique(key, return_index=True, return_inverse=True)
    weight = np.bincount(group).astype(float)
    rows = table.take(first)
    columns = {**rows.columns, GROUP: np.arange(len(first), dtype=float)}
    counted = replace(rows, columns=columns, weight=weight, clusters=Engine(table, group))
    here = BradleyTerry(misfit=False).fit(table)
    remote = BradleyTerry(misfit=False).fit(counted)
    (way,), (expected,) = (board.settings.interval.clusters for board in (remote, here))
    assert way == pytest.approx(expected)
    for entry in here:
        other = remote[entry.model]
        assert (other.rating, other.ci_low, other.ci_high) == pytest.approx((entry.rating, entry.ci_low, entry.ci_high))

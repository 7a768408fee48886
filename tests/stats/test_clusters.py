"""The middle of a clustered sandwich: every way to it ends at the sum written out cluster by cluster."""

from __future__ import annotations

import numpy as np
import pytest

from oracles.plain_bradley_terry import as_comparisons, some_rows
from tests.records import replace
from tiltyard.stats import ClusteredRows, ClusterSizes, clusters, count_pairs, sandwich
from tiltyard.stats.bradley_terry import fit
from tiltyard.stats.clusters import SumOfSquares
from tiltyard.stats.tie_models import DAVIDSON

WAYS = {"pairs of rows": 0, "tables": 10**9, "pairs for small clusters": 1}
"""One row for how many parameters makes a cluster large, so that it is spread out in a table."""


@pytest.fixture(params=list(WAYS))
def way(request, monkeypatch):
    monkeypatch.setattr(clusters, "FEW_OF", WAYS[request.param])
    monkeypatch.setattr(clusters, "DENSE_NUMBERS", 20)  # two or three clusters in a table
    return request.param


def some_scores(seed, n=80, models=6, n_clusters=11, extra=2):
    rng = np.random.default_rng(seed)
    first = rng.integers(models, size=n)
    second = (first + rng.integers(1, models, size=n)) % models
    cluster = np.sort(np.append(np.arange(n_clusters), rng.integers(n_clusters, size=n - n_clusters)))
    return ClusteredRows(
        n_models=models,
        n_ties=1 if extra else 0,
        bends=rng.normal(size=(n, 3)),
        cell=np.arange(n),
        first=first,
        second=second,
        cluster=cluster,
        weight=rng.integers(1, 4, size=n).astype(float),
        pull=rng.normal(size=n),
        tied=rng.normal(size=n),
        design=rng.normal(size=(n, max(extra - 1, 0))),
        tie_at=rng.integers(-1, 1 if extra else 0, size=n),
        leverage=rng.random(n),
    )


def written_out(rows):
    """One vector per cluster, added up row by row, and the sum of their squares."""
    m, q = rows.n_models, rows.design.shape[1]
    sums = np.zeros((rows.n_clusters, m + q + rows.n_ties))
    for at, cluster in enumerate(rows.cluster):
        sums[cluster, rows.first[at]] += rows.pull[at]
        sums[cluster, rows.second[at]] -= rows.pull[at]
        sums[cluster, m : m + q] += rows.pull[at] * rows.design[at]
        if rows.tie_at[at] >= 0 and rows.n_ties:
            sums[cluster, m + q + rows.tie_at[at]] += rows.tied[at]
    return sum(np.outer(line, line) for line in sums)


@pytest.mark.parametrize("extra", [0, 1, 3])
@pytest.mark.parametrize("n_clusters", [1, 2, 11, 80])
def test_every_way_is_the_sum_written_out(way, extra, n_clusters):
    rows = some_scores(1, n_clusters=n_clusters, extra=extra)
    squares = SumOfSquares(rows.n_parameters)
    squares.add(rows)
    np.testing.assert_allclose(squares.total, written_out(rows), atol=1e-10)


def test_pieces_add_up_to_the_sum_of_all():
    pieces = [some_scores(seed) for seed in (1, 2)]
    squares = SumOfSquares(pieces[0].n_parameters)
    for piece in pieces:
        squares.add(piece)
    np.testing.assert_allclose(squares.total, sum(map(written_out, pieces)), atol=1e-10)


def test_clusters_and_battles_are_counted_per_model():
    rows = some_scores(2, n_clusters=25)
    found = ClusterSizes.of(rows)
    for model in range(rows.n_models):
        in_cluster = {}
        for c, i, j, w in zip(rows.cluster, rows.first, rows.second, rows.weight, strict=True):
            if model in (i, j):
                in_cluster[int(c)] = in_cluster.get(int(c), 0.0) + w
        n = np.array(list(in_cluster.values()))
        assert found.squares[model] == pytest.approx((n**2).sum())
    sizes = np.bincount(rows.cluster, rows.weight)
    assert (found.count, found.largest, found.all_squares) == (25, sizes.max(), (sizes**2).sum())


@pytest.mark.parametrize("options", [{"prompts": 12}, {"prompts": 25, "lone_share": 0.3, "weighted": True}])
def test_the_sandwich_does_not_depend_on_the_way(options, monkeypatch):
    table = as_comparisons(some_rows(3, n=200, models=7, **options), 7)
    counted = count_pairs(table)
    result = fit(counted.cells, DAVIDSON)
    found = []
    for few in WAYS.values():
        monkeypatch.setattr(clusters, "FEW_OF", few)
        found.append(sandwich(result, table, counted).matrix)
    np.testing.assert_allclose(found[0], found[1], atol=1e-12)
    np.testing.assert_allclose(found[0], found[2], atol=1e-12)


def test_rows_that_are_alike_are_described_once_or_one_by_one():
    table = as_comparisons(some_rows(3, n=300, models=5, prompts=40, lone_share=0.2), 5)
    counted = count_pairs(table)
    result = fit(counted.cells, DAVIDSON)
    nowhere_soft = replace(counted, share=np.full(len(table), np.nan))
    once, one_by_one = (sandwich(result, table, each) for each in (counted, nowhere_soft))
    assert 3 * len(counted.cells) <= len(table)
    np.testing.assert_allclose(once.matrix, one_by_one.matrix, atol=1e-12)
    assert once.degrees == pytest.approx(one_by_one.degrees)


def test_no_rows_are_no_clusters():
    assert some_scores(1).n_clusters == 11
    assert replace(some_scores(1), cluster=np.array([], dtype=np.int64)).n_clusters == 0


def test_models_of_other_clusters_add_up():
    rows = some_scores(2)
    columns = ("first", "second", "cluster", "weight", "pull", "tied", "cell", "design", "tie_at", "leverage")
    head = rows.cluster < 5
    parts = [replace(rows, **{name: getattr(rows, name)[chosen] for name in columns}) for chosen in (head, ~head)]
    parts[1] = replace(parts[1], cluster=parts[1].cluster - 5)
    whole, added = ClusterSizes.of(rows), ClusterSizes.of(parts[0]) + ClusterSizes.of(parts[1])
    for name in ("count", "squares", "all_squares", "largest"):
        np.testing.assert_allclose(getattr(added, name), getattr(whole, name))

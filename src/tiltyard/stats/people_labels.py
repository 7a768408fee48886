"""People's labels on some matchups correct the ratings of a judge who saw all of them (prediction-powered inference).

With s_H and s_J the scores of a matchup under people's and the judge's outcome, both at people's strengths θ, solve

    λ · mean over all matchups of s_J  +  mean over labelled matchups of (s_H − λ s_J)  =  0

(Angelopoulos, Bates, Fannjiang, Jordan and Zrnic 2023, Science 382:669; with λ tuned, Angelopoulos, Duchi and Zrnic
2023, arXiv:2311.01453). Where labelled matchups are a random draw of all, the two terms in s_J cancel on the average,
so θ is people's whatever the judge does: a judge that agrees with people only makes the answer more precise. It is an
ordinary weighted fit: Davidson's statistics are linear in the outcome, so the counts of a pair are people's plus
λ times (the judge's over all, scaled to the number of labels, minus the judge's over labelled matchups).

Errors are those of leaving one prompt (or voter) out, in one Newton step. Means over labels and over all are divided by
how much is left, so a cluster's scores are measured from those means; the judge's bias does not widen the interval.
"""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np
from numpy.typing import NDArray

from tiltyard.errors import NotConverged
from tiltyard.stats.bradley_terry import BradleyTerryFit, assemble, bounded, fit, invert_centred
from tiltyard.stats.clusters import LARGEST_LEVERAGE, SMALL_LEVERAGE
from tiltyard.stats.comparisons import OWN_CLUSTER, TIED, PairCells, sum_by
from tiltyard.stats.graph import ties_bounded
from tiltyard.stats.intervals import Clustering, Covariance, combine, in_both
from tiltyard.stats.tie_models import HALF, CellSums, TieModel
from tiltyard.types import AnyInts, Floats, Ints

ROUNDING = 1e-16
"""A judge whose squared scores beyond the labels are below this part of people's says nothing beyond them."""

LEAST_GAIN = 0.005
"""A judge that takes less than this part off the variances is left out: λ is 0, as its share of the information."""

SOLVED_NUMBERS = 2_000_000
"""Clusters that are solved exactly are solved in pieces of about this many numbers."""


class LabelledMatchups(msgspec.Struct, frozen=True, eq=False):
    """Matchups that a judge saw, and people's labels on some of them.

    Model `first[i]` met `second[i]` (first < second) on prompt `prompt[i]`; `judged[i]` is the judge's outcome as
    shares (won, lost, tied) of the first. A label l is on matchup `matchup[l]` by `voter[l]` (None: voters are not
    known; OWN_CLUSTER: this one is not); `said[l]` is its outcome as shares, all 0 where people found both bad.
    `weight` sums to 1 over the labels of a matchup, so each labelled matchup counts once however many people saw it.
    """

    n_models: int
    first: Ints
    second: Ints
    prompt: Ints
    judged: Floats
    matchup: Ints
    said: Floats
    weight: Floats
    voter: Ints | None = None

    @property
    def n_labelled(self) -> float:
        return float(self.weight.sum())


class PeopleFit(msgspec.Struct, frozen=True, eq=False):
    """Strengths on people's scale and what is known of their errors.

    `weight` is λ, the judge's: 0 where it would add less than `LEAST_GAIN` to the information, or make the median
    interval no narrower. `alone` is the
    covariance of people's labels alone, `state` says which models nothing bounds (`Reach`).
    """

    fit: BradleyTerryFit
    people: BradleyTerryFit
    state: NDArray[np.int8]
    weight: float
    covariance: Covariance
    alone: Covariance

    @property
    def information_from_people(self) -> float:
        """People's share of the information: the variance with the judge over that without."""
        with_judge, without = (float(errors.variances().sum()) for errors in (self.covariance, self.alone))
        return min(1.0, with_judge / without) if without > 0.0 else 1.0


def fit_with_people(data: LabelledMatchups, tie_model: TieModel, *, weight: float | None = None) -> PeopleFit:
    """The corrected fit. Labels must join all models; the judge's weight λ is tuned unless it is given."""
    cells, cell = _cells(data)
    labels = cell[data.matchup]
    counts = _counts(labels, data.weight, data.said, len(cells))
    people_cells, state = bounded(cells.with_counts(counts))
    if tie_model.has_parameter and (counts[:, TIED].sum() <= 0.0 or not ties_bounded(people_cells)):
        tie_model = HALF
    people = fit(people_cells, tie_model)
    alone = _Errors(data, people, cell, 0.0)
    tuned = _tuned(alone) if weight is None else weight
    result, errors = people, alone
    if tuned > 0.0:
        scale = data.n_labelled / len(data.first)
        shift = scale * _counts(cell, np.ones(len(cell)), data.judged, len(cells))
        shift -= _counts(labels, data.weight, data.judged[data.matchup], len(cells))
        corrected = people_cells.counts.copy()
        corrected[: len(cells)] += tuned * shift
        try:
            result = fit(people_cells.with_counts(corrected), tie_model, start=people.parameters)
            errors = _Errors(data, result, cell, tuned)
        except NotConverged:
            tuned, result = 0.0, people
    covariance, people_alone = errors.covariance(), alone.covariance()
    with_judge, without = covariance.variances(), people_alone.variances()
    gains = with_judge.sum() < (1.0 - LEAST_GAIN) * without.sum() and np.median(with_judge) < np.median(without)
    if weight is None and not gains:
        tuned, result, covariance = 0.0, people, people_alone
    ratio = float(np.clip(covariance.variances().sum() / max(people_alone.variances().sum(), 1e-300), 0.0, 1.0))
    covariance = replace(covariance, fisher=ratio * people_alone.fisher)
    return PeopleFit(result, people, state, tuned, covariance, people_alone)


def _cells(data: LabelledMatchups) -> tuple[PairCells, Ints]:
    """The pairs that met, without counts, and the pair of every matchup."""
    key, cell = np.unique(data.first * data.n_models + data.second, return_inverse=True)
    nothing = np.zeros((len(key), 3))
    first, second = np.divmod(key, data.n_models)
    cells = PairCells(data.n_models, first, second, nothing, np.zeros(len(key), dtype=np.int64), 1, nothing[:, :0])
    return cells, np.asarray(cell, dtype=np.int64)


def _counts(cell: Ints, weight: Floats, shares: Floats, n_cells: int) -> Floats:
    return np.column_stack([sum_by(cell, weight * shares[:, k], n_cells) for k in range(3)])


def _tuned(alone: _Errors) -> float:
    """The judge's weight with the smallest sum of variances, by prompt: clip(−Σ(Ka)·(Kb) / Σ|Kb|², 0, 1)."""
    m = alone.fit.cells.n_models
    people = (alone.people_scores @ alone.inverse)[:, :m]
    judge = (alone.judge_scores @ alone.inverse)[:, :m]
    size = float((judge * judge).sum())
    if size <= ROUNDING * float((people * people).sum()):  # everything is labelled
        return 0.0
    return float(np.clip(-(people * judge).sum() / size, 0.0, 1.0))


class _Errors:
    """Scores and curvature at a fit, by prompt and by voter, and the covariance made of them.

    Everything is in units of labels: the labelled matchups count 1 each, all matchups together as many as are labelled.
    """

    def __init__(self, data: LabelledMatchups, fitted: BradleyTerryFit, cell: Ints, weight: float) -> None:
        self.data, self.fit, self.cell, self.weight = data, fitted, cell, weight
        self.size = fitted.n_parameters
        self.scale = data.n_labelled / len(cell)
        delta, tie = fitted.parameters.delta(fitted.cells), fitted.parameters.tie[fitted.cells.group]
        scores = fitted.tie_model.result_scores(delta, tie)
        self.scores = scores.delta, np.where(np.isfinite(scores.tie), scores.tie, 0.0)
        ones, none = np.ones(len(delta)), np.zeros(len(delta))
        bend = fitted.tie_model.evaluate(delta, tie, CellSums(ones, none, none)).curvature
        self.bend = np.column_stack([bend.delta, bend.cross, bend.tie])
        self.inverse = invert_centred(assemble(fitted.cells, fitted.curvature(), fitted.tied_groups), data.n_models)
        labels = data.matchup
        self.all_rows = _Rows(self, cell, data.judged, np.full(len(cell), self.scale))
        self.judge_rows = _Rows(self, cell[labels], data.judged[labels], data.weight)
        self.people_rows = _Rows(self, cell[labels], data.said, data.weight)
        self.prompts = int(data.prompt.max(initial=-1)) + 1

    @property
    def people_scores(self) -> Floats:
        """People's scores by prompt, measured from their mean."""
        return self.people_rows.centred(self.data.prompt[self.data.matchup], self.prompts)

    @property
    def judge_scores(self) -> Floats:
        """The judge's over all matchups minus those over labelled ones, by prompt, each from its mean."""
        every = self.all_rows.centred(self.data.prompt, self.prompts)
        return every - self.judge_rows.centred(self.data.prompt[self.data.matchup], self.prompts)

    def covariance(self) -> Covariance:
        """By prompt, and by voter where voters are known; a variance is the largest of those and the two together."""
        data, m = self.data, self.data.n_models
        label_prompt = data.prompt[data.matchup]
        by_prompt = self._by_cluster(label_prompt, self.prompts, everything=True)
        ways = [self._way(by_prompt, label_prompt)]
        matrices = [by_prompt]
        if data.voter is not None:
            voter = _own_numbers(data.voter)
            by_voter = self._by_cluster(voter, int(voter.max()) + 1, everything=False)
            both = _own_numbers(in_both(label_prompt, data.voter))
            scores = self._label_scores(both, int(both.max()) + 1) @ self.inverse
            ways.append(self._way(by_voter, voter))
            matrices = [by_prompt + by_voter - scores.T @ scores, by_prompt, by_voter]
        battles = sum_by(data.first[data.matchup], data.weight, m) + sum_by(data.second[data.matchup], data.weight, m)
        return combine(tuple(matrices), self.inverse, battles, tuple(ways))

    def _way(self, matrix: Floats, cluster: Ints) -> Clustering:
        """A way of clustering with what its labels are worth, in all and for each model."""
        data, m = self.data, self.data.n_models
        n = int(cluster.max()) + 1
        weight, first, second = data.weight, data.first[data.matchup], data.second[data.matchup]
        by_model = sum_by(cluster * m + first, weight, n * m) + sum_by(cluster * m + second, weight, n * m)
        by_model = by_model.reshape(n, m)
        sizes = sum_by(cluster, weight, n)
        total, used = float(sizes.sum()), float((sizes > 0).sum())
        effective = by_model.sum(axis=0) ** 2 / np.maximum((by_model**2).sum(axis=0), 1e-300)
        return Clustering(matrix, used, total**2 / float(sizes @ sizes), effective, float(sizes.max()) / total)

    def _label_scores(self, cluster: Ints, n: int) -> Floats:
        """The labels' part of the equation by cluster, measured from its mean."""
        return self.people_rows.centred(cluster, n) - self.weight * self.judge_rows.centred(cluster, n)

    def _by_cluster(self, cluster: Ints, n: int, *, everything: bool) -> Floats:
        """Σ of squared moves by leaving each cluster out; `everything`: the unlabelled matchups are in clusters too."""
        lam, data = self.weight, self.data
        present = (data.said.sum(axis=1) > 0).astype(np.float64)  # no curvature where people found both bad
        label_bend = data.weight * (present - lam)
        total = data.n_labelled
        share = sum_by(cluster, data.weight, n) / total
        scores = self._label_scores(cluster, n) / (1.0 - np.minimum(share, LARGEST_LEVERAGE))[:, None]
        leverage = sum_by(cluster, label_bend * self._leverage()[self.cell[data.matchup]], n)
        parts = [(cluster, data.matchup, label_bend, share)]
        if everything and lam > 0.0:
            everywhere = np.full(len(self.cell), lam * self.scale)
            share_all = sum_by(data.prompt, everywhere, n) / (lam * total)
            centred = lam * self.all_rows.centred(data.prompt, n)
            scores += centred / (1.0 - np.minimum(share_all, LARGEST_LEVERAGE))[:, None]
            leverage += sum_by(data.prompt, everywhere * self._leverage()[self.cell], n)
            parts.append((data.prompt, np.arange(len(self.cell)), everywhere, share_all))
        moves = scores @ self.inverse
        beyond = np.clip(leverage - share, 0.0, SMALL_LEVERAGE)
        moves /= (1.0 - beyond)[:, None]
        large = np.flatnonzero(leverage > SMALL_LEVERAGE)
        step = max(1, SOLVED_NUMBERS // self.size**2)
        for start in range(0, len(large), step):
            chosen = large[start : start + step]
            moves[chosen] = self._solved(chosen, scores[chosen], parts, n)
        used = max(int((np.abs(scores).sum(axis=1) > 0).sum()), 2)
        return np.asarray(moves.T @ moves * ((used - 1.0) / used))

    def _solved(
        self, chosen: NDArray[np.intp], scores: Floats, parts: list[tuple[Ints, Ints, Floats, Floats]], n: int
    ) -> Floats:
        """The moves of some clusters with the curvature that is left without them: H_c⁻¹ times their scores."""
        place = np.full(n, -1, dtype=np.int64)
        place[chosen] = np.arange(len(chosen))
        curvature = np.zeros((len(chosen), self.size, self.size))
        for cluster, matchup, weight, share in parts:
            whole = self._curvature(np.zeros(len(matchup), dtype=np.int64), matchup, weight, 1)[0]
            inside = place[cluster] >= 0
            own = self._curvature(place[cluster[inside]], matchup[inside], weight[inside], len(chosen))
            left = 1.0 - np.minimum(share[chosen], LARGEST_LEVERAGE)
            # What the others' curvature, scaled up to the whole again, lacks of the whole.
            curvature += (own - share[chosen][:, None, None] * whole) / left[:, None, None]
        lost = curvature @ self.inverse
        largest = np.linalg.eigvals(lost).real.max(axis=1)
        held = np.minimum(1.0, LARGEST_LEVERAGE / np.maximum(largest, 1e-300))
        without = np.linalg.inv(np.eye(self.size) - held[:, None, None] * lost)
        return np.asarray(np.einsum("cp,cpq->cq", scores @ self.inverse, without))

    def _curvature(self, cluster: Ints, matchup: Ints, weight: Floats, n: int) -> Floats:
        """The curvature of weighted matchups by cluster: (n, parameters, parameters)."""
        size, m = self.size, self.data.n_models
        cells, cell = self.fit.cells, self.cell[matchup]
        first, second, bend = cells.first[cell], cells.second[cell], weight[:, None] * self.bend[cell]
        base, total = cluster * size * size, np.zeros(n * size * size)
        ends = ((first, first, 1.0), (second, second, 1.0), (first, second, -1.0), (second, first, -1.0))
        for i, j, sign in ends:
            total += sign * sum_by(base + i * size + j, bend[:, 0], n * size * size)
        if size > m:
            at = np.full(len(cell), m)
            for i, sign in ((first, 1.0), (second, -1.0)):
                total += sign * sum_by(base + i * size + at, bend[:, 1], n * size * size)
                total += sign * sum_by(base + at * size + i, bend[:, 1], n * size * size)
            total += sum_by(base + at * size + at, bend[:, 2], n * size * size)
        return total.reshape(n, size, size)

    def _leverage(self) -> Floats:
        """The trace of a matchup's curvature times the inverse, by pair."""
        inverse, m, cells = self.inverse, self.data.n_models, self.fit.cells
        f, s = cells.first, cells.second
        leverage = self.bend[:, 0] * (inverse[f, f] + inverse[s, s] - 2.0 * inverse[f, s])
        if self.size > m:
            leverage += 2.0 * self.bend[:, 1] * (inverse[f, m] - inverse[s, m]) + self.bend[:, 2] * inverse[m, m]
        return np.asarray(leverage)


class _Rows:
    def __init__(self, errors: _Errors, cell: Ints, shares: Floats, weight: Floats) -> None:
        cells = errors.fit.cells
        self.size, self.n_models = errors.size, errors.data.n_models
        self.first, self.second, self.weight = cells.first[cell], cells.second[cell], weight
        self.pull = weight * (shares * errors.scores[0][cell]).sum(axis=1)
        self.tied = weight * (shares * errors.scores[1][cell]).sum(axis=1)

    def sums(self, cluster: Ints | None, n: int) -> Floats:
        """Scores summed by cluster; with None over all rows."""
        at = (np.zeros(len(self.pull), dtype=np.int64) if cluster is None else cluster) * self.size
        total = sum_by(at + self.first, self.pull, n * self.size) - sum_by(at + self.second, self.pull, n * self.size)
        if self.size > self.n_models:
            total += sum_by(at + self.n_models, self.tied, n * self.size)
        return total.reshape(n, self.size)

    def centred(self, cluster: Ints, n: int) -> Floats:
        """The same, measured from the mean of all rows."""
        share = sum_by(cluster, self.weight, n) / max(float(self.weight.sum()), 1e-300)
        return self.sums(cluster, n) - share[:, None] * self.sums(None, 1)


def _own_numbers(cluster: AnyInts) -> Ints:
    """Clusters numbered without gaps; a row without one gets a number of its own."""
    own = cluster == OWN_CLUSTER
    code = cluster.copy()
    code[own] = int(cluster.max(initial=-1)) + 1 + np.arange(int(own.sum()))
    return np.asarray(np.unique(code, return_inverse=True)[1], dtype=np.int64)

"""Differences corrected by people's scores: coverage with known truth; and which way of judging is cheaper."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from tests.sizes import size
from tiltyard.stats import corrected_difference, score_difference, separation
from tiltyard.types import Floats

RUNS = size(300, soak=2_000)


def grades(rng: np.random.Generator, prompts: int, quality: float) -> tuple[Floats, Floats]:
    """Two models on 1–10: people's differences, and those of a judge that is noisy and favours the first by 0.6."""
    base = rng.normal(7, 1.5, prompts)
    models = base + rng.normal(0.2, 1, prompts), base + rng.normal(0, 1, prompts)
    people = [np.clip(np.round(one), 1, 10) for one in models]
    judge = [
        np.clip(np.round(7.5 + quality * (one - 7) + (1 - quality) * rng.normal(0, 1.5, prompts) + bias), 1, 10)
        for one, bias in zip(models, (0.6, 0.0), strict=True)
    ]
    return people[0] - people[1], judge[0] - judge[1]


@cache
def true_difference() -> float:
    """What people's grades differ by, whatever a judge says."""
    return float(grades(np.random.default_rng(0), 1_000_000, 0.0)[0].mean())


@pytest.mark.parametrize("quality", [0.0, 0.4, 0.9])
@pytest.mark.parametrize(("labelled", "prompts"), [(20, 40), (20, 200), (100, 150), (200, 1000)])
def test_intervals_hold_the_truth_whatever_the_judge(quality: float, labelled: int, prompts: int) -> None:
    rng, truth = np.random.default_rng(7), true_difference()
    held, widths, alone = 0, [], []
    for _ in range(RUNS):
        people, judge = grades(rng, prompts, quality)
        one = corrected_difference(people[:labelled], judge[:labelled], judge[labelled:], 9.0, range_of_scores=9.0)
        low, high = one.estimate.ends(0.95)
        assert low is not None
        assert high is not None
        held += low <= truth <= high
        widths.append(high - low)
        own = score_difference(people[:labelled], 9.0).ends(0.95)
        alone.append(own[1] - own[0])  # type: ignore[operator]
    assert held / RUNS > 0.95 - 4 * np.sqrt(0.05 * 0.95 / RUNS)
    assert np.median(widths) < 1.03 * np.median(alone)
    if quality == 0.9 and prompts == 1000:
        assert np.median(widths) < 0.7 * np.median(alone), "a good judge is worth more than twice as many people"


def test_a_judge_without_a_say_leaves_peoples_difference() -> None:
    people = np.array([1.0, 0.0, 2.0, -1.0] * 6)
    constant = corrected_difference(people, np.zeros(24), np.zeros(100), 9.0)
    assert constant.weight == 0.0
    assert constant.estimate.value == score_difference(people, 9.0).value
    against = corrected_difference(people, -people, np.zeros(100), 9.0)
    assert against.weight == 0.0, "a judge that says the opposite counts nothing"
    everywhere = corrected_difference(people, people, np.array([]), 9.0)
    assert (everywhere.weight, everywhere.estimate.value) == (0.0, pytest.approx(0.5))


def test_the_formula_by_hand() -> None:
    people, judge = np.array([2.0, 0.0, 1.0, 3.0, -1.0]), np.array([1.0, 0.0, 2.0, 3.0, -1.0])
    others = np.array([1.0, 2.0, 0.0, 1.0, 1.0, -1.0, 0.0, 2.0, 1.0, 3.0])
    one = corrected_difference(people, judge, others, 9.0)
    slope = np.cov(people, judge)[0, 1] / np.var(judge, ddof=1)
    assert one.weight == pytest.approx(slope / 1.5)
    whole, without = (people - one.weight * judge).mean() + one.weight * 1.0, []
    for i in range(5):
        a, b = np.delete(people, i), np.delete(judge, i)
        weight = np.cov(a, b)[0, 1] / np.var(b, ddof=1) / 1.5
        without.append((a - min(weight, 1.0) * b).mean() + min(weight, 1.0) * 1.0)
    assert one.estimate.value == pytest.approx(5 * whole - 4 * np.mean(without))
    jackknife = np.sqrt(4 * np.var(without))
    of_known_weight = score_difference(people - one.weight * judge, 9.0).error
    labelled = np.sqrt(one.estimate.error**2 - one.weight**2 * np.var([*judge, *others], ddof=1) / 10)
    assert labelled == pytest.approx(max(jackknife, of_known_weight))


@pytest.mark.parametrize(("labelled", "least"), [(20, 0.885), (50, 0.925)])
@pytest.mark.parametrize("judge", ["exp", "square"])
def test_a_judge_whose_scores_are_a_curve_of_peoples_is_corrected_too(judge: str, labelled: int, least: float) -> None:
    """They hold .91 of 2,000 with 20 labels, .94 with 50; with a λ taken for known .841 and .868 with 20."""
    rng, held, runs = np.random.default_rng([4, labelled]), 0, 1_000
    for _ in range(runs):
        people = rng.normal(0.2, 1.0, 400)
        scores = np.exp(people) if judge == "exp" else people**2 + people
        one = corrected_difference(people[:labelled], scores[:labelled], scores[labelled:], float(np.ptp(scores)))
        low, high = one.estimate.ends(0.95)
        assert low is not None
        assert high is not None
        held += low <= 0.2 <= high
    assert held / runs >= least, "one standard error is .009"


def test_a_judge_that_varies_on_one_labelled_prompt_alone_is_weighed_without_it_too() -> None:
    people, judge = np.array([1.0, 0.0] * 10), np.zeros(20)
    judge[0] = 3.0
    one = corrected_difference(people, judge, np.array([0.0, 3.0] * 20), 9.0)
    assert np.isfinite([one.estimate.value, one.estimate.error]).all()
    assert one.estimate.error >= score_difference(people - one.weight * judge, 9.0).error


def test_separation_is_free_of_units_and_counts_costs() -> None:
    rng = np.random.default_rng(3)
    better, tied = rng.normal(0.5, 1, 200), rng.choice([-0.5, 0.0, 0.5], 200, p=[0.3, 0.2, 0.5])
    plain = separation(([better], 9.0, 100.0), ([tied], 1.0, 200.0), np.random.default_rng(0))
    stretched = separation(([10 * better], 90.0, 100.0), ([tied], 1.0, 200.0), np.random.default_rng(0))
    dearer = separation(([better], 9.0, 200.0), ([tied], 1.0, 200.0), np.random.default_rng(0))
    assert plain.ratio == pytest.approx(stretched.ratio)
    assert plain.ratio == pytest.approx(2 * (dearer.ratio or 0))
    assert plain.low is not None
    assert plain.high is not None
    assert plain.low < (plain.ratio or 0) < plain.high
    few = separation(([better[:10]], 9.0, 1.0), ([tied[:10]], 1.0, 1.0), np.random.default_rng(0))
    assert few.ratio is None

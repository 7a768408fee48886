"""How much votes weigh: honest ones nearly all, and no block and no day enough to move a model far."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.records import replace
from tiltyard.arena.rules import bounded_influence
from tiltyard.arena.rules.bounded_influence import (
    LEAST_WEIGHT,
    VoteGroups,
    bounded_weights,
    expected_strengths,
    recent_shifts,
)

MODELS = 20
POINTS = 400.0 / np.log(10.0)
BLOCK, TIME = 1.25, 2.0


@dataclass(frozen=True)
class Votes:
    a: np.ndarray
    b: np.ndarray
    score: np.ndarray
    block: np.ndarray
    day: np.ndarray

    def __len__(self):
        return len(self.a)

    def take(self, rows):
        return Votes(self.a[rows], self.b[rows], self.score[rows], self.block[rows], self.day[rows])

    def and_(self, other):
        return Votes(*(np.concatenate(pair) for pair in zip(vars(self).values(), vars(other).values(), strict=True)))

    def weights(self, rounds=12, n_models=MODELS):
        groupings = [
            VoteGroups(self.block, BLOCK),
            *(VoteGroups(self.day // span, TIME) for span in (1, 7, 30)),
        ]
        bounded = self.block >= 0
        return bounded_weights(self.a, self.b, self.score, groupings, bounded=bounded, n_models=n_models, rounds=rounds)

    def points(self, weight):
        """Each model's strength in Elo points."""
        return POINTS * expected_strengths(self.a * MODELS + self.b, self.score, weight, np.zeros(MODELS))


def honest(n, seed=0, blocks=150, days=30, taste=60.0):
    """Sessions of 1 to 60 votes with tastes of their own, over blocks some of which are shared by many."""
    rng = np.random.default_rng(seed)
    strength, share = rng.normal(0.0, 180.0, MODELS), rng.pareto(1.2, blocks) + 1.0
    parts, left = [], n
    while left:
        k = min(left, int(rng.integers(1, 61)) if rng.random() < 0.3 else int(rng.integers(1, 12)))
        left -= k
        a = rng.integers(0, MODELS, k)
        b = (a + rng.integers(1, MODELS, k)) % MODELS
        liked = strength + rng.normal(0.0, taste, MODELS)
        score = (rng.random(k) < 1.0 / (1.0 + np.exp((liked[b] - liked[a]) / POINTS))).astype(float)
        score[rng.random(k) < 0.08] = 0.5
        block, day = rng.choice(blocks, p=share / share.sum()), rng.integers(days)
        parts.append(Votes(a, b, score, np.full(k, block), np.full(k, day)))
    return Votes(*(np.concatenate([getattr(part, name) for part in parts]) for name in vars(parts[0])))


def pushing(target, n, *, blocks=1, days=1, seed=1):
    """Votes that the target wins, whoever it meets, from blocks of the attacker's own."""
    rng = np.random.default_rng(seed)
    b = (target + rng.integers(1, MODELS, n)) % MODELS
    return Votes(np.full(n, target), b, np.ones(n), 1000 + rng.integers(0, blocks, n), 20 + rng.integers(0, days, n))


@pytest.fixture(scope="module")
def crowd():
    return honest(4000)


@pytest.fixture(scope="module")
def middle(crowd):
    return int(np.argsort(crowd.points(np.ones(len(crowd))))[MODELS // 2])


def gain(crowd, attack, target):
    """Points that an attack brings, with every vote whole and with weights."""
    both, alone = crowd.and_(attack), crowd.points(crowd.weights())
    whole = both.points(np.ones(len(both)))[target] - crowd.points(np.ones(len(crowd)))[target]
    return whole, both.points(both.weights())[target] - alone[target]


@pytest.mark.parametrize("seed", range(4))
def test_honest_votes_keep_98_percent_of_their_weight_and_no_large_group_loses_half(seed):
    votes = honest(4000, seed=seed)
    weight = votes.weights()
    assert 0.96 < weight.mean() < 1.0
    assert weight.min() > 0.0
    assert weight.max() == 1.0
    for block in np.unique(votes.block):
        own = votes.block == block
        assert own.mean() < 0.01 or weight[own].mean() > 0.5


@pytest.mark.parametrize("n", [64, 1000, 20_000])
def test_one_block_moves_a_model_by_at_most_ten_points_with_any_number_of_votes_in_a_day(crowd, middle, n):
    whole, bounded = gain(crowd, pushing(middle, n), middle)
    assert bounded < 10.0
    assert whole > 5.0 * bounded


def test_fifty_blocks_with_more_votes_than_everybody_else_cannot_make_honest_votes_look_odd(crowd, middle):
    """From equal weights the rounds would end where the attackers are right and everybody else is odd."""
    attack = pushing(middle, 8000, blocks=50)
    whole, bounded = gain(crowd, attack, middle)
    assert whole > 300.0
    assert bounded < 25.0
    weight = crowd.and_(attack).weights()
    assert weight[: len(crowd)].mean() > 0.96
    assert weight[len(crowd) :].mean() < 0.05


def test_votes_that_pull_down_are_bounded_too(crowd, middle):
    attack = pushing(middle, 2000)
    attack = replace(attack, score=np.zeros(2000))
    whole, bounded = gain(crowd, attack, middle)
    assert whole < -100.0
    assert bounded > -10.0


def test_no_cell_pulls_further_than_its_cap(crowd, middle):
    """A block's pull may be a little above: of votes that balance each other, some count less because of others."""
    votes = crowd.and_(pushing(middle, 500, blocks=20, days=5))
    weight = votes.weights()
    strength = votes.points(weight) / POINTS
    expected = 1.0 / (1.0 + np.exp(strength[votes.b] - strength[votes.a]))
    pull, spread = weight * (votes.score - expected), weight * expected * (1.0 - expected)
    for group, cap, slack in ((votes.block, BLOCK, 1.2), (votes.day, TIME, 1.02), (votes.day // 7, TIME, 1.02)):
        code_a, code_b, size = group * MODELS + votes.a, group * MODELS + votes.b, (group.max() + 1) * MODELS
        total = np.bincount(code_a, pull, size) - np.bincount(code_b, pull, size)
        variance = np.bincount(code_a, spread, size) + np.bincount(code_b, spread, size)
        assert (np.abs(total) <= slack * cap * np.sqrt(1.0 + variance)).all()


def test_votes_without_a_block_weigh_one_whatever_they_say(crowd, middle):
    attack = pushing(middle, 300)
    attack = replace(attack, block=np.full(300, -1))
    assert (crowd.and_(attack).weights()[len(crowd) :] == 1.0).all()


def test_weights_are_the_same_bits_again_and_have_six_decimals(crowd):
    weight = crowd.weights()
    assert np.array_equal(weight, crowd.weights())
    assert weight.tolist() == np.round(weight, 6).tolist()


def test_sides_and_the_order_of_votes_do_not_matter(crowd, middle):
    votes = crowd.and_(pushing(middle, 300, blocks=5))
    weight = votes.weights()
    turned = Votes(votes.b, votes.a, 1.0 - votes.score, votes.block, votes.day)
    assert turned.weights() == pytest.approx(weight, abs=1e-5)
    order = np.random.default_rng(0).permutation(len(votes))
    assert votes.take(order).weights() == pytest.approx(weight[order], abs=1e-5)


def test_another_honest_block_hardly_changes_the_weights_of_the_others(crowd):
    more = honest(60, seed=9, blocks=1)
    more = replace(more, block=np.full(60, 999))
    before, after = crowd.weights(), crowd.and_(more).weights()[: len(crowd)]
    assert np.abs(after - before).mean() < 0.002
    for block in np.unique(crowd.block):
        own = crowd.block == block
        assert after[own].mean() > before[own].mean() - 0.05


@given(st.integers(0, 10_000), st.integers(1, 60), st.integers(1, 5))
@settings(max_examples=25, deadline=None)
def test_any_votes_at_all_get_a_weight_above_zero_and_at_most_one(seed, n, blocks):
    rng = np.random.default_rng(seed)
    a = rng.integers(0, MODELS, n)
    b = (a + rng.integers(1, MODELS, n)) % MODELS
    score = rng.choice([0.0, 0.5, 1.0], n)
    weight = Votes(a, b, score, rng.integers(-1, blocks, n), rng.integers(0, 40, n)).weights()
    assert ((weight >= LEAST_WEIGHT) & (weight <= 1.0)).all()


def test_no_votes_have_no_weights():
    nothing = np.zeros(0, dtype=np.int64)
    assert len(Votes(nothing, nothing, np.zeros(0), nothing, nothing).weights()) == 0


def shifts(votes, since):
    return recent_shifts(votes.a, votes.b, votes.score, votes.block, votes.day >= since, n_models=MODELS)


def test_a_wave_of_votes_is_noticed_and_honest_weeks_are_not(middle):
    """Over 20 honest arenas no model's last week is 4 standard errors off; one pushed by 150 votes of 30 blocks is."""
    worlds = [honest(2000, seed=seed) for seed in range(20)]
    largest = [np.nanmax(np.abs(shifts(votes, 23))) for votes in worlds]
    assert np.mean(np.array(largest) >= 4.0) < 0.1
    wave = pushing(middle, 150, blocks=30, days=6)
    both = worlds[0].and_(wave)
    z = shifts(both, 20)
    assert z[middle] > 4.0
    assert np.nanmax(np.delete(np.abs(z), middle)) < 4.0


def test_a_model_with_few_recent_or_few_earlier_votes_is_not_judged(crowd):
    few = crowd.take(np.arange(60))
    assert np.isnan(shifts(few, 15)).all()
    newcomer = crowd.take(np.flatnonzero(((crowd.a != 3) & (crowd.b != 3)) | (crowd.day >= 15)))
    assert np.flatnonzero(np.isnan(shifts(newcomer, 15))).tolist() == [3], "the others are"


def test_strengths_do_not_depend_on_where_the_search_starts():
    a, b = np.array([0, 0, 1, 1, 2, 2, 0]), np.array([1, 1, 2, 2, 3, 0, 3])
    score, weight = np.array([1.0, 0.0, 1.0, 0.5, 1.0, 0.0, 0.5]), np.full(7, 3.0)
    near = expected_strengths(a * 4 + b, score, weight, np.zeros(4))
    far = expected_strengths(a * 4 + b, score, weight, np.array([12.0, -12.0, 6.0, 0.0]))
    assert far == pytest.approx(near, abs=1e-6)


def test_votes_count_in_full_up_to_the_cap_and_then_as_far_as_the_cap_allows() -> None:
    """The cap grows with the root of the spreads: 1.25 · √(1 + 4 + 3) is 3.54."""
    excess, other = np.array([4.5, 5.5]), np.array([1.0, 1.0])
    spreads = np.array([4.0, 4.0]), np.array([3.0, 3.0])
    below, above = bounded_influence._allowed(excess, other, *spreads, 1.25)
    assert below == 1.0
    assert 0.0 < above < 1.0
    assert above * 5.5 - 1.0 == pytest.approx(1.25 * np.sqrt(1.0 + 3.0 + above * 4.0))

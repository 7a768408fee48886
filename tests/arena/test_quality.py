"""A rising both-bad rate: found when it is there, not when prompts or rivals explain it."""

from __future__ import annotations

import numpy as np
import pytest

from tests.sizes import size
from tiltyard.arena.study.quality import (
    EXACT_UP_TO,
    QualityVotes,
    _chance_of_rise,
    _normal_tail,
    high_both_bad,
    rising_both_bad,
)

RULES = {"least_votes": 50, "least_rise": 0.1}


def votes(rng: np.random.Generator, n: int, models: int, prompts: int, chance: object) -> QualityVotes:
    """Random matchups, the second half recent; `chance(a, b, prompt, recent)` is the both-bad rate by vote."""
    a = rng.integers(models, size=n)
    b = (a + rng.integers(1, models, size=n)) % models
    prompt, recent = rng.integers(prompts, size=n), np.arange(n) >= n // 2
    return QualityVotes(a, b, prompt, rng.random(n) < chance(a, b, prompt, recent), recent)


def test_the_chance_of_a_rise_is_fishers_for_one_prompt() -> None:
    """1 of 5 bad before, 4 of 5 lately: Σ_{x ≥ 4} C(5,x)C(5,5−x)/C(10,5) = (25 + 1)/252."""
    bad = np.array([1, 0, 0, 0, 0, 1, 1, 1, 1, 0], dtype=bool)
    own = QualityVotes(np.zeros(10, int), np.ones(10, int), np.zeros(10, int), bad, np.arange(10) >= 5)
    assert _chance_of_rise(own, 4) == pytest.approx(26 / 252)


def test_the_normal_tail_for_many_votes_agrees_with_the_exact_sum() -> None:
    count, recent, bad = np.array([9000, 7000]), np.array([3000, 3500]), np.array([900, 1400])
    for k in (1000, 1040, 1060):
        rows = []
        for prompt in range(2):
            flags = np.arange(count[prompt]) < bad[prompt]
            rows.append(np.full(count[prompt], prompt)), rows.append(flags)
        own = QualityVotes(
            np.zeros(16000, int),
            np.ones(16000, int),
            np.concatenate(rows[::2]),
            np.concatenate(rows[1::2]),
            np.concatenate([np.arange(c) % c < r for c, r in zip(count, recent, strict=True)]),
        )
        assert int(own.both_bad.sum()) < EXACT_UP_TO
        assert _normal_tail(count, recent, bad, k) == pytest.approx(_chance_of_rise(own, k), rel=0.03)


def test_the_failing_model_is_named_with_its_worst_prompts_and_its_rivals_are_not() -> None:
    """Six models: a third of everybody's matchups are with the failing one, whose rate went from 5 to 45 %."""
    rng = np.random.default_rng(3)

    def chance(a: np.ndarray, b: np.ndarray, prompt: np.ndarray, recent: np.ndarray) -> np.ndarray:
        hit = ((a == 2) | (b == 2)) & recent & np.isin(prompt, (1, 4))
        return np.where(hit, 0.8, 0.05)

    found = rising_both_bad(votes(rng, 4000, 6, 6, chance), range(6), **RULES)
    assert [flag.model for flag in found] == [2]
    assert {prompt.prompt for prompt in found[0].worst_prompts[:2]} == {1, 4}
    assert found[0].rate_recent - found[0].rate_before > 0.15


def test_harder_prompts_lately_are_no_models_fault() -> None:
    """Prompt 0 is failed by all at 60 %, and most recent matchups are on it: rates rise, and nobody is named."""
    rng = np.random.default_rng(4)
    n = 6000
    plain = votes(rng, n, 6, 6, lambda a, b, prompt, recent: np.zeros(n))
    prompt = np.where(plain.recent & (rng.random(n) < 0.6), 0, plain.prompt)
    bad = rng.random(n) < np.where(prompt == 0, 0.6, 0.05)
    shifted = QualityVotes(plain.model_a, plain.model_b, prompt, bad, plain.recent)
    rise = bad[plain.recent].mean() - bad[~plain.recent].mean()
    assert rise > 0.2
    assert rising_both_bad(shifted, range(6), **RULES) == []


def test_a_small_rise_and_too_few_votes_are_not_flagged() -> None:
    rng = np.random.default_rng(5)
    small = votes(rng, 40_000, 6, 6, lambda a, b, p, r: np.where(((a == 1) | (b == 1)) & r, 0.10, 0.05))
    assert rising_both_bad(small, range(6), **RULES) == []
    few = votes(rng, 150, 6, 6, lambda a, b, p, r: np.where(((a == 1) | (b == 1)) & r, 0.9, 0.05))
    assert rising_both_bad(few, range(6), **RULES) == []


def test_reports_without_a_change_name_somebody_at_most_as_often_as_alpha() -> None:
    """150 quiet reports of 10 models, alpha 1 %, and the rise of 0.1 not asked for: 1.5 should name somebody.

    Three standard errors are 3.7. Without the correction for ten models 7 do.
    """
    rng = np.random.default_rng(6)
    quiet = [votes(rng, 1500, 10, 8, lambda a, b, p, r: 0.02 + 0.02 * p) for _ in range(150)]
    named = sum(bool(rising_both_bad(one, range(10), least_votes=50, least_rise=0.0)) for one in quiet)
    assert named <= 5


def test_every_model_asked_about_counts_in_the_correction_even_with_too_few_votes() -> None:
    """One model is tested, p = 26/252 = 0.103: once is below 0.2; twice, for one more without a vote, is above."""
    bad = np.array([1, 0, 0, 0, 0, 1, 1, 1, 1, 0], dtype=bool)
    world = QualityVotes(np.zeros(10, int), np.ones(10, int), np.zeros(10, int), bad, np.arange(10) >= 5)
    rules = {"least_votes": 5, "least_rise": 0.1, "alpha": 0.2}
    (flag,) = rising_both_bad(world, [0], **rules)
    assert flag.p_value == pytest.approx(26 / 252)
    assert rising_both_bad(world, [0, 7], **rules) == []


def test_each_model_that_was_found_leaves_one_fewer_to_correct_for() -> None:
    """Holm: models 0 and 2 meet nobody else than 1 and 3; p = 1/252 and 26/252 in 2 steps, against 0.2/2 and 0.2/1."""
    clear, weak = [0, 0, 0, 0, 0, 1, 1, 1, 1, 1], [1, 0, 0, 0, 0, 1, 1, 1, 1, 0]
    world = QualityVotes(
        np.repeat([0, 2], 10),
        np.repeat([1, 3], 10),
        np.zeros(20, int),
        np.array(clear + weak, dtype=bool),
        np.tile(np.arange(10) >= 5, 2),
    )
    found = rising_both_bad(world, [0, 2], least_votes=5, least_rise=0.1, alpha=0.2)
    assert [flag.model for flag in found] == [0, 2]
    assert [flag.p_value for flag in found] == pytest.approx([1 / 252, 26 / 252])
    assert 2 * found[1].p_value > 0.2


def test_matchups_with_a_model_that_was_found_are_set_aside_before_the_next_is_looked_for() -> None:
    """Model 0 fails in all its recent matchups, half of those of 1 and 2: their rates rise too."""
    pairs, rounds = [(0, 1), (0, 2), (1, 2), (2, 1)], 40
    a, b = (np.array([pair[side] for pair in pairs] * rounds) for side in (0, 1))
    recent = np.arange(len(a)) >= len(a) // 2
    world = QualityVotes(a, b, np.zeros(len(a), int), recent & (a == 0), recent)
    assert [flag.model for flag in rising_both_bad(world, range(3), **RULES | {"least_votes": 20})] == [0]


def test_recall_of_a_real_rise_is_high() -> None:
    """From 5 to 25 % over about 150 recent votes, 38 models: found in nearly every report."""
    rng = np.random.default_rng(8)

    def once() -> bool:
        world = votes(rng, 5700, 38, 15, lambda a, b, p, r: np.where(((a == 7) | (b == 7)) & r, 0.25, 0.05))
        return [flag.model for flag in rising_both_bad(world, range(38), **RULES)] == [7]

    reports = size(4, soak=15)
    assert sum(once() for _ in range(reports)) >= reports - size(1, soak=2)


def test_the_only_two_models_of_an_arena_are_named_together() -> None:
    rng = np.random.default_rng(9)
    world = votes(rng, 800, 2, 3, lambda a, b, p, r: np.where(r, 0.4, 0.05))
    assert [flag.model for flag in rising_both_bad(world, range(2), **RULES)] == [0, 1]


def test_a_model_that_was_always_bad_does_not_rise_and_is_named_for_its_level_and_its_rivals_are_not() -> None:
    """Rate 60 % with the bad model, before and lately; a third of everybody's matchups are with it: 23 % for each."""
    rng = np.random.default_rng(5)

    def chance(a: np.ndarray, b: np.ndarray, prompt: np.ndarray, recent: np.ndarray) -> np.ndarray:
        return np.where((a == 2) | (b == 2), 0.6, 0.05)

    cast = votes(rng, 4000, 6, 6, chance)
    assert rising_both_bad(cast, range(6), **RULES) == []
    found = high_both_bad(cast, range(6), least_votes=50, level=0.15)
    assert [(flag.model, flag.trigger) for flag in found] == [(2, "level")]
    assert found[0].rate_before == pytest.approx(found[0].rate_recent, abs=0.1)
    assert len(found[0].worst_prompts) == 3
    assert high_both_bad(cast, range(6), least_votes=50, level=1.0) == []
    assert high_both_bad(cast, range(6), least_votes=5000, level=0.15) == []


def test_the_chance_of_a_level_is_that_of_as_many_heads_or_more() -> None:
    """2 of 3 at a level of ½: 4 of 8 throws have two heads or three. Asking about two models doubles it."""
    three = np.arange(3)
    world = QualityVotes(0 * three, 0 * three + 1, 0 * three, three < 2, three >= 0)
    (flag,) = high_both_bad(world, [0], least_votes=3, level=0.5, alpha=0.5)
    assert flag.p_value == pytest.approx(0.5)
    assert high_both_bad(world, [0], least_votes=3, level=0.5, alpha=0.49) == []
    assert high_both_bad(world, [0, 7], least_votes=3, level=0.5, alpha=0.99) == []


def test_a_rate_at_the_level_is_named_at_most_as_often_as_alpha() -> None:
    """200 reports in which every rate is exactly the level: at 1 % about two name somebody."""
    rng = np.random.default_rng(6)
    named = sum(
        bool(high_both_bad(votes(rng, 600, 6, 4, lambda *_: 0.25), range(6), least_votes=50, level=0.25))
        for _ in range(200)
    )
    assert named <= 7

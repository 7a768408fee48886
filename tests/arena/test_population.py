"""Simulated voters do what their names say."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from tiltyard.arena import Choice
from tiltyard.arena.rules.schedule import Reserved
from tiltyard.arena.simulation import Attack, AttackKind
from tiltyard.arena.simulation.population import SYBIL_VOTES, Crowd, Voter, World
from tiltyard.errors import OptionError


def shown(a: int = 0, b: int = 1, prompt: int = 0) -> Reserved:
    return Reserved("x", 1, "v", "", a, b, prompt, 0, 0, 0, "coverage", 0, 0)


def world(gap: float, tie_rate: float = 0.0, both_bad_rate: float = 0.0) -> World:
    return World(np.array([gap / 2, -gap / 2]), ((gap / 2,), (-gap / 2,)), tie_rate, both_bad_rate)


def votes(voter: Voter, at: World, matchup: Reserved, n: int = 4000) -> Counter[Choice]:
    rng = np.random.default_rng(1)
    return Counter(voter.choose(rng, at, matchup) for _ in range(n))


def near(count: int, share: float, n: int = 4000) -> bool:
    return abs(count - n * share) <= 4 * (n * share * (1 - share)) ** 0.5


def test_four_hundred_points_are_odds_of_ten_to_one() -> None:
    cast = votes(Voter(), world(400.0), shown())
    assert near(cast[Choice.A], 10 / 11)
    assert cast[Choice.TIE] == cast[Choice.BOTH_BAD] == 0
    assert near(votes(Voter(), world(400.0), shown(1, 0))[Choice.B], 10 / 11)


def test_ties_and_both_bad_come_at_the_rates_asked_for() -> None:
    drawn = World.draw(np.random.default_rng(0), 30, 2, sd=180.0, tie_rate=0.08, both_bad_rate=0.05)
    rng = np.random.default_rng(2)
    cast: Counter[Choice] = Counter()
    for _ in range(20_000):
        a, b = rng.choice(30, 2, replace=False).tolist()
        cast[Voter().choose(rng, drawn, shown(a, b))] += 1
    assert near(cast[Choice.TIE], 0.08, 20_000)
    assert near(cast[Choice.BOTH_BAD], 0.05, 20_000)


def test_ties_are_likelier_between_equals() -> None:
    assert votes(Voter(), world(0.0, 0.5), shown())[Choice.TIE] > votes(Voter(), world(500.0, 0.5), shown())[Choice.TIE]


def test_a_wobble_moves_prompts_and_not_the_mean() -> None:
    drawn = World.draw(np.random.default_rng(0), 5, 8, sd=100.0, tie_rate=0.0, both_bad_rate=0.0, wobble_sd=50.0)
    cells = np.array(drawn.on_prompt)
    assert cells.mean(axis=1) == pytest.approx(drawn.strength)
    assert 25 < cells.std(axis=1).mean() < 75


def test_noise_makes_an_honest_voter_err() -> None:
    assert near(votes(Voter(noise=0.4), world(4000.0), shown())[Choice.A], 0.8)


def test_the_apathetic_take_any_side_and_the_one_sided_the_left() -> None:
    assert near(votes(Voter("apathetic"), world(400.0), shown())[Choice.A], 0.5)
    assert near(votes(Voter("one-sided"), world(-4000.0), shown())[Choice.A], 0.95)


def test_a_rigger_votes_for_its_model_on_either_side_and_honestly_otherwise() -> None:
    rigger = Voter("rigging", target=1)
    assert set(votes(rigger, world(400.0), shown(0, 1), 50)) == {Choice.B}
    assert set(votes(rigger, world(400.0), shown(1, 0), 50)) == {Choice.A}
    assert near(votes(Voter("rigging", target=7), world(400.0), shown())[Choice.A], 10 / 11)


@pytest.mark.parametrize("kind", ["rigging", "sybil", "apathetic", "one-sided"])
def test_attackers_cast_their_share_of_the_votes(kind: AttackKind) -> None:
    rng = np.random.default_rng(3)
    at = World.draw(rng, 9, 2, sd=100.0, tie_rate=0.0, both_bad_rate=0.0)
    crowd = Crowd(rng, at, attack=Attack(kind, 0.2), noise=0.0, session_votes=25.0)
    sessions = [crowd.next_session() for _ in range(6000)]
    cast = sum(session.matchups for session in sessions if session.attacks)
    assert abs(cast / sum(session.matchups for session in sessions) - 0.2) < 0.02
    assert crowd.attackers == {session.name for session in sessions if session.attacks}
    if kind == "sybil":
        assert {session.matchups for session in sessions if session.attacks} == {SYBIL_VOTES}


def test_riggers_push_the_model_in_the_middle_unless_told_otherwise() -> None:
    at = World(np.array([300.0, -300.0, 10.0]), ((300.0,), (-300.0,), (10.0,)), 0.0, 0.0)
    assert Attack("rigging").aim(at) == 2
    assert Attack("sybil", target=1).aim(at) == 1


@pytest.mark.parametrize(("kind", "share"), [("bribery", 0.1), ("sybil", 1.5), ("sybil", 0.0)])
def test_an_attack_that_makes_no_sense_is_an_error(kind: AttackKind, share: float) -> None:
    with pytest.raises(OptionError, match="attack"):
        Attack(kind, share)


def test_rates_that_leave_no_decisive_vote_are_an_error() -> None:
    with pytest.raises(OptionError, match="leave a rest"):
        World.draw(np.random.default_rng(0), 3, 1, sd=1.0, tie_rate=0.6, both_bad_rate=0.5)

"""Signs in a session, and the combined test: their arithmetic, and how often honest sessions are flagged."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.records import replace
from tests.sizes import size
from tiltyard.arena import expected_scores
from tiltyard.arena.study.voters import SessionRules, SessionVotes, combined, session_flags, surprises
from tiltyard.data.battles import Outcome

RULES = SessionRules(
    fast_votes=20,
    fast_seconds=2.0,
    fast_share=0.5,
    one_sided_votes=20,
    one_sided_share=0.9,
    upset_votes=10,
    upset_share=0.8,
    both_bad_votes=20,
    both_bad_share=0.4,
)
COLUMNS = ("seconds", "model_a", "model_b", "outcome", "expected_a")
A, B, TIE, BOTH_BAD = (outcome.code for outcome in Outcome)


def session(outcomes: list[int], expected: float = 0.5, gap: float = 30.0) -> SessionVotes:
    """A session on ever new models, a vote every `gap` seconds, side A expected to score `expected`."""
    n = len(outcomes)
    models = np.arange(2 * n)
    return SessionVotes(
        gap * np.arange(n), models[::2], models[1::2], np.array(outcomes, dtype=np.int8), np.full(n, expected)
    )


def names(votes: SessionVotes) -> list[str]:
    return [flag.flag for flag in session_flags(votes, RULES)]


def test_a_quiet_session_has_no_flag_and_an_empty_one_neither() -> None:
    assert names(session([A, B, TIE, B, A] * 8)) == []
    assert names(session([])) == []


def test_half_the_gaps_under_two_seconds_from_twenty_votes_on_is_fast() -> None:
    assert names(session([A, B] * 10, gap=1.9)) == ["fast"]
    assert names(session([A, B] * 9 + [A], gap=1.9)) == []
    assert names(session([A, B] * 10, gap=2.0)) == []


def test_nine_in_ten_for_one_side_is_one_sided() -> None:
    assert names(session([B] * 18 + [A] * 2)) == ["one-sided"]
    assert names(session([B] * 17 + [A] * 3)) == []
    assert names(session([TIE] * 20)) == []


def test_eight_in_ten_for_the_clear_outsider_are_upsets() -> None:
    assert names(session([B] * 8 + [A] * 2, expected=0.8)) == ["upsets"]
    assert names(session([A] * 8 + [B] * 2, expected=0.2)) == ["upsets"]
    assert names(session([B] * 7 + [A] * 3, expected=0.8)) == []


def test_who_is_expected_to_win_six_in_ten_is_a_clear_favourite_on_either_side() -> None:
    assert names(session([B] * 8 + [A] * 2, expected=0.6)) == ["upsets"]
    assert names(session([A] * 8 + [B] * 2, expected=0.4)) == ["upsets"]


def test_between_near_equals_there_is_no_upset() -> None:
    assert names(session([B] * 16 + [A] * 2, expected=0.59)) == []


def test_four_in_ten_both_bad_is_flagged() -> None:
    assert names(session([BOTH_BAD] * 8 + [A, B] * 6)) == ["both-bad"]
    assert names(session([BOTH_BAD] * 7 + [A, B] * 6 + [A])) == []


def test_one_model_always_preferred_is_favour_and_always_refused_is_the_opposite() -> None:
    """15 wins of 15 at an expectation of ½: excess 7.5, half a vote off, over √(15/4): 3.6 sigma."""
    n = 15
    votes = SessionVotes(
        30.0 * np.arange(n), np.full(n, 99), np.arange(n), np.array([A] * n, dtype=np.int8), np.full(n, 0.5)
    )
    (flag,) = session_flags(votes, RULES)
    assert flag.flag == "favours one model"
    assert "model 99 won 7.5 more of its 15 decisive votes" in flag.detail
    turned = SessionVotes(
        votes.seconds, votes.model_a, votes.model_b, np.array([B] * n, dtype=np.int8), np.full(n, 0.5)
    )
    assert names(turned) == ["puts down one model"]


def test_favour_is_flagged_from_ten_votes_on_one_model() -> None:
    """Nine wins at an expectation of 0.1: excess 8.1, half a vote off, over √0.81: 8.4 sigma, and still too few."""

    def wins(n: int) -> SessionVotes:
        won = np.zeros(n, dtype=np.int8)
        return SessionVotes(30.0 * np.arange(n), np.full(n, 99), np.arange(n), won, np.full(n, 0.1))

    patient = replace(RULES, upset_votes=100)
    assert session_flags(wins(9), patient) == []
    assert [flag.flag for flag in session_flags(wins(10), patient)] == ["favours one model"]


def test_a_strong_model_that_wins_as_expected_is_no_favour() -> None:
    n = 40
    outcomes = np.array([A] * 36 + [B] * 4, dtype=np.int8)
    votes = SessionVotes(30.0 * np.arange(n), np.full(n, 99), np.arange(n), outcomes, np.full(n, 0.9))
    assert session_flags(votes, SessionRules(20, 2.0, 0.5, 20, 0.95, 10, 0.8, 20, 0.4)) == []


def test_a_votes_p_is_one_plus_those_as_rare_over_all() -> None:
    """After 1, 1, 1 a first 0 is the rarest: p = 1/4. After it another 1 is the commonest: p = 1."""
    a, b = np.zeros(5, int), np.ones(5, int)
    value = surprises(a, b, np.array([B, B, B, A, B], dtype=np.int8), 2).value
    assert value.tolist() == pytest.approx([0, 0, 0, 2 * math.log(4), 0])


outcome_lists = st.lists(st.tuples(st.integers(0, 2), st.integers(1, 2), st.integers(0, 3)), min_size=1, max_size=60)


@given(outcome_lists)
def test_surprise_does_not_depend_on_which_side_a_model_sat(rows: list[tuple[int, int, int]]) -> None:
    a = np.array([row[0] for row in rows])
    b = (a + np.array([row[1] for row in rows])) % 3
    outcome = np.array([row[2] for row in rows], dtype=np.int8)
    turned = np.where(outcome <= B, 1 - outcome, outcome).astype(np.int8)
    there, back = surprises(a, b, outcome, 3), surprises(b, a, turned, 3)
    assert there.value.tolist() == back.value.tolist()
    assert there.mean.tolist() == back.mean.tolist()


@given(outcome_lists)
def test_surprise_is_never_negative_and_its_moments_are_those_of_a_random_vote_of_the_pair(
    rows: list[tuple[int, int, int]],
) -> None:
    """Slowly: the mean of −2 ln p over all votes of the pair so far, each taken as if it were the last."""
    a = np.array([row[0] for row in rows])
    b = (a + np.array([row[1] for row in rows])) % 3
    outcome = np.array([row[2] for row in rows], dtype=np.int8)
    fast = surprises(a, b, outcome, 3)
    assert (fast.value >= 0).all()
    last = len(rows) - 1
    pair = {int(a[last]), int(b[last])}
    seen = [
        int(o) if o >= TIE or x == min(pair) else 1 - int(o)
        for x, y, o in zip(a, b, outcome, strict=True)
        if {int(x), int(y)} == pair
    ]
    counts = {kind: seen.count(kind) for kind in seen}
    each = [-2 * math.log(sum(n for n in counts.values() if n <= counts[kind]) / len(seen)) for kind in seen]
    assert fast.value[last] == pytest.approx(each[-1], abs=1e-9)
    assert fast.mean[last] == pytest.approx(float(np.mean(each)), abs=1e-9)
    assert fast.variance[last] == pytest.approx(float(np.var(each)), abs=1e-9)


def test_a_session_without_a_rare_vote_is_not_anomalous() -> None:
    a, b = np.zeros(50, int), np.ones(50, int)
    test = combined(surprises(a, b, np.zeros(50, dtype=np.int8), 2), np.arange(20, 40))
    assert (test.combined, test.p_value, test.corrected) == (0.0, 1.0, 1.0)


class Crowd:
    """Sessions of 20 to 100 votes over 20 models (sd 180 Elo) after 5,000 honest votes; one in 18 is dishonest."""

    def __init__(self, seed: int, kind: str, sessions: int = 90) -> None:
        self.rng = np.random.default_rng(seed)
        self.strength = self.rng.normal(0.0, 180.0, 20)
        self.target = int(np.argsort(self.strength)[10])
        parts = [self.honest(5000, -1)]
        self.dishonest = set(range(0, sessions, 18))
        for number in range(sessions):
            n = int(self.rng.integers(20, 100))
            parts.append(self.bent(kind, n, number) if number in self.dishonest else self.honest(n, number))
        rows = np.concatenate([np.column_stack(part) for part in parts])
        rows[5000:] = rows[5000:][self.rng.permutation(len(rows) - 5000)]
        self.a, self.b, outcome, self.session = rows.T
        self.outcome = outcome.astype(np.int8)

    def honest(self, n: int, number: int) -> tuple[np.ndarray, ...]:
        a = self.rng.integers(20, size=n)
        b = (a + self.rng.integers(1, 20, size=n)) % 20
        won = self.rng.random(n) < expected_scores(self.strength[a], self.strength[b])
        u = self.rng.random(n)
        outcome = np.where(u < 0.08, TIE, np.where(u < 0.13, BOTH_BAD, np.where(won, A, B)))
        return a, b, outcome, np.full(n, number)

    def bent(self, kind: str, n: int, number: int) -> tuple[np.ndarray, ...]:
        a, b, outcome, who = self.honest(n, number)
        if kind == "random":
            outcome = self.rng.permutation(outcome)
            outcome = np.where(self.rng.random(n) < 0.5, outcome, np.where(outcome <= B, 1 - outcome, outcome))
        elif kind == "contrary":
            outcome = np.where(self.strength[a] > self.strength[b], B, A)
        elif kind == "target":
            a = np.full(n, self.target)
            b = (a + self.rng.integers(1, 20, size=n)) % 20
            outcome = np.full(n, A)
            turned = self.rng.random(n) < 0.5
            a, b, outcome = np.where(turned, b, a), np.where(turned, a, b), np.where(turned, B, A)
        elif kind == "one-sided":
            outcome = np.where(self.rng.random(n) < 0.97, A, outcome)
        elif kind == "both-bad":
            outcome = np.where(self.rng.random(n) < 0.6, BOTH_BAD, outcome)
        return a, b, outcome, who

    def found(self) -> tuple[list[bool], list[bool], list[bool], list[bool]]:
        """Honest and dishonest sessions: whether the test finds them at 0.1, and whether any sign is flagged."""
        rare = surprises(self.a, self.b, self.outcome, 20)
        expected = expected_scores(self.strength[self.a], self.strength[self.b])
        tests: tuple[list[bool], list[bool]] = ([], [])
        signs: tuple[list[bool], list[bool]] = ([], [])
        for number in range(int(self.session.max()) + 1):
            rows = np.flatnonzero(self.session == number)
            bent = number in self.dishonest
            tests[bent].append(combined(rare, rows).corrected <= 0.1)
            votes = SessionVotes(
                20.0 * np.arange(len(rows)), self.a[rows], self.b[rows], self.outcome[rows], expected[rows]
            )
            signs[bent].append(bool(session_flags(votes, RULES)))
        return tests[0], tests[1], signs[0], signs[1]


def shares(kind: str, worlds: int, seed: int = 0) -> tuple[float, float, float, float]:
    """Shares found among honest and dishonest sessions: by the test at 0.1, and by any sign."""
    per_world = [Crowd(seed + number, kind).found() for number in range(worlds)]
    test_honest, test_bent, sign_honest, sign_bent = (np.concatenate(part) for part in zip(*per_world, strict=True))
    return (
        float(np.mean(test_honest)),
        float(np.mean(test_bent)),
        float(np.mean(sign_honest)),
        float(np.mean(sign_bent)),
    )


def test_honest_sessions_are_found_no_more_often_than_the_test_says_and_signs_are_rare() -> None:
    """Some 1,000 honest sessions: the test at 0.1 finds fewer than 11 %, any sign fewer than 0.7 %."""
    honest, _, sign, _ = shares("random", worlds=12)
    assert honest < 0.11
    assert sign < 0.007


@pytest.mark.parametrize(
    ("kind", "least_by_test", "least_by_sign"),
    [
        ("random", 0.5, 0.0),
        ("contrary", 0.85, 0.95),
        ("target", 0.0, 0.95),
        ("one-sided", 0.0, 0.95),
        ("both-bad", 0.95, 0.95),
    ],
)
def test_dishonest_sessions_are_found(kind: str, least_by_test: float, least_by_sign: float) -> None:
    """By the test or by a sign: random voting only by the test, favour of one model only by its sign."""
    _, test, _, sign = shares(kind, worlds=size(4, soak=8), seed=100)
    assert test >= least_by_test
    assert sign >= least_by_sign

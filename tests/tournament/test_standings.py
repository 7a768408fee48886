"""From judgments to Elo, win rates and boards."""

from __future__ import annotations

import numpy as np
import pytest

from tiltyard.judging.records import Judgment, Matchup, Verdict, VerdictLabel, settle
from tiltyard.tournament.config import EloSettings
from tiltyard.tournament.ratings import rate_dimension


def verdict(said: VerdictLabel, *, swapped: bool) -> Verdict:
    return Verdict(
        cache_key="k",
        rubric_version="1",
        judge_model="j",
        position_swap=swapped,
        verdict=said,
        reasoning="…",
        timestamp="2026-01-01T00:00:00+00:00",
    )


def judged(a: str, b: str, forward: VerdictLabel, swapped: VerdictLabel, prompt: str = "p1") -> Judgment:
    matchup = Matchup(prompt_id=prompt, dimension="d", entrant_a=a, entrant_b=b)
    return settle(matchup, [verdict(forward, swapped=False), verdict(swapped, swapped=True)])


def test_pairs_are_sorted_inconsistent_counts_twice_and_failed_nowhere() -> None:
    rows = [
        judged("otter", "heron", VerdictLabel.A, VerdictLabel.B),  # both orders say otter
        judged("heron", "otter", VerdictLabel.A, VerdictLabel.B),  # both say heron
        judged("otter", "heron", VerdictLabel.TIE, VerdictLabel.TIE),
        judged("otter", "heron", VerdictLabel.A, VerdictLabel.A),  # each order says the first slot
        judged("otter", "heron", VerdictLabel.A, VerdictLabel.TIE),
        judged("otter", "heron", VerdictLabel.A, VerdictLabel.UNPARSED),
    ]
    (pair,) = rate_dimension("clarity", rows, EloSettings(n_perms=2), "judge").pairs
    assert (pair.entrant_a, pair.entrant_b) == ("heron", "otter")
    assert (pair.a_wins, pair.b_wins, pair.ties, pair.inconsistent) == (1, 1, 3, 2)


def test_permutation_elo_equals_the_plain_loop_over_decisive_judgments() -> None:
    rng = np.random.default_rng(0)
    rows = []
    for number in range(60):
        a, b = rng.choice(["crane", "heron", "otter"], 2, replace=False)
        words = [
            (VerdictLabel.A, VerdictLabel.B),
            (VerdictLabel.B, VerdictLabel.A),
            (VerdictLabel.TIE, VerdictLabel.TIE),
            (VerdictLabel.A, VerdictLabel.A),
        ][rng.integers(4)]
        rows.append(judged(str(a), str(b), *words, prompt=f"p{number % 9}"))
    settings = EloSettings(n_perms=30, shuffle_seed=5, default_k=16.0)
    standing = rate_dimension("d", rows, settings, "j")
    decisive = [(row.entrant_a, row.entrant_b, row.winner) for row in rows if row.winner]
    assert standing.n_decisive == len(decisive)
    generator = np.random.default_rng(5)
    totals = []
    for _ in range(30):
        rating = dict.fromkeys(standing.entrants, 1400.0)
        for place in generator.permutation(len(decisive)):
            a, b, winner = decisive[place]
            expected = 1 / (1 + 10 ** ((rating[b] - rating[a]) / 400))
            step = 16.0 * ((winner == a) - expected)
            rating[a] += step
            rating[b] -= step
        totals.append([rating[name] for name in standing.entrants])
    assert standing.traces == pytest.approx(np.array(totals), abs=1e-9)
    mean = np.mean(totals, axis=0)
    assert [standing.elo[name].mean for name in standing.entrants] == pytest.approx(mean, abs=1e-9)
    assert list(standing.sweep) == [1.0, 4.0, 8.0, 16.0, 32.0]
    assert standing.board is not None
    assert all(line.sampling_low < line.mean < line.sampling_high for line in standing.elo.values())


def test_a_dimension_without_a_decisive_match_is_empty_not_a_crash() -> None:
    standing = rate_dimension("d", [judged("otter", "heron", VerdictLabel.TIE, VerdictLabel.TIE)], EloSettings(), "j")
    assert (standing.n_decisive, dict(standing.elo), standing.board) == (0, {}, None)
    assert "tie" in (standing.board_missing or "")
    assert len(standing.battles) == 1
    empty = rate_dimension("d", [], EloSettings(), "j")
    assert empty.board_missing == "no judgment was settled"

"""Win rates by counting, and against the plain count."""

from __future__ import annotations

import numpy as np
import pytest

from oracles.plain_bradley_terry import FIRST, TIE, Row, as_comparisons, half_win_matrix, some_rows
from tiltyard.stats import count_pairs, win_rates


def rates_of(rows, models):
    return win_rates(count_pairs(as_comparisons(rows, models)).cells)


def test_a_tie_is_half_a_win_for_both():
    rates = rates_of([Row(0, 1, FIRST), Row(0, 1, TIE), Row(1, 2, FIRST)], 3)
    # 0 won 1½ of 2 against 1; 1 won ½ of 2 against 0 and its one battle against 2.
    assert rates.matrix[0, 1] == 0.75
    assert rates.matrix[1, 0] == 0.25
    assert rates.score.tolist() == [1.5, 1.5, 0.0]
    assert rates.overall.tolist() == [0.75, 0.5, 0.0]
    assert rates.average.tolist() == [0.75, (0.25 + 1.0) / 2, 0.0]
    assert np.isnan(rates.matrix[0, 2])


def test_the_matrix_is_what_a_plain_count_gives():
    rows = some_rows(3, n=200, models=6, soft_share=0.3, weighted=True)
    rates = rates_of(rows, 6)
    wins = half_win_matrix(rows, 6)
    np.testing.assert_allclose(rates.wins, wins)
    np.testing.assert_allclose(rates.battles, wins + wins.T)
    met = rates.battles > 0
    np.testing.assert_allclose((rates.matrix + rates.matrix.T)[met], 1.0)
    assert rates.score.sum() == pytest.approx(sum(row.weight for row in rows))

"""A board that does not fit into memory is refused before it is computed, and the message says what to do."""

from __future__ import annotations

import resource

import pytest
from board_rows import arena

import tiltyard as ty
from tiltyard.analysis.boards import BradleyTerry, WinRate, rate_by
from tiltyard.analysis.boards.estimator import available_memory
from tiltyard.errors import TooLarge

ROWS = arena(1, n=200)
# Five models: 8 bytes × 25 pairs × 7 tables are 1,400 bytes; a bootstrap of 1,000 rounds holds 8 × 5 × 3,000 more.
SANDWICH, BOOTSTRAP = 1_400, 8 * 25 * 9 + 8 * 5 * 3_000


@pytest.mark.parametrize(
    ("estimator", "needed"),
    [
        (BradleyTerry(), SANDWICH),
        (BradleyTerry(ci="none", robustness=True), SANDWICH),
        (BradleyTerry(ci="bootstrap"), BOOTSTRAP),
        (WinRate(), 8 * 25 * 6),
    ],
    ids=["sandwich", "robustness", "bootstrap", "win rate"],
)
def test_what_needs_more_than_there_is_is_refused_and_names_the_parameter(estimator, needed):
    assert len(estimator.fit(ROWS, memory=needed)) == 5
    with pytest.raises(
        TooLarge, match=r"5 models need about .* MB of memory, and .* are free\. .*ci=\"none\""
    ) as caught:
        estimator.fit(ROWS, memory=needed - 1)
    assert "\n" not in str(caught.value)
    assert "--" not in str(caught.value)


def test_above_2_000_models_intervals_need_no_table_of_pairs_but_bootstrap_and_robustness_do():
    """34,000 models: seven tables of pairs are 65 GB."""
    for estimator, fits, advice in (
        (BradleyTerry(), True, ""),
        (BradleyTerry(ci="bootstrap"), False, 'ci="sandwich"'),
        (BradleyTerry(robustness=True), False, "Leave out robustness=True"),
    ):
        if fits:
            estimator._check_memory(34_000, 0.0)
        else:
            with pytest.raises(TooLarge, match=advice):
                estimator._check_memory(34_000, 50e9)


def test_ratings_alone_need_no_table_of_pairs():
    assert len(BradleyTerry(ci="none").fit(ROWS, memory=0)) == 5


def test_one_value_that_is_too_large_is_not_passed_over_in_silence():
    rows = [{**row, "category": "x"} for row in ROWS]

    class Small(BradleyTerry):
        def fit(self, table, **_):
            return super().fit(table, memory=1)

    told: list[ty.TiltyardError] = []
    with pytest.raises(TooLarge):
        rate_by(rows, "category", Small(), leave_out=told.append)
    assert told == []


def test_the_limit_of_the_process_counts():
    before = resource.getrlimit(resource.RLIMIT_AS)
    known = available_memory()
    assert known is None or known > 1e6
    try:
        resource.setrlimit(resource.RLIMIT_AS, (1 << 45, before[1]))
        assert available_memory() <= 1 << 45
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)

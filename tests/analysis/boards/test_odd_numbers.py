"""Numbers that are none (NaN, infinity), or far out of range, are one clear line wherever an option takes a number."""

from __future__ import annotations

import math

import numpy as np
import pytest
from board_rows import arena, battle

import tiltyard as ty
from tiltyard.analysis.boards import Selection
from tiltyard.errors import OptionError
from tiltyard.stats import K_MAX
from tiltyard.stats.elo import sequential_elo

ROWS = arena(1, n=40)
NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"ci": "bootstrap", "seed": -1}, "seed is -1: expected a whole number, at least 0"),
        ({"ci": "bootstrap", "seed": 1.5}, "seed is 1.5"),
        ({"ci": "bootstrap", "rounds": 10**11}, "rounds is 100000000000: .* at most 1,000,000"),
        ({"anchor": ("a", NAN)}, "the rating of the anchor a is nan: expected a number"),
        ({"anchor": ("a", INF)}, "the rating of the anchor a is inf"),
        ({"anchor": ("a", -1e308)}, "at least -1,000,000"),
        ({"anchor": ("a", "1200")}, "the rating of the anchor a is '1200'"),
        ({"min_battles": NAN}, "min_battles is nan: expected a number, at least 0"),
        ({"min_battles": -1}, "min_battles is -1"),
        ({"level": NAN}, "level is nan"),
        ({"method": "glicko2", "level": NAN}, "level is nan"),
        ({"method": "elo", "initial_rating": NAN}, "initial_rating is nan"),
        ({"method": "elo", "initial_rating": 1e300}, "initial_rating is 1e[+]300"),
        ({"method": "elo", "k": 1e308}, "K is 1e[+]308: above 600 Elo does not settle"),
        ({"method": "elo", "k": NAN}, "K is nan"),
        ({"method": "elo-perm", "seed": -1}, "seed is -1"),
        ({"method": "elo-perm", "initial_rating": INF}, "initial_rating is inf"),
        ({"method": "elo-perm", "n_perms": 99_999_999_999}, "n_perms is 99999999999: .* at most 1,000,000"),
        ({"method": "elo-perm", "n_perms": 1}, "n_perms is 1: .* at least 2"),
        ({"method": "elo-perm", "k_sweep": (1.0, NAN)}, "K is nan"),
        ({"method": "elo-perm", "level": 95.0}, "level is 95.0"),
    ],
)
def test_a_number_that_is_none_is_refused_in_one_line(options, words):
    with pytest.raises(OptionError, match=words) as caught:
        ty.rate(ROWS, **options)
    assert "\n" not in str(caught.value)


def test_a_parameter_is_refused_when_it_is_set_and_nothing_has_changed():
    estimator = ty.PermutationElo()
    for change in ({"seed": -1}, {"initial_rating": NAN}, {"k": K_MAX + 1.0}, {"selection__min_battles": NAN}):
        with pytest.raises(OptionError):
            estimator.set_params(**change)
    assert estimator == ty.PermutationElo()


def test_numbers_of_numpy_are_numbers():
    options = {"seed": np.int64(3), "rounds": np.int32(5), "anchor": ("a", np.float32(1200.0))}
    board = ty.rate(ROWS, ci="bootstrap", level=np.float64(0.9), min_battles=np.int64(1), **options)
    assert board["a"].rating == pytest.approx(1200.0)
    assert Selection(min_battles=np.float64(2.5)).min_battles == 2.5


def test_the_largest_k_of_elo_in_order():
    one = {"n_models": 2, "initial_rating": 0.0}
    with pytest.raises(OptionError, match="600"):
        sequential_elo([0], [1], [1], k=601.0, **one)
    # a win between equals moves both by half of K
    assert sequential_elo([0], [1], [1], k=599.0, **one).tolist() == [299.5, -299.5]


def test_a_model_that_only_won_or_only_lost_has_no_sampling_interval_and_a_note_says_why():
    rows = battle("top>b", 3) + battle("b>c", 2) + battle("c>b", 2) + battle("c>last", 3) + battle("b=last")
    board = ty.rate(rows, method="elo-perm", n_perms=20)
    assert {entry.model: entry.note for entry in board} == {
        "top": "won all its decisive battles; no bounds",
        "b": None,
        "c": None,
        "last": "lost all its decisive battles; no bounds",
    }
    for entry in board:
        ends = (entry.ci_low, entry.ci_high, entry.extra["sampling_low"], entry.extra["sampling_high"])
        if entry.note:
            assert ends == (None, None, None, None)
        else:
            assert all(math.isfinite(end) for end in ends)
            assert ends[0] < entry.rating < ends[1]
    assert "won all its decisive battles; no bounds" in str(board)
    assert all(entry.note is None for entry in ty.rate(rows, method="elo-perm", n_perms=20, ci="none"))

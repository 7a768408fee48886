"""Top-rank churn against confidence bands."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tiltyard.arena import Known
from tiltyard.arena.study.churn import confidence_stability, top_churn

standings = st.dictionaries(
    st.sampled_from("abcdefg"), st.builds(Known, st.floats(1000, 2000), st.floats(10, 100)), min_size=1
)


def test_a_swap_of_models_whose_bands_overlapped_is_within_bands() -> None:
    """a: 1500 ± 40 → low 1460; b: 1490 ± 40: up to 1530, above 1460. Later b is ahead."""
    churn = top_churn([{"a": Known(1500, 20), "b": Known(1490, 20)}, {"a": Known(1490, 20), "b": Known(1500, 20)}], 10)
    assert [(swap.rose, swap.fell, swap.within_bands) for swap in churn.swaps] == [("b", "a", True)]
    assert not churn.beyond_bands


def test_a_swap_that_the_bands_had_ruled_out_is_beyond_them() -> None:
    churn = top_churn([{"a": Known(1600, 10), "b": Known(1500, 10)}, {"a": Known(1500, 10), "b": Known(1600, 10)}], 10)
    assert [(swap.look, swap.rose) for swap in churn.swaps if not swap.within_bands] == [(1, "b")]


def test_models_below_the_top_may_swap_unseen_and_a_newcomer_swaps_with_nobody() -> None:
    first = {"a": Known(1600, 10), "b": Known(1500, 10), "c": Known(1400, 10)}
    second = {"a": Known(1600, 10), "c": Known(1500, 10), "b": Known(1400, 10)}
    assert not top_churn([first, second], 1).swaps
    churn = top_churn([first, {**first, "d": Known(1700, 10)}], 2)
    assert not churn.swaps
    assert (churn.entered, churn.left) == (("d",), ("b",))


def test_entering_the_top_swaps_with_those_passed() -> None:
    first = {"a": Known(1600, 10), "b": Known(1500, 10), "c": Known(1490, 10)}
    churn = top_churn([first, {**first, "c": Known(1510, 10)}], 2)
    assert [(swap.rose, swap.fell) for swap in churn.swaps] == [("c", "b")]
    assert (churn.entered, churn.left) == (("c",), ("b",))


def test_models_that_enter_or_leave_the_top_together_swap_with_the_others_and_not_among_themselves() -> None:
    first = {"a": Known(1600, 10), "b": Known(1590, 10), "c": Known(1500, 10), "d": Known(1490, 10)}
    second = {"a": Known(1580, 10), "b": Known(1590, 10), "c": Known(1700, 10), "d": Known(1710, 10)}
    swaps = {(swap.rose, swap.fell) for swap in top_churn([first, second], 2).swaps}
    assert swaps == {("c", "a"), ("c", "b"), ("d", "a"), ("d", "b")}


@given(standings, st.integers(1, 8))
def test_a_board_that_stands_still_has_no_churn(look: dict[str, Known], top: int) -> None:
    churn = top_churn([look, look, look], top)
    assert churn == top_churn([look] * 3, top)
    assert not churn.swaps
    assert not churn.entered


@given(standings, standings, st.integers(1, 8))
def test_played_backwards_the_same_pairs_swap_the_other_way(
    first: dict[str, Known], second: dict[str, Known], top: int
) -> None:
    lows = [known.low for look in (first, second) for known in look.values()]
    if len(set(lows)) < len(lows):
        return
    there = {(swap.rose, swap.fell) for swap in top_churn([first, second], top).swaps}
    back = {(swap.fell, swap.rose) for swap in top_churn([second, first], top).swaps}
    assert there == back


def test_with_honest_bands_about_one_rating_in_twenty_leaves_its_band() -> None:
    """Truth ~ N(r, RD) and the later rating is the truth: P(|z| > 2) = 4.6 %."""
    rng = np.random.default_rng(2)
    before = {f"m{i}": Known(1500.0, 20.0) for i in range(4000)}
    after = {name: Known(1500.0 + 20.0 * rng.normal(), 5.0) for name in before}
    stability = confidence_stability(before, after)
    assert 0.03 < (stability.share_left_band or 0.0) < 0.06
    assert (stability.median_deviation_before, stability.median_deviation_after) == (20.0, 5.0)


def test_one_model_of_which_little_is_known_does_not_move_the_usual_deviation() -> None:
    before = {"a": Known(1500, 20), "b": Known(1500, 24), "new": Known(1500, 350)}
    after = {"a": Known(1500, 18), "b": Known(1500, 21), "new": Known(1500, 120)}
    stability = confidence_stability(before, after)
    assert (stability.median_deviation_before, stability.median_deviation_after) == (24.0, 21.0)


def test_models_that_came_or_went_say_nothing_about_stability() -> None:
    assert confidence_stability({"a": Known(1500, 20)}, {"b": Known(1500, 20)}).models == 0

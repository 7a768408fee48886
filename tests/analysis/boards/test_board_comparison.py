"""Two boards side by side."""

from __future__ import annotations

import pytest
from board_rows import arena, battle

import tiltyard as ty
from tiltyard.errors import RatingError


def test_a_board_agrees_with_itself_entirely():
    board = ty.rate(arena(1))
    found = board.changes_since(board)
    assert found.kendall_tau == pytest.approx(1.0)
    assert found.spearman_rho == pytest.approx(1.0)
    assert all(change.places_gained == 0 for change in found.changes)
    assert found.only_before == found.only_after == ()


def test_places_are_counted_among_the_models_both_boards_have():
    # Before: a b c; after: x, then b, a, c. Without x b rose by one place and a fell by one.
    before = ty.rate(
        battle("a>b", 2) + battle("b>a") + battle("b>c", 2) + battle("c>b") + battle("a>d", 2) + battle("d>a")
    )
    after = ty.rate(
        battle("b>a", 2) + battle("a>b") + battle("a>c", 2) + battle("c>a") + battle("x>b", 2) + battle("b>x")
    )
    assert after.models == ["x", "b", "a", "c"]
    found = after.changes_since(before)
    moves = {change.model: change.places_gained for change in found.changes}
    assert [change.model for change in found.changes] == ["b", "a", "c"]
    order_before = [name for name in before.models if name in "abc"]
    for name in "abc":
        place_after = ["b", "a", "c"].index(name)
        assert moves[name] == order_before.index(name) - place_after
    assert (found.only_before, found.only_after) == (("d",), ("x",))
    assert found.to_dict()["changes"][0]["model"] == "b"


def test_the_opposite_order_is_minus_one():
    rows = battle("a>b", 3) + battle("b>a") + battle("b>c", 3) + battle("c>b")
    turned = [{**row, "winner": {"model_a": "model_b", "model_b": "model_a"}[row["winner"]]} for row in rows]
    found = ty.rate(turned).changes_since(ty.rate(rows))
    assert found.kendall_tau == pytest.approx(-1.0)
    assert found.spearman_rho == pytest.approx(-1.0)


def test_boards_with_fewer_than_two_models_in_common_cannot_be_compared():
    one = ty.rate(battle("a>b") + battle("b>a"))
    other = ty.rate(battle("a>y") + battle("y>a"))
    with pytest.raises(RatingError, match="share 1 models"):
        other.changes_since(one)

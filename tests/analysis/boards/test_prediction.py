"""`predict_proba`: chances that add up, follow the ratings, and come true in a world whose truth is known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.reference.pages import ROOT

import tiltyard as ty
from tiltyard.errors import OptionError, RatingError

BIRDS = ROOT / "examples" / "birds.jsonl"
METHODS: dict[str, Any] = {
    "bt": ty.BradleyTerry(ci="none"),
    "rao-kupper": ty.BradleyTerry(ties="rao-kupper", ci="none"),
    "half": ty.BradleyTerry(ties="half", ci="none"),
    "elo": ty.Elo(),
    "elo-perm": ty.PermutationElo(n_perms=5),
    "glicko2": ty.Glicko2(),
}


@pytest.mark.parametrize("name", METHODS)
def test_chances_add_up_follow_the_ratings_and_turn_with_the_pair(name: str) -> None:
    board = METHODS[name].fit(BIRDS)
    best, worst = board.models[0], board.models[-1]
    found = board.predict_proba([(best, worst), (worst, best), (best, best)])
    assert found.shape == (3, 3)
    assert np.allclose(found.sum(axis=1), 1.0)
    assert found[0, 0] > 0.5 > found[0, 1] >= 0.0
    assert np.allclose(found[1], found[0][[1, 0, 2]])
    assert found[2, 0] == pytest.approx(found[2, 1])
    assert (found[:, 2] > 0).all() == (name in ("bt", "rao-kupper"))
    assert board.classes_ == ("model_a", "model_b", "tie")


def test_elo_expects_by_its_own_formula() -> None:
    board = ty.Elo().fit(BIRDS)
    a, b = board.models[0], board.models[3]
    expected = 1 / (1 + 10 ** (-(board[a].rating - board[b].rating) / 400))
    assert board.predict_proba([(a, b)])[0, 0] == pytest.approx(expected, abs=1e-12)


def test_glicko_is_less_sure_of_models_that_it_hardly_knows() -> None:
    rows = [{"model_a": "a", "model_b": "b", "winner": "model_a", "source": "human"}] * 3
    board = ty.Glicko2().fit(rows)
    gap = board["a"].rating - board["b"].rating
    known = 1 / (1 + 10 ** (-gap / 400))
    assert 0.5 < board.predict_proba([("a", "b")])[0, 0] < known


def test_predicted_shares_are_those_of_the_battles() -> None:
    """At its maximum, Davidson's likelihood expects as many ties, and as many wins of each model, as there were."""
    table = ty.read_battles(BIRDS)
    rated = table.take(table.outcome != ty.Outcome.BOTH_BAD.code)
    board = ty.BradleyTerry(ci="none").fit(rated)
    chances = board.predict_proba(rated)
    assert chances[:, 2].sum() == pytest.approx((rated.outcome == ty.Outcome.TIE.code).sum(), rel=1e-6)
    for code, model in enumerate(rated.models):
        expected = chances[rated.model_a == code, 0].sum() + chances[rated.model_b == code, 1].sum()
        expected += chances[(rated.model_a == code) | (rated.model_b == code), 2].sum() / 2
        assert expected == pytest.approx(board[model].wins + board[model].ties / 2, rel=1e-6)


def test_where_people_and_judges_tie_differently_one_says_who_decides() -> None:
    ties = {"human": 8, "llm-judge": 1}
    rows = [
        {"model_a": "a", "model_b": "b", "winner": winner, "source": source}
        for source, tied in ties.items()
        for winner in ["model_a"] * 6 + ["model_b"] * 4 + ["tie"] * tied
    ]
    board = ty.BradleyTerry(ci="none").fit(rows)
    with pytest.raises(OptionError, match="say source"):
        board.predict_proba([("a", "b")])
    people, judge = (board.predict_proba([("a", "b")], source=who)[0, 2] for who in ties)
    assert people == pytest.approx(8 / 18, rel=0.02)
    assert judge == pytest.approx(1 / 11, rel=0.02)


def test_what_cannot_be_predicted_is_said() -> None:
    board = ty.BradleyTerry(ci="none").fit(BIRDS)
    assert board.predict_proba([]).shape == (0, 3)
    with pytest.raises(RatingError, match=r"'ospray' is not on the board\. Did you mean 'osprey'"):
        board.predict_proba([("ospray", "heron")])
    with pytest.raises(OptionError, match="names of two models"):
        board.predict_proba(["osprey"])  # type: ignore[list-item]
    with pytest.raises(RatingError, match="predicts no battle"):
        ty.WinRate().fit(BIRDS).predict_proba([("osprey", "heron")])
    with pytest.raises(OptionError, match="source"):
        ty.Elo().fit(BIRDS).predict_proba([("osprey", "heron")], source="human")

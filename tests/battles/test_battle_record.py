from __future__ import annotations

import pytest

from tiltyard.battles import Battle, Outcome, Source, read_battles
from tiltyard.errors import BattleError

ROW = {"model_a": "otter", "model_b": "heron", "winner": "tie (bothbad)", "source": "llm-judge"}


def test_a_row_becomes_a_battle_and_the_same_row_again() -> None:
    row = ROW | {"question_id": "q1", "score_a": 0.4, "weight": 3.0, "len_a": 10.0, "len_b": 20.0}

    battle = Battle.from_dict(row)

    assert battle.winner is Outcome.BOTH_BAD
    assert battle.source is Source.LLM_JUDGE
    assert battle.controls == {"len_a": 10.0, "len_b": 20.0}
    assert battle.to_dict() == row


def test_unknown_keys_are_ignored() -> None:
    assert Battle.from_dict(ROW | {"mood": "sunny", "len_a": 3}) == Battle.from_dict(ROW)


def test_an_inconsistent_judgment_is_a_tie_that_says_so() -> None:
    battle = Battle.from_dict(ROW | {"winner": "tie", "inconsistent": True})

    assert battle.winner is Outcome.TIE
    assert battle.to_dict()["inconsistent"] is True
    assert "inconsistent" not in Battle.from_dict(ROW).to_dict()


def test_a_battle_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        Battle.from_dict(ROW).weight = 2.0  # type: ignore[misc]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"winner": "left"}, "unknown winner 'left'"),
        ({"source": "dice"}, "unknown source 'dice'"),
        ({"winner": None}, "needs winner"),
        ({"model_a": 5}, "wrong type"),
        ({"weight": "many"}, "wrong type"),
    ],
)
def test_a_row_that_is_no_battle_says_why(change: dict[str, object], message: str) -> None:
    with pytest.raises(BattleError, match=message):
        Battle.from_dict(ROW | change)


def test_a_battle_may_be_built_with_the_spellings_of_a_row() -> None:
    battle = Battle(model_a="otter", model_b="heron", winner="tie (bothbad)", source="human")  # type: ignore[arg-type]
    assert battle.winner is Outcome.BOTH_BAD
    assert battle.source is Source.HUMAN
    with pytest.raises(BattleError, match="unknown winner 'otter'"):
        Battle(model_a="otter", model_b="heron", winner="otter", source="human")  # type: ignore[arg-type]


def test_battles_that_were_read_can_be_gone_through_one_by_one() -> None:
    rows = [
        ROW | {"winner": "model_a", "question_id": "q1", "len_a": 10, "len_b": 20, "timestamp": 5.0, "score_a": 0.75},
        ROW | {"winner": "tie", "inconsistent": True, "weight": 3.0, "category": "law"},
        ROW,
    ]
    battles = list(read_battles(rows))

    assert battles == [Battle.from_dict(row) for row in rows]
    assert [battle.model_a for battle in read_battles(rows) if battle.winner == "model_a"] == ["otter"]
    assert read_battles(battles).models == ("heron", "otter")


def test_an_outcome_equals_its_code_and_its_spelling_and_no_other() -> None:
    assert Outcome.A == "model_a"
    assert Outcome.A == 0
    assert Outcome.BOTH_BAD == "tie (bothbad)"
    assert not Outcome.A != "model_a"  # noqa: SIM202 - the other operator
    assert Outcome.TIE != "model_a"
    assert Outcome.TIE != "TIE"
    assert Outcome.TIE != Outcome.A
    assert Source.HUMAN == "human"
    assert {Outcome.A: 1.0}[Outcome.A] == 1.0

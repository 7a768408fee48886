from __future__ import annotations

import copy
import json
import operator
import pickle
import re
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tiltyard.data.battles import Battle, Outcome, Source, read_battles
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


@pytest.mark.parametrize(
    ("word", "spelling"),
    [
        *((Outcome.A, "model_a"), (Outcome.B, "model_b"), (Outcome.TIE, "tie"), (Outcome.BOTH_BAD, "tie (bothbad)")),
        *((Source.LLM_JUDGE, "llm-judge"), (Source.HUMAN, "human")),
    ],
)
def test_who_won_and_who_decided_are_words_wherever_a_text_is_one(word: Outcome | Source, spelling: str) -> None:
    assert word == spelling
    assert not word != spelling  # noqa: SIM202 - the other operator
    assert word != spelling.upper()
    assert word != word.code
    assert json.dumps(word) == msgspec.json.encode(word).decode() == f'"{spelling}"'
    assert json.dumps({word: 1}) == f'{{"{spelling}": 1}}'
    assert f"{word}" == str(word) == "%s" % word == spelling  # noqa: UP031 - the other way to format
    assert ({word: 1}[spelling], {spelling: 1}[word], spelling in {word}) == (1, 1, True)
    assert type(word)(spelling) is word
    assert pickle.loads(pickle.dumps(word)) is copy.deepcopy(word) is word


def test_a_word_has_the_code_that_arrays_hold() -> None:
    assert [outcome.code for outcome in Outcome] == [0, 1, 2, 3]
    assert [source.code for source in Source] == [0, 1]
    assert all(kind.of_code(word.code) is word for kind in (Outcome, Source) for word in kind)
    with pytest.raises(KeyError):
        Outcome.of_code(-1)
    assert repr(Outcome.TIE) == "<Outcome.TIE: 2>"


@pytest.mark.parametrize("compare", [operator.eq, operator.ne, operator.ge])
def test_an_array_of_codes_is_never_compared_with_a_word(compare: Callable[[Any, Any], Any]) -> None:
    outcome = read_battles([ROW]).outcome
    for sides in ((outcome, Outcome.A), (Outcome.A, outcome)):
        with pytest.raises(TypeError, match="compare them with 0, the `code` of 'model_a'"):
            compare(*sides)


@pytest.mark.parametrize(("field", "wrong"), [("winner", "nobody"), ("winner", 0), ("source", "robot"), ("source", 1)])
def test_any_other_word_is_refused_with_those_that_there_are(field: str, wrong: object) -> None:
    words = {"winner": "model_a, model_b, tie, tie (bothbad)", "source": "llm-judge, human"}
    with pytest.raises(BattleError, match=re.escape(f"unknown {field} {wrong!r}: expected one of {words[field]}")):
        Battle(**{**ROW, field: wrong})

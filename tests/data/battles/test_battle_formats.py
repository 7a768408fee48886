from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from battle_rows import KINDS, write_raw

from tiltyard.data.battles import FORMAT_NAMES, FORMATS, LOG_FORMATS, Outcome, Source, log_reader, peek, read_battles
from tiltyard.data.battles.formats import recognise
from tiltyard.data.battles.log_readers import READERS
from tiltyard.errors import BadRow, BattleError

if TYPE_CHECKING:
    from pathlib import Path

A, B, TIE, BOTH_BAD = Outcome.A.code, Outcome.B.code, Outcome.TIE.code, Outcome.BOTH_BAD.code


def lmarena(winner: str) -> dict[str, Any]:
    return {"model_a": "otter", "model_b": "heron", "winner": winner, "tstamp": 1700000000.25, "language": "German"}


def alpaca(preference: float) -> dict[str, Any]:
    row = {"model": "otter", "baseline": "heron", "idx": 7, "dataset": "koala", "preference": preference}
    return row | {"len_model": 30, "len_baseline": 20, "source": "annotations"}


def annotation(preference: float) -> dict[str, Any]:
    names = {"generator_1": "otter", "generator_2": "heron", "annotator": "judge-1", "instruction": "Say hi."}
    return names | {"preference": preference}


def judged(pref: float, **more: str) -> dict[str, Any]:
    return {"model_a": "otter", "model_b": "heron", "winner": "tie", "pref": pref, **more}


def verdict(label: str) -> dict[str, Any]:
    return {"model_a": "otter", "model_b": "heron", "verdict": label, "judge": "judge-1", "question_id": "q1"}


def comparia(chosen: str | None, *, both_equal: bool = False) -> dict[str, Any]:
    names = {"model_a_name": "otter", "model_b_name": "heron", "chosen_model_name": chosen, "both_equal": both_equal}
    return {"timestamp": "2025-03-01T12:00:00", "conversation_pair_id": "pair-1"} | names


CASES: dict[str, tuple[list[dict[str, Any]], list[int], int]] = {
    "lmarena": (
        [lmarena(word) for word in ("model_a", "model_b", "tie", "tie (bothbad)", "both_bad", "bothbad")],
        [A, B, TIE, BOTH_BAD, BOTH_BAD, BOTH_BAD],
        Source.HUMAN.code,
    ),
    "evalica": (
        [{"left": "otter", "right": "heron", "winner": word} for word in ("left", "right", "tie")],
        [A, B, TIE],
        Source.HUMAN.code,
    ),
    "alpaca_eval": ([alpaca(2.0), alpaca(1.0), alpaca(1.5), alpaca(1.9)], [A, B, TIE, A], Source.LLM_JUDGE.code),
    "judgearena": ([judged(0.0), judged(1.0), judged(0.5), judged(0.25)], [A, B, TIE, A], Source.LLM_JUDGE.code),
    "arena-hard": (
        [verdict(label) for label in ("A>>B", "A>B", "A=B", "B>A", "B>>A")],
        [A, A, TIE, B, B],
        Source.LLM_JUDGE.code,
    ),
    "comparia": (
        [comparia("otter"), comparia("heron"), comparia(None, both_equal=True)],
        [A, B, TIE],
        Source.HUMAN.code,
    ),
    "winner-loser": ([{"winner": "otter", "loser": "heron"}], [A], Source.HUMAN.code),
}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        pytest.param(name, kind, marks=[pytest.mark.soak] if (row + column) % len(KINDS) else [])
        for row, name in enumerate(CASES)
        for column, kind in enumerate(KINDS)
    ],
)
def test_a_foreign_format_is_recognised_and_means_what_its_makers_mean(name: str, kind: str, tmp_path: Path) -> None:
    rows, outcomes, source = CASES[name]
    path = write_raw(tmp_path / f"battles.{kind}", rows)

    for asked in ("auto", name):
        table = read_battles(path, format=asked)
        assert table.models == ("heron", "otter")
        assert table.model_a.tolist() == [1] * len(rows)
        assert table.outcome.tolist() == outcomes
        assert table.source.tolist() == [source] * len(rows)
        assert table.weight.tolist() == [1] * len(rows)
    assert peek(path).format == name


def test_every_format_but_our_own_has_a_case() -> None:
    assert set(FORMAT_NAMES) - set(LOG_FORMATS) == {"tiltyard", *CASES}


def test_every_log_that_is_read_can_be_named() -> None:
    assert {name for name in FORMAT_NAMES if log_reader(name) is not None} == set(LOG_FORMATS) == set(READERS)


def test_the_default_source_of_a_format_can_be_overridden() -> None:
    table = read_battles(CASES["evalica"][0], default_source="llm-judge")

    assert table.source.tolist() == [Source.LLM_JUDGE.code] * 3


def test_a_preference_becomes_a_soft_score_unless_it_is_certain() -> None:
    table = read_battles([alpaca(2.0), alpaca(1.5), alpaca(1.9)])

    np.testing.assert_array_equal(table.score_a, [np.nan, np.nan, 1.9 - 1.0])
    assert read_battles([alpaca(2.0), alpaca(1.0), alpaca(1.5)]).score_a is None


def test_alpaca_eval_rows_keep_prompt_dataset_and_lengths_but_not_their_source() -> None:
    table = read_battles([alpaca(1.25)])

    assert table.text_column("question_id").texts() == ["7"]
    assert table.text_column("category").texts() == ["koala"]
    assert table.number_column("len_a").tolist() == [30]
    assert table.number_column("len_b").tolist() == [20]


def test_in_alpaca_eval_annotations_two_means_the_second_generator_and_zero_a_draw() -> None:
    table = read_battles([annotation(1.0), annotation(2.0), annotation(1.5), annotation(0.0), annotation(1.25)])

    assert table.outcome.tolist() == [A, B, TIE, TIE, A]
    np.testing.assert_array_equal(table.score_a, [np.nan, np.nan, np.nan, np.nan, 0.75])
    assert table.text_column("judge_model").texts() == ["judge-1"] * 5


def test_judgearena_rows_may_say_their_source_and_their_preference_outranks_their_winner() -> None:
    table = read_battles([judged(1.0, source="human"), judged(0.25, source="llm-judge")])

    assert table.source.tolist() == [Source.HUMAN.code, Source.LLM_JUDGE.code]
    assert table.outcome.tolist() == [B, A]
    np.testing.assert_array_equal(table.score_a, [np.nan, 0.75])


@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
def test_a_winner_beside_a_judgearena_preference_tells_what_the_number_cannot(tmp_path: Path, kind: str) -> None:
    said = [
        (0.5, "tie (bothbad)", "human", BOTH_BAD),
        (None, "tie (bothbad)", "human", BOTH_BAD),
        (None, "model_b", "human", B),
        (None, "tie", "human", TIE),
        (0.5, "tie", "human", TIE),
        (0.2, "model_a", "llm-judge", A),
        (1.0, "tie (bothbad)", "llm-judge", B),
    ]
    rows = [
        {"model_a": "otter", "model_b": "heron", "winner": winner, "source": source, "pref": pref, "pref_hard": pref}
        for pref, winner, source, _ in said
    ]
    unread = rows[5] | {"pref": None, "winner": "tie"}
    path = write_raw(tmp_path / f"battles.{kind}", [*rows, unread])

    table = read_battles(path, on_bad="skip")

    assert table.outcome.tolist() == [outcome for *_, outcome in said]
    assert table.skipped == {"missing score": 1}
    assert table.score_a is not None
    assert table.score_a[5] == pytest.approx(0.8)


def test_an_unread_judgment_is_no_tie() -> None:
    with pytest.raises(BadRow, match="row 2: missing score: pref is missing, expected a number from 0 to 1"):
        read_battles([judged(1.0), judged(None)])  # type: ignore[arg-type]
    with pytest.raises(BadRow, match="row 1: score out of range: preference is 3, expected a number from 1 to 2"):
        read_battles([alpaca(3)])


def test_lmarena_timestamps_prompts_and_token_counts_are_found(tmp_path: Path) -> None:
    lengths = {"sum_assistant_a_tokens": 120, "sum_assistant_b_tokens": 95}
    row = lmarena("model_a") | {"conversation_id": "c1", "judge": "visitor-1", "conv_metadata": lengths}
    for kind in ("jsonl", "parquet"):
        table = read_battles(write_raw(tmp_path / f"battles.{kind}", [row]))
        assert table.number_column("timestamp").tolist() == [1700000000.25]
        assert table.text_column("question_id").texts() == ["c1"]
        assert table.number_column("len_a").tolist() == [120]
        assert table.number_column("len_b").tolist() == [95]
        assert "judge" not in table.columns
    voters = read_battles(tmp_path / "battles.jsonl", columns=["judge"])
    assert voters.text_column("judge").texts() == ["visitor-1"]


def test_a_strong_verdict_counts_once() -> None:
    table = read_battles([verdict("A>>B"), verdict("A>B")])

    assert table.weight.tolist() == [1, 1]


def test_headers_are_tried_in_the_stated_order() -> None:
    own = {"model_a", "model_b", "winner"}
    assert [known.name for known in FORMATS][:3] == ["judgearena", "tiltyard", "lmarena"]
    assert recognise(own | {"source", "pref"}, "x").name == "judgearena"
    assert recognise(own | {"source"}, "x").name == "tiltyard"
    assert recognise(own, "x").name == "lmarena"
    assert recognise({"left", "right", "winner", "loser"}, "x").name == "evalica"


def test_our_own_rows_without_a_source_are_not_taken_for_votes() -> None:
    row = {"model_a": "otter", "model_b": "heron", "winner": "tie", "judge_model": "judge-1"}

    with pytest.raises(BattleError, match="a battle file needs source"):
        read_battles([row])
    assert read_battles([row], default_source="llm-judge").source.tolist() == [Source.LLM_JUDGE.code]


def test_a_format_that_does_not_fit_says_which_column_is_missing() -> None:
    with pytest.raises(BattleError, match=r"not a evalica file: no column left, right\. It has model_a"):
        read_battles([lmarena("tie")], format="evalica")


def test_a_word_that_no_format_has_is_unknown_not_a_tie() -> None:
    with pytest.raises(BadRow, match="unknown winner: winner is 'neither', expected model_a, model_b, tie"):
        read_battles([lmarena("neither")])

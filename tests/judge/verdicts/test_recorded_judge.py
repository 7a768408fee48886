"""Recorded verdicts: found by pair in either order, refused where there are none."""

from __future__ import annotations

import asyncio
import csv
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.judge.verdicts.cases import case, judging_plan, make_judge, prefers
from tiltyard.errors import JudgingError
from tiltyard.judge.verdicts import JudgingPlan, JudgingResult, RecordedJudge, Rubric, VerdictLabel, judge

ROW = {"prompt_id": "p1", "entrant_a": "otter", "entrant_b": "heron"}


def write(folder: Path, *rows: dict[str, Any], name: str = "said.jsonl") -> Path:
    path = folder / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def recall(path: Path, cases: JudgingPlan, **options: Any) -> JudgingResult:
    return asyncio.run(judge(cases, RecordedJudge(path), **options))


def test_one_row_may_hold_both_orders(tmp_path: Path) -> None:
    path = write(tmp_path, ROW | {"verdict": "A", "verdict_swapped": "B", "reasoning": "Clear.", "timestamp": "t"})
    judged = recall(path, judging_plan(1))
    judgment = judged.judgments["clarity"][0]
    assert judged.judge_model == "recorded/said.jsonl"
    assert judged.both_orders
    assert judgment.winner == "otter"
    assert [(verdict.verdict, verdict.position_swap) for verdict in judgment.raw] == [
        (VerdictLabel.A, False),
        (VerdictLabel.B, True),
    ]
    assert (judgment.raw[0].reasoning, judgment.raw[0].timestamp) == ("Clear.", "t")


def test_two_rows_with_the_entrants_exchanged_are_the_two_orders(tmp_path: Path) -> None:
    exchanged = {"prompt_id": "p1", "entrant_a": "heron", "entrant_b": "otter"}
    path = write(tmp_path, exchanged | {"verdict": "A"}, ROW | {"verdict": "B"})
    assert recall(path, judging_plan(1)).judgments["clarity"][0].winner == "heron"


def test_the_pair_is_found_whichever_entrant_a_matchup_names_first(tmp_path: Path) -> None:
    path = write(tmp_path, ROW | {"verdict": "A", "verdict_swapped": "B"})
    other_way = JudgingPlan({"clarity": Rubric("clarity", "1", "x")}, {"clarity": [case("p1", a="heron", b="otter")]})
    judgment = recall(path, other_way).judgments["clarity"][0]
    assert judgment.winner == "otter"
    assert [verdict.verdict for verdict in judgment.raw] == [VerdictLabel.B, VerdictLabel.A]


def test_a_pair_it_never_heard_is_refused_by_name(tmp_path: Path) -> None:
    path = write(tmp_path, ROW | {"verdict": "A", "verdict_swapped": "B"})
    words = r"recorded/said\.jsonl has no verdict on prompt 'p2', 'otter' against 'heron'"
    with pytest.raises(JudgingError, match=words):
        recall(path, judging_plan(2))


def test_one_order_is_accepted_only_where_the_caller_says_so(tmp_path: Path) -> None:
    path = write(tmp_path, ROW | {"verdict": "B"})
    assert not RecordedJudge(path).both_orders
    with pytest.raises(JudgingError, match="one order only"):
        recall(path, judging_plan(1))
    judged = recall(path, judging_plan(1), single_order=True)
    assert not judged.both_orders
    assert judged.judgments["clarity"][0].winner == "heron"
    assert judged.stats["clarity"].questions == 1


def test_a_dimension_is_heard_before_a_row_without_one(tmp_path: Path) -> None:
    both = {"verdict": "A", "verdict_swapped": "B"}
    path = write(tmp_path, ROW | both, ROW | {"dimension": "brevity", "verdict": "B", "verdict_swapped": "A"})
    judged = recall(path, judging_plan(1, ("clarity", "brevity")))
    assert judged.judgments["clarity"][0].winner == "otter"
    assert judged.judgments["brevity"][0].winner == "heron"


def test_a_recorded_failure_stays_a_failure(tmp_path: Path) -> None:
    path = write(tmp_path, ROW | {"verdict": "refused", "verdict_swapped": "B"})
    judged = recall(path, judging_plan(1))
    assert judged.judgments["clarity"][0].status == "failed"
    assert judged.stats["clarity"].failures == {"refused": 1}
    assert judged.stats["clarity"].cache_hits == 1


def test_the_verdict_file_of_a_run_is_a_recording(tmp_path: Path) -> None:
    live = asyncio.run(judge(judging_plan(3), make_judge(tmp_path / "cache", prefers("heron"))))
    path = tmp_path / "clarity.jsonl"
    path.write_bytes(b"".join(msgspec.json.encode(judgment) + b"\n" for judgment in live.judgments["clarity"]))
    again = recall(path, judging_plan(3))
    assert [judgment.winner for judgment in again.judgments["clarity"]] == ["heron"] * 3
    assert [verdict.reasoning for verdict in again.judgments["clarity"][0].raw] == [
        verdict.reasoning for verdict in live.judgments["clarity"][0].raw
    ]


def test_a_matchup_that_the_run_never_judged_was_never_heard(tmp_path: Path) -> None:
    unjudged = {"prompt_id": "p2", "entrant_a": "otter", "entrant_b": "heron", "winner": None, "raw": []}
    path = write(tmp_path, ROW | {"verdict": "A", "verdict_swapped": "B"}, unjudged)
    assert recall(path, judging_plan(1)).judgments["clarity"][0].winner == "otter"
    with pytest.raises(JudgingError, match="has no verdict on prompt 'p2'"):
        recall(path, judging_plan(2))


def test_csv_and_left_right_rows_are_read(tmp_path: Path) -> None:
    ours = tmp_path / "ours.csv"
    ours.write_text("prompt_id,entrant_a,entrant_b,verdict,verdict_swapped\np1,otter,heron,tie,TIE\n")
    judgment = recall(ours, judging_plan(1)).judgments["clarity"][0]
    assert (judgment.winner, judgment.inconsistent, judgment.status) == (None, False, "ok")
    theirs = tmp_path / "theirs.csv"
    theirs.write_text("id,prompt,model_x,model_y,winner,left,right\n0,p1,1,2,right,otter,heron\n")
    assert recall(theirs, judging_plan(1), single_order=True).judgments["clarity"][0].winner == "heron"


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        (ROW | {"verdict": "left"}, "unknown verdict 'left'"),
        (ROW, "no verdict"),
        ({"entrant_a": "x", "entrant_b": "y", "verdict": "A"}, "no prompt_id"),
        (ROW | {"raw": ["A"]}, "`raw`"),
        ({"prompt": "p", "left": "x", "right": "y", "winner": "neither"}, "unknown verdict 'neither'"),
    ],
)
def test_a_bad_row_is_named_with_file_and_line(tmp_path: Path, row: dict[str, Any], complaint: str) -> None:
    path = write(tmp_path, ROW | {"verdict": "A"}, row)
    with pytest.raises(JudgingError, match=r"said\.jsonl:2: ") as caught:
        RecordedJudge(path)
    assert complaint in str(caught.value)


def test_two_rows_that_contradict_each_other_are_an_error_and_two_that_agree_are_not(tmp_path: Path) -> None:
    RecordedJudge(write(tmp_path, ROW | {"verdict": "A"}, ROW | {"verdict": "A"}))
    with pytest.raises(JudgingError, match=r"said\.jsonl:2: B for prompt 'p1'.*said\.jsonl:1 says A"):
        RecordedJudge(write(tmp_path, ROW | {"verdict": "A"}, ROW | {"verdict": "B"}))


def test_no_file_and_an_empty_file_are_errors(tmp_path: Path) -> None:
    for name in ("nowhere.jsonl", "nowhere.csv"):
        with pytest.raises(JudgingError, match="nowhere"):
            RecordedJudge(tmp_path / name)
    with pytest.raises(JudgingError, match="no verdict"):
        RecordedJudge(write(tmp_path))


def test_pairs_of_one_order_and_of_both_are_settled_each_in_its_way(tmp_path: Path) -> None:
    """p1 was heard in one order; p2 in both, which disagree; p3 in both, which agree."""
    path = write(
        tmp_path,
        ROW | {"verdict": "B"},
        ROW | {"prompt_id": "p2", "verdict": "A", "verdict_swapped": "A"},
        ROW | {"prompt_id": "p3", "verdict": "A", "verdict_swapped": "B"},
    )
    judged = recall(path, judging_plan(3), single_order=True)
    settled = [(one.winner, one.inconsistent, one.status, len(one.raw)) for one in judged.judgments["clarity"]]
    assert settled == [("heron", False, "ok", 1), (None, True, "ok", 2), ("otter", False, "ok", 2)]
    assert not judged.both_orders
    assert (judged.stats["clarity"].cases, judged.stats["clarity"].questions) == (3, 5)


@pytest.mark.parametrize(("said", "winner"), [("A", "otter"), ("B", "heron"), ("TIE", None)])
def test_one_recorded_order_means_the_same_whichever_entrant_a_matchup_names_first(
    tmp_path: Path, said: str, winner: str | None
) -> None:
    """The file shows otter as A; the plan has heron first."""
    path = write(tmp_path, ROW | {"verdict": said})
    other_way = JudgingPlan({"clarity": Rubric("clarity", "1", "x")}, {"clarity": [case("p1", a="heron", b="otter")]})
    judgment = recall(path, other_way, single_order=True).judgments["clarity"][0]
    assert (judgment.winner, judgment.status) == (winner, "ok")
    assert [(verdict.verdict, verdict.position_swap) for verdict in judgment.raw] == [(VerdictLabel(said), True)]
    same_way = recall(path, judging_plan(1), single_order=True).judgments["clarity"][0]
    assert same_way.winner == winner
    assert not same_way.raw[0].position_swap


def test_the_verdicts_of_a_forward_run_are_a_recording_of_one_order(tmp_path: Path) -> None:
    forward = make_judge(tmp_path / "cache", prefers("heron"), orders="forward")
    live = asyncio.run(judge(judging_plan(3), forward, single_order=True))
    path = tmp_path / "clarity.jsonl"
    path.write_bytes(b"".join(msgspec.json.encode(judgment) + b"\n" for judgment in live.judgments["clarity"]))
    assert not RecordedJudge(path).both_orders
    again = recall(path, judging_plan(3), single_order=True)
    assert [judgment.winner for judgment in again.judgments["clarity"]] == ["heron"] * 3


@pytest.mark.parametrize("raw", [5, "A", {"verdict": "A"}, [5], ["A"], [{"said": "A"}]])
def test_raw_that_is_no_list_of_verdicts_is_one_line(tmp_path: Path, raw: object) -> None:
    path = write(tmp_path, ROW | {"raw": raw})
    with pytest.raises(JudgingError, match=r"said\.jsonl:1: `raw` must be a list of verdicts"):
        RecordedJudge(path)


def test_a_table_that_is_not_utf_8_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "said.csv"
    path.write_bytes("prompt_id,entrant_a,entrant_b,verdict\np1,Öhr,heron,A\n".encode("latin-1"))
    with pytest.raises(JudgingError, match=r"said\.csv: the file is not UTF-8\. Save it as UTF-8\.$"):
        RecordedJudge(path)


def test_a_cell_longer_than_the_csv_reader_takes_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "said.csv"
    path.write_text("prompt_id,entrant_a,entrant_b,verdict\n" + "p" * 2000 + ",otter,heron,A\n", encoding="utf-8")
    usual = csv.field_size_limit(1000)
    try:
        with pytest.raises(JudgingError, match=r"said\.csv:2: field larger than field limit"):
            RecordedJudge(path)
    finally:
        csv.field_size_limit(usual)

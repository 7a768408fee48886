"""Scores from files of any shape: which column is what, what is refused, and that battles stay battles."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tiltyard.data.scores import ReadScoresOptions, ScoreTable, as_battles, holds_scores, read_scores
from tiltyard.data.scores.table import direction_of_name
from tiltyard.errors import OptionError, ScoreError

LOGS = Path(__file__).parent.parent / "battles" / "logs"


@pytest.fixture
def write(tmp_path: Path) -> Any:
    def written(name: str, *lines: str) -> Path:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
        return tmp_path / name

    return written


def only(data: Any, **options: Any) -> ScoreTable:
    (table,) = read_scores(data, **options)
    return table


def means(table: ScoreTable) -> dict[str, dict[str, float]]:
    return {
        name: {table.prompts[int(at)]: float(mean) for at, mean in zip(one.prompts, one.mean, strict=True)}
        for name, one in table.models.items()
    }


def scores(data: Any, **options: Any) -> bool:
    return holds_scores(data, ReadScoresOptions(**options))


def test_a_file_is_a_model_and_a_model_column_is_several(write: Any) -> None:
    new, old = write("v2.csv", "id,correct", "1,1", "2,0"), write("v1.csv", "id,correct", "2,1", "1,1")
    both = write("both.csv", "model,id,correct", "v2,1,1", "v2,2,0", "v1,2,1", "v1,1,1")
    expected = {"v1": {"1": 1.0, "2": 1.0}, "v2": {"1": 1.0, "2": 0.0}}
    assert means(only([new, old])) == means(only(both)) == means(only({"v2": new, "v1": old})) == expected
    assert only([new, old]).sources == (("v2",), ("v1",))


@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_column_without_a_heading_is_left_out(write: Any, at: int) -> None:
    rows = [["id", "score"], ["q1", "0"], ["q2", "1"]]
    index = [" ", "7", "8"]
    lines = [",".join([*row[:at], number, *row[at:]]) for row, number in zip(rows, index, strict=True)]
    assert means(only(write("v1.csv", *lines))) == {"v1": {"q1": 0.0, "q2": 1.0}}
    where = means(only(write("v1.csv", *lines), where="score > 0"))
    assert where == {"v1": {"q2": 1.0}}


def test_csv_json_lines_parquet_frames_and_rows_give_the_same(write: Any, tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    rows = [{"model": name, "question_id": n, "score": n / 4} for name in ("a", "b") for n in range(4)]
    csv = write("all.csv", "model,question_id,score", *(f"{r['model']},{r['question_id']},{r['score']}" for r in rows))
    lines = write("all.jsonl", *map(json.dumps, rows))
    duckdb.sql(f"COPY (FROM read_csv('{csv}')) TO '{tmp_path / 'all.parquet'}'")
    frame = duckdb.sql(f"FROM read_csv('{csv}')")
    tables = [means(only(data)) for data in (csv, lines, tmp_path / "all.parquet", rows, frame)]
    assert all(table == tables[0] for table in tables)


def test_an_id_is_the_same_as_text_as_a_whole_number_and_as_a_fraction(write: Any) -> None:
    new = write("v2.jsonl", '{"id": 1, "score": 1}', '{"id": "2", "score": 0}')
    old = write("v1.csv", "id,score", "1.0,1", "2,0")
    assert only([new, old]).prompts == ("1", "2")


def test_yes_and_no_in_any_spelling_are_one_and_zero_and_blanks_are_no_score(write: Any) -> None:
    file = write("v.csv", "id,passed", "1,true", "2,FALSE", "3,yes", "4,Fail", "5,", "6,nan", "7, correct ")
    one = only(file)["v"]
    assert one.mean[one.count > 0].tolist() == [1.0, 0.0, 1.0, 0.0, 1.0]
    assert int(one.unscored.sum()) == 2
    assert only(file).shares
    assert only(file).bounds == (0.0, 1.0)


def test_names_are_read_alike_from_json_lines_and_csv_and_prompts_stand_in_order_of_appearance(write: Any) -> None:
    cells = [(" m1 ", "7.00", 1, "de "), ("m1", " x", 0, None), ("m1", "10.50", 1, "en"), ("m2", "7", 1, " at")]
    keys = ("model", "id", "score", "category")
    lines = write("all.jsonl", *(json.dumps(dict(zip(keys, cell, strict=True))) for cell in cells))
    csv = write(
        "all.csv", ",".join(keys), *(",".join("" if one is None else str(one) for one in cell) for cell in cells)
    )
    for file in (lines, csv):
        table = only(file)
        assert means(table) == {"m1": {"7": 1.0, "x": 0.0, "10.50": 1.0}, "m2": {"7": 1.0}}
        assert table.prompts == ("7", "x", "10.50")
        assert table.columns["category"].texts() == ["at", None, "en"]  # of several, the first in the alphabet
        assert only(file, where="score = 1").prompts == ("7", "10.50")


def test_a_bad_row_is_counted_within_its_own_file_and_the_first_file_is_told_first(write: Any) -> None:
    new, old = write("v2.csv", "id,score", "1,1", "2,1", "3,bad"), write("v1.csv", "id,score", "1,?", ",1", "3,0")
    with pytest.raises(ScoreError, match=r"v2\.csv:4: not a score: score is 'bad'"):
        read_scores([new, old])
    table = only([new, old], on_bad="skip")
    assert table.skipped == {"not a score": 2, "no prompt": 1}
    none = pytest.approx(float("nan"), nan_ok=True)  # a cell that is no score is an answer without one
    assert means(table) == {"v1": {"1": none, "3": 0.0}, "v2": {"1": 1.0, "2": 1.0, "3": none}}


def test_rows_that_repeat_are_repeats(write: Any) -> None:
    one = only(write("v.csv", "id,score", "1,2", "1,4", "1,6", "2,1"))["v"]
    assert (one.mean.tolist(), one.count.tolist()) == ([4.0, 1.0], [3, 1])
    assert one.variance[0] == pytest.approx(4.0)
    assert np.isnan(one.variance[1])


def test_a_cell_that_is_no_score_is_named_or_skipped_and_counted(write: Any) -> None:
    file = write("v.csv", "id,score", "1,0.5", "2,good", "3,1")
    with pytest.raises(ScoreError, match=r"v\.csv:3: not a score: score is 'good'"):
        read_scores(file)
    assert only(file, on_bad="skip").skipped == {"not a score": 1}
    with pytest.raises(ScoreError, match=r"v\.csv:3: no prompt: id is empty"):
        read_scores(write("v.csv", "id,score", "1,0.5", ",1"))
    with pytest.raises(ScoreError, match="not a score"):
        read_scores(write("v.csv", "id,score", "1,inf"))


def test_several_columns_that_could_be_scores_are_named(write: Any) -> None:
    file = write("v.csv", "id,f1,bleu", "1,0.5,3", "2,0.6,4")
    with pytest.raises(ScoreError, match=r'several columns could be the scores: f1, bleu. Say which with score="f1"'):
        read_scores(file)
    assert [table.metric for table in read_scores(file, score=["bleu", "f1"])] == ["bleu", "f1"]
    with pytest.raises(OptionError, match="has no column 'rouge'"):
        read_scores(file, score=["rouge"])
    with pytest.raises(ScoreError, match="no column holds numbers"):
        read_scores(write("t.csv", "id,answer", "1,hello"))


def test_a_winner_means_battles(write: Any) -> None:
    battles = write("b.csv", "model_a,model_b,winner,score", "a,b,model_a,3")
    assert not scores(battles)
    assert scores(battles, score=["score"])
    assert not scores(write("m.csv", "left_model,right_model,choice", "a,b,1"))
    with pytest.raises(
        OptionError, match=r"If one holds scores, name it with score=\.\.\.; its columns are id, answer"
    ):
        scores(write("t.csv", "id,answer", "1,hello"))
    assert scores(write("s.csv", "id,latency", "1,3.5"))
    with pytest.raises(OptionError, match='To compare scores, pass score="score"'):
        scores(write("both.csv", "id,winner,score", "1,a,3"))


def test_one_model_in_two_files_of_the_same_prompts_has_two_names(write: Any) -> None:
    files = [write(f"{run}/scores.csv", "id,model,score", "1,gpt,1", "2,gpt,0") for run in ("new", "old")]
    assert only(files).sources == (("new/scores",), ("old/scores",))
    shards = [write(f"part{n}.csv", "id,model,score", f"{n},gpt,1") for n in (1, 2)]
    assert list(only(shards).models) == ["gpt"]


def test_a_condition_and_a_mapping_hold_for_scores_too(write: Any) -> None:
    file = write("v.csv", "frage,punkte,art", "1,3,a", "2,5,b")
    table = only(file, map={"prompt": "frage", "score": "punkte"}, where="art = 'b'", columns=["art"])
    assert means(table) == {"v": {"2": 5.0}}
    assert table.columns["art"].texts() == ["b"]
    with pytest.raises(OptionError, match="cannot be used"):
        read_scores(file, score=["punkte"], where="1; DROP TABLE x")


def test_bounds_must_hold(write: Any) -> None:
    file = write("v.csv", "id,score", "1,3", "2,6")
    with pytest.raises(OptionError, match="beyond bounds"):
        read_scores(file, bounds=(1, 5))
    with pytest.raises(OptionError, match="expected LOW,HIGH"):
        read_scores(file, bounds=(5, 1))
    assert only(file, bounds=(1, 10)).bounds == (1.0, 10.0)


def test_logs_of_inspect_give_scores_by_scorer() -> None:
    files = [LOGS / "birds_v1.eval", LOGS / "birds_v2.eval"]
    assert scores(files)
    tables = {table.metric: table for table in read_scores(files)}
    assert set(tables) == {"includes", "match"}
    assert tables["match"].sources == (("mockllm/v1",), ("mockllm/v2",))
    both = means(tables["match"])
    assert both["mockllm/v2"]["birds/osprey"] > both["mockllm/v1"]["birds/osprey"]
    with pytest.raises(OptionError, match="no metric f1"):
        read_scores(files, score=["f1"])


def test_scores_as_battles_forget_by_how_much(write: Any) -> None:
    new, old = write("v2.csv", "id,score", "1,9", "2,3", "3,5"), write("v1.csv", "id,score", "1,1", "2,4", "3,5")
    rows = as_battles(read_scores([new, old]))
    assert [(row["model_a"], row["question_id"], row["winner"]) for row in rows] == [
        ("v1", "1", "model_b"),
        ("v1", "2", "model_a"),
        ("v1", "3", "tie"),
    ]
    fewer = as_battles(read_scores([new, old], score=["score:lower"]), band=1.0)
    assert [row["winner"] for row in fewer] == ["model_a", "tie", "tie"]


def both(**columns: list[Any]) -> list[dict[str, Any]]:
    """Rows of the models new and old; each column lists their values on four prompts."""
    names = [name for name in ("new", "old") for _ in range(4)]
    return [
        {"model": name, "id": n % 4, **{column: values[n] for column, values in columns.items()}}
        for n, name in enumerate(names)
    ]


def ways(data: Any, *score: str) -> dict[str, tuple[str, bool]]:
    return {one.metric: (one.direction, one.lower_is_better) for one in read_scores(data, score=list(score) or None)}


def test_each_metric_goes_its_own_way() -> None:
    data = both(faithfulness=[*range(8)], latency_s=[*range(8)])
    assert ways(data, "faithfulness", "latency_s:lower") == {
        "faithfulness": ("default", False),
        "latency_s": ("option", True),
    }
    assert ways(data, "faithfulness:lower", "latency_s:higher") == {
        "faithfulness": ("option", True),
        "latency_s": ("option", False),
    }


def test_a_column_whose_own_name_ends_in_a_direction_is_named_with_one_more() -> None:
    data = both(**{"score:lower": [*range(8)], "score": [*range(8)]})
    assert ways(data, "score:lower:higher") == {"score:lower": ("option", False)}
    assert ways(data, "score:lower:lower") == {"score:lower": ("option", True)}
    assert ways(data, "score:lower") == {"score": ("option", True)}


def test_one_metric_cannot_go_both_ways_and_twice_is_once() -> None:
    with pytest.raises(OptionError, match="say two things of one metric"):
        read_scores(both(score=[*range(8)]), score=["score:lower", "score:higher"])
    (table,) = read_scores(both(score=[*range(8)]), score=["score", "score:lower"])
    assert table["new"].count.tolist() == [1, 1, 1, 1]
    assert table.lower_is_better


@pytest.mark.parametrize(
    ("name", "way"),
    [
        ("latency_s", "lower"),
        ("responseTimeMs", "lower"),
        ("cost", "lower"),
        ("total tokens", "lower"),
        ("cost_per_call", "lower"),
        ("tokens_per_second", "higher"),
        ("timeliness", None),
        ("costume", None),
        ("accuracy", None),
        ("secondary", None),
    ],
)
def test_whole_words_of_a_name_suggest_a_direction(name: str, way: str | None) -> None:
    assert direction_of_name(name) == way


def test_the_judged_scores_of_a_run_know_their_direction() -> None:
    judged = [{**row, "metric": "care.cost", "judge_model": "j", "scale": "1-5"} for row in both(score=[*range(8)])]
    assert ways(judged) == {"care.cost": ("log", False)}
    assert ways(judged, "care.cost:lower") == {"care.cost": ("option", True)}

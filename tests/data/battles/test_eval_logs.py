"""Logs of other tools: files that the tools themselves wrote (`logs/README.md`), and how scores become battles."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest
from battle_rows import same
from hypothesis import given
from hypothesis import strategies as st

import tiltyard as ty
from tiltyard.analysis.boards import rate_with
from tiltyard.analysis.boards.rating import InputOptions
from tiltyard.data.battles import ScoredAnswer, ScoredRun, battle_score, find_problems, pair_scores, peek, read_battles
from tiltyard.data.battles.eval_logs import ROUNDING, UNPAIRED
from tiltyard.data.battles.frames import frame_columns
from tiltyard.errors import BadRow, BattleError, NoBattles, OptionError

LOGS = Path(__file__).parent / "logs"


def battles(table: ty.BattleTable) -> list[dict[str, Any]]:
    columns = frame_columns(table)
    names = list(columns)
    return [dict(zip(names, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def outcomes(table: ty.BattleTable) -> list[tuple[str, str]]:
    return [(row["question_id"], row["winner"]) for row in battles(table)]


@pytest.mark.parametrize("suffix", ["eval", "json"])
def test_inspect_logs_of_two_models_are_battles_sample_by_sample_and_scorer_by_scorer(suffix: str) -> None:
    files = [LOGS / f"birds_v1.{suffix}", LOGS / f"birds_v2.{suffix}"]
    table = read_battles(files)

    assert peek(files).format == "inspect"
    assert table.models == ("mockllm/v1", "mockllm/v2")
    rows = battles(table)
    assert [(row["question_id"], row["dimension"], row["winner"]) for row in rows] == [
        ("birds/heron", "includes", "tie"),
        ("birds/heron", "match", "tie"),
        ("birds/osprey", "includes", "model_b"),
        ("birds/osprey", "match", "model_b"),
        ("birds/plover", "includes", "model_a"),
        ("birds/plover", "match", "model_a"),
    ]
    assert {row["category"] for row in rows} == {"birds"}
    assert {row["source"] for row in rows} == {"llm-judge"}


def test_both_kinds_of_inspect_logs_and_both_ways_of_packing_give_the_same(tmp_path: Path) -> None:
    for version in ("v1", "v2"):
        with zipfile.ZipFile(LOGS / f"birds_{version}.eval") as packed:
            assert {info.compress_type for info in packed.infolist()} == {93}, "a recent log is packed by Zstandard"
        document = json.loads((LOGS / f"birds_{version}.json").read_text())
        samples = document.pop("samples")
        with zipfile.ZipFile(tmp_path / f"{version}.eval", "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("_journal/start.json", json.dumps(document))
            for at, sample in enumerate(samples, start=1):
                archive.writestr(f"_journal/summaries/{at}.json", json.dumps([sample]))

    whole = read_battles([LOGS / "birds_v1.eval", LOGS / "birds_v2.eval"])
    assert same(read_battles([LOGS / "birds_v1.json", LOGS / "birds_v2.eval"]), whole)
    assert same(read_battles(tmp_path), whole), "a run that was interrupted has only its journal"


def test_a_log_can_be_mapped_filtered_and_rated() -> None:
    files = [LOGS / "birds_v1.eval", LOGS / "birds_v2.eval"]
    board = ty.rate(
        files, dimension="includes", as_battles=True, map={"category": "metadata.topic"}, where="repeat = 1"
    )
    assert board.n_battles == 3
    assert board.settings.interval.clusters[0].count == 3
    table = read_battles(files, map={"category": "metadata.topic"}, default_source="human")
    assert table.columns["category"].labels == ("prey", "water")
    assert set(table.source.tolist()) == {ty.Source.HUMAN.code}


def inspect_log(path: Path, model: str, values: dict[str, Any], **about: Any) -> Path:
    samples = [
        {"id": name, "epoch": 1, "target": "t", "scores": None if value is None else {"s": {"value": value}}}
        for name, value in values.items()
    ]
    header = {"task": "t", "model": model} | about
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"version": 2, "status": "success", "eval": header, "samples": samples}))
    return path


def test_an_answer_without_a_score_is_a_bad_row_and_never_a_loss(tmp_path: Path) -> None:
    one = inspect_log(tmp_path / "1.json", "x", {"a": 1, "b": None, "c": "what", "d": 0.5})
    other = inspect_log(tmp_path / "2.json", "y", {"a": 0, "b": 1, "c": 1, "e": 1})

    with pytest.raises(BadRow, match=r"1\.json: sample b: missing score: x: no score"):
        read_battles([one, other])
    table = read_battles([one, other], on_bad="skip")
    assert outcomes(table) == [("t/a", "model_a")]
    assert dict(table.skipped) == {"missing score": 2, UNPAIRED: 4}
    n_battles, bad_rows = find_problems([one, other])
    assert (n_battles, bad_rows.skipped) == (1, {"missing score": 2})


@pytest.mark.parametrize(
    ("value", "number"), [("C", 1.0), ("P", 0.5), ("I", 0.0), ("N", 0.0), (True, 1.0), ("0.25", 0.25)]
)
def test_the_words_of_inspect_are_numbers(value: Any, number: float, tmp_path: Path) -> None:
    one = inspect_log(tmp_path / "1.json", "x", {"a": value})
    other = inspect_log(tmp_path / "2.json", "y", {"a": {"part": 2, "whole": 3}, "b": 1})
    third = inspect_log(tmp_path / "3.json", "z", {"a": 0.3, "b": 1})
    table = read_battles([one, other, third])
    assert table.columns["value_a"].tolist() == [number, 1.0]
    assert table.columns["dimension"].labels == ("s",)


def test_two_runs_of_one_model_are_told_apart_by_what_differs(tmp_path: Path) -> None:
    scores = {"a": 1, "b": 0}
    first = inspect_log(tmp_path / "x/1.json", "m", scores, task_args={"prompt": "v1", "n": 3})
    second = inspect_log(tmp_path / "x/2.json", "m", scores, task_args={"prompt": "v2", "n": 3})
    again = inspect_log(tmp_path / "y/1.json", "m", scores, task_args={"prompt": "v1", "n": 3})
    elsewhere = inspect_log(tmp_path / "x/3.json", "m", {"z": 1}, task_args={"prompt": "v3"})
    other = inspect_log(tmp_path / "x/4.json", "o", {"z": 1})

    assert read_battles([first, second]).models == ("m (prompt=v1)", "m (prompt=v2)")
    assert read_battles([first, again]).models == ("m (x/1)", "m (y/1)")
    assert read_battles([elsewhere, other]).models == ("m", "o")


def test_logs_that_cannot_be_compared_say_why(tmp_path: Path) -> None:
    one = inspect_log(tmp_path / "1.json", "x", {"a": 1})
    with pytest.raises(
        NoBattles, match=r"no prompt was scored for two models: there is x \(1 prompt\)\. Name the logs"
    ):
        read_battles(one)
    other = inspect_log(tmp_path / "2.json", "y", {"a": 1})
    other.write_text(other.read_text().replace('"target": "t"', '"target": "u"'))
    with pytest.raises(BattleError, match=r"not the same prompt as .*sample a, though both are called 't/a'"):
        read_battles([one, other])
    with pytest.raises(BattleError, match="is not a log of promptfoo"):
        read_battles(one, format="promptfoo")
    with pytest.raises(BattleError, match=r"birds_v1\.eval is a zip archive"):
        read_battles(LOGS / "birds_v1.eval", format="tiltyard")
    with zipfile.ZipFile(tmp_path / "other.eval", "w") as archive:
        archive.writestr("readme.txt", "no log")
    with pytest.raises(BattleError, match="not an Inspect log: it has no header"):
        read_battles(tmp_path / "other.eval")
    with zipfile.ZipFile(tmp_path / "votes.xlsx", "w") as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
    with pytest.raises(BattleError, match=r"votes\.xlsx is a spreadsheet or document\. Save it as CSV"):
        read_battles(tmp_path / "votes.xlsx")
    torn = tmp_path / "torn.eval"
    torn.write_bytes((LOGS / "birds_v1.eval").read_bytes()[:2000])
    with pytest.raises(BattleError, match=r"torn\.eval cannot be unzipped"):
        read_battles(torn)
    with pytest.raises(OptionError, match="reads rows of battles, not logs"):
        rate_with(ty.BradleyTerry(), one, InputOptions(engine="spark", format="inspect"))


def test_promptfoo_providers_are_compared_test_by_test() -> None:
    path = LOGS / "promptfoo.json"
    with pytest.raises(BadRow, match=r"promptfoo\.json: test 3: missing score: v2: no score \(no answer\)"):
        read_battles(path)
    table = read_battles(path, on_bad="skip")

    assert peek(path).format == "promptfoo"
    assert table.models == ("v1", "v2")
    assert outcomes(table) == [("bird=heron", "model_b"), ("bird=osprey", "model_a")]
    assert table.columns["value_a"].tolist() == [0.5, 1.0]
    assert outcomes(read_battles(path, on_bad="skip", tie_band=0.5)) == [
        ("bird=heron", "tie"),
        ("bird=osprey", "model_a"),
    ]
    mapped = read_battles(path, on_bad="skip", map={"category": "metadata.topic"})
    assert mapped.columns["category"].texts() == ["water", None]


def promptfoo(rows: list[tuple[int, int, str, str, float]], path: Path) -> Path:
    results = [
        {
            "testIdx": test,
            "promptIdx": at,
            "provider": {"id": provider, "label": ""},
            "prompt": {"label": template},
            "vars": {"n": test // 2},
            "score": score,
            "gradingResult": {},
            "failureReason": 0,
        }
        for test, at, provider, template, score in rows
    ]
    path.write_text(json.dumps({"evalId": "e", "results": {"version": 3, "results": results}}))
    return path


def test_promptfoo_templates_are_the_contestants_where_they_differ(tmp_path: Path) -> None:
    one = promptfoo([(0, 1, "m", "terse: do {{n}}", 1), (0, 0, "m", "kind: please do {{n}}", 0)], tmp_path / "1.json")
    assert read_battles(one).models == ("kind", "terse")
    both = promptfoo([(0, 0, "m", "x", 1), (0, 1, "m", "y", 0), (0, 2, "k", "x", 0)], tmp_path / "2.json")
    assert read_battles(both).models == ("k · x", "m · x", "m · y")
    equal = promptfoo([(0, 0, "m", "x", 1), (0, 1, "m", "x", 0)], tmp_path / "3.json")
    assert read_battles(equal).models == ("m #1", "m #2")


def test_two_providers_under_one_number_of_promptfoo_are_two_models(tmp_path: Path) -> None:
    """Merged outputs count their columns from 0 each: m was right twice, k never."""
    rows = [(0, 0, "m", "x", 1), (2, 0, "m", "x", 1), (0, 0, "k", "x", 0), (2, 0, "k", "x", 0)]
    table = read_battles(promptfoo(rows, tmp_path / "1.json"))
    assert table.models == ("k", "m")
    assert {winner for _, winner in outcomes(table)} == {"model_b"}
    assert len(table) == 2


def test_older_promptfoo_files_without_numbered_columns_are_read(tmp_path: Path) -> None:
    rows = [(0, 0, "m", "x", 1.0), (0, 1, "k", "x", 0.0)]
    path = promptfoo(rows, tmp_path / "1.json")
    document = json.loads(path.read_text())
    for row in document["results"]["results"]:
        del row["promptIdx"], row["testIdx"], row["failureReason"]
    path.write_text(json.dumps({"results": document["results"]}))
    assert outcomes(read_battles(path)) == [("n=0", "model_b")]
    document["results"]["results"][1]["error"] = "timeout"
    path.write_text(json.dumps({"results": document["results"]}))
    with pytest.raises(BadRow, match=r"test 1: missing score: k: no score \(timeout\)"):
        read_battles(path)


def test_a_score_that_is_not_a_number_is_missing(tmp_path: Path) -> None:
    one = inspect_log(tmp_path / "1.json", "x", {"a": float("nan"), "b": 1})
    assert "NaN" in one.read_text()
    files = [one, inspect_log(tmp_path / "2.json", "y", {"a": 1, "b": 1})]
    with pytest.raises(BadRow, match="missing score: x: s is nan, which is not a number"):
        read_battles(files)
    assert outcomes(read_battles(files, on_bad="skip")) == [("t/b", "tie")]


def test_promptfoo_repeats_are_paired_in_order_whatever_the_order_of_the_file(tmp_path: Path) -> None:
    rows = [(1, 0, "m", "x", 0.2), (0, 1, "k", "x", 0.5), (0, 0, "m", "x", 0.9), (1, 1, "k", "x", 0.6)]
    table = read_battles(promptfoo(rows, tmp_path / "1.json"))
    assert table.columns["question_id"].labels == ("n=0",)
    assert sorted(zip(table.columns["value_a"].tolist(), table.columns["value_b"].tolist(), strict=True)) == [
        (0.5, 0.9),
        (0.6, 0.2),
    ]


def test_mt_bench_pairs_keep_both_verdicts_apart() -> None:
    path = LOGS / "mt_bench_pair.jsonl"
    with pytest.raises(BadRow, match=r"mt_bench_pair\.jsonl:4: missing winner: a verdict is 'error'"):
        read_battles(path)
    table = read_battles(path, on_bad="skip")

    assert peek(path).format == "mt-bench"
    assert outcomes(table) == [("81", "model_a"), ("82", "tie"), ("83", "tie")]
    assert table.columns["inconsistent"].tolist() == [0.0, 1.0, 0.0]
    assert table.columns["judge_model"].labels == ("mock-judge",)


def test_mt_bench_grades_become_battles_within_each_judge(tmp_path: Path) -> None:
    path = LOGS / "mt_bench_single.jsonl"
    table = read_battles(path, on_bad="skip")
    assert outcomes(table) == [("81", "model_a"), ("82", "model_b"), ("83", "tie")]
    assert dict(table.skipped) == {"missing score": 1, UNPAIRED: 1}
    assert outcomes(read_battles(path, on_bad="skip", tie_band=0.5))[1] == ("82", "tie")

    second = path.read_text().replace("mock-judge", "other").replace('"score": 8,', '"score": 1,')
    (tmp_path / "two.jsonl").write_text(path.read_text() + second)
    both = read_battles(tmp_path / "two.jsonl", on_bad="skip")
    assert both.columns["judge_model"].labels == ("mock-judge", "other")
    assert len(both) == 6


def lm_eval(folder: Path, values: list[Any], metric: str = "acc", model: str | None = None, **more: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    stamp = "2026-11-16T04-00-00.123456"
    path = folder / f"samples_bird_facts_{stamp}.jsonl"
    rows = [
        {
            "doc_id": at,
            "doc": {"subject": "law" if at else "art", "q": [1]},
            "target": "x",
            "arguments": {},
            "resps": [],
        }
        | {"filtered_resps": ["x"], "filter": "none", "metrics": [metric], "doc_hash": f"h{at}", metric: value}
        | more
        for at, value in enumerate(values)
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    if model is not None:
        summary: dict[str, Any] = {"results": {"bird_facts": {}}, "config": {}, "model_name": model}
        summary["higher_is_better"] = {"bird_facts": {metric: not metric.startswith("low")}}
        (folder / f"results_{stamp}.json").write_text(json.dumps(summary))
    return path


def test_lm_eval_samples_of_two_models_are_compared_document_by_document(tmp_path: Path) -> None:
    lm_eval(tmp_path / "a", [1.0, 0.0, 1.0], model="org/one")
    lm_eval(tmp_path / "org__two", [0.0, 0.0, 1.0])
    folders = [tmp_path / "a", tmp_path / "org__two"]

    table = read_battles(folders)
    assert table.models == ("org/one", "org/two")
    assert outcomes(table) == [("bird_facts/0", "model_a"), ("bird_facts/1", "tie"), ("bird_facts/2", "tie")]
    assert {row["category"] for row in battles(table)} == {"bird_facts"}
    assert read_battles(folders, map={"category": "metadata.subject"}).columns["category"].labels == ("art", "law")
    with pytest.raises(BattleError, match="is a summary of lm-evaluation-harness, without answers"):
        read_battles(next((tmp_path / "a").glob("results_*")))


def test_what_lm_eval_writes_is_read_with_the_names_of_its_summaries() -> None:
    folders = [LOGS / "lm_eval" / "birds__v1", LOGS / "lm_eval" / "birds__v2"]
    table = read_battles(folders, map={"category": "metadata.topic"})

    assert peek(folders).format == "lm-eval"
    assert table.models == ("birds/v1", "birds/v2")
    assert [(row["question_id"], row["dimension"], row["winner"], row["category"]) for row in battles(table)] == [
        ("birds/0", "acc", "model_b", "prey"),
        ("birds/0", "acc_norm", "model_b", "prey"),
        ("birds/1", "acc", "tie", "water"),
        ("birds/1", "acc_norm", "tie", "water"),
        ("birds/2", "acc", "model_a", "song"),
        ("birds/2", "acc_norm", "tie", "song"),
    ]


def test_lm_eval_metrics_know_which_way_is_up(tmp_path: Path) -> None:
    def winner(metric: str, **more: Any) -> tuple[str, str | None]:
        for name, value in (("x", 1.0), ("y", 2.0)):
            lm_eval(tmp_path / name, [value], metric, **more)
        (row,) = battles(read_battles([tmp_path / "x", tmp_path / "y"]))
        return row["winner"], row["dimension"]

    assert winner("acc") == ("model_b", "acc")
    assert winner("perplexity") == ("model_a", "perplexity")
    lm_eval(tmp_path / "p", [1.0], "low_is_good", model="p")
    lm_eval(tmp_path / "q", [2.0], "low_is_good", model="q")
    assert outcomes(read_battles([tmp_path / "p", tmp_path / "q"])) == [("bird_facts/0", "model_a")]
    assert winner("exact_match", filter="strict") == ("model_b", "exact_match,strict")
    files = [lm_eval(tmp_path / "x", [1.0]), lm_eval(tmp_path / "y", [1.0], doc_hash="other")]
    with pytest.raises(BattleError, match="not the same prompt"):
        read_battles(files)
    files = [lm_eval(tmp_path / "x", ["nan"]), lm_eval(tmp_path / "y", [1.0])]
    with pytest.raises(BadRow, match="no metric that is a number"):
        read_battles(files)


def test_logs_and_battle_files_can_be_read_together(tmp_path: Path) -> None:
    for version in ("v1", "v2"):
        shutil.copy(LOGS / f"birds_{version}.eval", tmp_path)
    (tmp_path / "votes.csv").write_text("model_a,model_b,winner,prompt\nmockllm/v1,mockllm/v2,left,birds/heron\n")

    board = ty.rate(tmp_path, tie_band=0.1)
    assert board.n_battles == 7
    assert board.settings.interval.clusters[0].count == 3
    assert board.settings.tie_band == 0.1
    with pytest.raises(OptionError, match="tie_band is about logs with scores, and there is none"):
        ty.rate(tmp_path / "votes.csv", tie_band=0.1)
    with pytest.raises(OptionError, match="tie_band is -1"):
        ty.rate(tmp_path, tie_band=-1)


SCORES = st.dictionaries(st.sampled_from("pqrs"), st.integers(0, 10).map(lambda tenths: tenths / 10), min_size=1)


@given(runs=st.lists(SCORES, min_size=2, max_size=4), tenths=st.integers(0, 5))
def test_every_two_scores_of_a_prompt_are_one_battle_by_the_documented_rule(
    runs: list[dict[str, float]], tenths: int
) -> None:
    band = tenths / 10
    logs = [
        ScoredRun(
            model=f"m{at}",
            file="f",
            answers=[ScoredAnswer(where="w", prompt=prompt, scores={"": score}) for prompt, score in scores.items()],
        )
        for at, scores in enumerate(runs)
    ]
    expected = {}
    for at, one in enumerate(runs):
        for other_at, other in enumerate(runs[at + 1 :], start=at + 1):
            for prompt in one.keys() & other.keys():
                lead = round(10 * (one[prompt] - other[prompt]))
                winner = "tie" if abs(lead) <= tenths else "model_a" if lead > 0 else "model_b"
                expected[prompt, f"m{at}", f"m{other_at}"] = winner
    try:
        logged = pair_scores(logs, band)
    except NoBattles:
        assert expected == {}
        return
    found = {(row.row["question_id"], row.row["model_a"], row.row["model_b"]): row.row["winner"] for row in logged.rows}
    assert found == expected
    assert len(logged.rows) == len(expected)
    assert logged.unpaired == sum(sum(prompt in scores for scores in runs) == 1 for prompt in "pqrs")
    assert ROUNDING < 0.1


def test_a_scorer_of_inspect_that_compares_writes_its_battles_into_the_log() -> None:
    table = ty.read_battles(LOGS / "birds_pairs.eval")
    rows = battles(table)
    said = {row["question_id"]: (row["winner"], bool(row["inconsistent"])) for row in rows}
    assert said == {
        "birds/heron": ("model_a", False),
        "birds/otter": ("tie", True),
        "birds/crane": ("tie", False),
        "birds/osprey": ("model_b", False),
    }
    first = rows[0]
    assert (first["model_a"], first["model_b"], first["source"]) == ("v2", "v1", "llm-judge")
    assert (first["dimension"], first["judge_model"], first["category"]) == ("against_v1", "mockllm/judge", "birds")


@pytest.mark.parametrize(
    ("forward", "backward", "winner", "value", "inconsistent"),
    [
        ("A", "B", "model_a", 1.0, False),
        ("B", "A", "model_b", 0.0, False),
        ("tie", "TIE", "tie", 0.5, False),
        ("A", "A", "tie", 0.5, True),
        ("A", "TIE", "tie", 0.5, True),
        ("B", None, "model_b", 0.0, False),
    ],
)
def test_two_verdicts_become_one_battle(
    forward: str, backward: str | None, winner: str, value: float, inconsistent: bool
) -> None:
    score = battle_score("new", "old", forward, backward, category="sums")
    battle = score["metadata"]["tiltyard_battle"]
    assert (score["value"], battle["winner"], battle.get("inconsistent", False)) == (value, winner, inconsistent)
    assert battle["category"] == "sums"


def test_a_verdict_that_cannot_be_read_is_no_tie() -> None:
    with pytest.raises(OptionError, match="backward is 'well'"):
        battle_score("new", "old", "A", "well")


def test_a_bad_battle_in_a_log_is_a_bad_row_and_other_scorers_are_still_paired(tmp_path: Path) -> None:
    def log(model: str, **scores: Any) -> Path:
        samples = [{"id": "q", "epoch": 1, "target": "", "scores": scores}]
        about = {"version": 2, "status": "success", "eval": {"task": "t", "model": model}, "samples": samples}
        path = tmp_path / f"{model}.json"
        path.write_text(json.dumps(about), encoding="utf-8")
        return path

    pair = {"value": 1, "metadata": {"tiltyard_battle": {"model_a": "x", "model_b": "y", "winner": "x won"}}}
    files = [log("x", grader={"value": 1}, pair=pair), log("y", grader={"value": 0})]
    with pytest.raises(BadRow, match="x won"):
        ty.read_battles(files)
    table = ty.read_battles(files, on_bad="skip")
    assert len(table) == 1
    assert sum(table.skipped.values()) == 1

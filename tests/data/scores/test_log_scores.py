"""Logs and exports of other tools as scores, and readers that plug in (the logs: tests/data/battles/logs/README.md)."""

from __future__ import annotations

import json
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

import tiltyard as ty
from tiltyard.data.battles import BattleFile, ScoredAnswer, ScoredRun, log_reader, log_readers
from tiltyard.data.battles.log_readers import READERS, LogReader, check_log_reader
from tiltyard.data.scores import ReadScoresOptions, holds_scores, read_scores
from tiltyard.errors import BattleError, OptionError, ScoreError

LOGS = Path(__file__).parent.parent / "battles" / "logs"
EXPORTS = LOGS / "exports"
SUMS = {
    "deepeval": [EXPORTS / "deepeval_v2.json", EXPORTS / "deepeval_v1.json"],
    "langfuse": [EXPORTS / "langfuse.json"],
    "phoenix": [EXPORTS / "phoenix" / "v2.json", EXPORTS / "phoenix" / "v1.json"],
    "otel": [EXPORTS / "otel_v2.json", EXPORTS / "otel_v1.json"],
}
"""Six sums: v2 has all of them right, v1 four."""
SAMPLES = {
    "inspect": LOGS / "birds_v1.eval",
    "promptfoo": LOGS / "promptfoo.json",
    "lm-eval": next((LOGS / "lm_eval").glob("*/samples_*.jsonl")),
    "mt-bench": LOGS / "mt_bench_single.jsonl",
    **{name: files[0] for name, files in SUMS.items()},
}


@pytest.mark.parametrize("tool", SUMS)
def test_exports_give_scores_by_model_and_prompt(tool: str) -> None:
    files = SUMS[tool]
    assert holds_scores(files, ReadScoresOptions())
    assert holds_scores(files, ReadScoresOptions(format=tool))
    (table,) = read_scores(files)
    assert table.metric.lower() == "exact"
    assert sorted(table.prompts) == [f"What is {n}+{n}?" for n in range(6)]
    answer = ty.compare("v2", "v1", battles=files)
    assert (answer.difference, answer.old_mean) == pytest.approx((1 / 3, 4 / 6))


def test_logs_of_promptfoo_lm_eval_and_mt_bench_give_scores() -> None:
    (promptfoo,) = read_scores(SAMPLES["promptfoo"])
    assert {name: int((one.count > 0).sum()) for name, one in promptfoo.models.items()} == {"v1": 3, "v2": 2}
    tables = {table.metric: table for table in read_scores(sorted((LOGS / "lm_eval").glob("*/samples_*.jsonl")))}
    assert "acc" in tables
    assert len(tables["acc"].models) == 2
    (grades,) = read_scores(SAMPLES["mt-bench"])
    assert all(prompt.endswith(("turn 1", "turn 2")) for prompt in grades.prompts)


def test_feedback_of_open_webui_is_votes() -> None:
    file = EXPORTS / "open_webui.json"
    assert not holds_scores(file, ReadScoresOptions())
    table = ty.read_battles(file)
    won = [(b.model_a, b.model_b, b.winner.value, b.source.name, b.voter) for b in table]
    assert won == [
        ("v1", "v2", "model_b", "HUMAN", "u1"),
        ("v1", "v2", "model_a", "HUMAN", "u2"),
        ("v0", "v2", "model_a", "HUMAN", "u2"),
        ("v1", "v2", "model_b", "HUMAN", "u1"),
    ]
    with pytest.raises(BattleError, match="holds votes, not scores"):
        read_scores(file)


def test_what_only_looks_like_an_export_is_refused_in_a_line(tmp_path: Path) -> None:
    for text, said in (
        ('{"testCases": [3]}', "is not as deepeval writes it"),
        ('{"testCases": []}', "has no scored answer"),
        ('{"resourceSpans": []}', "it holds no score"),
    ):
        (tmp_path / "log.json").write_text(text)
        with pytest.raises((BattleError, ScoreError), match=said):
            read_scores(tmp_path / "log.json")
    span = {"name": "chat", "events": [{"name": "gen_ai.evaluation.result", "attributes": []}]}
    (tmp_path / "log.json").write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}))
    with pytest.raises(BattleError, match=r"has a score but none of the attributes input\.value"):
        read_scores(tmp_path / "log.json")


@pytest.mark.parametrize("tool", SAMPLES)
def test_our_own_readers_keep_the_contract(tool: str) -> None:
    assert check_log_reader(READERS[tool], SAMPLES[tool])


def _runs(part: BattleFile) -> list[ScoredRun]:
    with part.open() as file:
        lines = [line.decode().split() for line in file]
    answers = [ScoredAnswer(where=part.name, prompt=name, scores={"": float(score)}) for name, score in lines]
    return [ScoredRun(model=Path(part.name).stem, file=part.name, answers=answers)]


MINE = LogReader(name="mine", runs=_runs)


@pytest.fixture
def plugged(monkeypatch: pytest.MonkeyPatch) -> Any:
    """One reader that another package brings."""

    def entry_points(group: str, name: str) -> list[EntryPoint]:
        known = {"mine": f"{__name__}:MINE", "broken": "nowhere:READER", "wrong": f"{__name__}:LOGS"}
        return [EntryPoint(name, known[name], group)] if name in known and group == "tiltyard.readers" else []

    monkeypatch.setattr("importlib.metadata.entry_points", entry_points)
    log_reader.cache_clear()
    yield
    log_reader.cache_clear()


@pytest.mark.usefixtures("plugged")
def test_a_reader_plugs_in_by_name(tmp_path: Path) -> None:
    for name, last in (("v2", 3), ("v1", 1)):
        (tmp_path / f"{name}.json").write_text(f"a 1\nb {last}\n")
    files = [tmp_path / "v2.json", tmp_path / "v1.json"]
    assert ty.compare("v2", "v1", battles=files, format="mine").difference == pytest.approx(1.0)
    assert len(ty.read_battles(files, format="mine")) == 2
    assert check_log_reader(log_readers.log_reader("mine"), files[0])
    for name, said in (("broken", "cannot be loaded"), ("wrong", "is no LogReader")):
        with pytest.raises(OptionError, match=said):
            read_scores(files, format=name)
    with pytest.raises(OptionError, match="unknown format 'absent'"):
        ty.read_battles(files, format="absent")


def test_the_contract_says_what_does_not_hold(tmp_path: Path) -> None:
    (tmp_path / "v.json").write_text("a 1\na 2\n")
    with pytest.raises(OptionError, match="two answers of one prompt and repeat"):
        check_log_reader(MINE, tmp_path / "v.json")
    (tmp_path / "v.json").write_text("a inf\n")
    with pytest.raises(OptionError, match="not finite"):
        check_log_reader(MINE, tmp_path / "v.json")
    with pytest.raises(OptionError, match="needs `runs`"):
        check_log_reader(READERS["open-webui"], EXPORTS / "open_webui.json")

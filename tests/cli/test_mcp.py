"""`tiltyard mcp` as an agent uses it: a process, the SDK's own client, and files below one folder."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any, TextIO

import anyio
import pytest
from jsonschema import Draft202012Validator
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp_types import CallToolResult, Tool

import tiltyard as ty
from tests.cli.conftest import ROOT, Run
from tiltyard.cli.mcp import TOOLS, FileRoot
from tiltyard.errors import OptionError

BIRDS, TODAY, LAST_WEEK = "birds.jsonl", "today.jsonl", "last-week.jsonl"
Call = tuple[str, dict[str, Any]]

ASKED: dict[str, Call] = {
    "rate": ("rate", {"battles": [BIRDS], "top": 3}),
    "compare models": ("compare", {"new": "v2", "old": "v1", "battles": [TODAY], "prompts": 2}),
    "compare runs": ("compare", {"new": TODAY, "old": LAST_WEEK}),
    "gate": ("gate", {"new": "v2", "old": "v1", "battles": [TODAY], "by": "category"}),
    "plan": ("plan", {"differences": [50]}),
    "plan from a pilot": ("plan", {"battles": [TODAY], "new": "v2", "old": "v1"}),
    "plan the top": ("plan", {"battles": [BIRDS], "top": 2}),
    "judge check": ("judge_check", {"pairs": "pairs.jsonl", "verdicts": "verdicts.jsonl"}),
    "run status": ("run_status", {"folder": "run", "judgments": "judgments"}),
    "placement status": ("run_status", {"folder": "placement"}),
    "absolute, inside": ("rate", {"battles": ["{root}/birds.jsonl"], "top": 1}),
    "no such tool": ("shell", {"command": "ls"}),
    "no such argument": ("rate", {"battles": [BIRDS], "where": "true"}),
    "a missing argument": ("gate", {"new": "v2"}),
    "up and out": ("rate", {"battles": ["../secret.jsonl"]}),
    "up, out and back": ("rate", {"battles": ["../{name}/birds.jsonl"]}),
    "absolute, outside": ("rate", {"battles": ["{outside}"]}),
    "a link that leads out": ("rate", {"battles": ["link.jsonl"]}),
    "a folder with such a link": ("rate", {"battles": ["linked"]}),
    "a glob": ("rate", {"battles": ["*.jsonl"]}),
    "an address": ("rate", {"battles": ["https://example.org/battles.jsonl"]}),
    "a database": ("compare", {"new": "a", "old": "b", "battles": ["sqlite:///arena.db"]}),
    "standard input": ("rate", {"battles": ["-"]}),
    "a pipe": ("rate", {"battles": ["pipe"]}),
    "a bad row": ("rate", {"battles": ["bad.jsonl"]}),
    "an unknown model": ("compare", {"new": "v9", "old": "v1", "battles": [TODAY]}),
    "two models without battles": ("compare", {"new": "v2", "old": "v1"}),
    "no run": ("run_status", {"folder": "linkless"}),
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as a user has it, beside one that is nobody's business."""
    outside = tmp_path_factory.mktemp("outside")
    home = outside / "root"
    home.mkdir()
    for name in (BIRDS, f"versions/{TODAY}", f"versions/{LAST_WEEK}"):
        shutil.copy(ROOT / "examples" / name, home / Path(name).name)
    shutil.copy(home / BIRDS, outside / "secret.jsonl")
    (home / "link.jsonl").symlink_to(outside / "secret.jsonl")
    for name in ("linked", "linkless"):
        (home / name).mkdir()
        shutil.copy(home / BIRDS, home / name / "more.jsonl")
    (home / "linked" / "battles.jsonl").symlink_to(outside / "secret.jsonl")
    os.mkfifo(home / "pipe")
    (home / "bad.jsonl").write_text('{"model_a": "a", "model_b": "b", "winner": "who", "source": "human"}\n')
    golden = ROOT / "tests" / "golden"
    shutil.copytree(golden / "tournament" / "run", home / "run")
    shutil.copytree(golden / "tournament" / "judgments", home / "judgments")
    shutil.copytree(golden / "placement", home / "placement")
    pairs = [
        {"prompt_id": f"p{i}", "prompt": "?", "response_a": "yes", "response_b": "no", "label": "AB"[i % 2]}
        for i in range(8)
    ]
    verdicts = [
        {
            "prompt_id": f"p{i}",
            "entrant_a": "A",
            "entrant_b": "B",
            "verdict": "AB"[i % 2],
            "verdict_swapped": "BA"[i % 2],
        }
        for i in range(8)
    ]
    for name, rows in (("pairs", pairs), ("verdicts", verdicts)):
        (home / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return home


def filled(value: Any, home: Path) -> Any:
    text = json.dumps(value).replace("{root}", str(home)).replace("{name}", home.name)
    return json.loads(text.replace("{outside}", str(home.parent / "secret.jsonl")))


@pytest.fixture(scope="module")
def session(home: Path) -> tuple[dict[str, CallToolResult], list[Tool], str]:
    """All answers of one server process, its tools, and what it says of itself."""

    async def ask(said: TextIO) -> tuple[dict[str, CallToolResult], list[Tool], str]:
        command = ["-m", "tiltyard", "mcp", "--root", str(home)]
        server = StdioServerParameters(command=sys.executable, args=command, cwd=home.parent)
        async with Client(stdio_client(server, errlog=said)) as client:
            tools = (await client.list_tools()).tools
            answers = {
                title: await client.call_tool(name, filled(arguments, home), read_timeout_seconds=120)
                for title, (name, arguments) in ASKED.items()
            }
            return answers, tools, client.instructions or ""

    with (home.parent / "stderr").open("w") as said:  # its own default is what was open when it was imported
        return anyio.run(ask, said)


Session = tuple[dict[str, CallToolResult], list[Tool], str]


def text_of(result: CallToolResult) -> str:
    (block,) = result.content
    assert block.type == "text"
    return block.text


def test_every_tool_says_what_it_takes_and_that_it_only_reads(session: Session) -> None:
    _, tools, instructions = session
    assert (
        [tool.name for tool in tools] == list(TOOLS) == ["rate", "compare", "gate", "plan", "judge_check", "run_status"]
    )
    for tool in tools:
        Draft202012Validator.check_schema(tool.input_schema)
        assert tool.annotations is not None
        assert tool.annotations.read_only_hint
        assert tool.input_schema["additionalProperties"] is False
        silent = [name for name, field in tool.input_schema["properties"].items() if not field.get("description")]
        assert silent == []
    assert "no model is asked" in " ".join(instructions.split())


def test_answers_are_those_of_the_library(session: Session, home: Path) -> None:
    answers, _, _ = session
    board = ty.rate(home / BIRDS)
    rated = answers["rate"].structured_content
    assert rated is not None
    assert [row["model"] for row in rated["ratings"]] == board.models[:3]
    assert rated["ratings"][0]["rating"] == board.entries[0].rating
    assert rated["n_models"] == len(board)
    assert "5 more models are not shown" in text_of(answers["rate"])
    found = ty.compare("v2", "v1", battles=home / TODAY)
    assert text_of(answers["compare models"]).startswith(found.sentence)
    compared = answers["compare models"].structured_content
    assert compared is not None
    assert compared["difference"] == found.difference
    assert len(compared["prompts"]) == 4 < len(found.prompts)
    gate = answers["gate"].structured_content
    assert gate is not None
    assert gate["verdict"] == "better"
    assert {part["column"] for part in gate["by"]} == {"category"}
    runs = answers["compare runs"].structured_content
    assert runs is not None
    assert runs["sentence"] == ty.compare(home / TODAY, home / LAST_WEEK).sentence


def test_plans_checks_and_states_are_answered(session: Session) -> None:
    answers, _, _ = session
    assert "50 points" in text_of(answers["plan"])
    assert "v2" in text_of(answers["plan from a pilot"])
    assert (answers["plan the top"].structured_content or {}).get("sentence")
    check = answers["judge check"].structured_content
    assert check is not None
    assert check["right_in_both_orders"]["value"] == 1.0
    status = answers["run status"].structured_content
    assert status is not None
    assert status["finished"] is True
    assert status["batches"]["open"] == 0
    assert "judgments" in text_of(answers["run status"])
    assert "battles judged" in text_of(answers["placement status"])


SAID = {
    "no such tool": "there is no tool 'shell'",
    "no such argument": "unknown field `where`",
    "a missing argument": "missing required field `old`",
    "up and out": "../secret.jsonl is not below the root",
    "up, out and back": None,
    "absolute, outside": "is not below the root",
    "a link that leads out": "link.jsonl is not below the root",
    "a folder with such a link": "linked holds a link that leads out of the root: battles.jsonl",
    "a glob": "there is no file or folder *.jsonl below the root",
    "an address": "is an address: only files below the root are read",
    "a database": "is an address: only files below the root are read",
    "standard input": "there is no file or folder - below the root",
    "a pipe": "pipe is neither a file nor a folder",
    "a bad row": "bad.jsonl:1: unknown winner",
    "an unknown model": "v9",
    "two models without battles": "say in `battles` where they met",
    "no run": "linkless has no manifest.json",
}


@pytest.mark.parametrize("title", SAID)
def test_what_is_wrong_or_outside_is_refused_in_one_line(title: str, session: Session, home: Path) -> None:
    answer, said = session[0][title], SAID[title]
    if said is None:  # a way out that leads back in: the file is inside
        assert not answer.is_error
        return
    assert answer.is_error
    assert answer.structured_content is None
    assert said in text_of(answer)
    assert "\n" not in text_of(answer)
    assert str(home) not in text_of(answer).replace(str(home.parent / "secret.jsonl"), "")


def test_names_that_are_no_names_are_refused(home: Path) -> None:
    root = FileRoot.at(home)
    loop = home / "loop"
    loop.symlink_to(loop)
    try:
        for name in ("", "  ", "a\0b", "loop", "x" * 5000, "../nothing", "/etc/passwd", "/"):
            with pytest.raises(OptionError):
                root.file(name)
    finally:
        loop.unlink()


def test_a_root_that_is_no_folder_is_one_line(tiltyard: Run, home: Path) -> None:
    done = tiltyard("mcp", "--root", str(home / BIRDS))
    assert done.returncode == 1
    assert (
        done.stderr == f"tiltyard: --root {home / BIRDS} is not a folder. Name the folder with your battles and runs.\n"
    )


def test_the_gate_of_agents_judges_each_dimension_and_each_metric(tmp_path: Path) -> None:
    battles = [
        {"model_a": "v2", "model_b": "v1", "source": "llm-judge", "question_id": f"q{i}", "dimension": dimension}
        | {"winner": "model_a" if i < wins else "model_b"}
        for dimension, wins in (("style", 123), ("safety", 54))
        for i in range(150)
    ]
    scores = [
        {"model": model, "id": f"q{i}", "metric": metric, "score": int(i < right)}
        for metric, both in (("style", (180, 100)), ("safety", (80, 130)))
        for model, right in zip(("v2", "v1"), both, strict=True)
        for i in range(200)
    ]
    for name, rows in (("battles.jsonl", battles), ("scores.jsonl", scores)):
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    root, gate = FileRoot.at(tmp_path), TOOLS["gate"]
    asked = {"new": "v2", "old": "v1", "battles": ["battles.jsonl"]}
    answer = gate.answer(root, asked)
    assert (answer.values["verdict"], answer.values["by_dimension"]) == ("worse", True)
    assert "worse than v1 in safety" in answer.text
    assert gate.answer(root, {**asked, "pool_dimensions": True}).values["verdict"] == "better"
    assert gate.answer(root, {**asked, "dimension": "style", "picked_from": 9}).values["comparison"]["picked_from"] == 9
    by_score = gate.answer(root, {"new": "v2", "old": "v1", "battles": ["scores.jsonl"], "margin": 0.02})
    assert by_score.values["metrics"]["safety"]["verdict"] == by_score.values["verdict"] == "worse"
    one = gate.answer(root, {"new": "v2", "old": "v1", "battles": ["scores.jsonl"], "margin": 0.02, "score": ["style"]})
    assert one.values["verdict"] == "better"


def test_scores_make_boards_and_say_their_direction(home: Path) -> None:
    rows = [{"model": m, "id": n, "latency_s": n % 7 + (m == "v1")} for m in ("v2", "v1") for n in range(40)]
    (home / "seconds.jsonl").write_text("\n".join(map(json.dumps, [*rows, {"model": "v2", "id": 40, "latency_s": 1}])))
    root, where = FileRoot.at(home), {"battles": ["seconds.jsonl"]}
    board = TOOLS["rate"].answer(root, {**where, "bounds": [0, 10]})
    assert [row["model"] for row in board.values["metrics"][0]["scores"]] == ["v2", "v1"]
    assert "missing" in board.text
    two = {**where, "new": "v2", "old": "v1"}
    with pytest.raises(OptionError, match=r"score=\['latency_s:lower'\]"):
        TOOLS["gate"].answer(root, two)
    told = TOOLS["compare"].answer(root, {**two, "score": ["latency_s:lower"]})
    assert "v2 is better than v1" in told.text
    for tool, asked in (("rate", {"battles": [BIRDS], "missing": "ignore"}), ("rate", {**where, "method": "elo"})):
        with pytest.raises(OptionError, match="is about"):
            TOOLS[tool].answer(root, asked)

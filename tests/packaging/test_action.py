"""The GitHub Action: its steps run as a script, with the variables a runner sets, and hostile inputs stay data."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.stand_in import program
from typer.testing import CliRunner

from tiltyard.cli.main import make_app

__all__ = ["program"]

ACTION = Path(__file__).parents[2] / "action"
PINNED = re.compile(r"actions/(checkout|setup-python)@v\d+$")


@pytest.fixture(scope="module")
def action() -> dict[str, Any]:
    return yaml.safe_load((ACTION / "action.yml").read_text(encoding="utf-8"))


def battles(path: Path, wins: int, losses: int, new: str = "v2") -> str:
    rows = [
        {"model_a": new, "model_b": "v1", "winner": winner, "source": "llm-judge", "question_id": f"q{i}"}
        for i, winner in enumerate(["model_a"] * wins + ["model_b"] * losses)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def run_gate(
    action: dict[str, Any], folder: Path, program: Path, inputs: dict[str, str]
) -> tuple[int, dict[str, str], str]:
    """Run the step that gates, with every input filled in as the runner would: exit code, outputs, step summary."""
    step = next(step for step in action["runs"]["steps"] if step.get("id") == "gate")
    values = {name: str(about.get("default", "")) for name, about in action["inputs"].items()} | inputs
    filled = {
        name: re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda m: values[m[1]], text)
        for name, text in step["env"].items()
    }
    output, summary = folder / "output", folder / "summary"
    output.touch()
    summary.touch()
    environment = {
        **os.environ,
        **filled,
        "PATH": f"{program}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "GITHUB_ACTION_PATH": str(ACTION),
        "GITHUB_OUTPUT": str(output),
        "GITHUB_STEP_SUMMARY": str(summary),
        "RUNNER_TEMP": str(folder),
    }
    done = subprocess.run(["bash", "-c", step["run"]], cwd=folder, env=environment, check=False, capture_output=True)
    outputs = dict(line.split("=", 1) for line in output.read_text(encoding="utf-8").splitlines())
    return done.returncode, outputs, summary.read_text(encoding="utf-8")


@pytest.mark.parametrize(("wins", "losses", "verdict", "code"), [(70, 30, "better", 0), (30, 70, "worse", 3)])
def test_the_gate_step_passes_or_fails_and_says_why(action, tmp_path, program, wins, losses, verdict, code):
    file = battles(tmp_path / "battles.jsonl", wins, losses)
    returned, outputs, summary = run_gate(action, tmp_path, program, {"new": "v2", "old": "v1", "battles": file})
    assert returned == code
    assert outputs["verdict"] == verdict
    assert outputs["sentence"] in summary
    assert Path(outputs["markdown"]).read_text(encoding="utf-8") == summary
    assert Path(outputs["junit"]).read_text(encoding="utf-8").startswith("<?xml")


def test_unknown_fails_unless_it_is_allowed(action, tmp_path, program):
    file = battles(tmp_path / "battles.jsonl", 8, 9)
    inputs = {"new": "v2", "old": "v1", "battles": file}
    assert run_gate(action, tmp_path, program, inputs)[0] == 3
    assert run_gate(action, tmp_path, program, {**inputs, "allow-unknown": "true"})[0] == 0


def test_a_margin_that_nobody_gave_is_the_gates_own(action, tmp_path, program):
    """Of scores from 0 to 10 a margin of 30 would let everything pass: 3.5 against 9.5 is no pass, but a question."""
    rows = [f"{model},q{i},{score + i % 2}" for model, score in (("v2", 3), ("v1", 9)) for i in range(60)]
    file = tmp_path / "scores.csv"
    file.write_text("\n".join(["model,id,score", *rows]) + "\n", encoding="utf-8")
    inputs = {"new": "v2", "old": "v1", "battles": str(file)}
    assert run_gate(action, tmp_path, program, inputs)[:2] == (1, {})
    assert run_gate(action, tmp_path, program, {**inputs, "margin": "  "})[:2] == (1, {})
    assert run_gate(action, tmp_path, program, {**inputs, "margin": "1"})[0] == 3


def test_an_input_without_a_value_gives_the_gate_nothing(action, tmp_path):
    """What the step runs where only the two models are given; every other input keeps its default."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "tiltyard").write_text('#!/bin/sh\nprintf "%s\\n" "$@" >"$RUNNER_TEMP/given"\n', encoding="utf-8")
    (folder / "tiltyard").chmod(0o755)
    empty = {name: "" for name in action["inputs"] if name not in ("new", "old")}
    for inputs in ({}, empty):
        run_gate(action, tmp_path, folder, {"new": "v2", "old": "v1", **inputs})
        given = (tmp_path / "given").read_text(encoding="utf-8").split()
        assert given[::2] == [
            "gate",
            *[str(tmp_path / f"tiltyard-gate/gate.{end}") for end in ("md", "xml", "json")],
            "v2",
        ]
        assert given[1::2] == ["--markdown", "--junit", "--json", "--", "v1"]


@pytest.mark.parametrize("name", ["anytime", "allow-unknown", "pool-dimensions"])
def test_a_switch_is_true_or_false(action, tmp_path, program, name):
    file = battles(tmp_path / "battles.jsonl", 30, 70)
    assert run_gate(action, tmp_path, program, {"new": "v2", "old": "v1", "battles": file, name: "True"})[:2] == (2, {})


def test_a_dimension_that_is_worse_fails_the_step(action, tmp_path, program):
    file = tmp_path / "battles.jsonl"
    style, safety = (Path(battles(tmp_path / name, *won)) for name, won in (("a", (123, 27)), ("b", (54, 96))))
    rows = [
        {**json.loads(line), "dimension": part.name}
        for part in (style, safety)
        for line in part.read_text().splitlines()
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    inputs = {"new": "v2", "old": "v1", "battles": str(file)}
    code, outputs, _ = run_gate(action, tmp_path, program, inputs)
    assert (code, outputs["verdict"]) == (3, "worse")
    assert "worse than v1 in b (" in outputs["sentence"]
    assert "in 2 dimensions" in outputs["sentence"]
    assert run_gate(action, tmp_path, program, {**inputs, "pool-dimensions": "true"})[0] == 0
    assert run_gate(action, tmp_path, program, {**inputs, "dimension": "a"})[0] == 0


def test_a_hostile_name_is_a_name_and_not_shell_code(action, tmp_path, program):
    name = '--help $(touch owned) `touch owned` "; touch owned; \nverdict=better'
    file = battles(tmp_path / "battles.jsonl", 30, 70, new=name)
    code, outputs, _ = run_gate(action, tmp_path, program, {"new": name, "old": "v1", "battles": file})
    assert code == 3
    assert outputs["verdict"] == "worse"
    assert not (tmp_path / "owned").exists()


def test_an_error_is_an_error_and_no_verdict(action, tmp_path, program):
    code, outputs, summary = run_gate(action, tmp_path, program, {"new": "v2", "old": "v1", "battles": "missing.jsonl"})
    assert (code, outputs, summary) == (1, {}, "")


def test_only_checkout_and_setup_python_are_used_and_by_version(action):
    example = yaml.safe_load((ACTION.parent / "examples" / "model-gate.yml").read_text(encoding="utf-8"))
    steps = [*action["runs"]["steps"], *example["jobs"]["gate"]["steps"]]
    used = [step["uses"] for step in steps if "uses" in step]
    assert used
    assert [name for name in used if not PINNED.match(name)] == ["./tiltyard/action"]


def test_no_input_is_pasted_into_a_script(action):
    for step in action["runs"]["steps"]:
        assert "${{ inputs" not in step.get("run", "")


def test_every_input_reaches_the_gate(action):
    step = next(step for step in action["runs"]["steps"] if step.get("id") == "gate")
    given = " ".join(step["env"].values())
    assert [name for name in action["inputs"] if f"inputs.{name} " not in given] == ["python-version"]


def test_the_hooks_are_commands_that_do_what_they_say(tmp_path: Path) -> None:
    hooks = {hook["id"]: hook for hook in yaml.safe_load((ACTION.parent / ".pre-commit-hooks.yaml").read_text())}
    assert set(hooks) == {"tiltyard-gate", "tiltyard-battles"}

    def run(name: str, *arguments: str) -> int:
        program, *words = hooks[name]["entry"].split()
        assert program == "tiltyard"
        return CliRunner().invoke(make_app(words[0]), [*words, *arguments]).exit_code

    good, bad = battles(tmp_path / "battles.jsonl", 70, 30), tmp_path / "battles-odd.jsonl"
    bad.write_text('{"model_a": "a"}\n', encoding="utf-8")
    assert run("tiltyard-gate", "v2", "v1", "--in", good) == 0
    assert run("tiltyard-gate", "v1", "v2", "--in", good) == 3
    assert run("tiltyard-battles", good) == 0
    assert run("tiltyard-battles", str(bad)) == 1
    pattern = re.compile(hooks["tiltyard-battles"]["files"])
    assert all(pattern.search(name) for name in ("battles.jsonl", "runs/a/battles.jsonl", "x/battles-2.parquet"))
    assert not pattern.search("bank.jsonl")

"""`tiltyard compare` and `tiltyard gate` as a user runs them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.cli.conftest import Run
from tiltyard import arena

RUN = Path(__file__).parents[1] / "golden" / "tournament" / "run"
LOGS = Path(__file__).parents[1] / "data" / "battles" / "logs"
ASKED = {
    *("new", "old", "difference", "low", "high", "probability_better", "win_rate", "win_rate_low", "win_rate_high"),
    *("n_battles", "n_prompts", "n_voters", "clusters", "sentence"),
}


def write(path: Path, wins: int, losses: int, ties: int = 0, judge: str | None = None) -> str:
    results = ["model_a"] * wins + ["model_b"] * losses + ["tie"] * ties
    rows = [
        {
            "model_a": "v2",
            "model_b": "v1",
            "winner": winner,
            "source": "llm-judge",
            "question_id": f"q{i}",
            "judge_model": judge,
        }
        for i, winner in enumerate(results)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def test_the_first_line_is_the_answer(tiltyard: Run, tmp_path: Path) -> None:
    done = tiltyard("compare", "v2", "v1", "--in", write(tmp_path / "battles.jsonl", 70, 30, 4))
    assert done.returncode == 0
    assert done.stderr == ""
    first = done.stdout.splitlines()[0]
    assert first == "v2 is better than v1: +147 points (71 to 223), more than 99.9 % sure; 104 battles on 104 prompts."
    assert "v2 against v1: 70 won, 30 lost, 4 tied" in done.stdout


@pytest.mark.parametrize("command", ["compare", "gate"])
@pytest.mark.parametrize("option", [(), ("--in",)], ids=["without --in", "what a shell makes of a star"])
def test_all_files_that_are_named_are_read(
    tiltyard: Run, tmp_path: Path, command: str, option: tuple[str, ...]
) -> None:
    files = [write(tmp_path / f"{number}.jsonl", 20, 10) for number in range(3)]
    found = json.loads(tiltyard(command, "v2", "v1", *option, *files, "--format", "json").stdout)
    assert found.get("comparison", found)["n_battles"] == 90


def test_json_has_the_promised_fields(tiltyard: Run, birds: str) -> None:
    found = json.loads(tiltyard("compare", "osprey", "heron", "--in", birds, "--format", "json").stdout)
    assert found.keys() >= ASKED
    assert found["low"] <= found["difference"] <= found["high"]
    assert 0 <= found["win_rate_low"] <= found["win_rate"] <= found["win_rate_high"] <= 1
    assert found["field"]["n_battles"] > found["direct"]["n_battles"] > 0


@pytest.mark.parametrize("suffix", ["md", "html", "json", "txt"])
def test_the_file_is_of_the_kind_that_its_name_says(tiltyard: Run, birds: str, tmp_path: Path, suffix: str) -> None:
    out = tmp_path / f"compare.{suffix}"
    done = tiltyard("compare", "osprey", "heron", "--in", birds, "--out", str(out))
    assert (done.returncode, done.stdout) == (0, "")
    text = out.read_text(encoding="utf-8")
    assert "osprey" in text
    begins = {"md": "**", "html": "<!doctype html>", "json": "{", "txt": ("osprey is", "cannot tell")}[suffix]
    assert text.startswith(begins)


def test_a_run_folder_brings_prompt_texts_answers_and_the_judges_words(tiltyard: Run, tmp_path: Path) -> None:
    done = tiltyard("compare", "otter", "crane", "--in", str(RUN))
    assert "Who wrote Hamlet?" in done.stdout
    assert "by dimension (intervals hold for all values at once):" in done.stdout
    page = tmp_path / "compare.html"
    assert tiltyard("compare", "otter", "crane", "--in", str(RUN), "--out", str(page)).returncode == 0
    answer = json.loads((RUN / "matches" / "matches.jsonl").read_text().splitlines()[0])["response_a"]
    assert answer in page.read_text(encoding="utf-8")


def test_a_csv_of_ones_own_is_compared_by_its_own_names(tiltyard: Run, tmp_path: Path) -> None:
    file = tmp_path / "own.csv"
    lines = [f'"Why {i}?",{("v2,v1", "v1,v2")[i % 2]},{"v2" if i % 3 else "v1"}' for i in range(30)]
    file.write_text("\n".join(["ask,left_model,right_model,preferred", *lines]) + "\n", encoding="utf-8")
    names = ("prompt=ask", "model_a=left_model", "model_b=right_model", "winner=preferred")
    options = [part for name in names for part in ("--map", name)]
    where = ("--in", str(file), *options, "--default-source", "human")
    found = json.loads(tiltyard("compare", "v2", "v1", *where, "--format", "json").stdout)
    assert (found["n_prompts"], found["direct"]["wins"]) == (30, 20)
    page = tmp_path / "compare.html"
    assert tiltyard("compare", "v2", "v1", *where, "--out", str(page)).returncode == 0
    assert "Why 3?" in page.read_text(encoding="utf-8")
    assert tiltyard("gate", "v2", "v1", *where, "--margin", "300").returncode == 0


def test_two_runs_are_compared_and_another_judge_is_refused(tiltyard: Run, tmp_path: Path) -> None:
    old = tmp_path / "last-week"
    shutil.copytree(RUN, old)
    done = tiltyard("compare", str(RUN), str(old))
    assert done.stdout.startswith(
        "no entrant of 3 moved by more than noise between last-week and run on 4 shared prompts."
    )
    manifest = json.loads((old / "manifest.json").read_text())
    (old / "manifest.json").write_text(json.dumps({**manifest, "judge_model": "another"}))
    done = tiltyard("compare", str(RUN), str(old))
    assert (done.returncode, done.stdout) == (1, "")
    assert "another judge: gpt-5-mini (new), another (old)" in done.stderr
    assert done.stderr.rstrip().endswith("or pass --anyway.")
    done = tiltyard("compare", str(RUN), str(old), "--anyway", "--format", "json")
    found = json.loads(done.stdout)
    assert found.keys() >= ASKED
    assert (found["new"], found["old"], found["difference"]) == ("run", "last-week", None)
    page = tmp_path / "runs.html"
    assert tiltyard("compare", str(RUN), str(old), "--anyway", "--out", str(page)).returncode == 0
    assert "moved by more than noise" in page.read_text(encoding="utf-8")


def test_the_json_of_two_runs_leads_with_the_only_entrant_that_changed(tiltyard: Run, tmp_path: Path) -> None:
    old = tmp_path / "last-week"
    shutil.copytree(RUN, old)
    manifest = json.loads((old / "manifest.json").read_text())
    manifest["sha256"]["responses"]["otter"] = "other answers"
    (old / "manifest.json").write_text(json.dumps(manifest))
    found = json.loads(tiltyard("compare", str(RUN), str(old), "--format", "json").stdout)
    assert found.keys() >= ASKED
    assert (found["entrant"], found["difference"]) == ("otter", 0.0)
    done = tiltyard("gate", str(RUN), str(old), "--format", "json")
    assert json.loads(done.stdout)["comparison"]["new"] == "otter in run"


def test_two_ratings_files_are_compared(tiltyard: Run, birds: str, tmp_path: Path) -> None:
    files = [str(tmp_path / name) for name in ("new.json", "old.json")]
    tiltyard("rate", birds, "--out", files[0])
    tiltyard("rate", birds, "--where", "winner <> 'tie'", "--out", files[1])
    done = tiltyard("compare", *files)
    assert done.returncode == 0
    assert "their errors are counted as independent" in done.stdout


def test_a_page_of_a_live_arena_is_one_reading_of_it(
    tiltyard: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = f"sqlite:///{tmp_path / 'arena.db'}"
    tiltyard("arena", "simulate", "--models", "4", "--prompts", "5", "--votes", "100", "--db", db)
    stored = json.loads(tiltyard("arena", "export", "--db", db).stdout.splitlines()[0])
    readings, open_export = [], arena.open_export
    monkeypatch.setattr(arena, "open_export", lambda url: readings.append(url) or open_export(url))
    done = tiltyard("compare", stored["model_a"], stored["model_b"], "--in", db, "--format", "html")
    assert done.returncode == 0, done.stderr
    assert "<html" in done.stdout
    assert readings == [db]


def test_an_arena_database_is_read_with_its_prompts(tiltyard: Run, tmp_path: Path) -> None:
    db = f"sqlite:///{tmp_path / 'arena.db'}"
    done = tiltyard("arena", "simulate", "--models", "4", "--prompts", "5", "--votes", "100", "--db", db)
    assert done.returncode == 0, done.stderr
    stored = json.loads(tiltyard("arena", "export", "--db", db).stdout.splitlines()[0])
    done = tiltyard("compare", stored["model_a"], stored["model_b"], "--in", db, "--format", "json")
    found = json.loads(done.stdout)
    assert [way["column"] for way in found["clusters"]] == ["voter"]
    assert found["n_voters"] > 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("v2", "v1"),
            "there is no file or folder v2. To compare two models, say where they met: --in battles.jsonl",
        ),
        (("v3", "v1", "--in", "FILE"), "no battle of 'v3'. The models are v1, v2."),
        (("v2", "v1", "--in", "FILE", "--anyway"), "--anyway is about two runs"),
        (("v2", "v1", "--in", "FILE", "--out", "x.pdf"), "a comparison is written as .txt, .json, .md, .html"),
        (("v2", "v1", "--in", ""), "--in is empty"),
        (("FILE", "FILE", "--by", "language"), "--by is about two models"),
    ],
)
def test_wrong_usage_is_one_clear_line(tiltyard: Run, tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    file = write(tmp_path / "battles.jsonl", 6, 4)
    done = tiltyard("compare", *(file if part == "FILE" else part for part in arguments))
    assert done.returncode == 1
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("wins", "losses", "verdict", "code"),
    [(70, 30, "better", 0), (400, 400, "not_worse", 0), (30, 70, "worse", 3), (10, 12, "unknown", 3)],
)
def test_the_gate_answers_by_its_exit_code(
    tiltyard: Run, tmp_path: Path, wins: int, losses: int, verdict: str, code: int
) -> None:
    file = write(tmp_path / "battles.jsonl", wins, losses)
    done = tiltyard("gate", "v2", "v1", "--in", file, "--format", "json")
    assert done.returncode == code
    assert json.loads(done.stdout)["verdict"] == verdict
    if verdict == "unknown":
        assert tiltyard("gate", "v2", "v1", "--in", file, "--allow-unknown").returncode == 0


def in_two_dimensions(folder: Path) -> str:
    """82 % of the battles on style won, 36 % of those on safety."""
    path = folder / "battles.jsonl"
    rows = []
    for name, wins in (("style", 123), ("safety", 54)):
        lines = Path(write(path, wins, 150 - wins)).read_text(encoding="utf-8").splitlines()
        rows += [{**json.loads(line), "dimension": name} for line in lines]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def test_a_regression_in_one_dimension_exits_with_3(tiltyard: Run, tmp_path: Path) -> None:
    file = in_two_dimensions(tmp_path)
    done = tiltyard("gate", "v2", "v1", "--in", file, "--junit", "gate.xml")
    assert done.returncode == 3
    assert done.stdout.startswith("fail: v2 is worse than v1 in safety (−100 points, ")
    cases = ElementTree.parse(tmp_path / "gate.xml").getroot().findall("testcase")
    assert [(case.get("name"), case.find("failure") is not None) for case in cases] == [
        ("gate", True),
        ("dimension safety", True),
        ("dimension style", False),
    ]
    assert tiltyard("gate", "v2", "v1", "--in", file, "--pool-dimensions").returncode == 0
    assert tiltyard("gate", "v2", "v1", "--in", file, "--dimension", "style").returncode == 0
    both = tiltyard("gate", "v2", "v1", "--in", file, "--dimension", "style", "--pool-dimensions")
    assert "leave out --dimension" in both.stderr
    assert "2 dimensions are pooled: safety, style" in tiltyard("rate", file).stdout
    assert "2 dimensions are pooled" not in tiltyard("rate", file, "--by", "dimension").stdout


def test_the_gate_writes_a_summary_junit_and_json(tiltyard: Run, tmp_path: Path) -> None:
    file = write(tmp_path / "battles.jsonl", 30, 70)
    paths = {name: tmp_path / f"gate.{name}" for name in ("md", "xml", "json")}
    done = tiltyard(
        *("gate", "v2", "v1", "--in", file, "--markdown", str(paths["md"])),
        *("--junit", str(paths["xml"]), "--json", str(paths["json"])),
    )
    assert done.returncode == 3
    assert done.stdout.startswith("fail: v2 is worse than v1: −147 points")
    assert paths["md"].read_text(encoding="utf-8").startswith("## ❌ v2 against v1")
    assert ElementTree.parse(paths["xml"]).getroot().get("failures") == "1"
    assert json.loads(paths["json"].read_text(encoding="utf-8"))["verdict"] == "worse"


def test_a_gate_over_two_runs_needs_to_know_the_entrant(tiltyard: Run, tmp_path: Path) -> None:
    old = tmp_path / "last-week"
    shutil.copytree(RUN, old)
    done = tiltyard("gate", str(RUN), str(old))
    assert done.returncode == 1
    assert "which entrant is meant? Say it with --model: one of" in done.stderr
    done = tiltyard("gate", str(RUN), str(old), "--model", "otter", "--format", "json")
    assert done.returncode == 3  # four prompts are too few even for that
    assert json.loads(done.stdout)["comparison"]["difference"] == 0


def test_the_gates_tables_are_at_its_own_level(tiltyard: Run, tmp_path: Path) -> None:
    file = write(tmp_path / "battles.jsonl", 70, 30)
    found = json.loads(tiltyard("gate", "v2", "v1", "--in", file, "--alpha", "0.2", "--format", "json").stdout)
    assert (found["level"], found["comparison"]["level"]) == (0.8, 0.8)
    assert found["low"] == found["comparison"]["low"] == found["comparison"]["direct"]["low"]


def test_columns_under_other_names_and_logs_with_scores_are_compared_too(tiltyard: Run, tmp_path: Path) -> None:
    plain = write(tmp_path / "battles.jsonl", 12, 6, 2)
    rows = [json.loads(line) for line in Path(plain).read_text(encoding="utf-8").splitlines()]
    mine = tmp_path / "mine.jsonl"
    lines = [
        json.dumps({"one": row["model_a"], "two": row["model_b"], "won": row["winner"], "task": row["question_id"]})
        for row in rows
    ]
    mine.write_text("\n".join(lines), encoding="utf-8")
    names = [word for pair in ("model_a=one", "model_b=two", "winner=won", "prompt=task") for word in ("--map", pair)]
    names += ["--default-source", "llm-judge"]

    expected = json.loads(tiltyard("compare", "v2", "v1", "--in", plain, "--format", "json").stdout)
    done = tiltyard("compare", "v2", "v1", "--in", str(mine), *names, "--format", "json")
    assert json.loads(done.stdout) == expected
    assert tiltyard("compare", "v2", "v1", "--in", str(mine), *names, "--out", str(tmp_path / "c.html")).returncode == 0
    done = tiltyard("gate", "v2", "v1", "--in", str(mine), *names, "--format", "json")
    assert json.loads(done.stdout)["comparison"]["difference"] == expected["difference"]

    mapped = (str(mine), *names)
    planned = [tiltyard("plan", "v2", "v1", "--in", *file, "--format", "json").stdout for file in ((plain,), mapped)]
    assert planned[0] == planned[1]
    logs = [word for path in sorted(LOGS.glob("*.eval")) for word in ("--in", str(path))]
    done = tiltyard("compare", "mockllm/v2", "mockllm/v1", *logs, "--score", "match", "--format", "json")
    assert (json.loads(done.stdout)["n_prompts"], json.loads(done.stdout)["unit"]) == (3, "percentage points")
    done = tiltyard("compare", "mockllm/v2", "mockllm/v1", *logs, "--dimension", "match")
    assert "--score match names the metric" in done.stderr
    done = tiltyard("compare", "mockllm/v2", "mockllm/v1", *logs, "--tie-band", "-1")
    assert done.stderr == "tiltyard: tie_band is -1.0: expected a difference of scores that is 0 or more\n"

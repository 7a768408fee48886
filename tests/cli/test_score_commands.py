"""`compare`, `gate`, `plan` and `rate` on files of scores."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run

LOGS = Path(__file__).parents[1] / "data" / "battles" / "logs"


@pytest.fixture(autouse=True)
def files(tmp_path: Path) -> None:
    moves = {"v2": (1, 0), "v1": (0, 1)}
    for model, (up, down) in moves.items():
        scores = [up if n < 23 else down if n < 28 else int(n < 161) for n in range(200)]
        lines = ["id,correct,f1", *(f"{n},{score},{score / 2}" for n, score in enumerate(scores))]
        (tmp_path / f"{model}.csv").write_text("\n".join(lines) + "\n")


def test_two_files_are_answered_in_one_sentence(tiltyard: Run) -> None:
    done = tiltyard("compare", "v2.csv", "v1.csv")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(
        "v2 is better than v1: 78.0 % against 69.0 %, +9.0 percentage points (3.8 to 14.2), more than 99.9 % sure; "
        "200 prompts.\n"
    )


def test_several_metrics_are_several_answers(tiltyard: Run) -> None:
    done = tiltyard("compare", "v2.csv", "v1.csv", "--score", "correct", "--score", "f1", "--format", "json")
    assert [one["metric"] for one in json.loads(done.stdout)["metrics"]] == ["correct", "f1"]
    asked = tiltyard("gate", "v2.csv", "v1.csv", "--score", "correct", "--score", "f1")
    assert asked.returncode == 1
    assert "f1: by how much may the new one be worse?" in asked.stderr
    assert "One metric alone: --score f1." in asked.stderr
    gate = ("gate", "--score", "correct", "--score", "f1", "--margin", "0.001", "--format", "json")
    there, back = (json.loads(tiltyard(*gate, *files).stdout) for files in (("v2.csv", "v1.csv"), ("v1.csv", "v2.csv")))
    assert there["metrics"]["correct"]["verdict"] == "better"
    assert (back["verdict"], back["metrics"]["correct"]["verdict"]) == ("worse", "worse")
    assert tiltyard("gate", "v2.csv", "v1.csv", "--score", "correct", "--pool-dimensions").returncode == 1


def test_the_gate_exits_with_0_and_3_and_writes_junit(tiltyard: Run, tmp_path: Path) -> None:
    files, correct = ("v2.csv", "v1.csv"), ("--score", "correct", "--margin", "2pp")
    unnamed = tiltyard("gate", *files, "--margin", "2pp")
    assert (unnamed.returncode, unnamed.stdout) == (1, "")
    assert "judge correct alone, and f1 may be scores too" in unnamed.stderr
    assert "--score correct --score f1." in unnamed.stderr
    for command in ("compare", "rate", "plan"):
        assert "may be scores: f1 (--score correct --score f1)" in tiltyard(command, *files).stdout
    done = tiltyard("gate", *files, *correct, "--junit", "gate.xml")
    assert (done.returncode, done.stdout.split(":")[0]) == (0, "pass")
    assert 'failures="0"' in (tmp_path / "gate.xml").read_text()
    assert tiltyard("gate", *files[::-1], *correct).returncode == 3
    assert tiltyard("gate", "v1.csv", "v2.csv", "--score", "f1", "--margin", "0.2").returncode == 0
    wrong = tiltyard("gate", *files, "--score", "correct", "--margin", "two")
    assert (wrong.returncode, "expected a number" in wrong.stderr) == (1, True)


def test_a_plan_and_a_board(tiltyard: Run, tmp_path: Path) -> None:
    assert tiltyard("plan", "v2.csv", "v1.csv", "--difference", "2pp").stdout.startswith(
        "to see +2.0 percentage points"
    )
    board = tiltyard("rate", "v1.csv", "v2.csv")
    assert [line.split()[0] for line in board.stdout.splitlines()[2:4]] == ["v2", "v1"]
    ratings = tiltyard("rate", "v1.csv", "v2.csv", "--as-battles")
    assert "Bradley–Terry · 200 battles" in ratings.stdout
    banded = tiltyard("rate", "v1.csv", "v2.csv", "--as-battles", "--tie-band", "1")
    assert "every battle is a tie" in banded.stderr
    refused = tiltyard("rate", "v1.csv", "v2.csv", "--ties", "half")
    assert "make battles of them with --as-battles" in refused.stderr
    (tmp_path / "b.jsonl").write_text('{"model_a":"a","model_b":"b","winner":"model_a","source":"human"}\n')
    assert "these are battles already" in tiltyard("rate", "b.jsonl", "--as-battles").stderr


def test_a_board_counts_by_document_and_says_what_is_missing(tiltyard: Run, tmp_path: Path) -> None:
    lines = [f"{n},{'' if n == 7 else n % 2},d{n // 20}" for n in range(100)]
    (tmp_path / "v3.csv").write_text("\n".join(["id,correct,document", *lines]) + "\n")
    (tmp_path / "v4.csv").write_text("\n".join(["id,correct,document", *(line.replace(",,", ",1,") for line in lines)]))
    plain = tiltyard("rate", "v3.csv", "v4.csv").stdout
    assert "missing" in plain.splitlines()[0]
    assert "1.0 %" in plain
    assert "100 prompts share 5 values of document: if those of one value depend on each other, --cluster doc" in plain
    assert "intervals by document" in tiltyard("rate", "v3.csv", "v4.csv", "--cluster", "document").stdout
    ignored = tiltyard("rate", "v3.csv", "v4.csv", "--missing", "ignore").stdout
    assert "missing by chance" in ignored
    assert "--cluster document" in tiltyard("compare", "v3.csv", "v4.csv").stdout


def test_a_gate_asks_for_the_direction_of_seconds(tiltyard: Run, tmp_path: Path) -> None:
    for name, more in (("v3", 0.5), ("v4", 0.9)):
        lines = [f"{n},{n % 7 + more + n % 3 / 10}" for n in range(60)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["id,latency_s", *lines]) + "\n")
    asked = tiltyard("gate", "v3.csv", "v4.csv", "--margin", "0.1")
    assert asked.returncode == 1
    assert "as in --score latency_s:lower." in asked.stderr
    assert tiltyard("gate", "v3.csv", "v4.csv", "--margin", "0.1", "--score", "latency_s:lower").returncode == 0
    assert tiltyard("gate", "v3.csv", "v4.csv", "--margin", "0.1", "--score", "latency_s:higher").returncode == 3
    for command in (["compare", "v3.csv", "v4.csv"], ["rate", "v3.csv", "v4.csv"], ["plan", "v3.csv", "v4.csv"]):
        assert "lower is better, as the name latency_s suggests (--score latency_s:lower" in tiltyard(*command).stdout


@pytest.mark.parametrize(
    "option",
    [
        *("--both-bad half", "--inconsistent drop", "--source human", "--default-source human", "--ties half"),
        *("--dimension x", "--tie-band 0.1"),
    ],
)
def test_no_option_of_battles_is_accepted_on_scores(tiltyard: Run, option: str) -> None:
    name = option.split()[0]
    for command in ("compare", "gate", "plan", "rate"):
        done = tiltyard(command, "v2.csv", "v1.csv", *option.split())
        assert done.returncode in (1, 2), command
        assert not done.stdout
        assert name == "--tie-band" or name in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        *("plan v2.csv v1.csv --judge x", "plan v2.csv v1.csv --prompts 5", "plan v2.csv v1.csv --people"),
        *("gate v2.csv v1.csv --model x", "gate v2.csv v1.csv --anyway", "rate v2.csv v1.csv --rounds 5"),
        *("rate b.jsonl --bounds 0,1 --engine spark", "rate b.jsonl --missing ignore"),
        *("rate v2.csv v1.csv --as-battles --default-source human", "rate v2.csv v1.csv --as-battles --missing ignore"),
    ],
)
def test_what_says_nothing_here_is_an_error(tiltyard: Run, tmp_path: Path, words: str) -> None:
    (tmp_path / "b.jsonl").write_text('{"model_a":"a","model_b":"b","winner":"model_a","source":"human"}\n')
    done = tiltyard(*words.split())
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1


def test_the_page_is_one_file(tiltyard: Run, tmp_path: Path) -> None:
    assert tiltyard("compare", "v2.csv", "v1.csv", "--out", "answer.html").returncode == 0
    page = (tmp_path / "answer.html").read_text(encoding="utf-8")
    assert "78.0 % against 69.0 %" in page
    assert "<script" not in page


def test_two_logs_of_inspect_are_answered_in_percentage_points(tiltyard: Run) -> None:
    files = [str(LOGS / "birds_v2.eval"), str(LOGS / "birds_v1.eval")]
    done = tiltyard("compare", *files, "--score", "match")
    assert "mockllm/v2" in done.stdout
    assert "percentage points" in done.stdout


@pytest.mark.parametrize(
    ("new", "said"),
    [
        ("id,score\n1,NaN\n2,0\n", "2 of 3 prompts lack a score and are left out"),
        ("id,score\n1,1\n2,high\n", "new.csv:3: not a score: score is 'high'"),
        ("id,score\n1,1e308\n2,-1e308\n", "new.csv:2: not a score: score is '1e308'"),
        ("id,ok\n1,TRUE\n2,no\n", "name it with --score; its columns are id, ok"),
        ("id,score\n", "new.csv has no row with a score"),
        ("", "new.csv is empty"),
        ("score\n1\n0\n", "new does not name its prompts"),
        ("id,score\n1,\n2,\n", "new has no score, and old has 3, such as '1'"),
        ("id,score\n9,1\n", "new has 1, such as '9', and old has 3"),
        ("id,score\n1,1\n2\n3,0,5\n", "new.csv cannot be read: CSV Error on Line"),
        ("\ufeffid,score\n1,1\n2,0\n3,0\n", "; 3 prompts."),
        ("id,score\n1,1\n", "(no interval); 1 prompt;"),
        ("id,score\n1,1\n1,0\n2,1\n3,0\n", "3 prompts, 1 to 2 answers to each"),
    ],
)
def test_odd_files_get_one_clear_line(tiltyard: Run, tmp_path: Path, new: str, said: str) -> None:
    (tmp_path / "new.csv").write_text(new, encoding="utf-8")
    (tmp_path / "old.csv").write_text("id,score\n1,1\n2,0\n3,1\n")
    done = tiltyard("compare", "new.csv", "old.csv")
    assert said in (done.stdout.splitlines() or [done.stderr])[0]
    assert "Warning" not in done.stderr
    if done.returncode:
        assert (done.returncode, done.stderr.count("\n")) == (1, 1)

"""`tiltyard run`, `generate`, `report` and `judge` as typed: exit codes, one line for a known error, help."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.judge.tournament.folder import change, make_folder, script
from tiltyard.verbs.asking import to_end

RUN = ("run", "tournament.yaml", "--mode", "headline", "--output-dir", "run", "--yes")


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A tournament that a script judges."""
    script(tmp_path / "judge.yaml")
    return make_folder(tmp_path, judge="scripted/judge.yaml")


def only_line(stderr: str) -> str:
    (line,) = [line for line in stderr.splitlines() if line.startswith("tiltyard: ")]
    assert "Traceback" not in stderr
    return line


def test_results_go_to_stdout_and_all_else_to_stderr(tmp_path: Path, tiltyard: Run, config: Path) -> None:
    done = tiltyard(*RUN)
    assert done.returncode == 0, done.stderr
    *boards, table = (part.splitlines() for part in done.stdout.split("\n\n"))
    assert table[0].startswith("Elo averaged over shuffles: mean ± shuffle error only")
    assert [line.split()[0] for line in table if " ± " in line][1:] == ["otter", "heron", "crane"]
    assert table[-1].split() == ["decisive", "matches", "9", "12"]
    # Before it stands a Bradley–Terry board per dimension, and what the judge's habits mean for it.
    heads, tables = boards[::2], boards[1::2]
    assert [head[0] for head in heads] == ["factuality", "calibration"]
    for head, rows in zip(heads, tables, strict=True):
        assert head[1].startswith("Bradley–Terry · ")
        assert [line.split()[1] for line in rows[2:5]] == ["otter", "heron", "crane"]
        assert any(line.startswith("judge: changed its verdict with the order of the answers in 0 of") for line in rows)
    assert "run folder: run; report: run/report.html" in done.stderr
    page = (tmp_path / "run" / "report.html").read_bytes()
    (tmp_path / "run" / "report.html").unlink()
    done = tiltyard("report", "run")
    assert (done.returncode, done.stdout) == (0, "run/report.html\n")
    assert (tmp_path / "run" / "report.html").read_bytes() == page


@pytest.mark.parametrize(
    "wrong",
    [
        ("run", "tournament.yaml"),
        ("run", "--mode", "pilot"),
        ("run", "tournament.yaml", "--config", "tournament.yaml", "--mode", "pilot"),
        ("generate",),
        ("judge", "rejudge", "run"),
        ("judge", "check"),
        ("report",),
    ],
)
def test_wrong_usage_is_exit_2_and_says_what_is_missing(tiltyard: Run, config: Path, wrong: tuple[str, ...]) -> None:
    done = tiltyard(*wrong)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Usage: " in done.stderr
    assert "Traceback" not in done.stderr


def test_a_known_error_is_one_line_and_exit_1(tmp_path: Path, tiltyard: Run, config: Path) -> None:
    done = tiltyard("run", "absent.yaml", "--mode", "pilot")
    assert done.returncode == 1
    assert "there is no tournament file absent.yaml" in only_line(done.stderr)
    done = tiltyard("run", "tournament.yaml", "--mode", "pilot", "--yes")
    assert done.returncode == 1
    assert "a pilot of 50 prompts cannot be drawn from a bank of 4" in only_line(done.stderr)
    for name in ("heron", "crane"):
        (tmp_path / "responses" / f"responses_{name}.jsonl").unlink()
    done = tiltyard(*RUN)
    assert done.returncode == 1
    line = only_line(done.stderr)
    assert "no answers of heron" in line
    assert "tiltyard generate tournament.yaml" in line


def test_a_folder_that_cannot_be_written_is_one_line_that_says_how_to_go_on(
    tmp_path: Path, tiltyard: Run, config: Path
) -> None:
    (tmp_path / "run").write_text("a file where the folder should be", encoding="utf-8")
    done = tiltyard(*RUN)
    assert done.returncode == 1
    line = only_line(done.stderr)
    assert "cannot write run: File exists" in line
    assert "another --output-dir; nothing is lost: tiltyard run tournament.yaml --mode headline" in line


def test_a_model_that_nobody_makes_is_one_line(tiltyard: Run, config: Path) -> None:
    done = tiltyard(*RUN, "--judge-model", "hal-9000")
    assert done.returncode == 1
    assert "Cannot tell who makes the model 'hal-9000'" in only_line(done.stderr)


def test_a_pilot_takes_the_strata_of_the_config_or_says_which_is_too_small(
    tmp_path: Path, tiltyard: Run, config: Path
) -> None:
    change(config, prompts__pilot_strata={"quiz": 2, "advice": 1})
    done = tiltyard("run", "tournament.yaml", "--mode", "pilot", "--output-dir", "pilot", "--yes")
    assert done.returncode == 3, done.stderr  # three prompts cannot give ten decisive matches
    assert "FAIL factuality: enough decisive matches" in done.stdout
    manifest = json.loads((tmp_path / "pilot" / "manifest.json").read_text(encoding="utf-8"))
    assert (manifest["selected_prompt_count"], "p3" in manifest["selected_prompts"]) == (3, True)
    change(config, prompts__pilot_strata={"quiz": 2, "advice": 2})
    done = tiltyard("run", "tournament.yaml", "--mode", "pilot", "--yes")
    assert done.returncode == 1
    assert "the pilot wants 2 prompts of source 'advice', the bank has 1" in only_line(done.stderr)


def test_a_misspelt_setting_is_mentioned_and_the_run_goes_on(tiltyard: Run, config: Path) -> None:
    change(config, judge__max_token=5)
    done = tiltyard(*RUN)
    assert done.returncode == 0, done.stderr
    assert "judge.max_token means nothing here and is ignored; did you mean judge.max_tokens?" in done.stderr


def test_the_help_of_every_command_names_its_options(tiltyard: Run) -> None:
    told = tiltyard("run", "--help-all").stdout
    for option in (
        "--config", "--mode", "--output-dir", "--judge-model", "--n-perms", "--limit-pairs", "--skip-judging", "--yes",
        "--budget", "--max-batch",
    ):  # fmt: skip
        assert option in told
    assert "--entrant" in tiltyard("generate", "--help").stdout


def test_what_a_run_comes_to_is_handed_over_and_never_written_out() -> None:
    class Large:
        def __repr__(self) -> str:
            raise AssertionError

    result = Large()

    async def work() -> Large:
        return result

    assert to_end(work()) is result

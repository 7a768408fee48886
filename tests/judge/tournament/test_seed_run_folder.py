"""A run folder of the first specification's own program is read by `rate`, `report`, `compare` and `rejudge`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import tiltyard as ty
from tests import within
from tests.cli.conftest import Run
from tests.judge.tournament.folder import RUBRICS, lines, make_folder, read_lines, script, shown_as
from tests.judge.tournament.seed_run import MANIFEST, PAIR, as_the_seed_writes_it, read, write

JUDGE = "scripted/judge.yaml"
REJUDGE = ("judge", "rejudge", "seed", "--judge-model", JUDGE, "--yes")


def otter_against_heron(prompt_id: str, otter_first: str, heron_first: str) -> list[dict[str, Any]]:
    shown = [(shown_as("otter", a, prompt_id), shown_as("heron", b, prompt_id)) for a, b in ("AB", "BA")]
    return [
        {"when": ["dimension: calibration", *texts], "say": said}
        for texts, said in zip(shown, (otter_first, heron_first), strict=True)
    ]


@pytest.fixture(scope="module")
def once_written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of ours, and as the seed's program writes it: one unread, one a tie, one inconsistent, one for B."""
    folder = tmp_path_factory.mktemp("seed")
    said = {"p1": ("Who knows?",) * 2, "p2": ("VERDICT: TIE",) * 2, "p3": ("VERDICT: A",) * 2}
    said["p4"] = ("VERDICT: B", "VERDICT: A")
    script(folder / "judge.yaml", *(rule for name, words in said.items() for rule in otter_against_heron(name, *words)))
    (folder / "clinical_utility.md").write_text("# version: u1\nPrefer what a clinician can use.\n", encoding="utf-8")
    names = (*RUBRICS, "clinical_utility")
    make_folder(folder, judge=JUDGE, rubrics={name: {"path": f"{name}.md"} for name in names})
    done = within.run(folder, "run", "tournament.yaml", "--mode", "headline", "--output-dir", "ours", "--yes")
    assert done.returncode == 0, done.stderr
    as_the_seed_writes_it(folder / "ours", folder / "seed")
    return folder


@pytest.fixture
def seed(tmp_path: Path, once_written: Path) -> Path:
    shutil.copytree(once_written, tmp_path, dirs_exist_ok=True)
    return tmp_path / "seed"


def test_the_folder_holds_the_seeds_files_and_fields_and_nothing_else(seed: Path) -> None:
    files = {path.relative_to(seed).as_posix() for path in seed.rglob("*") if path.is_file()}
    verdicts = {f"verdicts/{name}.jsonl" for name in ("factuality", "calibration", "clinical_utility")}
    others = {"manifest.json", "matches/matches.jsonl", "elo_results.json", "elo_per_perm.npz", "pairwise_winrates.csv"}
    assert files == verdicts | others
    assert tuple(read(seed / "manifest.json")) == MANIFEST
    assert all(tuple(row) == ("dimension", *PAIR) for row in read_lines(seed / "matches" / "matches.jsonl"))


def test_its_boards_are_those_of_our_own_folder_of_the_same_judgments(seed: Path) -> None:
    for dimension in ("factuality", "calibration", "clinical_utility", None):
        theirs, ours = ty.rate(seed, dimension=dimension), ty.rate(seed.parent / "ours", dimension=dimension)
        assert theirs.to_dict()["ratings"] == ours.to_dict()["ratings"]
    # 12 matchups of calibration: one was not read and has no line, a tie and an inconsistent one are ties.
    board = ty.rate(seed, dimension="calibration")
    assert "1 of 12 matchups has no verdict (otter 1, heron 1" in str(board)
    assert [(one.wins, one.losses, one.ties) for one in board.entries if one.model == "otter"] == [(4, 1, 2)]
    assert ty.rate(seed, dimension="calibration", inconsistent="drop").n_battles == 10


def test_one_of_its_files_of_verdicts_is_read_alone(tmp_path: Path, seed: Path, tiltyard: Run) -> None:
    done = tiltyard("rate", "seed/verdicts/factuality.jsonl", "--format", "json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["judge_model"] == JUDGE
    shutil.copy(seed / "verdicts" / "factuality.jsonl", tmp_path / "alone.jsonl")
    assert ty.rate(tmp_path / "alone.jsonl").n_battles == 9


def test_battles_in_a_folder_called_verdicts_are_battles_like_any(tmp_path: Path, seed: Path) -> None:
    (tmp_path / "verdicts").mkdir()
    shutil.copy(seed.parent / "ours" / "battles.jsonl", tmp_path / "verdicts" / "mine.jsonl")
    assert ty.rate(tmp_path / "verdicts" / "mine.jsonl").n_battles == ty.rate(seed).n_battles


def test_an_empty_file_of_verdicts_is_a_dimension_of_which_nothing_was_read(seed: Path) -> None:
    (seed / "verdicts" / "factuality.jsonl").write_bytes(b"")
    board = ty.rate(seed)
    assert board.n_battles == 11 + 12
    assert "10 of 33 matchups have no verdict" in str(board)


def test_its_report_has_boards_texts_and_the_judges_words(tiltyard: Run, seed: Path) -> None:
    done = tiltyard("report", "seed")
    assert done.returncode == 0, done.stderr
    page = (seed / "report.html").read_text(encoding="utf-8")
    assert "Who wrote Hamlet?" in page
    assert "otter says more than crane." in page
    assert "1 of 12 matchups has no verdict" in page
    assert "There is no board" not in page


def test_a_dimension_without_a_match_has_no_file_of_verdicts_and_is_reported_so(tiltyard: Run, seed: Path) -> None:
    (seed / "verdicts" / "factuality.jsonl").unlink()
    elo = read(seed / "elo_results.json")
    elo["primary"]["factuality"] = elo["k_sensitivity"]["factuality"] = {}
    elo["n_decisive_matches"]["factuality"] = 0
    write(seed / "elo_results.json", elo)
    done = tiltyard("report", "seed")  # its matches are listed: the file is missing
    assert done.returncode == 1
    assert "seed has no verdicts/factuality.jsonl" in done.stderr
    matches = [row for row in read_lines(seed / "matches" / "matches.jsonl") if row["dimension"] != "factuality"]
    lines(seed / "matches" / "matches.jsonl", matches)
    done = tiltyard("report", "seed")
    assert done.returncode == 0, done.stderr


def test_two_of_its_entrants_and_two_of_its_runs_are_compared(tiltyard: Run, seed: Path) -> None:
    done = tiltyard("compare", "otter", "heron", "--in", "seed")
    assert done.returncode == 0, done.stderr
    assert "otter against heron: 7 won, 1 lost, 2 tied" in done.stdout
    assert "Who wrote Hamlet?" in done.stdout
    done = tiltyard("compare", "seed", "ours")
    assert done.returncode == 0, done.stderr
    assert "the two runs hold the same battles" in done.stdout


def test_it_is_judged_again_by_the_same_rubrics(tiltyard: Run, seed: Path) -> None:
    done = tiltyard(*REJUDGE)
    assert done.returncode == 0, done.stderr
    assert "factuality: 9 of 9 judgments the same" in done.stdout
    assert "calibration: 11 of 11 judgments the same" in done.stdout
    (seed.parent / "factuality.md").write_text("# version: f2\nPrefer the answer that is right.\n", encoding="utf-8")
    done = tiltyard(*REJUDGE)
    assert done.returncode == 1
    assert done.stderr == (
        "tiltyard: factuality.md has changed since the run seed: two judges must judge by the same rubric.\n"
    )


def test_judging_again_says_that_the_config_is_not_where_the_manifest_has_it(tiltyard: Run, seed: Path) -> None:
    write(seed / "manifest.json", {**read(seed / "manifest.json"), "config_path": "elsewhere/tournament1.yaml"})
    done = tiltyard(*REJUDGE)
    assert done.returncode == 1
    assert done.stderr.startswith("tiltyard: there is no tournament file elsewhere/tournament1.yaml.")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("command", "missing"),
    [
        (("rate", "seed"), "seed has matches but no verdict"),
        (("compare", "otter", "heron", "--in", "seed"), "seed has matches but no verdict"),
        (("compare", "seed", "ours"), "seed has matches but no verdict"),
        (("report", "seed"), "seed has no verdicts/"),
        (REJUDGE, "seed has no verdicts/"),
    ],
)
def test_of_a_run_without_judging_each_command_says_that_verdicts_are_missing(
    tiltyard: Run, seed: Path, command: tuple[str, ...], missing: str
) -> None:
    shutil.rmtree(seed / "verdicts")
    (seed / "verdicts").mkdir()
    done = tiltyard(*command)
    assert done.returncode == 1
    assert missing in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_winner_who_did_not_take_part_is_named_with_its_line(tiltyard: Run, seed: Path) -> None:
    rows = read_lines(seed / "verdicts" / "factuality.jsonl")
    rows[1]["winner"] = "stranger"
    lines(seed / "verdicts" / "factuality.jsonl", rows)
    done = tiltyard("rate", "seed")
    assert done.returncode == 1
    assert "seed/verdicts/factuality.jsonl:2" in done.stderr
    assert "'stranger'" in done.stderr
    del rows[1]["raw"]
    lines(seed / "verdicts" / "factuality.jsonl", rows)
    done = tiltyard("rate", "seed")
    assert done.returncode == 1
    assert "seed/verdicts/factuality.jsonl:2: not a judgment of a tournament" in done.stderr


def test_our_own_verdicts_are_not_taken_for_battles_because_failed_ones_are_among_them(
    tiltyard: Run, seed: Path
) -> None:
    ours = seed.parent / "ours"
    (ours / "battles.jsonl").unlink()
    for place in ("ours", "ours/verdicts/factuality.jsonl"):
        done = tiltyard("rate", place)
        assert done.returncode == 1
        assert "this run writes its battles to battles.jsonl" in done.stderr

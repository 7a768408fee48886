"""Matchups without a verdict: a gate counts them against its claim, and everything made of a run says how many."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lost_verdicts import run_folder, tournament
from tests.cli.conftest import Run
from tests.sizes import size

import tiltyard as ty
from tiltyard.analysis.boards import BradleyTerry, rate_by
from tiltyard.data.battles.missing_verdicts import missing_verdicts
from tiltyard.errors import OptionError

HALF_OF_ITS_LOSSES = ["won"] * 100 + ["lost"] * 50 + ["lost unread"] * 50
COUNTS = "50 of 200 matchups have no verdict (v2 50, v1 50: unparsed 50)"


def judged(tiltyard: Run, root: Path, results: list[str], name: str) -> Path:
    config = tournament(root, results)
    folder = root / name
    done = tiltyard("run", str(config), "--mode", "headline", "--output-dir", str(folder), "--yes")
    assert done.returncode == 0, done.stderr
    return folder


def test_a_gate_does_not_pass_on_losses_that_nobody_could_read(tiltyard: Run, tmp_path: Path) -> None:
    """Equal models: 100 won, 100 lost, and half of the losses unreadable; of those read it won two thirds."""
    run = judged(tiltyard, tmp_path, HALF_OF_ITS_LOSSES, "run")
    done = tiltyard("gate", "v2", "v1", "--in", str(run))
    assert done.returncode == 3
    assert done.stdout.startswith(f"cannot tell: {COUNTS}, and counted against v2 they turn +120 into 0 points (")
    assert "ask them again with `tiltyard run … --retry-failed`, or pass --missing ignore" in done.stdout
    ignored = tiltyard("gate", "v2", "v1", "--in", str(run), "--missing", "ignore")
    assert ignored.returncode == 0
    assert ignored.stdout.startswith("pass: v2 is better than v1: +120 points (")
    assert f"{COUNTS}, ignored." in ignored.stdout
    found = json.loads(tiltyard("gate", "v2", "v1", "--in", str(run), "--format", "json").stdout)
    assert found["verdict"] == "unknown"
    missing = found["missing"]
    assert missing["matchups"] == 200
    assert missing["without_verdict"] == 50
    assert missing["by_entrant"] == {"v2": 50, "v1": 50}
    assert missing["by_reason"] == {"unparsed": 50}
    assert missing["rule"] == "worst"
    assert missing["verdict_if_ignored"] == "better"
    assert missing["worst_case"]["against"]["difference"] == pytest.approx(0.0, abs=1e-6)
    assert missing["worst_case"]["in_favour"]["difference"] == pytest.approx(400 * np.log10(150 / 50))
    for place in (run, run / "battles.jsonl", tmp_path / "ru*"):  # however the run is named
        assert tiltyard("gate", "v2", "v1", "--in", str(place)).returncode == 3


def test_everything_made_of_a_run_says_how_many_matchups_have_no_verdict(tiltyard: Run, tmp_path: Path) -> None:
    run = judged(tiltyard, tmp_path, HALF_OF_ITS_LOSSES, "run")
    for command in (
        ("rate", str(run)),
        ("rate", str(run), "--by", "dimension"),
        ("compare", "v2", "v1", "--in", str(run)),
        ("plan", "v2", "v1", "--in", str(run)),
        ("plan", "--top", "1", "--in", str(run)),
    ):
        assert COUNTS in tiltyard(*command).stdout, command
    compared = tiltyard("compare", "v2", "v1", "--in", str(run)).stdout
    assert "150 battles on 150 prompts; 50 of 200 matchups have no verdict and are ignored." in compared.splitlines()[0]
    board = json.loads(tiltyard("rate", str(run), "--format", "json").stdout)
    assert board["missing"]["without_verdict"] == 50
    assert COUNTS in (run / "report.html").read_text(encoding="utf-8")
    done = tiltyard("compare", "v2", "v1", "--in", str(run), "--out", "page.html")
    assert done.returncode == 0, done.stderr
    assert COUNTS in (tmp_path / "page.html").read_text(encoding="utf-8")
    done = tiltyard("publish", str(run), "site")
    assert done.returncode == 0, done.stderr
    assert COUNTS in (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    assert tiltyard("verify", "site").returncode == 0


def test_the_same_battles_and_ratings_as_without_the_lost_verdicts(tmp_path: Path) -> None:
    rows = [(f"p{i}", "v2", "v1", "v2" if i % 3 else "v1") for i in range(60)]
    lost = [(f"x{i}", "v2", "v1", None) for i in range(9)]
    all_read, some_lost = run_folder(tmp_path / "a", rows), run_folder(tmp_path / "b", rows + lost)
    one, two = ty.rate(all_read), ty.rate(some_lost)
    assert [entry.to_dict() for entry in one] == [entry.to_dict() for entry in two]
    assert ty.compare("v2", "v1", battles=all_read).contrast == ty.compare("v2", "v1", battles=some_lost).contrast


def test_a_claim_that_holds_in_the_worst_case_passes(tmp_path: Path) -> None:
    rows: list[Any] = [(f"p{i}", "v2", "v1", "v1" if i % 5 == 0 else "v2") for i in range(200)]
    run = run_folder(tmp_path / "run", rows + [(f"x{i}", "v1", "v2", None) for i in range(6)])
    result = ty.compare("v2", "v1", battles=run).gate()
    assert result.verdict == "better"
    assert "6 of 206 matchups have no verdict (v2 6, v1 6: unparsed 6): +" in result.sentence
    assert "with all of them counted against it" in result.sentence
    backwards = ty.compare("v1", "v2", battles=run).gate()
    assert backwards.verdict == "worse"
    assert "with all of them counted for it" in backwards.sentence


def test_worse_is_said_only_if_it_holds_with_all_of_them_won(tmp_path: Path) -> None:
    rows: list[Any] = [(f"p{i}", "v2", "v1", "v2" if i % 3 == 0 else "v1") for i in range(150)]
    run = run_folder(tmp_path / "run", rows + [(f"x{i}", "v2", "v1", None) for i in range(50)])
    result = ty.compare("v2", "v1", battles=run).gate(margin=0)
    assert result.verdict == "unknown"
    assert result.if_ignored == "worse"
    assert "and counted for v2 they turn −120 into 0 points" in result.sentence


def test_missing_matchups_against_others_count_too(tmp_path: Path) -> None:
    """Lost to base only: against v2 it loses them, and v1 wins its own."""
    rows: list[Any] = []
    for i in range(90):
        rows += [
            (f"p{i}", "v2", "v1", "v2" if i % 2 else "v1"),
            (f"p{i}", "v2", "base", "v2" if i % 3 else None),
            (f"p{i}", "base", "v1", "base" if i % 3 else "v1"),
        ]
    found = ty.compare("v2", "v1", battles=run_folder(tmp_path / "run", rows))
    assert found.missing is not None
    assert found.missing.by_name == {"v2": 30, "v1": 0}
    against, in_favour = found.missing.worst()
    assert against.points < found.difference < in_favour.points
    decided = [(p, a, b, winner or "base") for p, a, b, winner in rows]
    by_hand = ty.compare("v2", "v1", battles=run_folder(tmp_path / "lost", decided))
    assert against.points == pytest.approx(by_hand.difference)
    assert against.variance == pytest.approx(by_hand.contrast.variance)  # on their own prompts


def test_only_chosen_dimensions_count_and_each_part_obeys_the_rule(tmp_path: Path) -> None:
    clear = [(f"p{i}", "v2", "v1", "v1" if i % 5 == 0 else "v2") for i in range(120)]
    half = [(f"p{i}", "v2", "v1", ("v2", "v2", "v1", None)[i % 4]) for i in range(120)]
    gone = [(f"p{i}", "v2", "v1", None) for i in range(3)]
    run = run_folder(tmp_path / "run", clear, dimension="clear")
    run_folder(run, half, dimension="half")
    assert ty.compare("v2", "v1", battles=run, dimension="clear").missing is None
    found = ty.compare("v2", "v1", battles=run)
    verdicts = {part.value: part for part in found.gate(by="dimension", alpha=0.2).parts}
    assert (verdicts["clear"].verdict, verdicts["clear"].missing) == ("better", 0)
    assert (verdicts["half"].verdict, verdicts["half"].missing) == ("unknown", 30)
    run_folder(run, gone, dimension="gone")
    result = ty.compare("v2", "v1", battles=run).gate(by="dimension")
    parts = {part.value: part for part in result.parts}
    assert (parts["gone"].verdict, parts["gone"].missing) == ("unknown", 3)
    assert not result.passed


def test_a_part_that_is_worse_unless_the_missing_are_won_lets_nothing_pass(tmp_path: Path) -> None:
    clear = [(f"p{i}", "v2", "v1", "v1" if i % 5 == 0 else "v2") for i in range(300)]
    worse = [(f"p{i}", "v2", "v1", ("v1", "v1", "v2", None)[i % 4]) for i in range(100)]
    run = run_folder(tmp_path / "run", clear, dimension="clear")
    found = ty.compare("v2", "v1", battles=run_folder(run, worse, dimension="dim"))
    assert found.gate(pool_dimensions=True).verdict == "better"
    result = found.gate(alpha=0.1)
    assert result.verdict == found.gate(by="dimension", alpha=0.1).verdict == "unknown"
    assert "v2 may be worse than v1 in dim, where matchups have no verdict; ask them" in result.sentence
    assert "25 of 400 matchups have no verdict" in result.sentence
    assert found.gate(by="dimension", alpha=0.1, missing="ignore").verdict == "worse"


@pytest.mark.parametrize("read", [0, 1])
def test_a_part_of_which_nearly_nothing_was_read_lets_nothing_pass(tiltyard: Run, tmp_path: Path, read: int) -> None:
    """Much better in code; all of writing is unreadable, or all but one battle, which it won."""
    code = [(f"p{i}", "v2", "v1", "v1" if i % 5 == 0 else "v2") for i in range(200)]
    words = [(f"w{i}", "v2", "v1", "v2" if i < read else None) for i in range(25)]
    run = run_folder(tmp_path / "run", [*code, *words])
    for path, column in ((run / "battles.jsonl", "question_id"), (run / "matches" / "matches.jsonl", "prompt_id")):
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        for row in rows:
            kind = {
                "category": "writing" if row[column].startswith("w") else ("code", "math")[int(row[column][1:]) % 2]
            }
            row |= kind if column == "question_id" else {"prompt_columns": kind}
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert tiltyard("gate", "v2", "v1", "--in", str(run)).returncode == 0
    done = tiltyard("gate", "v2", "v1", "--in", str(run), "--by", "category")
    assert done.returncode == 3
    assert "cannot tell: v2 may be worse than v1 in writing, where matchups have no verdict" in done.stdout
    ignored = tiltyard("gate", "v2", "v1", "--in", str(run), "--by", "category", "--missing", "ignore")
    assert ignored.returncode == 0


def test_boards_by_dimension_name_what_is_missing_of_a_dimension_without_a_board(tmp_path: Path) -> None:
    rows = [(f"p{i}", "v2", "v1", "v1" if i % 3 == 0 else "v2") for i in range(12)]
    run = run_folder(tmp_path / "run", rows, dimension="clear")
    run_folder(run, [(f"p{i}", "v2", "v1", None) for i in range(5)], dimension="safety")
    (board,) = rate_by(run, "dimension", BradleyTerry()).values()
    assert "of the whole run, 5 of 17 matchups have no verdict" in str(board)


def test_each_judge_of_a_panel_that_makes_a_battle_counts(tmp_path: Path) -> None:
    both = [(f"p{i}", "v2", "v1", winner) for i in range(4) for winner in ("v2", None)]
    assert missing_verdicts(run_folder(tmp_path / "run", both)).counted == "4 of 8 matchups have no verdict"


def test_a_category_that_is_not_known_of_a_missing_matchup_counts_in_each(tmp_path: Path) -> None:
    """On prompts with other battles the category is theirs; on a prompt without any it may be either."""
    run = run_folder(tmp_path / "run", [("q0", "v2", "v1", None), ("new", "v2", "v1", None)])
    rows = []
    for i in range(80):
        row = {"model_a": "v2", "model_b": "base", "winner": ("model_a", "tie")[i % 2], "source": "llm-judge"}
        rows.append({**row, "question_id": f"q{i}", "category": "ab"[i % 2]})
        rows.append({**row, "model_a": "base", "model_b": "v1", "question_id": f"q{i}", "category": "ab"[i % 2]})
    (run / "battles.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    parts = ty.compare("v2", "v1", battles=run, by=["category"]).gate(by="category").parts
    assert {part.value: part.missing for part in parts} == {"a": 2, "b": 1}


def test_what_was_never_asked_is_missing_and_what_rounds_did_not_choose_is_not(tmp_path: Path) -> None:
    run = run_folder(tmp_path / "run", [(f"p{i}", "v2", "v1", "v2") for i in range(4)])
    assert not missing_verdicts(run)  # matches.jsonl of adaptive rounds lists the chosen ones alone
    match = {"prompt_id": "p9", "dimension": "quality", "entrant_a": "v2", "entrant_b": "v1"}
    with (run / "matches" / "matches.jsonl").open("a") as file:
        file.write(json.dumps(match) + "\n")
    assert missing_verdicts(run).sentence == "1 of 5 matchups has no verdict (v2 1, v1 1: never asked 1)"


def test_prompts_that_the_new_one_did_not_answer_are_missing(tiltyard: Run, tmp_path: Path) -> None:
    """Equal models: 30 won and 30 lost, and v2 has no answer to 20 of those that it would have lost."""
    config = tournament(tmp_path, ["won"] * 30 + ["lost"] * 30)
    answers = tmp_path / "responses" / "responses_v2.jsonl"
    answers.write_text("\n".join(answers.read_text().splitlines()[:40]) + "\n")
    run = tmp_path / "run"
    done = tiltyard("run", str(config), "--mode", "headline", "--output-dir", str(run), "--yes")
    assert done.returncode == 0, done.stderr
    assert missing_verdicts(run).sentence == "20 of 60 matchups have no verdict (v2 20, v1 20: no answer 20)"
    gate = tiltyard("gate", "v2", "v1", "--in", str(run))
    assert gate.returncode == 3, gate.stdout
    assert "and counted against v2 they turn +191 into 0 points" in gate.stdout  # 30 : 10, and 30 : 30
    assert "answer what has no answer and run again" in gate.stdout
    assert tiltyard("gate", "v2", "v1", "--in", str(run), "--missing", "ignore").returncode == 0


def two_runs(tmp_path: Path) -> tuple[Path, Path]:
    """x against base on 200 prompts, as good in both runs; half of the losses of the new run are unreadable."""
    rng = np.random.default_rng(3)
    shared = [(f"p{i}", "base", "mid", "base" if i % 2 else "mid") for i in range(200)]
    old = [(f"p{i}", "x", "base", "x" if wins else "base") for i, wins in enumerate(rng.permutation(200) < 100)]
    new = [(f"p{i}", "x", "base", ("x", "x", "base", None)[place % 4]) for i, place in enumerate(rng.permutation(200))]
    sha256 = [{"responses": {"x": name, "base": "b", "mid": "m"}} for name in ("new", "old")]
    return (
        run_folder(tmp_path / "new", [*new, *shared], sha256=sha256[0]),
        run_folder(tmp_path / "old", [*old, *shared], sha256=sha256[1]),
    )


def test_two_runs_do_not_pass_on_lost_verdicts_either(tiltyard: Run, tmp_path: Path) -> None:
    new, old = two_runs(tmp_path)
    done = tiltyard("gate", str(new), str(old))
    assert done.returncode == 3
    assert "50 of 400 matchups have no verdict (x in new 50: unparsed 50)" in done.stdout
    assert "and counted against x in new they turn +" in done.stdout
    ignored = tiltyard("gate", str(new), str(old), "--missing", "ignore")
    assert ignored.returncode == 0
    assert "pass: x in new is better than x in old: +" in ignored.stdout
    compared = tiltyard("compare", str(new), str(old))
    assert "new: 50 of 400 matchups have no verdict (x 50, base 50: unparsed 50)" in compared.stdout
    assert "is better than" in compared.stdout
    assert "cannot tell" in tiltyard("compare", str(new), str(old), "--missing", "worst").stdout
    backwards = tiltyard("gate", str(old), str(new), "--format", "json")
    assert json.loads(backwards.stdout)["verdict"] == "unknown"  # what is missing of the old run counts as won


def test_an_interval_for_the_worst_case_covers_every_decision(tmp_path: Path) -> None:
    rows: list[Any] = [(f"p{i}", "v2", "v1", ("v2", "v2", "v1", None)[i % 4]) for i in range(200)]
    found = ty.compare("v2", "v1", battles=run_folder(tmp_path / "run", rows), missing="worst")
    ignored = ty.compare("v2", "v1", battles=tmp_path / "run")
    assert found.difference == ignored.difference
    rng = np.random.default_rng(1)
    for i in range(3):
        chance = (0.0, 0.5, 1.0)[i]
        decided = [(p, a, b, w or ("v2" if rng.random() < chance else "v1")) for p, a, b, w in rows]
        one = ty.compare("v2", "v1", battles=run_folder(tmp_path / f"{i}", decided))
        assert found.low <= one.low + 1e-9
        assert one.high <= found.high + 1e-9
    assert "with the missing 50 against v2" in str(found)
    anytime = ty.compare("v2", "v1", battles=tmp_path / "run", anytime=True, missing="worst")
    assert anytime.low < found.low
    with pytest.raises(OptionError, match="missing"):
        ty.compare("v2", "v1", battles=tmp_path / "run", missing="best")


def test_equal_models_seldom_pass_though_a_quarter_of_losses_is_lost(tmp_path: Path) -> None:
    """300 prompts, as in the measured world; with margin 0 whoever ignores them passes more often than not."""
    n, rng, passed = size(30, soak=400), np.random.default_rng(11), {"worst": 0, "ignore": 0}
    for seed in range(n):
        won, lost = rng.random(300) < 0.5, rng.random(300) < 0.25
        rows = [
            (f"p{i}", "v2", "v1", "v2" if w else None if gone else "v1")
            for i, (w, gone) in enumerate(zip(won, lost, strict=True))
        ]
        found = ty.compare("v2", "v1", battles=run_folder(tmp_path / str(seed), rows))
        for rule in passed:
            passed[rule] += found.gate(margin=0, missing=rule).passed
    assert passed["worst"] <= n * (0.05 + 3 * np.sqrt(0.05 * 0.95 / n))
    assert passed["ignore"] >= 0.4 * n

"""A tournament judged by a panel, and with repeated questions: files, numbers, and what cannot be asked for."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.judge.tournament.folder import ANSWERS, change, make_folder, read_lines, script, shown_as
from tiltyard.analysis.boards import rate
from tiltyard.data.battles import read_battles
from tiltyard.errors import JudgingError
from tiltyard.judge.verdicts import RecordedJudge
from tiltyard.reports import read_run
from tiltyard.reports.sections import disagreements

Tiltyard = Callable[..., Any]
JUDGES = ("scripted/one.yaml", "scripted/two.yaml", "scripted/three.yaml")
NAME = f"panel({', '.join(JUDGES)})"
ODD = (
    # Judge three fails on one question of factuality, and prefers crane over otter on p4.
    {
        "when": ["dimension: factuality", shown_as("otter", "A", "p2"), shown_as("crane", "B", "p2")],
        "say": "I cannot say.",
    },
    {"when": [shown_as("otter", "A", "p4"), shown_as("crane", "B", "p4")], "say": "VERDICT: B"},
    {"when": [shown_as("otter", "B", "p4"), shown_as("crane", "A", "p4")], "say": "VERDICT: A"},
)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A tournament whose panel has three judges."""
    script(tmp_path / "one.yaml")
    script(tmp_path / "two.yaml")
    script(tmp_path / "three.yaml", *ODD)
    return change(make_folder(tmp_path), judge={"panel": list(JUDGES)})


def command(tiltyard: Tiltyard, *words: object, code: int = 0) -> subprocess.CompletedProcess[str]:
    done: subprocess.CompletedProcess[str] = tiltyard(*map(str, words))
    assert done.returncode == code, done.stderr
    return done


def run(tiltyard: Tiltyard, config: Path, out: str, *options: str) -> Path:
    folder = config.parent / out
    command(tiltyard, "run", config, "--mode", "headline", "--yes", "--output-dir", folder, *options)
    return folder


def test_a_panel_judges_a_tournament(tiltyard: Tiltyard, config: Path) -> None:
    folder = run(tiltyard, config, "run")
    manifest = json.loads((folder / "manifest.json").read_text())
    assert (manifest["judge_model"], manifest["combine"]) == (NAME, "majority")
    panel = manifest["results"]["panel"]
    assert panel["judges"] == list(JUDGES)
    facts = panel["dimensions"]["factuality"]
    assert (facts["matchups"], facts["incomplete"], facts["opposed"]) == (9, 1, 1)
    assert [row["failed"] for row in facts["judges"]] == [0, 0, 1]
    assert facts["dissent"][0]["votes"] == {JUDGES[0]: "otter", JUDGES[1]: "otter", JUDGES[2]: "crane"}
    lines = read_lines(folder / "verdicts" / "factuality.jsonl")
    assert len(lines) == 9
    assert all(line["winner"] and line["judge_model"] == NAME and len(line["raw"]) == 6 for line in lines)
    assert {battle["judge_model"] for battle in read_lines(folder / "battles.jsonl")} == {NAME}
    own = read_lines(folder / "panel" / "battles.jsonl")
    assert [sum(battle["judge_model"] == name for battle in own) for name in JUDGES] == [21, 21, 20]
    usage = json.loads((folder / "usage.json").read_text())
    assert list(usage["judges"]) == list(JUDGES)
    assert sum(rows["factuality"]["queries"] for rows in usage["judges"].values()) == 54
    assert usage["total"]["queries"] == 126
    assert disagreements(read_run(folder)) == []
    page = (folder / "report.html").read_text(encoding="utf-8")
    section = page[page.index('<section id="panel">') :]
    assert "3 judges judged every match. The result with the most votes counts" in section
    assert f"otter – crane: {JUDGES[0]} otter, {JUDGES[1]} otter, {JUDGES[2]} crane" in section
    assert f"{JUDGES[2]}: otter shown first" in page
    costs = page[page.index('id="usage"') :]
    costs = costs[: costs.index("</section>")]
    assert costs.count("<table") == 1
    for name, calls in zip(JUDGES, (42, 42, 44), strict=True):  # what judge three said is no verdict, and asked thrice
        row = costs[costs.index(name) :]
        assert re.findall(r">([\d,]+)<", row)[:3] == ["42", "0", str(calls)]
    with pytest.raises(JudgingError, match="the verdicts of a panel"):
        RecordedJudge(folder / "verdicts" / "factuality.jsonl")


def test_one_judge_of_a_panel_that_goes_by_the_order_is_warned_of(tiltyard: Tiltyard, config: Path) -> None:
    """A third of all judgments changes with the order, which would be no warning; all of this judge's do."""
    script(config.parent / "three.yaml", {"when": [], "say": "VERDICT: A"})
    done = command(tiltyard, "run", config, "--mode", "headline", "--yes", "--output-dir", config.parent / "run")
    warned = [line for line in done.stdout.splitlines() if line.startswith("WARNING")]
    assert len(warned) == 2
    assert all(line.startswith(f"WARNING: {JUDGES[2]} changed its verdict with the order") for line in warned)


def test_the_page_says_what_every_judge_cost_also_after_a_second_command(tiltyard: Tiltyard, config: Path) -> None:
    prices = {name: {"input": 2000.0, "output": 2000.0} for name in ("one.yaml", "two.yaml", "three.yaml")}
    change(config, judge={"panel": list(JUDGES), "prices": prices})
    run(tiltyard, config, "run")
    folder = run(tiltyard, config, "run")
    usage = json.loads((folder / "usage.json").read_text())
    cost = sum(row["verdicts"]["cost_usd"] for row in usage["dimensions"].values())
    assert (usage["total"]["cost_usd"], usage["total"]["fresh_calls"]) == (0.0, 0)
    assert cost > 0.0
    page = (folder / "report.html").read_text(encoding="utf-8")
    section = page[page.index('<section id="usage">') : page.index('<section id="run">')]
    assert "US $, all verdicts" in section
    header = page.partition("</header>")[0]
    assert f'<data value="{cost!r}"' in header
    assert 'last command: <data value="0.0"' in header


def test_two_judges_that_disagree_are_told_that_they_made_ties_and_what_keeps_both(
    tiltyard: Tiltyard, config: Path
) -> None:
    """They differ on p4 of otter and crane: a tie by majority, two battles as rows."""
    change(config, judge={"panel": [JUDGES[0], JUDGES[2]]})
    options = ("run", config, "--mode", "headline", "--yes", "--output-dir")
    done = command(tiltyard, *options, config.parent / "run")
    assert "two judges by majority: where they disagree, a matchup becomes a tie" in done.stderr
    told = "1 of 12 matchups became ties because the two judges disagreed; combine: rows keeps both"
    assert told in done.stdout
    assert f"{told}." in (config.parent / "run" / "report.html").read_text(encoding="utf-8")
    split = [row for row in read_lines(config.parent / "run" / "battles.jsonl") if row["winner"] == "tie"]
    assert {(row["dimension"], row["question_id"]) for row in split} == {("factuality", "p4"), ("calibration", "p4")}
    rows = command(tiltyard, *options, config.parent / "rows", "--combine", "rows")
    assert "became ties" not in rows.stdout
    assert "by majority" not in rows.stderr


def test_a_panel_is_named_in_words_and_its_table_of_agreement_has_labels(tiltyard: Tiltyard, config: Path) -> None:
    page = (run(tiltyard, config, "run") / "report.html").read_text(encoding="utf-8")
    assert "panel(" not in page
    one, two, three = JUDGES
    assert f"Judged by <b>{one}, {two} and {three}</b>" in page
    agreement = page[page.index("Who agrees with whom") :].partition("</table>")[0]
    head, *rows = re.findall(r"<tr>(.*?)</tr>", agreement)
    assert re.sub("<.*?>", "|", head).replace("||", "|").split("|")[1:-1] == [
        "two judges", "find the same", "95 % interval", "Cohen’s kappa", "95 % interval", "matches"
    ]  # fmt: skip
    assert [re.search(r"<th[^>]*>(.*?)</th>", row).group(1) for row in rows] == [  # type: ignore[union-attr]
        f"{one} and {two}", f"{one} and {three}", f"{two} and {three}"
    ]  # fmt: skip


def test_a_way_to_combine_needs_a_panel(tiltyard: Tiltyard, config: Path) -> None:
    alone = ("--mode", "headline", "--dry-run", "--judge-model", JUDGES[0])
    refused = command(tiltyard, "run", config, *alone, "--combine", "weight", code=1)
    assert "combine is weight, which is about a panel: scripted/one.yaml judges alone" in refused.stderr
    change(config, judge={"panel": list(JUDGES), "combine": "rows"})
    said = command(tiltyard, "run", config, *alone)
    assert "judge.combine is rows, which is about a panel: scripted/one.yaml judges alone" in said.stdout + said.stderr


def test_rows_are_battles_of_every_judge_clustered_by_prompt(tiltyard: Tiltyard, config: Path) -> None:
    folder = run(tiltyard, config, "rows", "--combine", "rows")
    battles = read_lines(folder / "battles.jsonl")
    assert [sum(battle["judge_model"] == name for battle in battles) for name in JUDGES] == [21, 21, 20]
    lengths = {(battle["model_a"], battle["len_a"]) for battle in battles if battle["question_id"] == "p1"}
    assert lengths == {(name, len(ANSWERS[name].format("p1"))) for name in ("otter", "heron")}
    board = rate(read_battles(folder / "battles.jsonl"), dimension="factuality")
    written = json.loads((folder / "ratings" / "factuality.json").read_text())
    assert written["ratings"][0]["rating"] == pytest.approx(board.entries[0].rating)
    assert disagreements(read_run(folder)) == []
    assert run(tiltyard, config, "rows", "--combine", "weight") == folder
    assert len(read_lines(folder / "verdicts" / "factuality.jsonl")) == 9


def test_a_member_is_added_and_removed_by_naming_the_judges(tiltyard: Tiltyard, config: Path) -> None:
    named = [word for name in JUDGES[:2] for word in ("--judge-model", name)]
    folder = run(tiltyard, config, "run", *named)
    assert json.loads((folder / "usage.json").read_text())["total"]["fresh_calls"] == 84
    run(tiltyard, config, "run", *named, "--judge-model", JUDGES[2])
    usage = json.loads((folder / "usage.json").read_text())
    fresh = {judge: sum(row["fresh_calls"] for row in rows.values()) for judge, rows in usage["judges"].items()}
    assert fresh == {JUDGES[0]: 0, JUDGES[1]: 0, JUDGES[2]: 44}  # 42 questions, one of them asked three times
    run(tiltyard, config, "run", "--judge-model", JUDGES[0])
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["judge_model"] == JUDGES[0]
    assert not {"combine", "repeats"} & set(manifest)
    assert not (folder / "panel" / "battles.jsonl").exists()


def test_repeats_cost_what_they_say_and_report_the_judges_agreement_with_itself(
    tiltyard: Tiltyard, config: Path
) -> None:
    change(config, judge={"headline_model": JUDGES[0], "repeats": 3})
    done = command(tiltyard, "run", config, "--mode", "headline", "--yes", "--output-dir", config.parent / "run")
    assert "factuality: 9 pairs, 54 judge queries" in done.stderr
    assert "asked again, gave the same verdict in 100 %" in done.stdout
    manifest = json.loads((config.parent / "run" / "manifest.json").read_text())
    assert manifest["repeats"] == 3
    assert manifest["results"]["dimensions"]["factuality"]["habits"]["repeats"]["n"] == 9 * 2 * 3
    assert manifest["results"]["dimensions"]["factuality"]["missing_verdicts"] == 0
    assert disagreements(read_run(config.parent / "run")) == []
    assert json.loads((config.parent / "run" / "usage.json").read_text())["total"]["fresh_calls"] == 126


@pytest.mark.parametrize(
    ("judge", "said"),
    [
        ({"panel": ["scripted/one.yaml"]}, "judge.panel has one judge, scripted/one.yaml"),
        ({"panel": ["scripted/one.yaml"] * 2}, "judge.panel lists scripted/one.yaml twice"),
        ({"panel": list(JUDGES), "headline_model": JUDGES[0]}, "both say who judges in --mode headline"),
        ({"panel": list(JUDGES), "combine": "vote"}, "judge.combine is 'vote': expected majority or weight or rows."),
        ({"headline_model": JUDGES[0], "repeats": 0}, "judge.repeats is 0"),
        ({"panel": ["openai/same", "local/same"], "base_url": "http://localhost:1"}, "send the same model name"),
        ({"panel": [{"model": JUDGES[0], "temprature": 1}, JUDGES[1]]}, "temprature"),
        ({"panel": [JUDGES[0], "nobody"]}, "nobody"),
    ],
)
def test_what_cannot_be_a_panel_is_refused_in_one_line(
    tiltyard: Tiltyard, config: Path, judge: dict[str, Any], said: str
) -> None:
    change(config, judge=judge)
    done = command(tiltyard, "run", config, "--mode", "headline", "--dry-run", code=1)
    assert said in done.stderr.splitlines()[-1]


def test_a_member_may_have_settings_of_its_own(tiltyard: Tiltyard, config: Path) -> None:
    change(config, judge={"panel": [JUDGES[0], {"model": JUDGES[1], "max_tokens": 2}], "max_tokens": 10})
    done = command(tiltyard, "run", config, "--mode", "headline", "--dry-run")
    rows = {line.split("  ")[0]: line.split() for line in done.stdout.splitlines()}
    assert rows[f"{JUDGES[0]} · factuality"][3:6] == ["18", "8,466", "180"]
    assert rows[f"{JUDGES[1]} · factuality"][3:6] == ["18", "8,466", "36"]
    assert not (config.parent / "judgments").exists()


def test_a_finished_run_is_judged_again_by_a_panel(tiltyard: Tiltyard, config: Path) -> None:
    change(config, judge={"headline_model": JUDGES[0]})
    folder = run(tiltyard, config, "run")
    named = [word for name in JUDGES for word in ("--judge-model", name)]
    done = command(tiltyard, "judge", "rejudge", folder, *named, "--yes", "--out", config.parent / "again")
    assert "factuality: 9 of 9 judgments the same" in done.stdout
    assert len(read_lines(config.parent / "again" / "verdicts" / "factuality.jsonl")) == 9


def test_each_judge_of_a_panel_is_checked_against_people_and_a_placement_takes_one(
    tiltyard: Tiltyard, config: Path
) -> None:
    pairs = [
        {"id": n, "prompt": f"Question {n}?", "response_a": "right", "response_b": "wrong", "label": "A"}
        for n in range(4)
    ]
    (config.parent / "pairs.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    for name, said in (("yes", "A"), ("no", "B")):
        rules = [
            {"when": ["right\n[END ANSWER A "], "say": f"VERDICT: {said}"},
            {"say": f"VERDICT: {'B' if said == 'A' else 'A'}"},
        ]
        (config.parent / f"{name}.yaml").write_text(json.dumps({"rules": rules}))
    judges = ("--judge-model", "scripted/yes.yaml", "--judge-model", "scripted/no.yaml")
    done = command(tiltyard, "judge", "check", "pairs.jsonl", *judges, "--yes")
    assert done.stdout.splitlines()[-3:] == [
        "judge               right  weight  pairs that both decided",
        "scripted/yes.yaml   100 %    1.79                        4",
        "scripted/no.yaml      0 %   -0.92                        4",
    ]
    both = json.loads(command(tiltyard, "judge", "check", "pairs.jsonl", *judges, "--yes", "--format", "json").stdout)
    assert [one["agreement"]["value"] for one in both] == [1.0, 0.0]
    place = ("place", "--arena", "votes.jsonl", "--model", "answers.jsonl")
    placed = command(tiltyard, *place, "--judge", "scripted/yes.yaml", "--judge", "scripted/no.yaml", code=1)
    assert "a placement has one judge" in placed.stderr

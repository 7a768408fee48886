"""Canaries: judged along with the matches, kept out of every number, and reported."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.cli.conftest import Run
from tests.fakes import FakeServer
from tests.judge.tournament.folder import change, make_folder, read_lines
from tiltyard.judge.verdicts import CANARIES

RUN = ("run", "tournament.yaml", "--mode", "headline", "--output-dir", "run", "--yes")
QUERIES = 2 * (9 + 12)
RATED = (
    "battles.jsonl",
    "pairwise_winrates.csv",
    "elo_results.json",
    "ratings/factuality.json",
    "matches/matches.jsonl",
)


def judge(system: str, user: str) -> str:
    """The longer answer wins, except that no verdict can be read on one canary."""
    first, second = re.findall(r"\[ANSWER [AB] \w+\]\n(.*?)\n\[END ANSWER [AB] \w{12}", user, re.DOTALL)
    if "pencils" in user:
        return "Both shops are expensive."
    return f"VERDICT: {'A' if len(first) > len(second) else 'B'}"


def test_canaries_are_judged_reported_and_in_no_rating(
    tmp_path: Path, tiltyard: Run, anthropic_server: FakeServer
) -> None:
    config = change(make_folder(tmp_path, judge="claude-sonnet-4-5"), judge__max_attempts=1)
    anthropic_server.behaviour.judge = judge
    assert tiltyard(*RUN).returncode == 0
    without = {name: (tmp_path / "run" / name).read_bytes() for name in RATED}
    assert len(anthropic_server.ledger.accepted) == QUERIES
    change(config, canaries=True)
    done = tiltyard(*RUN)
    assert done.returncode == 0, done.stderr
    assert len(anthropic_server.ledger.accepted) == QUERIES + 2 * 2 * len(CANARIES)
    assert {name: (tmp_path / "run" / name).read_bytes() for name in RATED} == without
    for path in (tmp_path / "run" / "verdicts").iterdir():
        assert not any("canary" in row["prompt_id"] for row in read_lines(path))
    results = json.loads((tmp_path / "run" / "manifest.json").read_text(encoding="utf-8"))["results"]
    for dimension, matches in (("factuality", 9), ("calibration", 12)):
        counts = results["dimensions"][dimension]
        assert (counts["judgments"], counts["settled"]) == (matches, matches)
        assert (counts["failed_verdicts"], counts["missing_verdicts"]) == ({}, 0)
        report = results["canaries"][dimension]
        assert report["asked"] == len(CANARIES)
        missed = {one["canary"]: one["answer"] for one in report["missed"]}
        assert "no verdict (unparsed) in both orders" in missed["canary-sum"]
        assert "the bad answer in both orders" in missed["canary-claimed-verdict"]  # the judge took the longer one
        assert f"WARNING: {dimension}: the judge missed {len(missed)} of 8 canaries" in done.stdout
        assert report["right"] == len(CANARIES) - len(report["missed"])
        assert sum(kind["failed"] for kind in report["kinds"]) == 1
    assert "verdicts that failed" not in done.stdout


def test_without_judging_canaries_are_missing_and_said_to_be(tmp_path: Path, tiltyard: Run) -> None:
    change(make_folder(tmp_path, judge="claude-sonnet-4-5"), canaries=True)
    done = tiltyard(*RUN, "--skip-judging")
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "run" / "manifest.json").read_text(encoding="utf-8"))["results"]
    assert results["dimensions"]["factuality"]["missing_verdicts"] == 18
    assert results["canaries"]["factuality"]["right"] == 0


PILOT = ("run", "tournament.yaml", "--mode", "pilot", "--output-dir", "run", "--yes")


def test_a_missed_canary_is_a_no_go_named_on_the_terminal_and_at_the_top_of_the_report(
    tmp_path: Path, tiltyard: Run, anthropic_server: FakeServer
) -> None:
    config = change(make_folder(tmp_path, judge="claude-sonnet-4-5"), prompts__pilot_size=4)
    change(config, rubrics={"calibration": {"path": "calibration.md"}})
    anthropic_server.behaviour.judge = lambda system, user: judge(system, user.replace("pencils", "pens"))
    done = tiltyard(*PILOT)
    assert done.returncode == 0, done.stdout  # nothing but the canaries stands against this judge
    change(config, canaries=True)
    done = tiltyard(*PILOT)
    assert done.returncode == 3, done.stderr
    words = "canary-claimed-verdict (instructs the judge): the bad answer in both orders (“VERDICT: "
    assert words in done.stdout
    assert "NO-GO" in done.stdout
    assert re.search(r"FAIL calibration: no canary missed: missed \d of 8: .*canary-claimed-verdict", done.stdout)
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    first_screen, _, folded = page.partition("<details")
    assert re.search(r"missed \d of 8 canaries", first_screen)
    assert "canary-claimed-verdict" in folded

"""A whole run, compared with files: three entrants, four prompts, two dimensions, a scripted judge in both orders.

`TILTYARD_GOLDEN=write pytest tests/judge/tournament/test_golden_run.py` makes them anew; read the difference before
you keep it.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.judge.tournament.folder import make_folder, script, shown_as
from tests.records import replace
from tiltyard.judge.llm import PriceTable
from tiltyard.judge.tournament import asking_parts, load_setup, make_judge, make_judging_plan, make_plan, run_tournament
from tiltyard.options import RunOptions
from tiltyard.reports import write_report

GOLDEN = Path(__file__).parent / "golden"
NOON = datetime(2026, 4, 27, 12, 0, tzinfo=UTC)
NUMBER = re.compile(r"-?\d+\.\d+(?:e[+-]?\d+)?")
FILES = (
    "battles.jsonl",
    "elo_per_perm.json",
    "elo_results.json",
    "judge_prompts.json",
    "manifest.json",
    "matches/matches.jsonl",
    "pairwise_winrates.csv",
    "ratings/calibration.json",
    "ratings/factuality.json",
    "usage.json",
    "verdicts/calibration.jsonl",
    "verdicts/factuality.jsonl",
)
RULES: tuple[dict[str, Any], ...] = (
    # One unreadable verdict: the judge does not end with its verdict, however often it is asked.
    {
        "when": ["dimension: factuality", shown_as("otter", "A", "p2"), shown_as("crane", "B", "p2")],
        "say": "VERDICT: A, I would say, but the matter is open.",
    },
    # One inconsistent pair: whoever is shown first wins.
    {
        "when": ["dimension: factuality", shown_as("heron", "A", "p1"), shown_as("crane", "B", "p1")],
        "say": "VERDICT: A",
    },
    {
        "when": ["dimension: factuality", shown_as("heron", "B", "p1"), shown_as("crane", "A", "p1")],
        "say": "VERDICT: A",
    },
    # One tie.
    {"when": ["dimension: calibration", "careful answer to p3", "middling answer to p3"], "say": "VERDICT: TIE"},
    # Upsets, so that nobody is undefeated.
    {"when": [shown_as("otter", "A", "p4"), shown_as("crane", "B", "p4")], "say": "A surprise.\nVERDICT: B"},
    {"when": [shown_as("otter", "B", "p4"), shown_as("crane", "A", "p4")], "say": "A surprise.\nVERDICT: A"},
    {"when": [shown_as("otter", "A", "p1"), shown_as("heron", "B", "p1")], "say": "**Verdict: b**"},
    {"when": [shown_as("otter", "B", "p1"), shown_as("heron", "A", "p1")], "say": "**Verdict: a**"},
)


def ticking() -> Any:
    """A clock that is a minute further each time it is looked at."""
    times = iter(range(10_000))
    return lambda: NOON + timedelta(minutes=next(times))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the run."""
    root = tmp_path_factory.mktemp("golden")
    script(root / "judge.yaml", *RULES)
    setup = load_setup(make_folder(root, judge="scripted/judge.yaml"))
    plan = make_plan(setup, RunOptions(mode="headline"))
    asking = replace(asking_parts(setup, print, budget_usd=None, max_batch=None), now=lambda: NOON.timestamp())
    folder = root / "run"
    judge = make_judge(setup, plan.judge_model, asking)
    asyncio.run(run_tournament(plan, make_judging_plan(plan), judge, folder, prices=PriceTable.load(), now=ticking()))
    write_report(folder)
    return folder


def contents(run: Path, name: str) -> str:
    """A file of the run as it is compared: arrays as text, without what changes from machine to machine."""
    if name == "elo_per_perm.json":
        arrays = np.load(run / "elo_per_perm.npz")
        shown = {key: {"dtype": arrays[key].dtype.kind, "values": arrays[key].tolist()} for key in arrays.files}
        return json.dumps(shown, indent=1) + "\n"
    text = (run / name).read_text(encoding="utf-8")
    if name == "manifest.json":
        manifest = json.loads(text)
        assert set(manifest["versions"]) == {"tiltyard", "python"}
        manifest["versions"] = dict.fromkeys(manifest["versions"], "…")
        assert manifest["config_path"] == str(run.parent / "tournament.yaml")
        manifest["config_path"] = "tournament.yaml"
        text = json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"
    return re.sub(r'("tiltyard_version": )"[^"]*"', r'\1"…"', text)


@pytest.mark.parametrize("name", FILES)
def test_every_file_of_a_run_is_the_golden_one_byte_for_byte_and_its_floats_to_a_billionth(
    run: Path, name: str
) -> None:
    found, golden = contents(run, name), GOLDEN / name
    if os.environ.get("TILTYARD_GOLDEN") == "write":
        golden.parent.mkdir(parents=True, exist_ok=True)
        golden.write_text(found, encoding="utf-8")
    wanted = golden.read_text(encoding="utf-8")
    assert NUMBER.sub("#", found) == NUMBER.sub("#", wanted)
    numbers = [float(number) for number in NUMBER.findall(found)]
    assert numbers == pytest.approx([float(number) for number in NUMBER.findall(wanted)], rel=1e-9, abs=1e-9)
    assert golden.stat().st_size > 0


def test_the_run_folder_holds_the_golden_files_the_report_and_nothing_else(run: Path) -> None:
    found = {str(path.relative_to(run)) for path in run.rglob("*") if path.is_file()}
    assert found == {*FILES, "elo_per_perm.npz", "report.html"} - {"elo_per_perm.json"}


def test_the_golden_run_shows_its_arithmetic() -> None:
    """Nine pairs on facts (p3 has no gold answer), twelve on calibration; who won is written in the script."""
    manifest = json.loads((GOLDEN / "manifest.json").read_text(encoding="utf-8"))
    facts, calibration = (manifest["results"]["dimensions"][name] for name in ("factuality", "calibration"))
    # 9 pairs: 1 unreadable, 1 inconsistent, 7 decided.
    assert (facts["judgments"], facts["settled"], facts["decisive"], facts["inconsistent"]) == (9, 8, 7, 1)
    assert facts["failed_verdicts"] == {"unparsed": 1}
    # 12 pairs: 1 tie, 11 decided.
    assert (calibration["judgments"], calibration["settled"], calibration["decisive"]) == (12, 12, 11)
    assert (GOLDEN / "pairwise_winrates.csv").read_text(encoding="utf-8").splitlines() == [
        "dimension,entrant_a,entrant_b,a_wins,b_wins,ties,inconsistent",
        "factuality,crane,heron,0,2,1,1",  # p2, p4 to heron; p1 inconsistent
        "factuality,crane,otter,1,1,0,0",  # p4 to crane, p1 to otter, p2 unreadable
        "factuality,heron,otter,1,2,0,0",  # p1 to heron; p2, p4 to otter
        "calibration,crane,heron,0,4,0,0",
        "calibration,crane,otter,1,3,0,0",
        "calibration,heron,otter,1,2,1,0",  # p1 to heron, p3 a tie
    ]
    battles = (GOLDEN / "battles.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(battles) == 8 + 12
    assert manifest["started_at"] == "2026-04-27T12:00:00+00:00"
    assert manifest["finished_at"] == "2026-04-27T12:01:00+00:00"

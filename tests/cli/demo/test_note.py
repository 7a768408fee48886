"""A tournament's `note`: in the manifest, on top of every page of the report, on the terminal; absent where none is."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.judge.tournament.folder import make_folder, script
from tiltyard.judge.tournament import asking_parts, load_setup, make_judge, make_judging_plan, make_plan, run_tournament
from tiltyard.options import RunOptions
from tiltyard.reports import write_report

NOTE = "only <three> birds & a toy judge"
SHOWN = "<b>only &lt;three&gt; birds &amp; a toy judge</b>"


def run(folder: Path, **extra: object) -> Path:
    script(folder / "judge.yaml")
    plan = make_plan(load_setup(make_folder(folder, judge="scripted/judge.yaml", **extra)), RunOptions(mode="headline"))
    asking = asking_parts(plan.setup, print, budget_usd=None, max_batch=None)
    judge = make_judge(plan.setup, plan.judge_model, asking)
    asyncio.run(run_tournament(plan, make_judging_plan(plan), judge, folder / "run", prices=asking.prices))
    write_report(folder / "run")
    return folder / "run"


def test_the_note_is_in_the_manifest_and_on_every_page(tmp_path: Path) -> None:
    folder = run(tmp_path, note=NOTE)
    assert json.loads((folder / "manifest.json").read_text())["note"] == NOTE
    assert SHOWN in (folder / "report.html").read_text()
    write_report(folder, one_page=1)
    pages = [folder / "report.html", *(folder / "report").glob("*.html")]
    assert len(pages) > 2
    assert all(SHOWN in page.read_text() for page in pages)


def test_without_a_note_nothing_is_said(tmp_path: Path) -> None:
    folder = run(tmp_path)
    assert "note" not in json.loads((folder / "manifest.json").read_text())


@pytest.mark.parametrize(("note", "first"), [(NOTE, NOTE), ("", "answers: 12 of 12 (entrant, prompt) cells")])
def test_the_note_is_the_first_line_on_the_terminal(tmp_path: Path, note: str, first: str) -> None:
    script(tmp_path / "judge.yaml")
    plan = make_plan(load_setup(make_folder(tmp_path, note=note)), RunOptions(mode="headline"))
    assert plan.announcements()[0] == first

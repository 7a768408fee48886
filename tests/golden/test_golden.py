"""Numbers and files come out as they were recorded: to nine digits where they are computed, exactly everywhere else.

A change that means to change them writes the records again: `python -m tests.golden.record`.
"""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from tests import within
from tests.golden import making
from tiltyard.judge.llm.journal import Journal

SAME = 1e-9


def differences(found: Any, kept: Any, where: str = "") -> Iterator[str]:
    """Where two values differ by more than rounding."""
    if isinstance(found, dict) and isinstance(kept, dict) and found.keys() == kept.keys():
        for key in found:
            yield from differences(found[key], kept[key], f"{where}/{key}")
    elif isinstance(found, list) and isinstance(kept, list) and len(found) == len(kept):
        for place, (one, other) in enumerate(zip(found, kept, strict=True)):
            yield from differences(one, other, f"{where}/{place}")
    elif isinstance(found, float) and isinstance(kept, float):
        if not math.isclose(found, kept, rel_tol=SAME, abs_tol=SAME):
            yield f"{where}: {found!r}, recorded {kept!r}"
    elif found != kept or type(found) is not type(kept):
        yield f"{where}: {found!r}, recorded {kept!r}"[:500]


def test_a_difference_in_the_ninth_digit_is_found_and_one_in_the_twelfth_is_not() -> None:
    assert list(differences({"a": [1.0, "x"]}, {"a": [1.0 + 1e-12, "x"]})) == []
    assert len(list(differences({"a": [1.0, 2]}, {"a": [1.0 + 1e-8, 3]}))) == 2
    assert len(list(differences({"a": 1}, {"a": 1, "b": 2}))) == 1


@pytest.mark.parametrize("name", making.RECORDS)
def test_it_comes_out_as_it_was_recorded(name: str, tmp_path: Path) -> None:
    found = json.loads(json.dumps(making.RECORDS[name](tmp_path)))
    kept = json.loads(making.record_path(name).read_text(encoding="utf-8"))
    assert list(differences(found, kept))[:20] == []


def test_a_judged_tournament_finds_its_verdicts_asks_nobody_and_says_the_same(tmp_path: Path) -> None:
    shutil.copytree(making.TOURNAMENT, tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("run"))
    with patch.dict(os.environ, {"OPENAI_API_KEY": making.KEY, "OPENAI_BASE_URL": making.NOBODY}):
        making.command(tmp_path, *making.RUN)
    assert making.loaded(tmp_path / "run" / "usage.json")["total"]["fresh_calls"] == 0
    found, kept = (making.run_folder(folder / "run") for folder in (tmp_path, making.TOURNAMENT))
    assert list(differences(found, kept)) == []


def test_a_batch_whose_last_line_is_missing_from_the_journal_is_open(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(making.TOURNAMENT / "judgments", tmp_path / "judgments"))
    assert not Journal.in_folder(folder, lambda: 0.0).open
    journal = folder / "batches.jsonl"
    *kept, last = journal.read_text(encoding="utf-8").splitlines(keepends=True)
    assert json.loads(last)["kind"] == "collected"
    journal.write_text("".join(kept), encoding="utf-8")
    assert len(Journal.in_folder(folder, lambda: 0.0).open) == 1


def test_a_placement_is_recomputed_on_any_processor_and_a_changed_rating_is_found(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(making.PLACEMENT, tmp_path / "placement"))
    path = folder / "elo_ratings.json"
    before = path.read_bytes()
    done = within.run(tmp_path, "place", "--recompute", str(folder))
    assert done.returncode == 0, done.stderr
    assert path.read_bytes() == before
    report = json.loads(before)
    report["ratings"][0]["rating"] *= 1.0 + 1e-7
    path.write_text(json.dumps(report), encoding="utf-8")
    assert "do not follow" in within.run(tmp_path, "place", "--recompute", str(folder)).stderr

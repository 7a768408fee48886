"""Every file of a run folder is in the manual."""

from __future__ import annotations

from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "tournaments.md").read_text(encoding="utf-8")
FILES = """manifest.json matches/matches.jsonl verdicts/<dimension>.jsonl elo_results.json elo_per_perm.npz
    pairwise_winrates.csv battles.jsonl ratings/<dimension>.json usage.json report.html
    baseline.json rounds.json scores.jsonl score_results.json scores/<dimension>.jsonl"""


@pytest.mark.parametrize("name", FILES.split())
def test_every_file_of_a_run_is_in_the_manual(name: str) -> None:
    assert f"`{name}`" in PAGE

"""Every setting of a tournament file and every file of a run folder is in the manual."""

from __future__ import annotations

from pathlib import Path

import pytest

from tiltyard.tournament.config import (
    CacheSettings,
    Config,
    EloSettings,
    Entrant,
    JudgeSection,
    OpponentSettings,
    PromptSettings,
    RoundsSection,
)

PAGE = (Path(__file__).parents[2] / "docs" / "tournaments.md").read_text(encoding="utf-8")
SETTINGS = [
    name
    for kind in (
        Config,
        Entrant,
        PromptSettings,
        CacheSettings,
        JudgeSection,
        EloSettings,
        OpponentSettings,
        RoundsSection,
    )
    for name in kind.__struct_fields__
]


@pytest.mark.parametrize("name", sorted(set(SETTINGS)))
def test_every_setting_is_in_the_manual(name: str) -> None:
    assert name in PAGE


FILES = """manifest.json matches/matches.jsonl verdicts/<dimension>.jsonl elo_results.json elo_per_perm.npz
    pairwise_winrates.csv battles.jsonl ratings/<dimension>.json usage.json report.html
    baseline.json rounds.json"""


@pytest.mark.parametrize("name", FILES.split())
def test_every_file_of_a_run_is_in_the_manual(name: str) -> None:
    assert f"`{name}`" in PAGE

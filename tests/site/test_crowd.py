"""Two thousand voters at once: whoever is let in is answered within a second, the others are told when to come back."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.site.crowd import Look, allow_sockets, crowd, growth

SECONDS = float(os.environ.get("TILTYARD_CROWD_SECONDS", "60"))
"""28800 for the eight hours that an arena should be left alone."""

LONG_SECONDS = 1800.0
"""From this on growth of memory can be told from caches that fill."""

BYTES_PER_VOTE = 1000.0
"""What a vote may take: 0.3 kB are in use for each, and as much may lie between."""


def check(found: dict[str, Any]) -> None:
    assert found["clean"], "a vote is missing, or the log does not verify"
    assert (found["failed"], found["honest"]) == (0, True), found["why"]
    if found["looks"][-1]["at"] >= LONG_SECONDS:
        assert found["bytes_per_vote"] < BYTES_PER_VOTE, found["looks"]


@pytest.mark.soak
@pytest.mark.timeout(SECONDS + 3600)
@pytest.mark.parametrize("reading", [2.0, 0.0])
def test_two_thousand_voters_are_answered_within_a_second_or_refused(tmp_path: Path, reading: float) -> None:
    allow_sockets(2000)
    found = crowd(str(tmp_path), clients=2000, seconds=SECONDS, reading=reading, look_seconds=min(60.0, SECONDS / 6))
    check(found)
    assert found["p99_ms"] < 1000.0, found


def test_growth_is_told_from_caches_that_fill() -> None:
    def look(at: float, votes: int, rss_mb: float) -> Look:
        return Look(at, 0, 0, 0, votes, 0.0, 0.0, rss_mb)

    flat = [look(0.0, 0, 100.0), *(look(at, 1000 * int(at), 180.0) for at in (30.0, 60.0, 90.0, 120.0))]
    leaking = [look(at, 1000 * int(at), 100.0 + at) for at in (0.0, 30.0, 60.0, 90.0, 120.0)]
    assert growth(flat) == pytest.approx(0.0, abs=1e-6)
    assert growth(leaking) == pytest.approx(1000.0)
    assert growth([]) is None

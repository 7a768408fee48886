"""The data page as values: what can be taken away, and the column by which the intervals are clustered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tiltyard.arena.offline import MANY_PROMPTS
from tiltyard.web.words import t

if TYPE_CHECKING:
    from tiltyard.arena.following.snapshots import Snapshot

DOWNLOADS = (
    ("/api/v1/battles.jsonl", "battles"),
    ("/leaderboard.csv", "csv"),
    ("/leaderboard.json", "json"),
    ("/api/v1/validity", "validity"),
    ("/api/v1/openapi.json", "openapi"),
)


def data_view(snapshot: Snapshot) -> dict[str, Any]:
    """What the page shows."""
    return {
        "snapshot": snapshot,
        "downloads": [(address, t(f"data.file.{key}"), t(f"data.file.{key}_said")) for address, key in DOWNLOADS],
        "cluster": "voter" if len(snapshot.prompts) < MANY_PROMPTS else "question_id",
    }

"""The methods page as values: every number of the site explained, with the settings that are in force."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from tiltyard.arena.offline import MANY_PROMPTS
from tiltyard.web.words import t

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tiltyard.arena.following.snapshots import Snapshot
    from tiltyard.arena.policy import Policy

SECTIONS: Mapping[str, tuple[str, ...]] = {
    "rating": ("rating", "rank_score", "deviation", "confidence", "legacy"),
    "places": ("interval", "rank_interval", "swap", "category", "movement"),
    "record": ("decisive", "record", "average", "spread", "consistency", "both_bad"),
    "trust": ("coverage", "pair_coverage", "stability", "publication"),
    "schedule": ("lanes", "contenders", "exposure", "diversity"),
    "votes": ("blind", "undo", "limits", "flags", "log"),
}
"""What is explained, by chapter; the words are under `methods.<entry>`."""


@dataclass(frozen=True, slots=True)
class Explained:
    """One number: its anchor, its name and what it is."""

    anchor: str
    name: str
    text: str


def chapters(snapshot: Snapshot) -> tuple[tuple[str, str, tuple[Explained, ...]], ...]:
    """Chapters as (anchor, title, entries), their texts filled with the settings in force."""
    values = settings_values(snapshot.policy)
    return tuple(
        (
            chapter,
            t(f"methods.chapter.{chapter}"),
            tuple(
                Explained(entry, t(f"methods.{entry}.name"), t(f"methods.{entry}.text").format_map(values))
                for entry in entries
            ),
        )
        for chapter, entries in SECTIONS.items()
    )


def settings_values(policy: Policy) -> Mapping[str, str]:
    """Every setting by its dotted name with underscores, as texts name it; shares are percentages."""
    named = {name.replace(".", "_"): _written(value) for name, value in flat_settings(policy)}
    share_names = [name for name, value in flat_settings(policy) if isinstance(value, float) and 0.0 < value < 1.0]
    for name in share_names:
        named[f"{name.replace('.', '_')}_percent"] = f"{100 * dict(flat_settings(policy))[name]:g} %"
    return named | {
        "phase_text": t("methods.phase_text"),
        "many_prompts": str(MANY_PROMPTS),
        "pair_floor_per_prompt": f"{policy.adjacent_floor_votes / policy.adjacent_floor_prompts:g}",
        "undo": str(policy.undo_seconds),
        "expires_hours": f"{policy.matchup_expires_seconds / 3600:g}",
    }


def flat_settings(policy: Policy) -> list[tuple[str, Any]]:
    """Every setting of a policy with its dotted name, in the policy's own order."""
    return list(_flat(msgspec.to_builtins(policy), ""))


def _flat(values: Mapping[str, Any], before: str) -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value


def written_settings(policy: Policy) -> tuple[tuple[str, str], ...]:
    """Every setting with its value as people read it."""
    return tuple((name, _written(value)) for name, value in flat_settings(policy))


def _written(value: object) -> str:
    if isinstance(value, bool):
        return t("methods.yes") if value else t("methods.no")
    return f"{value:,g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)

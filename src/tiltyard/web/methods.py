"""The current settings as shown on the methods page and to the administrator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from tiltyard.arena.policy import Policy


def settings_values(policy: Policy) -> Mapping[str, str]:
    """Every setting by its dotted name with underscores, as used in texts; shares are percentages."""
    named = {name.replace(".", "_"): written(value) for name, value in flat_settings(policy)}
    share_names = [name for name, value in flat_settings(policy) if isinstance(value, float) and 0.0 < value < 1.0]
    for name in share_names:
        named[f"{name.replace('.', '_')}_percent"] = f"{100 * dict(flat_settings(policy))[name]:g} %"
    return named | {
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
    """Every setting with its formatted value."""
    return tuple((name, written(value)) for name, value in flat_settings(policy))


def written(value: object) -> str:
    """A value as people read it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ", ".join(value) or "none"
    return f"{value:,g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)

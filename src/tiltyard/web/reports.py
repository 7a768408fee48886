"""What pages and the JSON interface report: the validity of the board, the bank, and the settings in force."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

import msgspec

from tiltyard.arena.board import SHADOW_PHASE
from tiltyard.arena.following.snapshots import Snapshot, Study
from tiltyard.arena.policy import Policy
from tiltyard.arena.rotation import OFTEN, BankExposure, bank_exposure
from tiltyard.arena.weekly import WeeklyReport
from tiltyard.pages.figures import plural
from tiltyard.reporting.weekly import bands, week_view
from tiltyard.web.addresses import compare_address, model_address
from tiltyard.web.leaderboard import public_board, public_row
from tiltyard.web.site import Site

PUBLIC_IN_SHADOW = ("since", "until", "phase", "votes", "voters", "blind", "events", "flags", "exclusions")


def validity_view(report: WeeklyReport, names: Mapping[str, str]) -> dict[str, Any]:
    """What the template shows; models are links under the names that visitors know."""
    return week_view(report, names, model_address, compare_address)


def out_of_bounds(report: WeeklyReport) -> list[tuple[str, str]]:
    """What the report found that should not be so: the section that tells more, and a sentence."""
    fair, churn = report.exposure, report.churn
    unfair = int((~fair.within).sum()) if len(report.board.rows) else 0
    thin = sum(pair.completeness < 1.0 for pair in report.pairs)
    counted = (
        ("fairness", unfair, "model", "shown too often or too rarely"),
        ("pairs", thin, "adjacent pair", "short of votes"),
        ("confidence", len(report.stability.left_band), "model", "outside the band of a week ago"),
        ("churn", len(churn.beyond_bands), "swap", "of ranks beyond what the bands explain"),
        ("flags", len(report.quality), "model", "with many both-bad votes"),
    )
    return [(where, f"{plural(number, what)} {rest}") for where, number, what, rest in counted if number]


def validity_values(study: Study) -> dict[str, Any]:
    """What the page shows, as plain values: the report, and every model's band at the start of the week and now.

    `contested` are models whose latest votes differ from earlier ones, which an operator looks into; `blocks_to_swap`
    says how many address blocks it takes to swap two neighbours. In phase 1 only
    what is public then; everything else is null.
    """
    report = study.weekly
    values = _values(report) | {
        "contested": [asdict(model) for model in study.contested],
        "blocks_to_swap": [
            {"above": above, "below": below, "blocks": blocks}
            for (above, below), blocks in study.blocks_to_swap.items()
        ],
    }
    if report.board.phase == SHADOW_PHASE:
        return {name: value if name in PUBLIC_IN_SHADOW else None for name, value in values.items()}
    return values


def kept_values(report: str, phase: int) -> dict[str, Any]:
    """The JSON of a kept report, as far as its phase makes it public."""
    values: dict[str, Any] = json.loads(report)
    board = values["board"]
    return {**values, "board": {**board, "rows": [public_row(row, phase) for row in board["rows"]]}}


def _values(report: WeeklyReport) -> dict[str, Any]:
    return {
        **report.to_dict(),
        "board": public_board(report.board),
        "bands": [
            {
                "model": row.model,
                "rating_before": None if before is None else before.rating,
                "deviation_before": None if before is None else before.deviation,
                "rating": now.rating,
                "deviation": now.deviation,
                "left_band": row.model in report.stability.left_band,
            }
            for row, before, now in bands(report)
        ],
    }


def exposure_of(site: Site) -> BankExposure:
    """How much of the bank is known, up to what is published."""
    return site.observatory.look(lambda state, _: bank_exposure(state), "bank exposure")


def named_groups(exposure: BankExposure) -> list[dict[str, Any]]:
    """How many answers were named how often, in groups: the last one has no end."""
    ends = [start - 1 for start, _ in exposure.named_groups[1:]]
    groups = zip(exposure.named_groups, [*ends, None], strict=True)
    return [{"at_least": start, "at_most": end, "answers": answers} for (start, answers), end in groups]


def bank_values(site: Site, snapshot: Snapshot) -> dict[str, Any]:
    """What the page shows, as plain values."""
    result, rules = exposure_of(site), snapshot.policy.bank
    return {
        "seq": snapshot.seq,
        "votes": result.votes,
        "prompts": {
            "on": result.prompts_on,
            "fresh": result.prompts_fresh,
            "resting": result.prompts_resting,
            "reserved": result.prompts_reserved,
            "retired": result.prompts_retired,
        },
        "answers": {
            "on": result.answers,
            "never_named": result.answers_never_named,
            "often_named": result.answers_often_named,
            "often": OFTEN,
            "exposed_share": result.exposed,
            "median_named": result.median_named,
            "most_named": result.most_named,
            "self_naming": result.answers_telling,
            "withheld": result.answers_withheld,
            "named_by_a_vote": result.named_by_a_vote,
            "named": named_groups(result),
        },
        "learning": [
            {"share": share, "votes": one_block, "votes_from_50_blocks": many}
            for share, one_block, many in result.learning
        ],
        "rules": {name: getattr(rules, name) for name in rules.__struct_fields__},
    }


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

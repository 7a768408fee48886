"""What pages and the JSON interface report: the validity of the board, the bank, and the settings in force."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from tiltyard.arena import (
    OFTEN,
    SHADOW_PHASE,
    BankExposure,
    ContestedModel,
    Policy,
    ValidityReport,
    WeeklyReport,
    bank_exposure,
)
from tiltyard.arena.store import KeptWeek
from tiltyard.arena.study import Snapshot, Study
from tiltyard.render import plural
from tiltyard.reports import bands
from tiltyard.site.leaderboard import hidden_figures, public_board
from tiltyard.site.openapi import BankBody
from tiltyard.site.site import Site

PUBLIC_IN_SHADOW = ("since", "until", "phase", "votes", "voters", "blind", "events", "flags", "exclusions")


def out_of_bounds(report: WeeklyReport) -> list[tuple[str, str]]:
    """What the report found that should not be so: the section that tells more, and a sentence."""
    fair, churn = report.coverage_fairness, report.top_churn
    unfair = sum(not one.within for one in fair.models)
    thin = sum(pair.completeness < 1.0 for pair in report.pair_completeness)
    counted = (
        ("fairness", unfair, "model", "shown too often or too rarely"),
        ("pairs", thin, "adjacent pair", "short of votes"),
        ("confidence", len(report.confidence_stability.left_band), "model", "outside the band of a week ago"),
        ("churn", churn.beyond_bands, "swap", "of ranks beyond what the bands explain"),
        ("flags", len(report.quality), "model", "with many both-bad votes"),
    )
    return [(where, f"{plural(number, what)} {rest}") for where, number, what, rest in counted if number]


class RatingBand(msgspec.Struct, frozen=True):
    """A model that was on the board at both ends."""

    model: str
    rating_before: float | None
    deviation_before: float | None
    rating: float
    deviation: float
    left_band: bool


class SwapBlocks(msgspec.Struct, frozen=True):
    """How many address blocks it takes to swap two neighbours."""

    above: str
    below: str
    blocks: int


class LiveValidityReport(ValidityReport, frozen=True, kw_only=True):
    """`GET /api/v1/validity`, as of now; in phase 1, null is what is not public then."""

    bands: tuple[RatingBand, ...]
    """Every model's band at the start and now."""
    contested: tuple[ContestedModel, ...]
    """Models whose latest votes differ from all earlier ones by more than chance explains, for an operator to look
    into."""
    blocks_to_swap: tuple[SwapBlocks, ...]
    """How many address blocks it takes to swap two neighbours; empty if votes have none."""


class WeekAnswer(ValidityReport, frozen=True, kw_only=True):
    """`GET /api/v1/validity/weeks/{week}`: the report of a finished week."""

    week: str
    """Such as `2026-W07` (ISO 8601, UTC)."""
    written_at: int
    """When (microseconds)."""


def validity_values(study: Study) -> LiveValidityReport:
    """What the page shows: the report, and every model's band at the start of the week and now."""
    report = study.weekly
    facts = replace(report.facts(), board=public_board(report.board))
    answer = LiveValidityReport(
        **msgspec.structs.asdict(facts),
        bands=tuple(
            RatingBand(
                row.model,
                before.rating if before else None,
                before.deviation if before else None,
                now.rating,
                now.deviation,
                row.model in report.confidence_stability.left_band,
            )
            for row, before, now in bands(report)
        ),
        contested=study.contested,
        blocks_to_swap=tuple(SwapBlocks(*pair, blocks) for pair, blocks in study.blocks_to_swap.items()),
    )
    if report.board.phase > SHADOW_PHASE:
        return answer
    return replace(answer, **dict.fromkeys(set(answer.__struct_fields__).difference(PUBLIC_IN_SHADOW)))


def kept_values(report: str, kept: KeptWeek) -> dict[str, Any]:
    """A `WeekAnswer`: a kept report as it was written, as far as its phase makes it public."""
    values, hidden = json.loads(report), hidden_figures(kept.phase)
    for row in values["board"]["rows"]:
        row |= dict.fromkeys(hidden & row.keys())
    return {**values, "week": kept.week, "written_at": kept.written_at}


def exposure_of(site: Site) -> BankExposure:
    """How much of the bank is known, up to what is published."""
    return site.observatory.look(lambda state, _: bank_exposure(state), "bank exposure")


def named_groups(exposure: BankExposure) -> list[dict[str, Any]]:
    """How many answers were named how often, in groups: the last one has no end."""
    ends = [start - 1 for start, _ in exposure.named_groups[1:]]
    groups = zip(exposure.named_groups, [*ends, None], strict=True)
    return [{"at_least": start, "at_most": end, "answers": answers} for (start, answers), end in groups]


def bank_values(site: Site, snapshot: Snapshot) -> BankBody:
    """What the page shows, as plain values."""
    result, rules = exposure_of(site), snapshot.policy.bank
    return BankBody(
        seq=snapshot.seq,
        votes=result.votes,
        prompts={
            name: getattr(result, f"prompts_{name}") for name in ("on", "fresh", "resting", "reserved", "retired")
        },
        answers={
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
        learning=[dict(zip(("share", "votes", "votes_from_50_blocks"), row, strict=True)) for row in result.learning],
        rules=msgspec.to_builtins(rules),
    )


def settings_values(policy: Policy) -> Mapping[str, str]:
    """Every setting by its dotted name with underscores, as used in texts; shares are percentages."""
    flat = {name.replace(".", "_"): value for name, value in flat_settings(policy).items()}
    shares = {name: value for name, value in flat.items() if isinstance(value, float) and 0.0 < value < 1.0}
    return {
        **{name: written(value) for name, value in flat.items()},
        **{f"{name}_percent": f"{100 * value:g} %" for name, value in shares.items()},
        "pair_floor_per_prompt": f"{policy.adjacent_floor_votes / policy.adjacent_floor_prompts:g}",
        "undo": str(policy.undo_seconds),
        "expires_hours": f"{policy.matchup_expires_seconds / 3600:g}",
    }


def flat_settings(policy: Policy) -> dict[str, Any]:
    """Every setting of a policy by its dotted name, in the policy's own order."""

    def flat(values: Mapping[str, Any], before: str) -> Iterator[tuple[str, Any]]:
        for name, value in values.items():
            yield from flat(value, f"{before}{name}.") if isinstance(value, dict) else [(f"{before}{name}", value)]

    return dict(flat(msgspec.to_builtins(policy), ""))


def written(value: object) -> str:
    """A value as people read it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ", ".join(value) or "none"
    return f"{value:,g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)

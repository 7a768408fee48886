"""`simulate`: voters of known tastes drive the arena's engine, or an attack on a model does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import msgspec

from tiltyard.arena.simulation import (
    Attack,
    AttackKind,
    LabResult,
    LabSettings,
    RecordingArena,
    SimulationResult,
    SimulationSettings,
    keep_log,
    simulate,
)
from tiltyard.arena.simulation.attack_lab import attack_lab
from tiltyard.verbs.arena import shown_url
from tiltyard.verbs.policy import read_policy_file
from tiltyard.verbs.rendered import Rendered


def simulate_votes(
    policy: Path | None, db: str | None, note: Callable[[str], None], attack: tuple[str, float] | None, **values: Any
) -> Rendered:
    """Let simulated voters over known strengths drive the engine, and say how fast and how truly it ranks.

    With `db` the log is kept in a new arena there.
    """
    settings = SimulationSettings(
        **values,
        attack=None if attack is None else Attack(cast("AttackKind", attack[0]), attack[1]),
        policy=read_policy_file(policy),
    )
    engine = RecordingArena(settings.seed) if db is not None else None
    result = simulate(settings, engine)
    if engine is not None and db is not None:
        keep_log(engine.events, db)
        note(f"kept {len(engine.events):,} events at {shown_url(db)}")
    return Rendered(result, _result_table(result))


def simulate_attack(policy: Path | None, defences: str, values: dict[str, Any]) -> Rendered:
    """What an attack on a model costs and how far it gets, with the defences on, off or both."""
    settings = LabSettings(**values, policy=read_policy_file(policy))
    sides = {"off": (False,), "on": (True,), "both": (False, True)}[defences]
    results = [attack_lab(settings, defended=side) for side in sides]
    return Rendered({"settings": values, "results": results}, _lab_table(settings, results))


def _lab_table(settings: LabSettings, result: list[LabResult]) -> str:
    def votes(number: int | None) -> str:
        return "not reached" if number is None else f"{number:,}"

    columns = [
        [
            "on" if one.defended else "off",
            f"{one.on_target:,} of {one.attack_votes:,}",
            f"{one.passed:,}",
            f"{one.points:+.1f}",
            f"{one.points_per_vote:+.3f}",
            votes(one.votes_for_places[1]),
            votes(one.votes_for_places[5]),
            votes(one.votes_to_leave_range),
            f"{100 * one.honest_weight_lost:.1f} %",
            f"{100 * one.honest_voters_halved:.2f} %",
            ", ".join(map(str, one.blocks_to_swap[:9])) if one.defended else "–",
            *(votes(number) for number in (one.votes_to_learn or {}).values()),
        ]
        for one in result
    ]
    names = [
        *("defences", "votes that reach the target", "pairs passed over", "points gained", "points per vote"),
        *("votes for +1 place", "votes for +5 places", "votes to leave the rank range", "honest weight lost"),
        *("honest voters who lose half", "blocks to swap neighbours"),
        *(f"votes to know {100 * share:.0f} % of its answers" for share in result[0].votes_to_learn or ()),
    ]
    head = (
        f"{settings.attack}: {settings.attack_votes:,} votes from {settings.blocks} address blocks in the last "
        f"{settings.days} of 30 days, against {settings.votes:,} honest votes on {settings.models} models"
    )
    width = [max(map(len, column)) for column in (names, *columns)]
    rows = zip(names, *columns, strict=True)
    lines = ["  ".join(f"{cell:<{size}}" for cell, size in zip(row, width, strict=True)).rstrip() for row in rows]
    return "\n".join([head, "", *lines])


def _result_table(result: SimulationResult) -> str:
    def number(value: float | None, digits: int = 3) -> str:
        return "–" if value is None else f"{value:.{digits}f}"

    least, most = result.exposure_targets
    targets = f"{least:.1f}" if most - least < 0.05 else f"{least:.1f} to {most:.1f}"
    ranges = "–"
    if result.ranks_hold is not None:
        end = "all hold it at the end" if result.ranks_hold else "not all hold it at the end"
        ranges = f"{end}; one was wrong at {result.looks_with_a_wrong_range} of {result.looks} looks"
    rows = [
        ("models, prompts, votes", f"{result.models}, {result.prompts}, {result.votes:,} of {result.served:,} served"),
        ("Kendall tau to the truth", f"{number(result.kendall_tau)} official order"),
        ("", f"{number(result.kendall_tau_bradley_terry)} Bradley–Terry on the same votes"),
        ("95 % intervals that hold it", f"{number(result.interval_coverage)} Bradley–Terry"),
        ("", f"{number(result.deviation_coverage)} rating ± 1.96 Glicko deviations"),
        ("ranges of ranks", ranges),
        (
            "exposure in tolerance",
            f"{result.in_tolerance} of {result.models} models in the last window, of their target ({targets}): an even "
            "share, or what the contender lane gave if that is more",
        ),
        ("", f"{result.in_tolerance_of_even_share} of {result.models}, of 2W/M ({result.even_share:.1f})"),
        ("beyond ±20 %", ", ".join(result.beyond_20_percent) or "nobody"),
        ("duplicates in flight", f"{100 * result.in_flight_duplicates:.2f} % of matchups"),
        ("prompt diversity broken", f"{result.diversity_broken} times"),
        ("lanes", ", ".join(f"{lane} {100 * share:.1f} %" for lane, share in result.lane_shares.items())),
        *_contender_rows(result),
        ("side A", f"{100 * result.side_a_share:.1f} %"),
        ("established", f"{result.established} of {result.models} models"),
        ("established by votes", ", ".join(f"{p.votes:,}: {p.established}" for p in result.curve[1::2])),
        ("prompt coverage by votes", ", ".join(f"{p.votes:,}: {p.prompt_coverage:.2f}" for p in result.curve[1::4])),
        ("largest share of traffic", f"{100 * result.largest_traffic_share:.1f} % of any 200 matchups in a row"),
    ]
    if (seen := result.seen_again) is not None:
        by = f"{100 * seen.pair_by_visitor:.1f} % by the visitor, {100 * seen.pair_by_block:.1f} % by the block"
        rows.append(("pair seen before", f"{by}; on the same prompt {100 * seen.same_page:.2f} %"))
    rows += _badge_rows(result)
    if result.late_model is not None:
        late = result.late_model
        when = late.votes_until_established
        rows.append(
            (
                "the late model",
                f"took at most {100 * late.largest_traffic_share:.1f} % of the traffic, "
                + ("was not established" if when is None else f"was established after {when:,} votes"),
            )
        )
    for name, fact in ({} if result.attack is None else msgspec.to_builtins(result.attack)).items():
        if isinstance(fact, dict):  # votes by the ranks gained
            fact = ", ".join(f"{ranks} up: {'never' if votes is None else votes}" for ranks, votes in fact.items())
        if fact is not None:
            rows.append((f"attack: {name.replace('_', ' ')}", str(fact)))
    rows += [("tau by votes", ", ".join(f"{p.votes:,}: {number(p.kendall_tau, 2)}" for p in result.curve[::4]))]
    width = max(len(name) for name, _ in rows)
    return "\n".join([*(f"{name:<{width}}  {text}" for name, text in rows), *result.remarks])


def _contender_rows(result: SimulationResult) -> list[tuple[str, str]]:
    """Whom contenders met, and how often neighbours at the top did."""
    lane = result.contender_lane
    if lane is None:
        return []
    above = "" if lane.above is None else f" ({100 * lane.above:.1f} % of these above where either was possible)"
    pairs = result.neighbour_pairs
    rows = [
        (
            "contender lane",
            f"neighbour {100 * lane.neighbour:.1f} %{above}, other contender {100 * lane.close:.1f} %, "
            f"challenger {100 * lane.challenger:.1f} % of {lane.served:,}",
        ),
        ("", f"{100 * lane.below_floor:.1f} % were neighbours below their floor of votes"),
        ("anchors by rank", ", ".join(f"{rank}: {number:,}" for rank, number in lane.anchors.items())),
        ("challengers by rank", ", ".join(f"{rank}: {number:,}" for rank, number in lane.challengers.items())),
        ("neighbours met", ", ".join(f"{p.ranks[0]}–{p.ranks[1]}: {p.met:,}" for p in pairs)),
        ("their decisive votes", ", ".join(f"{p.ranks[0]}–{p.ranks[1]}: {p.decisive:,}" for p in pairs)),
    ]
    return [(name, text) for name, text in rows if text]


def _badge_rows(result: SimulationResult) -> list[tuple[str, str]]:
    """How many models were called Stable, whether rightly, and when the board became officially stable."""
    badges = result.badges
    if badges is None:
        return []
    first = "none yet" if badges.first_stable is None else f"the first seen after {badges.first_stable:,} votes"
    off = f"{badges.stable_off} of {badges.stable_seen} seen at {result.looks} looks stood more than one place off"
    if badges.label_first is None:
        label = f"not yet: {', '.join(badges.unmet)}"
    else:
        label = f"first seen after {badges.label_first:,} votes, at {badges.label_looks} of {result.looks} looks"
    return [
        ("stable", f"{badges.stable} of {result.models} models, {first}"),
        *([("", off)] if badges.stable_seen else []),
        ("officially stable", label),
    ]

"""`tiltyard arena simulate`: voters of known tastes drive the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import msgspec
import typer

from tiltyard.cli.arena_options import PolicyOption, need_arena, read_policy_file, shown_url
from tiltyard.cli.options import rare
from tiltyard.cli.output import note, say
from tiltyard.errors import OptionError

if TYPE_CHECKING:
    from pathlib import Path

    from tiltyard.arena.simulation import SimulationResult
    from tiltyard.arena.simulation.attack_lab import LabResult, LabSettings
    from tiltyard.arena.simulation.population import AttackKind

SHARES_OF_VOTERS = ("apathetic", "one-sided", "rigging", "sybil")
ON_A_MODEL = ("hunter", "hunter-long", "undo-filter", "carrier", "crowd-like", "dictionary", "rival", "random")
AttackName = Literal[
    "apathetic",
    "one-sided",
    "rigging",
    "sybil",
    "hunter",
    "hunter-long",
    "undo-filter",
    "carrier",
    "crowd-like",
    "dictionary",
    "rival",
    "random",
]


def simulate_command(
    models: Annotated[int, typer.Option(min=2, max=10_000, help="Models in the arena.")] = 38,
    prompts: Annotated[int, typer.Option(min=1, max=1_000_000, help="Prompts in the arena.")] = 15,
    votes: Annotated[int, typer.Option(min=1, max=1_000_000_000, help="Votes to cast.")] = 20_000,
    in_flight: Annotated[int, rare(min=1, max=1_000_000, help="Matchups open at any time.")] = 50,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything.")] = 0,
    sd: Annotated[float, typer.Option(min=0, max=10_000, help="Spread of the true strengths, in Elo points.")] = 180.0,
    tie_rate: Annotated[float, typer.Option(min=0, max=0.9, help="Share of ties.")] = 0.08,
    both_bad_rate: Annotated[float, rare(min=0, max=0.9, help="Share of both-bad votes.")] = 0.05,
    noise: Annotated[float, rare(min=0, max=1, help="Share of honest votes that are random.")] = 0.0,
    skip_rate: Annotated[
        float | None, rare(min=0, max=0.9, help="Share of matchups that are skipped; 0.02 if not given.")
    ] = None,
    visitors: Annotated[
        Literal["anywhere", "homes", "classes", "mixed"],
        rare(help="Where visitors are: at homes, in classes of thirty, or mixed, pairs wait for them."),
    ] = "anywhere",
    taste_sd: Annotated[
        float,
        rare(min=0, max=10_000, help="How much people differ in what they make of each model, in Elo points."),
    ] = 0.0,
    voters: Annotated[
        int,
        typer.Option(
            min=0,
            max=100_000_000,
            help="Regular voters, who come again and again; 0: every session is of somebody new.",
        ),
    ] = 0,
    diligence: Annotated[
        Literal["equal", "lognormal", "zipf"], rare(help="How unequally often regular voters come.")
    ] = "lognormal",
    looks: Annotated[
        int, rare(min=0, max=10_000, help="How often the published ranges of ranks are looked at on the way.")
    ] = 20,
    attack: Annotated[
        AttackName | None,
        typer.Option(help="Who else votes. The first four are a share of all voters; the others an attack on a model."),
    ] = None,
    attack_share: Annotated[
        float, rare(min=0.001, max=0.9, help="Their share of the votes: apathetic, one-sided, rigging, sybil.")
    ] = 0.1,
    attack_votes: Annotated[int, typer.Option(min=1, max=1_000_000_000, help="Votes of an attack on a model.")] = 512,
    attack_days: Annotated[int, rare(min=1, max=30, help="Its days, the last of thirty.")] = 7,
    blocks: Annotated[int, rare(min=1, max=1_000_000, help="Address blocks that it comes from.")] = 50,
    defences: Annotated[
        Literal["on", "off", "both"] | None,
        rare(help="Whether pairs wait and votes are weighed in an attack on a model; both: side by side."),
    ] = None,
    late_model: Annotated[
        bool, rare("--late-model", help="Let the last model enter when half of the votes are cast.")
    ] = False,
    policy: PolicyOption = None,
    db: Annotated[
        str | None, typer.Option("--db", metavar="URL", help="Keep the log in a new arena at this URL.")
    ] = None,
    format: Annotated[Literal["table", "json"], typer.Option(help="For people or for programs.")] = "table",
) -> None:
    """Let simulated voters over known strengths drive the engine, and say how fast and how truly it ranks.

    With an attack on a model (`--attack hunter`, …): what it costs and how far it gets, with the defences on and off.
    """
    need_arena()
    if attack is not None and attack not in SHARES_OF_VOTERS:
        lab: dict[str, Any] = {"models": models, "prompts": prompts, "votes": votes, "seed": seed, "sd": sd}
        lab |= {"attack": attack, "attack_votes": attack_votes, "blocks": blocks, "days": attack_days}
        if db is not None or late_model or voters or visitors != "anywhere" or skip_rate is not None:
            raise OptionError(
                f"--attack {attack} takes neither --db, --late-model, --voters, --visitors nor --skip-rate."
            )
        if taste_sd:
            lab["taste_sd"] = taste_sd
        _attack_on_a_model(lab, policy, defences or "both", format)
        return
    if defences is not None:
        raise OptionError(f"--defences needs an attack on a model: --attack {', '.join(ON_A_MODEL)}.")
    from tiltyard.arena.simulation import SimulationSettings, simulate
    from tiltyard.arena.simulation.ledger import RecordingArena, keep_log
    from tiltyard.arena.simulation.population import Attack

    settings = SimulationSettings(
        models=models,
        prompts=prompts,
        votes=votes,
        in_flight=in_flight,
        seed=seed,
        sd=sd,
        tie_rate=tie_rate,
        both_bad_rate=both_bad_rate,
        noise=noise,
        skip_rate=0.02 if skip_rate is None else skip_rate,
        visitors=visitors,
        taste_sd=taste_sd,
        voters=voters,
        diligence=diligence,
        looks=looks,
        attack=None if attack is None else Attack(cast("AttackKind", attack), attack_share),
        late_model=late_model,
        policy=read_policy_file(policy),
    )
    engine = RecordingArena(settings.seed) if db is not None else None
    result = simulate(settings, engine)
    if engine is not None and db is not None:
        keep_log(engine.events, db)
        note(f"kept {len(engine.events):,} events at {shown_url(db)}")
    say(_result_json(result) if format == "json" else _result_table(result))


def _attack_on_a_model(values: dict[str, Any], policy: Path | None, defences: str, format: str) -> None:
    from tiltyard.arena.simulation.attack_lab import LabSettings, attack_lab
    from tiltyard.files import json_text

    settings = LabSettings(**values, policy=read_policy_file(policy))
    sides = {"off": (False,), "on": (True,), "both": (False, True)}[defences]
    result = [attack_lab(settings, defended=side) for side in sides]
    if format == "json":
        say(json_text({"settings": values, "results": result}).rstrip())
    else:
        say(_lab_table(settings, result))


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


def _result_json(result: SimulationResult) -> str:
    from tiltyard.files import json_text

    return json_text(result).rstrip()


def _result_table(result: SimulationResult) -> str:
    def number(value: float | None, digits: int = 3) -> str:
        return "–" if value is None else f"{value:.{digits}f}"

    rows = [
        ("models, prompts, votes", f"{result.models}, {result.prompts}, {result.votes:,} of {result.served:,} served"),
        ("Kendall tau to the truth", f"{number(result.kendall_tau)} official order"),
        ("", f"{number(result.kendall_tau_bradley_terry)} Bradley–Terry on the same votes"),
        ("95 % intervals that hold it", f"{number(result.interval_coverage)} Bradley–Terry"),
        ("", f"{number(result.deviation_coverage)} rating ± 1.96 Glicko deviations"),
        ("ranges of ranks", _ranges_text(result)),
        *_exposure_rows(result),
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
    rows += [*_seen_again_rows(result), *_badge_rows(result)]
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
    rows += _attack_rows(result)
    rows += [("tau by votes", ", ".join(f"{p.votes:,}: {number(p.kendall_tau, 2)}" for p in result.curve[::4]))]
    width = max(len(name) for name, _ in rows)
    return "\n".join([*(f"{name:<{width}}  {text}" for name, text in rows), *result.remarks])


def _exposure_rows(result: SimulationResult) -> list[tuple[str, str]]:
    """How many models are in tolerance of the target that is used, and of the policy's own."""
    least, most = result.exposure_targets
    targets = f"{least:.1f}" if most - least < 0.05 else f"{least:.1f} to {most:.1f}"
    return [
        (
            "exposure in tolerance",
            f"{result.in_tolerance} of {result.models} models in the last window, of their target ({targets}): an even "
            "share, or what the contender lane gave if that is more",
        ),
        ("", f"{result.in_tolerance_of_even_share} of {result.models}, of 2W/M ({result.even_share:.1f})"),
    ]


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


def _seen_again_rows(result: SimulationResult) -> list[tuple[str, str]]:
    """What visitors notice of pairs that wait."""
    seen = result.seen_again
    if seen is None:
        return []
    by = f"{100 * seen.pair_by_visitor:.1f} % by the visitor, {100 * seen.pair_by_block:.1f} % by the block"
    return [("pair seen before", f"{by}; on the same prompt {100 * seen.same_page:.2f} %")]


def _ranges_text(result: SimulationResult) -> str:
    """Whether the published ranges of ranks held, at the end and at every look."""
    if result.ranks_hold is None:
        return "–"
    end = "all hold it at the end" if result.ranks_hold else "not all hold it at the end"
    return f"{end}; one was wrong at {result.looks_with_a_wrong_range} of {result.looks} looks"


def _attack_rows(result: SimulationResult) -> list[tuple[str, str]]:
    if result.attack is None:
        return []
    facts = msgspec.to_builtins(result.attack).items()
    return [(f"attack: {name.replace('_', ' ')}", _attack_text(value)) for name, value in facts if value is not None]


def _attack_text(value: object) -> str:
    """A fact about the attack as text; votes by the ranks gained."""
    if not isinstance(value, dict):
        return str(value)
    return ", ".join(f"{ranks} up: {'never' if votes is None else votes}" for ranks, votes in value.items())

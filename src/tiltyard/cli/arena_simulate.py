"""`tiltyard arena simulate`: voters of known tastes drive the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tiltyard.cli.arena_options import PolicyOption, need_arena, read_policy_file, shown_url
from tiltyard.cli.output import note

if TYPE_CHECKING:
    from tiltyard.arena.simulation import SimulationResult


def simulate_command(
    models: Annotated[int, typer.Option(min=2, help="Models in the arena.")] = 38,
    prompts: Annotated[int, typer.Option(min=1, help="Prompts in the arena.")] = 15,
    votes: Annotated[int, typer.Option(min=1, help="Votes to cast.")] = 20_000,
    in_flight: Annotated[int, typer.Option(min=1, help="Matchups open at any time.")] = 50,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything.")] = 0,
    sd: Annotated[float, typer.Option(min=0, help="Spread of the true strengths, in Elo points.")] = 180.0,
    tie_rate: Annotated[float, typer.Option(min=0, max=0.9, help="Share of ties.")] = 0.08,
    both_bad_rate: Annotated[float, typer.Option(min=0, max=0.9, help="Share of both-bad votes.")] = 0.05,
    noise: Annotated[float, typer.Option(min=0, max=1, help="Share of honest votes that are random.")] = 0.0,
    taste_sd: Annotated[
        float, typer.Option(min=0, help="How much people differ in what they make of each model, in Elo points.")
    ] = 0.0,
    voters: Annotated[
        int, typer.Option(min=0, help="Regular voters, who come again and again; 0: every session is of somebody new.")
    ] = 0,
    diligence: Annotated[
        Literal["equal", "lognormal", "zipf"], typer.Option(help="How unequally often regular voters come.")
    ] = "lognormal",
    looks: Annotated[
        int, typer.Option(min=0, help="How often the published ranges of ranks are looked at on the way.")
    ] = 20,
    attack: Annotated[
        Literal["apathetic", "one-sided", "rigging", "sybil"] | None, typer.Option(help="Who else votes.")
    ] = None,
    attack_share: Annotated[float, typer.Option(min=0.001, max=0.9, help="Their share of the votes.")] = 0.1,
    late_model: Annotated[
        bool, typer.Option("--late-model", help="Let the last model enter when half of the votes are cast.")
    ] = False,
    policy: PolicyOption = None,
    db: Annotated[
        str | None, typer.Option("--db", metavar="URL", help="Keep the log in a new arena at this URL.")
    ] = None,
    format: Annotated[Literal["table", "json"], typer.Option(help="For people or for programs.")] = "table",
) -> None:
    """Let simulated voters over known strengths drive the engine, and say how fast and how truly it ranks."""
    need_arena()
    from tiltyard.arena.population import Attack
    from tiltyard.arena.simulation import SimulationSettings, simulate
    from tiltyard.arena.simulation.ledger import keep_log, recorder

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
        taste_sd=taste_sd,
        voters=voters,
        diligence=diligence,
        looks=looks,
        attack=None if attack is None else Attack(attack, attack_share),
        late_model=late_model,
        policy=read_policy_file(policy),
    )
    engine = recorder(settings) if db is not None else None
    result = simulate(settings, engine)
    if engine is not None and db is not None:
        keep_log(engine.events, db)
        note(f"kept {len(engine.events):,} events at {shown_url(db)}")
    typer.echo(_result_json(result) if format == "json" else _result_table(result))


def _result_json(result: SimulationResult) -> str:
    from tiltyard.boards.text import json_text

    return json_text(result.to_dict()).rstrip()


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


def _ranges_text(result: SimulationResult) -> str:
    """Whether the published ranges of ranks held, at the end and at every look."""
    if result.ranks_hold is None:
        return "–"
    end = "all hold it at the end" if result.ranks_hold else "not all hold it at the end"
    return f"{end}; one was wrong at {result.looks_with_a_wrong_range} of {result.looks} looks"


def _attack_rows(result: SimulationResult) -> list[tuple[str, str]]:
    if result.attack is None:
        return []
    from dataclasses import asdict

    facts = asdict(result.attack).items()
    return [(f"attack: {name.replace('_', ' ')}", _attack_text(value)) for name, value in facts if value is not None]


def _attack_text(value: object) -> str:
    """A fact about the attack as text; votes by the ranks gained."""
    if not isinstance(value, dict):
        return str(value)
    return ", ".join(f"{ranks} up: {'never' if votes is None else votes}" for ranks, votes in value.items())

"""`tiltyard arena simulate`: voters of known tastes drive the engine."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer

from tiltyard.cli.arena_options import PolicyOption, need_arena
from tiltyard.cli.options import rare
from tiltyard.cli.output import note, say
from tiltyard.errors import OptionError

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
        float, rare(min=0, max=10_000, help="How much people differ in what they make of each model, in Elo points.")
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
        from tiltyard.verbs.simulate import simulate_attack

        say(simulate_attack(policy, defences or "both", lab).render(format).rstrip())
        return
    if defences is not None:
        raise OptionError(f"--defences needs an attack on a model: --attack {', '.join(ON_A_MODEL)}.")
    from tiltyard.verbs.simulate import simulate_votes

    answer = simulate_votes(
        policy,
        db,
        note,
        attack=None if attack is None else (attack, attack_share),
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
        late_model=late_model,
    )
    say(answer.render(format).rstrip())

"""`tiltyard arena prompts`: which prompts are served, whose answers are public, and replacing exposed ones by fresh."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tiltyard.cli.arena_options import DEFAULT_DB, DbOption, need_arena
from tiltyard.cli.output import note, say
from tiltyard.errors import OptionError

if TYPE_CHECKING:
    from tiltyard.arena.events import AnyBody
    from tiltyard.arena.rotation import Rotation
    from tiltyard.arena.state import ArenaState

Action = Literal["list", "serve", "retire", "reserve", "rotate", "serve-answer", "hide-answer"]

SAID = {
    (True, False): "hidden",
    (True, True): "public: this arena is not blind",
    (False, False): "hidden for a week: pairs may wait",
    (False, True): "public",
}
"""The status of a prompt's answers, by whether it is served and whether they are public."""


def prompts_command(
    action: Annotated[
        Action,
        typer.Argument(
            help="list; serve, retire or reserve (keep for later, hidden) the prompts PROMPT…; rotate: retire the most "
            "shown ones and serve fresh ones instead; serve-answer or hide-answer the answers with these ids."
        ),
    ] = "list",
    names: Annotated[list[str] | None, typer.Argument(metavar="PROMPT", help="Ids of prompts, or answers.")] = None,
    db: DbOption = DEFAULT_DB,
    off: Annotated[
        list[str] | None,
        typer.Option(metavar="PROMPT", help="Retire this prompt: its answers become public; may be given again."),
    ] = None,
    on: Annotated[
        list[str] | None,
        typer.Option(metavar="PROMPT", help="Serve this prompt again; may be given again."),
    ] = None,
    keep: Annotated[
        int | None,
        typer.Option(
            min=2, max=1_000_000, metavar="N", help="rotate: have so many prompts on afterwards (default: as now)."
        ),
    ] = None,
    fresh_share: Annotated[
        float | None,
        typer.Option(min=0.0, max=1.0, help="rotate: replace this share of them (default: the policy's, 0.2)."),
    ] = None,
    seen_at_most: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=1_000_000_000,
            metavar="N",
            help="rotate: retire all with an answer shown so often (default: the policy's; 0: none).",
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what rotate would do; write nothing.")] = False,
    format: Annotated[Literal["table", "json"], typer.Option(help="For people, or for programs.")] = "table",
) -> None:
    """List the prompts with what is public of them; serve, retire, keep for later or rotate them.

    Answers are hidden while anybody can be voting on them. A week after a prompt was switched off, when no pair that
    was shown on it can wait any more, they are public with their authors; a prompt that is switched on again after that
    is no longer blind. (Where pairs do not wait, that is a minute.) A prompt that is kept for later stays hidden.
    """
    need_arena()
    from tiltyard.arena.blindness import lost_blindness
    from tiltyard.arena.events import PromptEnabled
    from tiltyard.arena.rotation import plan_rotation
    from tiltyard.arena.service import Arena
    from tiltyard.boards.text import json_text

    names = names or []
    if action in ("list", "rotate") and names:
        raise OptionError(f"{action} takes no ids. Leave out {names[0]!r}, or write `serve` or `retire` before it.")
    if action not in ("list", "rotate") and not names:
        raise OptionError(f"{action} needs the ids of what to switch. `tiltyard arena prompts` lists them.")
    if action != "rotate" and (keep, fresh_share, seen_at_most, dry_run) != (None, None, None, False):
        raise OptionError("--keep, --fresh-share, --seen-at-most and --dry-run belong to `prompts rotate`.")
    with Arena.open(db) as arena:
        bodies = [*_switches("retire", off or []), *_switches("serve", on or []), *_switches(action, names)]
        if action == "rotate":
            rotation = arena.read(
                lambda state: plan_rotation(state, keep=keep, fresh_share=fresh_share, seen_at_most=seen_at_most)
            )
            _say_rotation(rotation, dry_run=dry_run)
            bodies += [] if dry_run else [*_switches("retire", rotation.retire), *_switches("serve", rotation.serve)]
        served = [body.prompt_id for body in bodies if isinstance(body, PromptEnabled)]
        seen = arena.read(lambda state: [name for name in served if lost_blindness(state, name)])
        if bodies:
            arena.append(bodies)
        rows, withheld = arena.read(_rows), arena.read(lambda state: len(state.catalog.withheld()))
    for name in seen:
        note(
            f"{name} has lost its blindness: its answers were public with their authors, and anyone who kept them can "
            "tell who wrote what. To be blind again it needs new answers."
        )
    values = {"prompts": rows, "answers_withheld": withheld}
    say(json_text(values).rstrip() if format == "json" else _table(rows))
    if withheld and format == "table":
        note(
            f"{withheld} answers are not served: they contain their author's name, or were switched off "
            "(`arena screen` lists)"
        )


def _switches(action: str, names: list[str] | tuple[str, ...]) -> list[AnyBody]:
    """The events that switch these prompts or answers."""
    from tiltyard.arena import events as e

    match action:
        case "serve":
            return [e.PromptEnabled(prompt_id=name) for name in names]
        case "retire":
            return [e.PromptDisabled(prompt_id=name) for name in names]
        case "reserve":
            return [e.PromptReserved(prompt_id=name) for name in names]
        case "serve-answer":
            return [e.ResponseEnabled(response_id=name) for name in names]
        case "hide-answer":
            return [e.ResponseDisabled(response_id=name) for name in names]
    return []


def _say_rotation(rotation: Rotation, *, dry_run: bool) -> None:
    would = "would be " if dry_run else ""
    for verb, names in (("retired", rotation.retire), ("served from now on", rotation.serve)):
        if names:
            note(f"{len(names)} prompts {would}{verb}: {', '.join(names)}")
    if not rotation.serve:
        note(
            "no fresh prompts are kept for later. Import some: tiltyard arena import --reserve --prompts … --responses"
        )


def _rows(state: ArenaState) -> list[dict[str, object]]:
    from tiltyard.arena.blindness import public_prompts
    from tiltyard.arena.rotation import prompt_exposures

    catalog, tallies, public = state.catalog, state.tallies, public_prompts(state)
    votes = (tallies.rated_on.view.sum(axis=0) + tallies.both_bad_on.view.sum(axis=0)) // 2
    return [
        {
            "prompt_id": line.prompt_id,
            "served": catalog.prompt_enabled[number],
            "answers_public": number in public,
            "votes": int(votes[number]),
            "status": line.status,
            "most_shown": line.most_shown,
            "mean_shown": line.mean_shown,
        }
        for number, line in enumerate(prompt_exposures(state))
    ]


STATES = {"on": "on", "fresh": "on, fresh", "resting": "resting", "reserved": "for later", "retired": "off"}


def _table(rows: list[dict[str, object]]) -> str:
    lines = [("prompt", "state", "votes", "most shown", "answers")]
    lines += [
        (
            str(row["prompt_id"]),
            STATES[str(row["status"])],
            f"{row['votes']:,}",
            f"{row['most_shown']:,}",
            "hidden" if row["status"] == "reserved" else SAID[bool(row["served"]), bool(row["answers_public"])],
        )
        for row in rows
    ]
    widths = [max(len(line[column]) for line in lines) for column in range(4)]
    return "\n".join(
        f"{name:<{widths[0]}}  {state:<{widths[1]}}  {votes:>{widths[2]}}  {shown:>{widths[3]}}  {answers}"
        for name, state, votes, shown, answers in lines
    )

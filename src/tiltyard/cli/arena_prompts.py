"""`tiltyard arena prompts`: which prompts are served, whose answers are public, and the switch between the two."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tiltyard.cli.arena_options import DEFAULT_DB, DbOption, need_arena
from tiltyard.cli.output import note

if TYPE_CHECKING:
    from tiltyard.arena.events import AnyBody
    from tiltyard.arena.state import ArenaState

SAID = {
    (True, False): "hidden",
    (True, True): "public: this arena is not blind",
    (False, False): "hidden: may still be voted on",
    (False, True): "public",
}
"""The status of a prompt's answers, by whether it is served and whether they are public."""


def prompts_command(
    db: DbOption = DEFAULT_DB,
    off: Annotated[
        list[str] | None,
        typer.Option(metavar="PROMPT", help="Retire this prompt: its answers become public; may be given again."),
    ] = None,
    on: Annotated[
        list[str] | None,
        typer.Option(metavar="PROMPT", help="Serve this prompt again; may be given again."),
    ] = None,
    format: Annotated[Literal["table", "json"], typer.Option(help="For people, or for programs.")] = "table",
) -> None:
    """List the prompts with what is public of them, and switch them off or on.

    Answers are hidden while anybody can be voting on them. Once a prompt is off and its last open matchup is closed
    they are public with their authors, so a prompt that is switched on again after that is no longer blind.
    """
    need_arena()
    from tiltyard.arena.blindness import lost_blindness
    from tiltyard.arena.events import PromptDisabled, PromptEnabled
    from tiltyard.arena.service import Arena
    from tiltyard.boards.text import json_text

    off, on = off or [], on or []
    with Arena.open(db) as arena:
        seen = arena.read(lambda state: [name for name in on if lost_blindness(state, name)])
        bodies: list[AnyBody] = [
            *(PromptDisabled(prompt_id=name) for name in off),
            *(PromptEnabled(prompt_id=name) for name in on),
        ]
        if bodies:
            arena.append(bodies)
        rows = arena.read(_rows)
    for name in seen:
        note(
            f"{name} has lost its blindness: its answers were public with their authors, and anyone who kept them can "
            "tell who wrote what. To be blind again it needs new answers."
        )
    typer.echo(json_text({"prompts": rows}).rstrip() if format == "json" else _table(rows))


def _rows(state: ArenaState) -> list[dict[str, object]]:
    from tiltyard.arena.blindness import public_prompts

    catalog, tallies, public = state.catalog, state.tallies, public_prompts(state)
    votes = (tallies.rated_on.view.sum(axis=0) + tallies.both_bad_on.view.sum(axis=0)) // 2
    return [
        {
            "prompt_id": card.prompt_id,
            "served": catalog.prompt_enabled[number],
            "answers_public": number in public,
            "votes": int(votes[number]),
        }
        for number, card in enumerate(catalog.prompts)
    ]


def _table(rows: list[dict[str, object]]) -> str:
    lines = [("prompt", "state", "votes", "answers")]
    lines += [
        (
            str(row["prompt_id"]),
            "on" if row["served"] else "off",
            f"{row['votes']:,}",
            SAID[bool(row["served"]), bool(row["answers_public"])],
        )
        for row in rows
    ]
    widths = [max(len(line[column]) for line in lines) for column in range(3)]
    return "\n".join(
        f"{name:<{widths[0]}}  {state:<{widths[1]}}  {votes:>{widths[2]}}  {answers}"
        for name, state, votes, answers in lines
    )

"""`tiltyard arena prompts`, `invite` and `screen`: what is served, who may vote, and who votes oddly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tiltyard.cli.arena_options import DEFAULT_DB, DbOption, OutOption, need_arena
from tiltyard.cli.output import note, say
from tiltyard.errors import OptionError
from tiltyard.pages.figures import plural

if TYPE_CHECKING:
    from tiltyard.arena.events import AnyBody
    from tiltyard.arena.rotation import Rotation
    from tiltyard.arena.state import ArenaState

LOOPBACK = ("127.0.0.1", "localhost", "::1")
"""Hosts whose links nobody else can open."""

Action = Literal["list", "serve", "reserve", "rotate", "serve-answer", "hide-answer"]

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
            help="list; serve or reserve (keep for later, hidden) the prompts PROMPT…; rotate: retire the most "
            "shown ones and serve fresh ones instead; serve-answer or hide-answer the answers with these ids."
        ),
    ] = "list",
    names: Annotated[list[str] | None, typer.Argument(metavar="PROMPT", help="Ids of prompts, or answers.")] = None,
    db: DbOption = DEFAULT_DB,
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
    """List the prompts with what is public of them; serve, keep for later or rotate them. `arena retire` retires them.

    Answers are hidden while anybody can be voting on them. A week after a prompt was switched off, when no pair that
    was shown on it can wait any more, they are public with their authors; a prompt that is switched on again after that
    is no longer blind. (Where pairs do not wait, that is a minute.) A prompt that is kept for later stays hidden.
    """
    need_arena()
    from tiltyard.arena.blindness import lost_blindness
    from tiltyard.arena.events import PromptEnabled
    from tiltyard.arena.rotation import plan_rotation
    from tiltyard.arena.service import Arena
    from tiltyard.files import json_text

    names = names or []
    if action in ("list", "rotate") and names:
        raise OptionError(f"{action} takes no ids. Leave out {names[0]!r}, or write `serve` before it.")
    if action not in ("list", "rotate") and not names:
        raise OptionError(f"{action} needs the ids of what to switch. `tiltyard arena prompts` lists them.")
    if action != "rotate" and (keep, fresh_share, seen_at_most, dry_run) != (None, None, None, False):
        raise OptionError("--keep, --fresh-share, --seen-at-most and --dry-run belong to `prompts rotate`.")
    with Arena.open(db) as arena:
        bodies = _switches(action, names)
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
            f"not served: {plural(withheld, 'answer')}, for an author's name in it, or switched off, withdrawn or "
            "erased (`arena screen` lists)"
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


def invite_command(
    db: DbOption = DEFAULT_DB,
    n: Annotated[int | None, typer.Option("--n", min=1, max=100_000, help="Make this many invitations.")] = None,
    out: OutOption = None,
    uses: Annotated[
        int,
        typer.Option(
            min=0, max=1_000_000, help="How many visitors may use each; 0 is any number, for one link to many."
        ),
    ] = 1,
    label: Annotated[str, typer.Option(help="What they are for; they can be revoked by it.")] = "",
    days: Annotated[
        int | None, typer.Option(min=1, max=3650, help="Days until they expire; without it, never.")
    ] = None,
    public_url: Annotated[
        str, typer.Option(metavar="URL", help="The address of the site, with which the links begin.")
    ] = "http://127.0.0.1:8000",
    revoke: Annotated[
        str | None, typer.Option(metavar="NAME", help="Revoke the invitation with this name, or all with this label.")
    ] = None,
    format: Annotated[Literal["table", "json"], typer.Option(help="How the list is printed.")] = "table",
) -> None:
    """List the invitations of an arena, make new ones, or revoke some.

    A link is shown once, when it is made: the database keeps only its hash. Whoever opens a link and starts uses it,
    and votes from then on in that browser. Invitations matter once the arena is closed: `arena settings
    --invitation-only`. A revoked invitation ends the voting of those who used it; their votes stay.
    """
    need_arena()
    from urllib.parse import urlsplit

    from tiltyard.arena.service import clock
    from tiltyard.arena.store.checkpoints import load_state
    from tiltyard.arena.store.forgetting import open_store
    from tiltyard.arena.store.invitations import all_invitations, make_invitations, revoke_invitations
    from tiltyard.arena.units import DAY
    from tiltyard.files import json_text, write_private
    from tiltyard.web.settings import check_web_address

    if n is not None and revoke is not None:
        raise OptionError("--n and --revoke are two different things. Give one of them.")
    site = check_web_address(public_url)

    def keep(secrets: list[str]) -> None:
        links = "".join(f"{site}/invited/{secret}\n" for secret in secrets)
        if out is None:
            say(links, end="")
        else:
            write_private(out, links.encode())
            made = plural(len(secrets), "link")
            note(f"wrote {made} to {out}. Whoever has one may vote; keep the file safe, or delete it.")

    store = open_store(db)
    try:
        now = clock()
        if revoke is not None:
            note(f"revoked: {revoke_invitations(store, revoke, now)}.")
        elif n is not None:
            until = None if days is None else now + days * DAY
            make_invitations(store, n, now=now, most=uses, label=label, expires_at=until, keep=keep)
            if urlsplit(site).hostname in LOOPBACK:
                note("these links work on this machine only. For others: --public-url http://NAME-OR-ADDRESS:PORT")
            with store.database.read() as connection:
                state, _ = load_state(connection)
            if not state.policy.entry.invitation_only:
                note("the arena is open to all: close it with `tiltyard arena settings --invitation-only`.")
            return
        result = all_invitations(store)
    finally:
        store.close()
    rows = [
        {"name": one.name, "label": one.label, "status": one.status(now), "uses": one.uses, "most": one.most}
        for one in result
    ]
    if format == "json":
        say(json_text({"invitations": rows}).rstrip())
        return
    for row in rows:
        most = row["most"] or "any number"
        say(f"{row['name']}  {row['status']:<8}  used {row['uses']} of {most}  {row['label']}".rstrip())
    if not rows:
        say("no invitations. Make some: tiltyard arena invite --n 50 --out links.txt")


def screen_command(
    db: DbOption = DEFAULT_DB,
    exclude: Annotated[
        bool, typer.Option("--exclude", help="Carry out every proposed exclusion, not only those the policy orders.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what was found; write nothing.")] = False,
) -> None:
    """Flag sessions that vote oddly and answers that name their model; propose which votes should not count."""
    need_arena()
    from tiltyard.arena.screening import screen
    from tiltyard.arena.service import Arena

    with Arena.open(db) as arena:
        result = arena.read(lambda state: screen(arena.store, state, exclude=exclude))
        for flag in result.voters:
            say(f"session {flag.voter}: {flag.flag}: {flag.detail}{' (sure)' if flag.sure else ''}")
        for answer in result.answers:
            done = "released" if answer.response_id in result.released else "held" if answer.held else "served"
            say(f"answer {answer.response_id} of {answer.model} ({done}): “{answer.phrase}”")
        for line in result.lines:
            say(line)
        for proposal in result.proposals:
            say(f"proposed: exclude {len(proposal.matchup_ids):,} votes: {proposal.reason}")
        for model in result.contested:
            say(f"model {model.model}: contested: {model.sentence}")
        if not (result.voters or result.answers or result.contested):
            say("nothing odd was found")
        if result.events and not dry_run:
            arena.append(result.events)
            note(f"{len(result.events)} events written")

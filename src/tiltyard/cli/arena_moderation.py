"""`tiltyard arena prompts`, `invite` and `screen`: what is served, who may vote, and who votes oddly."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from tiltyard.cli.arena_options import DEFAULT_DB, DbOption, OutOption, need_arena
from tiltyard.cli.output import note, say
from tiltyard.errors import OptionError
from tiltyard.pages import plural

Action = Literal["list", "serve", "reserve", "rotate", "serve-answer", "hide-answer"]


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
    from tiltyard.verbs.operate import switch_prompts

    names = names or []
    if action in ("list", "rotate") and names:
        raise OptionError(f"{action} takes no ids. Leave out {names[0]!r}, or write `serve` before it.")
    if action not in ("list", "rotate") and not names:
        raise OptionError(f"{action} needs the ids of what to switch. `tiltyard arena prompts` lists them.")
    if action != "rotate" and (keep, fresh_share, seen_at_most, dry_run) != (None, None, None, False):
        raise OptionError("--keep, --fresh-share, --seen-at-most and --dry-run belong to `prompts rotate`.")
    limits = {"keep": keep, "fresh_share": fresh_share, "seen_at_most": seen_at_most}
    prompts = switch_prompts(db, action, names, note, dry_run=dry_run, **limits)
    say(prompts.render(format).rstrip())
    withheld = prompts.values["answers_withheld"]
    if withheld and format == "table":
        note(
            f"not served: {plural(withheld, 'answer')}, for an author's name in it, or switched off, withdrawn or "
            "erased (`arena screen` lists)"
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
    from tiltyard.files import write_private
    from tiltyard.verbs.operate import invitations, invite

    if n is not None and revoke is not None:
        raise OptionError("--n and --revoke are two different things. Give one of them.")

    def keep(links: list[str]) -> None:
        text = "".join(f"{link}\n" for link in links)
        if out is None:
            say(text, end="")
        else:
            write_private(out, text.encode())
            made = plural(len(links), "link")
            note(f"wrote {made} to {out}. Whoever has one may vote; keep the file safe, or delete it.")

    if n is not None:
        invite(db, n, public_url, keep, note, uses=uses, label=label, days=days)
        return
    revoked, listed = invitations(db, revoke)
    if revoke is not None:
        note(f"revoked: {revoked}.")
    say(listed.render(format).rstrip())


def screen_command(
    db: DbOption = DEFAULT_DB,
    exclude: Annotated[
        bool, typer.Option("--exclude", help="Carry out every proposed exclusion, not only those the policy orders.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what was found; write nothing.")] = False,
) -> None:
    """Flag sessions that vote oddly and answers that name their model; propose which votes should not count."""
    need_arena()
    from tiltyard.verbs.operate import screen

    result = screen(db, exclude=exclude, dry_run=dry_run)
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
        note(f"{len(result.events)} events written")

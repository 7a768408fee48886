"""`tiltyard arena models`, `exclude`, `restore` and `reports`: what the pages of `/admin` do, from a shell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tiltyard.cli.arena_options import DEFAULT_DB, DbOption, need_arena
from tiltyard.cli.output import note, say
from tiltyard.errors import OptionError
from tiltyard.pages.figures import plural
from tiltyard.pages.tables import Table

if TYPE_CHECKING:
    from tiltyard.arena.service import Arena

Reason = Annotated[
    str,
    typer.Option(help="Why. It is kept beside the log, and shown in the validity report of its week: name no person."),
]
Voters = Annotated[
    list[str] | None,
    typer.Argument(metavar="VOTER", help="Random keys of visitors, as `arena screen` and /admin show them."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would change on the board; write nothing.")]


def models_command(
    action: Annotated[
        Literal["list", "serve", "hide"],
        typer.Argument(
            help="list; serve or hide the models MODEL…: one that is hidden leaves the board, and its votes stay."
        ),
    ] = "list",
    names: Annotated[list[str] | None, typer.Argument(metavar="MODEL", help="Ids of models.")] = None,
    db: DbOption = DEFAULT_DB,
    format: Annotated[Literal["table", "json"], typer.Option(help="For people, or for programs.")] = "table",
) -> None:
    """List the models with their answers and votes; serve or hide some."""
    need_arena()
    from tiltyard.arena import events as e
    from tiltyard.arena.service import Arena
    from tiltyard.files import json_text
    from tiltyard.web.admin_views import model_lines

    if (action == "list") == bool(names):
        raise OptionError("write `serve` or `hide`, and then the ids of models; without them, all are listed.")
    kind = e.ModelEnabled if action == "serve" else e.ModelDisabled
    with Arena.open(db) as arena:
        if names:
            arena.append([kind(model=name) for name in names])
        lines = arena.read(model_lines)
    if format == "json":
        rows = [
            {"model": one.name, "title": one.title, "served": one.enabled, "answers": one.answers, "votes": one.votes}
            for one in lines
        ]
        say(json_text({"models": rows}).rstrip())
        return
    cells = [
        (one.name, one.title, "on" if one.enabled else "off", f"{one.answers:,}", f"{one.votes:,}") for one in lines
    ]
    say("\n".join(Table.of(("model", "title", "state", "answers", "votes"), cells, left=3).text()))


def exclude_command(reason: Reason, voters: Voters = None, db: DbOption = DEFAULT_DB, dry_run: DryRun = False) -> None:
    """Exclude all votes of some visitors: no rating counts them until they are restored."""
    if not voters:
        raise OptionError("exclude whose votes? Give the keys of visitors.")
    _decide("exclude", voters or [], None, reason, db, dry_run=dry_run)


def restore_command(
    reason: Reason,
    voters: Voters = None,
    db: DbOption = DEFAULT_DB,
    event: Annotated[
        int | None, typer.Option(metavar="N", help="All votes that this event of the log excluded.")
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Count excluded votes again: those of some visitors, or those of one exclusion."""
    if bool(voters) == (event is not None):
        raise OptionError("restore whose votes? Give the keys of visitors, or --event N.")
    _decide("restore", voters or [], event, reason, db, dry_run=dry_run)


def _decide(
    verb: Literal["exclude", "restore"], voters: list[str], event: int | None, reason: str, db: str, *, dry_run: bool
) -> None:
    need_arena()
    from tiltyard.arena import events as e
    from tiltyard.arena.screening import effects_of
    from tiltyard.arena.service import Arena
    from tiltyard.arena.state import VoteStanding
    from tiltyard.arena.store.checkpoints import load_votes

    reason = " ".join(reason.split())
    if not reason:
        raise OptionError("a decision needs a reason, for those who read the log: --reason.")
    kind, standing = (e.Excluded, VoteStanding.COUNTED) if verb == "exclude" else (e.Restored, VoteStanding.EXCLUDED)
    with Arena.open(db) as arena:
        with arena.store.database.read() as connection:
            state, book, _ = load_votes(connection)
        if event is None:
            known = book.standings()
            if missing := next((name for name in voters if name not in known), None):
                raise OptionError(f"{missing!r} has no votes. `arena screen` shows the keys of visitors.")
            votes = [vote for name in dict.fromkeys(voters) for vote in book.of_voter(name)]
        else:
            votes = book.find(_excluded_by(arena, event))
        chosen = tuple(vote.matchup_id for vote in votes if vote.standing is standing)
        if not chosen:
            note(f"nothing to {verb}: {'none of these votes counts' if verb == 'exclude' else 'all of them count'}")
            return
        change = kind(matchup_ids=chosen, reason=reason)
        effects = effects_of(state, change)
        if not dry_run:
            arena.append([change])
        done = f"{'would be ' if dry_run else ''}{verb}d"
        say(
            f"{plural(len(chosen), 'vote')} {done}. Models at another place: {effects.places_changed}; "
            f"largest change of a rating: {effects.largest_rating_change:.0f} points"
        )


def _excluded_by(arena: Arena, event: int) -> tuple[str, ...]:
    from tiltyard.arena.events import Excluded
    from tiltyard.arena.store.reading import latest_events

    for logged in latest_events(arena.store, ["excluded"], 2**31):
        if logged.seq == event and isinstance(logged.body, Excluded):
            return logged.body.matchup_ids
    raise OptionError(f"event {event} of the log is no exclusion. /admin/screening lists them with their numbers.")


def reports_command(
    action: Annotated[
        Literal["list", "dismiss", "delete-comment"],
        typer.Argument(help="list; dismiss the reports of the answers ID…; delete the comments on the matchups ID…."),
    ] = "list",
    names: Annotated[list[str] | None, typer.Argument(metavar="ID", help="Ids of answers, or of matchups.")] = None,
    db: DbOption = DEFAULT_DB,
    format: Annotated[Literal["table", "json"], typer.Option(help="For people, or for programs.")] = "table",
) -> None:
    """List what visitors reported and wrote about their votes; settle reports, delete comments.

    An answer that should not be served: `tiltyard arena prompts hide-answer ID`.
    """
    need_arena()
    from tiltyard.arena.service import clock
    from tiltyard.arena.store.desk import latest_comments, reported_answers, settle_reports
    from tiltyard.arena.store.forgetting import delete_comment, open_store
    from tiltyard.files import json_text
    from tiltyard.pages.figures import day

    if (action == "list") == bool(names):
        raise OptionError("write `dismiss` or `delete-comment`, and then ids; without them, all are listed.")
    store = open_store(db)
    try:
        for name in names or ():
            there = settle_reports(store, name, clock()) if action == "dismiss" else delete_comment(store, name)
            if not there:
                raise OptionError(f"{name!r} has no {'open report' if action == 'dismiss' else 'comment'}.")
        reported, comments = reported_answers(store), latest_comments(store)
    finally:
        store.close()
    if format == "json":
        open_reports = [
            {
                "answer": one.response_id,
                "model": one.model,
                "prompt": one.prompt_id,
                "visitors": len(one.voters),
                "words": one.reasons,
            }
            for one in reported
        ]
        written = [{"matchup": one.matchup_id, "prompt": one.prompt_id, "comment": one.comment} for one in comments]
        say(json_text({"reports": open_reports, "comments": written}).rstrip())
        return
    for answer in reported:
        visitors = plural(len(answer.voters), "visitor")
        say(f"answer {answer.response_id} of {answer.model} on {answer.prompt_id}, reported by {visitors}:")
        for words in answer.reasons:
            say(f"  {words or 'no reason given'}")
    for comment in comments:
        say(f"vote {comment.matchup_id} on {comment.prompt_id}, {day(comment.at)}: {comment.comment}")
    if not (reported or comments):
        say("no report is waiting, and there are no comments")

"""`tiltyard arena models`, `exclude`, `restore` and `reports`: what the pages of `/admin` do, from a shell."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from tiltyard.cli.arena_options import DEFAULT_DB, DbOption, need_arena
from tiltyard.cli.output import note, say
from tiltyard.errors import OptionError

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
    from tiltyard.verbs.operate import switch_models

    if (action == "list") == bool(names):
        raise OptionError("write `serve` or `hide`, and then the ids of models; without them, all are listed.")
    say(switch_models(db, names or [], serve=action == "serve").render(format).rstrip())


def exclude_command(reason: Reason, voters: Voters = None, db: DbOption = DEFAULT_DB, dry_run: DryRun = False) -> None:
    """Exclude all votes of some visitors: no rating counts them until they are restored."""
    if not voters:
        raise OptionError("exclude whose votes? Give the keys of visitors.")
    need_arena()
    from tiltyard.verbs.operate import decide

    done = decide("exclude", voters, None, reason, db, dry_run=dry_run)
    say(done) if done else note("nothing to exclude: none of these votes counts")


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
    need_arena()
    from tiltyard.verbs.operate import decide

    done = decide("restore", voters or [], event, reason, db, dry_run=dry_run)
    say(done) if done else note("nothing to restore: all of them count")


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
    from tiltyard.verbs.operate import settle

    if (action == "list") == bool(names):
        raise OptionError("write `dismiss` or `delete-comment`, and then ids; without them, all are listed.")
    say(settle(db, names or [], dismiss=action == "dismiss").render(format).rstrip())

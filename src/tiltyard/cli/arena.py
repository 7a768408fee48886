"""`tiltyard arena`: a live arena kept in a database: set up, filled, checked, reported on, exported, simulated."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from tiltyard.cli.arena_erasing import erase_command, retire_command, withdraw_command
from tiltyard.cli.arena_heads import backup_command, doctor_command, head_command, verify_command, witness_command
from tiltyard.cli.arena_moderation import invite_command, prompts_command, screen_command
from tiltyard.cli.arena_operator import exclude_command, models_command, reports_command, restore_command
from tiltyard.cli.arena_options import DEFAULT_DB, DbOption, OutOption, PolicyOption, need_arena
from tiltyard.cli.arena_simulate import simulate_command
from tiltyard.cli.arena_visitors import forget_command, new_secret_command, tidy_command
from tiltyard.cli.options import App, daily_first, rare, read_pairs
from tiltyard.cli.output import note, printable, say
from tiltyard.errors import OptionError

app = App(
    no_args_is_help=True,
    cls=daily_first("init", "import", "serve", "invite", "export"),
    help="A live arena: people vote blind, the log is the truth.",
)


MOST_SECONDS = 10 * 365 * 86_400
"""The longest that a report looks back."""


@app.command("init")
def init_command(
    db: DbOption = DEFAULT_DB,
    policy: PolicyOption = None,
    phase: Annotated[
        int, typer.Option(min=1, max=4, help="1 shadow, 2 lanes, 3 conservative order, 4 governance.")
    ] = 4,
    print_policy: Annotated[
        bool, typer.Option("--print-policy", help="Print every setting with its default, and do nothing else.")
    ] = False,
) -> None:
    """Create an empty arena."""
    from tiltyard.verbs.policy import Policy, policy_text

    if print_policy:
        say(policy_text(Policy()))
        return
    need_arena()
    from tiltyard.verbs.arena import create, shown_url

    create(db, policy, phase)
    note(f"made an empty arena at {shown_url(db)}, phase {phase}. Fill it: tiltyard arena import")


@app.command("settings")
def settings_command(
    db: DbOption = DEFAULT_DB,
    policy: PolicyOption = None,
    phase: Annotated[int | None, typer.Option(min=1, max=4, help="Move to this phase of the rollout.")] = None,
    texts_public: Annotated[
        Literal["after_retirement", "always"] | None,
        typer.Option(help="When answers are public with their authors; `always` is an arena that is not blind."),
    ] = None,
    invitation_only: Annotated[
        bool | None,
        typer.Option("--invitation-only/--open-to-all", help="Whether only invited visitors may vote: `arena invite`."),
    ] = None,
    notice: Annotated[
        str | None,
        typer.Option(help="A sentence for every page of the site, from its next start on; '' takes it away."),
    ] = None,
    consent: Annotated[
        str | None,
        typer.Option(help="What visitors agree to, beside the start button, from the next start on; '' takes it away."),
    ] = None,
    privacy: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A text for /privacy: who runs the site and how to reach them; empty lines part paragraphs.",
        ),
    ] = None,
) -> None:
    """Show an arena's policy and phase, or change them; a change is an event of the log. The site's texts are not.

    Without options the whole policy is shown, with options what they changed.
    """
    need_arena()
    from tiltyard.verbs.arena import change_settings

    texts = {"notice": notice, "consent": consent}
    changed = change_settings(db, policy, phase, texts_public, invitation_only, texts, privacy)
    for line in changed.warnings:
        note(line)
    say(str(changed))


@app.command("import")
def import_command(
    source: Annotated[
        Path | None,
        typer.Argument(
            help="A folder or a zip file with prompts.jsonl and answers: responses_<model>.jsonl and the files they "
            "name, or a folder of files for each model.",
            show_default=False,
        ),
    ] = None,
    db: DbOption = DEFAULT_DB,
    prompts: Annotated[Path | None, typer.Option(help="A prompt bank (JSONL), as tournaments have it.")] = None,
    responses: Annotated[
        Path | None, typer.Option(help="A folder of responses_<model>.jsonl, or one such file.")
    ] = None,
    models: Annotated[
        Path | None,
        typer.Option(
            help="A list of model, display_name, provider, licence, link, price, speed, aliases (YAML or JSON)."
        ),
    ] = None,
    reserve: Annotated[
        bool,
        typer.Option("--reserve", help="Keep new prompts for later, hidden: `prompts rotate` begins to serve them."),
    ] = False,
    code: Annotated[
        Literal["svg", "html", "voxel"] | None,
        typer.Option(
            help="Text answers hold the code of a drawing, a page or a voxel build, as models write it: show that.",
            show_default=False,
        ),
    ] = None,
    votes: Annotated[
        Path | None,
        typer.Option(
            help="Votes that were cast elsewhere, as a file of battles with question_id: before the first own vote.",
            show_default=False,
        ),
    ] = None,
    map: Annotated[
        list[str] | None,
        typer.Option("--map", metavar="OURS=THEIRS", help="A column of --votes has another name. May be given again."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check and clean everything, say what would be done, and do nothing.")
    ] = False,
) -> None:
    """Add prompts, answers, facts about models, and votes; what is there already stays, so it can be run again."""
    need_arena()
    if source is None and prompts is None and responses is None and models is None and votes is None:
        raise OptionError(
            "there is nothing to import. Give a folder or a zip file, --prompts, --responses, --models or --votes."
        )
    if map and votes is None:
        raise OptionError("--map names columns of --votes: give that too, or leave it out.")
    if votes is not None and dry_run:
        raise OptionError("--votes has no dry run: try it on a copy of the arena (`arena backup`).")
    from tiltyard.verbs.arena import ImportFolder, import_into

    given = ImportFolder(prompts, responses, models)
    servable = import_into(db, source, given, votes, read_pairs(map), note, reserve=reserve, code=code, dry_run=dry_run)
    if servable is not None:
        note(f"{servable} prompts can be served: they have answers of two models or more")


@app.command("serve")
def serve_command(
    db: DbOption = DEFAULT_DB,
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 is every address of the machine.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(min=1, max=65_535, help="Port to listen on.")] = 8000,
    workers: Annotated[int, typer.Option(min=1, max=256, help="Processes; more than one needs PostgreSQL.")] = 1,
    title: Annotated[str, typer.Option(help="What the site is called.")] = "Tiltyard",
    notice: Annotated[
        str | None, typer.Option(help="A sentence shown on every page; without it, the one in the arena's settings.")
    ] = None,
    public_url: Annotated[
        str | None, typer.Option(metavar="URL", help="The address that visitors use, where a proxy hides it.")
    ] = None,
    answers_host: Annotated[
        str,
        typer.Option(
            metavar="HOST",
            help="A second host name of this site, of another domain: answers that are pages are framed from it, and "
            "browsers run them in a process of their own.",
            show_default=False,
        ),
    ] = "",
    trusted_proxy: Annotated[
        list[str] | None,
        typer.Option(metavar="NETWORK", help="Believe forwarded addresses from here (10.0.0.0/8); may be given again."),
    ] = None,
    longest_wait: Annotated[
        float,
        rare(
            metavar="SECONDS",
            help="Refuse new matchups (503) that have waited longer; votes may wait five times as long.",
        ),
    ] = 2.0,
    no_rate_limit: Annotated[bool, rare("--no-rate-limit", help="For load tests only.")] = False,
    demo: Annotated[
        bool, typer.Option("--demo", help="For a first look: an arena of shipped answers, forgotten when it stops.")
    ] = False,
) -> None:
    """Open the arena's site. TILTYARD_SECRET signs cookies and forms, TILTYARD_ADMIN_SECRET opens /admin."""
    need_arena()
    from tiltyard.verbs.arena import serve

    if demo and db != DEFAULT_DB:
        raise OptionError("--demo makes an arena of its own: leave out --db (or TILTYARD_DB), or --demo.")
    options: dict[str, Any] = {
        "title": title,
        "notice": notice,
        "public_url": public_url,
        "answers_host": answers_host,
        "trusted_proxies": tuple(trusted_proxy or ()),
        "longest_wait": longest_wait,
        "rate_limit": not no_rate_limit,
    }
    with ExitStack() as stack:
        serve(_demo_arena(stack) if demo else db, host, port, workers, note, **options)


def _demo_arena(stack: ExitStack) -> str:
    """An arena of the shipped answers in a folder that goes with the stack; its address."""
    from tempfile import TemporaryDirectory

    from tiltyard.demo.steps import address, copy_material, fill_arena

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that the folder goes then, too
    folder = Path(stack.enter_context(TemporaryDirectory(prefix="tiltyard-demo-")))
    before = os.environ.get("XDG_STATE_HOME")
    os.environ["XDG_STATE_HOME"] = str(folder / "state")  # its key file goes with it
    stack.callback(
        lambda: os.environ.pop("XDG_STATE_HOME") if before is None else os.environ.update(XDG_STATE_HOME=before)
    )
    copy_material(folder)
    for line in fill_arena(folder):
        note(line)
    note("votes in this arena are forgotten when it stops; `tiltyard demo` makes one that stays")
    return address(folder)


@app.command("export")
def export_command(
    db: DbOption = DEFAULT_DB,
    out: OutOption = None,
    keys: Annotated[bool, typer.Option("--keys", help="Voters as the random keys of the log: not for others.")] = False,
) -> None:
    """Write every vote as a battle row that `tiltyard rate` reads; voters are numbers in order of appearance.

    `status` says whether it is counted or excluded, and `weight` how much of it counts (excluded: 0), so that rating
    the rows gives the published board. Votes that were undone, or still can be, are left out.
    """
    need_arena()
    from tiltyard.files import json_line, write_lines
    from tiltyard.verbs.arena import open_export

    with open_export(db, keys=keys) as export:
        if out is not None:
            write_lines(out, export.rows, private=True)
            note(f"wrote {out}. Rate it: tiltyard rate {out} {export.rate_options}")
            return
        for row in export.rows:
            sys.stdout.write(printable(json_line(row).decode()))


app.command("screen")(screen_command)


@app.command("validity")
def validity_command(
    db: DbOption = DEFAULT_DB,
    since: Annotated[str, typer.Option(help="How far the report looks back: 7d, 24h, 2w.")] = "7d",
    format: Annotated[
        Literal["md", "html", "json"], typer.Option(help="For reading, for a page, for programs.")
    ] = "md",
    out: OutOption = None,
) -> None:
    """The weekly validity report: fairness, pair completeness, confidence, what moved at the top, publication rules."""
    need_arena()
    from tiltyard.files import write_text
    from tiltyard.verbs.arena import validity

    text = validity(db, _microseconds(since), format, note)
    if out is None:
        say(text)
    else:
        write_text(out, text, new_folder=False)
        note(f"wrote {out}")


@app.command("weekly")
def weekly_command(
    db: DbOption = DEFAULT_DB,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Also copy all reports here: .html, .json, index.")
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Write weeks that have a report once more, such as after an upgrade.")
    ] = False,
) -> None:
    """Write the validity report of every finished week that has none yet, and keep it; run it weekly by a timer.

    A week is Monday to Sunday (UTC), and finished an hour after its end. Weeks without a vote have no report.
    """
    need_arena()
    from tiltyard.pages import plural
    from tiltyard.verbs.arena import weekly

    weeks, copied = weekly(db, out, again=again)
    for week, is_new in weeks:
        say(f"{week.week}  {week.votes:,} counted votes, {week.status} ({'written' if is_new else 'kept'})")
    if not any(is_new for _, is_new in weeks):
        note("no finished week without a report")
    if out is not None:
        note(f"{plural(copied, 'report')} new or changed in {out}")


app.command("verify")(verify_command)
app.command("head")(head_command)
app.command("witness")(witness_command)
app.command("backup")(backup_command)
app.command("prompts")(prompts_command)
app.command("models")(models_command)
app.command("exclude")(exclude_command)
app.command("restore")(restore_command)
app.command("reports")(reports_command)
app.command("retire")(retire_command)
app.command("withdraw")(withdraw_command)
app.command("erase")(erase_command)
app.command("forget")(forget_command)
app.command("tidy")(tidy_command)
app.command("new-secret")(new_secret_command)
app.command("invite")(invite_command)
app.command("simulate")(simulate_command)
app.command("doctor")(doctor_command)


def _microseconds(text: str) -> int:
    import re

    result = re.fullmatch(r"\s*(\d+)\s*([hdw])\s*", text)
    if result is None or not int(result[1]):
        raise OptionError(f"--since {text!r}: write a number and h, d or w, such as 7d.")
    seconds = int(result[1]) * {"h": 3600, "d": 86_400, "w": 604_800}[result[2]]
    if seconds > MOST_SECONDS:
        raise OptionError(f"--since {text!r} is more than ten years: take less.")
    return seconds * 1_000_000

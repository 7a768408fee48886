"""`tiltyard arena`: a live arena kept in a database: set up, filled, checked, looked after, exported, simulated."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from tiltyard.cli.asking import YesOption, confirm
from tiltyard.cli.options import ArenaApp, daily_first, rare, read_pairs
from tiltyard.cli.output import THE_ANSWER_IS_NO, note, printable, say
from tiltyard.errors import OptionError
from tiltyard.files import write_bytes
from tiltyard.render import plural

app = ArenaApp(
    no_args_is_help=True,
    cls=daily_first("init", "import", "serve", "invite", "export"),
    help="A live arena: people vote blind, the log is the truth.",
)
MOST_SECONDS = 10 * 365 * 86_400
"""The longest that a report looks back."""
confirm_change = partial(
    confirm,
    refusal="this asks first, and here is no terminal: pass --yes. Nothing was changed.",
    stopped="nothing was changed.",
)

DbOption = Annotated[
    str,
    typer.Option(
        "--db", metavar="URL", envvar="TILTYARD_DB", help="sqlite:///path or postgresql://user@host/database."
    ),
]
DEFAULT_DB = "sqlite:///arena.db"
PolicyOption = Annotated[
    Path | None, typer.Option("--policy", help="Settings that differ from the defaults (YAML or JSON).")
]
OutOption = Annotated[Path | None, typer.Option("--out", help="Write to this file instead of the screen.")]


@app.command("init", needs_extra=False)
def init_command(
    db: DbOption = DEFAULT_DB,
    policy: PolicyOption = None,
    phase: int = typer.Option(4, min=1, max=4, help="1 shadow, 2 lanes, 3 conservative order, 4 governance."),
    print_policy: bool = typer.Option(
        False, "--print-policy", help="Print every setting with its default, and do nothing else."
    ),
) -> None:
    """Create an empty arena."""
    from tiltyard.verbs.policy import Policy, policy_text

    if print_policy:
        say(policy_text(Policy()))
        return
    from tiltyard.verbs.places import need_arena

    need_arena()
    from tiltyard.verbs.arena import create, shown_url

    create(db, policy, phase)
    note(f"made an empty arena at {shown_url(db)}, phase {phase}. Fill it: tiltyard arena import")


@app.command("settings")
def settings_command(
    db: DbOption = DEFAULT_DB,
    policy: PolicyOption = None,
    phase: int | None = typer.Option(None, min=1, max=4, help="Move to this phase of the rollout."),
    texts_public: Literal["after_retirement", "always"] | None = typer.Option(
        None, help="When answers are public with their authors; `always` is an arena that is not blind."
    ),
    invitation_only: bool | None = typer.Option(
        None, "--invitation-only/--open-to-all", help="Whether only invited visitors may vote: `arena invite`."
    ),
    notice: str | None = typer.Option(
        None, help="A sentence for every page of the site, from its next start on; '' takes it away."
    ),
    consent: str | None = typer.Option(
        None, help="What visitors agree to, beside the start button, from the next start on; '' takes it away."
    ),
    privacy: Path | None = typer.Option(
        None,
        metavar="FILE",
        help="A text for /privacy: who runs the site and how to reach them; empty lines part paragraphs.",
    ),
) -> None:
    """Show an arena's policy and phase, or change them; a change is an event of the log. The site's texts are not.

    Without options the whole policy is shown, with options what they changed.
    """
    from tiltyard.verbs.arena import change_settings

    texts = {"notice": notice, "consent": consent}
    changed = change_settings(db, policy, phase, texts_public, invitation_only, texts, privacy)
    for line in changed.warnings:
        note(line)
    say(str(changed))


@app.command("import")
def import_command(
    source: Path | None = typer.Argument(
        None,
        help="A folder or a zip file with prompts.jsonl and answers: responses_<model>.jsonl and the files they "
        "name, or a folder of files for each model.",
        show_default=False,
    ),
    db: DbOption = DEFAULT_DB,
    prompts: Path | None = typer.Option(None, help="A prompt bank (JSONL), as tournaments have it."),
    responses: Path | None = typer.Option(None, help="A folder of responses_<model>.jsonl, or one such file."),
    models: Path | None = typer.Option(
        None, help="A list of model, display_name, provider, licence, link, price, speed, aliases (YAML or JSON)."
    ),
    reserve: bool = typer.Option(
        False, "--reserve", help="Keep new prompts for later, hidden: `prompts rotate` begins to serve them."
    ),
    code: Literal["svg", "html", "voxel"] | None = typer.Option(
        None,
        help="Text answers hold the code of a drawing, a page or a voxel build, as models write it: show that.",
        show_default=False,
    ),
    votes: Path | None = typer.Option(
        None,
        help="Votes that were cast elsewhere, as a file of battles with question_id: before the first own vote.",
        show_default=False,
    ),
    map: list[str] | None = typer.Option(
        None, metavar="OURS=THEIRS", help="A column of --votes has another name. May be given again."
    ),
    dry_run: bool = typer.Option(
        False, "--dry-run", help="Check and clean everything, say what would be done, and do nothing."
    ),
) -> None:
    """Add prompts, answers, facts about models, and votes; what is there already stays, so it can be run again."""
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
    host: str = typer.Option("127.0.0.1", help="Address to listen on; 0.0.0.0 is every address of the machine."),
    port: int = typer.Option(8000, min=1, max=65_535, help="Port to listen on."),
    workers: int = typer.Option(1, min=1, max=256, help="Processes; more than one needs PostgreSQL."),
    title: str = typer.Option("Tiltyard", help="What the site is called."),
    notice: str | None = typer.Option(
        None, help="A sentence shown on every page; without it, the one in the arena's settings."
    ),
    public_url: str | None = typer.Option(
        None, metavar="URL", help="The address that visitors use, where a proxy hides it."
    ),
    answers_host: str = typer.Option(
        "",
        metavar="HOST",
        help="A second host name of this site, of another domain: answers that are pages are framed from it, and "
        "browsers run them in a process of their own.",
        show_default=False,
    ),
    trusted_proxy: list[str] | None = typer.Option(
        None, metavar="NETWORK", help="Believe forwarded addresses from here (10.0.0.0/8); may be given again."
    ),
    longest_wait: float = rare(
        2.0,
        metavar="SECONDS",
        help="Refuse new matchups (503) that have waited longer; votes may wait five times as long.",
    ),
    no_rate_limit: bool = rare(False, "--no-rate-limit", help="For load tests only."),
    demo: bool = typer.Option(
        False, "--demo", help="For a first look: an arena of shipped answers, forgotten when it stops."
    ),
) -> None:
    """Open the arena's site. TILTYARD_SECRET signs cookies and forms, TILTYARD_ADMIN_SECRET opens /admin."""
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

    from tiltyard.verbs.demo.steps import address, copy_material, fill_arena

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
    keys: bool = typer.Option(False, "--keys", help="Voters as the random keys of the log: not for others."),
) -> None:
    """Write every vote as a battle row that `tiltyard rate` reads; voters are numbers in order of appearance.

    `status` says whether it is counted or excluded, and `weight` how much of it counts (excluded: 0), so that rating
    the rows gives the published board. Votes that were undone, or still can be, are left out.
    """
    from tiltyard.files import json_line, write_lines
    from tiltyard.verbs.arena import open_export

    with open_export(db, keys=keys) as export:
        if out is not None:
            write_lines(out, export.rows, private=True)
            note(f"wrote {out}. Rate it: tiltyard rate {out} {export.rate_options}")
            return
        for row in export.rows:
            sys.stdout.write(printable(json_line(row).decode()))


@app.command("screen")
def screen_command(
    db: DbOption = DEFAULT_DB,
    exclude: bool = typer.Option(
        False, "--exclude", help="Carry out every proposed exclusion, not only those the policy orders."
    ),
    dry_run: bool = typer.Option(False, "--dry-run", help="Say what was found; write nothing."),
) -> None:
    """Flag sessions that vote oddly and answers that name their model; propose which votes should not count."""
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


@app.command("validity")
def validity_command(
    db: DbOption = DEFAULT_DB,
    since: str = typer.Option("7d", help="How far the report looks back: 7d, 24h, 2w."),
    format: Literal["md", "html", "json"] = typer.Option("md", help="For reading, for a page, for programs."),
    out: OutOption = None,
) -> None:
    """The weekly validity report: fairness, pair completeness, confidence, what moved at the top, publication rules."""
    from tiltyard.files import write_text
    from tiltyard.verbs.arena import validity

    text = validity(db, _microseconds(since), format, note)
    if out is None:
        say(text)
    else:
        write_text(out, text, new_folder=False)
        note(f"wrote {out}")


def _microseconds(text: str) -> int:
    import re

    result = re.fullmatch(r"\s*(\d+)\s*([hdw])\s*", text)
    if result is None or not int(result[1]):
        raise OptionError(f"--since {text!r}: write a number and h, d or w, such as 7d.")
    seconds = int(result[1]) * {"h": 3600, "d": 86_400, "w": 604_800}[result[2]]
    if seconds > MOST_SECONDS:
        raise OptionError(f"--since {text!r} is more than ten years: take less.")
    return seconds * 1_000_000


@app.command("weekly")
def weekly_command(
    db: DbOption = DEFAULT_DB,
    out: Path | None = typer.Option(None, metavar="DIR", help="Also copy all reports here: .html, .json, index."),
    again: bool = typer.Option(
        False, "--again", help="Write weeks that have a report once more, such as after an upgrade."
    ),
) -> None:
    """Write the validity report of every finished week that has none yet, and keep it; run it weekly by a timer.

    A week is Monday to Sunday (UTC), and finished an hour after its end. Weeks without a vote have no report.
    """
    from tiltyard.verbs.arena import weekly

    weeks, copied = weekly(db, out, again=again)
    for week, is_new in weeks:
        say(f"{week.week}  {week.votes:,} counted votes, {week.status} ({'written' if is_new else 'kept'})")
    if not any(is_new for _, is_new in weeks):
        note("no finished week without a report")
    if out is not None:
        note(f"{plural(copied, 'report')} new or changed in {out}")


@app.command("verify")
def verify_command(
    db: DbOption = DEFAULT_DB,
    rebuild: bool = typer.Option(
        False, "--rebuild", help="Write the table of matchups anew from the log, then verify."
    ),
    head: list[str] | None = typer.Option(
        None, metavar="HASH@N|@FILE", help="A head that was kept, or a file of heads; may be given again."
    ),
    key: list[str] | None = typer.Option(
        None, metavar="KEY|@FILE", help="Heads must be signed by this public key; may be given again."
    ),
    since: Path | None = typer.Option(
        None,
        metavar="FILE",
        help="Begin at this signed head, whose state is still kept: reads only what is newer.",
    ),
) -> None:
    """Read the log once, recompute its chain, its public rows and all that follows from it, and compare.

    Every head that was published is compared with its rows, board, signature and time. With --head, the public rows
    must lead to a head that was kept elsewhere: those of a cut or rewritten log do not. With --since, events up to that
    head are not read again; what was signed then is trusted.
    """
    from tiltyard.verbs.heads import verify

    lines, problem = verify(db, head or (), key or (), since, note, rebuild=rebuild)
    for line in lines:
        say(line)
    if problem is not None:
        raise problem


@app.command("head")
def head_command(
    db: DbOption = DEFAULT_DB,
    sign: Path | None = typer.Option(None, metavar="KEY", help="Sign with this private key; --new-key makes one."),
    out: Path | None = typer.Option(None, help="Write a head file: the head, the board, the signature."),
    title: str = typer.Option("", help="What the arena is called, in the head file."),
    new_key: Path | None = typer.Option(None, metavar="KEY", help="Make a private key, and do nothing else."),
    next_key: str | None = typer.Option(
        None,
        metavar="KEY|@FILE",
        help="With --sign: the public key that signs later heads. Whoever trusts this one then trusts that one.",
    ),
) -> None:
    """Print the head of the public rows, and publish it in the arena's history of heads.

    Whoever keeps it can tell later whether anything before it was cut or rewritten (--head of `verify`). Keep the
    private key on another machine than the arena's, or at least out of its backups.
    """
    from tiltyard.verbs.heads import make_key, publish_head

    if new_key is not None:
        say(make_key(new_key))
        note(f"wrote the private key to {new_key}. Publish the line above; whoever has the file can sign heads.")
        return
    new = publish_head(db, sign, out, title, next_key)
    say(str(new.head))
    if out is not None:
        note(f"wrote {out}" + (f", signed by {new.file.key}" if new.file.key else ", not signed"))


@app.command("witness")
def witness_command(
    db: DbOption = DEFAULT_DB,
    out: OutOption = None,
    title: str = typer.Option("", help="What the arena is called, in the file."),
) -> None:
    """Write the witness: the public rows, from which anybody recomputes head and board without the database.

    Check it: tiltyard verify FILE.
    """
    from tiltyard.verbs.heads import witness

    with witness(db, title) as lines:
        if out is not None:
            write_bytes(out, b"".join(lines))
            note(f"wrote {out}. Check it: tiltyard verify {out}")
            return
        for line in lines:
            sys.stdout.write(printable(line.decode()))


@app.command("backup")
def backup_command(
    out: Path = typer.Option(..., help="A new file; nothing is overwritten."), db: DbOption = DEFAULT_DB
) -> None:
    """Copy an arena in SQLite to one file while it is in use; on PostgreSQL pg_dump does that."""
    from tiltyard.verbs.heads import backup

    say(f"head: {backup(db, out)}")
    note(f"wrote {out}. Check it: tiltyard arena verify --db sqlite:///{out}")


Action = Literal["list", "serve", "reserve", "rotate", "serve-answer", "hide-answer"]


@app.command("prompts")
def prompts_command(
    action: Action = typer.Argument(
        "list",
        help="list; serve or reserve (keep for later, hidden) the prompts PROMPT…; rotate: retire the most "
        "shown ones and serve fresh ones instead; serve-answer or hide-answer the answers with these ids.",
    ),
    names: list[str] | None = typer.Argument(None, metavar="PROMPT", help="Ids of prompts, or answers."),
    db: DbOption = DEFAULT_DB,
    keep: int | None = typer.Option(
        None, min=2, max=1_000_000, metavar="N", help="rotate: have so many prompts on afterwards (default: as now)."
    ),
    fresh_share: float | None = typer.Option(
        None, min=0.0, max=1.0, help="rotate: replace this share of them (default: the policy's, 0.2)."
    ),
    seen_at_most: int | None = typer.Option(
        None,
        min=0,
        max=1_000_000_000,
        metavar="N",
        help="rotate: retire all with an answer shown so often (default: the policy's; 0: none).",
    ),
    dry_run: bool = typer.Option(False, "--dry-run", help="Say what rotate would do; write nothing."),
    format: Literal["table", "json"] = typer.Option("table", help="For people, or for programs."),
) -> None:
    """List the prompts with what is public of them; serve, keep for later or rotate them. `arena retire` retires them.

    Answers are hidden while anybody can be voting on them. A week after a prompt was switched off, when no pair that
    was shown on it can wait any more, they are public with their authors; a prompt that is switched on again after that
    is no longer blind. (Where pairs do not wait, that is a minute.) A prompt that is kept for later stays hidden.
    """
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


@app.command("models")
def models_command(
    action: Literal["list", "serve", "hide"] = typer.Argument(
        "list", help="list; serve or hide the models MODEL…: one that is hidden leaves the board, and its votes stay."
    ),
    names: list[str] | None = typer.Argument(None, metavar="MODEL", help="Ids of models."),
    db: DbOption = DEFAULT_DB,
    format: Literal["table", "json"] = typer.Option("table", help="For people, or for programs."),
) -> None:
    """List the models with their answers and votes; serve or hide some."""
    from tiltyard.verbs.operate import switch_models

    if (action == "list") == bool(names):
        raise OptionError("write `serve` or `hide`, and then the ids of models; without them, all are listed.")
    say(switch_models(db, names or [], serve=action == "serve").render(format).rstrip())


Reason = Annotated[
    str,
    typer.Option(help="Why. It is kept beside the log, and shown in the validity report of its week: name no person."),
]
Voters = Annotated[
    list[str] | None,
    typer.Argument(metavar="VOTER", help="Random keys of visitors, as `arena screen` and /admin show them."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would change on the board; write nothing.")]


@app.command("exclude")
def exclude_command(reason: Reason, voters: Voters = None, db: DbOption = DEFAULT_DB, dry_run: DryRun = False) -> None:
    """Exclude all votes of some visitors: no rating counts them until they are restored."""
    if not voters:
        raise OptionError("exclude whose votes? Give the keys of visitors.")
    from tiltyard.verbs.operate import decide

    done = decide("exclude", voters, None, reason, db, dry_run=dry_run)
    say(done) if done else note("nothing to exclude: none of these votes counts")


@app.command("restore")
def restore_command(
    reason: Reason,
    voters: Voters = None,
    db: DbOption = DEFAULT_DB,
    event: int | None = typer.Option(None, metavar="N", help="All votes that this event of the log excluded."),
    dry_run: DryRun = False,
) -> None:
    """Count excluded votes again: those of some visitors, or those of one exclusion."""
    if bool(voters) == (event is not None):
        raise OptionError("restore whose votes? Give the keys of visitors, or --event N.")
    from tiltyard.verbs.operate import decide

    done = decide("restore", voters or [], event, reason, db, dry_run=dry_run)
    say(done) if done else note("nothing to restore: all of them count")


@app.command("reports")
def reports_command(
    action: Literal["list", "dismiss", "delete-comment"] = typer.Argument(
        "list", help="list; dismiss the reports of the answers ID…; delete the comments on the matchups ID…."
    ),
    names: list[str] | None = typer.Argument(None, metavar="ID", help="Ids of answers, or of matchups."),
    db: DbOption = DEFAULT_DB,
    format: Literal["table", "json"] = typer.Option("table", help="For people, or for programs."),
) -> None:
    """List what visitors reported and wrote about their votes; settle reports, delete comments.

    An answer that should not be served: `tiltyard arena prompts hide-answer ID`.
    """
    from tiltyard.verbs.operate import settle

    if (action == "list") == bool(names):
        raise OptionError("write `dismiss` or `delete-comment`, and then ids; without them, all are listed.")
    say(settle(db, names or [], dismiss=action == "dismiss").render(format).rstrip())


@app.command("retire")
def retire_command(
    names: list[str] = typer.Argument(..., metavar="PROMPT", help="Ids of prompts."),
    db: DbOption = DEFAULT_DB,
    yes: YesOption = False,
) -> None:
    """Retire prompts: they are not served any more, and their answers become public with their authors.

    A week later, when no pair that was shown on them can wait any more; where pairs do not wait, after a minute. Only
    the present answers become public: none that was replaced, withdrawn or withheld.
    """
    from tiltyard.verbs.operate import retire

    retire(db, names, partial(confirm_change, yes=yes), note)
    say(f"retired: {len(names)}")


@app.command("withdraw")
def withdraw_command(
    names: list[str] = typer.Argument(..., metavar="ANSWER", help="Ids of answers."),
    db: DbOption = DEFAULT_DB,
    yes: YesOption = False,
) -> None:
    """Take answers back: never served again, and shown by nothing, also when their prompt is retired.

    Their text stays in the database (`arena erase answer` deletes it), and the votes on them count. Import another
    answer of the model to the prompt to have it served again.
    """
    from tiltyard.verbs.operate import withdraw

    withdraw(db, names, partial(confirm_change, yes=yes))
    say(f"withdrawn: {len(names)}")


What = Literal["prompt", "answer", "model", "reason"]


@app.command("erase")
def erase_command(
    what: What = typer.Argument(..., help="What is erased."),
    names: list[str] | None = typer.Argument(
        None, metavar="ID", help="Ids of prompts, answers or models; of a reason the number of its event."
    ),
    db: DbOption = DEFAULT_DB,
    answers: bool = typer.Option(False, "--answers", help="Of a prompt: all its answers too."),
    yes: YesOption = False,
) -> None:
    """Erase what somebody wrote: prompts, answers with their files, titles of models, reasons.

    The votes stay, and so does the log: it has salted digests, which say nothing once text and salt are gone. Pages say
    on what day something was erased. It is noted outside the database, so that an older copy that is restored erases
    the same again. Files that were exported, published or backed up before still have it: ask whoever has them.
    `erase reason` without a number lists the latest reasons.
    """
    from tiltyard.verbs.operate import erase, reasons

    if names:
        say(f"erased: {erase(db, what, names, partial(confirm_change, yes=yes), note, answers=answers)}")
    else:
        for line in reasons(db, what):
            say(line)


@app.command("forget")
def forget_command(
    voter: list[str] | None = typer.Argument(
        None, metavar="VOTER", help="The random key of a visitor, as screening and /me show it."
    ),
    db: DbOption = DEFAULT_DB,
    invitation: str | None = typer.Option(
        None, metavar="NAME", help="The invitation with this name, or all with this label, and who used them."
    ),
    everybody: bool = typer.Option(False, "--all", help="Every visitor, such as after restoring an old copy."),
    yes: YesOption = False,
) -> None:
    """Forget visitors as if they had pressed "Forget me": whatever leads from their votes to them is deleted.

    Cookie hash, key of the network, counts, comments, words of reports, and a link made for them alone, with its label.
    The votes stay, under random keys that lead to nobody. Hashes of what was deleted are kept outside the database: a
    restored copy forgets again. A running site takes nothing more of them from then on. `--all` asks first.
    """
    from tiltyard.verbs.operate import forget

    if everybody:
        copies = "all copies of this arena, and what it is a copy of, do the same once they are opened"
        confirm_change(f"Every visitor is a new one then; {copies}.\nForget all visitors?", yes=yes)
    say(forget(db, voter or [], invitation, note, everybody=everybody))


@app.command("tidy")
def tidy_command(db: DbOption = DEFAULT_DB) -> None:
    """Delete what is kept about visitors for longer than needed. A running site does the same by itself.

    Counts of limits, keys of networks and what they stand for go when their time is over; whoever had their last pair
    longer ago than the policy's `retention.voter_days` is forgotten, and what was written before that. Votes stay,
    under random keys.
    """
    from tiltyard.verbs.operate import tidy

    say(tidy(db, note))


@app.command("new-secret")
def new_secret_command(db: DbOption = DEFAULT_DB) -> None:
    """Change the site's secret, such as after it leaked; what was made of networks under the old one is dropped.

    Visitors keep what is theirs: for 30 days, and until the site is started after them, cookies signed with an old
    secret are taken, and signed anew. Restart the site now. If TILTYARD_SECRET is set, change it there to NEW,OLD; this
    command then drops the networks alone.
    """
    from tiltyard.verbs.operate import new_secret

    note(new_secret(db, say))


@app.command("invite")
def invite_command(
    db: DbOption = DEFAULT_DB,
    n: int | None = typer.Option(None, min=1, max=100_000, help="Make this many invitations."),
    out: OutOption = None,
    uses: int = typer.Option(
        1, min=0, max=1_000_000, help="How many visitors may use each; 0 is any number, for one link to many."
    ),
    label: str = typer.Option("", help="What they are for; they can be revoked by it."),
    days: int | None = typer.Option(None, min=1, max=3650, help="Days until they expire; without it, never."),
    public_url: str = typer.Option(
        "http://127.0.0.1:8000", metavar="URL", help="The address of the site, with which the links begin."
    ),
    revoke: str | None = typer.Option(
        None, metavar="NAME", help="Revoke the invitation with this name, or all with this label."
    ),
    format: Literal["table", "json"] = typer.Option("table", help="How the list is printed."),
) -> None:
    """List the invitations of an arena, make new ones, or revoke some.

    A link is shown once, when it is made: the database keeps only its hash. Whoever opens a link and starts uses it,
    and votes from then on in that browser. Invitations matter once the arena is closed: `arena settings
    --invitation-only`. A revoked invitation ends the voting of those who used it; their votes stay.
    """
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


@app.command("simulate")
def simulate_command(
    models: int = typer.Option(38, min=2, max=10_000, help="Models in the arena."),
    prompts: int = typer.Option(15, min=1, max=1_000_000, help="Prompts in the arena."),
    votes: int = typer.Option(20_000, min=1, max=1_000_000_000, help="Votes to cast."),
    in_flight: int = rare(50, min=1, max=1_000_000, help="Matchups open at any time."),
    seed: int = typer.Option(0, min=0, help="Seed of everything."),
    sd: float = typer.Option(180.0, min=0, max=10_000, help="Spread of the true strengths, in Elo points."),
    tie_rate: float = typer.Option(0.08, min=0, max=0.9, help="Share of ties."),
    both_bad_rate: float = rare(0.05, min=0, max=0.9, help="Share of both-bad votes."),
    noise: float = rare(0.0, min=0, max=1, help="Share of honest votes that are random."),
    skip_rate: float | None = rare(None, min=0, max=0.9, help="Share of matchups that are skipped; 0.02 if not given."),
    visitors: Literal["anywhere", "homes", "classes", "mixed"] = rare(
        "anywhere", help="Where visitors are: at homes, in classes of thirty, or mixed, pairs wait for them."
    ),
    taste_sd: float = rare(
        0.0, min=0, max=10_000, help="How much people differ in what they make of each model, in Elo points."
    ),
    voters: int = typer.Option(
        0, min=0, max=100_000_000, help="Regular voters, who come again and again; 0: every session is of somebody new."
    ),
    diligence: Literal["equal", "lognormal", "zipf"] = rare(
        "lognormal", help="How unequally often regular voters come."
    ),
    looks: int = rare(20, min=0, max=10_000, help="How often the published ranges of ranks are looked at on the way."),
    attack: AttackName | None = typer.Option(
        None, help="Who else votes. The first four are a share of all voters; the others an attack on a model."
    ),
    attack_share: float = rare(
        0.1, min=0.001, max=0.9, help="Their share of the votes: apathetic, one-sided, rigging, sybil."
    ),
    attack_votes: int = typer.Option(512, min=1, max=1_000_000_000, help="Votes of an attack on a model."),
    attack_days: int = rare(7, min=1, max=30, help="Its days, the last of thirty."),
    blocks: int = rare(50, min=1, max=1_000_000, help="Address blocks that it comes from."),
    defences: Literal["on", "off", "both"] | None = rare(
        None, help="Whether pairs wait and votes are weighed in an attack on a model; both: side by side."
    ),
    late_model: bool = rare(False, "--late-model", help="Let the last model enter when half of the votes are cast."),
    policy: PolicyOption = None,
    db: str | None = typer.Option(None, metavar="URL", help="Keep the log in a new arena at this URL."),
    format: Literal["table", "json"] = typer.Option("table", help="For people or for programs."),
) -> None:
    """Let simulated voters over known strengths drive the engine, and say how fast and how truly it ranks.

    With an attack on a model (`--attack hunter`, …): what it costs and how far it gets, with the defences on and off.
    """
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


@app.command("doctor")
def doctor_command(
    db: DbOption = DEFAULT_DB,
    url: str | None = typer.Option(
        None, metavar="URL", help="The address that visitors use: asks the running site too."
    ),
    backups: Path | None = typer.Option(None, metavar="DIR", help="Where deploy/backup.sh puts its copies."),
) -> None:
    """Look over a deployment: database, clock, disk, secrets, heads, backups, limits; with --url also its proxy.

    Every line says ok, look or repair, and what to do. Exit code 3 if something has to be repaired.
    """
    from tiltyard.verbs.arena import doctor

    lines = doctor(db, url, backups)
    width = max(len(line.part) for line in lines)
    for line in lines:
        say(f"{line.need:<6}  {line.part:<{width}}  {line.message}")
        if line.todo:
            say(f"{'':<6}  {'':<{width}}  → {line.todo}")
    wrong = sum(line.need == "repair" for line in lines)
    if wrong:
        say(f"{wrong} to repair")
        raise typer.Exit(THE_ANSWER_IS_NO)
    say("nothing to repair")

"""What an operator does with an arena from a shell: serve and hide, exclude, invite, screen, take back, forget."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import date
from typing import Any, Literal
from urllib.parse import urlsplit

from tiltyard.arena import (
    DAY,
    AnyBody,
    Arena,
    ArenaState,
    VoteStanding,
    clock,
    lost_blindness,
    plan_rotation,
    prompt_exposures,
    public_prompts,
    screening,
    shown_answers,
)
from tiltyard.arena import events as e
from tiltyard.arena import store as stored
from tiltyard.errors import OptionError, StoreError
from tiltyard.render import Table, TableColumn, day, plural
from tiltyard.site.admin_views import model_lines
from tiltyard.site.settings import SECRET_VARIABLE, check_web_address
from tiltyard.verbs.rendered import Rendered

Note = Callable[[str], None]
LOOPBACK = ("127.0.0.1", "localhost", "::1")
"""Hosts whose links nobody else can open."""


def switch_models(db: str, names: list[str], *, serve: bool) -> Rendered:
    """Serve or hide some models, and list all with their answers and votes."""
    kind = e.ModelEnabled if serve else e.ModelDisabled
    with Arena.open(db) as arena:
        if names:
            arena.append([kind(model=name) for name in names])
        lines = arena.read(model_lines)
    rows = [
        {"model": one.name, "title": one.title, "served": one.enabled, "answers": one.answers, "votes": one.votes}
        for one in lines
    ]
    cells = [
        (one.name, one.title, "on" if one.enabled else "off", f"{one.answers:,}", f"{one.votes:,}") for one in lines
    ]
    table = Table.of(("model", "title", "state", "answers", "votes"), cells, left=3)
    return Rendered({"models": rows}, "\n".join(table.text()))


def decide(
    verb: Literal["exclude", "restore"],
    voters: list[str],
    event: int | None,
    reason: str,
    db: str,
    *,
    dry_run: bool = False,
) -> str | None:
    """Exclude the votes of some visitors, or count theirs or those of one exclusion again; and what that changes.

    None: there is nothing to change.
    """
    reason = " ".join(reason.split())
    if not reason:
        raise OptionError("a decision needs a reason, for those who read the log: --reason.")
    kind, standing = (e.Excluded, VoteStanding.COUNTED) if verb == "exclude" else (e.Restored, VoteStanding.EXCLUDED)
    with Arena.open(db) as arena:
        with arena.store.database.read() as connection:
            state, book, _ = stored.load_votes(connection)
        if event is None:
            known = book.standings()
            if missing := next((name for name in voters if name not in known), None):
                raise OptionError(f"{missing!r} has no votes. `arena screen` shows the keys of visitors.")
            votes = [vote for name in dict.fromkeys(voters) for vote in book.of_voter(name)]
        else:
            logged = stored.latest_events(arena.store, ["excluded"], 2**31)
            bodies = [one.body for one in logged if one.seq == event and isinstance(one.body, e.Excluded)]
            if not bodies:
                what = f"event {event} of the log is no exclusion"
                raise OptionError(f"{what}. /admin/screening lists them with their numbers.")
            votes = book.find(bodies[0].matchup_ids)
        chosen = tuple(vote.matchup_id for vote in votes if vote.standing is standing)
        if not chosen:
            return None
        change = kind(matchup_ids=chosen, reason=reason)
        effects = screening.effects_of(state, change)
        if not dry_run:
            arena.append([change])
    return (
        f"{plural(len(chosen), 'vote')} {'would be ' if dry_run else ''}{verb}d. Models at another place: "
        f"{effects.places_changed}; largest change of a rating: {effects.largest_rating_change:.0f} points"
    )


def settle(db: str, names: list[str], *, dismiss: bool) -> Rendered:
    """Dismiss the reports of some answers, or delete the comments on some matchups; all that wait, and all comments."""
    with closing(stored.open_store(db)) as store:
        for name in names:
            there = stored.settle_reports(store, name, clock()) if dismiss else stored.delete_comment(store, name)
            if not there:
                raise OptionError(f"{name!r} has no {'open report' if dismiss else 'comment'}.")
        reported, comments = stored.reported_answers(store), stored.latest_comments(store)
    reports = [
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
    lines = []
    for one in reported:
        visitors = plural(len(one.voters), "visitor")
        lines.append(f"answer {one.response_id} of {one.model} on {one.prompt_id}, reported by {visitors}:")
        lines += [f"  {words or 'no reason given'}" for words in one.reasons]
    lines += [f"vote {one.matchup_id} on {one.prompt_id}, {day(one.at)}: {one.comment}" for one in comments]
    nothing = "no report is waiting, and there are no comments"
    return Rendered({"reports": reports, "comments": written}, "\n".join(lines) or nothing)


def switch_prompts(
    db: str, action: str, names: list[str], note: Note, *, dry_run: bool = False, **limits: Any
) -> Rendered:
    """Serve, reserve or rotate prompts, or switch answers; every prompt then, and how many answers are not served."""
    with Arena.open(db) as arena:
        bodies = [SWITCHES[action](name) for name in names]
        if action == "rotate":
            rotation = arena.read(lambda state: plan_rotation(state, **limits))
            for verb, some in (("retired", rotation.retire), ("served from now on", rotation.serve)):
                if some:
                    note(f"{len(some)} prompts {'would be ' if dry_run else ''}{verb}: {', '.join(some)}")
            if not rotation.serve:
                note("no fresh prompts are kept for later: tiltyard arena import --reserve --prompts … --responses …")
            if not dry_run:
                bodies += map(SWITCHES["retire"], rotation.retire)
                bodies += map(SWITCHES["serve"], rotation.serve)
        served = [body.prompt_id for body in bodies if isinstance(body, e.PromptEnabled)]
        seen = arena.read(lambda state: [name for name in served if lost_blindness(state, name)])
        if bodies:
            arena.append(bodies)
        rows, withheld = arena.read(_rows), arena.read(lambda state: len(state.catalog.withheld()))
    for name in seen:
        note(
            f"{name} has lost its blindness: its answers were public with their authors, and anyone who kept them can "
            "tell who wrote what. To be blind again it needs new answers."
        )
    return Rendered({"prompts": rows, "answers_withheld": withheld}, _prompt_table(rows))


HIDDEN = {
    (True, False): "hidden",
    (True, True): "public: this arena is not blind",
    (False, False): "hidden for a week: pairs may wait",
    (False, True): "public",
}
"""The status of a prompt's answers, by whether it is served and whether they are public."""


SWITCHES: dict[str, Callable[[str], AnyBody]] = {
    "serve": lambda name: e.PromptEnabled(prompt_id=name),
    "retire": lambda name: e.PromptDisabled(prompt_id=name),
    "reserve": lambda name: e.PromptReserved(prompt_id=name),
    "serve-answer": lambda name: e.ResponseEnabled(response_id=name),
    "hide-answer": lambda name: e.ResponseDisabled(response_id=name),
}
"""The event that switches a prompt or an answer."""

STATES = {"on": "on", "fresh": "on, fresh", "resting": "resting", "reserved": "for later", "retired": "off"}


def _prompt_table(rows: list[dict[str, Any]]) -> str:
    cells = []
    for row in rows:
        answers = "hidden" if row["status"] == "reserved" else HIDDEN[row["served"], row["answers_public"]]
        shown = f"{row['votes']:,}", f"{row['most_shown']:,}"
        cells.append([row["prompt_id"], STATES[row["status"]], *shown, answers])
    names = ("prompt", "state", "votes", "most shown", "answers")
    columns = [TableColumn(name, left=name not in ("votes", "most shown")) for name in names]
    return "\n".join(Table(columns, cells).text(ruled=False))


def _rows(state: ArenaState) -> list[dict[str, Any]]:
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


def invite(
    db: str,
    n: int,
    public_url: str,
    keep: Callable[[list[str]], None],
    note: Note,
    *,
    uses: int,
    label: str,
    days: int | None,
) -> None:
    """Make invitations; `keep` is called with their links, which are shown this once."""
    site = check_web_address(public_url)

    def keep_links(secrets: list[str]) -> None:
        keep([f"{site}/invited/{secret}" for secret in secrets])

    with closing(stored.open_store(db)) as store:
        now = clock()
        until = None if days is None else now + days * DAY
        stored.make_invitations(store, n, now=now, most=uses, label=label, expires_at=until, keep=keep_links)
        if urlsplit(site).hostname in LOOPBACK:
            note("these links work on this machine only. For others: --public-url http://NAME-OR-ADDRESS:PORT")
        with store.database.read() as connection:
            state, _ = stored.load_state(connection)
        if not state.policy.entry.invitation_only:
            note("the arena is open to all: close it with `tiltyard arena settings --invitation-only`.")


def invitations(db: str, revoke: str | None = None) -> tuple[Any, Rendered]:
    """Revoke the invitation with this name, or all with this label; how many were, and every invitation."""
    with closing(stored.open_store(db)) as store:
        now = clock()
        revoked = 0 if revoke is None else stored.revoke_invitations(store, revoke, now)
        rows = [
            {"name": one.name, "label": one.label, "status": one.status(now), "uses": one.uses, "most": one.most}
            for one in stored.all_invitations(store)
        ]
    lines = []
    for row in rows:
        used = f"used {row['uses']} of {row['most'] or 'any number'}"
        lines.append(f"{row['name']}  {row['status']:<8}  {used}  {row['label']}".rstrip())
    nothing = "no invitations. Make some: tiltyard arena invite --n 50 --out links.txt"
    return revoked, Rendered({"invitations": rows}, "\n".join(lines) or nothing)


def screen(db: str, *, exclude: bool = False, dry_run: bool = False) -> Any:
    """Sessions that vote oddly and answers that name their model; the events that follow are written."""
    with Arena.open(db) as arena:
        result = arena.read(lambda state: screening.screen(arena.store, state, exclude=exclude))
        if result.events and not dry_run:
            arena.append(result.events)
    return result


# What is taken back: texts that are erased, answers that are withdrawn, prompts that are retired.


GOES = {
    "prompt": "Gone for good: the prompt's text in every wording. It is not served any more. These stay: its id, "
    "subject, tags and votes, and its answers, which may repeat what it said (--answers erases them too).",
    "answer": "Gone for good: the answer's text and its file, and what flags quote of it. It is not served any more. "
    "These stay: its random id, its votes, and a file that another answer names too.",
    "model": "Gone for good: every title that the model had, its maker, licence, link and other names. These stay: its "
    "id, its votes, its answers, its price and speed. `tiltyard arena import --models` can give it another title; a "
    "file that still has the old one brings it back.",
    "reason": "Gone for good: the reason that was typed. The votes stay excluded, or count, as before.",
}


def erase(
    db: str, what: str, names: Sequence[str], confirm: Callable[[str], None], note: Note, *, answers: bool = False
) -> int:
    """Erase texts, and with `answers` all answers to the prompts too; how many."""
    if answers and what != "prompt":
        raise OptionError(f"--answers belongs to `erase prompt`. Leave it out to erase a {what}.")
    with Arena.open(db) as arena:
        more = arena.read(lambda state: _answers_to(state, set(names))) if answers else []
        confirm(f"{GOES[what]}\nErase {what} {', '.join(names)}{f' and {len(more)} answers' if more else ''}?")
        wanted: list[Any] = [*((what, name) for name in names), *(("answer", name) for name in more)]
        clean = stored.erase(arena.store, wanted, arena.now())
        note(f"kept for restored copies in {arena.store.outside.deletions_path}")
    if not clean:
        note("others read the database meanwhile: traces may be in its files. Later: tiltyard arena tidy")
    return len(wanted)


def reasons(db: str, what: str) -> list[str]:
    """The latest reasons that were typed, with the numbers of their events."""
    if what != "reason":
        raise OptionError(f"erase which {what}? Give ids.")
    with Arena.open(db) as arena:
        return [f"{seq}  {day}  {reason}" for seq, day, reason in stored.latest_reasons(arena.store)]


def withdraw(db: str, names: Sequence[str], confirm: Callable[[str], None]) -> None:
    """Take answers back: never served again, and shown by nothing."""
    with Arena.open(db) as arena:
        confirm(f"Withdraw {len(names)} answers? It cannot be undone.")
        arena.append([e.ResponseWithdrawn(response_id=name) for name in names])


def retire(db: str, names: Sequence[str], confirm: Callable[[str], None], note: Note) -> None:
    """Retire prompts, after saying how many of their answers become public."""
    with Arena.open(db) as arena:
        for name, shown, withheld in arena.read(lambda state: _becomes_public(state, names)):
            hidden = f", {withheld} stay hidden" if withheld else ""
            note(f"{name}: {shown} answers become public with their authors{hidden}")
        confirm(f"Retire {', '.join(names)}? What is public stays public.")
        arena.append([e.PromptDisabled(prompt_id=name) for name in names])


def _answers_to(state: ArenaState, prompts: set[str]) -> list[str]:
    catalog = state.catalog
    numbers = {number for number, prompt in enumerate(catalog.prompts) if prompt.prompt_id in prompts}
    return [name for (_, number), name in catalog.response_ids.items() if number in numbers]


def _becomes_public(state: ArenaState, names: Sequence[str]) -> list[tuple[str, int, int]]:
    catalog, result = state.catalog, []
    shown = [prompt for _, prompt in shown_answers(catalog)]
    for name in names:
        number = catalog.prompt(name)
        there = int(catalog.answered.view[:, number].sum())
        result.append((name, shown.count(number), there - shown.count(number)))
    return result


# What is kept about visitors, and how it goes.


def forget(db: str, voters: Sequence[str], invitation: str | None, note: Note, *, everybody: bool = False) -> str:
    """Forget visitors by their keys or by the invitation that they used, or all of them; what was deleted."""
    if bool(voters) + (invitation is not None) + everybody != 1:
        raise OptionError("forget whom? Give the keys of visitors, or --invitation NAME, or --all.")
    with closing(stored.Store.open(db)) as store:
        with store.database.read() as connection:
            if stored.load_state(connection)[0].review is not None:
                raise OptionError("this is the database of a review. Use `tiltyard review people --erase`.")
        if voters:
            done = stored.forget_voters(store, voters)
        elif everybody:
            done = stored.forget_everybody(store, clock())
        else:
            done = stored.forget_invitation(store, invitation or "")
    note(f"kept for restored copies in {store.outside.deletions_path}")
    return _deleted(done)


def tidy(db: str, note: Note) -> str:
    """Delete what is kept about visitors for longer than the policy says; what was deleted."""
    with closing(stored.open_store(db)) as store:
        with store.database.read() as connection:
            retention = stored.load_state(connection)[0].policy.retention
        done = stored.tidy(store, clock(), retention)
    if store.database.purge_due:
        note("others read the database meanwhile: traces may be in its files. Run it again later.")
    return _deleted(done)


def _deleted(done: stored.Deleted) -> str:
    return (
        f"deleted: {plural(done.voters, 'link')} from cookies to votes, {plural(done.invitations, 'invitation')}, "
        f"{plural(done.comments, 'comment')}, words of {plural(done.reports, 'report')}, "
        f"{plural(done.counts, 'count')} of limits, {plural(done.blocks, 'address block')}, "
        f"{plural(done.keys, 'key')} of addresses."
    )


def new_secret(db: str, say: Note) -> str:
    """Change the site's secret, and drop what was made of networks under the old one; what is to be done next."""
    today = date.today()
    with closing(stored.Store.open(db)) as store:
        outside = store.outside
        if os.environ.get(SECRET_VARIABLE):
            todo = (
                f"set {SECRET_VARIABLE}=NEW,OLD on every host (before that OLD,NEW, if there are several), restart, "
                "and take OLD away after 30 days."
            )
        elif outside.secrets(today):
            until = outside.change_secret(today)
            todo = f"new secret in {outside.key_path}; the old one is taken until {until}. Restart the site."
        else:
            raise StoreError(
                f"there is no key file {outside.key_path}. Nothing was changed. Run this as the user who serves the "
                f"arena; if {SECRET_VARIABLE} is set there, set it here too."
            )
        stored.forget_networks(store)  # and again at the next start, since a running site has the old secret until then
    say("dropped: all keys of networks, what they stood for, and counts of limits.")
    return todo

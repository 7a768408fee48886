"""What an operator does with an arena from a shell: models, prompts, votes, reports, invitations, screening."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
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
)
from tiltyard.arena import events as e
from tiltyard.arena.store import (
    all_invitations,
    delete_comment,
    latest_comments,
    latest_events,
    load_state,
    load_votes,
    make_invitations,
    open_store,
    reported_answers,
    revoke_invitations,
    settle_reports,
)
from tiltyard.errors import OptionError
from tiltyard.pages import Table, TableColumn, day, plural
from tiltyard.verbs.rendered import Rendered
from tiltyard.web.admin_views import model_lines
from tiltyard.web.settings import check_web_address

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
            state, book, _ = load_votes(connection)
        if event is None:
            known = book.standings()
            if missing := next((name for name in voters if name not in known), None):
                raise OptionError(f"{missing!r} has no votes. `arena screen` shows the keys of visitors.")
            votes = [vote for name in dict.fromkeys(voters) for vote in book.of_voter(name)]
        else:
            logged = latest_events(arena.store, ["excluded"], 2**31)
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
    with closing(open_store(db)) as store:
        for name in names:
            there = settle_reports(store, name, clock()) if dismiss else delete_comment(store, name)
            if not there:
                raise OptionError(f"{name!r} has no {'open report' if dismiss else 'comment'}.")
        reported, comments = reported_answers(store), latest_comments(store)
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
        bodies = _switches(action, names)
        if action == "rotate":
            rotation = arena.read(lambda state: plan_rotation(state, **limits))
            for verb, some in (("retired", rotation.retire), ("served from now on", rotation.serve)):
                if some:
                    note(f"{len(some)} prompts {'would be ' if dry_run else ''}{verb}: {', '.join(some)}")
            if not rotation.serve:
                note("no fresh prompts are kept for later: tiltyard arena import --reserve --prompts … --responses …")
            bodies += [] if dry_run else [*_switches("retire", rotation.retire), *_switches("serve", rotation.serve)]
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


def _switches(action: str, names: list[str] | tuple[str, ...]) -> list[AnyBody]:
    """The events that switch these prompts or answers."""
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

    with closing(open_store(db)) as store:
        now = clock()
        until = None if days is None else now + days * DAY
        make_invitations(store, n, now=now, most=uses, label=label, expires_at=until, keep=keep_links)
        if urlsplit(site).hostname in LOOPBACK:
            note("these links work on this machine only. For others: --public-url http://NAME-OR-ADDRESS:PORT")
        with store.database.read() as connection:
            state, _ = load_state(connection)
        if not state.policy.entry.invitation_only:
            note("the arena is open to all: close it with `tiltyard arena settings --invitation-only`.")


def invitations(db: str, revoke: str | None = None) -> tuple[Any, Rendered]:
    """Revoke the invitation with this name, or all with this label; how many were, and every invitation."""
    with closing(open_store(db)) as store:
        now = clock()
        revoked = 0 if revoke is None else revoke_invitations(store, revoke, now)
        rows = [
            {"name": one.name, "label": one.label, "status": one.status(now), "uses": one.uses, "most": one.most}
            for one in all_invitations(store)
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

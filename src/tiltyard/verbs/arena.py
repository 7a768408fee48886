"""The verbs of a live arena: set it up, fill it, serve it, look it over, and report on its weeks."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing, suppress
from datetime import date
from pathlib import Path
from typing import Any, Literal

import msgspec

from tiltyard.arena import (
    NOT_BLIND,
    Arena,
    PhaseChanged,
    SettingsChanged,
    carry_out,
    hide_self_naming,
    import_votes,
    opened_source,
    prepare_import,
    weekly_report,
)
from tiltyard.arena import ImportFolder as ImportFolder
from tiltyard.arena import open_export as open_export
from tiltyard.arena.store import (
    Store,
    checked_url,
    events_in_order,
    kept_weeks,
    open_store,
    site_texts,
    without_secrets,
)
from tiltyard.arena.study import period_of_log, study_of
from tiltyard.data.bank import AnswerKind
from tiltyard.errors import OptionError, StoreError, TiltyardError
from tiltyard.reports import keep_finished_weeks, weekly_json, weekly_markdown, weekly_page, write_folder
from tiltyard.site import checkup, serving
from tiltyard.site.settings import SiteSettings, check_web_address, secrets_of
from tiltyard.verbs.policy import changed_text, policy_text, read_policy_file

Note = Callable[[str], None]


def create(db: str, policy: Path | None, phase: int) -> None:
    """Create an empty arena."""
    chosen = read_policy_file(policy)
    with Arena(Store.create(db)) as arena:
        arena.append([SettingsChanged(policy=chosen), PhaseChanged(phase=phase)])


class ChangedSettings(msgspec.Struct, frozen=True):
    """An arena's settings: all, or where some were changed what changed."""

    phase: int
    policy: str
    texts: list[str]
    warnings: list[str]
    """What changed for visitors who came before."""

    def __str__(self) -> str:
        return "\n".join([f"phase: {self.phase}", *filter(None, [self.policy]), *self.texts])


def change_settings(
    db: str,
    policy: Path | None,
    phase: int | None,
    texts_public: Literal["after_retirement", "always"] | None,
    invitation_only: bool | None,
    site: Mapping[str, str | None],
    privacy: Path | None,
) -> ChangedSettings:
    """Change an arena's policy and phase, each by an event of its log, and the texts of its site; None: as it is."""
    with Arena.open(db) as arena:
        before = arena.read(lambda state: state.policy)
        chosen = before if policy is None else read_policy_file(policy)
        if texts_public is not None:
            chosen = msgspec.structs.replace(chosen, texts_public=texts_public)
        if invitation_only is not None:
            entry = msgspec.structs.replace(chosen.entry, invitation_only=invitation_only)
            chosen = msgspec.structs.replace(chosen, entry=entry)
        texts: dict[Any, str | None] = {**site, "privacy": None if privacy is None else _read_text(privacy)}
        for name, text in texts.items():
            if text is not None:
                site_texts.set_site_text(arena.store, name, text)
        bodies: list[Any] = [] if chosen is before else [SettingsChanged(policy=chosen)]
        bodies += [] if phase is None else [PhaseChanged(phase=phase)]
        if bodies:
            arena.append(bodies)
        now, at = arena.read(lambda state: (state.policy, state.phase))
        shown = [f"{name}: {message}" for name in texts if (message := site_texts.site_text(arena.store, name))]
    warnings = []
    if now.texts_public == "always":
        warnings.append(NOT_BLIND)
    elif before.texts_public == "always":
        hidden = "answers are hidden from now on, but were public until now"
        warnings.append(f"{hidden}: anyone who kept them can tell who wrote what.")
    asked = any(given is not None for given in (policy, phase, texts_public, invitation_only, *texts.values()))
    return ChangedSettings(at, changed_text(before, now) if asked else policy_text(now), shown, warnings)


def import_into(
    db: str,
    source: Path | None,
    given: ImportFolder,
    votes: Path | None,
    columns: Mapping[str, str],
    note: Note,
    *,
    reserve: bool = False,
    code: str | None = None,
    dry_run: bool = False,
) -> int | None:
    """Add prompts, answers, facts about models, and votes; and how many prompts can be served then.

    What is there already stays. None: nothing was imported, as it was a dry run.
    """
    with Arena.open(db) as arena, ExitStack() as stack:
        if source is not None:
            most = arena.read(lambda state: state.policy.media.most_bytes("total"))
            found = stack.enter_context(opened_source(source, most))
            given = ImportFolder(
                given.prompts or found.prompts, given.responses or found.responses, given.models or found.models
            )
        if given != ImportFolder(None, None, None) or source is not None:
            plan = prepare_import(
                arena,
                bank=given.prompts,
                responses=given.responses,
                cards=given.models,
                reserve=reserve,
                code=None if code is None else AnswerKind(code),
            )
            stack.callback(plan.close)
            if not dry_run:
                carry_out(arena, plan)
            for line in plan.lines():
                note(line)
            if dry_run:
                note("nothing was imported: this was a dry run")
                return None
            if plan.models or plan.answers:
                for line in hide_self_naming(arena):
                    note(line)
        if votes is not None:
            taken = import_votes(arena, votes, columns)
            note(f"votes: {taken.new:,} imported, {taken.before:,} were there; {taken.excluded:,} do not count")
        return arena.read(lambda state: int((state.catalog.servable().sum(axis=0) >= 2).sum()))


def serve(db: str, host: str, port: int, workers: int, note: Note, *, notice: str | None, **options: Any) -> None:
    """Serve an arena until somebody stops it."""
    sockets = serving.bound_sockets(host, port)
    with Arena.open(db) as arena:
        if arena.read(lambda state: state.review) is not None:
            raise OptionError(
                "this is the database of a review, which has no public pages. Use `tiltyard review serve`."
            )
        texts: dict[str, str] = {name: site_texts.site_text(arena.store, name) for name in site_texts.LONGEST}
        about_secret = arena.store.outside.about_secret()
        for line in hide_self_naming(arena):
            note(line)
    secret, admin_secret = secrets_of()
    options |= texts if notice is None else {**texts, "notice": notice}
    settings = SiteSettings(db=db, secret=secret, admin_secret=admin_secret, **options)
    everywhere = ": every address of this machine" if host in ("0.0.0.0", "::") else ""  # noqa: S104 - only said
    at = settings.public_url or f"http://{host}:{port}{everywhere}"
    if not secret:
        note(about_secret)
    note(f"serving {shown_url(db)} at {at} (Ctrl-C stops)")
    if not checkup.is_private(host):
        note("for the open internet, put a proxy in front: this server has no TLS and waits for slow clients")
    serving.serve(settings, workers=workers, sockets=sockets)


def validity(db: str, length: int, format: Literal["md", "html", "json"], note: Note) -> str:
    """The validity report of the last so many microseconds."""
    with closing(open_store(db)) as store:
        with store.database.read() as connection:
            last = connection.value("SELECT at FROM events ORDER BY seq DESC LIMIT 1") or 0
        state, period = period_of_log(events_in_order(store), last - length)
    result, trouble = study_of(state, period.votes)
    if trouble:
        note(f"no Bradley–Terry intervals yet: {trouble}")
    written = {"md": weekly_markdown, "html": weekly_page, "json": weekly_json}[format]
    return written(weekly_report(state, period, result))


def weekly(db: str, out: Path | None, *, again: bool) -> tuple[list[tuple[Any, bool]], int]:
    """Write the report of every finished week that has none yet: all weeks, oldest first, and whether each is new.

    With a folder, all reports are copied there; and how many are new or changed in it.
    """
    with closing(open_store(db)) as store:
        written = set(keep_finished_weeks(store, again=again))
        weeks = [(week, week.week in written) for week in reversed(kept_weeks(store))]
        return weeks, 0 if out is None else write_folder(store, out)


def _read_text(path: Path) -> str:
    """The text of a file, as UTF-8."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"cannot read {path}: {error}. Name a text file in UTF-8.") from None


def shown_url(url: str) -> str:
    """A URL without its password."""
    return without_secrets(checked_url(url))


def doctor(db: str, url: str | None, backups: Path | None) -> list[checkup.CheckupLine]:
    """A look over a deployment: the lines of all checks that can be made with what was given."""
    address = None if url is None else check_web_address(url)
    now, secret = time.time(), secrets_of()[0]
    try:
        with Arena.open(db) as arena:
            lines = [*checkup.check_store(arena.store, arena.read(lambda state: state.policy), now)]
            lines += checkup.check_secrets(arena.store)
            with suppress(StoreError):  # named by now
                secret = secret or arena.store.outside.secrets(date.today())
    except (TiltyardError, OSError) as error:
        lines = [checkup.repair("database", str(error), "Check its disk, the rights of its folder, and --db.")]
        lines += checkup.check_secrets(None)
    if backups is not None:
        lines.append(checkup.check_backups(backups, now))
    else:
        lines.append(checkup.look("backups", "not checked", "Name their folder: --backups DIR"))
    if address is not None:
        lines += checkup.check_site(address, secret.partition(",")[0])
    else:
        lines.append(checkup.look("site", "not checked", "Name the address that visitors use: --url URL"))
    return lines

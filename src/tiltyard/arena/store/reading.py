"""Reading an arena alongside its writer: for exports, screening, reports and operators' figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec

from tiltyard.arena.rules.blindness import public_prompts
from tiltyard.arena.rules.events import (
    AnyBody,
    Event,
    Excluded,
    Flagged,
    PromptAdded,
    ResponseAdded,
    Restored,
    decode_body,
)
from tiltyard.arena.rules.votes import SessionActs
from tiltyard.arena.rules.voting import CLOCK_MARGIN
from tiltyard.arena.store import log
from tiltyard.arena.store.checkpoints import load_state
from tiltyard.arena.store.desk import open_reports
from tiltyard.arena.store.log import RARE
from tiltyard.arena.store.matchups import public_until
from tiltyard.arena.store.store import Store
from tiltyard.arena.store.texts import is_erased
from tiltyard.render import day

LATEST_VOTES = 500
"""How many votes are looked at to see whether most come from one block."""


def events_in_order(store: Store) -> Iterator[Event]:
    """The whole log, from the beginning."""
    with store.database.read() as connection:
        for page in log.pages(connection, 0):
            yield from page.events


def prompt_texts(store: Store) -> dict[str, str]:
    """The text of every prompt, without those that are erased."""
    with store.database.read() as connection:
        result = {body.prompt_id: body for body in log.bodies_of(connection, PromptAdded)}
    return {name: body.text for name, body in result.items() if not is_erased(body)}


def retired_prompts(store: Store, now: int) -> list[PromptAdded]:
    """The prompts, in every wording, that nobody can be voting on any more; in an arena that is not blind, all.

    Those that are erased are left out.
    """
    with store.database.read() as connection:
        state, _ = load_state(connection, public_until(connection, now))
        added = log.bodies_of(connection, PromptAdded, state.seq)
    catalog = state.catalog
    public = {catalog.prompts[n].prompt_id for n in public_prompts(state) if not catalog.prompt_reserved[n]}
    return [body for body in added if body.prompt_id in public and not is_erased(body)]


def model_titles(store: Store) -> dict[str, str]:
    """What models are called, by id, where that is not their id."""
    with store.database.read() as connection:
        models = load_state(connection)[0].catalog.models
    return {model.model: model.display_name for model in models if model.display_name != model.model}


def texts_of_answers(store: Store) -> dict[str, str]:
    """The text of every answer that was ever added, by id, without those that are erased."""
    with store.database.read() as connection:
        added = log.bodies_of(connection, ResponseAdded)
    return {body.response_id: body.text for body in added if not is_erased(body)}


def text_answers(store: Store) -> dict[tuple[str, str], str]:
    """By prompt and model, the latest answer that is a text, without those that are erased."""
    with store.database.read() as connection:
        added = log.bodies_of(connection, ResponseAdded)
    return {(body.prompt_id, body.model): body.text for body in added if not (body.file or is_erased(body))}


def answers_shown(store: Store, names: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Both answers of every matchup that was voted on and showed one of these."""
    with store.database.read() as connection:
        known = store.answers.by_id(connection)
        by_seq = {answer.seq: name for name, answer in known.items()}
        listed = sorted({known[name].seq for name in names if name in known})
        if not listed:
            return {}
        rows = connection.rows(
            "SELECT id, answer_a, answer_b FROM matchups WHERE vote_seq IS NOT NULL "
            "AND (answer_a IN ?? OR answer_b IN ??)",
            listed,
            listed,
        )
    return {name: (by_seq[a], by_seq[b]) for name, a, b in rows}


def session_acts(store: Store) -> dict[str, SessionActs]:
    """How often each voter voted, undid and skipped; voters who did none of these are left out.

    A matchup that was left until it expired counts as skipped.
    """
    query = (
        "SELECT voter, count(*) FILTER (WHERE status IN ('voted', 'undone')), "
        "count(*) FILTER (WHERE status = 'undone'), count(*) FILTER (WHERE status IN ('skipped', 'expired')) "
        "FROM matchups WHERE status <> 'open' GROUP BY voter ORDER BY voter"
    )
    with store.database.read() as connection:
        rows = connection.rows(query)
    return {voter: SessionActs(cast=cast, undone=undone, skipped=skipped) for voter, cast, undone, skipped in rows}


def flags_raised(store: Store) -> set[tuple[str, str]]:
    """What has been flagged so far: (subject id, flag)."""
    with store.database.read() as connection:
        return {(body.subject_id, body.flag) for body in log.bodies_of(connection, Flagged)}


class Backlog(msgspec.Struct, frozen=True):
    """The log's last number, and how many matchups and reports are open.

    `reported_answers` are those that open reports are about. `head_at` and `signed_head_at` say when the latest head,
    and the latest signed one, was published; None: never.
    """

    head_seq: int
    open_matchups: int
    head_at: int | None = None
    signed_head_at: int | None = None
    open_reports: int = 0
    reported_answers: int = 0


def backlog(store: Store) -> Backlog:
    """The current figures."""
    with store.database.read() as connection:
        return Backlog(
            log.head(connection)[0],
            int(connection.value("SELECT count(*) FROM matchups WHERE status = 'open'")),
            connection.value(f"SELECT max(at) FROM events WHERE {RARE} AND kind = 'head_published'"),
            connection.value(
                f"SELECT max(at) FROM events WHERE {RARE} AND kind = 'head_published' AND body LIKE ?", '%"signature":%'
            ),
            *open_reports(connection),
        )


def latest_decision(store: Store) -> int:
    """The last event in which the operator decided something."""
    with store.database.read() as connection:
        return log.latest_decision(connection, 0, log.EVERYTHING) or 0


def events_ahead(store: Store, now: int) -> tuple[int, int]:
    """How many events of the log are dated after this time, and by how many microseconds at most."""
    with store.database.read() as connection:
        n, latest = connection.rows("SELECT count(*), max(at) FROM events WHERE at > ?", now + CLOCK_MARGIN)[0]
    return int(n), 0 if latest is None else int(latest) - now


def server_time(store: Store) -> float:
    """The clock of a PostgreSQL server, in seconds since 1970."""
    with store.database.read() as connection:
        return float(connection.value("SELECT extract(epoch FROM clock_timestamp())"))


def latest_blocks(store: Store, most: int = LATEST_VOTES) -> list[tuple[str, str]]:
    """The block and the voter of each of the latest votes; of a vote without a block, an empty name."""
    query = "SELECT vote_block, voter FROM matchups WHERE vote_seq IS NOT NULL ORDER BY vote_seq DESC LIMIT ?"
    with store.database.read() as connection:
        return [(block, voter) for block, voter in connection.rows(query, most)]


class LoggedEvent(msgspec.Struct, frozen=True):
    """An event with its text, as far as it is not erased, and when it was written, in microseconds."""

    seq: int
    at: int
    body: AnyBody


def latest_events(store: Store, kinds: Iterable[str], most: int) -> list[LoggedEvent]:
    """The latest events of these rare kinds, newest first."""
    query = f"SELECT seq, at, body FROM events WHERE {RARE} AND kind IN ?? ORDER BY seq DESC LIMIT ?"
    with store.database.read() as connection:
        rows = connection.rows(query, list(kinds), most)
        bodies = log.filled(connection, [decode_body(text) for _, _, text in rows])
    return [LoggedEvent(seq, at, body) for (seq, at, _), body in zip(rows, bodies, strict=True)]


def latest_reasons(store: Store, most: int = 50) -> list[tuple[int, str, str]]:
    """The latest reasons that operators gave: the number of the event, the day, and the reason."""
    events = latest_events(store, ["excluded", "restored"], most)
    return [
        (event.seq, day(event.at), event.body.reason)
        for event in events
        if isinstance(event.body, Excluded | Restored) and event.body.reason
    ]


class KindCounts:
    """How many events of each kind the log holds. Counted once, then updated with new events."""

    def __init__(self) -> None:
        self._seq = 0
        self._counts: Counter[str] = Counter()

    def follow(self, store: Store) -> Counter[str]:
        with store.database.read() as connection:
            head, _ = log.head(connection)
            if head > self._seq:
                query = "SELECT kind, count(*) FROM events WHERE seq > ? AND seq <= ? GROUP BY kind"
                self._counts.update({kind: int(n) for kind, n in connection.rows(query, self._seq, head)})
                self._seq = head
        return Counter(self._counts)

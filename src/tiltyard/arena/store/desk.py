"""What people write about answers and votes outside the log: reports and comments. All of it is deletable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from tiltyard.arena.rules.events import Choice, Explained, ResponseAdded, decode_body
from tiltyard.arena.rules.reasons import ModelReasons, reasons_of_models
from tiltyard.arena.store.database import Connection
from tiltyard.arena.store.log import EVERYTHING, RARE
from tiltyard.arena.store.outside import TEXT
from tiltyard.arena.store.store import Store

Answered = Literal["A", "B"]

REASON_CHARACTERS = 300
"""How long a reason may be; what is longer is cut."""

_SHOWN = "CASE WHEN side = 'A' THEN answer_a ELSE answer_b END"


class ReportedAnswer(NamedTuple):
    """An answer that visitors reported: their reasons, the latest first, when the latest report came, and by whom."""

    response_id: str
    model: str
    prompt_id: str
    text: str
    at: int | None
    reasons: tuple[str, ...]
    voters: frozenset[str] = frozenset()


def add_report(connection: Connection, matchup_id: str, side: Answered, reason: str, at: int) -> None:
    """Keep a report of one answer of a matchup; a second one of the same answer is not kept."""
    text = " ".join(reason.replace("\x00", " ").split())[:REASON_CHARACTERS]
    connection.insert("reports", ("matchup_id", "side", "at", "reason"), [(matchup_id, side, at, text)], or_ignore=True)


def open_reports(connection: Connection) -> tuple[int, int]:
    """How many reports nobody has dealt with, and how many answers they are about."""
    row = connection.one(
        f"SELECT count(*), count(DISTINCT {_SHOWN}) FROM reports JOIN matchups ON id = matchup_id "
        "WHERE settled_at IS NULL"
    )
    return (0, 0) if row is None else (int(row[0]), int(row[1]))


def reported_answers(store: Store, most: int = 2_000) -> list[ReportedAnswer]:
    """Answers with reports that nobody has dealt with: those that most visitors reported first, then the latest."""
    result: dict[int, ReportedAnswer] = {}
    with store.database.read() as connection:
        rows = connection.rows(
            f"SELECT {_SHOWN}, at, reason, voter FROM reports JOIN matchups ON id = matchup_id "
            "WHERE settled_at IS NULL ORDER BY at DESC, id LIMIT ?",
            most,
        )
        answers = _answers(store, connection, {row[0] for row in rows})
    for seq, at, reason, voter in rows:
        kept = result.get(seq) or answers[seq]._replace(at=at)
        result[seq] = kept._replace(reasons=(*kept.reasons, reason), voters=kept.voters | {voter})
    return sorted(result.values(), key=lambda answer: -len(answer.voters))


def answers_by_id(store: Store, response_ids: list[str]) -> list[ReportedAnswer]:
    """Answers by id, without reports."""
    with store.database.read() as connection:
        return list(_answers(store, connection, store.answers.seqs(connection, response_ids)).values())


def _answers(store: Store, connection: Connection, seqs: set[int] | list[int]) -> dict[int, ReportedAnswer]:
    return {
        seq: ReportedAnswer(body.response_id, body.model, body.prompt_id, body.text, None, ())
        for seq, body in store.texts.get(connection, seqs).items()
        if isinstance(body, ResponseAdded)
    }


def settle_reports(store: Store, response_id: str, at: int) -> int:
    """Mark every report of an answer as dealt with; how many there were."""
    with store.database.write() as connection:
        seqs = store.answers.seqs(connection, [response_id])
        if not seqs:
            return 0
        return connection.execute(
            "UPDATE reports SET settled_at = ? WHERE settled_at IS NULL AND EXISTS "
            f"(SELECT 1 FROM matchups WHERE id = matchup_id AND {_SHOWN} = ?)",
            at,
            seqs[0],
        )


COUNTED_MOST = 50_000
"""Of how many explained votes, the latest, a model's page counts the reasons."""

RECENT = 1_000
"""Among how many of the latest explanations a voter's own is looked for, to show it again."""

_EXPLAINED = f"SELECT body FROM events WHERE {RARE} AND kind = 'explained' AND seq <= ? ORDER BY seq DESC LIMIT ?"


def comments_on(store: Store, matchup_ids: Sequence[str]) -> dict[str, str]:
    """What was written about these matchups."""
    with store.database.read() as connection:
        rows = connection.rows("SELECT id, text FROM texts WHERE kind = 'comment' AND id IN ??", sorted(matchup_ids))
    return dict(rows)


class Comment(NamedTuple):
    """A comment on a vote, for the operator."""

    matchup_id: str
    at: int
    comment: str
    choice: str
    model_a: str
    model_b: str
    prompt_id: str


def note_withdrawn(store: Store, connection: Connection, matchup_id: str) -> None:
    """Note outside the database that the comment on a vote goes; another one may come in its place."""
    rows = connection.rows("SELECT digest FROM texts WHERE kind = 'comment' AND id = ?", matchup_id)
    store.outside.note_deleted(*((TEXT, digest) for (digest,) in rows))


def tags_by_matchup(store: Store, until: int, most: int = 2**31) -> dict[str, tuple[str, ...]]:
    """The tags of every vote that was explained up to an event of the log; the last explanation of a vote holds."""
    result: dict[str, tuple[str, ...]] = {}
    with store.database.read() as connection:
        for (text,) in connection.rows(_EXPLAINED, until, most):
            body = decode_body(text)
            assert isinstance(body, Explained)
            result.setdefault(body.matchup_id, body.tags)
    return {matchup_id: tags for matchup_id, tags in result.items() if tags}


def model_reasons(store: Store, until: int) -> Mapping[str, ModelReasons]:
    """The reasons for and against every model, of the latest explained votes that count."""
    tags = tags_by_matchup(store, until, COUNTED_MOST)
    if not tags:
        return {}
    with store.database.read() as connection:
        query = "SELECT id, answer_a, answer_b, choice FROM matchups WHERE id IN ?? AND status = 'voted' AND counts = 1"
        rows = connection.rows(query, sorted(tags))
        answers = _answers(store, connection, {seq for row in rows for seq in row[1:3]})
    return reasons_of_models(
        (answers[a].model, answers[b].model, Choice(choice), tags[name]) for name, a, b, choice in rows
    )


class Explanation(NamedTuple):
    """What one vote was explained with."""

    tags: tuple[str, ...]
    comment: str


def own_explanation(store: Store, matchup_id: str) -> Explanation | None:
    """What a recent vote was explained with; None if it was not."""
    with store.database.read() as connection:
        for (text,) in connection.rows(_EXPLAINED, EVERYTHING, RECENT):
            body = decode_body(text)
            if isinstance(body, Explained) and body.matchup_id == matchup_id:
                comment = connection.value("SELECT text FROM texts WHERE kind = 'comment' AND id = ?", matchup_id)
                return Explanation(body.tags, comment or "")
    return None


def latest_comments(store: Store, most: int = 200) -> list[Comment]:
    """What voters wrote about their votes, the latest first."""
    with store.database.read() as connection:
        rows = connection.rows(
            "SELECT t.id, t.at, t.text, m.choice, m.answer_a, m.answer_b FROM texts t JOIN matchups m ON m.id = t.id "
            "WHERE t.kind = 'comment' ORDER BY t.at DESC, t.id LIMIT ?",
            most,
        )
        answers = _answers(store, connection, {seq for row in rows for seq in row[4:]})
    return [
        Comment(name, at, comment, choice, answers[a].model, answers[b].model, answers[a].prompt_id)
        for name, at, comment, choice, a, b in rows
    ]

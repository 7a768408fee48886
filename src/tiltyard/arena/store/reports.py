"""What visitors reported of answers they were shown, for the operator. Outside the chain, and deletable."""

from __future__ import annotations

from typing import Literal, NamedTuple

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from tiltyard.arena.store import Store
from tiltyard.arena.store.tables import matchups, models, prompts, reports, responses

Answered = Literal["A", "B"]

REASON_CHARACTERS = 300
"""How long a reason may be; what is longer is cut."""

_shown = sa.case((reports.c.side == "A", matchups.c.response_a), else_=matchups.c.response_b)
answers_reported = (
    sa.select(sa.func.count(_shown.distinct()))
    .join_from(reports, matchups, matchups.c.id == reports.c.matchup_id)
    .where(reports.c.settled_at.is_(None))
)
"""How many answers have reports that nobody has dealt with."""

_waiting = (
    sa.select(
        *(reports.c.at, reports.c.reason, matchups.c.voter),
        *(responses.c.response_id, models.c.model, prompts.c.prompt_id, responses.c.text),
    )
    .join_from(reports, matchups, matchups.c.id == reports.c.matchup_id)
    .join(responses, responses.c.response_id == _shown)
    .join(models, models.c.number == responses.c.model)
    .join(prompts, prompts.c.number == responses.c.prompt)
    .where(reports.c.settled_at.is_(None))
    .order_by(reports.c.id.desc())
    .limit(sa.bindparam("most"))
)
_about = (
    sa.select(reports.c.id)
    .join_from(reports, matchups, matchups.c.id == reports.c.matchup_id)
    .where(_shown == sa.bindparam("answer"), reports.c.settled_at.is_(None))
)
_one = (
    sa.select(responses.c.response_id, models.c.model, prompts.c.prompt_id, responses.c.text)
    .join_from(responses, models, models.c.number == responses.c.model)
    .join(prompts, prompts.c.number == responses.c.prompt)
)


class ReportedAnswer(NamedTuple):
    """An answer that visitors reported: their reasons, the latest first, when the latest report came, and by whom."""

    response_id: str
    model: str
    prompt_id: str
    text: str
    at: int | None
    reasons: tuple[str, ...]
    voters: frozenset[str] = frozenset()


def add_report(store: Store, matchup_id: str, side: Answered, reason: str, at: int) -> None:
    """Keep a report of one answer of a matchup; a second one of the same answer is not kept."""
    dialect = sqlite if store.database.is_sqlite else postgresql
    text = " ".join(reason.replace("\x00", " ").split())[:REASON_CHARACTERS]
    row = {"at": at, "matchup_id": matchup_id, "side": side, "reason": text}
    with store.database.write() as connection:
        connection.execute(
            dialect.insert(reports).values(row).on_conflict_do_nothing(index_elements=["matchup_id", "side"])
        )


def reported_answers(store: Store, most: int = 2_000) -> list[ReportedAnswer]:
    """Answers with reports that nobody has dealt with: those that most visitors reported first, then the latest."""
    result: dict[str, ReportedAnswer] = {}
    with store.database.read() as connection:
        for at, reason, voter, response_id, model, prompt_id, text in connection.execute(_waiting, {"most": most}):
            kept = result.get(response_id) or ReportedAnswer(response_id, model, prompt_id, text, at, ())
            result[response_id] = kept._replace(reasons=(*kept.reasons, reason), voters=kept.voters | {voter})
    return sorted(result.values(), key=lambda answer: -len(answer.voters))


def answers_by_id(store: Store, response_ids: list[str]) -> list[ReportedAnswer]:
    """Answers by id, without reports."""
    with store.database.read() as connection:
        rows = connection.execute(_one.where(responses.c.response_id.in_(response_ids)))
        return [ReportedAnswer(*row, None, ()) for row in rows]


def settle_reports(store: Store, response_id: str, at: int) -> int:
    """Mark every report of an answer as dealt with; how many there were."""
    if "\x00" in response_id:
        return 0  # no id has one, and PostgreSQL would not even look
    with store.database.write() as connection:
        ids = list(connection.execute(_about, {"answer": response_id}).scalars())
        connection.execute(sa.update(reports).where(reports.c.id.in_(ids)).values(settled_at=at))
        return len(ids)

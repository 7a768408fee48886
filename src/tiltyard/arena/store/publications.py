"""What a site published: up to which event, and the fingerprints of its weights and ratings.

The weights and ratings themselves are not stored: they follow from the log. The fingerprints are evidence that what
visitors saw is what follows from it, and let servers that start in between show the same publication.
"""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from tiltyard.arena.catalog import Catalog
from tiltyard.arena.events import SettingsChanged, decode_body
from tiltyard.arena.policy import Policy
from tiltyard.arena.store import Store
from tiltyard.arena.store.reading import cast_votes
from tiltyard.arena.store.tables import chain, events, publications
from tiltyard.arena.votes import VoteTable, vote_table
from tiltyard.arena.weights import fingerprint, weighed
from tiltyard.ratings.glicko2 import Glicko2State, rate_battles

KEPT = 100
"""Publications that are kept: the last hour and a half."""

_latest = sa.select(publications).order_by(publications.c.seq.desc()).limit(1)
_settings = (
    sa.select(events.c.body)
    .join_from(events, chain, events.c.id == chain.c.event_id)
    .where(events.c.kind == "settings_changed", chain.c.seq <= sa.bindparam("until"))
    .order_by(chain.c.seq.desc())
    .limit(1)
)


@dataclass(frozen=True, slots=True)
class PublishedState:
    """One publication: the last event in it, when it was made (microseconds), its votes and its fingerprints."""

    seq: int
    at: int
    votes: int
    weights_sha256: str
    ratings_sha256: str


def publication_of(seq: int, at: int, votes: VoteTable, end: Glicko2State) -> PublishedState:
    """What is recorded of weighed votes and of the ratings that they led to.

    Models that were never voted on have their first ratings and are left out: adding one changes no publication.
    """
    played = votes.rated
    n = int(max(votes.model_a[played].max(initial=-1), votes.model_b[played].max(initial=-1))) + 1
    ratings = fingerprint(end.rating[:n], end.deviation[:n], end.volatility[:n])
    return PublishedState(seq, at, len(votes), fingerprint(votes.weight), ratings)


def latest_publication(connection: sa.Connection) -> PublishedState | None:
    """The latest publication of any server; None if there is none."""
    row = connection.execute(_latest).first()
    return None if row is None else PublishedState(*row)


def record_publication(store: Store, published: PublishedState) -> None:
    """Remember a publication, and forget old ones. The first record of an event's publication stays."""
    dialect = sqlite if store.database.is_sqlite else postgresql
    row = {name: getattr(published, name) for name in published.__slots__}
    oldest = sa.select(publications.c.seq).order_by(publications.c.seq.desc()).offset(KEPT).limit(1).scalar_subquery()
    with store.database.write() as connection:
        connection.execute(dialect.insert(publications).values(row).on_conflict_do_nothing(index_elements=["seq"]))
        connection.execute(sa.delete(publications).where(publications.c.seq <= oldest))


def policy_at(connection: sa.Connection, seq: int) -> Policy:
    """The policy in force after an event."""
    text = connection.execute(_settings, {"until": seq}).scalar()
    body = None if text is None else decode_body(text)
    return body.policy if isinstance(body, SettingsChanged) else Policy()


def recomputed(store: Store, published: PublishedState, catalog: Catalog) -> PublishedState:
    """The same publication, from the votes and the policy as they were then."""
    with store.database.read() as connection:
        policy = policy_at(connection, published.seq)
    votes = weighed(vote_table(cast_votes(store, published.seq), catalog), policy.defences)
    rated, start, settings = votes.rated, len(votes.models), policy.rating.glicko2()
    a, b, score, weight = votes.model_a[rated], votes.model_b[rated], votes.score_a()[rated], votes.weight[rated]
    end = rate_battles(a, b, score, start=start, settings=settings, weight=weight)
    return publication_of(published.seq, published.at, votes, end)

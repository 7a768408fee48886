"""The tables of an arena's database.

`events` and `chain` are the truth and only ever grow. `pending`, `matchups` and everything from `votes` to
`checkpoints` can be rebuilt from them. `files` and `file_parts` hold the answers that are files, by their hashes,
which events name. `voters`, `rate_limits`, `ended_sessions`, `address_keys`, `address_blocks`,
`invitations`, `reports` and `comments` are outside the chain: they hold what must be deletable, and nothing that the
ratings need. So are `heads` (published ones), `site_texts` (the operator's, what was screened last and, if
TILTYARD_SECRET is not set, the site's secret) and `steps`, which say whose tables these are.
"""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
    }
)

Big = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
"""Integers of up to 63 bits. SQLite assigns ids automatically only to columns declared INTEGER."""

Name = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
"""A text that is sorted by its bytes, as SQLite does: two databases then list their rows in the same order."""

events = sa.Table(
    "events",
    metadata,
    sa.Column("id", Big, sa.Identity(always=False), primary_key=True),
    sa.Column("at", Big, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("salt", sa.Text),
    sqlite_autoincrement=True,
)
"""The truth, with `chain`. An event without a salt was written by a program that knows only version 1 of the chain."""

sa.Index(
    "ix_events_explained",
    events.c.id,
    sqlite_where=sa.text("kind = 'explained'"),
    postgresql_where=sa.text("kind = 'explained'"),
)


chain = sa.Table(
    "chain",
    metadata,
    sa.Column("seq", Big, primary_key=True, autoincrement=False),
    sa.Column("event_id", Big, nullable=False, unique=True),
    sa.Column("hash", sa.Text, nullable=False),
)

pending = sa.Table(
    "pending",
    metadata,
    sa.Column("event_id", Big, primary_key=True, autoincrement=False),
)

matchups = sa.Table(
    "matchups",
    metadata,
    sa.Column("id", Name, primary_key=True),
    sa.Column("voter", Name, nullable=False, index=True),
    sa.Column("a", sa.Integer, nullable=False),
    sa.Column("b", sa.Integer, nullable=False),
    sa.Column("prompt", sa.Integer, nullable=False),
    sa.Column("response_a", sa.Text, nullable=False),
    sa.Column("response_b", sa.Text, nullable=False),
    sa.Column("lane", sa.Text, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("probability", sa.Double, nullable=False),
    sa.Column("seed", Big, nullable=False),
    sa.Column("served_at", Big, nullable=False),
    sa.Column("expires_at", Big, nullable=False),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("choice", sa.Text),
    sa.Column("closed_at", Big),
    sa.Column("undo_until", Big),
    sa.Column("block", Name, nullable=False, server_default=""),
    sa.Column("unrendered", sa.Text, nullable=False, server_default=""),
)
open_matchups: Final = sa.Index(
    "ix_matchups_open_expires_at",
    matchups.c.expires_at,
    sqlite_where=matchups.c.status == "open",
    postgresql_where=matchups.c.status == "open",
)
undoable_votes: Final = sa.Index(
    "ix_matchups_undo_until",
    matchups.c.undo_until,
    sqlite_where=matchups.c.undo_until.isnot(None),
    postgresql_where=matchups.c.undo_until.isnot(None),
)

matchups_by_block: Final = sa.Index(
    "ix_matchups_block",
    matchups.c.block,
    matchups.c.served_at,
    sqlite_where=matchups.c.block != "",
    postgresql_where=matchups.c.block != "",
)

votes = sa.Table(
    "votes",
    metadata,
    sa.Column("seq", Big, primary_key=True, autoincrement=False),
    sa.Column("at", Big, nullable=False),
    sa.Column("matchup_id", Name, nullable=False, unique=True),
    sa.Column("voter", Name, nullable=False),
    sa.Column("a", sa.Integer, nullable=False),
    sa.Column("b", sa.Integer, nullable=False),
    sa.Column("prompt", sa.Integer, nullable=False),
    sa.Column("choice", sa.Text, nullable=False),
    sa.Column("standing", sa.Text, nullable=False),
    sa.Column("block", Name, nullable=False, server_default=""),
    sa.Column("unrendered", sa.Text, nullable=False, server_default=""),
)

changes = sa.Table(
    "changes",
    metadata,
    sa.Column("seq", Big, primary_key=True, autoincrement=False),
    sa.Column("vote_seq", Big, primary_key=True, autoincrement=False),
    sa.Column("standing_before", sa.Text, nullable=False),
    sa.Column("standing_after", sa.Text, nullable=False),
)

models = sa.Table(
    "models",
    metadata,
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("model", Name, nullable=False, unique=True),
    sa.Column("display_name", sa.Text, nullable=False),
    sa.Column("provider", sa.Text, nullable=False),
    sa.Column("licence", sa.Text, nullable=False),
    sa.Column("link", sa.Text, nullable=False),
    sa.Column("enabled", sa.Integer, nullable=False),
)

prompts = sa.Table(
    "prompts",
    metadata,
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("prompt_id", Name, nullable=False, unique=True),
    sa.Column("text", sa.Text, nullable=False),
    sa.Column("subject", sa.Text),
    sa.Column("tags", sa.Text, nullable=False),
    sa.Column("enabled", sa.Integer, nullable=False),
)

responses = sa.Table(
    "responses",
    metadata,
    sa.Column("response_id", Name, primary_key=True),
    sa.Column("model", sa.Integer, nullable=False),
    sa.Column("prompt", sa.Integer, nullable=False),
    sa.Column("text", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=False, server_default="text"),
    sa.Column("file", Name, nullable=False, server_default=""),
)

files = sa.Table(
    "files",
    metadata,
    sa.Column("sha256", Name, primary_key=True),
    sa.Column("media_type", sa.Text, nullable=False),
    sa.Column("size", Big, nullable=False),
    sa.Column("source", Name, nullable=False),
)
"""The answers that are files, as voters are shown them; `source` is the SHA-256 of the file before it was cleaned."""

file_parts = sa.Table(
    "file_parts",
    metadata,
    sa.Column("sha256", Name, primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("content", sa.LargeBinary, nullable=False),
)
"""The bytes of the files in pieces of equal length, so that no reader needs a whole file in memory."""

standings = sa.Table(
    "standings",
    metadata,
    sa.Column("model", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("rating", sa.Double, nullable=False),
    sa.Column("deviation", sa.Double, nullable=False),
    sa.Column("volatility", sa.Double, nullable=False),
    sa.Column("legacy", sa.Double, nullable=False),
    sa.Column("wins", sa.Integer, nullable=False),
    sa.Column("losses", sa.Integer, nullable=False),
    sa.Column("ties", sa.Integer, nullable=False),
    sa.Column("both_bad", sa.Integer, nullable=False),
)

snapshots = sa.Table(
    "snapshots",
    metadata,
    sa.Column("at", Big, primary_key=True, autoincrement=False),
    sa.Column("model", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("seq", Big, nullable=False),
    sa.Column("rating", sa.Double, nullable=False),
    sa.Column("deviation", sa.Double, nullable=False),
    sa.Column("covered_prompts", sa.Integer, nullable=False),
    sa.Column("active_prompts", sa.Integer, nullable=False),
    sa.Column("decisive", sa.Integer, nullable=False),
    sa.Column("rated", sa.Integer, nullable=False),
    sa.Column("both_bad", sa.Integer, nullable=False),
)

marks = sa.Table(
    "marks",
    metadata,
    sa.Column("seq", Big, primary_key=True, autoincrement=False),
    sa.Column("ratings", sa.LargeBinary, nullable=False),
)

checkpoints = sa.Table(
    "checkpoints",
    metadata,
    sa.Column("seq", Big, primary_key=True, autoincrement=False),
    sa.Column("state", sa.LargeBinary, nullable=False),
)

voters = sa.Table(
    "voters",
    metadata,
    sa.Column("cookie_hash", Name, primary_key=True),
    sa.Column("voter", Name, nullable=False, unique=True),
    sa.Column("created_at", Big, nullable=False),
    sa.Column("address", sa.Text, nullable=False),
    sa.Column("invitation", Name),
    sa.Column("credit", sa.Integer, nullable=False, server_default="0"),
)
"""`address` is always empty: nothing keeps a visitor's address. `credit` is how many votes the last puzzle paid for."""

address_keys = sa.Table(
    "address_keys",
    metadata,
    sa.Column("purpose", Name, primary_key=True),
    sa.Column("period", Big, primary_key=True, autoincrement=False),
    sa.Column("key", sa.Text, nullable=False),
    sa.Column("expires_at", Big, nullable=False),
)
"""The random keys with which addresses are hashed, one for each purpose and period; deleted when they expire."""

address_blocks = sa.Table(
    "address_blocks",
    metadata,
    sa.Column("name", Name, primary_key=True),
    sa.Column("key", Name, nullable=False, unique=True),
    sa.Column("created_at", Big, nullable=False),
    sa.Column("expires_at", Big, nullable=False, index=True),
)
"""Which random key of the log stands for which address block, whose `name` is a keyed hash."""

invitations = sa.Table(
    "invitations",
    metadata,
    sa.Column("name", Name, primary_key=True),
    sa.Column("key", Name, nullable=False, unique=True),
    sa.Column("label", sa.Text, nullable=False),
    sa.Column("most", sa.Integer, nullable=False),
    sa.Column("uses", sa.Integer, nullable=False),
    sa.Column("created_at", Big, nullable=False),
    sa.Column("expires_at", Big),
    sa.Column("revoked_at", Big),
)
"""The invitations of a closed arena. `name` is the hash of the link's secret, `key` stands for it in the log."""

rate_limits = sa.Table(
    "rate_limits",
    metadata,
    sa.Column("key", Name, primary_key=True),
    sa.Column("slot", Big, primary_key=True, autoincrement=False),
    sa.Column("worker", Name, primary_key=True),
    sa.Column("count", sa.Integer, nullable=False),
    sa.Column("expires_at", Big, nullable=False, index=True),
)

ended_sessions = sa.Table(
    "ended_sessions",
    metadata,
    sa.Column("name", Name, primary_key=True),
    sa.Column("expires_at", Big, nullable=False, index=True),
)

site_texts = sa.Table(
    "site_texts",
    metadata,
    sa.Column("name", Name, primary_key=True),
    sa.Column("text", sa.Text, nullable=False),
)

publications = sa.Table(
    "publications",
    metadata,
    sa.Column("seq", Big, primary_key=True, autoincrement=False),
    sa.Column("at", Big, nullable=False),
    sa.Column("votes", Big, nullable=False),
    sa.Column("weights_sha256", sa.Text, nullable=False),
    sa.Column("ratings_sha256", sa.Text, nullable=False),
)
"""What was published last, up to which event, by fingerprint. Outside the chain: when a site publishes is its own
affair, and what it publishes follows from the log."""

heads = sa.Table(
    "heads",
    metadata,
    sa.Column("seq", Big, primary_key=True, autoincrement=False),
    sa.Column("hash", sa.Text, nullable=False),
    sa.Column("at", Big, nullable=False),
    sa.Column("statement", sa.Text),
)
"""Heads that were published, and when; a signed one with its statement. Rows are added, never changed."""

weekly_reports = sa.Table(
    "weekly_reports",
    metadata,
    sa.Column("week", Name, primary_key=True),
    sa.Column("since", Big, nullable=False),
    sa.Column("until", Big, nullable=False),
    sa.Column("seq", Big, nullable=False),
    sa.Column("phase", sa.Integer, nullable=False),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("votes", Big, nullable=False),
    sa.Column("written_at", Big, nullable=False),
    sa.Column("page", sa.Text, nullable=False),
    sa.Column("sections", sa.Text, nullable=False),
    sa.Column("markdown", sa.Text, nullable=False),
    sa.Column("report", sa.Text, nullable=False),
)
"""The validity reports of finished weeks as they were written. Outside the chain: they follow from the log."""

reports = sa.Table(
    "reports",
    metadata,
    sa.Column("id", Big, sa.Identity(always=False), primary_key=True),
    sa.Column("at", Big, nullable=False),
    sa.Column("matchup_id", Name, nullable=False),
    sa.Column("side", sa.Text, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("settled_at", Big),
    sa.UniqueConstraint("matchup_id", "side", name="uq_reports_matchup_id"),
    sqlite_autoincrement=True,
)
"""What visitors reported of answers they were shown. Outside the chain: people write here, and it must be deletable."""

comments = sa.Table(
    "comments",
    metadata,
    sa.Column("matchup_id", Name, primary_key=True),
    sa.Column("salt", sa.Text, nullable=False),
    sa.Column("comment", sa.Text, nullable=False),
    sa.Column("at", Big, nullable=False),
)
"""What voters wrote about their votes. Outside the chain, which has only a digest of salt and comment: it must be
deletable."""

steps = sa.Table(
    "steps",
    metadata,
    sa.Column("version", Name, primary_key=True),
    sa.Column("usable_from", Name, nullable=False),
)
"""For each step of the migrations since 0002, the oldest step whose programs may use the tables after it."""

PROJECTIONS = (matchups, votes, changes, models, prompts, responses, standings, snapshots, marks, checkpoints)
"""What is derived from the log, and can be deleted and rebuilt."""

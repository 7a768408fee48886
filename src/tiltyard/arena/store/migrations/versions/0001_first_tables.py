"""The first tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

Big = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
Name = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Make every table."""
    _log()
    _matchups()
    _votes()
    _catalog()
    _results()
    _outside_the_chain()


def _log() -> None:
    """The events and their order."""
    op.create_table(
        "events",
        sa.Column("id", Big, sa.Identity(always=False), nullable=False),
        sa.Column("at", Big, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_events"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "chain",
        sa.Column("seq", Big, autoincrement=False, nullable=False),
        sa.Column("event_id", Big, nullable=False),
        sa.Column("hash", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("seq", name="pk_chain"),
        sa.UniqueConstraint("event_id", name="uq_chain_event_id"),
    )
    op.create_table(
        "pending",
        sa.Column("event_id", Big, autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("event_id", name="pk_pending"),
    )


def _matchups() -> None:
    """What was served."""
    op.create_table(
        "matchups",
        sa.Column("id", Name, nullable=False),
        sa.Column("voter", Name, nullable=False),
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
        sa.PrimaryKeyConstraint("id", name="pk_matchups"),
    )
    op.create_index("ix_matchups_voter", "matchups", ["voter"])
    still_open = sa.text("status = 'open'")
    op.create_index(
        "ix_matchups_open_expires_at", "matchups", ["expires_at"], sqlite_where=still_open, postgresql_where=still_open
    )


def _votes() -> None:
    """The votes, and when one was removed or restored."""
    op.create_table(
        "votes",
        sa.Column("seq", Big, autoincrement=False, nullable=False),
        sa.Column("at", Big, nullable=False),
        sa.Column("matchup_id", Name, nullable=False),
        sa.Column("voter", Name, nullable=False),
        sa.Column("a", sa.Integer, nullable=False),
        sa.Column("b", sa.Integer, nullable=False),
        sa.Column("prompt", sa.Integer, nullable=False),
        sa.Column("choice", sa.Text, nullable=False),
        sa.Column("standing", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("seq", name="pk_votes"),
        sa.UniqueConstraint("matchup_id", name="uq_votes_matchup_id"),
    )
    op.create_table(
        "changes",
        sa.Column("seq", Big, autoincrement=False, nullable=False),
        sa.Column("vote_seq", Big, autoincrement=False, nullable=False),
        sa.Column("standing_before", sa.Text, nullable=False),
        sa.Column("standing_after", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("seq", "vote_seq", name="pk_changes"),
    )


def _catalog() -> None:
    """Models, prompts and answers."""
    op.create_table(
        "models",
        sa.Column("number", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("model", Name, nullable=False),
        sa.Column("display_name", sa.Text, nullable=False),
        sa.Column("provider", sa.Text, nullable=False),
        sa.Column("licence", sa.Text, nullable=False),
        sa.Column("link", sa.Text, nullable=False),
        sa.Column("enabled", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_models"),
        sa.UniqueConstraint("model", name="uq_models_model"),
    )
    op.create_table(
        "prompts",
        sa.Column("number", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("prompt_id", Name, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("subject", sa.Text),
        sa.Column("tags", sa.Text, nullable=False),
        sa.Column("enabled", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_prompts"),
        sa.UniqueConstraint("prompt_id", name="uq_prompts_prompt_id"),
    )
    op.create_table(
        "responses",
        sa.Column("response_id", Name, nullable=False),
        sa.Column("model", sa.Integer, nullable=False),
        sa.Column("prompt", sa.Integer, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("response_id", name="pk_responses"),
    )


def _results() -> None:
    """Ratings now and then."""
    op.create_table(
        "standings",
        sa.Column("model", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("rating", sa.Double, nullable=False),
        sa.Column("deviation", sa.Double, nullable=False),
        sa.Column("volatility", sa.Double, nullable=False),
        sa.Column("legacy", sa.Double, nullable=False),
        sa.Column("wins", sa.Integer, nullable=False),
        sa.Column("losses", sa.Integer, nullable=False),
        sa.Column("ties", sa.Integer, nullable=False),
        sa.Column("both_bad", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("model", name="pk_standings"),
    )
    op.create_table(
        "snapshots",
        sa.Column("at", Big, autoincrement=False, nullable=False),
        sa.Column("model", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("seq", Big, nullable=False),
        sa.Column("rating", sa.Double, nullable=False),
        sa.Column("deviation", sa.Double, nullable=False),
        sa.Column("covered_prompts", sa.Integer, nullable=False),
        sa.Column("active_prompts", sa.Integer, nullable=False),
        sa.Column("decisive", sa.Integer, nullable=False),
        sa.Column("rated", sa.Integer, nullable=False),
        sa.Column("both_bad", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("at", "model", name="pk_snapshots"),
    )
    op.create_table(
        "marks",
        sa.Column("seq", Big, autoincrement=False, nullable=False),
        sa.Column("ratings", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("seq", name="pk_marks"),
    )
    op.create_table(
        "checkpoints",
        sa.Column("seq", Big, autoincrement=False, nullable=False),
        sa.Column("state", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("seq", name="pk_checkpoints"),
    )


def _outside_the_chain() -> None:
    """What must be forgettable."""
    op.create_table(
        "voters",
        sa.Column("cookie_hash", Name, nullable=False),
        sa.Column("voter", Name, nullable=False),
        sa.Column("created_at", Big, nullable=False),
        sa.Column("address", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("cookie_hash", name="pk_voters"),
        sa.UniqueConstraint("voter", name="uq_voters_voter"),
    )
    op.create_table(
        "rate_limits",
        sa.Column("key", Name, nullable=False),
        sa.Column("slot", Big, autoincrement=False, nullable=False),
        sa.Column("worker", Name, nullable=False),
        sa.Column("count", sa.Integer, nullable=False),
        sa.Column("expires_at", Big, nullable=False),
        sa.PrimaryKeyConstraint("key", "slot", "worker", name="pk_rate_limits"),
    )
    op.create_index("ix_rate_limits_expires_at", "rate_limits", ["expires_at"])

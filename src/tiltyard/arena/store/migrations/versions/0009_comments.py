"""Comments on votes, outside the chain, and an index over the events that explain votes.

Older programs go on until the first vote is explained (`arena/store/explanations.py`): they cannot read that event.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

USABLE_FROM = "0004"

Big = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
Name = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Add an empty table and an index of nothing so far."""
    op.create_table(
        "comments",
        sa.Column("matchup_id", Name, nullable=False),
        sa.Column("salt", sa.Text, nullable=False),
        sa.Column("comment", sa.Text, nullable=False),
        sa.Column("at", Big, nullable=False),
        sa.PrimaryKeyConstraint("matchup_id", name="pk_comments"),
    )
    only = sa.text("kind = 'explained'")
    op.create_index("ix_events_explained", "events", ["id"], sqlite_where=only, postgresql_where=only)
    steps = sa.table("steps", sa.column("version", sa.Text), sa.column("usable_from", sa.Text))
    op.bulk_insert(steps, [{"version": revision, "usable_from": USABLE_FROM}])

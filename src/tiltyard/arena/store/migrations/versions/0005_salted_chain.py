"""Salts of events for version 2 of the chain, the public history of heads, and visitors' reports of answers.

Only additions: older programs go on with these tables, and leave the salt empty, until `maintenance.switch_chain`
changes the version of the chain. From then on their events are refused.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

USABLE_FROM = "0001"

Big = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
Name = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Add a column, which is empty for every event so far, and two tables."""
    op.add_column("events", sa.Column("salt", sa.Text))
    op.create_table(
        "heads",
        sa.Column("seq", Big, autoincrement=False, nullable=False),
        sa.Column("hash", sa.Text, nullable=False),
        sa.Column("at", Big, nullable=False),
        sa.Column("statement", sa.Text),
        sa.PrimaryKeyConstraint("seq", name="pk_heads"),
    )
    op.create_table(
        "reports",
        sa.Column("id", Big, sa.Identity(always=False), nullable=False),
        sa.Column("at", Big, nullable=False),
        sa.Column("matchup_id", Name, nullable=False),
        sa.Column("side", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("settled_at", Big),
        sa.PrimaryKeyConstraint("id", name="pk_reports"),
        sa.UniqueConstraint("matchup_id", "side", name="uq_reports_matchup_id"),
        sqlite_autoincrement=True,
    )
    steps = sa.table("steps", sa.column("version", sa.Text), sa.column("usable_from", sa.Text))
    op.bulk_insert(steps, [{"version": revision, "usable_from": USABLE_FROM}])

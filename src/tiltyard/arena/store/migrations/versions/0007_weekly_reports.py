"""The validity reports of finished weeks, as they were written.

Older programs do not need the table and leave it alone.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

USABLE_FROM = "0004"

Big = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Add an empty table."""
    op.create_table(
        "weekly_reports",
        sa.Column("week", sa.Text, nullable=False),
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
        sa.PrimaryKeyConstraint("week", name="pk_weekly_reports"),
    )
    steps = sa.table("steps", sa.column("version", sa.Text), sa.column("usable_from", sa.Text))
    op.bulk_insert(steps, [{"version": revision, "usable_from": USABLE_FROM}])

"""What was published last, so that anyone can check that it follows from the log.

Older programs do not need the table and leave it alone.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

USABLE_FROM = "0004"

Big = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Add an empty table."""
    op.create_table(
        "publications",
        sa.Column("seq", Big, autoincrement=False, nullable=False),
        sa.Column("at", Big, nullable=False),
        sa.Column("votes", Big, nullable=False),
        sa.Column("weights_sha256", sa.Text, nullable=False),
        sa.Column("ratings_sha256", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("seq", name="pk_publications"),
    )
    steps = sa.table("steps", sa.column("version", sa.Text), sa.column("usable_from", sa.Text))
    op.bulk_insert(steps, [{"version": revision, "usable_from": USABLE_FROM}])

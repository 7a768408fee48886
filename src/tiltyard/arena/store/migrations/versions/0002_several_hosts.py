"""What several hosts have to agree on: sessions that were ended, the site's notice, and who may use these tables.

Only additions: programs of step 0001 go on serving while this runs, and after it.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

USABLE_FROM = "0001"

Big = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
Name = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Make three small tables."""
    steps = op.create_table(
        "steps",
        sa.Column("version", Name, nullable=False),
        sa.Column("usable_from", Name, nullable=False),
        sa.PrimaryKeyConstraint("version", name="pk_steps"),
    )
    op.bulk_insert(steps, [{"version": revision, "usable_from": USABLE_FROM}])
    op.create_table(
        "ended_sessions",
        sa.Column("name", Name, nullable=False),
        sa.Column("expires_at", Big, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_ended_sessions"),
    )
    op.create_index("ix_ended_sessions_expires_at", "ended_sessions", ["expires_at"])
    op.create_table(
        "site_texts",
        sa.Column("name", Name, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_site_texts"),
    )

"""Until when a vote can be undone, for votes whose names were held back.

Only additions: older programs go on with these tables, since a vote that they write is one whose names were shown. They
cannot read a log in which such a vote was revealed, so `undo_seconds` is 0 while they serve.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

USABLE_FROM = "0001"

Big = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Add a column, which is empty for every vote so far, and an index that finds the few which are not final."""
    op.add_column("matchups", sa.Column("undo_until", Big))
    held_back = sa.text("undo_until IS NOT NULL")
    op.create_index(
        "ix_matchups_undo_until", "matchups", ["undo_until"], sqlite_where=held_back, postgresql_where=held_back
    )
    steps = sa.table("steps", sa.column("version", sa.Text), sa.column("usable_from", sa.Text))
    op.bulk_insert(steps, [{"version": revision, "usable_from": USABLE_FROM}])

"""Answers that are files: their kinds, their bytes, and votes that say that one could not be shown.

Older programs go on with an arena of texts. Once an answer is a file they may not use the tables any more
(`arena/store/files.py`): they would leave out what is new here.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

USABLE_FROM = "0004"

Big = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
Name = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Add columns, which are empty for everything so far, and two empty tables."""
    op.add_column("responses", sa.Column("kind", sa.Text, nullable=False, server_default="text"))
    op.add_column("responses", sa.Column("file", Name, nullable=False, server_default=""))
    for table in ("matchups", "votes"):
        op.add_column(table, sa.Column("unrendered", sa.Text, nullable=False, server_default=""))
    op.create_table(
        "files",
        sa.Column("sha256", Name, nullable=False),
        sa.Column("media_type", sa.Text, nullable=False),
        sa.Column("size", Big, nullable=False),
        sa.Column("source", Name, nullable=False),
        sa.PrimaryKeyConstraint("sha256", name="pk_files"),
    )
    op.create_table(
        "file_parts",
        sa.Column("sha256", Name, nullable=False),
        sa.Column("number", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("sha256", "number", name="pk_file_parts"),
    )
    steps = sa.table("steps", sa.column("version", sa.Text), sa.column("usable_from", sa.Text))
    op.bulk_insert(steps, [{"version": revision, "usable_from": USABLE_FROM}])

"""The blocks that votes came from; hashed addresses; invitations.

Programs older than this step would leave out the blocks of the votes that they project, so they may not use these
tables. Addresses that earlier versions kept are deleted: nothing needs them any more.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

USABLE_FROM = "0004"

Big = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
Name = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Add columns, which are empty for everything so far, and tables outside the chain; delete kept addresses."""
    op.add_column("matchups", sa.Column("block", Name, nullable=False, server_default=""))
    op.add_column("votes", sa.Column("block", Name, nullable=False, server_default=""))
    known = sa.text("block != ''")
    op.create_index("ix_matchups_block", "matchups", ["block", "served_at"], sqlite_where=known, postgresql_where=known)
    _addresses()
    _invitations()
    op.execute("UPDATE voters SET address = ''")
    op.execute("DELETE FROM rate_limits WHERE key LIKE '%:address:%'")
    steps = sa.table("steps", sa.column("version", sa.Text), sa.column("usable_from", sa.Text))
    op.bulk_insert(steps, [{"version": revision, "usable_from": USABLE_FROM}])


def _addresses() -> None:
    op.create_table(
        "address_keys",
        sa.Column("purpose", Name, nullable=False),
        sa.Column("period", Big, autoincrement=False, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("expires_at", Big, nullable=False),
        sa.PrimaryKeyConstraint("purpose", "period", name="pk_address_keys"),
    )
    op.create_table(
        "address_blocks",
        sa.Column("name", Name, nullable=False),
        sa.Column("key", Name, nullable=False),
        sa.Column("created_at", Big, nullable=False),
        sa.Column("expires_at", Big, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_address_blocks"),
        sa.UniqueConstraint("key", name="uq_address_blocks_key"),
    )
    op.create_index("ix_address_blocks_expires_at", "address_blocks", ["expires_at"])


def _invitations() -> None:
    op.create_table(
        "invitations",
        sa.Column("name", Name, nullable=False),
        sa.Column("key", Name, nullable=False),
        sa.Column("label", sa.Text, nullable=False),
        sa.Column("most", sa.Integer, nullable=False),
        sa.Column("uses", sa.Integer, nullable=False),
        sa.Column("created_at", Big, nullable=False),
        sa.Column("expires_at", Big),
        sa.Column("revoked_at", Big),
        sa.PrimaryKeyConstraint("name", name="pk_invitations"),
        sa.UniqueConstraint("key", name="uq_invitations_key"),
    )
    op.add_column("voters", sa.Column("invitation", Name))
    op.add_column("voters", sa.Column("credit", sa.Integer, nullable=False, server_default="0"))

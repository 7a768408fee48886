"""Every test here may have a real database."""

from __future__ import annotations

from tests.arena.databases import (
    arena_url,
    copied_arena,
    postgresql_databases,
    postgresql_url,
    shared_url,
    sqlite_template,
    sqlite_url,
)

__all__ = [
    "arena_url",
    "copied_arena",
    "postgresql_databases",
    "postgresql_url",
    "shared_url",
    "sqlite_template",
    "sqlite_url",
]

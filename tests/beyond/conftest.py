"""Databases for the tests beyond one process."""

from __future__ import annotations

from tests.arena.databases import arena_url, postgresql_databases, postgresql_url, sqlite_template, sqlite_url

__all__ = ["arena_url", "postgresql_databases", "postgresql_url", "sqlite_template", "sqlite_url"]

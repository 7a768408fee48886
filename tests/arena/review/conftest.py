"""Databases for reviews."""

from __future__ import annotations

from tests.arena.databases import postgresql_databases

__all__ = ["postgresql_databases"]

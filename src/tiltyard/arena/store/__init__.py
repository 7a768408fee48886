"""The storage of an arena: its log, its matchups, and what must be deletable. Only this package uses a database."""

from tiltyard.arena.store.store import Store

__all__ = ["Store"]

"""Commands as a user runs them, for gates over run folders."""

from __future__ import annotations

from tests.cli.conftest import tiltyard

__all__ = ["tiltyard"]

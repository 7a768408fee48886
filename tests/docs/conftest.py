"""A real browser to look at the manual with."""

from __future__ import annotations

from tests.browsers import browser

__all__ = ["browser"]

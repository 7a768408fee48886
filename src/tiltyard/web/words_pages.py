"""The words of the frame and of the pages that show the board."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

WORDS: Mapping[str, str] = {}

"""Thoughts that a model writes before its answer, between `<think>` and `</think>`: where they end."""

from __future__ import annotations

import re

_OPENING = re.compile(r"\s*<(think|thinking)>", re.IGNORECASE | re.ASCII)
_CLOSING = {name: re.compile(f"</{name}>", re.IGNORECASE | re.ASCII) for name in ("think", "thinking")}


def answer_start(text: str) -> int | None:
    """Where the answer begins in a model's text: behind leading blocks of thoughts; None where one has no end."""
    start = 0
    while opening := _OPENING.match(text, start):
        closing = _CLOSING[opening[1].lower()].search(text, opening.end())
        if closing is None:
            return None
        start = closing.end()
    return start

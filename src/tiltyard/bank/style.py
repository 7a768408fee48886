"""The style of an answer in numbers: how long it is, and how many headings, list items and bold passages it has.

Battles carry them as columns (`len_a`, `len_b`, …), so that ratings can be controlled for them.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

STYLE = ("len", "headings", "lists", "bold")
"""What is measured of an answer, by the names that control it: characters, headings, list items, bold passages."""

_FENCED = re.compile(r"^[ \t]*(`{3,}|~{3,})[^\n]*\n.*?(?:^[ \t]*\1[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^ {0,3}#{1,6}[ \t]+\S", re.MULTILINE)
_LIST_ITEM = re.compile(r"^[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]+\S", re.MULTILINE)
_BOLD = re.compile(r"\*\*(?=\S)[^\n]+?\*\*|(?<!\w)__(?=\S)[^\n]+?__(?!\w)")


def measure_style(text: str) -> tuple[int, int, int, int]:
    """Characters, Markdown headings, list items and bold passages of an answer; code blocks count as length only."""
    prose = _FENCED.sub("", text) if "```" in text or "~~~" in text else text
    headings = len(_HEADING.findall(prose)) if "#" in prose else 0
    bold = len(_BOLD.findall(prose)) if "**" in prose or "__" in prose else 0
    return len(text), headings, len(_LIST_ITEM.findall(prose)), bold


class AnswerStyles:
    """The style of many answers, each measured once, when it is first asked for; 16 bytes of numbers an answer."""

    def __init__(self) -> None:
        self._places: dict[str, dict[str, int]] = {}
        self._numbers = array("i")

    def place(self, entrant: str, prompt_id: str, text: Callable[[], str]) -> int:
        """The number of an answer among those measured; its text is looked at only the first time.

        Parameters:
            entrant: Who answered.
            prompt_id: What was asked.
            text: Gives the answer.
        """
        known = self._places.setdefault(entrant, {})
        position = known.get(prompt_id)
        if position is None:
            position = known[prompt_id] = len(self._numbers) // len(STYLE)
            self._numbers.extend(measure_style(text()))
        return position

    def length(self, place: int) -> int:
        """The length of an answer, by its number."""
        return self._numbers[len(STYLE) * place]

    def row(self, place: int) -> list[int]:
        """The style of an answer in the order of `STYLE`, by its number."""
        return self._numbers[len(STYLE) * place : len(STYLE) * (place + 1)].tolist()

    def table(self) -> NDArray[np.int32]:
        """All answers measured so far, a row each, in columns of `STYLE`."""
        return np.array(self._numbers, dtype=np.int32).reshape(-1, len(STYLE))

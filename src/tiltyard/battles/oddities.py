"""What is odd about battles that were read, though no row is bad: rows that repeat another, names that look alike."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tiltyard.battles.table import BattleTable, Codes

MOST_PAIRS = 5
"""At most this many groups of names are listed."""


def oddities(table: BattleTable) -> list[str]:
    """Sentences about what is odd in a table of battles; empty where nothing is."""
    sentences = []
    if table.repeated:
        rows = "1 row repeats" if table.repeated == 1 else f"{table.repeated:,} rows repeat"
        sentences.append(
            f"{rows} another row in every column, and each counts. If a battle was written twice, remove its copies; "
            "if not, a column battle_id tells battles apart"
        )
    groups = look_alikes(table.models)
    if groups:
        named = "; ".join(" and ".join(map(repr, group)) for group in groups[:MOST_PAIRS])
        more = f" and {len(groups) - MOST_PAIRS} more" if len(groups) > MOST_PAIRS else ""
        sentences.append(
            f"names that differ only in capital letters or blanks are rated as different models: {named}{more}. "
            "If they are one model, give it one name"
        )
    return sentences


def look_alikes(names: Iterable[str]) -> list[tuple[str, ...]]:
    """The groups of names that are the same without regard to case and blanks."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault("".join(name.casefold().split()), []).append(name)
    return [tuple(sorted(group)) for group in groups.values() if len(group) > 1]


def may_repeat(table: BattleTable) -> bool:
    """Whether two rows of a table are equal in all that was read of them, or seem so by their hashes."""
    mixed = np.zeros(len(table), dtype=np.uint64)
    keys: list[NDArray[Any]] = [table.model_a, table.model_b, table.outcome, table.source, _bits(table.weight)]
    keys += [column.codes if isinstance(column, Codes) else _bits(column) for column in table.columns.values()]
    if table.score_a is not None:
        keys.append(_bits(table.score_a))
    for key in keys:
        mixed ^= key.astype(np.int64, copy=False).view(np.uint64)
        mixed *= np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    mixed.sort()
    return bool((mixed[1:] == mixed[:-1]).any())


def _bits(numbers: NDArray[np.float64]) -> NDArray[np.int64]:
    return np.ascontiguousarray(numbers).view(np.int64)

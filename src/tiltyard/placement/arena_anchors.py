"""Which battles of an arena count: those decided by people, in the languages asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tiltyard.battles import Codes, Source
from tiltyard.errors import NoBattles, OptionError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tiltyard.battles import BattleTable

Rows = NDArray[np.intp]


def human_rows(battles: BattleTable, where: str) -> tuple[Rows, tuple[str, ...]]:
    """The rows that people decided, and a remark about the others."""
    human = battles.source == Source.HUMAN
    if not human.any():
        raise NoBattles(
            f"{where}: no battle was decided by people. A model is placed among human battles: name a file with some."
        )
    judged = float(battles.weight[~human].sum())
    remark = f"Battles decided by a language model: {judged:,.0f} (left out: only human battles are anchors)."
    return np.flatnonzero(human), () if human.all() else (remark,)


def languages_kept(battles: BattleTable, rows: Rows, languages: Sequence[str] | None, where: str) -> Rows:
    """Those of the rows whose language was asked for, in any mix of upper and lower case; all where none was."""
    if not languages:
        return rows
    column = battles.columns.get("language")
    if not isinstance(column, Codes):
        raise OptionError(f"{where} does not say the language of its battles, so none can be chosen by language.")
    count = np.bincount(column.codes[rows] + 1, weights=battles.weight[rows], minlength=len(column.labels) + 1)[1:]
    there = {label.casefold() for label, battles_in in zip(column.labels, count, strict=True) if battles_in}
    unknown = [language for language in languages if language.casefold() not in there]
    if unknown:
        order = sorted(range(len(column.labels)), key=lambda code: (-count[code], column.labels[code]))
        known = [f"{column.labels[code]} ({count[code]:,.0f})" for code in order if count[code]]
        listed = ", ".join(known[:20]) + (f" and {len(known) - 20} more" if len(known) > 20 else "")
        raise OptionError(f"{where}: no human battle is in {', '.join(map(repr, unknown))}. There are {listed}.")
    wanted = {language.casefold() for language in languages}
    chosen = np.array([label.casefold() in wanted for label in column.labels] + [False])
    kept: Rows = rows[chosen[column.codes[rows]]]
    return kept

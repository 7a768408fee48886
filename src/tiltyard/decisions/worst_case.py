"""What matchups without a verdict could change: the difference with all of them against the new model, or for it.

Verdicts are seldom lost at random: a judge that cannot read a long answer loses the battles of the model that writes
long ones. No model of how they were lost is needed for a claim that holds in the worst case.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from tiltyard.battles.battle import Outcome, Source
from tiltyard.battles.missing_verdicts import MissingMatchup, MissingVerdicts
from tiltyard.battles.table import MISSING, BattleTable, Codes, concat
from tiltyard.boards.selection import Selection
from tiltyard.decisions.contrast import Contrast
from tiltyard.decisions.prompts import PROMPT
from tiltyard.errors import BattleError, OptionError, RatingError
from tiltyard.options import MissingRule

if TYPE_CHECKING:
    from tiltyard.decisions.records import Difference, EstimatedDifference

DIMENSION = "dimension"


@dataclass(frozen=True, slots=True)
class WorstCase:
    """The difference with every matchup without a verdict decided one way.

    Parameters:
        against: Counted against the new model; None where no rating comes of it.
        in_favour: Counted for the new model; None where no rating comes of it.
    """

    against: Contrast | None
    in_favour: Contrast | None

    def ends(self, one: Contrast, level: float, *, anytime: bool) -> tuple[float | None, float | None]:
        """The ends of an interval that holds as it is and in either case; None where nothing bounds it.

        Parameters:
            one: The difference without them.
            level: Confidence level.
            anytime: Whether it holds however often one looks.
        """
        low, high = one.ends(level, anytime=anytime)
        lower = None if self.against is None else self.against.ends(level, anytime=anytime)[0]
        higher = None if self.in_favour is None else self.in_favour.ends(level, anytime=anytime)[1]
        return (
            None if low is None or lower is None else min(low, lower),
            None if high is None or higher is None else max(high, higher),
        )

    def probability_above(self) -> float | None:
        """How sure one can be of the sign in either case; None where the two cases differ in it."""
        chances = [None if one is None else one.probability_above() for one in (self.against, self.in_favour)]
        if chances[0] is None or chances[1] is None:
            return None
        return min(chances, key=lambda chance: abs((chance or 0.0) - 0.5)) if _same_side(chances) else None

    def to_dict(self, level: float, *, anytime: bool) -> dict[str, Any]:
        """Both cases as plain values, in rating points."""

        def case(one: Contrast | None) -> dict[str, float | None] | None:
            if one is None:
                return None
            low, high = one.ends(level, anytime=anytime)
            return {"difference": one.points, "low": low, "high": high}

        return {"against": case(self.against), "in_favour": case(self.in_favour)}


def _same_side(chances: Sequence[float | None]) -> bool:
    return len({(chance or 0.0) > 0.5 for chance in chances}) == 1


@dataclass(frozen=True, slots=True, eq=False)
class Missing:
    """The matchups without a verdict behind a difference, and what they could change.

    Parameters:
        verdicts: Which they are.
        by_entrant: How many each of the two has, or one entrant in each of two runs.
        worst: The difference with all of them decided one way; computed when it is called.
        rule: Whether the interval of the difference covers the worst case (`worst`) or not (`ignore`).
    """

    verdicts: MissingVerdicts
    by_entrant: dict[str, int]
    worst: Callable[[], WorstCase] = field(repr=False)
    rule: MissingRule = "ignore"

    def __len__(self) -> int:
        return len(self.verdicts)

    @property
    def sentence(self) -> str:
        """How many there are, by entrant and reason."""
        who = ", ".join(f"{name} {count:,}" for name, count in self.by_entrant.items() if count)
        why = ", ".join(f"{reason} {count:,}" for reason, count in self.verdicts.by_reason.items())
        return f"{self.verdicts.counted} ({who}: {why})"

    @property
    def clause(self) -> str:
        """How many there are, and what was done with them."""
        return f"{self.verdicts.counted}{self._done}"

    @property
    def remark(self) -> str:
        """The same, with entrants and reasons."""
        return f"{self.sentence}{self._done}"

    @property
    def _done(self) -> str:
        if self.rule == "worst":
            return ", and the interval holds however they would have been decided"
        return " and is ignored" if len(self) == 1 else " and are ignored"

    def to_dict(self, level: float, rule: MissingRule, *, anytime: bool) -> dict[str, Any]:
        """Counts, the rule and, where it is `worst`, the worst cases."""
        cases = self.worst().to_dict(level, anytime=anytime) if rule == "worst" else None
        return {**self.verdicts.to_dict(), "by_entrant": self.by_entrant, "rule": rule, "worst_case": cases}


def missing_among(
    missing: MissingVerdicts, table: BattleTable, selection: Selection, *, filtered: bool
) -> MissingVerdicts:
    """Those that the selected battles lack.

    Whether a matchup without a row satisfies a filter over rows is not known: only a dimension that the filter leaves
    out altogether leaves its matchups out too.

    Parameters:
        missing: Those of the run folders.
        table: The battles that were read.
        selection: Which of them are rated.
        filtered: Whether rows were filtered while they were read (`where`).
    """
    if selection.source == Source.HUMAN.label:
        return MissingVerdicts()
    if selection.dimension is not None:
        return missing.only(dimensions={selection.dimension})
    if filtered and DIMENSION in table.columns:
        return missing.only(dimensions=_values(table, DIMENSION))
    return missing


def add_decided(
    table: BattleTable, missing: Sequence[MissingMatchup], winner: Callable[[MissingMatchup], str]
) -> BattleTable:
    """The battles, and a battle for each matchup without a verdict, on its prompt and in its dimension.

    Other text columns have the value that all battles of the prompt have; numbers that are controlled for are the same
    on both sides.

    Parameters:
        table: The battles.
        missing: The matchups.
        winner: Who is to have won each.
    """
    if not missing:
        return table
    models = tuple(sorted({name for one in missing for name in one.entrants}))
    code = {name: place for place, name in enumerate(models)}
    won = [Outcome.A if winner(one) == one.entrant_a else Outcome.B for one in missing]
    columns: dict[str, Any] = {}
    for name, column in table.columns.items():
        if name == PROMPT:
            columns[name] = _codes([one.prompt_id for one in missing])
        elif name == DIMENSION:
            columns[name] = _codes([one.dimension or None for one in missing])
        elif isinstance(column, Codes):
            known = values_by_prompt(table, name)
            columns[name] = _codes([one.columns.get(name) or known.get(one.prompt_id) for one in missing])
        elif name.endswith(("_a", "_b")):
            columns[name] = np.ones(len(missing))
        elif name == "one_order":  # as the others of the run
            columns[name] = np.full(len(missing), float((column == 1.0).all()))
    rows = BattleTable(
        models=models,
        model_a=np.array([code[one.entrant_a] for one in missing], dtype=np.int32),
        model_b=np.array([code[one.entrant_b] for one in missing], dtype=np.int32),
        outcome=np.array(won, dtype=np.int8),
        source=np.full(len(missing), Source.LLM_JUDGE, dtype=np.int8),
        weight=np.ones(len(missing)),
        columns=columns,
    )
    return concat([table, rows])


def values_by_prompt(table: BattleTable, column: str) -> dict[str, str]:
    """The value of a text column by prompt, for prompts whose battles all have the same one."""
    if PROMPT not in table.columns or column not in table.columns:
        return {}
    prompts, values = table.text_column(PROMPT), table.text_column(column)
    both = (prompts.codes != MISSING) & (values.codes != MISSING)
    pairs = np.unique(np.stack([prompts.codes[both], values.codes[both]]), axis=1)
    found, count = np.unique(pairs[0], return_counts=True)
    alike = set(found[count == 1].tolist())
    return {prompts.labels[p]: values.labels[v] for p, v in pairs.T.tolist() if p in alike}


def part_of(table: BattleTable, column: str, value: str) -> BattleTable:
    """The battles of one value of a column; none where no battle has it."""
    codes = table.text_column(column)
    place = codes.labels.index(value) if value in codes.labels else None
    return table.take(codes.codes == place if place is not None else np.zeros(len(table), dtype=bool)).compact()


def in_part(missing: MissingVerdicts, table: BattleTable, column: str, value: str) -> MissingVerdicts:
    """Those that may belong to one value of a column: where a matchup's own value is not known, it may.

    Parameters:
        missing: The matchups without a verdict.
        table: The battles, of all values.
        column: The column.
        value: Its value.
    """
    if column == DIMENSION:
        return missing.only(dimensions={value})
    known = values_by_prompt(table, column)

    def may_be(one: MissingMatchup) -> bool:
        return (one.columns.get(column) or known.get(one.prompt_id, value)) == value

    return missing.only(prompts={one.prompt_id for one in missing.matchups if may_be(one)})


def with_missing(found: Difference, whole: Missing, of_part: Callable[[str, str], Missing | None]) -> Difference:
    """The difference with its matchups without a verdict, on the whole and in each part.

    A dimension or category that has such matchups and no battle is a part of its own, of which nothing can be told.

    Parameters:
        found: The difference without them.
        whole: Those of the whole.
        of_part: Those that may belong to a value of a column; None where there are none.
    """
    parts = []
    for part in found.parts:
        lost, values = of_part(part.column, part.value), sum(one.column == part.column for one in found.parts)
        level = 1.0 - (1.0 - found.level) / values
        estimate = _covering(part.estimate, part.contrast, lost, level, anytime=found.anytime)
        parts.append(replace(part, estimate=estimate, missing=lost))
    for column in dict.fromkeys(part.column for part in found.parts):
        shown = {part.value for part in found.parts if part.column == column}
        for value in sorted(_values_of(whole.verdicts, column) - shown):
            unseen = replace(found.parts[0], column=column, value=value, estimate=None, contrast=None)
            why = "no battle: no matchup has a verdict"
            parts.append(replace(unseen, reason=why, missing=of_part(column, value)))
    estimate = _covering(found.estimate, found.contrast, whole, found.level, anytime=found.anytime)
    assert estimate is not None
    return replace(found, estimate=estimate, parts=tuple(parts), missing=whole)


def _values_of(missing: MissingVerdicts, column: str) -> set[str]:
    """The values of a column among matchups without a verdict, as far as they are known."""
    if column == DIMENSION:
        return {one.dimension for one in missing.matchups}
    return {one.columns[column] for one in missing.matchups if column in one.columns}


def _covering(
    estimate: EstimatedDifference | None, one: Contrast | None, lost: Missing | None, level: float, *, anytime: bool
) -> EstimatedDifference | None:
    """The estimate with an interval that covers the worst case, where the rule is that."""
    if estimate is None or one is None or lost is None or lost.rule == "ignore":
        return estimate
    worst = lost.worst()
    low, high = worst.ends(one, level, anytime=anytime)
    return replace(estimate, low=low, high=high, probability_better=worst.probability_above())


def worst_case(fit: Callable[[bool], Contrast]) -> Callable[[], WorstCase]:
    """What computes both cases, once, when it is called.

    Parameters:
        fit: The difference with every matchup without a verdict counted against the new model (True) or for it.
    """

    def fitted(against: bool) -> Contrast | None:
        try:
            return fit(against)
        except (BattleError, RatingError, OptionError):
            return None

    return cache(lambda: WorstCase(fitted(True), fitted(False)))


def _values(table: BattleTable, column: str) -> set[str]:
    codes = table.text_column(column)
    return {codes.labels[code] for code in np.unique(codes.codes).tolist() if code != MISSING}


def _codes(texts: Sequence[str | None]) -> Codes:
    labels = tuple(dict.fromkeys(text for text in texts if text is not None))
    place = {text: code for code, text in enumerate(labels)}
    return Codes(np.array([MISSING if text is None else place[text] for text in texts], dtype=np.int32), labels)

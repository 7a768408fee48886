"""What was not decided, and what it could change: matchups without a verdict, answers without a score.

Each claim is to hold as it is and with all of them decided the other way, unless they are to be ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, Literal

import msgspec
import numpy as np

from tiltyard.analysis.boards import DIMENSION, NO_DIMENSION, Selection
from tiltyard.analysis.decisions.contrast import AnyContrast
from tiltyard.data.battles import (
    MISSING,
    NO_ANSWER,
    BattleTable,
    Codes,
    MissingMatchup,
    MissingVerdicts,
    Outcome,
    Source,
    concat,
)
from tiltyard.errors import BattleError, OptionError, RatingError
from tiltyard.options import MissingRule

PROMPT = "question_id"
ASK_AGAIN = "ask them again with `tiltyard run … --retry-failed`"

Ends = tuple[float | None, float | None]


class Cases(msgspec.Struct, frozen=True):
    """A difference as it is, and with all that was not decided counted one way; None where nothing comes of that."""

    found: AnyContrast
    against: AnyContrast | None
    in_favour: AnyContrast | None
    anytime: bool = False

    @classmethod
    def of(cls, found: AnyContrast, *, anytime: bool = False) -> Cases:
        """Those of a difference behind which everything is decided, or what is not is ignored."""
        return cls(found, found, found, anytime)

    def ends(self, level: float) -> Ends:
        """The ends of an interval that holds in all cases; None where nothing bounds it."""
        low, high = self.found.ends(level, anytime=self.anytime)
        lower = None if self.against is None else self.against.ends(level, anytime=self.anytime)[0]
        higher = None if self.in_favour is None else self.in_favour.ends(level, anytime=self.anytime)[1]
        return (
            None if low is None or lower is None else min(low, lower),
            None if high is None or higher is None else max(high, higher),
        )

    def bound(self, least: float, level: float) -> float | None:
        """The lower end of such an interval, for a claim that the difference lies above a number."""
        cases = (self.found, self.against)
        bounds = [None if case is None else case.bound(least, level, anytime=self.anytime) for case in cases]
        known = [bound for bound in bounds if bound is not None]
        return min(known) if len(known) == len(bounds) else None

    @property
    def probability_better(self) -> float | None:
        """How sure one can be of the sign in all cases; None where they differ in it."""
        cases = (self.against, self.found, self.in_favour)
        chances = [None if case is None else case.probability_above(anytime=self.anytime) for case in cases]
        known = [chance for chance in chances if chance is not None]
        if len(known) < len(cases) or min(known) < 0.5 < max(known):
            return None
        return min(known, key=lambda chance: abs(chance - 0.5))


WorstCase = tuple[AnyContrast | None, AnyContrast | None]
"""The difference with all of them counted against the new model, and for it; None where nothing comes of it."""


@dataclass(frozen=True, slots=True, eq=False)
class Missing:
    """What was not decided behind a difference, and what it could change: matchups, or answers to be scored.

    `by_name` says how many each of the two has, or one entrant in each of two runs. With the rule `worst` the interval
    covers the worst cases, which are computed when they are called. `verdicts` are None for answers without a score.
    """

    by_name: Mapping[str, int]
    count: int
    total: int
    rule: MissingRule
    counted_in: Literal["matchups", "prompts", "answers"]
    worst: Callable[[], WorstCase] = field(repr=False, compare=False)
    verdicts: MissingVerdicts | None = None

    def __len__(self) -> int:
        return self.count

    def __reduce__(self) -> Any:
        known = partial(tuple, self.worst())  # computed, as nothing else of them is left in another process
        values = {name: getattr(self, name) for name in self.__slots__} | {"worst": known}
        return type(self), tuple(values.values())

    @property
    def what(self) -> str:
        return "matchups have no verdict" if self.verdicts is not None else f"{self.counted_in} lack a score"

    @property
    def counted(self) -> str:
        """`50 of 200 matchups have no verdict`."""
        if self.verdicts is not None:
            return self.verdicts.counted
        return f"{self.count:,} of {self.total:,} {self.counted_in} {'lacks' if self.count == 1 else 'lack'} a score"

    @property
    def sentence(self) -> str:
        """How many there are, by name and reason."""
        who = ", ".join(f"{name} {count:,}" for name, count in self.by_name.items() if count)
        reasons = {} if self.verdicts is None else self.verdicts.by_reason
        why = f": {', '.join(f'{reason} {count:,}' for reason, count in reasons.items())}" if reasons else ""
        return f"{self.counted} ({who}{why})"

    @property
    def done(self) -> str:
        """What was done with them, as the end of a sentence that counts them."""
        if self.rule == "worst":
            would = "the scores would have been" if self.verdicts is None else "they would have been decided"
            return f", and the interval holds {'whatever' if self.verdicts is None else 'however'} {would}"
        return f" and {'is' if self.count == 1 else 'are'} {'left out' if self.verdicts is None else 'ignored'}"

    @property
    def no_case(self) -> str:
        """What is said where they have no worst case."""
        unknown = "they could make it anything, as the bounds of scores are not known"
        return unknown if self.verdicts is None else "no rating comes of it"

    @property
    def advice(self) -> str:
        """What to do about them."""
        if self.verdicts is None:
            return "score them" if self.worst()[0] is not None else "score them, state the bounds (--bounds LOW,HIGH)"
        reasons = self.verdicts.by_reason
        some = [ASK_AGAIN] if reasons.keys() - {NO_ANSWER} else []
        return " and ".join([*some, "answer what has no answer and run again"] if NO_ANSWER in reasons else some)

    def to_dict(self, level: float, rule: MissingRule, *, anytime: bool) -> dict[str, Any]:
        """Counts, the rule and, for scores or where it is `worst`, the worst cases."""

        def case(one: AnyContrast | None) -> dict[str, float | None] | None:
            if one is None:
                return None
            low, high = one.ends(level, anytime=anytime)
            return {"difference": one.points, "low": low, "high": high}

        if self.verdicts is None:
            counts = {"by_model": self.by_name, "count": self.count, "total": self.total, "counted_in": self.counted_in}
        else:
            counts = {**msgspec.structs.asdict(self.verdicts.facts), "by_entrant": self.by_name}
        worst = None
        if rule == "worst" or self.verdicts is None:
            worst = dict(zip(("against", "in_favour"), map(case, self.worst()), strict=True))
        return {**counts, "rule": rule, "worst_case": worst}


def worst_case(fit: Callable[[bool], AnyContrast | None]) -> Callable[[], WorstCase]:
    """What computes both cases, once, when it is called."""

    def fitted(against: bool) -> AnyContrast | None:
        try:
            return fit(against)
        except (BattleError, RatingError, OptionError):
            return None

    return cache(lambda: (fitted(True), fitted(False)))


def cases_of(found: AnyContrast, lost: Missing | None, rule: MissingRule | None = None, *, anytime: bool) -> Cases:
    """A difference with its worst cases, where the rule (that of the interval, if no other is given) counts them."""
    if lost is None or (rule or lost.rule) == "ignore":
        return Cases.of(found, anytime=anytime)
    return Cases(found, *lost.worst(), anytime)


def missing_among(
    missing: MissingVerdicts, table: BattleTable, selection: Selection, *, filtered: bool
) -> MissingVerdicts:
    """Those that the selected battles lack.

    Whether a matchup without a row satisfies a filter over rows is not known: only a dimension that the filter leaves
    out altogether leaves its matchups out too.
    """
    if selection.source == Source.HUMAN.value:
        return MissingVerdicts()
    if selection.dimension is not None:
        return missing.only(dimensions={selection.dimension})
    if filtered and DIMENSION in table.columns:
        codes = table.text_column(DIMENSION)
        there = {codes.labels[code] for code in np.unique(codes.codes).tolist() if code != MISSING}
        return missing.only(dimensions=there)
    return missing


def add_decided(
    table: BattleTable, missing: Sequence[MissingMatchup], winner: Callable[[MissingMatchup], str]
) -> BattleTable:
    """The battles, and a battle for each matchup without a verdict, on its prompt and in its dimension.

    Other text columns have the value that all battles of the prompt have; numbers that are controlled for are the same
    on both sides.
    """
    if not missing:
        return table
    models = tuple(sorted({name for matchup in missing for name in matchup.entrants}))
    code = {name: place for place, name in enumerate(models)}
    won = [Outcome.A.code if winner(matchup) == matchup.entrant_a else Outcome.B.code for matchup in missing]
    columns: dict[str, Any] = {}
    for name, column in table.columns.items():
        if name == PROMPT:
            columns[name] = _codes([matchup.prompt_id for matchup in missing])
        elif name == DIMENSION:
            columns[name] = _codes([matchup.dimension or None for matchup in missing])
        elif isinstance(column, Codes):
            known = _values_by_prompt(table, name)
            columns[name] = _codes([matchup.columns.get(name) or known.get(matchup.prompt_id) for matchup in missing])
        elif name.endswith(("_a", "_b")):
            columns[name] = np.ones(len(missing))
        elif name == "one_order":  # as the others of the run
            columns[name] = np.full(len(missing), float((column == 1.0).all()))
    rows = BattleTable(
        models=models,
        model_a=np.array([code[matchup.entrant_a] for matchup in missing], dtype=np.int32),
        model_b=np.array([code[matchup.entrant_b] for matchup in missing], dtype=np.int32),
        outcome=np.array(won, dtype=np.int8),
        source=np.full(len(missing), Source.LLM_JUDGE.code, dtype=np.int8),
        weight=np.ones(len(missing)),
        columns=columns,
    )
    return concat([table, rows])


def _values_by_prompt(table: BattleTable, column: str) -> dict[str, str]:
    """The value of a text column by prompt, for prompts whose battles all have the same one."""
    if PROMPT not in table.columns or column not in table.columns:
        return {}
    prompts, values = table.text_column(PROMPT), table.text_column(column)
    both = (prompts.codes != MISSING) & (values.codes != MISSING)
    pairs = np.unique(np.stack([prompts.codes[both], values.codes[both]]), axis=1)
    unique, count = np.unique(pairs[0], return_counts=True)
    unambiguous = set(unique[count == 1].tolist())
    return {prompts.labels[p]: values.labels[v] for p, v in pairs.T.tolist() if p in unambiguous}


def _codes(texts: Sequence[str | None]) -> Codes:
    labels = tuple(dict.fromkeys(text for text in texts if text is not None))
    place = {text: code for code, text in enumerate(labels)}
    return Codes(np.array([MISSING if text is None else place[text] for text in texts], dtype=np.int32), labels)


def part_of(table: BattleTable, column: str, value: str) -> BattleTable:
    """The battles of one value of a column; none where no battle has it."""
    if column not in table.columns:
        return table.take(np.full(len(table), value == NO_DIMENSION)).compact()
    codes = table.text_column(column)
    unnamed = MISSING if (column, value) == (DIMENSION, NO_DIMENSION) else None
    place = codes.labels.index(value) if value in codes.labels else unnamed
    return table.take(codes.codes == place if place is not None else np.zeros(len(table), dtype=bool)).compact()


def missing_in_part(missing: MissingVerdicts, table: BattleTable, column: str, value: str) -> MissingVerdicts:
    """Those that may belong to one value of a column: where a matchup's own value is not known, it may."""
    if column == DIMENSION:
        return missing.only(dimensions={"" if value == NO_DIMENSION else value})
    known = _values_by_prompt(table, column)

    def may_belong(matchup: MissingMatchup) -> bool:
        return (matchup.columns.get(column) or known.get(matchup.prompt_id, value)) == value

    return missing.only(prompts={matchup.prompt_id for matchup in missing.matchups if may_belong(matchup)})

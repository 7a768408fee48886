"""What was not decided, and what it could change: matchups without a verdict, answers without a score.

Each claim is to hold as it is and with all of them decided the other way, unless they are to be ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

import msgspec
import numpy as np

from tiltyard.battles.battle import Outcome, Source
from tiltyard.battles.missing_verdicts import NO_ANSWER, MissingMatchup, MissingVerdicts
from tiltyard.battles.table import MISSING, BattleTable, Codes, concat
from tiltyard.boards.preparation import DIMENSION, NO_DIMENSION, Selection
from tiltyard.decisions.contrast import AnyContrast
from tiltyard.decisions.prompts import PROMPT
from tiltyard.decisions.units import Unit
from tiltyard.errors import BattleError, OptionError, RatingError
from tiltyard.options import MissingRule

ASK_AGAIN = "ask them again with `tiltyard run … --retry-failed`"


class WorstCase(msgspec.Struct, frozen=True):
    """The difference with every matchup without a verdict decided one way.

    Parameters:
        against: Counted against the new model; None where no rating comes of it.
        in_favour: Counted for the new model; None where no rating comes of it.
    """

    against: AnyContrast | None
    in_favour: AnyContrast | None

    def ends(self, one: AnyContrast, level: float, *, anytime: bool) -> tuple[float | None, float | None]:
        """The ends of an interval that holds as it is and in either case; None where nothing bounds it."""
        low, high = one.ends(level, anytime=anytime)
        lower = None if self.against is None else self.against.ends(level, anytime=anytime)[0]
        higher = None if self.in_favour is None else self.in_favour.ends(level, anytime=anytime)[1]
        return (
            None if low is None or lower is None else min(low, lower),
            None if high is None or higher is None else max(high, higher),
        )

    def bound(self, one: AnyContrast, least: float, level: float, *, anytime: bool) -> float | None:
        """The lower end of such an interval, for a claim that the difference lies above a number."""
        cases = (one, self.against)
        bounds = [None if case is None else case.bound(least, level, anytime=anytime) for case in cases]
        known = [bound for bound in bounds if bound is not None]
        return min(known) if len(known) == len(cases) else None

    def probability_above(self, one: AnyContrast, *, anytime: bool) -> float | None:
        """How sure one can be of the sign as it is and in either case; None where they differ in it."""
        cases = (self.against, one, self.in_favour)
        chances = [None if case is None else case.probability_above(anytime=anytime) for case in cases]
        known = [chance for chance in chances if chance is not None]
        if len(known) < len(cases) or min(known) < 0.5 < max(known):
            return None
        return min(known, key=lambda chance: abs(chance - 0.5))

    def to_dict(self, level: float, *, anytime: bool) -> dict[str, Any]:
        """Both cases as plain values."""

        def case(one: AnyContrast | None) -> dict[str, float | None] | None:
            if one is None:
                return None
            low, high = one.ends(level, anytime=anytime)
            return {"difference": one.points, "low": low, "high": high}

        return {"against": case(self.against), "in_favour": case(self.in_favour)}


@dataclass(frozen=True, slots=True, eq=False)
class Missing:
    """What was not decided behind a difference, and what it could change: matchups, or answers to be scored.

    Parameters:
        by_name: How many each of the two has, or one entrant in each of two runs.
        counted: How many there are, for a sentence.
        what: What they lack, for a sentence.
        facts: What JSON says of them.
        worst: The difference with all of them decided one way; computed when it is called.
        rule: Whether the interval of the difference covers the worst case (`worst`) or not (`ignore`).
        count: How many there are.
        verdicts: Which matchups they are; None for answers without a score.
    """

    by_name: Mapping[str, int]
    counted: str
    what: str
    facts: Mapping[str, Any]
    worst: Callable[[], WorstCase] = field(repr=False, compare=False)
    rule: MissingRule
    count: int
    verdicts: MissingVerdicts | None = None

    @classmethod
    def of_verdicts(
        cls, lost: MissingVerdicts, by_entrant: Mapping[str, int], worst: Callable[[], WorstCase], rule: MissingRule
    ) -> Missing:
        """Matchups without a verdict."""
        facts = {**lost.to_dict(), "by_entrant": by_entrant}
        return cls(by_entrant, lost.counted, "matchups have no verdict", facts, worst, rule, len(lost), lost)

    @classmethod
    def of_scores(
        cls,
        by_model: Mapping[str, int],
        count: int,
        total: int,
        counted_in: Literal["prompts", "answers"],
        worst: Callable[[], WorstCase],
        rule: MissingRule,
    ) -> Missing:
        """Answers without a score, and prompts to which only one of two models has an answer; how many, of how many."""
        counted = f"{count:,} of {total:,} {counted_in} {'lacks' if count == 1 else 'lack'} a score"
        facts = {"by_model": by_model, "count": count, "total": total, "counted_in": counted_in}
        return cls(by_model, counted, f"{counted_in} lack a score", facts, worst, rule, count)

    def __len__(self) -> int:
        return self.count

    @property
    def no_case(self) -> str:
        """What is said where they have no worst case."""
        unknown = "they could make it anything, as the bounds of scores are not known"
        return unknown if self.verdicts is None else "no rating comes of it"

    @property
    def advice(self) -> str:
        """What to do about them."""
        if self.verdicts is None:
            bounds = "" if self.worst().against is not None else ", state the bounds (--bounds LOW,HIGH)"
            return f"score them{bounds}"
        reasons = self.verdicts.by_reason
        some = [ASK_AGAIN] if reasons.keys() - {NO_ANSWER} else []
        return " and ".join([*some, "answer what has no answer and run again"] if NO_ANSWER in reasons else some)

    @property
    def sentence(self) -> str:
        """How many there are, by name and reason."""
        who = ", ".join(f"{name} {count:,}" for name, count in self.by_name.items() if count)
        reasons = {} if self.verdicts is None else self.verdicts.by_reason
        why = ", ".join(f"{reason} {count:,}" for reason, count in reasons.items())
        return f"{self.counted} ({who}: {why})" if self.verdicts is not None else f"{self.counted} ({who})"

    @property
    def done(self) -> str:
        """What was done with them, as the end of a sentence that counts them."""
        how = ("whatever the scores", "left out") if self.verdicts is None else ("however they", "ignored")
        if self.rule == "worst":
            return f", and the interval holds {how[0]} would have been{'' if self.verdicts is None else ' decided'}"
        return f" and {'is' if self.count == 1 else 'are'} {how[1]}"

    def cases(self, new: str, unit: Unit, level: float, *, anytime: bool) -> str:
        """Both cases in words."""
        case = self.worst()
        if case.against is None or case.in_favour is None:
            return self.no_case
        against, for_it = (
            f"{unit.named(unit.signed(one.points))} ({unit.between(*one.ends(level, anytime=anytime))})"
            for one in (case.against, case.in_favour)
        )
        return f"as bad as can be for {new} they make it {against}, as good as can be {for_it}"

    def to_dict(self, level: float, rule: MissingRule, *, anytime: bool) -> dict[str, Any]:
        """Counts, the rule and, for scores or where it is `worst`, the worst cases."""
        told = rule == "worst" or self.verdicts is None
        return {
            **self.facts,
            "rule": rule,
            "worst_case": self.worst().to_dict(level, anytime=anytime) if told else None,
        }


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
    models = tuple(sorted({name for one in missing for name in one.entrants}))
    code = {name: place for place, name in enumerate(models)}
    won = [Outcome.A.code if winner(one) == one.entrant_a else Outcome.B.code for one in missing]
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
        source=np.full(len(missing), Source.LLM_JUDGE.code, dtype=np.int8),
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
    result, count = np.unique(pairs[0], return_counts=True)
    alike = set(result[count == 1].tolist())
    return {prompts.labels[p]: values.labels[v] for p, v in pairs.T.tolist() if p in alike}


def part_of(table: BattleTable, column: str, value: str) -> BattleTable:
    """The battles of one value of a column; none where no battle has it."""
    if column not in table.columns:
        return table.take(np.full(len(table), value == NO_DIMENSION)).compact()
    codes = table.text_column(column)
    unnamed = MISSING if (column, value) == (DIMENSION, NO_DIMENSION) else None
    place = codes.labels.index(value) if value in codes.labels else unnamed
    return table.take(codes.codes == place if place is not None else np.zeros(len(table), dtype=bool)).compact()


def in_part(missing: MissingVerdicts, table: BattleTable, column: str, value: str) -> MissingVerdicts:
    """Those that may belong to one value of a column: where a matchup's own value is not known, it may."""
    if column == DIMENSION:
        return missing.only(dimensions={"" if value == NO_DIMENSION else value})
    known = values_by_prompt(table, column)

    def may_be(one: MissingMatchup) -> bool:
        return (one.columns.get(column) or known.get(one.prompt_id, value)) == value

    return missing.only(prompts={one.prompt_id for one in missing.matchups if may_be(one)})


def worst_case(fit: Callable[[bool], AnyContrast]) -> Callable[[], WorstCase]:
    """What computes both cases, once, when it is called."""

    def fitted(against: bool) -> AnyContrast | None:
        try:
            return fit(against)
        except (BattleError, RatingError, OptionError):
            return None

    return cache(lambda: WorstCase(fitted(True), fitted(False)))


def _codes(texts: Sequence[str | None]) -> Codes:
    labels = tuple(dict.fromkeys(text for text in texts if text is not None))
    place = {text: code for code, text in enumerate(labels)}
    return Codes(np.array([MISSING if text is None else place[text] for text in texts], dtype=np.int32), labels)


def ends_with_missing(
    one: AnyContrast, lost: Missing | None, level: float, *, anytime: bool
) -> tuple[float | None, float | None]:
    """The ends of an interval, which holds in the worst case too where the rule is that."""
    if lost is None or lost.rule == "ignore":
        return one.ends(level, anytime=anytime)
    return lost.worst().ends(one, level, anytime=anytime)

"""`gate`: a rule over a difference: better, not worse than a margin, worse, or cannot tell.

The first that holds decides. Better: the two-sided interval at level 1 − α is above zero. Not worse: the one-sided
bound at the same α is above minus the margin. Worse: the two-sided interval is below zero. Equal models are therefore
called better or worse with chance α at most, and a model that is worse by the margin passes with chance α at most. With
`anytime` the bounds hold however often one asks while verdicts come in. Matchups without a verdict count against each
claim, unless they are to be ignored: it holds as it is and with all of them decided the other way.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, get_args
from xml.etree import ElementTree  # written only, never read

import numpy as np

from tiltyard.battles.battle import Outcome, Source
from tiltyard.battles.missing_verdicts import NO_ANSWER, MissingMatchup, MissingVerdicts
from tiltyard.battles.table import MISSING, BattleTable, Codes, concat
from tiltyard.boards.estimator import check_number
from tiltyard.boards.selection import DIMENSION, NO_DIMENSION, Selection
from tiltyard.boards.text import percent
from tiltyard.decisions.contrast import AnyContrast
from tiltyard.decisions.prompts import PROMPT
from tiltyard.decisions.score_facts import doubt_in
from tiltyard.decisions.units import POINTS, Unit
from tiltyard.decisions.words import as_markdown as difference_markdown
from tiltyard.decisions.words import footnotes, if_picked, plain, sample, share, size_of
from tiltyard.errors import BattleError, OptionError, OptionValue, RatingError
from tiltyard.options import MissingRule, check_choice
from tiltyard.pages.tables import markdown_text
from tiltyard.ratings import POINTS_PER_LOGIT
from tiltyard.ratings.score_differences import ScoreEstimate
from tiltyard.types import Comparable

if TYPE_CHECKING:
    from tiltyard.decisions.records import Difference, EstimatedDifference, PartDifference
    from tiltyard.decisions.score_facts import MissingScores


@dataclass(frozen=True, slots=True)
class WorstCase:
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
    def counted(self) -> str:
        """How many there are."""
        return self.verdicts.counted

    @property
    def what(self) -> str:
        """What is missing, for a sentence."""
        return "matchups have no verdict"

    @property
    def no_case(self) -> str:
        """What is said where they have no worst case."""
        return "no rating comes of it"

    @property
    def advice(self) -> str:
        """What to do about them."""
        reasons = self.verdicts.by_reason
        some = [ASK_AGAIN] if reasons.keys() - {NO_ANSWER} else []
        return " and ".join([*some, "answer what has no answer and run again"] if NO_ANSWER in reasons else some)

    @property
    def sentence(self) -> str:
        """How many there are, by entrant and reason."""
        who = ", ".join(f"{name} {count:,}" for name, count in self.by_entrant.items() if count)
        why = ", ".join(f"{reason} {count:,}" for reason, count in self.verdicts.by_reason.items())
        return f"{self.verdicts.counted} ({who}: {why})"

    @property
    def done(self) -> str:
        """What was done with them, as the end of a sentence that counts them."""
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


def with_missing(result: Difference, whole: Missing, of_part: Callable[[str, str], Missing | None]) -> Difference:
    """The difference with its matchups without a verdict, on the whole and in each part.

    A dimension or category that has such matchups and no battle is a part of its own, of which nothing can be told.
    """
    parts = []
    for part in result.parts:
        lost, values = of_part(part.column, part.value), sum(one.column == part.column for one in result.parts)
        level = 1.0 - (1.0 - result.level) / values
        estimate = covering(part.estimate, part.contrast, lost, level, anytime=result.anytime)
        parts.append(replace(part, estimate=estimate, missing=lost))
    for column in dict.fromkeys(part.column for part in result.parts):
        shown = {part.value for part in result.parts if part.column == column}
        lost_at = (m.dimension if column == DIMENSION else m.columns.get(column) for m in whole.verdicts.matchups)
        for value in sorted({value for value in lost_at if value is not None} - shown):
            unseen = replace(result.parts[0], column=column, value=value, estimate=None, contrast=None)
            why = "no battle: no matchup has a verdict"
            parts.append(replace(unseen, reason=why, missing=of_part(column, value)))
    estimate = covering(result.estimate, result.contrast, whole, result.level, anytime=result.anytime)
    assert estimate is not None
    return replace(result, estimate=estimate, parts=tuple(parts), missing=whole)


def covering(
    estimate: EstimatedDifference | None,
    one: AnyContrast | None,
    lost: Missing | MissingScores | None,
    level: float,
    *,
    anytime: bool,
) -> EstimatedDifference | None:
    """The estimate with an interval that covers the worst case, where the rule is that."""
    if estimate is None or one is None or lost is None or lost.rule == "ignore":
        return estimate
    worst = lost.worst()
    low, high = worst.ends(one, level, anytime=anytime)
    return replace(estimate, low=low, high=high, probability_better=worst.probability_above(one, anytime=anytime))


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


Decision = Literal["better", "not_worse", "worse", "unknown"]
"""`better`, `not_worse`, `worse` or `unknown`."""

MARGIN = 30.0
"""The default margin in rating points: a win rate of 54 : 46."""
SHARE_MARGIN = 0.02
"""The default margin of a share: two percentage points."""
ALPHA = 0.05
SMALLEST_ALPHA = 1e-6
POWER = 0.8
"""The chance of passing for which sample sizes are given."""

ASK_AGAIN = "ask them again with `tiltyard run … --retry-failed`"

PASSES: tuple[Decision, ...] = ("better", "not_worse")


@dataclass(frozen=True, slots=True)
class PartVerdict:
    """The verdict on one dimension or category.

    Parameters:
        column: The column.
        value: Its value.
        verdict: What its battles say, with the error rate shared among all verdicts.
        difference: The difference there; None where the battles do not allow one.
        reason: Why there is none, or why nothing can be decided.
        missing: Matchups without a verdict that may belong to it.
        doubtful: Whether it may be worse: it is, unless they count for the new model, or if they count against it.
        low: Lower end of its interval at the shared level; None where nothing bounds it, or where there is none.
        high: Upper end.
        bound: The one-sided lower bound that is compared with the margin.
        if_ignored: What the verdict would be if matchups without a verdict were left out.
    """

    column: str
    value: str
    verdict: Decision
    difference: float | None
    reason: str | None = None
    missing: int = 0
    doubtful: bool = False
    low: float | None = None
    high: float | None = None
    bound: float | None = None
    if_ignored: Decision = "unknown"


@dataclass(frozen=True, slots=True, eq=False)
class GateResult(Comparable):
    """The verdict of a gate on a difference.

    Parameters:
        verdict: `better`, `not_worse`, `worse` or `unknown`.
        difference: The difference it is about.
        margin: By how much the new one may be worse, in the unit of the difference.
        alpha: The error rate.
        anytime: Whether one may ask again as verdicts come in.
        level: Confidence level of the two-sided interval that it looks at: 1 − α, or more where α is shared.
        low: Lower end of that interval; None where nothing bounds it, or where there is none.
        high: Upper end of that interval.
        bound: The one-sided lower bound that is compared with the margin; None: there is none.
        parts: Verdicts on each dimension where there are several, and on the values of a column that was asked for.
        needed: How many times as much data lets equal models pass with chance 0.8; None where that is unknown.
        missing: Whether its claim holds with every matchup without a verdict counted against it (`worst`), or they
            are left out (`ignore`).
        if_ignored: What the verdict on the whole would be if they were left out.
        by_dimension: Whether each dimension has a verdict in place of the whole, so that `low`, `high` and `bound` are
            None.
        if_picked: What a pass would be if the new one had been picked as the best of those that are here; None where
            it is not the best of several.
        doubt: Why what the interval says is not to be believed; None where it is.
    """

    verdict: Decision
    difference: Difference
    margin: float
    alpha: float
    anytime: bool
    level: float
    low: float | None
    high: float | None
    bound: float | None
    parts: tuple[PartVerdict, ...]
    needed: float | None
    missing: MissingRule = "worst"
    if_ignored: Decision = "unknown"
    by_dimension: bool = False
    if_picked: Decision | None = None
    doubt: str | None = None

    @property
    def dimensions(self) -> tuple[PartVerdict, ...]:
        """The verdicts that stand in place of one on the whole: those on each dimension."""
        return tuple(part for part in self.parts if part.column == DIMENSION) if self.by_dimension else ()

    @property
    def passed(self) -> bool:
        """Whether the gate is passed: better, or not worse than the margin."""
        return self.verdict in PASSES

    @property
    def sentence(self) -> str:
        """The verdict in one sentence, for a pull request."""
        return gate_sentence(self)

    def to_dict(self) -> dict[str, Any]:
        """The verdict as plain values, with the difference it is about."""
        lost = self.difference.missing
        missing = None if lost is None else lost.to_dict(self.level, self.missing, anytime=self.anytime)
        if missing is not None:
            missing["verdict_if_ignored"] = self.if_ignored
        return {
            "verdict": self.verdict,
            "passed": self.passed,
            "verdict_if_picked": self.if_picked,
            "by_dimension": self.by_dimension,
            "sentence": self.sentence,
            "margin": self.margin,
            "unit": self.difference.unit.name,
            "margin_win_rate": even_odds(-self.margin) if self.difference.scores is None else None,
            "alpha": self.alpha,
            "anytime": self.anytime,
            "level": self.level,
            "low": self.low,
            "high": self.high,
            "bound": self.bound,
            "needed_times": self.needed,
            "needed_prompts": _times(self.difference.n_prompts, self.needed),
            "missing": missing,
            "doubt": self.doubt,
            "by": [{name: getattr(part, name) for name in PartVerdict.__slots__} for part in self.parts],
            "comparison": self.difference.to_dict(),
        }

    def to_json(self) -> str:
        """The verdict as JSON text."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n"

    def __repr__(self) -> str:
        return f"<GateResult: {self.sentence}>"


def judge_difference(
    result: Difference,
    *,
    margin: float | str | None = None,
    alpha: float = ALPHA,
    by: str | None = None,
    missing: MissingRule = "worst",
    pool_dimensions: bool = False,
) -> GateResult:
    """The verdict on a difference.

    Where it is about several dimensions, each has its own verdict, in place of one on all together. With `by` every
    value of the column has one too. The error rate is shared: each is judged at α/(number of verdicts), and any that is
    worse makes the verdict worse. Of dimensions, all must pass: any that is unknown makes the verdict unknown.

    Parameters:
        result: The difference.
        margin: By how much the new one may be worse; None: 30 rating points, or 2 percentage points of a share.
        alpha: The error rate: how often equal models may be called better or worse.
        by: A column whose values are judged too; None: only the whole.
        missing: Whether matchups without a verdict count against each claim (`worst`), or not at all (`ignore`).
        pool_dimensions: One verdict on all dimensions together, in place of one on each.
    """
    check_choice("missing", missing, get_args(MissingRule))
    _check_directions([result])
    amount = _margin(result, margin)
    if not SMALLEST_ALPHA <= alpha < 0.5:
        raise OptionError(f"alpha is {alpha:g}: expected an error rate from {SMALLEST_ALPHA:g} to 0.5, such as 0.05.")
    if by is not None and all(part.column != by for part in result.parts):
        what = "battles" if result.scores is None else "scores"
        raise OptionError(f"the {what} have no column {by!r} with two values or more to judge apart.")
    if pool_dimensions and result.scores is not None:
        raise OptionError("metrics of scores are never pooled: leave out ", OptionValue("pool_dimensions", True), ".")
    own = {by} if pool_dimensions else {by, DIMENSION}
    parts = [part for part in result.parts if part.column in own]
    by_dimension = not pool_dimensions and (bool(result.dimensions) or any(part.column == DIMENSION for part in parts))

    def judged(shared: float) -> GateResult:
        return replace(_judge(result, parts, amount, shared, missing, by_dimension=by_dimension), alpha=alpha)

    found = judged(alpha / result.picked_from)
    if not found.passed or result.best_of is None:
        return found
    return replace(found, if_picked=judged(alpha / result.best_of).verdict)


@dataclass(frozen=True, slots=True, eq=False)
class MetricsGate(Comparable):
    """The verdicts of a gate on several metrics, which share an error rate, and what they make together.

    Parameters:
        metrics: The verdict on each metric. All must pass: one that is worse, or else unknown, decides.
        alpha: The error rate of all of them together.
    """

    metrics: Mapping[str, GateResult]
    alpha: float

    @property
    def verdict(self) -> Decision:
        """`worse` if any is, else `unknown` if any is, else `better` if all are, else `not_worse`."""
        return all_together([one.verdict for one in self.metrics.values()])

    @property
    def passed(self) -> bool:
        """Whether the gate is passed by every metric."""
        return self.verdict in PASSES

    @property
    def sentence(self) -> str:
        """The verdict in one sentence, with the metrics that decide it."""
        return metrics_sentence(self)

    def to_dict(self) -> dict[str, Any]:
        """The verdicts as plain values."""
        return {
            "verdict": self.verdict,
            "passed": self.passed,
            "sentence": self.sentence,
            "alpha": self.alpha,
            "metrics": {name: one.to_dict() for name, one in self.metrics.items()},
        }

    def to_json(self) -> str:
        """The verdicts as JSON text."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n"

    def __repr__(self) -> str:
        return f"<MetricsGate: {self.sentence}>"


def _check_directions(answers: Sequence[Difference]) -> None:
    """Refuse metrics of which only the name says which way is better."""
    metrics = {one.scores.metric: one.scores.direction for one in answers if one.scores is not None}
    guessed = [metric for metric, direction in metrics.items() if direction == "name"]
    if guessed:
        said = [f"{metric}:lower" if metric in guessed else metric for metric in metrics]
        raise OptionError(
            f"of {' and '.join(guessed)} less seems better, by the name: say it with :lower or :higher, as in ",
            OptionValue("score", said),
            ".",
        )


def judge_metrics(
    answers: Sequence[Difference], *, margin: float | str | None = None, alpha: float = ALPHA, **more: Any
) -> GateResult | MetricsGate:
    """The verdict on one difference, or those on several metrics, each judged at α/(number of metrics).

    Parameters:
        answers: A difference by each metric.
        margin: By how much the new one may be worse, in a unit that all of them have; None: the default of each.
        alpha: The error rate: how often equal models may be called better or worse by any of them.
        more: As for `judge_difference`.
    """
    if len(answers) == 1:
        return judge_difference(answers[0], margin=margin, alpha=alpha, **more)
    _check_directions(answers)
    judged = {}
    for one in answers:
        metric = one.scores.metric if one.scores is not None else ""
        try:
            judged[metric] = judge_difference(one, margin=margin, alpha=alpha / len(answers), **more)
        except OptionError as error:
            raise OptionError(
                f"{metric}: ", *error.args, " One metric alone: ", OptionValue("score", metric), "."
            ) from None
    return MetricsGate(judged, alpha)


def _judge(
    result: Difference,
    parts: Sequence[PartDifference],
    margin: float,
    alpha: float,
    missing: MissingRule,
    *,
    by_dimension: bool,
) -> GateResult:
    """The verdict with an error rate that parts, and the whole where it has a verdict, share."""
    each = alpha / max(len(parts) + (not by_dimension), 1)
    judged = [_judge_part(part, result, margin, each, missing) for part in parts]
    verdict: Decision
    if_ignored: Decision
    low = high = bound = None
    claims: list[Decision] = []
    if by_dimension:
        about = [part for part in parts if part.column == DIMENSION]
        own = [part for part in judged if part.column == DIMENSION]
        verdict, if_ignored = all_together([one.verdict for one in own]), all_together([one.if_ignored for one in own])
        contrasts, power = [one.contrast for one in about] or [None], POWER ** (1.0 / max(len(about), 1))
    else:
        worst = result.missing.worst() if result.missing is not None and missing == "worst" else None
        verdict, bound = decide(result.contrast, margin, each, anytime=result.anytime, worst=worst)
        if_ignored = verdict if worst is None else decide(result.contrast, margin, each, anytime=result.anytime)[0]
        low, high = result.contrast.ends(1.0 - each, anytime=result.anytime)
        claims, _ = claims_of(result.contrast, margin, each, anytime=result.anytime, worst=worst)
        contrasts, power = [result.contrast], POWER
    if result.obstacles:
        verdict = if_ignored = "unknown"
    if any(part.verdict == "worse" for part in judged):
        verdict = "worse"
    elif verdict in PASSES and any(part.doubtful for part in judged):
        verdict = "unknown"
    sizes = [None if one is None else times_needed(one, margin, each, power) for one in contrasts]
    known = [size for size in sizes if size is not None]
    return GateResult(
        verdict=verdict,
        difference=result,
        margin=margin,
        alpha=alpha,
        anytime=result.anytime,
        level=1.0 - each,
        low=low,
        high=high,
        bound=bound,
        parts=tuple(judged),
        needed=None if result.obstacles or len(known) < len(sizes) else max(known),
        missing=missing,
        if_ignored=if_ignored,
        by_dimension=by_dimension,
        doubt=doubt_in(result, claims[0] in PASSES if claims else None)
        if verdict == "unknown" and not by_dimension
        else None,
    )


def all_together(verdicts: Sequence[Decision]) -> Decision:
    """One verdict of several that must all pass: any that is worse makes it worse, any unknown one unknown."""
    if not verdicts:
        return "unknown"
    for verdict in ("worse", "unknown", "not_worse"):
        if verdict in verdicts:
            return verdict
    return "better"


def _margin(result: Difference, given: float | str | None) -> float:
    """The margin in the unit of the difference."""
    if result.scores is None:
        margin = POINTS.amount(MARGIN if given is None else given, "margin")
        check_number("margin", margin, least=0.0, most=2000.0)
        return margin
    if given is None and not result.scores.shares:
        raise OptionError(
            "by how much may the new one be worse? Say it in the unit of the scores with ",
            OptionValue("margin", 0.1),
            ".",
        )
    return result.unit.amount(SHARE_MARGIN if given is None else given, "margin")


def _judge_part(
    part: PartDifference, result: Difference, margin: float, alpha: float, missing: MissingRule
) -> PartVerdict:
    """The verdict on one value of a column, by the same rules as on the whole."""
    one, lost = part.contrast, part.missing
    count = 0 if lost is None else len(lost)
    points = None if one is None else one.points
    worst = lost.worst() if lost is not None and missing == "worst" else None
    reason = part.reason or "; ".join(part.obstacles) or None
    if one is None or result.obstacles or part.obstacles:
        return PartVerdict(part.column, part.value, "unknown", points, reason, count, worst is not None)
    verdict, bound = decide(one, margin, alpha, anytime=result.anytime, worst=worst)
    if_ignored = verdict if worst is None else decide(one, margin, alpha, anytime=result.anytime)[0]
    low, high = one.ends(1.0 - alpha, anytime=result.anytime)
    doubtful = False
    if worst is not None and verdict != "worse":
        cases = (one, worst.against)
        doubtful = any(
            case is None or decide(case, margin, alpha, anytime=result.anytime)[0] == "worse" for case in cases
        )
    return PartVerdict(
        part.column, part.value, verdict, points, None, count, doubtful, low, high, bound, if_ignored=if_ignored
    )


def decide(
    one: AnyContrast, margin: float, alpha: float, *, anytime: bool, worst: WorstCase | None = None
) -> tuple[Decision, float | None]:
    """The verdict on a difference, and the one-sided lower bound that is compared with the margin."""
    claims, bound = claims_of(one, margin, alpha, anytime=anytime, worst=worst)
    believed = (claim for claim in claims if one.doubt(above=claim in PASSES, anytime=anytime) is None)
    return next(believed, "unknown"), bound


def claims_of(
    one: AnyContrast, margin: float, alpha: float, *, anytime: bool, worst: WorstCase | None = None
) -> tuple[list[Decision], float | None]:
    """The verdicts that an interval allows, the first of which decides if it is to be believed; and the lower bound."""
    if worst is None:
        low, high = one.ends(1.0 - alpha, anytime=anytime)
        bound = one.bound(-margin, 1.0 - 2.0 * alpha, anytime=anytime)
    else:
        low, high = worst.ends(one, 1.0 - alpha, anytime=anytime)
        bound = worst.bound(one, -margin, 1.0 - 2.0 * alpha, anytime=anytime)
    claims: list[Decision] = []
    if low is not None and low > 0.0:
        claims.append("better")
    if bound is not None and bound > -margin:
        claims.append("not_worse")
    if high is not None and high < 0.0:
        claims.append("worse")
    return claims, bound


def times_needed(one: AnyContrast, margin: float, alpha: float, power: float = POWER) -> float | None:
    """How many times as much data lets equal models pass the margin with chance 0.8, or another one."""
    from scipy.special import ndtri

    if not one.known or margin <= 0.0 or one.error == 0.0:
        return None
    wanted = one.cut(1.0 - 2.0 * alpha) * one.error_at(-margin) + float(ndtri(power)) * one.error
    needed = (wanted / margin) ** 2
    return max(needed, one.fewest / one.units) if isinstance(one, ScoreEstimate) else needed


def even_odds(points: float) -> float:
    """The chance that a model this many points ahead wins a battle that is not a tie."""
    return 1.0 / (1.0 + math.exp(-points / POINTS_PER_LOGIT))


def gate_sentence(result: GateResult) -> str:
    """The verdict in one sentence."""
    found, unit = result.difference, result.difference.unit
    margin, size = unit.named(unit.plain(result.margin)), size_of(found, result.low, result.high)
    new, old = found.new, found.old
    worse = [part.value for part in result.parts if part.verdict == "worse"]
    if result.by_dimension:
        text = _of_dimensions(result, margin)
    elif result.verdict == "better":
        text = f"pass: {new} is better than {old}: {size}"
    elif result.verdict == "not_worse":
        text = f"pass: {new} is not worse than {old} by more than {margin}: {size}{_one_sided(result)}"
    elif worse and not (result.high is not None and result.high < 0.0):
        text = f"fail: {new} is worse than {old} in {', '.join(worse)}; on the whole {size}"
    elif result.verdict == "worse":
        text = f"fail: {new} is worse than {old}: {size}"
    elif found.obstacles:
        text = f"cannot tell: {'; '.join(found.obstacles)}; here {new} is at {size} against {old}"
    elif found.missing is not None and (doubtful := [part.value for part in result.parts if part.doubtful]):
        text = f"cannot tell: {new} may be worse than {old} in {', '.join(doubtful)}, where {found.missing.what}; "
        text += f"{found.missing.advice}; on the whole {size}"
    elif result.doubt is not None:
        text = f"cannot tell: {result.doubt}; here {new} is at {size} against {old}"
    elif result.if_ignored != "unknown":
        text = f"cannot tell: {_turned(result)}; without them {new} is at {size} against {old}"
    else:
        text = f"cannot tell whether {new} is worse than {old} by more than {margin}: {size}{_one_sided(result)}"
    if result.if_picked not in (None, result.verdict):
        text += if_picked(found, {"not_worse": "not worse", "unknown": "cannot tell"}[str(result.if_picked)])
    return f"{text}; {sample(found, pooled=not result.by_dimension)}{_of_missing(result)}."


def _of_dimensions(result: GateResult, margin: str) -> str:
    """What the verdicts on each dimension say together."""
    found, own = result.difference, result.dimensions
    new, old = found.new, found.old
    worse = [part for part in result.parts if part.verdict == "worse"]
    unknown = [part for part in own if part.verdict == "unknown"]
    unsure = [part.value for part in unknown if part.if_ignored != "unknown"] or [
        part.value for part in result.parts if part.doubtful and part not in own
    ]
    if worse:
        return f"fail: {new} is worse than {old} in {_listed(worse, found.unit)}"
    if found.obstacles:
        return f"cannot tell: {'; '.join(found.obstacles)}; here {new} is at {_listed(own, found.unit)} against {old}"
    if not own:
        what = f"{len(found.dimensions)} dimensions are pooled, and each must pass"
        return f"cannot tell: {what}; compare the runs, or boards of one dimension each"
    if unsure and found.missing is not None:
        text = f"cannot tell: {new} may be worse than {old} in {', '.join(unsure)}, where {found.missing.what}; "
        return f"{text}{found.missing.advice}, or pass --missing ignore"
    if unknown:
        where = _listed(unknown, found.unit)
        return f"cannot tell whether {new} is worse than {old} by more than {margin} in {where}"
    if result.verdict == "better":
        return f"pass: {new} is better than {old} in each of {len(own)} dimensions: {_listed(own, found.unit)}"
    text = f"pass: {new} is not worse than {old} by more than {margin} in any of {len(own)} dimensions: "
    return text + _listed(own, found.unit)


def metrics_sentence(result: MetricsGate) -> str:
    """The verdict on several metrics in one sentence."""
    every = result.metrics
    first, verdict = next(iter(every.values())).difference, result.verdict
    new, old = first.new, first.old
    text = {
        "better": f"pass: {new} is better than {old} by each of {len(every)} metrics",
        "not_worse": f"pass: {new} is not worse than {old} by more than the margin by any of {len(every)} metrics",
        "worse": f"fail: {new} is worse than {old}",
        "unknown": f"cannot tell whether {new} is worse than {old} by more than the margin",
    }[verdict]
    deciding = [(name, one) for name, one in every.items() if verdict in PASSES or one.verdict == verdict]
    sizes = [f"{name} {size_of(one.difference, one.low, one.high)}" for name, one in deciding[:SHOWN_PARTS]]
    more = [f"and {len(deciding) - SHOWN_PARTS} more"] if len(deciding) > SHOWN_PARTS else []
    text = f"{text}: {'; '.join([*sizes, *more])}"
    picked = [one for one in every.values() if one.if_picked not in (None, one.verdict)]
    return f"{text}{if_picked(picked[0].difference, 'cannot tell') if picked else ''}; {sample(first)}."


SHOWN_PARTS = 4


def _listed(parts: Sequence[PartVerdict], unit: Unit) -> str:
    """Some parts with their differences, the lowest first: `safety (−100 points, −158 to −42)`."""

    def about(one: PartVerdict) -> str:
        if one.reason is not None or one.difference is None:
            return (one.reason or "no difference").rstrip(".")
        return f"{unit.named(unit.signed(one.difference))}, {unit.between(one.low, one.high)}"

    order = sorted(parts, key=lambda one: -math.inf if one.difference is None else one.difference)
    more = [f"and {len(order) - SHOWN_PARTS} more"] if len(order) > SHOWN_PARTS else []
    return ", ".join([*(f"{one.value} ({about(one)})" for one in order[:SHOWN_PARTS]), *more])


def _one_sided(result: GateResult) -> str:
    """The bound that is compared with the margin: an end of the two-sided interval is none."""
    unit, scores = result.difference.unit, result.difference.scores
    if result.bound is None:
        return ""
    if scores is not None and scores.log and scores.lower_is_better:  # the ratio is that of the new one to the old one
        return f", one-sided {percent(result.level)} below {unit.named(unit.plain(-result.bound))}"
    return f", one-sided {percent(result.level)} above {unit.plain(result.bound)}"


def _turned(result: GateResult) -> str:
    """What matchups without a verdict would turn the difference into, and what to do about it."""
    found, missing = result.difference, result.difference.missing
    assert missing is not None
    way, case = _counted_against(missing, result, for_new=result.if_ignored == "worse")
    now = found.unit.signed(found.difference)
    could = missing.no_case if case is None else f"they turn {now} into {case}"
    return f"{missing.sentence}, and counted {way} {found.new} {could}; {missing.advice}, or pass --missing ignore"


def _counted_against(missing: Missing | MissingScores, result: GateResult, *, for_new: bool) -> tuple[str, str | None]:
    """Which way matchups without a verdict count against a claim, and the difference that way; None: no rating."""
    way, one = ("for", missing.worst().in_favour) if for_new else ("against", missing.worst().against)
    if one is None:
        return way, None
    unit = result.difference.unit
    return (
        way,
        f"{unit.named(unit.signed(one.points))} ({unit.between(*one.ends(result.level, anytime=result.anytime))})",
    )


def _of_missing(result: GateResult) -> str:
    """What was done with matchups without a verdict, where the sentence has not said it yet."""
    missing = result.difference.missing
    doubtful = any(part.doubtful for part in result.parts)
    if missing is None or (result.verdict == "unknown" and result.if_ignored != "unknown" and not doubtful):
        return ""
    if result.missing == "ignore":
        return f"; {missing.sentence}, ignored"
    if result.verdict == "unknown" or result.difference.obstacles or result.by_dimension:
        return f"; {missing.sentence}"
    way, case = _counted_against(missing, result, for_new=result.verdict == "worse")
    return f"; {missing.sentence}" + ("" if case is None else f": {case} with all of them counted {way} it")


def as_table(result: GateResult | MetricsGate) -> str:
    """The verdict for a terminal: the sentence, the difference, categories, and how much data the margin needs."""
    if isinstance(result, MetricsGate):
        return "\n\n".join([result.sentence, *(f"{name}\n{as_table(one)}" for name, one in result.metrics.items())])
    lines = [result.sentence, "", *_part_lines(result), *advice(result)]
    return "\n".join([*lines, *footnotes(result.difference, missing=False)])


def as_json(result: GateResult | MetricsGate) -> str:
    """The verdict as JSON."""
    return result.to_json()


def as_markdown(result: GateResult | MetricsGate) -> str:
    """The verdict for a pull request or a step summary: sentence, numbers, and the prompts that decide it."""
    mark = {"better": "✅", "not_worse": "✅", "worse": "❌", "unknown": "❔"}[result.verdict]
    if isinstance(result, MetricsGate):
        first = f"## {mark} {len(result.metrics)} metrics\n\n**{markdown_text(result.sentence)}**\n"
        return "\n".join([first, *(as_markdown(one) for one in result.metrics.values())])
    by = "" if result.difference.scores is None else f" by {result.difference.scores.metric}"
    head = markdown_text(f"## {mark} {result.difference.new} against {result.difference.old}{by}")
    parts = [f"- {markdown_text(line)}" for line in _part_lines(result) if line.strip()]
    notes = [f"- {markdown_text(line)}" for line in advice(result)]
    return "\n".join([head, "", difference_markdown(result.difference, first=result.sentence), *parts, *notes]) + "\n"


def as_junit(result: GateResult | MetricsGate) -> str:
    """The verdict as JUnit XML: one test case for the whole and one for each metric, dimension and category."""
    cases = [("gate", result.verdict, result.sentence)]
    metrics = result.metrics if isinstance(result, MetricsGate) else {"": result}
    for metric, each in metrics.items():
        cases += [(f"metric {metric}", each.verdict, each.sentence)] if each is not result else []
        for one in each.parts:
            title = f"{metric} {one.column} {one.value}".strip()
            cases.append((title, one.verdict, one.reason or _part_line(one, each.difference.unit)))
    about = next(iter(metrics.values())).difference
    suite = ElementTree.Element(
        "testsuite",
        name="tiltyard gate",
        tests=str(len(cases)),
        failures=str(sum(verdict == "worse" for _, verdict, _ in cases) + (result.verdict == "unknown")),
        skipped=str(sum(verdict == "unknown" for _, verdict, _ in cases[1:])),
    )
    name = f"{about.new} against {about.old}"
    for place, (title, verdict, text) in enumerate(cases):
        case = ElementTree.SubElement(suite, "testcase", classname=_printable(name), name=_printable(title))
        if verdict == "worse" or (verdict == "unknown" and place == 0):
            ElementTree.SubElement(case, "failure", message=_printable(text), type=verdict)
        elif verdict == "unknown":
            ElementTree.SubElement(case, "skipped", message=_printable(text))
        else:
            ElementTree.SubElement(case, "system-out").text = _printable(text)
    ElementTree.indent(suite)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(suite, encoding="unicode") + "\n"


def _printable(text: str) -> str:
    """The text without characters that XML forbids."""
    return "".join(letter if letter in "\t\n" or letter >= " " else "\ufffd" for letter in text)


def _part_lines(result: GateResult) -> list[str]:
    unit = result.difference.unit
    return [*(f"{one.column} {one.value}: {_part_line(one, unit)}" for one in result.parts), ""] if result.parts else []


def _part_line(one: PartVerdict, unit: Unit) -> str:
    if one.difference is None:
        return one.reason or "cannot tell"
    why = "" if one.reason is None else f": {one.reason}"
    what = ("matchup", "a verdict") if unit is POINTS else ("prompt", "a score of both")
    lost = f"; {one.missing:,} {what[0]}{'s' if one.missing != 1 else ''} without {what[1]}" if one.missing else ""
    ends = f" ({unit.between(one.low, one.high)})" if one.column == DIMENSION and not why else ""
    size = f"{unit.named(unit.signed(one.difference))}{ends}"
    return f"{one.verdict.replace('_', ' ').replace('unknown', 'cannot tell')}, {size}{why}{lost}"


def advice(result: GateResult) -> list[str]:
    """What the margin means, and how much data it needs."""
    unit = result.difference.unit
    lines = []
    if abs(result.level - result.difference.level) >= 1e-9:
        verdicts = len(result.parts) + (not result.by_dimension)
        why = f", because α is shared among {verdicts} verdicts" if result.parts else ""
        ends = "" if result.by_dimension else f", {unit.between(result.low, result.high)}"
        lines.append(f"the gate looks at the {percent(result.level)} interval{'s' if not ends else ''}{ends}{why}")
    if result.difference.scores is None:
        wins = share(1.0 - even_odds(result.margin))
        lines.append(
            f"a margin of {plain(result.margin)} points: a model that much worse wins {wins} of decided battles"
        )
    if result.needed is None:
        return lines
    prompts = _times(result.difference.n_prompts, result.needed)
    size = f"about {result.needed:.1f} times this much data" if prompts is None else f"about {prompts:,} prompts"
    has = "" if result.difference.n_prompts is None else f" (here {result.difference.n_prompts:,})"
    lines.append(f"equal models pass this margin in 80 % of cases with {size}{has}")
    return lines


def _times(prompts: int | None, needed: float | None) -> int | None:
    return None if prompts is None or needed is None else math.ceil(prompts * needed)

"""`gate`: a rule over a difference: better, not worse than a margin, worse, or cannot tell.

The first that holds decides. Better: the two-sided interval at level 1 − α is above zero. Not worse: the one-sided
bound at the same α is above minus the margin. Worse: the two-sided interval is below zero. Equal models are therefore
called better or worse with chance α at most, and a model that is worse by the margin passes with chance α at most. With
`anytime` the bounds hold however often one asks while verdicts come in. Matchups without a verdict count against each
claim, unless they are to be ignored: it holds as it is and with all of them decided the other way.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import msgspec

from tiltyard.analysis import decisions
from tiltyard.analysis.boards import DIMENSION, check_number
from tiltyard.analysis.decisions.answer import Difference, PartDifference, RatingDifference, ScoreDifference
from tiltyard.analysis.decisions.contrast import AnyContrast, even_odds
from tiltyard.analysis.decisions.missing import Cases, cases_of
from tiltyard.analysis.decisions.units import POINTS
from tiltyard.errors import OptionError, OptionValue
from tiltyard.options import GateRule, MissingRule
from tiltyard.stats import ScoreEstimate
from tiltyard.types import Result, named

Decision = Literal["better", "not_worse", "worse", "unknown"]
"""`better`, `not_worse`, `worse` or `unknown`."""

MARGIN = 30.0
"""The default margin in rating points: a win rate of 54 : 46."""
SHARE_MARGIN = 0.02
"""The default margin of a share: two percentage points."""
SMALLEST_ALPHA = 1e-6
POWER = 0.8
"""The chance of passing for which sample sizes are given."""

PASSES: tuple[Decision, ...] = ("better", "not_worse")


class PartVerdict(msgspec.Struct, frozen=True):
    """The verdict on one dimension or category.

    Parameters:
        column: The column.
        value: Its value.
        verdict: What its battles say, with the error rate shared among all verdicts.
        difference: The difference there; None where the battles do not allow one.
        reason: Why there is none, or why nothing can be decided.
        missing: Matchups without a verdict that may belong to it.
        may_be_worse: Whether it may be worse: it is, unless they count for the new model, or if they count against it.
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
    may_be_worse: bool = msgspec.field(default=False, name="doubtful")
    low: float | None = None
    high: float | None = None
    bound: float | None = None
    if_ignored: Decision = "unknown"


class GateVerdict(Result):
    """What `gate` returns."""

    __slots__ = ()
    verdict: Decision

    @property
    def passed(self) -> bool:
        """Whether the gate is passed: better, or not worse than the margin."""
        return self.verdict in PASSES

    @property
    def sentence(self) -> str:
        """The verdict in one sentence, for a pull request."""
        return decisions.render.gate_sentence(self)

    def render(self, format: str = "table") -> str:
        """The verdict as `table`, `json`, `md` or `junit`."""
        return decisions.render.verdict(self, format)


@dataclass(frozen=True, slots=True, eq=False)
class GateResult(GateVerdict):
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
    def needed_prompts(self) -> int | None:
        """How many prompts let equal models pass with chance 0.8."""
        prompts = self.difference.n_prompts
        return None if prompts is None or self.needed is None else math.ceil(prompts * self.needed)

    def to_dict(self) -> dict[str, Any]:
        """The verdict as plain values, with the difference it is about."""
        found, lost = self.difference, self.difference.missing
        missing = None
        if lost is not None:
            missing = lost.to_dict(self.level, self.missing, anytime=self.anytime)
            missing["verdict_if_ignored"] = self.if_ignored
        return {
            **named(self, "verdict passed"),
            "verdict_if_picked": self.if_picked,
            **named(self, "by_dimension sentence margin"),
            "unit": found.unit.name,
            "margin_win_rate": even_odds(-self.margin) if isinstance(found, RatingDifference) else None,
            **named(self, "alpha anytime level low high bound"),
            "needed_times": self.needed,
            "needed_prompts": self.needed_prompts,
            "missing": missing,
            "doubt": self.doubt,
            "by": [msgspec.to_builtins(part) for part in self.parts],
            "comparison": found.to_dict(),
        }


@dataclass(frozen=True, slots=True, eq=False)
class MetricsGate(GateVerdict):
    """The verdicts of a gate on several metrics, which share an error rate, and what they make together.

    Parameters:
        metrics: The verdict on each metric. All must pass: one that is worse, or else unknown, decides.
        alpha: The error rate of all of them together.
    """

    metrics: Mapping[str, GateResult]
    alpha: float

    @property
    def verdict(self) -> Decision:  # type: ignore[override]
        """`worse` if any is, else `unknown` if any is, else `better` if all are, else `not_worse`."""
        return all_together([gate.verdict for gate in self.metrics.values()])

    def to_dict(self) -> dict[str, Any]:
        metrics = {name: gate.to_dict() for name, gate in self.metrics.items()}
        return {**named(self, "verdict passed sentence alpha"), "metrics": metrics}


def judge_difference(result: Difference, rule: GateRule) -> GateResult:
    """The verdict on a difference.

    Where it is about several dimensions, each has its own verdict, in place of one on all together. With `by` every
    value of the column has one too. The error rate is shared: each is judged at α/(number of verdicts), and any that is
    worse makes the verdict worse. Of dimensions, all must pass: any that is unknown makes the verdict unknown.
    """
    _check_metrics([result])
    margin, alpha = _margin(result, rule.margin), rule.alpha
    if not SMALLEST_ALPHA <= alpha < 0.5:
        raise OptionError(f"alpha is {alpha:g}: expected an error rate from {SMALLEST_ALPHA:g} to 0.5, such as 0.05.")
    is_ratings = isinstance(result, RatingDifference)
    if rule.by is not None and all(part.column != rule.by for part in result.parts):
        what = "battles" if is_ratings else "scores"
        raise OptionError(f"the {what} have no column {rule.by!r} with two values or more to judge apart.")
    if rule.pool_dimensions and not is_ratings:
        raise OptionError("metrics of scores are never pooled: leave out ", OptionValue("pool_dimensions", True), ".")
    found = _judge(result, margin, alpha / result.picked_from, rule)
    if not found.passed or result.best_of is None:
        return found
    return replace(found, if_picked=_judge(result, margin, alpha / result.best_of, rule).verdict)


def _check_metrics(answers: Sequence[Difference]) -> None:
    """Refuse one column out of several that nobody named, and metrics whose name alone says which way is better."""
    scores = [answer for answer in answers if isinstance(answer, ScoreDifference)]
    for answer in scores:
        if answer.beside:
            raise OptionError(
                f"the gate would judge {answer.metric} alone, and {', '.join(answer.beside)} may be scores too. Name "
                "what it is to judge, as in ",
                OptionValue("score", [answer.metric]),
                " or ",
                OptionValue("score", [answer.metric, *answer.beside]),
                ".",
            )
    guessed = [answer.metric for answer in scores if answer.direction == "name"]
    if guessed:
        named = [f"{answer.metric}:lower" if answer.metric in guessed else answer.metric for answer in scores]
        raise OptionError(
            f"of {' and '.join(guessed)} less seems better, by the name: say it with :lower or :higher, as in ",
            OptionValue("score", named),
            ".",
        )


def judge_metrics(answers: Mapping[str, ScoreDifference], rule: GateRule) -> MetricsGate:
    """The verdicts on several metrics, each judged at α/(number of metrics)."""
    _check_metrics(list(answers.values()))
    judged = {}
    for metric, answer in answers.items():
        try:
            judged[metric] = judge_difference(answer, replace(rule, alpha=rule.alpha / len(answers)))
        except OptionError as error:
            raise OptionError(
                f"{metric}: ", *error.args, " One metric alone: ", OptionValue("score", metric), "."
            ) from None
    return MetricsGate(judged, rule.alpha)


def _margin(result: Difference, margin: float | str | None) -> float:
    """The margin in the unit of the difference."""
    if not isinstance(result, ScoreDifference):
        points = POINTS.amount(MARGIN if margin is None else margin, "margin")
        check_number("margin", points, least=0.0, most=2000.0)
        return points
    if margin is None and not result.shares:
        raise OptionError(
            "by how much may the new one be worse? Say it in the unit of the scores with ",
            OptionValue("margin", 0.1),
            ".",
        )
    return result.unit.amount(SHARE_MARGIN if margin is None else margin, "margin")


def _judge(result: Difference, margin: float, alpha: float, rule: GateRule) -> GateResult:
    """The verdict with an error rate that parts, and the whole where it has a verdict, share."""
    columns = {rule.by} if rule.pool_dimensions else {rule.by, DIMENSION}
    parts = [part for part in result.parts if part.column in columns]
    by_dimension = not rule.pool_dimensions and (
        bool(isinstance(result, RatingDifference) and result.dimensions) or any(p.column == DIMENSION for p in parts)
    )
    each = alpha / max(len(parts) + (not by_dimension), 1)
    judged = [_judge_part(part, result, margin, each, rule.missing) for part in parts]
    verdict: Decision
    if_ignored: Decision
    low = high = bound = doubt = None
    if by_dimension:
        dimensions = [(part, one) for part, one in zip(parts, judged, strict=True) if part.column == DIMENSION]
        verdict = all_together([one.verdict for _, one in dimensions])
        if_ignored = all_together([one.if_ignored for _, one in dimensions])
        contrasts, power = [part.contrast for part, _ in dimensions] or [None], POWER ** (1.0 / max(len(dimensions), 1))
    else:
        as_it_is = Cases.of(result.contrast, anytime=result.anytime)
        cases = cases_of(result.contrast, result.missing, rule.missing, anytime=result.anytime)
        verdict, bound = decide(cases, margin, each)
        if_ignored = decide(as_it_is, margin, each)[0]
        low, high = as_it_is.ends(1.0 - each)
        claims, _ = claims_of(cases, margin, each)
        doubt = result.doubt(above=claims[0] in PASSES if claims else None)
        contrasts, power = [result.contrast], POWER
    if result.obstacles:
        verdict = if_ignored = "unknown"
    if any(part.verdict == "worse" for part in judged):
        verdict = "worse"
    elif verdict in PASSES and any(part.may_be_worse for part in judged):
        verdict = "unknown"
    sizes = [None if one is None else times_needed(one, margin, each, power) for one in contrasts]
    known = [size for size in sizes if size is not None]
    return GateResult(
        verdict=verdict,
        difference=result,
        margin=margin,
        alpha=rule.alpha,
        anytime=result.anytime,
        level=1.0 - each,
        low=low,
        high=high,
        bound=bound,
        parts=tuple(judged),
        needed=None if result.obstacles or len(known) < len(sizes) else max(known),
        missing=rule.missing,
        if_ignored=if_ignored,
        by_dimension=by_dimension,
        doubt=doubt if verdict == "unknown" else None,
    )


def _judge_part(
    part: PartDifference, result: Difference, margin: float, alpha: float, rule: MissingRule
) -> PartVerdict:
    """The verdict on one value of a column, by the same rules as on the whole."""
    found, count = part.contrast, 0 if part.missing is None else len(part.missing)
    counts = count > 0 and rule == "worst"
    if found is None or result.obstacles or part.obstacles:
        reason = part.reason or "; ".join(part.obstacles) or None
        points = None if found is None else found.points
        return PartVerdict(part.column, part.value, "unknown", points, reason, count, counts)
    as_it_is = Cases.of(found, anytime=result.anytime)
    cases = cases_of(found, part.missing, rule, anytime=result.anytime)
    verdict, bound = decide(cases, margin, alpha)
    if_ignored = decide(as_it_is, margin, alpha)[0]
    low, high = as_it_is.ends(1.0 - alpha)
    may_be_worse = False
    if counts and verdict != "worse":
        against = cases.against and decide(Cases.of(cases.against, anytime=result.anytime), margin, alpha)[0]
        may_be_worse = if_ignored == "worse" or against in (None, "worse")
    return PartVerdict(
        part.column, part.value, verdict, found.points, None, count, may_be_worse, low, high, bound, if_ignored
    )


def all_together(verdicts: Sequence[Decision]) -> Decision:
    """One verdict of several that must all pass: any that is worse makes it worse, any unknown one unknown."""
    order: tuple[Decision, ...] = ("worse", "unknown", "not_worse", "better")
    return next((verdict for verdict in order if verdict in verdicts), "unknown")


def decide(cases: Cases, margin: float, alpha: float) -> tuple[Decision, float | None]:
    """The verdict on a difference, and the one-sided lower bound that is compared with the margin."""
    claims, bound = claims_of(cases, margin, alpha)
    doubt = cases.found.doubt
    believed = (claim for claim in claims if doubt(above=claim in PASSES, anytime=cases.anytime) is None)
    return next(believed, "unknown"), bound


def claims_of(cases: Cases, margin: float, alpha: float) -> tuple[list[Decision], float | None]:
    """The verdicts that an interval allows, the first of which decides if it is to be believed; and the lower bound."""
    low, high = cases.ends(1.0 - alpha)
    bound = cases.bound(-margin, 1.0 - 2.0 * alpha)
    claims: list[Decision] = []
    if low is not None and low > 0.0:
        claims.append("better")
    if bound is not None and bound > -margin:
        claims.append("not_worse")
    if high is not None and high < 0.0:
        claims.append("worse")
    return claims, bound


def times_needed(found: AnyContrast, margin: float, alpha: float, power: float = POWER) -> float | None:
    """How many times as much data lets equal models pass the margin with chance 0.8, or another one."""
    from scipy.special import ndtri

    if not found.known or margin <= 0.0 or found.error == 0.0:
        return None
    wanted = found.cut(1.0 - 2.0 * alpha) * found.error_at(-margin) + float(ndtri(power)) * found.error
    needed = (wanted / margin) ** 2
    return max(needed, found.fewest / found.units) if isinstance(found, ScoreEstimate) else needed

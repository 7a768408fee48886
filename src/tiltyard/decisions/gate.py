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

from tiltyard import decisions
from tiltyard.boards.estimator import check_number
from tiltyard.boards.preparation import DIMENSION
from tiltyard.decisions.contrast import AnyContrast, even_odds
from tiltyard.decisions.missing import WorstCase
from tiltyard.decisions.records import Difference, PartDifference
from tiltyard.decisions.units import POINTS
from tiltyard.errors import OptionError, OptionValue
from tiltyard.options import GateRule, MissingRule
from tiltyard.ratings.score_differences import ScoreEstimate
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
class GateResult(Result):
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
    def needed_prompts(self) -> int | None:
        """How many prompts let equal models pass with chance 0.8."""
        prompts = self.difference.n_prompts
        return None if prompts is None or self.needed is None else math.ceil(prompts * self.needed)

    @property
    def sentence(self) -> str:
        """The verdict in one sentence, for a pull request."""
        return decisions.gate_words.gate_sentence(self)

    def to_dict(self) -> dict[str, Any]:
        """The verdict as plain values, with the difference it is about."""
        lost = self.difference.missing
        missing = None if lost is None else lost.to_dict(self.level, self.missing, anytime=self.anytime)
        if missing is not None:
            missing["verdict_if_ignored"] = self.if_ignored
        return {
            **named(self, "verdict passed"),
            "verdict_if_picked": self.if_picked,
            **named(self, "by_dimension sentence margin"),
            "unit": self.difference.unit.name,
            "margin_win_rate": even_odds(-self.margin) if self.difference.scores is None else None,
            **named(self, "alpha anytime level low high bound"),
            "needed_times": self.needed,
            "needed_prompts": self.needed_prompts,
            "missing": missing,
            "doubt": self.doubt,
            "by": [{name: getattr(part, name) for name in PartVerdict.__struct_fields__} for part in self.parts],
            "comparison": self.difference.to_dict(),
        }

    def render(self, format: str = "table") -> str:
        """The verdict as `table`, `json`, `md` or `junit`."""
        return decisions.gate_words.render(self, format)


def judge_difference(result: Difference, rule: GateRule) -> GateResult:
    """The verdict on a difference.

    Where it is about several dimensions, each has its own verdict, in place of one on all together. With `by` every
    value of the column has one too. The error rate is shared: each is judged at α/(number of verdicts), and any that is
    worse makes the verdict worse. Of dimensions, all must pass: any that is unknown makes the verdict unknown.
    """
    _check_metrics([result])
    amount, alpha, by, pool_dimensions = _margin(result, rule.margin), rule.alpha, rule.by, rule.pool_dimensions
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
        return replace(_judge(result, parts, amount, shared, rule.missing, by_dimension=by_dimension), alpha=alpha)

    found = judged(alpha / result.picked_from)
    if not found.passed or result.best_of is None:
        return found
    return replace(found, if_picked=judged(alpha / result.best_of).verdict)


@dataclass(frozen=True, slots=True, eq=False)
class MetricsGate(Result):
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
        return decisions.gate_words.metrics_sentence(self)

    def to_dict(self) -> dict[str, Any]:
        """The verdicts as plain values."""
        metrics = {name: one.to_dict() for name, one in self.metrics.items()}
        return {**named(self, "verdict passed sentence alpha"), "metrics": metrics}

    def render(self, format: str = "table") -> str:
        """The verdicts as `table`, `json`, `md` or `junit`."""
        return decisions.gate_words.render(self, format)


def _check_metrics(answers: Sequence[Difference]) -> None:
    """Refuse one column out of several that nobody named, and metrics whose name alone says which way is better."""
    for facts in (one.scores for one in answers if one.scores is not None and one.scores.beside):
        raise OptionError(
            f"the gate would judge {facts.metric} alone, and {', '.join(facts.beside)} may be scores too. Name what it "
            "is to judge, as in ",
            OptionValue("score", [facts.metric]),
            " or ",
            OptionValue("score", [facts.metric, *facts.beside]),
            ".",
        )
    metrics = {one.scores.metric: one.scores.direction for one in answers if one.scores is not None}
    guessed = [metric for metric, direction in metrics.items() if direction == "name"]
    if guessed:
        said = [f"{metric}:lower" if metric in guessed else metric for metric in metrics]
        raise OptionError(
            f"of {' and '.join(guessed)} less seems better, by the name: say it with :lower or :higher, as in ",
            OptionValue("score", said),
            ".",
        )


def judge_metrics(answers: Mapping[str, Difference], rule: GateRule) -> MetricsGate:
    """The verdicts on several metrics, each judged at α/(number of metrics)."""
    _check_metrics(list(answers.values()))
    judged = {}
    for metric, one in answers.items():
        try:
            judged[metric] = judge_difference(one, replace(rule, alpha=rule.alpha / len(answers)))
        except OptionError as error:
            raise OptionError(
                f"{metric}: ", *error.args, " One metric alone: ", OptionValue("score", metric), "."
            ) from None
    return MetricsGate(judged, rule.alpha)


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
        doubt=result.doubt(above=claims[0] in PASSES if claims else None)
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

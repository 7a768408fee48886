"""What a difference of scores says besides: its unit, the two means, how much data, and prompts without a score."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from tiltyard.decisions.picked import picking
from tiltyard.decisions.prompts import PromptScore
from tiltyard.decisions.units import Unit
from tiltyard.options import MissingRule
from tiltyard.ratings.score_differences import MOST_SKEWED, MOST_SKEWED_ANYTIME, Doubt, ScoreEstimate
from tiltyard.scores.table import DirectionFrom

if TYPE_CHECKING:
    from tiltyard.decisions.gate import WorstCase
    from tiltyard.decisions.records import Difference


@dataclass(frozen=True, slots=True)
class Ratio:
    """How many times the old model's score that of the new one typically is: the geometric mean over prompts."""

    value: float
    low: float
    high: float


def doubt_words(doubt: Doubt, one: ScoreEstimate, counted: str, *, anytime: bool) -> str:
    """Why a difference is not to be believed, and how much more it takes, as a clause; `counted` are prompts or so."""
    units, allowed = one.units, MOST_SKEWED_ANYTIME if anytime else MOST_SKEWED
    if doubt == "skewed":
        skewness = abs(one.skewness) * math.sqrt(units)
        enough = math.ceil((skewness / allowed) ** 2)
        return (
            f"scores have no bounds, and these {units:,.0f} {counted} may not have shown all of a long tail (skewness "
            f"{skewness:.1f}, at most {allowed * math.sqrt(units):.1f}): it takes about {enough:,} {counted}"
        )
    worth = "" if units == int(units) else f", which are worth {units:,.1f} of one size"
    what = f"{one.fewest} {counted}" + ("" if one.bounded else " where scores have no bounds")
    return f"it takes {what}, {math.ceil(one.fewest - units)} more than there are{worth}"


def doubt_in(difference: Difference, above: bool | None) -> str | None:
    """Why a difference of scores may not be claimed to lie above (or below) a number; None where it may."""
    one, facts = difference.contrast, difference.scores
    if facts is None or not isinstance(one, ScoreEstimate):
        return None
    doubt = one.doubt(above=above, anytime=difference.anytime)
    return None if doubt is None else doubt_words(doubt, one, facts.counted, anytime=difference.anytime)


@dataclass(frozen=True, slots=True)
class ScoreFacts:
    """What is known only of scores.

    Parameters:
        unit: The unit of the difference.
        metric: The column, or the metric of a log.
        new_mean: Mean score of the new model on the compared prompts.
        old_mean: Mean score of the old one.
        shares: Whether every score is 0 or 1, so that means are shares.
        lower_is_better: Whether less is better; the difference is then how much lower the new one is.
        direction: What says so: the option, the log, the metric's name, or nothing (`default`).
        n_answers: Scored answers of both.
        repeats: The fewest and the most answers of a model to a prompt.
        n_prompts: Compared prompts; None where the source does not name prompts.
        counted: What the data are counted in: prompts, clusters, or answers of the smaller of two samples.
        ratio: The typical ratio of scores without bounds that are all positive; it decides nothing unless `log`.
        log: Whether scores are compared as logarithms, so that differences are those of logarithms.
        beside: Other columns that may hold scores, of which nothing was read.
    """

    unit: Unit
    metric: str
    new_mean: float
    old_mean: float
    shares: bool
    lower_is_better: bool
    direction: DirectionFrom
    n_answers: int
    repeats: tuple[int, int]
    n_prompts: int | None
    counted: str
    ratio: Ratio | None = None
    log: bool = False
    beside: tuple[str, ...] = ()

    @property
    def sample(self) -> str:
        """How much data: `200 prompts`, `200 prompts × 3 repeats`."""
        if self.n_prompts is None:
            return f"{self.n_answers:,} answers"
        text = f"{self.n_prompts:,} prompt{'s' if self.n_prompts != 1 else ''}"
        fewest, most = self.repeats
        if most <= 1:
            return text
        return f"{text} × {most} repeats" if fewest == most else f"{text}, {fewest} to {most} answers to each"

    def deciding_prompts(
        self, prompts: Sequence[PromptScore], new: str, old: str, n: int
    ) -> list[tuple[str, list[PromptScore]]]:
        """The prompts that decide it, at most `n` in a list, each list with its title; empty lists are left out."""
        sign = -1.0 if self.lower_is_better else 1.0
        gains = [(sign * (one.change or 0.0), one) for one in prompts]
        lost = sorted((pair for pair in gains if pair[0] < 0.0), key=lambda pair: (pair[0], pair[1].prompt))
        won = sorted((pair for pair in gains if pair[0] > 0.0), key=lambda pair: (-pair[0], pair[1].prompt))
        titled = {f"prompts where {new} lost most to {old}": lost, f"prompts where {new} gained most on {old}": won}
        return [(title, [one for _, one in some[:n]]) for title, some in titled.items() if some[:n]]

    def to_dict(self, difference: Difference) -> dict[str, Any]:
        """A difference of scores as plain values: what `--format json` prints."""
        missing = difference.missing
        return {
            "new": difference.new,
            "old": difference.old,
            "sentence": difference.sentence,
            "metric": self.metric,
            "unit": self.unit.name,
            "lower_is_better": self.lower_is_better,
            "direction": self.direction,
            "difference": difference.difference,
            "low": difference.low,
            "high": difference.high,
            "level": difference.level,
            "anytime": difference.anytime,
            "probability_better": difference.probability_better,
            "ratio": None if self.ratio is None else {name: getattr(self.ratio, name) for name in Ratio.__slots__},
            "scale": "log" if self.log else "linear",
            "obstacles": list(difference.obstacles),
            "new_mean": math.exp(self.new_mean) if self.log else self.new_mean,
            "old_mean": math.exp(self.old_mean) if self.log else self.old_mean,
            "n_prompts": self.n_prompts,
            "n_answers": self.n_answers,
            **picking(difference),
            "repeats": list(self.repeats),
            "clusters": list(difference.interval.get("clusters", ())),
            "interval": dict(difference.interval),
            "parts": [part.to_dict() for part in difference.parts],
            "prompts": [
                {"prompt": one.prompt, "new_score": one.new_score, "old_score": one.old_score, "change": one.change}
                for one in difference.prompts
            ],
            "left_out": dict(difference.left_out),
            "missing": None
            if missing is None
            else missing.to_dict(difference.level, missing.rule, anytime=difference.anytime),
            "remarks": list(difference.remarks),
        }


@dataclass(frozen=True, slots=True, eq=False)
class MissingScores:
    """Answers without a score, and prompts to which only one of two models has an answer; what they could change.

    Parameters:
        by_model: How many answers each of the two lacks.
        count: How many prompts, or answers, lack a score.
        total: Of how many.
        counted_in: `prompts`; or `answers`, where there are several to a prompt, or prompts are not known.
        worst: The difference with all of them as bad, or as good, for the new model as can be.
        rule: Whether the interval covers that (`worst`), or they are left out (`ignore`).
    """

    by_model: Mapping[str, int]
    count: int
    total: int
    counted_in: Literal["prompts", "answers"]
    worst: Callable[[], WorstCase] = field(repr=False)
    rule: MissingRule = "ignore"

    def __len__(self) -> int:
        return self.count

    @property
    def counted(self) -> str:
        """How many there are."""
        return f"{self.count:,} of {self.total:,} {self.counted_in} {'lacks' if self.count == 1 else 'lack'} a score"

    @property
    def sentence(self) -> str:
        """How many there are, by model."""
        who = ", ".join(f"{name} {count:,}" for name, count in self.by_model.items() if count)
        return f"{self.counted} ({who})"

    @property
    def done(self) -> str:
        """What was done with them, as the end of a sentence that counts them."""
        if self.rule == "worst":
            return ", and the interval holds whatever the scores would have been"
        return " and is left out" if self.count == 1 else " and are left out"

    @property
    def what(self) -> str:
        """What is missing, for a sentence."""
        return f"{self.counted_in} lack a score"

    @property
    def no_case(self) -> str:
        """What is said where they have no worst case."""
        return "they could make it anything, as the bounds of scores are not known"

    @property
    def advice(self) -> str:
        """What to do about them."""
        return "score them" if self.worst().against is not None else "score them, state the bounds (--bounds LOW,HIGH)"

    def cases(self, difference: Difference) -> str:
        """Both cases in words."""
        case, unit = self.worst(), difference.unit
        if case.against is None or case.in_favour is None:
            return self.no_case
        against, for_it = (
            f"{unit.named(unit.signed(one.points))} "
            f"({unit.between(*one.ends(difference.level, anytime=difference.anytime))})"
            for one in (case.against, case.in_favour)
        )
        return f"as bad as can be for {difference.new} they make it {against}, as good as can be {for_it}"

    def to_dict(self, level: float, rule: MissingRule, *, anytime: bool) -> dict[str, Any]:
        """Counts, the rule and the worst cases."""
        cases = self.worst().to_dict(level, anytime=anytime)
        plain = {name: getattr(self, name) for name in ("count", "total", "counted_in")}
        return {"by_model": dict(self.by_model), **plain, "rule": rule, "worst_case": cases}

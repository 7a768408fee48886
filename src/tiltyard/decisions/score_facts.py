"""What a difference of scores says besides: its unit, the two means, how much data, and prompts without a score."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tiltyard.decisions.prompts import PromptScore
from tiltyard.decisions.units import Unit
from tiltyard.options import MissingRule
from tiltyard.scores.table import DirectionFrom

if TYPE_CHECKING:
    from tiltyard.decisions.gate import WorstCase
    from tiltyard.decisions.records import Difference


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
            "new_mean": self.new_mean,
            "old_mean": self.old_mean,
            "n_prompts": self.n_prompts,
            "n_answers": self.n_answers,
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
    """Prompts on which only one of two models has a score, and what they could change.

    Parameters:
        by_model: How many prompts lack a score of each.
        prompts: Prompts on which at least one has a score.
        worst: The difference with all of them as bad, or as good, for the new model as can be.
        rule: Whether the interval covers that (`worst`), or they are left out (`ignore`).
    """

    by_model: Mapping[str, int]
    prompts: int
    worst: Callable[[], WorstCase] = field(repr=False)
    rule: MissingRule = "ignore"

    def __len__(self) -> int:
        return sum(self.by_model.values())

    @property
    def counted(self) -> str:
        """How many there are."""
        number = len(self)
        return f"{number:,} of {self.prompts:,} prompts {'lacks' if number == 1 else 'lack'} a score"

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
        return " and is left out" if len(self) == 1 else " and are left out"

    @property
    def what(self) -> str:
        """What is missing, for a sentence."""
        return "prompts lack a score"

    @property
    def advice(self) -> str:
        """What to do about them."""
        return "score them"

    def to_dict(self, level: float, rule: MissingRule, *, anytime: bool) -> dict[str, Any]:
        """Counts, the rule and, where it is `worst`, the worst cases."""
        cases = self.worst().to_dict(level, anytime=anytime) if rule == "worst" else None
        return {"by_model": dict(self.by_model), "prompts": self.prompts, "rule": rule, "worst_case": cases}

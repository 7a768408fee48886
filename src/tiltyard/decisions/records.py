"""The records of a comparison: estimates, parts, the difference of two models, and what moved between two runs.

How they read is in `words`, and what a gate says of them in `gate`: both stand above, and a record asks the room for
them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import msgspec

from tiltyard import decisions
from tiltyard.boards.leaderboard import whole
from tiltyard.boards.preparation import DIMENSION
from tiltyard.decisions.contrast import AnyContrast
from tiltyard.decisions.missing import Missing, ends_with_missing
from tiltyard.decisions.prompts import PromptScore
from tiltyard.decisions.units import POINTS, Unit
from tiltyard.errors import OptionError, OptionValue
from tiltyard.options import GateRule, accepts_options
from tiltyard.ratings.score_differences import MOST_SKEWED, MOST_SKEWED_ANYTIME, Doubt, ScoreEstimate
from tiltyard.scores.table import DirectionFrom
from tiltyard.types import Comparable, Result, named

if TYPE_CHECKING:
    from tiltyard.decisions import GateResult

SHOWN = 5
"""Prompts in each list of a text."""

Page = Callable[[Any], str]


@dataclass(frozen=True, slots=True)
class EstimatedDifference:
    """A difference in rating points, and the mean result that goes with it.

    Parameters:
        difference: Rating of the new model minus that of the old one.
        low: Lower end of the interval; None where nothing bounds it, or where there is no interval.
        high: Upper end of the interval.
        probability_better: How sure one can be that the new one is better: one minus the one-sided p-value.
        win_rate: Mean result of the new one against the old one: 1 won, 0 lost, a half for a tie; None for scores.
        win_rate_low: Lower end of its interval.
        win_rate_high: Upper end of its interval.
        n_battles: Battles, or prompts with scores, that it was estimated from.
    """

    difference: float
    low: float | None
    high: float | None
    probability_better: float | None
    win_rate: float | None
    win_rate_low: float | None
    win_rate_high: float | None
    n_battles: float

    def to_dict(self) -> dict[str, Any]:
        """The estimate as plain values."""
        return {**{name: getattr(self, name) for name in self.__slots__}, "n_battles": whole(self.n_battles)}


class HeadToHead(msgspec.Struct, frozen=True):
    """The battles in which the two met.

    Parameters:
        wins: Won by the new model.
        losses: Lost by it.
        ties: Tied.
        both_bad: Battles in which both were bad; they do not affect the ratings.
        estimate: What these battles alone say; None where they say nothing (all of them both bad).
        share: The mean result as counted, whatever sides and style did to it; None where nothing was rated.
    """

    wins: float
    losses: float
    ties: float
    both_bad: float
    estimate: EstimatedDifference | None
    share: float | None = None

    def unsure(self) -> HeadToHead:
        """The same, without how sure one can be of it."""
        estimate = None if self.estimate is None else replace(self.estimate, probability_better=None)
        return msgspec.structs.replace(self, estimate=estimate)

    @property
    def n_battles(self) -> float:
        """All of them, both-bad ones too."""
        return self.wins + self.losses + self.ties + self.both_bad

    def to_dict(self) -> dict[str, Any]:
        """The record as plain values."""
        counts = {name: whole(getattr(self, name)) for name in ("wins", "losses", "ties", "both_bad", "n_battles")}
        return {**({} if self.estimate is None else self.estimate.to_dict()), **counts, "share": self.share}


class PartDifference(msgspec.Struct, frozen=True):
    """The difference among the battles of one category or dimension.

    Its interval is wider than it would be alone, so that the intervals of all values of the column hold at once.

    Parameters:
        column: The column.
        value: Its value.
        estimate: The difference there; None where the battles do not allow one.
        contrast: The same in logits.
        reason: Why there is none.
        missing: Matchups without a verdict that may belong to it; None where there are none.
        means: The mean scores of both, where the difference is one of scores.
        obstacles: Why no gate may decide on it, whatever the interval says; usually none.
    """

    column: str
    value: str
    estimate: EstimatedDifference | None
    contrast: AnyContrast | None = None
    reason: str | None = None
    missing: Missing | None = None
    means: tuple[float, float] | None = None
    obstacles: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The part as plain values."""
        result = {} if self.estimate is None else self.estimate.to_dict()
        lost = 0 if self.missing is None else len(self.missing)
        return {"column": self.column, "value": self.value, **result, "reason": self.reason, "without_verdict": lost}


class OnlyFor(msgspec.Struct, frozen=True):
    """The prompts or voters for which alone an interval holds, as they are too few to represent others.

    Parameters:
        what: `prompt` or `voter`.
        count: How many there are.
    """

    what: str
    count: int

    def __str__(self) -> str:
        return f"this one {self.what}" if self.count == 1 else f"these {self.count} {self.what}s"

    @property
    def clause(self) -> str:
        """Why no gate decides on them."""
        return f"{self} cannot stand for others"


class Ratio(msgspec.Struct, frozen=True):
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


class ScoreFacts(msgspec.Struct, frozen=True):
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


class Comparison(Result):
    """What `compare` returns; it shows itself in a notebook."""

    __slots__ = ()

    def render(self, format: str = "table", prompts: int = SHOWN) -> str:
        """The answer as `table`, `json`, `md` or `html`, with so many prompts of each kind."""
        return decisions.words.render(self, format, prompts)

    def _repr_html_(self) -> str:
        return decisions.words.render(self, "html", SHOWN, paged=False)


@dataclass(frozen=True, slots=True, eq=False)
class Difference(Comparison):
    """How a new model differs from an old one, and how sure that is.

    Parameters:
        new: The model that stands first.
        old: The model it is compared with.
        estimate: The difference from all battles: those between the two, and those against other models.
        contrast: The same in logits, with what other levels and tests need.
        level: Confidence level of the intervals.
        interval: How the interval is computed: clusters, effective counts, degrees of freedom.
        direct: The battles between the two; None where they never met.
        parts: The difference in each dimension and category, where battles have them.
        prompts: How the two did on each prompt, where prompts are known.
        n_battles: Rated battles in which one of the two took part.
        n_prompts: Prompts of these battles; None where prompts are unknown.
        n_voters: Voters of these battles; None where voters are unknown.
        left_out: Battles that were not rated, by reason.
        remarks: Sentences a reader should not miss.
        anytime: Whether the intervals hold however often one looks while battles come in.
        then_and_now: Whether the two are one entrant in two runs.
        only_for: The few prompts or voters for which alone the interval holds; None: it holds for others too.
        obstacles: Why no gate may decide on these battles, whatever the interval says; usually none.
        missing: Matchups without a verdict; None where there are none, or where the battles come from no run folder.
        first_side: What being shown first is worth in points, where it was fitted; the difference is without it.
        scores: What is known only of scores: their unit and means; None where the difference is one of ratings.
        dimensions: The dimensions whose battles are taken together, where there are several.
        picked_from: Of how many candidates the new one was picked as the best, so that `level` is higher.
        best_of: How many candidates are here, where the new one has the best estimate of several; else None.
        page: What makes a page of it, with the prompts behind it; None: HTML is a short piece for notebooks.
    """

    new: str
    old: str
    estimate: EstimatedDifference
    contrast: AnyContrast
    level: float
    interval: Mapping[str, Any]
    direct: HeadToHead | None = None
    parts: tuple[PartDifference, ...] = ()
    prompts: tuple[PromptScore, ...] = ()
    n_battles: float = 0
    n_prompts: int | None = None
    n_voters: int | None = None
    left_out: Mapping[str, float] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    anytime: bool = False
    then_and_now: bool = False
    only_for: OnlyFor | None = None
    obstacles: tuple[str, ...] = ()
    missing: Missing | None = None
    first_side: float | None = None
    scores: ScoreFacts | None = None
    dimensions: tuple[str, ...] = ()
    picked_from: int = 1
    best_of: int | None = None
    page: Page | None = field(default=None, compare=False, repr=False)

    @property
    def unit(self) -> Unit:
        """The unit of the difference: rating points, percentage points, or that of the scores."""
        return POINTS if self.scores is None else self.scores.unit

    @property
    def difference(self) -> float:
        """Rating of the new model minus that of the old one."""
        return self.estimate.difference

    @property
    def low(self) -> float | None:
        """Lower end of the interval; None where nothing bounds it, or where there is none."""
        return self.estimate.low

    @property
    def high(self) -> float | None:
        """Upper end of the interval."""
        return self.estimate.high

    @property
    def probability_better(self) -> float | None:
        """How sure one can be that the new one is better: one minus the one-sided p-value of the clustered t."""
        return self.estimate.probability_better

    @property
    def ends_if_picked(self) -> tuple[float | None, float | None]:
        """The ends of the interval if the new model was picked as the best of those that are here."""
        level = 1.0 - (1.0 - self.level) / (self.best_of or 1)
        return ends_with_missing(self.contrast, self.missing, level, anytime=self.anytime)

    def doubt(self, *, above: bool | None) -> str | None:
        """Why it may not be claimed to lie above (or below) a number; None where it may."""
        if self.scores is None or not isinstance(self.contrast, ScoreEstimate):
            return None
        doubt = self.contrast.doubt(above=above, anytime=self.anytime)
        return None if doubt is None else doubt_words(doubt, self.contrast, self.scores.counted, anytime=self.anytime)

    @property
    def few_for_others(self) -> tuple[str, ...]:
        """The obstacles that an answer for these prompts or voters alone has named already."""
        counts = {"prompt": self.n_prompts, "voter": self.n_voters}
        return tuple(OnlyFor(what, count).clause for what, count in counts.items() if count)

    @property
    def sentence(self) -> str:
        """The answer in one sentence."""
        return decisions.words.sentence(self)

    @accepts_options(GateRule)
    def gate(self, options: GateRule) -> GateResult:
        """Whether the new model is better, not worse than a margin, worse, or none of these for sure."""
        return decisions.gate.judge_difference(self, options)

    def to_dict(self) -> dict[str, Any]:
        """The difference as plain values: what `--format json` prints."""
        if self.scores is not None:
            return self._score_values(self.scores)
        estimate, missing = self.estimate, self.missing
        return {
            **named(self, "new old sentence difference"),
            "unit": self.unit.name,
            **named(self, "low high level anytime probability_better"),
            **named(estimate, "win_rate win_rate_low win_rate_high"),
            "n_battles": whole(self.n_battles),
            **named(self, "n_prompts n_voters"),
            "dimensions": list(self.dimensions),
            **self._picking(),
            "clusters": list(self.interval.get("clusters", ())),
            "interval": dict(self.interval),
            "only_for": None if self.only_for is None else str(self.only_for),
            "obstacles": list(self.obstacles),
            "first_side": self.first_side,
            "direct": None if self.direct is None else self.direct.to_dict(),
            "field": estimate.to_dict(),
            "parts": [part.to_dict() for part in self.parts],
            "prompts": [prompt.to_dict() for prompt in self.prompts],
            "left_out": {reason: whole(count) for reason, count in self.left_out.items()},
            "missing": None if missing is None else missing.to_dict(self.level, missing.rule, anytime=self.anytime),
            "remarks": list(self.remarks),
        }

    def _picking(self) -> dict[str, Any]:
        """Of how many the new model was picked, and of how many it is the best and whether it then is still better."""
        low = None if self.best_of is None else self.ends_if_picked[0]
        holds = None if self.best_of is None else low is not None and low > 0.0
        return {"picked_from": self.picked_from, "best_of": self.best_of, "better_if_picked": holds}

    def _score_values(self, facts: ScoreFacts) -> dict[str, Any]:
        """A difference of scores as plain values."""
        missing = self.missing
        return {
            **named(self, "new old sentence"),
            "metric": facts.metric,
            "unit": facts.unit.name,
            **named(facts, "lower_is_better direction"),
            **named(self, "difference low high level anytime probability_better"),
            "ratio": None if facts.ratio is None else named(facts.ratio, "value low high"),
            "scale": "log" if facts.log else "linear",
            "obstacles": list(self.obstacles),
            "new_mean": math.exp(facts.new_mean) if facts.log else facts.new_mean,
            "old_mean": math.exp(facts.old_mean) if facts.log else facts.old_mean,
            **named(facts, "n_prompts n_answers"),
            **self._picking(),
            "repeats": list(facts.repeats),
            "clusters": list(self.interval.get("clusters", ())),
            "interval": dict(self.interval),
            "parts": [part.to_dict() for part in self.parts],
            "prompts": [named(one, "prompt new_score old_score change") for one in self.prompts],
            "left_out": dict(self.left_out),
            "missing": None if missing is None else missing.to_dict(self.level, missing.rule, anytime=self.anytime),
            "remarks": list(self.remarks),
        }


@dataclass(frozen=True, slots=True, eq=False)
class MetricsComparison(Comparison):
    """How a new model differs from an old one by several metrics.

    Parameters:
        metrics: The difference by each metric.
        page: What makes a page of them; None: there is none.
    """

    metrics: Mapping[str, Difference]
    page: Page | None = field(default=None, compare=False, repr=False)

    @property
    def sentence(self) -> str:
        """The answers, one after the other."""
        return " ".join(one.sentence for one in self.metrics.values())

    def to_dict(self) -> dict[str, Any]:
        """The differences as plain values."""
        return {"metrics": [one.to_dict() for one in self.metrics.values()]}


def covering(
    estimate: EstimatedDifference | None,
    one: AnyContrast | None,
    lost: Missing | None,
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


def with_missing(result: Difference, whole: Missing, of_part: Callable[[str, str], Missing | None]) -> Difference:
    """The difference with its matchups without a verdict, on the whole and in each part.

    A dimension or category that has such matchups and no battle is a part of its own, of which nothing can be told.
    """
    parts = []
    for part in result.parts:
        lost, values = of_part(part.column, part.value), sum(one.column == part.column for one in result.parts)
        level = 1.0 - (1.0 - result.level) / values
        estimate = covering(part.estimate, part.contrast, lost, level, anytime=result.anytime)
        parts.append(msgspec.structs.replace(part, estimate=estimate, missing=lost))
    for column in dict.fromkeys(part.column for part in result.parts):
        shown = {part.value for part in result.parts if part.column == column}
        lost_at = (
            m.dimension if column == DIMENSION else m.columns.get(column)
            for m in (whole.verdicts.matchups if whole.verdicts else ())
        )
        for value in sorted({value for value in lost_at if value is not None} - shown):
            unseen = msgspec.structs.replace(result.parts[0], column=column, value=value, estimate=None, contrast=None)
            why = "no battle: no matchup has a verdict"
            parts.append(msgspec.structs.replace(unseen, reason=why, missing=of_part(column, value)))
    estimate = covering(result.estimate, result.contrast, whole, result.level, anytime=result.anytime)
    assert estimate is not None
    return replace(result, estimate=estimate, parts=tuple(parts), missing=whole)


ABOUT_ONE = (
    *("difference", "low", "high", "probability_better", "win_rate", "win_rate_low", "win_rate_high"),
    *("n_battles", "n_voters", "clusters"),
)
"""What JSON says at the top of the entrant that a comparison is about; null where there is no such one."""


@dataclass(frozen=True, slots=True, eq=False)
class EntrantChange(Comparable):
    """One entrant then and now.

    Parameters:
        entrant: The entrant.
        rating_new: Its rating in the new run.
        rating_old: Its rating in the old run, on the same scale.
        rank_new: Its place among the shared entrants now.
        rank_old: Its place then.
        answers_changed: Whether its answers differ between the runs; None where that is not known.
        beyond_noise: Whether it moved by more than chance explains, all entrants looked at together.
        difference: The change with its interval and everything else, as of two models.
    """

    entrant: str
    rating_new: float
    rating_old: float
    rank_new: int
    rank_old: int
    answers_changed: bool | None
    beyond_noise: bool
    difference: Difference

    def to_dict(self) -> dict[str, Any]:
        """The change as plain values."""
        own = named(self, "entrant rating_new rating_old rank_new rank_old answers_changed beyond_noise")
        return {**own, **self.difference.to_dict()}


@dataclass(frozen=True, slots=True, eq=False)
class RunComparison(Comparison):
    """Two runs, and what moved between them.

    Parameters:
        new: The newer run's name.
        old: The older run's name.
        changes: Every entrant that both runs have, best first.
        zero: The entrants that changes are measured from: those with the same answers in both runs, or all.
        n_prompts: Prompts that both runs have; None where prompts are unknown.
        level: Confidence level.
        notes: How the runs differ besides: judge, rubrics, bank, entrants, prompts.
        page: What makes a page of it; None: HTML is a short piece for notebooks.
    """

    new: str
    old: str
    changes: tuple[EntrantChange, ...]
    zero: tuple[str, ...]
    n_prompts: int | None
    level: float
    notes: tuple[str, ...]
    page: Page | None = field(default=None, compare=False, repr=False)

    def __getitem__(self, entrant: str) -> Difference:
        for change in self.changes:
            if change.entrant == entrant:
                return change.difference
        raise KeyError(entrant)

    @property
    def changed(self) -> list[EntrantChange]:
        """The entrants whose answers are known to differ."""
        return [change for change in self.changes if change.answers_changed]

    @property
    def subject(self) -> Difference:
        """The entrant that the comparison is about: the only one with new answers; an error where there are more."""
        if len(self.changed) == 1:
            return self.changed[0].difference
        which = [change.entrant for change in self.changed] or [change.entrant for change in self.changes]
        raise OptionError("which entrant is meant? Say it with ", OptionValue("model"), f": one of {', '.join(which)}.")

    @property
    def sentence(self) -> str:
        """What moved, in one sentence."""
        return decisions.words.run_sentence(self)

    def to_dict(self) -> dict[str, Any]:
        """The comparison as plain values: what `--format json` prints.

        Where one entrant alone has new answers, its change stands at the top; every entrant's is under `changes`.
        """
        about = self.changed[0].difference.to_dict() if len(self.changed) == 1 else dict.fromkeys(ABOUT_ONE)
        return {
            **about,
            "new": self.new,
            "old": self.old,
            "entrant": self.changed[0].entrant if len(self.changed) == 1 else None,
            "sentence": self.sentence,
            "level": self.level,
            "n_prompts": self.n_prompts,
            "measured_from": list(self.zero),
            "notes": list(self.notes),
            "changes": [change.to_dict() for change in self.changes],
        }

"""The answer of a comparison: a difference of ratings or of scores, with one face, and what moved between two runs.

How answers read is in `render`, and what a gate says of them in `gate`: both stand above, and a record that is printed
asks the room for its words.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

import msgspec
import numpy as np

from tiltyard.analysis import decisions
from tiltyard.analysis.boards import DIMENSION, check_level, whole
from tiltyard.analysis.decisions.contrast import AnyContrast
from tiltyard.analysis.decisions.missing import Cases, Ends, Missing, cases_of, missing_in_part, part_of, worst_case
from tiltyard.analysis.decisions.units import POINTS, Unit
from tiltyard.data.battles import BattleTable, MissingVerdicts, together
from tiltyard.data.scores import DirectionFrom
from tiltyard.errors import OptionError, OptionValue
from tiltyard.options import CompareOptions, GateRule, MissingRule, accepts_options
from tiltyard.stats import MOST_SKEWED, MOST_SKEWED_ANYTIME, ScoreEstimate
from tiltyard.types import Comparable, Floats, Result, named

if TYPE_CHECKING:
    from tiltyard.analysis.decisions import GateResult

SHOWN = 5
"""Prompts in each list of a text."""
LEVEL = 0.95
MANY_VALUES = 40
"""A column with more values than this is not taken apart unless it is named: the intervals of so many say nothing."""

Page = Callable[[Any], str]
Side = Literal["better", "worse", "unclear"]


def side(low: float | None, high: float | None) -> Side:
    """What an interval says: wholly above zero, wholly below, or neither."""
    if low is not None and low > 0.0:
        return "better"
    return "worse" if high is not None and high < 0.0 else "unclear"


def shared_level(level: float, count: int) -> float:
    """The level at which so many intervals hold at once (Bonferroni)."""
    return 1.0 - (1.0 - level) / count


class EstimatedDifference(msgspec.Struct, frozen=True):
    """A difference in rating points or in the unit of scores, and the mean result that goes with it.

    Parameters:
        difference: That of the new model minus that of the old one.
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

    def covering(self, cases: Cases, level: float) -> Self:
        """The same with an interval that holds in all cases."""
        low, high = cases.ends(level)
        return msgspec.structs.replace(self, low=low, high=high, probability_better=cases.probability_better)

    def to_dict(self) -> dict[str, Any]:
        return {**msgspec.structs.asdict(self), "n_battles": whole(self.n_battles)}


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

    @property
    def n_battles(self) -> float:
        """All of them, both-bad ones too."""
        return self.wins + self.losses + self.ties + self.both_bad

    def to_dict(self) -> dict[str, Any]:
        counts = {name: whole(value) for name, value in named(self, "wins losses ties both_bad n_battles").items()}
        return {**({} if self.estimate is None else self.estimate.to_dict()), **counts, "share": self.share}


class PromptScore(msgspec.Struct, frozen=True):
    """How two models fared on one prompt.

    Parameters:
        prompt: The prompt's id.
        new_score: The new one's mean score, or mean result against everybody (1 won, 0 lost); None: no battle.
        old_score: The same of the old one.
        wins: Battles between the two that the new one won.
        losses: Battles between the two that the new one lost.
        ties: Battles between the two that were tied.
        both_bad: Battles between the two in which both were bad.
        text: The prompt's text, where it is known.
    """

    prompt: str
    new_score: float | None
    old_score: float | None
    wins: float = 0.0
    losses: float = 0.0
    ties: float = 0.0
    both_bad: float = 0.0
    text: str | None = None

    @property
    def net(self) -> float:
        """Wins minus losses between the two."""
        return self.wins - self.losses

    @property
    def change(self) -> float | None:
        """By how much the new one's mean result is above the old one's; None where one of them has no battle."""
        return None if self.new_score is None or self.old_score is None else self.new_score - self.old_score

    def to_dict(self) -> dict[str, Any]:
        counts = {name: whole(value) for name, value in named(self, "wins losses ties both_bad").items()}
        text = {} if self.text is None else {"text": self.text}
        return {"prompt": self.prompt, **counts, **named(self, "new_score old_score change"), **text}


class PartDifference(msgspec.Struct, frozen=True):
    """The difference among the battles, or the prompts, of one category or dimension.

    Its interval is wider than it would be alone, so that the intervals of all values of the column hold at once.

    Parameters:
        column: The column.
        value: Its value.
        estimate: The difference there; None where the battles do not allow one.
        contrast: The same in logits, or in the unit of scores.
        reason: Why there is none.
        missing: Matchups without a verdict that may belong to it; None where there are none.
        means: The mean scores of both, where the difference is one of scores.
        obstacles: Why no gate may decide on it, whatever the interval says; usually none.
    """

    column: str
    value: str
    estimate: EstimatedDifference | None = None
    contrast: AnyContrast | None = None
    reason: str | None = None
    missing: Missing | None = None
    means: tuple[float, float] | None = None
    obstacles: tuple[str, ...] = ()

    def with_missing(self, missing: Missing | None, level: float, *, anytime: bool) -> Self:
        """The same with what was not decided, and an interval that covers it where the rule is that."""
        estimate = self.estimate
        if estimate is not None and self.contrast is not None and missing is not None and missing.rule == "worst":
            estimate = estimate.covering(cases_of(self.contrast, missing, anytime=anytime), level)
        return msgspec.structs.replace(self, estimate=estimate, missing=missing)

    def to_dict(self) -> dict[str, Any]:
        estimate = {} if self.estimate is None else self.estimate.to_dict()
        lost = 0 if self.missing is None else len(self.missing)
        return {**named(self, "column value"), **estimate, "reason": self.reason, "without_verdict": lost}


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


class Comparison(Result):
    """What `compare` returns; it shows itself in a notebook."""

    __slots__ = ()

    @property
    def sentence(self) -> str:
        """The answer in one sentence."""
        return decisions.render.sentence(self)

    def render(self, format: str = "table", prompts: int = SHOWN) -> str:
        """The answer as `table`, `json`, `md` or `html`, with so many prompts of each kind."""
        return decisions.render.comparison(self, format, prompts)

    def _repr_html_(self) -> str:
        return decisions.render.comparison(self, "html", SHOWN, paged=False)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Difference(Comparison):
    """How a new model differs from an old one, and how sure that is: by ratings or by scores.

    Parameters:
        new: The model that stands first.
        old: The model it is compared with.
        estimate: The difference, with its interval.
        contrast: The same in logits, or in the unit of scores, with what other levels and tests need.
        level: Confidence level of the intervals.
        interval: How the interval is computed: clusters, effective counts, degrees of freedom.
        parts: The difference in each dimension and category, where there are any.
        prompts: How the two did on each prompt, where prompts are known.
        n_prompts: Prompts behind it; None where prompts are unknown.
        left_out: Battles or answers that were not counted, by reason.
        remarks: Sentences a reader should not miss.
        anytime: Whether the intervals hold however often one looks while battles come in.
        obstacles: Why no gate may decide on these data, whatever the interval says; usually none.
        missing: What was not decided: matchups without a verdict, answers without a score; None where nothing is known.
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
    parts: tuple[PartDifference, ...] = ()
    prompts: tuple[PromptScore, ...] = ()
    n_prompts: int | None = None
    left_out: Mapping[str, float] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    anytime: bool = False
    obstacles: tuple[str, ...] = ()
    missing: Missing | None = None
    picked_from: int = 1
    best_of: int | None = None
    page: Page | None = field(default=None, compare=False, repr=False)

    @property
    def unit(self) -> Unit:
        """The unit of the difference: rating points, percentage points, or that of the scores."""
        return POINTS

    @property
    def difference(self) -> float:
        """That of the new model minus that of the old one."""
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
    def cases(self) -> Cases:
        """The difference with its worst cases, where its interval is to cover them."""
        return cases_of(self.contrast, self.missing, anytime=self.anytime)

    @property
    def ends_if_picked(self) -> Ends:
        """The ends of the interval if the new model was picked as the best of those that are here."""
        return self.cases.ends(shared_level(self.level, self.best_of or 1))

    def doubt(self, *, above: bool | None = None) -> str | None:  # noqa: ARG002
        """Why it may not be claimed to lie above (or below) a number; None where it may."""
        return None

    @accepts_options(GateRule)
    def gate(self, options: GateRule) -> GateResult:
        """Whether the new model is better, not worse than a margin, worse, or none of these for sure."""
        return decisions.judge_difference(self, options)

    def _if_picked(self) -> dict[str, Any]:
        """What JSON says of picking: of how many, of how many it is the best, and whether it then is still better."""
        low = None if self.best_of is None else self.ends_if_picked[0]
        holds = None if self.best_of is None else low is not None and low > 0.0
        return {**named(self, "picked_from best_of"), "better_if_picked": holds}

    def _basis(self) -> dict[str, Any]:
        """What stands at the end of the JSON of any difference."""
        lost = self.missing
        return {
            "left_out": {reason: whole(count) for reason, count in self.left_out.items()},
            "missing": None if lost is None else lost.to_dict(self.level, lost.rule, anytime=self.anytime),
            "remarks": list(self.remarks),
        }


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class RatingDifference(Difference):
    """A difference of ratings in points: from battles between the two, and those against other models.

    Parameters:
        direct: The battles between the two; None where they never met.
        n_battles: Rated battles in which one of the two took part.
        n_voters: Voters of these battles; None where voters are unknown.
        dimensions: The dimensions whose battles are taken together, where there are several.
        then_and_now: Whether the two are one entrant in two runs.
        only_for: The few prompts or voters for which alone the interval holds; None: it holds for others too.
        first_side: What being shown first is worth in points, where it was fitted; the difference is without it.
    """

    direct: HeadToHead | None = None
    n_battles: float = 0
    n_voters: int | None = None
    dimensions: tuple[str, ...] = ()
    then_and_now: bool = False
    only_for: OnlyFor | None = None
    first_side: float | None = None

    @property
    def met(self) -> float:
        """Rated battles between the two."""
        return 0.0 if self.direct is None else self.direct.n_battles - self.direct.both_bad

    def to_dict(self) -> dict[str, Any]:
        return {
            **named(self, "new old sentence difference"),
            "unit": self.unit.name,
            **named(self, "low high level anytime probability_better"),
            **named(self.estimate, "win_rate win_rate_low win_rate_high"),
            "n_battles": whole(self.n_battles),
            **named(self, "n_prompts n_voters"),
            "dimensions": list(self.dimensions),
            **self._if_picked(),
            "clusters": list(self.interval.get("clusters", ())),
            "interval": dict(self.interval),
            "only_for": None if self.only_for is None else str(self.only_for),
            "obstacles": list(self.obstacles),
            "first_side": self.first_side,
            "direct": None if self.direct is None else self.direct.to_dict(),
            "field": self.estimate.to_dict(),
            "parts": [part.to_dict() for part in self.parts],
            "prompts": [prompt.to_dict() for prompt in self.prompts],
            **self._basis(),
        }


class Ratio(msgspec.Struct, frozen=True):
    """How many times the old model's score that of the new one typically is: the geometric mean over prompts."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ScoreDifference(Difference):
    """A difference of mean scores, in their own unit.

    Parameters:
        score_unit: The unit of the difference.
        metric: The column, or the metric of a log.
        new_mean: Mean score of the new model on the compared prompts.
        old_mean: Mean score of the old one.
        shares: Whether every score is 0 or 1, so that means are shares.
        lower_is_better: Whether less is better; the difference is then how much lower the new one is.
        direction: What says so: the option, the log, the metric's name, or nothing (`default`).
        n_answers: Scored answers of both.
        repeats: The fewest and the most answers of a model to a prompt.
        counted: What the data are counted in: prompts, clusters, or answers of the smaller of two samples.
        ratio: The typical ratio of scores without bounds that are all positive; it decides nothing unless `log`.
        log: Whether scores are compared as logarithms, so that differences are those of logarithms.
        beside: Other columns that may hold scores, of which nothing was read.
    """

    score_unit: Unit
    metric: str
    new_mean: float
    old_mean: float
    shares: bool
    lower_is_better: bool
    direction: DirectionFrom
    n_answers: int
    repeats: tuple[int, int]
    counted: str
    ratio: Ratio | None = None
    log: bool = False
    beside: tuple[str, ...] = ()

    @property
    def unit(self) -> Unit:
        """The unit of the scores, or percentage points of shares."""
        return self.score_unit

    def doubt(self, *, above: bool | None = None) -> str | None:
        """Why it may not be claimed to lie above (or below) a number, and how much more that takes; None: it may."""
        found, counted = self.contrast, self.counted
        assert isinstance(found, ScoreEstimate)
        doubt, units = found.doubt(above=above, anytime=self.anytime), found.units
        if doubt is None:
            return None
        if doubt == "skewed":
            allowed = MOST_SKEWED_ANYTIME if self.anytime else MOST_SKEWED
            skewness = abs(found.skewness) * math.sqrt(units)
            return (
                f"scores have no bounds, and these {units:,.0f} {counted} may not have shown all of a long tail "
                f"(skewness {skewness:.1f}, at most {allowed * math.sqrt(units):.1f}): it takes about "
                f"{math.ceil((skewness / allowed) ** 2):,} {counted}"
            )
        worth = "" if units == int(units) else f", which are worth {units:,.1f} of one size"
        needed = f"{found.fewest} {counted}" + ("" if found.bounded else " where scores have no bounds")
        return f"it takes {needed}, {math.ceil(found.fewest - units)} more than there are{worth}"

    def to_dict(self) -> dict[str, Any]:
        return {
            **named(self, "new old sentence metric"),
            "unit": self.unit.name,
            **named(self, "lower_is_better direction difference low high level anytime probability_better"),
            "ratio": None if self.ratio is None else msgspec.structs.asdict(self.ratio),
            "scale": "log" if self.log else "linear",
            "obstacles": list(self.obstacles),
            "new_mean": math.exp(self.new_mean) if self.log else self.new_mean,
            "old_mean": math.exp(self.old_mean) if self.log else self.old_mean,
            **named(self, "n_prompts n_answers"),
            **self._if_picked(),
            "repeats": list(self.repeats),
            "clusters": list(self.interval.get("clusters", ())),
            "interval": dict(self.interval),
            "parts": [part.to_dict() for part in self.parts],
            "prompts": [named(prompt, "prompt new_score old_score change") for prompt in self.prompts],
            **self._basis(),
        }


@dataclass(frozen=True, slots=True, eq=False)
class MetricsComparison(Comparison):
    """How a new model differs from an old one by several metrics.

    Parameters:
        metrics: The difference by each metric.
        page: What makes a page of them; None: there is none.
    """

    metrics: Mapping[str, ScoreDifference]
    page: Page | None = field(default=None, compare=False, repr=False)

    def to_dict(self) -> dict[str, Any]:
        return {"metrics": [answer.to_dict() for answer in self.metrics.values()]}


SINGLE_ENTRANT_FIELDS = (
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
    difference: RatingDifference

    def to_dict(self) -> dict[str, Any]:
        change = named(self, "entrant rating_new rating_old rank_new rank_old answers_changed beyond_noise")
        return {**change, **self.difference.to_dict()}


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

    def __getitem__(self, entrant: str) -> RatingDifference:
        for change in self.changes:
            if change.entrant == entrant:
                return change.difference
        raise KeyError(entrant)

    @property
    def changed(self) -> list[EntrantChange]:
        """The entrants whose answers are known to differ."""
        return [change for change in self.changes if change.answers_changed]

    @property
    def subject(self) -> RatingDifference:
        """The entrant that the comparison is about: the only one with new answers; an error where there are more."""
        if len(self.changed) == 1:
            return self.changed[0].difference
        names = ", ".join(change.entrant for change in self.changed or self.changes)
        raise OptionError("which entrant is meant? Say it with ", OptionValue("model"), f": one of {names}.")

    def to_dict(self) -> dict[str, Any]:
        """The comparison as plain values: what `--format json` prints.

        Where one entrant alone has new answers, its change stands at the top; every entrant's is under `changes`.
        """
        subject = self.changed[0] if len(self.changed) == 1 else None
        return {
            **(dict.fromkeys(SINGLE_ENTRANT_FIELDS) if subject is None else subject.difference.to_dict()),
            **named(self, "new old"),
            "entrant": None if subject is None else subject.entrant,
            **named(self, "sentence level n_prompts"),
            "measured_from": list(self.zero),
            "notes": list(self.notes),
            "changes": [change.to_dict() for change in self.changes],
        }


def with_missing(
    result: RatingDifference,
    tables: Sequence[BattleTable],
    lost: Sequence[MissingVerdicts],
    fit: Callable[[Sequence[BattleTable], Sequence[MissingVerdicts], bool], AnyContrast],
    by_name: Callable[[Sequence[MissingVerdicts]], Mapping[str, int]],
    rule: MissingRule,
) -> RatingDifference:
    """The difference with its matchups without a verdict, on the whole and in each part: those of each table.

    `fit` decides all of some against the new model, or for it. A dimension or category that has such matchups and no
    battle is a part of its own, of which nothing can be told.
    """

    def missing_in(battles: Sequence[BattleTable], some: Sequence[MissingVerdicts]) -> Missing:
        every = together(some)
        worst = worst_case(partial(fit, battles, some))
        return Missing(by_name(some), len(every), every.total, rule, "matchups", worst, every)

    def in_part(column: str, value: str) -> Missing | None:
        some = [missing_in_part(one, table, column, value) for one, table in zip(lost, tables, strict=True)]
        return missing_in([part_of(table, column, value) for table in tables], some) if any(some) else None

    matchups = [matchup for some in lost for matchup in some.matchups]
    parts: list[PartDifference] = []
    values: dict[str, set[str]] = {}
    for part in result.parts:
        values.setdefault(part.column, set()).add(part.value)
    for part in result.parts:
        level = shared_level(result.level, len(values[part.column]))
        parts.append(part.with_missing(in_part(part.column, part.value), level, anytime=result.anytime))
    for column, known in values.items():
        of_matchups = (m.dimension if column == DIMENSION else m.columns.get(column) for m in matchups)
        for value in sorted({value for value in of_matchups if value is not None} - known):
            why = "no battle: no matchup has a verdict"
            parts.append(PartDifference(column, value, reason=why, missing=in_part(column, value)))
    result = replace(result, parts=tuple(parts), missing=missing_in(tables, lost))
    if rule == "ignore":
        return result
    return replace(result, estimate=result.estimate.covering(result.cases, result.level))


# The new model as the best of several: the best of K equal candidates is better than an old model in nearly K times as
# many cases as any one of them. So what is claimed of it is decided by α/K. Nobody but the user knows why a model was
# picked; where it is the best of several in the same data, both answers are given.


def level_for(options: CompareOptions) -> float:
    """The level of an interval that holds for the best of so many candidates."""
    level = LEVEL if options.level is None else options.level
    check_level(level)
    return shared_level(level, options.picked_from or 1)


def candidates(estimates: Floats, new: int, old: int | None) -> int | None:
    """Among how many models, the old one left out, the new one has the best estimate; None where it is not the best."""
    others = np.delete(estimates, [place for place in (new, old) if place is not None])
    others = others[~np.isnan(others)]
    return 1 + len(others) if len(others) and bool((estimates[new] >= others).all()) else None


AnyDifference = TypeVar("AnyDifference", bound=Difference)


def for_picked(result: AnyDifference, picked_from: int | None) -> AnyDifference:
    """The difference, whose intervals have the level for the best of so many, with the certainty for it."""
    if picked_from is None or picked_from == 1:
        return result

    def shared(record: Any) -> Any:
        """A record with an estimate whose certainty is that for the best of so many."""
        estimate = record and record.estimate
        if estimate is None or estimate.probability_better is None:
            return record
        chance = estimate.probability_better
        doubt = min(0.5, picked_from * min(chance, 1.0 - chance))
        sure = msgspec.structs.replace(estimate, probability_better=doubt if chance < 0.5 else 1.0 - doubt)
        return (msgspec.structs.replace if isinstance(record, msgspec.Struct) else replace)(record, estimate=sure)

    result = replace(shared(result), parts=tuple(map(shared, result.parts)), picked_from=picked_from, best_of=None)
    return replace(result, direct=shared(result.direct)) if isinstance(result, RatingDifference) else result

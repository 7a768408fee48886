"""Two models by their scores: the difference of means in the unit of the scores.

The arithmetic is in `ratings.score_differences`. Only prompts count on which both have a score; how many were left out,
and whose score they lack, is said.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tiltyard.boards.estimator import check_level
from tiltyard.boards.text import percent
from tiltyard.decisions.gate import covering, worst_case
from tiltyard.decisions.prompts import PromptScore
from tiltyard.decisions.records import Difference, EstimatedDifference, PartDifference
from tiltyard.decisions.score_facts import MissingScores, ScoreFacts
from tiltyard.decisions.units import SHARES, Unit, unit_of_scores
from tiltyard.errors import Message, OptionError, OptionValue, ScoreError
from tiltyard.options import DifferenceOptions, MissingRule, Options, options_of
from tiltyard.ratings.score_differences import (
    RepeatNoise,
    ScoreEstimate,
    repeat_noise,
    score_difference,
    unpaired_difference,
)
from tiltyard.scores import ReadScoresOptions, ScoreTable, read_scores
from tiltyard.scores.table import ModelScores, common_prompts
from tiltyard.types import Floats, Ints

PARTS = ("dimension", "category", "subject", "task", "language")
MANY_VALUES = 40
"""A column with more values is none of categories, unless it is named."""
MOST_LISTED = 100
"""Prompts of either kind that an answer keeps."""
MUCH_MISSING = 0.05
FEW_PROMPTS = 20
SKEWED = 2.0
PROMPT = "prompt"
ABOUT_BATTLES = (
    *("both_bad", "control", "default_source", "inconsistent", "slot", "source", "texts", "tie_band", "ties"),
    *("anyway", "unchanged"),
)
"""Options that say nothing about scores."""


@dataclass(frozen=True, slots=True, eq=False)
class PairedScores:
    """Two models on prompts: their mean scores, `NaN` where one has none; `sign` is −1 where less is better."""

    table: ScoreTable
    prompts: Ints
    new: Floats
    old: Floats
    sign: float

    @classmethod
    def of(cls, table: ScoreTable, new: ModelScores, old: ModelScores) -> PairedScores:
        """Every prompt on which at least one has a score."""
        means = []
        for one in (new, old):
            mean = np.full(len(table.prompts), np.nan)
            scored = one.count > 0
            mean[one.prompts[scored]] = one.mean[scored]
            means.append(mean)
        every = np.flatnonzero(~np.isnan(means[0]) | ~np.isnan(means[1]))
        means = [mean[every] for mean in means]
        return cls(table, every, means[0], means[1], -1.0 if table.lower_is_better else 1.0)

    def only(self, kept: Any) -> PairedScores:
        """Some of the prompts."""
        return replace(self, prompts=self.prompts[kept], new=self.new[kept], old=self.old[kept])

    @property
    def both(self) -> PairedScores:
        """The prompts on which both have a score."""
        return self.only(~np.isnan(self.new) & ~np.isnan(self.old))

    @property
    def differences(self) -> Floats:
        """By how much the new one is better on each prompt."""
        return self.sign * (self.new - self.old)

    def filled(self, *, against: bool) -> PairedScores:
        """With the worst possible score of the new one, and the best of the old one, where they are missing."""
        seen = min(one.low for one in self.table.models.values()), max(one.high for one in self.table.models.values())
        low, high = seen if self.table.bounds is None else self.table.bounds
        bad, good = (low, high) if (self.sign > 0) == against else (high, low)
        new, old = np.where(np.isnan(self.new), bad, self.new), np.where(np.isnan(self.old), good, self.old)
        return replace(self, new=new, old=old)

    def estimate(self, cluster: str | None) -> ScoreEstimate:
        """The difference, by prompt or by cluster of prompts."""
        bounds = self.table.bounds
        reach = np.inf if bounds is None else bounds[1] - bounds[0]
        differences, sizes = self.differences, None
        if cluster is not None:
            codes = self.table.columns[cluster].codes[self.prompts]
            if (codes < 0).any():
                raise ScoreError(
                    f"{int((codes < 0).sum())} prompts have no {cluster}: fill the column in, or cluster by another."
                )
            _, place = np.unique(codes, return_inverse=True)
            sizes = np.bincount(place).astype(float)
            differences = np.bincount(place, differences) / sizes
        return score_difference(differences, self.table.spread, sizes=sizes, range_of_scores=float(reach))


def one_metric(tables: Sequence[ScoreTable]) -> ScoreTable:
    """The only table; several metrics are several questions."""
    if len(tables) == 1:
        return tables[0]
    names = ", ".join(table.metric for table in tables)
    raise OptionError(
        f"there are several metrics: {names}. Name one with ", OptionValue("score", tables[0].metric), "."
    )


def read_to_compare_scores(data: Any, options: DifferenceOptions) -> list[ScoreTable]:
    """The scores with every column that a difference looks at."""
    more = [*(options.by or ())]
    if options.cluster not in (None, PROMPT, "question_id", "none"):
        more.append(str(options.cluster))
    reading = replace(options.part(ReadScoresOptions), columns=tuple(more))
    return read_scores(data, **{name: getattr(reading, name) for name in reading.__dataclass_fields__})


def check_no_battles(options: Options, given: Collection[str] = ()) -> None:
    """Refuse options that only battles have: those that differ from their defaults, and any other that was given."""
    kind: Any = type(options)
    changed = {name for name, option in options_of(kind).items() if getattr(options, name) not in (option.default, ())}
    for name in (*ABOUT_BATTLES, "dimension"):
        if name not in {*changed, *given}:
            continue
        if name == "dimension":
            score = OptionValue("score", getattr(options, name))
            raise OptionError(
                OptionValue(name), " is about battles, and these are scores: ", score, " names the metric."
            )
        raise OptionError(OptionValue(name, None), " is about battles, and these are scores: leave it out.")


def difference_of_scores(table: ScoreTable, new: str, old: str, options: DifferenceOptions) -> Difference:
    """How the mean score of a new model differs from that of an old one, and how sure that is."""
    if new == old:
        raise OptionError(f"{new!r} is compared with itself: give two different models, the new one first.")
    check_no_battles(options)
    level = 0.95 if options.level is None else options.level
    check_level(level)
    table = table.only(new, old)
    cluster = None if options.cluster in (None, PROMPT, "question_id", "none") else options.cluster
    check_same_unit(table, new, old)
    if not table.prompts:
        return _unpaired(table, new, old, level, anytime=options.anytime)
    everything = PairedScores.of(table, table[new], table[old])
    pairs = everything.both
    if not len(pairs.prompts):
        raise _nothing_common(table, new, old)
    result = pairs.estimate(cluster)
    parts = _parts(everything, (new, old), cluster, options, level)
    missing = _missing(everything, (new, old), cluster, options.missing)
    estimate = covering(
        _estimated(result, level, len(pairs.prompts), anytime=options.anytime),
        result,
        missing,
        level,
        anytime=options.anytime,
    )
    assert estimate is not None
    columns = [{"column": PROMPT if cluster is None else cluster}]
    facts = _facts(table, pairs, (new, old), result, level)
    return Difference(
        new=new,
        old=old,
        estimate=estimate,
        contrast=result,
        level=level,
        direct=None,
        parts=tuple(parts),
        prompts=_deciding(pairs),
        n_battles=0,
        n_prompts=len(pairs.prompts),
        n_voters=None,
        interval={
            "level": level,
            "method": "plus two",
            "clusters": columns,
            "degrees": result.degrees,
            "error": result.error,
        },
        left_out=table.skipped,
        remarks=tuple(_remarks(table, everything, (new, old), cluster, result)),
        anytime=options.anytime,
        missing=missing,
        scores=facts,
    )


def check_same_unit(table: ScoreTable, new: str, old: str) -> None:
    """Refuse a share from 0 to 1 beside a percentage from 0 to 100."""
    for one, other in ((new, old), (old, new)):
        share, hundred = table[one], table[other]
        if (
            share.low >= 0
            and share.high <= 1
            and hundred.low >= 0
            and 20 < hundred.high <= 100
            and table.bounds is None
        ):
            raise ScoreError(
                f"{one} has scores from {share.low:g} to {share.high:g}, and {other} from {hundred.low:g} to "
                f"{hundred.high:g}: not one unit. Write both alike; if they are, say so with ",
                OptionValue("bounds", "0,100"),
                ".",
            )


def _nothing_common(table: ScoreTable, new: str, old: str) -> ScoreError:
    some = []
    for name in (new, old):
        scored = table[name].prompts[table[name].count > 0]
        if not len(scored):
            why = "has no score" if len(table[name].prompts) else "does not name its prompts"
            some.append(f"{name} {why}")
            continue
        some.append(f"{name} has {len(scored):,}, such as {table.prompts[int(scored[0])][:60]!r}")
    return ScoreError(
        f"no prompt has a score of both: {', and '.join(some)}. Name the column of the prompts with ",
        OptionValue("map", {"prompt": "COLUMN"}),
        ".",
    )


def _estimated(one: ScoreEstimate, level: float, prompts: int, *, anytime: bool) -> EstimatedDifference:
    low, high = one.ends(level, anytime=anytime)
    return EstimatedDifference(one.value, low, high, one.probability_above(), None, None, None, prompts)


def _facts(
    table: ScoreTable, pairs: PairedScores, names: tuple[str, str], result: ScoreEstimate, level: float
) -> ScoreFacts:
    counts = []
    for name, places in zip(names, common_prompts(table[names[0]], table[names[1]]), strict=True):
        counts.append(table[name].count[places])
    every = np.concatenate(counts)
    return ScoreFacts(
        unit=_unit(table, result, level),
        metric=table.metric,
        new_mean=float(pairs.new.mean()),
        old_mean=float(pairs.old.mean()),
        shares=table.shares,
        lower_is_better=table.lower_is_better,
        direction=table.direction,
        n_answers=int(every.sum()),
        repeats=(int(every.min()), int(every.max())),
        n_prompts=len(pairs.prompts),
    )


def _unit(table: ScoreTable, result: ScoreEstimate, level: float) -> Unit:
    low, high = result.ends(level)
    half = None if low is None or high is None else (high - low) / 2
    return SHARES if table.shares else unit_of_scores(half, table.spread)


def _unpaired(table: ScoreTable, new: str, old: str, level: float, *, anytime: bool) -> Difference:
    """The difference where nothing says which answers are to the same prompt."""
    means = [table[name].mean[table[name].count > 0] for name in (new, old)]
    if not all(map(len, means)):
        raise ScoreError(f"one of {new} and {old} has no score. Check the files.")
    reach = np.inf if table.bounds is None else table.bounds[1] - table.bounds[0]
    one, other = means if not table.lower_is_better else [-mean for mean in means]
    result = unpaired_difference(one, other, table.spread, range_of_scores=float(reach))
    n_answers = sum(map(len, means))
    note = Message(
        "no column names the prompts, so answers are taken to be to different prompts; a column of prompts (id, or ",
        OptionValue("map", {"prompt": "COLUMN"}),
        ") makes the interval narrower",
    )
    unscored = {name: int(table[name].unscored.sum()) for name in (new, old)}
    lost = [f"answers without a score are left out: {', '.join(f'{name} {n:,}' for name, n in unscored.items() if n)}"]
    return Difference(
        new=new,
        old=old,
        estimate=_estimated(result, level, n_answers, anytime=anytime),
        contrast=result,
        level=level,
        direct=None,
        parts=(),
        prompts=(),
        n_battles=0,
        n_prompts=None,
        n_voters=None,
        interval={"level": level, "method": "plus one on each side", "clusters": []},
        left_out=table.skipped,
        remarks=(note, *(lost if any(unscored.values()) else ()), *_direction(table)),
        anytime=anytime,
        scores=ScoreFacts(
            _unit(table, result, level),
            table.metric,
            float(means[0].mean()),
            float(means[1].mean()),
            table.shares,
            table.lower_is_better,
            table.direction,
            n_answers,
            (1, 1),
            None,
        ),
    )


def _missing(
    everything: PairedScores, names: tuple[str, str], cluster: str | None, rule: MissingRule
) -> MissingScores | None:
    """The prompts on which one has no score; None where there are none."""
    counts = dict(zip(names, (int(np.isnan(one).sum()) for one in (everything.new, everything.old)), strict=True))
    if not any(counts.values()):
        return None
    fit = worst_case(lambda against: everything.filled(against=against).estimate(cluster))
    return MissingScores(counts, len(everything.prompts), fit, rule)


def _parts(
    everything: PairedScores, names: tuple[str, str], cluster: str | None, options: DifferenceOptions, level: float
) -> list[PartDifference]:
    """The difference within each value of the columns asked for, or of those that look like categories."""
    parts = []
    for column in options.by or [name for name in PARTS if name in everything.table.columns]:
        codes = everything.table.columns[column]
        here = codes.codes[everything.prompts]
        values = np.unique(here[here >= 0]).tolist()
        if len(values) < 2 or (options.by is None and len(values) > MANY_VALUES):
            continue
        shared = 1.0 - (1.0 - level) / len(values)
        for code in values:
            inside = everything.only(here == code)
            lost, both = _missing(inside, names, cluster, options.missing), inside.both
            if not len(both.prompts):
                parts.append(
                    PartDifference(column, codes.labels[code], None, None, "no prompt has a score of both", lost)
                )
                continue
            one = both.estimate(cluster)
            estimate = _estimated(one, shared, len(both.prompts), anytime=options.anytime)
            estimate_shown = covering(estimate, one, lost, shared, anytime=options.anytime)
            means = (float(both.new.mean()), float(both.old.mean()))
            parts.append(PartDifference(column, codes.labels[code], estimate_shown, one, None, lost, means))
    return parts


def _deciding(pairs: PairedScores) -> tuple[PromptScore, ...]:
    """The prompts on which the two differ most, either way."""
    differences = pairs.differences
    order = np.argsort(differences, kind="stable")
    chosen = [place for place in (*order[:MOST_LISTED], *order[::-1][:MOST_LISTED]) if differences[place] != 0.0]
    return tuple(
        PromptScore(pairs.table.prompts[int(pairs.prompts[i])], 0, 0, 0, 0, float(pairs.new[i]), float(pairs.old[i]))
        for i in dict.fromkeys(int(place) for place in chosen)
    )


def _remarks(
    table: ScoreTable, everything: PairedScores, names: tuple[str, str], cluster: str | None, result: ScoreEstimate
) -> list[str]:
    """What the reader should know, and what the file cannot say."""
    pairs, remarks = everything.both, []
    differences = pairs.differences
    lost = len(everything.prompts) - len(pairs.prompts)
    if lost > MUCH_MISSING * len(everything.prompts):
        remarks.append(
            f"{lost:,} of {len(everything.prompts):,} prompts have a score of only one, which may be the easy ones"
        )
    if len(pairs.prompts) < 2:
        remarks.append("no interval: only one prompt has a score of both")
    elif not result.known:
        chosen = OptionValue("bounds")
        remarks.append(Message("no interval: all scores are equal, and their bounds are not known (", chosen, ")"))
    elif len(pairs.prompts) < FEW_PROMPTS:
        remarks.append("fewer than 20 prompts: where single differences are large, 95 % intervals hold in about 88 %")
    elif table.bounds is None and differences.std() > 0:
        centred = (differences - differences.mean()) / differences.std()
        if abs(float(np.mean(centred**3))) > SKEWED:
            remarks.append("a few prompts make most of the difference: such skewed scores need more prompts")
    places = common_prompts(table[names[0]], table[names[1]])
    counts = [table[name].count[place] for name, place in zip(names, places, strict=True)]
    if max(int(some.max()) for some in counts) > 1:
        if not table.has_repeats:
            again = int(sum((some > 1).sum() for some in counts))
            some = "1 prompt has" if again == 1 else f"{again:,} prompts have"
            remarks.append(f"{some} several rows of a model: taken as repeats")
        remarks.append(
            "the file does not say how repeats differ (temperature, seed): the interval is for answers made alike"
        )
        noise = noise_of(table, names)
        best = None if noise is None else noise.best_repeats()
        if noise is not None and best is not None:
            share = noise.within / (noise.within + noise.between)
            remarks.append(
                f"{percent(share)} of the variance comes from answers that vary: about {max(1, round(best))} repeats a "
                "prompt are best if a new prompt costs as much as an answer"
            )
    remarks += _direction(table)
    if cluster is None and table.possible_cluster is not None:
        remarks.append(table.possible_cluster)
    elif cluster is None:
        chosen = OptionValue("cluster")
        remarks.append(
            Message("prompts count as independent: if some share a source, name the column that says it (", chosen, ")")
        )
    return remarks


def _direction(table: ScoreTable) -> list[Message]:
    return [] if table.direction_note is None else [table.direction_note]


def noise_of(table: ScoreTable, names: tuple[str, str]) -> RepeatNoise | None:
    """How much of the variance comes from answers that vary; None with one repeat."""
    new, old = (table[name] for name in names)
    one, other = common_prompts(new, old)
    return repeat_noise(
        new.mean[one] - old.mean[other],
        (np.nan_to_num(new.variance[one]), np.nan_to_num(old.variance[other])),
        (new.count[one], old.count[other]),
    )

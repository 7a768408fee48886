"""Two models by their scores: the difference of means in the unit of the scores.

The arithmetic is in `ratings.score_differences`. Only prompts count on which both have a score; how many were left out,
and whose score they lack, is said.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from heapq import nsmallest
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec import structs

from tiltyard.battles.missing_verdicts import no_go
from tiltyard.battles.reading import Opened
from tiltyard.boards.estimator import check_level
from tiltyard.boards.text import percent
from tiltyard.decisions.missing import Missing, WorstCase, worst_case
from tiltyard.decisions.picked import candidates, for_picked, level_for
from tiltyard.decisions.prompts import PromptScore
from tiltyard.decisions.records import (
    Difference,
    EstimatedDifference,
    PartDifference,
    Ratio,
    ScoreFacts,
    covering,
    doubt_words,
)
from tiltyard.decisions.units import Unit, unit_of
from tiltyard.errors import Message, OptionError, OptionValue, ScoreError
from tiltyard.options import CompareOptions, MissingRule, Options, ScoreBoardOptions
from tiltyard.ratings.score_differences import (
    FEWEST,
    RepeatNoise,
    ScoreEstimate,
    cluster_means,
    exact_sum,
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
PROMPT = "prompt"
ABOUT_BATTLES = (
    *("both_bad", "control", "default_source", "inconsistent", "slot", "source", "texts", "tie_band", "ties"),
    *("anyway", "unchanged"),
)
"""Options that say nothing about scores."""


class PairedScores(msgspec.Struct, frozen=True, eq=False):
    """Two models on prompts, the new one in the first row of each array; `sign` is −1 where less is better.

    `means` are `NaN` where a model has no score. `rows` are answers, `unscored` those without a score: where a model
    has no answer at all, as many as the other one has.
    """

    table: ScoreTable
    prompts: Ints
    means: Floats
    rows: Ints
    unscored: Ints
    sign: float
    spread: float

    @classmethod
    def of(cls, table: ScoreTable, new: ModelScores, old: ModelScores) -> PairedScores:
        """Every prompt to which one of the two has an answer, scored or not."""
        means = np.full((2, len(table.prompts)), np.nan)
        rows, unscored = np.zeros((2, 2, len(table.prompts)), dtype=np.int64)
        for side, one in enumerate((new, old)):
            means[side, one.prompts] = one.mean
            rows[side, one.prompts] = one.count + one.unscored
            unscored[side, one.prompts] = one.unscored
        absent = rows == 0
        rows, unscored = np.where(absent, rows[::-1], rows), np.where(absent, rows[::-1], unscored)
        asked = np.flatnonzero(rows[0] > 0)
        sign = -1.0 if table.lower_is_better else 1.0
        return cls(table, asked, means[:, asked], rows[:, asked], unscored[:, asked], sign, table.spread)

    def only(self, kept: Any) -> PairedScores:
        """Some of the prompts."""
        arrays = {name: getattr(self, name)[..., kept] for name in ("prompts", "means", "rows", "unscored")}
        return msgspec.structs.replace(self, **arrays)

    @property
    def new(self) -> Floats:
        """The mean scores of the new model."""
        return np.asarray(self.means[0])

    @property
    def old(self) -> Floats:
        """The mean scores of the old one."""
        return np.asarray(self.means[1])

    @property
    def both(self) -> PairedScores:
        """The prompts on which both have a score."""
        return self.only(~np.isnan(self.means).any(axis=0))

    @property
    def differences(self) -> Floats:
        """By how much the new one is better on each prompt."""
        return self.sign * (self.new - self.old)

    def filled(self, bounds: tuple[float, float], *, against: bool) -> PairedScores:
        """With missing answers of the new one as bad as can be, and of the old one as good; or the other way."""
        ends = np.array(bounds if (self.sign > 0) == against else bounds[::-1])[:, None]
        lost = self.unscored / self.rows
        means = np.where(self.unscored > 0, (1.0 - lost) * np.nan_to_num(self.means) + lost * ends, self.means)
        return msgspec.structs.replace(self, means=means, spread=bounds[1] - bounds[0])

    def estimate(self, cluster: str | None) -> ScoreEstimate:
        """The difference, by prompt or by cluster of prompts."""
        return _difference_of(self.table, self.differences, self.clusters(cluster), self.spread)

    def ratio(self, cluster: str | None) -> ScoreEstimate | None:
        """The logarithm of how many times the old score the new one typically is; None where that says nothing."""
        if not has_ratio(self.table):
            return None
        logs = [side if self.table.log else np.log(side) for side in (*self.means, np.array(self.table.ends))]
        return _difference_of(self.table, logs[0] - logs[1], self.clusters(cluster), float(logs[2][1] - logs[2][0]))

    def clusters(self, cluster: str | None) -> Ints | None:
        """The cluster of each prompt; None: each is its own."""
        if cluster is None:
            return None
        codes = self.table.columns[cluster].codes[self.prompts]
        if (codes < 0).any():
            raise ScoreError(
                f"{int((codes < 0).sum())} prompts have no {cluster}: fill the column in, or cluster by another."
            )
        return np.asarray(codes, dtype=np.int64)


def has_ratio(table: ScoreTable) -> bool:
    """Whether a ratio of scores says something: they are all positive, and have no bounds."""
    return table.log or (table.ends[0] > 0.0 and not table.bounded)


def _difference_of(table: ScoreTable, differences: Floats, codes: Ints | None, spread: float) -> ScoreEstimate:
    means, sizes = (differences, None) if codes is None else cluster_means(differences, codes)
    return score_difference(means, spread, sizes=sizes, range_of_scores=table.reach, bounded=table.bounded)


def compare_scores(data: Any, new: Any, old: Any, options: CompareOptions) -> dict[str, Difference]:
    """How the scores of two models differ, by metric; without data (None), those of two sources of one model each."""
    tables, new, old = scores_of_two(data, new, old, options)
    return {table.metric: difference_of_scores(table, new, old, options) for table in tables}


def scores_of_two(data: Any, new: Any, old: Any, options: CompareOptions) -> tuple[list[ScoreTable], str, str]:
    """The scores by metric, and the two models; without data (None), those of two sources of one model each."""
    check_no_battles(options)
    if data is not None:
        return read_to_compare_scores(data, options), new, old
    new, old = Opened.of(new), Opened.of(old)
    files = [one.data for one in (new, old) if isinstance(one.data, str | Path)]
    both = Opened(files, like=new) if len(files) == 2 else Opened({"new": new, "old": old})
    tables = read_to_compare_scores(both, options)
    return tables, *_models_of_sources(tables[0], new, old)


def _models_of_sources(table: ScoreTable, *sources: Opened) -> tuple[str, str]:
    """The models of two sources, of which each holds one."""
    names = []
    for source, kind, models in zip(sources, ("new", "old"), table.sources, strict=True):
        where = str(source.data) if isinstance(source.data, str | Path) else kind
        if not models:
            raise ScoreError(f"{where} has no row with a score. Check what wrote it.")
        if len(models) != 1:
            raise OptionError(
                f"{where} holds scores of {len(models)} models ({', '.join(models[:6])}): name two of them, such as "
                f"{models[-1]} and {models[0]}, with ",
                OptionValue("battles", where),
                ".",
            )
        names.append(models[0])
    return names[0], names[1]


def one_metric(tables: Sequence[ScoreTable]) -> ScoreTable:
    """The only table; several metrics are several questions."""
    if len(tables) == 1:
        return tables[0]
    names = ", ".join(table.metric for table in tables)
    raise OptionError(
        f"there are several metrics: {names}. Name one with ", OptionValue("score", tables[0].metric), "."
    )


def read_to_compare_scores(data: Any, options: CompareOptions) -> list[ScoreTable]:
    """The scores with every column that a difference looks at."""
    more = filter(None, [*(options.by or ()), cluster_of(options)])
    reading = replace(options.part(ReadScoresOptions), columns=tuple(more))
    tables = read_scores(data, **{name: getattr(reading, name) for name in reading.__dataclass_fields__})
    against = no_go(data)
    return [structs.replace(table, against=against) for table in tables]


def cluster_of(options: CompareOptions | ScoreBoardOptions) -> str | None:
    """The column of prompts that depend on each other; None: each stands for itself."""
    return None if options.cluster in (None, PROMPT, "question_id", "none") else options.cluster


def check_no_battles(options: Options) -> None:
    """Refuse options that only battles have."""
    options.refuse(ABOUT_BATTLES, " is about battles, and these are scores: leave it out.")
    if "dimension" in options.given():
        named = OptionValue("score", options.given()["dimension"])
        options.refuse(["dimension"], " is about battles, and these are scores: ", named, " names the metric.")


def difference_of_scores(table: ScoreTable, new: str, old: str, options: CompareOptions) -> Difference:
    """How the mean score of a new model differs from that of an old one, and how sure that is."""
    result = _of_two(table, new, old, replace(options, level=level_for(options)))
    against = (*table.against, *result.obstacles)
    return for_picked(replace(result, obstacles=against, best_of=_best_of(table, new, old)), options.picked_from)


def _best_of(table: ScoreTable, new: str, old: str) -> int | None:
    """Among how many models the new one is furthest above the old one, each on the prompts that both have."""
    names = [name for name, one in table.models.items() if name != old and (one.count > 0).any()]
    gains = np.full(len(names), np.nan)
    for place, name in enumerate(names if len(names) > 1 else ()):
        if table.prompts:
            differences = PairedScores.of(table, table[name], table[old]).both.differences
        else:
            mean = table[name].mean[table[name].count > 0]
            differences = -mean if table.lower_is_better else mean
        gains[place] = differences.mean() if len(differences) else np.nan
    return candidates(gains, names.index(new), None)


def _of_two(table: ScoreTable, new: str, old: str, options: CompareOptions) -> Difference:
    """The difference, whyever the new one was picked."""
    if new == old:
        raise OptionError(f"{new!r} is compared with itself: give two different models, the new one first.")
    check_no_battles(options)
    level = 0.95 if options.level is None else options.level
    check_level(level)
    table = table.only(new, old)
    cluster = cluster_of(options)
    check_same_unit(table, new, old)
    if not table.prompts:
        return _unpaired(table, new, old, level, options)
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
    facts = msgspec.structs.replace(
        _facts(table, pairs, (new, old), result, level),
        counted="prompts" if cluster is None else f"clusters by {cluster}",
        ratio=_ratio(pairs.ratio(cluster), level, anytime=options.anytime),
    )
    return Difference(
        new=new,
        old=old,
        estimate=estimate,
        contrast=result,
        level=level,
        parts=tuple(parts),
        prompts=_deciding(pairs),
        n_prompts=len(pairs.prompts),
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
        obstacles=_obstacles(result, facts, anytime=options.anytime),
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
    sure = one.probability_above(anytime=anytime)
    return EstimatedDifference(one.value, low, high, sure, None, None, None, prompts)


def _obstacles(one: ScoreEstimate, facts: ScoreFacts, *, anytime: bool) -> tuple[str, ...]:
    """Why nothing can be decided, whatever the interval says."""
    doubt = one.doubt(anytime=anytime)
    return () if doubt is None else (doubt_words(doubt, one, facts.counted, anytime=anytime),)


def _ratio(one: ScoreEstimate | None, level: float, *, anytime: bool) -> Ratio | None:
    """How many times the old score the new one typically is; None where that is not known."""
    if one is None:
        return None
    low, high = one.ends(level, anytime=anytime)
    return None if low is None or high is None else Ratio(math.exp(one.value), math.exp(low), math.exp(high))


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
        new_mean=_mean(pairs.new),
        old_mean=_mean(pairs.old),
        shares=table.shares,
        lower_is_better=table.lower_is_better,
        direction=table.direction,
        beside=table.beside,
        n_answers=int(every.sum()),
        repeats=(int(every.min()), int(every.max())),
        n_prompts=len(pairs.prompts),
        counted="prompts",
        log=table.log,
    )


def _mean(values: Floats) -> float:
    return exact_sum(values) / len(values)


def _unit(table: ScoreTable, result: ScoreEstimate, level: float) -> Unit:
    low, high = result.ends(level)
    return unit_of(table, None if low is None or high is None else (high - low) / 2)


def _unpaired(table: ScoreTable, new: str, old: str, level: float, options: CompareOptions) -> Difference:
    """The difference where nothing says which answers are to the same prompt."""
    for name in ("by", "cluster"):
        if getattr(options, name) not in (None, (), [], "none"):
            raise OptionError(
                OptionValue(name, None),
                " is about prompts, and no column names them. Name it with ",
                OptionValue("map", {"prompt": "COLUMN"}),
                ".",
            )
    means = [table[name].mean[table[name].count > 0] for name in (new, old)]
    if not all(map(len, means)):
        raise ScoreError(f"one of {new} and {old} has no score. Check the files.")
    sign, anytime = -1.0 if table.lower_is_better else 1.0, options.anytime

    def estimate(sides: Sequence[Floats], spread: float) -> ScoreEstimate:
        one, other = (sign * side for side in sides)
        return unpaired_difference(one, other, spread, range_of_scores=table.reach, bounded=table.bounded)

    lost = {name: int(table[name].unscored.sum()) for name in (new, old)}

    def filled(bounds: tuple[float, float], against: bool) -> ScoreEstimate:
        ends = bounds if (sign > 0) == against else bounds[::-1]
        filling = [np.full(count, end) for count, end in zip(lost.values(), ends, strict=True)]
        sides = [np.concatenate(both) for both in zip(means, filling, strict=True)]
        return estimate(sides, bounds[1] - bounds[0])

    result, n_answers = estimate(means, table.spread), sum(map(len, means))
    missing = None
    if any(lost.values()):
        cases = _cases(table.bounds, filled)
        missing = Missing.of_scores(
            lost, sum(lost.values()), n_answers + sum(lost.values()), "answers", cases, options.missing
        )
    ratio = None
    if has_ratio(table):
        logs = [side if table.log else np.log(side) for side in (*means, np.array(table.ends))]
        ratio = unpaired_difference(logs[0], logs[1], float(logs[2][1] - logs[2][0]))
    note = Message(
        "no column names the prompts, so answers are taken to be to different prompts; a column of prompts (id, or ",
        OptionValue("map", {"prompt": "COLUMN"}),
        ") makes the interval narrower",
    )
    shown = covering(_estimated(result, level, n_answers, anytime=anytime), result, missing, level, anytime=anytime)
    assert shown is not None
    facts = ScoreFacts(
        unit=_unit(table, result, level),
        metric=table.metric,
        new_mean=_mean(means[0]),
        old_mean=_mean(means[1]),
        shares=table.shares,
        lower_is_better=table.lower_is_better,
        direction=table.direction,
        beside=table.beside,
        n_answers=n_answers,
        repeats=(1, 1),
        n_prompts=None,
        counted="answers of each",
        ratio=_ratio(ratio, level, anytime=anytime),
        log=table.log,
    )
    return Difference(
        new=new,
        old=old,
        estimate=shown,
        contrast=result,
        level=level,
        interval={"level": level, "method": "plus one on each side", "clusters": []},
        left_out=table.skipped,
        remarks=(note, *_tails(table, result), *table.reading_notes),
        anytime=anytime,
        obstacles=_obstacles(result, facts, anytime=anytime),
        missing=missing,
        scores=facts,
    )


Bounds = tuple[float, float]


def _cases(bounds: Bounds | None, filled: Callable[[Bounds, bool], ScoreEstimate]) -> Callable[[], WorstCase]:
    """The difference with missing scores at either end of the scale; nothing where the scale's ends are not known."""
    if bounds is None:
        return lambda: WorstCase(None, None)
    return worst_case(lambda against: filled(bounds, against))


def _missing(
    everything: PairedScores, names: tuple[str, str], cluster: str | None, rule: MissingRule
) -> Missing | None:
    """The answers without a score, and the prompts to which one of the two has no answer; None where there are none."""
    lost = everything.unscored
    if not lost.any():
        return None
    by_model = dict(zip(names, lost.sum(axis=1).tolist(), strict=True))
    cases = _cases(
        everything.table.bounds, lambda bounds, against: everything.filled(bounds, against=against).estimate(cluster)
    )
    if everything.rows.max() > 1:
        return Missing.of_scores(by_model, int(lost.sum()), int(everything.rows.sum()), "answers", cases, rule)
    prompts = int(lost.any(axis=0).sum())
    return Missing.of_scores(by_model, prompts, len(everything.prompts), "prompts", cases, rule)


def _parts(
    everything: PairedScores, names: tuple[str, str], cluster: str | None, options: CompareOptions, level: float
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
            means = (_mean(both.new), _mean(both.old))
            parts.append(PartDifference(column, codes.labels[code], estimate_shown, one, None, lost, means))
    return parts


def _deciding(pairs: PairedScores) -> tuple[PromptScore, ...]:
    """The prompts on which the two differ most, either way; of those that differ alike, the first by name."""
    differences, names = pairs.differences, pairs.table.prompts
    places = []
    for sign in (1.0, -1.0):
        off = sign * differences
        least = np.partition(off, MOST_LISTED - 1)[MOST_LISTED - 1] if len(off) > MOST_LISTED else np.inf
        near = np.flatnonzero((off < 0.0) & (off <= least)).tolist()
        places += nsmallest(MOST_LISTED, near, key=lambda i: (off[i], names[int(pairs.prompts[i])]))
    means = np.exp(pairs.means) if pairs.table.log else pairs.means
    return tuple(PromptScore(names[int(pairs.prompts[i])], 0, 0, 0, 0, *means[:, i].tolist()) for i in places)


def _tails(table: ScoreTable, result: ScoreEstimate) -> list[str]:
    """What a reader of scores without bounds should know of large differences."""
    if table.bounded or not result.known:
        return []
    if result.doubt() is None and all(result.doubt(above=above) is None for above in (True, False)):
        return []
    few = "" if result.doubt() else "a few prompts make much of the difference, and "
    advice: list[str | OptionValue] = [f"{few}scores have no bounds: state them (", OptionValue("bounds"), ")"]
    if has_ratio(table) and not table.log:
        advice += [", or compare typical ratios (", OptionValue("scale", "log"), ")"]
    return [Message(*advice)]


def _remarks(
    table: ScoreTable, everything: PairedScores, names: tuple[str, str], cluster: str | None, result: ScoreEstimate
) -> list[str]:
    """What the reader should know, and what the file cannot say."""
    pairs, remarks = everything.both, []
    one_sided = int((np.isnan(everything.new) != np.isnan(everything.old)).sum())
    if one_sided > MUCH_MISSING * len(everything.prompts):
        remarks.append(
            f"{one_sided:,} of {len(everything.prompts):,} prompts have a score of only one, which may be the easy ones"
        )
    if len(pairs.prompts) < 2:
        remarks.append("no interval: only one prompt has a score of both")
    elif not result.known:
        chosen = OptionValue("bounds")
        remarks.append(Message("no interval: all scores are equal, and their bounds are not known (", chosen, ")"))
    elif FEWEST <= len(pairs.prompts) < FEW_PROMPTS:
        remarks.append("fewer than 20 prompts: where single differences are large, 95 % intervals hold in about 88 %")
    remarks += _tails(table, result)
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
    remarks += table.reading_notes
    if cluster is None and table.possible_cluster is not None:
        remarks.append(table.possible_cluster)
    elif cluster is None:
        chosen = OptionValue("cluster")
        remarks.append(
            Message("prompts count as independent: if some share a source, name the column that says it (", chosen, ")")
        )
    return remarks


def noise_of(table: ScoreTable, names: tuple[str, str]) -> RepeatNoise | None:
    """How much of the variance comes from answers that vary; None with one repeat."""
    new, old = (table[name] for name in names)
    one, other = common_prompts(new, old)
    return repeat_noise(
        new.mean[one] - old.mean[other],
        (np.nan_to_num(new.variance[one]), np.nan_to_num(old.variance[other])),
        (new.count[one], old.count[other]),
    )

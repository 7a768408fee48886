"""Two models by their scores: the difference of means in the unit of the scores.

The arithmetic is in `stats.score_differences`. Only prompts count on which both have a score; how many were left out,
and whose score they lack, is said. Where nothing names the prompts, the two are independent samples of answers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from heapq import nsmallest
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec import structs

from tiltyard.analysis.boards import percent
from tiltyard.analysis.decisions.answer import (
    MANY_VALUES,
    EstimatedDifference,
    PartDifference,
    PromptScore,
    Ratio,
    ScoreDifference,
    candidates,
    for_picked,
    level_for,
    shared_level,
)
from tiltyard.analysis.decisions.missing import Cases, Missing, cases_of, worst_case
from tiltyard.analysis.decisions.units import unit_of
from tiltyard.data.battles import Opened, no_go
from tiltyard.data.scores import ReadScoresOptions, ScoreTable, common_prompts, read_scores
from tiltyard.errors import Message, OptionError, OptionValue, ScoreError
from tiltyard.options import CompareOptions, MissingRule, Options, ScoreBoardOptions
from tiltyard.stats import (
    FEWEST,
    RepeatNoise,
    ScoreEstimate,
    cluster_means,
    exact_sum,
    repeat_noise,
    score_difference,
    unpaired_difference,
)
from tiltyard.types import Floats, Ints

PARTS = ("dimension", "category", "subject", "task", "language")
MOST_LISTED = 100
"""Prompts of either kind that an answer keeps."""
MUCH_MISSING = 0.05
FEW_PROMPTS = 20
PROMPT = "prompt"
ABOUT_BATTLES: tuple[str, ...] = (
    *("both_bad", "control", "default_source", "inconsistent", "slot", "source", "texts", "tie_band", "ties"),
    *("anyway", "unchanged"),
)
"""Options that say nothing about scores."""


def has_ratio(table: ScoreTable) -> bool:
    """Whether a ratio of scores says something: they are all positive, and have no bounds."""
    return table.log or (table.ends[0] > 0.0 and not table.bounded)


class PairedScores(msgspec.Struct, frozen=True, eq=False):
    """Two models on every prompt to which one of them has an answer, the new one in the first row of each array.

    `means` are NaN where a model has no score. `unscored` of the `rows` have none: where a model has no answer at all,
    as many as the other one has. Without a `cluster` each prompt stands for itself.
    """

    table: ScoreTable
    names: tuple[str, str]
    cluster: str | None
    prompts: Ints
    means: Floats
    rows: Ints
    unscored: Ints
    spread: float

    @classmethod
    def of(cls, table: ScoreTable, names: tuple[str, str], options: CompareOptions) -> PairedScores:
        """Those of two models of a table."""
        means = np.full((2, len(table.prompts)), np.nan)
        rows, unscored = np.zeros((2, 2, len(table.prompts)), dtype=np.int64)
        for side, name in enumerate(names):
            scores = table[name]
            means[side, scores.prompts] = scores.mean
            rows[side, scores.prompts] = scores.count + scores.unscored
            unscored[side, scores.prompts] = scores.unscored
        absent = rows == 0
        rows, unscored = np.where(absent, rows[::-1], rows), np.where(absent, rows[::-1], unscored)
        asked = np.flatnonzero(rows[0] > 0)
        arrays = (means[:, asked], rows[:, asked], unscored[:, asked])
        return cls(table, names, cluster_of(options), asked, *arrays, table.spread)

    def only(self, kept: Any) -> PairedScores:
        """Some of the prompts."""
        arrays = {name: getattr(self, name)[..., kept] for name in ("prompts", "means", "rows", "unscored")}
        return structs.replace(self, **arrays)

    @property
    def both(self) -> PairedScores:
        """The prompts on which both have a score."""
        return self.only(~np.isnan(self.means).any(axis=0))

    @property
    def differences(self) -> Floats:
        """By how much the new one is better on each prompt."""
        return _sign(self.table) * np.asarray(self.means[0] - self.means[1])

    @property
    def mean_scores(self) -> tuple[float, float]:
        """The mean score of each on the prompts that both have."""
        new, old = (exact_sum(side) / len(side) for side in self.both.means)
        return new, old

    @property
    def clusters(self) -> Ints | None:
        """The cluster of each prompt; None: each is its own."""
        if self.cluster is None:
            return None
        return cluster_codes(self.table, self.cluster, self.prompts)

    def estimate(self) -> ScoreEstimate:
        """The difference on the prompts that both have, by prompt or by cluster of prompts."""
        both = self.both
        if not len(both.prompts):
            raise _nothing_common(self.table, *self.names)
        return both._mean_of(both.differences, self.spread)

    def ratio(self) -> ScoreEstimate:
        """The logarithm of how many times the old score the new one typically is."""
        both = self.both
        new, old, ends = _logs(self.table, both.means)
        return both._mean_of(new - old, float(ends[1] - ends[0]))

    def _mean_of(self, differences: Floats, spread: float) -> ScoreEstimate:
        table, codes = self.table, self.clusters
        means, sizes = (differences, None) if codes is None else cluster_means(differences, codes)
        return score_difference(means, spread, sizes=sizes, range_of_scores=table.reach, bounded=table.bounded)

    def _filled(self, bounds: tuple[float, float], *, against: bool) -> ScoreEstimate:
        """With missing answers of the new one as bad as can be, and of the old one as good; or the other way."""
        ends = np.array(_ends_for(self.table, bounds, against=against))[:, None]
        lost = self.unscored / self.rows
        means = np.where(self.unscored > 0, (1.0 - lost) * np.nan_to_num(self.means) + lost * ends, self.means)
        return structs.replace(self, means=means, spread=bounds[1] - bounds[0]).estimate()

    def missing(self, rule: MissingRule) -> Missing | None:
        """The answers without a score, and the prompts to which one of the two has none; None where there are none."""
        lost = self.unscored
        if not lost.any():
            return None
        by_name, bounds = dict(zip(self.names, lost.sum(axis=1).tolist(), strict=True)), self.table.bounds
        worst = worst_case(lambda against: None if bounds is None else self._filled(bounds, against=against))
        if self.rows.max() > 1:
            return Missing(by_name, int(lost.sum()), int(self.rows.sum()), rule, "answers", worst)
        return Missing(by_name, int(lost.any(axis=0).sum()), len(self.prompts), rule, "prompts", worst)

    def facts(self, found: ScoreEstimate, options: CompareOptions, level: float) -> dict[str, Any]:
        """What a difference says of prompts, repeats and clusters."""
        places = zip(self.names, _common(self.table, self.names), strict=True)
        count = np.concatenate([self.table[name].count[place] for name, place in places])
        return {
            "n_prompts": len(self.both.prompts),
            "prompts": _deciding(self.both),
            "parts": tuple(_parts(self, options, level)),
            "n_answers": int(count.sum()),
            "repeats": (int(count.min()), int(count.max())),
            "counted": "prompts" if self.cluster is None else f"clusters by {self.cluster}",
            "remarks": tuple(_remarks(self, found)),
            "interval": {
                "level": level,
                "method": "plus two",
                "clusters": [{"column": self.cluster or PROMPT}],
                "degrees": found.degrees,
                "error": found.error,
            },
        }


class UnpairedScores(msgspec.Struct, frozen=True, eq=False):
    """Two models where nothing says which answers are to the same prompt: two samples of answers."""

    table: ScoreTable
    names: tuple[str, str]
    means: Sequence[Floats]

    @classmethod
    def of(cls, table: ScoreTable, names: tuple[str, str], options: CompareOptions) -> UnpairedScores:
        """Those of two models of a table."""
        for name in ("by", "cluster"):
            if getattr(options, name) not in (None, (), [], "none"):
                column = OptionValue("map", {"prompt": "COLUMN"})
                why = " is about prompts, and no column names them. Name it with "
                raise OptionError(OptionValue(name, None), why, column, ".")
        means = [table[name].mean[table[name].count > 0] for name in names]
        if not all(map(len, means)):
            raise ScoreError(f"one of {names[0]} and {names[1]} has no score. Check the files.")
        return cls(table, names, means)

    @property
    def mean_scores(self) -> tuple[float, float]:
        """The mean score of each."""
        new, old = (exact_sum(side) / len(side) for side in self.means)
        return new, old

    def estimate(self) -> ScoreEstimate:
        """The difference of the two samples."""
        return self._difference(self.means, self.table.spread)

    def ratio(self) -> ScoreEstimate:
        """The logarithm of how many times the old score the new one typically is."""
        new, old, ends = _logs(self.table, self.means)
        return unpaired_difference(new, old, float(ends[1] - ends[0]))

    def _difference(self, sides: Sequence[Floats], spread: float) -> ScoreEstimate:
        new, old = (_sign(self.table) * side for side in sides)
        return unpaired_difference(new, old, spread, range_of_scores=self.table.reach, bounded=self.table.bounded)

    def missing(self, rule: MissingRule) -> Missing | None:
        """The answers without a score; None where there are none."""
        lost, bounds = {name: int(self.table[name].unscored.sum()) for name in self.names}, self.table.bounds
        if not any(lost.values()):
            return None

        def filled(against: bool) -> ScoreEstimate | None:
            if bounds is None:
                return None
            ends = _ends_for(self.table, bounds, against=against)
            filling = [np.full(count, end) for count, end in zip(lost.values(), ends, strict=True)]
            sides = [np.concatenate(both) for both in zip(self.means, filling, strict=True)]
            return self._difference(sides, bounds[1] - bounds[0])

        count = sum(lost.values())
        return Missing(lost, count, count + sum(map(len, self.means)), rule, "answers", worst_case(filled))

    def facts(self, found: ScoreEstimate, options: CompareOptions, level: float) -> dict[str, Any]:  # noqa: ARG002
        """What a difference says of the two samples."""
        note = Message(
            "no column names the prompts, so answers are taken to be to different prompts; a column of prompts (id, "
            "or ",
            OptionValue("map", {"prompt": "COLUMN"}),
            ") makes the interval narrower",
        )
        return {
            "n_answers": sum(map(len, self.means)),
            "repeats": (1, 1),
            "counted": "answers of each",
            "remarks": (note, *_tails(self.table, found), *self.table.reading_notes),
            "interval": {"level": level, "method": "plus one on each side", "clusters": []},
        }


def _sign(table: ScoreTable) -> float:
    return -1.0 if table.lower_is_better else 1.0


def _logs(table: ScoreTable, sides: Iterable[Floats]) -> list[Floats]:
    """The logarithms of the scores of each, and of the ends of all."""
    return [side if table.log else np.log(side) for side in (*sides, np.array(table.ends))]


def _ends_for(table: ScoreTable, bounds: tuple[float, float], *, against: bool) -> tuple[float, float]:
    """The ends of the scale for the new one and the old one, against the new one or for it."""
    return bounds if table.lower_is_better != against else (bounds[1], bounds[0])


def compare_scores(data: Any, new: Any, old: Any, options: CompareOptions) -> dict[str, ScoreDifference]:
    """How the scores of two models differ, by metric; without data (None), those of two sources of one model each."""
    tables, new, old = scores_of_two(data, new, old, options)
    return {table.metric: difference_of_scores(table, new, old, options) for table in tables}


def scores_of_two(data: Any, new: Any, old: Any, options: CompareOptions) -> tuple[list[ScoreTable], str, str]:
    """The scores by metric, and the two models; without data (None), those of two sources of one model each."""
    check_no_battles(options)
    if data is not None:
        return read_to_compare_scores(data, options), new, old
    new, old = Opened.of(new), Opened.of(old)
    files = [source.data for source in (new, old) if isinstance(source.data, str | Path)]
    both = Opened(files, like=new) if len(files) == 2 else Opened({"new": new, "old": old})
    tables = read_to_compare_scores(both, options)
    return tables, *_models_of_sources(tables[0], new, old)


def _models_of_sources(table: ScoreTable, *sources: Opened) -> tuple[str, str]:
    """The models of two sources, of which each holds one."""
    names = []
    for source, side, models in zip(sources, ("new", "old"), table.sources, strict=True):
        where = str(source.data) if isinstance(source.data, str | Path) else side
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
    tables, against = read_with_clusters(data, options, options.by or ()), no_go(data)
    return [structs.replace(table, against=against) for table in tables]


def cluster_of(options: CompareOptions | ScoreBoardOptions) -> str | None:
    """The column of prompts that depend on each other; None: each stands for itself."""
    return None if options.cluster in (None, PROMPT, "question_id", "none") else options.cluster


def read_with_clusters(
    data: Any, options: CompareOptions | ScoreBoardOptions, more: Sequence[str] = ()
) -> list[ScoreTable]:
    """The scores with the column of clusters, and others."""
    columns = [*more, *filter(None, [cluster_of(options)])]
    return read_scores(data, **vars(replace(options.part(ReadScoresOptions), columns=columns)))


def cluster_codes(table: ScoreTable, cluster: str, prompts: Any) -> Ints:
    """The cluster of each of these prompts, all of which must have one."""
    codes = table.columns[cluster].codes[prompts]
    if (codes < 0).any():
        without = int((codes < 0).sum())
        raise ScoreError(f"{without} prompts have no {cluster}: fill the column in, or cluster by another.")
    return np.asarray(codes, dtype=np.int64)


def check_no_battles(options: Options) -> None:
    """Refuse options that only battles have."""
    options.refuse(ABOUT_BATTLES, " is about battles, and these are scores: leave it out.")
    if "dimension" in options.given():
        named = OptionValue("score", options.given()["dimension"])
        options.refuse(["dimension"], " is about battles, and these are scores: ", named, " names the metric.")


def difference_of_scores(table: ScoreTable, new: str, old: str, options: CompareOptions) -> ScoreDifference:
    """How the mean score of a new model differs from that of an old one, and how sure that is."""
    if new == old:
        raise OptionError(f"{new!r} is compared with itself: give two different models, the new one first.")
    check_no_battles(options)
    level, everyone = level_for(options), table
    table = table.only(new, old)
    _check_same_unit(table, new, old)
    scores: PairedScores | UnpairedScores
    if table.prompts:
        scores = PairedScores.of(table, (new, old), options)
    else:
        scores = UnpairedScores.of(table, (new, old), options)
    found, missing = scores.estimate(), scores.missing(options.missing)
    facts = scores.facts(found, options, level)
    low, high = found.ends(level)
    new_mean, old_mean = scores.mean_scores
    n = facts.get("n_prompts", facts["n_answers"])
    result = ScoreDifference(
        new=new,
        old=old,
        estimate=_estimated(cases_of(found, missing, anytime=options.anytime), level, n),
        contrast=found,
        level=level,
        left_out=table.skipped,
        anytime=options.anytime,
        missing=missing,
        best_of=_best_of(everyone, new, old),
        score_unit=unit_of(table, None if low is None or high is None else (high - low) / 2),
        metric=table.metric,
        new_mean=new_mean,
        old_mean=old_mean,
        shares=table.shares,
        lower_is_better=table.lower_is_better,
        direction=table.direction,
        ratio=_ratio(scores, level, anytime=options.anytime),
        log=table.log,
        beside=table.beside,
        **facts,
    )
    doubt = result.doubt()
    result = replace(result, obstacles=table.against if doubt is None else (*table.against, doubt))
    return for_picked(result, options.picked_from)


def _best_of(table: ScoreTable, new: str, old: str) -> int | None:
    """Among how many models the new one is furthest above the old one, each on the prompts that both have."""
    names = [name for name, scores in table.models.items() if name != old and (scores.count > 0).any()]
    gains = np.full(len(names), np.nan)
    for place, name in enumerate(names if len(names) > 1 else ()):
        if table.prompts:
            differences = PairedScores.of(table, (name, old), CompareOptions()).both.differences
        else:
            differences = _sign(table) * table[name].mean[table[name].count > 0]
        gains[place] = differences.mean() if len(differences) else np.nan
    return candidates(gains, names.index(new), None)


def _check_same_unit(table: ScoreTable, new: str, old: str) -> None:
    """Refuse a share from 0 to 1 beside a percentage from 0 to 100."""
    for name, other in ((new, old), (old, new)):
        share, hundred = table[name], table[other]
        if 0 <= share.low <= share.high <= 1 and hundred.low >= 0 and 20 < hundred.high <= 100 and not table.bounds:
            raise ScoreError(
                f"{name} has scores from {share.low:g} to {share.high:g}, and {other} from {hundred.low:g} to "
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


def _estimated(cases: Cases, level: float, n: int) -> EstimatedDifference:
    low, high = cases.ends(level)
    return EstimatedDifference(cases.found.points, low, high, cases.probability_better, None, None, None, n)


def _ratio(scores: PairedScores | UnpairedScores, level: float, *, anytime: bool) -> Ratio | None:
    """How many times the old score the new one typically is; None where that is not known, or says nothing."""
    if not has_ratio(scores.table):
        return None
    ratio = scores.ratio()
    low, high = ratio.ends(level, anytime=anytime)
    return None if low is None or high is None else Ratio(math.exp(ratio.value), math.exp(low), math.exp(high))


def _parts(everything: PairedScores, options: CompareOptions, level: float) -> Iterator[PartDifference]:
    """The difference within each value of the columns asked for, or of those that look like categories."""
    for column in options.by or [name for name in PARTS if name in everything.table.columns]:
        codes = everything.table.columns[column]
        here = codes.codes[everything.prompts]
        values = np.unique(here[here >= 0]).tolist()
        if len(values) < 2 or (options.by is None and len(values) > MANY_VALUES):
            continue
        for code in values:
            inside = everything.only(here == code)
            part = PartDifference(column, codes.labels[code], missing=inside.missing(options.missing))
            n_prompts = len(inside.both.prompts)
            if not n_prompts:
                yield structs.replace(part, reason="no prompt has a score of both")
                continue
            found = inside.estimate()
            cases = cases_of(found, part.missing, anytime=options.anytime)
            estimate = _estimated(cases, shared_level(level, len(values)), n_prompts)
            yield structs.replace(part, estimate=estimate, contrast=found, means=inside.mean_scores)


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
    return tuple(PromptScore(names[int(pairs.prompts[i])], *means[:, i].tolist()) for i in places)


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


def _remarks(everything: PairedScores, result: ScoreEstimate) -> list[str]:
    """What the reader should know, and what the file cannot say."""
    table, names, cluster = everything.table, everything.names, everything.cluster
    pairs, remarks = everything.both, []
    one_sided = int((np.isnan(everything.means).sum(axis=0) == 1).sum())
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
    counts = [table[name].count[place] for name, place in zip(names, _common(table, names), strict=True)]
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
    scores, places = [table[name] for name in names], _common(table, names)
    new, old = (some.mean[place] for some, place in zip(scores, places, strict=True))
    variances = [np.nan_to_num(some.variance[place]) for some, place in zip(scores, places, strict=True)]
    counts = [some.count[place] for some, place in zip(scores, places, strict=True)]
    return repeat_noise(new - old, (variances[0], variances[1]), (counts[0], counts[1]))


def _common(table: ScoreTable, names: tuple[str, str]) -> tuple[Ints, Ints]:
    return common_prompts(table[names[0]], table[names[1]])

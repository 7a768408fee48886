"""The scores of a run: rows, boards of means, the judge's use of its scale, people's scores, and pairs beside them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from tiltyard.analysis.decisions import ScoreBoard
from tiltyard.analysis.decisions.score_board import score_board
from tiltyard.data.battles import Source
from tiltyard.data.scores import ReadScoresOptions, ScoreTable, holds_scores, read_scores
from tiltyard.errors import OptionError, TiltyardError
from tiltyard.files import write_json, write_lines
from tiltyard.judge.tournament.artifacts import own_counts
from tiltyard.judge.tournament.config import Setup
from tiltyard.judge.tournament.people import check_label_file
from tiltyard.judge.tournament.plan import MatchList
from tiltyard.judge.verdicts import Case, JudgedAnswer, JudgingResult, Judgment, Scoring, Verdict, scores_of
from tiltyard.render import percent, plural
from tiltyard.stats import (
    FEWEST_LABELLED,
    DrawCheck,
    Trait,
    check_draw,
    corrected_difference,
    kinds,
    score_difference,
    separation,
)
from tiltyard.types import FileStem, Floats

SCORES_FILE, RESULTS_FILE, ANSWERS_FOLDER = "scores.jsonl", "score_results.json", "scores"
CEILING = 0.5
"""From this share of answers with the highest score on, the judge hardly tells good answers apart."""
CLUMPED = 0.8
"""From this share of answers with one score on."""


class ScaleUse(msgspec.Struct, frozen=True, kw_only=True):
    """How a judge uses its scale."""

    answers: int
    """Answers with a score."""
    given: dict[str, int]
    """How often each score was given, lowest first."""
    at_top: float
    """The share with the highest possible score."""
    common: float
    """The share with the commonest score."""

    @classmethod
    def of(cls, scores: Sequence[float], highest: float) -> ScaleUse:
        counts, total = Counter(scores), max(1, len(scores))
        return cls(
            answers=len(scores),
            given={f"{value:g}": counts[value] for value in sorted(counts)},
            at_top=counts[highest] / total,
            common=max(counts.values(), default=0) / total,
        )

    def warning(self, metric: str) -> str | None:
        """What weakens the means; None if the scale is used."""
        most = max(self.given, key=lambda value: self.given[value], default="")
        if len(self.given) == 1:
            return f"{metric}: every answer got {most}, so the scores tell no models apart"
        if {*self.given} <= {"0", "1"}:
            return None  # passed or failed
        if self.at_top >= CEILING:
            return f"{metric}: {percent(self.at_top)} of answers have the highest score; pairs tell them apart better"
        if self.common >= CLUMPED:
            return f"{metric}: {percent(self.common)} of answers have the score {most}; pairs tell them apart better"
        return None


class AgreementWithPeople(msgspec.Struct, frozen=True, kw_only=True):
    """The judge's scores beside people's, answer by answer."""

    answers: int
    """Answers that both scored."""
    correlation: float | None
    """Pearson's correlation; null where either gave one score only."""
    judge_minus_people: float
    """The mean of the judge's score minus people's."""
    equal: float
    """The share of equal scores."""


class CorrectedScore(msgspec.Struct, frozen=True, kw_only=True):
    """The difference of two models on people's scale: people's scores on some prompts, the judge's on all."""

    new: str
    old: str
    difference: float
    low: float | None
    high: float | None
    probability_better: float | None
    judge_weight: float
    """How much the judge's scores count: 0 not at all, 1 as much as people's."""
    labelled: int
    """Prompts that people scored."""


class MetricScores(msgspec.Struct, frozen=True, kw_only=True):
    """One metric of a dimension: the score, or one criterion."""

    metric: str
    board: dict[str, Any] | None
    """The board of means, as `tiltyard rate --format json` gives it; null where there is none."""
    use: ScaleUse
    people: AgreementWithPeople | msgspec.UnsetType = msgspec.UNSET
    corrected: list[CorrectedScore] | msgspec.UnsetType = msgspec.UNSET
    """The differences of models corrected by people's scores; right if these are on a random draw of prompts."""
    random_draw_p: float | msgspec.UnsetType = msgspec.UNSET
    """p-value of that: the prompts that people scored, held against all in what the judge said, kind and length."""
    no_random_draw: str | msgspec.UnsetType = msgspec.UNSET
    """What is wrong with the draw, where p is below 0.05."""


class ScoresAgainstPairs(msgspec.Struct, frozen=True, kw_only=True):
    """The same answers scored and judged in pairs: which tells models apart at lower cost."""

    model_pairs: int
    apart_by_scores: int
    """Pairs of models whose difference of scores excludes zero, each at 95 %."""
    apart_by_pairs: int
    """The same by verdicts on pairs."""
    unit: str
    """What costs are in: `USD`, `tokens` or `questions`."""
    score_cost: float
    pair_cost: float
    ratio: float | None
    """What pairs cost, divided by what scores cost, for the same certainty: above 1, scores are cheaper."""
    low: float | None
    high: float | None

    @property
    def sentence(self) -> str:
        told = (
            f"Scores tell {self.apart_by_scores} of {plural(self.model_pairs, 'pair')} of models apart for "
            f"{_cost(self.score_cost, self.unit)}; verdicts on pairs {self.apart_by_pairs} for "
            f"{_cost(self.pair_cost, self.unit)}."
        )
        if self.ratio is None or self.low is None or self.high is None:
            return f"{told} Which is cheaper cannot be told: too few prompts, or no difference by either."
        if self.low > 1:
            return f"{told} For the same certainty pairs cost {_times(self.low)} to {_times(self.high)} times as much."
        if self.high < 1:
            least, most = 1 / self.high, 1 / max(self.low, 1e-9)
            return f"{told} For the same certainty scores cost {_times(least)} to {_times(most)} times as much."
        return f"{told} Which is cheaper for the same certainty cannot be told from these prompts."


def _cost(value: float, unit: str) -> str:
    return f"${value:,.2f}" if unit == "USD" else f"{value:,.0f} {unit}"


def _times(value: float) -> str:
    return "1,000 or more" if value >= 1000 else f"{value:,.0f}" if value >= 10 else f"{value:.1f}"


class DimensionScores(msgspec.Struct, frozen=True, kw_only=True):
    """The scores of one dimension."""

    dimension: FileStem
    scale: str
    criteria: dict[str, float | None]
    """The criteria, with their weights where these are stated."""
    answers: int
    """Answers that were to be scored."""
    failed: int
    """Those without a readable score: they are in no mean."""
    failures: dict[str, int]
    """Questions that ended without a score, by name."""
    missing: int
    """Questions that were never answered."""
    metrics: list[MetricScores]
    people_missing: str | msgspec.UnsetType = msgspec.UNSET
    """Why people's scores correct nothing here."""
    against_pairs: ScoresAgainstPairs | msgspec.UnsetType = msgspec.UNSET

    @property
    def whole(self) -> MetricScores | None:
        """The metric that the dimension is ordered by; None where criteria are not averaged."""
        first = self.metrics[0]
        return first if first.metric == self.dimension else None

    @property
    def n_prompts(self) -> int:
        return max((row["n_prompts"] for one in self.metrics for row in (one.board or {}).get("scores", ())), default=0)

    @property
    def warnings(self) -> list[str]:
        warnings = [one.use.warning(one.metric) for one in self.metrics]
        lines = [line for line in warnings if line is not None]
        if self.failed:
            lines.append(f"{self.dimension}: {self.failed:,} of {self.answers:,} answers have no readable score")
        if self.people_missing is not msgspec.UNSET:
            lines.append(f"{self.dimension}: people's scores correct nothing: {self.people_missing}")
        lines += [f"{one.metric}: {one.no_random_draw}" for one in self.metrics if one.no_random_draw]
        return lines


class ScoreRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row of `scores.jsonl`: the score of one answer by one metric."""

    model: str
    """Whose answer it is."""
    question_id: str
    """The prompt."""
    metric: str
    """The dimension, or `dimension.criterion`."""
    score: float | None
    """The mean over judges and repeats; null where none could be read, or there was no answer."""
    judge_model: str
    """The judge, or the panel."""
    source: str
    """`llm-judge`."""
    scale: str
    """What a score may be: `1-10`, `1-5`, `0-1` or `pass-fail`."""


class AnswerLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line of `scores/<dimension>.jsonl`: an answer, its scores and what the judges said."""

    prompt_id: str
    """The prompt's id."""
    entrant: str
    """Whose answer it is."""
    status: str
    """`ok`, or `failed` where a judge gave no readable score."""
    scores: dict[str, float]
    """By criterion, or under `score`."""
    prompt: str
    """What was asked."""
    response: str
    """The answer."""
    raw: tuple[Verdict, ...]
    """The verdicts of every judge and repeat."""


class RunScores(msgspec.Struct, frozen=True, eq=False):
    """The scores of a run, with the boards as objects for the terminal."""

    dimensions: dict[str, DimensionScores]
    boards: dict[str, list[ScoreBoard]]


def score_rows(
    answers: Mapping[str, Sequence[JudgedAnswer]],
    unanswered: Mapping[str, Mapping[str, Sequence[str]]],
    scoring: Mapping[str, Scoring],
    judge_model: str,
) -> Iterable[ScoreRow]:
    """The rows of `scores.jsonl`: one of each model, prompt and metric; the score is null where there is none.

    There is none where no reply of the judge could be read, and where an entrant did not answer (`unanswered`, by
    dimension and entrant).
    """
    for dimension, own in answers.items():
        how = scoring[dimension]
        lines: list[tuple[str, str, Mapping[str, float]]] = [
            (one.entrant, one.prompt_id, how.values(dimension, one.scores) if one.status == "ok" else {}) for one in own
        ]
        lines += [(name, prompt, {}) for name, some in unanswered.get(dimension, {}).items() for prompt in some]
        for entrant, prompt, values in lines:
            for metric in how.metrics(dimension):
                yield ScoreRow(
                    model=entrant,
                    question_id=prompt,
                    metric=metric,
                    score=values.get(metric),
                    judge_model=judge_model,
                    source=Source.LLM_JUDGE.value,
                    scale=how.scale.name,
                )


def rate_scores(
    folder: Path,
    judged: JudgingResult,
    scoring: Mapping[str, Scoring],
    matches: MatchList,
    usage: Mapping[str, Any],
    people: Path | None,
) -> RunScores:
    """Write the scores of a run, and what follows from them."""
    if not scoring:
        for name in (SCORES_FILE, RESULTS_FILE):
            (folder / name).unlink(missing_ok=True)
    for path in (folder / ANSWERS_FOLDER).glob("*.jsonl"):
        if path.stem not in scoring:
            path.unlink()
    if not scoring:
        return RunScores({}, {})
    answers = {dimension: judged.answers[scores_of(dimension)] for dimension in scoring}
    rows = list(score_rows(answers, matches.unanswered, scoring, judged.judge_model))
    write_lines(folder / SCORES_FILE, rows)
    results, boards = {}, {}
    for dimension, how in scoring.items():
        scored, cases = answers[dimension], matches.answers[dimension]
        lines = (
            AnswerLine(
                prompt_id=one.prompt_id,
                entrant=one.entrant,
                status=one.status,
                scores=one.scores,
                prompt=case.prompt.whole_text,
                response=case.response_a,
                raw=one.raw,
            )
            for one, case in zip(scored, cases, strict=True)
        )
        write_lines(folder / ANSWERS_FOLDER / f"{dimension}.jsonl", lines)
        metrics, boards[dimension], why = _metrics(dimension, how, cases, rows, people)
        pairs, counts = judged.judgments.get(dimension), own_counts(judged, scores_of(dimension))
        results[dimension] = DimensionScores(
            dimension=dimension,
            scale=how.scale.name,
            criteria=dict(zip(how.criteria, how.weights or (None,) * len(how.criteria), strict=True)),
            answers=len(scored),
            failed=sum(one.status != "ok" for one in scored),
            failures=dict(counts.failed_verdicts),
            missing=counts.missing_verdicts,
            metrics=metrics,
            people_missing=why or msgspec.UNSET,
            against_pairs=msgspec.UNSET if pairs is None else _against_pairs(how, dimension, scored, pairs, usage),
        )
    write_json(folder / RESULTS_FILE, msgspec.to_builtins(results))
    return RunScores(results, boards)


def _metrics(
    dimension: str, how: Scoring, cases: Sequence[Case], rows: list[ScoreRow], people: Path | None
) -> tuple[list[MetricScores], list[ScoreBoard], str | None]:
    """The metrics of a dimension, their boards, and why people's scores correct nothing, if so."""
    theirs, why = _people_tables(people, how, dimension) if people is not None else ({}, None)
    metrics, boards = [], []
    for metric in how.metrics(dimension):
        own = [row for row in rows if row.metric == metric]
        scored = [row.score for row in own if row.score is not None]
        table = None
        if scored:
            kept = [{name: getattr(row, name) for name in ("model", "question_id", "metric", "score")} for row in own]
            table = read_scores(kept, score=[f"{metric}:higher"], bounds=(how.scale.low, how.scale.high))[0]
        board = None if table is None else score_board(table)
        boards += [] if board is None else [board]
        both: Any = msgspec.UNSET
        corrected: Any = msgspec.UNSET
        draw: DrawCheck | None = None
        if table is not None and metric in theirs:
            both, corrected = _agreement(table, theirs[metric]), _corrected(table, theirs[metric], how)
            if not corrected:
                why = f"fewer than {FEWEST_LABELLED} prompts have people's scores of two models"
            else:
                draw = _draw(table, theirs[metric], cases)
        metrics.append(
            MetricScores(
                metric=metric,
                board=None if board is None else board.to_dict(),
                use=ScaleUse.of(scored, how.scale.high),
                people=both or msgspec.UNSET,
                corrected=corrected or msgspec.UNSET,
                random_draw_p=msgspec.UNSET if draw is None else draw.p,
                no_random_draw=draw.sentence("prompts") if draw is not None and draw.alarms else msgspec.UNSET,
            )
        )
    return metrics, boards, why


# People's scores


def people_score(path: Path | None) -> bool:
    """Whether a file that people filled in holds scores, not labels of pairs."""
    return path is not None and holds_scores(path, ReadScoresOptions())


def check_people(path: Path, setup: Setup) -> None:
    """Refuse what people filled in if it cannot be read, or is not about what is judged, before anything is asked."""
    task = setup.config.judge.task
    if not people_score(path):
        if task == "scores":
            raise OptionError(
                f"{path} has labels of pairs, and judge.task is scores. Give people's scores, or judge both."
            )
        check_label_file(path)
        return
    if task == "pairs":
        raise OptionError(f"{path} has scores, and judge.task is pairs. Give labels of pairs, or judge both.")
    for dimension, how in setup.scoring.items():
        _, why = _people_tables(path, how, dimension)
        if why is not None:
            raise OptionError(f"{path}: {why}")


def _people_tables(path: Path, how: Scoring, dimension: str) -> tuple[dict[str, ScoreTable], str | None]:
    """People's scores by metric, and why there are none."""
    try:
        tables = read_scores(path, bounds=(how.scale.low, how.scale.high))
    except TiltyardError as error:
        return {}, str(error)
    names = how.metrics(dimension)
    by_metric = {table.metric: table for table in tables if table.metric in names}
    if not by_metric and len(tables) == 1 and len(names) == 1:
        by_metric = {names[0]: tables[0]}
    if not by_metric:
        return {}, f"no metric of it is {' or '.join(names)}. Name them in a column metric."
    return by_metric, None


def _means(table: ScoreTable, model: str) -> dict[str, float]:
    if model not in table.models:
        return {}
    own = table[model]
    return {table.prompts[int(p)]: float(m) for p, m, n in zip(own.prompts, own.mean, own.count, strict=True) if n > 0}


def _agreement(table: ScoreTable, people: ScoreTable) -> AgreementWithPeople | None:
    ours, theirs = [], []
    for model in table.models:
        judge, human = _means(table, model), _means(people, model)
        for prompt in sorted(judge.keys() & human.keys()):
            ours.append(judge[prompt])
            theirs.append(human[prompt])
    if not ours:
        return None
    one, other = np.array(ours), np.array(theirs)
    varied = len(one) > 2 and np.ptp(one) > 0 and np.ptp(other) > 0
    return AgreementWithPeople(
        answers=len(one),
        correlation=float(np.corrcoef(one, other)[0, 1]) if varied else None,
        judge_minus_people=float(np.mean(one - other)),
        equal=float(np.mean(one == other)),
    )


def _corrected(table: ScoreTable, people: ScoreTable, how: Scoring) -> list[CorrectedScore]:
    """The difference of every two models on people's scale, where enough prompts have people's scores of both."""
    reach, lines = how.scale.high - how.scale.low, []
    best_first = sorted(table.models, key=lambda name: -sum(_means(table, name).values()))
    for new, old in combinations(best_first, 2):
        judge = [_means(table, name) for name in (new, old)]
        human = [_means(people, name) for name in (new, old)]
        scored = judge[0].keys() & judge[1].keys()
        labelled = sorted(scored & human[0].keys() & human[1].keys())
        if len(labelled) < FEWEST_LABELLED:
            continue
        others = sorted(scored.difference(labelled))
        one = corrected_difference(
            np.array([human[0][name] - human[1][name] for name in labelled]),
            np.array([judge[0][name] - judge[1][name] for name in labelled]),
            np.array([judge[0][name] - judge[1][name] for name in others]),
            max(table.spread, people.spread),
            range_of_scores=reach,
        )
        low, high = one.estimate.ends(0.95)
        lines.append(
            CorrectedScore(
                new=new,
                old=old,
                difference=one.estimate.value,
                low=low,
                high=high,
                probability_better=one.estimate.probability_above(),
                judge_weight=one.weight,
                labelled=one.labelled,
            )
        )
    return lines


def _draw(table: ScoreTable, people: ScoreTable, cases: Sequence[Case]) -> DrawCheck:
    """The prompts on which people scored two models or more, held against all that the judge scored."""
    judge, human = ([_means(one, model) for model in table.models] for one in (table, people))
    answers: dict[str, list[Case]] = {}
    for case in cases:
        answers.setdefault(case.prompt.prompt_id, []).append(case)
    scored = {prompt for own in judge for prompt in own}
    names = [name for name in answers if name in scored]
    labelled = np.array([sum(name in own for own in human) > 1 for name in names])
    scores = np.array([[own.get(name, np.nan) for own in judge] for name in names])
    mean = np.nanmean(scores, axis=1)
    prompts = [answers[name][0].prompt for name in names]
    lengths = [float(np.mean([len(case.response_a) for case in answers[name]])) for name in names]
    traits = [
        Trait("the judge's mean score", mean),
        Trait("how far apart the judge's scores are", np.nanmax(scores, axis=1) - np.nanmin(scores, axis=1)),
        Trait("the length of the prompt", np.array([float(len(one.whole_text)) for one in prompts])),
        Trait("the length of the answers", np.array(lengths)),
        Trait("the place in the file", np.arange(1.0, len(names) + 1.0)),
    ]
    for model, own in zip(table.models, scores.T, strict=True):
        traits.append(Trait(f"what the judge gives {model} above the mean", own - mean))
    columns = dict.fromkeys(name for one in prompts for name in one.columns)
    for column in ("source", "subject", "language"):
        traits += kinds(column, [getattr(one, column) for one in prompts])
    for column in columns:
        values = [one.columns.get(column) for one in prompts]
        traits += kinds(column, [None if value is None else str(value) for value in values])
    return check_draw(traits, labelled, np.random.default_rng(0))


# Scores against pairs


def _against_pairs(
    how: Scoring,
    dimension: str,
    answers: Sequence[JudgedAnswer],
    judgments: Sequence[Judgment],
    usage: Mapping[str, Any],
) -> ScoresAgainstPairs | msgspec.UnsetType:
    """The same answers judged both ways, on the prompts that both could read; unset where there are too few."""
    metric = how.metrics(dimension)[0]
    scores = {
        (one.prompt_id, one.entrant): how.values(dimension, one.scores)[metric] for one in answers if one.status == "ok"
    }
    won: dict[tuple[str, str], dict[str, list[float]]] = {}
    for one in judgments:
        if one.status == "ok":
            value = 0.0 if one.winner is None else 0.5 if one.winner == one.entrant_a else -0.5
            won.setdefault((one.entrant_a, one.entrant_b), {}).setdefault(one.prompt_id, []).append(value)
    prompts = sorted(
        set.intersection(*({p for p in own if (p, a) in scores and (p, b) in scores} for (a, b), own in won.items()))
        if won
        else ()
    )
    if len(prompts) < 2:
        return msgspec.UNSET
    by_scores: list[Floats] = [np.array([scores[p, a] - scores[p, b] for p in prompts]) for a, b in won]
    by_pairs: list[Floats] = [np.array([np.mean(own[p]) for p in prompts]) for own in won.values()]
    spread = max(scores.values()) - min(scores.values())
    unit, score_cost, pair_cost = _costs(usage["dimensions"], dimension)
    result = separation((by_scores, spread, score_cost), (by_pairs, 1.0, pair_cost), np.random.default_rng(0))
    return ScoresAgainstPairs(
        model_pairs=len(won),
        apart_by_scores=sum(_apart(values, spread) for values in by_scores),
        apart_by_pairs=sum(_apart(values, 1.0) for values in by_pairs),
        unit=unit,
        score_cost=score_cost,
        pair_cost=pair_cost,
        ratio=result.ratio,
        low=result.low,
        high=result.high,
    )


def _apart(differences: Floats, spread: float) -> bool:
    low, high = score_difference(differences, spread).ends(0.95)
    return low is not None and high is not None and not low <= 0.0 <= high


def _costs(usage: Mapping[str, Any], dimension: str) -> tuple[str, float, float]:
    """What scoring and judging in pairs cost, whichever command asked: in USD, else in tokens, else in questions."""
    scores, pairs = (usage[name]["verdicts"] for name in (scores_of(dimension), dimension))
    if scores["cost_usd"] and pairs["cost_usd"]:
        return "USD", scores["cost_usd"], pairs["cost_usd"]
    tokens = [sum(value for name, value in one.items() if name.endswith("_tokens")) for one in (scores, pairs)]
    if all(tokens):
        return "tokens", float(tokens[0]), float(tokens[1])
    return "questions", float(scores["count"]), float(pairs["count"])

"""From judgments to numbers: permutation Elo, Bradley–Terry and win rates, per dimension."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec
import numpy as np

from tiltyard.analysis.boards import CENTRE, BradleyTerry, Coefficient, Leaderboard, RatingsFile, coefficients
from tiltyard.analysis.decisions import mean_result, results_of_a
from tiltyard.analysis.decisions.contrast import contrast
from tiltyard.data.bank import STYLE, AnswerStyles
from tiltyard.data.battles import BattleTable, Codes, Outcome, Source
from tiltyard.errors import TiltyardError
from tiltyard.judge.tournament.config import EloSettings
from tiltyard.judge.verdicts import MOST_INCONSISTENT, BiasCounts, Case, Judgment, to_battle
from tiltyard.render import Table
from tiltyard.stats import NO_ESTIMATE, Estimate, elo, win_rate
from tiltyard.types import Floats

LEVEL = 0.95

INTERVAL = (
    "by prompt; the outer ends of a logit interval with leave-one-out residuals (CR3) and of Wilson's interval with "
    "one won and one lost prompt added, with Student's quantile"
)


class ControlledRate(msgspec.Struct, frozen=True):
    """A win rate with style controlled, between 0 and 1, and its interval; an end is None where nothing bounds it."""

    win_rate: float
    low: float | None
    high: float | None


class BaselineRate(msgspec.Struct, frozen=True, kw_only=True):
    """One entrant against the baseline. Inconsistent judgments are among the ties; failed ones are in no count."""

    entrant: str
    """The entrant."""
    win_rate: float
    """Its mean result against the baseline: 1 for a win, a half for a tie; a soft score where the judge gave one."""
    low: float
    """Lower end of the interval."""
    high: float
    """Upper end of the interval."""
    length_controlled: ControlledRate | None = None
    """The win rate if both answers were equally long."""
    style_controlled: ControlledRate | None = None
    """The win rate if both answers had equal length, headings, lists and bold passages."""
    wins: int
    """Battles it won."""
    losses: int
    """Battles it lost."""
    ties: int
    """Battles that were tied."""
    inconsistent: int
    """Of the ties, those in which the two orders disagreed."""
    prompts: int
    """Prompts on which it met the baseline."""
    mean_length: float | None = None
    """Mean length of its answers in characters."""


class StyleEffect(msgspec.Struct, frozen=True, kw_only=True):
    """What a style control found: what a typical difference in each feature is worth, in rating points."""

    features: tuple[str, ...]
    """The features that were controlled for."""
    points: dict[str, Coefficient] = {}
    """By feature: `points` of a typical difference, and `ci_low` and `ci_high`."""
    missing: str | None = None
    """Why there is no controlled win rate, if so."""


class BaselineTable(msgspec.Struct, frozen=True, kw_only=True):
    """The win rates of one dimension against the baseline, best first: a part of `baseline.json`."""

    baseline: str
    """The entrant that all others were judged against."""
    rates: tuple[BaselineRate, ...]
    """The others, best first."""
    length: StyleEffect
    """The control for length."""
    style: StyleEffect
    """The control for length, headings, lists and bold passages."""
    mean_length: float | None = None
    """Mean length of the baseline's answers in characters."""
    level: float = LEVEL
    """Confidence level of every interval."""
    interval: str = INTERVAL
    """How the intervals of the plain rates are made."""


def rate_against(table: BattleTable, baseline: str) -> BaselineTable | None:
    """The win rates of everyone else against the baseline; None without a battle.

    A style is controlled for where the battles have the columns of `STYLE`.
    """
    if not len(table):
        return None
    others = [name for name in table.models if name != baseline]
    pairs = {name: (f"{name}_a", f"{name}_b") for name in STYLE if f"{name}_a" in table.columns}
    varying = tuple(n for n, (a, b) in pairs.items() if (table.number_column(a) != table.number_column(b)).any())
    length, by_length = _controlled(table, baseline, others, tuple(name for name in varying if name == "len"))
    style, by_style = _controlled(table, baseline, others, varying)
    rates = [_one_rate(table, name, by_length.get(name), by_style.get(name)) for name in others]
    return BaselineTable(
        baseline=baseline,
        rates=tuple(sorted(rates, key=lambda one: (-one.win_rate, one.entrant))),
        length=length,
        style=style,
        mean_length=_mean_length(table, baseline),
    )


def _one_rate(
    table: BattleTable, entrant: str, length: ControlledRate | None, style: ControlledRate | None
) -> BaselineRate:
    """An entrant's win rates. In every battle of the table one side is the baseline."""
    code = table.models.index(entrant)
    on_a = table.model_a == code
    ours = on_a | (table.model_b == code)
    result = np.where(on_a, results_of_a(table), 1.0 - results_of_a(table))[ours]
    prompts = table.text_column("question_id").codes[ours]
    rate = win_rate(result, prompts)
    won = ours & (table.outcome == np.where(on_a, Outcome.A.code, Outcome.B.code))
    tied = ours & (table.outcome == Outcome.TIE.code)
    return BaselineRate(
        entrant=entrant,
        win_rate=rate.value or 0.0,
        low=rate.low or 0.0,
        high=1.0 if rate.high is None else rate.high,
        length_controlled=length,
        style_controlled=style,
        wins=int(won.sum()),
        losses=int((ours & ~won & ~tied).sum()),
        ties=int(tied.sum()),
        inconsistent=int((ours & (table.number_column("inconsistent") == 1.0)).sum()),
        prompts=len(np.unique(prompts)),
        mean_length=_mean_length(table, entrant),
    )


def _mean_length(table: BattleTable, entrant: str) -> float | None:
    """The mean length of an entrant's answers, each prompt counted once per battle."""
    if "len_a" not in table.columns:
        return None
    code = table.models.index(entrant)
    lengths = table.number_column("len_a")[table.model_a == code], table.number_column("len_b")[table.model_b == code]
    return float(np.concatenate(lengths).mean())


def _controlled(
    table: BattleTable, baseline: str, others: Sequence[str], features: tuple[str, ...]
) -> tuple[StyleEffect, Mapping[str, ControlledRate]]:
    """What a control found, and the win rate of each entrant without the difference in style; or why there is none."""
    if not features:
        missing = "the answers do not differ" if "len_a" in table.columns else "the answers were not measured"
        return StyleEffect(features=(), missing=missing), {}
    try:
        solved = BradleyTerry(ties="half", control=features, misfit=False).solve(table)
    except TiltyardError as error:
        why = str(error).split(". ")[0]
        missing = f"the battles do not tell the entrants from their style ({why})"
        return StyleEffect(features=features, missing=missing), {}
    rates = {}
    for name in others:
        difference = contrast(solved, name, baseline)
        low, high = difference.ends(LEVEL)
        rate = mean_result(solved, difference.points)
        assert rate is not None
        rates[name] = ControlledRate(rate, mean_result(solved, low), mean_result(solved, high))
    points = coefficients(list(features), solved.fit, solved.covariance, LEVEL)
    return StyleEffect(features=features, points=points), rates


def baseline_text(table: BaselineTable) -> str:
    """The table for people, in per cent, and below it what the controls found."""
    head = ["entrant", "win rate", "95 % interval", "length-controlled", "style-controlled", "W", "L", "T", "length"]
    rows = [
        [
            one.entrant,
            f"{100 * one.win_rate:.1f}",
            interval_text(one.low, one.high),
            controlled_text(one.length_controlled),
            controlled_text(one.style_controlled),
            *(f"{count:,}" for count in (one.wins, one.losses, one.ties)),
            "–" if one.mean_length is None else f"{one.mean_length:,.0f}",
        ]
        for one in table.rates
    ]
    lines = Table.of(head, rows).text()
    title = f"Win rate against {table.baseline} in %, ties half; 95 % intervals by prompt"
    return "\n".join([title, *lines, lines[1], *control_notes(table)])


def interval_text(low: float | None, high: float | None) -> str:
    """An interval of a rate in per cent, with an ellipsis on an open side."""
    ends = ["…" if end is None else f"{100 * end:.1f}" for end in (low, high)]
    return f"{ends[0]} – {ends[1]}"


def controlled_text(rate: ControlledRate | None) -> str:
    """A controlled rate with its interval, in per cent."""
    return "–" if rate is None else f"{100 * rate.win_rate:.1f} ({interval_text(rate.low, rate.high)})"


def control_notes(table: BaselineTable) -> list[str]:
    """What the controls found, or why there is no controlled rate, in sentences."""
    notes = []
    controls = [("length", table.length)]
    controls += [("style", table.style)] if table.style.features != table.length.features else []
    for what, effect in controls:
        if effect.missing is not None:
            notes.append(f"not controlled for {what}: {effect.missing}")
        for name, worth in effect.points.items():
            points, low, high = worth.points, worth.ci_low, worth.ci_high
            ends = "no interval" if low is None or high is None else f"{low:+.1f} … {high:+.1f}"
            notes.append(f"{what} control, {name}: {points:+.1f} points ({ends}) per typical difference")
    return notes


EVEN = 0.5


class JudgeHabits(msgspec.Struct, frozen=True):
    """How a judge behaved in one dimension. Intervals are clustered by prompt."""

    flips: Estimate
    """Of the judgments read in both orders, the share that changed with the order."""
    first_slot: Estimate
    """Of the verdicts for one answer, the share for the one shown first; 0.5 without position bias."""
    longer: Estimate
    """Of the decisive judgments on answers of unequal length, the share won by the longer one."""
    repeats: Estimate = NO_ESTIMATE
    """Of every two verdicts on one question that was repeated, the share that is the same."""

    @property
    def unreliable(self) -> bool:
        """Whether the order of the answers decides so often that the board says little about the entrants."""
        return self.flips.value is not None and self.flips.value > MOST_INCONSISTENT

    def lines(self) -> list[str]:
        if self.flips.value is None and self.first_slot.value is None:
            return []
        lines = []
        if self.flips.value is not None:
            flipped = (
                f"changed its verdict with the order of the answers in {round(self.flips.value * self.flips.n):,} of "
                f"{self.flips.n:,} judgments ({100 * self.flips.value:.0f} %)"
            )
            lines.append(
                f"WARNING: the judge {flipped}. A judge that guesses does so in 50 to 67 %: this board says more about "
                "the judge than about the entrants. Try another judge or a clearer rubric"
                if self.unreliable
                else f"judge: {flipped}"
                + ("; these count as ties, which pulls ratings together" if self.flips.value else "")
            )
        if self.repeats.value is not None:
            lines.append(f"judge: asked again, gave the same verdict in {_percent(self.repeats)} of repeats")
        if is_uneven(self.first_slot):
            which = "first" if (self.first_slot.value or 0) > EVEN else "second"
            means = "It saw one order only, so whoever was shown there is rated too high"
            if self.flips.value is not None:
                means = "Both orders were judged, so this favours no entrant, but it turns wins into ties"
            lines.append(
                f"judge: preferred the answer shown {which}; the first one got {_percent(self.first_slot)} of its "
                f"choices. {means}"
            )
        if is_uneven(self.longer):
            which = "longer" if (self.longer.value or 0) > EVEN else "shorter"
            lines.append(
                f"judge: {which} answers won more often; the longer one won {_percent(self.longer)} of decisive "
                f"judgments. If {which} is not better here, say so in the rubric: part of the ratings may be length"
            )
        if not (is_uneven(self.first_slot) or is_uneven(self.longer) or self.unreliable):
            lines.append("judge: no clear preference for the answer shown first, or for the longer one, was found")
        return lines


def panel_warnings(study: Mapping[str, Any], combine: str) -> list[str]:
    """What a reader of a panel's board should know: ties that are disagreements, and judges that go by the order."""
    lines = []
    judges, split = study["judges"], study["no_majority"]
    if split and combine != "rows":
        two = len(judges) == 2
        why, keeps = ("the two judges disagreed", "both") if two else ("no result had the most votes", "every verdict")
        lines.append(
            f"{split:,} of {study['matchups']:,} matchups became ties because {why}; combine: rows keeps {keeps}"
        )
    return lines + [
        f"WARNING: {row['judge']} changed its verdict with the order of the answers in {100 * rate:.0f} % of its "
        "judgments, which then name no winner. Leave it out of the panel, or try a clearer rubric"
        for row in judges
        if (rate := row["bias"]["flip_rate"]["value"]) is not None and rate > MOST_INCONSISTENT
    ]


def is_uneven(estimate: Estimate) -> bool:
    """Whether a share is above or below one half by more than chance."""
    return estimate.low is not None and estimate.high is not None and not estimate.low <= EVEN <= estimate.high


def _percent(estimate: Estimate) -> str:
    low, high = estimate.low or 0.0, estimate.high or 0.0
    return f"{100 * (estimate.value or 0.0):.0f} % ({100 * low:.0f} to {100 * high:.0f})"


class EloLine(msgspec.Struct, frozen=True):
    """One entrant's permutation Elo: mean, shuffle error, and a sampling interval over prompts."""

    entrant_id: str
    """The entrant."""
    mean: float
    """Mean rating over the shuffles."""
    sem: float | None
    """Standard error of that mean over shuffles: shuffle error only. None where every order gives the same rating."""
    ci95_low: float | None
    """Mean − 1.96 SEM: shuffle error only."""
    ci95_high: float | None
    """Mean + 1.96 SEM: shuffle error only."""
    sampling_low: float | None = None
    """Lower end of the sampling interval."""
    sampling_high: float | None = None
    """Upper end of the sampling interval."""


class PairTally(msgspec.Struct, frozen=True):
    """How two entrants, in alphabetical order, did against each other in a dimension: a row of `pairwise_winrates.csv`.

    An inconsistent judgment is also a tie; a failed one is in no count.
    """

    dimension: str
    entrant_a: str
    entrant_b: str
    a_wins: int = 0
    b_wins: int = 0
    ties: int = 0
    inconsistent: int = 0


class DimensionRatings(msgspec.Struct, frozen=True, eq=False):
    """The numbers of one dimension. Without a decisive match `elo`, `sweep` and `traces` are empty."""

    dimension: str
    n_decisive: int
    elo: Mapping[str, EloLine]
    sweep: Mapping[float, Mapping[str, EloLine]]
    traces: Floats
    entrants: tuple[str, ...]
    pairs: tuple[PairTally, ...]
    battles: BattleTable
    board: RatingsFile | None
    board_missing: str | None
    """Why there is no Bradley–Terry board, if so."""
    leaderboard: Leaderboard | None
    habits: JudgeHabits
    against: BaselineTable | None = None


def rate_dimension(
    dimension: str,
    judgments: Iterable[Judgment],
    settings: EloSettings,
    judge: str,
    *,
    cases: Sequence[Case] | None = None,
    styles: AnswerStyles | None = None,
    baseline: str | None = None,
    level: float = 0.95,
    amend: Callable[[Leaderboard], Leaderboard] | None = None,
) -> DimensionRatings:
    """Rate one dimension: permutation Elo over the decisive judgments, Bradley–Terry over all settled ones.

    The judgments are iterated once and need not fit in memory: some forty bytes are kept of each.

    Parameters:
        dimension: What is judged; each dimension has one rubric.
        judgments: Settled judgments.
        settings: Settings of permutation Elo.
        judge: The judge's name, for the ratings file.
        cases: What the judgments are about, in the same order, for the style of the answers and to see whether the
            judge prefers longer ones.
        styles: Styles that were measured before, in another dimension; new ones are added.
        baseline: The entrant that everyone else met: the board is anchored at it.
        level: Level of the Bradley–Terry intervals.
        amend: Changes the Bradley–Terry board before it is written: adaptive rounds add what they decided.
    """
    counts = BiasCounts()

    def counted() -> Iterator[Judgment]:
        for place, judgment in enumerate(judgments):
            counts.add(judgment)
            if judgment.winner is not None and cases is not None:
                case = cases[place]
                longer = len(case.response_a) - len(case.response_b)
                if longer:
                    counts.count("longer", judgment.prompt_id, (judgment.winner == judgment.entrant_a) == (longer > 0))
            yield judgment

    battles = settled_battles(dimension, counted(), cases, styles)
    table = replace(battles, columns={name: battles.columns[name] for name in ("question_id", "judge_model")})
    anchor = None if baseline is None else (baseline, CENTRE)
    board, why = None, None if len(table) else "no judgment was settled"
    try:
        if len(table):
            board = BradleyTerry(only_connected=True, anchor=anchor, level=level).fit(table)
    except TiltyardError as error:
        why = str(error)
    if board is not None and amend is not None:
        board = amend(board)
    decisive = table.take(table.outcome != Outcome.TIE.code).compact()
    lines: dict[str, EloLine] = {}
    sweep: dict[float, dict[str, EloLine]] = {}
    traces = np.empty((0, 0))
    if len(decisive):
        lines, sweep, traces = _permutation_elo(decisive, settings)
    return DimensionRatings(
        dimension=dimension,
        n_decisive=len(decisive),
        elo=lines,
        sweep=sweep,
        traces=traces,
        entrants=decisive.models if len(decisive) else (),
        pairs=_tallies(dimension, battles),
        battles=battles,
        board=None if board is None else RatingsFile.of(board, arena=dimension, judge_model=judge),
        board_missing=why,
        leaderboard=board,
        habits=JudgeHabits(*map(counts.rate, ("flip_rate", "first_slot_rate", "longer", "repeat_rate"))),
        against=None if baseline is None else rate_against(battles, baseline),
    )


def _permutation_elo(
    decisive: BattleTable, settings: EloSettings
) -> tuple[dict[str, EloLine], dict[float, dict[str, EloLine]], Floats]:
    a, b, a_won = decisive.model_a, decisive.model_b, decisive.outcome == Outcome.A.code
    result = elo.permutation_elo(
        a,
        b,
        a_won,
        n_models=len(decisive.models),
        k=settings.default_k,
        k_sweep=settings.k_factor_sweep,
        initial_rating=settings.initial_rating,
        n_perms=settings.n_perms,
        seed=settings.shuffle_seed,
    )
    # Prompts are numbered in the order of their first appearance, because resamples depend on the numbering.
    _, first, group = np.unique(decisive.text_column("question_id").codes, return_index=True, return_inverse=True)
    clusters = np.asarray(np.argsort(np.argsort(first))[group], dtype=np.int64)
    sampling = None
    if clusters.max() > 0:
        sampling = elo.sampling_interval(
            a, b, a_won, result.default.mean, clusters=clusters, k=settings.default_k, seed=settings.shuffle_seed
        )
    lines = _lines(result.default, decisive.models, sampling)
    sweep = {trace.k: _lines(trace, decisive.models, None) for trace in result.sweep}
    return lines, sweep, result.default.ratings


def _lines(
    trace: elo.EloTraces, entrants: tuple[str, ...], sampling: elo.SamplingInterval | None
) -> dict[str, EloLine]:
    # An end of an interval is missing if the entrant only won or only lost.
    ends = np.full((2, len(entrants)), np.nan) if sampling is None else np.array([sampling.low, sampling.high])
    rows = np.column_stack([trace.mean, trace.sem, trace.ci95_low, trace.ci95_high, *ends]).tolist()
    return {
        name: EloLine(name, mean, *(None if math.isnan(value) else value for value in row))
        for name, (mean, *row) in zip(entrants, rows, strict=True)
    }


def _tallies(dimension: str, table: BattleTable) -> tuple[PairTally, ...]:
    first, second = np.minimum(table.model_a, table.model_b), np.maximum(table.model_a, table.model_b)
    first_won = (table.outcome == Outcome.A.code) == (table.model_a == first)
    tied = table.outcome == Outcome.TIE.code
    pairs, group = np.unique(np.stack([first, second]), axis=1, return_inverse=True)
    kinds = (first_won & ~tied, ~first_won & ~tied, tied, table.number_column("inconsistent") == 1.0)
    counts = [np.bincount(group.ravel(), kind, pairs.shape[1]).astype(int).tolist() for kind in kinds]
    names = [[table.models[code] for code in side] for side in pairs]
    return tuple(PairTally(dimension, *row) for row in zip(*names, *counts, strict=True))


def settled_battles(
    dimension: str,
    judgments: Iterable[Judgment],
    cases: Sequence[Case] | None = None,
    styles: AnswerStyles | None = None,
) -> BattleTable:
    """The battles of a dimension's judgments; failed judgments give none.

    With the `cases` that were judged, in the same order, battles have columns for the style of both answers; `styles`
    holds what was measured of each answer.
    """
    styles = AnswerStyles() if styles is None else styles
    models: dict[str, int] = {}
    prompts: dict[str, int] = {}
    judges: dict[str, int] = {}
    codes, score = array("i"), array("d")
    for place, judgment in enumerate(judgments):
        battle = to_battle(judgment)
        if battle is None:
            continue
        for known, name in (
            (models, battle.model_a),
            (models, battle.model_b),
            (prompts, battle.question_id or ""),
            (judges, battle.judge_model or ""),
        ):
            codes.append(known.setdefault(name, len(known)))
        codes.extend((battle.winner.code, battle.inconsistent))
        score.append(math.nan if battle.score_a is None else battle.score_a)
        if cases is not None:
            for entrant, side in ((judgment.entrant_a, "response_a"), (judgment.entrant_b, "response_b")):
                codes.append(styles.place(entrant, judgment.prompt_id, partial(_text, cases, place, side)))
    rows = np.array(codes, dtype=np.int32).reshape(-1, 6 if cases is None else 8).T
    model_a, model_b, prompt, judge, outcome, inconsistent = rows[:6]
    order = sorted(models)
    place_of = np.array([order.index(name) for name in models], dtype=np.int32)
    columns: dict[str, Codes | Floats] = {
        "question_id": Codes(prompt, list(prompts)),
        "judge_model": Codes(judge, list(judges)),
        "dimension": Codes(np.zeros_like(prompt), [dimension]),
        "inconsistent": inconsistent.astype(np.float64),
    }
    if cases is not None:
        measured = styles.table().astype(np.float64)
        for i, name in enumerate(STYLE):
            columns |= {f"{name}_a": measured[rows[6], i], f"{name}_b": measured[rows[7], i]}
    scores = np.array(score)
    return BattleTable(
        models=tuple(order),
        model_a=place_of[model_a],
        model_b=place_of[model_b],
        outcome=outcome.astype(np.int8),
        source=np.full(len(outcome), Source.LLM_JUDGE.code, dtype=np.int8),
        weight=np.ones(len(outcome)),
        score_a=None if np.isnan(scores).all() else scores,
        columns=columns,
    )


def _text(cases: Sequence[Case], place: int, side: str) -> str:
    return str(getattr(cases[place], side))

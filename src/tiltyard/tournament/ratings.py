"""From judgments to numbers: permutation Elo, Bradley–Terry and win rates, per dimension.

`SettledBattles` holds a dimension's battles as columns, some forty bytes each.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import overload

import msgspec
import numpy as np
from numpy.typing import NDArray

from tiltyard.bank.style import STYLE, AnswerStyles
from tiltyard.battles import Battle, BattleTable, Codes, Outcome, Source
from tiltyard.boards import BradleyTerry, EloReport, Leaderboard
from tiltyard.boards.bradley_terry import CENTRE
from tiltyard.errors import TiltyardError
from tiltyard.judging.plan import Case
from tiltyard.judging.records import Judgment, to_battle
from tiltyard.ratings import elo
from tiltyard.tournament.baseline import BaselineTable, rate_against
from tiltyard.tournament.config import EloSettings
from tiltyard.tournament.habits import HabitCounts, JudgeHabits
from tiltyard.types import Floats


@dataclass(slots=True)
class _Texts:
    """A dictionary-encoded text column: a number for each row, and every text once, in order of appearance."""

    codes: array[int] = field(default_factory=lambda: array("i"))
    numbers: dict[str, int] = field(default_factory=dict)

    def append(self, text: str) -> None:
        self.codes.append(self.numbers.setdefault(text, len(self.numbers)))

    def labels(self) -> list[str]:
        return list(self.numbers)

    def column(self) -> NDArray[np.int32]:
        return np.array(self.codes, dtype=np.int32)


_STYLE_COLUMNS = tuple(f"{name}_{side}" for name in STYLE for side in "ab")


class EloLine(msgspec.Struct, frozen=True):
    """One entrant's permutation Elo: mean, shuffle error, and a sampling interval over prompts."""

    entrant_id: str
    """The entrant."""
    mean: float
    """Mean rating over the shuffles."""
    sem: float
    """Standard error of that mean over shuffles: shuffle error only."""
    ci95_low: float
    """Mean − 1.96 SEM: shuffle error only."""
    ci95_high: float
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


@dataclass(frozen=True, slots=True, eq=False)
class DimensionRatings:
    """The numbers of one dimension. Without a decisive match `elo`, `sweep` and `traces` are empty."""

    dimension: str
    n_decisive: int
    elo: Mapping[str, EloLine]
    sweep: Mapping[float, Mapping[str, EloLine]]
    traces: Floats
    entrants: tuple[str, ...]
    pairs: tuple[PairTally, ...]
    battles: Sequence[Battle]
    board: EloReport | None
    board_missing: str | None
    """Why there is no Bradley–Terry board, if so."""
    leaderboard: Leaderboard | None
    """The same board as people read it."""
    habits: JudgeHabits
    """How the judge behaved."""
    against: BaselineTable | None = None
    """Win rates against the baseline, if there is one."""


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
    styles = AnswerStyles() if styles is None else styles
    counts = HabitCounts(cases)
    battles = SettledBattles(dimension, counts.watch(judgments), cases, styles)
    table = battles.table()
    board, why = _board(table, baseline, level)
    if board is not None and amend is not None:
        board = amend(board)
    decisive = table.take(table.outcome != Outcome.TIE).compact()
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
        board=None if board is None else EloReport.of(board, arena=dimension, judge_model=judge),
        board_missing=why,
        leaderboard=board,
        habits=counts.habits(),
        against=None if baseline is None else rate_against(battles.table(STYLE), baseline, battles.inconsistent()),
    )


def _permutation_elo(
    decisive: BattleTable, settings: EloSettings
) -> tuple[dict[str, EloLine], dict[float, dict[str, EloLine]], Floats]:
    a, b, a_won = decisive.model_a, decisive.model_b, decisive.outcome == Outcome.A
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
    clusters = _by_appearance(decisive.text_column("question_id").codes)
    sampling = None
    if clusters.max() > 0:
        sampling = elo.sampling_interval(
            a, b, a_won, result.default.mean, clusters=clusters, k=settings.default_k, seed=settings.shuffle_seed
        )
    lines = _lines(result.default, decisive.models, sampling)
    sweep = {trace.k: _lines(trace, decisive.models, None) for trace in result.sweep}
    return lines, sweep, result.default.ratings


def _by_appearance(codes: NDArray[np.int32]) -> NDArray[np.int64]:
    """The same groups, numbered in order of first appearance, because resamples depend on the numbering."""
    _, first, group = np.unique(codes, return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(first))[group], dtype=np.int64)


def _lines(
    trace: elo.EloTraces, entrants: tuple[str, ...], sampling: elo.SamplingInterval | None
) -> dict[str, EloLine]:
    return {
        name: EloLine(
            entrant_id=name,
            mean=float(trace.mean[i]),
            sem=float(trace.sem[i]),
            ci95_low=float(trace.ci95_low[i]),
            ci95_high=float(trace.ci95_high[i]),
            sampling_low=None if sampling is None else _end(sampling.low[i]),
            sampling_high=None if sampling is None else _end(sampling.high[i]),
        )
        for i, name in enumerate(entrants)
    }


def _end(value: float) -> float | None:
    """An end of an interval; None if the entrant only won or only lost."""
    return None if np.isnan(value) else float(value)


def _board(table: BattleTable, baseline: str | None, level: float) -> tuple[Leaderboard | None, str | None]:
    """Bradley–Terry with intervals by prompt, or the reason why there is none, which does not end the run."""
    if not len(table):
        return None, "no judgment was settled"
    anchor = None if baseline is None else (baseline, CENTRE)
    try:
        return BradleyTerry(only_connected=True, anchor=anchor, level=level).fit(table), None
    except TiltyardError as error:
        return None, str(error)


def _tallies(dimension: str, battles: SettledBattles) -> tuple[PairTally, ...]:
    table = battles.table()
    first, second = np.minimum(table.model_a, table.model_b), np.maximum(table.model_a, table.model_b)
    first_won = (table.outcome == Outcome.A) == (table.model_a == first)
    tied = table.outcome == Outcome.TIE
    pairs, group = np.unique(np.stack([first, second]), axis=1, return_inverse=True)
    kinds = (first_won & ~tied, ~first_won & ~tied, tied, battles.inconsistent())
    counts = [np.bincount(group.ravel(), kind, pairs.shape[1]).astype(int).tolist() for kind in kinds]
    names = [[table.models[code] for code in side] for side in pairs]
    return tuple(PairTally(dimension, *row) for row in zip(*names, *counts, strict=True))


class SettledBattles(Sequence[Battle]):
    """The battles of a dimension's judgments, each created on access; failed judgments give none.

    With the `cases` that were judged, in the same order, battles have columns for the style of both answers; `styles`
    holds what was measured of each answer.
    """

    def __init__(
        self,
        dimension: str,
        judgments: Iterable[Judgment],
        cases: Sequence[Case] | None = None,
        styles: AnswerStyles | None = None,
    ) -> None:
        self._dimension = dimension
        self._cases = cases
        self._styles = AnswerStyles() if styles is None else styles
        self._style_a, self._style_b = array("i"), array("i")
        self._entrants: dict[str, int] = {}
        self._a, self._b = _Texts(numbers=self._entrants), _Texts(numbers=self._entrants)
        self._prompt, self._judge = _Texts(), _Texts()
        self._outcome, self._inconsistent, self._score = array("b"), array("b"), array("d")
        for place, judgment in enumerate(judgments):
            battle = to_battle(judgment)
            if battle is not None:
                self._append(battle)
                self._measure(judgment, place)
        self._names = list(self._entrants)
        self._prompts, self._judges = self._prompt.labels(), self._judge.labels()

    def _append(self, battle: Battle) -> None:
        self._a.append(battle.model_a)
        self._b.append(battle.model_b)
        self._prompt.append(battle.question_id or "")
        self._judge.append(battle.judge_model or "")
        self._outcome.append(battle.winner)
        self._inconsistent.append(battle.inconsistent)
        self._score.append(math.nan if battle.score_a is None else battle.score_a)

    def _measure(self, judgment: Judgment, place: int) -> None:
        """Keep the style of both answers."""
        cases = self._cases
        if cases is not None:
            at, prompt = self._styles.place, judgment.prompt_id
            self._style_a.append(at(judgment.entrant_a, prompt, lambda: cases[place].response_a))
            self._style_b.append(at(judgment.entrant_b, prompt, lambda: cases[place].response_b))

    def __len__(self) -> int:
        return len(self._outcome)

    @overload
    def __getitem__(self, place: int) -> Battle: ...
    @overload
    def __getitem__(self, place: slice) -> list[Battle]: ...
    def __getitem__(self, place: int | slice) -> Battle | list[Battle]:
        numbers = range(len(self))[place]
        return self._battle(numbers) if isinstance(numbers, int) else [self._battle(number) for number in numbers]

    def __iter__(self) -> Iterator[Battle]:
        return map(self._battle, range(len(self)))

    def _battle(self, number: int) -> Battle:
        score = self._score[number]
        return Battle(
            model_a=self._names[self._a.codes[number]],
            model_b=self._names[self._b.codes[number]],
            winner=Outcome(self._outcome[number]),
            source=Source.LLM_JUDGE,
            question_id=self._prompts[self._prompt.codes[number]],
            judge_model=self._judges[self._judge.codes[number]],
            dimension=self._dimension,
            score_a=None if math.isnan(score) else score,
            inconsistent=bool(self._inconsistent[number]),
            controls=self._controls(number),
        )

    def _controls(self, number: int) -> dict[str, float]:
        """The style of both answers of a battle, by column."""
        if self._cases is None:
            return {}
        a, b = self._styles.row(self._style_a[number]), self._styles.row(self._style_b[number])
        return dict(zip(_STYLE_COLUMNS, (value for pair in zip(a, b, strict=True) for value in pair), strict=True))

    def table(self, style: Sequence[str] = ()) -> BattleTable:
        """The same battles in the form that ratings take, prompts included, and these features of style."""
        order = sorted(range(len(self._names)), key=self._names.__getitem__)
        code = np.argsort(np.array(order, dtype=np.int32)).astype(np.int32)
        score = np.array(self._score)
        return BattleTable(
            models=tuple(self._names[place] for place in order),
            model_a=code[self._a.column()],
            model_b=code[self._b.column()],
            outcome=np.array(self._outcome, dtype=np.int8),
            source=np.full(len(self), Source.LLM_JUDGE, dtype=np.int8),
            weight=np.ones(len(self)),
            score_a=None if np.isnan(score).all() else score,
            columns={
                "question_id": Codes(self._prompt.column(), self._prompts),
                **(self._style_columns(style) if style and self._cases is not None else {}),
            },
        )

    def _style_columns(self, style: Sequence[str]) -> dict[str, Floats]:
        measured = self._styles.table()
        sides = (("a", np.array(self._style_a, dtype=np.int64)), ("b", np.array(self._style_b, dtype=np.int64)))
        return {
            f"{name}_{side}": measured[rows, STYLE.index(name)].astype(np.float64)
            for name in style
            for side, rows in sides
        }

    def inconsistent(self) -> NDArray[np.bool_]:
        """For each battle, whether the two orders disagreed."""
        return np.array(self._inconsistent, dtype=bool)

"""From judgments to numbers: permutation Elo, Bradley–Terry and win rates, per dimension."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tiltyard.battles import Battle, read_battles
from tiltyard.boards import BradleyTerry, EloReport
from tiltyard.errors import TiltyardError
from tiltyard.judging.records import Judgment, to_battle
from tiltyard.ratings import elo

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tiltyard.tournament.config import EloSettings

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class EloLine:
    """One entrant's permutation Elo: mean, shuffle error, and the interval that other prompts could have given."""

    entrant_id: str
    mean: float
    sem: float
    ci95_low: float
    ci95_high: float
    sampling_low: float | None
    sampling_high: float | None


@dataclass(frozen=True, slots=True)
class PairTally:
    """How two entrants, in alphabetical order, did against each other; an inconsistent judgment is also a tie."""

    entrant_a: str
    entrant_b: str
    a_wins: int = 0
    b_wins: int = 0
    ties: int = 0
    inconsistent: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Standing:
    """The numbers of one dimension. Without a decisive match `elo`, `sweep` and `traces` are empty."""

    dimension: str
    n_decisive: int
    elo: Mapping[str, EloLine]
    sweep: Mapping[float, Mapping[str, EloLine]]
    traces: Floats
    entrants: tuple[str, ...]
    pairs: tuple[PairTally, ...]
    battles: tuple[Battle, ...]
    board: EloReport | None
    board_missing: str | None
    """Why there is no Bradley–Terry board, where there is none."""


def rate_dimension(dimension: str, judgments: Sequence[Judgment], settings: EloSettings, judge: str) -> Standing:
    """Rate one dimension: permutation Elo over the decisive judgments, Bradley–Terry over all settled ones."""
    battles = tuple(battle for judgment in judgments if (battle := to_battle(judgment)) is not None)
    decisive = [judgment for judgment in judgments if judgment.winner is not None]
    board, why = _board(dimension, battles, judge)
    entrants = tuple(sorted({name for row in decisive for name in (row.entrant_a, row.entrant_b)}))
    lines: dict[str, EloLine] = {}
    sweep: dict[float, dict[str, EloLine]] = {}
    traces = np.empty((0, 0))
    if decisive:
        lines, sweep, traces = _permutation_elo(decisive, entrants, settings)
    return Standing(
        dimension=dimension,
        n_decisive=len(decisive),
        elo=lines,
        sweep=sweep,
        traces=traces,
        entrants=entrants,
        pairs=tally_pairs(judgments),
        battles=battles,
        board=board,
        board_missing=why,
    )


def _permutation_elo(
    decisive: Sequence[Judgment], entrants: tuple[str, ...], settings: EloSettings
) -> tuple[dict[str, EloLine], dict[float, dict[str, EloLine]], Floats]:
    code = {name: place for place, name in enumerate(entrants)}
    a = np.array([code[row.entrant_a] for row in decisive])
    b = np.array([code[row.entrant_b] for row in decisive])
    a_won = np.array([row.winner == row.entrant_a for row in decisive])
    result = elo.permutation_elo(
        a,
        b,
        a_won,
        n_models=len(entrants),
        k=settings.default_k,
        k_sweep=settings.k_factor_sweep,
        initial_rating=settings.initial_rating,
        n_perms=settings.n_perms,
        seed=settings.shuffle_seed,
    )
    prompts = {prompt: place for place, prompt in enumerate(dict.fromkeys(row.prompt_id for row in decisive))}
    sampling = None
    if len(prompts) > 1:
        clusters = np.array([prompts[row.prompt_id] for row in decisive])
        sampling = elo.sampling_interval(
            a, b, a_won, result.default.mean, clusters=clusters, k=settings.default_k, seed=settings.shuffle_seed
        )
    lines = _lines(result.default, entrants, sampling)
    sweep = {trace.k: _lines(trace, entrants, None) for trace in result.sweep}
    return lines, sweep, result.default.ratings


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
            sampling_low=None if sampling is None else float(sampling.low[i]),
            sampling_high=None if sampling is None else float(sampling.high[i]),
        )
        for i, name in enumerate(entrants)
    }


def _board(dimension: str, battles: Sequence[Battle], judge: str) -> tuple[EloReport | None, str | None]:
    """Bradley–Terry with intervals by prompt, or why there is none: a dimension without an answer ends no run."""
    if not battles:
        return None, "no judgment was settled"
    try:
        board = BradleyTerry(only_connected=True).fit(read_battles(battles))
    except TiltyardError as error:
        return None, str(error)
    return EloReport.of(board, arena=dimension, judge_model=judge), None


def tally_pairs(judgments: Iterable[Judgment]) -> tuple[PairTally, ...]:
    """Counts of every pair that met; failed judgments are in none of them."""
    counts: dict[tuple[str, str], list[int]] = {}
    for judgment in judgments:
        if judgment.status != "ok":
            continue
        first, second = sorted((judgment.entrant_a, judgment.entrant_b))
        cell = counts.setdefault((first, second), [0, 0, 0, 0])
        if judgment.winner is None:
            cell[2] += 1
            cell[3] += judgment.inconsistent
        else:
            cell[0 if judgment.winner == first else 1] += 1
    return tuple(PairTally(*pair, *cell) for pair, cell in sorted(counts.items()))

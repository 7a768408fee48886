"""Rating the new model: in one fit with people's battles, with people's ratings fixed, or by a calibrated judge.

`HumanBoard` is people's own board; `Recipe` is everything the result depends on besides battles and verdicts.
`rate_new_model` is a pure function of the recipe, the battles and the verdicts. A run calls it after every round, at
its end, and when it is computed again from the saved files; that is why the three agree.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from tiltyard.battles.battle import Outcome, Source
from tiltyard.battles.table import BattleTable
from tiltyard.boards.bradley_terry import CENTRE, REACH_NOTES, BradleyTerry
from tiltyard.boards.leaderboard import Leaderboard, RatingEntry
from tiltyard.judging.records import Judgment, Verdict, VerdictLabel
from tiltyard.placement.sampling import Belief
from tiltyard.ratings import POINTS_PER_LOGIT
from tiltyard.ratings.comparisons import FIRST_WON, SECOND_WON, TIED
from tiltyard.ratings.graph import Reach
from tiltyard.ratings.judge_scale import (
    CalibrationVerdicts,
    JudgeScale,
    NewModelVerdicts,
    ScaledPlacement,
    calibrate,
    place_on_scale,
)
from tiltyard.ratings.one_model import Anchors, OneModelFit, OneModelRows, fit_one, rank_of_one, told_apart
from tiltyard.ratings.tie_models import TIE_MODELS

_SHARES = {VerdictLabel.A: 1.0, VerdictLabel.B: 0.0, VerdictLabel.TIE: 0.5}
_RESULTS = np.full(len(Outcome), -1, dtype=np.int8)
_RESULTS[[Outcome.A, Outcome.B, Outcome.TIE]] = FIRST_WON, SECOND_WON, TIED


def judged_part(table: BattleTable) -> BattleTable:
    """The battles that a judge decided."""
    return table.take(table.source == Source.LLM_JUDGE)


def human_part(table: BattleTable) -> BattleTable:
    """The battles that people decided, over the models they met."""
    return table.take(table.source == Source.HUMAN).compact()


def battle_rows(table: BattleTable, model: str, people: HumanBoard) -> OneModelRows:
    """The new model's judged battles from its point of view."""
    judged = judged_part(table)
    judged = judged.take(judged.outcome != Outcome.BOTH_BAD)
    code = judged.models.index(model)
    is_a = judged.model_a == code
    opponent = np.where(is_a, judged.model_b, judged.model_a)
    number = np.array([people.models.index(name) if name in people.models else -1 for name in judged.models])
    as_a = _RESULTS[judged.outcome]
    result = np.where(is_a | (as_a == TIED), as_a, 1 - as_a).astype(np.int8)
    share = None
    if judged.score_a is not None:
        share = np.where(is_a, judged.score_a, 1.0 - judged.score_a)
    cluster = judged.text_column("question_id").codes.astype(np.int64)
    return OneModelRows(number[opponent].astype(np.int64), result, judged.weight, share, cluster)


def calibration_rows(judgments: Iterable[Judgment], people: HumanBoard) -> CalibrationVerdicts:
    """The judge's readable verdicts on battles that people decided, in the order shown."""
    rows = [
        (people.models.index(shown[0]), people.models.index(shown[1]), _share(verdict), 1.0 / len(judgment.raw), place)
        for place, judgment in enumerate(_settled(judgments))
        if judgment.entrant_a in people.models and judgment.entrant_b in people.models
        for verdict in judgment.raw
        for shown in [_shown(judgment, verdict)]
    ]
    first, second, share, weight, battle = zip(*rows, strict=True) if rows else ((), (), (), (), ())
    questions = _codes([judgment.prompt_id for judgment in _settled(judgments)])
    battles = np.array(battle, dtype=np.int64)
    return CalibrationVerdicts(
        np.array(first, dtype=np.int64),
        np.array(second, dtype=np.int64),
        np.array(share, dtype=np.float64),
        np.array(weight, dtype=np.float64),
        battles,
        questions[battles],
    )


def new_model_rows(judgments: Iterable[Judgment], model: str, people: HumanBoard) -> NewModelVerdicts:
    """The judge's readable verdicts on the new model, from its point of view."""
    settled = [judgment for judgment in _settled(judgments) if _opponent(judgment, model) in people.models]
    rows = []
    for place, judgment in enumerate(settled):
        opponent = people.models.index(_opponent(judgment, model))
        for verdict in judgment.raw:
            first = _shown(judgment, verdict)[0] == model
            share = _share(verdict)
            rows.append((opponent, share if first else 1.0 - share, first, 1.0 / len(judgment.raw), place))
    opponents, shares, firsts, weights, places = zip(*rows, strict=True) if rows else ((), (), (), (), ())
    questions = _codes([judgment.prompt_id for judgment in settled])
    return NewModelVerdicts(
        np.array(opponents, dtype=np.int64),
        np.array(shares, dtype=np.float64),
        np.array(firsts, dtype=np.bool_),
        np.array(weights, dtype=np.float64),
        questions[np.array(places, dtype=np.int64)],
    )


def _settled(judgments: Iterable[Judgment]) -> list[Judgment]:
    return [judgment for judgment in judgments if judgment.status == "ok"]


def _shown(judgment: Judgment, verdict: Verdict) -> tuple[str, str]:
    """The entrants as the judge was shown them, first slot first."""
    pair = (judgment.entrant_a, judgment.entrant_b)
    return pair[::-1] if verdict.position_swap else pair


def _share(verdict: Verdict) -> float:
    """The score of the first slot."""
    return _SHARES[verdict.verdict] if verdict.score_a is None else verdict.score_a


def _opponent(judgment: Judgment, model: str) -> str:
    return judgment.entrant_b if judgment.entrant_a == model else judgment.entrant_a


def _codes(names: Sequence[str]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    if not names:
        return np.zeros(0, dtype=np.int64)
    return np.unique(np.array(names), return_inverse=True)[1].astype(np.int64)


Mode = Literal["joint", "fixed", "calibrated"]
"""`joint`: judged and human battles in one fit. `fixed`: people's ratings stay, only the new model is fitted.
`calibrated`: like fixed, on the judge's calibrated scale, including the calibration's uncertainty."""


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    """How a placement is rated. With the saved battles and verdicts it gives the same ratings again, to the last bit.

    `level` is that of each interval; `overall_level` that of all looks of the run together (smaller if a run may stop
    on its rank). `bootstraps` 0 means sandwich intervals.
    """

    arena: str
    """The arena's name."""
    model: str
    """The new model."""
    judge_model: str
    """The judge's name."""
    mode: Mode = "joint"
    """`joint`, `fixed` or `calibrated`."""
    bootstraps: int = 100
    """`bootstraps` 0 means sandwich intervals."""
    seed: int = 0
    """Seed of the bootstrap."""
    level: float = 0.95
    """The level of each interval."""
    overall_level: float = 0.95
    """The level of all looks of the run together (smaller if a run may stop on its rank)."""
    anchor: tuple[str, float] | None = None
    """A model and the rating it is pinned to; without one the mean is 1000."""
    sensitivity: tuple[float, ...]
    """Style biases, in points, whose effect on the rating is written."""
    families: dict[str, str] = {}
    """The family of each model that has one, for leave-one-family-out coverage of a calibrated placement."""

    def estimator(self) -> BradleyTerry:
        """The estimator of the joint fit: what `tiltyard rate battles.jsonl` does with the same parameters."""
        if self.bootstraps:
            return BradleyTerry(
                ci="bootstrap",
                rounds=self.bootstraps,
                seed=self.seed,
                level=self.level,
                anchor=self.anchor,
                only_connected=True,
                evaluated=self.model,
                misfit=False,
            )
        return BradleyTerry(
            level=self.level,
            anchor=self.anchor,
            only_connected=True,
            evaluated=self.model,
            seed=self.seed,
            misfit=False,
        )

    def rate_command(self, battles: str) -> str:
        """The command that reproduces the ratings of a joint fit."""
        words = ["tiltyard", "rate", battles, "--evaluated", shlex.quote(self.model), "--only-connected"]
        if self.bootstraps:
            words += ["--ci", "bootstrap", "--rounds", str(self.bootstraps)]
        if self.seed:
            words += ["--seed", str(self.seed)]
        if self.level != 0.95:
            words += ["--level", repr(self.level)]
        if self.anchor is not None:
            words += ["--anchor", shlex.quote(f"{self.anchor[0]}={self.anchor[1]:g}")]
        return " ".join(words)


@dataclass(frozen=True, slots=True, eq=False)
class HumanBoard:
    """The board of people's battles alone, and the same strengths in logits (0 is a rating of 1000)."""

    board: Leaderboard
    models: tuple[str, ...]
    anchors: Anchors

    @classmethod
    def of(cls, battles: BattleTable, anchor: tuple[str, float] | None = None) -> HumanBoard:
        """Rate people's battles: Bradley–Terry with intervals, the largest connected group of models."""
        board = BradleyTerry(anchor=anchor, only_connected=True, misfit=False).fit(battles)
        models = tuple(str(name) for name in board.arrays["models"])
        m = len(models)
        rating = np.array([board[name].rating for name in models])
        return cls(board, models, Anchors((rating - CENTRE) / POINTS_PER_LOGIT, _covariance(board, m)))

    def number(self, model: str) -> int | None:
        """The number of a model among the anchors; None for one that is not rated."""
        return self.models.index(model) if model in self.models else None


def _covariance(board: Leaderboard, m: int) -> NDArray[np.float64]:
    """The covariance of the strengths in logits; of a board of many models the one that its draws show."""
    if "covariance" in board.arrays:
        return np.asarray(board.arrays["covariance"], dtype=np.float64)[:m, :m] / POINTS_PER_LOGIT**2
    draws = np.asarray(board.arrays["error_draws"], dtype=np.float64)[:m] / POINTS_PER_LOGIT
    return np.asarray(draws @ draws.T / draws.shape[1])


def to_points(strength: float) -> float:
    """A strength in logits as a rating."""
    return CENTRE + POINTS_PER_LOGIT * strength


Placed = OneModelFit | ScaledPlacement


@dataclass(frozen=True, slots=True, eq=False)
class NewModelRating:
    """The board with the new model on it, and what it was made of.

    `alone` is the new model fitted with people's ratings held fixed; `scaled` the same on the judge's own scale, if it
    was calibrated. `belief` is used to choose the next opponents.
    """

    board: Leaderboard
    entry: RatingEntry
    alone: OneModelFit
    scale: JudgeScale | None = None
    scaled: ScaledPlacement | None = None

    @property
    def belief(self) -> Belief:
        """The new model's strength on people's scale, in logits."""
        if self.scaled is not None:
            return Belief(self.scaled.strength, math.sqrt(self.scaled.variance.sampling))
        return Belief(self.alone.strength, math.sqrt(self.alone.own_variance))


def judge_scale(people: HumanBoard, calibration: Sequence[Judgment]) -> JudgeScale:
    """The judge's scale, from its verdicts on battles that people decided."""
    return calibrate(people.anchors.strength, calibration_rows(calibration, people))


def rate_new_model(
    recipe: Recipe,
    people: HumanBoard,
    battles: BattleTable,
    judgments: Sequence[Judgment],
    scale: JudgeScale | None = None,
) -> NewModelRating:
    """Rate the new model: `battles` are people's and the judged ones, `judgments` those the judged ones came from."""
    alone = fit_one(people.anchors.strength, battle_rows(battles, recipe.model, people), TIE_MODELS["davidson"])
    if recipe.mode == "joint":
        board = recipe.estimator().fit(battles)
        return NewModelRating(board, board[recipe.model], alone)
    if recipe.mode == "fixed":
        board = _with_newcomer(recipe, people, battles, alone)
        return NewModelRating(board, board[recipe.model], alone)
    assert scale is not None
    scaled = place_on_scale(scale, people.anchors, new_model_rows(judgments, recipe.model, people))
    board = _with_newcomer(recipe, people, battles, scaled)
    return NewModelRating(board, board[recipe.model], alone, scale, scaled)


def _with_newcomer(recipe: Recipe, people: HumanBoard, battles: BattleTable, placed: Placed) -> Leaderboard:
    """People's board with one more entry; other ratings stay the same, but places change."""
    low, high = placed.interval(recipe.level)
    rank = rank_of_one(placed, people.anchors, level=recipe.level)
    counts = _tally(battles, recipe.model)
    entry = RatingEntry(
        model=recipe.model,
        rating=to_points(placed.strength),
        ci_low=None if low is None else to_points(low),
        ci_high=None if high is None else to_points(high),
        n_battles=sum(counts),
        source="evaluated",
        rank=rank.rank,
        rank_low=rank.low,
        rank_high=rank.high,
        wins=counts[0],
        losses=counts[1],
        ties=counts[2],
        note=None if placed.reach is Reach.HELD else REACH_NOTES[placed.reach],
    )
    others = _moved_down(recipe, people, placed)
    entries = tuple(sorted([*others, entry], key=lambda row: (-row.rating, row.model)))
    settings = {
        **people.board.settings,
        "evaluated": recipe.model,
        "interval": {**people.board.settings["interval"], "level": recipe.level},
    }
    return replace(
        people.board,
        entries=entries,
        settings=settings,
        n_battles=people.board.n_battles + sum(counts),
        remarks=(*people.board.remarks, *_remarks(placed)),
        arrays={},
    )


def _moved_down(recipe: Recipe, people: HumanBoard, placed: Placed) -> list[RatingEntry]:
    """The other models' entries, ranked again with the new model among them."""
    above, below = told_apart(placed, people.anchors, level=recipe.level)
    ahead = placed.strength > people.anchors.strength
    columns = zip(people.models, ahead.tolist(), above.tolist(), below.tolist(), strict=True)
    moved = []
    for name, is_ahead, surely_above, surely_below in columns:
        entry = people.board[name]
        moved.append(
            replace(
                entry,
                rank=entry.rank + is_ahead,
                rank_low=None if entry.rank_low is None else entry.rank_low + surely_above,
                rank_high=None if entry.rank_high is None else entry.rank_high + (not surely_below),
            )
        )
    return moved


def _tally(battles: BattleTable, model: str) -> tuple[float, float, float]:
    """Wins, losses and ties of the new model in its judged battles."""
    judged = judged_part(battles)
    code = judged.models.index(model)
    is_a, tied = judged.model_a == code, judged.outcome == Outcome.TIE
    won = np.where(is_a, judged.outcome == Outcome.A, judged.outcome == Outcome.B)
    return tuple(float(judged.weight[mask].sum()) for mask in (won, ~won & ~tied, tied))  # type: ignore[return-value]


def _remarks(placed: Placed) -> tuple[str, ...]:
    if isinstance(placed, ScaledPlacement):
        return (
            "the new model's rating is on people's scale, by the judge's calibration; the others are people's own",
            *placed.warnings,
        )
    return ("people's ratings are held fixed; the new model's is on the judge's scale, sampling error only",)


def with_plain_rating(board: Leaderboard, model: str, plain: Leaderboard) -> Leaderboard:
    """The board, with the new model's joint-fit rating on the judge's scale added beside its own."""
    other = plain[model]
    extra: dict[str, Any] = {
        "judge_scale_rating": other.rating,
        "judge_scale_ci_low": other.ci_low,
        "judge_scale_ci_high": other.ci_high,
    }
    entries = tuple(
        replace(entry, extra={**entry.extra, **extra}) if entry.model == model else entry for entry in board.entries
    )
    return replace(board, entries=entries)


def calibration_details(scale: JudgeScale, scaled: ScaledPlacement, level: float) -> dict[str, Any]:
    """The calibration results in rating points, as written in the ratings file and the manifest."""
    low, high = scale.slope_interval(level)
    parts = scaled.variance
    return {
        "compared": scale.n_battles,
        "models": scale.n_models,
        "slope": scale.slope,
        "slope_low": low,
        "slope_high": high,
        "slot_points": POINTS_PER_LOGIT * scale.slot,
        "tau_points": POINTS_PER_LOGIT * scale.tau,
        "floor_points": POINTS_PER_LOGIT * scale.floor,
        "variance_points2": {
            "sampling": POINTS_PER_LOGIT**2 * parts.sampling,
            "idiosyncrasy": POINTS_PER_LOGIT**2 * parts.idiosyncrasy,
            "slope": POINTS_PER_LOGIT**2 * parts.slope,
            "anchors": POINTS_PER_LOGIT**2 * parts.anchors,
        },
        "warnings": list(dict.fromkeys([*scale.warnings, *scaled.warnings])),
    }

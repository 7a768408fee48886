"""Rating the new model: in one fit with people's battles, with people's ratings fixed, or by a calibrated judge.

`rate_new_model` is a pure function of the recipe, the battles and the verdicts. A run calls it after every round, at
its end, and when it is computed again from the saved files; that is why the three agree.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

import msgspec
import numpy as np

from tiltyard.analysis.boards import CENTRE, REACH_NOTES, BradleyTerry, Leaderboard, RatingEntry
from tiltyard.data.battles import BattleTable, Outcome, Source
from tiltyard.judge.placement.sampling import Belief
from tiltyard.judge.verdicts import Judgment, VerdictLabel
from tiltyard.stats import (
    FIRST_WON,
    POINTS_PER_LOGIT,
    SECOND_WON,
    TIE_MODELS,
    TIED,
    Anchors,
    CalibrationVerdicts,
    Covariance,
    DrawnCovariance,
    JudgeScale,
    NewModelVerdicts,
    OneModelFit,
    OneModelRows,
    Reach,
    ScaledPlacement,
    calibrate,
    fit_one,
    place_on_scale,
    rank_of_one,
    told_apart,
)
from tiltyard.types import Ints

_SHARES = {VerdictLabel.A: 1.0, VerdictLabel.B: 0.0, VerdictLabel.TIE: 0.5}
_RESULTS = np.full(len(Outcome), -1, dtype=np.int8)
_RESULTS[[Outcome.A.code, Outcome.B.code, Outcome.TIE.code]] = FIRST_WON, SECOND_WON, TIED

Mode = Literal["joint", "fixed", "calibrated"]
"""`joint`: judged and human battles in one fit. `fixed`: people's ratings stay, only the new model is fitted.
`calibrated`: like fixed, on the judge's calibrated scale, including the calibration's uncertainty."""


class Recipe(msgspec.Struct, frozen=True, kw_only=True):
    """How a placement is rated: with the saved battles and verdicts it gives the same ratings again, bit by bit."""

    arena: str
    """The arena's name."""
    model: str
    """The new model."""
    judge_model: str
    """The judge's name."""
    mode: Mode = "joint"
    """`joint`, `fixed` or `calibrated`."""
    bootstraps: int = 100
    """Bootstrap rounds; 0 means sandwich intervals."""
    seed: int = 0
    """Seed of the bootstrap."""
    level: float = 0.95
    """The level of each interval."""
    overall_level: float = 0.95
    """The level of all looks of the run together (smaller if a run may stop on its rank)."""
    anchor: tuple[str, float] | None = None
    """A model and the rating it is pinned to; without one the mean is 1000."""
    sensitivity: Annotated[tuple[float, ...], msgspec.Meta(max_length=10)]
    """Style biases, in points, whose effect on the rating is written."""
    families: dict[str, str] = {}
    """The family of each model that has one, for leave-one-family-out coverage of a calibrated placement."""

    def estimator(self) -> BradleyTerry:
        """The estimator of the joint fit: what `tiltyard rate battles.jsonl` does with the same parameters."""
        rounds: dict[str, Any] = {"ci": "bootstrap", "rounds": self.bootstraps} if self.bootstraps else {}
        return BradleyTerry(
            level=self.level,
            anchor=self.anchor,
            only_connected=True,
            evaluated=self.model,
            seed=self.seed,
            misfit=False,
            **rounds,
        )

    def rate_command(self, battles: str) -> str:
        """The command that reproduces the ratings of a joint fit."""
        words = ["tiltyard", "rate", battles, "--evaluated", self.model, "--only-connected"]
        if self.bootstraps:
            words += ["--ci", "bootstrap", "--rounds", str(self.bootstraps)]
        if self.seed:
            words += ["--seed", str(self.seed)]
        if self.level != 0.95:
            words += ["--level", repr(self.level)]
        if self.anchor is not None:
            words += ["--anchor", f"{self.anchor[0]}={self.anchor[1]:g}"]
        return shlex.join(words)


class HumanBoard(msgspec.Struct, frozen=True, eq=False):
    """The board of people's battles alone, and the same strengths in logits (0 is a rating of 1000)."""

    board: Leaderboard
    models: tuple[str, ...]
    anchors: Anchors

    @classmethod
    def of(cls, battles: BattleTable, anchor: tuple[str, float] | None = None) -> HumanBoard:
        """Rate people's battles: Bradley–Terry with intervals, the largest connected group of models."""
        estimator = BradleyTerry(anchor=anchor, only_connected=True, misfit=False)
        solved = estimator.solve(battles, by_counts=True)
        board = estimator.board_of(solved)
        models = solved.fit_input.selected.table.models
        strength = (np.array([board[name].rating for name in models]) - CENTRE) / POINTS_PER_LOGIT
        m, errors = len(models), solved.covariance
        if isinstance(errors, DrawnCovariance):  # of many models there are only draws
            draws = errors.widest().moves[:m].astype(np.float64)
            covariance = np.asarray(draws @ draws.T / draws.shape[1])
        else:
            assert isinstance(errors, Covariance)
            covariance = errors.matrix[:m, :m]
        return cls(board, models, Anchors(strength, covariance))


def to_points(strength: float) -> float:
    """A strength in logits as a rating."""
    return CENTRE + POINTS_PER_LOGIT * strength


def judged_part(table: BattleTable) -> BattleTable:
    """The battles that a judge decided."""
    return table.take(table.source == Source.LLM_JUDGE.code)


def battle_rows(table: BattleTable, model: str, people: HumanBoard) -> OneModelRows:
    """The new model's judged battles from its point of view."""
    judged = judged_part(table)
    judged = judged.take(judged.outcome != Outcome.BOTH_BAD.code)
    is_a = judged.model_a == judged.models.index(model)
    number = np.array([people.models.index(name) if name in people.models else -1 for name in judged.models])
    as_a = _RESULTS[judged.outcome]
    return OneModelRows(
        opponent=number[np.where(is_a, judged.model_b, judged.model_a)].astype(np.int64),
        result=np.where(is_a | (as_a == TIED), as_a, 1 - as_a).astype(np.int8),
        weight=judged.weight,
        share=None if judged.score_a is None else np.where(is_a, judged.score_a, 1.0 - judged.score_a),
        cluster=judged.text_column("question_id").codes.astype(np.int64),
    )


def calibration_rows(judgments: Iterable[Judgment], people: HumanBoard) -> CalibrationVerdicts:
    """The judge's readable verdicts on battles that people decided, in the order shown."""
    settled = [judgment for judgment in judgments if judgment.status == "ok"]
    number = {name: place for place, name in enumerate(people.models)}
    rows = [
        (number[first], number[second], share, weight, battle)
        for battle, first, second, share, weight in _shown(settled)
        if first in number and second in number
    ]
    first, second, share, weight, battle = np.array(rows, dtype=np.float64).reshape(-1, 5).T
    battles = battle.astype(np.int64)
    return CalibrationVerdicts(
        first.astype(np.int64), second.astype(np.int64), share, weight, battles, _questions(settled)[battles]
    )


def new_model_rows(judgments: Iterable[Judgment], model: str, people: HumanBoard) -> NewModelVerdicts:
    """The judge's readable verdicts on the new model, from its point of view."""
    number = {name: place for place, name in enumerate(people.models)}
    settled = [
        judgment
        for judgment in judgments
        if judgment.status == "ok" and not {judgment.entrant_a, judgment.entrant_b} - {model, *number}
    ]
    rows = [
        (
            number[second if first == model else first],
            share if first == model else 1.0 - share,
            first == model,
            weight,
            b,
        )
        for b, first, second, share, weight in _shown(settled)
    ]
    opponent, share, is_first, weight, battle = np.array(rows, dtype=np.float64).reshape(-1, 5).T
    return NewModelVerdicts(
        opponent.astype(np.int64),
        share,
        is_first.astype(np.bool_),
        weight,
        _questions(settled)[battle.astype(np.int64)],
    )


def _shown(judgments: Sequence[Judgment]) -> Iterator[tuple[int, str, str, float, float]]:
    """For every verdict: the number of its battle, who was shown first, who second, the first one's score, a weight."""
    for battle, judgment in enumerate(judgments):
        a, b = judgment.entrant_a, judgment.entrant_b
        for verdict in judgment.raw:
            share = _SHARES[verdict.verdict] if verdict.score_a is None else verdict.score_a
            yield battle, *((b, a) if verdict.position_swap else (a, b)), share, 1.0 / len(judgment.raw)


def _questions(judgments: Sequence[Judgment]) -> Ints:
    names = np.array([judgment.prompt_id for judgment in judgments], dtype=np.str_)
    return np.unique(names, return_inverse=True)[1].astype(np.int64)


class NewModelRating(msgspec.Struct, frozen=True, eq=False):
    """The board with the new model on it, and what it was made of.

    `alone` is the new model fitted with people's ratings held fixed; `scaled` the same on the judge's own scale, if it
    was calibrated.
    """

    board: Leaderboard
    entry: RatingEntry
    alone: OneModelFit
    scale: JudgeScale | None = None
    scaled: ScaledPlacement | None = None

    @property
    def belief(self) -> Belief:
        """The new model's strength on people's scale, in logits, by which the next opponents are chosen."""
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
    scaled = None
    if recipe.mode == "joint":
        board = recipe.estimator().fit(battles)
    elif recipe.mode == "fixed":
        remark = "people's ratings are held fixed; the new model's is on the judge's scale, sampling error only"
        board = _with_newcomer(recipe, people, battles, alone, [remark])
    else:
        assert scale is not None
        scaled = place_on_scale(scale, people.anchors, new_model_rows(judgments, recipe.model, people))
        remark = "the new model's rating is on people's scale, by the judge's calibration; the others are people's own"
        board = _with_newcomer(recipe, people, battles, scaled, [remark, *scaled.warnings])
    return NewModelRating(board, board[recipe.model], alone, None if scaled is None else scale, scaled)


def _with_newcomer(
    recipe: Recipe,
    people: HumanBoard,
    battles: BattleTable,
    placed: OneModelFit | ScaledPlacement,
    remarks: Sequence[str],
) -> Leaderboard:
    """People's board with one more entry; other ratings stay the same, but places change."""
    low, high = placed.interval(recipe.level)
    rank = rank_of_one(placed, people.anchors, level=recipe.level)
    judged = judged_part(battles)
    tied = judged.outcome == Outcome.TIE.code
    is_a = judged.model_a == judged.models.index(recipe.model)
    won = np.where(is_a, judged.outcome == Outcome.A.code, judged.outcome == Outcome.B.code)
    wins, losses, ties = (float(judged.weight[mask].sum()) for mask in (won, ~won & ~tied, tied))
    newcomer = RatingEntry(
        model=recipe.model,
        rating=to_points(placed.strength),
        ci_low=None if low is None else to_points(low),
        ci_high=None if high is None else to_points(high),
        n_battles=wins + losses + ties,
        source="evaluated",
        rank=rank.rank,
        rank_low=rank.low,
        rank_high=rank.high,
        wins=wins,
        losses=losses,
        ties=ties,
        note=None if placed.reach is Reach.HELD else REACH_NOTES[placed.reach],
    )
    entries = [newcomer]
    above, below = told_apart(placed, people.anchors, level=recipe.level)
    for number, name in enumerate(people.models):
        entry = people.board[name]
        best, worst = entry.rank_low, entry.rank_high
        entries.append(
            replace(
                entry,
                rank=entry.rank + bool(placed.strength > people.anchors.strength[number]),
                rank_low=None if best is None else best + bool(above[number]),
                rank_high=None if worst is None else worst + (not below[number]),
            )
        )
    interval = people.board.settings.interval
    assert interval
    settings = msgspec.structs.replace(
        people.board.settings,
        evaluated=recipe.model,
        interval=msgspec.structs.replace(interval, level=recipe.level),
    )
    return replace(
        people.board,
        entries=tuple(sorted(entries, key=lambda row: (-row.rating, row.model))),
        settings=settings,
        n_battles=people.board.n_battles + newcomer.n_battles,
        remarks=(*people.board.remarks, *remarks),
        arrays={},
    )

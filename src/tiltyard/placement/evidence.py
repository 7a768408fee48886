"""From judged battles and verdicts to the rows that the fits need."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tiltyard.battles.battle import Outcome, Source
from tiltyard.battles.table import BattleTable
from tiltyard.judging.records import Judgment, Verdict, VerdictLabel
from tiltyard.ratings.comparisons import FIRST_WON, SECOND_WON, TIED
from tiltyard.ratings.judge_scale import CalibrationVerdicts, NewModelVerdicts
from tiltyard.ratings.one_model import OneModelRows

if TYPE_CHECKING:
    from tiltyard.placement.rating import HumanBoard

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

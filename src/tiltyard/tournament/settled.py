"""The settled judgments of a dimension as columns: what ratings need of them, in some thirty bytes each."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, overload

import numpy as np

from tiltyard.battles import Battle, BattleTable, Codes, Outcome, Source
from tiltyard.judging.records import to_battle

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from tiltyard.judging.records import Judgment


@dataclass(slots=True)
class _Texts:
    """A column of texts that repeat: a number for each row, and every text once, in the order of appearance."""

    codes: array[int] = field(default_factory=lambda: array("i"))
    numbers: dict[str, int] = field(default_factory=dict)

    def append(self, text: str) -> None:
        self.codes.append(self.numbers.setdefault(text, len(self.numbers)))

    def labels(self) -> list[str]:
        return list(self.numbers)

    def column(self) -> NDArray[np.int32]:
        return np.array(self.codes, dtype=np.int32)


class SettledBattles(Sequence[Battle]):
    """The battles of a dimension's judgments, each made when it is looked at; failed judgments are none."""

    def __init__(self, dimension: str, judgments: Iterable[Judgment]) -> None:
        self._dimension = dimension
        self._entrants: dict[str, int] = {}
        self._a, self._b = _Texts(numbers=self._entrants), _Texts(numbers=self._entrants)
        self._prompt, self._judge = _Texts(), _Texts()
        self._outcome, self._inconsistent, self._score = array("b"), array("b"), array("d")
        for judgment in judgments:
            battle = to_battle(judgment)
            if battle is not None:
                self._append(battle)
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
        )

    def table(self) -> BattleTable:
        """The same battles as ratings take them, prompts included."""
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
            columns={"question_id": Codes(self._prompt.column(), self._prompts)},
        )

    def inconsistent(self) -> NDArray[np.bool_]:
        """For each battle, whether the two orders disagreed."""
        return np.array(self._inconsistent, dtype=bool)

"""Counted votes as columns: what the offline rating, the integrity checks and the weekly report look at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tiltyard.arena.state import CastVote, Standing
from tiltyard.battles.outcome import Outcome, Source
from tiltyard.battles.table import BattleTable, Codes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tiltyard.arena.catalog import Catalog

Ints = NDArray[np.int64]
Int8s = NDArray[np.int8]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class VoteTable:
    """Votes in the order of the log: when (microseconds), models by side, prompt, voter, outcome codes.

    Models and prompts are the arena's numbers, and `models` and `prompts` their names; voters are numbered here, and
    `matchup_ids` names each vote. A table without voters has a voter of its own per vote.
    """

    models: tuple[str, ...]
    prompts: tuple[str, ...]
    at: Ints
    model_a: Ints
    model_b: Ints
    prompt: Ints
    voter: Ints
    outcome: Int8s
    voters: tuple[str, ...] = ()
    matchup_ids: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.at)

    @property
    def rated(self) -> Bools:
        """Which votes move ratings: all but the both-bad ones."""
        return np.asarray(self.outcome != Outcome.BOTH_BAD)

    def score_a(self) -> NDArray[np.float64]:
        """The score of side A of every vote: 1, 0, or ½; meaningless where both were bad."""
        return np.array([1.0, 0.0, 0.5, 0.5])[self.outcome]

    def battles(self, weight: NDArray[np.float64] | None = None) -> BattleTable:
        """The votes as battles that people decided, with prompt and voter as columns."""
        names = tuple(sorted(self.models))
        code = np.array([names.index(name) for name in self.models], dtype=np.int32)
        voters = list(self.voters) or [str(number) for number in range(int(self.voter.max(initial=-1)) + 1)]
        return BattleTable(
            models=names,
            model_a=code[self.model_a],
            model_b=code[self.model_b],
            outcome=self.outcome,
            source=np.full(len(self), Source.HUMAN, dtype=np.int8),
            weight=np.ones(len(self)) if weight is None else weight,
            columns={
                "question_id": Codes(self.prompt.astype(np.int32), list(self.prompts)),
                "voter": Codes(self.voter.astype(np.int32), voters),
            },
        ).compact()


def vote_table(votes: Iterable[CastVote], catalog: Catalog) -> VoteTable:
    """The counted ones of some votes, which stand in the order of the log."""
    counted = [vote for vote in votes if vote.standing is Standing.COUNTED]
    numbers: dict[str, int] = {}
    voter = [numbers.setdefault(vote.voter, len(numbers)) for vote in counted]
    return VoteTable(
        models=tuple(model.model for model in catalog.models),
        prompts=tuple(prompt.prompt_id for prompt in catalog.prompts),
        at=_column([vote.at for vote in counted]),
        model_a=_column([vote.a for vote in counted]),
        model_b=_column([vote.b for vote in counted]),
        prompt=_column([vote.prompt for vote in counted]),
        voter=_column(voter),
        outcome=np.array([vote.choice.outcome for vote in counted], dtype=np.int8),
        voters=tuple(numbers),
        matchup_ids=tuple(vote.matchup_id for vote in counted),
    )


def _column(values: list[int]) -> Ints:
    return np.array(values, dtype=np.int64)

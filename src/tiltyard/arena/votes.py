"""Votes outside the database: kept in memory, as columns of a table, and as battle rows for an export."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from tiltyard.arena.catalog import Catalog
from tiltyard.arena.events import ModelAdded, PromptAdded
from tiltyard.arena.policy import DefenceRules
from tiltyard.arena.rating_track import SCORES, Ratings, Votes
from tiltyard.arena.state import CastRun, CastVote, VoteStanding
from tiltyard.arena.units import HOUR
from tiltyard.arena.weights import vote_weights
from tiltyard.battles.battle import Outcome, Source
from tiltyard.battles.table import BattleTable, Codes
from tiltyard.types import Bools, Floats, Ints

Int8s = NDArray[np.int8]


class MemoryVoteBook:
    """Every vote in a list, in the order of the log."""

    def __init__(self) -> None:
        self.votes: list[CastVote] = []
        self._places: dict[str, int] = {}

    def cast(self, vote: CastVote) -> None:
        """Keep a new vote."""
        self._places[vote.matchup_id] = len(self.votes)
        self.votes.append(vote)

    def cast_all(self, votes: CastRun) -> None:
        """Keep many new votes."""
        self._places.update(zip(votes.matchup_id, count(len(self.votes)), strict=False))
        self.votes += votes.votes()

    def find(self, matchup_ids: Iterable[str]) -> list[CastVote]:
        """The votes on these matchups, in the order of the log."""
        places = sorted(self._places[name] for name in set(matchup_ids) if name in self._places)
        return [self.votes[place] for place in places]

    def change(self, votes: Iterable[CastVote], standing: VoteStanding) -> None:
        """Change the status of votes."""
        for vote in votes:
            self.votes[self._places[vote.matchup_id]] = msgspec.structs.replace(vote, standing=standing)

    def ratings_before(self, seq: int) -> Ratings | None:  # noqa: ARG002
        """None: every vote is in memory, so a replay starts from the beginning."""
        return None

    def votes_after(self, seq: int) -> Iterable[Votes]:
        """The votes that count, in one piece."""
        counted = [vote for vote in self.votes if vote.seq > seq and vote.standing is VoteStanding.COUNTED]
        yield Votes(
            np.array([vote.seq for vote in counted], dtype=np.int64),
            np.array([vote.a for vote in counted], dtype=np.int32),
            np.array([vote.b for vote in counted], dtype=np.int32),
            np.array([SCORES[vote.choice] for vote in counted], dtype=np.float64),
        )


@dataclass(frozen=True, slots=True, eq=False)
class VoteTable:
    """Votes in the order of the log: when (microseconds), models by side, prompt, voter, outcome codes.

    Models and prompts are the arena's numbers, and `models` and `prompts` their names; voters are numbered here, and
    `matchup_ids` names each vote. Without voters, every vote counts as a different voter's.
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
    block: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """The block that each vote came from, as a number in `blocks`; -1: none is known. Left out: none is known."""
    blocks: tuple[str, ...] = ()
    weight: Floats = field(default_factory=lambda: np.zeros(0))
    """How much of each vote counts (`arena/weights.py`). Left out: all of it."""
    by_contender_lane: Bools = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    """Which matchups the contender lane chose. Left out: none."""

    def __post_init__(self) -> None:
        if not len(self.by_contender_lane):
            object.__setattr__(self, "by_contender_lane", np.zeros(len(self.at), dtype=np.bool_))
        if not len(self.block):
            object.__setattr__(self, "block", np.full(len(self.at), -1, dtype=np.int64))
        if not len(self.weight):
            object.__setattr__(self, "weight", np.ones(len(self.at)))

    def __len__(self) -> int:
        return len(self.at)

    @property
    def rated(self) -> Bools:
        """Which votes move ratings: all but the both-bad ones."""
        return np.asarray(self.outcome != Outcome.BOTH_BAD)

    def score_a(self) -> Floats:
        """The score of side A of every vote: 1, 0, or ½; meaningless where both were bad."""
        return np.array([1.0, 0.0, 0.5, 0.5])[self.outcome]

    def battles(self, weight: Floats | None = None) -> BattleTable:
        """The votes as battles that people decided, with prompt, voter and time as columns, and their weights.

        Parameters:
            weight: Other weights than the votes' own.
        """
        names = tuple(sorted(self.models))
        code = np.array([names.index(name) for name in self.models], dtype=np.int32)
        voters = list(self.voters) or [str(number) for number in range(int(self.voter.max(initial=-1)) + 1)]
        return BattleTable(
            models=names,
            model_a=code[self.model_a],
            model_b=code[self.model_b],
            outcome=self.outcome,
            source=np.full(len(self), Source.HUMAN, dtype=np.int8),
            weight=self.weight if weight is None else weight,
            columns={
                "question_id": Codes(self.prompt.astype(np.int32), list(self.prompts)),
                "voter": Codes(self.voter.astype(np.int32), voters),
                "timestamp": self.at / 1e6,
            },
        ).compact()


class CatalogNames(NamedTuple):
    """Who and what is in an arena, without anything that changes with votes."""

    models: list[ModelAdded]
    prompts: list[PromptAdded]


def vote_table(votes: Iterable[CastVote], catalog: Catalog | CatalogNames) -> VoteTable:
    """The counted votes among these, which are in log order."""
    counted = [vote for vote in votes if vote.standing is VoteStanding.COUNTED]
    numbers: dict[str, int] = {}
    voter = [numbers.setdefault(vote.voter, len(numbers)) for vote in counted]
    blocks: dict[str, int] = {}
    block = [blocks.setdefault(vote.block, len(blocks)) if vote.block else -1 for vote in counted]
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
        block=_column(block),
        blocks=tuple(blocks),
        by_contender_lane=np.array([vote.lane == "contender" for vote in counted], dtype=np.bool_),
    )


def _column(values: list[int]) -> Ints:
    return np.array(values, dtype=np.int64)


def battle_rows(
    votes: Iterable[CastVote],
    catalog: Catalog,
    rules: DefenceRules,
    reasons: Mapping[str, Sequence[str]] | None = None,
) -> Iterator[dict[str, Any]]:
    """One row per vote, in the order of the log, with its status and weight; votes that were undone are left out.

    An excluded vote weighs 0, a counted one as much as on the published board, so that rating the rows gives that
    board. `voter` is a number assigned in order of appearance: it says which votes belong together, and cannot be
    traced back. The time is rounded down to the hour, so that it cannot be matched with another log. `unrendered` is
    a column where any voter said that answer `A`, `B` or both (`AB`) could not be shown, and `reasons` one where any
    voter gave reasons; these are lists of tags.
    """
    cast = [vote for vote in votes if vote.standing is not VoteStanding.UNDONE]
    weights = iter(vote_weights(vote_table(cast, catalog), rules).tolist())
    models: Sequence[str] = [model.model for model in catalog.models]
    prompts = [prompt.prompt_id for prompt in catalog.prompts]
    numbers: dict[str, int] = {}
    says_unrendered = any(vote.unrendered for vote in cast)
    for vote in cast:
        yield {
            "model_a": models[vote.a],
            "model_b": models[vote.b],
            "winner": vote.choice.outcome.label,
            "source": "human",
            "question_id": prompts[vote.prompt],
            "voter": f"v{numbers.setdefault(vote.voter, len(numbers) + 1)}",
            "timestamp": vote.at // HOUR * 3600,
            "status": str(vote.standing),
            "weight": next(weights) if vote.standing is VoteStanding.COUNTED else 0.0,
            **({"unrendered": vote.unrendered} if says_unrendered else {}),
            **({"reasons": list(reasons.get(vote.matchup_id, ()))} if reasons else {}),
        }

"""What matchmaking takes and returns: what a voter has seen, a lane's pick, and the matchup to serve."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tiltyard.arena.events import MatchupServed
from tiltyard.arena.state import ArenaState
from tiltyard.arena.tallies import Pair  # noqa: TC001 - it is part of a type that others import
from tiltyard.arena.voting import SECOND

if TYPE_CHECKING:
    from tiltyard.arena.events import Lane


Triple = tuple[int, int, int]
"""Smaller model, larger model, prompt."""

Seen = Mapping[Triple, int]
"""What a voter saw, and when it was last seen, as a growing number."""


class SeenMatchups:
    """What a voter saw, by matchup and by pair. A caller that serves a voter often keeps it and adds what is new."""

    __slots__ = ("most", "prompts", "when")

    def __init__(self, seen: Seen | None = None) -> None:
        self.when: dict[Triple, int] = {}
        self.prompts: dict[Pair, list[int]] = {}
        """The prompts on which the voter saw each pair."""
        self.most = 0
        """The largest number of prompts seen of any pair."""
        for triple, at in (seen or {}).items():
            self.note(triple, at)

    def note(self, triple: Triple, at: int) -> None:
        """Add what the voter sees now, or note that it was seen again."""
        last = self.when.get(triple)
        if last is None:
            prompts = self.prompts.setdefault(triple[:2], [])
            prompts.append(triple[2])
            self.most = max(self.most, len(prompts))
        self.when[triple] = at if last is None else max(at, last)


@dataclass(frozen=True, slots=True)
class ChosenMatchup:
    """Two models by side and a prompt, all by number; why these, and how likely they were.

    `probability` is the chance, given the state and this voter, that `lane` served and chose this pair and prompt, in
    either role and on either side: it includes the draw of the lane and the draws that fell through to it. If a lane
    takes the best and draws only among ties, it is the lane's share divided by the number of ties.
    """

    a: int
    b: int
    prompt: int
    lane: Lane
    reason: str
    probability: float


@dataclass(frozen=True, slots=True)
class Pick:
    """What one lane chose, before sides are drawn; `chance` is that of the pair and prompt within the lane."""

    first: int
    second: int
    prompt: int
    chance: float
    reason: str


Chooser = Callable[[ArenaState, np.random.Generator, SeenMatchups], ChosenMatchup]
"""What chooses the next matchup for a voter who has seen this."""


def served_event(
    state: ArenaState, chosen: ChosenMatchup, *, matchup_id: str, voter: str, seed: int, at: int, block: str = ""
) -> MatchupServed:
    """The event of a chosen matchup: with the current answers, open for the policy's time."""
    catalog = state.catalog
    return MatchupServed(
        matchup_id=matchup_id,
        voter=voter,
        prompt_id=catalog.prompts[chosen.prompt].prompt_id,
        model_a=catalog.models[chosen.a].model,
        model_b=catalog.models[chosen.b].model,
        response_a=catalog.response_ids[chosen.a, chosen.prompt],
        response_b=catalog.response_ids[chosen.b, chosen.prompt],
        lane=chosen.lane,
        reason=chosen.reason,
        probability=float(chosen.probability),
        seed=seed,
        expires_at=at + state.policy.matchup_expires_seconds * SECOND,
        block=block,
    )

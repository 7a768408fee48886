"""What every lane uses: what a voter has seen, a lane's pick, the matchup to serve; and drawing by weight."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, Protocol, runtime_checkable

import msgspec
import numpy as np
from numpy.typing import NDArray

from tiltyard.arena.rules.events import AnyBody, Event, Lane, MatchupServed
from tiltyard.arena.rules.state import ArenaState
from tiltyard.arena.rules.tallies import Pair
from tiltyard.arena.rules.units import SECOND
from tiltyard.errors import ArenaError
from tiltyard.types import Floats

LEVEL = 1e-6
"""Scores this close are tied: they differ only by rounding."""

Triple = tuple[int, int, int]
"""Smaller model, larger model, prompt."""


class SeenMatchups:
    """What a voter saw, by pair. A caller that serves a voter often keeps it and adds what is new."""

    __slots__ = ("_of_pair", "most", "voter")

    def __init__(self, seen: Mapping[Triple, int] | None = None, voter: str = "") -> None:
        self.voter = voter
        self._of_pair: dict[Pair, dict[int, int]] = {}
        """By pair, when it was last seen on each prompt, as a growing number."""
        self.most = 0
        """The largest number of prompts seen of any pair."""
        for triple, at in (seen or {}).items():
            self.note(triple, at)

    def note(self, triple: Triple, at: int) -> None:
        first, second, prompt = triple
        known = self._of_pair.setdefault((first, second), {})
        known[prompt] = max(at, known.get(prompt, at))
        self.most = max(self.most, len(known))

    def prompts(self, pair: Pair) -> Sequence[int]:
        return tuple(self._of_pair.get(pair, ()))

    def pairs(self, *, at_least: int) -> list[Pair]:
        return [pair for pair, known in self._of_pair.items() if len(known) >= at_least]

    def when(self, pair: Pair) -> Mapping[int, int]:
        return self._of_pair.get(pair, {})

    def triples(self) -> Iterator[tuple[Triple, int]]:
        for pair, known in self._of_pair.items():
            for prompt, at in known.items():
                yield (*pair, prompt), at


MeetingKind = Literal["neighbour", "close", "challenger"]


class ContenderMeeting(msgspec.Struct, frozen=True):
    """Why the contender lane chose two models: ranks, from 1, and whether they were below their floor of votes."""

    kind: MeetingKind
    anchor: int
    opponent: int
    short: bool = False

    def reason(self, band: int) -> str:
        who = f"{'contender' if self.anchor <= band else 'rank'} {self.anchor}"
        if self.kind == "neighbour":
            where = "above" if self.opponent < self.anchor else "below"
            return f"{who} and the neighbour {where}{', below their floor of votes' if self.short else ''}"
        return (
            f"{who} and {'the contender closest in rating' if self.kind == 'close' else 'challenger'} {self.opponent}"
        )


class ChosenMatchup(msgspec.Struct, frozen=True):
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
    meeting: ContenderMeeting | None = None


class Pick(msgspec.Struct, frozen=True):
    """What one lane chose, before sides are drawn; `chance` is that of the pair and prompt within the lane."""

    first: int
    second: int
    prompt: int
    chance: float
    reason: str
    meeting: ContenderMeeting | None = None
    """What the contender lane chose."""


Chooser = Callable[[ArenaState, np.random.Generator, SeenMatchups], ChosenMatchup]
"""What chooses the next matchup for a voter who has seen this."""


@runtime_checkable
class FollowsLog(Protocol):
    """A chooser that has to know every matchup of everybody: it is told each event once, in the order of the log."""

    def begin(self) -> None:
        """Forget everything: the log follows from its first event."""
        ...

    def note(self, event: Event) -> None:
        """The next event, under the lock."""
        ...

    def objection(self, body: AnyBody) -> ArenaError | None:
        """Why an event that the rules of voting allow may not come next; None: it may."""
        ...


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


def draw(rng: np.random.Generator, weights: Floats) -> int:
    """A position drawn in proportion to its weight; one of weight 0 is never drawn."""
    up_to = weights.cumsum()
    place = int(up_to.searchsorted(rng.random() * up_to[-1], side="right"))
    return place if place < len(weights) else int(weights.nonzero()[0][-1])


def tied_best(scores: Floats) -> NDArray[np.intp]:
    """The positions of the highest score."""
    best: float = np.maximum.reduce(scores)
    return (scores >= best - LEVEL).nonzero()[0]


def draw_one(rng: np.random.Generator, positions: NDArray[np.intp] | Sequence[int]) -> int:
    """One of the positions, all equally likely."""
    return int(positions[0]) if len(positions) == 1 else int(positions[int(rng.random() * len(positions))])

"""What matchmaking takes and gives: a voter's past, a pick of a lane, and the matchup to serve."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tiltyard.arena.events import Lane


Seen = Mapping[tuple[int, int, int], int]
"""(smaller model, larger model, prompt) -> when this voter last saw it, as a number that grows."""


@dataclass(frozen=True, slots=True)
class Matchup:
    """Two models by side and a prompt, all by number; why these, and how likely they were.

    `probability` is the chance, given the state and this voter, that `lane` was to serve and chose this pair and
    prompt, in whichever role and on whichever side: the draw of the lane included, and the draws that fell through to
    it. Where a lane takes the best and only ties are drawn, that is the lane's share over the number of ties.
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

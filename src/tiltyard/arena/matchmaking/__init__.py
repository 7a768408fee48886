"""Matchmaking: four lanes over the state of an arena, one small file each, and the legacy algorithm of phase 1."""

from typing import TYPE_CHECKING

from tiltyard.faces import names_on_demand

if TYPE_CHECKING:
    from tiltyard.arena.matchmaking.fairness import THREE_SIGMA
    from tiltyard.arena.matchmaking.matchup import ChosenMatchup, SeenMatchups

__getattr__ = names_on_demand(__name__)

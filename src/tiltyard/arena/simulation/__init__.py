"""Simulation: voters drive the real matchmaking, ledger and ratings in process, over known strengths."""

from tiltyard.arena.simulation.attack_cost import AttackReport, Defence, flagged_voters
from tiltyard.arena.simulation.ledger import MemoryArena, SimulatedArena
from tiltyard.arena.simulation.result import (
    ContenderShares,
    CurvePoint,
    LateModel,
    NeighbourPair,
    SeenAgain,
    SimulationResult,
)
from tiltyard.arena.simulation.run import SimulationSettings, simulate

__all__ = [
    "AttackReport",
    "ContenderShares",
    "CurvePoint",
    "Defence",
    "LateModel",
    "MemoryArena",
    "NeighbourPair",
    "SeenAgain",
    "SimulatedArena",
    "SimulationResult",
    "SimulationSettings",
    "flagged_voters",
    "simulate",
]

"""Simulation: voters drive the real matchmaking, ledger and ratings in process, over known strengths."""

from tiltyard.arena.simulation.attack_cost import AttackReport, Defence, flagged_voters
from tiltyard.arena.simulation.ledger import MemoryArena, SimulatedArena
from tiltyard.arena.simulation.result import CurvePoint, LateModel, SimulationResult
from tiltyard.arena.simulation.run import SimulationSettings, simulate

__all__ = [
    "AttackReport",
    "CurvePoint",
    "Defence",
    "LateModel",
    "MemoryArena",
    "SimulatedArena",
    "SimulationResult",
    "SimulationSettings",
    "flagged_voters",
    "simulate",
]

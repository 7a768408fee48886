"""Simulation: voters drive the real matchmaking, ledger and ratings in process, over known strengths."""

from tiltyard.arena.simulation.ledger import MemoryArena
from tiltyard.arena.simulation.result import SimulationResult
from tiltyard.arena.simulation.run import SimulationSettings, simulate

__all__ = ["MemoryArena", "SimulationResult", "SimulationSettings", "simulate"]

"""A population of voters drives the real matchmaking, ledger and ratings in process, over strengths that are known."""

from tiltyard.arena.simulation.attack_cost import AttackReport, Defence, flagged_voters
from tiltyard.arena.simulation.engine import Engine, Ledger
from tiltyard.arena.simulation.result import CurvePoint, LateModel, SimulationResult
from tiltyard.arena.simulation.run import simulate
from tiltyard.arena.simulation.settings import SimulationSettings

__all__ = [
    "AttackReport",
    "CurvePoint",
    "Defence",
    "Engine",
    "LateModel",
    "Ledger",
    "SimulationResult",
    "SimulationSettings",
    "flagged_voters",
    "simulate",
]

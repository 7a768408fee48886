"""Simulation: voters drive the real matchmaking, ledger and ratings in process, over known strengths."""

from typing import TYPE_CHECKING

from tiltyard.faces import names_on_demand

if TYPE_CHECKING:
    from tiltyard.arena.simulation.attack_lab import LabResult, LabSettings
    from tiltyard.arena.simulation.ledger import RecordingArena, keep_log
    from tiltyard.arena.simulation.population import Attack, AttackKind
    from tiltyard.arena.simulation.result import SimulationResult
    from tiltyard.arena.simulation.run import SimulationSettings, simulate

__getattr__ = names_on_demand(__name__)

"""Battles: one as a record, files of them, and tables of millions."""

from tiltyard.battles.battle import Battle, Outcome, Source
from tiltyard.battles.eval_logs import battle_score
from tiltyard.battles.formats import FORMAT_NAMES
from tiltyard.battles.reading import find_problems, peek, read_battles
from tiltyard.battles.stats import BattleStats, battle_stats
from tiltyard.battles.table import BattleTable, Codes
from tiltyard.battles.writing import battles_to_frame, write_battles

__all__ = [
    "FORMAT_NAMES",
    "Battle",
    "BattleStats",
    "BattleTable",
    "Codes",
    "Outcome",
    "Source",
    "battle_score",
    "battle_stats",
    "battles_to_frame",
    "find_problems",
    "peek",
    "read_battles",
    "write_battles",
]

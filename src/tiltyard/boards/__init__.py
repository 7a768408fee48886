"""Leaderboards: battles in, rated models out, with how every number came about."""

from tiltyard.boards.bradley_terry import BradleyTerry
from tiltyard.boards.elo import Elo, PermutationElo
from tiltyard.boards.glicko2 import Glicko2
from tiltyard.boards.leaderboard import BoardComparison, EloReport, Leaderboard, RatingEntry, compare_boards
from tiltyard.boards.rating import METHODS, Reading, make_estimator, rate, rate_by
from tiltyard.boards.selection import Selection
from tiltyard.boards.win_rate import WinRate

__all__ = [
    "METHODS",
    "BoardComparison",
    "BradleyTerry",
    "Elo",
    "EloReport",
    "Glicko2",
    "Leaderboard",
    "PermutationElo",
    "RatingEntry",
    "Reading",
    "Selection",
    "WinRate",
    "compare_boards",
    "make_estimator",
    "rate",
    "rate_by",
]

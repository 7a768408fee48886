"""Leaderboards: battles in, rated models out, with how each number was computed."""

from tiltyard.boards import charts as charts
from tiltyard.boards import comparison as comparison
from tiltyard.boards import text as text
from tiltyard.boards.bradley_terry import BradleyTerry
from tiltyard.boards.comparison import BoardComparison, BoardsByValue
from tiltyard.boards.leaderboard import EloReport, Leaderboard, RatingEntry, RatingsFile
from tiltyard.boards.preparation import Selection
from tiltyard.boards.rating import METHODS, rate, rate_by
from tiltyard.boards.sequential import Elo, Glicko2, PermutationElo
from tiltyard.boards.win_rate import WinRate
from tiltyard.options import InputOptions

__all__ = [
    "METHODS",
    "BoardComparison",
    "BoardsByValue",
    "BradleyTerry",
    "Elo",
    "EloReport",
    "Glicko2",
    "InputOptions",
    "Leaderboard",
    "PermutationElo",
    "RatingEntry",
    "RatingsFile",
    "Selection",
    "WinRate",
    "rate",
    "rate_by",
]

"""Matchmaking: four lanes over the state of an arena, one small file each, and the legacy algorithm of phase 1."""

from tiltyard.arena.matchmaking.choosing import REPEATS, Matchmaker, next_matchup, prompt_for_pair
from tiltyard.arena.matchmaking.exposure import TrafficCap
from tiltyard.arena.matchmaking.matchup import Chooser, ChosenMatchup, FollowsLog, Seen, SeenMatchups, served_event

__all__ = [
    "REPEATS",
    "Chooser",
    "ChosenMatchup",
    "FollowsLog",
    "Matchmaker",
    "Seen",
    "SeenMatchups",
    "TrafficCap",
    "next_matchup",
    "prompt_for_pair",
    "served_event",
]

"""Scores of answers in their own unit: files of any shape, and logs of other tools, as mean scores by prompt."""

from tiltyard.battles.eval_logs import ScoredAnswer, ScoredRun
from tiltyard.battles.log_readers import LogReader, check_log_reader
from tiltyard.scores.reading import ReadScoresOptions, as_battles, holds_scores, read_scores
from tiltyard.scores.table import ScoreTable

__all__ = [
    "LogReader",
    "ReadScoresOptions",
    "ScoreTable",
    "ScoredAnswer",
    "ScoredRun",
    "as_battles",
    "check_log_reader",
    "holds_scores",
    "read_scores",
]

"""Scores of answers in their own unit: files of any shape, and logs of other tools, as mean scores by prompt."""

from tiltyard.scores.reading import ReadScoresOptions, as_battles, holds_scores, read_scores
from tiltyard.scores.table import ScoreTable

__all__ = ["ReadScoresOptions", "ScoreTable", "as_battles", "holds_scores", "read_scores"]

"""Scores of answers in their own unit: files of any shape, and logs of other tools, as mean scores by prompt."""

from typing import TYPE_CHECKING

from tiltyard.faces import names_on_demand

if TYPE_CHECKING:
    from tiltyard.data.battles.eval_logs import ScoredAnswer, ScoredRun
    from tiltyard.data.battles.log_readers import LogReader, check_log_reader
    from tiltyard.data.scores.reading import ReadScoresOptions, as_battles, holds_scores, read_scores
    from tiltyard.data.scores.table import DirectionFrom, ScoreTable, common_prompts

__all__ = [
    "LogReader", "ReadScoresOptions", "ScoredAnswer", "ScoredRun", "ScoreTable", "as_battles", "check_log_reader",
    "holds_scores", "read_scores",
]

__getattr__ = names_on_demand(__name__)

"""What follows from a board: the difference of two models or two runs, a gate over it, and how much more data it takes.

`contrast` is the arithmetic, `missing` what was not decided; `compare_battles`, `compare_scores` and `compare_runs`
make an `answer` of them; `gate` is the rule over it, `plan` the size of a sample; `render` and `plan_words` are the
words. Imports point one way; a record that is printed asks this room for its words.
"""

from tiltyard.decisions import plan_words as plan_words
from tiltyard.decisions import render as render
from tiltyard.decisions.answer import Difference, MetricsComparison, RatingDifference, RunComparison, ScoreDifference
from tiltyard.decisions.answer import EntrantChange as EntrantChange
from tiltyard.decisions.answer import EstimatedDifference as EstimatedDifference
from tiltyard.decisions.answer import PromptScore as PromptScore
from tiltyard.decisions.answer import side as side
from tiltyard.decisions.compare_battles import compare_in as compare_in
from tiltyard.decisions.compare_battles import compare_models as compare_models
from tiltyard.decisions.compare_battles import is_run_folder as is_run_folder
from tiltyard.decisions.compare_battles import mean_result as mean_result
from tiltyard.decisions.compare_battles import open_source as open_source
from tiltyard.decisions.compare_battles import results_of_a as results_of_a
from tiltyard.decisions.compare_runs import compare_ratings as compare_ratings
from tiltyard.decisions.compare_runs import compare_runs as compare_runs
from tiltyard.decisions.compare_scores import ABOUT_BATTLES as ABOUT_BATTLES
from tiltyard.decisions.compare_scores import compare_scores as compare_scores
from tiltyard.decisions.contrast import contrast as contrast
from tiltyard.decisions.gate import GateResult, MetricsGate
from tiltyard.decisions.gate import judge_difference as judge_difference
from tiltyard.decisions.gate import judge_metrics as judge_metrics
from tiltyard.decisions.plan import FEWEST_PROMPTS as FEWEST_PROMPTS
from tiltyard.decisions.plan import (
    BoardPlan,
    CallPrice,
    SamplePlan,
    ScorePlan,
    plan_difference,
    plan_from_battles,
    plan_top,
)
from tiltyard.decisions.plan import plan_from_scores as plan_from_scores
from tiltyard.decisions.sample_size import Assumptions, Goal
from tiltyard.decisions.score_board import ScoreBoard, ScoreBoards
from tiltyard.decisions.score_board import score_board as score_board
from tiltyard.decisions.score_board import score_boards as score_boards
from tiltyard.decisions.units import POINTS as POINTS

__all__ = [
    "Assumptions",
    "BoardPlan",
    "CallPrice",
    "Difference",
    "GateResult",
    "Goal",
    "MetricsComparison",
    "MetricsGate",
    "RatingDifference",
    "RunComparison",
    "SamplePlan",
    "ScoreBoard",
    "ScoreBoards",
    "ScoreDifference",
    "ScorePlan",
    "plan_difference",
    "plan_from_battles",
    "plan_top",
]

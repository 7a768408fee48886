"""What follows from a board: the difference of two models or two runs, a gate over it, and how much more data it takes.

`contrast` is the arithmetic, `missing` what was not decided, `two_models`, `scores`, `two_runs` and `two_boards` the
answers (`records`), `gate` the rule over them, `plan` the size of a sample; `words`, `gate_words` and `plan_words` say
how they read. Imports point one way, in this order; a record that is printed asks this room for its words.
"""

from tiltyard.decisions import gate_words as gate_words
from tiltyard.decisions import plan_words as plan_words
from tiltyard.decisions import words as words
from tiltyard.decisions.gate import GateResult, MetricsGate
from tiltyard.decisions.plan import BoardPlan, CallPrice, SamplePlan, plan_difference, plan_from_battles, plan_top
from tiltyard.decisions.records import Difference, MetricsComparison, RunComparison
from tiltyard.decisions.sample_size import Assumptions, Goal
from tiltyard.decisions.score_board import ScoreBoard, ScoreBoards
from tiltyard.decisions.score_plan import ScorePlan
from tiltyard.decisions.sources import is_run_folder as is_run_folder
from tiltyard.decisions.sources import open_source as open_source

__all__ = [
    "Assumptions",
    "BoardPlan",
    "CallPrice",
    "Difference",
    "GateResult",
    "Goal",
    "MetricsComparison",
    "MetricsGate",
    "RunComparison",
    "SamplePlan",
    "ScoreBoard",
    "ScoreBoards",
    "ScorePlan",
    "plan_difference",
    "plan_from_battles",
    "plan_top",
]

"""What follows from a board: the difference of two models or two runs, a gate over it, and how much more data it takes.

`contrast` is the arithmetic, `missing` what was not decided; `compare_battles` and `compare_scores` make an `answer` of
them; `gate` is the rule over it, `plan` the size of a sample; `render` and `plan_words` are the words. Imports point
one way; a record that is printed asks this room for its words.
"""

from typing import TYPE_CHECKING

from tiltyard.faces import names_on_demand

if TYPE_CHECKING:
    from tiltyard.analysis.decisions import plan_words, render
    from tiltyard.analysis.decisions.answer import (
        Difference,
        EntrantChange,
        EstimatedDifference,
        MetricsComparison,
        PromptScore,
        RatingDifference,
        RunComparison,
        ScoreDifference,
        side,
    )
    from tiltyard.analysis.decisions.compare_battles import (
        battle_source,
        compare_in,
        compare_models,
        compare_ratings,
        compare_runs,
        is_run_folder,
        mean_result,
        results_of_a,
    )
    from tiltyard.analysis.decisions.compare_scores import ABOUT_BATTLES
    from tiltyard.analysis.decisions.gate import GateResult, MetricsGate, judge_difference, judge_metrics
    from tiltyard.analysis.decisions.plan import (
        FEWEST_PROMPTS,
        BoardPlan,
        CallPrice,
        SamplePlan,
        ScorePlan,
        plan_difference,
        plan_from_battles,
        plan_from_scores,
        plan_top,
    )
    from tiltyard.analysis.decisions.sample_size import Assumptions, Goal
    from tiltyard.analysis.decisions.score_board import ScoreBoard, ScoreBoards, score_boards
    from tiltyard.analysis.decisions.units import POINTS

__all__ = [
    "Assumptions", "BoardPlan", "CallPrice", "Difference", "GateResult", "Goal", "MetricsComparison", "MetricsGate",
    "RatingDifference", "RunComparison", "SamplePlan", "ScoreBoard", "ScoreBoards", "ScoreDifference", "ScorePlan",
    "plan_difference", "plan_from_battles", "plan_top",
]

__getattr__ = names_on_demand(__name__)

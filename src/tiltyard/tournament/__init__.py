"""Judged tournaments: cached answers of N entrants, judged in both orders, rated, and kept in a run folder."""

from typing import TYPE_CHECKING

from tiltyard.faces import names_on_demand

if TYPE_CHECKING:
    from tiltyard.tournament import ratings, remaking
    from tiltyard.tournament.artifacts import JUDGE_PROMPTS, EloResults, JudgePrompts, MatchLine, calibrated_path
    from tiltyard.tournament.config import Entrant, OpponentSettings, Setup, load_setup
    from tiltyard.tournament.people import write_sheet
    from tiltyard.tournament.plan import PlanImages, RunPlan, make_plan
    from tiltyard.tournament.ratings import (
        EVEN, BaselineTable, DimensionRatings, EloLine, JudgeHabits, PairTally, is_uneven,
    )
    from tiltyard.tournament.remaking import read_cases
    from tiltyard.tournament.rounds import ROUNDS_FILE, calls_of_budget, make_forecast, round_line
    from tiltyard.tournament.run import (
        RunResult, asking_parts, board_text, make_judge, make_judging_plan, passes, rate_all, run_folder,
        run_tournament, verdict_lines,
    )
    from tiltyard.tournament.scoring import (
        ANSWERS_FOLDER, RESULTS_FILE, SCORES_FILE, AnswerLine, DimensionScores, check_people,
    )

__getattr__ = names_on_demand(__name__)

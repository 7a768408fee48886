"""Judged tournaments: cached answers of N entrants, judged in both orders, rated, and kept in a run folder."""

from typing import TYPE_CHECKING

from tiltyard.faces import names_on_demand

if TYPE_CHECKING:
    from tiltyard.judge.tournament import ratings, remaking
    from tiltyard.judge.tournament.artifacts import JUDGE_PROMPTS, EloResults, JudgePrompts, MatchLine, calibrated_path
    from tiltyard.judge.tournament.config import Entrant, OpponentSettings, Setup, load_setup
    from tiltyard.judge.tournament.people import write_sheet
    from tiltyard.judge.tournament.plan import PlanImages, RunPlan, make_plan
    from tiltyard.judge.tournament.ratings import (
        EVEN,
        BaselineTable,
        DimensionRatings,
        EloLine,
        JudgeHabits,
        PairTally,
        is_uneven,
    )
    from tiltyard.judge.tournament.remaking import read_cases
    from tiltyard.judge.tournament.rounds import ROUNDS_FILE, calls_of_budget, make_forecast, round_line
    from tiltyard.judge.tournament.run import (
        RunResult,
        asking_parts,
        board_text,
        make_judge,
        make_judging_plan,
        passes,
        rate_all,
        run_folder,
        run_tournament,
        verdict_lines,
    )
    from tiltyard.judge.tournament.scoring import (
        ANSWERS_FOLDER,
        RESULTS_FILE,
        SCORES_FILE,
        AnswerLine,
        DimensionScores,
        check_people,
    )

__getattr__ = names_on_demand(__name__)

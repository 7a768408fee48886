"""Leaderboards: battles in, rated models out, with how each number was computed."""

from typing import TYPE_CHECKING

from tiltyard.faces import names_on_demand

if TYPE_CHECKING:
    from tiltyard.boards import charts, comparison, text
    from tiltyard.boards.bradley_terry import (
        CENTRE, REACH_NOTES, BradleyTerry, Solved, apart, apart_at_any_time, cluster_notes, coefficients,
        interval_settings,
    )
    from tiltyard.boards.charts import SUFFIXES, check_path
    from tiltyard.boards.comparison import BoardsByValue
    from tiltyard.boards.estimator import RATING_MAX, check_level, check_number, check_whole
    from tiltyard.boards.eval_records import Evaluator, write_eval_records
    from tiltyard.boards.fit_words import fit_sentences, fit_verdict
    from tiltyard.boards.leaderboard import EloReport, Leaderboard, RatingEntry, RatingsFile, whole
    from tiltyard.boards.misfit import MisfitFacts
    from tiltyard.boards.preparation import (
        DIMENSION, FEW_CLUSTERS, NO_DIMENSION, Selection, asked_clusters, dimensions_of, first_share, kind_of,
        known_clusters, known_models, nameless, pooled_remark, select, settle_sides, with_sides,
    )
    from tiltyard.boards.rating import (
        DEFAULT_INPUT, METHODS, Estimator, lacking, make_estimator, open_source, rate, rate_by, rate_with,
        rate_with_people, read_for, start_hashing,
    )
    from tiltyard.boards.record import BoardComparison, Coefficient, RoundsFacts
    from tiltyard.boards.sequential import Elo, Glicko2, PermutationElo
    from tiltyard.boards.text import (
        CLUSTER_NAMES, FORMATS, NOT_FOR_PICKED, as_table, footnotes, headline, interval_head, interval_text, percent,
        rank_text,
    )
    from tiltyard.boards.win_rate import WinRate
    from tiltyard.options import InputOptions

__all__ = [
    "METHODS", "BoardComparison", "BoardsByValue", "BradleyTerry", "Elo", "EloReport", "Glicko2", "InputOptions",
    "Leaderboard", "PermutationElo", "RatingEntry", "RatingsFile", "Selection", "WinRate", "rate", "rate_by",
]

__getattr__ = names_on_demand(__name__)

"""Leaderboards: battles in, rated models out, with how each number was computed."""

from typing import TYPE_CHECKING

from tiltyard.faces import names_on_demand

if TYPE_CHECKING:
    from tiltyard.analysis.boards import charts, comparison, text
    from tiltyard.analysis.boards.bradley_terry import (
        CENTRE,
        REACH_NOTES,
        BradleyTerry,
        Solved,
        apart,
        apart_at_any_time,
        cluster_notes,
        coefficients,
        interval_settings,
    )
    from tiltyard.analysis.boards.charts import SUFFIXES, check_path
    from tiltyard.analysis.boards.comparison import BoardsByValue
    from tiltyard.analysis.boards.estimator import RATING_MAX, check_level, check_number, check_whole
    from tiltyard.analysis.boards.eval_records import Evaluator, write_eval_records
    from tiltyard.analysis.boards.fit_words import fit_sentences, fit_verdict
    from tiltyard.analysis.boards.leaderboard import EloReport, Leaderboard, RatingEntry, RatingsFile, whole
    from tiltyard.analysis.boards.misfit import MisfitFacts
    from tiltyard.analysis.boards.preparation import (
        DIMENSION,
        FEW_CLUSTERS,
        NO_DIMENSION,
        Selection,
        asked_clusters,
        dimensions_of,
        first_share,
        kind_of,
        known_clusters,
        known_models,
        nameless,
        pooled_remark,
        select,
        settle_sides,
        with_sides,
    )
    from tiltyard.analysis.boards.rating import (
        DEFAULT_INPUT,
        METHODS,
        Estimator,
        lacking,
        make_estimator,
        open_source,
        rate,
        rate_by,
        rate_with,
        rate_with_people,
        read_for,
        start_hashing,
    )
    from tiltyard.analysis.boards.record import BoardComparison, Coefficient, RoundsFacts
    from tiltyard.analysis.boards.sequential import Elo, Glicko2, PermutationElo
    from tiltyard.analysis.boards.text import (
        CLUSTER_NAMES,
        FORMATS,
        NOT_FOR_PICKED,
        as_table,
        footnotes,
        headline,
        interval_head,
        interval_text,
        percent,
        rank_text,
    )
    from tiltyard.analysis.boards.win_rate import WinRate
    from tiltyard.options import InputOptions

__all__ = [
    "METHODS", "BoardComparison", "BoardsByValue", "BradleyTerry", "Elo", "EloReport", "Glicko2", "InputOptions",
    "Leaderboard", "PermutationElo", "RatingEntry", "RatingsFile", "Selection", "WinRate", "rate", "rate_by",
]

__getattr__ = names_on_demand(__name__)

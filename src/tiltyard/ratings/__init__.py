"""The arithmetic: arrays in, values out; no files, no clock, no terminal."""

from typing import TYPE_CHECKING

from tiltyard.faces import names_on_demand

if TYPE_CHECKING:
    from tiltyard.ratings import elo
    from tiltyard.ratings.agreement import (
        AgainstTheRest, Estimated, against_the_rest, krippendorff_alpha, pair_kappa, share_estimate,
    )
    from tiltyard.ratings.bootstrap import bootstrap_strengths
    from tiltyard.ratings.bradley_terry import BradleyTerryFit, bounded, fit_bounded, response
    from tiltyard.ratings.calibration import CalibrationCurve, ConfidenceBin, confidence_bins, predictions
    from tiltyard.ratings.clusters import SMALL_LEVERAGE, BattleDerivatives, ClusteredRows, ClusterSizes
    from tiltyard.ratings.comparisons import (
        FIRST_WON, OWN_CLUSTER, SECOND_WON, TIED, Comparisons, Counted, PairCells, WinRates, count_pairs,
        scaled_difference, sum_by, sum_by_both, win_rates,
    )
    from tiltyard.ratings.elo import K_MAX
    from tiltyard.ratings.elo_kernels import rate_with_baseline
    from tiltyard.ratings.glicko2 import (
        DEFAULT_SETTINGS, EVERY_ONE, PLAIN_SECONDS_PER_BATTLE, Glicko2Settings, Glicko2State, expected_score,
        rate_battles, rate_battles_history,
    )
    from tiltyard.ratings.glicko2_kernels import rate_one_by_one
    from tiltyard.ratings.graph import Reach, islands, reach, ties_bounded, wins_and_losses
    from tiltyard.ratings.influence import battles_to_swap, prepare
    from tiltyard.ratings.intervals import (
        DRAWS, FEW, FEWEST_CLUSTERS, MANY_MODELS, Clustering, Covariance, DrawnCovariance, Uncertainty, cluster_moves,
        clustered_rows, combine, drawn_sandwich, half_widths, in_both, row_scores, sandwich, summed_way,
    )
    from tiltyard.ratings.judge_scale import (
        CalibrationVerdicts, JudgeScale, NewModelVerdicts, ScaledPlacement, calibrate, place_on_scale, rank_of_one,
        told_apart,
    )
    from tiltyard.ratings.judged_scores import FEWEST_LABELLED, corrected_difference, separation
    from tiltyard.ratings.label_draw import DrawCheck, Trait, check_draw, kinds
    from tiltyard.ratings.misfit import MOST_MODELS, Misfit, TieLaw, check_fit
    from tiltyard.ratings.one_model import Anchors, OneModelFit, OneModelRows, fit_one
    from tiltyard.ratings.people_labels import LabelledMatchups, PeopleFit, fit_with_people
    from tiltyard.ratings.proportions import NO_ESTIMATE, Estimate, cohen_kappa, mean_of, share, wilson, win_rate
    from tiltyard.ratings.quantiles import normal_quantile, t_below, t_quantile
    from tiltyard.ratings.ranks import (
        ANYTIME_SPREAD, FIRST_LOOK, RankIntervals, anytime_cuts, anytime_half_width, bonferroni_cuts,
        chance_at_any_time, kendall_tau, places_of_intervals, rank_intervals, spearman_rho, tukey_cut,
    )
    from tiltyard.ratings.reliability import (
        A, B, FEWEST_JUDGES, MISSING, NEITHER, Reliability, estimate_reliability, plurality,
    )
    from tiltyard.ratings.scale import LOGITS_PER_POINT, POINTS_PER_LOGIT
    from tiltyard.ratings.score_differences import (
        FEWEST, FEWEST_UNBOUNDED, MOST_SKEWED, MOST_SKEWED_ANYTIME, RepeatNoise, ScoreEstimate, ScoreSpread,
        cluster_means, exact_sum, holm_ranks, least_deviation, mean_score, repeat_noise, score_difference,
        unpaired_difference,
    )
    from tiltyard.ratings.score_effects import ScoreEffects
    from tiltyard.ratings.shrinkage import (
        PooledFit, ShrunkFit, covariance_within, fit_of_category, fit_pooled, fit_shrunk,
    )
    from tiltyard.ratings.tie_models import FAR, HALF, TIE_MODELS, ResultScores, TieModel

__all__ = [
    "LOGITS_PER_POINT", "POINTS_PER_LOGIT",
]

__getattr__ = names_on_demand(__name__)

"""The arithmetic: arrays in, values out; no files, no clock, no terminal."""

from typing import TYPE_CHECKING

from tiltyard.faces import names_on_demand

if TYPE_CHECKING:
    from tiltyard.stats import elo
    from tiltyard.stats.agreement import (
        AgainstTheRest,
        Estimated,
        against_the_rest,
        krippendorff_alpha,
        pair_kappa,
        share_estimate,
    )
    from tiltyard.stats.bootstrap import bootstrap_strengths
    from tiltyard.stats.bradley_terry import BradleyTerryFit, bounded, fit_bounded, response
    from tiltyard.stats.calibration import CalibrationCurve, ConfidenceBin, confidence_bins, predictions
    from tiltyard.stats.clusters import SMALL_LEVERAGE, BattleDerivatives, ClusteredRows, ClusterSizes
    from tiltyard.stats.comparisons import (
        FIRST_WON,
        OWN_CLUSTER,
        SECOND_WON,
        TIED,
        Comparisons,
        Counted,
        PairCells,
        WinRates,
        count_pairs,
        scaled_difference,
        sum_by,
        sum_by_both,
        win_rates,
    )
    from tiltyard.stats.elo import K_MAX
    from tiltyard.stats.elo_kernels import rate_with_baseline
    from tiltyard.stats.glicko2 import (
        DEFAULT_SETTINGS,
        EVERY_ONE,
        PLAIN_SECONDS_PER_BATTLE,
        Glicko2Settings,
        Glicko2State,
        expected_score,
        rate_battles,
        rate_battles_history,
    )
    from tiltyard.stats.glicko2_kernels import rate_one_by_one
    from tiltyard.stats.graph import Reach, islands, reach, ties_bounded, wins_and_losses
    from tiltyard.stats.influence import battles_to_swap, prepare
    from tiltyard.stats.intervals import (
        DRAWS,
        FEW,
        FEWEST_CLUSTERS,
        MANY_MODELS,
        Clustering,
        Covariance,
        DrawnCovariance,
        Uncertainty,
        cluster_moves,
        clustered_rows,
        combine,
        drawn_sandwich,
        half_widths,
        in_both,
        row_scores,
        sandwich,
        summed_way,
    )
    from tiltyard.stats.judge_scale import (
        CalibrationVerdicts,
        JudgeScale,
        NewModelVerdicts,
        ScaledPlacement,
        calibrate,
        place_on_scale,
        rank_of_one,
        told_apart,
    )
    from tiltyard.stats.judged_scores import FEWEST_LABELLED, corrected_difference, separation
    from tiltyard.stats.label_draw import DrawCheck, Trait, check_draw, kinds
    from tiltyard.stats.misfit import MOST_MODELS, Misfit, TieLaw, check_fit
    from tiltyard.stats.one_model import Anchors, OneModelFit, OneModelRows, fit_one
    from tiltyard.stats.people_labels import LabelledMatchups, PeopleFit, fit_with_people
    from tiltyard.stats.proportions import NO_ESTIMATE, Estimate, cohen_kappa, mean_of, share, wilson, win_rate
    from tiltyard.stats.quantiles import normal_quantile, t_below, t_quantile
    from tiltyard.stats.ranks import (
        ANYTIME_SPREAD,
        FIRST_LOOK,
        RankIntervals,
        anytime_cuts,
        anytime_half_width,
        bonferroni_cuts,
        chance_at_any_time,
        kendall_tau,
        places_of_intervals,
        rank_intervals,
        spearman_rho,
        tukey_cut,
    )
    from tiltyard.stats.reliability import (
        A,
        B,
        FEWEST_JUDGES,
        MISSING,
        NEITHER,
        Reliability,
        estimate_reliability,
        plurality,
    )
    from tiltyard.stats.scale import LOGITS_PER_POINT, POINTS_PER_LOGIT
    from tiltyard.stats.score_differences import (
        FEWEST,
        FEWEST_UNBOUNDED,
        MOST_SKEWED,
        MOST_SKEWED_ANYTIME,
        RepeatNoise,
        ScoreEstimate,
        ScoreSpread,
        cluster_means,
        exact_sum,
        holm_ranks,
        least_deviation,
        mean_score,
        repeat_noise,
        score_difference,
        unpaired_difference,
    )
    from tiltyard.stats.score_effects import ScoreEffects
    from tiltyard.stats.shrinkage import (
        PooledFit,
        ShrunkFit,
        covariance_within,
        fit_of_category,
        fit_pooled,
        fit_shrunk,
    )
    from tiltyard.stats.tie_models import FAR, HALF, TIE_MODELS, ResultScores, TieModel

__all__ = [
    "LOGITS_PER_POINT", "POINTS_PER_LOGIT",
]

__getattr__ = names_on_demand(__name__)

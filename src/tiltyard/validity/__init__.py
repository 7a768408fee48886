"""Rules about trust: agreement with people, coverage, badges, publication, fairness, churn, odd voters."""

from typing import TYPE_CHECKING

from tiltyard.faces import names_on_demand

if TYPE_CHECKING:
    from tiltyard.validity import coverage, fairness
    from tiltyard.validity.agreement import NO_ESTIMATE, Estimate, cohen_kappa, mean_of, share, wilson, win_rate
    from tiltyard.validity.bounded_influence import VoteGroups, bounded_weights, expected_strengths, recent_shifts
    from tiltyard.validity.calibration import CalibrationCurve, ConfidenceBin, confidence_bins, predictions
    from tiltyard.validity.churn import (
        BAND, Churn, ConfidenceStability, Known, Standings, confidence_stability, top_churn, top_order,
    )
    from tiltyard.validity.coverage import (
        deficits, neighbours, pair_completeness, pair_coverage_scores, prompt_coverage, prompts_needed,
    )
    from tiltyard.validity.fairness import (
        THREE_SIGMA, ExposureFairness, LaneShare, SideBalance, exposure_fairness, lane_shares, side_balance,
    )
    from tiltyard.validity.limits import (
        SharedBlock, address_block, client_address, limit_key, networks_of, shared_block, trusted_networks,
    )
    from tiltyard.validity.misfit import fit_sentences, fit_verdict
    from tiltyard.validity.publication import (
        CONFIDENCE_POINTS, Badge, Floor, Publication, Rule, Status, badge, confidence_percent, order_rule, places_rule,
        voter_rule, within_points,
    )
    from tiltyard.validity.quality import QualityFlag, QualityVotes, high_both_bad, rising_both_bad
    from tiltyard.validity.voters import (
        LEAST_VOTES, Anomaly, SessionActs, SessionRules, SessionVotes, author_names, combined, expected_scores,
        fewest_votes, find_name, session_flags, share_flag, surprises,
    )

__getattr__ = names_on_demand(__name__)

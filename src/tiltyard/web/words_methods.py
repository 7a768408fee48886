"""The English text of the methods page: every number explained. Names in braces are settings in force."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

WORDS: Mapping[str, str] = {
    "methods.title": "Methods",
    "methods.lead": "Every number of this site, what it means and what it does not, with the settings in force.",
    "methods.contents": "Chapters",
    "methods.phase": "This arena is in phase {phase} of 4.",
    "methods.phase_text": "",
    "methods.phase.1": "Everything is computed, but matchmaking and order are those from before the policy.",
    "methods.phase.2": "Lanes choose who meets; the order is still that of the legacy Elo rating.",
    "methods.phase.3": "Lanes choose who meets, and the conservative score orders the board.",
    "methods.phase.4": "Lanes choose who meets, the conservative score orders the board, and the validity report "
    "watches both.",
    "methods.settings": "Settings in force",
    "methods.settings_note": "Every setting of the policy. A change is an event of the log; a change of the rating "
    "rules rates the whole log anew.",
    "methods.setting": "Setting",
    "methods.value": "Value",
    "methods.yes": "yes",
    "methods.no": "no",
    "methods.chapter.rating": "The rating",
    "methods.chapter.places": "Places and intervals",
    "methods.chapter.record": "The record",
    "methods.chapter.trust": "How far to trust it",
    "methods.chapter.schedule": "Who meets whom",
    "methods.chapter.votes": "Votes and the log",
    "methods.rating.name": "Raw rating",
    "methods.rating.text": "Glicko-2. A model starts at {rating_rating} with a deviation of {rating_deviation}. Each "
    "vote is a rating period of its two models, both updated from what was known before it; a tie counts one half to "
    "each. The volatility starts at {rating_volatility} and not at the 0.06 of the paper, because the skill of a model "
    "that does not change does not drift between two votes. 400 points are odds of 10 to 1.",
    "methods.rank_score.name": "Rank score (the Rating column)",
    "methods.rank_score.text": "Rating minus two deviations: what the model is worth on a cautious reading. It orders "
    "the board from phase 3 on, so a lucky newcomer does not outrank a well-tested model. The raw rating stands below "
    "it in small type.",
    "methods.deviation.name": "Deviation (RD)",
    "methods.deviation.text": "How unsure the rating is, in rating points; between {rating_deviation_min} and "
    "{rating_deviation_max}. Because matchmaking looks at results, a deviation is a working figure and no honest "
    "standard error: the intervals we publish are Bradley–Terry’s.",
    "methods.confidence.name": "Confidence",
    "methods.confidence.text": "The deviation as a percentage: 0 % at {rating_deviation_max}, 100 % at "
    "{rating_deviation_min}, rounded half up. It is not the probability of anything.",
    "methods.legacy.name": "Legacy Elo",
    "methods.legacy.text": "The rating from before the policy, kept for comparison: K {rating_legacy_k}, start "
    "{rating_legacy_rating}, a tie one half. In this field alone a both-bad vote is a loss of each model to a rival of "
    "{rating_legacy_baseline}.",
    "methods.interval.name": "Bradley–Terry rating and its 95 % interval",
    "methods.interval.text": "All rated votes at once, whatever their order: the strengths that make them likeliest "
    "(Bradley and Terry 1952, ties after Davidson 1970), centred on 1000, 400 points for odds of 10 to 1. The interval "
    "is a cluster-robust sandwich: votes of one voter are not independent, nor are votes on one prompt. Below "
    "{many_prompts} prompts it clusters by voter and speaks for these prompts; from there on it clusters by prompt and "
    "speaks for other prompts of the kind.",
    "methods.rank_interval.name": "Places it could hold",
    "methods.rank_interval.text": "The small figures below a place: the best and the worst place that the model could "
    "hold, simultaneous over all pairs (95 %). Two models whose ranges overlap are not in a proven order.",
    "methods.swap.name": "Votes to swap",
    "methods.swap.text": "How few votes, if they were removed, would put two neighbours level. A small number means "
    "that their order rests on few people.",
    "methods.category.name": "Boards by category",
    "methods.category.text": "A prompt’s subject and tags are its categories. Such a board is Bradley–Terry on the "
    "votes of that category alone; it has no conservative score and is never the official order.",
    "methods.movement.name": "24-hour movement",
    "methods.movement.text": "Places gained or lost since the same hour yesterday, by the votes that count now. It is "
    "shown only for a model that is not provisional and whose deviation was at most "
    "{badges_established_deviation} already then: the places of others move by luck. It is coloured only where the "
    "rating left the band of two deviations that it had.",
    "methods.decisive.name": "Decisive and rated votes",
    "methods.decisive.text": "Decisive: one answer was preferred. Rated: decisive, or a tie. Counted: rated, or both "
    "bad. Votes taken back or excluded are none of these.",
    "methods.record.name": "Record and votes",
    "methods.record.text": "Won–lost–tied, then all counted votes with the both-bad ones among them.",
    "methods.average.name": "Avg score",
    "methods.average.text": "For every prompt with at least two rated votes the mean score (win 1, tie ½); then the "
    "mean over prompts, each alike. It does not allow for whom the model met.",
    "methods.spread.name": "Spread",
    "methods.spread.text": "The standard deviation of those means over prompts, from three prompts on. It does not "
    "allow for opponents either: a model that met strong rivals on one prompt looks uneven.",
    "methods.consistency.name": "Consistency",
    "methods.consistency.text": "How even a model is across prompts once it is allowed for whom it met there, from "
    "five prompts on. What its results vary by from prompt to prompt beyond chance is τ (in logits, after "
    "DerSimonian and Laird 1986); the figure is 200/(1 + e^τ): 100 for a model that is equally good everywhere, 54 "
    "where prompts matter by 174 points.",
    "methods.both_bad.name": "Both bad and the quality floor",
    "methods.both_bad.text": "“Both bad” says that neither answer will do. It moves no rating. The quality floor is 1 "
    "minus the share of such votes. A rise of {flags_quality_rise} or more over earlier votes, from "
    "{flags_quality_votes} votes on and beyond chance, raises a flag.",
    "methods.coverage.name": "Prompt coverage",
    "methods.coverage.text": "The share of active prompts on which the model has at least {prompt_floor} decisive "
    "votes. Contenders are led towards {prompt_target_top}.",
    "methods.pair_coverage.name": "Pair coverage",
    "methods.pair_coverage.text": "For the first {contender_band} models: how near they are, against their rank "
    "neighbours, to {adjacent_floor_votes} decisive votes on {adjacent_floor_prompts} prompts; the mean of "
    "min(1, votes/{adjacent_floor_votes}, prompts/{adjacent_floor_prompts}).",
    "methods.stability.name": "Stability badge",
    "methods.stability.text": "Provisional until a model has {badges_established_decisive} decisive votes, a prompt "
    "coverage of {badges_established_coverage_percent} and a deviation of at most {badges_established_deviation}; then "
    "Established; Stable from {badges_stable_decisive} decisive votes, {badges_stable_coverage_percent} and "
    "{badges_stable_deviation} on. Provisional models are shown in grey and outside claims about the top.",
    "methods.publication.name": "Officially stable, or calibrating",
    "methods.publication.text": "Three rules over the first {publication_top} models: their median deviation is at "
    "most {publication_median_deviation}; at least {publication_adjacent_share_percent} of the pairs next to each "
    "other have {adjacent_floor_votes} decisive votes on {adjacent_floor_prompts} prompts; their mean prompt coverage "
    "is at least {publication_mean_coverage_percent}. If one is not met the board says “calibrating”.",
    "methods.lanes.name": "Lanes",
    "methods.lanes.text": "A matchup comes from one of four lanes. Coverage ({lanes_coverage_percent}) fills what is "
    "missing most. Contender ({lanes_contender_percent}) lets neighbours at the top meet. Uncertainty "
    "({lanes_uncertainty_percent}) picks models of large deviation and the opponent that tells most. Exploration "
    "({lanes_exploration_percent}) draws by lot, leaning to the less shown. Sides are drawn by lot after that.",
    "methods.contenders.name": "Contenders",
    "methods.contenders.text": "The first {contender_band} by rank score. One meets a rank neighbour "
    "({opponents_neighbour_percent}), another contender of near rating ({opponents_close_percent}) or a challenger "
    "from the {challenger_reach} places below ({opponents_challenger_percent}). The lane opens when all of them and "
    "the next have {contender_opens_at} rated votes: chasing early luck makes deviations dishonest.",
    "methods.exposure.name": "Exposure",
    "methods.exposure.text": "One model in one matchup that was voted on; matchups that are open, skipped or expired "
    "are not counted in public, because that would tell who was in them. Over the last {window_matchups} each should "
    "be within {exposure_tolerance_percent} of its target: an even share, or what the contender lane alone gives a "
    "contender where that is more.",
    "methods.diversity.name": "Prompt diversity",
    "methods.diversity.text": "Of a pair’s last {diversity_last} meetings at most {diversity_most} are on one prompt, "
    "unless there are too few prompts for that.",
    "methods.blind.name": "Blind",
    "methods.blind.text": "Nothing that tells who wrote an answer leaves the server before the vote on it is final. "
    "A matchup can be voted on once, by the visitor it was made for, within {expires_hours} hours.\n\nAnswers to "
    "prompts that are being voted on are not shown with their authors anywhere: not on a model’s page, in a "
    "comparison, a download or a figure. They become public when their prompt is retired and its last open matchup is "
    "closed. Your own votes, with both answers and names, are on your own page. The setting texts_public is "
    "{texts_public}; where it is “always”, every answer is public and every page says so.",
    "methods.undo.name": "Undo",
    "methods.undo.text": "For {undo} seconds after a vote, or until its names are shown, it can be undone. It then "
    "never counts, and the names stay unknown. Once the names are shown a vote is final. Until it is final, nothing on "
    "this site shows anything of it.",
    "methods.limits.name": "Limits",
    "methods.limits.text": "A visitor may cast {limits_session_votes_per_minute} votes a minute, an address "
    "{limits_address_votes_per_minute}. In an hour, a visitor may undo {limits_session_undos_per_hour} votes and skip "
    "{limits_session_skips_per_hour} pairs.",
    "methods.flags.name": "Flags and exclusions",
    "methods.flags.text": "Sessions that vote faster than anybody reads, always for one side, or against the crowd "
    "again and again, or undo or skip much of what they are shown, are flagged, and so are answers that say who wrote "
    "them. A flag changes nothing by itself. An "
    "exclusion is an event with a reason: the votes stay in the log, ratings are computed as if they had not been "
    "cast, and it can be reversed. Excluded by policy: flagged sessions {flags_exclude_flagged_sessions}, answers that "
    "name their model {flags_exclude_self_identifying}.",
    "methods.log.name": "The log",
    "methods.log.text": "Votes, undos, exclusions, settings and models are events, each chained to the one before by "
    "a hash. Everything on this site can be deleted and computed again from them.",
}

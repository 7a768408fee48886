"""What all votes together say about the order of the board: ranges of ranks, the largest voter, where models stood.

Badges and the label need it. The live board follows every vote, evidence comes with each study; between two studies the
board uses the evidence of the last one, and before the first nothing is Stable.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from tiltyard.arena.board import OFFICIAL_FROM, Evidence, raw_ratings
from tiltyard.arena.following.replay import Replay, replay
from tiltyard.arena.following.snapshots import rated
from tiltyard.arena.offline import OfflineBoard, on_scale
from tiltyard.arena.policy import Policy
from tiltyard.arena.ratings import legacy_elo
from tiltyard.arena.state import ArenaState
from tiltyard.arena.votes import VoteTable
from tiltyard.arena.weekly import Findings
from tiltyard.types import Floats
from tiltyard.validity.calibration import ConfidenceBin, calibration, confidence_bins
from tiltyard.validity.publication import CONFIDENCE_POINTS, within_points

ORDER_LOOKS = 4
"""How often within the window the order is looked at, the first time at its beginning."""


def study_of(state: ArenaState, votes: VoteTable) -> tuple[Findings, str]:
    """The findings of all counted votes of a state, and why there are no intervals, if so.

    Parameters:
        state: The arena.
        votes: All its counted votes.
    """
    shown = raw_ratings(state)
    offline, trouble = rated(votes, list(shown), state.policy.intervals, swaps=True)
    return findings_of(votes, offline, replay(votes, state.policy), state.policy, state.phase, shown), trouble


def findings_of(
    votes: VoteTable,
    offline: OfflineBoard | None,
    again: Replay,
    policy: Policy,
    phase: int,
    shown: Mapping[str, float],
) -> Findings:
    """Everything that a study of all counted votes tells the board and the weekly report.

    Parameters:
        votes: All counted votes.
        offline: Bradley–Terry over them on its own scale; None where they cannot be rated yet.
        again: The votes rated once more, one after the other.
        policy: The policy in force.
        phase: The phase of the rollout.
        shown: The ratings that the board shows, by model, without any subtraction for uncertainty.
    """
    moved = None if offline is None else on_scale(offline, shown)
    return Findings(
        offline=moved,
        evidence=evidence_of(votes, offline, again, policy, phase, list(shown)),
        calibration=calibration(again.predicted, again.score_a),
        confidence=confidence_calibration(again, moved, shown) if phase >= OFFICIAL_FROM else (),
    )


def evidence_of(
    votes: VoteTable, offline: OfflineBoard | None, again: Replay, policy: Policy, phase: int, enabled: Sequence[str]
) -> Evidence:
    """The evidence of counted votes for the order that a phase shows.

    Parameters:
        votes: All counted votes.
        offline: Bradley–Terry over them; None where they cannot be rated yet.
        again: The votes rated once more, one after the other.
        policy: The policy in force.
        phase: The phase of the rollout.
        enabled: The models of the board, in the arena's order.
    """
    places = {
        row.model: (row.rank_low, row.rank_high)
        for row in (offline.rows if offline is not None else ())
        if row.rank_low is not None and row.rank_high is not None
    }
    share = float(np.bincount(votes.voter).max()) / len(votes) if len(votes) else None
    return Evidence(places, share, _earlier(votes, again, policy, phase, enabled))


def _earlier(
    votes: VoteTable, again: Replay, policy: Policy, phase: int, enabled: Sequence[str]
) -> tuple[dict[str, int], ...] | None:
    """Every model's place at several times over the last window of counted votes; None where there are fewer votes."""
    window = policy.window_matchups
    if len(votes) <= window:
        return None
    cuts = [len(votes) - window * (ORDER_LOOKS - look) // ORDER_LOOKS for look in range(ORDER_LOOKS)]
    scores = [score for score, _, _ in scores_after(votes, again, policy, phase, cuts)]
    numbers = {name: number for number, name in enumerate(votes.models)}
    chosen = [numbers[name] for name in enabled if name in numbers]
    result = []
    for score in scores:
        order = sorted(chosen, key=lambda model: (-score[model], model))
        result.append({votes.models[model]: place for place, model in enumerate(order, start=1)})
    return tuple(result)


def scores_after(
    votes: VoteTable, again: Replay, policy: Policy, phase: int, cuts: Sequence[int]
) -> list[tuple[Floats, Floats, Floats]]:
    """By model number, after the first so many counted votes: what is shown, the rating behind it, its deviation.

    Parameters:
        votes: All counted votes.
        again: The votes rated once more, one after the other.
        policy: The policy in force.
        phase: The phase of the rollout; until phase 2 legacy Elo is shown, which has no deviation (0).
        cuts: Numbers of votes, the smallest first.
    """
    if phase < OFFICIAL_FROM:
        return [(elo, elo, np.zeros(len(elo))) for elo in legacy_elo(votes, policy.rating, cuts)]
    rated = np.concatenate([[0], np.cumsum(votes.rated)])
    scores = []
    for cut in cuts:
        rating = np.full(len(votes.models), policy.rating.rating)
        deviation = np.full(len(votes.models), policy.rating.deviation)
        model, rated_then, sure_then = again.last_of_each(int(rated[cut]))
        rating[model], deviation[model] = rated_then, sure_then
        scores.append((rating - 2.0 * deviation, rating, deviation))
    return scores


CONFIDENCE_LOOKS = 8
"""Earlier boards that are compared with what is known now, evenly over the votes."""


def confidence_calibration(
    again: Replay, offline: OfflineBoard | None, enabled: Collection[str]
) -> tuple[ConfidenceBin, ...]:
    """How often an earlier rating was within 25 points of what all votes now say, by the confidence stated then.

    Ratings after 1/8, 2/8, … 7/8 of the rated votes are compared with Bradley–Terry over all of them, moved to the same
    scale. That value has an error of its own (which makes confidence look too high) and rests on the earlier votes too
    (which makes it look too low); nothing closer to the truth is known.

    Parameters:
        again: The votes rated once more, one after the other.
        offline: Bradley–Terry on the scale of the ratings; None where there is none.
        enabled: The models to look at.
    """
    if offline is None or offline.centre is None:
        return ()
    now = {row.model: row.rating for row in offline.rows if row.model in enabled}
    stated, held = [], []
    for look in range(1, CONFIDENCE_LOOKS):
        models, rating, deviation = again.last_of_each(len(again.at) * look // CONFIDENCE_LOOKS)
        for model, then, error in zip(models.tolist(), rating.tolist(), deviation.tolist(), strict=True):
            name = again.models[model]
            if name in now:
                stated.append(100.0 * within_points(error))
                held.append(abs(then - now[name]) <= CONFIDENCE_POINTS)
    return confidence_bins(np.array(stated), np.array(held, dtype=bool))

"""The weekly validity report: fairness and amount of comparisons, stability of confidence, changes at the top.

`Period` is what a store must supply; `weekly_report` computes, and `weekly_text` and `weekly_page` write it down.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Literal

import msgspec
import numpy as np

from tiltyard.arena.matchmaking.exposure import conservative_order, ready_contenders
from tiltyard.arena.matchmaking.fairness import (
    ExposureFairness,
    LaneShare,
    exposure_fairness,
    lane_shares,
    side_balance,
)
from tiltyard.arena.rules.blindness import is_blind
from tiltyard.arena.rules.events import LANES, Excluded, Flagged, Restored
from tiltyard.arena.rules.state import ArenaState
from tiltyard.arena.rules.units import HOUR
from tiltyard.arena.rules.votes import VoteTable
from tiltyard.arena.study.board import Evidence, LiveBoard, completeness, live_board, official_order
from tiltyard.arena.study.churn import Churn, ConfidenceStability, Known, Standings, confidence_stability, top_churn
from tiltyard.arena.study.offline import OfflineBoard
from tiltyard.arena.study.publication import Publication, Status
from tiltyard.arena.study.quality import QualityVotes, high_both_bad, rising_both_bad
from tiltyard.stats import CalibrationCurve, ConfidenceBin
from tiltyard.types import Ints, named


class BoardAt(msgspec.Struct, frozen=True):
    """What was known of the enabled models at one time (microseconds)."""

    at: int
    standings: Standings


class ServedPairs(msgspec.Struct, frozen=True, eq=False):
    """Matchups of the period whose vote counts: models by side, and how many each lane served.

    Only those: a skipped matchup closes without names, and counting it would reveal them.
    """

    model_a: Ints
    model_b: Ints
    lanes: Mapping[str, int]
    before_contender: int
    """How many of them lanes served before the first of the contender lane; all, where it served none."""


class Note(msgspec.Struct, frozen=True):
    """Something an operator should know about: a flag (`what` it was raised on) or an exclusion (how many votes)."""

    what: str
    reason: str
    detail: str = ""


def note_of(body: Flagged | Excluded | Restored) -> Note:
    """A flag or an exclusion as shown in a report: without voters, and without an answer's id or text.

    An id is a hash of the answer and of who wrote it, so anyone who has the text could look up its author.
    """
    if isinstance(body, Excluded | Restored):
        verb = "excluded" if isinstance(body, Excluded) else "restored"
        votes = "1 vote" if len(body.matchup_ids) == 1 else f"{len(body.matchup_ids):,} votes"
        return Note(f"{votes} {verb}", body.reason)
    if body.subject == "model":
        return Note(f"model {body.subject_id}", body.flag, body.detail)
    if body.subject == "response":
        return Note("an answer", body.flag)
    return Note("a session" if body.subject == "voter" else "a vote", body.flag, body.detail)


class Period(msgspec.Struct, frozen=True, eq=False):
    """A period of an arena, from `since` to `until` (microseconds), from its log.

    `looks` are snapshots, oldest first, the first at the start of the period; the report adds the current one. `votes`
    are all that count now, including earlier ones: quality is compared with before. `events` counts events by kind.
    """

    since: int
    until: int
    looks: tuple[BoardAt, ...]
    votes: VoteTable
    served: ServedPairs
    events: Mapping[str, int] = {}
    flags: tuple[Note, ...] = ()
    exclusions: tuple[Note, ...] = ()


class Findings(msgspec.Struct, frozen=True):
    """What a study of all counted votes tells the report, beyond the period itself."""

    offline: OfflineBoard | None = None
    """Bradley–Terry, moved to the scale of the board; None where the votes cannot be rated."""
    evidence: Evidence | None = None
    """What badges and the label rest on."""
    calibration: CalibrationCurve | None = None
    """Predicted against observed scores of all rated votes."""
    confidence: tuple[ConfidenceBin, ...] = ()
    """Stated confidence against how often it held; none while legacy Elo orders the board."""


class AdjacentPair(msgspec.Struct, frozen=True):
    """Two neighbours at the top: their votes and prompts, and how close these are to the floor (0–1)."""

    above: str
    below: str
    decisive: int
    prompts: int
    completeness: float


CHANCE_OF_NO_TURN = 0.01
"""An open lane that has not had its turn yet is not called closed while that is likelier than this."""


class ContenderLane(msgspec.Struct, frozen=True):
    """The contender lane."""

    ready: int
    """Of the first `models`, those that have `votes_needed` rated votes."""
    models: int
    votes_needed: int
    closed_for: int = 0
    """Matchups at the start of the period that were served while it was closed; 0 where it was open from the start."""
    open: bool = False
    """Whether it serves; until then its turns go to the coverage lane."""

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "open", self.models > 1 and self.ready == self.models)


class ExposureOfModel(msgspec.Struct, frozen=True):
    """One model's exposure."""

    model: str
    exposures: int
    """How often it was shown."""
    target: float
    """How often it should be."""
    off: float | None
    """Distance from the target, as a share."""
    within: bool
    """Whether that is in tolerance."""
    contender: bool
    """Whether it is in the band."""
    prompt_coverage: float


class CoverageFairness(msgspec.Struct, frozen=True):
    """Exposure in the rolling window."""

    matchups: int
    """Served, and closed."""
    tolerance: float
    """Allowed distance from the target."""
    even_target: float
    """2W/M."""
    targets_differ: bool
    """Whether the actual targets differ from it."""
    in_tolerance: int
    in_tolerance_of_even_target: int
    looked_at: int
    """Models with a target."""
    models: tuple[ExposureOfModel, ...]


class SideFacts(msgspec.Struct, frozen=True):
    """Who is shown on which side."""

    matchups: int
    first_named_as_a: float | None
    """Share with the first-named model on side A."""
    sigmas: float
    """Distance from half in standard errors."""
    fair: bool
    """Whether chance explains it."""
    off_balance: list[str]
    """Models whose sides it does not explain."""


class FailingPrompt(msgspec.Struct, frozen=True):
    """Where a model is worst."""

    prompt: str
    excess: float
    """Both-bad votes in excess of what the prompt explains."""
    both_bad: int
    votes: int


class FailingModel(msgspec.Struct, frozen=True):
    """A model whose both-bad rate rose or is high."""

    model: str
    rate_before: float | None
    rate_recent: float
    votes_before: int
    votes_recent: int
    p_value: float
    """Chance of such a rise, or of such a rate at the level that is acceptable."""
    worst_prompts: tuple[FailingPrompt, ...]
    trigger: Literal["rise", "level"]
    """`rise` or `level`."""


class ValidityReport(msgspec.Struct, frozen=True, kw_only=True):
    """`tiltyard arena validity --format json`. Times are microseconds."""

    since: int
    """Its start."""
    until: int
    """Its end."""
    status: Status | None
    """`officially stable` or `calibrating`."""
    publication: Publication
    """Whether the board may be called stable, and every rule."""
    phase: int
    """Of the rollout."""
    votes: int
    """Counted votes of the period."""
    voters: int
    """Who cast them."""
    blind: bool
    """Whether the answers that are being voted on are hidden."""
    events: dict[str, int]
    """Events of the log by kind."""
    coverage_fairness: CoverageFairness
    """Exposure in the rolling window."""
    pair_completeness: tuple[AdjacentPair, ...]
    """Neighbours at the top."""
    confidence_stability: ConfidenceStability
    """Whether ratings stayed where their confidence said."""
    top_churn: Churn
    """What moved in the top."""
    lanes: tuple[LaneShare, ...]
    """How often each lane served."""
    contender_lane: ContenderLane
    """The contender lane."""
    sides: SideFacts
    """Who is shown on which side."""
    quality: tuple[FailingModel, ...]
    """Models whose both-bad rate rose or is high."""
    flags: tuple[Note, ...]
    """What was flagged."""
    exclusions: tuple[Note, ...]
    """What was excluded."""
    offline: OfflineBoard | None
    """Bradley–Terry on the same votes."""
    calibration: CalibrationCurve | None
    """Predicted against observed scores of all rated votes."""
    confidence_calibration: tuple[ConfidenceBin, ...]
    """Stated confidence against how often it held."""
    board: LiveBoard
    """The board at the end."""


class WeeklyReport(ValidityReport, frozen=True, kw_only=True, eq=False):
    """The report, and what was known of the models over the period."""

    looks: tuple[BoardAt, ...]
    """The oldest first; the last is the end."""

    def facts(self) -> ValidityReport:
        """The report as programs get it."""
        return ValidityReport(**named(self, " ".join(ValidityReport.__struct_fields__)))


def weekly_report(state: ArenaState, period: Period, result: Findings | None = None) -> WeeklyReport:
    """The report over a period, of the state at its end; findings add intervals, badges' ranges and calibration."""
    result = Findings() if result is None else result
    board = live_board(state, evidence=result.evidence)
    order = [state.catalog.model(row.model) for row in board.rows]
    top, names, now = state.policy.publication.top, state.catalog.models, state.ratings
    known = {
        names[model].model: Known(float(now.rating[model]), float(now.deviation[model])) for model in state.order()
    }
    looks = (*(look for look in period.looks if look.at < period.until), BoardAt(period.until, known))
    standings = [look.standings for look in looks]
    recent = period.votes.at >= period.since
    rules, votes = state.policy.flags, period.votes
    looked_at = QualityVotes(votes.model_a, votes.model_b, votes.prompt, ~votes.rated, recent)
    least, models = rules.quality_votes, state.order()
    rising = rising_both_bad(looked_at, models, least_votes=least, least_rise=rules.quality_rise)
    high = high_both_bad(looked_at, models, least_votes=least, level=rules.quality_level)
    failing = []
    for flag in (*rising, *(flag for flag in high if flag.model not in {flag.model for flag in rising})):
        worst = (msgspec.structs.asdict(cell) | {"prompt": votes.prompts[cell.prompt]} for cell in flag.worst_prompts)
        facts = msgspec.structs.asdict(flag) | {"model": votes.models[flag.model]}
        failing.append(FailingModel(**facts | {"worst_prompts": tuple(FailingPrompt(**cell) for cell in worst)}))
    ready = ready_contenders(state, conservative_order(state, np.array(order, dtype=np.int64)))
    before = period.served.before_contender
    was_open = bool(votes.by_contender_lane[votes.at < period.since].any())
    by_chance = (1.0 - state.policy.lanes.contender) ** before > CHANCE_OF_NO_TURN
    as_a = np.bincount(period.served.model_a, minlength=len(names))
    shown = as_a + np.bincount(period.served.model_b, minlength=len(names))
    fair = window_exposure(state, votes, order)
    band = set(state.order()[: state.policy.contender_band])
    sides = side_balance(period.served.model_a, period.served.model_b, shown[order], as_a[order])
    return WeeklyReport(
        since=period.since // HOUR * HOUR,
        until=period.until // HOUR * HOUR,
        status=board.publication.status,
        publication=board.publication,
        phase=board.phase,
        votes=int(recent.sum()),
        voters=len(np.unique(votes.voter[recent])),
        blind=is_blind(state),
        events=dict(period.events),
        coverage_fairness=CoverageFairness(
            **named(fair, "matchups tolerance even_target targets_differ looked_at"),
            in_tolerance=int(fair.within.sum()),
            in_tolerance_of_even_target=int(fair.within_even.sum()),
            models=tuple(
                ExposureOfModel(
                    model=row.model,
                    exposures=int(fair.exposures[i]),
                    target=float(fair.targets[i]),
                    off=None if np.isnan(fair.off[i]) else float(fair.off[i]),
                    within=bool(fair.within[i]),
                    contender=order[i] in band,
                    prompt_coverage=row.prompt_coverage,
                )
                for i, row in enumerate(board.rows)
            ),
        ),
        pair_completeness=tuple(
            AdjacentPair(
                names[above].model,
                names[below].model,
                state.tallies.pair_decisive(above, below),
                state.tallies.distinct_prompts(above, below),
                completeness(state, above, below),
            )
            for above, below in pairwise(official_order(state)[:top])
        ),
        confidence_stability=confidence_stability(standings[0], standings[-1]),
        top_churn=top_churn(standings, top),
        lanes=tuple(lane_shares(period.served.lanes, [(lane, getattr(state.policy.lanes, lane)) for lane in LANES])),
        contender_lane=ContenderLane(*ready, state.policy.contender_opens_at, 0 if was_open or by_chance else before),
        sides=SideFacts(
            sides.matchups, sides.share, sides.sigmas, sides.fair, [board.rows[i].model for i in sides.off_balance]
        ),
        quality=tuple(failing),
        flags=period.flags,
        exclusions=period.exclusions,
        offline=result.offline,
        calibration=result.calibration,
        confidence_calibration=result.confidence,
        board=board,
        looks=looks,
    )


def window_exposure(state: ArenaState, votes: VoteTable, order: list[int]) -> ExposureFairness:
    """Exposure of these models over the last counted votes.

    Matchups without a vote are left out: comparing two reports must not reveal the models of an open or skipped
    matchup.
    """
    window, models = min(len(votes), state.policy.window_matchups), len(state.catalog.models)
    start = len(votes) - window
    shown = np.stack([votes.model_a[start:], votes.model_b[start:]])
    return exposure_fairness(
        np.bincount(shown.ravel(), minlength=models)[order],
        np.bincount(shown[:, votes.by_contender_lane[start:]].ravel(), minlength=models)[order],
        np.asarray(state.catalog.servable().any(axis=1))[order],
        window,
        tolerance=state.policy.exposure_tolerance,
    )

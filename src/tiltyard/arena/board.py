"""The live board: every enabled model in the state, in the official order of its phase.

Phases 1 and 2 keep the legacy Elo order and show the new scores beside it; from phase 3 on the conservative score
(rating minus two deviations) orders the board and legacy Elo is a secondary field.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from tiltyard.validity import coverage as evenness
from tiltyard.validity.coverage import (
    pair_completeness,
    pair_coverage_scores,
    pair_met,
    prompt_coverage,
    prompts_needed,
)
from tiltyard.validity.publication import Badge, Floor, Publication, badge, confidence_percent, publication
from tiltyard.validity.voters import expected_scores

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tiltyard.arena.policy import BadgeRules
    from tiltyard.arena.rating_track import Ratings
    from tiltyard.arena.state import ArenaState

Floats = NDArray[np.float64]
OrderedBy = Literal["legacy_elo", "conservative"]

OFFICIAL_FROM = 3
"""The phase from which the conservative order is the official one."""


@dataclass(frozen=True, slots=True)
class BoardRow:
    """One model's row. Values that need more votes are None.

    `pair_coverage` is only for contenders; `official_top` says that the model is one, and not provisional.
    """

    rank: int
    """Official place."""
    model: str
    """The model."""
    display_name: str
    """What it is called on the site."""
    provider: str
    """Who makes it."""
    conservative: float
    """Rating − 2 deviations."""
    rating: float
    """Glicko-2 rating."""
    deviation: float
    """Glicko-2 deviation (RD)."""
    volatility: float
    """Glicko-2 volatility."""
    confidence: int
    """How small the deviation is, 0 to 100; not a probability."""
    badge: Badge
    """`Provisional`, `Established` or `Stable`."""
    official_top: bool
    """Whether the model is a contender and not provisional."""
    prompt_coverage: float
    """Share of active prompts on which it has enough decisive votes."""
    pair_coverage: float | None
    """Only for contenders; `official_top` says that the model is one, and not provisional."""
    wins: int
    """Won."""
    losses: int
    """Lost."""
    ties: int
    """Tied."""
    votes: int
    """All counted votes, including both-bad ones."""
    both_bad: int
    """Both-bad votes."""
    both_bad_rate: float | None
    """Share of its votes that were both-bad."""
    quality_floor: float | None
    """1 − both-bad rate."""
    average_score: float | None
    """Mean over prompts of its mean score: win 1, tie ½."""
    spread: float | None
    """Standard deviation of its mean scores by prompt."""
    consistency: int | None
    """How consistent it is across prompts, 0 to 100, adjusted for its opponents."""
    legacy_elo: float
    """Legacy Elo, from before the policy."""
    legacy_rank: int
    """Place by it."""
    conservative_rank: int
    """Place by that score."""


@dataclass(frozen=True, slots=True)
class LiveBoard:
    """The board of one state: rows in their official order, and whether it may be called stable."""

    seq: int
    """How many events of the log it has seen."""
    at: int
    """The time of the last of them (microseconds)."""
    phase: int
    """Phase of the rollout, 1 to 4."""
    ordered_by: OrderedBy
    """`conservative`, or `legacy_elo` in phases 1 and 2."""
    votes: int
    """Counted votes."""
    rows: tuple[BoardRow, ...]
    """One per enabled model, in the official order."""
    publication: Publication
    """Whether the board may be called stable, and every rule."""

    def __getitem__(self, model: str) -> BoardRow:
        for row in self.rows:
            if row.model == model:
                return row
        raise KeyError(model)

    def to_dict(self) -> dict[str, Any]:
        """The board as plain values."""
        return {
            "seq": self.seq,
            "at": self.at,
            "phase": self.phase,
            "ordered_by": self.ordered_by,
            "votes": self.votes,
            "publication": publication_values(self.publication),
            "rows": [asdict(row) | {"badge": row.badge.value} for row in self.rows],
        }


def live_board(state: ArenaState, ratings: Ratings | None = None) -> LiveBoard:
    """The board of a state. The same state and ratings give the same board, to the last bit.

    Parameters:
        state: The state of an arena.
        ratings: The ratings to show, such as the published ones; None: those that the state uses, normally the running
            ones.
    """
    state = state if ratings is None else state.showing(ratings)
    official, conservative, legacy = official_order(state), state.order(), legacy_order(state)
    columns = _Columns(state, conservative)
    ranks = {
        model: (rank, conservative.index(model) + 1, legacy.index(model) + 1)
        for rank, model in enumerate(official, start=1)
    }
    return LiveBoard(
        seq=state.seq,
        at=state.at,
        phase=state.phase,
        ordered_by="conservative" if state.phase >= OFFICIAL_FROM else "legacy_elo",
        votes=counted_votes(state),
        rows=tuple(columns.row(model, *ranks[model]) for model in official),
        publication=board_publication(state),
    )


def legacy_order(state: ArenaState) -> list[int]:
    """Enabled models, best first by legacy Elo; equal ones in the order of their numbers."""
    legacy = state.ratings.legacy
    return sorted(state.order(), key=lambda model: (-legacy[model], model))


def official_order(state: ArenaState) -> list[int]:
    """Enabled models in the order that the state's phase makes official."""
    return state.order() if state.phase >= OFFICIAL_FROM else legacy_order(state)


def contenders(state: ArenaState) -> list[int]:
    """The contender band: the top models by conservative score, in any phase."""
    return state.order()[: state.policy.contender_band]


def counted_votes(state: ArenaState) -> int:
    """How many votes count."""
    tallies = state.tallies
    return int(tallies.wins.view.sum() + (tallies.ties.view.sum() + tallies.both_bad.view.sum()) // 2)


def coverages(state: ArenaState) -> Floats:
    """Prompt coverage of every model ever added."""
    active = np.array(state.catalog.prompt_enabled, dtype=bool)
    return prompt_coverage(state.tallies.decisive_on.view, active, state.policy.prompt_floor)


def completeness(state: ArenaState, first: int, second: int) -> float:
    """How close two models are to the number of votes and prompts that neighbours need, 0 to 1."""
    votes, prompts = _pair_floor(state)
    decisive, distinct = state.tallies.pair_decisive(first, second), state.tallies.distinct_prompts(first, second)
    return pair_completeness(decisive, distinct, floor_votes=votes, floor_prompts=prompts)


def adjacent_met(state: ArenaState, order: Sequence[int]) -> list[bool]:
    """For each two models next to each other in an order, whether they have met often enough."""
    votes, prompts = _pair_floor(state)
    tallies = state.tallies
    return [
        pair_met(
            tallies.pair_decisive(above, below),
            tallies.distinct_prompts(above, below),
            floor_votes=votes,
            floor_prompts=prompts,
        )
        for above, below in pairwise(order)
    ]


def _pair_floor(state: ArenaState) -> tuple[int, int]:
    policy = state.policy
    active = sum(state.catalog.prompt_enabled)
    return policy.adjacent_floor_votes, prompts_needed(policy.adjacent_floor_prompts, active)


def board_publication(state: ArenaState) -> Publication:
    """Whether the board may be called officially stable, by the first models of its conservative order."""
    rules = state.policy.publication
    top = state.order()[: rules.top]
    coverage = coverages(state)
    return publication(
        [float(state.ratings.deviation[model]) for model in top],
        [float(coverage[model]) for model in top],
        adjacent_met(state, top),
        median_deviation=rules.median_deviation,
        adjacent_share=rules.adjacent_share,
        mean_coverage=rules.mean_coverage,
    )


def publication_values(status: Publication) -> dict[str, Any]:
    """The status and its rules as plain values."""
    return {
        "status": status.status,
        "top": status.top,
        "rules": [asdict(rule) | {"met": rule.met} for rule in status.rules],
    }


def badge_floors(rules: BadgeRules) -> tuple[Floor, Floor]:
    """What `Established` and `Stable` require."""
    return (
        Floor(rules.established_decisive, rules.established_coverage, rules.established_deviation),
        Floor(rules.stable_decisive, rules.stable_coverage, rules.stable_deviation),
    )


class _Columns:
    """Everything that rows are built from, computed once for all models."""

    def __init__(self, state: ArenaState, conservative: list[int]) -> None:
        self.state = state
        self.coverage = coverages(state)
        self.decisive = state.tallies.decisive
        self.band = set(conservative[: state.policy.contender_band])
        self.pair_coverage = pair_coverage_scores(
            conservative, state.policy.contender_band, lambda first, second: completeness(state, first, second)
        )
        self.wins_on = decisive_wins_on(state)
        self.expected, self.information = expected_by_prompt(state)

    def row(self, model: int, rank: int, conservative_rank: int, legacy_rank: int) -> BoardRow:
        """One model's line."""
        state, now, tallies = self.state, self.state.ratings, self.state.tallies
        facts, deviation = state.catalog.models[model], float(now.deviation[model])
        established, stable = badge_floors(state.policy.badges)
        wins, losses = int(tallies.wins.view[model].sum()), int(tallies.wins.view[:, model].sum())
        ties, both_bad = int(tallies.ties.view[model].sum()), int(tallies.both_bad.view[model].sum())
        votes = wins + losses + ties + both_bad
        earned = badge(
            int(self.decisive[model]), float(self.coverage[model]), deviation, established=established, stable=stable
        )
        means = evenness.prompt_means(tallies.half_points_on.view[model], tallies.rated_on.view[model])
        rules = state.policy.rating
        return BoardRow(
            rank=rank,
            model=facts.model,
            display_name=facts.display_name,
            provider=facts.provider,
            conservative=float(state.conservative[model]),
            rating=float(now.rating[model]),
            deviation=deviation,
            volatility=float(now.volatility[model]),
            confidence=confidence_percent(deviation, least=rules.deviation_min, most=rules.deviation_max),
            badge=earned,
            official_top=model in self.band and earned is not Badge.PROVISIONAL,
            prompt_coverage=float(self.coverage[model]),
            pair_coverage=self.pair_coverage.get(model),
            wins=wins,
            losses=losses,
            ties=ties,
            votes=votes,
            both_bad=both_bad,
            both_bad_rate=both_bad / votes if votes else None,
            quality_floor=1.0 - both_bad / votes if votes else None,
            average_score=evenness.average_score(means),
            spread=evenness.spread(means),
            consistency=self._consistency(model),
            legacy_elo=float(now.legacy[model]),
            legacy_rank=legacy_rank,
            conservative_rank=conservative_rank,
        )

    def _consistency(self, model: int) -> int | None:
        decisive = self.state.tallies.decisive_on.view[model]
        wins = self.wins_on[model]
        return evenness.consistency(wins, decisive, self.expected[model], self.information[model])


def decisive_wins_on(state: ArenaState) -> NDArray[np.int64]:
    """Decisive wins by model and prompt: half points are 2 for a win and 1 for a tie."""
    tallies = state.tallies
    ties = tallies.rated_on.view - tallies.decisive_on.view
    return np.asarray((tallies.half_points_on.view - ties) // 2, dtype=np.int64)


def expected_by_prompt(state: ArenaState) -> tuple[Floats, Floats]:
    """By model and prompt, the decisive wins that current ratings predict there, and ΣE(1 − E)."""
    models, prompts = state.tallies.decisive_on.view.shape
    met = state.tallies.pair_prompts
    lengths = np.fromiter(map(len, met.values()), dtype=np.intp, count=len(met))
    size = int(lengths.sum())
    pairs = np.fromiter(chain.from_iterable(met), dtype=np.intp, count=2 * len(met)).reshape(-1, 2)
    first, second = np.repeat(pairs, lengths, axis=0).T
    prompt = np.fromiter(chain.from_iterable(met.values()), dtype=np.intp, count=size)
    votes = np.fromiter(chain.from_iterable(on.values() for on in met.values()), dtype=np.float64, count=size)
    rating = state.ratings.rating
    chance = expected_scores(rating[first], rating[second])

    def summed(by_first: Floats, by_second: Floats) -> Floats:
        cells = np.concatenate([first * prompts + prompt, second * prompts + prompt])
        total = np.bincount(cells, np.concatenate([by_first, by_second]), models * prompts)
        return np.asarray(total.reshape(models, prompts), dtype=np.float64)

    information = votes * chance * (1.0 - chance)
    return summed(votes * chance, votes * (1.0 - chance)), summed(information, information)

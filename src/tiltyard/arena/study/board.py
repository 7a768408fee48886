"""The live board: every enabled model in the state, in the official order of its phase.

Phases 1 and 2 keep the legacy Elo order; from phase 3 on the conservative score (rating minus two deviations) orders
the board. Badges and the label are about the order that is shown. What they need beyond the state, such as ranges of
ranks, is handed in as `Evidence`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, pairwise
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from tiltyard.arena.rules.policy import BadgeRules
from tiltyard.arena.rules.ratings import Ratings
from tiltyard.arena.rules.state import ArenaState
from tiltyard.arena.rules.units import HOUR
from tiltyard.arena.study import coverage as evenness
from tiltyard.arena.study.coverage import pair_completeness, pair_coverage_scores, prompt_coverage, prompts_needed
from tiltyard.arena.study.publication import (
    Badge,
    Floor,
    Publication,
    badge,
    confidence_percent,
    order_rule,
    places_rule,
    publication,
    voter_rule,
)
from tiltyard.arena.study.voters import expected_scores
from tiltyard.types import Floats

OrderedBy = Literal["legacy_elo", "conservative"]

SHADOW_PHASE = 1
"""The phase in which the new figures are computed and not shown."""

OFFICIAL_FROM = 3
"""The phase from which the conservative order is the official one."""


class Evidence(msgspec.Struct, frozen=True):
    """What a study of all counted votes adds to the board of a state."""

    places: Mapping[str, tuple[int, int]]
    """Bradley–Terry's range of ranks of each model that has one, among the models of the board."""
    largest_voter: float | None
    """The share of the counted votes that one voter cast at most; None without votes."""
    earlier: tuple[Mapping[str, int], ...] | None
    """Every model's place in the order shown, at several times over the last window; None with fewer votes."""


class BoardRow(msgspec.Struct, frozen=True):
    """One model's row. Values that need more votes are None."""

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
    """2Φ(25/RD) − 1 in percent, derived from RD: the chance of being within 25 points, were RD a standard error."""
    badge: Badge
    """`Provisional`, `Established` or `Stable`."""
    official_top: bool
    """Whether the model belongs to the official top tier: among the first K of the order shown, and not provisional."""
    prompt_coverage: float
    """Share of active prompts on which it has enough decisive votes."""
    pair_coverage: float | None
    """How complete its pairs with its rank neighbours are; only for contenders."""
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
    rating_shown: float
    """The one rating that every page, file and feed shows: the conservative score, or legacy Elo in phases 1 and 2."""
    rank_low: int | None
    """The best place it could hold, by the last study; None before there is one."""
    rank_high: int | None
    """The worst place it could hold."""
    outside_range: bool
    """Whether its place is outside Bradley–Terry's range, which was widened to contain it."""

    @property
    def places(self) -> int | None:
        return None if self.rank_low is None or self.rank_high is None else self.rank_high - self.rank_low + 1


class LiveBoard(msgspec.Struct, frozen=True, kw_only=True):
    """The board of an arena. In phase 1, the figures that are computed in shadow are null on the site."""

    seq: int
    """Events of the log that it includes."""
    at: int
    """The time of the last of them (microseconds), rounded down to the hour."""
    phase: int
    """Phase of the rollout, 1 to 4."""
    ordered_by: OrderedBy
    """`conservative`, or `legacy_elo` in phases 1 and 2."""
    votes: int
    """Counted votes."""
    publication: Publication
    """Whether it may be called stable, and every rule."""
    official_top_tier: tuple[str, ...]
    """Its models, best first."""
    rows: tuple[BoardRow, ...]
    """One per enabled model, in the official order."""

    @property
    def raw_ratings(self) -> dict[str, float]:
        """The ratings behind the order: Glicko-2's, or legacy Elo in phases 1 and 2."""
        by_legacy = self.ordered_by == "legacy_elo"
        return {row.model: row.legacy_elo if by_legacy else row.rating for row in self.rows}

    @property
    def top_tier(self) -> tuple[BoardRow, ...]:
        return tuple(row for row in self.rows if row.official_top)

    def __getitem__(self, model: str) -> BoardRow:
        for row in self.rows:
            if row.model == model:
                return row
        raise KeyError(model)


def live_board(state: ArenaState, ratings: Ratings | None = None, evidence: Evidence | None = None) -> LiveBoard:
    """The board of a state. The same state, ratings and evidence give the same board, to the last bit.

    Parameters:
        state: The state of an arena.
        ratings: The ratings to show, such as the published ones; None: those that the state uses, normally the running
            ones.
        evidence: What a study of all votes found; without one there are no ranges of ranks, and nothing is Stable.
    """
    state = state if ratings is None else state.showing(ratings)
    now, tallies, policy = state.ratings, state.tallies, state.policy
    official, conservative, legacy = official_order(state), state.order(), legacy_order(state)
    ranges = {} if evidence is None else evidence.places
    coverage, decisive, wins_on = coverages(state), tallies.decisive, decisive_wins_on(state)
    expected, information = expected_by_prompt(state)
    pair_coverage = pair_coverage_scores(
        conservative, policy.contender_band, lambda first, second: completeness(state, first, second)
    )
    established, stable = badge_floors(policy.badges)
    rows = []
    for rank, model in enumerate(official, start=1):
        facts, deviation = state.catalog.models[model], float(now.deviation[model])
        wins, losses = int(tallies.wins.view[model].sum()), int(tallies.wins.view[:, model].sum())
        ties, both_bad = int(tallies.ties.view[model].sum()), int(tallies.both_bad.view[model].sum())
        votes = wins + losses + ties + both_bad
        low = high = places = None
        outside = False
        if facts.model in ranges:
            low, high = ranges[facts.model]
            outside = not low <= rank <= high
            low, high = min(low, rank), max(high, rank)
            places = None if outside else high - low + 1  # a place outside its range is none to be called stable
        earned = badge(
            int(decisive[model]), float(coverage[model]), deviation, places, established=established, stable=stable
        )
        means = evenness.prompt_means(tallies.half_points_on.view[model], tallies.rated_on.view[model])
        score, elo = float(now.conservative[model]), float(now.legacy[model])
        rows.append(
            BoardRow(
                rank=rank,
                model=facts.model,
                display_name=facts.display_name,
                provider=facts.provider,
                conservative=score,
                rating=float(now.rating[model]),
                deviation=deviation,
                volatility=float(now.volatility[model]),
                confidence=confidence_percent(deviation),
                badge=earned,
                official_top=rank <= policy.contender_band and earned is not Badge.PROVISIONAL,
                prompt_coverage=float(coverage[model]),
                pair_coverage=pair_coverage.get(model),
                wins=wins,
                losses=losses,
                ties=ties,
                votes=votes,
                both_bad=both_bad,
                both_bad_rate=both_bad / votes if votes else None,
                quality_floor=1.0 - both_bad / votes if votes else None,
                average_score=evenness.average_score(means),
                spread=evenness.spread(means),
                consistency=evenness.consistency(
                    wins_on[model], tallies.decisive_on.view[model], expected[model], information[model]
                ),
                legacy_elo=elo,
                legacy_rank=legacy.index(model) + 1,
                conservative_rank=conservative.index(model) + 1,
                rating_shown=score if state.phase >= OFFICIAL_FROM else elo,
                rank_low=low,
                rank_high=high,
                outside_range=outside,
            )
        )
    return LiveBoard(
        seq=state.seq,
        at=state.at // HOUR * HOUR,
        phase=state.phase,
        ordered_by="conservative" if state.phase >= OFFICIAL_FROM else "legacy_elo",
        votes=counted_votes(state),
        publication=board_publication(state, rows, evidence),
        official_top_tier=tuple(row.model for row in rows if row.official_top),
        rows=tuple(rows),
    )


def legacy_order(state: ArenaState) -> list[int]:
    """Enabled models, best first by legacy Elo; equal ones in the order of their numbers."""
    legacy = state.ratings.legacy
    return sorted(state.order(), key=lambda model: (-legacy[model], model))


def official_order(state: ArenaState) -> list[int]:
    """Enabled models in the order that the state's phase makes official."""
    return state.order() if state.phase >= OFFICIAL_FROM else legacy_order(state)


def raw_ratings(state: ArenaState) -> dict[str, float]:
    """The ratings behind the order that is shown, by enabled model: Glicko-2's, or legacy Elo in phases 1 and 2."""
    now = state.ratings
    rating = now.rating if state.phase >= OFFICIAL_FROM else now.legacy
    return {state.catalog.models[model].model: float(rating[model]) for model in official_order(state)}


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
    policy, tallies = state.policy, state.tallies
    return pair_completeness(
        tallies.pair_decisive(first, second),
        tallies.distinct_prompts(first, second),
        floor_votes=policy.adjacent_floor_votes,
        floor_prompts=prompts_needed(policy.adjacent_floor_prompts, sum(state.catalog.prompt_enabled)),
    )


def board_publication(state: ArenaState, rows: Sequence[BoardRow], evidence: Evidence | None) -> Publication:
    """Whether the board may be called officially stable, by the first models of the order that is shown.

    Our rules, beyond the policy's three, are shown where they are switched on.
    """
    rules = state.policy.publication
    top, ours = rows[: rules.top], []
    if rules.largest_voter < 1.0:
        ours.append(voter_rule(None if evidence is None else evidence.largest_voter, rules.largest_voter))
    if rules.median_places:
        widths = None if evidence is None else [row.places or len(rows) for row in top]
        ours.append(places_rule(widths, rules.median_places))
    if rules.order_kept:
        ranges = {row.model: (row.rank_low, row.rank_high) for row in top if row.rank_low and row.rank_high}
        earlier = None if evidence is None else evidence.earlier
        ours.append(order_rule([row.model for row in top], ranges, earlier, state.policy.window_matchups))
    return publication(
        [row.deviation for row in top],
        [row.prompt_coverage for row in top],
        [completeness(state, *pair) >= 1.0 for pair in pairwise(official_order(state)[: rules.top])],
        median_deviation=rules.median_deviation,
        adjacent_share=rules.adjacent_share,
        mean_coverage=rules.mean_coverage,
        ours=ours,
    )


def badge_floors(rules: BadgeRules) -> tuple[Floor, Floor]:
    """What `Established` and `Stable` require."""
    return (
        Floor(rules.established_decisive, rules.established_coverage, rules.established_deviation),
        Floor(rules.stable_decisive, rules.stable_coverage, rules.stable_deviation, rules.stable_places),
    )


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

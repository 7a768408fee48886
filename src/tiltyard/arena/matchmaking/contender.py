"""The contender lane: the first K models settle their order among themselves, and meet those who knock at the door."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from tiltyard.arena.matchmaking.draws import LEVEL, draw
from tiltyard.arena.matchmaking.matchup import Pick
from tiltyard.arena.matchmaking.prompts import draw_prompt, least_met
from tiltyard.arena.tallies import pair_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from numpy.typing import NDArray

    from tiltyard.arena.matchmaking.field import Field

    Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Lottery:
    """Ordered pairs (anchor, opponent) of one kind, how likely each is, and how often the kind is drawn."""

    share: float
    reason: str
    pairs: list[tuple[int, int]]
    chances: Floats

    def chance_of(self, first: int, second: int) -> float:
        """How likely the pair is within this kind, whoever is the anchor."""
        sought = pair_of(first, second)
        return sum(float(p) for pair, p in zip(self.pairs, self.chances, strict=True) if pair_of(*pair) == sought)


def can_serve(field: Field) -> bool:
    """Whether the lane is open and the band has somebody to show to this voter."""
    if not field.opened:
        return False
    if field.partners is field.servable.partners and field.servable.whole:
        return True
    reach = field.order[: field.policy.contender_band + field.policy.challenger_reach]
    return bool(field.partners[np.ix_(field.band, reach)].any()) and bool(lotteries(field))


def pick(field: Field, rng: np.random.Generator) -> Pick:
    """A rank neighbour, a close rival or a challenger of a contender, on the prompt where the pair met least."""
    kinds = lotteries(field)
    shares = np.array([kind.share for kind in kinds])
    kind = kinds[draw(rng, shares)]
    first, second = kind.pairs[draw(rng, kind.chances)]
    chance = sum(other.share * other.chance_of(first, second) for other in kinds) / float(shares.sum())
    prompt, prompt_chance = draw_prompt(rng, least_met(field, first, second))
    return Pick(first, second, prompt, chance * prompt_chance, kind.reason)


def lotteries(field: Field) -> list[Lottery]:
    """The kinds of meeting that can be served now; the shares of those that cannot go to the others."""
    mix = field.policy.opponents
    kinds = (
        _floors(field, mix.neighbour) or _neighbours(field, mix.neighbour),
        _close(field, mix.close),
        _challengers(field, mix.challenger),
    )
    return [kind for kind in kinds if kind is not None and kind.share > 0.0]


def below_floor(field: Field, first: int, second: int) -> bool:
    """Whether two rank neighbours have too few decisive votes, or on too few prompts."""
    policy, tallies, pair = field.policy, field.state.tallies, pair_of(first, second)
    flying = int(field.state.schedule.flying_pairs.view[pair])
    if tallies.pair_decisive(first, second) + flying < policy.adjacent_floor_votes:
        return True
    enough = min(policy.adjacent_floor_prompts, int(field.servable.shared[pair]))
    met: Collection[int] = tallies.pair_prompts.get(pair, ())
    if len(met) >= enough or not flying:
        return len(met) < enough
    return len(set(met) | set(np.flatnonzero(field.in_flight(first, second)).tolist())) < enough


def _floors(field: Field, share: float) -> Lottery | None:
    """Rank neighbours that are below the adjacent floor, which come first."""
    band = field.band.tolist()
    pairs = [
        (above, below)
        for above, below in pairwise(band)
        if field.partners[above, below] and below_floor(field, above, below)
    ]
    if not pairs:
        return None
    weights = np.array([field.lean[above] * field.lean[below] for above, below in pairs])
    return Lottery(share, "rank neighbours below their floor of votes", pairs, weights / weights.sum())


def _neighbours(field: Field, share: float) -> Lottery | None:
    """Each contender with the one above or below, both draws leaning to the less exposed."""
    band, lean = field.band.tolist(), field.lean
    pairs: list[tuple[int, int]] = []
    chances: list[float] = []
    for place, anchor in enumerate(band):
        beside = (*band[max(place - 1, 0) : place], *band[place + 1 : place + 2])
        rivals = [rival for rival in beside if field.partners[anchor, rival]]
        pairs += [(anchor, rival) for rival in rivals]
        chances += [lean[anchor] * lean[rival] / len(rivals) for rival in rivals]
    return _lottery(share, "rank neighbours in the contender band", pairs, np.array(chances))


def _close(field: Field, share: float) -> Lottery | None:
    """Each contender with the contender whose rating is nearest."""
    band = field.band
    rating = field.state.track.now.rating[band]
    gap = np.abs(rating[:, None] - rating[None, :])
    gap[~field.partners[np.ix_(band, band)]] = np.inf
    nearest = gap.min(axis=1, keepdims=True)
    chosen = (gap <= nearest + LEVEL) & np.isfinite(gap)
    lean = field.lean[band]
    weights = chosen * lean[:, None] * lean[None, :] / np.maximum(chosen.sum(axis=1, keepdims=True), 1)
    return _spread(share, "contenders closest in rating", band, band, weights)


def _challengers(field: Field, share: float) -> Lottery | None:
    """Each contender with one of the ranks just below the band, both draws leaning to the less exposed."""
    band, size = field.band, field.policy.contender_band
    behind = field.order[size : size + field.policy.challenger_reach]
    if not len(behind):
        return None
    weights = field.partners[np.ix_(band, behind)] * field.lean[band][:, None] * field.lean[behind][None, :]
    return _spread(share, "challenger of the contender band", band, behind, weights)


def _spread(
    share: float, reason: str, anchors: NDArray[np.intp], rivals: NDArray[np.intp], weights: Floats
) -> Lottery | None:
    rows, columns = np.nonzero(weights)
    pairs = list(zip(anchors[rows].tolist(), rivals[columns].tolist(), strict=True))
    return _lottery(share, reason, pairs, weights[rows, columns])


def _lottery(share: float, reason: str, pairs: list[tuple[int, int]], weights: Floats) -> Lottery | None:
    return Lottery(share, reason, pairs, weights / weights.sum()) if pairs else None

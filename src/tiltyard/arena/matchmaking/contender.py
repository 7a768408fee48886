"""The contender lane: the first K models settle their order among themselves, and meet those who knock at the door."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np

from tiltyard.arena.matchmaking.draws import LEVEL, draw, draw_few
from tiltyard.arena.matchmaking.matchup import Pick
from tiltyard.arena.matchmaking.prompts import draw_prompt, least_met
from tiltyard.arena.tallies import pair_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from numpy.typing import NDArray

    from tiltyard.arena.matchmaking.field import Field
    from tiltyard.arena.matchmaking.outlook import Outlook
    from tiltyard.arena.tallies import Pair

    Floats = NDArray[np.float64]


class Meetings:
    """Ordered pairs (anchor, opponent) of one kind; `among` counts the opponents that split an anchor's draw.

    They follow from the votes and from who may meet whom; how likely each is, exposure says (`Lottery`).
    """

    def __init__(self, reason: str, pairs: list[Pair], among: list[int]) -> None:
        self.reason = reason
        self.pairs = pairs
        self.places = {pair: place for place, pair in enumerate(pairs)}
        self._first = np.array([pair[0] for pair in pairs], dtype=np.intp)
        self._second = np.array([pair[1] for pair in pairs], dtype=np.intp)
        self._among = np.array(among, dtype=np.float64)

    def lottery(self, share: float, lean: Floats) -> Lottery | None:
        """The draw of a pair, both models leaning to the less exposed; None where there is no pair."""
        if not self.pairs or share <= 0.0:
            return None
        weights = lean[self._first] * lean[self._second] / self._among
        return Lottery(share, self, weights / np.add.reduce(weights))


@dataclass(frozen=True, slots=True, eq=False)
class Lottery:
    """One kind of meeting, how often it is drawn, and how likely each of its pairs is then."""

    share: float
    kind: Meetings
    chances: Floats

    def chance_of(self, first: int, second: int) -> float:
        """How likely the pair is within this kind, whoever is the anchor."""
        places = (self.kind.places.get(pair) for pair in ((first, second), (second, first)))
        return sum(float(self.chances[place]) for place in places if place is not None)


def can_serve(field: Field) -> bool:
    """Whether the lane is open and the band has somebody to show to this voter."""
    if not field.opened:
        return False
    if field.partners is field.servable.partners and field.servable.whole:
        return True
    reach = field.order[: field.policy.contender_band + field.policy.challenger_reach]
    return bool(field.partners[field.band[:, None], reach].any()) and bool(lotteries(field))


def pick(field: Field, rng: np.random.Generator) -> Pick:
    """A rank neighbour, a close rival or a challenger of a contender, on the prompt where the pair met least."""
    kinds = lotteries(field)
    shares = [kind.share for kind in kinds]
    drawn = kinds[draw_few(rng, shares)]
    first, second = drawn.kind.pairs[draw(rng, drawn.chances)]
    chance = sum(other.share * other.chance_of(first, second) for other in kinds) / sum(shares)
    prompt, prompt_chance = draw_prompt(rng, least_met(field, first, second))
    return Pick(first, second, prompt, chance * prompt_chance, drawn.kind.reason)


def lotteries(field: Field) -> list[Lottery]:
    """The kinds of meeting that can be served now; the shares of those that cannot go to the others."""
    mix, lean = field.policy.opponents, field.lean
    neighbours, close, challengers = _meetings(field)
    kinds = (
        _floors(field, neighbours).lottery(mix.neighbour, lean) or neighbours.lottery(mix.neighbour, lean),
        close.lottery(mix.close, lean),
        challengers.lottery(mix.challenger, lean),
    )
    return [kind for kind in kinds if kind is not None]


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


def _floors(field: Field, neighbours: Meetings) -> Meetings:
    """Rank neighbours that are below the adjacent floor, which come first."""
    places = {model: place for place, model in enumerate(field.band.tolist())}
    below = [pair for pair in neighbours.pairs if places[pair[0]] < places[pair[1]] and below_floor(field, *pair)]
    return Meetings("rank neighbours below their floor of votes", below, [1] * len(below))


_known: WeakKeyDictionary[Outlook, tuple[Meetings, Meetings, Meetings]] = WeakKeyDictionary()


def _meetings(field: Field) -> tuple[Meetings, Meetings, Meetings]:
    """Neighbours, close rivals and challengers; kept until the next vote for voters who may see everybody."""
    everybody = field.partners is field.servable.partners
    known = _known.get(field.outlook) if everybody else None
    if known is None:
        known = (_neighbours(field), _close(field), _challengers(field))
        if everybody:
            _known[field.outlook] = known
    return known


def _neighbours(field: Field) -> Meetings:
    """Each contender with the one above or below."""
    band = field.band.tolist()
    pairs: list[Pair] = []
    among: list[int] = []
    for place, anchor in enumerate(band):
        beside = (*band[max(place - 1, 0) : place], *band[place + 1 : place + 2])
        rivals = [rival for rival in beside if field.partners[anchor, rival]]
        pairs += [(anchor, rival) for rival in rivals]
        among += [len(rivals)] * len(rivals)
    return Meetings("rank neighbours in the contender band", pairs, among)


def _close(field: Field) -> Meetings:
    """Each contender with the contender whose rating is nearest."""
    band = field.band
    rating = field.state.track.now.rating[band]
    gap = np.abs(rating[:, None] - rating[None, :])
    gap[~field.partners[band[:, None], band]] = np.inf
    chosen = (gap <= gap.min(axis=1, keepdims=True) + LEVEL) & np.isfinite(gap)
    rows, columns = chosen.nonzero()
    pairs = list(zip(band[rows].tolist(), band[columns].tolist(), strict=True))
    return Meetings("contenders closest in rating", pairs, chosen.sum(axis=1)[rows].tolist())


def _challengers(field: Field) -> Meetings:
    """Each contender with each of the ranks just below the band."""
    band, size = field.band, field.policy.contender_band
    behind = field.order[size : size + field.policy.challenger_reach]
    rows, columns = field.partners[band[:, None], behind].nonzero()
    pairs = list(zip(band[rows].tolist(), behind[columns].tolist(), strict=True))
    return Meetings("challenger of the contender band", pairs, [1] * len(pairs))

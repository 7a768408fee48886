"""The contender lane: the top K models play each other, and the challengers just below them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tiltyard.arena.matchmaking.draws import LEVEL, draw, draw_few
from tiltyard.arena.matchmaking.matchup import Pick
from tiltyard.arena.matchmaking.voter_view import draw_prompt, least_met
from tiltyard.arena.tallies import pair_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from numpy.typing import NDArray

    from tiltyard.arena.matchmaking.voter_view import VoterView
    from tiltyard.arena.tallies import Pair

    Floats = NDArray[np.float64]


class Meetings:
    """Ordered pairs (anchor, opponent) of one kind; `among` counts the opponents that split an anchor's draw.

    They depend on the votes and on which models can meet; exposure decides how likely each is (`Lottery`).
    """

    def __init__(self, reason: str, pairs: list[Pair], among: list[int]) -> None:
        self.reason = reason
        self.pairs = pairs
        self.places = {pair: place for place, pair in enumerate(pairs)}
        self._first = np.array([pair[0] for pair in pairs], dtype=np.intp)
        self._second = np.array([pair[1] for pair in pairs], dtype=np.intp)
        self._among = np.array(among, dtype=np.float64)

    def lottery(self, share: float, lean: Floats) -> Lottery | None:
        """The draw of a pair, favouring less exposed models; None if there is no pair."""
        if not self.pairs or share <= 0.0:
            return None
        weights = lean[self._first] * lean[self._second] / self._among
        return Lottery(share, self, weights / np.add.reduce(weights))


@dataclass(frozen=True, slots=True, eq=False)
class Lottery:
    """One kind of meeting, how often it is drawn, and the probability of each of its pairs."""

    share: float
    kind: Meetings
    chances: Floats

    def chance_of(self, first: int, second: int) -> float:
        """The probability of the pair within this kind, with either model as the anchor."""
        places = (self.kind.places.get(pair) for pair in ((first, second), (second, first)))
        return sum(float(self.chances[place]) for place in places if place is not None)


def can_serve(view: VoterView) -> bool:
    """Whether the lane is open and the band has a model that can be shown to this voter."""
    if not view.opened:
        return False
    if view.partners is view.servable.partners and view.servable.complete:
        return True
    reach = view.order[: view.policy.contender_band + view.policy.challenger_reach]
    return bool(view.partners[view.band[:, None], reach].any()) and bool(lotteries(view))


def pick(view: VoterView, rng: np.random.Generator) -> Pick:
    """A rank neighbour, a close rival or a challenger of a contender, on the prompt where the pair met least."""
    kinds = lotteries(view)
    shares = [kind.share for kind in kinds]
    drawn = kinds[draw_few(rng, shares)]
    first, second = drawn.kind.pairs[draw(rng, drawn.chances)]
    chance = sum(other.share * other.chance_of(first, second) for other in kinds) / sum(shares)
    prompt, prompt_chance = draw_prompt(rng, least_met(view, first, second))
    return Pick(first, second, prompt, chance * prompt_chance, drawn.kind.reason)


def lotteries(view: VoterView) -> list[Lottery]:
    """The kinds of meeting that can be served now; the shares of the others are redistributed."""
    mix, lean = view.policy.opponents, view.lean
    neighbours, close, challengers = _meetings(view)
    kinds = (
        _floors(view, neighbours).lottery(mix.neighbour, lean) or neighbours.lottery(mix.neighbour, lean),
        close.lottery(mix.close, lean),
        challengers.lottery(mix.challenger, lean),
    )
    return [kind for kind in kinds if kind is not None]


def below_floor(view: VoterView, first: int, second: int) -> bool:
    """Whether two rank neighbours have too few decisive votes, or on too few prompts."""
    policy, tallies, pair = view.policy, view.state.tallies, pair_of(first, second)
    in_flight = int(view.state.schedule.in_flight_pairs.view[pair])
    if tallies.pair_decisive(first, second) + in_flight < policy.adjacent_floor_votes:
        return True
    enough = min(policy.adjacent_floor_prompts, int(view.servable.shared[pair]))
    met: Collection[int] = tallies.pair_prompts.get(pair, ())
    if len(met) >= enough or not in_flight:
        return len(met) < enough
    return len(set(met) | set(np.flatnonzero(view.in_flight(first, second)).tolist())) < enough


def _floors(view: VoterView, neighbours: Meetings) -> Meetings:
    """Rank neighbours that are below the adjacent floor, which come first."""
    places = {model: place for place, model in enumerate(view.band.tolist())}
    below = [pair for pair in neighbours.pairs if places[pair[0]] < places[pair[1]] and below_floor(view, *pair)]
    return Meetings("rank neighbours below their floor of votes", below, [1] * len(below))


def _meetings(view: VoterView) -> tuple[Meetings, Meetings, Meetings]:
    """Neighbours, close rivals and challengers; cached until the next vote for voters who may see every model."""
    if view.partners is not view.servable.partners:
        return _neighbours(view), _close(view), _challengers(view)
    if view.rank_order.meetings is None:
        view.rank_order.meetings = _neighbours(view), _close(view), _challengers(view)
    return view.rank_order.meetings


def _neighbours(view: VoterView) -> Meetings:
    """Each contender with its neighbour above or below."""
    band = view.band.tolist()
    pairs: list[Pair] = []
    among: list[int] = []
    for place, anchor in enumerate(band):
        beside = (*band[max(place - 1, 0) : place], *band[place + 1 : place + 2])
        rivals = [rival for rival in beside if view.partners[anchor, rival]]
        pairs += [(anchor, rival) for rival in rivals]
        among += [len(rivals)] * len(rivals)
    return Meetings("rank neighbours in the contender band", pairs, among)


def _close(view: VoterView) -> Meetings:
    """Each contender with the contender whose rating is nearest."""
    band = view.band
    rating = view.state.ratings.rating[band]
    gap = np.abs(rating[:, None] - rating[None, :])
    gap[~view.partners[band[:, None], band]] = np.inf
    chosen = (gap <= gap.min(axis=1, keepdims=True) + LEVEL) & np.isfinite(gap)
    rows, columns = chosen.nonzero()
    pairs = list(zip(band[rows].tolist(), band[columns].tolist(), strict=True))
    return Meetings("contenders closest in rating", pairs, chosen.sum(axis=1)[rows].tolist())


def _challengers(view: VoterView) -> Meetings:
    """Each contender with each of the ranks just below the band."""
    band, size = view.band, view.policy.contender_band
    behind = view.order[size : size + view.policy.challenger_reach]
    rows, columns = view.partners[band[:, None], behind].nonzero()
    pairs = list(zip(band[rows].tolist(), behind[columns].tolist(), strict=True))
    return Meetings("challenger of the contender band", pairs, [1] * len(pairs))

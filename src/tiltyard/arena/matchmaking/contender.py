"""The contender lane: one of the first K models, the anchor, meets a neighbour, another contender or a challenger.

Anchors are drawn evenly over the band, and neighbours above and below evenly, whatever their exposure: the other lanes
make up for that. A pair of neighbours below its floor of votes comes before the other neighbour of either, down to the
last place that the publication rules look at. Beyond the band that makes anchors of models that are no contenders.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import msgspec
import numpy as np

from tiltyard.arena.matchmaking.matchup import LEVEL, ContenderMeeting, MeetingKind, Pick, draw, draw_one
from tiltyard.arena.matchmaking.voter_view import VoterView, draw_prompt, least_met
from tiltyard.arena.rules.tallies import pair_of

Places = Sequence[int]


class Meetings(msgspec.Struct, frozen=True):
    """One kind of meeting: its share of the lane, its anchors, all alike, and each anchor's opponents, all alike.

    Models are named by their place in the order, from 0.
    """

    kind: MeetingKind
    share: float
    anchors: Places
    opponents: Callable[[int], Places]

    def chance(self, first: int, second: int) -> float:
        """The probability that this kind of meeting is one of these two, with either as the anchor."""
        chance = 0.0
        for anchor, other in ((first, second), (second, first)):
            if anchor in self.anchors:
                opponents = self.opponents(anchor)
                if other in opponents:
                    chance += 1.0 / len(opponents)
        return chance / len(self.anchors)


def can_serve(view: VoterView) -> bool:
    """Whether the lane is open and there is a meeting that can be shown to this voter."""
    if view.opened and view.everybody and view.policy.opponents.neighbour > 0.0:
        return True
    return view.opened and bool(Contenders(view).meetings)


def pick(view: VoterView, rng: np.random.Generator) -> Pick:
    """An anchor and a neighbour, close contender or challenger, on the prompt where the pair met least."""
    contenders = Contenders(view)
    meetings = contenders.meetings
    shares = np.array([meeting.share for meeting in meetings])
    drawn = meetings[draw(rng, shares)]
    anchor = draw_one(rng, drawn.anchors)
    opponent = draw_one(rng, drawn.opponents(anchor))
    chance = sum(meeting.share * meeting.chance(anchor, opponent) for meeting in meetings) / float(shares.sum())
    first, second = contenders.models[anchor], contenders.models[opponent]
    prompt, prompt_chance = draw_prompt(rng, least_met(view, first, second), view, first, second)
    meeting = contenders.meeting(drawn.kind, anchor, opponent)
    return Pick(first, second, prompt, chance * prompt_chance, meeting.reason(len(contenders.band)), meeting)


class Contenders:
    """The band, its challengers and the places that publication looks at, for one voter; `models` are in order."""

    def __init__(self, view: VoterView) -> None:
        policy = view.policy
        reach = policy.contender_band + max(policy.challenger_reach, 1)
        self.models: list[int] = view.order[: max(reach, policy.publication.top)].tolist()
        self.band = range(min(policy.contender_band, len(self.models)))
        self._challengers = range(len(self.band), min(len(self.band) + policy.challenger_reach, len(self.models)))
        self._floors = range(min(max(policy.contender_band, policy.publication.top), len(self.models)))
        self._view, self._everybody = view, view.everybody
        self._ratings: list[float] = view.state.ratings.rating[self.models].tolist()
        mix, short_below = policy.opponents, [place for place in self._floors[len(self.band) :] if self._short(place)]
        kinds = (
            Meetings("neighbour", mix.neighbour, self._with(self._beside) + short_below, self.neighbours),
            Meetings("close", mix.close, self._with(self._others), self.closest),
            Meetings("challenger", mix.challenger, self._with(self.challengers), self.challengers),
        )
        self.meetings = [kind for kind in kinds if kind.anchors and kind.share > 0.0]
        """The kinds that this voter can be shown; the shares of the others go to these."""

    def neighbours(self, anchor: int) -> Places:
        """The places above and below, or only those with which the anchor is below its floor, if there are any.

        Beyond the band only such pairs are drawn.
        """
        return self._short(anchor) or self._beside(anchor)

    def closest(self, anchor: int) -> Places:
        """The contender with the nearest rating that is no neighbour; several where they are level."""
        rating, others = self._ratings, self._others(anchor)
        gaps = [abs(rating[place] - rating[anchor]) for place in others]
        nearest = min(gaps, default=0.0) + LEVEL
        return [place for place, gap in zip(others, gaps, strict=True) if gap <= nearest]

    def challengers(self, anchor: int) -> Places:
        return self._partners_of(anchor, self._challengers)

    def meeting(self, kind: MeetingKind, anchor: int, opponent: int) -> ContenderMeeting:
        short = kind == "neighbour" and opponent in self._short(anchor)
        return ContenderMeeting(kind, anchor + 1, opponent + 1, short)

    def _with(self, opponents: Callable[[int], Places]) -> list[int]:
        return [place for place in self.band if opponents(place)]

    def _beside(self, anchor: int) -> Places:
        return self._partners_of(anchor, range(abs(anchor - 1), min(anchor + 2, len(self.models)), 2))

    def _others(self, anchor: int) -> Places:
        return self._partners_of(anchor, (*self.band[: max(anchor - 1, 0)], *self.band[anchor + 2 :]))

    def _partners_of(self, anchor: int, places: Places) -> Places:
        if self._everybody:
            return places
        may_meet = self._view.partners[self.models[anchor]]
        return [place for place in places if may_meet[self.models[place]]]

    def _short(self, anchor: int) -> Places:
        """The neighbours with which a model is below its floor, as far as floors reach."""
        if anchor not in self._floors:
            return []
        beside = [place for place in self._beside(anchor) if place in self._floors]
        return [place for place in beside if below_floor(self._view, self.models[anchor], self.models[place])]


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
    return len(set(met) | set(view.in_flight(pair))) < enough

"""The next matchup: draw a lane, let it fall through where it cannot serve, draw the sides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import msgspec

from tiltyard.arena.events import LANES, Lane
from tiltyard.arena.matchmaking import contender, coverage, exploration, legacy, uncertainty
from tiltyard.arena.matchmaking.draws import draw_few
from tiltyard.arena.matchmaking.field import Field
from tiltyard.arena.matchmaking.matchup import Matchup, Past, Pick, Seen
from tiltyard.arena.matchmaking.servable import servable_of
from tiltyard.errors import ArenaError

if TYPE_CHECKING:
    import numpy as np

    from tiltyard.arena.state import ArenaState


class LaneRule(Protocol):
    """One lane: whether it can serve from a field, and what it picks if so."""

    def can_serve(self, field: Field) -> bool:
        """Whether `pick` would find a pair."""
        ...

    def pick(self, field: Field, rng: np.random.Generator) -> Pick:
        """A pair and prompt for this voter."""
        ...


RULES: dict[Lane, LaneRule] = {
    "coverage": coverage,
    "contender": contender,
    "uncertainty": uncertainty,
    "exploration": exploration,
}

FALLS_TO: tuple[Lane, ...] = ("coverage", "uncertainty", "exploration")
"""A lane that cannot serve hands over to the first of these that can. Coverage comes first: it does least harm."""

OLDEST_AGAIN = "this voter has seen all there is; the oldest again"


def next_matchup(state: ArenaState, rng: np.random.Generator, seen: Seen | Past) -> Matchup:
    """The matchup to serve next to a voter with this past: a function of its three arguments and nothing else.

    First the lane is drawn by the policy's weights, then the lane chooses, then a fair coin gives the sides. What the
    voter has seen does not come again while anything else is left; for a voter to whom only models over the traffic cap
    are left, the cap gives way; and at the very end the oldest comes again, under the last lane of `FALLS_TO`.
    """
    servable = servable_of(state.catalog)
    if not len(servable.numbers):
        raise ArenaError(
            "nothing to serve: no two enabled models have answers to one enabled prompt. Import answers or enable some."
        )
    past = seen if isinstance(seen, Past) else Past(seen)
    if state.phase == 1:
        picked = legacy.pick(state, servable, past, rng)
        if picked is None:
            picked = _oldest(Field(state, servable, past), past)
        return _seated(picked, "legacy", picked.chance, rng)
    for capped in (True, False):
        field = Field(state, servable, past, capped=capped)
        if field.has_pair:
            return _by_lane(field, rng)
    picked = _oldest(field, past)
    return _seated(picked, FALLS_TO[-1], picked.chance, rng)


def _by_lane(field: Field, rng: np.random.Generator) -> Matchup:
    weights: tuple[float, ...] = msgspec.structs.astuple(field.policy.lanes)
    drawn = LANES[draw_few(rng, weights)]
    able = {lane: rule.can_serve(field) for lane, rule in RULES.items()}
    instead = next(lane for lane in FALLS_TO if able[lane])
    lane = drawn if able[drawn] else instead
    share = 0.0
    for asked, weight in zip(LANES, weights, strict=True):
        if (asked if able[asked] else instead) == lane:
            share += weight
    picked = RULES[lane].pick(field, rng)
    note = "" if lane == drawn else f"in place of {drawn}: "
    return _seated(picked, lane, share * picked.chance, rng, note)


def _seated(picked: Pick, lane: Lane, probability: float, rng: np.random.Generator, note: str = "") -> Matchup:
    a, b = (picked.first, picked.second) if rng.random() < 0.5 else (picked.second, picked.first)
    return Matchup(a, b, picked.prompt, lane, note + picked.reason, probability)


def _oldest(field: Field, past: Past) -> Pick:
    """What this voter saw longest ago, of what may be served and does not break the diversity of prompts."""
    cells = field.servable.cells
    old = sorted((when, triple) for triple, when in past.when.items())
    left = [(a, b, prompt) for _, (a, b, prompt) in old if cells[a, prompt] and cells[b, prompt]]
    diverse = (triple for triple in left if field.diverse_prompts(triple[:2])[triple[2]])
    a, b, prompt = next(diverse, left[0])
    return Pick(a, b, prompt, 1.0, OLDEST_AGAIN)

"""The next matchup: draw a lane, take another in its place if it cannot serve, draw the sides."""

from __future__ import annotations

from collections.abc import Callable, Collection

import msgspec
import numpy as np

from tiltyard.arena.matchmaking import contender, coverage, exploration, uncertainty
from tiltyard.arena.matchmaking.matchup import ChosenMatchup, Pick, SeenMatchups, draw, draw_one
from tiltyard.arena.matchmaking.tables import WorkingTables
from tiltyard.arena.matchmaking.voter_view import VoterView, draw_prompt, least_met, most_lacking
from tiltyard.arena.rules.events import LANES, Lane
from tiltyard.arena.rules.state import ArenaState
from tiltyard.arena.rules.tallies import Pair, pair_of
from tiltyard.errors import ArenaError

PICKS: dict[Lane, Callable[[VoterView, np.random.Generator], Pick]] = {
    "coverage": coverage.pick,
    "contender": contender.pick,
    "uncertainty": uncertainty.pick,
    "exploration": exploration.pick,
}
"""What each lane picks for a voter who may be shown any pair."""

INSTEAD: Lane = "coverage"
"""Serves in place of the contender lane, the only one that may be unable to: it does least harm."""

REPEATS: Lane = "exploration"
"""The lane under which a voter who has seen everything is shown the oldest again."""

OLDEST_AGAIN = "this voter has seen all there is; the oldest again"
SAME_PAIR = "the same two models on another prompt"
SAME_AGAIN = "the same two models on a prompt that this voter has seen"


class Matchmaker:
    """Chooses the next matchup from the state, random draws and what a voter has seen, and from nothing else.

    It keeps tables between choices of one state, which make a choice faster and never change it. Not thread-safe.
    """

    def __init__(self) -> None:
        self._tables = WorkingTables()

    def __call__(self, state: ArenaState, rng: np.random.Generator, seen: SeenMatchups) -> ChosenMatchup:
        """The matchup to serve next to a voter who has seen this. Only `rng` is changed.

        First the lane is drawn by the policy's weights, then the lane chooses, then a fair coin gives the sides. What
        the voter has seen is not repeated while anything else is left. If only models over the traffic cap are left for
        a voter, the cap is ignored; once everything was seen, the oldest is repeated, under the lane `REPEATS`.
        """
        servable = self._tables.servable(state)
        if not len(servable.numbers):
            raise ArenaError(
                "nothing to serve: no two enabled models have answers to one enabled prompt. Import answers or enable "
                "some."
            )
        if state.phase == 1:
            picked = exploration.pick_legacy(state, servable, seen, rng)
            if picked is None:
                picked = _oldest(VoterView(state, seen, self._tables, capped=False), seen)
            return _seated(picked, "legacy", picked.chance, rng)
        for capped in (True, False):
            view = VoterView(state, seen, self._tables, capped=capped)
            if view.has_pair:
                return _by_lane(view, rng)
        picked = _oldest(view, seen)
        return _seated(picked, REPEATS, picked.chance, rng)

    def prompt_for_pair(
        self,
        state: ArenaState,
        rng: np.random.Generator,
        seen: SeenMatchups,
        pair: Pair,
        *,
        lane: Lane = "coverage",
        among: Collection[int] | None = None,
        repeat: bool = False,
    ) -> ChosenMatchup | None:
        """Two models that a voter skipped, on a prompt that they may be seen on again; None where none is left.

        The prompt is drawn by the rule of the lane that had chosen the pair, under which the matchup is recorded: where
        the pair met least for `contender`, any prompt for `legacy`, else where the two lack most. Prompt diversity
        holds, what is in flight comes last, and the traffic cap does not apply. `probability` is that of the prompt,
        since the pair is given.

        `among` are the only prompts to be shown, because the pair was shown on them before; diversity then does not
        hold. With `repeat` it is that of them which this voter saw longest ago.
        """
        first, second = pair_of(*pair)
        view = VoterView(state, seen, self._tables, capped=False)
        if repeat:
            oldest = view.longest_ago(first, second, among or ())
            return None if oldest is None else _seated(Pick(first, second, oldest, 1.0, SAME_AGAIN), lane, 1.0, rng)
        allowed = view.open_prompts(first, second) if among is None else view.again_prompts(first, second, among)
        if first == second or not allowed.any():
            return None
        if lane == "legacy":
            prompts = np.flatnonzero(allowed)
        else:
            prompts = (least_met if lane == "contender" else most_lacking)(view, first, second, allowed)
        if among is None:
            prompt, chance = draw_prompt(rng, prompts, view, first, second)
        else:
            prompt, chance = draw_one(rng, prompts), 1.0 / len(prompts)
        return _seated(Pick(first, second, prompt, chance, SAME_PAIR), lane, chance, rng)


def _by_lane(view: VoterView, rng: np.random.Generator) -> ChosenMatchup:
    weights = np.array(msgspec.structs.astuple(view.policy.lanes))
    drawn = LANES[draw(rng, weights)]
    closed = drawn in (INSTEAD, "contender") and not contender.can_serve(view)
    lane = INSTEAD if closed else drawn
    share = float(weights[LANES.index(lane)]) + (view.policy.lanes.contender if closed else 0.0)
    picked = PICKS[lane](view, rng)
    note = "" if lane == drawn else f"in place of {drawn}: "
    return _seated(picked, lane, share * picked.chance, rng, note)


def _seated(picked: Pick, lane: Lane, probability: float, rng: np.random.Generator, note: str = "") -> ChosenMatchup:
    a, b = (picked.first, picked.second) if rng.random() < 0.5 else (picked.second, picked.first)
    return ChosenMatchup(a, b, picked.prompt, lane, note + picked.reason, probability, picked.meeting)


def _oldest(view: VoterView, shown: SeenMatchups) -> Pick:
    """What this voter saw longest ago, among what may be served without breaking prompt diversity."""
    cells = view.servable.cells
    old = sorted((when, triple) for triple, when in shown.triples())
    left = [(a, b, prompt) for _, (a, b, prompt) in old if cells[a, prompt] and cells[b, prompt]]
    diverse = (triple for triple in left if triple[2] not in view.worn_prompts(triple[:2]))
    a, b, prompt = next(diverse, left[0])
    return Pick(a, b, prompt, 1.0, OLDEST_AGAIN)

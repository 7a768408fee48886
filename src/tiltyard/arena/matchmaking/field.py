"""What the lanes look at: the state of the arena at this moment, as one voter may be served from it."""

from __future__ import annotations

from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tiltyard.arena.matchmaking.exposure import (
    TrafficCap,
    aims,
    conservative_order,
    deviations,
    lane_opens,
    leaning,
    urgency,
)
from tiltyard.arena.tallies import Pair, pair_of

if TYPE_CHECKING:
    from tiltyard.arena.matchmaking.matchup import Seen
    from tiltyard.arena.matchmaking.servable import Mask, Servable
    from tiltyard.arena.state import ArenaState

Floats = NDArray[np.float64]
Narrow = NDArray[np.float32]
Counts = NDArray[np.int32]
Rows = NDArray[np.intp] | slice


class Field:
    """Models, prompts and deficits for one choice. Matchups in flight count as if they had been voted on.

    `partners[i, j]` says that this voter may be shown i against j on some prompt; `anchors` have a partner. With
    `capped` off, models over the traffic cap may be served too.
    """

    def __init__(self, state: ArenaState, servable: Servable, seen: Seen, *, capped: bool = True) -> None:
        self.state = state
        self.policy = state.policy
        self.servable = servable
        self._seen = self._seen_prompts(seen)
        self._rows: dict[int, Floats] = {}
        self.partners, self.anchors = self._who_may_meet(capped=capped)
        self.has_pair = bool(self.anchors.any())
        self.order = conservative_order(state, servable)
        self.band = self.order[: self.policy.contender_band]
        self.opened = lane_opens(state, self.order)

    @cached_property
    def aim(self) -> Floats:
        """How many exposures in the window each model is led to."""
        matchups = len(self.state.schedule.window)
        return aims(self.policy, self.order, len(self.anchors), matchups, opened=self.opened)

    @cached_property
    def deviation(self) -> Floats:
        """How far each model's exposure in the window is from its aim, as a share of it."""
        return deviations(self.state.schedule.in_window, self.aim)

    @cached_property
    def urgency(self) -> Floats:
        """How much each model should be preferred for its exposure; rises faster outside the tolerance."""
        return urgency(self.deviation, self.policy.exposure_tolerance)

    @cached_property
    def lean(self) -> Floats:
        """The factor by which draws lean to the less exposed."""
        return leaning(self.deviation, self.aim)

    @cached_property
    def prompt_floors(self) -> Counts:
        """Decisive votes that each model should have on every prompt: more for contenders."""
        floors = np.full(len(self.anchors), self.policy.prompt_floor, dtype=np.int32)
        if self.opened:
            floors[self.band] = max(self.policy.prompt_floor, self.policy.prompt_target_top)
        return floors

    def covered(self, model: int) -> Counts:
        """Decisive votes of a model on each prompt."""
        return np.asarray(
            self.state.tallies.decisive_on.view[model] + self.state.schedule.flying_on.view[model], dtype=np.int32
        )

    def prompt_deficits(self, models: Rows) -> Narrow:
        """By (one of these models, prompt): the share missing to the floor, or to the model's mean if that is more."""
        have = self.state.tallies.decisive_on.view[models] + self.state.schedule.flying_on.view[models]
        aim = np.maximum(have.sum(axis=-1) / self.servable.prompts_of[models], self.prompt_floors[models])
        missing = have.astype(np.float32)
        missing *= (-1.0 / aim).astype(np.float32)[:, None]
        missing += np.float32(1.0)
        np.maximum(missing, np.float32(0.0), out=missing)
        if not self.servable.whole:
            missing *= self.servable.cells[models]
        return np.asarray(missing)

    def mean_prompt_deficit(self, models: Rows) -> Floats:
        """By model: the mean of its prompt deficits, between 0 and 1."""
        return np.asarray(self.prompt_deficits(models).sum(axis=1) / self.servable.prompts_of[models])

    def prompt_deficit(self, model: int) -> Floats:
        """By prompt: what one model misses."""
        known = self._rows.get(model)
        if known is None:
            known = self._rows[model] = self.prompt_deficits(np.array([model]))[0].astype(np.float64)
        return known

    @cached_property
    def pair_aim(self) -> float:
        """Decisive votes of a pair if all that the contender lane did not take were spread evenly, at least 1."""
        players = len(self.order)
        pairs = max(players * (players - 1) / 2, 1.0)
        decisive = float(self.state.tallies.wins.view.sum()) + len(self.state.schedule.in_flight)
        contender = self.policy.lanes.contender if self.opened else 0.0
        return max(decisive * (1.0 - contender) / pairs, 1.0)

    def pair_deficit(self, model: int) -> Floats:
        """By opponent: what the pair's decisive votes miss to the even spread, as a share."""
        wins = self.state.tallies.wins.view
        have = wins[model] + wins[:, model] + self.state.schedule.flying_pairs.view[model]
        return np.asarray(np.maximum(1.0 - have / self.pair_aim, 0.0))

    def mean_pair_deficit(self, models: NDArray[np.intp]) -> Floats:
        """By model: the mean of its pair deficits over those it may meet, between 0 and 1."""
        wins, partners = self.state.tallies.wins.view, self.partners[models]
        have = wins[models] + wins[:, models].T + self.state.schedule.flying_pairs.view[models]
        missing = np.maximum(1.0 - have / self.pair_aim, 0.0) * partners
        return np.asarray(missing.sum(axis=1) / np.maximum(partners.sum(axis=1), 1))

    def is_plain(self, first: int, second: int) -> bool:
        """Whether nothing but missing answers keeps the pair from any prompt: it never met, here or with this voter."""
        pair = pair_of(first, second)
        return pair not in self.state.schedule.meetings and pair not in self._seen

    def open_prompts(self, first: int, second: int) -> Mask:
        """The prompts on which the pair may be shown to this voter now: answered, diverse, and not seen before."""
        pair = pair_of(first, second)
        allowed = self.diverse_prompts(pair)
        seen = self._seen.get(pair)
        if seen is not None:
            allowed[seen] = False
        return allowed

    def diverse_prompts(self, pair: Pair) -> Mask:
        """The prompts that both have answered and that the pair has not met on too often of late."""
        cells = self.servable.cells
        allowed = np.asarray(cells[pair[0]] & cells[pair[1]])
        meetings = self.state.schedule.meetings.get(pair)
        if meetings:
            most = self.diversity_most(pair)
            latest = list(islice(reversed(meetings), self.policy.diversity_last - 1))
            for prompt in set(latest):
                if latest.count(prompt) >= most:
                    allowed[prompt] = False
        return allowed

    def diversity_most(self, pair: Pair) -> int:
        """How many of the pair's last meetings may be on one prompt: more where they share few prompts."""
        return diversity_most(self.policy.diversity_last, self.policy.diversity_most, int(self.servable.shared[pair]))

    def in_flight(self, first: int, second: int) -> Counts:
        """By prompt: matchups of the pair that nobody has answered yet."""
        pair, schedule = pair_of(first, second), self.state.schedule
        flying = np.zeros(len(self.state.catalog.prompts), dtype=np.int32)
        if schedule.flying_pairs.view[pair]:
            for prompt in range(len(flying)):
                count = schedule.flying.get((*pair, prompt))
                if count:
                    flying[prompt] = count
        return flying

    def _seen_prompts(self, seen: Seen) -> dict[Pair, list[int]]:
        """The prompts on which this voter has seen each pair, as far as they can still be served."""
        by_pair: dict[Pair, list[int]] = {}
        cells = self.servable.cells
        for first, second, prompt in seen:
            if self.servable.whole or (cells[first, prompt] and cells[second, prompt]):
                by_pair.setdefault((first, second), []).append(prompt)
        return by_pair

    def _who_may_meet(self, *, capped: bool) -> tuple[Mask, Mask]:
        over = TrafficCap.of(self.policy, len(self.servable.numbers)).reached(self.state.schedule) if capped else ()
        used_up = self._used_up()
        if not len(over) and not used_up:
            return self.servable.partners, self.servable.players
        partners = self.servable.partners.copy()
        for model in over:
            partners[model, :] = False
            partners[:, model] = False
        for first, second in used_up:
            partners[first, second] = partners[second, first] = False
        return partners, np.asarray(partners.any(axis=1))

    def _used_up(self) -> list[Pair]:
        """The pairs for which no prompt is left on which this voter may see them.

        Diversity closes only so many prompts of a pair: where more are unseen, one is open without looking.
        """
        if not self._seen:
            return []
        last, most = self.policy.diversity_last, self.policy.diversity_most
        sizes = range(self.servable.fewest_shared, max(last, self.servable.fewest_shared) + 1)
        enough = min(size - (last - 1) // diversity_most(last, most, size) for size in sizes)
        near = [pair for pair, prompts in self._seen.items() if len(prompts) >= enough]
        return [pair for pair in near if not self.open_prompts(*pair).any()]


def diversity_most(last: int, most: int, prompts: int) -> int:
    """Of a pair's `last` meetings at most this many on one prompt, scaled so that few prompts are enough for it."""
    return max(most, -(-last // max(prompts, 1)))

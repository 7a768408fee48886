"""The arena as one voter may be served from it now, and which prompt a pair meets on."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tiltyard.arena.matchmaking.exposure import over_traffic_cap, urgency
from tiltyard.arena.matchmaking.matchup import SeenMatchups, draw_one, tied_best
from tiltyard.arena.matchmaking.tables import Deficits, WorkingTables
from tiltyard.arena.rules.state import ArenaState
from tiltyard.arena.rules.tallies import Pair, pair_of
from tiltyard.types import Bools, Floats

Numbers = NDArray[np.intp]

NEVER = -1e12
"""The score of what may not be served."""

LEAN_STEEPNESS = 50.0
LEAN_REACH = 0.25
"""Draws favour less exposed models by exp(−50 · deviation), limited in both directions. The contender lane alone fills
its models' share; with a weaker preference the other lanes would lift them out of tolerance."""
LEAN_FROM = 25.0
"""Targets below this many exposures are treated as this large, since one exposure more or less is chance."""

IN_FLIGHT_COST = 1e6
"""Outweighs everything else: a matchup in flight is repeated only if the pair has no other prompt."""


class VoterView:
    """Models, prompts and deficits for one choice. Matchups in flight count as if they had been voted on.

    `partners[i, j]` means that this voter may be shown i against j on some prompt; `anchors` have a partner. Without
    `capped`, models over the traffic cap may be served too.
    """

    def __init__(self, state: ArenaState, seen: SeenMatchups, tables: WorkingTables, *, capped: bool) -> None:
        self.state = state
        self.policy = state.policy
        self.servable = servable = tables.servable(state)
        self._tables = tables
        self._seen = seen
        self._in_flight = state.schedule.in_flight_by_prompt
        self.partners, self.anchors = self._who_may_meet(capped=capped)
        self.has_pair = self.partners is servable.partners or bool(self.anchors.any())
        self.rank_order = order = tables.rank_order(state, servable)
        self.order, self.opened = order.order, order.opened
        self._aim = tables.exposure_targets(state, servable)
        self._deviation = np.asarray((state.schedule.in_window - self._aim) / np.maximum(self._aim, 1.0))
        """How far each model is from its target, as a share of it: −0.12 is 12 % below."""

    @property
    def everybody(self) -> bool:
        """Whether this voter may be shown any model against any other."""
        return self.partners is self.servable.partners and self.servable.complete

    @cached_property
    def urgency(self) -> Floats:
        """How much each model should be preferred for its exposure; rises faster outside the tolerance."""
        return urgency(self._deviation, self.policy.exposure_tolerance)

    @cached_property
    def lean(self) -> Floats:
        """The factor by which draws favour less exposed models."""
        settled = self._deviation * np.minimum(np.maximum(self._aim, 1.0) / LEAN_FROM, 1.0)
        return np.exp(-LEAN_STEEPNESS * np.clip(settled, -LEAN_REACH, LEAN_REACH))

    @cached_property
    def deficits(self) -> Deficits:
        return self._tables.deficits(self.state, self.rank_order, self.servable)

    def under_floor(self, model: int) -> Bools:
        """By prompt: whether a model has fewer decisive votes than it should."""
        have = self.state.tallies.decisive_on.view[model] + self.state.schedule.in_flight_on.view[model]
        return np.asarray(have < self.rank_order.floors[model])

    def prompt_deficit(self, model: int) -> Floats:
        """By prompt: the share missing to the floor, or to the model's mean if that is more."""
        return np.asarray(self.deficits.prompts[model], dtype=np.float64)

    def mean_prompt_deficit(self) -> Floats:
        """By model: the mean of its prompt deficits, between 0 and 1."""
        return np.asarray(self.deficits.missing / self.servable.prompts_of)

    @cached_property
    def pair_aim(self) -> float:
        """Decisive votes of a pair if all votes outside the contender lane were spread evenly, at least 1."""
        players = len(self.order)
        pairs = max(players * (players - 1) / 2, 1.0)
        decisive = float(self.state.tallies.decisive_votes) + len(self.state.schedule.in_flight)
        contender = self.policy.lanes.contender if self.opened else 0.0
        return max(decisive * (1.0 - contender) / pairs, 1.0)

    def pair_deficit(self, model: int) -> Floats:
        """By opponent: how much the pair's decisive votes are short of the even spread, as a share."""
        return np.asarray(np.maximum(1.0 - self.deficits.met[model] / self.pair_aim, 0.0))

    def mean_pair_deficit(self, models: Numbers) -> Floats:
        """By model: the mean of its pair deficits over those it may meet, between 0 and 1."""
        partners = self.partners[models]
        missing = np.maximum(1.0 - self.deficits.met[models] / self.pair_aim, 0.0) * partners
        everybody = self.partners is self.servable.partners
        of = self.servable.partners_of[models] if everybody else np.maximum(partners.sum(axis=1), 1)
        return np.asarray(np.add.reduce(missing, axis=1) / of)

    def open_prompts(self, first: int, second: int) -> Bools:
        """The prompts on which the pair may be shown to this voter now: answered, diverse, and not seen before."""
        allowed = self.answered(first, second)
        allowed[self.closed_prompts(pair_of(first, second))] = False
        return allowed

    def answered(self, first: int, second: int) -> Bools:
        cells = self.servable.cells
        return np.asarray(cells[first] & cells[second])

    def closed_prompts(self, pair: Pair) -> list[int]:
        """The prompts on which this voter saw the pair, or on which it met too often recently; mostly none."""
        return [*self._seen.prompts(pair), *self.worn_prompts(pair)]

    def worn_prompts(self, pair: Pair) -> set[int]:
        """The prompts on which the pair has met too often recently."""
        policy, meetings = self.policy, self.state.schedule.meetings.get(pair, ())
        if len(meetings) - len(set(meetings)) + 1 < policy.diversity_most:  # too few repeats
            return set()
        latest = list(meetings)[1 - policy.diversity_last :] if policy.diversity_last > 1 else []
        most = diversity_most(policy.diversity_last, policy.diversity_most, int(self.servable.shared[pair]))
        return {prompt for prompt in latest if latest.count(prompt) >= most}

    def again_prompts(self, first: int, second: int, among: Collection[int]) -> Bools:
        """Those of the given prompts that the pair has not been shown on to this voter; diversity does not matter."""
        allowed = np.zeros(len(self.state.catalog.prompts), dtype=bool)
        allowed[list(among)] = True
        allowed &= self.answered(first, second)
        allowed[list(self._seen.prompts(pair_of(first, second)))] = False
        return allowed

    def longest_ago(self, first: int, second: int, among: Collection[int]) -> int | None:
        """That of the given prompts on which this voter saw the pair longest ago; None if none can be served."""
        pair, cells = pair_of(first, second), self.servable.cells
        left = [prompt for prompt in sorted(among) if cells[first, prompt] and cells[second, prompt]]
        when = self._seen.when(pair)
        return min(left, key=lambda prompt: when.get(prompt, 0), default=None)

    def fresh_prompts(self, first: int, second: int) -> Numbers:
        """The fresh prompts on which the pair may be shown to this voter and is not in flight; mostly none."""
        fresh = self._fresh
        if fresh is None:
            return np.zeros(0, dtype=np.intp)
        return np.flatnonzero(fresh & self.free_prompts(first, second))

    @cached_property
    def _fresh(self) -> Bools | None:
        rules = self.policy.bank
        return self.state.catalog.fresh(rules.fresh_until) if rules.fresh_share > 0.0 else None

    def free_prompts(self, first: int, second: int) -> Bools:
        allowed = self.open_prompts(first, second)
        allowed[list(self.in_flight(pair_of(first, second)))] = False
        return allowed

    def in_flight(self, pair: Pair) -> Mapping[int, int]:
        return self._in_flight.get(pair, {})

    def _who_may_meet(self, *, capped: bool) -> tuple[Bools, Bools]:
        over = over_traffic_cap(self.state.schedule, self.policy, len(self.servable.numbers)) if capped else ()
        used_up = self._used_up()
        if not over and not used_up:
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

        Diversity rules out a limited number of prompts of a pair: if more are unseen, one must be open.
        """
        if not self._seen.most:
            return []
        last, most = self.policy.diversity_last, self.policy.diversity_most
        sizes = range(self.servable.fewest_shared, max(last, self.servable.fewest_shared) + 1)
        enough = min(size - (last - 1) // diversity_most(last, most, size) for size in sizes)
        if self._seen.most < enough:
            return []
        return [pair for pair in self._seen.pairs(at_least=enough) if not self.open_prompts(*pair).any()]


def diversity_most(last: int, most: int, prompts: int) -> int:
    """Of a pair's `last` meetings at most this many on one prompt, scaled so that few prompts are enough for it."""
    return max(most, -(-last // max(prompts, 1)))


def rule_out(view: VoterView, first: int, second: int, scores: Floats, allowed: Bools | None = None) -> None:
    """Lower the scores of prompts on which the pair is in flight, and to `NEVER` where it may not be shown."""
    pair = pair_of(first, second)
    for prompt, matchups in view.in_flight(pair).items():
        scores[prompt] -= IN_FLIGHT_COST * matchups
    if allowed is not None:
        scores[~allowed] = NEVER
        return
    if not view.servable.complete:
        scores[~view.answered(first, second)] = NEVER
    for prompt in view.closed_prompts(pair):
        scores[prompt] = NEVER


def most_lacking(view: VoterView, first: int, second: int, allowed: Bools | None = None) -> Numbers:
    """The prompts on which the two models together lack most."""
    scores = view.prompt_deficit(first) + view.prompt_deficit(second)
    rule_out(view, first, second, scores, allowed)
    return tied_best(scores)


def least_met(view: VoterView, first: int, second: int, allowed: Bools | None = None) -> Numbers:
    """The prompts with the fewest decisive votes of the pair; among those, where the two together lack most."""
    scores = 0.25 * (view.prompt_deficit(first) + view.prompt_deficit(second))
    for prompt, votes in view.state.tallies.pair_prompts.get(pair_of(first, second), {}).items():
        scores[prompt] -= votes
    rule_out(view, first, second, scores, allowed)
    return tied_best(scores)


def under_covered(view: VoterView, first: int, second: int) -> tuple[Numbers, bool]:
    """The prompts that one of the two still needs, and True; where there are none, all that are open, and False."""
    allowed = view.free_prompts(first, second)
    if not allowed.any():
        allowed = view.open_prompts(first, second)
    needed = allowed & (view.under_floor(first) | view.under_floor(second))
    return (np.flatnonzero(needed), True) if needed.any() else (np.flatnonzero(allowed), False)


def draw_prompt(
    rng: np.random.Generator, prompts: Numbers, view: VoterView, first: int, second: int
) -> tuple[int, float]:
    """One of the prompts, or with the policy's share a fresh one on which the pair is open, and how likely it was."""
    fresh, share = view.fresh_prompts(first, second), view.policy.bank.fresh_share
    if not len(fresh):
        return draw_one(rng, prompts), 1.0 / len(prompts)
    prompt = draw_one(rng, fresh if rng.random() < share else prompts)
    chance = share * float(prompt in fresh) / len(fresh) + (1.0 - share) * float(prompt in prompts) / len(prompts)
    return prompt, chance

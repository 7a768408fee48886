"""The numbers of one model's page: prompts, opponents, neighbours, missing votes, and recent votes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import msgspec
import numpy as np

from tiltyard.arena.rules.events import Choice
from tiltyard.arena.rules.state import ArenaState, CastVote, VoteStanding
from tiltyard.arena.rules.tallies import pair_of
from tiltyard.arena.rules.votes import VoteTable
from tiltyard.arena.study.board import (
    BoardRow,
    LiveBoard,
    completeness,
    decisive_wins_on,
    expected_by_prompt,
    live_board,
    official_order,
)
from tiltyard.arena.study.coverage import deficits, neighbours
from tiltyard.arena.study.voters import expected_scores
from tiltyard.data.battles import Outcome
from tiltyard.errors import ArenaError
from tiltyard.stats import normal_quantile, wilson
from tiltyard.types import Floats, Ints

RECENT = 20
"""Recent form looks at this many votes."""


class Record(msgspec.Struct, frozen=True):
    """Results on one prompt, or against one opponent."""

    name: str
    wins: int
    losses: int
    ties: int
    both_bad: int
    expected_wins: float | None
    """Decisive wins that the current ratings predict."""

    @property
    def decisive(self) -> int:
        return self.wins + self.losses

    @property
    def votes(self) -> int:
        return self.decisive + self.ties + self.both_bad

    @property
    def score(self) -> float | None:
        """Mean score, a tie counting half; None without a rated vote."""
        rated = self.decisive + self.ties
        return (self.wins + 0.5 * self.ties) / rated if rated else None


class Neighbour(msgspec.Struct, frozen=True):
    """A model beside it on the board."""

    rank: int
    record: Record
    prompts: int
    """Prompts with a decisive vote between them."""
    completeness: float
    """How close the pair is to its floor, 0 to 1."""


class Heatmap(msgspec.Struct, frozen=True):
    """Decisive votes by prompt (rows) and opponent (columns)."""

    prompts: tuple[str, ...]
    opponents: tuple[str, ...]
    neighbours: tuple[str, ...]
    decisive: tuple[tuple[int, ...], ...]
    deficits: tuple[tuple[float, ...], ...]
    """What is missing of `target`, 0 to 1."""
    target: float
    """The neighbours' floor spread over its prompts: 12 votes over 6 prompts are 2 per cell."""
    prompt_decisive: tuple[int, ...]
    """The model's own votes by prompt, of which `prompt_target` are wanted."""
    prompt_target: int


class ModelDetail(msgspec.Struct, frozen=True):
    """Everything that a model's page shows except its history."""

    row: BoardRow
    prompts: tuple[Record, ...]
    retired_prompts: tuple[Record, ...]
    """Its record on prompts that are off, if it has any."""
    opponents: tuple[Record, ...]
    neighbours: tuple[Neighbour, ...]
    heatmap: Heatmap


def model_detail(state: ArenaState, name: str, board: LiveBoard | None = None) -> ModelDetail:
    """The detail of an enabled model; a missing or disabled one is an `ArenaError`.

    A board of the same state, if the caller has one, saves computing it.
    """
    model = state.catalog.model(name)
    if not state.catalog.model_enabled[model]:
        raise ArenaError(f"model {name!r} is disabled and has no place on the board. Enable it first.")
    order, records = official_order(state), by_prompt(state, model)
    enabled = state.catalog.prompt_enabled
    return ModelDetail(
        row=(board or live_board(state))[name],
        prompts=tuple(record for record, on in zip(records, enabled, strict=True) if on),
        retired_prompts=tuple(record for record, on in zip(records, enabled, strict=True) if not on and record.votes),
        opponents=tuple(against(state, model, rival) for rival in order if rival != model),
        neighbours=tuple(
            Neighbour(
                order.index(rival) + 1,
                against(state, model, rival),
                state.tallies.distinct_prompts(model, rival),
                completeness(state, model, rival),
            )
            for rival in neighbours(order)[model]
        ),
        heatmap=_heatmap(state, model, order),
    )


def against(state: ArenaState, model: int, rival: int) -> Record:
    """The record of one model against another."""
    tallies, rating = state.tallies, state.ratings.rating
    wins, losses = int(tallies.wins.view[model, rival]), int(tallies.wins.view[rival, model])
    chance = 1.0 / (1.0 + 10.0 ** (float(rating[rival] - rating[model]) / 400.0))
    return Record(
        state.catalog.models[rival].model,
        wins,
        losses,
        int(tallies.ties.view[model, rival]),
        int(tallies.both_bad.view[model, rival]),
        (wins + losses) * chance,
    )


LEANING_VOTES = 20
"""Decisive votes that a category, a prompt or an opponent needs before anything is said of it."""

LEANING_LEVEL = 0.99
"""How sure all that is said of a model's categories together has to be; so for its prompts, and its opponents."""


class Leaning(msgspec.Struct, frozen=True):
    """A category on which a model does better or worse than its rating, beyond chance; or a prompt, or an opponent."""

    category: str
    """Its name, or the id of the prompt or of the opponent."""
    wins: int
    decisive: int
    expected_wins: float
    difference: float
    """Share won minus share expected."""
    low: float
    """Its interval, for all at once."""
    high: float

    @property
    def is_strength(self) -> bool:
        return self.difference > 0.0


class Leanings(msgspec.Struct, frozen=True):
    """Where a model's votes say that it is better or worse than its rating, the strongest of each kind first."""

    categories: tuple[Leaning, ...]
    prompts: tuple[Leaning, ...]
    opponents: tuple[Leaning, ...]


def leanings(state: ArenaState, model: int) -> Leanings:
    """A model's strengths and weaknesses by category, on single prompts in use, and against single opponents."""
    catalog = state.catalog
    members: dict[str, list[int]] = {}
    for prompt, asked in enumerate(catalog.prompts):
        for name in dict.fromkeys(filter(None, (asked.subject, *asked.tags))):
            members.setdefault(name, []).append(prompt)
    # For each prompt, and each opponent on the board: decisive votes, those won, those expected, and ΣE(1 − E).
    expected, information = (values[model] for values in expected_by_prompt(state))
    decisive = state.tallies.decisive_on.view[model]
    by_prompt = np.stack([decisive, decisive_wins_on(state)[model], expected, information], axis=1)
    wins, rating = state.tallies.wins.view, state.ratings.rating
    by_opponent = {}
    for rival, card in enumerate(catalog.models):
        if rival != model and catalog.model_enabled[rival]:
            n = int(wins[model, rival] + wins[rival, model])
            chance = float(expected_scores(rating[model], rating[rival]))
            by_opponent[card.model] = np.array([n, wins[model, rival], n * chance, n * chance * (1.0 - chance)])
    on = {asked.prompt_id: by_prompt[i] for i, asked in enumerate(catalog.prompts) if catalog.prompt_enabled[i]}
    return Leanings(
        _beyond_chance({name: by_prompt[inside].sum(axis=0) for name, inside in members.items()}),
        _beyond_chance(on),
        _beyond_chance(by_opponent),
    )


def _beyond_chance(tallies: Mapping[str, Floats]) -> tuple[Leaning, ...]:
    """Those of one kind whose votes chance does not explain, at one level for all of them together."""
    known = {name: one.tolist() for name, one in tallies.items() if one[0] >= LEANING_VOTES}
    cut = normal_quantile(1.0 - (1.0 - LEANING_LEVEL) / max(len(known), 1))
    result = []
    for name, (n, won, due, information) in known.items():
        half, difference = cut * information**0.5 / n, (won - due) / n
        if abs(difference) > half:
            result.append(Leaning(name, int(won), int(n), due, difference, difference - half, difference + half))
    return tuple(sorted(result, key=lambda one: (-abs(one.difference), one.category)))


def results_by_prompt_and_opponent(votes: VoteTable, model: int) -> Ints:
    """Counted votes on a model by prompt, opponent and result: won, lost, tied, both bad."""
    shape = (len(votes.prompts), len(votes.models), 4)
    found = np.zeros(shape[0] * shape[1] * shape[2], dtype=np.int64)
    turned = np.array([Outcome.B.code, Outcome.A.code, Outcome.TIE.code, Outcome.BOTH_BAD.code], dtype=np.int64)
    for own, rival, swap in ((votes.model_a, votes.model_b, False), (votes.model_b, votes.model_a, True)):
        here = own == model
        result = votes.outcome[here].astype(np.int64)
        place = (votes.prompt[here] * shape[1] + rival[here]) * shape[2] + (turned[result] if swap else result)
        found += np.bincount(place, minlength=len(found))
    return found.reshape(shape)


def by_prompt(state: ArenaState, model: int) -> list[Record]:
    """The record of one model on every prompt of the catalog."""
    tallies, catalog = state.tallies, state.catalog
    wins, expected = decisive_wins_on(state)[model], expected_by_prompt(state)[0][model]
    decisive, rated = tallies.decisive_on.view[model], tallies.rated_on.view[model]
    return [
        Record(
            card.prompt_id,
            int(wins[prompt]),
            int(decisive[prompt] - wins[prompt]),
            int(rated[prompt] - decisive[prompt]),
            int(tallies.both_bad_on.view[model, prompt]),
            float(expected[prompt]),
        )
        for prompt, card in enumerate(catalog.prompts)
    ]


def _heatmap(state: ArenaState, model: int, order: Sequence[int]) -> Heatmap:
    catalog, policy = state.catalog, state.policy
    prompts = [prompt for prompt, enabled in enumerate(catalog.prompt_enabled) if enabled]
    rivals = [rival for rival in order if rival != model]
    counts = np.zeros((len(prompts), len(rivals)), dtype=np.int32)
    for column, rival in enumerate(rivals):
        met = state.tallies.pair_prompts.get(pair_of(model, rival), {})
        counts[:, column] = [met.get(prompt, 0) for prompt in prompts]
    target = policy.adjacent_floor_votes / policy.adjacent_floor_prompts
    contender = model in state.order()[: policy.contender_band]
    return Heatmap(
        tuple(catalog.prompts[prompt].prompt_id for prompt in prompts),
        tuple(catalog.models[rival].model for rival in rivals),
        tuple(catalog.models[rival].model for rival in neighbours(order)[model]),
        tuple(tuple(line) for line in counts.tolist()),
        tuple(tuple(line) for line in deficits(counts, target).tolist()),
        target,
        tuple(int(state.tallies.decisive_on.view[model, prompt]) for prompt in prompts),
        policy.prompt_target_top if contender else policy.prompt_floor,
    )


class RecentForm(msgspec.Struct, frozen=True):
    """Its latest results."""

    letters: str
    """W, L, D, or X for both bad, oldest first."""
    score: float | None
    """Their mean."""


def recent_form(votes: Sequence[CastVote], model: int, last: int = RECENT) -> RecentForm:
    """The form of a model over its last votes, given votes in the order of the log."""
    own = [vote for vote in votes if model in (vote.a, vote.b) and vote.standing is VoteStanding.COUNTED][-last:]
    letters = ""
    for vote in own:
        won = "W" if (vote.choice is Choice.A) == (vote.a == model) else "L"
        letters += {Choice.BOTH_BAD: "X", Choice.TIE: "D"}.get(vote.choice, won)
    rated = [{"W": 1.0, "D": 0.5, "L": 0.0}[letter] for letter in letters if letter != "X"]
    return RecentForm(letters, sum(rated) / len(rated) if rated else None)


class RatingPath(msgspec.Struct, frozen=True, eq=False):
    """A model's rating and deviation after each of its rated votes, and when they were cast (microseconds)."""

    start: float
    at: Ints
    rating: Floats
    deviation: Floats

    def recent_delta(self, last: int) -> float | None:
        """How far the rating moved over the last rated votes, or since the start if there are fewer; None if none."""
        if not len(self.rating):
            return None
        before = self.rating[-last - 1] if len(self.rating) > last else self.start
        return float(self.rating[-1] - before)


class BothBadPiece(msgspec.Struct, frozen=True):
    """A period of its votes, and the share of both-bad ones with its 95 % interval."""

    since: int
    until: int
    votes: int
    both_bad: int
    rate: float | None
    low: float | None
    high: float | None


def both_bad_trend(votes: VoteTable, model: int, edges: Sequence[int]) -> tuple[BothBadPiece, ...]:
    """The both-bad rate of a model in each period between two edges (microseconds), the later edge not included."""
    own = (votes.model_a == model) | (votes.model_b == model)
    at, bad = votes.at[own], ~votes.rated[own]
    pieces = []
    for since, until in pairwise(edges):
        inside = (at >= since) & (at < until)
        n, k = int(inside.sum()), int((inside & bad).sum())
        low, high = wilson(k, n, normal_quantile(0.95)) if n else (None, None)
        pieces.append(BothBadPiece(since, until, n, k, k / n if n else None, low, high))
    return tuple(pieces)

"""A visitor's own board as values: how their votes rank the models, and how well they agree with the overall board."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Literal

import msgspec
import numpy as np

from tiltyard.arena import CastVote, Choice, VoteStanding, expected_scores
from tiltyard.arena.store import ShownMatchup, voted_matchups
from tiltyard.arena.study import ModelFacts, Snapshot
from tiltyard.data.bank import AnswerKind
from tiltyard.render import Html
from tiltyard.site.answer_files import PublicAnswer
from tiltyard.site.leaderboard import withholds
from tiltyard.site.model import result_for
from tiltyard.site.site import Site
from tiltyard.site.text import rendered, rendered_answer
from tiltyard.stats import normal_quantile, wilson

ENOUGH = 20
"""Votes from which a visitor's own board is shown."""

BOLDEST = 3

VOTES_SHOWN = 20
"""A visitor's own votes that are listed at once, with their texts."""


class OwnLine(msgspec.Struct, frozen=True):
    """One model according to this visitor; `score` adds one win and one loss as a prior."""

    place: int
    facts: ModelFacts
    wins: int
    losses: int
    ties: int
    both_bad: int
    score: float
    crowd_place: int | None


class BoldVote(msgspec.Struct, frozen=True):
    """A decisive vote for a model that the ratings expected to lose: how likely a win was."""

    matchup_id: str
    winner: ModelFacts
    loser: ModelFacts
    prompt: str
    chance: float


class OwnVote(msgspec.Struct, frozen=True):
    """One vote of the visitor's with everything they saw, and the authors."""

    matchup: ShownMatchup
    name_a: str
    name_b: str
    prompt: Html
    answer_a: PublicAnswer
    answer_b: PublicAnswer


def own_votes(site: Site, voter: str, page: int) -> tuple[tuple[OwnVote, ...], bool]:
    """A page of the visitor's votes, the latest first, and whether there are earlier ones."""
    arena = site.engine.arena
    result = voted_matchups(arena.store, voter, arena.now(), VOTES_SHOWN + 1, page * VOTES_SHOWN)
    models = site.observatory.snapshot.models
    shown = [matchup for matchup in result[:VOTES_SHOWN] if max(matchup.a, matchup.b) < len(models)]
    votes = tuple(
        OwnVote(
            matchup,
            models[matchup.a].display_name,
            models[matchup.b].display_name,
            rendered(matchup.prompt),
            _own_answer(site, matchup, "A", matchup.response_a),
            _own_answer(site, matchup, "B", matchup.response_b),
        )
        for matchup in shown
    )
    return votes, len(result) > VOTES_SHOWN


def _own_answer(site: Site, matchup: ShownMatchup, side: Literal["A", "B"], text: str) -> PublicAnswer:
    url = "" if matchup.kind == AnswerKind.TEXT else site.answer_links.url(matchup.matchup_id, side, matchup.kind)
    return PublicAnswer(rendered_answer(text), matchup.kind, url)


class OwnPage(msgspec.Struct, frozen=True):
    """What `/me` shows. Agreement is over decisive votes between models that the board can tell apart.

    `typical` is the agreement that the ratings predict for an average voter.
    """

    votes: int
    needed: int
    decisive: int
    agreed: int
    agreement: float | None
    low: float | None
    high: float | None
    typical: float | None
    lines: tuple[OwnLine, ...]
    boldest: tuple[BoldVote, ...]
    choices: dict[str, int]

    @property
    def ready(self) -> bool:
        """Whether there are enough votes."""
        return self.votes >= self.needed


def own_page(snapshot: Snapshot, votes: Sequence[CastVote]) -> OwnPage:
    """The personal board of the visitor who cast these votes; those that do not count are left out.

    So are votes on models or prompts that came after the snapshot: they are on its next edition.
    """
    models, prompts = len(snapshot.models), len(snapshot.prompts)
    known = (vote for vote in votes if max(vote.a, vote.b) < models and vote.prompt < prompts)
    counted = [vote for vote in known if vote.standing is VoteStanding.COUNTED]
    ratings = snapshot.board.raw_ratings
    chances = []
    agreed = 0
    bold: list[BoldVote] = []
    for vote in counted:
        if vote.choice not in (Choice.A, Choice.B):
            continue
        winner, loser = (vote.a, vote.b) if vote.choice is Choice.A else (vote.b, vote.a)
        won, lost = snapshot.models[winner], snapshot.models[loser]
        if won.model not in ratings or lost.model not in ratings:
            continue
        chance = float(expected_scores(np.array(ratings[won.model]), np.array(ratings[lost.model])))
        chances.append(max(chance, 1.0 - chance))
        agreed += chance > 0.5
        if chance < 0.5:
            bold.append(BoldVote(vote.matchup_id, won, lost, snapshot.prompts[vote.prompt].prompt_id, chance))
    n = len(chances)
    low, high = wilson(agreed, n, normal_quantile(0.95)) if n else (None, None)
    return OwnPage(
        votes=len(counted),
        needed=ENOUGH,
        decisive=n,
        agreed=agreed,
        agreement=agreed / n if n else None,
        low=low,
        high=high,
        typical=sum(chances) / n if n else None,
        lines=_lines(snapshot, counted),
        boldest=tuple(sorted(bold, key=lambda vote: vote.chance)[:BOLDEST]),
        choices={choice.value: sum(vote.choice is choice for vote in counted) for choice in Choice},
    )


def _lines(snapshot: Snapshot, counted: Sequence[CastVote]) -> tuple[OwnLine, ...]:
    results: dict[int, list[str]] = defaultdict(list)
    for vote in counted:
        for model in (vote.a, vote.b):
            results[model].append(result_for(vote, model))
    places = {} if withholds(snapshot) else {row.model: row.rank for row in snapshot.board.rows}

    def score(model: int) -> float:
        letters = results[model]
        wins, ties = letters.count("W"), letters.count("D")
        return (wins + 0.5 * ties + 1.0) / (len(letters) - letters.count("X") + 2.0)

    order = sorted(results, key=lambda model: (-score(model), model))
    return tuple(
        OwnLine(
            place,
            snapshot.models[model],
            wins=results[model].count("W"),
            losses=results[model].count("L"),
            ties=results[model].count("D"),
            both_bad=results[model].count("X"),
            score=score(model),
            crowd_place=places.get(snapshot.models[model].model),
        )
        for place, model in enumerate(order, start=1)
    )

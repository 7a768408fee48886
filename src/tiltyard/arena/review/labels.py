"""What a team says of each item: a label and how it was reached, agreement, and rows for ratings.

An item's label is the mean of its reviewers' outcomes for the first model (1, ½ or 0). "Cannot judge" is missing, and
an adjudicator's word replaces the rest. Reviewers are a fixed panel: a label is about these people.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from typing import Literal

import msgspec
import numpy as np

from tiltyard.arena import SECOND
from tiltyard.arena.review.assignment import Assignment, ReviewLog, ReviewTurn
from tiltyard.stats import AgainstTheRest, Estimated, against_the_rest, krippendorff_alpha, pair_kappa, share_estimate
from tiltyard.types import Ints

How = Literal["agreed", "majority", "adjudicated", "open"]


class ItemLabel(msgspec.Struct, frozen=True):
    """What is known of an item: the outcome for its first model, how it was reached, and the turns that it rests on."""

    item: int
    value: float | None
    how: How
    turns: tuple[ReviewTurn, ...]
    """The reviewers' votes; of an adjudicated item, the adjudicator's."""


def labels_of(log: ReviewLog) -> list[ItemLabel]:
    """The labels of all items."""
    votes: list[list[ReviewTurn]] = [[] for _ in log.items]
    for (item, _), turn in log.latest.items():
        if turn.status == "voted":
            votes[item].append(turn)
    return [_label(log, item, turns) for item, turns in enumerate(votes)]


def _label(log: ReviewLog, item: int, votes: Sequence[ReviewTurn]) -> ItemLabel:
    """The label of an item. `open`: reviews are missing, or reviewers disagree and nobody has decided."""
    decided = [turn for turn in votes if turn.lane == "adjudication"]
    if decided:
        return ItemLabel(item, log.outcome(decided[-1]), "adjudicated", (decided[-1],))
    outcomes = [outcome for turn in votes if (outcome := log.outcome(turn)) is not None]
    value = sum(outcomes) / len(outcomes) if outcomes else None
    assert log.rules is not None
    how: How = "open"
    if len(outcomes) >= log.rules.each:
        most = max(Counter(outcomes).values())
        how = "agreed" if most == len(outcomes) else "majority" if 2 * most > len(outcomes) else "open"
    return ItemLabel(item, value, how, tuple(votes))


class PersonSummary(msgspec.Struct, frozen=True):
    """One person's part in a review."""

    key: str
    is_adjudicator: bool
    done: int
    cannot: int
    left: int
    rest: AgainstTheRest | None
    side_a: Estimated
    """The share of their decisive votes that went to the answer on side A."""
    seconds: float | None
    """The median of the time from being shown an item to the vote."""


class TeamAgreement(msgspec.Struct, frozen=True):
    """How far a team agrees."""

    nominal: Estimated
    ordinal: Estimated
    kappas: tuple[tuple[str, str, float, int], ...]
    """Of each two people: Cohen's κ and the number of items that both reviewed."""


def ratings_table(log: ReviewLog, people: Sequence[str]) -> Ints:
    """What each person said of each item: 0 for the second model, 1 for a tie or both bad, 2 for the first; −1 none."""
    table = np.full((len(log.items), len(people)), -1, dtype=np.int64)
    column = {person: place for place, person in enumerate(people)}
    for (item, person), turn in log.latest.items():
        outcome = log.outcome(turn)
        if turn.lane == "review" and person in column and outcome is not None:
            table[item, column[person]] = round(2 * outcome)
    return table


def everybody(log: ReviewLog) -> list[str]:
    """The keys of all who review now or have reviewed, in the order of the rules and then of the log."""
    assert log.rules is not None
    return list(dict.fromkeys([*log.rules.reviewers, *(t.person for t in log.turns.values() if t.lane == "review")]))


def team_agreement(log: ReviewLog) -> TeamAgreement:
    """Agreement of all reviewers."""
    people = everybody(log)
    table = ratings_table(log, people)
    kappas = tuple(
        (people[i], people[j], *pair_kappa(table[:, i], table[:, j])) for i, j in combinations(range(len(people)), 2)
    )
    return TeamAgreement(krippendorff_alpha(table), krippendorff_alpha(table, "ordinal"), kappas)


def summaries(log: ReviewLog) -> list[PersonSummary]:
    """Everybody's part, reviewers first."""
    assert log.rules is not None
    assignment, people = Assignment(log), everybody(log)
    table = ratings_table(log, people)
    adjudicators = [key for key in log.rules.adjudicators if key not in people]
    result = []
    for key in [*people, *adjudicators]:
        turns = [turn for turn in log.latest.values() if turn.person == key]
        votes = [turn for turn in turns if turn.status == "voted"]
        decisive = [1.0 if turn.choice == "A" else 0.0 for turn in votes if turn.choice in ("A", "B")]
        is_adjudicator = key in adjudicators
        result.append(
            PersonSummary(
                key=key,
                is_adjudicator=is_adjudicator,
                done=len(votes),
                cannot=sum(turn.status == "cannot" for turn in turns),
                left=len(assignment.left(key)) if is_adjudicator or key in log.rules.reviewers else 0,
                rest=None if is_adjudicator or len(people) < 2 else against_the_rest(table, people.index(key)),
                side_a=share_estimate(np.array(decisive)),
                seconds=median_seconds(votes),
            )
        )
    return result


def median_seconds(votes: Sequence[ReviewTurn]) -> float | None:
    """The median time of these votes; None without any."""
    if not votes:
        return None
    return float(np.median([max(0, turn.closed_at - turn.served_at) / SECOND for turn in votes]))

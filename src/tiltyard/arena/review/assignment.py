"""Who reviews what: a pure plan, what the log says so far, and the chooser that the arena's writer asks.

The plan is made anew from the log whenever somebody comes, leaves or cannot judge an item, so a person who leaves gives
the rest back, and nothing but the log has to be kept.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tiltyard.arena import REVIEW_OVER, ArenaState, NothingLeft, ReviewClosed, TooLate
from tiltyard.arena.matchmaking import ChosenMatchup, SeenMatchups
from tiltyard.arena.rules import events as e
from tiltyard.errors import ArenaError

NOTHING_LEFT = "there is nothing left for you to review now. Thank you."


def assign(
    items: int,
    each: int,
    people: Sequence[str],
    taken: Mapping[int, Collection[str]],
    spent: Mapping[int, Collection[str]],
    seed: int,
) -> dict[str, list[int]]:
    """The items that each person is still to take, in the order of the items.

    Every item gets `each` people in all, as far as there are enough who have not had it. Whoever has least gets the
    next one, so loads stay even; among equals the one who shares fewest items with those who have it already, then
    `seed` decides. Who has reviewed an item or has it open (`taken`) counts, who had it and cannot judge it (`spent`)
    does not; neither gets it again.
    """
    rng = np.random.default_rng(seed)
    chance = dict(zip(people, rng.permutation(len(people)).tolist(), strict=True))
    load = dict.fromkeys(people, 0)
    shared: dict[tuple[str, str], int] = {}
    for who in taken.values():
        for person in who:
            if person in load:
                load[person] += 1
            for other in who:
                shared[person, other] = shared.get((person, other), 0) + 1
    plan: dict[str, list[int]] = {person: [] for person in people}
    # Items that few people may take come first: the others can make up for their loads.
    free = [set(people) - set(taken.get(item, ())) - set(spent.get(item, ())) for item in range(items)]
    for item in sorted(range(items), key=lambda item: (len(free[item]), item)):
        on = list(taken.get(item, ()))
        for _ in range(each - len(on)):
            able = free[item].difference(on)
            if not able:
                break
            best = min(able, key=lambda one: (load[one], sum(shared.get((one, other), 0) for other in on), chance[one]))
            for other in on:
                shared[best, other] = shared[other, best] = shared.get((best, other), 0) + 1
            on.append(best)
            load[best] += 1
            plan[best].append(item)
    return {person: sorted(mine) for person, mine in plan.items()}


@dataclass(slots=True)
class ReviewTurn:
    """One person's turn at one item: a matchup, and what became of it."""

    matchup_id: str
    item: int
    person: str
    lane: str
    model_a: str
    served_at: int
    status: str = "open"
    """`open`, `voted`, `cannot` (judge it), or `undone`."""
    choice: e.Choice | None = None
    closed_at: int = 0
    has_comment: bool = False


_OUTCOMES = {e.Choice.A: 1.0, e.Choice.B: 0.0, e.Choice.TIE: 0.5, e.Choice.BOTH_BAD: 0.5}


@dataclass(slots=True)
class ReviewLog:
    """What the log of a review says: its items, the rules now, and every turn in order."""

    rules: e.ReviewSet | None = None
    items: list[str] = field(default_factory=list)
    pairs: dict[str, list[str]] = field(default_factory=dict)
    """The two models of each item, in the order in which their answers were added."""
    turns: dict[str, ReviewTurn] = field(default_factory=dict)
    latest: dict[tuple[int, str], ReviewTurn] = field(default_factory=dict)
    """The latest turn of a person at an item."""
    adjudicated: set[int] = field(default_factory=set)
    """The items that an adjudicator has been shown."""
    _numbers: dict[str, int] = field(default_factory=dict)

    def note(self, event: e.Event) -> None:
        body = event.body
        match body:
            case e.ReviewSet():
                self.rules = body
            case e.PromptAdded():
                self._numbers[body.prompt_id] = len(self.items)
                self.items.append(body.prompt_id)
                self.pairs[body.prompt_id] = []
            case e.ResponseAdded():
                self.pairs[body.prompt_id].append(body.model)
            case e.MatchupServed():
                item = self._numbers[body.prompt_id]
                turn = ReviewTurn(body.matchup_id, item, body.voter, body.lane, body.model_a, event.at)
                self.turns[body.matchup_id] = self.latest[item, body.voter] = turn
                if body.lane == "adjudication":
                    self.adjudicated.add(item)
            case e.Voted():
                turn = self.turns[body.matchup_id]
                turn.status, turn.choice, turn.closed_at = "voted", body.choice, event.at
            case e.Skipped() | e.Expired():
                self.turns[body.matchup_id].status = "cannot"
                self.turns[body.matchup_id].closed_at = event.at
            case e.Undone():
                self.turns[body.matchup_id].status = "undone"
            case e.Explained():
                self.turns[body.matchup_id].has_comment = bool(body.comment or body.digest)

    def outcome(self, turn: ReviewTurn) -> float | None:
        """The outcome of a turn for the first model of its item: 1, ½ or 0; None without a vote."""
        if turn.status != "voted" or turn.choice is None:
            return None
        for_a = _OUTCOMES[turn.choice]
        return for_a if turn.model_a == self.pairs[self.items[turn.item]][0] else 1.0 - for_a

    def reviews(self, item: int) -> list[ReviewTurn]:
        """The votes of reviewers that count, in the order in which people first took the item."""
        return [
            turn
            for (place, _), turn in self.latest.items()
            if place == item and turn.lane == "review" and turn.status == "voted"
        ]


class Assignment:
    """The part of a review's log that says who is to do what next. It is kept up to date turn by turn."""

    def __init__(self, log: ReviewLog) -> None:
        self.log = log
        self._plan: dict[str, list[int]] | None = None

    def changed(self, event: e.Event) -> None:
        """Take notice of an event that the log has noted: what the plan already says does not change it."""
        body = event.body
        if isinstance(body, e.ReviewSet | e.PromptAdded | e.Skipped | e.Expired):
            self._plan = None
        elif isinstance(body, e.MatchupServed) and self._plan is not None:
            mine = self._plan.get(body.voter, [])
            item = self.log.turns[body.matchup_id].item
            if item in mine:
                mine.remove(item)
            else:
                self._plan = None  # another process served it, by a plan that was made at another moment

    def left(self, person: str) -> list[int]:
        """The items that a person is still to say something of, in the order in which they are served.

        Those that they took back a vote on come first, and what is open counts.
        """
        rules = self.log.rules
        if rules is None or rules.closed:
            return []
        if person in rules.adjudicators:
            return self.decidable(person)
        own = [turn for (_, who), turn in self.log.latest.items() if who == person and turn.lane == "review"]
        again = sorted(turn.item for turn in own if turn.status in ("open", "undone"))
        return again + self.plan().get(person, [])

    def plan(self) -> dict[str, list[int]]:
        rules = self.log.rules
        if self._plan is None and rules is not None:
            taken: dict[int, list[str]] = {}
            spent: dict[int, list[str]] = {}
            for (item, person), turn in self.log.latest.items():
                if turn.lane != "review":
                    continue
                if turn.status == "voted" or (turn.status in ("open", "undone") and person in rules.reviewers):
                    taken.setdefault(item, []).append(person)
                elif turn.status == "cannot":
                    spent.setdefault(item, []).append(person)
            self._plan = assign(len(self.log.items), rules.each, rules.reviewers, taken, spent, rules.seed)
        return self._plan or {}

    def waiting(self) -> set[int]:
        waiting = {item for items in self.plan().values() for item in items}
        for (item, person), turn in self.log.latest.items():
            assert self.log.rules is not None
            if turn.lane == "review" and turn.status in ("open", "undone") and person in self.log.rules.reviewers:
                waiting.add(item)
        return waiting

    def disputed(self) -> list[int]:
        """The items on which reviewers disagree, all of whom have spoken."""
        waiting = self.waiting()
        by_item: dict[int, list[ReviewTurn]] = {}
        for (item, _), turn in self.log.latest.items():
            if turn.lane == "review":
                by_item.setdefault(item, []).append(turn)
        found = []
        for item, turns in sorted(by_item.items()):
            outcomes = {self.log.outcome(turn) for turn in turns if turn.status == "voted"}
            if len(outcomes) > 1 and item not in waiting:
                found.append(item)
        return found

    def decidable(self, person: str) -> list[int]:
        had: dict[int, list[ReviewTurn]] = {}
        for (item, _), turn in self.log.latest.items():
            if turn.lane == "adjudication":
                had.setdefault(item, []).append(turn)
        return [item for item in self.disputed() if self._may_take(had.get(item, ()), person)]

    def finished(self) -> int:
        """How many items, from the first on, nobody is to say anything of any more, adjudicators included.

        Items are in random order, so these are a fair sample in which everybody has their part, however unevenly fast
        people are. All that have their reviews would not do: those of two quick people come first.
        """
        assert self.log.rules is not None
        left = self.waiting().union(*(self.decidable(person) for person in self.log.rules.adjudicators))
        return min(left, default=len(self.log.items))

    def _may_take(self, turns: Sequence[ReviewTurn], person: str) -> bool:
        """Whether an adjudicator may decide an item that had these turns: nobody has, and no other one has it open."""
        assert self.log.rules is not None
        for turn in turns:
            if turn.status == "voted" or (turn.person == person and turn.status == "cannot"):
                return False
            others = turn.person != person and turn.person in self.log.rules.adjudicators
            if others and turn.status in ("open", "undone"):
                return False
        return True


class ReviewChooser:
    """Chooses the next item of a reviewer or an adjudicator, for the arena's writer, under its lock."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        self.log = ReviewLog()
        self.assignment = Assignment(self.log)

    def note(self, event: e.Event) -> None:
        self.log.note(event)
        self.assignment.changed(event)

    def is_final(self, matchup_id: str) -> bool:
        """Whether a reviewer's vote stays: an adjudicator has been shown it."""
        turn = self.log.turns[matchup_id]
        return turn.lane == "review" and turn.item in self.log.adjudicated

    def objection(self, body: e.AnyBody) -> ArenaError | None:
        """A reviewer's vote that an adjudicator has been shown stays."""
        if isinstance(body, e.Undone) and self.is_final(body.matchup_id):
            return TooLate("somebody has this item to decide it, so your vote stays. Go on.")
        return None

    def __call__(self, state: ArenaState, rng: np.random.Generator, seen: SeenMatchups) -> ChosenMatchup:
        rules, person = self.log.rules, seen.voter
        if rules is None or rules.closed:
            raise ReviewClosed(REVIEW_OVER)
        is_open = {turn.item for (_, who), turn in self.log.latest.items() if who == person and turn.status == "open"}
        left = [item for item in self.assignment.left(person) if item not in is_open]
        if not left:
            raise NothingLeft(NOTHING_LEFT)
        lane: e.Lane = "adjudication" if person in rules.adjudicators else "review"
        name = self.log.items[left[0]]
        first, second = (state.catalog.model(model) for model in self.log.pairs[name])
        a, b = (first, second) if rng.random() < 0.5 else (second, first)
        return ChosenMatchup(a, b, state.catalog.prompt(name), lane, "the next item of this person", 1.0)

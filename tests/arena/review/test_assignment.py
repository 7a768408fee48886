"""The draw and the assignment: laws that hold for any review."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiltyard.arena import ArenaState, NothingLeft
from tiltyard.arena import events as e
from tiltyard.arena.matchmaking import SeenMatchups
from tiltyard.arena.review import ReviewChooser
from tiltyard.arena.review.assignment import assign
from tiltyard.arena.review.sources import draw
from tiltyard.errors import OptionError


@given(st.integers(1, 60), st.integers(1, 6), st.integers(1, 4), st.integers(0, 9))
def test_every_item_gets_its_reviewers_once_and_loads_are_even(items: int, n: int, each: int, seed: int) -> None:
    people = [f"p{number}" for number in range(n)]
    plan = assign(items, each, people, {}, {}, seed)
    on = Counter(item for mine in plan.values() for item in mine)
    assert all(on[item] == min(each, n) for item in range(items))
    assert all(len(set(mine)) == len(mine) for mine in plan.values())
    loads = [len(mine) for mine in plan.values()]
    assert max(loads) - min(loads) <= 1


@pytest.mark.parametrize(("n", "each"), [(3, 2), (4, 2), (5, 2), (5, 3)])
def test_overlap_is_spread_over_all_pairs_of_people(n: int, each: int) -> None:
    people = [f"p{number}" for number in range(n)]
    plan = {person: set(mine) for person, mine in assign(200, each, people, {}, {}, 1).items()}
    together = [len(plan[one] & plan[two]) for one, two in combinations(people, 2)]
    even = 200 * each * (each - 1) / (n * (n - 1))
    assert min(together) >= 0.8 * even
    assert max(together) <= 1.2 * even


class Team:
    """A review in memory: events in, choices out."""

    def __init__(self, items: int, people: list[str], each: int, adjudicators: tuple[str, ...] = ()) -> None:
        self.chooser, self.state, self.seq = ReviewChooser(), ArenaState(), 0
        self.events: list[e.Event] = []
        self.rng = np.random.default_rng(items)
        self.tell(e.ModelAdded(model="x", display_name="x"), e.ModelAdded(model="y", display_name="y"))
        for item in range(items):
            self.tell(e.PromptAdded(prompt_id=f"i{item}", text="?"))
            for model in "xy":
                self.tell(e.ResponseAdded(response_id=f"{model}{item}", model=model, prompt_id=f"i{item}", text=model))
        self.set(people, each, adjudicators)

    def set(self, people: list[str], each: int, adjudicators: tuple[str, ...] = ()) -> None:
        self.tell(e.ReviewSet(each=each, reviewers=tuple(people), adjudicators=adjudicators))

    def tell(self, *bodies: e.AnyBody) -> None:
        for body in bodies:
            self.seq += 1
            event = e.Event(self.seq, body)
            self.state.apply(self.seq, event)
            self.chooser.note(event)
            self.events.append(event)

    def serve(self, person: str, chooser: ReviewChooser | None = None) -> str | None:
        try:
            chosen = (chooser or self.chooser)(self.state, self.rng, SeenMatchups(voter=person))
        except NothingLeft:
            return None
        names = [model.model for model in self.state.catalog.models]
        prompt, name = self.state.catalog.prompts[chosen.prompt].prompt_id, f"m{self.seq}"
        self.tell(
            e.MatchupServed(
                matchup_id=name,
                voter=person,
                prompt_id=prompt,
                model_a=names[chosen.a],
                model_b=names[chosen.b],
                response_a=self.state.catalog.response_ids[chosen.a, chosen.prompt],
                response_b=self.state.catalog.response_ids[chosen.b, chosen.prompt],
                lane=chosen.lane,
                reason="",
                probability=1.0,
                seed=0,
                expires_at=10**15,
            )
        )
        return name

    def counted(self) -> Counter[int]:
        return Counter(
            turn.item for turn in self.chooser.log.latest.values() if turn.lane == "review" and turn.status == "voted"
        )


@given(st.data())
def test_whatever_people_do_no_item_gets_too_many_and_in_the_end_all_get_enough(data: st.DataObject) -> None:
    items, each = data.draw(st.integers(1, 8)), data.draw(st.integers(1, 3))
    people = ["p0", "p1", "p2", "p3"]
    team, open_, gone = Team(items, people, each), dict.fromkeys(people), set[str]()
    acts = data.draw(st.lists(st.tuples(st.sampled_from(people), st.sampled_from("vvvvcule")), max_size=60))
    for person, act in acts:
        if act == "l" and len(people) - len(gone) > each and person not in gone:
            gone.add(person)
            team.set([one for one in people if one not in gone], each)
            open_[person] = None
        elif act == "e" and person in gone:
            gone.discard(person)
            team.set([one for one in people if one not in gone], each)
            mine = [turn for turn in team.chooser.log.turns.values() if turn.person == person and turn.status == "open"]
            open_[person] = mine[-1].matchup_id if mine else None
        elif person not in gone:
            name = open_[person] or team.serve(person)
            if name is None:
                continue
            open_[person] = None
            if act == "c":
                team.tell(e.Skipped(matchup_id=name))
            else:
                team.tell(e.Voted(matchup_id=name, choice=e.Choice.A))
                if act == "u":
                    team.tell(e.Undone(matchup_id=name))
        assert max(team.counted().values(), default=0) <= each
    team.set(people, each)
    for _ in range(5 * items):
        for person in people:
            name = open_[person] or team.serve(person)
            open_[person] = None
            mine = [turn for turn in team.chooser.log.turns.values() if turn.person == person and turn.status == "open"]
            name = name or (mine[0].matchup_id if mine else None)
            if name is not None and team.chooser.log.turns[name].status == "open":
                team.tell(e.Voted(matchup_id=name, choice=e.Choice.B))
    cannot = Counter(turn.item for turn in team.chooser.log.latest.values() if turn.status == "cannot")
    for item in range(items):
        assert team.counted()[item] == min(each, len(people) - cannot[item])


def test_a_vote_that_was_taken_back_comes_first_again_and_nobody_else_gets_it() -> None:
    team = Team(5, ["p0", "p1", "p2"], 2)
    first = team.serve("p0")
    assert first is not None
    item = team.chooser.log.turns[first].item
    team.tell(e.Voted(matchup_id=first, choice=e.Choice.A), e.Undone(matchup_id=first))
    again = team.serve("p0")
    assert again is not None
    assert team.chooser.log.turns[again].item == item


@pytest.mark.parametrize("seed", range(20))
def test_several_processes_with_plans_of_different_moments_agree(seed: int) -> None:
    """Each makes its plan when it is first asked, and hears of what the other served: no item gets a third reviewer."""
    people = [f"p{number}" for number in range(5)]
    team, other = Team(30, people, 2), ReviewChooser()
    for event in team.events:
        other.note(event)
    choosers, rng, busy = (team.chooser, other), np.random.default_rng(seed), set(people)
    while busy:
        person = str(rng.choice(sorted(busy)))
        name = team.serve(person, choosers[rng.integers(2)])
        if name is None:
            busy.discard(person)
            continue
        team.tell(e.Voted(matchup_id=name, choice=e.Choice.A))
        for event in team.events[-2:]:
            other.note(event)
    assert set(team.counted().values()) == {2}


def test_an_adjudicator_gets_what_reviewers_disagree_on_once_all_have_spoken() -> None:
    team = Team(3, ["p0", "p1"], 2, ("lead",))
    assert team.serve("lead") is None
    for person in ("p0", "p1"):
        for _ in range(3):
            name = team.serve(person)
            assert name is not None
            turn = team.chooser.log.turns[name]
            right = turn.item != 1 or person == "p0"
            team.tell(e.Voted(matchup_id=name, choice=e.Choice.A if (turn.model_a == "x") == right else e.Choice.B))
    name = team.serve("lead")
    assert name is not None
    assert (team.chooser.log.turns[name].item, team.chooser.log.turns[name].lane) == (1, "adjudication")
    assert team.serve("lead") is None  # it is open
    team.tell(e.Voted(matchup_id=name, choice=e.Choice.TIE))
    assert team.serve("lead") is None


def test_sides_are_drawn_for_every_reviewer() -> None:
    team = Team(200, ["p0"], 1)
    for _ in range(200):
        name = team.serve("p0")
        assert name is not None
        team.tell(e.Voted(matchup_id=name, choice=e.Choice.A))
    share = np.mean([turn.model_a == "x" for turn in team.chooser.log.turns.values()])
    assert 0.4 < share < 0.6


@given(st.lists(st.integers(0, 4), min_size=1, max_size=60), st.integers(1, 60), st.integers(0, 5))
def test_a_draw_has_no_matchup_twice_and_its_probabilities_add_up(strata: list[int], n: int, seed: int) -> None:
    for method in ("simple", "by-pair"):
        drawn = draw(strata, n, method, np.random.default_rng(seed))
        assert len({one.place for one in drawn}) == len(drawn) == min(n, len(strata))
        assert all(0.0 < one.probability <= 1.0 for one in drawn)
        if method == "by-pair" and n < len(strata):
            for stratum in set(strata):
                expected = n * strata.count(stratum) / len(strata)
                assert abs(sum(strata[one.place] == stratum for one in drawn) - expected) < 1.0 + 1e-9


@pytest.mark.parametrize("method", ["simple", "by-pair"])
def test_the_probabilities_are_those_of_the_draw(method: str) -> None:
    strata = [0] * 3 + [1] * 10 + [2] * 47
    drawn, said = np.zeros(60), np.zeros(60)
    rng = np.random.default_rng(5)
    for _ in range(4000):
        for one in draw(strata, 11, method, rng):  # type: ignore[arg-type]
            drawn[one.place] += 1
            said[one.place] = one.probability
    assert drawn / 4000 == pytest.approx(said, abs=0.035)
    assert said.sum() == pytest.approx(11.0)


def test_nothing_to_draw_is_refused() -> None:
    with pytest.raises(OptionError, match="at least 1"):
        draw([0], 0, "simple", np.random.default_rng())

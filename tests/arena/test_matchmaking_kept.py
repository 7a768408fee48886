"""What matchmaking keeps from one choice to the next is what it would work out anew."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.arena.matchmaking_arenas import Yard
from tiltyard.arena import events as e
from tiltyard.arena.matchmaking import Past, next_matchup
from tiltyard.arena.matchmaking.deficits import Deficits, deficits_of
from tiltyard.arena.matchmaking.outlook import Outlook, outlook_of
from tiltyard.arena.matchmaking.servable import servable_of
from tiltyard.arena.policy import Policy
from tiltyard.arena.store.frozen import freeze, thaw

MODELS, PROMPTS = 7, 4
CHOICES = tuple(e.Choice)

deeds = st.lists(
    st.tuples(
        st.sampled_from(["serve"] * 5 + ["vote"] * 5 + ["skip", "undo", "disable", "enable", "answer", "policy"]),
        st.integers(0, 10_000),
    ),
    max_size=60,
)


class Story:
    """Lets things happen in a small arena, chosen by numbers."""

    def __init__(self) -> None:
        self.yard = Yard(MODELS, PROMPTS, policy=Policy(contender_opens_at=3, contender_band=3))
        self.flying: list[str] = []
        self.voted: list[str] = []

    def do(self, deed: str, n: int) -> None:
        yard = self.yard
        match deed:
            case "serve":
                a = n % MODELS
                self.flying.append(yard.serve(a, (a + 1 + n % (MODELS - 1)) % MODELS, n % PROMPTS))
            case "vote" if self.flying:
                name = self.flying.pop(n % len(self.flying))
                yard.tell(e.Voted(matchup_id=name, choice=CHOICES[n % 4]))
                self.voted.append(name)
            case "skip" if self.flying:
                yard.tell(e.Skipped(matchup_id=self.flying.pop(n % len(self.flying))))
            case "undo" if self.voted:
                yard.tell(e.Undone(matchup_id=self.voted.pop(n % len(self.voted))))
            case "disable":
                yard.tell(e.ModelDisabled(model=f"m{n % 2}"))
            case "enable":
                yard.tell(e.ModelEnabled(model=f"m{n % 2}"))
            case "answer":
                yard.answer(n % MODELS, n % PROMPTS)
            case "policy":
                yard.tell(e.SettingsChanged(policy=Policy(contender_opens_at=n % 5, contender_band=2 + n % 3)))


@given(deeds, st.integers(1, 5))
@settings(max_examples=60)
def test_kept_tables_are_those_made_anew_whenever_they_are_looked_at(story: list[tuple[str, int]], every: int) -> None:
    told = Story()
    state = told.yard.state
    for place, (deed, n) in enumerate(story):
        told.do(deed, n)
        if place % every:
            continue
        servable = servable_of(state.catalog)
        outlook = outlook_of(state, servable)
        kept = deficits_of(state, servable, outlook)
        fresh_outlook, fresh = Outlook(state, servable), Deficits(servable)
        state.schedule._touched.update(range(MODELS))
        fresh.follow(state, fresh_outlook.floors)
        assert outlook.order.tolist() == fresh_outlook.order.tolist()
        assert (outlook.opened, outlook.decisive) == (fresh_outlook.opened, fresh_outlook.decisive)
        assert kept.prompts.tobytes() == fresh.prompts.tobytes()
        assert kept.missing.tobytes() == fresh.missing.tobytes()
        assert np.array_equal(kept.met, fresh.met)
        assert np.array_equal(fresh.met, fresh.met.T)


@given(deeds, st.integers(0, 1000))
@settings(max_examples=40)
def test_a_state_that_was_long_in_use_serves_what_a_fresh_copy_of_it_serves(
    story: list[tuple[str, int]], seed: int
) -> None:
    told = Story()
    state = told.yard.state
    for deed, n in story:
        told.do(deed, n)
        next_matchup(state, np.random.default_rng(n), {})
    copy = thaw(freeze(state), state.book)
    assert copy is not None
    assert next_matchup(state, np.random.default_rng(seed), {}) == next_matchup(copy, np.random.default_rng(seed), {})


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(3, 5), st.integers(0, 3), st.integers(1, 99))))
def test_a_past_that_was_noted_bit_by_bit_is_the_past_of_all(shown: list[tuple[int, int, int, int]]) -> None:
    past, seen = Past(), dict[tuple[int, int, int], int]()
    for *triple, at in shown:
        a, b, prompt = triple
        past.note((a, b, prompt), at)
        seen[a, b, prompt] = max(at, seen.get((a, b, prompt), 0))
    whole = Past(seen)
    assert past.when == whole.when == seen
    assert {pair: sorted(prompts) for pair, prompts in past.prompts.items()} == {
        pair: sorted(prompts) for pair, prompts in whole.prompts.items()
    }
    assert past.most == whole.most == max(map(len, past.prompts.values()), default=0)

"""Matchmaking is a pure function: it changes nothing, remembers nothing, and kept tables are those made anew."""

from __future__ import annotations

import enum
import importlib
import pkgutil
import random
from collections import OrderedDict, deque
from collections.abc import Mapping
from types import FunctionType, ModuleType
from weakref import WeakKeyDictionary, WeakValueDictionary

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.arena.matchmaking_arenas import Yard
from tests.sizes import size
from tiltyard.arena import ArenaState, Policy, matchmaking
from tiltyard.arena import events as e
from tiltyard.arena.matchmaking import SeenMatchups
from tiltyard.arena.matchmaking.choosing import Matchmaker
from tiltyard.arena.matchmaking.exposure import targets
from tiltyard.arena.matchmaking.tables import Deficits, RankOrder, Servable, WorkingTables
from tiltyard.arena.store.checkpoints import decode_state, encode_state

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
                yard.tell(e.SettingsChanged(policy=varied(n)))


@given(deeds, st.integers(1, 5))
@settings(max_examples=size(30, soak=100))
def test_kept_tables_are_those_made_anew_whenever_they_are_looked_at(story: list[tuple[str, int]], every: int) -> None:
    told = Story()
    state, tables = told.yard.state, WorkingTables()
    for place, (deed, n) in enumerate(story):
        told.do(deed, n)
        if place % every:
            continue
        kept_servable, servable = tables.servable(state), Servable.of(state.catalog)
        order = tables.rank_order(state, kept_servable)
        kept = tables.deficits(state, order, kept_servable)
        fresh_order, fresh = RankOrder(state, servable), Deficits(servable)
        fresh.follow(state, fresh_order.floors)
        assert inside(kept_servable) == inside(servable)
        assert (
            tables.exposure_targets(state, kept_servable).tolist() == targets(state.schedule, servable.numbers).tolist()
        )
        assert order.order.tolist() == fresh_order.order.tolist()
        assert order.opened == fresh_order.opened
        assert order.floors.tolist() == fresh_order.floors.tolist()
        assert state.tallies.decisive_votes == state.tallies.wins.view.sum()
        assert kept.prompts.tobytes() == fresh.prompts.tobytes()
        assert kept.missing.tobytes() == fresh.missing.tobytes()
        assert np.array_equal(kept.met, fresh.met)
        assert np.array_equal(fresh.met, fresh.met.T)


@given(deeds, st.integers(0, 1000))
@settings(max_examples=size(20, soak=100))
def test_a_state_that_was_long_in_use_serves_what_a_fresh_copy_of_it_serves(
    story: list[tuple[str, int]], seed: int
) -> None:
    told, choose = Story(), Matchmaker()
    state = told.yard.state
    for deed, n in story:
        told.do(deed, n)
        choose(state, np.random.default_rng(n), SeenMatchups())
    copy = decode_state(encode_state(state), state.votes)
    copy.show(state.ratings)
    assert choose(state, np.random.default_rng(seed), SeenMatchups()) == Matchmaker()(
        copy, np.random.default_rng(seed), SeenMatchups()
    )


@given(deeds, st.lists(st.tuples(st.integers(0, 99), st.integers(0, 2)), min_size=1, max_size=8), st.randoms())
@settings(max_examples=size(15, soak=100))
def test_the_same_question_gets_the_same_matchup_in_any_order_and_changes_nothing(
    story: list[tuple[str, int]], questions: list[tuple[int, int]], chance: random.Random
) -> None:
    told = Story()
    for deed, n in story:
        told.do(deed, n)
    state, voters = (
        told.yard.state,
        (SeenMatchups(), SeenMatchups({(0, 1, 2): 7}), SeenMatchups({(0, 1, 0): 3, (0, 1, 1): 4, (2, 3, 0): 5})),
    )
    settle(state)
    before = inside((state, voters))
    choose = Matchmaker()
    once = {question: Matchmaker()(state, rng_of(question), voters[question[1]]) for question in questions}
    chance.shuffle(questions)
    for question in questions:
        assert Matchmaker()(state, rng_of(question), voters[question[1]]) == once[question]
        assert choose(state, rng_of(question), voters[question[1]]) == once[question]
    assert inside((state, voters)) == before


def test_no_module_of_matchmaking_remembers_anything() -> None:
    modules = [
        importlib.import_module(found.name)
        for found in pkgutil.walk_packages(matchmaking.__path__, "tiltyard.arena.matchmaking.")
    ]
    assert len(modules) > 8
    before = {module.__name__: inside(containers(module)) for module in modules}
    told = Story()
    for n in range(50):
        told.do("serve" if n % 2 else "vote", n)
        Matchmaker()(told.yard.state, np.random.default_rng(n), SeenMatchups())
    assert {module.__name__: inside(containers(module)) for module in modules} == before
    assert not [name for module in modules for name, value in vars(module).items() if hasattr(value, "cache_info")]


def varied(n: int) -> Policy:
    """One of many policies."""
    return Policy(contender_opens_at=n % 5, contender_band=2 + n % 3, prompt_floor=1 + n % 4, window_matchups=5 + n % 9)


def rng_of(question: tuple[int, int]) -> np.random.Generator:
    return np.random.default_rng(question[0])


def settle(state: ArenaState) -> None:
    """Add up the votes and matchups that wait to be counted until somebody looks."""
    assert state.tallies.revision >= 0
    assert state.schedule.revision >= 0
    assert len(state.ratings.rating) == len(state.catalog.models)


def containers(module: ModuleType) -> dict[str, object]:
    """What a module could remember in."""
    kinds = (dict, list, set, WeakKeyDictionary, WeakValueDictionary, OrderedDict, deque, np.ndarray)
    return {name: value for name, value in vars(module).items() if isinstance(value, kinds) and name != "__builtins__"}


def inside(thing: object) -> object:
    """Everything that an object holds, private parts included, as values that can be compared."""
    if isinstance(thing, np.ndarray):
        return thing.shape, thing.dtype.str, thing.tobytes()
    if isinstance(thing, Mapping):
        return [(inside(key), inside(value)) for key, value in thing.items()]
    if isinstance(thing, list | tuple | deque):
        return [inside(part) for part in thing]
    if isinstance(thing, set | frozenset):
        return sorted(map(repr, thing))
    names = [name for kind in type(thing).__mro__ for name in getattr(kind, "__slots__", ())]
    names += list(getattr(thing, "__dict__", ()))
    if not names or isinstance(thing, enum.Enum | type | ModuleType | FunctionType):
        return repr(thing)
    return [(name, inside(getattr(thing, name))) for name in sorted(names) if hasattr(thing, name)]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(3, 5), st.integers(0, 3), st.integers(1, 99))))
def test_a_past_that_was_noted_bit_by_bit_is_the_past_of_all(shown: list[tuple[int, int, int, int]]) -> None:
    past, seen = SeenMatchups(), dict[tuple[int, int, int], int]()
    for *triple, at in shown:
        a, b, prompt = triple
        past.note((a, b, prompt), at)
        seen[a, b, prompt] = max(at, seen.get((a, b, prompt), 0))
    whole = SeenMatchups(seen)
    assert dict(past.triples()) == dict(whole.triples()) == seen
    pairs = {triple[:2] for triple in seen}
    prompts = {pair: [prompt for *of, prompt in seen if tuple(of) == pair] for pair in pairs}
    assert all(list(past.prompts(pair)) == list(whole.prompts(pair)) == prompts[pair] for pair in pairs)
    assert past.most == whole.most == max(map(len, prompts.values()), default=0)
    assert {*past.pairs(at_least=2)} == {pair for pair in pairs if len(prompts[pair]) > 1}
    assert (past.prompts((8, 9)), past.when((8, 9))) == ((), {})

"""Small arenas on real databases, and what tests do in them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tiltyard.arena import Arena, ArenaState, vote_table
from tiltyard.arena import events as e
from tiltyard.arena.audit.witness import RatedModel, published_board
from tiltyard.arena.matchmaking import ChosenMatchup, SeenMatchups
from tiltyard.arena.store import Store, load_votes
from tiltyard.errors import ArenaError

CHOICES = tuple(e.Choice)
BLOCKS = ("", "home", "office")
SECOND = 1_000_000
START = 1_700_000_000 * SECOND


def any_matchup(state: ArenaState, rng: np.random.Generator, seen: SeenMatchups) -> ChosenMatchup:
    """Any two models that have answered one prompt."""
    servable = state.catalog.servable()
    prompts = np.flatnonzero(servable.sum(axis=0) >= 2)
    if not len(prompts):
        raise ArenaError("nothing to serve: no prompt has two answers. Import answers.")
    prompt = int(rng.choice(prompts))
    a, b = rng.choice(np.flatnonzero(servable[:, prompt]), 2, replace=False)
    return ChosenMatchup(int(a), int(b), prompt, lane="exploration", reason="any", probability=0.25)


@dataclass
class Clock:
    """A clock that stands until it is turned."""

    now: int = START
    step: int = field(default=1)

    def __call__(self) -> int:
        self.now += self.step
        return self.now

    def turn(self, seconds: float) -> None:
        self.now += int(seconds * SECOND)


def open_arena(url: str, clock: Clock | None = None, seed: int = 1) -> Arena:
    """The arena at a URL, which serves anything; with a clock it never looks around by itself."""
    store, rng = Store.open(url), np.random.default_rng(seed)
    if clock is None:
        return Arena(store, chooser=any_matchup, rng=rng)
    return Arena(store, chooser=any_matchup, now=clock, rng=rng, idle_seconds=3600)


def catalog(models: int = 4, prompts: int = 3) -> list[e.AnyBody]:
    """Models, prompts, and every answer."""
    return [
        *(e.ModelAdded(model=f"m{i}", display_name=f"Model {i}") for i in range(models)),
        *(e.PromptAdded(prompt_id=f"p{j}", text=f"Question {j}?") for j in range(prompts)),
        *(answer(i, j) for i in range(models) for j in range(prompts)),
    ]


def answer(model: int, prompt: int) -> e.ResponseAdded:
    """What a model says to a prompt."""
    said = f"Answer of nobody in particular, number {7 * model + prompt}."
    return e.ResponseAdded(response_id=f"r{model}-{prompt}", model=f"m{model}", prompt_id=f"p{prompt}", text=said)


def play(arena: Arena, votes: int, seed: int = 0, voters: int = 5) -> list[tuple[str, str, e.Choice]]:
    """Votes by several voters, at random: matchup, voter and choice of each."""
    rng = np.random.default_rng(seed)
    played = []
    for number in range(votes):
        voter, choice = f"voter{number % voters}", CHOICES[rng.integers(4)]
        served = arena.serve(voter, block=BLOCKS[number % 3])
        arena.vote(served.matchup_id, voter, choice, block=BLOCKS[number % 2])
        played.append((served.matchup_id, voter, choice))
    return played


def board_of(arena: Arena) -> list[RatedModel]:
    """Every model's published rating, from the votes in the database."""
    with arena.store.database.read() as connection:
        state, votes, _ = load_votes(connection)
    return published_board(state, vote_table(votes, state.catalog))


def sql(url: str, command: str) -> list[tuple[object, ...]]:
    """Do something to the database behind the arena's back."""
    store = Store.open(url)
    try:
        with store.database.write() as connection:
            result = connection.driver.execute(command)
            return [tuple(row) for row in result.fetchall()] if result.description else []
    finally:
        store.close()

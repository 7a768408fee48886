"""Small arenas for the tests of matchmaking, made of real events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np

from tiltyard.arena import ArenaState, Policy, VoteColumns
from tiltyard.arena import events as e
from tiltyard.arena.matchmaking import ChosenMatchup, SeenMatchups
from tiltyard.arena.matchmaking.choosing import Matchmaker
from tiltyard.arena.rules.ratings import rate_votes

Triple = tuple[int, int, int]


class Yard:
    """An arena of numbered models and prompts to which single events can be given."""

    def __init__(self, models: int, prompts: int, *, policy: Policy | None = None, phase: int = 4) -> None:
        self._votes = VoteColumns()
        self._state = ArenaState(self._votes)
        self._unrated = False
        self._ids = 0
        self.tell(e.SettingsChanged(policy=policy or Policy()), e.PhaseChanged(phase=phase))
        self.tell(*(e.PromptAdded(prompt_id=f"p{number}", text="?") for number in range(prompts)))
        for number in range(models):
            self.add_model(number, range(prompts))

    @property
    def state(self) -> ArenaState:
        """What matchups are chosen by: with the ratings of all votes, made when somebody looks."""
        if self._unrated:
            self._unrated = False
            self._state.show(rate_votes(self._votes.table(self._state.catalog), self._state.policy.rating))
        return self._state

    def tell(self, *bodies: e.AnyBody) -> None:
        for body in bodies:
            self._state.apply(self._state.seq + 1, e.Event(self._state.seq, body))

    def add_model(self, number: int, prompts: range | list[int]) -> None:
        self.tell(e.ModelAdded(model=f"m{number}", display_name=f"M {number}"))
        for prompt in prompts:
            self.answer(number, prompt)

    def answer(self, model: int, prompt: int) -> None:
        name = f"m{model}-p{prompt}"
        self.tell(e.ResponseAdded(response_id=name, model=f"m{model}", prompt_id=f"p{prompt}", text="!"))

    def serve(self, a: int, b: int, prompt: int, lane: e.Lane = "coverage") -> str:
        self._ids += 1
        matchup_id = f"x{self._ids}"
        self.tell(
            e.MatchupServed(
                matchup_id=matchup_id,
                voter="somebody",
                prompt_id=f"p{prompt}",
                model_a=f"m{a}",
                model_b=f"m{b}",
                response_a=f"m{a}-p{prompt}",
                response_b=f"m{b}-p{prompt}",
                lane=lane,
                reason="",
                probability=1.0,
                seed=0,
                expires_at=0,
            )
        )
        return matchup_id

    def play(self, a: int, b: int, prompt: int, choice: e.Choice = e.Choice.A) -> None:
        self.tell(e.Voted(matchup_id=self.serve(a, b, prompt), choice=choice))
        self._unrated = True

    def everybody_meets(self, rounds: int, *, better: float = 0.8) -> None:
        """So many rounds of all pairs, prompts in turn; the model with the smaller number wins its share of them."""
        models, prompts = len(self.state.catalog.models), len(self.state.catalog.prompts)
        turn = 0
        for number in range(rounds):
            for i in range(models):
                for j in range(i + 1, models):
                    wins = (number + i + j) % 10 < 10 * better
                    self.play(i, j, turn % prompts, e.Choice.A if wins else e.Choice.B)
                    turn += 1

    def next(self, seed: int, seen: Mapping[Triple, int] | None = None) -> ChosenMatchup:
        return Matchmaker()(self.state, np.random.default_rng(seed), SeenMatchups(seen))

    def many(self, draws: int, seen: Mapping[Triple, int] | None = None) -> list[ChosenMatchup]:
        """What this one state serves to one voter, over many seeds."""
        choose = Matchmaker()  # keeps what does not change between draws
        return [choose(self.state, np.random.default_rng(seed), SeenMatchups(seen)) for seed in range(draws)]


def triple(matchup: ChosenMatchup) -> Triple:
    return min(matchup.a, matchup.b), max(matchup.a, matchup.b), matchup.prompt


def assert_probabilities_are_frequencies(matchups: list[ChosenMatchup], sigmas: float = 4.5) -> None:
    """Each lane, pair and prompt comes as often as it says it would, and what came adds up to nearly everything."""
    n = len(matchups)
    said: dict[tuple[str, Triple], float] = {}
    for matchup in matchups:
        key = (matchup.lane, triple(matchup))
        assert abs(said.setdefault(key, matchup.probability) - matchup.probability) < 1e-9, key
    counts = Counter((matchup.lane, triple(matchup)) for matchup in matchups)
    never_seen = sum(count == 1 for count in counts.values()) / n  # by Good and Turing's rule
    assert abs(sum(said.values()) + never_seen - 1.0) < 0.03
    for key, count in counts.items():
        expected = n * said[key]
        assert abs(count - expected) <= sigmas * max(expected, 1.0) ** 0.5 + 1.0, (key, count, expected)
    unseen = 1.0 - sum(said.values())
    assert -1e-9 <= unseen <= 0.5

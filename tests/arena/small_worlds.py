"""Small arenas with a known truth, as logs: for boards, integrity and the weekly report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from tiltyard.arena import ArenaState, Policy, VoteColumns
from tiltyard.arena import events as e
from tiltyard.arena.rules.ratings import rate_votes

SECOND = 1_000_000
MINUTE = 60 * SECOND
START = 1_760_000_000 * SECOND
RATED_EVERY = 20
HONEST_TIES = 0.08
HONEST_BOTH_BAD = 0.05


@dataclass
class Log:
    """A log that is written and folded at once."""

    events: list[e.Event] = field(default_factory=list)
    book: VoteColumns = field(default_factory=VoteColumns)
    now: int = START

    def __post_init__(self) -> None:
        self.state = ArenaState(self.book)

    def say(self, body: e.AnyBody, after: int = 0) -> None:
        self.now += after
        event = e.Event(self.now, body)
        self.events.append(event)
        self.state.apply(len(self.events), event)

    def rate(self) -> ArenaState:
        """The state, which shows the ratings of all counted votes from now on, each with its full weight."""
        self.state.show(rate_votes(self.book.table(self.state.catalog), self.state.policy.rating))
        return self.state

    def meet(
        self,
        a: str,
        b: str,
        prompt: str,
        choice: e.Choice,
        voter: str = "v",
        lane: e.Lane = "coverage",
        after: int = MINUTE,
        block: str = "",
    ) -> str:
        """Serve a matchup and vote on it; its id."""
        matchup_id = f"m{len(self.events):06d}"
        self.say(
            e.MatchupServed(
                matchup_id=matchup_id,
                voter=voter,
                prompt_id=prompt,
                model_a=a,
                model_b=b,
                response_a=f"{a}/{prompt}",
                response_b=f"{b}/{prompt}",
                lane=lane,
                reason="test",
                probability=1.0,
                seed=0,
                expires_at=self.now + 7200 * SECOND,
                block=block,
            ),
            after,
        )
        self.say(e.Voted(matchup_id=matchup_id, choice=choice))
        return matchup_id


def new_log(models: int, prompts: int, phase: int = 3, policy: Policy | None = None) -> Log:
    """An arena of models m00, m01, … and prompts p00, p01, …, every answer in place."""
    log = Log()
    if policy is not None:
        log.say(e.SettingsChanged(policy=policy))
    log.say(e.PhaseChanged(phase=phase))
    for model in range(models):
        log.say(e.ModelAdded(model=f"m{model:02d}", display_name=f"Model {model}", provider="maker"))
    for prompt in range(prompts):
        log.say(e.PromptAdded(prompt_id=f"p{prompt:02d}", text="?"))
        for model in range(models):
            name, asked = f"m{model:02d}", f"p{prompt:02d}"
            log.say(e.ResponseAdded(response_id=f"{name}/{asked}", model=name, prompt_id=asked, text="x"))
    return log


def honest(rng: np.random.Generator, gap: float, both_bad: float = HONEST_BOTH_BAD) -> e.Choice:
    """What an honest voter says of two answers whose models are this many Elo points apart."""
    u = rng.random()
    if u < both_bad:
        return e.Choice.BOTH_BAD
    if u < both_bad + HONEST_TIES:
        return e.Choice.TIE
    return e.Choice.A if rng.random() < 1.0 / (1.0 + 10.0 ** (-gap / 400.0)) else e.Choice.B


Chooser = Callable[[int, int, int], e.Choice]
"""What is said of two models (numbers, by side) on a prompt."""


def play(
    log: Log,
    votes: int,
    rng: np.random.Generator,
    choose: Chooser,
    *,
    voters: int = 40,
    close: float = 0.0,
    lanes: tuple[float, float, float, float] = (0.4, 0.3, 0.2, 0.1),
    after: int = MINUTE,
) -> None:
    """Random matchups by random voters; with `close` that share is between present neighbours of the board."""
    models, prompts = len(log.state.catalog.models), len(log.state.catalog.prompts)
    for number in range(votes):
        if close and number % RATED_EVERY == 0:
            log.rate()
        if rng.random() < close:
            order = log.state.order()
            place = int(rng.integers(min(9, len(order) - 1)))
            a, b = order[place], order[place + 1]
        else:
            a, b = (int(model) for model in rng.choice(models, 2, replace=False))
        if rng.random() < 0.5:
            a, b = b, a
        prompt = int(rng.integers(prompts))
        lane = e.LANES[int(rng.choice(4, p=lanes))]
        voter = f"v{int(rng.integers(voters)):03d}"
        log.meet(f"m{a:02d}", f"m{b:02d}", f"p{prompt:02d}", choose(a, b, prompt), voter, lane, after)


def honest_chooser(rng: np.random.Generator, strengths: np.ndarray, both_bad: float = HONEST_BOTH_BAD) -> Chooser:
    """Everybody votes by the models' true strengths (Elo points)."""
    return lambda a, b, prompt: honest(rng, float(strengths[a] - strengths[b]), both_bad)

"""Adaptive rounds of one dimension: which cases to judge next, and when the question is answered.

`AdaptiveRounds` is a pure function of the design, the settings and the outcomes that it was given: the same outcomes
give the same rounds, so a run that was killed repeats its rounds from the verdict cache and goes on. `forecast` plays
the rounds on imagined outcomes to say before the start what they will probably cost.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from tiltyard.battles import BattleTable, Codes, Outcome, Source
from tiltyard.boards import BradleyTerry
from tiltyard.errors import OptionError, RatingError
from tiltyard.judging.round_choice import Design, Estimates, RoundDecision, RoundGoal, choose, decide, interval_widths
from tiltyard.ratings.intervals import Covariance
from tiltyard.types import Bools, Floats, Ints

FAILED = -1
"""The outcome of a case that was asked about and has no verdict."""

ADDED_OPPONENTS = 0.1
"""Once all prompts were seen, a round adds this part of the other entrants as opponents on each prompt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundSettings:
    """How adaptive rounds go.

    Parameters:
        goal: What they go on for.
        opponents: How many opponents an entrant meets on a prompt, in each round; None: a third of the others, at least
            one and at most three.
        prompts: How many prompts a round has; None: so many that the first two thirds of the rounds see them all.
        maximum: How many rounds there are at most: the looks over which the error rate is divided.
        level: Confidence level of the decision.
        seed: Draws the order of the prompts and varies the opponents.
        calls_per_case: 2 where both orders are judged.
    """

    goal: RoundGoal
    opponents: int | None = None
    prompts: int | None = None
    maximum: int = 6
    level: float = 0.95
    seed: int = 0
    calls_per_case: int = 2

    def __post_init__(self) -> None:
        for name in ("opponents", "prompts", "maximum"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise OptionError(f"{name} of rounds is {value}; it must be at least 1.")
        if not 0.5 <= self.level < 1.0:
            raise OptionError(f"level of rounds is {self.level:g}; it must be at least 0.5 and below 1.")

    @property
    def interval_level(self) -> float:
        """The level of printed intervals: each holds with `level` whichever of the planned looks was the last."""
        return 1.0 - (1.0 - self.level) / self.maximum

    @property
    def sweep(self) -> int:
        """How many rounds see new prompts; those after them add opponents on the same prompts."""
        return max(1, self.maximum - self.maximum // 3)


@dataclass(frozen=True, slots=True)
class RoundRecord:
    """One round: cases judged and failed in it and so far, and what was known after it."""

    round: int
    cases: int
    cases_so_far: int
    failed: int
    open_entrants: int
    open_pairs: int
    told_apart: int
    contenders: int
    widest: float | None


@dataclass(slots=True)
class AdaptiveRounds:
    """The rounds of one dimension: `next_cases`, judge them, `take` their outcomes, until `stopped`."""

    design: Design
    settings: RoundSettings
    judged: Bools = field(init=False)
    outcome: Ints = field(init=False)
    score: Floats = field(init=False)
    decision: RoundDecision = field(init=False)
    estimates: Estimates | None = None
    records: list[RoundRecord] = field(default_factory=list)
    stopped: str | None = None

    def __post_init__(self) -> None:
        n, m = len(self.design), self.design.n_entrants
        self.judged = np.zeros(n, dtype=bool)
        self.outcome = np.full(n, FAILED, dtype=np.int64)
        self.score = np.full(n, np.nan)
        nothing = np.zeros((m, m), dtype=bool)
        rivals = ~np.eye(m, dtype=bool) if self.settings.goal.stops_on_order else nothing
        self.decision = RoundDecision(nothing, rivals, nothing, np.ones(m))
        if not n:
            self.stopped = "there is nothing to judge"

    @property
    def round(self) -> int:
        """The number of the next round, from 1."""
        return len(self.records) + 1

    def next_cases(self) -> Ints:
        """The cases of the next round, in the order of the design; none once it has stopped."""
        if self.stopped is not None:
            return np.empty(0, dtype=np.int64)
        settings, design = self.settings, self.design
        rng = np.random.default_rng([settings.seed, self.round])
        start = self._block * (self.round - 1)
        sweeping = start < design.n_prompts
        prompts = design.queue[start : start + self._block] if sweeping else design.queue
        opponents = self.opponents if sweeping else self._added
        only_rivals = settings.goal.kind == "top" or (settings.goal.kind == "order" and sweeping)
        chosen = self._choose(prompts, opponents, only_rivals, rng)
        if only_rivals and not len(chosen):
            chosen = self._choose(prompts, opponents, False, rng)
        if not len(chosen):
            self.stopped = "nothing is left to ask about the pairs that are open"
        return self._affordable(chosen, rng)

    def _choose(self, prompts: Ints, opponents: int, only_rivals: bool, rng: np.random.Generator) -> Ints:
        return choose(
            self.design,
            self.judged,
            prompts,
            self.decision.wanted,
            self.decision.rivals,
            None if self.estimates is None else self.estimates.strength,
            opponents=opponents,
            only_rivals=only_rivals,
            rng=rng,
        )

    @property
    def opponents(self) -> int:
        """How many opponents an entrant meets on a prompt while new prompts come."""
        return self.settings.opponents or max(1, min(3, (self.design.n_entrants - 1) // 3))

    @property
    def _block(self) -> int:
        """How many new prompts a round has."""
        return self.settings.prompts or max(1, math.ceil(self.design.n_prompts / self.settings.sweep))

    @property
    def _added(self) -> int:
        """How many opponents a round adds on each prompt once all prompts were seen."""
        return max(1, round(ADDED_OPPONENTS * (self.design.n_entrants - 1)))

    def _planned(self) -> Floats:
        """In how many cases each entrant will be at most when all rounds are over."""
        design, rounds = self.design, self.settings.maximum
        sweep = math.ceil(design.n_prompts / self._block)
        later = max(0, rounds - max(sweep, len(self.records) + 1))
        now = design.per_entrant(self.judged)
        left = min(design.n_prompts, self._block * rounds) - min(
            design.n_prompts, self._block * (len(self.records) + 1)
        )
        most = now + self.opponents * left + self._added * later * design.n_prompts
        return np.minimum(most, design.per_entrant(np.ones(len(design), dtype=bool)))

    def _affordable(self, chosen: Ints, rng: np.random.Generator) -> Ints:
        """As many of the cases as this round's part of the calls allows."""
        goal = self.settings.goal
        if goal.kind != "budget" or goal.limit is None:
            return chosen
        left = int(goal.limit) // self.settings.calls_per_case - int(self.judged.sum())
        rounds = max(1, self.settings.maximum - self.round + 1)
        most = math.ceil(left / rounds)
        return chosen if len(chosen) <= most else np.sort(rng.choice(chosen, most, replace=False))

    def take(self, cases: Ints, outcome: Ints, score: Floats | None = None) -> RoundRecord:
        """Take the outcomes of a round (`Outcome` codes, −1 where a case failed; `score` where they are soft)."""
        self.judged[cases] = True
        self.outcome[cases] = outcome
        if score is not None:
            self.score[cases] = score
        self.estimates = self._estimate() or self.estimates
        look, goal = self.round, self.settings.goal
        if self.estimates is not None:
            self.decision = decide(
                goal,
                self.design,
                self.judged,
                self.estimates,
                self.decision,
                planned=self._planned(),
                prompts=min(self.design.n_prompts, self._block * self.settings.maximum),
                level=self.settings.level,
                look=look,
                looks=self.settings.maximum,
            )
        record = self._record(look, cases, outcome)
        self.records.append(record)
        self.stopped = self._why_stop()
        return record

    def _record(self, number: int, cases: Ints, outcome: Ints) -> RoundRecord:
        decision = self.decision
        widest = None
        if self.estimates is not None:
            width = float(interval_widths(self.estimates, self.settings.interval_level).max())
            widest = width if math.isfinite(width) else None
        return RoundRecord(
            round=number,
            cases=len(cases),
            cases_so_far=int(self.judged.sum()),
            failed=int((outcome == FAILED).sum()),
            open_entrants=int((decision.wanted > 0.0).sum()),
            open_pairs=int(decision.rivals.sum()) // 2,
            told_apart=int(decision.above.sum()),
            contenders=len(self.contenders),
            widest=widest,
        )

    @property
    def contenders(self) -> list[int]:
        """The entrants that nobody was told apart above: all that are as good as the best are among them."""
        return np.flatnonzero(~self.decision.above.any(axis=0)).tolist()

    @property
    def settled(self) -> bool:
        """Whether the question is answered: not only given up, or out of rounds, cases or calls."""
        goal, decision = self.settings.goal, self.decision
        if goal.kind == "top":
            return len(self.contenders) == 1
        if goal.kind == "order":
            return int(decision.above.sum()) == self.design.n_entrants * (self.design.n_entrants - 1) // 2
        widest = self.records[-1].widest if self.records else None
        return goal.kind == "width" and widest is not None and widest <= (goal.limit or 0.0)

    def _why_stop(self) -> str | None:
        """Why no further round is needed or possible; None to go on."""
        goal = self.settings.goal
        if self.settled:
            words = {
                "top": "one entrant is told apart from all others",
                "order": "every two entrants are told apart",
                "width": f"no interval is wider than {goal.limit or 0.0:g} points",
            }
            return words[goal.kind]
        if self.judged.all():
            return "everything was judged"
        if goal.kind == "budget" and goal.limit is not None:
            left = int(goal.limit) // self.settings.calls_per_case - int(self.judged.sum())
            if left < 1:
                return "the calls of the budget are made"
        if len(self.records) >= self.settings.maximum:
            return "all planned rounds are over"
        if self.estimates is not None and self.decision.settled:
            return "the rounds that are left would hardly tell the remaining pairs apart"
        return None

    def _estimate(self) -> Estimates | None:
        """The fit of what was judged; None if it does not allow one yet."""
        rows = np.flatnonzero(self.judged & (self.outcome != FAILED))
        if not len(rows):
            return None
        return estimate(self.design, rows, self.outcome[rows], self.score[rows])


def estimate(design: Design, rows: Ints, outcome: Ints, score: Floats) -> Estimates | None:
    """The Bradley–Terry fit of some cases with errors by prompt; None if they do not allow one."""
    m = design.n_entrants
    table = BattleTable(
        models=tuple(f"{code:06d}" for code in range(m)),
        model_a=design.first[rows].astype(np.int32),
        model_b=design.second[rows].astype(np.int32),
        outcome=outcome.astype(np.int8),
        source=np.full(len(rows), Source.LLM_JUDGE, dtype=np.int8),
        weight=np.ones(len(rows)),
        score_a=None if np.isnan(score).all() else score,
        columns={"question_id": Codes(design.prompt[rows].astype(np.int32), [str(p) for p in range(design.n_prompts)])},
    ).compact()
    try:
        solved = BradleyTerry(only_connected=True).solve(table)
    except RatingError:
        return None
    covariance = solved.covariance
    if not isinstance(covariance, Covariance):
        return None
    here = np.array([int(name) for name in solved.fit_input.selected.table.models])
    strength, own, degrees = np.zeros(m), np.full(m, np.inf), np.zeros(m)
    variance, noise = np.full((m, m), np.inf), np.full((m, m), np.inf)
    strength[here] = solved.fit.parameters.strength
    own[here] = np.maximum(covariance.variances(), covariance.fisher_variances())
    degrees[here] = np.where(covariance.known, covariance.degrees, 0.0)
    square = np.ix_(here, here)
    variance[square] = covariance.differences()
    fisher = covariance.fisher[: len(here), : len(here)]
    noise[square] = np.diag(fisher)[:, None] + np.diag(fisher)[None, :] - 2.0 * fisher
    return Estimates(strength, own, variance, noise, degrees)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImaginedWorld:
    """What a forecast supposes: how far entrants differ, how much prompts do to each, and how often verdicts tie.

    Parameters:
        spread: Standard deviation of strengths in logits; 0.5 is 87 points.
        effects: Standard deviation, in logits, of what a prompt does to an entrant.
        ties: Share of ties between equals.
        strength: Known strengths, such as a pilot's; None draws them.
    """

    spread: float = 0.5
    effects: float = 1.0
    ties: float = 0.15
    strength: Floats | None = None

    def draw(self, design: Design, rng: np.random.Generator) -> tuple[Floats, Callable[[Ints], Ints]]:
        """Strengths, and a function that gives the outcomes of cases: the same case always has the same outcome."""
        m = design.n_entrants
        strength = rng.normal(0.0, self.spread, m) if self.strength is None else self.strength
        effect = rng.normal(0.0, self.effects, (design.n_prompts, m))
        uniform = rng.random(len(design))
        nu = 2.0 * self.ties / (1.0 - self.ties)

        def outcomes(cases: Ints) -> Ints:
            a, b, prompt = design.first[cases], design.second[cases], design.prompt[cases]
            half = 0.5 * (strength[a] - strength[b] + effect[prompt, a] - effect[prompt, b])
            win, lose = np.exp(half), np.exp(-half)
            u = uniform[cases] * (win + lose + nu)
            return np.where(u < win, Outcome.A, np.where(u < win + lose, Outcome.B, Outcome.TIE)).astype(np.int64)

        return strength, outcomes


def play(rounds: AdaptiveRounds, outcomes: Callable[[Ints], Ints]) -> None:
    """Play the rounds to their end."""
    while len(cases := rounds.next_cases()):
        rounds.take(cases, outcomes(cases))


def forecast(design: Design, settings: RoundSettings, world: ImaginedWorld, *, times: int = 10) -> list[int]:
    """How many cases the rounds took in imagined tournaments of the same shape, smallest first."""
    found = []
    for seed in range(times):
        rounds = AdaptiveRounds(design, settings)
        play(rounds, world.draw(design, np.random.default_rng([settings.seed, 1, seed]))[1])
        found.append(int(rounds.judged.sum()))
    return sorted(found)

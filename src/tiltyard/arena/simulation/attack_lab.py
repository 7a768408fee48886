"""What an attack on one model costs, on the real engine, with the defences on and off.

Honest people vote for 30 days, in sessions of 1 to 60 votes, each with a taste of their own, from address blocks that
some share with many. In the last days somebody who recognises a model tries to lift it. The engine serves both, with or
without the rule that a pair waits; the board is computed as the site does, with or without weights. How far a part of
the attack gets is found by leaving out its later votes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

import msgspec
import numpy as np

from tiltyard.arena.rules import events as e
from tiltyard.arena.rules.bounded_influence import expected_strengths
from tiltyard.arena.rules.events import Choice
from tiltyard.arena.rules.policy import DefenceRules, Policy, WaitingRules
from tiltyard.arena.rules.schedule import Reserved
from tiltyard.arena.rules.units import DAY, SECOND
from tiltyard.arena.rules.votes import VoteTable, vote_table
from tiltyard.arena.rules.weights import blocks_to_swap, weighed
from tiltyard.arena.simulation.attack_cost import RANKS, fewest
from tiltyard.arena.simulation.learning import learn
from tiltyard.arena.simulation.ledger import MemoryArena, opening
from tiltyard.arena.simulation.population import World
from tiltyard.arena.study.offline import published_estimator
from tiltyard.errors import OptionError
from tiltyard.stats import LOGITS_PER_POINT
from tiltyard.types import Bools, Floats

LabAttack = Literal["hunter", "hunter-long", "undo-filter", "carrier", "crowd-like", "dictionary", "rival", "random"]
"""`hunter` leaves every pair without the target and comes back as somebody new; `hunter-long` skips in one session;
`undo-filter` votes and undoes; `carrier` is a hunter who keeps a pair with the target unvoted and walks with its cookie
into every block before voting there as somebody new; `crowd-like` votes honestly on everything else; `dictionary` does
so too and recognises only answers whose author a receipt has told; `rival` hunts the model above the target and votes
against it; `random` clicks without reading."""
LAB_ATTACKS: tuple[LabAttack, ...] = get_args(LabAttack)

HONEST_DAYS = 30
TRIES = 200
"""Pairs that an attacker looks at before voting on one that does not help."""
SHORT_SESSION = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class LabSettings:
    """An attack and the arena it meets. Same settings, same result.

    `attack_votes` come from `blocks` address blocks over the last `days` of thirty; `votes` are honest. `sd` is the
    spread of the true strengths, `taste_sd` how much people differ in what they make of each model, both in Elo points.
    `policy` is that of the defended arena.
    """

    attack: LabAttack = "hunter"
    attack_votes: int = 512
    blocks: int = 50
    days: int = 7
    votes: int = 6_000
    models: int = 38
    prompts: int = 15
    sd: float = 180.0
    taste_sd: float = 60.0
    seed: int = 0
    policy: Policy = field(default_factory=Policy)

    def __post_init__(self) -> None:
        if self.attack not in LAB_ATTACKS:
            raise OptionError(f"attack is {self.attack!r}: expected one of {', '.join(LAB_ATTACKS)}.")
        for name, least in (("attack_votes", 1), ("blocks", 1), ("votes", 100), ("models", 8), ("prompts", 1)):
            if getattr(self, name) < least:
                raise OptionError(f"simulate: {name} is {getattr(self, name)}; it must be at least {least}.")
        if not 1 <= self.days <= HONEST_DAYS:
            raise OptionError(f"simulate: an attack over {self.days} days; take 1 to {HONEST_DAYS}.")


class LabResult(msgspec.Struct, frozen=True):
    """How far an attack got with the defences on or off. Ranks and points are Bradley–Terry's of the target.

    In an attack on a rival they are the points and places that the rival loses.

    `on_target` are the votes that were for the target (or against its rival), `passed` the pairs that were skipped,
    abandoned or undone on the way. `votes_for_places` and `votes_to_leave_range` are the fewest of the attack's votes
    that gain so many places, or lift the target above the range of ranks it had; None: more than were cast.
    `honest_weight_lost` is the share of honest weight that the defences cost, and `honest_voters_halved` the share of
    honest voters who lose more than half of theirs. `blocks_to_swap` says, for each model and the next one, how many
    blocks it takes to swap them, the best pair first; None: one vote from anywhere counts whole. `votes_to_learn` are
    the votes after which a `dictionary` attacker who is only after receipts knows such a share of the target's answers.
    """

    defended: bool
    attack_votes: int
    on_target: int
    passed: int
    points: float
    points_per_vote: float
    votes_for_places: dict[int, int | None]
    votes_to_leave_range: int | None
    honest_weight_lost: float
    honest_voters_halved: float
    blocks_to_swap: tuple[int | None, ...]
    votes_to_learn: dict[float, int | None] | None = None


def attack_lab(settings: LabSettings, *, defended: bool) -> LabResult:
    """Play an attacked arena and measure what the attack achieved.

    If it is `defended`, the pair waits and votes are weighed, as the policy says; else neither.
    """
    policy = settings.policy
    if not defended:
        off = {"waiting": WaitingRules(pairs_wait=False), "defences": DefenceRules(on=False)}
        policy = msgspec.structs.replace(policy, **off)
    play = _Play(settings, policy)
    play.run()
    state = play.engine.state
    table = vote_table(play.engine.votes(), state.catalog)
    attacks = np.array([name.startswith("attacker") for name in table.voters])[table.voter]
    down = settings.attack == "rival"
    boards = _Boards(table, attacks, policy, play.rival if down else play.target, -1.0 if down else 1.0)
    cast = int(attacks.sum())
    points = boards.points(cast)
    weight = weighed(table, policy.defences).weight[~attacks]
    kept = np.bincount(table.voter[~attacks], weight) / np.maximum(np.bincount(table.voter[~attacks]), 1)
    learned = None
    if settings.attack == "dictionary":  # the better of two ways: with patience, or voting on everything
        asked = {"target": play.target, "blocks": settings.blocks, "days": settings.days}
        events = list(opening(policy, models=settings.models, prompts=settings.prompts))
        ways = [
            learn(events, **asked, most_votes=settings.attack_votes, patient=patient, seed=settings.seed)
            for patient in (True, False)
        ]
        never = settings.attack_votes + 1
        learned = min(ways, key=lambda way: [never if votes is None else votes for votes in way.values()][::-1])
    return LabResult(
        defended=defended,
        attack_votes=cast,
        on_target=play.on_target,
        passed=play.passed,
        points=points,
        points_per_vote=points / cast,
        votes_for_places={places: boards.cost(boards.start - places) for places in RANKS},
        votes_to_leave_range=boards.cost(boards.best_in_range() - 1),
        honest_weight_lost=float(1.0 - weight.mean()),
        honest_voters_halved=float((kept[np.unique(table.voter[~attacks])] < 0.5).mean()),
        blocks_to_swap=boards.blocks_to_swap(),
        votes_to_learn=learned,
    )


class _Play:
    """Thirty days of an arena, session by session, with the attack's votes in between."""

    def __init__(self, settings: LabSettings, policy: Policy) -> None:
        rng = np.random.default_rng([settings.seed, 5])
        self.settings, self.rng = settings, rng
        self._passes = policy.waiting.prompts + 1 if settings.attack in ("hunter-long", "undo-filter") else 1
        self._waits = policy.waiting.pairs_wait
        self._period = policy.retention.network_days * DAY
        self.world = World.draw(rng, settings.models, settings.prompts, sd=settings.sd, taste_sd=settings.taste_sd)
        order = np.argsort(-self.world.strength, kind="stable")
        self.target = int(order[settings.models // 2])
        self.rival = int(order[settings.models // 2 - 1])
        self.engine = MemoryArena(settings.seed)
        self.engine.append(opening(policy, models=settings.models, prompts=settings.prompts), 0)
        self.on_target = self.passed = 0
        self._known: set[int] = set()
        self._carrier: tuple[str, str] | None = None
        self._seen: dict[str, Counter[frozenset[int]]] = {}
        self._sessions = 0

    def run(self) -> None:
        settings, since = self.settings, (HONEST_DAYS - self.settings.days) * DAY
        sessions = list(self._honest_sessions())
        for number in range(settings.attack_votes):
            at = since + int(self.rng.integers(settings.days * DAY))
            sessions.append((at, f"attack-{number % settings.blocks}", 0))
        for at, block, votes in sorted(sessions, key=lambda each: each[0]):
            if votes:
                self._honest(at, block, votes)
            else:
                self._attack(at, block)

    def _honest_sessions(self) -> Iterator[tuple[int, str, int]]:
        rng, left = self.rng, self.settings.votes
        blocks = max(20, self.settings.votes // 15)
        share = rng.pareto(1.2, blocks) + 1.0
        until = np.cumsum(share / share.sum())
        while left:
            votes = min(left, int(rng.integers(1, 61)) if rng.random() < 0.3 else int(rng.integers(1, 12)))
            left -= votes
            block = min(int(np.searchsorted(until, rng.random())), blocks - 1)
            yield int(rng.integers(HONEST_DAYS * DAY)), f"block-{block}", votes

    def _key(self, block: str, at: int) -> str:
        """What stands for an address block at a time: another key in every period."""
        return f"{block}/{at // self._period}"

    def _honest(self, at: int, block: str, votes: int) -> None:
        self._sessions += 1
        block = self._key(block, at)
        voter, taste, engine = f"honest-{self._sessions}", self.world.taste(self.rng), self.engine
        for number in range(votes):
            now = at + number * 20 * SECOND
            matchup_id = engine.serve(voter, now, block)
            if self.rng.random() < 0.02:
                engine.skip(matchup_id, now)
                matchup_id = engine.serve(voter, now, block)
            shown = engine.state.schedule.in_flight[matchup_id]
            engine.vote(matchup_id, self.world.opinion(self.rng, shown, taste), now)

    def _attack(self, at: int, block: str) -> None:
        """One vote of the attack, after as many pairs passed over as that takes."""
        if self._carrier is not None:
            block = self._carry(at, block)
        seen = self._seen.setdefault(self._key(block, at), Counter())
        stays = self.settings.attack in ("crowd-like", "dictionary")
        for attempt in range(TRIES):
            voter, now = self._voter(block), at + attempt * SECOND
            matchup_id = self.engine.serve(voter, now, self._key(block, at))
            shown = self.engine.state.schedule.in_flight[matchup_id]
            pair = frozenset((shown.a, shown.b))
            choice = self._wanted(shown)
            carries = self.settings.attack == "carrier" and self._waits and self.settings.blocks > 1
            if choice is not None and carries and self._carrier is None:
                self._carrier = voter, block  # it keeps this pair unvoted, for other blocks
                self.engine.skip(matchup_id, now)
                block = self._carry(now, block)
                seen = self._seen.setdefault(self._key(block, at), Counter())
                continue
            if choice is not None:
                self.on_target += 1
            elif self.settings.attack == "random":
                choice = Choice.A if self.rng.random() < 0.5 else Choice.B
            elif stays or (self._waits and seen[pair] >= self._passes) or attempt == TRIES - 1:
                choice = self.world.opinion(self.rng, shown)
            if choice is not None:
                del seen[pair]
                self.engine.vote(matchup_id, choice, now)
                if self.target in pair:
                    self._known.add(shown.prompt)
                return
            seen[pair] += 1
            self._pass(matchup_id, now)

    def _carry(self, at: int, block: str) -> str:
        """Walk with the cookie that has a pair with the target into a block, or the next, and skip it there.

        The vote is cast in that block: a vote in the block where the pair was found would settle it.
        """
        assert self._carrier is not None
        voter, found_in = self._carrier
        if block == found_in:
            block = f"attack-{(int(block.rpartition('-')[2]) + 1) % self.settings.blocks}"
        matchup_id = self.engine.serve(voter, at, self._key(block, at))
        shown = self.engine.state.schedule.in_flight[matchup_id]
        if self.target not in (shown.a, shown.b):
            self._carrier = None
        self.passed += 1
        self.engine.skip(matchup_id, at)
        return block

    def _voter(self, block: str) -> str:
        """Whom the next request comes from: somebody new after a few votes, or always the same in a long session."""
        if self.settings.attack == "hunter-long":
            return f"attacker-{block}"
        self._sessions += self.settings.attack in ("hunter", "rival", "carrier")
        return f"attacker-{block}-{(self.on_target + self.passed) // SHORT_SESSION}-{self._sessions}"

    def _wanted(self, shown: Reserved) -> Choice | None:
        """The vote that helps; None where the pair does not."""
        attack, pair = self.settings.attack, (shown.a, shown.b)
        if attack == "rival":
            return None if self.rival not in pair else Choice.B if shown.a == self.rival else Choice.A
        if attack == "random" or self.target not in pair:
            return None
        if attack == "dictionary" and shown.prompt not in self._known:
            return None
        return Choice.A if shown.a == self.target else Choice.B

    def _pass(self, matchup_id: str, at: int) -> None:
        self.passed += 1
        if self.settings.attack == "undo-filter":
            self.engine.append([e.Voted(matchup_id=matchup_id, choice=Choice.A, undo_until=at + 5 * SECOND)], at)
            self.engine.append([e.Undone(matchup_id=matchup_id)], at)
        elif self.settings.attack == "hunter-long":
            self.engine.skip(matchup_id, at)
        else:
            self.engine.expire(matchup_id, at)


@dataclass(slots=True)
class _Boards:
    """The boards of all honest votes and the first so many of the attack; with direction −1, upside down."""

    votes: VoteTable
    attacks: Bools
    policy: Policy
    target: int
    direction: float
    start: int = field(init=False)
    _before: Floats = field(init=False)

    def __post_init__(self) -> None:
        self._before = self._strengths(0)
        self.start = self._rank(self._before)

    def points(self, pushed: int) -> float:
        return float(self._strengths(pushed)[self.target] - self._before[self.target]) / LOGITS_PER_POINT

    def cost(self, wanted: int) -> int | None:
        most = int(self.attacks.sum())
        return None if wanted < 1 else fewest(most, lambda pushed: self._rank(self._strengths(pushed)) <= wanted)

    def best_in_range(self) -> int:
        """The best place in the target's published range of ranks before the attack."""
        estimator = replace(published_estimator(self.policy.intervals), misfit=False)
        board = estimator.fit(self._part(0).battles())
        entry = board[self.votes.models[self.target]]
        if self.direction < 0.0:
            return len(board) + 1 - (entry.rank_high or len(board))
        return entry.rank_low or 1

    def blocks_to_swap(self) -> tuple[int | None, ...]:
        """For each two neighbours, how many blocks at their limit lift the lower one above the other."""
        order = [self.votes.models[number] for number in np.argsort(-self.direction * self._before, kind="stable")]
        return blocks_to_swap(self._part(0), order, self.policy.defences)

    def _part(self, pushed: int) -> VoteTable:
        keep = ~self.attacks | (np.cumsum(self.attacks) <= pushed)
        names = ("at", "model_a", "model_b", "prompt", "voter", "outcome", "block")
        part = replace(self.votes, **{name: getattr(self.votes, name)[keep] for name in names}, matchup_ids=())
        return weighed(replace(part, weight=np.zeros(0)), self.policy.defences)

    def _strengths(self, pushed: int) -> Floats:
        part = self._part(pushed)
        rated, n = part.rated, len(part.models)
        pair = part.model_a[rated] * n + part.model_b[rated]
        result = expected_strengths(pair, part.score_a()[rated], part.weight[rated], np.zeros(n))
        return self.direction * result

    def _rank(self, strength: Floats) -> int:
        return 1 + int((strength > strength[self.target]).sum())

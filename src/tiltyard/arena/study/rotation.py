"""How much of a bank of prompts is known to voters, and which prompts to replace by fresh ones.

Who votes sees the names afterwards: a receipt tells who wrote two answers. A bank that never changes is learned by
heart in the end, and a voter who knows an answer's author is not blind. Fresh prompts are the remedy.
"""

from __future__ import annotations

import math

import msgspec
import numpy as np

from tiltyard.arena.rules.state import ArenaState
from tiltyard.errors import OptionError

LEARNED = (0.5, 0.8, 0.9)
"""Shares of a model's answers for which it is said how many votes teach them."""

STEPS = (0, 1, 5, 10, 20, 50, 100, 200, 500, 1000)
"""The lower ends of the groups in which answers are counted by how often they were named."""

OFTEN = 100
"""An answer named more often than this counts as exposed."""


class PromptExposure(msgspec.Struct, frozen=True):
    """One prompt: whether it is served, kept for later or retired, and how often its answers were shown.

    `most_shown` is that of its most shown answer, `mean_shown` that of all its answers.
    """

    prompt_id: str
    status: str
    most_shown: int
    mean_shown: float


class BankExposure(msgspec.Struct, frozen=True):
    """How much of the bank is known. `answers` are those to prompts that are on; `learning` counts votes.

    Named means that a vote on the answer counts: its author was told. Matchups without a vote are not counted here, so
    that nobody can ask what the pair in front of them changes. `named_groups` counts answers by how often they were
    named, from each of `STEPS` on. A vote may also tell the authors of what its block was shown of the pair before, so
    that it names up to `named_by_a_vote` answers. `learning` says how many votes teach someone so much of one model's
    answers, by the share of `LEARNED`, if the bank stays as it is: from one address block, and from many.
    """

    prompts_on: int
    prompts_fresh: int
    prompts_resting: int
    prompts_reserved: int
    prompts_retired: int
    answers: int
    answers_never_named: int
    answers_often_named: int
    answers_telling: int
    answers_withheld: int
    votes: int
    median_named: float
    most_named: int
    named_groups: tuple[tuple[int, int], ...]
    exposure: float
    named_by_a_vote: int
    learning: tuple[tuple[float, int, int], ...]

    @property
    def exposed(self) -> float:
        """The share of these answers whose author was named more than `OFTEN` times."""
        return self.answers_often_named / self.answers if self.answers else 0.0


def votes_to_learn(share: float, prompts: int, exposure: float, prompts_named: int = 1) -> int:
    """How many votes teach someone this share of one model's answers, on average, from one address block.

    A vote shows the model with probability `exposure`, and its names are those of `prompts_named` of the prompts, since
    the pair can be seen on so many before the vote. So after n votes a share of 1 − (1 − exposure · named / prompts)ⁿ
    is known. The readers of `simulation.learning`, who conclude the rest by exclusion, need 0.6 to 1.6 times as many.
    """
    if prompts < 1 or not 0.0 < exposure <= 1.0:
        return 0
    seen = min(exposure * min(prompts_named / prompts, 1.0), 1.0 - 1e-12)
    return math.ceil(math.log1p(-share) / math.log1p(-seen))


def votes_from_many_blocks(share: float, prompts: int, exposure: float, prompts_named: int = 1) -> int:
    """The same for people in many address blocks, who look at more pairs than they vote on.

    In a week, those of 50 blocks leave nearly all that teaches nothing: the luckiest needed about three quarters of the
    votes that it takes to meet every answer once, others four times as many.
    """
    if prompts < 1 or not 0.0 < exposure <= 1.0:
        return 0
    return math.ceil(0.75 * share * prompts / (exposure * min(prompts_named, prompts)))


def bank_exposure(state: ArenaState) -> BankExposure:
    """How much of the bank is known by now, from counted votes."""
    catalog = state.catalog
    status = [line.status for line in prompt_exposures(state)]
    on = np.array(catalog.prompt_enabled, dtype=bool)
    models = np.array(catalog.model_enabled, dtype=bool)
    votes = state.tallies.rated_on.view + state.tallies.both_bad_on.view
    named = votes[(catalog.answered.view > 0) & on[None, :] & models[:, None]]
    groups = np.searchsorted(np.array(STEPS), named, side="right") - 1
    counts = np.bincount(groups, minlength=len(STEPS)).tolist()
    players = int(models.sum())
    even = min(2.0 / players, 1.0) if players else 0.0
    waiting, prompts_on = state.policy.waiting, int(on.sum())
    at_once = min(waiting.prompts, max(prompts_on, 1)) if waiting.pairs_wait else 1
    learned = (prompts_on, even, at_once)
    return BankExposure(
        prompts_on=prompts_on,
        prompts_fresh=status.count("fresh"),
        prompts_resting=status.count("resting"),
        prompts_reserved=status.count("reserved"),
        prompts_retired=status.count("retired"),
        answers=len(named),
        answers_never_named=int((named == 0).sum()),
        answers_often_named=int((named > OFTEN).sum()),
        answers_telling=len(catalog.telling.intersection(catalog.response_ids.values())),
        answers_withheld=len(catalog.withheld()),
        votes=int(votes.sum()) // 2,
        median_named=float(np.median(named)) if len(named) else 0.0,
        most_named=int(named.max(initial=0)),
        named_groups=tuple(zip(STEPS, counts, strict=True)),
        exposure=even,
        named_by_a_vote=2 * at_once,
        learning=tuple(
            (share, votes_to_learn(share, *learned), votes_from_many_blocks(share, *learned)) for share in LEARNED
        ),
    )


def prompt_exposures(state: ArenaState) -> list[PromptExposure]:
    """Every prompt: served (`on`, or `fresh` and on), `resting`, kept for later (`reserved`), or `retired`."""
    catalog = state.catalog
    fresh = fresh_prompts(state)
    answers = np.maximum(catalog.answered.view.sum(axis=0), 1)
    most, mean = catalog.shown.view.max(axis=0, initial=0), catalog.shown.view.sum(axis=0) / answers
    lines = []
    for number, card in enumerate(catalog.prompts):
        if not catalog.prompt_enabled[number]:
            status = "reserved" if catalog.prompt_reserved[number] else "retired"
        elif catalog.resting[number]:
            status = "resting"
        else:
            status = "fresh" if fresh[number] else "on"
        lines.append(PromptExposure(card.prompt_id, status, int(most[number]), round(float(mean[number]), 1)))
    return lines


def fresh_prompts(state: ArenaState) -> list[bool]:
    """By prompt: whether it is fresh. It joined after voting had begun, and its answers were shown little so far."""
    fresh = state.catalog.fresh(state.policy.bank.fresh_until)
    return [False] * len(state.catalog.prompts) if fresh is None else fresh.tolist()


class Rotation(msgspec.Struct, frozen=True):
    """Prompts to retire, the most shown first, and prompts kept for later to serve from now on; `on` afterwards."""

    retire: tuple[str, ...]
    serve: tuple[str, ...]
    on: int


def plan_rotation(
    state: ArenaState,
    *,
    keep: int | None = None,
    fresh_share: float | None = None,
    seen_at_most: int | None = None,
) -> Rotation:
    """Which prompts to retire, and which of those kept for later to serve instead.

    A share of the prompts that are on is replaced, the most shown ones, and all with an answer shown `seen_at_most`
    times; as far as there are prompts that were kept for later and never shown. Without any, only prompts over the
    limit are retired. Never fewer than the policy's least number of prompts stay on. `keep` says how many are to be on
    afterwards, else as many as now; share and limit are the policy's if not given, and a limit of 0 is none.
    """
    rules, catalog = state.policy.bank, state.catalog
    share = rules.fresh_share if fresh_share is None else fresh_share
    limit = rules.seen_at_most if seen_at_most is None else seen_at_most
    if not 0.0 <= share <= 1.0:
        raise OptionError(f"fresh_share is {share}; it is a share between 0 and 1.")
    least = max(rules.least_prompts, state.policy.adjacent_floor_prompts)
    if keep is not None and keep < least:
        raise OptionError(f"keep is {keep}; the policy keeps at least {least} prompts on (bank.least_prompts).")
    shown = catalog.shown.view.max(axis=0, initial=0).tolist()
    on = [p for p, enabled in enumerate(catalog.prompt_enabled) if enabled]
    on.sort(key=lambda p: (-shown[p], p))
    wanted = len(on) if keep is None else keep
    over = sum(bool(limit) and shown[p] >= limit for p in on)
    replaced = max(math.ceil(share * len(on) - 1e-9), over)
    waiting = _waiting(state)
    serve = waiting[: max(replaced + wanted - len(on), 0)]
    leave = min(max(len(on) + len(serve) - wanted, over), max(len(on) + len(serve) - least, 0))
    leave = min(leave, sum(shown[p] > 0 for p in on))
    names = [card.prompt_id for card in catalog.prompts]
    return Rotation(tuple(names[p] for p in on[:leave]), tuple(names[p] for p in serve), len(on) + len(serve) - leave)


def _waiting(state: ArenaState) -> list[int]:
    """The prompts kept for later that were never shown and that two models can meet on, in the order of the bank."""
    catalog = state.catalog
    models = np.array(catalog.model_enabled, dtype=bool)
    answered = (catalog.answered.view > 0) & models[:, None]
    for cell in catalog.withheld():
        answered[cell] = False
    return [
        prompt
        for prompt, reserved in enumerate(catalog.prompt_reserved)
        if reserved and answered[:, prompt].sum() >= 2 and not catalog.was_shown(prompt)
    ]

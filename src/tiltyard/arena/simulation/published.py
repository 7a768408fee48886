"""What the site publishes, held against the truth at the end and at every look: intervals, ranges of ranks, badges.

The fit is the one behind the published board, with the policy's own settings. The truth is what that fit tends to as
voters (and, if intervals are to speak for them, prompts) grow in number while everybody meets everybody as often as
here: people of different tastes make differences look smaller than they are to each of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec
import numpy as np

from tiltyard.analysis.boards import BradleyTerry, Leaderboard
from tiltyard.arena.rules.catalog import Catalog
from tiltyard.arena.rules.policy import IntervalRules, SpeakFor
from tiltyard.arena.rules.state import ArenaState
from tiltyard.arena.rules.votes import VoteColumns, VoteTable, vote_table
from tiltyard.arena.simulation.population import World
from tiltyard.arena.study.board import Evidence, live_board, official_order
from tiltyard.arena.study.offline import published_estimator, tau
from tiltyard.arena.study.publication import Badge
from tiltyard.arena.study.replay import evidence_of, replay
from tiltyard.data.battles import BattleTable, Outcome, Source
from tiltyard.errors import BattleError, RatingError
from tiltyard.stats import LOGITS_PER_POINT
from tiltyard.types import Floats, Ints

SAME = 1e-4
"""Models whose true ratings differ by less than this many points are equal: neither is to be ranked above the other."""

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(41)


class BadgeCheck(msgspec.Struct, frozen=True):
    """The board at one look: its Stable models, those more than one place from their true one, and the label."""

    stable: int
    stable_off: int
    label: bool
    unmet: tuple[str, ...]
    """The rules that keep it from being officially stable, each with what was found."""


class BadgeSummary(msgspec.Struct, frozen=True):
    """What badges and label were worth over a run; votes are those cast until then, None: never.

    `stable_seen` counts Stable models over all looks and `stable_off` those of them that stood more than one place from
    their true one.
    """

    stable: int
    stable_seen: int
    stable_off: int
    first_stable: int | None
    label_from: int | None
    """From which look on the board was officially stable without a break until the end."""
    label_first: int | None
    label_looks: int
    unmet: tuple[str, ...]


class PublishedCheck(msgspec.Struct, frozen=True):
    """How the published board compares with the truth, after so many votes; None where the votes cannot be rated.

    `intervals` is the share of intervals that contain the truth, `ranks_hold` whether every range of ranks does, and
    `told_apart` how many pairs of models have ranges that do not overlap.
    """

    votes: int
    tau: float | None = None
    intervals: float | None = None
    ranks_hold: bool | None = None
    told_apart: int = 0
    remarks: tuple[str, ...] = ()
    badges: BadgeCheck | None = None
    """Badges and label, where they were looked at."""


def check_published(
    votes: VoteColumns,
    catalog: Catalog,
    rules: IntervalRules,
    world: World,
    noise: float = 0.0,
    *,
    misfit: bool = True,
    state: ArenaState | None = None,
) -> PublishedCheck:
    """Rate votes as the site does and compare with the truth; `noise` is the share of random honest votes.

    Without `misfit` the fit is not checked: the same board sooner, without its remarks on that. With the `state` after
    these votes, badges and label are looked at too.
    """
    table = vote_table(votes, catalog)
    try:
        board = replace(published_estimator(rules), misfit=misfit).fit(table.battles())
        target = expected_board(table, world, rules.speak_for, noise)
    except (BattleError, RatingError) as error:
        return PublishedCheck(len(votes), remarks=(str(error),))
    truth = np.array([target[entry.model].rating for entry in board])
    rating = np.array([entry.rating for entry in board])
    ends = np.array([(entry.ci_low, entry.ci_high) for entry in board], dtype=np.float64)
    known = ~np.isnan(ends).all(axis=1)
    at = truth[known] - truth[known].mean() + rating[known].mean() if known.any() else truth[known]
    inside = ~((ends[known, 0] > at) | (ends[known, 1] < at))  # an end that is not known leaves nothing out
    low, high = _rank_ranges(board)
    return PublishedCheck(
        len(votes),
        tau(np.column_stack([rating, truth])),
        float(inside.mean()) if known.any() else None,
        ranks_hold(board, truth),
        int((high[:, None] < low[None, :]).sum()),
        tuple(board.remarks),
        None if state is None else check_badges(state, table, board, truth),
    )


def expected_board(table: VoteTable, world: World, speak_for: SpeakFor, noise: float = 0.0) -> Leaderboard:
    """The board of the votes that everybody would cast on average, every pair as often on every prompt as here."""
    rated = table.rated
    cell = np.column_stack([table.model_a[rated], table.model_b[rated], table.prompt[rated]])
    cell, count = np.unique(cell, axis=0, return_counts=True)
    a, b, prompt = cell.T
    if speak_for == "these_prompts":
        on_prompt = np.array(world.on_prompt)
        gap, spread = on_prompt[a, prompt] - on_prompt[b, prompt], world.taste_sd
    else:
        gap, spread = world.strength[a] - world.strength[b], float(np.hypot(world.taste_sd, world.wobble_sd))
    chance = _chances(gap, np.sqrt(2.0) * spread, world.tie_weight)
    random = np.array([0.5, 0.5, 0.0])
    chance = (1.0 - noise) * chance + noise * random
    outcomes = np.array([Outcome.A.code, Outcome.B.code, Outcome.TIE.code], dtype=np.int8)
    weight = (count[:, None] * chance).ravel()
    used = weight > 0.0
    battles = BattleTable(
        models=table.models,
        model_a=np.repeat(a, 3)[used].astype(np.int32),
        model_b=np.repeat(b, 3)[used].astype(np.int32),
        outcome=np.tile(outcomes, len(a))[used],
        source=np.full(int(used.sum()), Source.HUMAN.code, dtype=np.int8),
        weight=weight[used],
        columns={},
    ).compact()
    return BradleyTerry(ci="none", only_connected=True).fit(battles)


def _chances(gap: Floats, spread: float, tie_weight: float) -> Floats:
    """The chances of A, B and a tie by Davidson, where gaps vary normally between people by `spread` points."""
    weights = _WEIGHTS / _WEIGHTS.sum()
    half = 0.5 * LOGITS_PER_POINT * (gap[:, None] + spread * _NODES[None, :])
    for_a, for_b = np.exp(half), np.exp(-half)
    total = for_a + for_b + tie_weight
    return np.column_stack([(part / total) @ weights for part in (for_a, for_b, np.full_like(total, tie_weight))])


def _rank_ranges(board: Leaderboard) -> tuple[Ints, Ints]:
    low = np.array([entry.rank_low or 1 for entry in board])
    return low, np.array([entry.rank_high or len(low) for entry in board])


def ranks_hold(board: Leaderboard, truth: Floats) -> bool:
    """Whether every range of ranks contains every rank that the model could truly be given."""
    above = (truth[None, :] > truth[:, None] + SAME).sum(axis=1)
    level = (truth[None, :] >= truth[:, None] - SAME).sum(axis=1)
    low, high = _rank_ranges(board)
    return bool((low <= 1 + above).all() and (high >= level).all())


def check_badges(state: ArenaState, table: VoteTable, board: Leaderboard, truth: Floats) -> BadgeCheck:
    """The live board with the evidence of all counted votes, held against the true ratings of the models of `board`."""
    enabled = [state.catalog.models[model].model for model in official_order(state)]
    result = evidence_of(table, None, replay(table, state.policy), state.policy, state.phase, enabled)
    places = {entry.model: (entry.rank_low, entry.rank_high) for entry in board if entry.rank_low and entry.rank_high}
    shown = live_board(state, evidence=Evidence(places, result.largest_voter, result.earlier))
    models = [entry.model for entry in board]
    true_place = {models[i]: place for place, i in enumerate(np.argsort(-truth, kind="stable").tolist(), start=1)}
    stable = [row for row in shown.rows if row.badge is Badge.STABLE]
    return BadgeCheck(
        len(stable),
        sum(abs(row.rank - true_place[row.model]) > 1 for row in stable),
        shown.publication.status == "officially stable",
        tuple(
            rule.name if rule.value is None else f"{rule.name} {rule.value:.3g}"
            for rule in shown.publication.deciding
            if not rule.met
        ),
    )


def badge_summary(looks: Sequence[tuple[int, BadgeCheck]]) -> BadgeSummary | None:
    """The checks of all looks together, each with the votes cast by then; None without a look."""
    if not looks:
        return None
    reached = [votes for votes, check in looks if check.label]
    lasting: int | None = None
    for votes, check in reversed(looks):
        if not check.label:
            break
        lasting = votes
    return BadgeSummary(
        stable=looks[-1][1].stable,
        stable_seen=sum(check.stable for _, check in looks),
        stable_off=sum(check.stable_off for _, check in looks),
        first_stable=next((votes for votes, check in looks if check.stable), None),
        label_from=lasting,
        label_first=reached[0] if reached else None,
        label_looks=len(reached),
        unmet=looks[-1][1].unmet,
    )

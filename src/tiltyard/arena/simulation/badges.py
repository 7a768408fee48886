"""Whether badges and the label mean what they say: held against the truth at every look of a simulation."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from tiltyard.arena.board import Evidence, live_board, official_order
from tiltyard.arena.following.evidence import evidence_of
from tiltyard.arena.following.replay import replay
from tiltyard.arena.state import ArenaState
from tiltyard.arena.votes import VoteTable
from tiltyard.boards.leaderboard import Leaderboard
from tiltyard.types import Floats
from tiltyard.validity.publication import Badge


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


def check_badges(state: ArenaState, table: VoteTable, board: Leaderboard, truth: Floats) -> BadgeCheck:
    """The live board with the evidence of all votes, held against the truth.

    Parameters:
        state: The arena.
        table: Its counted votes.
        board: Bradley–Terry over them, as published.
        truth: The true rating of each model of that board.
    """
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
        tuple(_found(rule.name, rule.value) for rule in shown.publication.deciding if not rule.met),
    )


def _found(name: str, value: float | None) -> str:
    return name if value is None else f"{name} {value:.3g}"


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

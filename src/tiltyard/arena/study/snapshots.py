"""What the observatory publishes: an arena at one moment as immutable values, and how they are computed."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from tiltyard.arena.rules.blindness import is_blind
from tiltyard.arena.rules.policy import Policy
from tiltyard.arena.rules.ratings import Ratings
from tiltyard.arena.rules.state import ArenaState
from tiltyard.arena.rules.units import HOUR
from tiltyard.arena.rules.votes import VoteTable
from tiltyard.arena.rules.weights import ContestedModel
from tiltyard.arena.study.board import Evidence, LiveBoard, live_board
from tiltyard.arena.study.offline import OfflineBoard
from tiltyard.arena.study.replay import Movement, Replay
from tiltyard.arena.study.weekly import WeeklyReport
from tiltyard.errors import ArenaError
from tiltyard.types import named

Ints = NDArray[np.int32]

WEEK_DAYS = 7


class ModelFacts(msgspec.Struct, frozen=True):
    """Who a model is."""

    number: int
    """Its number in the log."""
    model: str
    """Its id."""
    display_name: str
    """What it is called on the site."""
    provider: str
    """Who makes it."""
    licence: str
    """Under what its weights or answers are licensed."""
    link: str
    """Where to read about it."""
    enabled: bool
    """Whether it is served."""
    price: float | None = None
    """US dollars for a million tokens of output, as stated; None: not stated."""
    speed: float | None = None
    """Tokens of output per second, as stated."""


class PromptFacts(msgspec.Struct, frozen=True):
    """What a prompt is about; its text stays in the store."""

    number: int
    prompt_id: str
    subject: str | None
    tags: tuple[str, ...]
    enabled: bool
    language: str = ""
    kind: str = ""
    """The kind of its answers."""

    @property
    def categories(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(filter(None, (self.subject, *self.tags))))


class Study(msgspec.Struct, frozen=True, eq=False):
    """Results from all counted votes up to event `seq`: Bradley–Terry, weekly report, movements."""

    seq: int
    votes: VoteTable
    """With their weights."""
    replay: Replay
    ratings: Ratings
    """The published ratings."""
    offline: OfflineBoard | None
    offline_trouble: str
    """Why there is no offline board, if there is none."""
    evidence: Evidence | None
    """What badges and the label rest on."""
    weekly: WeeklyReport
    moved: Mapping[str, Movement]
    categories: Mapping[str, int]
    """Categories of prompts with the number of counted votes on them, the largest first."""
    languages: Mapping[str, int] = {}
    """The same of languages of prompts."""
    kinds: Mapping[str, int] = {}
    """The same of answer kinds."""
    contested: tuple[ContestedModel, ...] = ()
    """Models whose latest votes differ from earlier ones; an operator decides what that means."""
    blocks_to_swap: Mapping[tuple[str, str], int] = {}
    """How many address blocks it takes to swap two neighbours; empty while votes are not weighed."""


class Snapshot(msgspec.Struct, frozen=True, eq=False):
    """The arena after event `seq`. Grids are by model number and cannot be written."""

    seq: int
    log_hash: str
    """The hash of that event, which is not public."""
    head: str
    """The latest head that was published."""
    at: int
    """When that was, rounded down to the hour."""
    policy: Policy
    blind: bool
    """Whether the answers that are being voted on are hidden."""
    board: LiveBoard
    models: tuple[ModelFacts, ...]
    prompts: tuple[PromptFacts, ...]
    wins: Ints
    ties: Ints
    both_bad: Ints
    ratings: Ratings
    study: Study
    edition: int
    """Numbers the published snapshots: two snapshots of the same event may differ in later study results."""
    answers_off: frozenset[str] = frozenset()
    """The ids of the answers that an administrator switched off."""

    def model(self, name: str) -> ModelFacts:
        """A model by its id; an unknown one is an `ArenaError`."""
        for facts in self.models:
            if facts.model == name:
                return facts
        raise ArenaError(f"there is no model {name!r} in this arena.")


def snapshot_of(state: ArenaState, log_hash: str, study: Study, edition: int) -> Snapshot:
    """A snapshot of a state, with a study that may be a little older."""
    catalog, tallies, state = state.catalog, state.tallies, state.showing(study.ratings)
    return Snapshot(
        seq=state.seq,
        log_hash=log_hash,
        head=state.head,
        at=state.at // HOUR * HOUR,
        policy=state.policy,
        blind=is_blind(state),
        board=live_board(state, evidence=study.evidence),
        models=tuple(
            ModelFacts(
                number=number, enabled=enabled, **named(card, "model display_name provider licence link price speed")
            )
            for number, (card, enabled) in enumerate(zip(catalog.models, catalog.model_enabled, strict=True))
        ),
        prompts=tuple(
            PromptFacts(number, card.prompt_id, card.subject, card.tags, enabled, card.language, catalog.kind(number))
            for number, (card, enabled) in enumerate(zip(catalog.prompts, catalog.prompt_enabled, strict=True))
        ),
        wins=_frozen(tallies.wins.view),
        ties=_frozen(tallies.ties.view),
        both_bad=_frozen(tallies.both_bad.view),
        ratings=state.ratings,
        study=study,
        edition=edition,
        answers_off=frozenset(catalog.answers_off),
    )


def _frozen(grid: Ints) -> Ints:
    copy = grid.copy()
    copy.flags.writeable = False
    return copy


def with_swaps(board: OfflineBoard, swaps: Mapping[tuple[str, str], int | None]) -> OfflineBoard:
    """A board with earlier votes-to-swap results, for pairs that are still neighbours."""
    rows = [
        replace(above, votes_to_swap=swaps.get((above.model, below.model))) for above, below in pairwise(board.rows)
    ]
    return replace(board, rows=(*rows, *board.rows[-1:]))

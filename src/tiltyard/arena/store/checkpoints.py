"""Checkpoints: an arena's state as bytes at one place of the log, so that opening does not depend on the log's length.

Equal states give equal bytes, so a checkpoint can be checked.
"""

from __future__ import annotations

import hashlib
import zlib
from collections import deque
from typing import Any

import msgspec
import numpy as np

from tiltyard.arena.rules.catalog import Catalog
from tiltyard.arena.rules.events import HeadPublished, ModelAdded, PromptAdded, ReviewSet, decode_body, without_text
from tiltyard.arena.rules.policy import Policy
from tiltyard.arena.rules.schedule import Reserved
from tiltyard.arena.rules.state import ArenaState, VoteBook
from tiltyard.arena.rules.tallies import Grid, Tallies
from tiltyard.arena.rules.votes import VoteColumns, VoteStanding
from tiltyard.arena.store import log
from tiltyard.arena.store.database import Connection
from tiltyard.arena.store.matchups import TableVotes, cast_votes
from tiltyard.types import named

EVERY = 20_000
"""Events between two checkpoints: opening folds about as many."""

KEPT = 2
"""How many of the latest checkpoints are kept; those that a signed head names are kept too."""


class StoredState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Everything in an `ArenaState` that cannot be computed from the rest of it."""

    seq: int
    at: int
    latest: int
    policy: Policy
    phase: int
    models: list[ModelAdded]
    """Without their titles, which can be erased."""
    model_seq: list[int]
    model_enabled: list[bool]
    prompts: list[PromptAdded]
    prompt_enabled: list[bool]
    prompt_off_at: list[int]
    responses: list[tuple[int, int, str]]
    answers: list[tuple[str, int]]
    prompt_seq: list[int]
    excluded: list[str]
    shown_answers: bytes
    matchups: int
    prompt_joined: list[int]
    prompt_reserved: list[bool]
    resting: list[bool]
    telling: list[str]
    answers_off: list[str]
    withdrawn: list[str] = []
    erased_prompts: list[str] = []
    kinds: list[tuple[int, str]] = []
    grids: list[bytes]
    """The tables of `Tallies`, in the order of `_grids`."""
    pair_prompts: list[tuple[int, int, int, int]]
    shown: list[int]
    shown_as_a: list[int]
    lanes: list[tuple[str, int]]
    window: list[tuple[int, int, str]]
    in_flight: list[Reserved]
    meetings: list[tuple[int, int, list[int]]]
    review: ReviewSet | None = None
    head: str = ""


_OF_CATALOG = "model_seq model_enabled prompt_seq prompt_enabled prompt_off_at prompt_joined prompt_reserved resting"
"""Lists of the catalog that are stored as they are; below, sets that are stored in order."""
_SETS = ("telling", "answers_off", "withdrawn", "erased_prompts")

_encoder = msgspec.msgpack.Encoder(order="deterministic")
_decoder = msgspec.msgpack.Decoder(StoredState)


def load_state(connection: Connection, until: int | None = None) -> tuple[ArenaState, str]:
    """The state at the end of the log or of its public part, and the hash there. Its votes are those of the table."""
    end = log.head(connection)[0] if until is None else until
    row = connection.one("SELECT state FROM checkpoints WHERE seq <= ? ORDER BY seq DESC LIMIT 1", end)
    votes = TableVotes()
    state = ArenaState(votes) if row is None else decode_state(row[0], votes)
    titles = connection.rows("SELECT body FROM events WHERE seq IN ??", state.catalog.model_seq)
    for body in log.filled(connection, [decode_body(text) for (text,) in titles]):
        assert isinstance(body, ModelAdded)
        state.catalog.name_model(body)
    for page in log.pages(connection, state.seq, end):
        votes.begin(connection)
        for event in page.events:
            state.apply(state.seq + 1, event)
    return state, log.hash_at(connection, state.seq)


def load_votes(connection: Connection, until: int | None = None) -> tuple[ArenaState, VoteColumns, str]:
    """`load_state` with all votes in memory, each with its status at that place."""
    state, digest = load_state(connection, until)
    state.votes = votes = votes_at(connection, state)
    return state, votes, digest


def votes_at(connection: Connection, state: ArenaState) -> VoteColumns:
    """All votes up to where a state is, each with its status there."""
    votes = VoteColumns()
    for vote in cast_votes(connection, state.seq):
        standing = VoteStanding.EXCLUDED if vote.matchup_id in state.excluded else VoteStanding.COUNTED
        undone = vote.standing is VoteStanding.UNDONE
        votes.cast(vote if undone or vote.standing is standing else msgspec.structs.replace(vote, standing=standing))
    return votes


def keep_checkpoint(connection: Connection, state: ArenaState) -> str:
    """Write a checkpoint, and drop old ones; the SHA-256 of its bytes."""
    data = encode_state(state)
    connection.execute("INSERT INTO checkpoints VALUES (?, ?) ON CONFLICT DO NOTHING", state.seq, data)
    signed = [body.until for body in log.bodies_of(connection, HeadPublished) if body.file is not None]
    connection.execute(
        "DELETE FROM checkpoints WHERE seq NOT IN (SELECT seq FROM checkpoints ORDER BY seq DESC LIMIT ?) "
        "AND NOT (seq IN ??)",
        KEPT,
        signed,
    )
    return hashlib.sha256(data).hexdigest()


def encode_state(state: ArenaState) -> bytes:
    """The state as bytes."""
    catalog, tallies, schedule = state.catalog, state.tallies, state.schedule
    sets: dict[str, Any] = {name: sorted(getattr(catalog, name)) for name in _SETS}
    stored = StoredState(
        **named(state, "seq at latest policy phase review head"),
        **named(catalog, _OF_CATALOG),
        **sets,
        models=list(map(without_text, catalog.models)),
        prompts=catalog.prompts,
        responses=sorted((*cell, name) for cell, name in catalog.response_ids.items()),
        answers=sorted(catalog.answers.items()),
        excluded=sorted(state.excluded),
        shown_answers=catalog.shown.view.tobytes(),
        matchups=catalog.matchups,
        kinds=sorted(catalog.kinds.items()),
        grids=[grid.view.tobytes() for grid in _grids(tallies)],
        pair_prompts=sorted(
            (*pair, prompt, n) for pair, prompts in tallies.pair_prompts.items() for prompt, n in prompts.items()
        ),
        shown=schedule.shown,
        shown_as_a=schedule.shown_as_a,
        lanes=sorted(schedule.lanes.items()),
        window=list(schedule.window),
        in_flight=list(schedule.in_flight.values()),
        meetings=sorted((*pair, list(prompts)) for pair, prompts in schedule.meetings.items()),
    )
    return zlib.compress(_encoder.encode(stored), 1)


def decode_state(data: bytes, votes: VoteBook | None = None) -> ArenaState:
    """The state that the bytes hold."""
    frozen = _decoder.decode(zlib.decompress(data))
    state = ArenaState(votes)
    for name in ("seq", "at", "latest", "policy", "phase", "review", "head"):
        setattr(state, name, getattr(frozen, name))
    state.excluded = set(frozen.excluded)
    _fill_catalog(state.catalog, frozen)
    state.grow()
    for grid, cells in zip(_grids(state.tallies), frozen.grids, strict=True):
        grid.view[:] = np.frombuffer(cells, dtype=np.int32).reshape(grid.view.shape)
    for low, high, prompt, n in frozen.pair_prompts:
        state.tallies.pair_prompts.setdefault((low, high), {})[prompt] = n
    state.tallies.decisive_votes = int(state.tallies.wins.view.sum())
    schedule = state.schedule
    schedule.shown[:], schedule.shown_as_a[:] = frozen.shown, frozen.shown_as_a
    schedule.lanes.update(dict(frozen.lanes))
    schedule.window = deque(frozen.window)
    schedule.meetings = {(low, high): deque(prompts) for low, high, prompts in frozen.meetings}
    schedule.resize(frozen.policy.window_matchups, frozen.policy.diversity_last)
    for served in frozen.in_flight:
        schedule.reserve(served)
    return state


def _grids(tallies: Tallies) -> tuple[Grid, ...]:
    return (
        *(tallies.wins, tallies.ties, tallies.both_bad),
        *(tallies.decisive_on, tallies.rated_on, tallies.both_bad_on, tallies.half_points_on),
    )


def _fill_catalog(catalog: Catalog, frozen: StoredState) -> None:
    for model, seq in zip(frozen.models, frozen.model_seq, strict=True):
        catalog.add_model(model, seq)
    for prompt, seq in zip(frozen.prompts, frozen.prompt_seq, strict=True):
        catalog.add_prompt(prompt, seq)
    catalog.answers.update(frozen.answers)
    for name, values in named(frozen, _OF_CATALOG).items():
        getattr(catalog, name)[:] = values
    for name in _SETS:
        setattr(catalog, name, set(getattr(frozen, name)))
    for model_number, prompt_number, name in frozen.responses:
        catalog.response_ids[model_number, prompt_number] = name
        catalog.answered.view[model_number, prompt_number] = 1
    shown = catalog.shown.view
    shown[:] = np.frombuffer(frozen.shown_answers, dtype=np.int32).reshape(shown.shape)
    catalog.matchups = frozen.matchups
    catalog.kinds.update(frozen.kinds)
    catalog.hide_telling = frozen.policy.bank.hide_self_naming

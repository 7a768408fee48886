"""An arena's state as bytes, and back: what makes start-up independent of the length of the log.

Equal states give equal bytes, so a checkpoint can be checked like any other projection.
"""

from __future__ import annotations

import zlib
from collections import Counter, deque

import msgspec
import numpy as np

from tiltyard.arena.catalog import Catalog
from tiltyard.arena.events import ModelAdded, PromptAdded
from tiltyard.arena.policy import Policy
from tiltyard.arena.rating_track import Ratings
from tiltyard.arena.schedule import (
    Reserved,
    Schedule,
)
from tiltyard.arena.state import ArenaState, VoteBook
from tiltyard.arena.tallies import Grid, Tallies

VERSION = 5
"""Incremented when the fold or this format changes: older checkpoints are then ignored, and the log is folded again."""


class StoredRatings(msgspec.Struct, frozen=True, array_like=True):
    """The ratings after a vote; columns are the bytes of 64-bit floats."""

    seq: int
    rating: bytes
    deviation: bytes
    volatility: bytes
    legacy: bytes


class StoredState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Everything in an `ArenaState` that cannot be computed from the rest of it."""

    version: int
    seq: int
    at: int
    latest: int
    policy: Policy
    rules_since: int
    phase: int
    models: list[ModelAdded]
    model_enabled: list[bool]
    prompts: list[PromptAdded]
    prompt_enabled: list[bool]
    prompt_off_at: list[int]
    responses: list[tuple[int, int, str]]
    shown_answers: bytes
    matchups: int
    prompt_joined: list[int]
    prompt_reserved: list[bool]
    resting: list[bool]
    telling: list[str]
    answers_off: list[str]
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
    ratings: StoredRatings


class _Version(msgspec.Struct, frozen=True):
    version: int


_encoder = msgspec.msgpack.Encoder(order="deterministic")
_decoder = msgspec.msgpack.Decoder(StoredState)
_version = msgspec.msgpack.Decoder(_Version)
_ratings = msgspec.msgpack.Decoder(StoredRatings)


def encode_state(state: ArenaState) -> bytes:
    """The state as bytes, without the matchups that are counted early: those are not in the log yet."""
    early = state.schedule.set_aside()
    try:
        return zlib.compress(_encoder.encode(_frozen(state)), 1)
    finally:
        for served in early:
            state.schedule.reserve(served)


def _frozen(state: ArenaState) -> StoredState:
    catalog, tallies, schedule = state.catalog, state.tallies, state.schedule
    return StoredState(
        version=VERSION,
        seq=state.seq,
        at=state.at,
        latest=state.latest,
        policy=state.policy,
        rules_since=state.rules_since,
        phase=state.phase,
        models=catalog.models,
        model_enabled=catalog.model_enabled,
        prompts=catalog.prompts,
        prompt_enabled=catalog.prompt_enabled,
        prompt_off_at=catalog.prompt_off_at,
        responses=sorted((*cell, name) for cell, name in catalog.response_ids.items()),
        shown_answers=catalog.shown.view.tobytes(),
        matchups=catalog.matchups,
        prompt_joined=catalog.prompt_joined,
        prompt_reserved=catalog.prompt_reserved,
        resting=catalog.resting,
        telling=sorted(catalog.telling),
        answers_off=sorted(catalog.answers_off),
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
        ratings=_frozen_ratings(state.track.now),
    )


def decode_state(data: bytes, book: VoteBook) -> ArenaState | None:
    """The state that the bytes hold; None where another version wrote them."""
    plain = zlib.decompress(data)
    if _version.decode(plain).version != VERSION:
        return None
    frozen = _decoder.decode(plain)
    state = ArenaState(book)
    state.seq, state.at, state.latest = frozen.seq, frozen.at, frozen.latest
    state.policy, state.rules_since, state.phase = frozen.policy, frozen.rules_since, frozen.phase
    _fill_catalog(state.catalog, frozen)
    state.track.rerate(frozen.policy.rating)
    state.grow()
    _fill_tallies(state.tallies, frozen)
    _fill_schedule(state.schedule, frozen)
    state.track.restore(_thawed_ratings(frozen.ratings))
    return state


def is_of_another_version(data: bytes) -> bool:
    """Whether another version wrote these bytes: they are then never used, and cannot be checked."""
    try:
        return _version.decode(zlib.decompress(data)).version != VERSION
    except (zlib.error, msgspec.DecodeError):
        return False


def encode_ratings(ratings: Ratings) -> bytes:
    """Ratings as bytes."""
    return _encoder.encode(_frozen_ratings(ratings))


def decode_ratings(data: bytes) -> Ratings:
    """The ratings that the bytes hold."""
    return _thawed_ratings(_ratings.decode(data))


def _frozen_ratings(ratings: Ratings) -> StoredRatings:
    return StoredRatings(ratings.seq, *(column.tobytes() for column in ratings.columns()))


def _thawed_ratings(frozen: StoredRatings) -> Ratings:
    columns = (frozen.rating, frozen.deviation, frozen.volatility, frozen.legacy)
    return Ratings(frozen.seq, *(np.frombuffer(column, dtype=np.float64).copy() for column in columns))


def _grids(tallies: Tallies) -> tuple[Grid, ...]:
    return (
        *(tallies.wins, tallies.ties, tallies.both_bad),
        *(tallies.decisive_on, tallies.rated_on, tallies.both_bad_on, tallies.half_points_on),
    )


def _fill_catalog(catalog: Catalog, frozen: StoredState) -> None:
    for model in frozen.models:
        catalog.add_model(model)
    for prompt in frozen.prompts:
        catalog.add_prompt(prompt)
    catalog.model_enabled[:] = frozen.model_enabled
    catalog.prompt_enabled[:] = frozen.prompt_enabled
    catalog.prompt_off_at[:] = frozen.prompt_off_at
    for model_number, prompt_number, name in frozen.responses:
        catalog.response_ids[model_number, prompt_number] = name
        catalog.answered.view[model_number, prompt_number] = 1
    shown = catalog.shown.view
    shown[:] = np.frombuffer(frozen.shown_answers, dtype=np.int32).reshape(shown.shape)
    catalog.matchups = frozen.matchups
    catalog.prompt_joined[:], catalog.resting[:] = frozen.prompt_joined, frozen.resting
    catalog.prompt_reserved[:] = frozen.prompt_reserved
    catalog.telling, catalog.answers_off = set(frozen.telling), set(frozen.answers_off)
    catalog.kinds.update(frozen.kinds)
    catalog.hide_telling = frozen.policy.bank.hide_self_naming


def _fill_tallies(tallies: Tallies, frozen: StoredState) -> None:
    for grid, data in zip(_grids(tallies), frozen.grids, strict=True):
        grid.view[:] = np.frombuffer(data, dtype=np.int32).reshape(grid.view.shape)
    for low, high, prompt, n in frozen.pair_prompts:
        tallies.pair_prompts.setdefault((low, high), Counter())[prompt] = n


def _fill_schedule(schedule: Schedule, frozen: StoredState) -> None:
    policy = frozen.policy
    schedule.shown[:], schedule.shown_as_a[:] = frozen.shown, frozen.shown_as_a
    schedule.lanes.update(dict(frozen.lanes))
    schedule.window = deque(frozen.window)
    schedule.meetings = {(low, high): deque(prompts) for low, high, prompts in frozen.meetings}
    schedule.resize(policy.window_matchups, policy.diversity_last)
    schedule.restore_in_flight(frozen.in_flight)

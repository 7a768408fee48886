"""What can be asked of the engine, and what it answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import msgspec
import numpy as np

from tiltyard.arena.events import Choice, Lane, MatchupServed
from tiltyard.arena.group_commit import Ask
from tiltyard.arena.matchmaking.matchup import Past, Seen
from tiltyard.arena.state import ArenaState
from tiltyard.arena.voting import SECOND

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tiltyard.arena.events import AnyBody
    from tiltyard.arena.store.visitors import Quota
    from tiltyard.arena.voting import Ballot, Decision

R = TypeVar("R")


class Chosen(Protocol):
    """A matchup as the chooser returns it: numbers of models by side and of the prompt, and why these."""

    @property
    def a(self) -> int: ...  # noqa: D102
    @property
    def b(self) -> int: ...  # noqa: D102
    @property
    def prompt(self) -> int: ...  # noqa: D102
    @property
    def lane(self) -> Lane: ...  # noqa: D102
    @property
    def reason(self) -> str: ...  # noqa: D102
    @property
    def probability(self) -> float: ...  # noqa: D102


def served_event(
    state: ArenaState, chosen: Chosen, *, matchup_id: str, voter: str, seed: int, at: int
) -> MatchupServed:
    """The event of a chosen matchup: the answers as they stand now, open until the policy's time is over."""
    catalog = state.catalog
    return MatchupServed(
        matchup_id=matchup_id,
        voter=voter,
        prompt_id=catalog.prompts[chosen.prompt].prompt_id,
        model_a=catalog.models[chosen.a].model,
        model_b=catalog.models[chosen.b].model,
        response_a=catalog.response_ids[chosen.a, chosen.prompt],
        response_b=catalog.response_ids[chosen.b, chosen.prompt],
        lane=chosen.lane,
        reason=chosen.reason,
        probability=float(chosen.probability),
        seed=seed,
        expires_at=at + state.policy.matchup_expires_seconds * SECOND,
    )


Chooser = Callable[[ArenaState, np.random.Generator, Seen | Past], Chosen]


class Served(msgspec.Struct, frozen=True, kw_only=True):
    """What a voter is shown, and nothing that tells who wrote it."""

    matchup_id: str
    prompt: str
    response_a: str
    response_b: str
    expires_at: int


class Names(msgspec.Struct, frozen=True, kw_only=True):
    """Who wrote the two answers."""

    model_a: str
    model_b: str
    display_a: str
    display_b: str


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """What a voter is told once the vote is committed: the names, or until when the vote can be undone."""

    matchup_id: str
    choice: Choice
    names: Names | None = None
    undo_until: int | None = None


class Serve(Ask[Served]):
    """Show this voter a matchup."""

    def __init__(self, voter: str, quotas: Sequence[Quota]) -> None:
        super().__init__()
        self.voter = voter
        self.quotas = quotas


class Step(Ask[R], Generic[R]):
    """Do something with a matchup: `decide` says what becomes of it, `say` what to tell the voter at that time."""

    def __init__(
        self,
        matchup_id: str,
        voter: str,
        decide: Callable[[Ballot, int, ArenaState], Decision],
        say: Callable[[Ballot, int, ArenaState], R],
        quotas: Sequence[Quota] = (),
    ) -> None:
        super().__init__()
        self.matchup_id = matchup_id
        self.voter = voter
        self.decide = decide
        self.say = say
        self.quotas = quotas


class Append(Ask[None]):
    """Write these events."""

    def __init__(self, bodies: Sequence[AnyBody]) -> None:
        super().__init__()
        self.bodies = bodies


class Expire(Ask[int]):
    """Close what was not voted on in time; the answer is how many were."""

    def __init__(self, now: int) -> None:
        super().__init__()
        self.now = now


class Enter(Ask[str]):
    """Give whoever holds this cookie a voter's key. The quotas are used by a first visit only."""

    def __init__(self, cookie_hash: str, address: str, quotas: Sequence[Quota] = ()) -> None:
        super().__init__()
        self.cookie_hash = cookie_hash
        self.address = address
        self.quotas = quotas


class Probe(Ask[int]):
    """Write and commit something that means nothing: whether votes could be written. Answered with the log's length."""


class Read(Ask[R], Generic[R]):
    """Look at the state."""

    def __init__(self, look: Callable[[ArenaState], R]) -> None:
        super().__init__()
        self.look = look

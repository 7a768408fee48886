"""The counted votes of an arena as battle rows, without a trace of who cast them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tiltyard.arena.state import Standing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tiltyard.arena.catalog import Catalog
    from tiltyard.arena.state import CastVote

HOUR = 3600


def battle_rows(votes: Iterable[CastVote], catalog: Catalog) -> Iterator[dict[str, Any]]:
    """One row per counted vote, in the order of the log.

    `voter` is a number handed out in the order in which voters appear: it says which votes belong together, and
    leads nowhere. The time is rounded down to the hour, so that it does not tell a visit from another log.
    """
    models: Sequence[str] = [model.model for model in catalog.models]
    prompts = [prompt.prompt_id for prompt in catalog.prompts]
    numbers: dict[str, int] = {}
    for vote in votes:
        if vote.standing is not Standing.COUNTED:
            continue
        yield {
            "model_a": models[vote.a],
            "model_b": models[vote.b],
            "winner": vote.choice.outcome.label,
            "source": "human",
            "question_id": prompts[vote.prompt],
            "voter": f"v{numbers.setdefault(vote.voter, len(numbers) + 1)}",
            "timestamp": vote.at // 1_000_000 // HOUR * HOUR,
        }

"""Which answers may be shown with their authors: those to prompts that nobody can be voting on any more.

A prompt that is switched off may still be on someone's screen: a matchup stays open until it is voted on, skipped or
expires. Showing its answers before that would tell a voter who wrote what. So would showing them while a pair that was
skipped on it waits on another prompt.
"""

from __future__ import annotations

from tiltyard.arena.rules.catalog import Catalog
from tiltyard.arena.rules.policy import LONGEST_WAIT, Policy
from tiltyard.arena.rules.state import ArenaState
from tiltyard.arena.rules.units import SECOND

SETTLED = 60 * SECOND
"""How far the log must have advanced after the switch: another worker may be serving the prompt at that moment."""

NOT_BLIND = (
    "This arena is not blind: anyone can look up which model wrote an answer while it is being voted on "
    "(the setting texts_public is “always”)."
)
"""Shown on every page and report of an arena whose answers are always public."""


def is_blind(state: ArenaState) -> bool:
    """Whether the answers to prompts that are being voted on are hidden. It is the policy's `texts_public`."""
    return state.policy.texts_public != "always"


def hidden_for(policy: Policy) -> int:
    """How long the answers to a prompt stay hidden after it was switched off, in microseconds.

    Where pairs wait: until the last pair that was shown on it has stopped to wait, and its last matchup has expired.
    """
    waits = policy.waiting.pairs_wait
    return SETTLED + (LONGEST_WAIT + policy.matchup_expires_seconds * SECOND if waits else 0)


def public_prompts(state: ArenaState) -> frozenset[int]:
    """The numbers of the prompts whose answers may be shown with their authors.

    With the policy's `after_retirement` these are the prompts that have been off for as long as `hidden_for` says, by
    the times in the log, and have no open matchup; with `always`, all of them. A prompt that is kept for later stays
    hidden. The result depends on the log alone.
    """
    catalog = state.catalog
    if not is_blind(state):
        return frozenset(range(len(catalog.prompts)))
    hidden = hidden_for(state.policy)
    open_on = {served.prompt for served in state.schedule.in_flight.values()}
    return frozenset(
        prompt
        for prompt, enabled in enumerate(catalog.prompt_enabled)
        if not enabled
        and prompt not in open_on
        and state.latest >= catalog.prompt_off_at[prompt] + hidden
        and not catalog.prompt_reserved[prompt]
    )


def shown_answers(catalog: Catalog) -> dict[tuple[int, int], str]:
    """By model and prompt, the answers that may be shown once their prompt is retired: the present ones, not withheld.

    None that was replaced, withdrawn or erased.
    """
    return {cell: name for cell, name in catalog.response_ids.items() if not catalog.is_withheld(name)}


def lost_blindness(state: ArenaState, prompt_id: str) -> bool:
    """Whether switching this prompt on would let people vote on answers that are public now."""
    return state.catalog.prompt(prompt_id) in public_prompts(state)

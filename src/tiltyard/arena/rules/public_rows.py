"""The public rows of an arena: what everybody may know of its log, and enough to recompute its board.

A pure function of the log, and append-only as it is: a vote has a row, at its place in the log, once it can no longer
be undone. What was undone, skipped or left has none; nor has a prompt on which nobody voted. A row names its vote by a
receipt that only its voter is told, and says its time to the hour. No row has a text, an answer, an address block or
what an operator typed.
"""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Literal, NamedTuple

import msgspec

from tiltyard.arena.rules import events as e
from tiltyard.arena.rules.policy import Policy
from tiltyard.arena.rules.units import HOUR

RECEIPT_LETTERS = 32


class _Row(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"):
    hour: int
    """When, in whole hours since 1970."""


class PublicSettings(_Row, frozen=True, kw_only=True, tag="settings"):
    """The whole policy, effective from here on."""

    policy: Policy


class PublicPhase(_Row, frozen=True, kw_only=True, tag="phase"):
    """The arena moved to another phase of the rollout."""

    phase: int


class PublicModel(_Row, frozen=True, kw_only=True, tag="model"):
    """A new model, or new facts about one that is there. It is enabled. Its title can be erased, and is in no row."""

    model: str


class PublicModelEnabled(_Row, frozen=True, kw_only=True, tag="enabled"):
    """The model is on the board again."""

    model: str


class PublicModelDisabled(_Row, frozen=True, kw_only=True, tag="disabled"):
    """The model is no longer on the board; its votes remain."""

    model: str


class PublicPrompt(_Row, frozen=True, kw_only=True, tag="prompt"):
    """What the next votes on this prompt were about: before the first of them, and again when it changes."""

    prompt: str
    subject: str | None
    tags: tuple[str, ...]
    language: str
    text: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$", max_length=64)]
    """The salted digest of what was asked."""


class PublicVote(_Row, frozen=True, kw_only=True, gc=False, tag="vote"):
    """A final vote."""

    receipt: str
    """A random name of the vote, which only its voter is told."""
    voter: str
    """A random key; whom it stands for is not public."""
    prompt: str
    model_a: str
    model_b: str
    choice: e.Choice
    unrendered: Literal["", "A", "B", "AB"]
    """Which answers the voter said could not be shown."""


class PublicExclusion(_Row, frozen=True, kw_only=True, tag="excluded"):
    """These votes do not count any more."""

    receipts: tuple[str, ...]


class PublicRestoration(_Row, frozen=True, kw_only=True, tag="restored"):
    """These votes count again."""

    receipts: tuple[str, ...]


class PublicErasure(_Row, frozen=True, kw_only=True, tag="erased"):
    """The text of the prompt, or the title of the model, is gone: whoever published it is asked to take it out."""

    what: Literal["prompt", "model"]
    name: str


PublicRow = (
    PublicSettings
    | PublicPhase
    | PublicModel
    | PublicModelEnabled
    | PublicModelDisabled
    | PublicPrompt
    | PublicVote
    | PublicExclusion
    | PublicRestoration
    | PublicErasure
)


def has_control_character(name: str) -> bool:
    """Whether a name has a control character or a line break: two names could then be read as three."""
    return any(unicodedata.category(letter) in ("Cc", "Zl", "Zp") for letter in name)


class VotedMatchup(NamedTuple):
    """The matchup of a final vote, and what was asked."""

    served: e.MatchupServed
    prompt: PublicPrompt


def receipt_of(served: e.MatchupServed) -> str:
    """The name under which the vote on a matchup is public: nobody gets it from the matchup's id alone.

    The seed of the choice is random and stays in the log.
    """
    return hashlib.sha256(f"{served.seed} {served.matchup_id}".encode()).hexdigest()[:RECEIPT_LETTERS]


def prompt_row(added: e.PromptAdded, hour: int = 0) -> PublicPrompt:
    """The row of a prompt."""
    return PublicPrompt(
        hour=hour,
        prompt=added.prompt_id,
        subject=added.subject,
        tags=added.tags,
        language=added.language,
        text=added.digest,
    )


def public_rows(
    events: Iterable[e.Event], final: Mapping[str, VotedMatchup], prompts: dict[str, PublicPrompt]
) -> Iterator[PublicRow]:
    """The rows of the next events of a log.

    Parameters:
        events: The events, up to one before which every vote is final or was undone.
        final: The matchups with a vote that was not undone, as far as these events name them.
        prompts: By id, the prompts of the rows before, without their hours. Those of these rows are added.
    """
    for event in events:
        body, hour = event.body, event.at // HOUR
        match body:
            case e.Voted() if body.matchup_id in final:
                served, prompt = final[body.matchup_id]
                if prompts.get(prompt.prompt) != prompt:
                    prompts[prompt.prompt] = prompt
                    yield msgspec.structs.replace(prompt, hour=hour)
                yield PublicVote(
                    hour=hour,
                    receipt=receipt_of(served),
                    voter=served.voter,
                    prompt=served.prompt_id,
                    model_a=served.model_a,
                    model_b=served.model_b,
                    choice=body.choice,
                    unrendered=body.unrendered,  # type: ignore[arg-type]  # one of `commands.UNRENDERED`, or nothing
                )
            case e.Excluded() | e.Restored():
                names = tuple(receipt_of(final[name].served) for name in body.matchup_ids if name in final)
                if names:
                    kind = PublicExclusion if isinstance(body, e.Excluded) else PublicRestoration
                    yield kind(hour=hour, receipts=names)
            case e.Erased(what="prompt" | "model" as what, subject_id=name):
                if what == "model" or name in prompts:
                    yield PublicErasure(hour=hour, what=what, name=name)
            case e.ModelAdded():
                yield PublicModel(hour=hour, model=body.model)
            case e.ModelEnabled():
                yield PublicModelEnabled(hour=hour, model=body.model)
            case e.ModelDisabled():
                yield PublicModelDisabled(hour=hour, model=body.model)
            case e.PhaseChanged():
                yield PublicPhase(hour=hour, phase=body.phase)
            case e.SettingsChanged():
                yield PublicSettings(hour=hour, policy=body.policy)


def canonical(value: object) -> bytes:
    """A value as the one line of JSON that is hashed, without its end: as Python writes it, in ASCII."""
    return _written(msgspec.to_builtins(value)).encode()


_written = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode

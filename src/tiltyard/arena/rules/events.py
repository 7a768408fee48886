"""Everything that can happen in an arena.

The log of these events is the only source of truth; everything else is computed from it. What somebody wrote (`TEXTS`)
is not in it, so that it can be erased: a stored event has its salted `digest`, and text and salt lie in a table. An
event that is read back has its text only where it was filled in (`store/log.py`).
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Any, Final, Literal, TypeVar

import msgspec

from tiltyard.arena.rules.heads import HeadFile
from tiltyard.arena.rules.policy import Policy
from tiltyard.data.bank import AnswerKind
from tiltyard.data.battles import Outcome


class Choice(enum.StrEnum):
    """What a visitor may say of a matchup."""

    A = "A"
    B = "B"
    TIE = "TIE"
    BOTH_BAD = "BOTH_BAD"

    __hash__ = str.__hash__  # the enum's own hash is written in Python, and choices are looked up for every vote

    @property
    def outcome(self) -> Outcome:
        return _OUTCOMES[self]


_OUTCOMES = {Choice.A: Outcome.A, Choice.B: Outcome.B, Choice.TIE: Outcome.TIE, Choice.BOTH_BAD: Outcome.BOTH_BAD}

Lane = Literal["coverage", "contender", "uncertainty", "exploration", "legacy", "imported", "review", "adjudication"]
LANES: tuple[Lane, ...] = ("coverage", "contender", "uncertainty", "exploration")
"""The lanes of the policy; `legacy` is the earlier matchmaking, which phase 1 keeps, and `imported` is none of ours.

In a review, `review` is a reviewer's turn and `adjudication` that of whoever decides where reviewers disagree."""

Erasable = Literal["prompt", "answer", "model", "reason"]
"""What an operator can erase; comments and what leads to a visitor have ways of their own (`store/forgetting.py`)."""


class Body(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    """The body of an event. Every kind is a subclass; the tag is its name in the log."""


class SettingsChanged(Body, frozen=True, kw_only=True, tag="settings_changed"):
    """The whole policy, effective from here on."""

    policy: Policy


class PhaseChanged(Body, frozen=True, kw_only=True, tag="phase_changed"):
    """The arena moved to another phase of the rollout."""

    phase: int


class ReviewSet(Body, frozen=True, kw_only=True, tag="review_set"):
    """The arena is a review: a team says of each prompt, which is an item, which of its two answers is better."""

    each: int
    """How many reviewers every item gets."""
    reviewers: tuple[str, ...]
    """The voters' keys of those who review now."""
    adjudicators: tuple[str, ...] = ()
    """The keys of those who decide where reviewers disagree."""
    names: Literal["after_close", "after_vote"] = "after_close"
    """When a reviewer learns who wrote the answers."""
    seed: int = 0
    """Seed of the assignment."""
    closed: bool = False
    """Whether the review is over: nothing is served or voted on, and names are shown. It stays so."""
    why_closed: str = ""
    """What was settled, if its own rule closed it."""

    @property
    def holds_names(self) -> bool:
        """Whether nobody is told a name now."""
        return self.names == "after_close" and not self.closed


class ModelAdded(Body, frozen=True, kw_only=True, omit_defaults=True, tag="model_added"):
    """A new model, or new metadata for an existing one. It is enabled."""

    model: str
    display_name: str = ""
    provider: str = ""
    licence: str = ""
    link: str = ""
    price: float | None = None
    """US dollars for a million tokens of output, as stated."""
    speed: float | None = None
    """Tokens of output per second, as stated."""
    aliases: tuple[str, ...] = ()
    """Other names that would tell who wrote an answer."""
    digest: str = ""


class ModelEnabled(Body, frozen=True, kw_only=True, tag="model_enabled"):
    """The model may be served again."""

    model: str


class ModelDisabled(Body, frozen=True, kw_only=True, tag="model_disabled"):
    """The model is no longer served; its votes remain."""

    model: str


class PromptAdded(Body, frozen=True, kw_only=True, omit_defaults=True, tag="prompt_added"):
    """A prompt. It is enabled."""

    prompt_id: str
    text: str = ""
    subject: str | None = msgspec.field(default_factory=lambda: None)  # always written
    tags: tuple[str, ...] = msgspec.field(default_factory=lambda: ())
    language: str = ""
    """What language it is in, as stated."""
    salt: str = ""
    """With what the digest is salted, where the text is filled in."""
    digest: str = ""
    """It is public once somebody voted on the prompt."""


class PromptEnabled(Body, frozen=True, kw_only=True, tag="prompt_enabled"):
    """The prompt may be served again."""

    prompt_id: str


class PromptDisabled(Body, frozen=True, kw_only=True, tag="prompt_disabled"):
    """The prompt is no longer served; its votes remain."""

    prompt_id: str


class PromptReserved(Body, frozen=True, kw_only=True, tag="prompt_reserved"):
    """The prompt is kept for later: not served, and its answers stay hidden until it is retired."""

    prompt_id: str


class ResponseAdded(Body, frozen=True, kw_only=True, omit_defaults=True, tag="response_added"):
    """A model's answer to a prompt; a later one replaces an earlier one in future matchups."""

    response_id: str
    model: str
    prompt_id: str
    text: str = ""
    """The answer; of an answer that is a file, a description, or nothing."""
    answer_kind: str = AnswerKind.TEXT.value
    """What the answer is: an `AnswerKind`."""
    file: str = ""
    """The SHA-256 of the file, as it is shown to voters. Empty: the answer is its text."""
    digest: str = ""


class ResponseEnabled(Body, frozen=True, kw_only=True, tag="response_enabled"):
    """This answer may be served again."""

    response_id: str


class ResponseDisabled(Body, frozen=True, kw_only=True, tag="response_disabled"):
    """This one answer is no longer served; its votes remain."""

    response_id: str


class ResponseWithdrawn(Body, frozen=True, kw_only=True, tag="response_withdrawn"):
    """This answer was taken back: it is never served or shown again; its votes remain."""

    response_id: str


class Erased(Body, frozen=True, kw_only=True, tag="erased"):
    """What was written there is gone. Prompts and answers are not served any more; the votes remain."""

    what: Erasable
    subject_id: str
    """The id of a prompt, an answer or a model, or the number of the event with a reason."""


class MatchupServed(Body, frozen=True, kw_only=True, gc=False, omit_defaults=True, tag="matchup_served"):
    """Two answers were shown to a voter on random sides; with the reason for the choice and its probability."""

    matchup_id: str
    voter: str
    prompt_id: str
    model_a: str
    model_b: str
    response_a: str
    response_b: str
    lane: Lane
    reason: str
    probability: float
    """The probability of this pair and prompt, given the state, including the draw of the lane."""
    seed: int
    expires_at: int
    block: str = ""
    """A random key of the visitor's address block or invitation; what it stands for is not in the log. Empty: none."""


class Voted(Body, frozen=True, kw_only=True, gc=False, omit_defaults=True, tag="voted"):
    """The voter chose. With `undo_until`, the names were held back, and the vote can be undone until then."""

    matchup_id: str
    choice: Choice
    undo_until: int | None = None
    """None: the names were shown at once."""
    block: str = ""
    """The key of the block that the vote came from, if it is not the one that the matchup was served to."""
    unrendered: str = ""
    """Which answers the voter said could not be shown: `A`, `B` or `AB`. `choice` is what that counted as."""


class Revealed(Body, frozen=True, kw_only=True, gc=False, tag="revealed"):
    """The voter was shown the names before the undo time was over. The vote is final."""

    matchup_id: str


class Skipped(Body, frozen=True, kw_only=True, gc=False, tag="skipped"):
    """The voter skipped the matchup; it can no longer be voted on."""

    matchup_id: str


class Expired(Body, frozen=True, kw_only=True, gc=False, tag="expired"):
    """Nobody voted in time."""

    matchup_id: str


class Undone(Body, frozen=True, kw_only=True, gc=False, tag="undone"):
    """The voter took the vote back. The matchup cannot be voted on again."""

    matchup_id: str


class Explained(Body, frozen=True, kw_only=True, gc=False, omit_defaults=True, tag="explained"):
    """The voter said why, after the vote was final. Of several explanations of one vote the last holds."""

    matchup_id: str
    tags: tuple[str, ...] = ()
    """Reasons of the policy (`ballot.reasons`)."""
    comment: str = ""
    digest: str = ""
    """Of the comment; empty if there was none."""


SELF_NAMING = "self-identifying"
"""The flag of an answer that names its author. It is not served while the policy says so (`bank.hide_self_naming`)."""
MAY_NAME = "may-identify"
"""The flag of an answer with a word that may name its author, and may mean something else. It is served."""


class Flagged(Body, frozen=True, kw_only=True, omit_defaults=True, tag="flagged"):
    """Something looks suspicious. A flag changes no rating."""

    subject: Literal["voter", "vote", "response", "model"]
    subject_id: str
    flag: str
    detail: str = ""
    digest: str = ""


class Excluded(Body, frozen=True, kw_only=True, omit_defaults=True, tag="excluded"):
    """These votes no longer count."""

    matchup_ids: tuple[str, ...]
    reason: str = ""
    digest: str = ""


class Restored(Body, frozen=True, kw_only=True, omit_defaults=True, tag="restored"):
    """These votes count again."""

    matchup_ids: tuple[str, ...]
    reason: str = ""
    digest: str = ""


class HeadPublished(Body, frozen=True, kw_only=True, omit_defaults=True, tag="head_published"):
    """A head of the public rows was shown to everybody."""

    head: str
    """`HASH@N`."""
    until: int
    """The last event that its rows follow from."""
    file: HeadFile | None = None
    """The signed statement, if it was signed."""


AnyBody = (
    SettingsChanged
    | PhaseChanged
    | ReviewSet
    | ModelAdded
    | ModelEnabled
    | ModelDisabled
    | PromptAdded
    | PromptEnabled
    | PromptDisabled
    | PromptReserved
    | ResponseAdded
    | ResponseEnabled
    | ResponseDisabled
    | ResponseWithdrawn
    | Erased
    | MatchupServed
    | Voted
    | Revealed
    | Skipped
    | Expired
    | Undone
    | Explained
    | Flagged
    | Excluded
    | Restored
    | HeadPublished
)

OF_MATCHUPS = frozenset({MatchupServed, Voted, Revealed, Skipped, Expired, Undone})
"""The kinds of events that are about one matchup and caused by its voter."""

TEXTS: Final[dict[type[Body], tuple[str, ...]]] = {
    ModelAdded: ("display_name", "provider", "licence", "link", "aliases"),
    PromptAdded: ("text",),
    ResponseAdded: ("text", "file"),
    Explained: ("comment",),
    Flagged: ("detail",),
    Excluded: ("reason",),
    Restored: ("reason",),
}
"""The events with something that somebody wrote, and its fields; several are one text, a list in JSON."""

B = TypeVar("B", bound=Body)


def written_text(body: Body) -> str:
    """What an event of `TEXTS` says in words."""
    values = [getattr(body, name) for name in TEXTS[type(body)]]
    return values[0] if len(values) == 1 else msgspec.json.encode(values).decode()


def without_text(body: B, digest: str = "") -> B:
    """The event as it is stored, with the digest of its text."""
    empty: dict[str, Any] = {name: () if name == "aliases" else "" for name in TEXTS[type(body)]}
    if isinstance(body, PromptAdded):
        empty["salt"] = ""
    return msgspec.structs.replace(body, digest=digest, **empty)


def with_text(body: B, salt: str, text: str) -> B:
    """A stored event with its text."""
    names = TEXTS[type(body)]
    filled = dict(zip(names, [text] if len(names) == 1 else msgspec.json.decode(text), strict=True))
    if isinstance(body, ModelAdded):
        filled["aliases"] = tuple(filled["aliases"])
    elif isinstance(body, PromptAdded):
        filled["salt"] = salt
    return msgspec.structs.replace(body, **filled)


def subject_of(body: Body, seq: int) -> tuple[str, str]:
    """What the text of event `seq` is about: a kind, and an id of that kind."""
    match body:
        case ModelAdded():
            return "model", body.model
        case PromptAdded():
            return "prompt", body.prompt_id
        case ResponseAdded():
            return "answer", body.response_id
        case Explained():
            return "comment", body.matchup_id
        case Flagged():
            return "answer" if body.subject == "response" else body.subject, body.subject_id
    return "reason", str(seq)


class Event(msgspec.Struct, frozen=True, gc=False):
    """One thing that happened, at a time in microseconds since 1970."""

    at: int
    body: AnyBody


_encoder = msgspec.json.Encoder(order="deterministic")
_decoder = msgspec.json.Decoder(AnyBody)


def encode_body(body: Body) -> str:
    """The body as the text that is stored and hashed: always the same bytes for the same event."""
    return _encoder.encode(body).decode()


def decode_events(times: Iterable[int], texts: Iterable[str]) -> list[Event]:
    """The events of stored texts."""
    return list(map(Event, times, map(_decoder.decode, texts)))


def decode_body(text: str | bytes) -> AnyBody:
    """The body of a stored text; unknown fields are ignored, those of a policy apart (`Policy`)."""
    body: AnyBody = _decoder.decode(text)
    return body

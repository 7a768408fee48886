"""What the fake server does: how it answers, how long batches take, and what goes wrong."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True)
class Said:
    """An answer of the fake model. A text longer than the request's token budget is cut off whatever `stop` says.

    With `nothing`, OpenAI's format has no choice to show, and the tokens are paid for all the same.
    """

    text: str
    stop: Literal["end", "length", "refusal", "nothing"] = "end"


@dataclass
class Fault:
    """Something that goes wrong the next `times` times that `route` is called (after `skip` calls that go well).

    Routes: `ask`, `submit`, `state`, `list`, `results`, `upload`, `cancel`, or `*`. Kinds: `status` (an HTTP error),
    `drop` (the connection dies before anything is accepted), `lose` (accepted, but the answer never arrives), `cut`
    (the answer breaks off after `after_bytes`), `slow` (the answer takes `seconds` longer), `garbage` (200, but a page
    of some proxy), `bomb` (200, and a small gzip body that is 64 MB long), `drip` (a space every `seconds`, for ever).
    """

    kind: Literal["status", "drop", "lose", "cut", "slow", "garbage", "bomb", "drip"] = "status"
    route: str = "*"
    status: int = 429
    headers: dict[str, str] = field(default_factory=dict)
    message: str = "planted fault"
    error_type: str | None = None
    times: int = 1
    skip: int = 0
    seconds: float = 0.0
    after_bytes: int = 200


def verdict_by_hash(system: str, user: str) -> str:
    """A verdict that depends on nothing but the words: A, B or TIE, or a score, with a line of reasoning before it."""
    digest = hashlib.sha256(f"{system}\0{user}".encode()).digest()
    if system.startswith("You score one answer"):
        return f"I read the answer ({digest.hex()[:8]}).\nSCORE: {1 + digest[0] % 10}"
    verdict = ("A", "B", "TIE")[digest[0] % 3]
    return f"I compared both answers ({digest.hex()[:8]}).\nVERDICT: {verdict}"


def long_answer(system: str, user: str) -> str:
    """The question, two thousand times over."""
    return f"{user} " * 2000


def talk_by_number(system: str, messages: list[str]) -> str:
    """Says which reply of the conversation it is, and what a digest of all messages before it is."""
    digest = hashlib.sha256("\0".join([system, *messages]).encode()).hexdigest()[:8]
    return f"reply {(len(messages) + 1) // 2} after {digest}"


def always_succeeded(custom_id: str, body: dict[str, Any], accepted_before: int) -> str:
    return "succeeded"


Judge = Callable[[str, str], "str | Said"]
Talk = Callable[[str, list[str]], "str | Said"]
"""(system, all messages of the conversation, the user's and the model's in turn) -> what the model says next."""
Outcome = Callable[[str, dict[str, Any], int], str]
"""(custom id, body, how often this content was accepted before) -> `succeeded`, `errored:TYPE`, `expired`, `canceled`,
`missing` (no line in the results) or `repeated` (two lines)."""


def first_time(shares: dict[str, float]) -> Outcome:
    """Outcomes in given shares, picked by content, the first time a content is accepted: a second try works."""

    def outcome(custom_id: str, body: dict[str, Any], accepted_before: int) -> str:
        if accepted_before:
            return "succeeded"
        place = int(hashlib.sha256(f"{body}".encode()).hexdigest()[:8], 16) / 16**8
        for name, share in shares.items():
            if place < share:
                return name
            place -= share
        return "succeeded"

    return outcome


@dataclass
class Behaviour:
    """Everything a test can set; all of it may be changed while the server runs."""

    judge: Judge = verdict_by_hash
    talk: Talk | None = None
    """Answers instead of `judge`, which sees only the last message."""
    key: str | None = None
    """The only key that is accepted; None accepts any. The refusal quotes the wrong key, as a careless server might."""
    latency_seconds: float = 0.0
    batch_polls: int = 1
    """How often a batch is still in progress when asked about; then it has ended."""
    batch_seconds: float = 0.0
    outcome: Outcome = always_succeeded
    strangers: int = 0
    """How many results with a custom id nobody sent stand among the others."""
    largest_page: int = 1000
    faults: list[Fault] = field(default_factory=list)
    refuses: Callable[[list[str]], str | None] = lambda messages: None
    """What is wrong with a conversation, in the words of a 400; None where it is answered."""
    refuses_sampling: bool = True
    """Anthropic's newer models refuse temperature, top_p and top_k."""
    cache_minimum_tokens: int = 0
    distort: Callable[[dict[str, Any]], Any] | None = None
    """Changes the body of an answer before it is sent."""
    first_token: Callable[[str, str], dict[str, float]] | None = None
    """The probabilities of the first token, for log-probabilities; None: the server knows none."""
    spoil: Callable[[int, bytes], bytes] | None = None
    """(number, line) -> what stands there instead, for every line of a batch's results."""

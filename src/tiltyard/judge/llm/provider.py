"""The interface to language models: how a model is named, what is sent and received, and what a provider implements."""

from __future__ import annotations

import enum
import hashlib
import re
from collections.abc import AsyncGenerator, Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

import msgspec

from tiltyard.data.bank import Image
from tiltyard.errors import OptionError
from tiltyard.judge.llm.presets import PRESETS

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Role = Literal["user", "assistant"]
_OPTIONAL = (("images", b',"images":[]'), ("structured", b',"structured":null'), ("earlier", b',"earlier":[]'))
"""Fields that a fingerprint leaves out where they are not used, last first, as they are encoded then."""


class ReplySchema(msgspec.Struct, frozen=True, kw_only=True):
    """A reply that has to be one JSON object: as the text of the reply, or as the arguments of a tool call."""

    name: str
    """The name of the schema, or of the tool."""
    schema: dict[str, Any]
    """The JSON schema of the object; its properties are written in this order."""
    description: str = ""
    """What the tool is for; only sent with `as_tool`."""
    as_tool: bool = False
    """Whether the object is asked for as a call of a tool, which the model is forced to make."""


class ShownImage(msgspec.Struct, frozen=True, kw_only=True):
    """An image of a request, with the lines around it that say what it is."""

    image: Image
    before: str = ""
    after: str = ""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is sent for one question."""

    model: str
    """Who is asked."""
    system: str
    """The part that many requests share (a rubric)."""
    user: str
    """What is asked now."""
    max_tokens: int
    """How long the reply may be."""
    cache_system: bool = False
    """Whether the provider is asked to keep `system` for an hour."""
    choices: tuple[str, ...] = ()
    """The allowed answers; their probabilities are requested if the provider supports that."""
    options: dict[str, Any] = {}
    """Further parameters of the provider (temperature, seed, …), sent only when given."""
    earlier: tuple[tuple[str, str], ...] = ()
    """The turns of a conversation before `user`: what the user said, and what was answered."""
    structured: ReplySchema | None = None
    """The JSON object that the reply has to be; None is free text."""
    images: tuple[ShownImage, ...] = ()
    """Images, sent before the text of `user`."""

    @property
    def messages(self) -> list[tuple[Role, str]]:
        """What is sent besides the system text, in order: role and text. The last is `user`."""
        messages: list[tuple[Role, str]] = []
        for user, assistant in self.earlier:
            messages += [("user", user), ("assistant", assistant)]
        return [*messages, ("user", self.user)]

    @property
    def user_parts(self) -> list[str | Image]:
        """The last message in order: images, each between its lines, then the text. Empty texts are left out."""
        parts: list[str | Image] = []
        for shown in self.images:
            parts += [shown.before, shown.image, shown.after]
        return [part for part in (*parts, self.user) if part != ""]

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of everything sent: two requests share it only if the provider sees the same.

        An image counts by its bytes or address, not by where the file is.
        """
        return hashlib.sha256(_sent(self)).hexdigest()


def _sent(request: Request) -> bytes:
    """Everything that is sent, encoded, without the `_OPTIONAL` fields that are not used."""
    if request.images:
        seen = tuple(msgspec.structs.replace(shown, image=shown.image.identity) for shown in request.images)
        request = msgspec.structs.replace(request, images=seen)
    sent = msgspec.json.encode(request, order="deterministic")
    for name, unused in _OPTIONAL:
        if getattr(request, name):
            break
        sent = sent.removesuffix(unused + b"}") + b"}"
    return sent


class SharedFingerprints:
    """The fingerprints of many requests. While only `user` differs, the rest is encoded and hashed once."""

    def __init__(self) -> None:
        self._like: Request | None = None
        self._head, self._tail = hashlib.sha256(), b""

    def of(self, request: Request) -> str:
        bare = msgspec.structs.replace(request, user="")
        if bare != self._like:
            # A quotation mark inside a text is encoded with a backslash, so this is the field and nothing before it.
            head, _, self._tail = _sent(bare).partition(b'"user":""')
            self._head = hashlib.sha256(head + b'"user":')
            self._like = bare
        digest = self._head.copy()
        digest.update(msgspec.json.encode(request.user))
        digest.update(self._tail)
        return digest.hexdigest()


class Ask(msgspec.Struct, frozen=True):
    """One question to ask."""

    key: str
    """Identifies the question; stays the same when it is asked again with looser limits."""
    request: Request
    """What is sent."""
    group: str
    """Which part of the work it belongs to (a dimension, an entrant): for progress, prices and budgets."""
    attempt: int = 1
    """Which attempt this is."""


class Stop(enum.StrEnum):
    """Why a reply ended."""

    END = "end"
    """The model finished its answer."""
    LENGTH = "length"
    """It was cut off at `max_tokens`."""
    REFUSAL = "refusal"
    """The model or its provider declined."""


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens of one or many replies. `input_tokens` are those neither written to nor read from the provider's cache."""

    input_tokens: int = 0
    """Those neither written to nor read from the provider's cache."""
    output_tokens: int = 0
    """Output tokens."""
    cache_creation_input_tokens: int = 0
    """Input tokens written to the provider's cache."""
    cache_read_input_tokens: int = 0
    """Input tokens read from the provider's cache."""

    @property
    def all_input(self) -> int:
        """All input tokens."""
        return self.input_tokens + self.cache_creation_input_tokens + self.cache_read_input_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(**{name: getattr(self, name) + getattr(other, name) for name in self.__struct_fields__})


class ToolCall(msgspec.Struct, frozen=True):
    """One call of a tool in a reply."""

    name: str
    arguments: str
    """What it was given: JSON, if the model wrote it properly."""


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """What came back for one request; it exists even without an answer."""

    text: str = ""
    """What was answered."""
    stop: Stop = Stop.END
    """Why it ended."""
    usage: Usage | None = Usage()
    """None: the reply was paid for, but the provider did not say how many tokens it took."""
    model: str | None = None
    """The model that answered, as the provider names it."""
    error: str | None = None
    """Why there is no answer, in a word or two: `expired`, `canceled`, …"""
    final: bool = False
    """Whether asking again is pointless."""
    batched: bool = False
    """`batched` replies cost half."""
    choice_probabilities: dict[str, float] | None = None
    """Those of `Request.choices` as the first word of the answer; the rest up to 1 went to other words."""
    calls: tuple[ToolCall, ...] = ()
    """The tools that were called."""


UNREADABLE = "unreadable in the batch's results"
"""The error of a reply whose line in a batch's results cannot be read; its `text` says which line, and why."""


_OPENING = re.compile(r"\s*<(think|thinking)>", re.IGNORECASE | re.ASCII)
_CLOSING = {name: re.compile(f"</{name}>", re.IGNORECASE | re.ASCII) for name in ("think", "thinking")}

SPECIAL_TOKEN = r"<(?:\|[^<>|\s]*\||｜[^<>｜\s]*｜|/s|eos|end_of_turn)>"  # noqa: S105
"""What servers append after an answer's last token, as a pattern: `<|im_end|>`, `</s>`, …"""


def answer_start(text: str) -> int | None:
    """Where the answer begins in a model's text: after leading blocks of thoughts; None if one is not closed."""
    start = 0
    while opening := _OPENING.match(text, start):
        closing = _CLOSING[opening[1].lower()].search(text, opening.end())
        if closing is None:
            return None
        start = closing.end()
    return start


MAKERS = ("anthropic", "openai", "gemini")
"""The makers whose official SDK is used; they also take batches."""
PROVIDERS = (*MAKERS, *PRESETS, "scripted", "recorded")
PYTHON = "python"
"""The provider of judges that are functions: `python:MODULE:FUNCTION`."""
HOOK = "tiltyard.providers"
"""The group of entry points by which other packages register providers."""

TIMEOUT_SECONDS = 600.0
"""How long one request may take in all, from its first byte to the last of its answer, unless a setting says so."""

TAKES_IMAGES = frozenset(MAKERS)
"""Providers that are known to take images; of others the settings have to say so."""

_MAKERS = (
    (re.compile(r"claude-"), "anthropic"),
    (re.compile(r"gpt-|chatgpt-|o\d"), "openai"),
    (re.compile(r"gemini-"), "gemini"),
)


class ModelName(msgspec.Struct, frozen=True):
    """A parsed model name: the provider, and the provider's name for the model."""

    provider: str
    """Who serves it: one of `PROVIDERS`, such as `anthropic`, `openai`, `gemini`, `openrouter`, `local`."""
    model: str
    """The model's name at the provider."""
    written: str = ""
    """The provider as it was written, where it had capital letters."""

    def __str__(self) -> str:
        return f"{self.written or self.provider}{':' if self.provider == PYTHON else '/'}{self.model}"

    def shared_address(self, base_url: str | None, judges: Iterable[str | None]) -> str | None:
        """The judge's server address, if this model may use it too: a local one, or one of a judge's kind of server.

        The key of a provider such as OpenAI must not be sent to someone else's server.
        """
        preset = PRESETS.get(self.provider)
        own = preset is not None and not preset.needs_key
        kinds = {"local", *(parse_model_name(judge).provider for judge in judges if judge)}
        return base_url if own and self.provider in kinds else None


def parse_model_name(text: str) -> ModelName:
    """Parse a model name; an unknown provider is an `OptionError`.

    Parameters:
        text: `provider/model`, the provider in small or capital letters; a bare `claude-…` means Anthropic, a bare
            `gpt-…` OpenAI, a bare `gemini-…` Gemini.
    """
    name = text.strip()
    written, slash, model = name.partition("/")
    provider = written.lower()
    if slash and model and (provider in PROVIDERS or provider in registered()):
        return ModelName(provider, model, written if written != provider else "")
    if name.startswith(f"{PYTHON}:"):
        return ModelName(PYTHON, name.removeprefix(f"{PYTHON}:"))
    if not slash:
        for pattern, maker in _MAKERS:
            if pattern.match(name):
                return ModelName(maker, name)
    named = ", ".join(f"{one}/MODEL" for one in (*MAKERS, *(preset for preset in PRESETS if preset != "local")))
    raise OptionError(
        f"Cannot tell who makes the model {text!r}. Write {named}, local/MODEL (any OpenAI-compatible server with a "
        "base_url), scripted/FILE or recorded/FILE; a bare claude-…, gpt-… or gemini-… works too."
    )


@cache
def registered() -> dict[str, EntryPoint]:
    """The providers that other installed packages register, by name; none can take a name that is built in."""
    from importlib.metadata import entry_points

    return {one.name.lower(): one for one in entry_points(group=HOOK) if one.name.lower() not in PROVIDERS}


class Provider(Protocol):
    """Answers one request at a time."""

    @property
    def name(self) -> str:
        """The part of a model's name before the slash, such as `anthropic`, `openai` or `local`."""
        ...

    async def ask(self, request: Request) -> Reply:
        """The reply to one request; raises `TryLater`, `QuestionRefused` or `Refused` if there is none."""
        ...

    async def aclose(self) -> None:
        """Close connections."""
        ...


class BatchLimits(msgspec.Struct, frozen=True):
    """How much fits into one batch."""

    requests: int
    bytes: int


class BatchState(msgspec.Struct, frozen=True):
    """The state of a batch. `size` is its number of requests, `tag` our label for it, if the provider stores one.

    `unanswered` says why requests without a result have none, if the provider says so only of the whole batch.
    """

    batch_id: str
    ended: bool
    created_at: float
    size: int | None = None
    tag: str | None = None
    unanswered: str | None = None


@runtime_checkable
class BatchProvider(Provider, Protocol):
    """Also takes many requests at once, at half price, and answers within a day."""

    @property
    def batch_limits(self) -> BatchLimits:
        """How much fits into one batch."""
        ...

    def encoded_size(self, request: Request) -> int:
        """How many bytes a request takes in a batch."""
        ...

    async def submit(self, requests: Sequence[tuple[str, Request]], tag: str) -> str:
        """Submit a batch of (custom id, request) and return its id, with `tag` if the provider supports labels."""
        ...

    async def state(self, batch_id: str) -> BatchState:
        """The current state of a batch."""
        ...

    def results(self, batch_id: str) -> AsyncGenerator[tuple[str, Reply], None]:
        """The replies of an ended batch, streamed, in any order, each with its custom id.

        A line that cannot be read is a reply with the error `UNREADABLE`, under the id that stands in it, or "".
        """
        ...

    def recent_batches(self) -> AsyncGenerator[BatchState, None]:
        """The batches of this account, newest first."""
        ...

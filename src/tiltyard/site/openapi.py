"""The OpenAPI document of the JSON interface, made from its calls and the structs of what they take and return."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tiltyard import __version__
from tiltyard.arena import Choice, MatchupStatus
from tiltyard.arena.store import KeptWeek
from tiltyard.data.bank import AnswerKind

Time = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
Values = dict[str, Any]
Kinds = tuple[type[msgspec.Struct], ...]


class _Exactly(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A body without further fields."""


class MatchupBody(_Exactly, frozen=True):
    """A prompt and two answers."""

    matchup_id: str
    """Its name in the other calls."""
    prompt: str
    """What was asked."""
    response_a: str
    """The answer on side A; sides are random. Of a file, a description, or empty."""
    response_b: str
    """The answer on side B."""
    expires_at: Time
    """Until when it can be voted on."""
    kind: AnswerKind
    """What both answers are: `text`, `image`, `svg`, `html`, `voxel`, `model3d`, `audio` or `video`."""
    url_a: str | UnsetType = UNSET
    """Where the file on side A is; not of texts."""
    url_b: str | UnsetType = UNSET
    """Where the file on side B is; not of texts."""


class ReceiptBody(_Exactly, frozen=True):
    """A final vote, and the names."""

    matchup_id: str
    """Which matchup."""
    choice: Choice
    """What was counted."""
    final: Annotated[bool, Meta(extra_json_schema={"const": True})]
    """`true`: the vote cannot be undone."""
    model_a: str
    """Who wrote the answer on side A."""
    model_b: str
    """Who wrote the answer on side B."""
    display_a: str
    """The first model's name on the site."""
    display_b: str
    """The second model's name on the site."""


class HeldBackBody(_Exactly, frozen=True):
    """A vote that can still be undone."""

    matchup_id: str
    """Which matchup."""
    choice: Choice
    """What was counted."""
    final: Annotated[bool, Meta(extra_json_schema={"const": False})]
    """`false`: the vote can be undone, and its names are held back."""
    undo_until: Time
    """Until when it can be undone."""


class StateBody(_Exactly, frozen=True):
    """Where a matchup stands."""

    matchup_id: str
    """Which matchup."""
    status: MatchupStatus
    """`open`, `voted`, `skipped`, `expired` or `undone`."""
    receipt: str | UnsetType = UNSET
    """Of a final vote: its name in the public rows, which nobody else is told."""


class ChoiceBody(_Exactly, frozen=True):
    """A vote. Without `reveal` the names are held back, and the vote can be undone for a moment."""

    choice: Choice
    reveal: bool = True


class UnrenderedBody(_Exactly, frozen=True):
    """Which answers could not be shown."""

    unrendered: Literal["A", "B", "AB"]
    reveal: bool = True


class BankBody(_Exactly, frozen=True):
    """How much of the bank is known."""

    seq: int
    """How many events of the log are included."""
    votes: int
    """Counted votes."""
    prompts: Values
    """How many are `on`, of these `fresh` and `resting`; how many are `reserved` (kept for later) and `retired`."""
    answers: Values
    """Answers to prompts that are `on`: `never_named`, `often_named` (more than `often` times), `exposed_share`,
    `median_named`, `most_named`, and `named`, how many were named how often (by a counted vote), `named_by_a_vote` (how
    many one vote may name, with what its network was shown of the pair before); of all current answers `self_naming`
    and `withheld`."""
    learning: list[Values]
    """How many `votes` teach someone a `share` of one model's answers, on one network, and `votes_from_50_blocks` on
    fifty in a week."""
    rules: Values
    """The policy's section `bank`."""


class WeeksBody(_Exactly, frozen=True):
    """`GET /api/v1/validity/weeks`."""

    weeks: tuple[KeptWeek, ...]
    """One per finished week, the latest first, with its status."""


class SignedHead(_Exactly, frozen=True):
    """What proves a head."""

    statement: str
    key: str
    signature: str


class HeadLine(_Exactly, frozen=True):
    """One published head."""

    head: str
    at: Time
    signed: SignedHead | None


class HeadsBody(_Exactly, frozen=True):
    """The published heads, newest first."""

    keys: list[str]
    """The public keys by which heads were signed, the latest first."""
    heads: list[HeadLine]
    """One per head: `head` (`HASH@N`), `at`, `signed` (null, or the `statement` that was signed, the `key` and the
    `signature`)."""


class ErrorLine(_Exactly, frozen=True):
    """What went wrong: a name for programs, and a sentence."""

    code: str
    message: str


class ErrorBody(_Exactly, frozen=True):
    """A refusal."""

    error: ErrorLine


MEANINGS = {
    400: "The request cannot be read",
    403: "It came from another site's page",
    404: "There is no such thing for this visitor",
    409: "The matchup is in another state: voted with another choice, not voted on yet, or final",
    410: "The matchup is closed: skipped, expired or taken back",
    413: "The request is too large",
    415: "Send application/json",
    429: "A limit was reached; see Retry-After",
    503: "The database did not confirm anything; see Retry-After",
}
ALWAYS = (400, 413, 503)


class Call(msgspec.Struct, frozen=True):
    """One call of the interface: where, by what, what it returns (None: lines of JSON), and which errors."""

    path: str
    answer: Callable[[Request], Awaitable[Response]]
    summary: str
    returns: Kinds = ()
    failures: tuple[int, ...] = ()
    method: str = "GET"
    sends: Kinds = ()
    statuses: Mapping[int, str] = {}
    """What the statuses of success mean; if empty, 200 means the summary."""

    @property
    def route(self) -> Route:
        return Route(self.path, self.answer, methods=[self.method])


def openapi(
    calls: Iterable[Call], title: str, hidden: Mapping[str, Collection[str]] = MappingProxyType({})
) -> dict[str, Any]:
    """The document; `hidden` are fields by body that some phase of an arena does not show: null there."""
    calls = list(calls)
    structs: list[Any] = [*dict.fromkeys(kind for call in calls for kind in (*call.returns, *call.sends)), ErrorBody]
    schemas, components = msgspec.json.schema_components(structs, ref_template="#/components/schemas/{name}")
    for name in hidden.keys() & components.keys():
        properties = components[name]["properties"]
        for field in properties.keys() & hidden[name]:
            properties[field] = {"anyOf": [properties[field], {"type": "null"}]}
    known = dict(zip(structs, schemas, strict=True))
    paths: dict[str, Any] = {}
    for call in calls:
        path = call.path.replace(":path}", "}")
        paths.setdefault(path, {})[call.method.lower()] = _operation(call, path, known)
    info = {"title": title, "version": __version__}
    return {"openapi": "3.1.0", "info": info, "paths": paths, "components": {"schemas": components}}


def _operation(call: Call, path: str, known: Mapping[Any, Values]) -> dict[str, Any]:
    def content(kinds: Kinds) -> dict[str, Any]:
        if not kinds:
            return {"application/x-ndjson": {"schema": {"type": "string"}}}
        schemas = [known[kind] for kind in kinds]
        return {"application/json": {"schema": schemas[0] if len(schemas) == 1 else {"oneOf": schemas}}}

    responses = {
        str(status): {"description": meaning, "content": content(call.returns)}
        for status, meaning in (call.statuses or {200: call.summary}).items()
    }
    for status in sorted({*call.failures, *ALWAYS}):
        responses[str(status)] = {"description": MEANINGS[status], "content": content((ErrorBody,))}
    operation: Values = {
        "tags": ["arena"],
        "summary": call.summary,
        "description": inspect.getdoc(call.answer),
        "operationId": call.answer.__name__,
        "parameters": [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
            for name in re.findall(r"\{(\w+)\}", path)
        ],
        "responses": responses,
    }
    if call.sends:
        operation["requestBody"] = {"required": True, "content": content(call.sends)}
    return operation

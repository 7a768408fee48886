"""The OpenAPI document of the JSON interface, made from its calls and the structs of what they take and return."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tiltyard import __version__
from tiltyard.arena.events import Choice
from tiltyard.arena.voting import MatchupStatus
from tiltyard.bank import AnswerKind

Time = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
Values = dict[str, Any]
Kinds = tuple[type[msgspec.Struct], ...]


class _Exactly(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A body without further fields."""


class MatchupBody(_Exactly, frozen=True):
    """A prompt and two answers."""

    matchup_id: str
    prompt: str
    response_a: str
    response_b: str
    expires_at: Time
    kind: AnswerKind
    url_a: str | UnsetType = UNSET
    url_b: str | UnsetType = UNSET


class ReceiptBody(_Exactly, frozen=True):
    """A final vote, and the names."""

    matchup_id: str
    choice: Choice
    final: Annotated[bool, Meta(extra_json_schema={"const": True})]
    model_a: str
    model_b: str
    display_a: str
    display_b: str


class HeldBackBody(_Exactly, frozen=True):
    """A vote that can still be undone."""

    matchup_id: str
    choice: Choice
    final: Annotated[bool, Meta(extra_json_schema={"const": False})]
    undo_until: Time


class StateBody(_Exactly, frozen=True):
    """Where a matchup stands."""

    matchup_id: str
    status: MatchupStatus


class ChoiceBody(_Exactly, frozen=True):
    """A vote. Without `reveal` the names are held back, and the vote can be undone for a moment."""

    choice: Choice
    reveal: bool = True


class UnrenderedBody(_Exactly, frozen=True):
    """Which answers could not be shown."""

    unrendered: Literal["A", "B", "AB"]
    reveal: bool = True


class BoardBody(msgspec.Struct, frozen=True, kw_only=True):
    """The live board."""

    seq: int
    head_hash: str
    phase: int
    votes: int
    ordered_by: Literal["legacy_elo", "conservative"]
    publication: Values
    rows: list[Values]


class ModelBody(msgspec.Struct, frozen=True, kw_only=True):
    """One model."""

    row: Values


class ValidityBody(msgspec.Struct, frozen=True, kw_only=True):
    """The weekly validity report."""


class BankBody(_Exactly, frozen=True):
    """How much of the bank is known."""

    seq: int
    votes: int
    prompts: Values
    answers: Values
    learning: list[Values]
    rules: Values


class WeeksBody(_Exactly, frozen=True):
    """The finished weeks."""

    weeks: list[Values]


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
    heads: list[HeadLine]


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


@dataclass(frozen=True)
class Call:
    """One call of the interface: where, by what, what it returns (None: lines of JSON), and which errors."""

    path: str
    answer: Callable[[Request], Awaitable[Response]]
    summary: str
    returns: Kinds = ()
    failures: tuple[int, ...] = ()
    method: str = "GET"
    sends: Kinds = ()
    statuses: Mapping[int, str] = field(default_factory=dict)
    """What the statuses of success mean; if empty, 200 means the summary."""

    @property
    def route(self) -> Route:
        """As the site answers it."""
        return Route(self.path, self.answer, methods=[self.method])


def openapi(calls: Iterable[Call], title: str) -> dict[str, Any]:
    """The document."""
    calls = list(calls)
    structs: list[Any] = [*dict.fromkeys(kind for call in calls for kind in (*call.returns, *call.sends)), ErrorBody]
    schemas, components = msgspec.json.schema_components(structs, ref_template="#/components/schemas/{name}")
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

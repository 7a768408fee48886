"""What the OpenAPI document says about each call: bodies, responses, errors."""

from __future__ import annotations

from typing import Any

from tiltyard.bank import AnswerKind

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
TIME: Schema = {"type": "string", "format": "date-time"}
CHOICE: Schema = {"type": "string", "enum": ["A", "B", "TIE", "BOTH_BAD"]}
UNRENDERED: Schema = {"type": "string", "enum": ["A", "B", "AB"]}
KIND: Schema = {"type": "string", "enum": [kind.value for kind in AnswerKind]}
ANYTHING: Schema = {"type": "object"}


def _record(**fields: Schema) -> Schema:
    return {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}


def _with_optional(record: Schema, **fields: Schema) -> Schema:
    return {**record, "properties": {**record["properties"], **fields}}


SCHEMAS: dict[str, Schema] = {
    "Matchup": _with_optional(
        _record(matchup_id=TEXT, prompt=TEXT, response_a=TEXT, response_b=TEXT, expires_at=TIME, kind=KIND),
        url_a=TEXT,
        url_b=TEXT,
    ),
    "Receipt": _record(
        matchup_id=TEXT,
        choice=CHOICE,
        final={"type": "boolean", "const": True},
        model_a=TEXT,
        model_b=TEXT,
        display_a=TEXT,
        display_b=TEXT,
    ),
    "HeldBack": _record(matchup_id=TEXT, choice=CHOICE, final={"type": "boolean", "const": False}, undo_until=TIME),
    "State": _record(
        matchup_id=TEXT, status={"type": "string", "enum": ["open", "voted", "skipped", "expired", "undone"]}
    ),
    "Board": {
        "type": "object",
        "properties": {
            "seq": {"type": "integer"},
            "head_hash": TEXT,
            "phase": {"type": "integer"},
            "votes": {"type": "integer"},
            "ordered_by": {"type": "string", "enum": ["legacy_elo", "conservative"]},
            "publication": ANYTHING,
            "rows": {"type": "array", "items": ANYTHING},
        },
        "required": ["seq", "head_hash", "phase", "votes", "ordered_by", "publication", "rows"],
    },
    "Model": {"type": "object", "properties": {"row": ANYTHING}, "required": ["row"]},
    "Validity": ANYTHING,
    "Bank": _record(
        seq={"type": "integer"},
        votes={"type": "integer"},
        prompts=ANYTHING,
        answers=ANYTHING,
        learning={"type": "array", "items": ANYTHING},
        rules=ANYTHING,
    ),
    "Weeks": _record(weeks={"type": "array", "items": ANYTHING}),
    "Heads": _record(
        keys={"type": "array", "items": TEXT},
        heads={
            "type": "array",
            "items": _record(
                head=TEXT,
                at=TIME,
                signed={"oneOf": [{"type": "null"}, _record(statement=TEXT, key=TEXT, signature=TEXT)]},
            ),
        },
    ),
}

FAILURE: Schema = _record(error=_record(code=TEXT, message=TEXT))
MEANINGS = {
    400: "The request cannot be read",
    403: "It came from another site's page",
    404: "There is no such thing for this visitor",
    405: "Not with this method",
    409: "The matchup is in another state: voted with another choice, not voted on yet, or final",
    410: "The matchup is closed: skipped, expired or taken back",
    413: "The request is too large",
    415: "Send application/json",
    429: "A limit was reached; see Retry-After",
    503: "The database did not confirm anything; see Retry-After",
}
ALWAYS = (400, 413, 503)


def body(*names: str) -> Schema:
    """The JSON of a successful answer, or what it may be."""
    schemas = [SCHEMAS[name] for name in names]
    return {"application/json": {"schema": schemas[0] if len(schemas) == 1 else {"oneOf": schemas}}}


def choice_body() -> Schema:
    """The JSON that a vote sends."""
    reveal: Schema = {"type": "boolean", "default": True}
    schemas = [
        _with_optional(_record(**answer), reveal=reveal) for answer in ({"choice": CHOICE}, {"unrendered": UNRENDERED})
    ]
    return {"required": True, "content": {"application/json": {"schema": {"oneOf": schemas}}}}


def without_validation_error(document: Schema) -> Schema:
    """A document without FastAPI's own 422: what cannot be read is answered with 400 here."""
    for operations in document["paths"].values():
        for operation in operations.values():
            operation["responses"].pop("422", None)
    for name in ("HTTPValidationError", "ValidationError"):
        document.get("components", {}).get("schemas", {}).pop(name, None)
    return document


def described(
    summary: str,
    status: int,
    content: Schema | None = None,
    *failures: int,
    sends: Schema | None = None,
    rows: bool = False,
    also: dict[int, str] | None = None,
) -> dict[str, Any]:
    """What a route says of itself: its answer, what else the same answer may mean, and the errors it may give."""
    result = content or {"application/x-ndjson" if rows else "text/plain": {"schema": TEXT}}
    answers = {status: summary, **(also or {})}
    responses: dict[int, Schema] = {
        code: {"description": message, "content": result} for code, message in answers.items()
    }
    for code in sorted({*failures, *ALWAYS}):
        responses[code] = {"description": MEANINGS[code], "content": {"application/json": {"schema": FAILURE}}}
    return {
        "summary": summary,
        "responses": responses,
        "openapi_extra": {"requestBody": sends} if sends is not None else None,
        "tags": ["arena"],
    }

"""Anthropic's wire format: messages and Message Batches."""

from __future__ import annotations

import asyncio
import datetime
import json
import re
import time
from collections.abc import AsyncIterator
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.fakes.answering import World, count_tokens, is_object, schema_problem, text_of, turns_problem
from tests.fakes.ledger import Batch, content_of

STOP_REASONS = {"end": "end_turn", "length": "max_tokens", "refusal": "refusal"}
CUSTOM_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
MOST_REQUESTS = 100_000


def error_body(kind: str, message: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_fake"}


def routes(world: World) -> list[Route]:
    wire = _AnthropicWire(world)
    return [
        Route("/v1/messages", wire.message, methods=["POST"]),
        Route("/v1/messages/batches", wire.create, methods=["POST"]),
        Route("/v1/messages/batches", wire.list, methods=["GET"]),
        Route("/v1/messages/batches/{batch_id}", wire.retrieve, methods=["GET"]),
        Route("/v1/messages/batches/{batch_id}/cancel", wire.cancel, methods=["POST"]),
        Route("/v1/messages/batches/{batch_id}/results", wire.results, methods=["GET"]),
    ]


class _AnthropicWire:
    def __init__(self, world: World) -> None:
        self.world = world

    async def message(self, request: Request) -> Response:
        body = await request.json()
        problem = self._problem(body)
        if problem:
            return JSONResponse(error_body(*problem), 404 if problem[0] == "not_found_error" else 400)
        self.world.accept(body, "lost" if request.scope.get("fake.lost") else "succeeded")
        await asyncio.sleep(self.world.behaviour.latency_seconds)
        return JSONResponse(self._answer(body), headers={"request-id": "req_fake"})

    async def create(self, request: Request) -> Response:
        entries = (await request.json())["requests"]
        ids = [entry["custom_id"] for entry in entries]
        bad = [one for one in ids if not CUSTOM_ID.fullmatch(one)]
        if bad or len(set(ids)) != len(ids) or not 1 <= len(ids) <= MOST_REQUESTS:
            what = f"custom_id {bad[0]!r} is malformed" if bad else f"{len(ids)} requests, {len(set(ids))} ids"
            return JSONResponse(error_body("invalid_request_error", what), 400)
        batch = Batch(
            id=f"msgbatch_{len(self.world.ledger.batches) + 1:04d}",
            wire="anthropic",
            created_at=time.time(),
            entries=[(e["custom_id"], e["params"], self._outcome(e)) for e in entries],
        )
        self.world.ledger.add_batch(batch)
        return JSONResponse(self._shown(batch, request))

    async def retrieve(self, request: Request) -> Response:
        batch = self._batch(request)
        if batch is None:
            return JSONResponse(error_body("not_found_error", "no such batch"), 404)
        batch.polls += 1
        return JSONResponse(self._shown(batch, request))

    async def list(self, request: Request) -> Response:
        limit = int(request.query_params.get("limit", 20))
        page, more = self.world.page("anthropic", request.query_params.get("after_id"), limit)
        ids = [batch.id for batch in page]
        return JSONResponse(
            {
                "data": [self._shown(batch, request) for batch in page],
                "has_more": more,
                "first_id": ids[0] if ids else None,
                "last_id": ids[-1] if ids else None,
            }
        )

    async def cancel(self, request: Request) -> Response:
        batch = self._batch(request)
        if batch is None:
            return JSONResponse(error_body("not_found_error", "no such batch"), 404)
        if not self.world.ended(batch):
            batch.canceled = True
            batch.entries = [(custom_id, body, "canceled") for custom_id, body, _ in batch.entries]
        return JSONResponse(self._shown(batch, request))

    async def results(self, request: Request) -> Response:
        batch = self._batch(request)
        if batch is None or not self.world.ended(batch):
            return JSONResponse(error_body("not_found_error", "no results"), 404)
        return StreamingResponse(self._result_lines(batch), media_type="application/x-jsonl")

    async def _result_lines(self, batch: Batch) -> AsyncIterator[bytes]:
        lines = (
            json.dumps({"custom_id": custom_id, "result": self._result(body, outcome)}).encode()
            for custom_id, body, outcome in self.world.lines(batch)
        )
        for line in self.world.written(lines):
            yield line

    def _result(self, body: dict[str, Any], outcome: str) -> dict[str, Any]:
        kind, _, error = outcome.partition(":")
        if kind == "errored":
            problem = self._problem(body)
            return {"type": "errored", "error": error_body(*(problem or (error, "planted error")))}
        if kind in ("expired", "canceled"):
            return {"type": kind}
        return {"type": "succeeded", "message": self._answer(body)}

    def _answer(self, body: dict[str, Any]) -> dict[str, Any]:
        system, cache = _system(body)
        messages = [_text(message["content"]) for message in body["messages"]]
        said = self.world.say(system, messages, body["max_tokens"], _schema(body))
        written, read = self.world.cached_tokens(system) if cache else (0, 0)
        usage = {
            "input_tokens": count_tokens(system) + sum(map(count_tokens, messages)) - written - read,
            "output_tokens": count_tokens(said.text),
            "cache_creation_input_tokens": written,
            "cache_read_input_tokens": read,
        }
        self.world.bill(**usage)
        answer = {
            "id": f"msg_{content_of(body)[:20]}",
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "content": [_block(body, said.text)] if said.text else [],
            "stop_reason": "tool_use" if "tools" in body and said.stop == "end" else STOP_REASONS[said.stop],
            "stop_sequence": None,
            "usage": usage,
        }
        distort = self.world.behaviour.distort
        return answer if distort is None else distort(answer)

    def _problem(self, body: dict[str, Any]) -> tuple[str, str] | None:
        sampling = [name for name in ("temperature", "top_p", "top_k") if name in body]
        if sampling and self.world.behaviour.refuses_sampling:
            return "invalid_request_error", f"{sampling[0]}: Extra inputs are not permitted"
        if not isinstance(body.get("max_tokens"), int) or body["max_tokens"] < 1:
            return "invalid_request_error", "max_tokens: must be at least 1"
        messages = body.get("messages") or []
        texts = [_text(one["content"]) for one in messages]
        wrong = turns_problem([one["role"] for one in messages], texts) or self.world.behaviour.refuses(texts)
        if wrong:
            return "invalid_request_error", wrong
        schema = _schema(body)
        wrong = schema_problem(schema) if schema is not None else None
        if "tools" in body and body.get("tool_choice", {}).get("name") != body["tools"][0]["name"]:
            wrong = "tool_choice: names no tool"
        if wrong:
            return "invalid_request_error", wrong
        if any(not block["text"] for block in body.get("system") or [] if isinstance(block, dict)):
            return "invalid_request_error", "system: text content blocks must be non-empty"
        if body.get("model") in (None, "no-such-model"):
            return "not_found_error", f"model: {body.get('model')}"
        return None

    def _outcome(self, entry: dict[str, Any]) -> str:
        problem = self._problem(entry["params"])
        return f"errored:{problem[0]}" if problem else self.world.outcome(entry["custom_id"], entry["params"])

    def _batch(self, request: Request) -> Batch | None:
        batch = self.world.ledger.batches.get(request.path_params["batch_id"])
        return batch if batch is not None and batch.wire == "anthropic" else None

    def _shown(self, batch: Batch, request: Request) -> dict[str, Any]:
        ended = self.world.ended(batch)
        created = datetime.datetime.fromtimestamp(batch.created_at, datetime.UTC)
        results_url = f"{request.base_url}v1/messages/batches/{batch.id}/results"
        return {
            "id": batch.id,
            "type": "message_batch",
            "processing_status": "ended" if ended else "in_progress",
            "request_counts": _request_counts(batch, ended=ended),
            "created_at": created.isoformat(),
            "expires_at": (created + datetime.timedelta(hours=24)).isoformat(),
            "ended_at": created.isoformat() if ended else None,
            "cancel_initiated_at": created.isoformat() if batch.canceled else None,
            "archived_at": created.isoformat() if batch.archived else None,
            "results_url": results_url if ended and not batch.archived else None,
        }


def _schema(body: dict[str, Any]) -> dict[str, Any] | None:
    """The schema of the reply that a request asks for."""
    if "tools" in body:
        return body["tools"][0]["input_schema"]
    asked = body.get("output_config", {}).get("format")
    return None if asked is None else asked["schema"] if asked["type"] == "json_schema" else {}


def _block(body: dict[str, Any], text: str) -> dict[str, Any]:
    """What was said: text, or a call of the tool that the request forces; arguments that were cut off are lost."""
    if "tools" not in body or not text.startswith("{"):
        return {"type": "text", "text": text}
    arguments = json.loads(text) if is_object(text) else {}
    return {"type": "tool_use", "id": "toolu_1", "name": body["tool_choice"]["name"], "input": arguments}


def _request_counts(batch: Batch, *, ended: bool) -> dict[str, int]:
    counts = dict.fromkeys(("processing", "succeeded", "errored", "canceled", "expired"), 0)
    for _, _, outcome in batch.entries:
        kind = outcome.partition(":")[0]
        counts["processing" if not ended else kind if kind in counts else "succeeded"] += 1
    return counts


def _system(body: dict[str, Any]) -> tuple[str, bool]:
    """The system text, and whether it is marked for the prompt cache."""
    system = body.get("system") or ""
    if isinstance(system, str):
        return system, False
    return _text(system), any("cache_control" in block for block in system)


def _text(content: str | list[dict[str, Any]]) -> str:
    return text_of(content)

"""OpenAI's wire format: chat completions, files, and batches made of files."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import AsyncIterator
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.fakes.answering import World, count_tokens, schema_problem, text_of, turns_problem
from tests.fakes.behaviour import Said
from tests.fakes.ledger import Batch, content_of

FINISH_REASONS = {"end": "stop", "length": "length", "refusal": "content_filter"}
MOST_REQUESTS = 50_000


def error_body(kind: str, message: str, code: str | None = None) -> dict[str, Any]:
    return {"error": {"type": kind, "message": message, "code": code, "param": None}}


def routes(world: World) -> list[Route]:
    wire = _OpenAIWire(world)
    return [
        Route("/v1/chat/completions", wire.chat, methods=["POST"]),
        Route("/openai/v1/chat/completions", wire.chat, methods=["POST"]),
        Route("/openai/deployments/{deployment}/chat/completions", wire.chat, methods=["POST"]),
        Route("/v1/files", wire.upload, methods=["POST"]),
        Route("/v1/files/{file_id}/content", wire.content, methods=["GET"]),
        Route("/v1/batches", wire.create, methods=["POST"]),
        Route("/v1/batches", wire.list, methods=["GET"]),
        Route("/v1/batches/{batch_id}", wire.retrieve, methods=["GET"]),
        Route("/v1/batches/{batch_id}/cancel", wire.cancel, methods=["POST"]),
    ]


class _OpenAIWire:
    def __init__(self, world: World) -> None:
        self.world = world

    async def chat(self, request: Request) -> Response:
        body = await request.json()
        problem = self._problem(body)
        if problem:
            return JSONResponse(error_body(*problem), 404 if problem[-1] == "model_not_found" else 400)
        self.world.accept(body, "lost" if request.scope.get("fake.lost") else "succeeded")
        await asyncio.sleep(self.world.behaviour.latency_seconds)
        return JSONResponse(self._answer(body))

    async def upload(self, request: Request) -> Response:
        fields = _form(request.headers["content-type"], await request.body())
        file_id = self.world.ledger.add_file(fields["file"])
        return JSONResponse(
            {
                "id": file_id,
                "object": "file",
                "bytes": len(fields["file"]),
                "created_at": int(time.time()),
                "filename": "batch.jsonl",
                "purpose": fields["purpose"].decode(),
                "status": "processed",
            }
        )

    async def content(self, request: Request) -> Response:
        file_id = request.path_params["file_id"]
        if file_id in self.world.ledger.files:
            return Response(self.world.ledger.files[file_id], media_type="application/octet-stream")
        kind, _, batch_id = file_id.partition("-of-")
        batch = self.world.ledger.batches.get(batch_id)
        if batch is None or not self.world.ended(batch):
            return JSONResponse(error_body("invalid_request_error", f"No such File object: {file_id}"), 404)
        return StreamingResponse(self._lines(batch, errors=kind == "errors"), media_type="application/octet-stream")

    async def create(self, request: Request) -> Response:
        body = await request.json()
        lines = self.world.ledger.files[body["input_file_id"]].splitlines()
        entries = [json.loads(line) for line in lines]
        failure = _file_problem(entries, body["endpoint"])
        kept = [] if failure else [(e["custom_id"], e["body"], self._outcome(e)) for e in entries]
        batch = Batch(
            id=f"batch_{len(self.world.ledger.batches) + 1:04d}",
            wire="openai",
            created_at=time.time(),
            entries=kept,
            metadata=body.get("metadata"),
            input_file_id=body["input_file_id"],
            failure=failure,
        )
        self.world.ledger.add_batch(batch)
        return JSONResponse(self._shown(batch))

    async def list(self, request: Request) -> Response:
        limit = int(request.query_params.get("limit", 20))
        page, more = self.world.page("openai", request.query_params.get("after"), limit)
        return JSONResponse({"object": "list", "data": [self._shown(batch) for batch in page], "has_more": more})

    async def retrieve(self, request: Request) -> Response:
        batch = self.world.ledger.batches.get(request.path_params["batch_id"])
        if batch is None or batch.wire != "openai":
            return JSONResponse(error_body("invalid_request_error", "No such batch"), 404)
        batch.polls += 1
        return JSONResponse(self._shown(batch))

    async def cancel(self, request: Request) -> Response:
        batch = self.world.ledger.batches[request.path_params["batch_id"]]
        if not self.world.ended(batch):
            batch.canceled = True
            batch.entries = [(custom_id, body, "canceled") for custom_id, body, _ in batch.entries]
        return JSONResponse(self._shown(batch))

    async def _lines(self, batch: Batch, *, errors: bool) -> AsyncIterator[bytes]:
        lines = (
            json.dumps({"id": f"line_{custom_id}", "custom_id": custom_id, **self._line(body, outcome)}).encode()
            for custom_id, body, outcome in self.world.lines(batch)
            if (outcome in ("succeeded", "repeated")) is not errors
        )
        for line in self.world.written(lines):
            yield line

    def _line(self, body: dict[str, Any], outcome: str) -> dict[str, Any]:
        kind, _, error = outcome.partition(":")
        if kind in ("expired", "canceled"):
            code = {"expired": "batch_expired", "canceled": "batch_cancelled"}[kind]
            return {"response": None, "error": {"code": code, "message": "This request was not executed."}}
        if kind == "errored":
            status = 400 if error == "invalid_request_error" else 500
            problem = self._problem(body) or (error, "planted error")
            return {"response": {"status_code": status, "request_id": "r", "body": error_body(*problem)}, "error": None}
        answer = self._answer(body)
        return {"response": {"status_code": 200, "request_id": "r", "body": answer}, "error": None}

    def _answer(self, body: dict[str, Any]) -> dict[str, Any]:
        system = "".join(message["content"] for message in body["messages"] if message["role"] == "system")
        messages = [text_of(message["content"]) for message in body["messages"] if message["role"] != "system"]
        budget = body.get("max_completion_tokens") or body["max_tokens"]
        said = self.world.say(system, messages, budget, _schema(body))
        prompt_tokens = count_tokens(system) + sum(map(count_tokens, messages))
        output_tokens = count_tokens(said.text)
        _, read = self.world.cached_tokens(system)
        self.world.bill(
            input_tokens=prompt_tokens - read,
            output_tokens=output_tokens,
            cache_creation_input_tokens=0,
            cache_read_input_tokens=read,
        )
        answer = {
            "id": f"chatcmpl-{content_of(body)[:20]}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": body["model"],
            "choices": [] if said.stop == "nothing" else [self._choice(body, system, messages[-1], said)],
            "usage": {
                "prompt_tokens": prompt_tokens,
                "completion_tokens": output_tokens,
                "total_tokens": prompt_tokens + output_tokens,
                "prompt_tokens_details": {"cached_tokens": read},
            },
        }
        distort = self.world.behaviour.distort
        return answer if distort is None else distort(answer)

    def _choice(self, body: dict[str, Any], system: str, user: str, said: Said) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": said.text, "refusal": None}
        if "tools" in body and said.text.startswith("{"):
            call = {"name": body["tool_choice"]["function"]["name"], "arguments": said.text}
            message |= {"content": None, "tool_calls": [{"id": "call_1", "type": "function", "function": call}]}
        choice = {"index": 0, "message": message, "finish_reason": FINISH_REASONS[said.stop], "logprobs": None}
        if body.get("logprobs") and self.world.behaviour.first_token:
            shares = self.world.behaviour.first_token(system, user)
            top = [{"token": t, "logprob": math.log(p), "bytes": None} for t, p in shares.items()]
            top = sorted(top, key=lambda one: -one["logprob"])[: body.get("top_logprobs", 0)]
            thoughts, closing, answer = said.text.rpartition("</think>")
            spoken = next((one for one in top if answer.strip().startswith(one["token"].strip())), top[0])
            before = [{"token": one, "logprob": 0.0, "top_logprobs": []} for one in (thoughts, closing) if one]
            choice["logprobs"] = {"content": [*before, {**spoken, "top_logprobs": top}], "refusal": None}
        return choice

    def _problem(self, body: dict[str, Any]) -> tuple[str, str] | tuple[str, str, str] | None:
        texts = [text_of(message["content"]) for message in body.get("messages") or [] if message["role"] != "system"]
        wrong = self.world.behaviour.refuses(texts)
        return ("invalid_request_error", wrong) if wrong else _problem(body)

    def _outcome(self, entry: dict[str, Any]) -> str:
        problem = self._problem(entry["body"])
        return f"errored:{problem[0]}" if problem else self.world.outcome(entry["custom_id"], entry["body"])

    def _shown(self, batch: Batch) -> dict[str, Any]:
        ended = self.world.ended(batch)
        outcomes = {outcome for _, _, outcome in batch.entries}
        good = {"succeeded", "repeated"}
        done = "cancelled" if batch.canceled else "expired" if "expired" in outcomes else "completed"
        status = "failed" if batch.failure else done if ended else "in_progress"
        through = ended and not batch.failure
        return {
            "id": batch.id,
            "object": "batch",
            "endpoint": "/v1/chat/completions",
            "input_file_id": batch.input_file_id,
            "completion_window": "24h",
            "status": status,
            "created_at": int(batch.created_at),
            "metadata": batch.metadata,
            "errors": {"object": "list", "data": [batch.failure]} if batch.failure else None,
            "output_file_id": f"output-of-{batch.id}" if through and outcomes & good else None,
            "error_file_id": f"errors-of-{batch.id}" if through and outcomes - good - {"missing"} else None,
            "request_counts": {"total": len(batch.entries), "completed": len(batch.entries) * ended, "failed": 0},
        }


def _problem(body: dict[str, Any]) -> tuple[str, str] | tuple[str, str, str] | None:
    if body.get("model") in (None, "no-such-model"):
        return "invalid_request_error", f"The model `{body.get('model')}` does not exist", "model_not_found"
    budget = body.get("max_completion_tokens") or body.get("max_tokens")
    if not isinstance(budget, int) or budget < 1:
        return "invalid_request_error", "max_tokens is too small"
    messages = [message for message in body.get("messages") or [] if message["role"] != "system"]
    wrong = turns_problem([one["role"] for one in messages], [text_of(one["content"]) for one in messages])
    schema = _schema(body)
    if schema is not None:
        wrong = wrong or schema_problem(schema)
    return ("invalid_request_error", wrong) if wrong else None


def _schema(body: dict[str, Any]) -> dict[str, Any] | None:
    """The schema of the reply that a request asks for; an empty one if it is not asked for as OpenAI wants."""
    if "tools" in body:
        function = body["tools"][0]["function"]
        forced = body.get("tool_choice") == {"type": "function", "function": {"name": function["name"]}}
        return function["parameters"] if forced and function["strict"] is True else {}
    asked = body.get("response_format")
    if asked is None:
        return None
    return asked["json_schema"]["schema"] if asked["json_schema"]["strict"] is True else {}


def _file_problem(entries: list[dict[str, Any]], endpoint: str) -> dict[str, Any] | None:
    """Why the whole file is refused: OpenAI checks the lines before it starts."""
    ids = [entry["custom_id"] for entry in entries]
    if len(set(ids)) != len(ids):
        return {"code": "duplicate_custom_id", "message": "The custom_id is not unique", "line": 1, "param": None}
    if not 1 <= len(entries) <= MOST_REQUESTS:
        return {"code": "invalid_file", "message": f"{len(entries)} requests", "line": None, "param": None}
    wrong = [number for number, entry in enumerate(entries, 1) if entry["url"] != endpoint]
    if wrong:
        return {"code": "mismatched_url", "message": "url does not match", "line": wrong[0], "param": "url"}
    return None


def _form(content_type: str, body: bytes) -> dict[str, bytes]:
    """The fields of a multipart form: enough of RFC 7578 for what the SDK sends."""
    boundary = content_type.partition("boundary=")[2].strip('"').encode()
    fields: dict[str, bytes] = {}
    for part in body.split(b"--" + boundary)[1:-1]:
        head, _, content = part.removeprefix(b"\r\n").partition(b"\r\n\r\n")
        name = head.partition(b'name="')[2].partition(b'"')[0].decode()
        fields[name] = content.removesuffix(b"\r\n")
    return fields

"""Gemini's wire format: `generateContent`, resumable uploads, and batches made of files."""

from __future__ import annotations

import asyncio
import datetime
import json
import math
import time
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.fakes.answering import World, count_tokens, is_object, schema_problem, turns_problem
from tests.fakes.behaviour import Said
from tests.fakes.ledger import Batch, content_of

FINISH_REASONS = {"end": "STOP", "length": "MAX_TOKENS", "refusal": "SAFETY"}
STATUSES = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND"}
STATUSES |= {429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 503: "UNAVAILABLE", 504: "DEADLINE_EXCEEDED"}
CODES = {"invalid_request_error": 3, "expired": 4, "canceled": 1}


def error_body(code: int, message: str, reason: str | None = None) -> dict[str, Any]:
    error: dict[str, Any] = {"code": code, "message": message, "status": STATUSES.get(code, "UNKNOWN")}
    if reason:
        error["details"] = [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason}]
    return {"error": error}


def routes(world: World) -> list[Route]:
    wire = _GeminiWire(world)
    return [
        Route("/v1beta/models/{model}:generateContent", wire.generate, methods=["POST"]),
        Route("/v1beta/models/{model}:batchGenerateContent", wire.create, methods=["POST"]),
        Route("/upload/v1beta/files", wire.start_upload, methods=["POST"]),
        Route("/upload/v1beta/files/{upload_id}", wire.upload, methods=["POST"]),
        Route("/v1beta/files/{name}:download", wire.download, methods=["GET"]),
        Route("/v1beta/batches", wire.list, methods=["GET"]),
        Route("/v1beta/batches/{name}:cancel", wire.cancel, methods=["POST"]),
        Route("/v1beta/batches/{name}", wire.retrieve, methods=["GET"]),
    ]


class _GeminiWire:
    def __init__(self, world: World) -> None:
        self.world = world

    async def generate(self, request: Request) -> Response:
        body = await request.json()
        problem = self._problem(request.path_params["model"], body)
        if problem:
            return JSONResponse(error_body(*problem), problem[0])
        self.world.accept(body, "lost" if request.scope.get("fake.lost") else "succeeded")
        await asyncio.sleep(self.world.behaviour.latency_seconds)
        return JSONResponse(self._answer(request.path_params["model"], body))

    async def start_upload(self, request: Request) -> Response:
        assert request.headers["x-goog-upload-command"] == "start"
        headers = {"x-goog-upload-url": f"{request.base_url}upload/v1beta/files/pending?upload_id=1"}
        return JSONResponse({}, headers=headers | {"x-goog-upload-status": "active"})

    async def upload(self, request: Request) -> Response:
        name = self.world.ledger.add_file(await request.body())
        shown = {"name": f"files/{name}", "mimeType": "application/jsonl", "state": "ACTIVE"}
        return JSONResponse({"file": shown}, headers={"x-goog-upload-status": "final"})

    async def download(self, request: Request) -> Response:
        batch = self.world.ledger.batches.get(request.path_params["name"].removeprefix("results-of-"))
        if batch is None or batch.archived or not self.world.ended(batch):
            return JSONResponse(error_body(404, "no such file"), 404)
        lines = (json.dumps(self._line(*entry)).encode() for entry in self.world.lines(batch))
        return Response(b"".join(self.world.written(lines)), media_type="application/jsonl")

    async def create(self, request: Request) -> Response:
        asked, model = (await request.json())["batch"], request.path_params["model"]
        file_name = asked["inputConfig"]["fileName"].removeprefix("files/")
        entries = [json.loads(line) for line in self.world.ledger.files[file_name].splitlines()]
        problem = self._problem(model, {**entries[0]["request"]})
        if problem and problem[0] == 404:
            return JSONResponse(error_body(*problem), 404)
        batch = Batch(
            id=f"batch{len(self.world.ledger.batches) + 1:04d}",
            wire="gemini",
            created_at=time.time(),
            entries=[(e["key"], e["request"], self._outcome(model, e)) for e in entries],
            metadata={"tag": asked["displayName"], "model": model},
        )
        self.world.ledger.add_batch(batch)
        return JSONResponse(self._shown(batch))

    async def list(self, request: Request) -> Response:
        limit = int(request.query_params.get("pageSize", 20))
        page, more = self.world.page("gemini", request.query_params.get("pageToken"), limit)
        body: dict[str, Any] = {"operations": [self._shown(batch) for batch in page]} if page else {}
        return JSONResponse(body | ({"nextPageToken": page[-1].id} if more else {}))

    async def retrieve(self, request: Request) -> Response:
        batch = self.world.ledger.batches.get(request.path_params["name"])
        if batch is None or batch.wire != "gemini":
            return JSONResponse(error_body(404, "no such batch"), 404)
        batch.polls += 1
        return JSONResponse(self._shown(batch))

    async def cancel(self, request: Request) -> Response:
        batch = self.world.ledger.batches[request.path_params["name"]]
        batch.canceled = not self.world.ended(batch)
        return JSONResponse({})

    def _line(self, key: str, body: dict[str, Any], outcome: str) -> dict[str, Any]:
        kind, _, error = outcome.partition(":")
        if kind in ("expired", "canceled", "errored"):
            code = CODES.get(error or kind, 13)
            return {"key": key, "error": {"code": code, "message": "planted error"}}
        return {"key": key, "response": self._answer("some-model", body)}

    def _answer(self, model: str, body: dict[str, Any]) -> dict[str, Any]:
        system = _text(body.get("systemInstruction", {}))
        messages = [_text(content) for content in body["contents"]]
        said = self.world.say(system, messages, body["generationConfig"]["maxOutputTokens"], _schema(body))
        _, read = self.world.cached_tokens(system)
        counts = {
            "promptTokenCount": count_tokens(system) + sum(map(count_tokens, messages)),
            "cachedContentTokenCount": read,
            "candidatesTokenCount": count_tokens(said.text),
        }
        self.world.bill(
            input_tokens=counts["promptTokenCount"] - read,
            output_tokens=counts["candidatesTokenCount"],
            cache_creation_input_tokens=0,
            cache_read_input_tokens=read,
        )
        usage = {name: count for name, count in counts.items() if count}
        usage["totalTokenCount"] = counts["promptTokenCount"] + counts["candidatesTokenCount"]
        answer: dict[str, Any] = {"usageMetadata": usage, "modelVersion": model, "responseId": content_of(body)[:12]}
        if said.stop == "nothing":
            return answer | {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}
        return answer | {"candidates": [self._candidate(body, said, system, messages)]}

    def _candidate(self, body: dict[str, Any], said: Said, system: str, messages: list[str]) -> dict[str, Any]:
        candidate: dict[str, Any] = {"index": 0, "finishReason": FINISH_REASONS[said.stop]}
        part: dict[str, Any] = {"text": said.text}
        function = _function(body)
        if function is not None and is_object(said.text):
            part = {"functionCall": {"name": function["name"], "args": json.loads(said.text)}}
        candidate["content"] = {"role": "model"} | ({"parts": [part]} if said.text else {})
        known = self.world.behaviour.first_token
        if body["generationConfig"].get("responseLogprobs"):
            shares = known(system, messages[-1]) if known else {}
            top = [{"token": word, "logProbability": math.log(share)} for word, share in shares.items() if share]
            chosen = {"token": said.text, "logProbability": -0.1}
            candidate["logprobsResult"] = {"chosenCandidates": [chosen], "topCandidates": [{"candidates": top}]}
        return candidate

    def _problem(self, model: str, body: dict[str, Any]) -> tuple[int, str] | None:
        if model == "no-such-model":
            return 404, f"models/{model} is not found for API version v1beta"
        config = body["generationConfig"]
        if not isinstance(config.get("maxOutputTokens"), int) or config["maxOutputTokens"] < 1:
            return 400, "max_output_tokens must be positive"
        if config.get("responseLogprobs") and self.world.behaviour.first_token is None:
            return 400, f"Logprobs is not enabled for models/{model}"
        schema, function = _schema(body), _function(body)
        if schema is not None and (wrong := schema_problem(schema)):
            return 400, wrong
        called = (
            {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": [function["name"]]}} if function else None
        )
        if body.get("toolConfig") != called:
            return 400, "toolConfig: the tool is not forced"
        unknown = set(body) - {
            "contents",
            "systemInstruction",
            "generationConfig",
            "safetySettings",
            "tools",
            "toolConfig",
        }
        if unknown:
            return 400, f"Invalid JSON payload received. Unknown name {sorted(unknown)}"
        roles = [{"model": "assistant"}.get(one["role"], one["role"]) for one in body["contents"]]
        texts = [_text(one) for one in body["contents"]]
        wrong = turns_problem(roles, texts) or self.world.behaviour.refuses(texts)
        return (400, wrong) if wrong else None

    def _outcome(self, model: str, entry: dict[str, Any]) -> str:
        problem = self._problem(model, entry["request"])
        return "errored:invalid_request_error" if problem else self.world.outcome(entry["key"], entry["request"])

    def _shown(self, batch: Batch) -> dict[str, Any]:
        ended = self.world.ended(batch)
        state = "CANCELLED" if batch.canceled else "FAILED" if batch.failure else "SUCCEEDED" if ended else "RUNNING"
        created = datetime.datetime.fromtimestamp(batch.created_at, datetime.UTC)
        shown: dict[str, Any] = {"name": f"batches/{batch.id}"}
        shown["metadata"] = metadata = {
            "@type": "type.googleapis.com/google.ai.generativelanguage.v1main.GenerateContentBatch",
            "model": "models/some-model",
            "displayName": (batch.metadata or {}).get("tag"),
            "createTime": created.isoformat().replace("+00:00", "456Z"),
            "batchStats": {"requestCount": str(len(batch.entries))},
            "state": f"BATCH_STATE_{state}",
        }
        if batch.failure:
            return shown | {"done": True, "error": batch.failure}
        if state == "SUCCEEDED":
            metadata["output"] = {"responsesFile": f"files/results-of-{batch.id}"}
            return shown | {"done": True, "response": metadata["output"]}
        return shown


def _function(body: dict[str, Any]) -> dict[str, Any] | None:
    tools = body.get("tools")
    return tools[0]["functionDeclarations"][0] if tools else None


def _schema(body: dict[str, Any]) -> dict[str, Any] | None:
    """The schema of the reply, as text or as the arguments of a call."""
    function = _function(body)
    config = body["generationConfig"]
    assert ("responseJsonSchema" in config) == (config.get("responseMimeType") == "application/json")
    return function["parametersJsonSchema"] if function else config.get("responseJsonSchema")


def _text(content: dict[str, Any]) -> str:
    return "".join(part.get("text", "") for part in content.get("parts", []))

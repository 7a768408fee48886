"""A model that says what a script tells it to: no network, no key, the same answer every time. For tests and demos."""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import yaml

from tiltyard.errors import OptionError, Refused, TryLater
from tiltyard.files import write_bytes
from tiltyard.judge.llm.provider import BatchLimits, BatchState, Reply, Request, Stop, ToolCall, Usage
from tiltyard.judge.llm.providers.wire import encodable

if TYPE_CHECKING:
    Answer = Callable[[Request], Reply | str]

_CHARACTERS_PER_TOKEN = 4
_RULE_WORDS = {"when", "say", "stop", "error", "final"}
_SCRIPT_WORDS = {"rules", "batches", "polls"}


class ScriptedProvider:
    """Answers one request at a time, from a function. A plain string is a complete answer, cut off at `max_tokens`.

    Parameters:
        answer: The function that answers a request: a text, or a `Reply`.
    """

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self.asked: Counter[str] = Counter()
        """How often each request was answered, by fingerprint."""

    @property
    def name(self) -> str:
        """`scripted`."""
        return "scripted"

    async def ask(self, request: Request) -> Reply:
        """The scripted reply."""
        self.asked[request.fingerprint] += 1
        return self._reply(request)

    async def aclose(self) -> None:
        """Nothing to close."""

    def _reply(self, request: Request) -> Reply:
        answer = self._answer(request)
        return answer if isinstance(answer, Reply) else _as_reply(request, answer)


class _Batch(msgspec.Struct, frozen=True, kw_only=True):
    batch_id: str
    created_at: float
    tag: str
    requests: list[tuple[str, Request]]


class ScriptedBatchProvider(ScriptedProvider):
    """Also takes batches: each is in progress for `polls` state queries, then has ended.

    With a `folder` batches are kept there, one file each, so that a process that is killed and started again finds
    what it had sent.
    """

    def __init__(
        self,
        answer: Answer,
        *,
        folder: Path | None = None,
        polls: int = 0,
        limits: BatchLimits | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(answer)
        self._limits = limits or BatchLimits(requests=100_000, bytes=256_000_000)
        self._folder = folder
        self._clock = clock
        self._polls_left: Counter[str] = Counter()
        self._polls = polls
        self._batches: dict[str, _Batch] = {}
        for path in sorted(folder.glob("batch_*.json")) if folder else []:
            batch = msgspec.json.decode(path.read_bytes(), type=_Batch)
            self._batches[batch.batch_id] = batch
            self._count(batch)

    @property
    def batch_limits(self) -> BatchLimits:
        return self._limits

    def encoded_size(self, request: Request) -> int:
        return len(msgspec.json.encode(request))

    async def submit(self, requests: Sequence[tuple[str, Request]], tag: str) -> str:
        if not 0 < len(requests) <= self._limits.requests or len({custom_id for custom_id, _ in requests}) < len(
            requests
        ):
            raise Refused(f"A batch holds 1 to {self._limits.requests} requests with different ids.")
        number = len(self._batches) + 1
        batch = _Batch(batch_id=f"batch_{number:06d}", created_at=self._clock(), tag=tag, requests=list(requests))
        if self._folder is not None:
            write_bytes(self._folder / f"{batch.batch_id}.json", msgspec.json.encode(batch))
        self._batches[batch.batch_id] = batch
        self._count(batch)
        return batch.batch_id

    async def state(self, batch_id: str) -> BatchState:
        """The state of a batch; each query brings it closer to its end."""
        state = self._state(self._batch(batch_id))
        self._polls_left[batch_id] -= 1
        return state

    async def results(self, batch_id: str) -> AsyncGenerator[tuple[str, Reply], None]:
        """The replies of an ended batch, last first."""
        batch = self._batch(batch_id)
        if not self._state(batch).ended:
            raise TryLater(f"Batch {batch_id} has not ended yet. Ask for its results later.")
        for custom_id, request in reversed(batch.requests):
            yield custom_id, msgspec.structs.replace(self._reply(request), batched=True)

    async def recent_batches(self) -> AsyncGenerator[BatchState, None]:
        """All batches, newest first."""
        for batch in reversed(self._batches.values()):
            yield self._state(batch)

    def _batch(self, batch_id: str) -> _Batch:
        try:
            return self._batches[batch_id]
        except KeyError:
            raise Refused(f"There is no batch {batch_id}.") from None

    def _count(self, batch: _Batch) -> None:
        self.asked.update(request.fingerprint for _, request in batch.requests)
        self._polls_left[batch.batch_id] = self._polls

    def _state(self, batch: _Batch) -> BatchState:
        ended = self._polls_left[batch.batch_id] <= 0
        return BatchState(batch.batch_id, ended, batch.created_at, len(batch.requests), batch.tag)


def read_script(path: Path) -> ScriptedProvider:
    """The model that a script file describes.

    A script is YAML or JSON: `rules`, a list; the first rule whose `when` words all occur in the request, earlier turns
    included, answers with its `say`. If `say` is a list, the content decides which entry is used. A rule may also give
    `stop` (`end`, `length`, `refusal`) or `error` and `final`. With `batches: true`, or a folder for them beside the
    script, it takes batches; `polls` says for how many state queries they are in progress.
    """
    try:
        script = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:  # ValueError: no UTF-8, or no such date
        raise OptionError(f"{path}: cannot be read as a script ({type(error).__name__}).") from None
    if not isinstance(script, dict) or not isinstance(script.get("rules"), list) or set(script) - _SCRIPT_WORDS:
        raise OptionError(f"{path}: a script needs `rules`, a list, and may have `batches` and `polls`, nothing else.")
    polls = script.get("polls", 0)
    if isinstance(polls, bool) or not isinstance(polls, int) or polls < 0:
        raise OptionError(f"{path}: `polls` is {polls!r}. It is a whole number, 0 or more.")
    answer = answer_by_rules(script["rules"], str(path))
    batches = script.get("batches", False)
    if not batches:
        return ScriptedProvider(answer)
    folder = path.parent / batches if isinstance(batches, str) else None
    return ScriptedBatchProvider(answer, folder=folder, polls=polls)


def answer_by_rules(rules: Sequence[Mapping[str, Any]], where: str = "script") -> Answer:
    """A function that answers by the first rule that fits; a request that none fits is `Refused`."""
    for number, rule in enumerate(rules, 1):
        _check_rule(rule, f"{where}: rule {number}")

    def answer(request: Request) -> Reply | str:
        asked = "\n".join(_texts(request))
        for rule in rules:
            words = rule.get("when", [])
            if all(word in asked for word in ([words] if isinstance(words, str) else words)):
                return _by_rule(request, rule)
        raise Refused(
            f"{where}: no rule fits the request {request.fingerprint[:12]}. Add one without `when` at the end."
        )

    return answer


def _check_rule(rule: object, where: str) -> None:
    if not isinstance(rule, dict) or set(rule) - _RULE_WORDS or not {"say", "error"} & set(rule):
        raise OptionError(f"{where} needs `say` or `error`, and may have `when`, `stop` and `final`, nothing else.")
    words = rule.get("when", [])
    if not isinstance(words, str | list) or not all(isinstance(word, str) for word in words):
        raise OptionError(f"{where}: `when` is {words!r}. It is a text or a list of texts; put numbers into quotes.")
    if rule.get("say") == []:
        raise OptionError(f"{where} has an empty list to `say`.")
    if rule.get("stop", Stop.END) not in list(Stop):
        raise OptionError(f"{where}: `stop` is {rule['stop']!r}. It is one of {', '.join(Stop)}.")


def _by_rule(request: Request, rule: Mapping[str, Any]) -> Reply | str:
    if "error" in rule:
        return Reply(error=str(rule["error"]), final=bool(rule.get("final", False)))
    say = rule["say"]
    if isinstance(say, list):
        say = say[int(hashlib.sha256("\0".join(_texts(request)).encode()).hexdigest(), 16) % len(say)]
    if "stop" in rule:
        return msgspec.structs.replace(_as_reply(request, str(say)), stop=Stop(rule["stop"]))
    return str(say)


def _texts(request: Request) -> list[str]:
    return [request.system, *(words for _, words in request.messages)]


def _as_reply(request: Request, text: str) -> Reply:
    """A complete answer, with about as many tokens as a real one, cut off at the request's budget."""
    most = request.max_tokens * _CHARACTERS_PER_TOKEN
    kept = text[:most]
    wanted = request.structured
    called = wanted is not None and wanted.as_tool
    return Reply(
        text="" if called else encodable(kept),
        calls=(ToolCall(wanted.name, encodable(kept)),) if wanted is not None and called else (),
        stop=Stop.LENGTH if len(text) > most else Stop.END,
        usage=Usage(
            input_tokens=sum(len(text) for text in _texts(request)) // _CHARACTERS_PER_TOKEN,
            output_tokens=len(kept) // _CHARACTERS_PER_TOKEN,
        ),
        model=request.model,
    )

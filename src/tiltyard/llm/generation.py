"""Filling an entrant's response file from a provider: only what is missing, each answer with how it was made."""

from __future__ import annotations

import asyncio
import hashlib
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from tiltyard.bank import Prompt, Response, append_responses, read_responses, responses_path
from tiltyard.llm.asking import Ask, Watch
from tiltyard.llm.records import Reply, Request
from tiltyard.llm.runner import DEFAULT_SETTINGS, Notice, ask_all

if TYPE_CHECKING:
    import random
    from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from tiltyard.llm.budget import Budget
    from tiltyard.llm.prices import PriceTable
    from tiltyard.llm.provider import Provider
    from tiltyard.llm.settings import AskingSettings
    from tiltyard.llm.totals import Tally, Totals


@dataclass(frozen=True, slots=True, kw_only=True)
class EntrantSettings:
    """How an entrant answers. With a `seed`, each prompt has its own, derived from it and recorded with the answer.

    It is sent to the provider (as the option `seed`) only with `send_seed`, since many refuse it.
    """

    entrant_id: str
    model: str
    system: str = ""
    max_tokens: int = 1024
    options: Mapping[str, Any] = field(default_factory=dict)
    seed: int | None = None
    send_seed: bool = False

    def seed_for(self, prompt_id: str) -> int | None:
        """The seed of one prompt: 31 bits of the SHA-256 of entrant's seed and prompt id."""
        if self.seed is None:
            return None
        digest = hashlib.sha256(f"{self.seed}:{prompt_id}".encode()).digest()
        return int.from_bytes(digest[:4], "big") >> 1

    def request(self, prompt: Prompt) -> Request:
        """What is sent for a prompt."""
        options = dict(self.options)
        if self.send_seed and self.seed is not None:
            options["seed"] = self.seed_for(prompt.prompt_id)
        return Request(
            model=self.model, system=self.system, user=prompt.text, max_tokens=self.max_tokens, options=options
        )


@dataclass(frozen=True, slots=True)
class Generated:
    """What generating came to. `failed` says why, by prompt; it is not written down, so the next run tries again."""

    entrant_id: str
    present: int
    """How many of the prompts had a response before."""
    written: int
    truncated: int
    """How many of those written were cut off at `max_tokens`."""
    failed: Mapping[str, str]
    totals: Totals


async def generate(
    entrant: EntrantSettings,
    prompts: Sequence[Prompt],
    folder: Path,
    provider: Provider,
    *,
    prices: PriceTable,
    settings: AskingSettings = DEFAULT_SETTINGS,
    timestamp: Callable[[], str] = lambda: datetime.now(UTC).isoformat(timespec="seconds"),
    watch: Watch | None = None,
    notice: Notice | None = None,
    budget: Budget | None = None,
    tally: Tally | None = None,
    now: Callable[[], float] = time.time,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    rng: random.Random | None = None,
) -> Generated:
    """Fill `responses_<entrant>.jsonl` in `folder`; what was there, what was added, and what failed.

    The journal of its batches lies in a folder of its own beside the file, so that entrants can be generated side by
    side. The shelf of every ask is the entrant.
    """
    bench = _Bench(entrant, prompts, folder, timestamp, notice)
    totals = await ask_all(
        bench.missing(),
        provider,
        bench.keep,
        folder=folder / f"asking_{entrant.entrant_id}",
        prices=prices,
        settings=settings,
        watch=watch,
        notice=notice,
        budget=budget,
        tally=tally,
        now=now,
        sleep=sleep,
        rng=rng,
    )
    return Generated(entrant.entrant_id, bench.present, bench.written, bench.truncated, bench.failed, totals)


class _Bench:
    """The asks that are missing, and the sink that writes their replies down."""

    def __init__(
        self,
        entrant: EntrantSettings,
        prompts: Sequence[Prompt],
        folder: Path,
        timestamp: Callable[[], str],
        notice: Notice | None,
    ) -> None:
        self._entrant = entrant
        self._prompts = prompts
        self._folder = folder
        self._timestamp = timestamp
        self._notice = notice
        self._system_sha256 = hashlib.sha256(entrant.system.encode()).hexdigest()
        self._have: set[str] = set()
        self._prompt_ids: dict[str, str] = {}
        self.present = 0
        self.written = 0
        self.truncated = 0
        self.failed: dict[str, str] = {}

    def missing(self) -> Iterator[Ask]:
        """An ask for each prompt without a response. Read when begun, so that another process's answers count."""
        path = responses_path(self._folder, self._entrant.entrant_id)
        responses: dict[str, Response] = {}
        if path.exists():
            responses = read_responses(self._folder, self._entrant.entrant_id)
        self._have = set(responses)
        self.present = sum(prompt.prompt_id in responses for prompt in self._prompts)
        self._mention_other_settings(responses)
        for prompt in self._prompts:
            if prompt.prompt_id not in self._have:
                request = self._entrant.request(prompt)
                key = f"{prompt.prompt_id}:{request.fingerprint}"
                self._prompt_ids[key] = prompt.prompt_id
                yield Ask(key, request, self._entrant.entrant_id)

    def keep(self, ask: Ask, reply: Reply) -> Ask | None:
        """Write a reply down as a response; one without words is a failure, counted and not written."""
        prompt_id = self._prompt_ids[ask.key]
        if reply.error is not None:
            self.failed[prompt_id] = reply.error
        elif not reply.text:
            self.failed[prompt_id] = f"empty reply ({reply.stop})"
        elif prompt_id not in self._have:
            append_responses(self._folder, self._entrant.entrant_id, [self._response(prompt_id, reply)])
            self._have.add(prompt_id)
            self.written += 1
            self.truncated += reply.stop == "length"
        return None

    def _response(self, prompt_id: str, reply: Reply) -> Response:
        return Response(
            entrant_id=self._entrant.entrant_id,
            prompt_id=prompt_id,
            response_text=reply.text,
            timestamp=self._timestamp(),
            diagnostics={
                "model": reply.model or self._entrant.model,
                "requested_model": self._entrant.model,
                "stop": str(reply.stop),
                "seed": self._entrant.seed_for(prompt_id),
                "seed_sent": self._entrant.send_seed and self._entrant.seed is not None,
                "system_sha256": self._system_sha256,
                "max_tokens": self._entrant.max_tokens,
                "options": dict(self._entrant.options),
                "usage": msgspec.to_builtins(reply.usage),
                "batched": reply.batched,
            },
        )

    def _mention_other_settings(self, responses: Mapping[str, Response]) -> None:
        """A word when responses that are kept were made with another model or system text."""
        ours = (self._entrant.model, self._system_sha256)
        others = 0
        for response in responses.values():
            made = response.diagnostics or {}
            theirs = (made.get("requested_model"), made.get("system_sha256"))
            others += None not in theirs and theirs != ours
        if others and self._notice is not None:
            self._notice(
                f"{others} responses of {self._entrant.entrant_id} were made with another model or system text "
                "and are kept. Remove them from its file to have them made anew."
            )

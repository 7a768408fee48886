"""Filling an entrant's response file from a provider: only missing answers, each with how it was generated.

A prompt may be a conversation of several user messages. They are asked turn by turn with the model's own replies in
between, the next turn of all prompts together; a reply is on disk before the turn that builds on it is sent.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from tiltyard.data.bank import Image, Prompt, Response, append_responses, read_responses, responses_path, show_turns
from tiltyard.errors import ModelError, OptionError
from tiltyard.files import write_lines
from tiltyard.judge.llm.asking import AskingParts, Budget, Notice, Totals, Watch
from tiltyard.judge.llm.direct import FailureSummary, Trial
from tiltyard.judge.llm.journal import append_line
from tiltyard.judge.llm.keys import redact
from tiltyard.judge.llm.provider import Ask, Provider, Reply, Request, ShownImage, Stop, Usage
from tiltyard.judge.llm.runner import ask_all

if TYPE_CHECKING:
    Turns = Mapping[str, Sequence[str]]


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """One reply of a conversation. `turn` counts from 1."""

    key: str
    prompt_id: str
    turn: int
    reply: Reply


def read_turns(path: Path) -> dict[str, Reply]:
    """The saved replies of an entrant's conversations by key. What a killed process left of a line is cut off."""
    if not path.exists():
        return {}
    data = path.read_bytes()
    whole = data.rfind(b"\n") + 1
    if whole != len(data):
        os.truncate(path, whole)
    decoder = msgspec.json.Decoder(Turn)
    replies = {}
    for number, line in enumerate(data[:whole].split(b"\n")[:-1], start=1):
        try:
            turn = decoder.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ModelError(
                f"{path}:{number}: not a turn of a conversation ({error}). Remove the line: that turn is then asked "
                "for, and paid, once more."
            ) from None
        replies[turn.key] = turn.reply
    return replies


class FailedPrompt(msgspec.Struct, frozen=True, kw_only=True):
    """A line of `failures_<entrant>.jsonl`: a prompt without a response, and why."""

    prompt_id: str
    error: str
    timestamp: str


class EntrantSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How an entrant answers.

    With a `seed`, each prompt gets its own seed, derived from it and recorded with the answer.

    It is sent to the provider (as the option `seed`) only with `send_seed`, since many refuse it.
    """

    entrant_id: str
    model: str
    system: str = ""
    max_tokens: int = 1024
    options: Mapping[str, Any] = msgspec.field(default_factory=dict)
    seed: int | None = None
    send_seed: bool = False

    def seed_for(self, prompt_id: str) -> int | None:
        """The seed of one prompt: 31 bits of the SHA-256 of entrant's seed and prompt id."""
        if self.seed is None:
            return None
        digest = hashlib.sha256(f"{self.seed}:{prompt_id}".encode()).digest()
        return int.from_bytes(digest[:4], "big") >> 1

    def request(
        self,
        prompt: Prompt,
        *,
        user: str | None = None,
        earlier: tuple[tuple[str, str], ...] = (),
        images: tuple[Image, ...] = (),
    ) -> Request:
        """What is sent for a prompt; in a conversation, for the message `user` after the `earlier` turns.

        The prompt's own system text follows that of the entrant, and its own turns come before all others.
        """
        options = dict(self.options)
        if self.send_seed and self.seed is not None:
            options["seed"] = self.seed_for(prompt.prompt_id)
        return Request(
            model=self.model,
            system="\n\n".join(text for text in (self.system, prompt.system) if text),
            user=prompt.text if user is None else user,
            max_tokens=self.max_tokens,
            options=options,
            earlier=(*prompt.earlier, *earlier),
            images=tuple(ShownImage(image=image) for image in images),
        )


class Generated(msgspec.Struct, frozen=True):
    """The result of generating. `failed` gives the reason by prompt; the next run tries again.

    A conversation fails at its first failed turn (`turn 2: …`); the turns before it are kept. `totals` count asks, one
    for each turn.
    """

    entrant_id: str
    present: int
    """How many of the prompts had a response before."""
    written: int
    truncated: int
    """How many of those written were cut off at `max_tokens`, in any turn."""
    failed: Mapping[str, str]
    totals: Totals


async def generate(
    entrant: EntrantSettings,
    prompts: Sequence[Prompt],
    folder: Path,
    provider: Provider,
    parts: AskingParts,
    *,
    turns: Turns | None = None,
    images: Mapping[str, tuple[Image, ...]] | None = None,
    timestamp: Callable[[], str] = lambda: datetime.now(UTC).isoformat(timespec="seconds"),
    watch: Watch | None = None,
) -> Generated:
    """Fill `responses_<entrant>.jsonl` in `folder`; what was there, what was added, and what failed.

    The journal of its batches is in a separate folder beside the file, so that entrants can be generated in parallel.
    The group of every ask is the entrant. `turns` are the user's messages by prompt id; a prompt not in it is a single
    message, its text. `images` are those of prompts, by id, sent with the first message. The response to several
    messages is the model's replies as `show_turns` shows them.

    A prompt that fails is named in `failures_<entrant>.jsonl` beside the responses, and the others continue. An entrant
    that has no response yet and fails on its first 20 prompts raises a `ModelError`.
    """
    state = _Generation(entrant, prompts, turns or {}, images or {}, folder, timestamp, parts.notice)
    tally = parts.tally or Totals(watch)
    shared = replace(parts, tally=tally, budget=parts.budget or Budget(parts.settings.budget_usd))
    pace = parts.settings.pace(parts.now)
    work = folder / f"asking_{entrant.entrant_id}"
    try:
        for _ in range(state.most_turns):
            await ask_all(state.next_turns(), provider, state.keep, shared, folder=work, trial=state.trial, pace=pace)
            if not state.unfinished:
                break
    finally:
        state.write_failures()
    return Generated(entrant.entrant_id, state.present, state.written, state.truncated, state.failed, tally)


def _messages(prompt: Prompt, turns: Turns) -> tuple[str, ...]:
    messages = turns.get(prompt.prompt_id, (prompt.text,))
    if not messages or isinstance(messages, str):
        raise OptionError(
            f"the turns of prompt {prompt.prompt_id!r} are {messages!r}. Give a list of at least one message, or leave "
            "the prompt out of `turns`."
        )
    return tuple(messages)


@dataclass(frozen=True, slots=True)
class _Place:
    """The state of a conversation: its prompt, the replies so far, and its number of turns."""

    prompt_id: str
    before: tuple[Reply, ...]
    turns: int

    def failure(self, why: str) -> str:
        return why if self.turns == 1 else f"turn {len(self.before) + 1}: {why}"


class _Generation:
    """Generates the next asks, and is the sink that saves their replies."""

    def __init__(
        self,
        entrant: EntrantSettings,
        prompts: Sequence[Prompt],
        turns: Turns,
        images: Mapping[str, tuple[Image, ...]],
        folder: Path,
        timestamp: Callable[[], str],
        notice: Notice,
    ) -> None:
        self._entrant = entrant
        self._prompts = prompts
        self._messages = {prompt.prompt_id: _messages(prompt, turns) for prompt in prompts}
        self._images = images
        self._folder = folder
        self._timestamp = timestamp
        self._notice = notice
        self._system_sha256 = hashlib.sha256(entrant.system.encode()).hexdigest()
        self._turns_path = folder / f"conversations_{entrant.entrant_id}.jsonl"
        self._turns: dict[str, Reply] = {}
        self._failures_path = folder / f"failures_{entrant.entrant_id}.jsonl"
        self._failed_before: dict[str, FailedPrompt] = {}
        self._have: set[str] | None = None
        self._places: dict[str, _Place] = {}
        self.present = 0
        self.written = 0
        self.truncated = 0
        self.failed: dict[str, str] = {}
        self.trial = Trial(self._give_up)

    def _give_up(self, failures: FailureSummary) -> ModelError:
        return ModelError(
            f"{self._entrant.entrant_id} ({self._entrant.model}) answered none of the first {failures.total} prompts; "
            f"{failures.count} failed: {failures.why}{failures.quoted}. Check its model, address, options and account, "
            f"then run again; {self._failures_path} names the prompts."
        )

    @property
    def most_turns(self) -> int:
        return max(map(len, self._messages.values()), default=1)

    @property
    def unfinished(self) -> bool:
        """Whether a prompt has neither a response nor a failure."""
        return any(not self._over(prompt) for prompt in self._prompts)

    def next_turns(self) -> Iterator[Ask]:
        """An ask for each prompt without a response: its first turn without a reply.

        The files are read when iteration starts, under the lock, so that another process's answers count. Prompts that
        failed before come last, so that a run that gave up does not stop at the same ones again.
        """
        self._read()
        for prompt in sorted(self._prompts, key=lambda prompt: prompt.prompt_id in self._failed_before):
            ask = None if self._over(prompt) else self._next_turn(prompt)
            if ask is not None:
                yield ask

    def keep(self, ask: Ask, reply: Reply) -> Ask | None:
        """Save a reply; an empty one is a failure, counted and not saved."""
        place = self._places[ask.key]
        words = reply.text.strip() if place.turns > 1 else reply.text  # no provider accepts a blank earlier turn
        if reply.error is not None or not words:
            self._fail(place, reply)
            return None
        self.trial.succeeded()
        number = len(place.before) + 1
        if place.turns > 1 and ask.key not in self._turns:
            append_line(self._turns_path, Turn(key=ask.key, prompt_id=place.prompt_id, turn=number, reply=reply))
            self._turns[ask.key] = reply
        if number == place.turns:
            self._write(place.prompt_id, (*place.before, reply))
        return None

    def _fail(self, place: _Place, reply: Reply) -> None:
        why, words = reply.error, reply.text
        if why is None:
            names = ", ".join(call.name or "unnamed" for call in reply.calls)
            why, words = (f"tool call, no text ({names})" if names else f"empty reply ({reply.stop})"), ""
        message = redact(f"{why}: {words}" if words and words != why else why)
        self.failed[place.prompt_id] = place.failure(" ".join(message.split()))
        self.trial.failed("error", why, words)

    def write_failures(self) -> None:
        """Write every prompt that failed, now or before, and has no response; without any, there is no file."""
        if self._have is None:
            return
        now = self._timestamp()
        new = {name: FailedPrompt(prompt_id=name, error=why, timestamp=now) for name, why in self.failed.items()}
        lines = [line for name, line in (self._failed_before | new).items() if name not in self._have]
        if lines:
            write_lines(self._failures_path, lines)
        else:
            self._failures_path.unlink(missing_ok=True)

    def _over(self, prompt: Prompt) -> bool:
        return prompt.prompt_id in (self._have or ()) or prompt.prompt_id in self.failed

    def _read(self) -> None:
        path = responses_path(self._folder, self._entrant.entrant_id)
        responses: dict[str, Response] = {}
        if path.exists():
            responses = read_responses(self._folder, self._entrant.entrant_id)
        if self._have is None:
            self.present = sum(prompt.prompt_id in responses for prompt in self._prompts)
            if self.present:
                self.trial.succeeded()
            lines = self._failures_path.read_bytes().split(b"\n") if self._failures_path.exists() else ()
            for line in lines:  # one that cannot be read is skipped: they only affect the order of asking
                with suppress(msgspec.DecodeError, UnicodeDecodeError):
                    failed = msgspec.json.decode(line, type=FailedPrompt)
                    self._failed_before[failed.prompt_id] = failed
            others = sum(map(self._made_otherwise, responses.values()))
            if others:
                self._notice(
                    f"{others} responses of {self._entrant.entrant_id} were made with another model, system text or "
                    "number of turns and are kept. Remove them from its file to have them generated again."
                )
        self._have = set(responses)
        self._places.clear()
        self._turns = read_turns(self._turns_path)

    def _next_turn(self, prompt: Prompt) -> Ask | None:
        """The ask for the first turn without a reply; None if there is none, or it cannot be asked."""
        messages = self._messages[prompt.prompt_id]
        earlier: tuple[tuple[str, str], ...] = ()
        replies: tuple[Reply, ...] = ()
        for message in messages:
            place = _Place(prompt.prompt_id, replies, len(messages))
            if len(messages) > 1 and not message.strip():
                self.failed[prompt.prompt_id] = place.failure("the user's message is empty")
                return None
            images = () if earlier else self._images.get(prompt.prompt_id, ())
            request = self._entrant.request(prompt, user=message, earlier=earlier, images=images)
            key = f"{prompt.prompt_id}:{request.fingerprint}"
            reply = self._turns.get(key) if len(messages) > 1 else None
            if reply is None:
                self._places[key] = place
                return Ask(key, request, self._entrant.entrant_id)
            earlier, replies = (*earlier, (message, reply.text)), (*replies, reply)
        self._write(prompt.prompt_id, replies)
        return None

    def _write(self, prompt_id: str, replies: tuple[Reply, ...]) -> None:
        if self._have is None or prompt_id in self._have:
            return
        unusual = (reply.stop for reply in replies if reply.stop is not Stop.END)
        stated = [reply.usage for reply in replies if reply.usage is not None]
        usage = sum(stated, Usage()) if len(stated) == len(replies) else None
        response = Response(
            entrant_id=self._entrant.entrant_id,
            prompt_id=prompt_id,
            response_text=show_turns([reply.text for reply in replies]),
            timestamp=self._timestamp(),
            diagnostics={
                "model": replies[-1].model or self._entrant.model,
                "requested_model": self._entrant.model,
                "turns": len(replies),
                "stop": str(next(unusual, Stop.END)),
                "seed": self._entrant.seed_for(prompt_id),
                "seed_sent": self._entrant.send_seed and self._entrant.seed is not None,
                "system_sha256": self._system_sha256,
                "max_tokens": self._entrant.max_tokens,
                "options": dict(self._entrant.options),
                "usage": None if usage is None else msgspec.structs.asdict(usage),
                "batched": all(reply.batched for reply in replies),
            },
        )
        append_responses(self._folder, self._entrant.entrant_id, [response])
        self._have.add(prompt_id)
        self.written += 1
        self.truncated += any(reply.stop is Stop.LENGTH for reply in replies)

    def _made_otherwise(self, response: Response) -> bool:
        """Whether the response's own record says so; without such a record it may be ours."""
        made = response.diagnostics or {}
        theirs = (made.get("requested_model"), made.get("system_sha256"))
        if None in theirs:
            return False
        wanted = len(self._messages.get(response.prompt_id, ()))
        return theirs != (self._entrant.model, self._system_sha256) or (wanted > 0 and made.get("turns", 1) != wanted)

"""What the wire formats share: the state of the server, the answer to one question, the pace of a batch."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.fakes.behaviour import Behaviour, Said
from tests.fakes.ledger import Accepted, Batch, Ledger, content_of


def count_tokens(text: str) -> int:
    """About as many tokens as a text has."""
    return max(1, len(text) // 4) if text else 0


def text_of(content: Any) -> str:
    """The text of a message, whose content is text or a list of parts."""
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content)


def images_of(content: Any) -> list[str]:
    """The images of a message, as their bytes in base64 or their addresses."""
    found = []
    for part in content if isinstance(content, list) else []:
        if part["type"] == "image":
            source = part["source"]
            found.append(source["url"] if source["type"] == "url" else source["data"])
        elif part["type"] == "image_url":
            found.append(part["image_url"]["url"].rpartition("base64,")[2])
    return found


def turns_problem(roles: list[str], texts: list[str]) -> str | None:
    """What is wrong with a conversation: user and assistant take turns, the user first and last, nobody is silent."""
    if roles != ["user" if place % 2 == 0 else "assistant" for place in range(len(roles))] or len(roles) % 2 == 0:
        return f"messages: roles must alternate and end with user, not {', '.join(roles)}"
    if any(not text.strip() for text in texts):
        return "messages: text content blocks must be non-empty"
    return None


GRADES = {"A": "A>B", "B": "B>>A", "TIE": "A=B"}


def as_object(text: str, schema: dict[str, Any]) -> str:
    """What a judge said as the object that a schema asks for; words without a verdict line stay as they are."""
    reasoning, _, last = text.rpartition("\n")
    if not last.startswith("VERDICT: "):
        return text
    word, allowed = last.removeprefix("VERDICT: "), schema["properties"]["verdict"]["enum"]
    return json.dumps({"reasoning": reasoning, "verdict": word if word in allowed else GRADES[word]})


def schema_problem(schema: Any) -> str | None:
    """What is wrong with a schema of a strict reply: every field is required, and no other is allowed."""
    if not isinstance(schema, dict) or schema.get("type") != "object":
        return "schema: must be of type object"
    if schema.get("additionalProperties") is not False or schema.get("required") != list(schema["properties"]):
        return "schema: every property must be required, and additionalProperties must be false"
    return None


def is_object(text: str) -> bool:
    """Whether a text is one JSON object."""
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


@dataclass
class World:
    """All there is behind the routes."""

    behaviour: Behaviour
    ledger: Ledger

    def say(self, system: str, messages: list[str], max_tokens: int, schema: dict[str, Any] | None = None) -> Said:
        """The answer of the model, by the schema of the request if it has one, cut off at the token budget."""
        talk = self.behaviour.talk
        said = talk(system, messages) if talk is not None else self.behaviour.judge(system, messages[-1])
        if isinstance(said, str):
            said = Said(said)
        if schema is not None and said.stop == "end":
            said = Said(as_object(said.text, schema))
        if count_tokens(said.text) > max_tokens:
            return Said(said.text[: max_tokens * 4], "length")
        return said

    def accept(self, body: dict[str, Any], outcome: str = "succeeded") -> None:
        """Count a request that came alone."""
        self.ledger.accept(Accepted(content_of(body), body, outcome))

    def outcome(self, custom_id: str, body: dict[str, Any]) -> str:
        """What will become of a request of a batch."""
        return self.behaviour.outcome(custom_id, body, self.ledger.times(content_of(body)))

    def ended(self, batch: Batch) -> bool:
        """Whether a batch is through."""
        if batch.canceled or batch.failure:
            return True
        waited = time.time() - batch.created_at >= self.behaviour.batch_seconds
        return waited and batch.polls > self.behaviour.batch_polls

    def lines(self, batch: Batch) -> Iterator[tuple[str, dict[str, Any], str]]:
        """The entries that get a line in the results, out of order, with strangers among them."""
        entries = [entry for entry in batch.entries if entry[2] != "missing"]
        entries += [entry for entry in batch.entries if entry[2] == "repeated"]
        for number in range(self.behaviour.strangers if entries else 0):
            entries.append((f"stranger-{number}", entries[0][1], "succeeded"))
        random.Random(batch.id).shuffle(entries)
        yield from entries

    def written(self, lines: Iterator[bytes]) -> Iterator[bytes]:
        """The lines of a results file, each with its end; some of them may be spoilt."""
        spoil = self.behaviour.spoil
        for number, line in enumerate(lines, 1):
            yield (line if spoil is None else spoil(number, line)) + b"\n"

    def page(self, wire: str, after: str | None, limit: int) -> tuple[list[Batch], bool]:
        """A page of batches, newest first, and whether more follow."""
        newest_first = [batch for batch in reversed(self.ledger.batches.values()) if batch.wire == wire]
        ids = [batch.id for batch in newest_first]
        start = ids.index(after) + 1 if after in ids else 0
        size = min(limit, self.behaviour.largest_page)
        return newest_first[start : start + size], start + size < len(newest_first)

    def bill(self, **tokens: int) -> None:
        """Count the tokens of an answer."""
        self.ledger.billed.update(answers=1, **tokens)

    def cached_tokens(self, system: str) -> tuple[int, int]:
        """Tokens written to and read from the prompt cache for this prefix."""
        tokens = count_tokens(system)
        if tokens < max(1, self.behaviour.cache_minimum_tokens):
            return 0, 0
        if system in self.ledger.cached:
            return 0, tokens
        self.ledger.cached.add(system)
        return tokens, 0

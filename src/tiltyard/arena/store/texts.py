"""The texts of prompts and answers, with a cache in memory."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence

import sqlalchemy as sa

from tiltyard.arena.events import ResponseAdded
from tiltyard.arena.store.bulk import fetch, one_of
from tiltyard.arena.store.tables import prompts, responses

KEPT_CHARACTERS = 32_000_000

_TEXTS = {
    "prompt": sa.select(prompts.c.prompt_id, prompts.c.text).where(one_of(prompts.c.prompt_id, "ids")),
    "response": sa.select(responses.c.response_id, responses.c.text).where(one_of(responses.c.response_id, "ids")),
}

Key = tuple[str, str]
"""`prompt` or `response`, and its id."""


class TextCache:
    """Texts by id. An answer's text never changes; a prompt's may, so `forget` it when it does."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Key, str] = OrderedDict()
        self._characters = 0

    def get(self, connection: sa.Connection, keys: Iterable[Key]) -> dict[Key, str]:
        """The texts of these; those not in memory are read in one go."""
        wanted = set(keys)
        result = {key: self._kept[key] for key in wanted if key in self._kept}
        for key in result:
            self._kept.move_to_end(key)
        missing = wanted - result.keys()
        for kind in {key[0] for key in missing}:
            for name, text in fetch(connection, _TEXTS[kind], {"ids": [key[1] for key in missing if key[0] == kind]}):
                result[kind, name] = text
                self._keep((kind, name), text)
        return result

    def forget(self, key: Key) -> None:
        """Read this one again next time."""
        self._characters -= len(self._kept.pop(key, ""))

    def _keep(self, key: Key, value: str) -> None:
        if key not in self._kept:
            self._kept[key] = value
            self._characters += len(value)
        while self._characters > KEPT_CHARACTERS and self._kept:
            self._characters -= len(self._kept.popitem(last=False)[1])


_taken = sa.select(responses.c.response_id, responses.c.text, responses.c.file).where(
    one_of(responses.c.response_id, "ids")
)


def responses_taken(connection: sa.Connection, added: Sequence[ResponseAdded]) -> dict[str, tuple[str, str]]:
    """The text and the file that responses with the ids of these already have."""
    names = [response.response_id for response in added]
    return {name: (text, file) for name, text, file in fetch(connection, _taken, {"ids": names})}

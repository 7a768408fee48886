"""An answer that is values and a text: what `--format json` and `--format table` print."""

from __future__ import annotations

from typing import Any

import msgspec

from tiltyard.files import json_text


class Rendered(msgspec.Struct, frozen=True):
    """An answer as values, and as a text for people."""

    values: Any
    text: str

    def to_dict(self) -> Any:
        return msgspec.to_builtins(self.values)

    def to_json(self) -> str:
        return json_text(self.values)

    def render(self, format: str = "table") -> str:
        """The answer for people (`table`) or for programs (`json`)."""
        return self.to_json() if format == "json" else self.text

    __str__ = render

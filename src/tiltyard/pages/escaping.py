"""Text on a page: always escaped unless it is `Html`, with control characters made visible."""

from __future__ import annotations

import re
from typing import Any

from markupsafe import Markup, escape

CONTROLS = (
    {code: 0x2400 + code for code in range(32) if chr(code) not in "\t\n\r"}
    | {0x7F: 0x2421}
    | dict.fromkeys((*range(0x80, 0xA0), *range(0xD800, 0xE000)), 0xFFFD)
)
"""Control characters become visible symbols: a page may not contain them, and a reader should see them."""

CONTROL = re.compile("[" + "".join(map(chr, CONTROLS)) + "]")


class Html(Markup):
    """Markup that is safe to place on a page, because our own templates and pictures made it."""

    __slots__ = ()


def visible(value: Any) -> Any:
    """A value as a template shows it: a text without control characters, anything else as it is."""
    return value.translate(CONTROLS) if type(value) is str and CONTROL.search(value) else value


def text(value: str) -> Html:
    """Any text as markup that shows exactly this text; `Html` is returned unchanged."""
    return value if isinstance(value, Html) else Html(escape(visible(str(value))))


def plain(markup: str) -> str:
    """The text of a piece of markup, for a label."""
    return markup.striptags() if isinstance(markup, Markup) else markup


def shortened(value: str, length: int = 90) -> str:
    """The beginning of a text on one line."""
    line = " ".join(value[: 4 * length].split())
    return line if len(line) <= length else line[: length - 1].rstrip() + "…"

"""Text on a page: always escaped unless it is `Html`, with control characters made visible."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Any

from markupsafe import Markup, escape

CONTROLS = (
    {code: 0x2400 + code for code in range(32) if chr(code) not in "\t\n\r"}
    | {0x7F: 0x2421}
    | dict.fromkeys((*range(0x80, 0xA0), *range(0xD800, 0xE000)), 0xFFFD)
)
"""Control characters become visible symbols: a page may not contain them, and a reader should see them."""

CONTROL = re.compile("[" + "".join(map(chr, CONTROLS)) + "]")

BLANK = "\u115f\u1160\u2800\u3164\uffa0\U00013441\U00013442\U00016fe4\U0001d159"
"""Letters that are drawn as a blank or as nothing, though Unicode calls them neither."""


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


IGNORED = (
    *(("\u034f", "\u034f"), ("\u17b4", "\u17b5"), ("\u180b", "\u180f"), ("\u2065", "\u2065"), ("\ufe00", "\ufe0f")),
    *(("\ufff0", "\ufff8"), ("\U000e0000", "\U000e0fff")),
)
"""Ranges of letters that Unicode has programs ignore (Default_Ignorable_Code_Point), besides format characters."""


def is_unseen(letter: str) -> bool:
    """Whether a letter is not seen, or steers how others are shown; those that join letters are allowed."""
    return (
        letter in BLANK
        or (unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Zl", "Zp") and letter not in "\u200c\u200d")
        or any(low <= letter <= high for low, high in IGNORED)
    )


def seen(line: str) -> str:
    """A text in which every letter is seen: one that is not is written as its code, and no other line begins."""
    return "".join(letter.encode("unicode_escape").decode() if is_unseen(letter) else letter for letter in line)


def look_alikes(names: Iterable[str]) -> Iterator[str]:
    """The names that a reader takes for another one, or does not see, a sentence each."""
    known: dict[str, str] = {}
    for name in names:
        letters = [" " if letter.isspace() else letter for letter in name if letter not in "\u200c\u200d"]
        as_read = []
        for drawn in (" ", ""):
            shown = (
                drawn if letter in BLANK else letter for letter in letters if letter in BLANK or not is_unseen(letter)
            )
            as_read.append(" ".join(unicodedata.normalize("NFKC", "".join(shown)).split()))
        if other := next((known[one] for one in as_read if one in known), ""):
            yield f"two names look alike: {other!a} and {name!a}"
        elif not as_read[0]:
            yield f"nobody sees the name {name!a}"
        known |= dict.fromkeys(as_read, name)

"""Words of a provider as we can keep them: encodable, or as one line of ours without secrets. It knows no SDK."""

from __future__ import annotations

import unicodedata

from tiltyard.llm.keys import redact

_LONGEST_MESSAGE = 300
_UNSEEN = ("Cc", "Cf")
"""Control and format characters: escape sequences, letters that turn the direction of writing."""


def encodable(said: str) -> str:
    """The text with `?` for each half of a surrogate pair: JSON can spell one, but no file can hold it."""
    return said.encode("utf-8", "replace").decode()


def one_line(said: str, advice: str = "") -> str:
    """A message of one line, not too long, without secrets and without what steers a terminal."""
    plain = "".join(" " if unicodedata.category(letter) in _UNSEEN else letter for letter in encodable(said))
    line = " ".join(redact(plain).split())
    if len(line) > _LONGEST_MESSAGE:
        line = line[: _LONGEST_MESSAGE - 1] + "…"
    return f"{line.rstrip('.')}. {advice}".strip()

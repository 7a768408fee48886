"""Words of a provider as we can keep them: encodable, or as one line of ours without secrets. It knows no SDK."""

from __future__ import annotations

from tiltyard.llm.keys import redact

_LONGEST_MESSAGE = 300


def encodable(said: str) -> str:
    """The text with `?` for each half of a surrogate pair: JSON can spell one, but no file can hold it."""
    return said.encode("utf-8", "replace").decode()


def one_line(said: str, advice: str = "") -> str:
    """A message of one line, not too long, without secrets."""
    line = " ".join(redact(encodable(said)).split())
    if len(line) > _LONGEST_MESSAGE:
        line = line[: _LONGEST_MESSAGE - 1] + "…"
    return f"{line.rstrip('.')}. {advice}".strip()

"""Words of a provider as one line of ours: not too long, without secrets. It knows no SDK."""

from __future__ import annotations

from tiltyard.llm.keys import redact

_LONGEST_MESSAGE = 300


def one_line(said: str, advice: str = "") -> str:
    """A message of one line, not too long, without secrets."""
    line = " ".join(redact(said).split())
    if len(line) > _LONGEST_MESSAGE:
        line = line[: _LONGEST_MESSAGE - 1] + "…"
    return f"{line.rstrip('.')}. {advice}".strip()

"""Reading a judge's reply: its last line, or the probabilities of three words; all else is a named failure."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tiltyard.judging.records import Said
from tiltyard.llm.records import Stop

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tiltyard.llm.records import Reply

_EMPHASIS = r"[*_`#~\s]*"
_LABEL = rf"{_EMPHASIS}[\[(]?(?P<label>A|B|TIE)[\])]?{_EMPHASIS}[.!]?{_EMPHASIS}"
_VERDICT_LINE = re.compile(rf"{_EMPHASIS}VERDICT{_EMPHASIS}[:：]{_LABEL}", re.IGNORECASE | re.ASCII)
_BARE_LABEL = re.compile(_LABEL.replace("|TIE", "|C|TIE"), re.IGNORECASE | re.ASCII)
_MEANT = {"A": Said.A, "B": Said.B, "C": Said.TIE, "TIE": Said.TIE}
"""What a word of `Request.choices` says."""
_LONGEST_LINE = 80
"""A longer line says more than a verdict; and matching stays quick whatever a judge writes."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What a reply says. `score_a` is the soft preference for the first slot; `why` says more about a failure."""

    said: Said
    score_a: float | None = None
    why: str | None = None


def read_reply(reply: Reply, choices: tuple[str, ...] = ()) -> Reading:
    """The verdict of a reply, or what kept it from being one. `choices` are those of the request, where it had any.

    A reply that was cut off has no last line, whatever stands at its end; one that was refused has no verdict, whatever
    it says. Both are asked again.
    """
    if reply.error is not None:
        return Reading(Said.ERROR, why=reply.error)
    if reply.stop is Stop.REFUSAL:
        return Reading(Said.REFUSED, why="the judge declined")
    if choices and reply.choice_probabilities:
        chances = reply.choice_probabilities
        return read_probabilities({_MEANT[word]: chances[word] for word in choices if word in chances})
    if reply.stop is Stop.LENGTH:
        return Reading(Said.TRUNCATED, why="cut off at max_tokens")
    said = read_label(reply.text, choices) if choices else read_verdict_line(reply.text)
    if said is None:
        return Reading(Said.UNPARSED, why="the last line is no verdict" if reply.text.strip() else "the reply is empty")
    return Reading(said)


def read_verdict_line(text: str) -> Said | None:
    """The verdict in the last non-empty line of a text, which must be `VERDICT: A`, `B` or `TIE` and nothing more.

    Markdown emphasis around it, letter case and a closing full stop do not matter. A verdict anywhere else in the text
    does not count: it may be a quotation, a supposition, or the answer's own words.
    """
    word = _match(_VERDICT_LINE, text)
    return Said(word) if word else None


def read_label(text: str, choices: Sequence[str] = ("A", "B", "TIE")) -> Said | None:
    """The verdict of a one-word reply; None when there is anything beside the word, or it is none of the choices."""
    word = _match(_BARE_LABEL, text) if len(text.split()) == 1 else None
    return _MEANT[word] if word and word in choices else None


def read_probabilities(probabilities: Mapping[str, float]) -> Reading:
    """The likeliest of the three words, with P(A) + P(TIE)/2 as the soft preference for the first slot.

    A and B equally likely are a tie.
    """
    chance = {word: probabilities.get(word.value, 0.0) for word in (Said.A, Said.B, Said.TIE)}
    total = sum(chance.values())
    if not (math.isfinite(total) and total > 0 and min(chance.values()) >= 0):
        return Reading(Said.UNPARSED, why="none of A, B and TIE has a probability")
    said = max((Said.TIE, Said.A, Said.B), key=lambda word: chance[word])
    if chance[Said.A] == chance[Said.B]:
        said = Said.TIE
    return Reading(said, score_a=chance[Said.A] / total + chance[Said.TIE] / total / 2)


def _match(pattern: re.Pattern[str], text: str) -> str | None:
    lines = text.strip().splitlines()
    if not lines or len(lines[-1]) > _LONGEST_LINE:
        return None
    match = pattern.fullmatch(lines[-1].strip())
    return match["label"].upper() if match else None

"""Reading a judge's reply: its last line, or the probabilities of three words; anything else is a named failure."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tiltyard.judging.records import VerdictLabel
from tiltyard.llm.records import Stop, answer_start

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tiltyard.llm.records import Reply

_EMPHASIS = r"[*_`#~\s]*"
_LABEL = rf"{_EMPHASIS}[\[(]?(?P<label>A|B|TIE)[\])]?{_EMPHASIS}[.!]?{_EMPHASIS}"
_VERDICT_LINE = re.compile(rf"{_EMPHASIS}VERDICT{_EMPHASIS}[:：]{_LABEL}", re.IGNORECASE | re.ASCII)
_BARE_LABEL = re.compile(_LABEL.replace("|TIE", "|C|TIE"), re.IGNORECASE | re.ASCII)
_MEANT = {"A": VerdictLabel.A, "B": VerdictLabel.B, "C": VerdictLabel.TIE, "TIE": VerdictLabel.TIE}
"""The verdict that each word of `Request.choices` stands for."""
_LONGEST_LINE = 80
"""A longer line cannot be just a verdict; the limit also keeps matching fast for any reply."""
MIN_CHOICE_MASS = 0.5
"""Below it, the judge was more likely to say something else than any of the allowed words."""


@dataclass(frozen=True, slots=True)
class ParsedReply:
    """The verdict in a reply. `score_a` is the soft preference for the first slot; `why` explains a failure.

    `choice_mass` is the total probability of the allowed words, if there are probabilities.
    """

    label: VerdictLabel
    score_a: float | None = None
    why: str | None = None
    choice_mass: float | None = None


def read_reply(reply: Reply, choices: tuple[str, ...] = (), *, min_choice_mass: float = MIN_CHOICE_MASS) -> ParsedReply:
    """The verdict of a reply, or the reason why there is none. `choices` are those of the request, if it had any.

    Thoughts before the answer are skipped. A truncated reply has no verdict line, whatever it ends with; a refused one
    has no verdict, whatever it says. Both are asked again. One exception: if probabilities were requested and given, a
    one-word answer counts even if truncated after that word, because servers limited to one token end every answer that
    way.
    """
    if reply.error is not None:
        return ParsedReply(VerdictLabel.ERROR, why=reply.error)
    if reply.stop is Stop.REFUSAL:
        return ParsedReply(VerdictLabel.REFUSED, why="the judge declined")
    cut_off = reply.stop is Stop.LENGTH
    start = answer_start(reply.text)
    if start is None:
        why = "cut off at max_tokens while thinking" if cut_off else "the thoughts have no end"
        return ParsedReply(VerdictLabel.TRUNCATED if cut_off else VerdictLabel.UNPARSED, why=why)
    answer = reply.text[start:]
    chances = reply.choice_probabilities if choices else None
    if cut_off and (chances is None or read_label(answer, choices) is None):
        return ParsedReply(VerdictLabel.TRUNCATED, why="cut off at max_tokens")
    if chances is not None:
        meant = {_MEANT[word].value: chances[word] for word in choices if word in chances}
        return read_probabilities(meant, min_choice_mass=min_choice_mass)
    label = read_label(answer, choices) if choices else read_verdict_line(answer)
    return (
        ParsedReply(label)
        if label is not None
        else ParsedReply(VerdictLabel.UNPARSED, why=_no_verdict(answer, choices))
    )


def read_verdict_line(text: str) -> VerdictLabel | None:
    """The verdict in the last non-empty line of a text, which must be `VERDICT: A`, `B` or `TIE` and nothing more.

    Markdown emphasis around it, letter case and a closing full stop do not matter. A verdict anywhere else in the text
    does not count: it may be quoted or hypothetical, or part of an answer. Only a line feed (or CR LF) ends a line.
    """
    word = _match(_VERDICT_LINE, text)
    return VerdictLabel(word) if word else None


def read_label(text: str, choices: Sequence[str] = ("A", "B", "TIE")) -> VerdictLabel | None:
    """The verdict of a one-word reply; None if there is anything besides the word, or it is not one of the choices."""
    word = _match(_BARE_LABEL, text) if len(text.split(maxsplit=1)) == 1 else None
    return _MEANT[word] if word and word in choices else None


def read_probabilities(probabilities: Mapping[str, float], *, min_choice_mass: float = MIN_CHOICE_MASS) -> ParsedReply:
    """The most likely of the three words, with P(A) + P(TIE)/2 as the soft preference for the first slot.

    If A and B are equally likely, it is a tie. The three probabilities must sum to at least `min_choice_mass`: a judge
    that most likely wanted to say something else says little about the answers.
    """
    chance = {word: probabilities.get(word.value, 0.0) for word in (VerdictLabel.A, VerdictLabel.B, VerdictLabel.TIE)}
    total = sum(chance.values())
    if not (math.isfinite(total) and min(chance.values()) >= 0):
        return ParsedReply(VerdictLabel.UNPARSED, why="what the server gives are no probabilities")
    mass = min(total, 1.0)
    if mass < min_choice_mass or total == 0:
        shown = math.floor(mass * 100) / 100
        why = f"the allowed answers have a probability of {shown:.2f} together; a verdict needs {min_choice_mass:.2f}"
        return ParsedReply(VerdictLabel.UNPARSED, why=why, choice_mass=mass)
    label = max((VerdictLabel.TIE, VerdictLabel.A, VerdictLabel.B), key=lambda word: chance[word])
    if chance[VerdictLabel.A] == chance[VerdictLabel.B]:
        label = VerdictLabel.TIE
    return ParsedReply(
        label, score_a=chance[VerdictLabel.A] / total + chance[VerdictLabel.TIE] / total / 2, choice_mass=mass
    )


def _no_verdict(answer: str, choices: Sequence[str]) -> str:
    if not answer.strip():
        return "the reply is empty"
    return f"the reply is not one of {', '.join(choices)}" if choices else "the last line is no verdict"


def _match(pattern: re.Pattern[str], text: str) -> str | None:
    line = text.strip().rpartition("\n")[2]
    if len(line) > _LONGEST_LINE:
        return None
    match = pattern.fullmatch(line.strip())
    return match["label"].upper() if match else None

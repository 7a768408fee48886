"""The forms in which a judge may reply: what it is told at the end, the words it may use, and what they are worth.

The texts are frozen like those of `questions.py`: a changed word is a changed request, which is paid for again.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Literal

from tiltyard.errors import OptionError
from tiltyard.judging.records import VerdictLabel
from tiltyard.llm.records import ReplySchema

ReplyForm = Literal["reasoned", "label", "choice", "json", "tool"]
"""`reasoned`: a short comparison that ends in the verdict line. `label`: one word, whose probability is asked for.
`choice`: the same as a multiple-choice question without instructions, for judges too small to follow them. `json`: a
JSON object with a short comparison and the verdict, by the provider's JSON schemas. `tool`: the same object as the
arguments of a tool that the judge has to call."""

CHOICES: dict[ReplyForm, tuple[str, ...]] = {
    "reasoned": (),
    "label": ("A", "B", "TIE"),
    "choice": ("A", "B", "C"),
    "json": (),
    "tool": (),
}
"""The words that a form of reply allows, where their probabilities are asked for; C stands for a tie."""

GRADES: dict[str, tuple[VerdictLabel, float]] = {
    "A>>B": (VerdictLabel.A, 1.0),
    "A>B": (VerdictLabel.A, 0.75),
    "A=B": (VerdictLabel.TIE, 0.5),
    "B>A": (VerdictLabel.B, 0.25),
    "B>>A": (VerdictLabel.B, 0.0),
}
"""Graded verdicts: the winner, and the soft preference for the first slot, in equal steps (methods in full)."""

WORDS = tuple(label.value for label in VerdictLabel if label.readable)
"""The verdicts without grades: A, B and TIE."""

GRADED_FORMS: tuple[ReplyForm, ...] = ("reasoned", "json", "tool")
"""The forms that can say by how much an answer is better."""

STRUCTURED_FORMS: tuple[ReplyForm, ...] = ("json", "tool")
"""The forms whose reply is a JSON object."""

_QUESTION = ("model", "messages", "system", "contents")
"""What every request sets, in the words of all makers."""

_RESERVED = ("response_format", "tools", "tool_choice", "toolConfig", "responseMimeType", "responseJsonSchema")
"""Parameters of providers that a structured form sets itself."""

_VERDICT = "verdict"
_REASONING = "reasoning"

_FIELDS = """\
"reasoning": a comparison of the answers in a few sentences;
"verdict": {verdict}"""

_PLAIN = '"A" if answer A is better, "B" if answer B is better, "TIE" if neither is.'
_GRADED = """one of "A>>B", "A>B", "A=B", "B>A" and "B>>A". {means}"""
_MEANS = """\
A>>B means that answer A is much better, A>B that it is better, but not by much, A=B that neither is; B>A and B>>A say
the same of answer B."""

_REASONED_CLOSING = """\
How to reply
Compare the answers in a few sentences. Then end your reply with one line of its own, exactly one of these {count}:
{lines}"""

_LABEL_CLOSING = """\
How to reply
Reply with one word and nothing else: A if answer A is better, B if answer B is better, TIE if neither is."""

_JSON_CLOSING = f"""\
How to reply
Reply with one JSON object and nothing else. It has two fields, in this order:
{_FIELDS}"""

_TOOL_CLOSING = f"""\
How to reply
Reply by calling the tool `verdict` once. It takes two fields, in this order:
{_FIELDS}"""

_TOOL_DESCRIPTION = "Records the comparison of the two answers and the verdict on them."


def check_form(reply: ReplyForm, grades: bool, options: dict[str, Any]) -> None:
    """Refuse a form of reply with settings that it cannot have.

    Parameters:
        reply: The form of the reply.
        grades: Whether verdicts are graded.
        options: Further parameters for the provider.
    """
    if grades and reply not in GRADED_FORMS:
        known = ", ".join(GRADED_FORMS)
        raise OptionError(f"grades of the judge need a reply that can state them: one of {known}, not {reply!r}.")
    for name in _QUESTION:
        if name in options:
            raise OptionError(
                f"options of the judge set {name}, which is the question itself or who is asked: the verdicts would "
                "stand under a name that did not give them. Leave it out."
            )
    taken = [name for name in _RESERVED if name in options]
    if reply in STRUCTURED_FORMS and (taken or "format" in _output_config(options)):
        name = taken[0] if taken else "output_config.format"
        raise OptionError(f"options of the judge set {name}, which the reply {reply!r} sets itself. Leave it out.")


def _output_config(options: dict[str, Any]) -> dict[str, Any]:
    found = options.get("output_config")
    return found if isinstance(found, dict) else {}


def closing_text(reply: ReplyForm, *, grades: bool = False) -> str:
    """How a judge is told to reply: the end of the text that all its questions share."""
    if reply == "label":
        return _LABEL_CLOSING
    if reply == "reasoned":
        words = tuple(GRADES) if grades else WORDS
        lines = "\n".join(f"VERDICT: {word}" for word in words)
        closing = _REASONED_CLOSING.format(count="five" if grades else "three", lines=lines)
        return f"{closing}\n{_MEANS}" if grades else closing
    closing = _JSON_CLOSING if reply == "json" else _TOOL_CLOSING
    return closing.format(verdict=_GRADED.format(means=_MEANS) if grades else _PLAIN)


@cache
def reminder(reply: ReplyForm, *, grades: bool = False) -> str:
    """The last sentence of every question."""
    if reply == "label":
        return "Compare the answers A and B by the rubric. Reply with one word: A, B or TIE."
    if reply == "reasoned":
        *most, last = (f"VERDICT: {word}" for word in (GRADES if grades else WORDS))
        return f"Compare the answers A and B by the rubric. End with the line {', '.join(most)} or {last}."
    how = "Reply with the JSON object." if reply == "json" else "Call the tool `verdict`."
    return f"Compare the answers A and B by the rubric. {how}"


@cache
def reply_schema(reply: ReplyForm, *, grades: bool = False) -> ReplySchema | None:
    """The JSON object that a judge replies with; None for forms that are text. The comparison comes first."""
    if reply not in STRUCTURED_FORMS:
        return None
    fields = {
        _REASONING: {"type": "string", "description": "A comparison of the answers in a few sentences."},
        _VERDICT: {"type": "string", "enum": list(GRADES) if grades else list(WORDS)},
    }
    return ReplySchema(
        name=_VERDICT,
        schema={"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False},
        description=_TOOL_DESCRIPTION if reply == "tool" else "",
        as_tool=reply == "tool",
    )

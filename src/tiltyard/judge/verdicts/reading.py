"""Reading a judge's reply: the forms it may have, and what its text says."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Literal

import msgspec

from tiltyard.errors import OptionError
from tiltyard.judge.llm import SPECIAL_TOKEN, Reply, ReplySchema, Stop, answer_start
from tiltyard.judge.verdicts.records import VerdictLabel

ReplyForm = Literal["reasoned", "label", "choice", "json", "tool"]
"""`reasoned`: a short comparison that ends in the verdict line. `label`: one word, whose probability is asked for.
`choice`: the same as a multiple-choice question without instructions, for judges too small to follow them. `json`: a
JSON object with a short comparison and the verdict, by the provider's JSON schemas. `tool`: the same object as the
arguments of a tool that the judge has to call."""

CHOICES: dict[ReplyForm, tuple[str, ...]] = {
    "label": ("A", "B", "TIE"),
    "choice": ("A", "B", "C"),
}
"""The words that a form of reply allows, where their probabilities are asked for; C stands for a tie."""

GRADES: dict[str, tuple[VerdictLabel, float]] = {
    "A>>B": (VerdictLabel.A, 1.0),
    "A>B": (VerdictLabel.A, 0.75),
    "A=B": (VerdictLabel.TIE, 0.5),
    "B>A": (VerdictLabel.B, 0.25),
    "B>>A": (VerdictLabel.B, 0.0),
}
"""Graded verdicts: the winner, and the soft preference for the first slot, in equal steps (`docs/methods.md`)."""

WORDS = (VerdictLabel.A.value, VerdictLabel.B.value, VerdictLabel.TIE.value)
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
REASONING = "reasoning"

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


def check_form(reply: ReplyForm, grades: bool, options: dict[str, Any]) -> None:
    """Refuse a form of reply with settings that it cannot have."""
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
    config = options.get("output_config")
    if isinstance(config, dict) and "format" in config:
        taken.append("output_config.format")
    if reply in STRUCTURED_FORMS and taken:
        raise OptionError(f"options of the judge set {taken[0]}, which the reply {reply!r} sets itself. Leave it out.")


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
        REASONING: {"type": "string", "description": "A comparison of the answers in a few sentences."},
        _VERDICT: {"type": "string", "enum": list(GRADES) if grades else list(WORDS)},
    }
    return object_schema(reply, _VERDICT, fields, "Records the comparison of the two answers and the verdict on them.")


def object_schema(reply: ReplyForm, name: str, fields: dict[str, Any], description: str) -> ReplySchema:
    """A reply that is one JSON object with all of these fields and no others."""
    as_tool = reply == "tool"
    schema = {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}
    return ReplySchema(name=name, schema=schema, description=description if as_tool else "", as_tool=as_tool)


_EMPHASIS = r"[*_`#~\s]*"
_LABEL = rf"{_EMPHASIS}[\[(]?(?P<label>A|B|TIE)[\])]?{_EMPHASIS}[.!]?{_EMPHASIS}"
_VERDICT_LINE = re.compile(rf"{_EMPHASIS}VERDICT{_EMPHASIS}[:：]{_LABEL}", re.IGNORECASE | re.ASCII)
_GRADE = "|".join(r"\s*".join(re.escape(part) for part in re.findall("[AB]|[>=]+", word)) for word in GRADES)
_GRADE_LINE = re.compile(
    rf"{_EMPHASIS}VERDICT{_EMPHASIS}[:：]{_LABEL.replace('A|B|TIE', _GRADE)}", re.IGNORECASE | re.ASCII
)
_ONE_WORD = re.compile(
    rf"[\s*_`#~(\['\"“‘]*([A-Z0-9./]*[A-Z0-9])[\s*_`#~)\]'\"”’.,:;!]*(?:{SPECIAL_TOKEN}\s*)*", re.IGNORECASE | re.ASCII
)
_MEANT = {"A": VerdictLabel.A, "B": VerdictLabel.B, "C": VerdictLabel.TIE, "TIE": VerdictLabel.TIE}
"""The verdict that each word of `Request.choices` stands for."""
_LONGEST_LINE = 80
"""A longer line cannot be just a verdict; the limit also keeps matching fast for any reply."""
MIN_CHOICE_MASS = 0.5
"""Below it, the judge was more likely to say something else than any of the allowed words."""


class ParsedReply(msgspec.Struct, frozen=True):
    """The verdict in a reply. `score_a` is the soft preference for the first slot; `why` explains a failure.

    `choice_mass` is the total probability of the allowed words, if there are probabilities. `grade` is a graded verdict
    as it was given; `reasoning` what the judge wrote beside a verdict in JSON; `scores` are those of one answer.
    """

    label: VerdictLabel
    score_a: float | None = None
    why: str | None = None
    choice_mass: float | None = None
    grade: str | None = None
    reasoning: str | None = None
    scores: dict[str, float] | None = None


def read_reply(
    reply: Reply,
    choices: tuple[str, ...] = (),
    *,
    structured: ReplySchema | None = None,
    grades: bool = False,
    min_choice_mass: float = MIN_CHOICE_MASS,
) -> ParsedReply:
    """The verdict of a reply, or the reason why there is none.

    `choices` and `structured` are those of the request, if it had any; `grades` says whether verdicts are graded.

    Thoughts before the answer are skipped. A truncated reply has no verdict, whatever it ends with, nor has a refused
    one, whatever it says. Both are asked again. Where `choices` were asked for the answer is one of them and nothing
    else, also where there are probabilities.
    """
    if reply.error is not None:
        return ParsedReply(VerdictLabel.ERROR, why=reply.error)
    if reply.stop is Stop.REFUSAL:
        return ParsedReply(VerdictLabel.REFUSED, why="the judge declined")
    if structured is not None:
        return _read_structured(reply, structured, grades=grades)
    cut_off = reply.stop is Stop.LENGTH
    start = answer_start(reply.text)
    if start is None:
        why = "cut off at max_tokens while thinking" if cut_off else "the thoughts have no end"
        return ParsedReply(VerdictLabel.TRUNCATED if cut_off else VerdictLabel.UNPARSED, why=why)
    answer = reply.text[start:]
    if cut_off:
        return ParsedReply(VerdictLabel.TRUNCATED, why="cut off at max_tokens")
    if grades and (grade := _match(_GRADE_LINE, answer)):
        return _graded("".join(grade.split()))
    label = read_label(answer, choices) if choices else None if grades else read_verdict_line(answer)
    chances = reply.choice_probabilities if choices else None
    if chances is not None:
        meant = {_MEANT[word].value: chances[word] for word in choices if word in chances}
        likely = read_probabilities(meant, min_choice_mass=min_choice_mass)
        if label is not None or not likely.label.readable:
            return likely
    elif label is not None:
        return ParsedReply(label)
    why = f"the reply is not one of {', '.join(choices)}" if choices else "the last line is no verdict"
    return ParsedReply(VerdictLabel.UNPARSED, why=why if answer.strip() else "the reply is empty")


def read_verdict_line(text: str) -> VerdictLabel | None:
    """The verdict in the last non-empty line of a text, which must be `VERDICT: A`, `B` or `TIE` and nothing more.

    Markdown emphasis around it, letter case and a closing full stop do not matter. A verdict anywhere else in the text
    does not count: it may be quoted or hypothetical, or part of an answer. Only a line feed (or CR LF) ends a line.
    """
    word = _match(_VERDICT_LINE, text)
    return VerdictLabel(word) if word else None


def read_label(text: str, choices: Sequence[str] = ("A", "B", "TIE")) -> VerdictLabel | None:
    """The verdict of a one-word reply; None if there is more than the word, or it is not one of the choices.

    Blanks and punctuation round it and a special token of the model's after it (`<|im_end|>`) do not matter.
    """
    word = one_word(text)
    return _MEANT[word] if word in choices and word in _MEANT else None


def one_word(text: str) -> str:
    """The one word that a reply is, in capitals; empty if it is more than that."""
    match = _ONE_WORD.fullmatch(text) if len(text) <= _LONGEST_LINE else None
    return match[1].upper() if match else ""


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


_PROSE = (
    "the reply is prose, not the JSON object that was asked for; if the server does not support JSON schemas, set "
    "judge.reply to reasoned"
)
_NO_CALL = (
    "the judge replied without calling the tool; if the server does not support forced tool calls, set judge.reply to "
    "reasoned"
)
_CODE_BLOCK = re.compile(r"```(?:json)?\s*\n(.*)\n\s*```", re.IGNORECASE | re.DOTALL)
_LONGEST_SHOWN = 40


class NoVerdict(Exception):
    """There is no verdict in a structured reply, and why; `breaks_off` if the JSON ends too early."""

    def __init__(self, why: str, *, breaks_off: bool = False) -> None:
        super().__init__(why)
        self.breaks_off = breaks_off


def _read_structured(reply: Reply, wanted: ReplySchema, *, grades: bool) -> ParsedReply:
    """The verdict of a reply that has to be one JSON object, with one allowed verdict in it.

    A complete object counts even if the reply was cut off after it. Without one, a reply that was cut off, or whose
    JSON has no end, is truncated.
    """
    try:
        values = one_object(structured_text(reply, wanted))
        check_fields(values, wanted, (_VERDICT,))
        reasoning = reasoning_in(values)
        verdict, words = values[_VERDICT], tuple(GRADES) if grades else WORDS
        word = "".join(verdict.split()).upper() if isinstance(verdict, str) and verdict.isascii() else ""
        if word not in words:
            raise NoVerdict(f"the verdict in the JSON is {shown(verdict)}, not one of {', '.join(words)}")
    except NoVerdict as failure:
        if reply.stop is Stop.LENGTH:
            return ParsedReply(VerdictLabel.TRUNCATED, why="cut off at max_tokens")
        label = VerdictLabel.TRUNCATED if failure.breaks_off else VerdictLabel.UNPARSED
        return ParsedReply(label, why=str(failure))
    return _graded(word, reasoning) if grades else ParsedReply(VerdictLabel(word), reasoning=reasoning)


def structured_text(reply: Reply, wanted: ReplySchema) -> str:
    """Where the object has to be: the arguments of the one tool call, or the whole answer, possibly a code block."""
    if wanted.as_tool:
        if not reply.calls:
            raise NoVerdict(_NO_CALL if reply.text.strip() else "the reply is empty")
        if len(reply.calls) > 1:
            raise NoVerdict(f"the judge made {len(reply.calls)} tool calls, not one")
        if reply.calls[0].name != wanted.name:
            raise NoVerdict(f"the judge called another tool than {wanted.name}")
        return reply.calls[0].arguments.strip()
    start = answer_start(reply.text)
    if start is None:
        raise NoVerdict("the thoughts have no end")
    answer = reply.text[start:].strip()
    if not answer:
        raise NoVerdict("the reply is empty")
    block = _CODE_BLOCK.fullmatch(answer)
    return block[1].strip() if block else answer


def one_object(text: str) -> dict[str, Any]:
    """The JSON object that a text is; a field given twice makes it unreadable, since one of the two would be lost."""
    try:
        value = json.loads(text, object_pairs_hook=_without_repeats)
    except (ValueError, RecursionError):
        if not text.startswith("{"):
            raise NoVerdict(_PROSE) from None
        if _is_unclosed(text):
            raise NoVerdict("the JSON breaks off", breaks_off=True) from None
        raise NoVerdict("the reply is not one JSON object") from None
    if not isinstance(value, dict):
        raise NoVerdict("the reply is not one JSON object")
    return value


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        raise NoVerdict("the JSON has a field twice")
    return values


def _is_unclosed(text: str) -> bool:
    """Whether a text that begins an object ends before the object does."""
    depth, in_text, escaped = 0, False, False
    for letter in text:
        if in_text:
            in_text = escaped or letter != '"'
            escaped = letter == "\\" and not escaped
            continue
        in_text = letter == '"'
        depth += (letter in "{[") - (letter in "}]")
    return in_text or depth > 0


def check_fields(values: Mapping[str, Any], wanted: ReplySchema, needed: Sequence[str]) -> None:
    """Refuse an object with a field that was not asked for, or without one of those that are needed."""
    strange = [name for name in values if name not in wanted.schema["properties"]]
    if strange:
        raise NoVerdict(f"the JSON has the field {shown(strange[0])}, which was not asked for")
    missing = [name for name in needed if name not in values]
    if missing:
        raise NoVerdict(f"the JSON has no {missing[0]}")


def reasoning_in(values: Mapping[str, Any]) -> str:
    """What the judge wrote beside its verdict or scores; empty if it left that out."""
    text = values.get(REASONING, "")
    if not isinstance(text, str):
        raise NoVerdict("the reasoning in the JSON is not a text")
    return text.encode("utf-8", "replace").decode()  # JSON can escape half a surrogate pair


def shown(value: object) -> str:
    """A value of a reply, short enough for a message."""
    text = ascii(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"


def _graded(word: str, reasoning: str | None = None) -> ParsedReply:
    label, score_a = GRADES[word]
    return ParsedReply(label, score_a=score_a, grade=word, reasoning=reasoning)


def _match(pattern: re.Pattern[str], text: str) -> str | None:
    line = text.strip().rpartition("\n")[2]
    if len(line) > _LONGEST_LINE:
        return None
    match = pattern.fullmatch(line.strip())
    return match["label"].upper() if match else None

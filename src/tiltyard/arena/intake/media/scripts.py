"""Scripts and styles without their comments, which is where people and models sign their work."""

from __future__ import annotations

import re

_CSS = re.compile(
    r"""("(?:[^"\\\n]|\\.)*+"?|'(?:[^'\\\n]|\\.)*+'?|url\(\s*+[^"'\s)][^)]*+\)?)|/\*.*?(?:\*/|\Z)""",
    re.DOTALL | re.IGNORECASE,
)
"""What may hold the marks of a comment, or a comment."""


def without_css_comments(css: str) -> str:
    """Styles without comments; texts and addresses that look like one stay."""
    return _CSS.sub(lambda match: match[1] or " ", css)


_TOKEN = re.compile(
    r"""(?P<line>(?://|<!--)[^\n\u2028\u2029]*)
      | (?P<block>/\*.*?(?:\*/|\Z))
      | (?P<string>"(?:[^"\\\n]|\\.)*+"|'(?:[^'\\\n]|\\.)*+')
      | (?P<space>\s+)
      | (?P<word>[\w$\u0080-\U0010ffff]+)
      | (?P<other>\+\+|--|.)""",
    re.DOTALL | re.VERBOSE,
)
_REGEX = re.compile(r"/(?![*/])(?:[^/\\\[\n]|\\[^\n]|\[(?:[^\]\\\n]|\\[^\n]){0,400}+\])++/[A-Za-z]*")
_WHOLE_LINES = re.compile(r"^[ \t]*(?://|<!--)[^\n]*|^[ \t]*/\*.*?(?:\*/|\Z)", re.MULTILINE | re.DOTALL)

_BEFORE_VALUES = "return typeof instanceof in of new delete void throw case do else await yield"
BEFORE_VALUES = frozenset(_BEFORE_VALUES.split())
"""Words after which a slash begins a regular expression; after other words it divides."""
BEFORE_CONDITIONS = frozenset({"if", "while", "for", "with"})
"""Words whose parentheses have a statement after them, not an operator."""
VALUE, STATEMENT = "x", ";"
"""What the end of a value and the end of a statement are taken for."""


def without_comments(code: str) -> str:
    """The code without comments; where it cannot be read to its end, without those that begin a line.

    A comment becomes a space, or a line break if it held one, since line breaks can end statements.
    """
    try:
        return "".join(_script_parts(code, 0, "")[0])
    except ValueError:
        return _WHOLE_LINES.sub("", code)


def _script_parts(code: str, at: int, until: str) -> tuple[list[str], int]:
    """The code from one place on, up to its end or to the brace that ends an expression in a template."""
    out: list[str] = []
    opened: list[str] = []
    before, on_new_line = "", True
    while at < len(code):
        if code[at] == "`":
            text, at = _script_template(code, at)
            out.append(text)
            before, on_new_line = VALUE, False
            continue
        if code[at] == "/" and _begins_value(before) and (result := _REGEX.match(code, at)):
            out.append(result[0])
            before, at, on_new_line = VALUE, result.end(), False
            continue
        token = _TOKEN.match(code, at)
        assert token is not None
        kind, text = str(token.lastgroup), token[0]
        if kind in ("line", "block") or (text == "--" and on_new_line and code.startswith("-->", at)):
            at = code.find("\n", at) if text == "--" else token.end()
            at = len(code) if at < 0 else at
            out.append(_instead(kind, text))
            on_new_line |= "\n" in text
            continue
        at = token.end()
        if text in ("}", ")", "]") and not opened and until:
            return out, at - 1
        out.append(text)
        if kind == "space":
            on_new_line |= "\n" in text
        else:
            before, on_new_line = _taken_for(kind, text, before, opened), False
    if until:
        raise ValueError("a template that does not end")
    return out, at


def _instead(kind: str, text: str) -> str:
    if kind == "block" and not (text.endswith("*/") and len(text) > 3):
        raise ValueError("a comment that does not end")
    return "\n" if "\n" in text else " " if kind == "block" else ""


def _taken_for(kind: str, text: str, before: str, opened: list[str]) -> str:
    """What matters of a token for the next slash: whether a value ended, a statement, or neither."""
    if kind == "other" and text in "\"'":
        raise ValueError("a string that does not end")
    if text in ("(", "[", "{"):
        opened.append(before)
    elif text in (")", "]", "}"):
        start = opened.pop() if opened else ""
        is_statement = start in BEFORE_CONDITIONS if text == ")" else text == "}" and not _begins_object(start)
        return STATEMENT if is_statement else VALUE
    elif kind == "string" or text in ("++", "--") or (kind == "word" and before == "."):
        return VALUE
    return text


def _begins_value(before: str) -> bool:
    """Whether a slash after this begins a regular expression."""
    last = before[-1:] or STATEMENT
    return before in BEFORE_VALUES or not (last.isalnum() or last in "_$." or last > "\x7f")


def _begins_object(before: str) -> bool:
    """Whether a brace after this begins an object and not a block."""
    return before in BEFORE_VALUES - {"do", "else"} or before in tuple("(,=:[?&|!+-*/%<~^")


def _script_template(code: str, at: int) -> tuple[str, int]:
    """A template text from its first backquote to its last; expressions inside are code again."""
    out, at = ["`"], at + 1
    while at < len(code):
        letter = code[at]
        if letter == "\\":
            out.append(code[at : at + 2])
            at += 2
        elif letter == "`":
            out.append("`")
            return "".join(out), at + 1
        elif code.startswith("${", at):
            inside, end = _script_parts(code, at + 2, "}")
            out += ["${", *inside, "}"]
            at = end + 1
        else:
            out.append(letter)
            at += 1
    raise ValueError("a template that does not end")

"""JavaScript without its comments: the one place in a page's code where people and models sign their work."""

from __future__ import annotations

import re

_TOKEN = re.compile(
    r"""(?P<line>//[^\n\u2028\u2029]*)
      | (?P<block>/\*.*?\*/)
      | (?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
      | (?P<space>\s+)
      | (?P<word>[\w$\u0080-\U0010ffff]+)
      | (?P<other>.)""",
    re.DOTALL | re.VERBOSE,
)
_REGEX = re.compile(r"/(?![*/])(?:[^/\\\[\n]|\\[^\n]|\[(?:[^\]\\\n]|\\[^\n])*\])+/[A-Za-z]*")

_BEFORE_REGEX = "return typeof instanceof in of new delete void throw case do else await yield"
BEFORE_REGEX = frozenset(_BEFORE_REGEX.split())
"""Words after which a slash begins a regular expression; after other words it divides."""


def without_comments(code: str) -> str:
    """The code without comments; as it was if it cannot be read to its end.

    A comment becomes a space, or a line break if it held one, since line breaks can end statements.
    """
    try:
        return "".join(_parts(code, 0, "")[0])
    except ValueError:
        return code


def _parts(code: str, at: int, until: str) -> tuple[list[str], int]:
    """The code from one place on, up to its end or to the brace that ends an expression in a template."""
    out: list[str] = []
    before, depth = "", 0
    while at < len(code):
        if code[at] == "`":
            text, at = _template(code, at)
            out.append(text)
            before = "`"
            continue
        if code[at] == "/" and _may_begin_regex(before) and (found := _REGEX.match(code, at)):
            out.append(found[0])
            before, at = "/", found.end()
            continue
        token = _TOKEN.match(code, at)
        assert token is not None
        at = token.end()
        kind, text = str(token.lastgroup), token[0]
        if kind in ("line", "block"):
            out.append("\n" if "\n" in text else " " if kind == "block" else "")
            continue
        if kind == "other" and text in "\"'":
            raise ValueError("a string that does not end")
        depth += (text == "{") - (text == "}")
        if until and depth < 0:
            return out, at - 1
        out.append(text)
        before = before if kind == "space" else text
    if until:
        raise ValueError("a template that does not end")
    return out, at


def _template(code: str, at: int) -> tuple[str, int]:
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
            inside, end = _parts(code, at + 2, "}")
            out += ["${", *inside, "}"]
            at = end + 1
        else:
            out.append(letter)
            at += 1
    raise ValueError("a template that does not end")


def _may_begin_regex(before: str) -> bool:
    if not before:
        return True
    if before in BEFORE_REGEX:
        return True
    return not (before[-1].isalnum() or before[-1] in "_$)]}`\"'/" or ord(before[-1]) > 127)

r"""LaTeX in model texts as MathML, made on the server: no script and no font is sent to the browser.

Recognized are `$…$`, `$$…$$`, `\(…\)`, `\[…\]` and the usual environments. Sums of money are not mathematics, and
whatever cannot be converted is shown as it was written. The converter's output is not trusted: only elements and
attributes on the lists below are written, with every text escaped.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from latex2mathml.converter import convert_to_element

from tiltyard.render import Html, text

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

    from markdown_it import MarkdownIt
    from markdown_it.renderer import RendererHTML
    from markdown_it.rules_block import StateBlock
    from markdown_it.rules_inline import StateInline
    from markdown_it.token import Token
    from markdown_it.utils import EnvType, OptionsDict

FORMULA_CHARACTERS = 1_500
"""Longer formulas are shown as they were written."""
FORMULAS_OF_A_TEXT = 400
CHARACTERS_OF_A_TEXT = 8_000
"""What is converted of one text; later formulas are shown as they were written. It bounds the time a text may take."""
DEEPEST = 24

CHILDREN = {
    **dict.fromkeys(("mfrac", "mroot", "msub", "msup", "munder", "mover"), 2),
    **dict.fromkeys(("msubsup", "munderover"), 3),
    **dict.fromkeys(("math", "mrow", "mi", "mn", "mo", "ms", "mtext", "mspace", "mstyle", "msqrt"), None),
    **dict.fromkeys(("mtable", "mtr", "mtd", "mpadded", "mphantom", "mmultiscripts", "mprescripts", "none"), None),
}
"""Elements that may be written, and how many children they need: browsers draw nonsense for another number."""

TEXTS = frozenset({"mi", "mn", "mo", "ms", "mtext"})

_WORD = re.compile(r"[a-z0-9-]{1,20}( [a-z0-9-]{1,20}){0,3}\Z")
_LENGTH = re.compile(r"[+-]?(?:[0-3]?\.\d{1,4}|[0-3])(?:em|ex)?( (?:[0-3]?\.\d{1,4}|[0-3])em)?\Z|100%\Z|[0-9]{1,2}pt\Z")
ATTRIBUTES = {
    **dict.fromkeys(("accent", "columnalign", "display", "displaystyle", "fence", "form", "largeop"), _WORD),
    **dict.fromkeys(("mathvariant", "movablelimits", "scriptlevel", "separator", "stretchy", "symmetric"), _WORD),
    **dict.fromkeys(("linethickness", "lspace", "rspace", "maxsize", "minsize"), _LENGTH),
    **dict.fromkeys(("width", "height", "depth", "voffset", "rowspacing", "columnspacing"), _LENGTH),
}
"""Attributes that may be written, and what their values look like. No colours: they could be unreadable; no links, no
styles, and no lengths that leave the line."""

_ENVIRONMENT = re.compile(r"\\begin\{((?:align|equation|gather|multline|eqnarray|alignat)\*?)\}")
_NUMBERED = re.compile(r"\\(begin|end)\{(align|gather|multline|eqnarray|alignat)\}")
_PART = re.compile(r"\\(begin|end)\{(aligned|split|gathered)\}(?:\[[tbc]\])?")
_RAISED = re.compile(r"\\begin\{([pbvBV]matrix)\}(?:(?!\\begin).)*?\\end\{\1\}(?=\s*[\^_])", re.DOTALL)
"""A matrix with something above or below it: in braces, or its brackets would count as parts of their own."""
_WHOLE = {"aligned": "align*", "split": "align*", "gathered": "gather*"}
_PLAIN_FRAME = re.compile(r"\\(?:begin|end)\{equation\*?\}")
_IN_DOLLARS = re.compile(r"\$(?![\s$])((?:[^$\\]|\\.){1,800}?)(?<!\s)\$(?!\d)", re.DOTALL)
_TEX_MARKS = re.compile(r"[\\^_={}]")
_PROSE = re.compile(r"\d[^\n]*[^\W\d_]{2}|.*[^\W\d_]{2,}\s+[^\W\d_]{2,}", re.DOTALL)


class _NotConvertible(Exception):
    """The formula is shown as it was written."""


def formula(source: str, *, display: bool = False) -> Html | None:
    """A formula as MathML; None if it cannot be converted. `display` gives it a line of its own."""
    if not source.strip() or len(source) > FORMULA_CHARACTERS or _depth(source) > DEEPEST:
        return None
    tex = _PLAIN_FRAME.sub("", _NUMBERED.sub(r"\\\1{\2*}", source)).strip()
    tex = _PART.sub(lambda match: f"\\{match[1]}{{{_WHOLE[match[2]]}}}", tex)
    tex = _RAISED.sub(lambda match: f"{{{match[0]}}}", tex)
    try:
        made = _written(convert_to_element(tex, display="block" if display else "inline"), 0)
    except Exception:  # a converter fed with anything at all: whatever goes wrong, the source is shown
        return None
    return Html(made.replace("<math", f'<math alttext="{html.escape(source.strip())}"', 1))


def _depth(source: str) -> int:
    """How deeply braces and environments are nested."""
    deepest = depth = 0
    for mark in re.findall(r"[{}]|\\left\b|\\right\b|\\begin\b|\\end\b|\\sqrt|\\frac|[\^_]", source):
        if mark in ("}", "\\right", "\\end"):
            depth -= 1
        elif mark in ("{", "\\left", "\\begin"):
            depth += 1
            deepest = max(deepest, depth)
    return deepest


def _written(element: Element, depth: int) -> str:
    tag, boxed = element.tag, element.tag == "menclose" and element.get("notation") == "box"
    if boxed:
        tag = "mrow"
    children = list(element)
    if tag not in CHILDREN or depth > 6 * DEEPEST or CHILDREN[tag] not in (None, len(children)):
        raise _NotConvertible
    words = html.unescape(element.text or "") if tag in TEXTS else ""
    if tag != "mtext" and words.startswith("\\"):
        raise _NotConvertible  # a command that the converter does not know
    attributes = "".join(
        f' {name}="{value}"' for name, value in element.items() if name in ATTRIBUTES and ATTRIBUTES[name].match(value)
    )
    inner = html.escape(words) + "".join(_written(child, depth + 1) for child in children)
    if boxed:
        attributes = ' class="boxed"'
    return f"<{tag}{attributes}>{inner}</{tag}>"


def read_formulas(reader: MarkdownIt) -> None:
    """Let a Markdown reader recognize formulas."""
    reader.inline.ruler.before("escape", "formula", _inline)
    reader.block.ruler.before("fence", "formula_block", _block, {"alt": ["paragraph", "blockquote", "list"]})
    reader.add_render_rule("formula", _rendered)


def _inline(state: StateInline, silent: bool) -> bool:
    result = _at(state.src, state.pos, state.posMax)
    if result is None:
        return False
    source, end, display = result
    if not silent:
        token = state.push("formula", "", 0)
        token.content, token.markup, token.block = source, state.src[state.pos : end], display
    state.pos = end
    return True


def _at(text: str, start: int, end: int) -> tuple[str, int, bool] | None:
    """The formula that begins here: its source, where it ends, and whether it stands on a line of its own."""
    opening = text[start : start + 2]
    for begin, close in (("$$", "$$"), ("\\[", "\\]"), ("\\(", "\\)")):
        if opening == begin:
            last = text.find(close, start + 2, min(end, start + FORMULA_CHARACTERS))
            inner = text[start + 2 : last]
            return (inner, last + 2, begin != "\\(") if last >= 0 and inner.strip() else None
    if opening[:1] != "$" or (start and (text[start - 1].isalnum() or text[start - 1] == "$")):
        return None
    result = _IN_DOLLARS.match(text, start, end)
    if result is None or (_PROSE.match(result[1]) and not _TEX_MARKS.search(result[1])):
        return None
    return result[1], result.end(), False


def _block(state: StateBlock, first: int, last: int, silent: bool) -> bool:
    if state.is_code_block(first):
        return False
    line = _line(state, first)
    if line.startswith(("$$", "\\[")):
        opening, closing = line[:2], "$$" if line[0] == "$" else "\\]"
    elif frame := _ENVIRONMENT.match(line):
        opening, closing = "", f"\\end{{{frame[1]}}}"
    else:
        return False
    begin = state.bMarks[first] + state.tShift[first]
    close = state.src.find(closing, begin + 2, begin + FORMULA_CHARACTERS)
    if close < 0 or state.src[close + len(closing) : close + 80].partition("\n")[0].strip():
        return False  # unclosed, or something follows on the same line: then it is part of a sentence
    number = first
    while state.eMarks[number] < close:
        number += 1
        if number >= last or (state.sCount[number] < state.blkIndent and not state.isEmpty(number)):
            return False
    if silent:
        return True
    raw = "\n".join(_line(state, place) for place in range(first, number + 1))
    token = state.push("formula", "", 0)
    token.markup, token.block, token.map = raw, True, [first, number + 1]
    token.content = raw[len(opening) : len(raw) - len(closing)] if opening else raw
    state.line = number + 1
    return True


def _line(state: StateBlock, number: int) -> str:
    return state.src[state.bMarks[number] + state.tShift[number] : state.eMarks[number]].strip()


def _rendered(_: RendererHTML, tokens: Sequence[Token], index: int, _options: OptionsDict, env: EnvType) -> str:
    token = tokens[index]
    count, letters = env.get("formulas", 0) + 1, env.get("letters", 0) + len(token.content)
    env["formulas"], env["letters"] = count, letters
    fits = count <= FORMULAS_OF_A_TEXT and letters <= CHARACTERS_OF_A_TEXT
    made = formula(token.content, display=token.block) if fits else None
    whole = token.map is not None
    if made is None:
        return f'<p dir="auto">{text(token.markup)}</p>' if whole else f"<code>{text(token.markup)}</code>"
    if not token.block:
        return str(made)
    tag = "div" if whole else "span"
    return f'<{tag} class="formula">{made}</{tag}>'

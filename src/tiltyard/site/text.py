"""Model texts as safe HTML: Markdown is rendered, everything active is removed.

Two layers of protection: the Markdown parser lets no HTML through, and a sanitizer with a short allow-list checks its
output. Images become their description, links send no referrer, and the text is isolated so that right-to-left and
invisible characters cannot reorder the page around it. Code is coloured by the language that its block names, formulas
become MathML (`formulas`), and what is too wide scrolls in its own box.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Sequence
from functools import cache
from html import escape
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import nh3
from markdown_it import MarkdownIt
from pygments.lexers import get_lexer_by_name
from pygments.token import Comment, Generic, Keyword, Literal, Name, Number, String
from pygments.token import Token as Kind
from pygments.util import ClassNotFound

from tiltyard.render import Html, escaping
from tiltyard.site import formulas

if TYPE_CHECKING:
    from markdown_it.renderer import RendererHTML
    from markdown_it.token import Token
    from markdown_it.utils import EnvType, OptionsDict
    from pygments.lexer import Lexer
    from pygments.token import _TokenType

MARKDOWN_CHARACTERS = 40_000
"""Longer texts are shown as plain text: parsing Markdown takes time that grows with the text, and nobody reads more to
vote."""

MARKS = re.compile(r"[^\w\n]{2000}")
"""This much punctuation in a row is not Markdown: such runs are meant to slow down the parser."""

CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")

KEPT_CHARACTERS = 16_000_000

QUICK_CHARACTERS = 4_000
"""Longer texts take a moment to render, as do shorter ones with code or many formulas."""

CODE_CHARACTERS = 6_000
CODE_LINES = 200
CODE_LINE = 200
"""Longer code, and code with longer lines, is not coloured: the readers' regular expressions take quadratic time, and
more, for code that was written to slow them down."""

LANGUAGES = {
    *("bash", "batch", "c", "c#", "c++", "clojure", "cmake", "console", "cpp", "cs", "csharp", "css", "cuda"),
    *("dart", "diff", "docker", "dockerfile", "elixir", "erlang", "fortran", "go", "golang", "graphql", "haskell"),
    *("hs", "html", "http", "ini", "java", "javascript", "js", "json", "jsx", "julia", "kotlin", "latex", "lua"),
    *("make", "makefile", "matlab", "mysql", "nginx", "objective-c", "ocaml", "perl", "php", "postgresql"),
    *("powershell", "protobuf", "ps1", "py", "python", "python3", "r", "rb", "ruby", "rs", "rust", "scala", "scss"),
    *("sh", "shell", "sql", "swift", "tex", "toml", "ts", "tsx", "typescript", "vb.net", "verilog"),
    *("vhdl", "vim", "vue", "xml", "yaml", "yml", "zig", "zsh"),
}
"""Languages whose code is coloured. A closed list: some readers of rare languages take very long for hostile code."""

COLOURS = {
    Comment: "c",
    Keyword: "k",
    Number: "m",
    String: "s",
    Literal: "s",
    Generic.Deleted: "gd",
    Generic.Inserted: "gi",
    Generic.Heading: "k",
    Name.Function: "nf",
    Name.Class: "nf",
    Name.Tag: "k",
    Name.Attribute: "nf",
    Name.Builtin: "nb",
    Name.Decorator: "nb",
    Name.Exception: "nb",
    Name.Namespace: "nb",
    Kind.Operator.Word: "k",
}
"""Pygments' short class of each kind of token that gets a colour; what is not listed is as its parent."""

WIDE_LINE = 44
WIDE_ROW = 48
"""Code and tables with longer lines (in characters) may not fit a phone. They can be reached by keyboard, to scroll."""

FORMULA_TAGS = frozenset(formulas.CHILDREN)
TAGS = {
    *("a", "blockquote", "br", "code", "del", "div", "em", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre", "s"),
    *("span", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul"),
    *FORMULA_TAGS,
}
CLASSES = {
    "span": {"image", "formula", *COLOURS.values()},
    "div": {"formula", "sideways"},
    "th": {"left", "right", "center"},
    "td": {"left", "right", "center"},
    "mrow": {"boxed"},
}
ATTRIBUTES = {
    "a": {"href"},
    "ol": {"start"},
    "p": {"dir"},
    "li": {"dir"},
    "td": {"dir"},
    "th": {"dir"},
    "pre": {"tabindex", "role", "aria-label"},
    "div": {"tabindex", "role", "aria-label"},
    **{key: set(formulas.ATTRIBUTES) for key in FORMULA_TAGS},
    "math": {"alttext", "display"},
}

THINKING = re.compile(r"\s*<(think|thinking|reasoning)>(.*?)(?:</\1>|\Z)", re.DOTALL | re.IGNORECASE)
THOUGHT = re.compile(r"\A(.*?)^[ \t]*</think>[ \t]*$", re.DOTALL | re.MULTILINE)
"""Templates of some models open the reasoning themselves, so that their answers only close it."""


class Answer(NamedTuple):
    """An answer in two parts: what a model wrote to itself first, and what it wrote to the reader."""

    reasoning: str
    text: str


def split_reasoning(text: str) -> Answer:
    """Take the reasoning off the beginning of an answer. One that never ends is reasoning to the end."""
    thoughts: list[str] = []
    while result := THINKING.match(text):
        thoughts.append(result[2].strip())
        text = text[result.end() :]
    if not thoughts and "</think>" in text and (result := THOUGHT.match(text)) and result[1].count("```") % 2 == 0:
        thoughts.append(result[1].strip())
        text = text[result.end() :]
    return Answer("\n\n".join(filter(None, thoughts)), text)


def count_words(text: str) -> int:
    """How many words a text has. In scripts without spaces, two characters count as a word."""
    return len(text.split()) + len(_UNSPACED.findall(text)) // 2


_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\u0e00-\u0e7f]")


def rendered_answer(text: str) -> Html:
    """A whole answer as safe HTML, with its reasoning folded."""
    reasoning, answer = split_reasoning(text)
    if not reasoning:
        return rendered(answer)
    label = f"Reasoning ({count_words(reasoning):,} words)"
    folded = f'<details class="reasoning"><summary>{label}</summary>{rendered(reasoning)}</details>'
    return Html(f"{folded}{rendered(answer)}")


_FENCE = re.compile("```|~~~")


def is_quick(text: str) -> bool:
    """Whether rendering a text takes no longer than an event loop may wait: it is short and plain, or known."""
    if text in _KEPT:
        return True
    return len(text) <= QUICK_CHARACTERS and not _FENCE.search(text) and text.count("$") + text.count("\\") < 20


def rendered(text: str) -> Html:
    """A model's text or a prompt as safe HTML."""
    with _LOCK:
        kept = _KEPT.get(text)
        if kept is not None:
            _KEPT.move_to_end(text)
            return kept
    made = _rendered(text)
    with _LOCK:
        _keep(text, made)
    return made


def is_plain(text: str) -> bool:
    """Whether a text is shown as plain text, because parsing it as Markdown might take too long."""
    return len(text) > MARKDOWN_CHARACTERS or MARKS.search(text) is not None


def _rendered(text: str) -> Html:
    if is_plain(text):
        return Html(f'<div class="words" dir="auto">{escaping.text(_visible(text))}</div>')
    # a parser is not thread-safe, so one thread uses it at a time
    with _READING:
        made = _READER.render(_visible(text), {})
    return Html(_CLEANER.clean(made))


def _visible(text: str) -> str:
    """The text with invalid characters replaced and line endings normalized."""
    return CONTROLS.sub("\ufffd", text.replace("\r\n", "\n").replace("\r", "\n"))


def _image(
    renderer: RendererHTML, tokens: Sequence[Token], index: int, options: OptionsDict, env: EnvType
) -> str:  # the parser's own signature
    token = tokens[index]
    alt = renderer.renderInlineAsText(token.children or [], options, env).strip()
    return f'<span class="image">[{escaping.text(f"image: {alt}" if alt else "image")}]</span>'


def _heading(renderer: RendererHTML, tokens: Sequence[Token], index: int, options: OptionsDict, env: EnvType) -> str:
    """Headings in an answer start below those of the page."""
    tokens[index].tag = f"h{min(6, int(tokens[index].tag[1]) + 2)}"
    return renderer.renderToken(tokens, index, options, env)


def _isolated(renderer: RendererHTML, tokens: Sequence[Token], index: int, options: OptionsDict, env: EnvType) -> str:
    """Each paragraph has its own direction; alignment in tables is a class, because styles are not allowed."""
    token = tokens[index]
    token.attrSet("dir", "auto")
    style = str(token.attrs.pop("style", ""))
    if style:
        token.attrSet("class", style.rpartition(":")[2].strip())
    return renderer.renderToken(tokens, index, options, env)


def _code(_: RendererHTML, tokens: Sequence[Token], index: int, _options: OptionsDict, env: EnvType) -> str:
    """A block of code: coloured if its language is known, and within reach of the keyboard if it may be too wide."""
    token = tokens[index]
    language = (token.info.split() or [""])[0].lower()
    lines = token.content.split("\n")
    longest = max(map(len, lines))
    coloured = env["coloured"] = env.get("coloured", 0) + len(token.content)
    is_short = coloured <= CODE_CHARACTERS and len(lines) <= CODE_LINES and longest <= CODE_LINE
    inner = _coloured(token.content, language) if language in LANGUAGES and is_short else escape(token.content)
    return f"<pre{_reachable('Code') if longest > WIDE_LINE else ''}><code>{inner}</code></pre>\n"


def _reachable(label: str) -> str:
    return f' tabindex="0" role="group" aria-label="{label}"'


def _coloured(code: str, language: str) -> str:
    lexer = _lexer(language)
    if lexer is None:
        return escape(code)
    parts: list[tuple[str, str]] = []
    for kind, text in lexer.get_tokens(code):
        colour = _colour(kind)
        if parts and (parts[-1][0] == colour or not text.strip()):
            parts[-1] = (parts[-1][0], parts[-1][1] + text)
        else:
            parts.append((colour, text))
    return "".join(f'<span class="{name}">{escape(text)}</span>' if name else escape(text) for name, text in parts)


@cache
def _lexer(language: str) -> Lexer | None:
    try:
        return get_lexer_by_name(language, stripnl=False)
    except ClassNotFound:  # this version of Pygments does not know it
        return None


@cache
def _colour(kind: _TokenType) -> str:
    while kind is not Kind and kind not in COLOURS:
        kind = kind.parent
    return COLOURS.get(kind, "")


def _table(_: RendererHTML, tokens: Sequence[Token], index: int, *_unused: object) -> str:
    """A table in a box that scrolls sideways."""
    if tokens[index].nesting < 0:
        return "</table></div>\n"
    widest = width = 0
    for token in islice(tokens, index, None):
        if token.type == "table_close":
            break
        width = 0 if token.type == "tr_open" else width + len(token.content) + 2 * (token.type == "inline")
        widest = max(widest, width)
    return f'<div class="sideways"{_reachable("Table") if widest > WIDE_ROW else ""}><table>\n'


def _reader() -> MarkdownIt:
    reader = MarkdownIt("commonmark", {"html": False, "linkify": False, "typographer": False, "maxNesting": 12})
    reader.enable(["table", "strikethrough"])
    formulas.read_formulas(reader)
    reader.add_render_rule("image", _image)
    for kind in ("fence", "code_block"):
        reader.add_render_rule(kind, _code)
    for kind in ("table_open", "table_close"):
        reader.add_render_rule(kind, _table)
    for kind in ("heading_open", "heading_close"):
        reader.add_render_rule(kind, _heading)
    for kind in ("paragraph_open", "list_item_open", "th_open", "td_open"):
        reader.add_render_rule(kind, _isolated)
    return reader


def _keep(text: str, made: Html) -> None:
    global _kept_characters
    if text in _KEPT:
        return
    _KEPT[text] = made
    _kept_characters += len(text) + len(made)
    while _kept_characters > KEPT_CHARACTERS and _KEPT:
        gone, was = _KEPT.popitem(last=False)
        _kept_characters -= len(gone) + len(was)


_READER = _reader()
_CLEANER = nh3.Cleaner(
    tags=TAGS,
    attributes=ATTRIBUTES,
    allowed_classes=CLASSES,
    url_schemes={"http", "https", "mailto"},
    link_rel="nofollow noopener noreferrer ugc",
)
_READING = threading.Lock()
_LOCK = threading.Lock()
_KEPT: OrderedDict[str, Html] = OrderedDict()
_kept_characters = 0

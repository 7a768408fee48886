"""Model texts as safe HTML: Markdown is rendered, everything active is removed.

Two layers of protection: the Markdown parser lets no HTML through, and a sanitizer with a short allow-list checks its
output. Images become their description, links send no referrer, and the text is isolated so that right-to-left and
invisible characters cannot reorder the page around it.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

import nh3
from markdown_it import MarkdownIt

from tiltyard.pages.markup import Html, el

if TYPE_CHECKING:
    from collections.abc import Sequence

    from markdown_it.renderer import RendererHTML
    from markdown_it.token import Token
    from markdown_it.utils import EnvType, OptionsDict

MARKDOWN_CHARACTERS = 40_000
"""Longer texts are shown as plain text: parsing Markdown takes time that grows with the text, and nobody reads more to
vote."""

MARKS = re.compile(r"[^\w\n]{2000}")
"""This much punctuation in a row is not Markdown: such runs are meant to slow down the parser."""

CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")

KEPT_CHARACTERS = 16_000_000

TAGS = {
    *("a", "blockquote", "br", "code", "del", "div", "em", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre", "s"),
    *("span", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul"),
}
CLASSES = {"span": {"image"}, "th": {"left", "right", "center"}, "td": {"left", "right", "center"}}


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
        return el("div", _visible(text), class_="words", dir="auto")
    # a parser is not thread-safe, so one thread uses it at a time
    with _READING:
        made = _READER.render(_visible(text))
    return Html(
        nh3.clean(
            made,
            tags=TAGS,
            attributes={"a": {"href"}, "ol": {"start"}, "p": {"dir"}, "li": {"dir"}, "td": {"dir"}, "th": {"dir"}},
            allowed_classes=CLASSES,
            url_schemes={"http", "https", "mailto"},
            link_rel="nofollow noopener noreferrer ugc",
        )
    )


def _visible(text: str) -> str:
    """The text with invalid characters replaced and line endings normalized."""
    return CONTROLS.sub("\ufffd", text.replace("\r\n", "\n").replace("\r", "\n"))


def _image(
    renderer: RendererHTML, tokens: Sequence[Token], index: int, options: OptionsDict, env: EnvType
) -> str:  # the parser's own signature
    token = tokens[index]
    said = renderer.renderInlineAsText(token.children or [], options, env).strip()
    label = f"image: {said}" if said else "image"
    return str(el("span", f"[{label}]", class_="image"))


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


def _reader() -> MarkdownIt:
    reader = MarkdownIt("commonmark", {"html": False, "linkify": False, "typographer": False, "maxNesting": 12})
    reader.enable(["table", "strikethrough"])
    reader.add_render_rule("image", _image)
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
_READING = threading.Lock()
_LOCK = threading.Lock()
_KEPT: OrderedDict[str, Html] = OrderedDict()
_kept_characters = 0

"""SVG and HTML, written anew: SVG from a list of what a drawing needs, HTML without what nobody sees."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from html import escape as escaped
from html.parser import HTMLParser
from xml.parsers import expat
from xml.sax.saxutils import escape, quoteattr

from tiltyard.arena.intake.media.drawing_cost import FILTER_VALUES, Element, check_cost, unescaped
from tiltyard.arena.intake.media.images import WEBP, clean_image
from tiltyard.arena.intake.media.scripts import without_comments, without_css_comments
from tiltyard.errors import BankError

SVG = "http://www.w3.org/2000/svg"
XLINK = "http://www.w3.org/1999/xlink"
DEEPEST = 200
MOST_ELEMENTS = 200_000

_ELEMENTS = (
    "svg g path rect circle ellipse line polyline polygon text tspan textPath defs symbol use marker clipPath mask "
    "pattern linearGradient radialGradient stop filter image style switch animate animateTransform animateMotion set "
    "mpath feBlend feColorMatrix feComponentTransfer feComposite feConvolveMatrix feDiffuseLighting feDisplacementMap "
    "feDistantLight feDropShadow feFlood feFuncA feFuncB feFuncG feFuncR feGaussianBlur feMerge feMergeNode "
    "feMorphology feOffset fePointLight feSpecularLighting feSpotLight feTile feTurbulence"
)
ELEMENTS = frozenset(_ELEMENTS.split())
WITH_TEXT = frozenset({"text", "tspan", "textPath", "style"})
_ATTRIBUTES = (
    "id class style x y x1 y1 x2 y2 cx cy r rx ry fx fy fr dx dy d points width height viewBox transform "
    "preserveAspectRatio pathLength rotate textLength lengthAdjust startOffset method spacing side refX refY "
    "markerWidth markerHeight markerUnits orient clipPathUnits maskUnits maskContentUnits patternUnits "
    "patternContentUnits patternTransform gradientUnits gradientTransform spreadMethod offset filterUnits "
    "primitiveUnits in in2 result mode type values tableValues slope intercept amplitude exponent operator k1 k2 k3 k4 "
    "order kernelMatrix divisor bias targetX targetY edgeMode preserveAlpha surfaceScale diffuseConstant "
    "specularConstant specularExponent kernelUnitLength scale xChannelSelector yChannelSelector azimuth elevation "
    "stdDeviation radius pointsAtX pointsAtY pointsAtZ z limitingConeAngle baseFrequency numOctaves seed stitchTiles "
    "attributeName attributeType begin dur end min max restart repeatCount repeatDur fill calcMode keyTimes keySplines "
    "from to by additive accumulate keyPoints path origin alignment-baseline baseline-shift clip clip-path clip-rule "
    "color color-interpolation color-interpolation-filters cursor direction display dominant-baseline fill-opacity "
    "fill-rule filter flood-color flood-opacity font-family font-size font-size-adjust font-stretch font-style "
    "font-variant font-weight image-rendering letter-spacing lighting-color marker-end marker-mid marker-start mask "
    "mix-blend-mode opacity overflow paint-order pointer-events shape-rendering stop-color stop-opacity stroke "
    "stroke-dasharray stroke-dashoffset stroke-linecap stroke-linejoin stroke-miterlimit stroke-opacity stroke-width "
    "text-anchor text-decoration text-rendering unicode-bidi vector-effect visibility white-space word-spacing "
    "writing-mode href"
)
ATTRIBUTES = frozenset(_ATTRIBUTES.split())
OF_IDS = frozenset({"begin", "end"})
UNCHECKED_TARGETS = frozenset({"href", "xlink:href", "style", "class", "id"})
"""What an animation may not set: it would get around the rules here."""

_URL = re.compile(r"""url\(\s*+(?:'([^']*+)'|"([^"]*+)"|([^()'"\s]*+))\s*+\)""", re.IGNORECASE)
_CSS_NAME = re.compile(r"([#.])(-?[A-Za-z_][\w-]*)")
_CSS_BLOCK = re.compile(r"\{[^{}]*\}")
_REFUSED_CSS = re.compile(
    r"@import|@charset|@namespace|expression\s*\(|-moz-binding|behavior\s*:|javascript:", re.IGNORECASE
)
_DATA = re.compile(
    r"data:image/(png|jpe?g|gif|webp|svg\+xml)(;[^,;\"'()<>]{0,60}){0,4};base64,([A-Za-z0-9+/=%]{24,}+)", re.IGNORECASE
)


def clean_svg(data: bytes) -> bytes:
    """A drawing with only what a drawing needs: no script, no address, no metadata, no name that somebody chose."""
    root = _Reader().read(data)
    if root is None or root.name != "svg":
        raise BankError("is not an SVG drawing: its first element is not <svg>. Save it again as SVG.")
    check_cost(root)
    names = _Names()
    root.attributes.pop("id", None)
    return f'<svg xmlns="{SVG}"{_written(root, names)[len("<svg") :]}\n'.encode()


class _Reader:
    """Reads XML without entities or a document type of its own, and keeps what is on the lists."""

    def __init__(self) -> None:
        self._root: Element | None = None
        self._open: list[Element | None] = []
        self._count = 0
        parser = expat.ParserCreate(namespace_separator=" ")
        parser.buffer_text = True
        parser.StartDoctypeDeclHandler = self._doctype
        parser.EntityDeclHandler = self._entity
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        self._parser = parser

    def read(self, data: bytes) -> Element | None:
        try:
            self._parser.Parse(data, True)
        except expat.ExpatError as error:
            raise BankError(f"cannot be read as SVG ({error}). Save it again.") from None
        return self._root

    def _doctype(self, name: str, system: str | None, public: str | None, has_internal_subset: int) -> None:  # noqa: ARG002
        if has_internal_subset:
            raise BankError("has a document type of its own, which could define anything. Save it as plain SVG.")

    def _entity(self, *_: object) -> None:
        raise BankError("defines entities, which could become anything. Save it as plain SVG.")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._count += 1
        if len(self._open) >= DEEPEST or self._count > MOST_ELEMENTS:
            raise BankError(f"has more than {MOST_ELEMENTS:,} elements, or {DEEPEST} inside each other. Simplify it.")
        space, _, plain = name.rpartition(" ")
        inside_nothing = bool(self._open) and self._open[-1] is None
        plain = "g" if plain == "a" else plain
        if inside_nothing or space not in (SVG, "") or plain not in ELEMENTS:
            self._open.append(None)
            return
        kept = {}
        for attribute, value in attributes.items():
            of, _, short = attribute.rpartition(" ")
            if short in ATTRIBUTES and (not of or (of == XLINK and short == "href")):
                kept[short] = value
        made = Element(plain, kept)
        if made.attributes.get("attributeName", "").strip().lower() in UNCHECKED_TARGETS | FILTER_VALUES:
            self._open.append(None)
            return
        if self._open and (parent := self._open[-1]) is not None:
            parent.parts.append(made)
        elif not self._open:
            self._root = made
        self._open.append(made)

    def _end(self, name: str) -> None:  # noqa: ARG002
        self._open.pop()

    def _text(self, text: str) -> None:
        if self._open and (inside := self._open[-1]) is not None and inside.name in WITH_TEXT:
            inside.parts.append(text)


class _Names:
    """Ids and classes by number: their names are the author's."""

    def __init__(self) -> None:
        self._ids: dict[str, str] = {}
        self._classes: dict[str, str] = {}

    def id(self, name: str) -> str:
        return self._ids.setdefault(name, f"i{len(self._ids) + 1}")

    def classes(self, value: str) -> str:
        return " ".join(self._classes.setdefault(name, f"c{len(self._classes) + 1}") for name in value.split())

    def in_selector(self, match: re.Match[str]) -> str:
        return f"#{self.id(match[2])}" if match[1] == "#" else f".{self.classes(match[2])}"


def _written(element: Element, names: _Names) -> str:
    attributes = "".join(
        f" {name}={quoteattr(value)}"
        for name, given in element.attributes.items()
        if (value := _value(element, name, given, names)) is not None
    )
    if element.name == "style":
        css = _css("".join(part for part in element.parts if isinstance(part, str)), names, is_sheet=True)
        return f"<style>{escape(css)}</style>"
    inside = "".join(escape(part) if isinstance(part, str) else _written(part, names) for part in element.parts)
    return f"<{element.name}{attributes}>{inside}</{element.name}>" if inside else f"<{element.name}{attributes}/>"


def _value(element: Element, name: str, value: str, names: _Names) -> str | None:
    if name == "id":
        return names.id(value)
    if name == "class":
        return names.classes(value)
    if name == "href":
        value = value.strip()
        if value.startswith("#"):
            return f"#{names.id(value[1:])}"
        return _cleaned_data(value) if element.name == "image" else None
    if name in OF_IDS:
        return re.sub(r"([A-Za-z_][\w-]*)\.(?=[a-z])", lambda match: f"{names.id(match[1])}.", value)
    if name in ("result", "in", "in2"):
        known = ("SourceGraphic", "SourceAlpha", "BackgroundImage", "BackgroundAlpha", "FillPaint", "StrokePaint")
        return value if value in known else names.id(value)
    return _css(value, names, is_sheet=False)


def _css(text: str, names: _Names, *, is_sheet: bool) -> str:
    """Styles without comments and addresses; in a sheet, names of ids and classes become numbers."""
    text = without_css_comments(text)
    if _REFUSED_CSS.search(unescaped(text)):
        raise BankError("has styles that load or run something (@import, expression, …). Take them out.")
    text = _URL.sub(lambda match: _local_url(match[1] or match[2] or match[3] or "", names), text)
    if re.search(r"url\(", unescaped(_URL.sub("", text)), re.IGNORECASE):
        raise BankError("has a style with an address that cannot be read. Take it out.")
    if not is_sheet:
        return text
    out, at = [], 0
    for block in _CSS_BLOCK.finditer(text):
        out += [_CSS_NAME.sub(names.in_selector, text[at : block.start()]), block[0]]
        at = block.end()
    return "".join([*out, _CSS_NAME.sub(names.in_selector, text[at:])])


def _local_url(address: str, names: _Names) -> str:
    address = address.strip()
    if address.startswith("#"):
        return f"url(#{names.id(address[1:])})"
    cleaned = _cleaned_data(address)
    return "none" if cleaned is None else f"url({cleaned})"


def _cleaned_data(address: str) -> str | None:
    """A picture inside a drawing, made anew; None for any other address."""
    result = _DATA.fullmatch("".join(address.split()))
    return None if result is None or result[1].lower() == "svg+xml" else _data_again(result)


def _data_again(match: re.Match[str]) -> str:
    """The address of a picture that is part of a file, cleaned like a picture of its own."""
    try:
        data = base64.b64decode(
            re.sub("%0[aAdD]", "", match[3]).replace("%2B", "+").replace("%2F", "/").replace("%3D", "="), validate=True
        )
    except (binascii.Error, ValueError):
        raise BankError("has a picture inside that cannot be read. Save it again.") from None
    if match[1].lower() == "svg+xml":
        return f"data:image/svg+xml;base64,{base64.b64encode(clean_svg(data)).decode()}"
    return f"data:{WEBP};base64,{base64.b64encode(clean_image(data)).decode()}"


KEPT_METAS = frozenset({"viewport", "color-scheme", "theme-color"})
DROPPED_WITH_CONTENT = frozenset({"title", "desc", "metadata", "noscript", "noframes", "noembed"})
DROPPED = frozenset({"link", "base"})
FOREIGN = frozenset({"svg", "math"})
"""In these, no element makes a text of what looks like a comment."""


def clean_html(data: bytes) -> bytes:
    """A page without comments, title, and whatever its head says of who or what made it; pictures in it are made anew.

    What its scripts and styles do stays as it is, without their comments. Frames that hold their page as a text, and
    shadow roots made by markup, become attributes without a meaning: scripts in them would run where nobody watches.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BankError("is not UTF-8. Save the page as UTF-8.") from None
    if "\x00" in text:
        raise BankError("contains a NUL character, so it is not a page. Check the file.")
    page = _Page()
    page.feed(text)
    if page.rawdata.startswith("<"):
        raise BankError("has a tag or a comment that does not end. Close it.")
    page.close()
    made = "".join(page.out).strip()
    if page.dropping:
        raise BankError(f"has a <{page.dropping[0]}> that does not end. Close it.")
    made = _DOCUMENT_IN_MARKUP.sub(r"x\g<0>", _DATA.sub(_data_again, made))
    return f"<!DOCTYPE html>\n{made}\n".encode()


_DOCUMENT_IN_MARKUP = re.compile(r"(?:srcdoc|shadowrootmode)(?=\s*=)", re.IGNORECASE)
"""Looked for in the whole text, scripts too: what is a script to this parser may be markup to a browser."""

_COMMENT = re.compile(r"<!--(?:>|->|.*?--!?>)", re.DOTALL)
"""A comment as browsers read it, which is not as the parser of the standard library does."""


WITHOUT_COMMENTS: dict[str, Callable[[str], str]] = {"script": without_comments, "style": without_css_comments}


class _Page(HTMLParser):
    """Copies a page tag by tag as it was written, without what is to go."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self.out: list[str] = []
        self.dropping: list[str] = []
        self._inside = ""
        self._foreign = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in DROPPED_WITH_CONTENT:
            self.dropping.append(tag)
        elif not self._is_dropped(tag, attrs):
            self.out.append(self._tag(tag, attrs))
            self._inside = tag
            self._foreign += tag in FOREIGN
            if tag in ("textarea", "xmp") and not self._foreign:
                self.set_cdata_mode(tag)  # there is only text up to its end, also if it looks like a comment

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in DROPPED_WITH_CONTENT and not self._is_dropped(tag, attrs):
            self.out.append(self._tag(tag, attrs))

    def handle_endtag(self, tag: str) -> None:
        if tag in DROPPED_WITH_CONTENT:
            if tag in self.dropping:
                del self.dropping[self.dropping.index(tag) :]
        elif not self.dropping and tag not in DROPPED:
            self._foreign = max(0, self._foreign - (tag in FOREIGN))
            self.out.append(f"</{tag}>")
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self.dropping:
            return
        change = WITHOUT_COMMENTS.get(self._inside)
        self.out.append(data if change is None else change(data))

    def handle_entityref(self, name: str) -> None:
        self.handle_data(f"&{name};")

    def handle_charref(self, name: str) -> None:
        self.handle_data(f"&#{name};")

    def parse_comment(self, i: int, report: bool = True) -> int:  # noqa: ARG002
        result = _COMMENT.match(self.rawdata, i)
        return -1 if result is None else result.end()

    def _tag(self, tag: str, attributes: list[tuple[str, str | None]]) -> str:
        """A tag as it was written; anew if there are comments in what it runs or how it looks."""
        made = [(name, _attribute(name, value)) for name, value in attributes]
        if made == attributes:
            return self.get_starttag_text() or ""
        words = (name if value is None else f'{name}="{escaped(value)}"' for name, value in made)
        return f"<{' '.join((tag, *words))}>"

    def _is_dropped(self, tag: str, attributes: list[tuple[str, str | None]]) -> bool:
        if self.dropping or tag in DROPPED:
            return True
        names = {name: value or "" for name, value in attributes}
        return tag == "meta" and names.get("name", "").strip().lower() not in KEPT_METAS


def _attribute(name: str, value: str | None) -> str | None:
    if not value:
        return value
    if name == "style":
        return without_css_comments(value)
    return without_comments(value) if name.startswith("on") else value

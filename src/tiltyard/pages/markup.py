"""Safe HTML: plain text is always escaped, only `Html` is not.

Built on MarkupSafe, so that templates accept it directly; in addition, control characters are made visible.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from markupsafe import escape

from tiltyard.pages import figures
from tiltyard.pages.escaping import CONTROL, CONTROLS, Html, plain, shortened, text

__all__ = [
    "CONTROLS",
    "Html",
    "el",
    "join",
    "link",
    "number",
    "pairs",
    "percent",
    "plain",
    "rating",
    "raw",
    "shortened",
    "table",
    "text",
]

VOID = frozenset({"br", "hr", "img", "input", "link", "meta"})
SPECIAL = re.compile("[&<>'\"" + CONTROL.pattern[1:])
"""What is not on a page as it is; most texts have none of it."""

Value = str | int | float | bool | None


def _escaped(value: str) -> str:
    """The text of some markup. Not `Html`, which takes longer to make than most texts to escape."""
    if isinstance(value, Html):
        return value
    plain_text = str(value)
    if not SPECIAL.search(plain_text):
        return plain_text
    return str(escape(plain_text.translate(CONTROLS) if CONTROL.search(plain_text) else plain_text))


def _made(markup: str) -> Html:
    """Text that is markup, as `Html`: without the search for an `__html__` of its own that `Html()` begins with."""
    return str.__new__(Html, markup)


def el(name: str, /, *children: str, **attributes: Value) -> Html:
    """One element. `class_` and `aria_label` become `class` and `aria-label`; None and False leave it out."""
    opening = name + "".join(
        [_attribute(key, value) for key, value in attributes.items() if value is not None and value is not False]
    )
    if name in VOID:
        return _made(f"<{opening}>")
    return _made(f"<{opening}>{''.join(map(_escaped, children))}</{name}>")


def _attribute(key: str, value: Value) -> str:
    return f" {_label(key)}" if value is True else f' {_label(key)}="{_escaped(str(value))}"'


@cache
def _label(key: str) -> str:
    return key.rstrip("_").replace("_", "-")


def join(parts: Iterable[str], between: str = "") -> Html:
    """Pieces of markup or text in a row."""
    return _made(str(_escaped(between)).join(map(_escaped, parts)))


def raw(name: str, content: str) -> Html:
    """A style or script element: its content is our own file, which browsers do not parse as markup."""
    if f"</{name}" in content.lower():
        raise ValueError(f"the text of a {name} element would end it")
    return _made(f"<{name}>{content}</{name}>")


def link(target: str, *children: str, **attributes: Value) -> Html:
    """A link inside the report."""
    return el("a", *children, href=target, **attributes)


def number(value: float | None, digits: int = 0, unit: str = "") -> Html:
    """A formatted number, with the exact value of the file as its machine-readable `value`."""
    return _figure(value, "" if value is None else figures.count(value, digits) + unit)


def rating(value: float | None, digits: int = 1) -> Html:
    """A rating as all boards show it, without separators, with its exact value as machine-readable `value`."""
    return _figure(value, figures.points(value, digits))


def percent(share: float | None, digits: int = 0) -> Html:
    """A share as a percentage, with the exact share as its machine-readable `value`."""
    return _figure(share, figures.percent(share, digits))


def _figure(value: float | None, shown: str) -> Html:
    return el("span", "–", class_="none") if value is None else el("data", shown, value=repr(value))


def table(
    head: Iterable[str | tuple[str, str]],
    rows: Iterable[Iterable[str]],
    *,
    caption: str = "",
    class_: str | None = None,
    id: str | None = None,
) -> Html:
    """A table in a box that scrolls sideways; a head cell may be `(text, class)`, a row's first cell is its header."""
    heads = [cell if isinstance(cell, tuple) else (cell, "") for cell in head]
    top = el("tr", *[el("th", cell, scope="col", class_=class_ or None) for cell, class_ in heads])
    classes = [class_ or None for _, class_ in heads]
    body = [_row(list(cells), classes) for cells in rows]
    said = [el("caption", caption)] if caption else []
    inner = el("table", *said, el("thead", top), el("tbody", *body), class_=class_, id=id)
    label = plain(caption) or ", ".join(filter(None, (plain(cell) for cell, _ in heads)))
    return el("div", inner, class_="scroll", tabindex="0", role="group", aria_label=label or "table")


def _row(cells: list[str], classes: list[str | None]) -> Html:
    """A row; a single header cell is the title of the rows that follow."""
    if len(cells) == 1 and cells[0].startswith("<th"):
        return el("tr", cells[0])
    numbered = enumerate(zip(cells, classes, strict=True))
    return el("tr", *[_cell(cell, place, class_) for place, (cell, class_) in numbered])


def _cell(cell: str, place: int, class_: str | None) -> Html:
    """One cell of a table; markup that is already a cell is kept."""
    if isinstance(cell, Html) and cell.startswith(("<td", "<th")):
        return cell
    return el("td", cell, class_=class_) if place else el("th", cell, scope="row", class_=class_)


def pairs(items: Iterable[tuple[str, str]], class_: str = "facts") -> Html:
    """A description list: what, and its value."""
    return el("dl", *[el("div", el("dt", what), el("dd", value)) for what, value in items], class_=class_)

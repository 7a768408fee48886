"""How much a browser has to do to show a drawing: a small file can keep one busy for minutes.

One unit is an element that is filled over the whole drawing: 0.3 ms for 800 × 800 points on one core, without a
graphics card. Whatever is drawn again, by `use` or as a pattern, mask, clip path or marker, counts again; a filter
counts for each element that has it. Sizes of elements are not looked at, so most drawings take far less than that.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tiltyard.arena.media.scripts import without_css_comments
from tiltyard.errors import BankError

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_COST = 20_000
MOST_COST_ANIMATED = 5_000
"""For what is drawn anew all the time."""
MOST_OCTAVES = 10
"""Each adds half of the one before: the ninth is less than a shade."""
LARGEST_RADIUS, LARGEST_ORDER = 10, 7
WIDEST_REGION = 5.0
"""A filter's region, in sizes of what it is applied to or of the drawing."""
LAYER, PRIMITIVE, BLUR, LIGHT, OCTAVE, FINE_DASHES = 20, 50, 150, 400, 60, 300
FILTER_VALUES = frozenset({"stddeviation", "numoctaves", "radius", "order", "basefrequency", "filter", "kernelmatrix"})
"""What an animation may not change: how much there is to do."""
ANIMATIONS = frozenset({"animate", "animateTransform", "animateMotion", "set"})

_REFERENCE = re.compile(r"""url\(\s*['"]?#([^)'"]*)['"]?\s*\)""", re.IGNORECASE)
_FUNCTION = re.compile(r"\b(?:blur|drop-shadow)\s*\(", re.IGNORECASE)
_RULE = re.compile(r"([^{};]*)\{([^{}]*)\}")
_SIMPLE = re.compile(r"(?P<tag>[A-Za-z]+)?(?:\.(?P<class>[\w-]+)|#(?P<id>[\w-]+))?\Z")
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
CHARACTERS_OF_PATH = 100
"""Of a path, that take about as long as an element."""


@dataclass(slots=True)
class Element:
    """An element of a drawing."""

    name: str
    attributes: dict[str, str]
    parts: list[Element | str] = field(default_factory=list)

    @property
    def inside(self) -> list[Element]:
        """The elements in it."""
        return [part for part in self.parts if isinstance(part, Element)]


def check_cost(root: Element) -> None:
    """Refuse a drawing that takes a browser too long."""
    drawing = _Drawing(root)
    cost = drawing.cost(root)
    most = MOST_COST_ANIMATED if drawing.moves else MOST_COST
    if cost > most:
        what = "moves, and takes" if drawing.moves else "takes"
        raise BankError(
            f"{what} a browser too long to draw: its elements, filters, masks and what it uses again come to "
            f"{'more than ' if cost > MOST_COST else ''}{min(cost, MOST_COST):,} of {most:,}. Simplify it."
        )


class _Drawing:
    def __init__(self, root: Element) -> None:
        self._known: dict[int, int] = {}
        everything = list(_all(root))
        self._by_id: dict[str, Element] = {}
        for element in everything:
            self._by_id.setdefault(element.attributes.get("id", ""), element)
        sheets = without_css_comments(" ".join(_text(element) for element in everything if element.name == "style"))
        self._rules = _rules(sheets)
        self.moves = "@keyframes" in sheets.lower() or any(element.name in ANIMATIONS for element in everything)
        self._side = _side(root)
        for element in everything:
            if element.name == "filter" or element.name.startswith("fe"):
                self._check_filter(element)

    def cost(self, element: Element) -> int:
        """What it takes to draw an element, with all that is in it and that it refers to."""
        if id(element) not in self._known:
            self._known[id(element)] = MOST_COST + 1  # what contains itself is drawn without end
            cost = self._own(element) + sum(map(self.cost, element.inside)) + self._referred(element)
            self._known[id(element)] = min(cost, MOST_COST + 1)
        return self._known[id(element)]

    def _own(self, element: Element) -> int:
        match element.name:
            case "feTurbulence":
                return PRIMITIVE + OCTAVE * int(_first(element, "numOctaves", 1.0))
            case "feGaussianBlur" | "feDropShadow":
                return BLUR
            case "feDiffuseLighting" | "feSpecularLighting":
                return LIGHT
            case "feMorphology":
                return PRIMITIVE * (1 + math.ceil(_first(element, "radius", 0.0)))
            case "feConvolveMatrix":
                return PRIMITIVE * math.ceil(_first(element, "order", 3.0)) ** 2 // 3
        if element.name.startswith("fe") and not element.name.startswith(("feFunc", "feMergeNode")):
            return 1 if element.name.endswith("Light") else PRIMITIVE
        written = len(element.attributes.get("d", "")) + len(element.attributes.get("points", ""))
        return 1 + written // CHARACTERS_OF_PATH

    def _referred(self, element: Element) -> int:
        if element.name == "use":
            used = self._by_id.get(element.attributes.get("href", "").strip()[1:] or "?")
            return (self.cost(used) if used else 0) + self._styled(element)
        return self._styled(element)

    def _styled(self, element: Element) -> int:
        """What the attributes and styles of an element add."""
        cost = 0
        for name, value in self._values(element):
            cost += BLUR * len(_FUNCTION.findall(value))
            if name == "stroke-dasharray" and 0.0 < sum(abs(float(one)) for one in _NUMBER.findall(value)) < 1.0:
                cost += FINE_DASHES
            for found in _REFERENCE.finditer(value):
                target = self._by_id.get(found[1])
                if target is not None and not target.name.endswith("Gradient"):
                    corners = len(element.attributes.get("d", element.attributes.get("points", ""))) // 4
                    cost += LAYER + self.cost(target) * max(corners if name in ("marker", "marker-mid") else 1, 1)
        return cost

    def _values(self, element: Element) -> Iterator[tuple[str, str]]:
        yield from ((name, value) for name, value in element.attributes.items() if name not in ("id", "style", "href"))
        yield from _declarations(element.attributes.get("style", ""))
        keys = ["*", element.name, f"#{element.attributes.get('id', '')}"]
        for key in (*keys, *(f".{one}" for one in element.attributes.get("class", "").split())):
            yield from self._rules.get(key, ())

    def _check_filter(self, element: Element) -> None:
        """Refuse a filter with numbers that no drawing needs."""
        of_box = element.attributes.get("filterUnits") != "userSpaceOnUse"
        most = {
            "numOctaves": MOST_OCTAVES,
            "radius": LARGEST_RADIUS * max(self._side / 500.0, 1.0),
            "order": LARGEST_ORDER,
            "stdDeviation": self._side,
        }
        if element.name == "filter":
            most = dict.fromkeys(("x", "y", "width", "height"), WIDEST_REGION * (1.0 if of_box else self._side))
        for name, largest in most.items():
            value = element.attributes.get(name, "")
            numbers = [abs(float(one)) / (100.0 if f"{one}%" in value else 1.0) for one in _NUMBER.findall(value)]
            if any(not number <= largest for number in numbers):
                raise BankError(
                    f"has a <{element.name}> with {name}={value[:20]!r}, which keeps browsers busy; at most "
                    f"{largest:,g} is shown. Lower it."
                )


def _all(root: Element) -> Iterator[Element]:
    """All elements, in the order of the file."""
    open_ = [root]
    while open_:
        element = open_.pop()
        yield element
        open_ += reversed(element.inside)


def _text(element: Element) -> str:
    return "".join(part for part in element.parts if isinstance(part, str))


def _side(root: Element) -> float:
    """The longer side of a drawing, in its own units."""
    numbers = [float(one) for one in _NUMBER.findall(root.attributes.get("viewBox", ""))][2:4]
    numbers = numbers or [_first(root, name, 300.0) for name in ("width", "height")]
    side = max(numbers)
    return side if 0.0 < side < math.inf else 300.0


def _first(element: Element, name: str, default: float) -> float:
    """The largest number of an attribute."""
    return max((abs(float(one)) for one in _NUMBER.findall(element.attributes.get(name, ""))), default=default)


def _declarations(text: str) -> list[tuple[str, str]]:
    pairs = (part.partition(":") for part in text.split(";"))
    found = [(name.strip().lower(), value) for name, _, value in pairs]
    if any(name.startswith("--") and _REFERENCE.search(value) for name, value in found):
        raise BankError("has url() in a variable of its styles. Write it where it is used.")
    return found


def _rules(sheets: str) -> dict[str, list[tuple[str, str]]]:
    """What style sheets say of elements by name, id and class; of all, where the selector is not as simple as that."""
    rules: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for selectors, inside in _RULE.findall(sheets):
        declared = _declarations(inside)
        for selector in selectors.split(","):
            last = selector.split()[-1:] or ["*"]
            found = _SIMPLE.match(last[0])
            if found is None:
                rules["*"] += declared
            elif found["class"] or found["id"]:
                rules[f".{found['class']}" if found["class"] else f"#{found['id']}"] += declared
            else:
                rules["*" if last[0] in ("from", "to") else last[0]] += declared
    return dict(rules)

"""How much a browser has to do to show a drawing: a small file can keep one busy for minutes.

Costs are milliseconds for 800 × 800 points, drawn by one core without a graphics card, measured in Chromium on a busy
machine. A shape, and a filter on it, count by their share of the drawing, as far as the shape says how large it is:
groups, what is used again, and whatever is scaled or grows are taken for as large as the drawing. Patterns, masks, clip
paths, markers and filters count for each element that has them.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from tiltyard.arena.intake.media.scripts import without_css_comments
from tiltyard.errors import BankError

MOST_COST = 3000.0
MOST_COST_ANIMATED = 600.0
"""For what is drawn anew all the time."""
MOST_OCTAVES = 10
"""Each adds half of the one before: the ninth is less than a shade."""
LARGEST_RADIUS, LARGEST_ORDER = 10, 7
WIDEST_REGION = 5.0
"""A filter's region, in sizes of what it is applied to or of the drawing."""

MOST_GRADIENTS, LONGEST_CHAIN, MOST_POINTS, MOST_STYLED = 500, 20, 50_000, 2_000_000
"""Gradients; gradients that refer to each other; pairs of numbers in shapes; declarations of sheets times elements."""

FILL, PAINT, LAYER, DASH, LETTER, LEAST = 0.35, 7.0, 9.0, 0.03, 0.01, 0.05
"""A plain colour; a gradient or pattern; a mask, clip path or blend mode; one dash; one letter; the smallest shape."""
PRIMITIVE, BLUR, LARGE_BLUR, LIGHT, NOISE, OCTAVE, RADIUS, KERNEL = 20.0, 80.0, 220.0, 90.0, 100.0, 40.0, 60.0, 25.0
CHARACTERS, OUTLINES, LARGE_LETTER = 0.01, 0.3, 40.0
"""One character of a path; an outline as long as the drawing; how much more a letter takes that is as large as it."""
FILTER_VALUES = frozenset({"stddeviation", "numoctaves", "radius", "order", "basefrequency", "filter", "kernelmatrix"})
"""What an animation may not change: how much there is to do."""
ANIMATIONS = frozenset({"animate", "animateTransform", "animateMotion", "set"})
_SHAPES = "path rect circle ellipse line polyline polygon text image"
SHAPES = frozenset(_SHAPES.split())
NOT_DRAWN = frozenset({"filter", "linearGradient", "radialGradient", "style"})
_GROWING = "r rx ry width height x1 x2 y1 y2 d points stroke-width font-size scale zoom font animation animation-name"
GROWING = frozenset(_GROWING.split())
"""What makes a shape larger than its attributes say, in a style or an animation."""

SIZES = ("width", "height", "r", "rx", "ry", "font-size")
OF_POINTS = ("d", "points", "path", "values", "keyTimes", "transform")
OUTLINE = 6.0
"""How long the outline of a letter is, in sizes of its font."""
OUTLINED = (*SIZES, "x1", "x2", "y1", "y2")
NO_VALUES = frozenset({"id", "class", "style", "href", "d", "points"})

_REFERENCE = re.compile(r"""url\(\s*['"]?#([^)'"]*)['"]?\s*\)""", re.IGNORECASE)
_FUNCTION = re.compile(r"\b(?:blur|drop-shadow)\s*\(", re.IGNORECASE)
_RULE = re.compile(r"([^{};]*)\{([^{}]*)\}")
_SIMPLE = re.compile(r"(?P<tag>[A-Za-z]+)?(?:\.(?P<class>[\w-]+)|#(?P<id>[\w-]+))?\Z")
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_MEASURE = re.compile(rf"({_NUMBER.pattern})(%?)")
_CSS_ESCAPE = re.compile(r"\\([0-9a-fA-F]{1,6})\s?|\\(.)", re.DOTALL)


def unescaped(css: str) -> str:
    """A style as browsers read it."""
    return _CSS_ESCAPE.sub(lambda match: chr(min(int(match[1], 16), 0x10FFFF)) if match[1] else match[2], css)


@dataclass(slots=True)
class Element:
    """An element of a drawing."""

    name: str
    attributes: dict[str, str]
    parts: list[Element | str] = field(default_factory=list)

    @property
    def inside(self) -> list[Element]:
        return [part for part in self.parts if isinstance(part, Element)]


def check_cost(root: Element) -> None:
    """Refuse a drawing that takes a browser too long."""
    drawing = _Drawing(root)
    cost = sum(drawing.cost(element, drawing.start) for element in root.inside)
    most = MOST_COST_ANIMATED if drawing.moves else MOST_COST
    if cost > most:
        told = f"about {cost:,.0f}" if cost <= MOST_COST else f"more than {MOST_COST:,.0f}"
        raise BankError(
            f"{'moves, and ' if drawing.moves else ''}takes a browser too long to draw: {told} ms, and at most "
            f"{most:,.0f} are shown. Use fewer or smaller filters, masks, patterns and copies, or fewer shapes."
        )


@dataclass(frozen=True, slots=True)
class _Inherited:
    """What an element has of those around it."""

    full: bool = False
    """Whether its size is not known, so that it may be as large as the drawing."""
    stroke: float = 0.0
    paint: float = FILL
    font: float = 16.0
    dash: float = math.inf
    """The length of one dash or gap."""
    marker: float = 0.0


class _Drawing:
    def __init__(self, root: Element) -> None:
        self._root = root
        self._known: dict[tuple[int, _Inherited], float] = {}
        everything = list(_all(root))
        self._by_id: dict[str, Element] = {}
        for element in everything:
            self._by_id.setdefault(element.attributes.get("id", ""), element)
        sheets = unescaped(
            without_css_comments(" ".join(_text(element) for element in everything if element.name == "style"))
        )
        _check_numbers(everything, self._by_id)
        if ":has(" in "".join(sheets.lower().split()):
            raise BankError("has :has() in its styles, which keeps browsers busy. Use a class.")
        self._rules = _rules(sheets, len(everything))
        moving = [element for element in everything if element.name in ANIMATIONS]
        self.moves = bool(moving) or "@keyframes" in sheets.lower()
        self._side = _side(root)
        self.start = self._passed_on(root, _Inherited(full=any("href" in element.attributes for element in moving)))
        for element in everything:
            if element.name == "filter" or element.name.startswith("fe"):
                self._check_filter(element)

    def cost(self, element: Element, around: _Inherited) -> float:
        if element.name in NOT_DRAWN or element.name in ANIMATIONS:
            return 0.0
        key = (id(element), around)
        if key not in self._known:
            self._known[key] = MOST_COST + 1.0  # what contains itself is drawn without end
            here = self._passed_on(element, around)
            cost = self._own(element, here) + sum(self.cost(part, here) for part in element.inside)
            self._known[key] = min(cost, MOST_COST + 1.0)
        return self._known[key]

    def _passed_on(self, element: Element, around: _Inherited) -> _Inherited:
        here = around
        for name, value in self._values(element):
            if name == "transform" and not re.fullmatch(r"(?:\s*(?:translate|rotate)\s*\([^()]*\)[\s,]*)*", value):
                here = replace(here, full=True)
            elif name == "stroke-width":
                here = replace(here, stroke=max(here.stroke, *_numbers(value), 0.0))
            elif name == "font-size":
                here = replace(here, font=max(_numbers(value), default=here.font))
            elif name == "stroke-dasharray":
                here = replace(here, dash=min(here.dash, self._dash(value)))
            elif name in ("fill", "stroke"):
                for target in self._targets(value):
                    paint = PAINT
                    if not target.name.endswith("Gradient"):
                        paint += self.cost(target, _Inherited(full=True, stroke=here.stroke)) / FILL
                    here = replace(here, paint=here.paint + paint)
            elif name.startswith("marker"):
                marked = sum(self.cost(target, replace(here, full=True, marker=0.0)) for target in self._targets(value))
                here = replace(here, marker=here.marker + marked)
        for part in element.inside:
            if part.name in ANIMATIONS and part.attributes.get("attributeName", "").strip() == "stroke-dasharray":
                values = (part.attributes.get(name, "") for name in ("values", "from", "to", "by"))
                dashes = (self._dash(value) for several in values for value in several.split(";"))
                here = replace(here, dash=min(here.dash, *dashes))
        grows = any(name in GROWING for name, _ in self._styles(element)) or any(
            part.name in ANIMATIONS
            and (part.attributes.get("attributeName", "") in GROWING or part.attributes.get("type") == "scale")
            for part in element.inside
        )
        return (
            replace(here, full=True)
            if grows or (element.name in ("use", "symbol", "svg") and element is not self._root)
            else here
        )

    def _dash(self, value: str) -> float:
        """The mean length of dashes and gaps; without end where there are none."""
        if "(" in value:
            return self._side / 1e6  # calculated, so it may be anything
        lengths = [float(number) * (self._side / 100.0 if sign else 1.0) for number, sign in _MEASURE.findall(value)]
        return sum(map(abs, lengths)) / len(lengths) if any(lengths) else math.inf

    def _length(self, element: Element, here: _Inherited) -> float:
        given = element.attributes
        of = {name: _measure(given[name], self._side) for name in OUTLINED if name in given}
        match element.name:
            case "path" | "polyline" | "polygon":
                written = given.get("d", "") + given.get("points", "")
                places = [float(number) for number in _NUMBER.findall(written)]
                if re.search("[a-df-y]", written):
                    return sum(map(abs, places)) * (2.0 if re.search("[AC-LQ-V]", written) else 1.0)
                steps = (1, 2) if re.search("[AHV]", written) else (2,)
                return sum(
                    abs(after - before) for step in steps for before, after in zip(places, places[step:], strict=False)
                )
            case "line":
                length = abs(of.get("x2", 0.0) - of.get("x1", 0.0)) + abs(of.get("y2", 0.0) - of.get("y1", 0.0))
            case "circle" | "ellipse":
                length = 2.0 * math.pi * max((of.get(name, 0.0) for name in ("r", "rx", "ry")), default=0.0)
            case "text":
                length = OUTLINE * of.get("font-size", self._side / 4.0) * _letters(element)
            case _:
                length = 2.0 * (of.get("width", self._side) + of.get("height", self._side))
        grown = [number for name, value in self._styles(element) if name in GROWING for number in _numbers(value)]
        return max(length, 4.0 * self._side if here.full else 0.0, 2.0 * math.pi * max(grown, default=0.0))

    def _own(self, element: Element, here: _Inherited) -> float:
        width, height = self._size(element, here)
        written = element.attributes.get("d", "") + element.attributes.get("points", "")
        cost = 0.0
        if element.name in SHAPES:
            drawn = here.paint + CHARACTERS * len(written)
            cost = max(LEAST, drawn * self._share(width + here.stroke, height + here.stroke))
            cost += here.marker * max(len(written) // 4, 1)
            if here.dash < math.inf:
                measured = _largest(element, "pathLength") or self._length(element, here)
                cost += DASH * measured / here.dash
            if element.name == "text":
                font = max(here.font, *(_largest(part, "font-size") for part in _all(element)))
                font = max(font, self._side / 4.0) if here.full else font
                cost += LETTER * _letters(element) * (1.0 + LARGE_LETTER * min(font / self._side, 1.0))
            elif written:
                cost += OUTLINES * self._length(element, here) / self._side
        elif element.name == "textPath":
            along = self._by_id.get(element.attributes.get("href", "").strip()[1:] or "?")
            cost = LETTER * _letters(element) * (0 if along is None else _points(along)) / 100.0
        elif element.name == "use":
            used = self._by_id.get(element.attributes.get("href", "").strip()[1:] or "?")
            cost = self.cost(used, here) if used else 0.0
        for name, value in self._values(element):
            calls = len(_FUNCTION.findall(value))
            cost += calls * LARGE_BLUR + (
                LIGHT if "inherit" in value and name in ("filter", "mask", "clip-path") else 0.0
            )
            if name == "mix-blend-mode" and value.strip() != "normal":
                cost += LAYER
            if name == "opacity" and element.inside and value.strip() != "1":
                cost += LAYER * self._share(width, height)
            if name in ("fill", "stroke") or name.startswith("marker"):
                continue
            for target in self._targets(value):
                if target.name == "filter":
                    reach = 6.0 * max((_largest(part, "stdDeviation") for part in target.inside), default=0.0)
                    share = self._share(1.4 * width + reach, 1.4 * height + reach)
                    cost += share * sum(self._primitive(part) for part in target.inside)
                else:
                    cost += LAYER * self._share(width, height) + self.cost(target, replace(here, full=True, marker=0.0))
        return cost

    def _primitive(self, element: Element) -> float:
        match element.name:
            case "feTurbulence":
                return NOISE + OCTAVE * _largest(element, "numOctaves", 1.0)
            case "feGaussianBlur" | "feDropShadow":
                return BLUR if _largest(element, "stdDeviation") <= self._side / 20.0 else LARGE_BLUR
            case "feDiffuseLighting" | "feSpecularLighting" | "feDisplacementMap":
                return LIGHT
            case "feMorphology":
                return RADIUS * (1.0 + _largest(element, "radius") * 800.0 / max(self._side, 800.0))
            case "feMerge":
                return PRIMITIVE * max(len(element.inside) / 2.0, 1.0)
            case "feConvolveMatrix":
                return KERNEL * _largest(element, "order", 3.0) ** 2
        return PRIMITIVE

    def _share(self, width: float, height: float) -> float:
        return min(width, self._side) * min(height, self._side) / self._side**2

    def _size(self, element: Element, here: _Inherited) -> tuple[float, float]:
        """Width and height of a shape; those of the drawing, where it does not say."""
        whole, given = (self._side, self._side), element.attributes
        of = {name: _largest(element, name) for name in SIZES if name in given and "%" not in given[name]}
        if here.full:
            return whole
        match element.name:
            case "rect" | "image":
                return of.get("width", self._side), of.get("height", self._side)
            case "circle":
                return 2.0 * of.get("r", self._side), 2.0 * of.get("r", self._side)
            case "ellipse":
                return 2.0 * of.get("rx", self._side), 2.0 * of.get("ry", self._side)
            case "text" if "font-size" in of and not any(part.attributes for part in element.inside):
                return of["font-size"] * _letters(element), 1.5 * of["font-size"]
            case "polyline" | "polygon" | "path":
                written = given.get("d", given.get("points", ""))
                places = [float(number) for number in _NUMBER.findall(written)]
                relative = bool(re.search("[a-df-y]", written))
                reach = sum(map(abs, places[2:])) if relative else max(places, default=0.0) - min(places, default=0.0)
                return reach, reach
        return whole

    def _targets(self, value: str) -> Iterator[Element]:
        for result in _REFERENCE.finditer(value):
            if (target := self._by_id.get(result[1])) is not None:
                yield target

    def _styles(self, element: Element) -> Iterator[tuple[str, str]]:
        yield from _declarations(unescaped(element.attributes.get("style", "")))
        keys = ["*", element.name, f"#{element.attributes.get('id', '')}"]
        for key in (*keys, *(f".{one}" for one in element.attributes.get("class", "").split())):
            yield from self._rules.get(key, ())

    def _values(self, element: Element) -> Iterator[tuple[str, str]]:
        yield from ((name, value) for name, value in element.attributes.items() if name not in NO_VALUES)
        yield from self._styles(element)

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
    open_ = [root]
    while open_:
        element = open_.pop()
        yield element
        open_ += reversed(element.inside)


def _check_numbers(everything: list[Element], by_id: dict[str, Element]) -> None:
    """Refuse a drawing with more points or gradients than drawings need."""
    points = sum(_points(element) for element in everything)
    if points > MOST_POINTS:
        raise BankError(
            f"has {points:,} points, which keeps browsers busy; at most {MOST_POINTS:,} are shown. Simplify it."
        )
    gradients = [element for element in everything if element.name.endswith("Gradient")]
    if len(gradients) > MOST_GRADIENTS:
        raise BankError(
            f"has {len(gradients):,} gradients; at most {MOST_GRADIENTS} are shown. Use the same ones again."
        )
    for gradient in gradients:
        at: Element | None = gradient
        for _ in range(LONGEST_CHAIN + 1):
            at = by_id.get(at.attributes.get("href", "").strip()[1:] or "?") if at else None
        if at is not None:
            raise BankError(f"has gradients that refer to each other more than {LONGEST_CHAIN} times. Simplify them.")


def _points(element: Element) -> int:
    return sum(len(_NUMBER.findall(element.attributes.get(name, ""))) for name in OF_POINTS) // 2


def _letters(element: Element) -> int:
    return sum(len(_text(part)) for part in _all(element))


def _measure(value: str, side: float) -> float:
    result = _MEASURE.search(value)
    return float(result[1]) * (side / 100.0 if result[2] else 1.0) if result else 0.0


def _text(element: Element) -> str:
    return "".join(part for part in element.parts if isinstance(part, str))


def _side(root: Element) -> float:
    """The longer side of a drawing, in its own units."""
    numbers = [float(one) for one in _NUMBER.findall(root.attributes.get("viewBox", ""))][2:4]
    numbers = numbers or [_largest(root, name, 300.0) for name in ("width", "height")]
    side = max(numbers)
    return side if 0.0 < side < math.inf else 300.0


def _numbers(value: str) -> Iterable[float]:
    return (abs(float(one)) for one in _NUMBER.findall(value))


def _largest(element: Element, name: str, default: float = 0.0) -> float:
    return max(_numbers(element.attributes.get(name, "")), default=default)


def _declarations(text: str) -> list[tuple[str, str]]:
    pairs = (part.partition(":") for part in text.split(";"))
    result = [(name.strip().lower(), value) for name, _, value in pairs]
    if any(name.startswith("--") and _REFERENCE.search(value) for name, value in result):
        raise BankError("has url() in a variable of its styles. Write it where it is used.")
    return result


def _rules(sheets: str, elements: int) -> dict[str, list[tuple[str, str]]]:
    """What style sheets say of elements by name, id and class; of all, where the selector is not as simple as that."""
    rules: dict[str, list[tuple[str, str]]] = defaultdict(list)
    count = 0
    for selectors, inside in _RULE.findall(sheets):
        declared = _declarations(inside)
        count += len(declared) * (1 + selectors.count(","))
        if count * elements > MOST_STYLED:
            raise BankError(
                f"has styles that take too long to apply: more than {MOST_STYLED // elements:,} declarations for "
                f"{elements:,} elements. Use fewer."
            )
        for selector in selectors.split(","):
            last = selector.split()[-1:] or ["*"]
            result = _SIMPLE.match(last[0])
            if result is None:
                rules["*"] += declared
            elif result["class"] or result["id"]:
                rules[f".{result['class']}" if result["class"] else f"#{result['id']}"] += declared
            else:
                rules["*" if last[0] in ("from", "to") else last[0]] += declared
    return dict(rules)

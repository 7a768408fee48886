"""Documented fields against made ones: patterns such as `ratings[].model` or `pairs.<dimension>`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from tests.reference.pages import anchor, code, sections_of

Way = tuple[str, ...]
"""The keys that lead to a value, `[]` standing for every place of a list."""

PLACEHOLDER = re.compile(r"<[^>]+>")
LINK = re.compile(r"\]\(#([\w-]+)\)")
REST = "…"


@dataclass(frozen=True)
class Field:
    """A documented field; `always` if it is in every object of its place, `open_below` if anything may follow."""

    way: Way
    always: bool
    open_below: bool = False


def way_of(text: str) -> Way:
    """The keys of a documented field."""
    parts: list[str] = []
    for part in text.split("."):
        name = part.removesuffix("[]")
        parts += ([name] if name else []) + (["[]"] if part.endswith("[]") else [])
    return tuple(parts)


@cache
def documented(page: str, title: str) -> tuple[Field, ...]:
    """The fields of a section of a page's text, with those of the sections that it takes over."""
    found: list[Field] = []
    parts = {part.title: part for part in sections_of(page)}
    for row in parts[title].rows:
        name = code(row["field"])[0]
        always = "optional" not in row["type"] if "type" in row else not row["when"]
        if not name.endswith(REST):
            found.append(Field(way_of(name), always))
            continue
        before = way_of(name.removesuffix(REST).removesuffix("."))
        link = LINK.search(row["meaning"])
        if link is None:
            found.append(Field(before, always, open_below=True))
            continue
        (other,) = [name for name in parts if anchor(name) == link[1]]
        inner = documented(page, other)
        found += [Field((*before, *field.way), field.always, field.open_below) for field in inner]
    return tuple(found)


@cache
def pattern(key: str) -> re.Pattern[str]:
    """What a documented key matches: itself, or any name in place of `<…>`."""
    pieces = [re.escape(piece) for piece in PLACEHOLDER.split(key)]
    return re.compile(".+".join(pieces))


def matches(written: Way, made: Way) -> bool:
    return len(written) == len(made) and all(pattern(w).fullmatch(m) for w, m in zip(written, made, strict=True))


def walked(value: Any, way: Way = ()) -> Iterator[tuple[Way, Any]]:
    """Every value inside a value with its way, the value itself included."""
    yield way, value
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from walked(inner, (*way, key))
    elif isinstance(value, list):
        for inner in value:
            if isinstance(inner, dict | list):
                yield from walked(inner, (*way, "[]"))


def undocumented(fields: tuple[Field, ...], made: list[Any]) -> set[Way]:
    """Ways of made values that no documented field explains, nor is below one that is open."""
    seen = {way for value in made for way, inner in walked(value) if way and _is_leaf(inner)}
    return {way for way in seen if not any(_explains(field, way) for field in fields)}


def _is_leaf(value: Any) -> bool:
    if isinstance(value, list):
        return not any(isinstance(inner, dict | list) for inner in value)
    return not isinstance(value, dict) or not value


def _explains(field: Field, way: Way) -> bool:
    """Whether a field is this way; an empty or absent object on the way to a field is explained by it, too."""
    if matches(field.way[: len(way)], way):
        return True
    return field.open_below and matches(field.way, way[: len(field.way)])


def never_made(fields: tuple[Field, ...], made: list[Any]) -> set[str]:
    """Documented fields that no made value has."""
    seen = {way for value in made for way, _ in walked(value)}
    return {".".join(field.way) for field in fields if not any(matches(field.way, way) for way in seen)}


def sometimes_missing(fields: tuple[Field, ...], made: list[Any]) -> set[str]:
    """Fields said to be always there that some object in their place lacks."""
    always = [field for field in fields if field.always and not PLACEHOLDER.search(field.way[-1])]
    objects = [(way, inner) for value in made for way, inner in walked(value) if isinstance(inner, dict)]
    by_parent: dict[Way, list[Field]] = {}
    for field in always:
        if field.way[-1] != "[]":
            by_parent.setdefault(field.way[:-1], []).append(field)
    return {
        ".".join(field.way)
        for parent, inside in by_parent.items()
        for way, inner in objects
        if matches(parent, way)
        for field in inside
        if field.way[-1] not in inner
    }

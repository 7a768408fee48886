"""Any values of a JSON file as markup: tables where they are tables, lists where they are lists."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tiltyard.pages.markup import Html, el, join, number, pairs, table

WORDS = {"usd": "US $", "sha256": "SHA-256", "cost": "cost", "n_perms": "permutations"}
FEW = 12


def words(key: str) -> str:
    """A key as words."""
    return WORDS.get(key, " ".join(WORDS.get(part, part) for part in str(key).split("_")))


def facts(value: Any) -> Html:
    """A value of any depth: a scalar as text, records as a table, a mapping as a description list."""
    if isinstance(value, Mapping) and value:
        return _mapping(value)
    if isinstance(value, list | tuple) and value:
        if all(isinstance(item, Mapping) for item in value):
            return _records([("", item) for item in value])
        return _list([facts(item) for item in value])
    return scalar(value)


def fact(key: str, value: Any) -> Html:
    """The value of a key: a seed is a name made of digits, everything else is what it is."""
    return scalar(str(value)) if "seed" in key else facts(value)


def scalar(value: Any) -> Html:
    """One value: a number with its exact self, text as it is, nothing as a dash."""
    if value is None or value == {} or value == [] or value == "":
        return el("span", "–", class_="none")
    if isinstance(value, bool):
        return Html("yes" if value else "no")
    if isinstance(value, int):
        return number(value)
    if isinstance(value, float):
        return el("data", f"{value:,.6g}", value=repr(value))
    return el("span", str(value), class_="word")


def _mapping(value: Mapping[str, Any]) -> Html:
    rows = [item for item in value.values() if isinstance(item, Mapping)]
    if len(rows) == len(value) and len(rows) > 1 and all(_flat(row) for row in rows):
        return _records(list(value.items()))
    return pairs([(words(key), fact(key, item)) for key, item in value.items()], class_="facts nested")


def _flat(row: Mapping[str, Any]) -> bool:
    return not any(
        isinstance(item, Mapping) and any(isinstance(i, Mapping) for i in item.values()) for item in row.values()
    )


def _records(rows: list[tuple[str, Mapping[str, Any]]]) -> Html:
    """Rows of one table whose columns are all keys that appear."""
    columns = list(dict.fromkeys(key for _, row in rows for key in row))
    named = any(name for name, _ in rows)
    head: list[str | tuple[str, str]] = [""] if named else []
    head += [(words(key), "num" if _numeric(rows, key) else "") for key in columns]
    body = [([name] if named else []) + [_cell(row.get(key)) for key in columns] for name, row in rows]
    return table(head, body)


def _cell(value: Any) -> Html:
    """A value in a cell; a small mapping goes on one line."""
    if isinstance(value, Mapping) and value:
        return join([join([words(key), " ", facts(item)]) for key, item in value.items()], ", ")
    return facts(value)


def _numeric(rows: list[tuple[str, Mapping[str, Any]]], key: str) -> bool:
    values = [row[key] for _, row in rows if row.get(key) is not None]
    return bool(values) and all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def _list(items: list[Html]) -> Html:
    shown = join(items, ", ")
    if len(items) <= FEW:
        return shown
    return el("details", el("summary", number(len(items)), " values"), shown)

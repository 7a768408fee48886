"""The page of errors names the whole family, and nobody else."""

from __future__ import annotations

import importlib
import pkgutil

import tiltyard
from tests.reference.pages import REFERENCE, code, section
from tiltyard.errors import TiltyardError

OTHERS = ("tiltyard.__main__", "tiltyard.arena.store.migrations")


def family() -> dict[str, type[TiltyardError]]:
    """Every error of the package: the root, and whatever any module derives from it."""
    for module in pkgutil.walk_packages(tiltyard.__path__, "tiltyard."):
        if not module.name.startswith(OTHERS):
            importlib.import_module(module.name)
    found, left = {}, [TiltyardError]
    while left:
        kind = left.pop()
        if kind.__module__.startswith("tiltyard"):
            found[kind.__name__] = kind
            left += kind.__subclasses__()
    return found


def test_every_error_is_on_the_page_under_its_parent_and_no_other_is() -> None:
    rows = section(REFERENCE / "errors.md", "Errors").rows
    written = {code(row["error"])[0]: code(row["is a"])[0] for row in rows}
    assert len(written) == len(rows), "an error stands there twice"
    assert written == {name: kind.__mro__[1].__name__ for name, kind in family().items()}


def test_what_an_error_carries_besides_its_line_is_on_the_page() -> None:
    rows = {code(row["error"])[0]: row["what happened"] for row in section(REFERENCE / "errors.md", "Errors").rows}
    for name, attributes in {
        "BadRow": ("reason", "where", "detail"),
        "NotConnected": ("islands",),
        "TryLater": ("retry_after",),
        "TooMany": ("retry_seconds",),
    }.items():
        assert set(attributes) <= set(code(rows[name]))

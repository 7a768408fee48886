"""The pages about errors name the whole family."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType

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


def test_every_error_is_in_the_python_reference_under_its_parent(python_reference: ModuleType) -> None:
    pages = "\n".join(python_reference.pages().values())
    for name, kind in family().items():
        assert f"\nclass {name}({kind.__mro__[1].__name__})\n" in pages


def test_what_to_do_is_said_of_errors_that_there_are() -> None:
    tables = section(REFERENCE / "errors.md", "Errors").rows
    assert {code(row["error"])[0] for row in tables if "error" in row} < set(family())

"""A room is used through its face: what its `__init__` hands on. Tests of arithmetic and of rules may reach inside."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

from tests.house import sources
from tests.house.sources import SOURCE

TESTS = SOURCE.parents[1] / "tests"

MOST_DEEP_IN_TESTS = 0.46
"""The share of import statements in tests that may reach into a room; it may only fall."""

MOST_DEEP_BETWEEN_ROOMS = 35
"""Import statements of the package that reach into another room; it may only fall."""

IMPORT = re.compile(r"^ *(from tiltyard\b[.\w]* import (?:\([^)]*\)|.*))$", re.MULTILINE)
"""An import statement, of a program in a text too: parsing these alone takes a tenth of parsing all tests."""


@cache
def faces() -> dict[str, set[str]]:
    """Rooms whose `__init__` hands names on, and these names; of `verbs`, each file is one."""
    names = {}
    for path in SOURCE.rglob("__init__.py"):
        room = ".".join(("tiltyard", *path.parent.relative_to(SOURCE).parts))
        text = path.read_text(encoding="utf-8")
        if room in {"tiltyard.cli", "tiltyard.verbs.demo", "tiltyard.site"} or (
            "names_on_demand" in text and "." in room
        ):
            imports = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom)]
            names[room] = {alias.name for node in imports for alias in node.names}
    return names


@cache
def is_module(name: str) -> bool:
    path = SOURCE.parent / name.replace(".", "/")
    return path.with_suffix(".py").exists() or path.is_dir()


def statements(tree: ast.Module, home: str | None = None) -> tuple[int, int]:
    """How many import statements take something from the package, but for the folder `home`; how many reach inside."""
    rooms = faces()
    known = deep = 0
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom) or not re.match(r"tiltyard(\.|$)", node.module or ""):
            continue
        module = str(node.module)
        if home and f"{module}.".startswith(f"{home}."):
            continue
        known += 1
        if module in rooms:
            deep += any(is_module(f"{module}.{alias.name}") for alias in node.names if alias.name not in rooms[module])
        else:
            deep += any(module.startswith(f"{room}.") for room in rooms)
    return known, deep


def test_most_tests_speak_to_faces():
    texts = (path.read_text(encoding="utf-8") for path in sorted(TESTS.rglob("*.py")))
    counts = [statements(ast.parse("\n".join(IMPORT.findall(text)))) for text in texts]
    known, deep = (sum(column) for column in zip(*counts, strict=True))
    assert known > 500
    assert deep / known <= MOST_DEEP_IN_TESTS, f"{deep} of {known}"


def test_rooms_take_names_from_faces():
    deep = []
    for name, tree in sources.trees().items():
        home = ".".join(("tiltyard", *Path(name).parts[:1])) if "/" in name else None
        deep += [name] * statements(tree, home)[1]
    assert len(deep) <= MOST_DEEP_BETWEEN_ROOMS, sorted(deep)


def test_a_face_hands_on_what_it_lists():
    """A name that nobody can import is noticed here, not by whoever first asks for it."""
    from importlib import import_module

    for room in sorted(faces()):
        tree = ast.parse((SOURCE.parent / room.replace(".", "/") / "__init__.py").read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module != "tiltyard.faces" and node.module != "typing":
                for alias in node.names:
                    assert getattr(import_module(room), alias.name) is getattr(
                        import_module(str(node.module)), alias.name
                    )

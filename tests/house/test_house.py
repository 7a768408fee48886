"""The rules of the house that no linter knows: no circles, one meaning for a class name.

Layers and "only X knows Y" are import contracts in pyproject.toml.
"""

from __future__ import annotations

import ast
import importlib
from collections import defaultdict
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.house import sources
from tests.house.sources import SOURCE

DOUBLES: dict[str, str] = {}
"""Public class names with two meanings, each with its reason. Six at the most."""


def modules() -> dict[str, Path]:
    names = {}
    for name, path in sources.PATHS.items():
        dotted = ".".join(("tiltyard", *name.removesuffix(".py").split("/")))
        names[dotted.removesuffix(".__init__")] = path
    return names


def imports(name: str, tree: ast.Module, known: dict[str, Path]) -> set[str]:
    """The modules of the package that a module imports, at any depth of its code."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            named = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {target if target in known else node.module for target in named}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return (found & known.keys()) - {name}


KNOWN = modules()


def trees() -> dict[str, ast.Module]:
    return dict(zip(KNOWN, sources.trees().values(), strict=True))


def test_no_import_circle_even_inside_functions_and_for_types_alone():
    """A record that is printed may ask its own room for the words: a face only hands names on."""
    files = {name for name, path in KNOWN.items() if path.name != "__init__.py"}
    arrows = {name: imports(name, tree, KNOWN) & files for name, tree in trees().items() if name in files}
    circle: list[str] = []
    try:
        TopologicalSorter(arrows).prepare()
    except CycleError as error:
        circle = error.args[1]
    assert not circle, " imports ".join(reversed(circle))


def test_a_public_class_name_means_one_thing():
    homes = defaultdict(list)
    for name, tree in trees().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(name)
    doubles = {name: places for name, places in homes.items() if len(places) > 1}
    assert doubles.keys() == DOUBLES.keys(), {name: homes[name] for name in doubles.keys() ^ DOUBLES.keys()}
    assert len(DOUBLES) <= 6


def test_every_module_says_what_it_is_for():
    silent = [name for name, tree in trees().items() if not ast.get_docstring(tree)]
    assert silent == []


def test_the_tree_of_the_architecture_names_every_wing_and_room():
    text = (SOURCE.parents[1] / "ARCHITECTURE.md").read_text(encoding="utf-8")
    drawn, wing = set(), ""
    for line in text.split("```")[1].splitlines():
        name = line.split()[0] if line.startswith("  ") else ""
        if name.endswith("/"):
            wing = wing if line.startswith("    ") else name
            drawn.add(name if wing == name else wing + name)
    folders = {path.parent.relative_to(SOURCE).as_posix() + "/" for path in SOURCE.glob("*/**/__init__.py")}
    rooms = {folder for folder in folders if folder.count("/") <= 2} - {"verbs/demo/"}
    assert drawn == rooms


def test_the_picture_of_the_wings_is_drawn_from_the_imports(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(SOURCE.parents[1] / "tools")
    picture = importlib.import_module("wings").picture
    assert picture() in (SOURCE.parents[1] / "ARCHITECTURE.md").read_text(encoding="utf-8")


def test_every_path_that_the_architecture_names_exists():
    text = (SOURCE.parents[1] / "ARCHITECTURE.md").read_text(encoding="utf-8")
    missing = []
    for word in text.split("`")[1::2]:
        if "/" in word and " " not in word and not word.startswith(("http", "runs/", "/")):
            places = (SOURCE / word, SOURCE.parents[1] / word)
            if not any(place.exists() for place in places):
                missing.append(word)
    assert missing == []

"""The rules of the house that no linter knows: no circles, one meaning for a class name.

Layers and "only X knows Y" are import contracts in pyproject.toml.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

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


def test_the_drawing_of_the_tree_names_every_folder():
    text = (SOURCE.parents[1] / "ARCHITECTURE.md").read_text(encoding="utf-8")
    tree = text.split("```")[1]
    drawn = {line.split()[0].rstrip("/") for line in tree.splitlines() if line.startswith("  ") and line.strip()}
    there = {path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists()}
    assert there <= drawn, sorted(there - drawn)


def test_every_path_that_the_architecture_names_exists():
    text = (SOURCE.parents[1] / "ARCHITECTURE.md").read_text(encoding="utf-8")
    missing = []
    for word in text.split("`")[1::2]:
        if "/" in word and " " not in word and not word.startswith(("http", "runs/", "/")):
            places = (SOURCE / word, SOURCE.parents[1] / word)
            if not any(place.exists() for place in places):
                missing.append(word)
    assert missing == []

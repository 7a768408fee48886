"""Faces of packages: names that are imported when somebody first uses them."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

IMPORT = re.compile(r"^    from ([\w.]+) import (?:\(([^)]+)\)|(.+))$", re.MULTILINE)
"""A line of a face below `if TYPE_CHECKING:`. (Parsing the file would take most of the time of a small command.)"""


def names_on_demand(package: str) -> Callable[[str], Any]:
    """A package's `__getattr__`: a name is imported when it is first used, from where `if TYPE_CHECKING:` says."""
    homes: dict[str, str] = {}

    def find(name: str) -> Any:
        module = sys.modules[package]
        if not homes:
            with open(str(module.__file__), encoding="utf-8") as file:  # noqa: PTH123 (pathlib is slow to import)
                for home, several, few in IMPORT.findall(file.read()):
                    homes.update(dict.fromkeys(re.findall(r"\w+", several or few), home))
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = homes[name]
        if home == package or (value := getattr(import_module(home), name, None)) is None:
            value = import_module(f"{home}.{name}")
        setattr(module, name, value)
        return value

    return find

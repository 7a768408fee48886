"""The source of the package, parsed once for all tests that read it."""

from __future__ import annotations

import ast
import gc
from functools import cache
from pathlib import Path

import tiltyard

SOURCE = Path(tiltyard.__file__).parent
PATHS = {path.relative_to(SOURCE).as_posix(): path for path in sorted(SOURCE.rglob("*.py"))}
"""Every module's file, by its path within the package."""


@cache
def trees() -> dict[str, ast.Module]:
    """Every module of the package, by its path within it."""
    gc.disable()  # a million nodes, none of them garbage: looking through them again and again took most of the time
    try:
        return {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in PATHS.items()}
    finally:
        gc.freeze()
        gc.enable()


@cache
def nodes(name: str) -> tuple[ast.AST, ...]:
    """Everything in a module, at any depth."""
    return tuple(ast.walk(trees()[name]))

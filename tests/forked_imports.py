"""What a forked process finds imported: all of the package, and what it and the tests load late.

Imported once, by the server from which the others are forked (see `tests.forked`).
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import importlib
import os
import pkgutil
from functools import cache
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as the command does, before NumPy is there

import typer.main

import tiltyard
from tiltyard.cli import main
from tiltyard.judge.llm.providers import http

LATE = (
    "altair",
    "anthropic",
    "duckdb",
    "encodings.ascii",
    "encodings.cp437",
    "encodings.utf_8_sig",
    "h11",
    "httpcore2",
    "openai",
    "psycopg",
    "pytest",
    "rich.markdown",
    "scipy.optimize",
    "scipy.special",
    "scipy.stats",
    "truststore",
    "typer._adapters",
    "typer.rich_utils",
    "vl_convert",
    "yaml",
)

for found in pkgutil.walk_packages(tiltyard.__path__, "tiltyard."):
    if not found.name.endswith("__main__") and ".migrations." not in found.name:  # those run when they are imported
        importlib.import_module(found.name)
for name in LATE:
    importlib.import_module(name)


def _ready(command: typer.core.TyperCommand | typer.core.TyperGroup) -> None:
    """Make how a command and those of its group read their options, which typer does only when it needs them."""
    for option in command.params:
        option.get_runtime_param()
    for one in getattr(command, "commands", {}).values():
        _ready(one)


# The command line of each command is made here, once: it was a third of what a refused argument took.
main.make_app = cache(main.make_app)
typer.main.get_command = cache(typer.main.get_command)
for name in (None, *main.COMMANDS):
    _ready(typer.main.get_command(main.make_app(only=name)))

http.trusted(*map(os.environ.get, http.CERTIFICATES))

atexit.register(os._exit, 0)  # else DuckDB's bindings list on stderr what they leave behind
MADV_COLLAPSE = 25
LARGE = 2 << 20


def _collapse() -> None:
    """Put what was imported into large pages, where the system has them: a fork then takes half the time."""
    maps = Path("/proc/self/maps")
    advise = getattr(ctypes.CDLL(None), "madvise", None)
    if advise is None or not maps.exists():
        return
    advise.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    for line in maps.read_text(encoding="utf-8", errors="replace").splitlines():
        place, rights, *rest = line.split()
        first, end = (int(number, 16) for number in place.split("-"))
        if rights.startswith("rw") and rest[3:] in ([], ["[heap]"]):
            for start in range(-(-first // LARGE) * LARGE, end - LARGE + 1, LARGE):
                advise(start, LARGE, MADV_COLLAPSE)  # a refusal changes nothing


gc.collect()
gc.freeze()  # a collection in a forked process does not touch, and so does not copy, what they share
_collapse()

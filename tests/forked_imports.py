"""What a forked process finds imported: all of the package, and what it and the tests load late.

Imported once, by the server from which the others are forked (see `tests.forked`).
"""

from __future__ import annotations

import atexit
import gc
import importlib
import os
import pkgutil

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as the command does, before NumPy is there

import tiltyard

LATE = (
    "alembic.command",
    "anthropic",
    "duckdb",
    "encodings.ascii",
    "encodings.cp437",
    "encodings.utf_8_sig",
    "h11",
    "httpcore2",
    "mako.template",
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
    "yaml",
)

for found in pkgutil.walk_packages(tiltyard.__path__, "tiltyard."):
    if not found.name.endswith("__main__") and ".migrations." not in found.name:  # those run when they are imported
        importlib.import_module(found.name)
for name in LATE:
    importlib.import_module(name)

atexit.register(os._exit, 0)  # else DuckDB's bindings list on stderr what they leave behind
gc.collect()
gc.freeze()  # a collection in a forked process does not touch, and so does not copy, what they share

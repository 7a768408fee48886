"""Kernels that run plain or compiled from one source: `compiled` marks them, and here alone it is decided which.

Elo and Glicko-2 go through battles one after the other, so their inner loops cannot become array operations. Each such
loop is written once, in Python that numba can compile too. Compiling is worth its start (0.4 to 0.7 s from the disk
cache, 3 s the first time) only for large inputs; the caller says how long the plain run would take.

Two environment variables are read at every call:

- `TILTYARD_COMPILE`: `auto` (default) compiles when the plain run would take `WORTH_SECONDS` or more, numba is
  installed and the cache folder can be written; `always` compiles whatever the size, without a disk cache where there
  is not a folder, and fails where numba is missing; `never` leaves numba alone.
- `TILTYARD_CACHE_DIR`: the folder for compiled code. Default: `tiltyard` in `$XDG_CACHE_HOME` or `~/.cache` (macOS:
  `~/Library/Caches`). Nothing is ever written beside the source, which may be read-only or belong to someone else.

Rules for a kernel: arrays in, results written into arrays; module-level functions of the *same file* as helpers (numba
notices a changed file, not a changed import); no operation that raises in Python and returns infinity in machine code,
such as the exponential of a large number or a division by zero.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from collections.abc import Callable
from importlib import import_module, util
from pathlib import Path
from types import FunctionType
from typing import Any, Generic, ParamSpec, TypeVar, cast

import numpy as np

from tiltyard.errors import MissingExtra, OptionError

WORTH_SECONDS = 1.5
"""Plain runs expected to take at least this long are compiled: the gain then repays a start from the disk cache."""

MODES = ("auto", "always", "never")

P = ParamSpec("P")
R = TypeVar("R")

_compiling = threading.Lock()  # numba's cache folder is a global of numba; see `_compile`


class Kernel(Generic[P, R]):
    """A loop that runs plain or compiled with the same arguments."""

    def __init__(self, function: Callable[P, R]) -> None:
        self.__doc__ = function.__doc__
        self.__name__ = function.__name__
        self._function = cast("FunctionType", function)
        self._compiled: Callable[P, R] | None = None

    def plain(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run in Python. Arrays are handed over as memory views, whose items are Python numbers: twice as fast."""
        views = [memoryview(arg.data) if isinstance(arg, np.ndarray) else arg for arg in args]
        return cast("R", self._function(*views, **kwargs))

    def compiled(self, plain_seconds: float) -> Callable[P, R] | None:
        """The compiled kernel, or None where the plain path should be taken (see the module's rules).

        `plain_seconds` is about how long the plain path would take. A kernel already compiled in this process is free
        to use, so it is returned for small inputs too.
        """
        mode = compile_mode()
        if mode == "never":
            return None
        if self._compiled is not None:
            return self._compiled
        if mode == "auto" and (plain_seconds < WORTH_SECONDS or not _numba_installed() or cache_folder() is None):
            return None
        if not _numba_installed():
            raise MissingExtra("TILTYARD_COMPILE=always", "fast")
        self._compiled = _compile(self._function, cache_folder())
        return self._compiled

    def run(self, plain_seconds: float) -> Callable[P, R]:
        """The kernel as it should be run: compiled where that pays, else plain."""
        return self.compiled(plain_seconds) or self.plain


def compiled(function: Callable[P, R]) -> Kernel[P, R]:
    """Mark a function as a `Kernel`. Costs nothing until a large input asks for it."""
    return Kernel(function)


def compile_mode() -> str:
    """The value of `TILTYARD_COMPILE`: auto, always or never."""
    mode = os.environ.get("TILTYARD_COMPILE", "") or "auto"
    if mode not in MODES:
        raise OptionError(f"TILTYARD_COMPILE={mode!r} is unknown: set it to {', '.join(MODES)}, or leave it out")
    return mode


def cache_folder() -> Path | None:
    """The folder for compiled code of this version, made if needed; None where none can be written."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        folder = _cache_root() / "compiled" / version("tiltyard")
        # What is loaded from here is executed, so the folder belongs to the user alone.
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except (OSError, RuntimeError, PackageNotFoundError):  # RuntimeError: a user without a home
        return None
    return folder


def _cache_root() -> Path:
    chosen = os.environ.get("TILTYARD_CACHE_DIR")
    if chosen:
        return Path(chosen).expanduser().absolute()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "tiltyard"
    shared = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (shared if shared.is_absolute() else Path.home() / ".cache") / "tiltyard"


def _numba_installed() -> bool:
    return util.find_spec("numba") is not None


def _compile(function: FunctionType, folder: Path | None) -> Callable[..., Any]:
    """Hand a kernel to numba, its machine code cached in `folder`.

    numba reads `config.CACHE_DIR` when it decorates a function, not later, so it is set for that moment and put back:
    other users of numba in the process keep their own cache.
    """
    numba: Any = import_module("numba")
    options = {"nogil": True, "error_model": "numpy"}
    whole = _with_compiled_helpers(function, numba.njit(**options))
    with _compiling:
        before = numba.config.CACHE_DIR
        try:
            numba.config.CACHE_DIR = "" if folder is None else str(folder)
            return cast("Callable[..., Any]", numba.njit(cache=folder is not None, **options)(whole))
        finally:
            numba.config.CACHE_DIR = before


def _with_compiled_helpers(function: FunctionType, jit: Callable[[FunctionType], Any]) -> FunctionType:
    """A copy of a function whose helpers, functions of the same module, are compiled; the original stays plain."""
    names = dict(function.__globals__)
    for name in function.__code__.co_names:
        helper = names.get(name)
        if isinstance(helper, FunctionType) and helper.__module__ == function.__module__:
            names[name] = jit(_with_compiled_helpers(helper, jit))
    copy = FunctionType(function.__code__, names, function.__name__, function.__defaults__)
    copy.__module__, copy.__qualname__ = function.__module__, function.__qualname__
    return copy

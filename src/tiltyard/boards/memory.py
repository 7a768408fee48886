"""Whether a board fits into memory, asked before anything is computed.

Intervals, places and win rates hold tables of all pairs of models: eight bytes × models², several at a time.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tiltyard.errors import TooLarge

NUMBER = 8
"""Bytes of a number in a table of pairs."""

SANDWICH_TABLES = 7
"""Tables of pairs that a sandwich and rank intervals hold at most: 5.4 to 7.2 measured with 1,000 to 5,000 models."""

BOOTSTRAP_TABLES = 9
"""The same with a bootstrap, beside its rounds: one table for their covariance, and one to spare."""

ROUNDS_COPIES = 3
"""Copies of the bootstrap's rounds: as solved, joined, and sorted for their quantiles."""

WIN_RATE_TABLES = 6
"""Tables of pairs that win rates hold at most."""


def check_memory(what: str, needed: float, advice: str, available: float | None = None) -> None:
    """Refuse what needs more memory than there is; `available` is what the machine has unless it is handed in."""
    available = available_memory() if available is None else available
    if available is not None and needed > available:
        raise TooLarge(f"{what} need about {_size(needed)} of memory, and {_size(available)} are free", advice)


def available_memory() -> float | None:
    """The bytes that this process may still take, as far as the system says; None where it does not say.

    The least of the machine's free memory (caches count as free), the limit of a container, and the process's own.
    """
    known = [_free_on_machine(), _container_limit(), _process_limit()]
    return min((size for size in known if size is not None), default=None)


def _free_on_machine() -> float | None:
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return 1024.0 * int(line.split()[1])
    except (OSError, ValueError):
        pass
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, OSError, ValueError):
        return None


def _container_limit() -> float | None:
    try:
        return float(Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii"))
    except (OSError, ValueError):  # no such system, or the word "max"
        return None


def _process_limit() -> float | None:
    if sys.platform == "win32":
        return None
    import resource

    soft = resource.getrlimit(resource.RLIMIT_AS)[0]
    return None if soft == resource.RLIM_INFINITY else float(soft)


def _size(size: float) -> str:
    return f"{size / 1e9:,.1f} GB" if size >= 1e8 else f"{size / 1e6:,.1f} MB"

"""What every estimator shares: parameters by name, checked values, and a check that its board fits into memory.

Parameters are given when an estimator is built, battles when it is fitted, as in scikit-learn (`get_params`,
`set_params`, and `sklearn.base.clone` works) without needing scikit-learn. Two things differ on purpose: `fit` returns
the `Leaderboard` instead of the estimator, so no fitted estimator can be out of date; and a parameter is checked when
it is set, not when it is used.
"""

from __future__ import annotations

import math
import re
import sys
from dataclasses import fields, is_dataclass, replace
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Self

from tiltyard.errors import OptionError, OptionValue, TooLarge

RATING_MAX = 1e6
"""How far from 0 a scale may start: much further, and the points of a battle would be lost in rounding."""


DRAWS_MAX = 1_000_000
"""The most bootstrap rounds or shuffles: with this many, what chance is left in a result is beyond its last digit."""


class EstimatorParameters:
    """An estimator's parameters by name."""

    __slots__ = ()

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Every parameter by name; with `deep` also those inside a parameter, as `selection__source`."""
        params = {name: getattr(self, name) for name in _names(self)}
        if deep:
            inside = {name: value for name, value in params.items() if is_dataclass(value)}
            params |= {f"{name}__{key}": getattr(value, key) for name, value in inside.items() for key in _names(value)}
        return params

    def set_params(self, **params: Any) -> Self:
        """Change parameters by name and give the estimator back; if one is wrong, an error, and nothing has changed."""
        known = self.get_params()
        for name in params:
            if name not in known:
                mine = ", ".join(_names(self))
                raise OptionError(f"{type(self).__name__} has no parameter {name!r}: it has {mine}.")
        changes = {name: value for name, value in params.items() if "__" not in name}
        for path, value in params.items():
            name, nested, key = path.partition("__")
            if nested:
                changes[name] = replace(changes.get(name, getattr(self, name)), **{key: value})
        changed = replace(self, **changes)  # type: ignore[type-var]
        for name in _names(self):
            object.__setattr__(self, name, getattr(changed, name))
        return self


def check_number(option: str, value: object, *, least: float = -math.inf, most: float = math.inf) -> None:
    """Refuse what is not a finite number, or is outside its limits."""
    if not _within(value, Real, least, most):
        raise OptionError(f"{option} is {value!r}: expected a number{_limits(least, most)}.")


def check_whole(option: str, value: object, *, least: int, most: float = math.inf) -> None:
    """Refuse what is not a whole number, or is outside its limits."""
    if not _within(value, Integral, least, most):
        raise OptionError(f"{option} is {value!r}: expected a whole number{_limits(least, most)}.")


def check_level(level: object) -> None:
    """Refuse a confidence level that is not between 0 and 1."""
    if not _within(level, Real, 0.0, 1.0) or level in (0.0, 1.0):
        raise OptionError(f"level is {level!r}: expected a share between 0 and 1, such as 0.95.")


def _within(value: Any, kind: type[Any], least: float, most: float) -> bool:
    return isinstance(value, kind) and -math.inf < value < math.inf and least <= value <= most


def _limits(least: float, most: float) -> str:
    """The limits in words, after a comma."""
    limits = {"at least": least, "at most": most}
    words = [f"{word} {limit:,.10g}" for word, limit in limits.items() if math.isfinite(limit)]
    return ", " + " and ".join(words) if words else ""


def _names(owner: Any) -> list[str]:
    return [field.name for field in fields(owner)]


PAIR_BYTES = 8
"""Bytes of a number in a table of pairs."""
SANDWICH_TABLES, BOOTSTRAP_TABLES, WIN_RATE_TABLES = 7, 9, 6
"""Tables of pairs held at most: 5.4 to 7.2 measured for a sandwich with 1,000 to 5,000 models."""
ROUNDS_COPIES = 3
"""Copies of the bootstrap's rounds: as solved, joined, and sorted for their quantiles."""

FEWER = (OptionValue("min_battles"), " to leave out models that have few battles.")


def check_memory(
    what: str, needed: float, advice: tuple[str | OptionValue, ...], available: float | None = None
) -> None:
    """Refuse what needs more memory than there is; `available` is what the machine has unless it is handed in."""
    available = available_memory() if available is None else available
    if available is not None and needed > available:
        need, free = (f"{n / 1e9:,.1f} GB" if n >= 1e8 else f"{n / 1e6:,.1f} MB" for n in (needed, available))
        raise TooLarge(f"{what} need about {need} of memory, and {free} are free", *advice)


def available_memory() -> float | None:
    """The bytes that this process may still take, as far as Linux says; None where nothing does.

    The least of the machine's free memory (caches count as free), the limit of a container, and the process's own.
    """
    known = []
    for path, pattern, unit in (
        ("/proc/meminfo", r"MemAvailable:\s+(\d+)", 1024),
        ("/sys/fs/cgroup/memory.max", r"(\d+)", 1),
    ):
        try:
            found = re.search(pattern, Path(path).read_text(encoding="ascii"))
        except OSError:
            continue
        known += [float(unit * int(found[1]))] if found else []
    if sys.platform != "win32":
        import resource

        soft = resource.getrlimit(resource.RLIMIT_AS)[0]
        known += [] if soft == resource.RLIM_INFINITY else [float(soft)]
    return min(known, default=None)

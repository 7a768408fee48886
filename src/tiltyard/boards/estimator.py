"""What every estimator shares: parameters by name, checked values, and a check that its board fits into memory.

Parameters are given when an estimator is built, battles when it is fitted, as in scikit-learn (`get_params`,
`set_params`, and `sklearn.base.clone` works) without needing scikit-learn. Two things differ on purpose: `fit` returns
the `Leaderboard` instead of the estimator, so no fitted estimator can be out of date; and a parameter is checked when
it is set, not when it is used.
"""

from __future__ import annotations

import math
import os
import sys
from dataclasses import fields, is_dataclass, replace
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Self

from tiltyard.errors import OptionError, OptionValue, TooLarge

RATING_MAX = 1e9
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
    """Whether a value is a finite number of a kind, within limits."""
    return isinstance(value, kind) and -math.inf < value < math.inf and least <= value <= most


def _limits(least: float, most: float) -> str:
    """The limits in words, after a comma."""
    words = [f"at least {_plain(least)}"] if math.isfinite(least) else []
    words += [f"at most {_plain(most)}"] if math.isfinite(most) else []
    return ", " + " and ".join(words) if words else ""


def _plain(limit: float) -> str:
    return f"{limit:,.0f}" if float(limit).is_integer() else f"{limit:g}"


def _names(owner: Any) -> list[str]:
    return [field.name for field in fields(owner)]


NUMBER = 8
"""Bytes of a number in a table of pairs."""


SANDWICH_TABLES = 7
"""Tables of pairs that a sandwich and rank intervals hold at most: 5.4 to 7.2 measured with 1,000 to 5,000 models."""


BOOTSTRAP_TABLES = 9
"""The same with a bootstrap, without its rounds: one table for their covariance, and one to spare."""


ROUNDS_COPIES = 3
"""Copies of the bootstrap's rounds: as solved, joined, and sorted for their quantiles."""


DRAWN_COPIES = 4
"""Copies of the draws of many models, in whole numbers of 8 bytes: two of 4 bytes for each of up to four kinds."""


SOLVED_COPIES = 8
"""Columns of a sparse solve held at once, for each column that is solved."""


WIN_RATE_TABLES = 6
"""Tables of pairs that win rates hold at most."""


Advice = tuple[str | OptionValue, ...]
FEWER: Advice = (OptionValue("min_battles"), " to leave out models that have few battles.")


def check_memory(what: str, needed: float, advice: Advice, available: float | None = None) -> None:
    """Refuse what needs more memory than there is; `available` is what the machine has unless it is handed in."""
    available = available_memory() if available is None else available
    if available is not None and needed > available:
        raise TooLarge(f"{what} need about {_size(needed)} of memory, and {_size(available)} are free", *advice)


def what_is_too_large(models: int, ci: str, *, many: bool, robustness: bool) -> tuple[str, Advice]:
    """What of a Bradley–Terry board needs the memory, and what to do without."""
    if many and robustness:
        return f"robustness of {models:,} models", ("Leave out ", OptionValue("robustness", True), ", or use ", *FEWER)
    what = f"{'robustness' if ci == 'none' else 'intervals'} and places of {models:,} models"
    if many and ci == "bootstrap":
        return what, ("Use ", OptionValue("ci", "sandwich"), ", which needs little memory, or ", *FEWER)
    alone: Advice = (" without ", OptionValue("robustness", True)) if robustness else ()
    return what, ("Use ", OptionValue("ci", "none"), *alone, " for the ratings alone, or ", *FEWER)


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

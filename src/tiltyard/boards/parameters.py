"""The manners of an estimator: parameters when built, shown, copied and changed by name; battles when fitted.

They are scikit-learn's (`get_params`, `set_params`, and `sklearn.base.clone` works) without needing scikit-learn. Two
things differ, and are meant: `fit` gives the `Leaderboard` instead of the estimator, because a fitted estimator would
be one more thing that can be out of date; and a parameter is checked when it is set, not when it is used.
"""

from __future__ import annotations

import math
from dataclasses import fields, is_dataclass, replace
from numbers import Integral, Real
from typing import Any, Self

from tiltyard.errors import OptionError

RATING_MAX = 1e9
"""The furthest from 0 that a scale may be put: much beyond, the points of a battle would be lost in rounding."""

DRAWS_MAX = 1_000_000
"""The most bootstrap rounds or shuffles: with this many, what chance is left in a result is beyond its last digit."""


class Parameters:
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
    """Refuse what is no finite number (NaN, infinity) or lies outside its limits."""
    if not _within(value, Real, least, most):
        raise OptionError(f"{option} is {value!r}: expected a number{_limits(least, most)}.")


def check_whole(option: str, value: object, *, least: int, most: float = math.inf) -> None:
    """Refuse what is no whole number or lies outside its limits."""
    if not _within(value, Integral, least, most):
        raise OptionError(f"{option} is {value!r}: expected a whole number{_limits(least, most)}.")


def check_level(level: object) -> None:
    """Refuse a confidence level that is no share."""
    if not _within(level, Real, 0.0, 1.0) or level in (0.0, 1.0):
        raise OptionError(f"level is {level!r}: expected a share between 0 and 1, such as 0.95.")


def _within(value: Any, kind: type[Any], least: float, most: float) -> bool:
    """Whether a value is a finite number of a kind within limits: NaN is within none."""
    return isinstance(value, kind) and -math.inf < value < math.inf and least <= value <= most


def _limits(least: float, most: float) -> str:
    """The limits in words, after a comma."""
    words = [f"at least {least:,.0f}"] if math.isfinite(least) else []
    words += [f"at most {most:,.0f}"] if math.isfinite(most) else []
    return ", " + " and ".join(words) if words else ""


def _names(owner: Any) -> list[str]:
    return [field.name for field in fields(owner)]

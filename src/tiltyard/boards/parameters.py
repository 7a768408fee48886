"""The manners of an estimator: parameters when built, shown, copied and changed by name; battles when fitted.

They are scikit-learn's (`get_params`, `set_params`, and `sklearn.base.clone` works) without needing scikit-learn. Two
things differ, and are meant: `fit` gives the `Leaderboard` instead of the estimator, because a fitted estimator would
be one more thing that can be out of date; and a parameter is checked when it is set, not when it is used.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any, Self

from tiltyard.errors import OptionError


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


def _names(owner: Any) -> list[str]:
    return [field.name for field in fields(owner)]

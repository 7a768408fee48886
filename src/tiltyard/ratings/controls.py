"""Style covariates: how much longer, bolder or fuller of lists one answer was than the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tiltyard.errors import RatingError

if TYPE_CHECKING:
    from tiltyard.ratings.comparisons import Floats


def scaled_difference(name: str, value_a: Floats, value_b: Floats, weight: Floats) -> Floats:
    """(a − b)/(a + b) of each battle, divided by its root mean square; 0 where both are 0.

    It is never centred: centring would move the ratings of whoever sits in the first slot more often.
    """
    missing = np.isnan(value_a) | np.isnan(value_b)
    if missing.any():
        raise RatingError(
            f"control {name!r} is missing in {int(missing.sum()):,} battles. "
            f"Fill {name}_a and {name}_b, or leave those battles out with --where."
        )
    if (value_a < 0).any() or (value_b < 0).any():
        raise RatingError(f"control {name!r} is negative in some battles: (a − b)/(a + b) needs amounts of 0 or more.")
    total = value_a + value_b
    share = np.divide(value_a - value_b, total, out=np.zeros_like(total), where=total > 0)
    root_mean_square = float(np.sqrt((weight * share * share).sum() / weight.sum()))
    if root_mean_square == 0.0:
        raise RatingError(
            f"control {name!r} is equal on both sides in every battle: it explains nothing. Leave it out."
        )
    return share / root_mean_square

"""How much of a simulation or a search every run tries, and how much `make soak` does."""

from __future__ import annotations

from hypothesis import settings


def size(every_run: int, *, soak: int) -> int:
    """The number of runs or examples: `soak` where `make soak` asked for its profile, else `every_run`.

    The smaller number is right if the test still fails for the wrong rule: bounds of simulations widen with the
    standard error of the measured share, √(p(1 − p)/n).
    """
    return soak if settings.get_current_profile_name() == "soak" else every_run

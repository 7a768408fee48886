"""Units of time: the arena counts whole microseconds since 1970."""

import time
from typing import Final

SECOND: Final = 1_000_000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR


def clock() -> int:
    """The time in microseconds since 1970."""
    return time.time_ns() // 1000

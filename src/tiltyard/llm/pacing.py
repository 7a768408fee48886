"""How long to wait before trying again, and how many requests to run at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random

FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 60.0
FIRST_WIDTH = 4.0


def backoff_seconds(tries: int, retry_after: float | None, rng: random.Random) -> float:
    """The pause after the given number of failed tries: 1, 2, 4 … 60 seconds, reduced at random by up to half.

    If the provider says how long, it is that long plus up to a tenth more, so that clients do not all return at once.
    """
    if retry_after is not None:
        return retry_after * (1 + 0.1 * rng.random())
    longest = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** min(tries - 1, 16))
    return longest * (1 - 0.5 * rng.random())


class ConcurrencyLimit:
    """How many requests may run at once: it grows while all goes well and halves when the provider says to slow down.

    The rule is TCP's. Before the first refusal each reply raises the limit by one, so that it doubles every round trip;
    afterwards each reply raises it by 1/limit, so that it grows by one every round trip. A refusal halves it, once for
    all the requests that were running at the time.
    """

    def __init__(self, most: int) -> None:
        self._most = float(most)
        self._width = min(FIRST_WIDTH, self._most)
        self._calm = True
        self._halved_at = float("-inf")

    @property
    def now(self) -> int:
        """The current limit: at least one, at most the configured maximum."""
        return int(self._width)

    def replied(self) -> None:
        """A reply came."""
        self._width = min(self._most, self._width + (1.0 if self._calm else 1.0 / self._width))

    def back_off(self, sent_at: float, now: float) -> None:
        """The provider said `TryLater` to a request sent at that time."""
        if sent_at < self._halved_at:
            return
        self._calm = False
        self._halved_at = now
        self._width = max(1.0, self._width / 2)

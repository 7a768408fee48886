"""How long to wait before trying again, and how many requests to have out at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random

FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 60.0
FIRST_WIDTH = 4.0


def backoff_seconds(tries: int, retry_after: float | None, rng: random.Random) -> float:
    """The pause after the given number of failed tries: 1, 2, 4 … 60 seconds, of which chance takes up to half.

    Where the provider says how long, it is at least that long and up to a tenth more, so that not all come back at
    once.
    """
    if retry_after is not None:
        return retry_after * (1 + 0.1 * rng.random())
    longest = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** min(tries - 1, 16))
    return longest * (1 - 0.5 * rng.random())


class ConcurrencyLimit:
    """How many requests may be out at once: it grows while all goes well and halves when the provider asks for time.

    The rule is TCP's. Before the first trouble each reply widens by one, so that the width doubles every round trip;
    after it each reply widens by one part of the width, so that it grows by one every round trip. Trouble halves it,
    once for all the requests that were out when it came.
    """

    def __init__(self, most: int) -> None:
        self._most = float(most)
        self._width = min(FIRST_WIDTH, self._most)
        self._calm = True
        self._halved_at = float("-inf")

    @property
    def now(self) -> int:
        """How many may be out at this moment: at least one, at most what was set."""
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

"""How long to wait before trying again, and how many requests to run at once."""

from __future__ import annotations

import random
from collections.abc import Callable

from tiltyard.llm.prices import most_usage
from tiltyard.llm.provider import Request, Usage

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


class Rate:
    """So many per minute, evenly spread: each that is taken moves the time of the next by its share of a minute."""

    def __init__(self, per_minute: float | None, now: Callable[[], float]) -> None:
        self._seconds_each = 0.0 if per_minute is None else 60.0 / per_minute
        self._now = now
        self._free_at = float("-inf")

    def take(self, count: float = 1.0) -> float:
        """Take some, and return how many seconds to wait before using them."""
        now = self._now()
        start = max(now, self._free_at)
        self._free_at = start + count * self._seconds_each
        return start - now

    def correct(self, taken: float, used: float) -> None:
        """Not as many were used as taken, or more."""
        self._free_at += (used - taken) * self._seconds_each


class RequestPace:
    """How fast direct requests may follow each other: by their number and by their tokens."""

    def __init__(
        self, requests_per_minute: float | None, tokens_per_minute: float | None, now: Callable[[], float]
    ) -> None:
        self._requests = Rate(requests_per_minute, now)
        self._tokens = Rate(tokens_per_minute, now)

    def take(self, request: Request) -> float:
        """How many seconds to wait before sending a request. Its tokens are estimated, with a reply of full length."""
        return max(self._requests.take(), self._tokens.take(_tokens(most_usage(request))))

    def replied(self, request: Request, usage: Usage | None) -> None:
        """A reply came, and says how many tokens it took; None: it does not."""
        if usage is not None:
            self._tokens.correct(_tokens(most_usage(request)), _tokens(usage))


def _tokens(usage: Usage) -> int:
    return usage.input_tokens + usage.cache_creation_input_tokens + usage.output_tokens


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

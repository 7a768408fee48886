"""How to ask: directly or in batches, how many at once, how patiently, for how much money at most."""

from __future__ import annotations

from dataclasses import dataclass

from tiltyard.errors import OptionError


@dataclass(frozen=True, slots=True, kw_only=True)
class AskingSettings:
    """Everything a caller may set about asking, checked once.

    `batch` None means: in batches where the provider takes them. Fewer pending asks than `batch_floor` go directly all
    the same (0 for a tournament, which runs overnight; 1000 for a placement, which someone waits for).
    """

    batch: bool | None = None
    batch_floor: int = 0
    concurrency: int = 16
    max_batch: int | None = None
    """Requests per batch; None is as many as the provider takes."""
    max_open: int = 200_000
    """Requests in open batches at one time. A judge holds less than a kilobyte for each; where asks cannot be made
    again, their texts are held too."""
    poll_initial_seconds: float = 30.0
    poll_max_seconds: float = 300.0
    budget_usd: float | None = None
    max_tries: int = 6
    """How often one call is tried when the provider says `TryLater`."""
    max_resubmits: int = 2
    """How often an entry that expired, was canceled, erred or went missing is sent once more."""
    adoption_grace_seconds: float = 60.0
    """How long after it was sent a batch may still be missing from the provider's list."""
    interrupt_grace_seconds: float = 10.0
    """How long an interrupt waits for the replies that are on their way."""

    def __post_init__(self) -> None:
        at_least = {
            "batch_floor": 0,
            "concurrency": 1,
            "max_batch": 1,
            "max_open": 1,
            "poll_initial_seconds": 0,
            "poll_max_seconds": self.poll_initial_seconds,
            "budget_usd": 0,
            "max_tries": 1,
            "max_resubmits": 0,
        }
        for name, least in at_least.items():
            value = getattr(self, name)
            if value is not None and value < least:
                raise OptionError(f"{name} is {value}; it must be at least {least}.")

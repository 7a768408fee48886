"""The entry point for asking models: `ask_all` takes asks, decides how to send them, and completes each of them."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path

from tiltyard.errors import BudgetReached, OptionError
from tiltyard.llm.asking import Ask, AskingSettings, Budget, Keeper, Recall, RunningTotals, Sink, Totals, Watch, plural
from tiltyard.llm.batches import Batches
from tiltyard.llm.direct import DirectAsking, Trial
from tiltyard.llm.journal import Journal, OpenIntent, folder_lock, shared_journal
from tiltyard.llm.pacing import RequestPace
from tiltyard.llm.prices import PriceTable, StatedPrice, user_price_file
from tiltyard.llm.provider import BatchProvider, Provider

Notice = Callable[[str], None]
DEFAULT_SETTINGS = AskingSettings()


@dataclass(frozen=True, slots=True, kw_only=True)
class AskingParts:
    """Everything asking needs besides the questions, as one object; see `ask_all` for each part."""

    prices: PriceTable
    """What tokens cost."""
    settings: AskingSettings = DEFAULT_SETTINGS
    """How to ask."""
    budget: Budget | None = None
    """What may be spent, shared by all requests of a command."""
    tally: RunningTotals | None = None
    """Counts what is asked."""
    notice: Notice | None = None
    """Called with one-line messages for the user."""
    now: Callable[[], float] = time.time
    """The clock."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    """How to wait."""
    rng: random.Random | None = None
    """Random numbers, for pauses."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Further headers for the judge's server, such as a gateway; a value may name variables: `${NAME}`."""

    @classmethod
    def for_command(
        cls,
        settings: AskingSettings,
        notice: Notice,
        prices_path: Path | None = None,
        *,
        stated: Mapping[str, StatedPrice] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> AskingParts:
        """The parts of one command, with one budget for everything it asks, and the user's own prices."""
        prices = PriceTable.load(prices_path, user_file=user_price_file(), stated=stated)
        budget = Budget(settings.budget_usd)
        return cls(prices=prices, settings=settings, budget=budget, notice=notice, headers=headers or {})


async def ask_all(
    asks: Iterable[Ask],
    provider: Provider,
    sink: Sink,
    *,
    folder: Path,
    prices: PriceTable,
    settings: AskingSettings = DEFAULT_SETTINGS,
    watch: Watch | None = None,
    notice: Notice | None = None,
    budget: Budget | None = None,
    tally: RunningTotals | None = None,
    now: Callable[[], float] = time.time,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    rng: random.Random | None = None,
    recall: Recall | None = None,
    trial: Trial | None = None,
    pace: RequestPace | None = None,
) -> Totals:
    """Ask everything, including what the sink asks next, until every key is answered or has failed; return the totals.

    Keys are unique among the asks. A caller that stores attempts passes in the current attempt number.

    Progress goes to `watch` in steps (each says how much was added), messages for the user to `notice`. With `recall`,
    requests in open batches are recreated when their replies arrive instead of being kept in memory. A `trial`, which
    the sink tells how each key ended, gives up on a model that answers nothing: with direct calls, after as many keys
    as it allows; with batches, once their replies are in.

    Parameters:
        asks: What to ask. Iteration starts only once the lock is held, so a generator that reads its cache when it
            starts sees what another process has saved.
        provider: Who is asked.
        sink: Saves every reply and returns what to ask next.
        folder: Holds the journal of batches and a lock, on which a second process waits.
        prices: What tokens cost.
        settings: How to ask.
        watch: Called on progress.
        notice: Called with one-line messages for the user.
        budget: What may be spent; pass one in to share it between calls, or to read it after an error. After a reached
            budget, a refusal or an interrupt, the same call continues from the folder.
        tally: Counts what is asked.
        now: The clock, in seconds since 1970.
        sleep: How to wait.
        rng: Random numbers, for pauses only.
        recall: Recreates a request of an open batch when its reply arrives, instead of keeping it in memory.
        trial: Told by the sink how each key ended; gives up on a model that answers nothing.
        pace: How fast direct calls follow each other, if several calls of this function share it.
    """
    notice = notice or logging.getLogger("tiltyard.llm").info
    tally = tally or RunningTotals(watch)
    keeper = Keeper(sink, tally, budget or Budget(settings.budget_usd), prices)
    rng = rng or random.Random()  # noqa: S311 (jitter, not a secret)

    pace = pace or settings.pace(now)

    def direct() -> DirectAsking:
        return DirectAsking(
            provider, keeper, settings, notice=notice, now=now, sleep=sleep, rng=rng, pace=pace, trial=trial
        )

    async with folder_lock(folder, notice=notice, sleep=sleep):
        if isinstance(provider, BatchProvider):
            shared = shared_journal(folder)
            journal = shared or Journal.in_folder(folder, now)
            batches = Batches(
                provider, journal, keeper, settings, notice=notice, now=now, sleep=sleep, rng=rng, recall=recall
            )
            await _in_rounds(asks, batches, direct, settings, notice)
            if shared is None:  # else the open batches may be those of a task beside this one
                _mention_others(journal, notice)
        elif settings.batch:
            raise OptionError(f"{provider.name} takes no batches. Leave `batch` out, or set it to false.")
        else:
            await direct().run(iter(asks))
    if trial is not None:
        trial.failures_left()
    return tally.totals()


async def _in_rounds(
    asks: Iterable[Ask],
    batches: Batches,
    direct: Callable[[], DirectAsking],
    settings: AskingSettings,
    notice: Notice,
) -> None:
    """Rounds of asking, each with the follow-ups of the one before, until nothing is left."""
    pending: Iterable[Ask] = asks
    to_close: list[OpenIntent] = []
    while True:
        try:
            await _send(batches.claim(pending), batches, direct, settings)
            if not batches.any_lost:
                batches.collector.close(to_close)
                to_close = []
            await batches.settle()
        except BudgetReached:
            batches.drop_parcels()
            await batches.settle()
            raise
        except asyncio.CancelledError:
            if batches.under_way:
                notice(
                    f"interrupted: {plural(batches.under_way, 'batch')} under way without us. Run the same again to "
                    "collect the replies."
                )
            raise
        again, indebted = batches.collector.next_round()
        to_close += indebted
        if not again:
            batches.collector.close(to_close)
            return
        pending = again


async def _send(
    fresh: Iterator[Ask], batches: Batches, direct: Callable[[], DirectAsking], settings: AskingSettings
) -> None:
    """Send what has not been sent yet: in batches, or directly if requested or if there are too few."""
    head = list(islice(fresh, max(1, settings.batch_floor)))
    if not head:
        return
    if settings.batch is False or len(head) < settings.batch_floor:
        await direct().run(chain(head, fresh))
    else:
        await batches.submit(chain(head, fresh))


def _mention_others(journal: Journal, notice: Notice) -> None:
    if journal.open:
        count = sum(len(intent.intent.entries) for intent in journal.open.values())
        notice(
            f"{journal.path} holds {plural(len(journal.open), 'open batch')} ({plural(count, 'request')}) with replies "
            "that this run does not ask for: left alone."
        )

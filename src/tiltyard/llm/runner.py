"""The entry point for asking models: `ask_all` takes asks, decides how to send them, and completes each of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from pathlib import Path

from tiltyard.errors import BudgetReached, OptionError
from tiltyard.llm.asking import (
    Ask,
    AskingParts,
    AskingSettings,
    Budget,
    Keeper,
    Notice,
    Recall,
    RunningTotals,
    Sink,
    Totals,
    Watch,
    plural,
)
from tiltyard.llm.batches import Batches
from tiltyard.llm.direct import DirectAsking, Trial
from tiltyard.llm.journal import Journal, OpenIntent, folder_lock, shared_journal
from tiltyard.llm.pacing import RequestPace
from tiltyard.llm.provider import BatchProvider, Provider


async def ask_all(
    asks: Iterable[Ask],
    provider: Provider,
    sink: Sink,
    parts: AskingParts,
    *,
    folder: Path,
    watch: Watch | None = None,
    recall: Recall | None = None,
    trial: Trial | None = None,
    pace: RequestPace | None = None,
) -> Totals:
    """Ask everything, including what the sink asks next, until every key is answered or has failed; return the totals.

    Keys are unique among the asks. A caller that stores attempts passes in the current attempt number. After a reached
    budget, a refusal or an interrupt, the same call continues from the folder.

    Parameters:
        asks: What to ask. Iteration starts only once the lock is held, so a generator that reads its cache when it
            starts sees what another process has saved.
        provider: Who is asked.
        sink: Saves every reply and returns what to ask next.
        parts: Prices, budget, settings and callbacks.
        folder: Holds the journal of batches and a lock, on which a second process waits.
        watch: Called on progress, in steps: each says how much was added.
        recall: Recreates a request of an open batch when its reply arrives, instead of keeping it in memory.
        trial: Told by the sink how each key ended; gives up on a model that answers nothing: with direct calls, after
            as many keys as it allows; with batches, once their replies are in.
        pace: How fast direct calls follow each other, if several calls of this function share it.
    """
    settings, notice = parts.settings, parts.notice
    tally = parts.tally or RunningTotals(watch)
    keeper = Keeper(sink, tally, parts.budget or Budget(settings.budget_usd), parts.prices)
    pace = pace or settings.pace(parts.now)

    def direct() -> DirectAsking:
        return DirectAsking(provider, keeper, parts, pace, trial)

    async with folder_lock(folder, notice=notice, sleep=parts.sleep):
        if isinstance(provider, BatchProvider):
            shared = shared_journal(folder)
            journal = shared or Journal.in_folder(folder, parts.now)
            batches = Batches(provider, journal, keeper, parts, recall)
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

"""The entry point for asking models: `ask_all` takes asks, decides how to send them, and completes each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from tiltyard.errors import OptionError
from tiltyard.judge.llm.asking import AskingParts, Budget, Keeper, Recall, RequestPace, Sink, Totals, Watch
from tiltyard.judge.llm.batches import Batches
from tiltyard.judge.llm.direct import DirectAsking, Trial
from tiltyard.judge.llm.journal import Journal, folder_lock, shared_journal
from tiltyard.judge.llm.provider import Ask, BatchProvider, Provider
from tiltyard.render import plural


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
    sync: Callable[[], None] = lambda: None,
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
        sync: Brings what the sink saved to the disk, before a batch is recorded as collected.
    """
    settings = parts.settings
    tally = parts.tally or Totals(watch)
    keeper = Keeper(sink, tally, parts.budget or Budget(settings.budget_usd), parts.prices, sync)
    pace = pace or settings.pace(parts.now)

    async def ask_directly(asks: Iterator[Ask]) -> None:
        await DirectAsking(provider, keeper, parts, pace, trial).run(asks)

    async with folder_lock(folder, notice=parts.notice, sleep=parts.sleep):
        if isinstance(provider, BatchProvider):
            shared = shared_journal(folder)
            journal = shared or Journal.in_folder(folder, parts.now)
            await Batches(provider, journal, keeper, parts, recall).run(asks, ask_directly)
            if journal.open and shared is None:  # else the open batches may be those of a task beside this one
                count = sum(len(intent.intent.entries) for intent in journal.open.values())
                parts.notice(
                    f"{journal.path} holds {plural(len(journal.open), 'open batch')} ({plural(count, 'request')}) with "
                    "replies that this run does not ask for: left alone."
                )
        elif settings.batch:
            raise OptionError(f"{provider.name} takes no batches. Leave `batch` out, or set it to false.")
        else:
            await ask_directly(iter(asks))
    if trial is not None:
        trial.failures_left()
    return tally

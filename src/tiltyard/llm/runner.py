"""The one door to asking: `ask_all` takes asks, decides how to send them, and sees each of them through to its end."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING

from tiltyard.errors import BudgetReached, OptionError
from tiltyard.llm.accounting import Budget, Keeper, RunningTotals, Totals
from tiltyard.llm.asking import AskingSettings
from tiltyard.llm.batches import Batches
from tiltyard.llm.direct import DirectAsking
from tiltyard.llm.journal import Journal, OpenIntent, folder_lock
from tiltyard.llm.prices import PriceTable
from tiltyard.llm.provider import BatchProvider, Provider

if TYPE_CHECKING:
    from pathlib import Path

    from tiltyard.llm.asking import Ask, Recall, Sink, Watch
    from tiltyard.llm.trial import Trial

Notice = Callable[[str], None]
DEFAULT_SETTINGS = AskingSettings()


@dataclass(frozen=True, slots=True, kw_only=True)
class AskingParts:
    """What asking needs besides the questions, to be handed around as one; `ask_all` says what each part is."""

    prices: PriceTable
    """What tokens cost."""
    settings: AskingSettings = DEFAULT_SETTINGS
    """How to ask."""
    budget: Budget | None = None
    """What may be spent, shared by all that a command asks."""
    tally: RunningTotals | None = None
    """Counts what is asked."""
    notice: Notice | None = None
    """Is told what a user should know, in a line."""
    now: Callable[[], float] = time.time
    """The clock."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    """How to wait."""
    rng: random.Random | None = None
    """Chance, for pauses."""

    @classmethod
    def for_command(cls, settings: AskingSettings, notice: Notice, prices_path: Path | None = None) -> AskingParts:
        """The parts of one command, with one budget for everything it asks."""
        prices = PriceTable.load(prices_path)
        return cls(prices=prices, settings=settings, budget=Budget(settings.budget_usd), notice=notice)


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
) -> Totals:
    """What asking came to, once every key is answered or has failed, with all that the sink asked for in between.

    Keys are unique among the asks. A caller whose store remembers attempts hands in the attempt it has reached.

    Progress goes to `watch` in steps (each says how much was added), single lines worth reading to `notice`. With
    `recall`, requests in open batches are made again when their replies come instead of being held. A `trial`, which
    the sink tells how each key ended, gives up a model that answers nothing: directly, after as many keys as it allows;
    in batches, once they are back.

    Parameters:
        asks: What to ask. Not touched before the lock is held and taken bit by bit, so a generator that looks at its
            cache only when it is begun sees what the other process kept.
        provider: Who is asked.
        sink: Keeps every reply and says what to ask next.
        folder: Holds the journal of batches and a lock: a second process waits.
        prices: What tokens cost.
        settings: How to ask.
        watch: Is told of progress.
        notice: Is told what a user should know, in a line.
        budget: What may be spent; hand in one to share it between calls, or to read it after an error. A budget
            reached, a refusal or an interrupt leaves a folder that the same call goes on from.
        tally: Counts what is asked.
        now: The clock, in seconds since 1970.
        sleep: How to wait.
        rng: Chance, for pauses only.
        recall: Makes a request of an open batch again when its reply comes, instead of holding it.
        trial: Told by the sink how each key ended; it gives up a model that answers nothing.
    """
    notice = notice or logging.getLogger("tiltyard.llm").info
    tally = tally or RunningTotals(watch)
    keeper = Keeper(sink, tally, budget or Budget(settings.budget_usd), prices)
    rng = rng or random.Random()  # noqa: S311 (jitter, not a secret)

    def direct() -> DirectAsking:
        return DirectAsking(provider, keeper, settings, notice=notice, now=now, sleep=sleep, rng=rng, trial=trial)

    async with folder_lock(folder, notice=notice, sleep=sleep):
        if isinstance(provider, BatchProvider):
            journal = Journal.in_folder(folder, now)
            batches = Batches(
                provider, journal, keeper, settings, notice=notice, now=now, sleep=sleep, rng=rng, recall=recall
            )
            await _in_rounds(asks, batches, direct, settings, notice)
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
    """Rounds of asking, each with what the one before left to ask, until nothing is left."""
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
                    f"interrupted: {batches.under_way} batches go on without us. Run the same again to collect them."
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
    """Send what is not under way yet: in batches, or directly where that was asked for or there are too few."""
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
            f"{journal.path} holds {len(journal.open)} open batches ({count} requests) with replies that this run "
            "does not ask for: left alone."
        )

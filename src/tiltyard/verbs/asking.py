"""What verbs that ask models share: what it costs, whether to go ahead, and the work to its end."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from tiltyard.errors import OptionError, OptionValue
from tiltyard.judge.llm import (
    BATCH_FLOOR,
    AskingParts,
    AskingSettings,
    GroupQuote,
    PriceTable,
    Quote,
    how_to_state_prices,
    is_old,
    quote,
    shown_path,
    user_price_file,
)
from tiltyard.judge.verdicts import Judge, JudgingPlan, LanguageModelJudge, PanelJudge, ReplyLengths, utc_now
from tiltyard.options import AskingOptions, ServerOptions
from tiltyard.render import Table, money, plural

Result = TypeVar("Result")
LOOK_SECONDS = 0.2
"""How often the waiting thread looks up: where another thread takes the signal of Ctrl-C, nothing wakes this one."""


@dataclass(frozen=True)
class AskingQuote:
    """What would be asked, and what that costs: as a text, queries, tokens and price per group."""

    quote: Quote | None = None
    """None: nothing would be asked that costs anything."""
    lengths: Mapping[str, ReplyLengths] = field(default_factory=dict)
    """The earlier replies that the expected price goes by."""
    sentence: str = ""
    """Who would be asked how much, and that nobody was."""

    @property
    def queries(self) -> int:
        """How many questions would be asked at most."""
        return 0 if self.quote is None else self.quote.all.queries

    def __str__(self) -> str:
        return quote_table(self.quote, self.lengths) if self.quote is not None and self.queries else ""

    def agree(self, who: str, options: AskingOptions) -> None:
        """Say it, and have somebody agree to it; nothing if nothing is asked."""
        if self.queries:
            options.note(str(self))
            options.agree(f"Ask {who} {plural(self.queries, 'question')}?")


def quote_table(quote: Quote, lengths: Mapping[str, ReplyLengths]) -> str:
    """Queries, tokens and price per group, with and without batch and cache; below it, the price to expect.

    `lengths` are the earlier replies that the expected price goes by.
    """
    header = ["", "queries", "input tokens", "output ≤", "direct", "+ cache", "batch", "batch + cache"]
    rows = [[group, *_quote_cells(row)] for group, row in quote.groups.items()]
    if len(rows) > 1:
        rows.append(["all", *_quote_cells(quote.all)])
    lines = [
        *Table.of(header, rows).text(ruled=False),
        f"the most it can cost, in USD at prices of {quote.as_of}: tokens estimated, replies at full length",
    ]
    if quote.expected and lengths and quote.all.direct is not None:
        row = quote.all_expected
        replies, tokens = (sum(values) for values in zip(*lengths.values(), strict=True))
        sums = ", ".join(f"{name} {money(value)}" for name, value in zip(header[4:], _prices(row), strict=True))
        lines.append(
            f"expected: {sums}, if replies are as long as the {replies:,} so far "
            f"({tokens / replies:,.0f} tokens on average)"
        )
    old = {model: as_of for model, as_of in quote.dates.items() if is_old(as_of, utc_now().date())}
    if old:
        named = ", ".join(f"{model} ({as_of})" for model, as_of in sorted(old.items()))
        lines.append(
            f"this price is more than a year old: {named}. Check it, and state today's under `judge.prices`, in a "
            f"price file, or for all your runs in {shown_path(user_price_file())}"
        )
    lines += [how_to_state_prices(quote.unknown_models)] if quote.unknown_models else []
    lines += [
        f"{group}: the rubric is shorter than the provider caches, so every query pays for it in full"
        for group in sorted(quote.too_short_to_cache)
    ]
    return "\n".join(lines)


def _prices(row: GroupQuote) -> tuple[float | None, ...]:
    return row.direct, row.direct_cached, row.batch, row.batch_cached


def _quote_cells(row: GroupQuote) -> list[str]:
    return [f"{row.queries:,}", f"{row.input_tokens:,}", f"{row.output_tokens:,}", *map(money, _prices(row))]


def judging_quote(
    judge: Judge, judging_plan: JudgingPlan, prices: PriceTable, *, retry_failed: bool = False
) -> AskingQuote:
    """What asking a judge costs."""
    if not isinstance(judge, LanguageModelJudge | PanelJudge):
        return AskingQuote()
    lengths = judge.reply_lengths(judging_plan)
    known = sum(lengths.values(), ReplyLengths())
    usual = {name: round((length if length.replies else known).mean) for name, length in lengths.items()}
    needed = quote(judge.pending(judging_plan, retry_failed=retry_failed), prices, expected_tokens=usual)
    # A script or a function costs nothing, so nobody need state its price.
    asked = judge.language_models if isinstance(judge, PanelJudge) else [judge]
    free = ("scripted/", "python:")
    scripts = {one.name.removeprefix(prefix) for one in asked for prefix in free if one.name.startswith(prefix)}
    needed = replace(needed, unknown_models=needed.unknown_models - scripts)
    return AskingQuote(needed, lengths)


def server_parts(options: ServerOptions, *, batch: bool = False) -> AskingParts:
    """How models are asked: directly below a thousand questions, unless batches are requested."""
    settings = AskingSettings(
        batch=batch or None,
        batch_floor=0 if batch else BATCH_FLOOR,
        budget_usd=options.budget_usd,
        requests_per_minute=options.requests_per_minute,
        tokens_per_minute=options.tokens_per_minute,
    )
    if options.timeout_seconds is not None:
        settings = replace(settings, timeout_seconds=options.timeout_seconds)
    headers = {}
    for one in options.header or ():
        name, colon, value = one.partition(":")
        if not colon or not name.strip():
            raise OptionError(
                "a ", OptionValue("header", None), " is not 'NAME: VALUE', such as 'X-Team: ${TEAM_TOKEN}'."
            )
        headers[name.strip()] = value.strip()
    return AskingParts.for_command(settings, options.note, options.prices, headers=headers)


def to_end(work: Coroutine[Any, Any, Result]) -> Result:
    """What the work comes to, from a thread with a loop of its own: in a notebook, one is running already.

    Ctrl-C ends it.
    """
    begun: Future[asyncio.Task[Any]] = Future()

    async def run() -> Result:
        begun.set_result(asyncio.current_task())  # type: ignore[arg-type]
        return await work

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(asyncio.run, run())
        try:
            while not running.done():
                wait([running], LOOK_SECONDS)
            return running.result()
        except BaseException:
            if not running.done():
                task = begun.result()
                task.get_loop().call_soon_threadsafe(task.cancel)
            raise

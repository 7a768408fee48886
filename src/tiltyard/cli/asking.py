"""What commands that ask models share: the quote, the confirmation, the progress."""

from __future__ import annotations

import sys
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec

from tiltyard.cli.options import rare
from tiltyard.cli.output import note, printable
from tiltyard.errors import OptionError, Refused, TiltyardError
from tiltyard.llm.asking import plural
from tiltyard.llm.prices import how_to_state_prices, shown_path, user_price_file

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tiltyard.judging.cache import ReplyLengths
    from tiltyard.judging.judge import Judge
    from tiltyard.judging.plan import JudgingPlan
    from tiltyard.judging.records import Matchup, Verdict, VerdictLabel
    from tiltyard.llm.asking import AskingSettings, Progress
    from tiltyard.llm.prices import GroupQuote, PriceTable, Quote

Result = TypeVar("Result")

PricesOption = Annotated[
    Path | None, rare(help="A price file (JSON or YAML) that adds models to those whose price is known.")
]


HeaderOption = Annotated[
    list[str] | None,
    rare(
        "--header",
        metavar="'NAME: VALUE'",
        help="A further header for the judge's server, such as a gateway; ${NAME} in it is that variable of the "
        "environment or of .env. May be given again.",
    ),
]
TimeoutOption = Annotated[
    float | None, rare("--timeout-seconds", help="How long one request may take in all. (default: 600)")
]
RequestsPerMinuteOption = Annotated[
    float | None, rare("--requests-per-minute", help="Direct calls per minute, at most.")
]
TokensPerMinuteOption = Annotated[
    float | None,
    rare("--tokens-per-minute", help="Tokens of direct calls and their replies per minute, at most."),
]


def read_headers(given: list[str] | None) -> dict[str, str]:
    """The headers of `--header`."""
    headers = {}
    for one in given or []:
        name, colon, value = one.partition(":")
        if not colon or not name.strip():
            raise OptionError("a --header is not 'NAME: VALUE', such as 'X-Team: ${TEAM_TOKEN}'.")
        headers[name.strip()] = value.strip()
    return headers


def asking_limits(
    budget: float | None, timeout: float | None, requests: float | None, tokens: float | None
) -> AskingSettings:
    """The limits that a command's options set."""
    from tiltyard.llm.asking import AskingSettings

    limits = AskingSettings(budget_usd=budget, requests_per_minute=requests, tokens_per_minute=tokens)
    return limits if timeout is None else replace(limits, timeout_seconds=timeout)


def quote_table(quote: Quote, lengths: Mapping[str, ReplyLengths] | None = None) -> str:
    """Queries, tokens and price per group, with and without batch and cache; below it, the price to expect.

    `lengths` are the earlier replies that the expected price goes by.
    """
    from tiltyard.judging.run_folder import utc_now
    from tiltyard.llm.prices import is_old
    from tiltyard.pages.tables import Table

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


def money(value: float | None, *, without_usage: int = 0) -> str:
    """A price in USD, or "unknown" for all replies or for those `without_usage`."""
    more = f" + unknown for {plural(without_usage, 'reply')}" if without_usage and value is not None else ""
    return "unknown" if value is None else f"${value:,.2f}{more}"


def confirm(question: str, *, yes: bool) -> None:
    """Ask for confirmation on a terminal, unless `--yes`; elsewhere `--yes` is required."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise OptionError("asking models costs money, and this is not a terminal: pass --yes to confirm.")
    if not input(f"{question} [y/N] ").strip().lower().startswith("y"):
        raise OptionError("nothing was asked.")


def judging_quote(
    judge: Judge, judging_plan: JudgingPlan, prices: PriceTable, *, retry_failed: bool = False
) -> tuple[int, str]:
    """How many questions a judge will be asked, and the table of what that costs."""
    result = needed_quote(judge, judging_plan, prices, retry_failed=retry_failed)
    return (0, "") if result is None else (result[0].all.queries, quote_table(*result))


def needed_quote(
    judge: Judge, judging_plan: JudgingPlan, prices: PriceTable, *, retry_failed: bool = False
) -> tuple[Quote, Mapping[str, ReplyLengths]] | None:
    """What asking a judge costs, and how long its earlier replies were; None for a judge that costs nothing."""
    from tiltyard.judging.cache import ReplyLengths
    from tiltyard.judging.language_model import LanguageModelJudge
    from tiltyard.judging.panel import PanelJudge
    from tiltyard.llm.prices import quote

    if not isinstance(judge, LanguageModelJudge | PanelJudge):
        return None
    lengths = judge.reply_lengths(judging_plan)
    known = sum(lengths.values(), ReplyLengths())
    usual = {name: round((length if length.replies else known).mean) for name, length in lengths.items()}
    needed = quote(judge.pending(judging_plan, retry_failed=retry_failed), prices, expected_tokens=usual)
    # A script or a function costs nothing, so nobody need state its price.
    asked = judge.language_models if isinstance(judge, PanelJudge) else [judge]
    free = ("scripted/", "python:")
    scripts = {one.name.removeprefix(prefix) for one in asked for prefix in free if one.name.startswith(prefix)}
    needed = replace(needed, unknown_models=needed.unknown_models - scripts)
    return needed, lengths


def agree_to_price(judge: Judge, judging_plan: JudgingPlan, prices: PriceTable, *, yes: bool) -> None:
    """Show what a judge will be asked and what that costs, and ask for confirmation; silent if nothing is asked."""
    queries, table = judging_quote(judge, judging_plan, prices)
    if queries:
        note(table)
        confirm(f"Ask {judge.name} {plural(queries, 'question')}?", yes=yes)


def run_to_end(work: Coroutine[Any, Any, Result]) -> Result:
    """What the work comes to, as with `asyncio.run`, which must not have it.

    Python 3.11 writes out the result of what it ran, whole, for a message that nobody sees: with a large run's every
    judgment and table, seconds.
    """
    import asyncio

    kept: list[Result] = []

    async def keep() -> None:
        kept.append(await work)

    asyncio.run(keep())
    return kept[0]


@contextmanager
def interruptible(how_to_go_on: str) -> Iterator[None]:
    """Turn an interrupt (Ctrl-C) or a provider's refusal into one line that says how to continue."""
    try:
        yield
    except KeyboardInterrupt:
        raise TiltyardError(f"interrupted. Nothing is lost: {how_to_go_on}") from None
    except Refused as error:
        raise Refused(f"{error} Then: {how_to_go_on}") from None


class _Row(msgspec.Struct):
    """Progress of one group so far."""

    cached: int = 0
    sent: int = 0
    done: int = 0
    failed: int = 0
    cost: float | None = 0.0
    without_usage: int = 0
    settled: int = 0
    flipped: int = 0

    @property
    def flips(self) -> str:
        """The share of pairs judged in both orders, so far, whose verdict changed with the order."""
        return f"{self.flipped / self.settled:.0%}" if self.settled else "–"


class ProgressView:
    """Progress per group: a live table on a terminal, an occasional plain line elsewhere."""

    def __init__(self, *, every: int = 100) -> None:
        self._rows: dict[str, _Row] = {}
        self._waiting: dict[tuple[str, ...], VerdictLabel] = {}
        self._every = every
        self._steps = 0
        self._live: Any = None

    def __enter__(self) -> ProgressView:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.live import Live

            self._live = Live(self._table(), console=Console(stderr=True), refresh_per_second=4)
            self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.update(self._table())
            self._live.__exit__(kind, error, trace)
        elif self._steps:
            self._say()
        if kind is not None and any(row.sent for row in self._rows.values()):
            note(f"this command stopped before its end; its cost so far: {self._paid()}.")

    def _paid(self) -> str:
        """The money of all groups."""
        costs = [row.cost for row in self._rows.values()]
        known = None if None in costs else sum(cost for cost in costs if cost is not None)
        return money(known, without_usage=sum(row.without_usage for row in self._rows.values()))

    def watch(self, step: Progress) -> None:
        """Count one step."""
        row = self._rows.setdefault(step.group, _Row())
        row.cached += step.cached
        row.sent += step.sent
        row.done += step.done
        row.failed += step.failed
        row.cost = None if row.cost is None or step.cost is None else row.cost + step.cost
        row.without_usage += step.without_usage
        self._steps += step.done + step.failed
        if self._live is not None:
            self._live.update(self._table())
        elif step.done + step.failed and self._steps % self._every == 0:
            self._say()

    def verdict(self, matchup: Matchup, verdict: Verdict) -> None:
        """Count a verdict: the second one on a pair tells whether the verdict changed with the order."""
        if not verdict.verdict.readable or not matchup.entrant_b:
            return
        pair = (matchup.dimension, matchup.prompt_id, matchup.entrant_a, matchup.entrant_b)
        key = (*pair, verdict.judge_model, str(verdict.repeat))
        other = self._waiting.pop(key, None)
        if other is None:
            self._waiting[key] = verdict.for_entrants
            return
        row = self._rows.setdefault(matchup.dimension, _Row())
        row.settled += 1
        row.flipped += other is not verdict.for_entrants

    def _say(self) -> None:
        parts = []
        for group, row in self._rows.items():
            extra = [f"{row.cached:,} cached"] if row.cached else []
            extra += [f"{row.failed:,} failed"] if row.failed else []
            extra += [f"{row.flips} flipped"] if row.settled else []
            parts.append(", ".join([f"{group} {row.done:,} of {row.sent:,}", *extra]))
        note("; ".join(parts))

    def _table(self) -> Any:
        from rich.table import Table
        from rich.text import Text

        table = Table("", "cached", "sent", "done", "failed", "flipped", "cost", box=None)
        for group, row in self._rows.items():
            counts = (f"{count:,}" for count in (row.cached, row.sent, row.done, row.failed))
            table.add_row(Text(printable(group)), *counts, row.flips, money(row.cost, without_usage=row.without_usage))
        return table

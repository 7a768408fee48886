"""What commands that ask models have in common: the quote, the question, the progress."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any

from tiltyard.cli.output import note
from tiltyard.errors import OptionError, TiltyardError

if TYPE_CHECKING:
    from tiltyard.llm.asking import Progress
    from tiltyard.llm.quote import Quote, ShelfQuote


def quote_table(quote: Quote) -> str:
    """Queries, tokens and price per shelf, with and without batch and cache."""
    header = ["", "queries", "input tokens", "output ≤", "direct", "+ cache", "batch", "batch + cache"]
    rows = [[shelf, *_quote_cells(row)] for shelf, row in quote.shelves.items()]
    if len(rows) > 1:
        rows.append(["all", *_quote_cells(quote.all)])
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]

    def line(cells: list[str]) -> str:
        rest = (cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True))
        return "  ".join([cells[0].ljust(widths[0]), *rest])

    lines = [
        line(header),
        *map(line, rows),
        f"prices in USD as of {quote.as_of}, tokens estimated; replies at full length",
    ]
    lines += [f"the price of {model} is not known" for model in sorted(quote.unknown_models)]
    lines += [
        f"{shelf}: the rubric is shorter than the provider caches, so every query pays for it in full"
        for shelf in sorted(quote.too_short_to_cache)
    ]
    return "\n".join(lines)


def _quote_cells(row: ShelfQuote) -> list[str]:
    prices = (row.direct, row.direct_cached, row.batch, row.batch_cached)
    return [f"{row.queries:,}", f"{row.input_tokens:,}", f"{row.output_tokens:,}", *map(money, prices)]


def money(value: float | None) -> str:
    """A price in USD, or that it is not known."""
    return "unknown" if value is None else f"${value:,.2f}"


def confirm(question: str, *, yes: bool) -> None:
    """Ask on a terminal, unless `--yes`; elsewhere nobody can be asked, so `--yes` is needed."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise OptionError("asking models costs money, and nobody can be asked here: pass --yes to go ahead.")
    if not input(f"{question} [y/N] ").strip().lower().startswith("y"):
        raise OptionError("nothing was asked.")


@contextmanager
def interruptible(how_to_go_on: str) -> Iterator[None]:
    """An interrupt (Ctrl-C) becomes one line that says how to go on; what was answered and sent is kept on disk."""
    try:
        yield
    except KeyboardInterrupt:
        raise TiltyardError(f"interrupted. Nothing is lost: {how_to_go_on}") from None


class ProgressView:
    """Progress per shelf: a live table on a terminal, now and then a plain line elsewhere."""

    def __init__(self, *, every: int = 100) -> None:
        self._shelves: dict[str, list[Any]] = {}
        self._every = every
        self._steps = 0
        self._live: Any = None

    def __enter__(self) -> Callable[[Progress], None]:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.live import Live

            self._live = Live(self._table(), console=Console(stderr=True), refresh_per_second=4)
            self._live.__enter__()
        return self.watch

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.update(self._table())
            self._live.__exit__(kind, error, trace)
        elif self._steps:
            self._say()

    def watch(self, step: Progress) -> None:
        """Take one step into account."""
        row = self._shelves.setdefault(step.shelf, [0, 0, 0, 0.0])
        for place, value in enumerate((step.sent, step.done, step.failed)):
            row[place] += value
        row[3] = None if row[3] is None or step.cost is None else row[3] + step.cost
        self._steps += step.done + step.failed
        if self._live is not None:
            self._live.update(self._table())
        elif step.done + step.failed and self._steps % self._every == 0:
            self._say()

    def _say(self) -> None:
        parts = [
            f"{shelf} {done:,} of {sent:,}" + (f", {failed:,} failed" if failed else "")
            for shelf, (sent, done, failed, _) in self._shelves.items()
        ]
        note("; ".join(parts))

    def _table(self) -> Any:
        from rich.table import Table

        table = Table("", "sent", "done", "failed", "cost", box=None)
        for shelf, (sent, done, failed, cost) in self._shelves.items():
            table.add_row(shelf, f"{sent:,}", f"{done:,}", f"{failed:,}", money(cost))
        return table

"""What commands that ask models share: the confirmation, the progress."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any

import msgspec
import typer

from tiltyard.cli.output import note, printable
from tiltyard.errors import OptionError, Refused, TiltyardError
from tiltyard.options import ProgressListener
from tiltyard.render import money

YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Go ahead without asking.")]


def confirm(
    question: str,
    *,
    yes: bool,
    refusal: str = "asking models costs money, and this is not a terminal: pass --yes to confirm.",
    stopped: str = "nothing was asked.",
) -> None:
    """Ask for confirmation on a terminal, unless `--yes`; elsewhere `--yes` is required."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise OptionError(refusal)
    if not input(f"{question} [y/N] ").strip().lower().startswith("y"):
        raise OptionError(stopped)


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


class ProgressView(ProgressListener):
    """Progress per group: a live table on a terminal, an occasional plain line elsewhere.

    An interrupt (Ctrl-C) or a provider's refusal becomes one line that says how to continue.

    Parameters:
        go_on: How to continue, by the folder in which is asked; None: the error stays as it is.
        every: After how many answers there is a line.
    """

    def __init__(self, go_on: Callable[[Path | None], str | None], *, every: int = 100) -> None:
        self.folder: Path | None = None
        self._go_on = go_on
        self._rows: dict[str, _Row] = {}
        self._waiting: dict[tuple[str, ...], Any] = {}
        self._every = every
        self._steps = 0
        self._live: Any = None

    def __enter__(self) -> ProgressView:
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
        how = self._go_on(self.folder)
        if how is not None and isinstance(error, KeyboardInterrupt):
            raise TiltyardError(f"interrupted. Nothing is lost: {how}") from None
        if how is not None and isinstance(error, Refused):
            raise Refused(f"{error} Then: {how}") from None

    def begin(self, folder: Path) -> None:
        """Keep the folder in which is asked."""
        self.folder = folder

    def _paid(self) -> str:
        """The money of all groups."""
        costs = [row.cost for row in self._rows.values()]
        known = None if None in costs else sum(cost for cost in costs if cost is not None)
        return money(known, without_usage=sum(row.without_usage for row in self._rows.values()))

    def watch(self, step: Any) -> None:
        """Count one step."""
        row = self._rows.setdefault(step.group, _Row())
        row.cached += step.cached
        row.sent += step.sent
        row.done += step.done
        row.failed += step.failed
        row.cost = None if row.cost is None or step.cost is None else row.cost + step.cost
        row.without_usage += step.without_usage
        self._steps += step.done + step.failed
        if self._live is None and sys.stderr.isatty():
            from rich.console import Console
            from rich.live import Live

            self._live = Live(self._table(), console=Console(stderr=True), refresh_per_second=4)
            self._live.__enter__()
        if self._live is not None:
            self._live.update(self._table())
        elif step.done + step.failed and self._steps % self._every == 0:
            self._say()

    def verdict(self, matchup: Any, verdict: Any) -> None:
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

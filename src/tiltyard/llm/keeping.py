"""Where every reply passes through: to the sink, then into the tally and the budget."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tiltyard.errors import OptionError

if TYPE_CHECKING:
    from tiltyard.llm.asking import Ask, Sink
    from tiltyard.llm.budget import Budget
    from tiltyard.llm.prices import PriceTable
    from tiltyard.llm.records import Reply
    from tiltyard.llm.totals import Tally


class Keeper:
    """Keeps replies and counts what they cost. Shared by direct asking and batches."""

    def __init__(self, sink: Sink, tally: Tally, budget: Budget, prices: PriceTable) -> None:
        self._sink = sink
        self.tally = tally
        self.budget = budget
        self._prices = prices

    def most(self, ask: Ask, *, batched: bool) -> float:
        """The most an ask can cost, for the budget; 0 where there is no limit to keep."""
        if not self.budget.limited:
            return 0.0
        most = self._prices.most(ask.request, batched=batched)
        if most is None:
            raise OptionError(
                f"a budget was set, but the price of {ask.request.model} is unknown. "
                "Give its price in a price file, or run without a budget."
            )
        return most

    def keep(self, ask: Ask, reply: Reply, *, promised: float = 0.0) -> Ask | None:
        """Hand a reply to the sink, count it, and give back what the sink asks next."""
        further = self._sink(ask, reply)
        cost = self._prices.cost(ask.request.model, reply.usage, reply.batched)
        self.budget.settle(promised, cost or 0.0)
        ended = further is None
        failed = reply.error is not None
        self.tally.reply(ask.shelf, reply.usage, cost, done=int(ended and not failed), failed=int(ended and failed))
        return further

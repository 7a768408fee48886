"""Where every reply passes through: to the sink, then into the tally and the budget."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tiltyard.errors import OptionError
from tiltyard.llm.prices import how_to_state_prices
from tiltyard.llm.totals import NO_TOKENS

if TYPE_CHECKING:
    from tiltyard.llm.asking import Ask, Sink
    from tiltyard.llm.budget import Budget
    from tiltyard.llm.prices import PriceTable
    from tiltyard.llm.records import Reply
    from tiltyard.llm.totals import RunningTotals


class Keeper:
    """Keeps replies and counts what they cost. Shared by direct asking and batches."""

    def __init__(self, sink: Sink, tally: RunningTotals, budget: Budget, prices: PriceTable) -> None:
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
            raise OptionError(f"a budget was set, but {how_to_state_prices([ask.request.model])}")
        return most

    def keep(self, ask: Ask, reply: Reply, *, promised: float = 0.0) -> Ask | None:
        """Hand a reply to the sink, count it, and give back what the sink asks next."""
        further = self._sink(ask, reply)
        ended = further is None
        failed = reply.error is not None
        self._count(ask, reply, promised, done=int(ended and not failed), failed=int(ended and failed))
        return further

    def ask_again(self, ask: Ask, reply: Reply, *, promised: float) -> None:
        """Count a reply that is not kept, because its request goes out once more: it may have cost something."""
        if reply.usage == NO_TOKENS:
            self.budget.settle(promised, 0.0)
        else:
            self._count(ask, reply, promised)

    def _count(self, ask: Ask, reply: Reply, promised: float, *, done: int = 0, failed: int = 0) -> None:
        """A reply into the tally and the budget; one whose tokens are not stated counts for all that was promised."""
        cost = self._prices.cost(ask.request.model, reply.usage or NO_TOKENS, reply.batched)
        self.budget.settle(promised, promised if reply.usage is None else cost or 0.0)
        self.tally.reply(ask.group, reply.usage, cost, done=done, failed=failed)

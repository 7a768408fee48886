"""A limit on money: what is spent, what is promised to requests on their way, and whether more may go out."""

from __future__ import annotations

from tiltyard.errors import BudgetReached


class Budget:
    """Money for one run; hand the same one to several calls and they share it. A limit of None allows everything.

    Before a request goes out, the most it can cost is set aside; when its reply is in, what it did cost takes that
    place. So `spent` plus `promised` never passes the limit, up to the rule of thumb by which tokens are estimated.
    """

    def __init__(self, limit_usd: float | None) -> None:
        self.limit_usd = limit_usd
        self.spent = 0.0
        self.promised = 0.0

    @property
    def limited(self) -> bool:
        """Whether there is a limit at all."""
        return self.limit_usd is not None

    def fits(self, amount: float) -> bool:
        """Whether this much more may be promised; a millionth of a cent is forgiven, for rounding."""
        return self.limit_usd is None or self.spent + self.promised + amount <= self.limit_usd + 1e-8

    def promise(self, amount: float) -> None:
        """Set money aside for something that goes out, or has gone out."""
        self.promised += amount

    def settle(self, promised: float, cost: float) -> None:
        """What was promised has come to this."""
        self.promised = max(0.0, self.promised - promised)
        self.spent += cost

    def reached(self) -> BudgetReached:
        """The error that says so."""
        return BudgetReached(
            f"the budget of ${self.limit_usd:.2f} is reached: ${self.spent:.2f} are spent by this command, and the "
            "next request could pass it. Everything answered so far is kept: run the same again with a budget for the "
            "rest."
        )

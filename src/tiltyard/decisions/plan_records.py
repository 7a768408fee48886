"""What a plan is made of: amounts of data, the price of a call, sizes by difference, and the whole answer."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from tiltyard.decisions.plan_words import plan_sentence, plan_table
from tiltyard.decisions.sample_size import Assumptions, Goal

ORDERS = 2
"""Calls of a judge for each verdict: one for each order of the answers."""


@dataclass(frozen=True, slots=True)
class CallPrice:
    """What one call of a judge costs.

    Parameters:
        judge: The judge.
        direct: Price of a call in USD; None where it is unknown.
        batch: The same in a batch.
        as_of: Date of the prices; None where the price is unknown.
        input_tokens: Tokens a call sends.
        output_tokens: Tokens of the reply.
        measured: Whether the tokens are those of an earlier run.
    """

    judge: str
    direct: float | None
    batch: float | None
    as_of: str | None
    input_tokens: float
    output_tokens: float
    measured: bool = False

    def of(self, more: Amount | None) -> tuple[float | None, float | None]:
        """What more calls cost, directly and in batches; None where that is unknown.

        Parameters:
            more: What is still to be gathered.
        """
        if more is None or more.calls is None or self.direct is None or self.batch is None:
            return None, None
        return more.calls * self.direct, more.calls * self.batch


@dataclass(frozen=True, slots=True)
class Amount:
    """How much data.

    Parameters:
        clusters: How many prompts and voters, by name: only what battles were counted as dependent by.
        battles: Battles, however they are decided.
        calls: Calls of a judge, both orders of every verdict; None where people decide.
        votes: Votes of people; None where a judge decides.
    """

    clusters: Mapping[str, int]
    battles: int
    calls: int | None
    votes: int | None

    def times(self, size: float) -> Amount:
        """So many times as much, in whole numbers.

        Parameters:
            size: How many times.
        """

        def grown(count: int) -> int:
            return math.ceil(count * size - 1e-9)

        calls = None if self.calls is None else ORDERS * grown(self.calls // ORDERS)
        clusters = {kind: grown(count) for kind, count in self.clusters.items()}
        return Amount(clusters, grown(self.battles), calls, None if self.votes is None else grown(self.votes))

    def beyond(self, have: Amount) -> Amount:
        """What is to be added to what there is.

        Parameters:
            have: What there is.
        """

        def left(value: int | None, there: int | None) -> int | None:
            return None if value is None else max(value - (there or 0), 0)

        clusters = {kind: max(count - have.clusters.get(kind, 0), 0) for kind, count in self.clusters.items()}
        more = max(self.battles - have.battles, 0)
        return Amount(clusters, more, left(self.calls, have.calls), left(self.votes, have.votes))

    def to_dict(self, prefix: str = "") -> dict[str, Any]:
        """The amount as plain values; `prompts` and `voters` are None where battles do not depend on them."""
        named = {"prompts": self.clusters.get("prompt"), "voters": self.clusters.get("voter")}
        named |= {"battles": self.battles, "calls": self.calls, "votes": self.votes}
        return {f"{prefix}{name}": value for name, value in named.items()}


NOTHING = Amount({}, 0, None, None)
"""No data yet."""


@dataclass(frozen=True, slots=True)
class SampleSize:
    """How much data a difference takes.

    Parameters:
        difference: The true difference in rating points.
        win_rate: The chance to win that it means, ties apart.
        times: How many times the data there is; the number of prompts (or voters) where there is none.
        needed: How much data in all.
        more: How much of it is still to be gathered.
        power: The chance to reach the goal with as much as is needed.
        power_now: The chance with the data there is; None where there is none.
        cost: Price in USD of the calls that are still to be made; None where it is unknown.
        cost_batch: The same in batches.
        present: Whether it is the difference that the battles show now.
    """

    difference: float
    win_rate: float
    times: float
    needed: Amount
    more: Amount
    power: float
    power_now: float | None
    cost: float | None
    cost_batch: float | None
    present: bool = False

    def to_dict(self) -> dict[str, Any]:
        """The row as plain values."""
        return {
            "difference": self.difference,
            "win_rate": self.win_rate,
            "present": self.present,
            "times": self.times,
            **self.needed.to_dict(),
            **self.more.to_dict("more_"),
            "power": self.power,
            "power_now": self.power_now,
            "cost": self.cost,
            "cost_batch": self.cost_batch,
        }


@dataclass(frozen=True, slots=True)
class Pilot:
    """What battles there are already say of the difference.

    Parameters:
        new: The model that stands first.
        old: The model it is compared with.
        difference: The difference now, in rating points.
        error: Its standard error, in rating points.
        low: Lower end of its interval; None where nothing bounds it.
        high: Upper end of its interval.
        worth: How many equally used prompts or voters its battles are worth.
        have: How much data there is.
    """

    new: str
    old: str
    difference: float
    error: float
    low: float | None
    high: float | None
    worth: float
    have: Amount

    def to_dict(self) -> dict[str, Any]:
        """The pilot as plain values."""
        names = ("new", "old", "difference", "error", "low", "high", "worth")
        return {**{name: getattr(self, name) for name in names}, **self.have.to_dict()}


@dataclass(frozen=True, slots=True, eq=False)
class SamplePlan:
    """How much data each difference takes.

    Parameters:
        goal: What is to be shown, and how surely.
        rows: The sizes, one for each difference.
        assumed: What was assumed; None where battles say it.
        pilot: The battles it was made from; None where there are none.
        price: What one call of the judge costs; None where no judge was named.
        smallest: The smallest difference that a given size shows, by that size; empty where none was asked for.
        remarks: Sentences a reader should not miss.
    """

    goal: Goal
    rows: tuple[SampleSize, ...]
    assumed: Assumptions | None
    pilot: Pilot | None
    price: CallPrice | None
    smallest: Mapping[int, float | None] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """The plan in one sentence."""
        return plan_sentence(self)

    def to_dict(self) -> dict[str, Any]:
        """The plan as plain values: what `--format json` prints."""
        return {
            "sentence": self.sentence,
            "goal": asdict(self.goal),
            "assumed": None if self.assumed is None else asdict(self.assumed),
            "pilot": None if self.pilot is None else self.pilot.to_dict(),
            "price": None if self.price is None else asdict(self.price),
            "sizes": [row.to_dict() for row in self.rows],
            "smallest": [{"size": size, "difference": points} for size, points in self.smallest.items()],
            "remarks": list(self.remarks),
        }

    def to_json(self) -> str:
        """The plan as JSON text."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n"

    def __str__(self) -> str:
        return plan_table(self)

    def __repr__(self) -> str:
        return f"<SamplePlan: {self.sentence}>"

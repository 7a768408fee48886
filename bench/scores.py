"""Scores: do intervals hold, are equal models called different, does a plan reach its power; beside other makers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.jobs import job
from bench.measure import Task, in_worker
from bench.report import Row

if TYPE_CHECKING:
    from bench.rows import Plan

SLOW = 16
"""One world of so many is given to the bootstrap and to evalstats, which take up to a second for each interval."""


@job
def score_intervals(draws: int, peer_draws: int, sizes: list[int]) -> Task:
    """Coverage by kind of scores and maker, and the power that plans reach."""
    from bench.score_worlds import exact, peers_on_shares, plan_power, simulate, summary, worlds

    def measure() -> dict[str, Any]:
        found: dict[str, dict[str, Any]] = {}
        for n in sizes:
            cells = exact(n) | peers_on_shares(n, peer_draws)
            found[f"0/1, {n} prompts"] = {maker: summary(some) for maker, some in cells.items()}
        for kind, some in worlds().items():
            if draws < 100:
                some = dict(list(some.items())[:: max(1, len(some) // 4)])
            by_maker: dict[str, list[Any]] = {}
            for place, (name, world) in enumerate(some.items()):
                for maker, cell in simulate(world, name, draws, 0 if place % SLOW else min(100, peer_draws)).items():
                    by_maker.setdefault(maker, []).append(cell)
            found[kind] = {maker: summary(cells) for maker, cells in by_maker.items()}
        return {"coverage": found, "power": plan_power()}

    return Task(measure, repeats=1)


def scores(plan: Plan) -> Row:
    """Intervals of differences of scores beside a paired t, a bootstrap and evalstats."""
    size = {"draws": plan.size(5000, 20), "peer_draws": plan.size(200, 5)}
    row = Row("scores", f"differences of scores, {size['draws']} draws of each world that is drawn")
    found = row.add(
        "simulation",
        "tiltyard",
        in_worker("score_intervals", {**size, "sizes": [10, 20, 50, 100, 500][: plan.size(5, 1)]}),
        ours=True,
    )
    slack = float(plan.size(0, 1))
    for kind, makers in ((found or {}).get("coverage") or {}).items():
        for maker, one in makers.items():
            text = f"{kind}, {maker}: held {one['mean']:.3f}, least {one['least']:.3f} of {one['cells']} cells"
            if maker != "tiltyard":
                row.goal(
                    f"{text} (ours {makers['tiltyard']['least']:.3f})", makers["tiltyard"]["least"] >= one["least"]
                )
                continue
            text += f", {len(one['low'])} below .93"
            text += "".join(f" ({name}: {held:.3f})" for held, name in one["low"][:3])
            if "alarms" in one:
                text += f"; equal models called different {one['alarms']:.3f}, at most {one['most alarms']:.3f}"
                row.check(text, one["alarms"] <= 0.06 + slack and one["most alarms"] <= 0.09 + slack)
            if kind.startswith("0/1,") or kind == "0/1 with repeats":
                row.check(text, one["least"] >= 0.93 - slack)
            elif kind == "0/1 in clusters":
                row.goal(text, one["mean"] >= 0.96 - slack)
            else:
                row.goal(text, one["mean"] >= 0.93)
    power = (found or {}).get("power") or {}
    if power:
        text = f"plans of 80 %: reached {min(power.values()):.3f} to {max(power.values()):.3f}"
        row.check(text, min(power.values()) >= 0.77 and max(power.values()) <= 0.88)
    return row

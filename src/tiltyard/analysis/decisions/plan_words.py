"""Plans in words: one sentence first, then a table or Markdown."""

from __future__ import annotations

from typing import Any

from tiltyard.analysis.boards import percent
from tiltyard.analysis.decisions.answer import side
from tiltyard.analysis.decisions.plan import Amount, BoardPlan, CallPrice, SamplePlan, ScorePlan
from tiltyard.analysis.decisions.render import Block, as_markdown, as_text, between, counted, plain, share, signed
from tiltyard.options import check_choice
from tiltyard.render import Table

TYPICAL = 20.0
"""The difference whose size the first sentence names, if it is among several."""
UNKNOWN = "unknown"


def sentence(plan: Any) -> str:
    """The plan in one sentence."""
    if isinstance(plan, ScorePlan):
        return _score_sentence(plan)
    return _plan_sentence(plan) if isinstance(plan, SamplePlan) else _board_sentence(plan)


def _plan_sentence(plan: SamplePlan) -> str:
    row = next((row for row in plan.rows if row.present or row.difference == TYPICAL), plan.rows[0])
    amount = amount_words(row.needed)
    chance = f"with chance {share_of(row.power)}"
    there = "" if plan.pilot is None else f", of which {amount_words(plan.pilot.have)} are there"
    if plan.goal.margin is not None:
        ahead = "ahead" if row.difference > 0 else "behind"
        who = (
            "equal models pass"
            if row.difference == 0
            else f"a model {number(abs(row.difference))} points {ahead} passes"
        )
        return f"{who} a margin of {plain(plan.goal.margin)} points {chance} on {amount}{there}."
    if plan.pilot is None:
        return f"a difference of {number(row.difference)} points ({share(row.win_rate)}) shows {chance} on {amount}."
    pilot = plan.pilot
    now = f"{pilot.new} against {pilot.old} is {signed(pilot.difference)} points ({between(pilot.low, pilot.high)})"
    if pilot.obstacles:
        now += ", on which no gate would decide"
    elif side(pilot.low, pilot.high) != "unclear":
        now += ", told apart already"
    what = "a difference of this size" if row.present else f"a difference of {number(row.difference)} points"
    if row.more.battles == 0:
        return (
            f"{now}; {what} shows with chance {share_of(row.power_now or 0.0)} on {amount_words(pilot.have)} as here."
        )
    return f"{now}; {what} shows {chance} on {amount}{there}."


def amount_words(amount: Amount) -> str:
    """`1,200 prompts and 2,400 judge calls`."""
    parts = [counted(count, kind) for kind, count in amount.clusters.items()]
    parts += [] if amount.calls is None else [counted(amount.calls, "judge call")]
    parts += [] if amount.votes is None else [counted(amount.votes, "vote")]
    return " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else parts[0]


def number(points: float) -> str:
    """20, 2.5: rating points as they were given, rounded where they were found."""
    return f"{points:g}" if points == round(points, 1) or abs(points) < 1 else f"{points:.0f}"


def share_of(chance: float) -> str:
    """A chance as a whole percentage, never 100 %."""
    return f"{min(100 * chance, 99.9):.0f} %" if chance < 0.995 else "more than 99 %"


def usd(cost: float | None) -> str:
    """Money to three digits, or that it is unknown."""
    if cost is None:
        return UNKNOWN
    return f"${cost:,.2f}" if cost < 100 else f"${cost:,.0f}"


def render(plan: Any, format: str) -> str:
    """A plan as `table`, `json` or `md`."""
    check_choice("format", format, ("table", "json", "md"))
    if format == "json":
        return str(plan.to_json())
    if isinstance(plan, SamplePlan):
        table, notes = _plan_cells(plan), _plan_notes(plan)
    elif isinstance(plan, BoardPlan):
        table, notes = _pair_cells(plan), _board_notes(plan)
    else:
        table, notes = _score_cells(plan), list(plan.notes)
    return (as_text if format == "table" else as_markdown)(plan.sentence, [Block(table)], notes)


def _score_sentence(plan: ScorePlan) -> str:
    row, unit = plan.rows[0], plan.unit
    needed = "more prompts than anybody has" if row.prompts is None else f"about {row.prompts:,} prompts"
    size = unit.named(unit.signed(row.difference))
    if plan.margin is not None:
        limit = unit.named(unit.plain(plan.margin))
        return f"for a model at {size} to pass a margin of {limit} takes {needed} (here {plan.n_prompts:,})."
    return f"to see {size} takes {needed} (here {plan.n_prompts:,})."


def _score_cells(plan: ScorePlan) -> Table:
    unit = plan.unit
    rows = [[unit.signed(row.difference), "–" if row.prompts is None else f"{row.prompts:,}"] for row in plan.rows]
    return Table.of([unit.named("true difference in") if unit.name else "true difference", "prompts"], rows)


def _plan_cells(plan: SamplePlan) -> Table:
    kinds = list(plan.rows[0].needed.clusters)
    has_calls, has_votes = plan.rows[0].needed.calls is not None, plan.rows[0].needed.votes is not None
    more = "more " if plan.pilot is not None else ""
    head = ["difference", "win rate"]
    head += ["chance now"] if plan.pilot is not None else []
    for kind in kinds:
        head += [f"{kind}s", f"more {kind}s"] if more else [f"{kind}s"]
    head += [] if kinds else ["battles"]
    head += [f"{more}judge calls"] if has_calls else []
    head += [f"{more}votes"] if has_votes else []
    head += ["direct", "in batches"] if plan.price is not None and has_calls else []
    rows = []
    for row in plan.rows:
        named = f"{number(row.difference)} (now)" if row.present else number(row.difference).replace("-", "−")
        cells = [named, share(row.win_rate)]
        cells += [share_of(row.power_now)] if row.power_now is not None else []
        for kind in kinds:
            cells += [f"{row.needed.clusters[kind]:,}"]
            cells += [f"{row.more.clusters[kind]:,}"] if more else []
        cells += [] if kinds else [f"{row.needed.battles:,}"]
        cells += [f"{row.more.calls:,}"] if row.more.calls is not None else []
        cells += [f"{row.more.votes:,}"] if row.more.votes is not None else []
        cells += [usd(row.cost), usd(row.cost_batch)] if plan.price is not None and has_calls else []
        rows.append(cells)
    return Table.of(head, rows)


def _plan_notes(plan: SamplePlan) -> list[str]:
    """What the numbers mean, and what they rest on."""
    goal = plan.goal
    power = share_of(goal.power)
    bound = f"{percent(goal.level)} interval"
    if goal.margin is not None or goal.one_sided:
        bound = f"one-sided {percent(1.0 - goal.alpha)} bound"
    above = "zero" if not goal.margin else f"−{plain(goal.margin)}"
    notes = [f"the {bound} lies above {above} with chance {power}, if the true difference is as given"]
    if goal.anytime:
        notes.append("the bound holds however often you look; looking before the end can only end it sooner")
    if any(row.power > goal.power + 0.02 for row in plan.rows):
        notes.append("fewer than 30 prompts or voters are never planned: they say little of others")
    notes.append("win rate: the mean result, a tie counting half")
    notes += _basis(plan)
    notes += [_smallest_words(plan, size, points) for size, points in plan.smallest.items()]
    notes += price_notes(plan.price if plan.rows[0].needed.calls is not None else None)
    return [*notes, *plan.remarks]


def _basis(plan: SamplePlan) -> list[str]:
    if plan.pilot is not None:
        error = f"the standard error now is {plain(plan.pilot.error)} points"
        return [error, growing(plan.pilot.have)]
    one = plan.assumed
    assert one is not None
    people = plan.rows[0].needed.calls is None
    per, each = ("voter", "votes") if people else ("prompt", "verdicts")
    parts = [f"{100 * one.ties:g} % ties"]
    parts += [] if people else [f"{100 * one.flips:g} % of verdicts flip with the order and count as ties"]
    parts += [f"{one.repeats} {each if one.repeats != 1 else each[:-1]} of each pair per {per}"]
    if one.repeats > 1 or one.models > 2:
        parts.append(f"strengths vary by {one.spread:g} (standard deviation, logits) from {per} to {per}")
    parts += [f"{one.models} models that all meet"] if one.models > 2 else []
    return [f"assumed: {', '.join(parts)}"]


def growing(have: Amount) -> str:
    """What grows with what."""
    per = " and ".join(f"battles per {kind}" for kind in have.clusters)
    same = f"at the same number of {per} and the same mix of pairs" if per else "at the same mix of pairs"
    return f"there are {amount_words(have)}; everything grows together, {same}"


def _smallest_words(plan: SamplePlan, size: int, points: float | None) -> str:
    unit = next(iter(plan.rows[0].needed.clusters), "battle")
    if points is None:
        return f"{counted(size, unit)} are too few to show any difference with chance {share_of(plan.goal.power)}"
    what = f"{signed(points)} points"
    if plan.goal.margin is not None:
        return f"{counted(size, unit)} let a model pass with chance {share_of(plan.goal.power)} from {what} on"
    return f"{counted(size, unit)} show a difference of {what} or more with chance {share_of(plan.goal.power)}"


def price_notes(price: CallPrice | None) -> list[str]:
    """What a call costs, and why."""
    if price is None:
        return []
    tokens = f"{price.input_tokens:,.0f} tokens in and {price.output_tokens:,.0f} out per call"
    tokens += ", as in the run" if price.measured else ", assumed"
    if price.direct is None:
        return [f"price: the price of {price.judge} is not known ({tokens})"]
    return [f"price: {price.judge} as of {price.as_of}, {tokens}"]


def _board_sentence(plan: BoardPlan) -> str:
    one = plan.top == 1
    who = f"the leader of {plan.models} models" if one else f"the top {plan.top} of {plan.models} models"
    close = [pair for pair in plan.pairs if pair.too_close and not pair.obstacles]
    sided = list(dict.fromkeys(clause for pair in plan.pairs for clause in pair.obstacles))
    need = plan.need
    if close or need.times is None or need.needed is None:
        named = ", ".join(f"{pair.first} and {pair.second} ({_gap(pair.gap)})" for pair in close)
        close_words = f": {named} are so close that no sensible number of battles tells them apart" if close else ""
        close_words += f"; {'; '.join(sided)}" if sided and close else f": {'; '.join(sided)}" if sided else ""
        return f"{who} {'does' if one else 'do'} not separate{close_words}."
    if need.times <= 1.0:
        return f"{who} {'is' if one else 'are'} apart from the others already, with {amount_words(plan.have)}."
    return (
        f"{who} separate{'s' if one else ''} with chance {share_of(plan.goal.power)} on {amount_words(need.needed)}, "
        f"{times(need.times)} as much as there is."
    )


def _gap(points: float) -> str:
    """`0.4 points`, `12 points`."""
    return f"{points:.1f} points" if points < 10 else f"{points:.0f} points"


def times(factor: float) -> str:
    """`3.4 times`, `120 times`."""
    return f"{factor:.1f} times" if factor < 10 else f"{factor:,.0f} times"


def _pair_cells(plan: BoardPlan) -> Table:
    kinds = list(plan.have.clusters)
    with_price = plan.price is not None and plan.have.calls is not None
    head = ["above", "below", "apart by", "times", *(f"{kind}s" for kind in kinds)]
    head += ["more judge calls"] if plan.have.calls is not None else []
    head += ["more votes"] if plan.have.votes is not None else []
    head += ["direct", "in batches"] if with_price else []
    rows = []
    for pair in plan.pairs:
        if pair.needed is None or pair.more is None or pair.times is None:
            rows.append(
                [
                    pair.first,
                    pair.second,
                    _gap(pair.gap),
                    "sides" if pair.obstacles else "too close",
                    *[""] * (len(head) - 4),
                ]
            )
            continue
        factor = "apart now" if pair.apart_now else f"{pair.times:,.1f}"
        cells = [pair.first, pair.second, _gap(pair.gap), factor]
        cells += [f"{pair.needed.clusters[kind]:,}" for kind in kinds]
        cells += [f"{count:,}" for count in (pair.more.calls, pair.more.votes) if count is not None]
        rows.append([*cells, *([usd(pair.cost), usd(pair.cost_batch)] if with_price else [])])
    return Table.of(head, rows, left=2)


def _board_notes(plan: BoardPlan) -> list[str]:
    """What the numbers mean, and what they rest on."""
    rule = f"by the rank rule, {percent(1.0 - plan.goal.alpha)} for all pairs of {plan.models} models at once"
    if plan.goal.anytime:
        rule += " and at every look"
    notes = [f"each pair is told apart with chance {share_of(plan.goal.power)} {rule}, if the differences stay as now"]
    closest = max((pair.times or 0.0 for pair in plan.pairs), default=0.0)
    if plan.need.times is not None and plan.need.times > 1.05 * closest:
        notes.append("all of them at once take more than any pair alone: the first line says how much")
    notes.append(growing(plan.have))
    notes += price_notes(plan.price if plan.have.calls is not None else None)
    return [*notes, *plan.remarks]

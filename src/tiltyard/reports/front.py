"""The first screen of a report: the question, the answer in words, and what weakens it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from tiltyard.analysis.decisions import FEWEST_PROMPTS, compare_models
from tiltyard.errors import TiltyardError
from tiltyard.judge.tournament import EVEN, is_uneven
from tiltyard.judge.verdicts import panel_members
from tiltyard.options import CompareOptions
from tiltyard.render import percent, plural
from tiltyard.reports import sections
from tiltyard.reports.run import Dimension, Run
from tiltyard.reports.sections import behaviour, verdict_counts
from tiltyard.stats import Estimate

MOST_IN_TITLE = 4
"""How many entrants a title names."""


class WeakPoint(NamedTuple):
    """Something that speaks against the answer, and the section that says more."""

    text: str
    anchor: str = ""
    strong: bool = False


def listed(names: Sequence[str], last: str = "and") -> str:
    """`a`, `a and b`, `a, b and c`."""
    return f" {last} ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def run_title(run: Run) -> str:
    """The title of the tournament file, else who met."""
    if title := run.manifest.get("title"):
        return str(title)
    names = list(run.entrants)
    if len(names) == 2:
        return f"{names[0]} against {names[1]}"
    if len(names) > MOST_IN_TITLE:
        names[MOST_IN_TITLE - 1 :] = [f"{len(names) - MOST_IN_TITLE + 1} more"]
    return listed(names)


def question(run: Run) -> str:
    """What the run asks."""
    names = run.entrants
    dimensions = list(dict.fromkeys([*(one.name for one in run.dimensions), *(one.dimension for one in run.scores)]))
    if baseline := (run.manifest.get("opponents") or {}).get("baseline"):
        text = f"Whose answers are better than those of {baseline}"
    elif len(names) == 2:
        text = f"Whose answers are better, those of {names[0]} or of {names[1]}"
    else:
        text = f"Whose answers are best, of {len(names)} entrants"
    return f"{text}? Judged for {listed(dimensions)}." if dimensions else f"{text}?"


def judges(run: Run) -> str:
    """Who judged, by name."""
    name = str(run.manifest.get("judge_model") or "an unnamed judge")
    recorded = "recorded/"
    return listed(
        [
            f"the verdicts recorded in {one.removeprefix(recorded)}" if one.startswith(recorded) else one
            for one in panel_members(name) or (name,)
        ]
    )


def answer(run: Run, dimension: Dimension) -> str:
    """The answer of a dimension in a sentence, with the leader's win rate against the next one."""
    board = dimension.best_board
    if dimension.against is not None and dimension.against.rates:
        best = dimension.against.rates[0]
        return _met((best.win_rate, best.low, best.high), best.entrant, f"the baseline {dimension.against.baseline}")
    if board is None or not board.ratings:
        why = sections.results_of(run, dimension.name).get("bradley_terry") or "ok"
        why = f"ratings/{dimension.name}.json is not in the run folder" if why == "ok" else str(why)
        return f"There is no board: {why.rstrip('.')}."
    first, *others = board.ratings
    if not others:
        return f"{first.model} met nobody."
    second = others[0]
    rate = None if dimension.calibrated else _win_rate(run, dimension, first.model, second.model)
    if rate is None:
        met = f"{first.model} is {first.rating - second.rating:.0f} points ahead of {second.model}."
    else:
        met = _met(rate, first.model, second.model)
    if len(others) == 1:
        return met
    rivals = [entry.model for entry in others if (entry.rank_low or entry.rank) == 1]
    if not rivals:
        return f"{first.model} is best: {met.replace(first.model, 'it', 1)}"
    who = "any other" if len(rivals) == len(others) else listed(rivals, "or")
    against = f"It wins {_share(rate)} of prompts against {second.model}." if rate else met
    return f"{first.model} leads, but {who} could be best. {against}"


def _met(rate: Sequence[float | None], one: str, other: str) -> str:
    """`falcon beats heron in 75 % (68 to 81) of prompts`."""
    _, low, high = rate
    if low is not None and low > EVEN:
        return f"{one} beats {other} in {_share(rate)} of prompts."
    if high is not None and high < EVEN:
        return f"{one} beats {other} in only {_share(rate)} of prompts."
    return f"{one} and {other} cannot be told apart: {one} wins {_share(rate)} of prompts."


def _share(rate: Sequence[float | None]) -> str:
    """`75 % (68 to 81)`."""
    value, low, high = rate
    return percent(value) + ("" if low is None or high is None else f" ({100 * low:.0f} to {100 * high:.0f})")


def _win_rate(run: Run, dimension: Dimension, one: str, other: str) -> tuple[float | None, ...] | None:
    """The win rate of two entrants, as `tiltyard compare` gives it; None where there is none."""
    try:
        result = compare_models(sections.battles_of(run, dimension), one, other, CompareOptions(by=())).estimate
    except TiltyardError:
        return None
    return result.win_rate, result.win_rate_low, result.win_rate_high


def weak_points(
    run: Run, missing: Mapping[str, str], disagreements: Iterable[str], notes: Iterable[str] = ()
) -> list[WeakPoint]:
    """What a reader should know before the answer is used; the worst comes first."""
    manifest, results = run.manifest, run.results
    points = [WeakPoint(str(manifest["note"]), strong=True)] if manifest.get("note") else []
    if manifest.get("finished_at") is None:
        points.append(WeakPoint("This run has not finished.", strong=True))
    failed_checks = [one for one in results.get("gate") or manifest.get("gate") or () if not one["passed"]]
    points += [WeakPoint(f"{one['check']}: failed, {one['detail']}.", "gate", strong=True) for one in failed_checks]
    for name, one in (results.get("canaries") or {}).items():
        if one["missed"]:
            missed = f"missed {len(one['missed'])} of {one['asked']} canaries, pairs with a clearly better answer"
            text = f"Do not rely on {name}: the judge {missed}."
            points.append(WeakPoint(text, "canaries", strong=True))
    points += _habits(run)
    points += [WeakPoint(f"{line[0].upper()}{line[1:].rstrip('.')}.") for line in notes]
    points += [WeakPoint(f"Numbers disagree: {line}.", "run", strong=True) for line in disagreements]
    for place, one in enumerate(run.scores):
        points += [WeakPoint(f"{line[0].upper()}{line[1:]}.", f"scores{place}") for line in one.warnings]
    judged = len({battle.prompt_id for battle in run.battles if battle.settled})
    judged = judged or max((one.n_prompts for one in run.scores), default=0)
    if judged < FEWEST_PROMPTS:
        points.append(WeakPoint(f"Only {plural(judged, 'prompt')}: other prompts may give another order."))
    failed = ", ".join(f"{n:,} {label}" for label, n in verdict_counts(run.battles).most_common() if not label.readable)
    if failed:
        points.append(WeakPoint(f"Unusable verdicts, left out of every rating: {failed}.", "failures"))
    points += [WeakPoint(f"{name}: {line}. They are in no rating.", "failures") for name, line in missing.items()]
    points += [WeakPoint(line) for line in _left_out(manifest)]
    return points


def _habits(run: Run) -> list[WeakPoint]:
    """The judge's habits over all dimensions, a sentence for each habit."""
    known = {one.name: habits for one in run.dimensions if (habits := sections.habits_of(run, one.name))}
    if not known:
        flipped = behaviour(run.battles).flips
        text = f"The judge changed its verdict with the order of the answers in {percent(flipped.value)} of battles."
        return [WeakPoint(text, "judge")] if flipped.hits else []
    points = []
    flips = {name: one.flips.value for name, one in known.items() if one.flips.value}
    if flips:
        text = f"The judge changed its verdict with the order of the answers in {_each(flips)} of judgments"
        bad = any(one.unreliable for one in known.values())
        rest = ". A guessing judge does so in 50 to 67 %: do not rely on this." if bad else "; these count as ties."
        points.append(WeakPoint(text + rest, "h0", strong=bad))
    for which, above in (("first", True), ("second", False)):
        shares = _uneven({name: one.first_slot for name, one in known.items()}, above=above)
        if shares:
            one_order = any(one.flips.value is None for one in known.values())
            rest = "Only one order was judged." if one_order else "Both orders were judged, so nobody gains by it."
            points.append(WeakPoint(f"It chose the answer shown {which} in {_each(shares)} of verdicts. {rest}", "h0"))
    for which, above in (("Longer", True), ("Shorter", False)):
        shares = _uneven({name: one.longer for name, one in known.items()}, above=above)
        if shares:
            text = f"{which} answers won {_each(shares)} of decisive judgments: part of the ratings may be length."
            points.append(WeakPoint(text, "h0"))
    return points


def _uneven(estimates: Mapping[str, Estimate], *, above: bool) -> dict[str, float]:
    """The shares that lie above a half by more than chance; or below, then as the shares of the other side."""
    known = {name: one.value for name, one in estimates.items() if one.value is not None and is_uneven(one)}
    return {name: value if above else 1 - value for name, value in known.items() if (value > EVEN) == above}


def _each(shares: Mapping[str, float]) -> str:
    """`20 %`, or `20 % (factuality) and 28 % (calibration)`."""
    if len(shares) == 1:
        return percent(next(iter(shares.values())))
    return listed([f"{percent(value)} ({name})" for name, value in shares.items()])


def _left_out(manifest: Mapping[str, Any]) -> list[str]:
    dropped, lines = manifest.get("dropped") or {}, []
    if names := manifest.get("entrants_without_answers"):
        lines.append(f"Left out because there are no answers: {', '.join(names)}.")
    if prompts := dropped.get("prompts_without_every_answer"):
        lacks = ", ".join(f"{name} lacks {n}" for name, n in (dropped.get("answers_missing") or {}).items())
        lines.append(f"{plural(len(prompts), 'prompt')} left out because not every entrant answered ({lacks}).")
    for name, skipped in (dropped.get("prompts_without_gold_answer") or {}).items():
        lines.append(f"{name}: {plural(skipped, 'prompt')} left out, without a reference answer.")
    return lines

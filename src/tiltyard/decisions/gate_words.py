"""A gate's verdict in words: one sentence first, then a table, Markdown, or JUnit XML."""

from __future__ import annotations

import math
from collections.abc import Sequence
from xml.etree import ElementTree  # written only, never read

from tiltyard.boards.preparation import DIMENSION
from tiltyard.boards.text import percent
from tiltyard.decisions.contrast import even_odds
from tiltyard.decisions.gate import PASSES, GateResult, MetricsGate, PartVerdict
from tiltyard.decisions.missing import Missing
from tiltyard.decisions.units import POINTS, Unit
from tiltyard.decisions.words import as_markdown as difference_markdown
from tiltyard.decisions.words import footnotes, if_picked, plain, sample, share, size_of
from tiltyard.options import check_choice
from tiltyard.pages.tables import markdown_text


def gate_sentence(result: GateResult) -> str:
    """The verdict in one sentence."""
    found, unit = result.difference, result.difference.unit
    margin, size = unit.named(unit.plain(result.margin)), size_of(found, result.low, result.high)
    new, old = found.new, found.old
    worse = [part.value for part in result.parts if part.verdict == "worse"]
    if result.by_dimension:
        text = _of_dimensions(result, margin)
    elif result.verdict == "better":
        text = f"pass: {new} is better than {old}: {size}"
    elif result.verdict == "not_worse":
        text = f"pass: {new} is not worse than {old} by more than {margin}: {size}{_one_sided(result)}"
    elif worse and not (result.high is not None and result.high < 0.0):
        text = f"fail: {new} is worse than {old} in {', '.join(worse)}; on the whole {size}"
    elif result.verdict == "worse":
        text = f"fail: {new} is worse than {old}: {size}"
    elif found.obstacles:
        text = f"cannot tell: {'; '.join(found.obstacles)}; here {new} is at {size} against {old}"
    elif found.missing is not None and (doubtful := [part.value for part in result.parts if part.doubtful]):
        text = f"cannot tell: {new} may be worse than {old} in {', '.join(doubtful)}, where {found.missing.what}; "
        text += f"{found.missing.advice}; on the whole {size}"
    elif result.doubt is not None:
        text = f"cannot tell: {result.doubt}; here {new} is at {size} against {old}"
    elif result.if_ignored != "unknown":
        text = f"cannot tell: {_turned(result)}; without them {new} is at {size} against {old}"
    else:
        text = f"cannot tell whether {new} is worse than {old} by more than {margin}: {size}{_one_sided(result)}"
    if result.if_picked not in (None, result.verdict):
        text += if_picked(found, {"not_worse": "not worse", "unknown": "cannot tell"}[str(result.if_picked)])
    return f"{text}; {sample(found, pooled=not result.by_dimension)}{_of_missing(result)}."


def _of_dimensions(result: GateResult, margin: str) -> str:
    """What the verdicts on each dimension say together."""
    found, own = result.difference, result.dimensions
    new, old = found.new, found.old
    worse = [part for part in result.parts if part.verdict == "worse"]
    unknown = [part for part in own if part.verdict == "unknown"]
    unsure = [part.value for part in unknown if part.if_ignored != "unknown"] or [
        part.value for part in result.parts if part.doubtful and part not in own
    ]
    if worse:
        return f"fail: {new} is worse than {old} in {_listed(worse, found.unit)}"
    if found.obstacles:
        return f"cannot tell: {'; '.join(found.obstacles)}; here {new} is at {_listed(own, found.unit)} against {old}"
    if not own:
        what = f"{len(found.dimensions)} dimensions are pooled, and each must pass"
        return f"cannot tell: {what}; compare the runs, or boards of one dimension each"
    if unsure and found.missing is not None:
        text = f"cannot tell: {new} may be worse than {old} in {', '.join(unsure)}, where {found.missing.what}; "
        return f"{text}{found.missing.advice}, or pass --missing ignore"
    if unknown:
        where = _listed(unknown, found.unit)
        return f"cannot tell whether {new} is worse than {old} by more than {margin} in {where}"
    if result.verdict == "better":
        return f"pass: {new} is better than {old} in each of {len(own)} dimensions: {_listed(own, found.unit)}"
    text = f"pass: {new} is not worse than {old} by more than {margin} in any of {len(own)} dimensions: "
    return text + _listed(own, found.unit)


def metrics_sentence(result: MetricsGate) -> str:
    """The verdict on several metrics in one sentence."""
    every = result.metrics
    first, verdict = next(iter(every.values())).difference, result.verdict
    new, old = first.new, first.old
    text = {
        "better": f"pass: {new} is better than {old} by each of {len(every)} metrics",
        "not_worse": f"pass: {new} is not worse than {old} by more than the margin by any of {len(every)} metrics",
        "worse": f"fail: {new} is worse than {old}",
        "unknown": f"cannot tell whether {new} is worse than {old} by more than the margin",
    }[verdict]
    deciding = [(name, one) for name, one in every.items() if verdict in PASSES or one.verdict == verdict]
    sizes = [f"{name} {size_of(one.difference, one.low, one.high)}" for name, one in deciding[:SHOWN_PARTS]]
    more = [f"and {len(deciding) - SHOWN_PARTS} more"] if len(deciding) > SHOWN_PARTS else []
    text = f"{text}: {'; '.join([*sizes, *more])}"
    picked = [one for one in every.values() if one.if_picked not in (None, one.verdict)]
    return f"{text}{if_picked(picked[0].difference, 'cannot tell') if picked else ''}; {sample(first)}."


SHOWN_PARTS = 4


def _listed(parts: Sequence[PartVerdict], unit: Unit) -> str:
    """Some parts with their differences, the lowest first: `safety (−100 points, −158 to −42)`."""

    def about(one: PartVerdict) -> str:
        if one.reason is not None or one.difference is None:
            return (one.reason or "no difference").rstrip(".")
        return f"{unit.named(unit.signed(one.difference))}, {unit.between(one.low, one.high)}"

    order = sorted(parts, key=lambda one: -math.inf if one.difference is None else one.difference)
    more = [f"and {len(order) - SHOWN_PARTS} more"] if len(order) > SHOWN_PARTS else []
    return ", ".join([*(f"{one.value} ({about(one)})" for one in order[:SHOWN_PARTS]), *more])


def _one_sided(result: GateResult) -> str:
    """The bound that is compared with the margin: an end of the two-sided interval is none."""
    unit, scores = result.difference.unit, result.difference.scores
    if result.bound is None:
        return ""
    if scores is not None and scores.log and scores.lower_is_better:  # the ratio is that of the new one to the old one
        return f", one-sided {percent(result.level)} below {unit.named(unit.plain(-result.bound))}"
    return f", one-sided {percent(result.level)} above {unit.plain(result.bound)}"


def _turned(result: GateResult) -> str:
    """What matchups without a verdict would turn the difference into, and what to do about it."""
    found, missing = result.difference, result.difference.missing
    assert missing is not None
    way, case = _counted_against(missing, result, for_new=result.if_ignored == "worse")
    now = found.unit.signed(found.difference)
    could = missing.no_case if case is None else f"they turn {now} into {case}"
    return f"{missing.sentence}, and counted {way} {found.new} {could}; {missing.advice}, or pass --missing ignore"


def _counted_against(missing: Missing, result: GateResult, *, for_new: bool) -> tuple[str, str | None]:
    """Which way matchups without a verdict count against a claim, and the difference that way; None: no rating."""
    way, one = ("for", missing.worst().in_favour) if for_new else ("against", missing.worst().against)
    if one is None:
        return way, None
    unit = result.difference.unit
    return (
        way,
        f"{unit.named(unit.signed(one.points))} ({unit.between(*one.ends(result.level, anytime=result.anytime))})",
    )


def _of_missing(result: GateResult) -> str:
    """What was done with matchups without a verdict, where the sentence has not said it yet."""
    missing = result.difference.missing
    doubtful = any(part.doubtful for part in result.parts)
    if missing is None or (result.verdict == "unknown" and result.if_ignored != "unknown" and not doubtful):
        return ""
    if result.missing == "ignore":
        return f"; {missing.sentence}, ignored"
    if result.verdict == "unknown" or result.difference.obstacles or result.by_dimension:
        return f"; {missing.sentence}"
    way, case = _counted_against(missing, result, for_new=result.verdict == "worse")
    return f"; {missing.sentence}" + ("" if case is None else f": {case} with all of them counted {way} it")


def render(result: GateResult | MetricsGate, format: str) -> str:
    """The verdict as `table`, `json`, `md` or `junit`."""
    check_choice("format", format, ("table", "json", "md", "junit"))
    if format == "json":
        return result.to_json()
    return {"table": as_table, "md": as_markdown, "junit": as_junit}[format](result)


def as_table(result: GateResult | MetricsGate) -> str:
    """The verdict for a terminal: the sentence, the difference, categories, and how much data the margin needs."""
    if isinstance(result, MetricsGate):
        return "\n\n".join([result.sentence, *(f"{name}\n{as_table(one)}" for name, one in result.metrics.items())])
    lines = [result.sentence, "", *_part_lines(result), *advice(result)]
    return "\n".join([*lines, *footnotes(result.difference, missing=False)])


def as_markdown(result: GateResult | MetricsGate) -> str:
    """The verdict for a pull request or a step summary: sentence, numbers, and the prompts that decide it."""
    mark = {"better": "✅", "not_worse": "✅", "worse": "❌", "unknown": "❔"}[result.verdict]
    if isinstance(result, MetricsGate):
        first = f"## {mark} {len(result.metrics)} metrics\n\n**{markdown_text(result.sentence)}**\n"
        return "\n".join([first, *(as_markdown(one) for one in result.metrics.values())])
    by = "" if result.difference.scores is None else f" by {result.difference.scores.metric}"
    head = markdown_text(f"## {mark} {result.difference.new} against {result.difference.old}{by}")
    parts = [f"- {markdown_text(line)}" for line in _part_lines(result) if line.strip()]
    notes = [f"- {markdown_text(line)}" for line in advice(result)]
    return "\n".join([head, "", difference_markdown(result.difference, first=result.sentence), *parts, *notes]) + "\n"


def as_junit(result: GateResult | MetricsGate) -> str:
    """The verdict as JUnit XML: one test case for the whole and one for each metric, dimension and category."""
    cases = [("gate", result.verdict, result.sentence)]
    metrics = result.metrics if isinstance(result, MetricsGate) else {"": result}
    for metric, each in metrics.items():
        cases += [(f"metric {metric}", each.verdict, each.sentence)] if each is not result else []
        for one in each.parts:
            title = f"{metric} {one.column} {one.value}".strip()
            cases.append((title, one.verdict, one.reason or _part_line(one, each.difference.unit)))
    about = next(iter(metrics.values())).difference
    suite = ElementTree.Element(
        "testsuite",
        name="tiltyard gate",
        tests=str(len(cases)),
        failures=str(sum(verdict == "worse" for _, verdict, _ in cases) + (result.verdict == "unknown")),
        skipped=str(sum(verdict == "unknown" for _, verdict, _ in cases[1:])),
    )
    name = f"{about.new} against {about.old}"
    for place, (title, verdict, text) in enumerate(cases):
        case = ElementTree.SubElement(suite, "testcase", classname=_printable(name), name=_printable(title))
        if verdict == "worse" or (verdict == "unknown" and place == 0):
            ElementTree.SubElement(case, "failure", message=_printable(text), type=verdict)
        elif verdict == "unknown":
            ElementTree.SubElement(case, "skipped", message=_printable(text))
        else:
            ElementTree.SubElement(case, "system-out").text = _printable(text)
    ElementTree.indent(suite)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(suite, encoding="unicode") + "\n"


def _printable(text: str) -> str:
    """The text without characters that XML forbids."""
    return "".join(letter if letter in "\t\n" or letter >= " " else "\ufffd" for letter in text)


def _part_lines(result: GateResult) -> list[str]:
    unit = result.difference.unit
    return [*(f"{one.column} {one.value}: {_part_line(one, unit)}" for one in result.parts), ""] if result.parts else []


def _part_line(one: PartVerdict, unit: Unit) -> str:
    if one.difference is None:
        return one.reason or "cannot tell"
    why = "" if one.reason is None else f": {one.reason}"
    what = ("matchup", "a verdict") if unit is POINTS else ("prompt", "a score of both")
    lost = f"; {one.missing:,} {what[0]}{'s' if one.missing != 1 else ''} without {what[1]}" if one.missing else ""
    ends = f" ({unit.between(one.low, one.high)})" if one.column == DIMENSION and not why else ""
    size = f"{unit.named(unit.signed(one.difference))}{ends}"
    return f"{one.verdict.replace('_', ' ').replace('unknown', 'cannot tell')}, {size}{why}{lost}"


def advice(result: GateResult) -> list[str]:
    """What the margin means, and how much data it needs."""
    unit = result.difference.unit
    lines = []
    if abs(result.level - result.difference.level) >= 1e-9:
        verdicts = len(result.parts) + (not result.by_dimension)
        why = f", because α is shared among {verdicts} verdicts" if result.parts else ""
        ends = "" if result.by_dimension else f", {unit.between(result.low, result.high)}"
        lines.append(f"the gate looks at the {percent(result.level)} interval{'s' if not ends else ''}{ends}{why}")
    if result.difference.scores is None:
        wins = share(1.0 - even_odds(result.margin))
        lines.append(
            f"a margin of {plain(result.margin)} points: a model that much worse wins {wins} of decided battles"
        )
    if result.needed is None:
        return lines
    prompts = result.needed_prompts
    size = f"about {result.needed:.1f} times this much data" if prompts is None else f"about {prompts:,} prompts"
    has = "" if result.difference.n_prompts is None else f" (here {result.difference.n_prompts:,})"
    lines.append(f"equal models pass this margin in 80 % of cases with {size}{has}")
    return lines

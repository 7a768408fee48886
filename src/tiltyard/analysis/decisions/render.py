"""Answers in words: one sentence first, then a table, Markdown, HTML for notebooks, or JUnit XML for a gate."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree  # written only, never read

import msgspec

from tiltyard.analysis.boards import CLUSTER_NAMES, DIMENSION, percent
from tiltyard.analysis.decisions.answer import (
    SHOWN,
    Difference,
    EstimatedDifference,
    MetricsComparison,
    OnlyFor,
    PromptScore,
    RatingDifference,
    RunComparison,
    ScoreDifference,
    shared_level,
)
from tiltyard.analysis.decisions.answer import side as side
from tiltyard.analysis.decisions.contrast import even_odds
from tiltyard.analysis.decisions.gate import PASSES, GateResult, MetricsGate, PartVerdict
from tiltyard.analysis.decisions.missing import Missing, cases_of
from tiltyard.analysis.decisions.units import POINTS, Unit
from tiltyard.options import check_choice
from tiltyard.render import Table, TableColumn, markdown_text

TEXT_WIDTH = 60
SHOWN_PARTS = 4

signed, plain, between = POINTS.signed, POINTS.plain, POINTS.between


def sureness(probability: float | None) -> str:
    """99.4 %, above 99.9 %, below 0.1 %: never a certainty."""
    if probability is None:
        return "unknown"
    if probability > 0.999:
        return "more than 99.9 %"
    if probability < 0.001:
        return "less than 0.1 %"
    return f"{100 * probability:.{1 if probability > 0.99 or probability < 0.01 else 0}f} %"


def share(value: float | None) -> str:
    """A part of 1 as a percentage."""
    return "–" if value is None else f"{100 * value:.1f} %"


def counted(count: float, noun: str) -> str:
    """`1 prompt`, `1,200 prompts`."""
    return f"{count:,.0f} {noun}{'s' if count != 1 else ''}"


# Shapes


class Block(msgspec.Struct, frozen=True):
    """A table with its title, or lines: what stands between the sentence of an answer and its notes.

    `aside` explains the title where there is room for it.
    """

    content: Table | Sequence[str]
    title: str = ""
    aside: str = ""

    def heading(self) -> str:
        return f"{self.title} {self.aside}:" if self.aside else f"{self.title}:" if self.title else ""

    def text(self) -> list[str]:
        """The lines for a terminal, an empty one first."""
        lines = self.content.text() if isinstance(self.content, Table) else self.content
        return ["", *filter(None, [self.heading()]), *lines]

    def markdown(self) -> list[str]:
        """The paragraphs."""
        title = self.heading()
        if title.startswith(("by ", "prompts ")):
            title = title[0].upper() + title[1:]
        lines = [self.content.markdown()] if isinstance(self.content, Table) else map(markdown_text, self.content)
        return [*filter(None, [markdown_text(title)]), *lines]


def as_text(sentence: str, blocks: Sequence[Block], notes: Sequence[str]) -> str:
    """A sentence, blocks and notes for a terminal."""
    return "\n".join([sentence, *(line for block in blocks for line in block.text()), "", *notes])


def as_markdown(sentence: str, blocks: Sequence[Block], notes: Sequence[str]) -> str:
    """The same as Markdown."""
    parts = [f"**{markdown_text(sentence)}**", *(part for block in blocks for part in block.markdown())]
    return "\n\n".join([*parts, "\n".join(f"- {markdown_text(note)}" for note in notes)]) + "\n"


def as_html(sentence: str, blocks: Sequence[Block], notes: Sequence[str]) -> str:
    """The same as a small piece of HTML, for notebooks: tables without lines."""
    titled = [(block.title, block.content.html()) for block in blocks if isinstance(block.content, Table)]
    body = "".join(f"<p>{html.escape(title)}</p>{table}" if title else table for title, table in titled)
    items = "".join(f"<li>{html.escape(note)}</li>" for note in notes)
    return f"<p><strong>{html.escape(sentence)}</strong></p>{body}<ul>{items}</ul>"


SHAPES = {"table": as_text, "md": as_markdown, "html": as_html}


# Comparisons


def comparison(answer: Any, format: str, shown: int, *, paged: bool = True) -> str:
    """A comparison as `table`, `json`, `md` or `html` (a page, or a piece), with so many prompts of each kind."""
    check_choice("format", format, ("table", "json", "md", "html"))
    if format == "json":
        return str(answer.to_json())
    if format == "html" and paged and answer.page is not None:
        return str(answer.page(answer))
    if isinstance(answer, MetricsComparison):
        texts = {name: comparison(metric, format, shown, paged=paged) for name, metric in answer.metrics.items()}
        return "\n\n".join(f"{name}\n\n{text}" for name, text in texts.items())
    if isinstance(answer, RunComparison):
        return SHAPES[format](answer.sentence, _run_blocks(answer, shown), run_footnotes(answer))
    return SHAPES[format](answer.sentence, blocks(answer, SHOWN if format == "html" else shown), footnotes(answer))


def sentence(answer: Any) -> str:
    """The answer in one sentence, for a chat or the first line of a page."""
    if isinstance(answer, MetricsComparison):
        return " ".join(metric.sentence for metric in answer.metrics.values())
    if isinstance(answer, RunComparison):
        return _run_sentence(answer)
    new, old, chance = answer.new, answer.old, answer.probability_better
    size, which = size_of(answer, answer.low, answer.high), side(answer.low, answer.high)
    doubt = None if which == "unclear" else answer.doubt(above=which == "better")
    only = answer.only_for if isinstance(answer, RatingDifference) else None
    blocked = [clause for clause in answer.obstacles if only is None or clause not in _few_for_others(answer)]
    if blocked or doubt is not None:
        text = f"cannot tell {new} from {old}: {'; '.join(blocked) or doubt}; here {size}"
    elif which == "better":
        text = f"{new} is better than {old}: {size}, {sureness(chance)} sure"
    elif which == "worse":
        text = f"{new} is worse than {old}: {size}, {sureness(None if chance is None else 1 - chance)} sure"
    elif chance is None:
        text = f"cannot tell {new} from {old}: {size}"
    else:
        text = f"cannot tell {new} from {old}: {size}, {sureness(chance)} sure that {new} is better"
    if only is not None and not blocked:
        text = f"for {only}, {text}"
    text += _otherwise(answer)
    if which == "better" and answer.best_of is not None and side(*answer.ends_if_picked) != which:
        text += _if_picked(answer, "cannot tell")
    lost = "" if answer.missing is None else f"; {answer.missing.counted}{answer.missing.done}"
    return f"{text}; {sample(answer)}{lost}."


def _few_for_others(answer: RatingDifference) -> list[str]:
    """The obstacles that an answer for these prompts or voters alone has named already."""
    counts = {"prompt": answer.n_prompts, "voter": answer.n_voters}
    return [OnlyFor(what, count).clause for what, count in counts.items() if count]


def _otherwise(difference: Difference, among: int = 1) -> str:
    """The parts in which the difference is surely of the other sign, as the end of a clause; usually nothing.

    Sure is what holds for all values of the column, and for so many differences that are looked at together.
    """
    unit, parts = difference.unit, []
    for part in difference.parts:
        if part.contrast is None or part.estimate is None or part.obstacles:
            continue
        values = sum(other.column == part.column for other in difference.parts)
        cases = cases_of(part.contrast, part.missing, anytime=difference.anytime)
        low, high = cases.ends(shared_level(difference.level, values * among))
        which = side(low, high)
        if (which == "worse" and difference.difference >= 0.0) or (which == "better" and difference.difference <= 0.0):
            size = unit.named(unit.signed(part.estimate.difference))
            parts.append(f"{which} in {part.value} ({size}, {unit.between(low, high)})")
    return f", but {' and '.join(parts)}" if parts else ""


def _if_picked(difference: Difference, verdict: str) -> str:
    """That the new model is the best of several, and what holds of it if it was picked for that."""
    return (
        f"; it is the best of {difference.best_of} here: if it was picked for that, this does not show it "
        f"(`--picked-from {difference.best_of}`: {verdict})"
    )


def size_of(difference: Difference, low: float | None, high: float | None) -> str:
    """The difference with an interval: `+37 points (12 to 61)`; of scores, after the two means."""
    unit = difference.unit
    size = f"{unit.named(unit.signed(difference.difference))} ({unit.between(low, high)})"
    if not isinstance(difference, ScoreDifference):
        return size
    means = f"{unit.mean(difference.new_mean)} against {unit.mean(difference.old_mean)}"
    if difference.log and difference.lower_is_better:  # a ratio is that of the new to the old, whichever is better
        turned = [None if end is None else -end for end in (high, low)]
        return f"{means}, {unit.named(unit.plain(-difference.difference))} ({unit.between(*turned)}), lower is better"
    text = f"{means}, lower is better: {size} in its favor" if difference.lower_is_better else f"{means}, {size}"
    ratio = difference.ratio
    if ratio is None or difference.log:
        return text
    ends = f"{ratio.low:.3g} to {ratio.high:.3g}"
    return f"{text}, typically {ratio.value:.3g} × that of {difference.old} (geometric mean, {ends})"


def sample(difference: Difference, *, pooled: bool = True) -> str:
    """How much data: `200 prompts × 3 repeats`; battles, prompts, voters, dimensions, and how many are of the two."""
    if isinstance(difference, ScoreDifference):
        if difference.n_prompts is None:
            return f"{difference.n_answers:,} answers"
        text, (fewest, most) = counted(difference.n_prompts, "prompt"), difference.repeats
        if most <= 1:
            return text
        return f"{text} × {most} repeats" if fewest == most else f"{text}, {fewest} to {most} answers to each"
    assert isinstance(difference, RatingDifference)
    places = [counted(difference.n_battles, "battle")]
    if difference.n_prompts is not None:
        places.append(f"on {counted(difference.n_prompts, 'prompt')}")
    if difference.n_voters is not None:
        places.append(f"by {counted(difference.n_voters, 'voter')}")
    if difference.dimensions:
        places.append(f"in {len(difference.dimensions)} {'pooled ' if pooled else ''}dimensions")
    text, met = " ".join(places), difference.met
    if difference.then_and_now:
        return text
    if met == 0:
        return f"{text}, none between the two"
    return text if met >= difference.n_battles else f"{text}, {met:,.0f} of them between the two"


def blocks(answer: Difference, shown: int) -> list[Block]:
    """The tables of an answer, and how often the two won."""
    is_ratings, columns = isinstance(answer, RatingDifference), dict.fromkeys(part.column for part in answer.parts)
    tables = [_estimates(answer), Block([_counts(answer)])] if isinstance(answer, RatingDifference) else []
    part_table = _rating_parts if is_ratings else _score_parts
    aside = "(intervals hold for all values at once)"
    tables += [Block(part_table(answer, column), f"by {column}", aside) for column in columns]
    return tables + [Block(_prompt_table(answer, some), title) for title, some in prompt_lists(answer, shown)]


def prompt_lists(answer: Difference, n: int) -> list[tuple[str, list[PromptScore]]]:
    """The prompts that decide it, at most `n` in a list, each list with its title; empty lists are left out."""
    new, old = answer.new, answer.old
    changes = [(prompt, prompt.change or 0.0) for prompt in answer.prompts]
    if isinstance(answer, ScoreDifference) or (isinstance(answer, RatingDifference) and answer.then_and_now):
        sign = -1.0 if isinstance(answer, ScoreDifference) and answer.lower_is_better else 1.0
        ordered = sorted(((sign * change, prompt.prompt, prompt) for prompt, change in changes), key=lambda p: p[:2])
        fell = [prompt for gain, _, prompt in ordered if gain < 0.0]
        rose = [prompt for gain, _, prompt in sorted(ordered, key=lambda p: (-p[0], p[1])) if gain > 0.0]
        titles = (f"prompts where {new} lost most to {old}", f"prompts where {new} gained most on {old}")
        if not isinstance(answer, ScoreDifference):
            titles = ("prompts where it fell most", "prompts where it rose most")
        lists = dict(zip(titles, (fell, rose), strict=True))
    else:
        assert isinstance(answer, RatingDifference)
        lost = sorted((p for p in changes if p[0].net < 0), key=lambda p: (p[0].net, p[1], p[0].prompt))
        won = sorted((p for p in changes if p[0].net > 0), key=lambda p: (-p[0].net, -p[1], p[0].prompt))
        lists = {
            f"prompts where {new} lost most to {old}": [prompt for prompt, _ in lost],
            f"prompts where {new} won most against {old}": [prompt for prompt, _ in won],
        }
        if answer.n_battles > (0.0 if answer.direct is None else answer.direct.n_battles):
            differing = sorted((p for p in changes if p[1]), key=lambda p: (-abs(p[1]), p[1], p[0].prompt))
            lists["prompts where the two fared most differently against everybody"] = [p for p, _ in differing]
    return [(title, prompts[:n]) for title, prompts in lists.items() if prompts[:n]]


def footnotes(answer: Difference, *, missing: bool = True) -> list[str]:
    """What a reader should know about the numbers."""
    names = [CLUSTER_NAMES.get(way["column"], way["column"]) for way in answer.interval.get("clusters", ())]
    single = "answer" if isinstance(answer, ScoreDifference) else "battle"
    how = f"{percent(answer.level)} intervals by {' and '.join(names) if names else single}"
    if answer.picked_from > 1:
        how += f": {percent(1.0 - (1.0 - answer.level) * answer.picked_from)} for the best of "
        how += f"{answer.picked_from:,} candidates"
    if answer.anytime:
        how += ", valid however often you look"
    left = [f"left out: {count:,.0f} × {reason}" for reason, count in answer.left_out.items() if count]
    lost, notes = answer.missing, [how]
    if missing and lost is not None:
        notes.append(f"{lost.sentence}{lost.done}")
        if isinstance(answer, ScoreDifference):
            against, in_favour = (_case(one, answer, answer.level) for one in lost.worst())
            cases = f"as bad as can be for {answer.new} they make it {against}, as good as can be {in_favour}"
            notes[-1] += f"; {lost.no_case if against is None or in_favour is None else cases}"
    return [*notes, *answer.remarks, *left]


def _case(one: Any, answer: Difference, level: float) -> str | None:
    """A worst case with its interval; None where nothing comes of it."""
    if one is None:
        return None
    unit = answer.unit
    return f"{unit.named(unit.signed(one.points))} ({unit.between(*one.ends(level, anytime=answer.anytime))})"


def _estimates(answer: RatingDifference) -> Block:
    level, direct = percent(answer.level), answer.direct
    rows = []
    if direct is not None and direct.estimate is not None:
        rows.append(["against each other", *_numbers(direct.estimate)])
    if direct is None or answer.met < answer.n_battles:
        rows.append(["all battles", *_numbers(answer.estimate)])
    lost = answer.missing
    worst = lost.worst() if lost is not None and lost.rule == "worst" else ()
    for word, case in zip(("against", "for")[: len(worst)], worst, strict=True):
        cells = ["no rating"]
        if case is not None:
            ends = between(*case.ends(answer.level, anytime=answer.anytime))
            sure = sureness(case.probability_above(anytime=answer.anytime))
            cells = [signed(case.points), ends, sure, "–", "–", f"{answer.n_battles + len(lost or ()):,.0f}"]
        rows.append([f"with the missing {len(lost or ()):,} {word} {answer.new}", *cells])
    return Block(Table.of(["", "difference", level, f"{answer.new} is better", "win rate", level, "battles"], rows))


def _numbers(estimate: EstimatedDifference) -> list[str]:
    low, high = estimate.win_rate_low, estimate.win_rate_high
    return [
        signed(estimate.difference),
        between(estimate.low, estimate.high),
        sureness(estimate.probability_better),
        share(estimate.win_rate),
        "–" if low is None else f"{share(low)} to {share(high)}",
        f"{estimate.n_battles:,.0f}",
    ]


def _counts(answer: RatingDifference) -> str:
    direct = answer.direct
    if direct is None:
        return f"{answer.new} and {answer.old} never met: the difference comes through the models both met"
    parts = [f"{direct.wins:,.0f} won", f"{direct.losses:,.0f} lost", f"{direct.ties:,.0f} tied"]
    parts += [f"{direct.both_bad:,.0f} both bad"] if direct.both_bad else []
    return f"{answer.new} against {answer.old}: {', '.join(parts)}"


def _rating_parts(answer: Difference, column: str) -> Table:
    heads = [column, "difference", "interval", f"{answer.new} is better", "win rate", "interval", "battles"]
    parts = [part for part in answer.parts if part.column == column]
    cells = [[part.reason or ""] if part.estimate is None else _numbers(part.estimate) for part in parts]
    return Table.of(heads, [[part.value, *row] for part, row in zip(parts, cells, strict=True)])


def _score_parts(answer: Difference, column: str) -> Table:
    unit, rows = answer.unit, []
    for part in answer.parts:
        estimate, means = part.estimate, part.means
        if part.column == column and (estimate is None or means is None):
            rows.append([part.value, part.reason or ""])
        elif part.column == column and estimate is not None and means is not None:
            size = [unit.signed(estimate.difference), unit.between(estimate.low, estimate.high)]
            size += [sureness(estimate.probability_better), f"{estimate.n_battles:,.0f}"]
            rows.append([part.value, *map(unit.mean, means), *size])
    heads = [column, answer.new, answer.old, "difference", "interval", f"{answer.new} is better", "prompts"]
    return Table.of(heads, rows)


def _prompt_table(answer: Difference, prompts: Sequence[PromptScore]) -> Table:
    """One row for each prompt; texts only where there are some."""
    then_and_now = isinstance(answer, RatingDifference) and answer.then_and_now
    counted = isinstance(answer, RatingDifference) and not then_and_now
    names = ("now", "then") if then_and_now else (f"mean of {answer.new}", f"mean of {answer.old}")
    heads = [*(("won", "lost", "tied") if counted else ()), *names]
    columns = [TableColumn("prompt"), *(TableColumn(name, left=False) for name in heads)]
    rows = []
    for prompt in prompts:
        record = [f"{value:,.0f}" for value in (prompt.wins, prompt.losses, prompt.ties)] if counted else []
        digits = 2 if isinstance(answer, RatingDifference) else None
        means = (prompt_score(value, digits) for value in (prompt.new_score, prompt.old_score))
        rows.append([_cut(prompt.prompt), *record, *means])
    if any(prompt.text for prompt in prompts):
        columns.append(TableColumn("text"))
        texts = [_cut(" ".join((prompt.text or "").split())) for prompt in prompts]
        rows = [[*row, text] for row, text in zip(rows, texts, strict=True)]
    return Table(columns, rows)


def _cut(text: str) -> str:
    return text if len(text) <= TEXT_WIDTH else text[: TEXT_WIDTH - 1] + "…"


def prompt_score(value: float | None, digits: int | None = None) -> str:
    """The mean score on one prompt: 1, 0.67, 12.5; or with so many digits behind the point."""
    if value is None or math.isnan(value):
        return "–"
    return f"{value:.4g}".replace("-", "−") if digits is None else f"{value:.{digits}f}"


def _run_sentence(runs: RunComparison) -> str:
    """What moved: the only entrant with new answers, or everyone who moved by more than noise."""
    if len(runs.changed) == 1:
        return sentence(runs.changed[0].difference)
    moved = [change for change in runs.changes if change.beyond_noise]
    moved.sort(key=lambda change: -abs(change.difference.difference))
    on = "" if runs.n_prompts is None else f" on {counted(runs.n_prompts, 'shared prompt')}"
    apart = {change.entrant: _otherwise(change.difference, len(runs.changes)) for change in runs.changes}
    some = ", ".join(
        f"{change.entrant} {signed(change.difference.difference)} "
        f"({between(change.difference.low, change.difference.high)}){apart.pop(change.entrant)}"
        for change in moved[:5]
    )
    rest = "".join(f"; {name}: {text.removeprefix(', but ')}" for name, text in apart.items() if text)
    if not moved:
        text = f"no entrant of {len(runs.changes)} moved by more than noise between {runs.old} and {runs.new}{on}"
        return f"{text}{rest}."
    return f"{len(moved)} of {len(runs.changes)} entrants moved by more than noise{on}: {some}{rest}."


def _run_blocks(runs: RunComparison, shown: int) -> list[Block]:
    heads = ["entrant", "then", "now", "change", percent(runs.level), "better", "place", "answers", ""]
    rows = []
    for change in runs.changes:
        result, (then, now) = change.difference, (change.rank_old, change.rank_new)
        rows.append(
            [
                change.entrant,
                f"{change.rating_old:.0f}",
                f"{change.rating_new:.0f}",
                signed(result.difference),
                between(result.low, result.high),
                sureness(result.probability_better),
                f"{then} → {now}" if then != now else str(now),
                {None: "–", True: "changed", False: "same"}[change.answers_changed],
                "more than noise" if change.beyond_noise else "",
            ]
        )
    tables = [Block(Table.of(heads, rows), f"{runs.new} against {runs.old}")]
    for change in (runs.changed or [change for change in runs.changes if change.beyond_noise])[:3]:
        for title, prompts in prompt_lists(change.difference, shown):
            tables.append(Block(_prompt_table(change.difference, prompts), f"{title} ({change.entrant})"))
    return tables


def run_footnotes(runs: RunComparison) -> list[str]:
    """What a reader should know about the changes."""
    names = ", ".join(runs.zero[:6]) + (", …" if len(runs.zero) > 6 else "")
    zero = f"changes are measured from {names}: the answers are the same in both runs"
    if len(runs.zero) == len(runs.changes):
        zero = "changes are measured from the mean of all shared entrants: one that rises lowers the others"
    more = "“more than noise” holds for all entrants at once"
    return [f"{percent(runs.level)} intervals; {more}", zero, *runs.notes]


# Gates


def verdict(result: Any, format: str) -> str:
    """The verdict as `table`, `json`, `md` or `junit`."""
    check_choice("format", format, ("table", "json", "md", "junit"))
    if format == "json":
        return str(result.to_json())
    return {"table": _gate_text, "md": _gate_markdown, "junit": _gate_junit}[format](result)


def gate_sentence(result: Any) -> str:
    """The verdict in one sentence."""
    return _metrics_sentence(result) if isinstance(result, MetricsGate) else _gate_sentence(result)


def _gate_sentence(result: GateResult) -> str:
    found, unit = result.difference, result.difference.unit
    new, old, margin = found.new, found.old, unit.named(unit.plain(result.margin))
    size, lost = size_of(found, result.low, result.high), found.missing
    worse = [part.value for part in result.parts if part.verdict == "worse"]
    may_be_worse = [part.value for part in result.parts if part.may_be_worse]
    if result.by_dimension:
        text = _dimensions_clause(result, margin)
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
    elif lost is not None and may_be_worse:
        text = f"cannot tell: {new} may be worse than {old} in {', '.join(may_be_worse)}, where {lost.what}; "
        text += f"{lost.advice}; on the whole {size}"
    elif result.doubt is not None:
        text = f"cannot tell: {result.doubt}; here {new} is at {size} against {old}"
    elif result.if_ignored != "unknown":
        text = f"cannot tell: {_effect_of_missing(result)}; without them {new} is at {size} against {old}"
    else:
        text = f"cannot tell whether {new} is worse than {old} by more than {margin}: {size}{_one_sided(result)}"
    if result.if_picked not in (None, result.verdict):
        text += _if_picked(found, {"not_worse": "not worse", "unknown": "cannot tell"}[str(result.if_picked)])
    return f"{text}; {sample(found, pooled=not result.by_dimension)}{_missing_clause(result)}."


def _dimensions_clause(result: GateResult, margin: str) -> str:
    """What the verdicts on each dimension say together."""
    found, parts = result.difference, result.dimensions
    new, old, unit, lost = found.new, found.old, found.unit, found.missing
    worse = [part for part in result.parts if part.verdict == "worse"]
    unknown = [part for part in parts if part.verdict == "unknown"]
    unsure = [part.value for part in unknown if part.if_ignored != "unknown"] or [
        part.value for part in result.parts if part.may_be_worse and part not in parts
    ]
    if worse:
        return f"fail: {new} is worse than {old} in {_listed(worse, unit)}"
    if found.obstacles:
        return f"cannot tell: {'; '.join(found.obstacles)}; here {new} is at {_listed(parts, unit)} against {old}"
    if not parts:
        count = len(found.dimensions) if isinstance(found, RatingDifference) else 0
        what = f"{count} dimensions are pooled, and each must pass"
        return f"cannot tell: {what}; compare the runs, or boards of one dimension each"
    if unsure and lost is not None:
        text = f"cannot tell: {new} may be worse than {old} in {', '.join(unsure)}, where {lost.what}; "
        return f"{text}{lost.advice}, or pass --missing ignore"
    if unknown:
        return f"cannot tell whether {new} is worse than {old} by more than {margin} in {_listed(unknown, unit)}"
    if result.verdict == "better":
        return f"pass: {new} is better than {old} in each of {len(parts)} dimensions: {_listed(parts, unit)}"
    text = f"pass: {new} is not worse than {old} by more than {margin} in any of {len(parts)} dimensions: "
    return text + _listed(parts, unit)


def _metrics_sentence(result: MetricsGate) -> str:
    """The verdict on several metrics in one sentence, with the metrics that decide it."""
    every = result.metrics
    first, verdict = next(iter(every.values())).difference, result.verdict
    new, old = first.new, first.old
    text = {
        "better": f"pass: {new} is better than {old} by each of {len(every)} metrics",
        "not_worse": f"pass: {new} is not worse than {old} by more than the margin by any of {len(every)} metrics",
        "worse": f"fail: {new} is worse than {old}",
        "unknown": f"cannot tell whether {new} is worse than {old} by more than the margin",
    }[verdict]
    deciding = {name: gate for name, gate in every.items() if verdict in PASSES or gate.verdict == verdict}
    sizes = [f"{name} {size_of(gate.difference, gate.low, gate.high)}" for name, gate in deciding.items()]
    picked = [gate for gate in every.values() if gate.if_picked not in (None, gate.verdict)]
    if_picked = _if_picked(picked[0].difference, "cannot tell") if picked else ""
    return f"{text}: {'; '.join(_first(sizes))}{if_picked}; {sample(first)}."


def _first(texts: list[str]) -> list[str]:
    more = [f"and {len(texts) - SHOWN_PARTS} more"] if len(texts) > SHOWN_PARTS else []
    return [*texts[:SHOWN_PARTS], *more]


def _listed(parts: Sequence[PartVerdict], unit: Unit) -> str:
    """Some parts with their differences, the lowest first: `safety (−100 points, −158 to −42)`."""
    texts = []
    for part in sorted(parts, key=lambda part: -math.inf if part.difference is None else part.difference):
        if part.reason is not None or part.difference is None:
            about = (part.reason or "no difference").rstrip(".")
        else:
            about = f"{unit.named(unit.signed(part.difference))}, {unit.between(part.low, part.high)}"
        texts.append(f"{part.value} ({about})")
    return ", ".join(_first(texts))


def _one_sided(result: GateResult) -> str:
    """The bound that is compared with the margin: an end of the two-sided interval is none."""
    unit, found = result.difference.unit, result.difference
    if result.bound is None:
        return ""
    if isinstance(found, ScoreDifference) and found.log and found.lower_is_better:  # the ratio of the new to the old
        return f", one-sided {percent(result.level)} below {unit.named(unit.plain(-result.bound))}"
    return f", one-sided {percent(result.level)} above {unit.plain(result.bound)}"


def _counted_against(missing: Missing, result: GateResult, *, for_new: bool) -> tuple[str, str | None]:
    """Which way matchups without a verdict count against a claim, and the difference that way; None: no rating."""
    return ("for" if for_new else "against"), _case(missing.worst()[for_new], result.difference, result.level)


def _effect_of_missing(result: GateResult) -> str:
    """What matchups without a verdict would turn the difference into, and what to do about it."""
    found, missing = result.difference, result.difference.missing
    assert missing is not None
    way, case = _counted_against(missing, result, for_new=result.if_ignored == "worse")
    could = missing.no_case if case is None else f"they turn {found.unit.signed(found.difference)} into {case}"
    return f"{missing.sentence}, and counted {way} {found.new} {could}; {missing.advice}, or pass --missing ignore"


def _missing_clause(result: GateResult) -> str:
    """What was done with matchups without a verdict, where the sentence has not said it yet."""
    missing = result.difference.missing
    may_be_worse = any(part.may_be_worse for part in result.parts)
    if missing is None or (result.verdict == "unknown" and result.if_ignored != "unknown" and not may_be_worse):
        return ""
    if result.missing == "ignore":
        return f"; {missing.sentence}, ignored"
    if result.verdict == "unknown" or result.difference.obstacles or result.by_dimension:
        return f"; {missing.sentence}"
    way, case = _counted_against(missing, result, for_new=result.verdict == "worse")
    return f"; {missing.sentence}" + ("" if case is None else f": {case} with all of them counted {way} it")


def _gate_text(result: GateResult | MetricsGate) -> str:
    """The verdict for a terminal: the sentence, categories, how much data the margin needs, and the notes."""
    if isinstance(result, MetricsGate):
        return "\n\n".join([result.sentence, *(f"{name}\n{_gate_text(one)}" for name, one in result.metrics.items())])
    parts = [Block(_part_lines(result))] if result.parts else []
    return as_text(result.sentence, parts, [*advice(result), *footnotes(result.difference, missing=False)])


def _gate_markdown(result: GateResult | MetricsGate) -> str:
    """The verdict for a pull request or a step summary: sentence, numbers, and the prompts that decide it."""
    mark = {"better": "✅", "not_worse": "✅", "worse": "❌", "unknown": "❔"}[result.verdict]
    if isinstance(result, MetricsGate):
        first = f"## {mark} {len(result.metrics)} metrics\n\n**{markdown_text(result.sentence)}**\n"
        return "\n".join([first, *(_gate_markdown(one) for one in result.metrics.values())])
    found = result.difference
    by = f" by {found.metric}" if isinstance(found, ScoreDifference) else ""
    body = as_markdown(result.sentence, blocks(found, SHOWN), footnotes(found, missing=False))
    lines = [f"- {markdown_text(line)}" for line in (*_part_lines(result), *advice(result))]
    return "\n".join([markdown_text(f"## {mark} {found.new} against {found.old}{by}"), "", body, *lines]) + "\n"


def _gate_junit(result: GateResult | MetricsGate) -> str:
    """The verdict as JUnit XML: one test case for the whole and one for each metric, dimension and category."""
    cases = [("gate", result.verdict, result.sentence)]
    metrics = result.metrics if isinstance(result, MetricsGate) else {"": result}
    for metric, gate in metrics.items():
        cases += [(f"metric {metric}", gate.verdict, gate.sentence)] if gate is not result else []
        for part in gate.parts:
            title = f"{metric} {part.column} {part.value}".strip()
            cases.append((title, part.verdict, part.reason or _part_line(part, gate.difference.unit)))
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
    return [f"{part.column} {part.value}: {_part_line(part, unit)}" for part in result.parts]


def _part_line(part: PartVerdict, unit: Unit) -> str:
    if part.difference is None:
        return part.reason or "cannot tell"
    why = "" if part.reason is None else f": {part.reason}"
    noun, lacks = ("matchup", "a verdict") if unit is POINTS else ("prompt", "a score of both")
    lost = f"; {counted(part.missing, noun)} without {lacks}" if part.missing else ""
    ends = f" ({unit.between(part.low, part.high)})" if part.column == DIMENSION and not why else ""
    size = f"{unit.named(unit.signed(part.difference))}{ends}"
    return f"{part.verdict.replace('_', ' ').replace('unknown', 'cannot tell')}, {size}{why}{lost}"


def advice(result: GateResult) -> list[str]:
    """What the margin means, and how much data it needs."""
    found, unit, lines = result.difference, result.difference.unit, []
    if abs(result.level - found.level) >= 1e-9:
        verdicts = len(result.parts) + (not result.by_dimension)
        why = f", because α is shared among {verdicts} verdicts" if result.parts else ""
        ends = "s" if result.by_dimension else f", {unit.between(result.low, result.high)}"
        lines.append(f"the gate looks at the {percent(result.level)} interval{ends}{why}")
    if isinstance(found, RatingDifference):
        wins = share(1.0 - even_odds(result.margin))
        lines.append(
            f"a margin of {plain(result.margin)} points: a model that much worse wins {wins} of decided battles"
        )
    if result.needed is None:
        return lines
    prompts = result.needed_prompts
    size = f"about {result.needed:.1f} times this much data" if prompts is None else f"about {prompts:,} prompts"
    has = "" if found.n_prompts is None else f" (here {found.n_prompts:,})"
    return [*lines, f"equal models pass this margin in 80 % of cases with {size}{has}"]

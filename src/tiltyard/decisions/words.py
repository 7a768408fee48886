"""A difference, or two runs compared, in words: one sentence first, then a table, Markdown, or HTML for notebooks."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from typing import Any, Literal

from tiltyard.boards.text import CLUSTER_NAMES, percent
from tiltyard.decisions.missing import ends_with_missing
from tiltyard.decisions.prompts import PromptScore
from tiltyard.decisions.records import (
    SHOWN,
    Difference,
    EntrantChange,
    EstimatedDifference,
    MetricsComparison,
    RunComparison,
)
from tiltyard.decisions.units import POINTS
from tiltyard.options import check_choice
from tiltyard.pages.tables import Table, TableColumn, markdown_text

TEXT_WIDTH = 60

Side = Literal["better", "worse", "unclear"]


def side(low: float | None, high: float | None) -> Side:
    """What an interval says: wholly above zero, wholly below, or neither."""
    if low is not None and low > 0.0:
        return "better"
    return "worse" if high is not None and high < 0.0 else "unclear"


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


def sentence(difference: Difference) -> str:
    """The answer in one sentence, for a chat or the first line of a page."""
    new, old, chance = difference.new, difference.old, difference.probability_better
    size = size_of(difference, difference.low, difference.high)
    which = side(difference.low, difference.high)
    doubt = None if which == "unclear" else difference.doubt(above=which == "better")
    only = difference.only_for
    few = () if only is None else difference.few_for_others
    blocked = [clause for clause in difference.obstacles if clause not in few]
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
    text += otherwise(difference)
    if which == "better" and difference.best_of is not None and side(*difference.ends_if_picked) != which:
        text += if_picked(difference, "cannot tell")
    lost = "" if difference.missing is None else f"; {difference.missing.counted}{difference.missing.done}"
    return f"{text}; {sample(difference)}{lost}."


def otherwise(difference: Difference, among: int = 1) -> str:
    """The parts in which the difference is surely of the other sign, as the end of a clause; usually nothing.

    Sure is what holds for all values of the column, and for so many differences that are looked at together.
    """
    unit, parts = difference.unit, []
    for part in difference.parts:
        if part.contrast is None or part.estimate is None or part.obstacles:
            continue
        values = sum(one.column == part.column for one in difference.parts)
        level = 1.0 - (1.0 - difference.level) / (values * among)
        low, high = ends_with_missing(part.contrast, part.missing, level, anytime=difference.anytime)
        which = side(low, high)
        if (which == "worse" and difference.difference >= 0.0) or (which == "better" and difference.difference <= 0.0):
            size = unit.named(unit.signed(part.estimate.difference))
            parts.append(f"{which} in {part.value} ({size}, {unit.between(low, high)})")
    return f", but {' and '.join(parts)}" if parts else ""


def if_picked(difference: Difference, verdict: str) -> str:
    """That the new model is the best of several, and what holds of it if it was picked for that."""
    return (
        f"; it is the best of {difference.best_of} here: if it was picked for that, this does not show it "
        f"(`--picked-from {difference.best_of}`: {verdict})"
    )


def size_of(difference: Difference, low: float | None, high: float | None) -> str:
    """The difference with an interval: `+37 points (12 to 61)`; of scores, after the two means."""
    unit, scores = difference.unit, difference.scores
    size = unit.named(unit.signed(difference.difference))
    if scores is None:
        return f"{size} ({unit.between(low, high)})"
    means = f"{unit.mean(scores.new_mean)} against {unit.mean(scores.old_mean)}"
    if scores.log and scores.lower_is_better:  # a ratio is that of the new one to the old one, whichever is better
        turned = [None if end is None else -end for end in (high, low)]
        return f"{means}, {unit.named(unit.plain(-difference.difference))} ({unit.between(*turned)}), lower is better"
    text = f"{means}, lower is better: {size}" if scores.lower_is_better else f"{means}, {size}"
    text += f" ({unit.between(low, high)})" + (" in its favor" if scores.lower_is_better else "")
    if scores.ratio is None or scores.log:
        return text
    one, ends = scores.ratio.value, f"{scores.ratio.low:.3g} to {scores.ratio.high:.3g}"
    return f"{text}, typically {one:.3g} × that of {difference.old} (geometric mean, {ends})"


def sample(difference: Difference, *, pooled: bool = True) -> str:
    """How much data: battles, prompts, voters, dimensions, and how many of the battles are between the two."""
    if difference.scores is not None:
        return difference.scores.sample
    text = f"{difference.n_battles:,.0f} battle{'s' if difference.n_battles != 1 else ''}"
    places = []
    if difference.n_prompts is not None:
        places.append(f"on {difference.n_prompts:,} prompt{'s' if difference.n_prompts != 1 else ''}")
    if difference.n_voters is not None:
        places.append(f"by {difference.n_voters:,} voter{'s' if difference.n_voters != 1 else ''}")
    if difference.dimensions:
        places.append(f"in {len(difference.dimensions)} {'pooled ' if pooled else ''}dimensions")
    text = " ".join([text, *places])
    if difference.then_and_now:
        return text
    met = 0.0 if difference.direct is None else difference.direct.n_battles - difference.direct.both_bad
    if met == 0:
        return f"{text}, none between the two"
    return text if met >= difference.n_battles else f"{text}, {met:,.0f} of them between the two"


def render(answer: Any, format: str, shown: int, *, paged: bool = True) -> str:
    """A comparison as `table`, `json`, `md` or `html` (a page, or a piece), with so many prompts of each kind."""
    check_choice("format", format, ("table", "json", "md", "html"))
    if format == "json":
        return str(answer.to_json())
    if format == "html" and paged and answer.page is not None:
        return str(answer.page(answer))
    if isinstance(answer, MetricsComparison):
        return "\n\n".join(
            f"{name}\n\n{render(one, format, shown, paged=paged)}" for name, one in answer.metrics.items()
        )
    if isinstance(answer, RunComparison):
        return changes_table(answer, format, shown)
    if format == "html":
        return as_html(answer)
    return as_markdown(answer, shown) if format == "md" else as_table(answer, shown)


def as_table(difference: Difference, shown: int = SHOWN) -> str:
    """The table for people."""
    lines = [difference.sentence]
    if difference.scores is None:
        lines += ["", *_estimates(difference).text(), *_counts(difference)]
    for column in dict.fromkeys(part.column for part in difference.parts):
        lines += ["", f"by {column} (intervals hold for all values at once):", *_part_table(difference, column).text()]
    for title, prompts in prompt_lists(difference, shown):
        lines += ["", f"{title}:", *prompt_table(difference, prompts).text()]
    lines += ["", *footnotes(difference)]
    return "\n".join(lines)


def as_markdown(difference: Difference, shown: int = SHOWN, *, first: str | None = None) -> str:
    """The same as Markdown."""
    blocks = [f"**{markdown_text(first or difference.sentence)}**"]
    if difference.scores is None:
        blocks += [_estimates(difference).markdown(), *(markdown_text(line) for line in _counts(difference) if line)]
    for column in dict.fromkeys(part.column for part in difference.parts):
        blocks += [
            f"By {markdown_text(column)} (intervals hold for all values at once):",
            _part_table(difference, column).markdown(),
        ]
    for title, prompts in prompt_lists(difference, shown):
        blocks += [markdown_text(f"{title[0].upper()}{title[1:]}:"), prompt_table(difference, prompts).markdown()]
    notes = footnotes(difference, missing=first is None)
    blocks.append("\n".join(f"- {markdown_text(note)}" for note in notes))
    return "\n\n".join(blocks) + "\n"


def as_html(difference: Difference) -> str:
    """The same as a small piece of HTML, for notebooks."""
    tables = [] if difference.scores is not None else [("", _estimates(difference).html())]
    columns = dict.fromkeys(part.column for part in difference.parts)
    tables += [(f"by {column}", _part_table(difference, column).html()) for column in columns]
    tables += [(title, prompt_table(difference, some).html()) for title, some in prompt_lists(difference, SHOWN)]
    return html_paragraphs(difference.sentence, tables, footnotes(difference))


def html_paragraphs(first: str, tables: Sequence[tuple[str, str]], notes: Sequence[str]) -> str:
    """A sentence, titled tables (HTML already) and notes, for notebooks."""
    body = "".join(f"<p>{html.escape(title)}</p>{table}" if title else table for title, table in tables)
    items = "".join(f"<li>{html.escape(note)}</li>" for note in notes)
    return f"<p><strong>{html.escape(first)}</strong></p>{body}<ul>{items}</ul>"


def prompt_lists(difference: Difference, n: int) -> list[tuple[str, list[PromptScore]]]:
    """The prompts that decide it, at most `n` in a list, each list with its title; empty lists are left out."""
    new, old, prompts = difference.new, difference.old, difference.prompts
    changes = [(prompt, prompt.change or 0.0) for prompt in prompts if prompt.change]
    if difference.scores is not None:
        return difference.scores.deciding_prompts(prompts, new, old, n)
    if difference.then_and_now:
        fell = sorted((pair for pair in changes if pair[1] < 0.0), key=lambda pair: (pair[1], pair[0].prompt))
        rose = sorted((pair for pair in changes if pair[1] > 0.0), key=lambda pair: (-pair[1], pair[0].prompt))
        lists = {"prompts where it fell most": fell, "prompts where it rose most": rose}
    else:
        scored = [(prompt, prompt.change or 0.0) for prompt in prompts]
        lost = sorted((p for p in scored if p[0].net < 0), key=lambda p: (p[0].net, p[1], p[0].prompt))
        won = sorted((p for p in scored if p[0].net > 0), key=lambda p: (-p[0].net, -p[1], p[0].prompt))
        lists = {f"prompts where {new} lost most to {old}": lost, f"prompts where {new} won most against {old}": won}
        if difference.n_battles > (0.0 if difference.direct is None else difference.direct.n_battles):
            differing = sorted(changes, key=lambda p: (-abs(p[1]), p[1], p[0].prompt))
            lists["prompts where the two fared most differently against everybody"] = differing
    return [(title, [prompt for prompt, _ in some[:n]]) for title, some in lists.items() if some[:n]]


def footnotes(difference: Difference, *, missing: bool = True) -> list[str]:
    """What a reader should know about the numbers."""
    names = [CLUSTER_NAMES.get(way["column"], way["column"]) for way in difference.interval.get("clusters", ())]
    single = "battle" if difference.scores is None else "answer"
    how = f"{percent(difference.level)} intervals by {' and '.join(names) if names else single}"
    if difference.picked_from > 1:
        how += f": {percent(1.0 - (1.0 - difference.level) * difference.picked_from)} for the best of "
        how += f"{difference.picked_from:,} candidates"
    if difference.anytime:
        how += ", valid however often you look"
    left = [f"left out: {count:,.0f} × {reason}" for reason, count in difference.left_out.items() if count]
    gone = difference.missing
    lost = [f"{gone.sentence}{gone.done}"] if missing and gone is not None else []
    if difference.scores is not None and gone is not None:
        cases = gone.cases(difference.new, difference.unit, difference.level, anytime=difference.anytime)
        lost = [f"{line}; {cases}" for line in lost]
    return [how, *lost, *difference.remarks, *left]


def _estimates(difference: Difference) -> Table:
    level = percent(difference.level)
    heads = ["", "difference", level, f"{difference.new} is better", "win rate", level, "battles"]
    rows = []
    if difference.direct is not None and difference.direct.estimate is not None:
        rows.append(["against each other", *_numbers(difference.direct.estimate)])
    only_direct = (
        difference.direct is not None
        and difference.direct.n_battles - difference.direct.both_bad >= difference.n_battles
    )
    if not only_direct:
        rows.append(["all battles", *_numbers(difference.estimate)])
    return Table.of(heads, [*rows, *_worst_rows(difference)])


def _worst_rows(difference: Difference) -> list[list[str]]:
    """The difference with every matchup without a verdict decided one way, where the interval is to cover that."""
    if difference.missing is None or difference.missing.rule == "ignore":
        return []
    worst, rows = difference.missing.worst(), []
    for word, one in (("against", worst.against), ("for", worst.in_favour)):
        title = f"with the missing {len(difference.missing):,} {word} {difference.new}"
        if one is None:
            rows.append([title, "no rating"])
            continue
        ends = between(*one.ends(difference.level, anytime=difference.anytime))
        battles = f"{difference.n_battles + len(difference.missing):,.0f}"
        rows.append(
            [
                title,
                signed(one.points),
                ends,
                sureness(one.probability_above(anytime=difference.anytime)),
                "–",
                "–",
                battles,
            ]
        )
    return rows


def _numbers(estimate: EstimatedDifference) -> list[str]:
    rates = (
        "–" if estimate.win_rate_low is None else f"{share(estimate.win_rate_low)} to {share(estimate.win_rate_high)}"
    )
    return [
        signed(estimate.difference),
        between(estimate.low, estimate.high),
        sureness(estimate.probability_better),
        share(estimate.win_rate),
        rates,
        f"{estimate.n_battles:,.0f}",
    ]


def _counts(difference: Difference) -> list[str]:
    if difference.direct is None:
        return [
            "",
            f"{difference.new} and {difference.old} never met: the difference comes through the models both met",
        ]
    one = difference.direct
    parts = [f"{one.wins:,.0f} won", f"{one.losses:,.0f} lost", f"{one.ties:,.0f} tied"]
    if one.both_bad:
        parts.append(f"{one.both_bad:,.0f} both bad")
    return ["", f"{difference.new} against {difference.old}: {', '.join(parts)}"]


def _part_table(difference: Difference, column: str) -> Table:
    if difference.scores is not None:
        return _score_parts(difference, column)
    heads = [column, "difference", "interval", f"{difference.new} is better", "win rate", "interval", "battles"]
    rows = [
        [part.value, part.reason or ""] if part.estimate is None else [part.value, *_numbers(part.estimate)]
        for part in difference.parts
        if part.column == column
    ]
    return Table.of(heads, rows)


def _score_parts(difference: Difference, column: str) -> Table:
    unit = difference.unit
    heads = [column, difference.new, difference.old, "difference", "interval", f"{difference.new} is better", "prompts"]
    rows = []
    for part in difference.parts:
        one, means = part.estimate, part.means
        if part.column != column:
            continue
        if one is None or means is None:
            rows.append([part.value, part.reason or ""])
            continue
        size = [unit.signed(one.difference), unit.between(one.low, one.high), sureness(one.probability_better)]
        rows.append([part.value, *map(unit.mean, means), *size, f"{one.n_battles:,.0f}"])
    return Table.of(heads, rows)


def prompt_table(difference: Difference, prompts: Sequence[PromptScore]) -> Table:
    """One row for each prompt; texts only where there are some."""
    no_counts = difference.then_and_now or difference.scores is not None
    counts = [] if no_counts else ["won", "lost", "tied"]
    names = ("now", "then") if difference.then_and_now else (f"mean of {difference.new}", f"mean of {difference.old}")
    columns = [TableColumn("prompt"), *(TableColumn(name, left=False) for name in (*counts, *names))]
    rows = []
    for one in prompts:
        record = [] if no_counts else [f"{value:,.0f}" for value in (one.wins, one.losses, one.ties)]
        means = map(_score if difference.scores is None else prompt_score, (one.new_score, one.old_score))
        rows.append([_cut(one.prompt), *record, *means])
    if any(one.text for one in prompts):
        columns.append(TableColumn("text"))
        rows = [[*row, _cut(" ".join((one.text or "").split()))] for row, one in zip(rows, prompts, strict=True)]
    return Table(columns, rows)


def _cut(text: str) -> str:
    return text if len(text) <= TEXT_WIDTH else text[: TEXT_WIDTH - 1] + "…"


def _score(value: float | None) -> str:
    return "–" if value is None or math.isnan(value) else f"{value:.2f}"


def prompt_score(value: float | None) -> str:
    """The mean score on one prompt: 1, 0.67, 12.5."""
    return "–" if value is None or math.isnan(value) else f"{value:.4g}".replace("-", "−")


def run_sentence(runs: RunComparison) -> str:
    """What moved: the only entrant with new answers, or everyone who moved by more than noise."""
    if len(runs.changed) == 1:
        return sentence(runs.changed[0].difference)
    moved = sorted((one for one in runs.changes if one.beyond_noise), key=lambda one: -abs(one.difference.difference))
    on = "" if runs.n_prompts is None else f" on {runs.n_prompts:,} shared prompt{'s' if runs.n_prompts != 1 else ''}"
    apart = {one.entrant: otherwise(one.difference, len(runs.changes)) for one in runs.changes}
    some = ", ".join(
        f"{one.entrant} {signed(one.difference.difference)} ({between(one.difference.low, one.difference.high)})"
        f"{apart.pop(one.entrant)}"
        for one in moved[:5]
    )
    rest = "".join(f"; {name}: {text.removeprefix(', but ')}" for name, text in apart.items() if text)
    if not moved:
        text = f"no entrant of {len(runs.changes)} moved by more than noise between {runs.old} and {runs.new}{on}"
        return f"{text}{rest}."
    return f"{len(moved)} of {len(runs.changes)} entrants moved by more than noise{on}: {some}{rest}."


def changes_table(runs: RunComparison, shape: str, shown: int = SHOWN) -> str:
    """The comparison for people, as plain text, Markdown or HTML."""
    heads = ["entrant", "then", "now", "change", percent(runs.level), "better", "place", "answers", ""]
    titled = [(f"{runs.new} against {runs.old}", Table.of(heads, [_row(change) for change in runs.changes]))]
    shown_of = runs.changed or [change for change in runs.changes if change.beyond_noise]
    for change in shown_of[:3]:
        titled += [
            (f"{title} ({change.entrant})", prompt_table(change.difference, prompts))
            for title, prompts in prompt_lists(change.difference, shown)
        ]
    notes = run_footnotes(runs)
    if shape == "md":
        blocks = [f"**{markdown_text(runs.sentence)}**"]
        blocks += [block for title, table in titled for block in (markdown_text(f"{title}:"), table.markdown())]
        return "\n\n".join([*blocks, "\n".join(f"- {markdown_text(note)}" for note in notes)]) + "\n"
    if shape == "html":
        return html_paragraphs(runs.sentence, [(title, table.html()) for title, table in titled], notes)
    lines = [runs.sentence]
    for title, table in titled:
        lines += ["", f"{title}:", *table.text()]
    return "\n".join([*lines, "", *notes])


def _row(change: EntrantChange) -> list[str]:
    result = change.difference
    place = f"{change.rank_old} → {change.rank_new}" if change.rank_old != change.rank_new else str(change.rank_new)
    answers = {None: "–", True: "changed", False: "same"}[change.answers_changed]
    return [
        change.entrant,
        f"{change.rating_old:.0f}",
        f"{change.rating_new:.0f}",
        signed(result.difference),
        between(result.low, result.high),
        sureness(result.probability_better),
        place,
        answers,
        "more than noise" if change.beyond_noise else "",
    ]


def run_footnotes(runs: RunComparison) -> list[str]:
    """What a reader should know about the changes."""
    what = ", ".join(runs.zero[:6]) + (", …" if len(runs.zero) > 6 else "")
    everyone = len(runs.zero) == len(runs.changes)
    zero = (
        "changes are measured from the mean of all shared entrants: one that rises lowers the others"
        if everyone
        else f"changes are measured from {what}: the answers are the same in both runs"
    )
    more = "“more than noise” holds for all entrants at once"
    return [f"{percent(runs.level)} intervals; {more}", zero, *runs.notes]

"""The weekly report as HTML: its sections for any page that frames them, and one self-contained file.

The file has no script and loads nothing; it works in light and dark, and in print.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tiltyard.arena.blindness import NOT_BLIND
from tiltyard.arena.board import BoardRow
from tiltyard.arena.weekly import WeeklyReport
from tiltyard.pages.document import document, package_text
from tiltyard.pages.figures import day, points, signed, signed_percent
from tiltyard.pages.markup import Html, el, join, number, pairs, percent, plain, rating, table
from tiltyard.pages.svg import axis
from tiltyard.report.weekly.pictures import (
    band_picture,
    band_scale,
    exposure_picture,
    off_scale,
    prediction_picture,
    rank_chart,
    share_picture,
)
from tiltyard.report.weekly.text import (
    CONFIDENCE_NOTE,
    LANES_OFF,
    QUALITY_FINE,
    calibration_sentence,
    churn_sentences,
    confidence_rows,
    exposure_sentences,
    lane_sentence,
    misfit_sentences,
    note_sentence,
    offline_sentences,
    quality_sentence,
    rule_numbers,
    side_sentence,
    stability_sentences,
    status_sentence,
    worth_knowing,
)
from tiltyard.validity.churn import Known

Head = list[str | tuple[str, str]]

NAVIGATION = {
    "fairness": "Fairness",
    "pairs": "Pairs",
    "confidence": "Confidence",
    "churn": "Churn",
    "flags": "Flags",
}
"""Shorter names of sections."""

STYLE = """
.hidden { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
.scroll { position: relative; }
.verdict { display: inline-block; margin: .2rem 0 1rem; padding: .25rem .9rem; border: 1.5px solid currentColor;
  border-radius: 2rem; font: 600 1.05rem/1.5 var(--sans); }
.verdict.stable { color: var(--good); }
.verdict.calibrating { color: var(--odd); }
.tiles { margin: 1.4rem 0 0; }
.met { color: var(--good); font-weight: 600; }
.unmet { color: var(--odd); font-weight: 600; }
.band { fill: var(--accent); fill-opacity: .13; stroke: none; }
.dot.out { fill: var(--odd); }
.ranks { display: block; width: 100%; min-width: 40rem; height: auto; }
.ranks text { font: 13px var(--sans); fill: var(--muted); }
.ranks .name { fill: var(--ink); }
.way path { fill: none; stroke: var(--muted); stroke-opacity: .45; stroke-width: 1.5; }
.way circle { fill: var(--muted); }
.way.moved path { stroke: var(--accent); stroke-opacity: 1; stroke-width: 2.5; }
.way.moved circle { fill: var(--accent); }
.measures :is(td, th) { padding-block: .15rem; white-space: nowrap; }
.measures .chart { width: 24rem; min-width: 15rem; padding: 0 1.6rem 0 .2rem; }
section > p { max-width: 48rem; margin: 0 0 .7rem; }
section > .scroll + p { margin-top: 1rem; }
section > h3 { margin-top: 1.2rem; }
@media print { nav { display: none; } section { break-inside: avoid-page; } }
"""


@dataclass(frozen=True, slots=True)
class Labels:
    """How a page shows a model and a pair of models: as plain names here, as links on a site."""

    model: Callable[[str], str] = str
    pair: Callable[[str, str], str] = "{} – {}".format


def weekly_page(report: WeeklyReport, title: str = "Validity report") -> str:
    """The report as one HTML file."""
    sections = {"status": ("Status", join(_status(report))), **weekly_sections(report)}
    nav = [el("a", NAVIGATION.get(anchor, name), href=f"#{anchor}") for anchor, (name, _) in sections.items()]
    body = [
        _header(report, title),
        el("nav", *nav, aria_label="Sections"),
        el("main", *[section(anchor, *part) for anchor, part in sections.items()]),
    ]
    return document(title, body, style=package_text("tiltyard.report", "style.css") + STYLE)


def weekly_sections(report: WeeklyReport, labels: Labels | None = None) -> dict[str, tuple[str, Html]]:
    """Everything below the header, by anchor: the title and contents of each section, for any page that frames them."""
    named = report if labels is None else by_shown_name(report)
    labels = labels or Labels()
    sections = {
        "fairness": ("Coverage fairness", _exposure(report, labels)),
        "pairs": ("Pair completeness", _pairs(report, labels)),
        "confidence": ("Confidence stability", _confidence(report, named, labels)),
        **_checks(report),
        "churn": ("Top-rank churn against confidence bands", _churn(named)),
        "lanes": ("Lanes and sides", _lanes(named)),
        "flags": ("Quality, flags, exclusions", _flags(named)),
    }
    if report.offline is not None:
        sections["offline"] = ("Intervals and ranges of ranks", _offline(report, labels))
    if misfit_sentences(named):
        verdict, *checks = misfit_sentences(named)
        sections["fit"] = ("Model fit", [el("p", verdict), el("ul", *[el("li", line) for line in checks])])
    return {anchor: (title, join(parts)) for anchor, (title, parts) in sections.items()}


def section(anchor: str, title: str, contents: Html) -> Html:
    """A section with its heading."""
    return el("section", el("h2", title), contents, id=anchor)


def by_shown_name(report: WeeklyReport) -> WeeklyReport:
    """The same report for its sentences and its chart, with models under their display names.

    Where two models share a name, their ids tell them apart.
    """
    rows = report.board.rows
    shared = Counter(row.display_name for row in rows)
    names = {
        row.model: row.display_name if shared[row.display_name] == 1 else f"{row.display_name} ({row.model})"
        for row in rows
    }

    def shown(models: Iterable[str]) -> tuple[str, ...]:
        return tuple(names.get(model, model) for model in models)

    churn = report.churn
    swaps = tuple(replace(s, rose=shown([s.rose])[0], fell=shown([s.fell])[0]) for s in churn.swaps)
    offline = report.offline
    if offline is not None and offline.misfit is not None:
        offline = replace(offline, misfit=_renamed(offline.misfit, names))
    return replace(
        report,
        offline=offline,
        models=shown(report.models),
        model_names=shown(report.model_names),
        stability=replace(report.stability, left_band=shown(report.stability.left_band)),
        churn=replace(churn, swaps=swaps, entered=shown(churn.entered), left=shown(churn.left)),
        looks=tuple(
            replace(look, standings=dict(zip(shown(look.standings), look.standings.values(), strict=True)))
            for look in report.looks
        ),
    )


def _renamed(found: Any, names: Mapping[str, str]) -> Any:
    """A record of checks with models under their display names."""
    if isinstance(found, Mapping):
        return {
            key: names.get(value, value)
            if key in ("model", "against") and isinstance(value, str)
            else _renamed(value, names)
            for key, value in found.items()
        }
    return [_renamed(one, names) for one in found] if isinstance(found, list | tuple) else found


def _said(sentences: Sequence[str]) -> list[Html]:
    return [el("p", sentence) for sentence in sentences]


def _header(report: WeeklyReport, title: str) -> Html:
    stable = report.board.publication.status == "officially stable"
    return el(
        "header",
        el("p", "Live arena", class_="over"),
        el("h1", title),
        el("p", f"{day(report.since)} to {day(report.until)} · phase {report.board.phase}", class_="when"),
        el(
            "p", report.board.publication.status.capitalize(), class_=f"verdict {'stable' if stable else 'calibrating'}"
        ),
        el("p", status_sentence(report), class_="sub"),
        *([] if report.blind else [el("p", NOT_BLIND, class_="unmet")]),
        tiles(report),
    )


def tiles(report: WeeklyReport) -> Html:
    """The week in figures."""
    fair, churn = report.exposure, report.churn
    return pairs(
        (
            ("counted votes", number(report.votes)),
            ("voters", number(report.voters)),
            ("matchups served", number(report.events.get("matchup_served", 0))),
            ("models in tolerance", join([number(int(fair.within.sum())), el("small", f" of {fair.looked_at}")])),
            ("swaps beyond bands", join([number(len(churn.beyond_bands)), el("small", f" of {len(churn.swaps)}")])),
        ),
        class_="tiles",
    )


def _status(report: WeeklyReport) -> list[Html]:
    rows: list[list[str]] = []
    for rule in report.board.publication.deciding:
        found, needed = rule_numbers(rule)
        met = el("span", "met", class_="met") if rule.met else el("span", "not met", class_="unmet")
        rows.append([rule.name.capitalize(), found, needed, met, plain(rule.detail)])
    beside = worth_knowing(report.board.publication)
    shown = table(["Rule", ("Found", "num"), "Needed", "", ""], rows, class_="rules")
    return [shown, *([el("p", beside)] if beside else [])]


def _exposure(report: WeeklyReport, labels: Labels) -> list[Html]:
    fair = report.exposure
    scale = off_scale(fair.off.tolist(), fair.tolerance)
    rows = []
    for place, row in enumerate(report.board.rows):
        off, shown = float(fair.off[place]), labels.model(row.model)
        drawn = Html("")
        if off == off:
            label = f"{plain(shown)}: {signed_percent(off)} off its target"
            drawn = exposure_picture(scale, off, fair.tolerance, label)
        rows.append(
            [
                shown,
                number(int(fair.exposures[place])),
                rating(float(fair.targets[place])),
                el("td", drawn, class_="chart"),
                el("td", signed_percent(off), class_="num" if fair.within[place] else "num unmet"),
                percent(row.prompt_coverage),
            ]
        )
    head: Head = ["Model", ("Exposures", "num"), ("Target", "num")]
    head += [_over("Off target, tolerance shaded", axis(scale, " %")), ("Off", "num"), ("Prompt coverage", "num")]
    return [*_said(exposure_sentences(report)), *_table(head, rows)]


def _table(head: Head, rows: list[list[str]], class_: str | None = "measures") -> list[Html]:
    return [table(head, rows, class_=class_)] if rows else []


def _over(words: str, drawn: Html) -> tuple[str, str]:
    return join([words, drawn]), "chart"


def _drawn(words: str = "Chart") -> tuple[str, str]:
    """The head of a column of pictures, with a label only for screen readers."""
    return el("span", words, class_="hidden"), "chart"


def _pairs(report: WeeklyReport, labels: Labels) -> list[Html]:
    rows = [
        [
            labels.pair(pair.above, pair.below),
            number(pair.decisive),
            number(pair.prompts),
            el(
                "td", share_picture(pair.completeness, 1.0, f"{100 * pair.completeness:.0f} % complete"), class_="chart"
            ),
            el("td", percent(pair.completeness), class_="num" if pair.completeness >= 1 else "num unmet"),
        ]
        for pair in report.pairs
    ]
    if not rows:
        return [el("p", "There are no two models to compare.")]
    note = "Decisive votes between models next to each other at the top, and the prompts they were cast on, against "
    head: Head = ["Adjacent pair", ("Decisive votes", "num"), ("Prompts", "num"), _drawn(), ("Complete", "num")]
    return [el("p", note, "the minimum that the policy asks for.", class_="note"), *_table(head, rows)]


def _confidence(report: WeeklyReport, named: WeeklyReport, labels: Labels) -> list[Html]:
    said = _said(stability_sentences(named))
    if not report.board.rows:
        return said
    scale = band_scale(report.looks)
    rows = []
    for row, then, known in bands(report):
        shown, left = labels.model(row.model), row.model in report.stability.left_band
        label = f"{plain(shown)}: {known.rating:.0f}, {known.low:.0f} to {known.high:.0f}"
        rows.append(
            [
                shown,
                row.badge.value,
                el("td", band_picture(scale, then, known, label), class_="chart"),
                rating(known.rating, 0),
                rating(then.deviation if then else None),
                rating(known.deviation),
                el("span", "left its band", class_="unmet") if left else "",
            ]
        )
    head: Head = ["Model", "Badge", _over("Rating ± 2 deviations; shaded: at the start", axis(scale))]
    head += [("Rating", "num"), ("Deviation then", "num"), ("now", "num"), el("span", "Left its band", class_="hidden")]
    return [*said, *_table(head, rows)]


def _checks(report: WeeklyReport) -> dict[str, tuple[str, list[Html]]]:
    """Whether confidence held, and whether ratings predict votes; nothing where neither is known."""
    sections: dict[str, tuple[str, list[Html]]] = {}
    if report.confidence:
        head: Head = ["Confidence", ("Ratings", "num"), ("Stated", "num"), ("Held", "num")]
        rows = [[plain(cell) for cell in row] for row in confidence_rows(report)]
        note = el("p", CONFIDENCE_NOTE, class_="note")
        sections["stated"] = ("Did stated confidence hold?", [note, *_table(head, rows, None)])
    if report.calibration is not None and report.calibration.bins:
        head = [("Predicted", "num"), _drawn(), ("Observed", "num"), ("Votes", "num")]
        rows = [
            [
                percent(piece.predicted),
                el("td", prediction_picture(piece), class_="chart"),
                percent(piece.observed),
                number(piece.votes),
            ]
            for piece in report.calibration.bins
        ]
        said = el("p", calibration_sentence(report))
        sections["calibration"] = ("Predicted against observed", [said, *_table(head, rows)])
    return sections


def bands(report: WeeklyReport) -> list[tuple[BoardRow, Known | None, Known]]:
    """The standings of each model of the board at the start of the period and now."""
    before, now = report.looks[0].standings, report.looks[-1].standings
    return [(row, before.get(row.model), now[row.model]) for row in report.board.rows]


def _churn(report: WeeklyReport) -> list[Html]:
    said = _said(churn_sentences(report))
    if not report.board.rows:
        return said
    return [*said, el("div", rank_chart(report), class_="scroll", tabindex="0", role="group", aria_label="Places")]


def _lanes(report: WeeklyReport) -> list[Html]:
    side = el("p", side_sentence(report))
    if not report.lanes_on:
        return [el("p", LANES_OFF), side]
    rows: list[list[str]] = [
        [
            lane.lane,
            number(lane.served),
            el("td", share_picture(lane.share, lane.weight, f"{lane.lane}: {100 * lane.share:.1f} %"), class_="chart"),
            percent(lane.share, 1),
            percent(lane.weight),
            signed(lane.sigmas, 1),
        ]
        for lane in report.lanes
    ]
    head: Head = ["Lane", ("Served", "num"), _drawn(), ("Share", "num"), ("Asked first", "num"), ("σ", "num")]
    closed = lane_sentence(report)
    return [*_table(head, rows), *([el("p", closed)] if closed else []), side]


def _flags(report: WeeklyReport) -> list[Html]:
    blocks = (
        ("Both-bad rates", [quality_sentence(report, flag) for flag in report.quality], QUALITY_FINE),
        ("Flags", [note_sentence(note) for note in report.flags], "None in this period."),
        ("Exclusions", [note_sentence(note) for note in report.exclusions], "None in this period."),
    )
    parts: list[Html] = []
    for title, lines, none in blocks:
        parts.append(el("h3", title))
        parts.append(el("ul", *[el("li", line) for line in lines]) if lines else el("p", none, class_="note"))
    return parts


def _offline(report: WeeklyReport, labels: Labels) -> list[Html]:
    board = report.offline
    assert board is not None
    shown = report.board.raw_ratings
    rows = [
        [
            labels.model(row.model),
            number(row.live_rank),
            _span(row.rank_low, row.rank_high),
            rating(shown.get(row.model), 0),
            join([_span(row.low, row.high), " *" if row.widened else ""]),
            number(row.votes_to_swap),
        ]
        for row in board.rows
    ]
    head: Head = ["Model", ("Place", "num"), "Range of ranks", ("Rating", "num"), "95 % interval"]
    return [*_said(offline_sentences(report)), *_table([*head, ("Votes to swap with next", "num")], rows, None)]


def _span(low: float | None, high: float | None) -> Html:
    """Both ends of an interval; an open one is left out."""
    if low is None and high is None:
        return number(None)
    ends = ["…" if end is None else points(end) for end in (low, high)]
    return el("span", " to ".join(ends), class_="span")

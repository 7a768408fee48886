"""The weekly report as one self-contained page: no script, nothing loaded, light and dark, fit for print."""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING

from tiltyard.arena.blindness import NOT_BLIND
from tiltyard.pages.markup import Html, el, join, number, percent, rating, raw, table
from tiltyard.pages.svg import axis
from tiltyard.report.page import own_file
from tiltyard.report.weekly.pictures import (
    band_picture,
    band_scale,
    exposure_picture,
    off_scale,
    rank_chart,
    share_picture,
)
from tiltyard.report.weekly.text import (
    churn_sentences,
    day,
    exposure_sentences,
    note_sentence,
    offline_sentences,
    quality_sentence,
    rule_numbers,
    side_sentence,
    signed_percent,
    stability_sentences,
    status_sentence,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tiltyard.arena.weekly import WeeklyReport

Head = list[str | tuple[str, str]]

STYLE = """
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


def weekly_page(report: WeeklyReport, title: str = "Validity report") -> str:
    """The text of an HTML file."""
    sections = [
        _section("status", "Status", *_status(report)),
        _section("fairness", "Coverage fairness", *_exposure(report)),
        _section("pairs", "Pair completeness", *_pairs(report)),
        _section("confidence", "Confidence stability", *_confidence(report)),
        _section("churn", "Top-rank churn against confidence bands", *_churn(report)),
        _section("lanes", "Lanes and sides", *_lanes(report)),
        _section("flags", "Quality, flags, exclusions", *_flags(report)),
    ]
    if report.offline is not None:
        sections.append(_section("offline", "Offline rating", *_offline(report)))
    body = [_header(report, title), _navigation(report), el("main", *sections)]
    return _document(title, body)


def _document(title: str, body: Sequence[Html]) -> str:
    style = own_file("style.css") + STYLE
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    head = [
        el("meta", charset="utf-8"),
        el("meta", http_equiv="Content-Security-Policy", content=policy),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", name="color-scheme", content="light dark"),
        el("meta", name="referrer", content="no-referrer"),
        el("title", title),
        raw("style", style),
    ]
    return f"<!doctype html>\n{el('html', el('head', join(head)), el('body', join(body)), lang='en')}\n"


def _section(anchor: str, title: str, *children: Html) -> Html:
    return el("section", el("h2", title), *children, id=anchor)


def _said(sentences: Sequence[str]) -> list[Html]:
    return [el("p", sentence) for sentence in sentences]


def _header(report: WeeklyReport, title: str) -> Html:
    stable = report.board.publication.status == "officially stable"
    fair, churn = report.exposure, report.churn
    served = report.events.get("matchup_served", 0)
    tiles = (
        ("counted votes", number(report.votes)),
        ("voters", number(report.voters)),
        ("matchups served", number(served)),
        ("models in tolerance", join([number(int(fair.within.sum())), el("small", f"of {fair.looked_at}")])),
        ("swaps beyond bands", join([number(len(churn.beyond_bands)), el("small", f"of {len(churn.swaps)} swaps")])),
    )
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
        el("dl", *[el("div", el("dt", what), el("dd", value)) for what, value in tiles], class_="tiles"),
    )


def _navigation(report: WeeklyReport) -> Html:
    places = [("status", "Status"), ("fairness", "Fairness"), ("pairs", "Pairs"), ("confidence", "Confidence")]
    places += [("churn", "Churn"), ("lanes", "Lanes and sides"), ("flags", "Flags")]
    places += [("offline", "Offline rating")] if report.offline is not None else []
    return el("nav", *[el("a", name, href=f"#{anchor}") for anchor, name in places], aria_label="Sections")


def _status(report: WeeklyReport) -> list[Html]:
    rows = []
    for rule in report.board.publication.rules:
        found, needed = rule_numbers(rule)
        met = el("span", "met", class_="met") if rule.met else el("span", "not met", class_="unmet")
        rows.append([rule.name.capitalize(), found, needed, met, rule.detail])
    return [table(["rule", ("found", "num"), "needed", "", ""], rows, class_="rules")]


def _exposure(report: WeeklyReport) -> list[Html]:
    fair = report.exposure
    scale = off_scale(fair.off.tolist(), fair.tolerance)
    rows = []
    for place, model in enumerate(report.models):
        off, row = float(fair.off[place]), report.board.rows[place]
        drawn = Html("")
        if off == off:
            drawn = exposure_picture(scale, off, fair.tolerance, f"{model}: {signed_percent(off)} off its target")
        rows.append(
            [
                model,
                number(int(fair.exposures[place])),
                number(float(fair.targets[place]), 1),
                el("td", drawn, class_="chart"),
                el("td", signed_percent(off), class_="num" if fair.within[place] else "num unmet"),
                percent(row.prompt_coverage),
            ]
        )
    head: Head = ["model", ("exposures", "num"), ("target", "num"), _over("off target", axis(scale, " %"))]
    head += [("", "num"), ("prompt coverage", "num")]
    return [*_said(exposure_sentences(report)), table(head, rows, class_="measures")]


def _over(words: str, drawn: Html) -> tuple[str, str]:
    return join([words, drawn]), "chart"


def _pairs(report: WeeklyReport) -> list[Html]:
    rows = [
        [
            f"{pair.above} – {pair.below}",
            number(pair.decisive),
            number(pair.prompts),
            el(
                "td", share_picture(pair.completeness, 1.0, f"{100 * pair.completeness:.0f} % complete"), class_="chart"
            ),
            percent(pair.completeness),
        ]
        for pair in report.pairs
    ]
    note = el("p", "Decisive votes between rank neighbours, and the prompts they were cast on, against the floor.")
    head: Head = ["neighbours", ("decisive votes", "num"), ("prompts", "num"), ("", "chart"), ("complete", "num")]
    return [note, table(head, rows, class_="measures")] if rows else [el("p", "There are no two models to compare.")]


def _confidence(report: WeeklyReport) -> list[Html]:
    said = _said(stability_sentences(report))
    if not report.board.rows:
        return said
    before, now = report.looks[0].standings, report.looks[-1].standings
    scale = band_scale(report.looks)
    rows = []
    for row in report.board.rows:
        known, then = now[row.model], before.get(row.model)
        label = f"{row.model}: {known.rating:.0f}, {known.low:.0f} to {known.high:.0f}"
        left = row.model in report.stability.left_band
        rows.append(
            [
                row.model,
                row.badge.value,
                el("td", band_picture(scale, then, known, label), class_="chart"),
                rating(known.rating, 0),
                rating(then.deviation if then else None),
                rating(known.deviation),
                el("span", "left its band", class_="unmet") if left else "",
            ]
        )
    head: Head = [
        "model",
        "badge",
        _over("rating ± 2 deviations; shaded: at the start", axis(scale)),
        ("rating", "num"),
    ]
    head += [("deviation then", "num"), ("now", "num"), ""]
    return [*said, table(head, rows, class_="measures")]


def _churn(report: WeeklyReport) -> list[Html]:
    said = _said(churn_sentences(report))
    if not report.board.rows:
        return said
    return [*said, el("div", rank_chart(report), class_="scroll", tabindex="0", role="group", aria_label="Places")]


def _lanes(report: WeeklyReport) -> list[Html]:
    side = el("p", side_sentence(report))
    if not report.lanes_on:
        return [el("p", "Lanes are off in phase 1: the legacy matchmaking serves."), side]
    rows = [
        [
            lane.lane,
            number(lane.served),
            el("td", share_picture(lane.share, lane.weight, f"{lane.lane}: {100 * lane.share:.1f} %"), class_="chart"),
            percent(lane.share, 1),
            percent(lane.weight),
            number(lane.sigmas, 1, " σ"),
        ]
        for lane in report.lanes
    ]
    head: Head = ["lane", ("served", "num"), ("", "chart"), ("share", "num"), ("asked first", "num"), ("off", "num")]
    return [table(head, rows, class_="measures"), side]


def _flags(report: WeeklyReport) -> list[Html]:
    blocks = (
        ("Rising both-bad rates", [quality_sentence(report, flag) for flag in report.quality], "No rate rose."),
        ("Flags", [note_sentence(note) for note in report.flags], "None in this period."),
        ("Exclusions", [note_sentence(note) for note in report.exclusions], "None in this period."),
    )
    parts: list[Html] = []
    for title, lines, none in blocks:
        parts.append(el("h3", title))
        parts.append(el("ul", *[el("li", line) for line in lines]) if lines else el("p", none, class_="note"))
    return parts


def _offline(report: WeeklyReport) -> list[Html]:
    board = report.offline
    assert board is not None
    rows = [
        [
            row.model,
            number(row.rank),
            _span(row.rank_low, row.rank_high),
            rating(row.rating, 0),
            _span(row.low, row.high),
            rating(row.even_pairs_rating, 0),
            number(row.live_rank),
            number(row.votes_to_swap),
        ]
        for row in board.rows
    ]
    head: Head = ["model", ("rank", "num"), "could be", ("rating", "num"), "95 % interval", ("all pairs alike", "num")]
    head += [("live rank", "num"), ("votes to swap with next", "num")]
    return [*_said(offline_sentences(report)), table(head, rows)]


def _span(low: float | None, high: float | None) -> Html:
    """Two ends; an open one is left out."""
    ends = ["…" if end is None else f"{end:.0f}" for end in (low, high)]
    return el("span", " to ".join(ends), class_="span")

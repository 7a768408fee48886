"""The weekly report as HTML: its sections for any page that frames them, and one self-contained file.

The file has no script and loads nothing; it works in light and dark, and in print.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from tiltyard.arena.blindness import NOT_BLIND
from tiltyard.arena.board import BoardRow
from tiltyard.arena.weekly import WeeklyReport
from tiltyard.pages.html import package_text, page, render
from tiltyard.report.weekly import pictures, text
from tiltyard.validity.churn import Known

SECTIONS = {
    "status": "Status",
    "fairness": "Fairness",
    "pairs": "Pairs",
    "confidence": "Confidence",
    "stated": "Did stated confidence hold?",
    "calibration": "Predicted against observed",
    "churn": "Churn",
    "lanes": "Lanes and sides",
    "flags": "Flags",
    "offline": "Intervals and ranges of ranks",
    "fit": "Model fit",
}
"""What the navigation calls each section, in the order of the page."""

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


Address = Callable[..., str]
"""The address of a model, or of two models; empty: it has none."""


def no_address(*_models: str) -> str:
    """Names are plain text."""
    return ""


def weekly_page(report: WeeklyReport, title: str = "Validity report") -> str:
    """The report as one HTML file."""
    view = week_view(report)
    return page(
        "report/week.html",
        title=title,
        style=package_text("tiltyard.report", "style.css") + STYLE,
        nav=[(anchor, name) for anchor, name in SECTIONS.items() if anchor == "status" or anchor in view["shown"]],
        status_sentence=text.status_sentence(report),
        not_blind=NOT_BLIND,
        rules=[(rule, *text.rule_numbers(rule)) for rule in report.board.publication.deciding],
        beside=text.worth_knowing(report.board.publication),
        **view,
    )


def kept_sections(report: WeeklyReport, names: Mapping[str, str]) -> str:
    """The sentence about its status, the week in figures and every section, for the site to keep and to frame."""
    return render("report/week_sections.html", status_sentence=text.status_sentence(report), **week_view(report, names))


def week_view(
    report: WeeklyReport,
    names: Mapping[str, str] | None = None,
    model_address: Address = no_address,
    pair_address: Address = no_address,
) -> dict[str, Any]:
    """What the sections show; without names, models stand under their ids."""
    named = report if names is None else by_shown_name(report)
    fair = report.exposure
    fit = text.misfit_sentences(named)
    shown = {"fairness", "pairs", "confidence", "churn", "lanes", "flags"}
    shown |= {"stated"} if report.confidence else set()
    shown |= {"calibration"} if report.calibration is not None and report.calibration.bins else set()
    shown |= {"offline"} if report.offline is not None else set()
    shown |= {"fit"} if fit else set()
    return {
        "report": report,
        "shown": shown,
        "names": names,
        "model_address": model_address,
        "pair_address": pair_address,
        "pictures": pictures,
        "exposure_sentences": text.exposure_sentences(report),
        "off_scale": pictures.off_scale(fair.off.tolist(), fair.tolerance),
        "exposures": [
            (row, int(fair.exposures[i]), float(fair.targets[i]), float(fair.off[i]), bool(fair.within[i]))
            for i, row in enumerate(report.board.rows)
        ],
        "stability_sentences": text.stability_sentences(named),
        "band_scale": pictures.band_scale(report.looks),
        "bands": bands(report) if report.board.rows else [],
        "confidence_note": text.CONFIDENCE_NOTE,
        "confidence_rows": text.confidence_rows(report),
        "calibration_sentence": text.calibration_sentence(report),
        "churn_sentences": text.churn_sentences(named),
        "rank_chart": pictures.rank_chart(named) if report.board.rows else None,
        "lanes_off": "" if report.lanes_on else text.LANES_OFF,
        "lane_sentence": text.lane_sentence(named),
        "side_sentence": text.side_sentence(named),
        "flags": [
            ("Both-bad rates", [text.quality_sentence(named, flag) for flag in named.quality], text.QUALITY_FINE),
            ("Flags", [text.note_sentence(note) for note in named.flags], "None in this period."),
            ("Exclusions", [text.note_sentence(note) for note in named.exclusions], "None in this period."),
        ],
        "offline_sentences": text.offline_sentences(report),
        "fit": fit,
    }


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


def _renamed(record: Any, names: Mapping[str, str]) -> Any:
    """A record of checks with models under their display names."""
    if isinstance(record, Mapping):
        return {
            key: names.get(value, value)
            if key in ("model", "against") and isinstance(value, str)
            else _renamed(value, names)
            for key, value in record.items()
        }
    return [_renamed(one, names) for one in record] if isinstance(record, list | tuple) else record


def bands(report: WeeklyReport) -> list[tuple[BoardRow, Known | None, Known]]:
    """The standings of each model of the board at the start of the period and now."""
    before, now = report.looks[0].standings, report.looks[-1].standings
    return [(row, before.get(row.model), now[row.model]) for row in report.board.rows]

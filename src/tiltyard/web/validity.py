"""The validity page as values: the weekly report of the last seven days, in sentences, tables and pictures."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tiltyard.pages.svg import axis
from tiltyard.report.weekly import text as said
from tiltyard.report.weekly.pictures import (
    band_picture,
    band_scale,
    exposure_picture,
    off_scale,
    rank_chart,
    share_picture,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tiltyard.arena.board import BoardRow
    from tiltyard.arena.weekly import AdjacentPair, WeeklyReport
    from tiltyard.pages.markup import Html
    from tiltyard.validity.churn import Known
    from tiltyard.validity.fairness import LaneShare


@dataclass(frozen=True, slots=True)
class ExposureLine:
    """How often one model was shown."""

    row: BoardRow
    exposures: int
    target: float
    off: str
    within: bool
    picture: Html | None


@dataclass(frozen=True, slots=True)
class BandLine:
    """One model's band at the start of the week and now."""

    row: BoardRow
    before: Known | None
    now: Known
    left: bool
    picture: Html


@dataclass(frozen=True, slots=True, eq=False)
class ValidityPage:
    """Everything that the page says."""

    report: WeeklyReport
    status: str
    rules: tuple[tuple[str, str, str, bool, str], ...]
    exposure_said: list[str]
    exposures: tuple[ExposureLine, ...]
    exposure_axis: Html
    pairs: tuple[tuple[AdjacentPair, Html], ...]
    stability_said: list[str]
    bands: tuple[BandLine, ...]
    band_axis: Html | None
    churn_said: list[str]
    ranks: Html | None
    lanes: tuple[tuple[LaneShare, Html], ...]
    side_said: str
    quality: list[str]
    flags: list[str]
    exclusions: list[str]
    offline_said: list[str]


def validity_page(report: WeeklyReport) -> ValidityPage:
    """The page of a report."""
    shown = bool(report.board.rows)
    fair, named = report.exposure, by_shown_name(report)
    return ValidityPage(
        report=report,
        status=said.status_sentence(report),
        rules=tuple(
            (rule.name, *said.rule_numbers(rule), rule.met, rule.detail) for rule in report.board.publication.rules
        ),
        exposure_said=said.exposure_sentences(report),
        exposures=_exposures(report),
        exposure_axis=axis(off_scale(fair.off.tolist(), fair.tolerance), " %"),
        pairs=tuple(
            (pair, share_picture(pair.completeness, 1.0, f"{100 * pair.completeness:.0f} %")) for pair in report.pairs
        ),
        stability_said=said.stability_sentences(named),
        bands=_bands(report),
        band_axis=axis(band_scale(report.looks)) if shown else None,
        churn_said=said.churn_sentences(named),
        ranks=rank_chart(named) if shown else None,
        lanes=tuple(
            (lane, share_picture(lane.share, lane.weight, f"{lane.lane}: {100 * lane.share:.1f} %"))
            for lane in report.lanes
        ),
        side_said=said.side_sentence(named),
        quality=[said.quality_sentence(named, flag) for flag in report.quality],
        flags=[said.note_sentence(note) for note in report.flags],
        exclusions=[said.note_sentence(note) for note in report.exclusions],
        offline_said=said.offline_sentences(report),
    )


def validity_values(report: WeeklyReport) -> dict[str, Any]:
    """What the page shows, as plain values: the report, and every model's band at the start of the week and now."""
    return {**report.to_dict(), "bands": [_band_values(line) for line in _bands(report)]}


def _band_values(line: BandLine) -> dict[str, Any]:
    before, now = line.before, line.now
    return {
        "model": line.row.model,
        "rating_before": None if before is None else before.rating,
        "deviation_before": None if before is None else before.deviation,
        "rating": now.rating,
        "deviation": now.deviation,
        "left_band": line.left,
    }


def by_shown_name(report: WeeklyReport) -> WeeklyReport:
    """The same report for its sentences and its chart, with models under the names that visitors know.

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
    return replace(
        report,
        models=shown(report.models),
        model_names=shown(report.model_names),
        stability=replace(report.stability, left_band=shown(report.stability.left_band)),
        churn=replace(churn, swaps=swaps, entered=shown(churn.entered), left=shown(churn.left)),
        looks=tuple(
            replace(look, standings=dict(zip(shown(look.standings), look.standings.values(), strict=True)))
            for look in report.looks
        ),
    )


def _exposures(report: WeeklyReport) -> tuple[ExposureLine, ...]:
    fair = report.exposure
    scale = off_scale(fair.off.tolist(), fair.tolerance)
    lines = []
    for place, row in enumerate(report.board.rows):
        off = float(fair.off[place])
        words = said.signed_percent(off)
        picture = exposure_picture(scale, off, fair.tolerance, f"{row.display_name}: {words}") if off == off else None
        lines.append(
            ExposureLine(
                row, int(fair.exposures[place]), float(fair.targets[place]), words, bool(fair.within[place]), picture
            )
        )
    return tuple(lines)


def _bands(report: WeeklyReport) -> tuple[BandLine, ...]:
    before, now = report.looks[0].standings, report.looks[-1].standings
    scale = band_scale(report.looks)
    lines = []
    for row in report.board.rows:
        known, then = now[row.model], before.get(row.model)
        label = f"{row.display_name}: {known.rating:.0f}, {known.low:.0f} to {known.high:.0f}"
        left = row.model in report.stability.left_band
        lines.append(BandLine(row, then, known, left, band_picture(scale, then, known, label)))
    return tuple(lines)

"""The weekly report as Markdown and as JSON, and the sentences shared with the page."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence

import msgspec

from tiltyard.analysis.boards import MisfitFacts, fit_sentences, fit_verdict
from tiltyard.arena import NOT_BLIND, FailingModel, Note, Publication, Rule, WeeklyReport
from tiltyard.arena.matchmaking import THREE_SIGMA
from tiltyard.render import Table, day, markdown_text, percent, plural, points, signed_percent

QUALITY_FINE = "No both-bad rate rose or is high."
LANES_OFF = "Lanes are off in phase 1: the legacy matchmaking is in use."


def weekly_json(report: WeeklyReport) -> str:
    """The report as indented JSON."""
    return json.dumps(msgspec.to_builtins(report.facts()), indent=2, ensure_ascii=False) + "\n"


def rule_numbers(rule: Rule) -> tuple[str, str]:
    """What a rule found and what it needs, in its own unit."""
    return _in_unit(rule, rule.value), f"{'at most' if rule.at_most else 'at least'} {_in_unit(rule, rule.needed)}"


def _in_unit(rule: Rule, value: float | None) -> str:
    if value is None:
        return "–"
    if rule.unit == "share":
        return f"{round(100 * value, 1 if rule.ours else 0):g} %"
    return f"{value:.1f}" if rule.unit == "points" else f"{value:g} {rule.unit}"


def status_sentence(report: WeeklyReport) -> str:
    """Whether the board may be called stable, in one sentence."""
    status = report.board.publication
    missing = [rule.name for rule in status.deciding if not rule.met]
    if not missing:
        return f"Officially stable: the top {status.top} models meet all {len(status.deciding)} rules."
    return f"Calibrating. {'Rule' if len(missing) == 1 else 'Rules'} not met: {', '.join(missing)}."


def worth_knowing(status: Publication) -> str:
    """What our own rules found, in one sentence; empty where they are switched off."""
    parts = []
    for rule in status.beside:
        value, needed = rule_numbers(rule)
        if not rule.met:
            needed = f"{'more' if rule.at_most else 'less'} than {_in_unit(rule, rule.needed)}"
        parts.append(f"{rule.name} {'not known yet' if rule.value is None else f'{value} ({needed})'}")
    return f"Also worth knowing, without an effect on the label: {', '.join(parts)}." if parts else ""


def lane_sentence(report: WeeklyReport) -> str:
    """Why lanes' shares differ from the policy's if the contender lane is or was closed; empty when it was open."""
    lane = report.contender_lane
    if report.phase == 1 or (lane.open and not lane.closed_for):
        return ""
    if lane.open:
        return (
            f"Shares differ from the policy's, because the contender lane was closed for the first {lane.closed_for:,} "
            f"of {sum(one.served for one in report.lanes):,} matchups: it opens when each of the top {lane.models} "
            f"models has {lane.votes_needed} rated votes. Until then its turns went to the coverage lane."
        )
    return (
        f"Shares differ from the policy's for now, because the contender lane is closed: it opens when each of the top "
        f"{lane.models} models has {lane.votes_needed} rated votes, and {lane.ready} of them have. Until then its "
        "turns go to the coverage lane."
    )


def exposure_sentences(report: WeeklyReport) -> list[str]:
    """Who was shown how often, in sentences."""
    fair = report.coverage_fairness
    if not fair.matchups:
        return ["Nothing was voted on in the window."]
    sentences = [
        f"{fair.in_tolerance} of {fair.looked_at} models are within ±{100 * fair.tolerance:.0f} % of their "
        f"target over the last {fair.matchups:,} matchups that were voted on."
    ]
    if fair.targets_differ:
        aimed = [one.target for one in fair.models if one.target > 0.0]
        even, top, other = fair.in_tolerance_of_even_target, max(aimed), min(aimed)
        sentences.append(
            f"An even share would be {fair.even_target:.1f} exposures (2W/M); {even} models are within tolerance "
            "of that. The contender lane alone gave some models more: their target is what it gave "
            f"(up to {top:.1f}); the others share the rest and have a target of {other:.1f}."
        )
    return sentences


def stability_sentences(report: WeeklyReport) -> list[str]:
    """How confidence changed, in sentences."""
    stability = report.confidence_stability
    if stability.median_deviation_before is None or stability.median_deviation_after is None:
        return ["No model was on the board both at the start and at the end of the period."]
    sentences = [
        f"The median deviation went from {stability.median_deviation_before:.1f} to "
        f"{stability.median_deviation_after:.1f} over {plural(stability.models, 'model')}."
    ]
    if stability.left_band:
        sentences.append(
            f"{len(stability.left_band)} of {stability.models} ratings left the band (± 2 deviations) they had at the "
            f"start: {', '.join(stability.left_band)}. About 1 in 20 would by chance."
        )
    else:
        sentences.append("No rating left the band (± 2 deviations) it had at the start.")
    return sentences


CONFIDENCE_NOTE = (
    "Confidence is 2Φ(25/RD) − 1: the chance that a rating is within 25 points of the truth, if RD were a standard "
    "error. Checked on earlier boards, after 1/8 to 7/8 of the votes: was the rating then within 25 points of what "
    "Bradley–Terry over all votes says now? That value is not the truth either, and it rests on the earlier votes too."
)


def confidence_rows(report: WeeklyReport) -> list[tuple[str, str, str, str]]:
    """Stated confidence against how often it held: the bin, ratings in it, stated, held."""
    return [
        (f"{one.low}–{one.high} %", f"{one.ratings:,}", f"{one.stated:.0f} %", percent(one.held / one.ratings))
        for one in report.confidence_calibration
    ]


def calibration_sentence(report: WeeklyReport) -> str:
    """How well the ratings predict votes, in one sentence; empty without votes."""
    curve = report.calibration
    if curve is None or curve.brier is None or curve.brier_of_half is None:
        return ""
    return (
        f"Each of {plural(curve.votes, 'rated vote')} was predicted from the ratings before it: Brier score "
        f"{curve.brier:.3f}; always predicting one half would score {curve.brier_of_half:.3f}."
    )


def churn_sentences(report: WeeklyReport) -> list[str]:
    """What moved at the top, in sentences."""
    churn = report.top_churn
    beyond = [swap for swap in churn.swaps if not swap.within_bands]
    sentences = [
        f"{plural(len(churn.swaps), 'swap')} in the top {churn.top} over {plural(churn.looks, 'snapshot')}: "
        f"{len(churn.swaps) - len(beyond)} between models whose bands overlapped, {len(beyond)} beyond their bands."
    ]
    sentences += [
        f"Beyond their bands: {swap.rose} passed {swap.fell}, whose whole band had been above." for swap in beyond
    ]
    if churn.entered or churn.left:
        sentences.append(f"Entered: {', '.join(churn.entered) or 'none'}. Left: {', '.join(churn.left) or 'none'}.")
    return sentences


def side_sentence(report: WeeklyReport) -> str:
    """Whether sides were drawn fairly, in one sentence."""
    sides = report.sides
    if sides.first_named_as_a is None:
        return "No matchups were served."
    off = sides.off_balance
    tail = f" Off balance: {', '.join(off)}." if off else " No model was on one side more often than chance allows."
    verdict = "within" if abs(sides.sigmas) <= THREE_SIGMA else "beyond"
    return (
        f"Side A held the first-named model in {100 * sides.first_named_as_a:.1f} % of {sides.matchups:,} matchups "
        f"({abs(sides.sigmas):.1f} sigma from half, {verdict} 3).{tail}"
    )


def quality_sentence(flag: FailingModel) -> str:
    """A rising or high both-bad rate, in one sentence."""
    worst = ", ".join(f"{prompt.prompt} ({prompt.both_bad} of {prompt.votes})" for prompt in flag.worst_prompts)
    before = "" if flag.rate_before is None else f"{100 * flag.rate_before:.1f} % → "
    high = " (high)" if flag.trigger == "level" else ""
    return (
        f"{flag.model}: both-bad rate{high} {before}"
        f"{100 * flag.rate_recent:.1f} % (p = {flag.p_value:.1g}, {flag.votes_recent:,} votes); worst on {worst}"
    )


def note_sentence(note: Note) -> str:
    """A flag or exclusion in one line."""
    return f"{note.what}: {note.reason}" + (f" ({note.detail})" if note.detail else "")


def offline_sentences(report: WeeklyReport) -> list[str]:
    """How the offline rating agrees, in sentences; none without one."""
    board = report.offline
    if board is None:
        return []
    clusters = " and ".join(board.clusters.split(","))
    sentences = [f"Bradley–Terry over {board.votes:,} votes, intervals clustered by {clusters} ({board.speaks_for})."]
    if board.centre is not None:
        sentences.append(
            f"Intervals are moved to the scale of the board's ratings: 1000 reads {board.centre:.0f}, "
            f"100 points read {100 * board.slope:.0f}."
        )
    widened = sum(row.widened for row in board.rows)
    if widened:
        sentences.append(
            f"{plural(widened, 'interval')} marked * did not contain the board's rating and "
            f"{'was' if widened == 1 else 'were'} widened to it."
        )
    sentences.append(f"Ranges of ranks are {'valid whenever you look' if board.anytime else 'valid if you look once'}.")
    if board.tau_live is not None:
        sentences.append(f"Kendall's tau with the live order: {board.tau_live:.3f}.")
    if board.tau_even_pairs is not None:
        sentences.append(f"With the ratings when all pairs weigh the same: {board.tau_even_pairs:.3f}.")
    sentences += [f"{remark[:1].upper()}{remark[1:]}." for remark in board.remarks]
    return [*sentences, *(f"{row.model}: {row.note}." for row in board.rows if row.note)]


def misfit_sentences(report: WeeklyReport) -> list[str]:
    """How well the offline rating's model describes the votes; nothing where that was not asked."""
    if report.offline is None or report.offline.misfit is None:
        return []
    record = msgspec.convert(report.offline.misfit, MisfitFacts)
    return [fit_verdict(record), *fit_sentences(record)]


def weekly_markdown(report: WeeklyReport) -> str:
    """The report as Markdown."""
    served, lanes = report.events.get("matchup_served", 0), sum(lane.served for lane in report.lanes)
    closed = [f"{report.events[kind]:,} {kind}" for kind in ("skipped", "expired", "undone") if report.events.get(kind)]
    blocks = [
        "# Validity report",
        f"{day(report.since)} to {day(report.until)}",
        f"**{markdown_text(status_sentence(report))}**",
        "" if report.blind else f"**{NOT_BLIND}**",
        _table(
            ["rule", "found", "needed", "met"],
            [(rule.name, *rule_numbers(rule), _yes(rule.met)) for rule in report.board.publication.deciding],
        ),
        markdown_text(worth_knowing(report.board.publication)),
        f"Phase {report.board.phase}. {report.votes:,} counted votes by {report.voters:,} voters, {served:,} matchups "
        f"served{'; ' if closed else ''}{', '.join(closed)}.",
        "## Coverage fairness",
        "\n".join(map(markdown_text, exposure_sentences(report))),
        _exposures(report),
        "## Pair completeness",
        f"Adjacent pairs in the top {report.top_churn.top}.",
        _table(
            ["pair", "decisive votes", "prompts", "complete"],
            [
                (f"{pair.above} – {pair.below}", f"{pair.decisive}", f"{pair.prompts}", percent(pair.completeness))
                for pair in report.pair_completeness
            ],
        ),
        "## Confidence stability",
        "\n".join(map(markdown_text, stability_sentences(report))),
        *(
            [CONFIDENCE_NOTE, _table(["confidence", "ratings", "stated", "held"], confidence_rows(report))]
            if report.confidence_calibration
            else []
        ),
        *_calibration(report),
        "## Top-rank churn against confidence bands",
        "\n".join(map(markdown_text, churn_sentences(report))),
        "## Lanes and sides",
        _list(
            [
                f"{lane.lane}: {percent(lane.share, 1)} of {lanes:,} (asked first {percent(lane.weight)}, "
                f"{abs(lane.sigmas):.1f} sigma {'above' if lane.sigmas > 0 else 'below'})"
                for lane in report.lanes
            ],
            "",
        )
        if report.phase > 1
        else LANES_OFF,
        lane_sentence(report),
        side_sentence(report),
        "## Quality",
        _list([quality_sentence(flag) for flag in report.quality], QUALITY_FINE),
        "## Flags",
        _list(map(note_sentence, report.flags), "None."),
        "## Exclusions",
        _list(map(note_sentence, report.exclusions), "None."),
        *_offline(report),
    ]
    fit = misfit_sentences(report)
    blocks += ["## Model fit", _list(fit, "")] if fit else []
    return "\n\n".join(filter(None, blocks)) + "\n"


def _calibration(report: WeeklyReport) -> list[str]:
    sentence = calibration_sentence(report)
    if not sentence or report.calibration is None:
        return []
    rows = [(percent(one.predicted), percent(one.observed), f"{one.votes:,}") for one in report.calibration.bins]
    return ["## Predicted against observed", sentence, _table(["predicted", "observed", "votes"], rows)]


def _exposures(report: WeeklyReport) -> str:
    rows = [
        (
            one.model,
            f"{one.exposures:,}",
            f"{one.target:.1f}",
            signed_percent(math.nan if one.off is None else one.off),
            _yes(one.within),
            percent(one.prompt_coverage),
        )
        for one in report.coverage_fairness.models
    ]
    return _table(["model", "exposures", "target", "off", "in tolerance", "prompt coverage"], rows)


def _offline(report: WeeklyReport) -> list[str]:
    if report.offline is None:
        return []
    rows = []
    for row in report.offline.rows:
        low, high = ("…" if end is None else f"{end:.0f}" for end in (row.low, row.high))
        rows.append(
            (
                row.model,
                f"{row.live_rank or '–'}",
                "–" if row.rank_low is None else f"{row.rank_low}–{row.rank_high}",
                points(report.board.raw_ratings.get(row.model)),
                f"{low} to {high}{' *' if row.widened else ''}",
                "–" if row.votes_to_swap is None else f"{row.votes_to_swap:,}",
            )
        )
    heads = ["model", "place", "range", "rating", "interval", "votes to swap with next"]
    return [
        "## Intervals and ranges of ranks",
        "\n".join(map(markdown_text, offline_sentences(report))),
        _table(heads, rows),
    ]


def _yes(met: bool) -> str:
    return "yes" if met else "no"


def _list(lines: Iterable[str], none: str) -> str:
    return "\n".join(f"- {markdown_text(line)}" for line in lines) or none


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return Table.of(heads, rows, left=len(heads)).markdown()

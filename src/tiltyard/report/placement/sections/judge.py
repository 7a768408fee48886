"""The judge's reliability: its biases, its agreement with people, and a leave-one-out placement."""

from __future__ import annotations

from tiltyard.pages import svg
from tiltyard.pages.markup import Html, el, join, number, pairs, percent, table
from tiltyard.placement.manifest import JudgeAgainstPeople, LeaveOneOut
from tiltyard.report.counts import Behaviour, behaviour, behaviour_by
from tiltyard.report.placement.folder import Placement
from tiltyard.report.placement.sections.standing import Reading, readings
from tiltyard.report.sections.habits import habits_table

VARIANCE = {
    "sampling": "sampling: which questions and battles were judged",
    "idiosyncrasy": "idiosyncrasy: the judge’s bias for or against single models",
    "slope": "slope: how the judge’s scale differs from people’s",
    "anchors": "anchors: uncertainty of the opponents’ ratings",
}
PEOPLE = {"one": "one of the two", "tie": "a tie", "both bad": "both bad"}
JUDGE = {
    "same": "the same one",
    "other": "the other one",
    "one": "one of the two",
    "tie": "a tie",
    "changed": "changed with the order",
    "failed": "failed",
}


def judge_section(placed: Placement) -> Html:
    """How often the verdict changed with the order, and how often the judge chose the answer shown first."""
    heading = el("h2", "The judge’s habits")
    whole = behaviour(placed.run.battles)
    if not whole.first_slot.n and not whole.flips.n:
        return el("section", heading, el("p", "No verdict was readable.", class_="note"), id="judge")
    groups: list[tuple[str, list[tuple[str, Behaviour]]]] = [("", [("all judgments", whole)])]
    by_language = sorted(
        behaviour_by(placed.run.battles, placed.language).items(), key=lambda group: (-group[1].first_slot.n, group[0])
    )
    if len(by_language) > 1:
        groups.append(("by language", by_language))
    return el(
        "section",
        heading,
        el("p", _habits_note(placed, whole), class_="note"),
        habits_table(groups),
        id="judge",
    )


def _habits_note(placed: Placement, whole: Behaviour) -> Html:
    if not placed.manifest.both_orders:
        return Html(
            "Every battle was shown in one order only, the model first in some and second in others, so it is not "
            "known whether a verdict would change with the order. A judge without position bias chooses the answer "
            "shown first about half the time (dashed). 95 % Wilson intervals."
        )
    flips = placed.manifest.flips
    ends = join([" (", percent(flips.low, 1), " to ", percent(flips.high, 1), ")"]) if flips else Html("")
    return join(
        [
            "Every battle was shown in both orders. ",
            join([number(whole.flips.hits), " of ", number(whole.flips.n), " changed with the order", ends, ": "]),
            join([number(whole.opposite), " named the other winner, "]),
            join([number(whole.flips.hits - whole.opposite), " said tie in one order. They count as ties. "]),
            "A judge without position bias chooses the answer shown first half the time (dashed). ",
            "95 % Wilson intervals.",
        ]
    )


def calibration_section(placed: Placement) -> Html:
    """The judge on battles that people decided, the fitted calibration, and its effect on the interval."""
    calibration = placed.manifest.calibration
    if calibration is None:
        return Html("")
    return el(
        "section",
        el("h2", "The judge against people"),
        el("p", _agreement(calibration), class_="note"),
        el("div", _fitted(calibration), _told(placed), class_="beside even"),
        _variance(calibration),
        id="calibration",
    )


def _agreement(calibration: JudgeAgainstPeople) -> Html:
    agreement = calibration.agreement
    return join(
        [
            join(
                ["The same judge was asked about ", number(calibration.asked), " battles that people had decided, of "]
            ),
            join([number(calibration.models), " models; ", number(calibration.compared), " could be compared. "]),
            join(["It agreed with them in ", el("b", percent(agreement.value, 1))]),
            join([" (", percent(agreement.low, 1), " to ", percent(agreement.high, 1), ") of ", number(agreement.n)]),
            " battles.",
        ]
    )


def _fitted(calibration: JudgeAgainstPeople) -> Html:
    slope = join([number(calibration.slope, 2), _ends(calibration.slope_low, calibration.slope_high)])
    items: list[tuple[str, str]] = [
        ("slope β", join([slope, el("small", " judge logits per human logit")])),
        ("first slot", join([number(calibration.slot_points, 0), el("small", " points for being shown first")])),
        ("idiosyncrasy τ", join([number(calibration.tau_points, 0), el("small", " points, on the judge’s scale")])),
        (
            "floor τ/β",
            join([number(calibration.floor_points, 0), el("small", " points; more battles won’t reduce it")]),
        ),
    ]
    if calibration.flips is not None:
        items.append(("changed with the order", percent(calibration.flips.share, 1)))
    return el("section", el("h3", "Its scale"), pairs(items))


def _ends(low: float | None, high: float | None) -> Html:
    if low is None or high is None:
        return Html("")
    return el("small", " (", number(low, 2), " to ", number(high, 2), ")")


def _told(placed: Placement) -> Html:
    """The judge's labels by people's labels: the counts behind the agreement."""
    counts = placed.against_people
    columns = [word for word in JUDGE if any(heard == word for _, heard in counts)]
    rows = [
        [name, *(number(counts[people, word]) if (people, word) in counts else number(None) for word in columns)]
        for people, name in PEOPLE.items()
        if any(said == people for said, _ in counts)
    ]
    head: list[str | tuple[str, str]] = ["people said", *((JUDGE[word], "num tall") for word in columns)]
    return el("section", el("h3", "What it said where people had voted"), table(head, rows, class_="told"))


def _variance(calibration: JudgeAgainstPeople) -> Html:
    """The sources of the uncertainty: a bar, and its legend with the figures."""
    parts = {name: calibration.variance_points2[name] for name in VARIANCE if name in calibration.variance_points2}
    whole = sum(parts.values())
    if not whole > 0:
        return Html("")
    label = ", ".join(f"{name} {100 * part / whole:.0f} %" for name, part in parts.items())
    rows = [
        [
            join([el("span", class_=f"swatch part{place}"), VARIANCE[name]]),
            percent(part / whole),
            join(["± ", number(part**0.5, 0)]),
        ]
        for place, (name, part) in enumerate(parts.items())
    ]
    return el(
        "section",
        el("h3", "Where the uncertainty comes from"),
        el("p", "Share of the variance, and the standard error from each source alone.", class_="note"),
        svg.shares(list(parts.values()), label),
        table(["", ("share", "num"), ("points", "num")], rows, class_="legend"),
        class_="variance",
    )


def families_section(placed: Placement) -> Html:
    """Leave-one-family-out coverage: whether intervals hold for models unlike those that calibrated the judge."""
    found = placed.manifest.families
    if found is None:
        return Html("")
    rows = [
        [
            one.family,
            number(len(one.models)),
            number(one.covered),
            f"{one.error:+.0f}",
            ", ".join(f"{model.model} {model.rating - model.human_rating:+.0f}" for model in one.models),
        ]
        for one in found.families
    ]
    head: list[str | tuple[str, str]] = [
        "family",
        *((word, "num") for word in ("models", "covered", "mean error, points")),
        "errors by model",
    ]
    skipped = [el("li", f"{name}: {why}") for name, why in found.not_checked.items()]
    return el(
        "section",
        el("h2", "Families the judge was not calibrated on"),
        el(
            "p",
            "The judge was calibrated again without each family, and the family’s models were placed by its verdicts "
            "alone. ",
            el("b", number(found.covered), " of ", number(found.models)),
            " intervals cover people’s rating; about 95 % should. An error is the judge’s rating minus people’s.",
            class_="note",
        ),
        table(head, rows, class_="families") if rows else Html(""),
        el("p", "Not checked:", class_="note") if skipped else Html(""),
        el("ul", *skipped, class_="note") if skipped else Html(""),
        id="families",
    )


def leave_one_out_section(placed: Placement) -> Html:
    """The placement beside people's own rating of the same model."""
    known = placed.manifest.leave_one_out
    if known is None:
        return Html("")
    entry = placed.entry
    lines: list[Reading] = [
        ("placed by the judge", entry.rating, entry.ci_low, entry.ci_high),
        ("people’s own votes", known.human_rating, known.human_ci_low, known.human_ci_high),
    ]
    return el(
        "section",
        el("h2", "Placed as if nobody had voted on it"),
        el("p", _missed_by(placed, known), class_="note"),
        readings(lines, "interval"),
        id="leave-one-out",
    )


def _missed_by(placed: Placement, known: LeaveOneOut) -> Html:
    way = "above" if known.error > 0 else "below"
    inside = "holds" if known.covered else "does not hold"
    return join(
        [
            f"People did vote on {placed.model}; the placement used none of those votes. It came out ",
            join([el("b", number(abs(known.error), 0), f" points {way}"), " people’s rating, and its interval "]),
            join([el("b", inside), " that rating."]),
        ]
    )

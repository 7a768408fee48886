"""The judges of a panel: how reliable each is and what it cost, who agrees with whom, and who dissents on what."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tiltyard.pages import svg
from tiltyard.pages.markup import Html, el, join, link, number, percent, table
from tiltyard.report.site_map import Here
from tiltyard.tournament.ratings import panel_warnings

SCALE = svg.Scale(0.0, 1.0, (0.0, 0.25, 0.5, 0.75, 1.0))

COMBINED = {
    "majority": "The result with the most votes counts; where two share the lead, it is a tie and marked inconsistent.",
    "weight": "The most probable result counts, given how reliable each judge is, as estimated from the votes.",
    "rows": "Every judge’s own judgment is a battle; all battles on a prompt are one cluster of the intervals.",
}


def panel_section(here: Here) -> Html:
    """What the manifest says about a panel, by dimension; nothing for a single judge."""
    panel = (here.run.manifest.get("results") or {}).get("panel")
    if not isinstance(panel, Mapping):
        return Html("")
    judges = [str(name) for name in panel.get("judges", ())]
    said = f"{len(judges)} judges judged every match. {COMBINED.get(str(panel.get('combine')), '')}"
    parts = [
        el(
            "section",
            el("h3", name),
            el("p", _counts(found), class_="note"),
            _warnings(found, str(panel.get("combine"))),
            _judges(here, name, found),
            _agreement(found.get("pairs", ())),
            _dissent(here, found.get("dissent", ())),
        )
        for name, found in panel.get("dimensions", {}).items()
    ]
    return el(
        "section",
        el("h2", "The judges"),
        el("p", said, class_="note"),
        *parts,
        el("p", EXPLAINED, class_="note"),
        id="panel",
    )


def _warnings(found: Mapping[str, Any], combine: str) -> Html:
    """What the terminal says about the panel."""
    lines = [line.removeprefix("WARNING: ") for line in panel_warnings(found, combine)]
    return el("ul", *[el("li", f"{line}.") for line in lines], class_="told") if lines else Html("")


def _counts(found: Mapping[str, Any]) -> Html:
    text = [
        join([number(found.get("unanimous")), " of ", number(found.get("matchups")), " matches were unanimous; in "]),
        join([number(found.get("opposed")), " two judges named different winners; "]),
        join([number(found.get("no_majority")), " had no majority."]),
    ]
    if found.get("incomplete") or found.get("failed"):
        text.append(join([" ", number(found.get("incomplete")), " were decided without a judge that failed, "]))
        text.append(join([number(found.get("failed")), " failed altogether."]))
    return join(text)


EXPLAINED = (
    "Right: of the winners that a judge names, the share that is right, estimated by Dawid and Skene’s method from the "
    "votes alone (three judges or more); judges that err together look better than they are. Weight: ln(right ÷ "
    "wrong). As most others: votes that are those of most other judges, with a 95 % interval by prompt. Flips: "
    "verdicts that changed with the order of the answers. First: choices of the answer shown first. Again: equal "
    "verdicts on a repeated question. Leans: the entrant that wins more or less often by this judge than by the "
    "others, where that is more than chance. The second table says how often two judges find the same (one entrant, "
    "the other, or neither), and Cohen’s kappa, agreement beyond chance: 1 where they always agree, 0 where they agree "
    "no more often than by chance."
)


def _judges(here: Here, dimension: str, found: Mapping[str, Any]) -> Html:
    """A row for each judge; columns that no judge has a value for are left out."""
    axis = svg.axis(svg.Scale(0.0, 100.0, (25.0, 50.0, 75.0)), " %")
    head: list[tuple[str, str]] = [
        ("judge", ""),
        ("right", "num"),
        ("weight", "num"),
        ("as most others", "num"),
        (axis, "chart"),
        ("flips", "num"),
        ("first", "num"),
        ("again", "num"),
        ("failed", "num"),
        ("US $", "num"),
        ("leans", ""),
    ]
    rows = [_judge(here, dimension, row) for row in found.get("judges", ())]
    used = [place for place in range(len(head)) if any(row[place] is not None for row in rows)]
    body = [[row[place] or Html("") for place in used] for row in rows]
    return table([head[place] for place in used], body, class_="judges")


def _judge(here: Here, dimension: str, row: Mapping[str, Any]) -> list[str | None]:
    bias, others = row.get("bias") or {}, row.get("with_others") or {}
    rates = [(bias.get(key) or {}).get("value") for key in ("flip_rate", "first_slot_rate", "repeat_rate")]
    cost = _cost(here, str(row.get("judge")), dimension)
    return [
        str(row.get("judge")),
        None if row.get("accuracy") is None else percent(row["accuracy"]),
        None if row.get("weight") is None else number(row["weight"], 2),
        percent(others.get("value")),
        _strip(others, "as most others"),
        *(None if rate is None else percent(rate) for rate in rates),
        number(row.get("failed")),
        None if cost is None else number(cost, 2),
        _lean(row),
    ]


def _strip(found: Mapping[str, Any], what: str) -> Html:
    value, low, high = (found.get(key) for key in ("value", "low", "high"))
    if value is None or low is None or high is None:
        return Html("")
    label = f"{what}: {100 * value:.1f} %, interval {100 * low:.1f} to {100 * high:.1f} %"
    return svg.interval(SCALE, value, low, high, label)


def _cost(here: Here, judge: str, dimension: str) -> float | None:
    """What a judge's verdicts of a dimension cost, whichever command asked for them."""
    rows = ((here.run.usage or {}).get("judges") or {}).get(judge, {})
    cost = ((rows.get(dimension) or {}).get("verdicts") or {}).get("cost_usd")
    return None if cost is None else float(cost)


def _lean(row: Mapping[str, Any]) -> str | None:
    lean = row.get("lean") or {}
    value, low, high = (lean.get(key) for key in ("value", "low", "high"))
    if value is None or low is None or high is None or low <= 0 <= high:
        return None
    return f"{row.get('leans_to')} {'+' if value > 0 else '−'}{abs(100 * value):.0f} points"


def _agreement(found: Sequence[Mapping[str, Any]]) -> Html:
    """A row for every two judges: how often they find the same, and kappa, each with its interval."""
    rows = []
    for pair in found:
        same, kappa = pair.get("agreement") or {}, pair.get("kappa") or {}
        rows.append(
            [
                f"{pair.get('first')} and {pair.get('second')}",
                percent(same.get("value")),
                _ends(same, percent),
                number(kappa.get("value"), 2),
                _ends(kappa, lambda end: number(end, 2)),
                number(same.get("n")),
            ]
        )
    head: list[str | tuple[str, str]] = [
        "two judges",
        *((word, "num") for word in ("find the same", "95 % interval", "Cohen’s kappa", "95 % interval", "matches")),
    ]
    return join([el("h4", "Who agrees with whom"), table(head, rows)]) if rows else Html("")


def _ends(found: Mapping[str, Any], shown: Callable[[float], Html]) -> Html:
    """Both ends of an interval, or a dash."""
    low, high = found.get("low"), found.get("high")
    return number(None) if low is None or high is None else el("span", shown(low), " – ", shown(high), class_="span")


def _dissent(here: Here, found: Sequence[Mapping[str, Any]]) -> Html:
    items = [
        el(
            "li",
            link(here.prompt(str(one["prompt_id"])), str(one["prompt_id"])),
            f" {one.get('entrant_a')} – {one.get('entrant_b')}: ",
            ", ".join(f"{judge} {said}" for judge, said in (one.get("votes") or {}).items()),
        )
        for one in found
        if one.get("prompt_id") in here.run.prompts
    ]
    return join([el("h4", "Most dissent"), el("ul", *items)]) if items else Html("")

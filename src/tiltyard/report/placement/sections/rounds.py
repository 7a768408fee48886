"""How the estimate developed: rating and interval after each round, and what ended the judging."""

from __future__ import annotations

from collections.abc import Sequence

from tiltyard.pages import svg
from tiltyard.pages.markup import Html, el, join, number, rating, table
from tiltyard.placement.manifest import Round
from tiltyard.report.placement.folder import Placement
from tiltyard.report.sections.board import span

MOST_ROUNDS = 24


def rounds_section(placed: Placement) -> Html:
    """A row per round, more battles further down, so that the intervals make a funnel."""
    rounds = [(line, line.rating) for line in placed.manifest.rounds if line.rating is not None]
    if not rounds:
        return Html("")
    shown = _thinned(rounds)
    scale = svg.Scale.of([end for r, _ in shown for end in (r.rating, r.ci_low, r.ci_high) if end is not None])
    head: list[str | tuple[str, str]] = [
        "judged until then",
        ("rating", "num"),
        (svg.axis(scale), "chart"),
        ("interval", "num"),
        ("width", "num"),
        ("place", "num"),
    ]
    rows = [_row(placed, line, value, scale, rounds[-1][1]) for line, value in shown]
    left = len(rounds) - len(shown)
    return el(
        "section",
        el("h2", "How the estimate moved"),
        el("p", _rule(placed), class_="note"),
        table(head, rows, class_="board rounds"),
        el("p", f"{left} of {len(rounds)} rounds are not drawn; manifest.json has them.", class_="note")
        if left
        else Html(""),
        id="rounds",
    )


def _thinned(rounds: Sequence[tuple[Round, float]]) -> list[tuple[Round, float]]:
    """At most `MOST_ROUNDS` of them, evenly spaced, including the first and the last."""
    if len(rounds) <= MOST_ROUNDS:
        return list(rounds)
    step = (len(rounds) - 1) / (MOST_ROUNDS - 1)
    return [rounds[round(step * i)] for i in range(MOST_ROUNDS)]


def _row(placed: Placement, line: Round, value: float, scale: svg.Scale, last: float) -> list[str]:
    label = f"{placed.model} after {line.battles} battles: {value:.1f}"
    width = None if line.ci_low is None or line.ci_high is None else line.ci_high - line.ci_low
    places = number(None)
    if line.rank_low is not None and line.rank_high is not None:
        places = join([number(line.rank_low), "–", number(line.rank_high)])
    return [
        join([number(line.battles), " battles"]),
        el("b", rating(value)),
        svg.interval(scale, value, line.ci_low, line.ci_high, label, guide=last),
        span(line.ci_low, line.ci_high),
        number(width),
        places,
    ]


def _on_judges_scale(placed: Placement) -> bool:
    """Whether the rounds show the rating before calibration rather than after."""
    own = placed.entry.extra.get("judge_scale_rating")
    last = placed.manifest.rounds[-1].rating
    return own is not None and last is not None and abs(last - own) < abs(last - placed.entry.rating)


def _rule(placed: Placement) -> Html:
    """The stopping rule in sentences: how it was chosen, what would end it, what did."""
    looks, panel = placed.manifest.looks, placed.manifest.panel
    parts: list[str] = [f"Battles were chosen by {panel.sampling} sampling; "]
    if looks.until is None:
        parts.append("no early stopping was requested. ")
    else:
        looked = "1 check" if looks.planned == 1 else f"{looks.planned} checks"
        parts.append(f"judging could stop early (“until {looks.until}”), with at most {looked}. ")
    if looks.critical is not None:
        parts.append(
            join(
                [
                    "The interval at each check uses ",
                    number(looks.critical, 3),
                    " standard errors, which allows for repeated checks. ",
                ]
            )
        )
    parts.append(join(["Stopped because ", el("b", placed.manifest.stopped), ". "]))
    if placed.manifest.calibration is not None and _on_judges_scale(placed):
        parts.append("The rounds are on the judge’s scale, before calibration. ")
    information = placed.manifest.information
    if information is not None and information.limit:
        share = information.per_battle / information.limit
        parts.append(f"On average a battle said {share:.2f} times as much as one against a random opponent.")
    return join(parts)
